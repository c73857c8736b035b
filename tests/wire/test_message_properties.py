"""MessagePropertiesHeader with label, extension and body (MS-MQMQ 2.2.19.3)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError, LabelTooLongError
from msmq.security.encryption import SessionKey, encrypt_body
from msmq.wire.algorithms import EncryptionAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import wants
from msmq.wire.headers import MAX_LABEL_LENGTH, MessagePropertiesHeader
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.wire.builders import (
    FRAME_7,
    accept_message,
    acknowledgment,
    build,
    patched,
    patched_u32,
    properties_headers,
    refuse,
    texts,
    user_header,
)


def properties_at(message: UserMessage, field: str) -> int:
    (offset,) = (spec.offset for spec in MessagePropertiesHeader.FIELDS if spec.name == field)
    return message.properties_offset + offset


@pytest.mark.spec("MQMQ-2.2.19.3-a")
def test_layout() -> None:
    header = MessagePropertiesHeader(
        flags=0x05,
        label_length=2,
        message_class=0x0100,
        correlation_id=bytes(range(20)),
        body_type=8,
        application_tag=0x11223344,
        message_size=3,
        allocation_body_size=4,
        privacy_level=5,
        hash_algorithm=0x800E,
        encryption_algorithm=0x6610,
        extension_size=1,
    )
    assert header.encode() == bytes.fromhex(
        "05"  # Flags
        "02"  # LabelLength
        "0001"  # MessageClass
        "000102030405060708090a0b0c0d0e0f10111213"  # CorrelationID
        "08000000"  # BodyType
        "44332211"  # ApplicationTag
        "03000000"  # MessageSize
        "04000000"  # AllocationBodySize
        "05000000"  # PrivacyLevel
        "0e800000"  # HashAlgorithm
        "10660000"  # EncryptionAlgorithm
        "01000000"  # ExtensionSize
    )
    assert MessagePropertiesHeader.SIZE == 56
    header.allocation_body_size = 3
    message = build(properties=header, label="x", extension=b"e", body=b"abc")
    tail = message.data[message.properties_offset + 56 :]
    assert tail == b"x\0\0\0" + b"e" + b"abc"

    frame_7 = UserMessage.decode(FRAME_7)
    assert frame_7.properties_offset == 136
    assert frame_7.extension_offset == 192 + 30
    assert FRAME_7[192:222] == "mqsender label\0".encode("utf-16-le")
    assert frame_7.body_offset == 222
    assert frame_7.properties.end(FRAME_7, 136, len(FRAME_7)) == 2224


@given(properties_headers)
def test_round_trip(header: MessagePropertiesHeader) -> None:
    assert MessagePropertiesHeader.decode(header.encode()) == header


@given(texts(40), st.binary(max_size=30), st.binary(max_size=30), st.integers(0, 9))
def test_label_extension_and_body_round_trip(label: str, extension: bytes, body: bytes, room: int) -> None:
    properties = MessagePropertiesHeader(allocation_body_size=len(body) + room)
    received = accept_message(build(properties=properties, label=label, extension=extension, body=body).data)
    assert (received.label, received.extension, received.body) == (label, extension, body)
    assert received.properties == properties
    assert received.properties.allocation_body_size == len(body) + room


@pytest.mark.spec("MQMQ-2.2.19.3-b")
def test_the_header_is_padded_to_four_with_anything() -> None:
    assert 56 + 30 + 2000 + 2 == 2088 == 2224 - 136
    message = accept_message(FRAME_7)
    for padding in (b"\0\0", b"\xff\xff", b"\xcd\x01"):
        received = accept_message(patched(FRAME_7, 2222, padding))
        assert (received.properties, received.label, received.body) == (
            message.properties,
            message.label,
            message.body,
        )
    for size in range(9):
        built = build(body=b"b" * size)
        assert len(built.data) % 4 == 0
        assert built.data.endswith(b"b" * size + bytes(-size % 4))


@pytest.mark.spec("MQMQ-2.2.19.3-c")
def test_flags() -> None:
    header = MessagePropertiesHeader(flags=0x05)
    named = {bits.spec_name: getattr(header, name) for name, bits in MessagePropertiesHeader.BITS}
    assert named == {"PA": 1, "PR": 0, "NA": 1, "NR": 0}
    assert [(bits.spec_name, bits.low) for _, bits in MessagePropertiesHeader.BITS] == [
        ("PA", 0),
        ("PR", 1),
        ("NA", 2),
        ("NR", 3),
    ]


@pytest.mark.spec("MQMQ-2.2.19.3-h")
def test_unused_flags_are_ignored() -> None:
    clean, noisy = (
        accept_message(build(properties=MessagePropertiesHeader(flags=flags)).data) for flags in (0x05, 0xF5)
    )
    for name, _ in MessagePropertiesHeader.BITS:
        assert getattr(clean.properties, name) == getattr(noisy.properties, name)
    for fate in MessageClass:
        assert wants(clean, fate) == wants(noisy, fate)
    for kind in SignatureType:
        assert signature_input(clean, kind) == signature_input(noisy, kind)
    assert MessagePropertiesHeader().flags == 0


# --- label --------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.3-i", "MQMQ-2.2.19.3-ae")
def test_label_length_counts_the_terminator() -> None:
    message = accept_message(FRAME_7)
    assert message.properties.label_length == 15
    assert message.label == "mqsender label"
    unlabelled = build(body=b"body")
    assert unlabelled.properties.label_length == 0
    assert unlabelled.label == ""
    assert unlabelled.body_offset == unlabelled.properties_offset + 56
    labelled = build(label="\U0001f600a")
    assert labelled.properties.label_length == 4  # a character beyond the first plane takes two
    assert labelled.data[labelled.properties_offset + 56 :] == bytes.fromhex("3dd8 00de 6100 0000")
    assert labelled.label == "\U0001f600a"


@pytest.mark.spec("MQMQ-2.2.19.3-j")
def test_a_label_length_above_0xfa_is_refused() -> None:
    for length in range(0xF9, 0x100):
        # what was the body is a label that ends as it should; only its length is in question
        message = build(body=b"x\0" * (length - 1) + b"\0\0")
        data = patched_u32(message.data, properties_at(message, "message_size"), 0)
        data = patched_u32(data, properties_at(message, "allocation_body_size"), 0)
        data = patched(data, properties_at(message, "label_length"), bytes([length]))
        if length <= 0xFA:
            assert accept_message(data).label == "x" * (length - 1)
        else:
            refuse(data, "label")
    longest = build(label="x" * 249)
    assert longest.properties.label_length == 0xFA == MAX_LABEL_LENGTH
    assert accept_message(longest.data).label == "x" * 249


@pytest.mark.spec("MQMQ-2.2.19.3-k")
def test_a_label_is_at_most_249_characters() -> None:
    assert accept_message(build(label="é" * 249).data).label == "é" * 249
    for label in ("x" * 250, "\U0001f600" * 125):
        with pytest.raises(LabelTooLongError) as caught:
            build(label=label)
        assert caught.value.name == "MQ_ERROR_LABEL_TOO_LONG"
    message = build(label="abcdef")
    start = message.properties_offset + 56
    assert accept_message(patched(message.data, start + 6, b"\0\0")).label == "abc"  # the first null ends it
    with pytest.raises(EncodeError, match="null"):
        build(label="abc\0def")


@pytest.mark.spec("MQMQ-2.2.19.3-l")
def test_a_label_without_its_terminator_is_refused() -> None:
    message = build(label="abc", body=b"body")
    last = message.extension_offset - 2
    assert message.data[last : last + 2] == b"\0\0"
    for value in (b"a\0", b"\0a", b"\xff\xff"):
        refuse(patched(message.data, last, value), "label is not terminated")


# --- what the application said ------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.3-n")
@given(st.binary(min_size=20, max_size=20))
def test_a_correlation_id_is_opaque(correlation_id: bytes) -> None:
    message = build(properties=MessagePropertiesHeader(correlation_id=correlation_id))
    assert accept_message(message.data).properties.correlation_id == correlation_id


@pytest.mark.spec("MQMQ-2.2.18.1.3-a", "MQMQ-2.2.19.3-o")
def test_an_acknowledgment_correlates_by_message_identifier() -> None:
    expected = bytes.fromhex("D1 58 73 55 50 91 95 95 49 97 B6 E6 11 EA 26 C6  EE 08 00 00")
    original = accept_message(FRAME_7)
    assert original.identifier.encode() == expected
    assert (MessageIdentifier.SIZE, original.identifier.ordinal) == (20, 2286)
    # frame 7 asks for acknowledgments but names no queue for them; the same message with one gets its answer
    user = user_header(admin="OS:host\\admin")
    user.source_queue_manager = original.user.source_queue_manager
    user.message_id = original.user.message_id
    asking = build(user=user, properties=MessagePropertiesHeader(flags=0x0F))
    answer = acknowledgment(asking, MessageClass.ACK_REACH_QUEUE)
    assert answer is not None
    sent = build(
        properties=MessagePropertiesHeader(
            message_class=answer.message_class, correlation_id=answer.correlation_id
        )
    )
    received = accept_message(sent.data).properties
    assert received.correlation_id == expected
    assert MessageIdentifier.decode(received.correlation_id) == original.identifier


@pytest.mark.spec("MQMQ-2.2.19.3-p")
@pytest.mark.parametrize("body_type", [0, 8, 31, 0x1011, 0xFFFFFFFF])
def test_any_body_type_is_passed_on(body_type: int) -> None:
    assert accept_message(FRAME_7).properties.body_type == 8
    message = build(properties=MessagePropertiesHeader(body_type=body_type))
    assert accept_message(message.data).properties.body_type == body_type


@pytest.mark.spec("MQMQ-2.2.19.3-q")
@pytest.mark.parametrize("tag", [0, 1, 0x80000000, 0xFFFFFFFF])
def test_an_application_tag_is_passed_on(tag: int) -> None:
    message = build(properties=MessagePropertiesHeader(application_tag=tag))
    assert accept_message(message.data).properties.application_tag == tag


# --- extension and body -------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.3-r", "MQMQ-2.2.19.3-ag")
def test_body() -> None:
    message = accept_message(FRAME_7)
    assert message.properties.message_size == 2000
    assert message.body_offset == 222
    assert message.body == b"a\0" * 1000
    empty = build()
    assert empty.properties.message_size == 0
    assert empty.body == b""
    assert len(empty.data) == empty.properties_offset + 56


@pytest.mark.spec("MQMQ-2.2.19.3-s")
def test_an_encrypted_body_takes_its_own_size() -> None:
    """AES with padding turns 20 bytes into 32; that is what the packet allocates."""
    key = SessionKey(PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256, bytes(32))
    ciphertext = encrypt_body(b"twenty bytes of body", key)
    message = build(body=ciphertext)
    assert message.properties.allocation_body_size == 32
    assert accept_message(message.data).body == ciphertext
    # a sender that keeps the plain size in MessageSize has allocated more than that
    roomy = build(properties=MessagePropertiesHeader(allocation_body_size=32), body=b"twenty bytes of body")
    received = accept_message(roomy.data)
    assert (received.properties.message_size, received.properties.allocation_body_size) == (20, 32)
    assert received.body == b"twenty bytes of body"


@pytest.mark.spec("MQMQ-2.2.19.3-t")
def test_hostile_body_sizes() -> None:
    message = build(label="label", extension=b"ext", body=b"twelve bytes")
    size, allocated = properties_at(message, "message_size"), properties_at(message, "allocation_body_size")
    accept_message(patched_u32(message.data, size, 11))
    accept_message(patched_u32(message.data, size, 0))
    for value in (13, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        refuse(patched_u32(message.data, size, value))
        both = patched_u32(patched_u32(message.data, size, value), allocated, value)
        if value > 13:  # the padding has room for one byte more
            refuse(both)
            refuse(patched_u32(message.data, allocated, value))
    refuse(patched_u32(message.data, allocated, 11))
    remaining = len(message.data) - message.body_offset
    assert remaining == 13
    accept_message(patched_u32(message.data, allocated, remaining))
    refuse(patched_u32(message.data, allocated, remaining + 1))


@pytest.mark.spec("MQMQ-2.2.19.3-ac", "MQMQ-2.2.19.3-ad")
def test_extension_size() -> None:
    without, with_it = build(body=b"body"), build(extension=b"extension", body=b"body")
    assert without.properties.extension_size == 0
    assert without.extension == b""
    assert without.body_offset == without.extension_offset
    assert with_it.properties.extension_size == 9
    assert accept_message(with_it.data).extension == b"extension"
    offset = properties_at(with_it, "extension_size")
    for value in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF, len(with_it.data)):
        refuse(patched_u32(with_it.data, offset, value))


@pytest.mark.spec("MQMQ-2.2.19.3-af", "MQMQ-2.2.19.3-ah")
@pytest.mark.parametrize("size", range(6))
def test_extension_and_body_are_not_aligned(size: int) -> None:
    extension = bytes(range(1, 1 + size))
    message = build(label="ab", extension=extension, body=b"body")  # the label takes six bytes
    label = message.properties_offset + 56
    assert label % 4 == 0
    assert message.data[label:].startswith("ab\0".encode("utf-16-le") + extension + b"body")
    received = accept_message(message.data)
    assert received.body_offset == label + 6 + size
    assert (received.extension, received.body) == (extension, b"body")


@given(st.binary(min_size=56, max_size=160))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    header = MessagePropertiesHeader.decode(data)
    try:
        end = header.end(data, 0, len(data))
    except DecodeError:
        return
    assert end <= len(data)
    assert end % 4 == 0
    needed = 56 + 2 * header.label_length + header.extension_size + header.allocation_body_size
    assert needed <= end < needed + 4
    assert header.message_size <= header.allocation_body_size


def test_message_size_is_little_endian() -> None:
    message = build(body=bytes(0x1234))
    assert struct.unpack_from("<II", message.data, properties_at(message, "message_size")) == (0x1234, 0x1234)
