from __future__ import annotations

import contextlib

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.security.keys import certificate_public_key, export_public_key, import_public_key
from msmq.wire.keys import KeyType, PublicKeyBlob
from tests.security.samples import certificate, certificate_for, private_key


@pytest.mark.spec("MQQB-2.4.1-a", "MQQB-2.4.1-b", "MQQB-2.4.1-c", "MQQB-2.4.1-d")
@pytest.mark.parametrize(("bits", "stated"), [(512, "00020000"), (1024, "00040000"), (2048, "00080000")])
def test_export_and_import(bits: int, stated: str) -> None:
    key = private_key(bits).public_key()
    encoded = export_public_key(key).encode()
    numbers = key.public_numbers()
    assert encoded[:12].hex() == "0602000000a4000052534131"
    assert encoded[12:16].hex() == stated
    assert encoded[16:20].hex() == "01000100"
    assert encoded[20:] == numbers.n.to_bytes(bits // 8, "big")[::-1]
    assert import_public_key(PublicKeyBlob.decode(encoded)).public_numbers() == numbers


def test_a_private_key_exports_its_public_half() -> None:
    key = private_key(1024)
    assert export_public_key(key, KeyType.SIGN) == export_public_key(key.public_key(), KeyType.SIGN)
    assert export_public_key(key, KeyType.SIGN).key_type is KeyType.SIGN


@pytest.mark.parametrize(
    "blob", [PublicKeyBlob(2, (1 << 1023) + 1), PublicKeyBlob(1, (1 << 1023) + 1), PublicKeyBlob(65537, 4)]
)
def test_numbers_that_are_no_key(blob: PublicKeyBlob) -> None:
    with pytest.raises(DecodeError):
        import_public_key(blob)


def test_certificates() -> None:
    assert (
        certificate_public_key(certificate(1024)).public_numbers()
        == private_key(1024).public_key().public_numbers()
    )
    with pytest.raises(DecodeError):
        certificate_public_key(certificate(1024)[:-1])
    with pytest.raises(DecodeError):
        certificate_public_key(certificate_for(ec.generate_private_key(ec.SECP256R1())))


@pytest.mark.parametrize("version", range(8))
def test_a_certificate_of_an_unknown_version(version: int) -> None:
    good = certificate(1024)
    marker = bytes.fromhex("a003020102")  # [0] EXPLICIT INTEGER 2, which means version 3
    assert good.count(marker) == 1
    changed = good.replace(marker, marker[:-1] + bytes([version]))
    if version == 2:
        certificate_public_key(changed)
    else:
        with pytest.raises(DecodeError):
            certificate_public_key(changed)


@given(st.integers(0, 0x10000), st.binary(min_size=1, max_size=4))
def test_hostile_certificates(offset: int, value: bytes) -> None:
    good = certificate(1024)
    offset %= len(good)
    with contextlib.suppress(DecodeError):
        certificate_public_key(good[:offset] + value + good[offset + len(value) :])
