"""SecurityHeader (MS-MQMQ 2.2.20.6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.security.encryption import SessionKey, wrap_session_key
from msmq.security.keys import certificate_public_key
from msmq.security.rejections import AuthenticationError
from msmq.security.sid import Sid
from msmq.security.signatures import HashPolicy, authenticate, sign
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.declare import padded
from msmq.wire.headers import MessagePropertiesHeader, UserHeader
from msmq.wire.keys import SimpleBlob
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import ProviderInfo, SecurityHeader
from msmq.wire.signature import SignatureType, signature_input
from tests.security.samples import certificate, private_key
from tests.wire.builders import (
    FRAME_7,
    OTHER,
    SID,
    accept_message,
    build,
    patched_u16,
    patched_u32,
    provider_infos,
    refuse,
    security_headers,
    sids,
    u16s,
)


def header_at(message: UserMessage) -> int:
    return UserHeader.read(message.data, 16)[1]


@pytest.mark.spec("MQMQ-2.2.20.6-a", "MQMQ-2.2.20.6-i", "MQMQ-2.2.20.6-l")
def test_frame_7() -> None:
    header, end = SecurityHeader.read(FRAME_7, 92)
    assert end == 92 + 16 + 28 == 136
    assert FRAME_7[92:108] == bytes.fromhex(
        "0100"  # Flags
        "1c00"  # SenderIdSize
        "0000"  # EncryptionKeySize
        "0000"  # SignatureSize
        "00000000"  # SenderCertSize
        "00000000"  # ProviderInfoSize
    )
    assert header.has_security_data == 0  # and yet there is SecurityData: the sizes say so
    assert header.sender_id_size == len(header.security_id) == 28
    assert accept_message(FRAME_7).properties_offset == 136
    assert header.write() == FRAME_7[92:136]


@pytest.mark.spec("MQMQ-2.2.20.6-r", "MQMQ-2.2.20.6-s")
def test_layout_of_all_five_items() -> None:
    provider = ProviderInfo(1, "Pr").encode()
    header = SecurityHeader(
        flags=0x0021,
        security_id=bytes.fromhex("0101000000000005 12000000"),
        encryption_key=b"k" * 27,
        signature=b"s" * 5,
        sender_cert=b"c" * 3,
        provider_info=provider,
    )
    assert header.write() == (
        bytes.fromhex(
            "2100"  # Flags
            "0c00"  # SenderIdSize
            "1b00"  # EncryptionKeySize
            "0500"  # SignatureSize
            "03000000"  # SenderCertSize
            "0a000000"  # ProviderInfoSize
            "0101000000000005 12000000"  # SecurityID @16
        )
        + b"k" * 27  # EncryptionKey @28
        + b"\0"
        + b"s" * 5  # Signature @56
        + b"\0\0\0"
        + b"c" * 3  # SenderCert @64
        + b"\0"
        + provider  # ProviderInfo @68
        + b"\0\0"
    )
    assert SecurityHeader.read(header.write()) == (header, 80)
    # an item of no size takes no space
    without = SecurityHeader(flags=0x0001, security_id=header.security_id, sender_cert=b"c" * 3)
    assert without.write()[16:] == header.security_id + b"ccc\0"


@given(security_headers())
def test_round_trip(header: SecurityHeader) -> None:
    encoded = header.write()
    assert len(encoded) % 4 == 0
    assert SecurityHeader.read(encoded) == (header, len(encoded))
    assert SecurityHeader.read(b"0123" + encoded + b"after", 4) == (header, 4 + len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            SecurityHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            SecurityHeader.read(encoded, 0, size)


@pytest.mark.spec("MQMQ-2.2.20.6-b")
def test_flags() -> None:
    def named(flags: int) -> dict[str, int]:
        header = SecurityHeader(flags=flags)
        return {bits.spec_name: getattr(header, name) for name, bits in SecurityHeader.BITS}

    nothing = {"ST": 0, "AU": 0, "EB": 0, "DE": 0, "AI": 0, "AS": 0}
    assert named(0x0001) == nothing | {"ST": 1}
    assert named(0x0010) == nothing | {"AU": 1}
    assert named(0x0020) == nothing | {"EB": 1}
    assert named(0x0040) == nothing | {"DE": 1}
    assert named(0x0080) == nothing | {"AI": 1}
    assert named(0x0500) == nothing | {"AS": 5}
    assert named(0xF000) == nothing


@pytest.mark.spec("MQMQ-2.2.20.6-c")
def test_sender_id_types() -> None:
    def packet(kind: int, sender: bytes) -> bytes:
        message = build(security=SecurityHeader(flags=1, security_id=SID, signature=b"sign"))
        start = header_at(message)
        security = SecurityHeader(kind, len(sender), 0, 4).encode() + padded(sender) + b"sign"
        data = message.data[:start] + security + message.data[start + 16 + 28 + 4 :]
        return patched_u32(data, 8, len(data))

    for kind, sender in ((0, b""), (1, SID), (2, OTHER)):
        received = accept_message(packet(kind, sender)).security
        assert received is not None
        assert (received.sender_id_type, received.security_id) == (kind, sender)
    for kind in range(3, 16):
        for sender in (b"", SID, OTHER):
            refuse(packet(kind, sender), r"Flags\.ST")
    refuse(packet(0, bytes(4)), r"Flags\.ST")
    for sender in (b"", bytes(15), bytes(17), SID):
        refuse(packet(2, sender), r"Flags\.ST")
    refuse(packet(1, b""), r"Flags\.ST")
    refuse(packet(1, OTHER), r"Flags\.ST")


@pytest.mark.parametrize(
    ("kind", "sender"), [(0, OTHER), (1, b""), (1, OTHER), (2, SID), (2, b""), (3, OTHER)]
)
def test_what_a_receiver_refuses_is_not_sent(kind: int, sender: bytes) -> None:
    with pytest.raises(EncodeError, match="sender"):
        SecurityHeader(flags=kind, security_id=sender, signature=b"sign").write()


@pytest.mark.spec("MQMQ-2.2.20.6-d")
def test_the_sender_of_frame_7() -> None:
    security = accept_message(FRAME_7).security
    assert security is not None
    assert len(security.security_id) == 8 + 4 * 5
    assert str(Sid.decode(security.security_id)) == "S-1-5-21-3181267629-1039849782-3663111779-1000"


@pytest.mark.spec("MQMQ-2.2.20.6-e")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param((93 + 16, 255), id="count 255"),
        pytest.param((93 + 16, 4), id="count one too few"),
        pytest.param((93 + 16, 6), id="count one too many"),
        pytest.param((92 + 16, 0), id="revision 0"),
        pytest.param((92 + 16, 2), id="revision 2"),
    ],
)
def test_a_sid_that_contradicts_its_size_is_refused(change: tuple[int, int]) -> None:
    offset, value = change
    data = bytearray(FRAME_7)
    assert (data[92 + 16], data[93 + 16]) == (1, 5)
    data[offset] = value
    refuse(bytes(data), r"Flags\.ST")


@given(st.binary(max_size=80))
def test_only_consistent_sids_are_believed(sid: bytes) -> None:
    data = SecurityHeader(1, len(sid), 0, 1).encode() + padded(sid) + b"s\0\0\0"
    try:
        header, _ = SecurityHeader.read(data)
    except DecodeError:
        assert not (len(sid) >= 8 and sid[0] == 1 and sid[1] <= 15 and len(sid) == 8 + 4 * sid[1])
    else:
        assert header.security_id == sid
        assert sid[0] == 1
        assert len(sid) == 8 + 4 * sid[1]


def test_a_sid_has_at_most_15_sub_authorities() -> None:
    for count, legal in ((15, True), (16, False)):
        sid = bytes((1, count, 0, 0, 0, 0, 0, 5)) + bytes(4 * count)
        data = SecurityHeader(1, len(sid)).encode() + sid
        if legal:
            assert SecurityHeader.read(data)[0].security_id == sid
            continue
        with pytest.raises(DecodeError, match=r"Flags\.ST"):
            SecurityHeader.read(data)


@given(sids())
def test_every_consistent_sid_is_taken(sid: bytes) -> None:
    header = SecurityHeader(flags=1, security_id=sid)
    assert SecurityHeader.read(header.write()) == (header, 16 + len(sid))


def authenticated(message: UserMessage) -> SignatureType | None:
    """What a receiver finds out about the sender of a message with a SecurityHeader."""
    security = message.security
    assert security is not None
    candidates = {
        kind: signature_input(message, kind) for kind in (SignatureType.MSMQ_2_0, SignatureType.MSMQ_1_0)
    }
    return authenticate(
        security.signature, candidates, security.sender_cert, message.properties.hash_algorithm, HashPolicy()
    )


def signed(flags: int = 0x41) -> UserMessage:
    def make(signature: bytes) -> UserMessage:
        return build(
            properties=MessagePropertiesHeader(hash_algorithm=HashAlgorithm.SHA512),
            security=SecurityHeader(
                flags=flags, security_id=SID, signature=signature, sender_cert=certificate(1024)
            ),
            label="an order",
            body=b"body",
        )

    return make(sign(signature_input(make(b"?"), SignatureType.MSMQ_2_0), private_key(1024)))


@pytest.mark.spec("MQMQ-2.2.20.6-y")
def test_the_certificate_in_the_packet_verifies_its_signature() -> None:
    message = accept_message(signed().data)
    assert message.security is not None
    key = certificate_public_key(message.security.sender_cert)
    assert key.public_numbers() == private_key(1024).public_key().public_numbers()
    assert authenticated(message) is SignatureType.MSMQ_2_0
    changed = bytearray(message.data)
    changed[message.body_offset] ^= 1
    with pytest.raises(AuthenticationError):
        authenticated(accept_message(bytes(changed)))


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(0x0010, marks=pytest.mark.spec("MQMQ-2.2.20.6-f"), id="AU"),
        pytest.param(0x0100, marks=pytest.mark.spec("MQMQ-2.2.20.6-j"), id="AS 1"),
        pytest.param(0x0300, marks=pytest.mark.spec("MQMQ-2.2.20.6-j"), id="AS 3"),
        pytest.param(0x0500, marks=pytest.mark.spec("MQMQ-2.2.20.6-j"), id="AS 5"),
        pytest.param(0x0F10, id="all"),
    ],
)
def test_claims_of_authentication_are_not_sent_and_not_believed(claim: int) -> None:
    with pytest.raises(EncodeError, match="AU and AS"):
        SecurityHeader(flags=claim | 1, security_id=SID).write()
    unsigned = build(security=SecurityHeader(flags=1, security_id=SID))
    claiming = accept_message(patched_u16(unsigned.data, header_at(unsigned), 1 | claim))
    assert claiming.security is not None
    assert claiming.security.flags & 0x0F10 == claim
    assert authenticated(claiming) is None
    real = signed()
    claiming = accept_message(patched_u16(real.data, header_at(real), 0x41 | claim))
    assert authenticated(claiming) is SignatureType.MSMQ_2_0  # what was verified, whatever was claimed


@pytest.mark.spec("MQMQ-2.2.20.6-k")
@given(security_headers(), st.integers(0, 15))
def test_unused_bits_are_ignored(header: SecurityHeader, noise: int) -> None:
    message = build(security=header)
    received = accept_message(patched_u16(message.data, header_at(message), header.flags | noise << 12))
    assert received.security is not None
    received.security.flags &= 0x0FFF
    assert received.security == header
    assert received.properties == message.properties


@pytest.mark.spec("MQMQ-2.2.20.6-m")
def test_encryption_key_size() -> None:
    session_key = SessionKey(PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256, bytes(32))
    blob = wrap_session_key(session_key, private_key(1024).public_key())
    header = SecurityHeader(flags=0x21, security_id=SID, encryption_key=blob)
    assert header.write()[4:6] == (12 + 128).to_bytes(2, "little")
    received = accept_message(build(security=header).data).security
    assert received is not None
    assert received.encryption_key == blob
    assert len(SimpleBlob.decode(received.encryption_key).encrypted_key) == 128
    largest = SecurityHeader(flags=0x20, encryption_key=bytes(0xFFFF))
    assert SecurityHeader.read(largest.write()) == (largest, 16 + 0x10000)
    with pytest.raises(EncodeError, match="EncryptionKeySize"):
        SecurityHeader(flags=0x20, encryption_key=bytes(0x10000)).write()


@pytest.mark.spec("MQMQ-2.2.20.6-v")
def test_a_key_comes_with_an_encrypted_body_only() -> None:
    with pytest.raises(EncodeError, match="EB"):
        SecurityHeader(flags=0x01, security_id=SID, encryption_key=b"key").write()
    clear = accept_message(FRAME_7).security
    assert clear is not None
    assert (clear.body_encrypted, clear.encryption_key_size, clear.encryption_key) == (0, 0, b"")


@pytest.mark.spec("MQMQ-2.2.20.6-n")
def test_signature_size() -> None:
    signature = sign(b"message", private_key(1024))
    header = SecurityHeader(flags=1, security_id=SID, signature=signature)
    assert header.write()[6:8] == (128).to_bytes(2, "little")
    received = accept_message(build(security=header).data).security
    assert received is not None
    assert received.signature == signature
    largest = SecurityHeader(signature=bytes(0xFFFF))
    assert SecurityHeader.read(largest.write()) == (largest, 16 + 0x10000)
    with pytest.raises(EncodeError, match="SignatureSize"):
        SecurityHeader(signature=bytes(0x10000)).write()


@pytest.mark.spec("MQMQ-2.2.20.6-o")
def test_a_certificate_is_at_most_64_kilobytes() -> None:
    largest = build(security=SecurityHeader(sender_cert=b"c" * 0xFFFF))
    received = accept_message(largest.data).security
    assert received is not None
    assert received.sender_cert == b"c" * 0xFFFF
    offset = header_at(largest) + 8
    refuse(patched_u32(largest.data, offset, 0x00010000), "SenderCertSize")  # the padding would have held it
    with pytest.raises(EncodeError, match="0xFFFF"):
        SecurityHeader(sender_cert=bytes(0x10000)).write()


@pytest.mark.spec("MQMQ-2.2.20.6-p", "MQMQ-2.2.20.6-ab")
def test_provider_info() -> None:
    name = "Microsoft Base Cryptographic Provider v1.0"
    header = SecurityHeader(
        flags=1, security_id=SID, signature=b"sign", provider_info=ProviderInfo(1, name).encode()
    )
    encoded = header.write()
    assert encoded[12:16] == (4 + 2 * (len(name) + 1)).to_bytes(4, "little")
    assert header.provider_info == bytes.fromhex("01000000") + name.encode("utf-16-le") + b"\0\0"
    received = accept_message(build(security=header).data).security
    assert received is not None
    assert ProviderInfo.decode(received.provider_info) == (1, name)
    assert received.default_provider == 0
    plain = accept_message(FRAME_7).security
    assert plain is not None
    assert plain.provider_info == b""


@given(provider_infos)
def test_provider_info_round_trip(info: ProviderInfo) -> None:
    assert ProviderInfo.decode(info.encode()) == info


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_provider_type_is_32_bits(number: int) -> None:
    with pytest.raises(EncodeError, match="ProviderType"):
        ProviderInfo(number, "name").encode()


@pytest.mark.spec("MQMQ-2.2.20.6-ac")
def test_hostile_provider_info() -> None:
    info = ProviderInfo(1, "ab").encode()
    message = build(security=SecurityHeader(signature=b"sign", provider_info=info))
    accept_message(message.data)
    offset = header_at(message) + 12
    for size in (1, 2, 3, 4, 5, 6, 7, 8, 9):  # the name loses its terminator, its text, its place
        refuse(patched_u32(message.data, offset, size))
    shortest = SecurityHeader(signature=b"sign", provider_info=ProviderInfo(1, "").encode())
    assert shortest.write()[12:16] == b"\x06\0\0\0"
    accept_message(build(security=shortest).data)
    for tail in (b"\x01\0\0\0", b"\x01\0\0\0\0", b"\x01\0\0\0a\0", b"\x01\0\0\0a\0b\0", b"\x01\0\0\0\0a\0"):
        with pytest.raises(DecodeError):
            ProviderInfo.decode(tail)
        data = SecurityHeader(0, 0, 0, 0, 0, len(tail)).encode() + padded(tail)
        with pytest.raises(DecodeError):
            SecurityHeader.read(data)


@pytest.mark.spec("MQMQ-2.2.20.6-q")
def test_a_header_of_nothing_is_refused() -> None:
    message = build(security=SecurityHeader(flags=1, security_id=SID))
    start = header_at(message)
    empty = message.data[:start] + bytes(16) + message.data[start + 16 + 28 :]
    refuse(patched_u32(empty, 8, len(empty)), "nothing in it")
    with pytest.raises(EncodeError, match="at least one item"):
        SecurityHeader().write()


@pytest.mark.spec("MQMQ-2.2.20.6-t")
def test_hostile_sizes() -> None:
    message = build(
        security=SecurityHeader(
            flags=0x20,
            encryption_key=b"key!",
            signature=b"sign",
            sender_cert=b"cert",
            provider_info=ProviderInfo(1, "a").encode(),
        ),
        body=b"body",
    )
    start = header_at(message)
    rest = len(message.data) - start - 16
    accept_message(message.data)
    for offset in (2, 4, 6):
        for value in (rest + 1, 0x7FFF, 0xFFFC, 0xFFFF):
            refuse(patched_u16(message.data, start + offset, value))
    for offset in (8, 12):
        for value in (rest + 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFC, 0xFFFFFFFF):
            refuse(patched_u32(message.data, start + offset, value))


@given(u16s, u16s, u16s, u16s, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.binary(max_size=64))
def test_any_sizes_are_read_or_refused(
    flags: int, sender: int, key: int, signature: int, certificate: int, provider: int, data: bytes
) -> None:
    encoded = SecurityHeader(flags, sender, key, signature, certificate, provider).encode() + data
    try:
        header, end = SecurityHeader.read(encoded)
    except DecodeError:
        return
    assert end <= len(encoded)
    assert len(header.security_id) == sender
    assert len(header.provider_info) == provider
