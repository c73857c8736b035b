"""MultiQueueFormatHeader and the lists in it (MS-MQMQ 2.2.18.1.4, 2.2.20.1 to 2.2.20.3)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.headers import PrivateQueueFormatName
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import (
    ADMIN_HEADER,
    DESTINATION_HEADER,
    DIRECT,
    DISTRIBUTION_LIST,
    PRIVATE,
    PUBLIC,
    RESPONSE_HEADER,
    SIGNATURE_HEADER,
    DistributionListName,
    MQFAddressHeader,
    MQFElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from tests.wire.builders import (
    OTHER,
    QUEUE,
    SOURCE,
    accept_message,
    build,
    guids,
    mqf_lists,
    multi_queue_headers,
    patched,
    patched_u16,
    patched_u32,
    refuse,
    u16s,
    user_header,
)

PUBLIC_NAME: MQFElement = QUEUE
PRIVATE_NAME = PrivateQueueFormatName(OTHER, 0x01020304)
DIRECT_NAME = "OS:a\\q"
LIST_NAME = DistributionListName(SOURCE)
ODD = "x"  # six bytes with its type and its terminator: what follows begins at 2 mod 4


def header_at(message: UserMessage) -> int:
    """Where the MultiQueueFormatHeader begins in a message without debug and soap headers."""
    return message.properties.end(message.data, message.properties_offset, message.base.packet_size)


def listed(*elements: MQFElement) -> MQFAddressHeader:
    return MQFAddressHeader.of(DESTINATION_HEADER, list(elements))


def raw_list(elements: bytes, count: int, size: int | None = None) -> bytes:
    """An address header around bytes of our own, padded to four."""
    size = 12 + len(elements) if size is None else size
    return struct.pack("<IHHI", size, DESTINATION_HEADER, 0, count) + elements + bytes(-len(elements) % 4)


def packet_with(destinations: bytes) -> bytes:
    """A whole packet whose list of destinations is these bytes."""
    message = build(multi_queue=MultiQueueFormatHeader.of([]))
    start = header_at(message)
    data = message.data[:start] + destinations + message.data[start + 12 :]
    return patched_u32(data, 8, len(data))


# --- elements -----------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.18.1.4-a", "MQMQ-2.2.18.1.4-c")
def test_one_list_of_every_type() -> None:
    elements: list[MQFElement] = [PUBLIC_NAME, PRIVATE_NAME, DIRECT_NAME, LIST_NAME]
    header = listed(*elements)
    assert header.format_name_list == bytes.fromhex(
        "0100 0000 404142434445464748494a4b4c4d4e4f"  # PublicQueueFormatName
        "0200 0000 303132333435363738393a3b3c3d3e3f 04030201"  # PrivateQueueFormatName
        "0300 4f00 5300 3a00 6100 5c00 7100 0000"  # MQFDirectQueueFormatName
        "0600 0000 101112131415161718191a1b1c1d1e1f"  # MQFDistributionQueueFormatName
    )
    assert MQFAddressHeader.read(header.write()) == (header, 12 + 20 + 24 + 16 + 20)
    assert header.elements == elements
    assert (PUBLIC, PRIVATE, DIRECT, DISTRIBUTION_LIST) == (1, 2, 3, 6)


@pytest.mark.spec("MQMQ-2.2.18.1.4-b")
def test_other_types_are_refused() -> None:
    body = bytes(24)
    for number in range(16):
        element = struct.pack("<HH", number, 0) + (body[:20] if number == PRIVATE else body[:16])
        if number == DIRECT:
            element = struct.pack("<HH", number, 0)
        packet = packet_with(raw_list(element, 1))
        if number in (1, 2, 3, 6):
            received = accept_message(packet).multi_queue
            assert received is not None
            assert len(received.destination.elements) == 1
        else:
            refuse(packet, "FormatType")
    for number in (0x0100, 0x0300, 0xFFFF):
        refuse(packet_with(raw_list(struct.pack("<HH", number, 0) + bytes(16), 1)), "FormatType")


@pytest.mark.spec("MQMQ-2.2.18.1.4-d", "MQMQ-2.2.18.1.4-e", "MQMQ-2.2.18.1.4.2-a", "MQMQ-2.2.18.1.7.2-b")
@pytest.mark.parametrize(
    ("element", "kind", "body"),
    [
        (PUBLIC_NAME, 1, QUEUE),
        (PRIVATE_NAME, 2, OTHER + bytes.fromhex("04030201")),
        (LIST_NAME, 6, SOURCE),
    ],
)
def test_identifiers_begin_at_a_multiple_of_four(element: MQFElement, kind: int, body: bytes) -> None:
    aligned = listed(element)
    assert aligned.format_name_list == struct.pack("<H", kind) + b"\0\0" + body
    unaligned = listed(ODD, element)  # its type fills up the word, so nothing is left to pad
    assert unaligned.format_name_list == b"\x03\0x\0\0\0" + struct.pack("<H", kind) + body
    for header in (aligned, unaligned):
        assert MQFAddressHeader.read(header.write()) == (header, 12 + len(header.format_name_list))
    for noise in (b"\xff\xff", b"\xcd\x01"):
        noisy = patched(aligned.write(), 14, noise)
        read, end = MQFAddressHeader.read(noisy)
        assert (read.elements, end) == ([element], len(noisy))


@pytest.mark.spec("MQMQ-2.2.18.1.4.1-a")
def test_a_direct_name_ends_with_its_first_null() -> None:
    # the third has two zero bytes side by side that are no terminator
    header = listed("ab", "", "\u4100\u0041", DIRECT_NAME)
    assert header.format_name_list == bytes.fromhex(
        "0300 6100 6200 00000300 00000300 0041 4100 00000300 4f00 5300 3a00 6100 5c00 7100 0000"
    )
    assert MQFAddressHeader.read(header.write())[0].elements == ["ab", "", "\u4100\u0041", DIRECT_NAME]
    with pytest.raises(EncodeError, match="null"):
        listed("a\0b")


@pytest.mark.spec("MQMQ-2.2.18.1.4.1-b")
def test_the_search_for_a_terminator_stays_in_its_header() -> None:
    unterminated = raw_list(b"\x03\0" + b"a\0" * 3, 1)
    assert len(unterminated) == 20
    refuse(packet_with(unterminated), "not terminated")  # the next header has zero bytes enough
    cut = [raw_list(b"\x03\0a\0b\0\0\0", 1, size=size) for size in (18, 19)]
    for header in (unterminated, *cut):
        with pytest.raises(DecodeError, match="not terminated"):
            MQFAddressHeader.read(header + bytes(40))
    with pytest.raises(DecodeError):
        MQFAddressHeader.read(unterminated)


# --- the lists ----------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.2-a")
def test_address_header_layout() -> None:
    assert listed().write() == bytes.fromhex(
        "0c000000"  # HeaderSize
        "6400"  # HeaderID
        "0000"  # Reserved
        "00000000"  # ElementCount
    )
    assert listed(ODD).write() == bytes.fromhex(
        "12000000"  # HeaderSize
        "6400"  # HeaderID
        "0000"  # Reserved
        "01000000"  # ElementCount
        "0300 7800 0000"  # FormatNameList
        "0000"  # padding
    )


@given(mqf_lists, st.sampled_from([DESTINATION_HEADER, ADMIN_HEADER, RESPONSE_HEADER]))
def test_address_header_round_trip(elements: list[MQFElement], header_id: int) -> None:
    header = MQFAddressHeader.of(header_id, elements)
    encoded = header.write()
    assert MQFAddressHeader.read(encoded) == (header, len(encoded))
    assert MQFAddressHeader.read(b"0123" + encoded + b"after", 4) == (header, 4 + len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            MQFAddressHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            MQFAddressHeader.read(encoded, 0, size)


@pytest.mark.spec("MQMQ-2.2.20.2-b")
def test_header_size_is_at_least_twelve() -> None:
    for size in range(12):
        refuse(packet_with(raw_list(b"", 0, size=size)), "HeaderSize")
    accept_message(packet_with(raw_list(b"", 0, size=12)))
    element = b"\x03\0\0\0"
    header = raw_list(element, 1)
    assert struct.unpack_from("<I", header) == (16,)
    refuse(packet_with(raw_list(element, 1, size=15)))
    refuse(packet_with(raw_list(element, 1, size=17)))


@pytest.mark.spec("MQMQ-2.2.20.2-c")
def test_header_ids_stand_in_their_order() -> None:
    ids = (DESTINATION_HEADER, ADMIN_HEADER, RESPONSE_HEADER, SIGNATURE_HEADER)
    assert ids == (0x0064, 0x00C8, 0x012C, 0x015E)
    message = build(multi_queue=MultiQueueFormatHeader.of([]))
    start = header_at(message)
    offsets = [start + 4, start + 16, start + 28, start + 36]
    assert [struct.unpack_from("<H", message.data, offset)[0] for offset in offsets] == list(ids)
    for position, offset in enumerate(offsets):
        for value in (*ids, 0, 0x6400, 0xFFFF):
            if value != ids[position]:
                refuse(patched_u16(message.data, offset, value))


@pytest.mark.spec("MQMQ-2.2.20.2-d")
@given(u16s)
def test_address_header_reserved_is_ignored(noise: int) -> None:
    header = listed(DIRECT_NAME)
    assert header.reserved == 0
    read, _ = MQFAddressHeader.read(patched_u16(header.write(), 6, noise))
    assert read.elements == [DIRECT_NAME]


@pytest.mark.spec("MQMQ-2.2.20.2-e")
@given(mqf_lists)
def test_element_count_is_exact(elements: list[MQFElement]) -> None:
    header = listed(*elements)
    assert header.element_count == len(elements)
    encoded = header.write()
    assert len(MQFAddressHeader.read(encoded)[0].elements) == len(elements)
    with pytest.raises(DecodeError):
        MQFAddressHeader.read(patched_u32(encoded, 8, len(elements) + 1))
    if elements:
        with pytest.raises(DecodeError, match="more than its elements"):
            MQFAddressHeader.read(patched_u32(encoded, 8, len(elements) - 1))


@pytest.mark.spec("MQMQ-2.2.20.2-f")
def test_header_size_may_count_the_padding() -> None:
    element = b"\x03\0x\0\0\0"
    for padding in (b"\0\0", b"\xff\xff", b"\x03\0"):
        for size in (18, 20):
            header = struct.pack("<IHHI", size, DESTINATION_HEADER, 0, 1) + element + padding
            read, end = MQFAddressHeader.read(header)
            assert (read.elements, end) == (["x"], 20)
            assert read.format_name_list == element
            received = accept_message(packet_with(header)).multi_queue
            assert received is not None
            assert received.destination.elements == ["x"]


@pytest.mark.spec("MQMQ-2.2.20.2-g")
def test_hostile_address_headers() -> None:
    packet = packet_with(listed(DIRECT_NAME, PRIVATE_NAME).write())
    received = accept_message(packet)
    start = header_at(received)
    for count in (0, 1, 3, 10, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        refuse(patched_u32(packet, start + 8, count))
    for size in (0, 11, 12, 13, 51, 53, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFD, 0xFFFFFFFF):
        refuse(patched_u32(packet, start, size))
    refuse(patched_u32(patched_u32(packet, start, 0xFFFFFFFF), start + 8, 0xFFFFFFFF))
    # a count that the bytes could hold, four to an element, and one that they could not
    with pytest.raises(DecodeError, match="FormatType"):
        MQFAddressHeader.read(raw_list(bytes(8), 2))
    with pytest.raises(DecodeError, match="ElementCount"):
        MQFAddressHeader.read(raw_list(bytes(8), 3))


def test_elements_that_cannot_be_written() -> None:
    for element in (QUEUE[:15], PrivateQueueFormatName(OTHER[:15], 1), DistributionListName(b"")):
        with pytest.raises(EncodeError, match="16 bytes"):
            listed(element)
    for number in (-1, 1 << 32):
        with pytest.raises(EncodeError, match="32 bits"):
            listed(PrivateQueueFormatName(OTHER, number))


# --- the signature ------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.3-a", "MQMQ-2.2.20.3-d")
def test_signature_header_layout() -> None:
    assert MQFSignatureHeader(signature=b"12345").write() == bytes.fromhex(
        "5e01"  # ID
        "0000"  # Reserved
        "05000000"  # Size
        "3132333435"  # Signature
        "000000"  # padding
    )
    assert MQFSignatureHeader().write() == bytes.fromhex("5e01 0000 00000000")
    assert MQFSignatureHeader.read(MQFSignatureHeader().write()) == (MQFSignatureHeader(), 8)


@given(st.binary(max_size=40), u16s)
def test_signature_header_round_trip(signature: bytes, reserved: int) -> None:
    header = MQFSignatureHeader(reserved=reserved, signature=signature)
    encoded = header.write()
    assert header.size == len(signature)
    assert MQFSignatureHeader.read(encoded) == (header, len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            MQFSignatureHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            MQFSignatureHeader.read(encoded, 0, size)


@pytest.mark.spec("MQMQ-2.2.20.3-b", "MQMQ-2.2.20.3-c", "MQMQ-2.2.20.3-f")
def test_hostile_signature_headers() -> None:
    message = build(multi_queue=MultiQueueFormatHeader.of([], signature=b"signature"))
    start = header_at(message) + 36
    assert message.data[start : start + 2] == b"\x5e\x01"
    for value in (0, 0x015D, 0x015F, 0x5E01, 0xFFFF):
        refuse(patched_u16(message.data, start, value), "0x015e")
    for value in (0, 1, 0x1234, 0xFFFF):
        received = accept_message(patched_u16(message.data, start + 2, value)).multi_queue
        assert received is not None
        assert received.signature.signature == b"signature"
    for size in (0, 1, 8, 13, 0x7FFFFFFF, 0xFFFFFFF8, 0xFFFFFFFF):
        refuse(patched_u32(message.data, start + 4, size))
    for size in (9, 10, 11, 12):  # the padding is there for them
        accept_message(patched_u32(message.data, start + 4, size))


# --- together -----------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.1-a", "MQMQ-2.2.20.1-g")
def test_multi_queue_layout() -> None:
    header = MultiQueueFormatHeader.of([ODD, QUEUE])
    assert header.write() == bytes.fromhex(
        "24000000 6400 0000 02000000"  # Destination
        "0300 7800 0000"
        "0100 404142434445464748494a4b4c4d4e4f"
        "0c000000 c800 0000 00000000"  # Administration
        "0c000000 2c01 0000 00000000"  # Response
        "5e01 0000 00000000"  # Signature
    )
    counts = [part.element_count for part in (header.destination, header.administration, header.response)]
    assert counts == [2, 0, 0]
    assert header.signature.size == 0
    smallest = MultiQueueFormatHeader.of([])
    assert len(smallest.write()) == 3 * 12 + 8 == 44
    assert accept_message(build(multi_queue=smallest).data).multi_queue == smallest


@given(multi_queue_headers)
def test_multi_queue_round_trip(header: MultiQueueFormatHeader) -> None:
    encoded = header.write()
    assert MultiQueueFormatHeader.read(encoded) == (header, len(encoded))
    assert accept_message(build(multi_queue=header).data).multi_queue == header
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            MultiQueueFormatHeader.read(encoded, 0, size)


def test_every_copy_lists_all_destinations() -> None:
    destinations: list[MQFElement] = ["OS:a\\q", "OS:b\\q", QUEUE]
    for address in destinations:
        assert isinstance(address, str | bytes)
        copy = build(user=user_header(address), multi_queue=MultiQueueFormatHeader.of(destinations))
        received = accept_message(copy.data)
        assert received.multi_queue is not None
        assert received.multi_queue.destination.elements == destinations
        assert received.user.destination_queue == address  # the copy's own address is not the list


@pytest.mark.spec("MQMQ-2.2.20.1-d")
def test_response_queues_are_exposed() -> None:
    responses: list[MQFElement] = ["OS:a\\answers", PRIVATE_NAME]
    received = accept_message(build(multi_queue=MultiQueueFormatHeader.of([QUEUE], None, responses)).data)
    assert received.multi_queue is not None
    assert received.multi_queue.response.elements == responses
    assert received.multi_queue.administration.elements == []


@pytest.mark.spec("MQMQ-2.2.20.1-f")
@given(st.binary(min_size=6, max_size=6))
def test_padding_after_the_lists_is_ignored(noise: bytes) -> None:
    header = MultiQueueFormatHeader.of([ODD], ["y"], ["z"], b"signature")
    message = build(multi_queue=header)
    start = header_at(message)
    data = message.data
    for position in range(3):
        offset = start + 20 * position + 18
        assert data[offset : offset + 2] == b"\0\0"
        data = patched(data, offset, noise[2 * position : 2 * position + 2])
    assert accept_message(data).multi_queue == header


@given(guids, st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(head: bytes, tail: bytes) -> None:
    for data in (head + tail, struct.pack("<IHHI", 12 + len(tail), DESTINATION_HEADER, 0, 2) + tail):
        try:
            header, end = MQFAddressHeader.read(data)
        except DecodeError:
            continue
        assert end <= len(data)
        assert len(header.elements) == header.element_count
