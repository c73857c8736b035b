from __future__ import annotations

import contextlib
import datetime
import hashlib
import struct
import uuid
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.certificates import UserSignCert, UserSignCerts
from msmq.wire.variant import VT, Variant, decode_variant, encode_variant


@cache
def certificate(name: str = "sender") -> bytes:
    """A real X.509 certificate in DER, as an application would register it."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


guids = st.binary(min_size=16, max_size=16)
entries = st.builds(UserSignCert, guids, guids, st.binary(max_size=60))


@pytest.mark.spec("MQMQ-2.2.22-a")
def test_one_certificate_byte_by_byte() -> None:
    identifier = uuid.UUID("557358d1-9150-9595-4997-b6e611ea26c6")
    cert = UserSignCert(bytes(range(16)), identifier.bytes_le, b"\x30\x03\x02\x01\x05")
    expected = (
        b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"  # Digest
        b"\xd1\x58\x73\x55\x50\x91\x95\x95\x49\x97\xb6\xe6\x11\xea\x26\xc6"  # Identifier
        b"\x05\x00\x00\x00"  # CertificateLength
        b"\x30\x03\x02\x01\x05"  # Certificate
    )
    assert cert.encode() == expected
    assert UserSignCert.decode(expected) == cert
    assert len(UserSignCert.of(certificate(), bytes(16)).encode()) == 36 + len(certificate())


@pytest.mark.spec("MQMQ-2.2.22-b", "MQMQ-2.2.22-d")
def test_the_digest_is_the_md5_of_the_certificate() -> None:
    cert = UserSignCert.decode(UserSignCert.of(certificate(), bytes(16)).encode())
    assert cert.digest == hashlib.md5(cert.certificate).digest()
    assert x509.load_der_x509_certificate(cert.certificate).subject.rfc4514_string() == "CN=sender"


@pytest.mark.spec("MQMQ-2.2.22-c")
def test_every_registration_has_its_own_identifier() -> None:
    first, second = uuid.uuid4().bytes_le, uuid.uuid4().bytes_le
    certs = UserSignCerts().register(certificate(), first).register(certificate(), second)
    assert [cert.identifier for cert in certs.certificates] == [first, second]
    with pytest.raises(EncodeError):
        certs.register(certificate("other"), second)


@pytest.mark.spec("MQMQ-2.2.21-a")
def test_two_certificates_in_a_blob() -> None:
    certs = UserSignCerts().register(certificate(), bytes(16)).register(certificate("other"), b"\x01" * 16)
    encoded = certs.encode()
    assert encoded[:4] == b"\x02\x00\x00\x00"
    assert encoded[4:] == b"".join(cert.encode() for cert in certs.certificates)
    blob = decode_variant(encode_variant(Variant(VT.BLOB, encoded))).value
    assert isinstance(blob, bytes)
    assert UserSignCerts.decode(blob) == certs


@pytest.mark.spec("MQMQ-2.2.21-b")
@pytest.mark.parametrize("count", [2, 3, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_count_beyond_the_blob_is_refused(count: int) -> None:
    one = UserSignCert.of(b"der", bytes(16)).encode()
    for blob in (struct.pack("<I", count) + one, struct.pack("<I", count)):
        with pytest.raises(DecodeError, match="more than the blob can hold"):
            UserSignCerts.decode(blob)
    bare = UserSignCert.of(b"", bytes(16)).encode()
    assert len(UserSignCerts.decode(struct.pack("<I", 1) + bare).certificates) == 1, "one that just fits"


@pytest.mark.spec("MQMQ-2.2.22-e")
@pytest.mark.parametrize("length", [4, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_length_past_the_end_is_refused(length: int) -> None:
    data = bytes(32) + struct.pack("<I", length) + b"der"
    with pytest.raises(DecodeError):
        UserSignCert.decode(data)
    with pytest.raises(DecodeError):
        UserSignCerts.decode(struct.pack("<I", 1) + data)


def test_bytes_after_the_last_certificate_are_refused() -> None:
    encoded = UserSignCerts().register(b"der", bytes(16)).encode()
    with pytest.raises(DecodeError):
        UserSignCerts.decode(encoded + b"\0")


def test_a_digest_of_another_length_is_not_written() -> None:
    with pytest.raises(EncodeError):
        UserSignCert(bytes(15), bytes(16), b"").encode()


@given(st.lists(entries, max_size=4))
def test_round_trip(certificates: list[UserSignCert]) -> None:
    certs = UserSignCerts(tuple(certificates))
    encoded = certs.encode()
    assert UserSignCerts.decode(encoded) == certs
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            UserSignCerts.decode(encoded[:end])


@given(st.binary(max_size=120))
def test_hostile_bytes(data: bytes) -> None:
    for decode in (UserSignCert.decode, UserSignCerts.decode):
        with contextlib.suppress(DecodeError):
            decode(data)
