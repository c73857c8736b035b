"""Packets out of a stream: what is given, what is waited for, what is refused and when."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.framing import (
    MAX_WIRE_SIZE,
    Packet,
    StreamReader,
    decode_packet,
    packet_length,
)
from msmq.wire.headers import MAX_PACKET_SIZE, BaseHeader
from msmq.wire.message import MIN_SIZE, UserMessage
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import InternalHeader
from tests.wire import builders, messages, vectors
from tests.wire.builders import patched, patched_u32
from tests.wire.vectors import Vector

every_session_packet = pytest.mark.parametrize("vector", vectors.SESSION_PACKETS, ids=lambda v: v.name)
ACK = vectors.SESSION_ACK.data


def head(packet_size: int, flags: int, kind: int = 0) -> bytes:
    """The first twenty bytes of a packet."""
    return BaseHeader(flags=flags, packet_size=packet_size).encode() + InternalHeader(flags=kind).encode()


@pytest.mark.parametrize(
    ("packet_size", "flags", "kind", "length"),
    [
        (MIN_SIZE, 0x03, 0, MIN_SIZE),
        (MIN_SIZE, 0x13, 0, MIN_SIZE + 16),
        (MAX_PACKET_SIZE, 0x03, 0, MAX_PACKET_SIZE),
        (MAX_PACKET_SIZE, 0x13, 0, MAX_WIRE_SIZE),
        (572, 0x0B, 2, 572),
        (32, 0x0B, 3, 32),
        (36, 0x1B, 1, 36),
        (20, 0x1B, 1, 36),
    ],
)
def test_the_length_of_a_packet_is_known_from_its_first_bytes(
    packet_size: int, flags: int, kind: int, length: int
) -> None:
    first = head(packet_size, flags, kind)
    assert packet_length(first) == length
    assert packet_length(b"before" + first, 6) == length
    reader = StreamReader()
    assert reader.feed(first) == []
    assert reader.missing == length - 20


@pytest.mark.parametrize(
    ("packet_size", "flags", "kind"),
    [
        (0, 0x03, 0),
        (MIN_SIZE - 1, 0x03, 0),
        (MAX_PACKET_SIZE + 1, 0x03, 0),
        (0xFFFFFFFF, 0x13, 0),
        (571, 0x0B, 2),
        (573, 0x0B, 2),
        (31, 0x0B, 3),
        (33, 0x0B, 3),
        (16, 0x1B, 1),
        (52, 0x1B, 1),
        (572, 0x0B, 3),
        (36, 0x0B, 0),
        (36, 0x0B, 4),
        (MAX_PACKET_SIZE, 0x0B, 2),
        (0xFFFFFFFF, 0x0B, 1),
    ],
)
def test_an_impossible_size_is_refused_before_anything_is_waited_for(
    packet_size: int, flags: int, kind: int
) -> None:
    reader = StreamReader()
    with pytest.raises(DecodeError):
        reader.feed(head(packet_size, flags, kind))
    assert reader.broken


@pytest.mark.parametrize("offset", [0, 4, 5, 6, 7])
@every_session_packet
def test_version_and_signature_are_checked_with_the_first_bytes(vector: Vector, offset: int) -> None:
    for value in range(256):
        data = patched(vector.data[:20], offset, bytes([value]))
        if data == vector.data[:20]:
            continue
        with pytest.raises(DecodeError):
            StreamReader().feed(data)


@given(st.binary(max_size=64))
def test_any_bytes_have_a_length_or_are_refused(data: bytes) -> None:
    with suppress(DecodeError):
        assert 0 < packet_length(data) <= MAX_WIRE_SIZE


@pytest.mark.parametrize("length", range(20))
@every_session_packet
def test_too_few_bytes_to_know_a_length(vector: Vector, length: int) -> None:
    """The base header alone tells it of a user message; an internal packet needs four bytes more."""
    if length >= 16 and not vector.data[2] & 0x08:
        assert packet_length(vector.data[:length]) == len(vector.data)
        return
    with pytest.raises(DecodeError):
        packet_length(vector.data[:length])


def test_packets_before_a_refused_one_are_given() -> None:
    reader = StreamReader()
    assert reader.feed(ACK + ACK + b"\xff" * 40) == [ACK, ACK]
    assert reader.broken
    with pytest.raises(DecodeError):
        reader.feed(b"")
    with pytest.raises(DecodeError):
        reader.feed(ACK)


def test_packets_before_a_refused_one_are_given_from_the_buffer_too() -> None:
    reader = StreamReader()
    assert reader.feed(ACK[:30]) == []
    assert reader.feed(ACK[30:] + b"\xff" * 40) == [ACK]
    with pytest.raises(DecodeError):
        reader.feed(ACK)


def test_a_reader_keeps_only_the_packet_it_waits_for() -> None:
    reader = StreamReader()
    reader.feed(ACK * 100 + ACK[:7])
    assert (reader.buffered, reader.missing) == (7, 13)
    reader.feed(ACK[7:])
    assert (reader.buffered, reader.missing) == (0, 20)


def test_memory_follows_the_bytes_received_and_not_the_size_claimed() -> None:
    tracemalloc.start()
    try:
        readers = [StreamReader() for _ in range(50)]
        for reader in readers:
            reader.feed(head(MAX_PACKET_SIZE, 0x13))
            assert reader.missing == MAX_WIRE_SIZE - 20
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_packet_in_many_small_pieces_takes_no_more_memory_than_its_bytes() -> None:
    whole = builders.build(body=bytes(60_000)).data
    frames = StreamReader()
    tracemalloc.start()
    try:
        for index in range(len(whole) - 1):
            assert frames.feed(whole[index : index + 1]) == []
        assert tracemalloc.get_traced_memory()[1] < 3 * len(whole)
    finally:
        tracemalloc.stop()
    assert frames.buffered == len(whole) - 1
    assert frames.feed(whole[-1:]) == [whole]


@pytest.mark.parametrize("size", [4_095, 4_096, 30_000])
def test_a_packet_in_large_and_small_pieces(size: int) -> None:
    packets = [builders.build(body=bytes(60_000)).data, ACK, builders.build(body=bytes(50_000)).data]
    stream, frames, found = b"".join(packets), StreamReader(), list[bytes]()
    start = 0
    for length in [1, 10, size, 5, 5, size] * 40:
        found += frames.feed(stream[start : start + length])
        start += length
    assert found == packets
    assert frames.buffered == 0


def test_packets_are_given_as_they_came() -> None:
    """What is given is ``bytes`` of its own: nothing later in the stream can change it."""
    reader = StreamReader()
    (first,) = reader.feed(ACK + vectors.USER_MESSAGE.data[:100])
    (second,) = reader.feed(vectors.USER_MESSAGE.data[100:])
    assert type(first) is type(second) is bytes
    reader.feed(b"\x10" * 10)
    assert (first, second) == (ACK, vectors.USER_MESSAGE.data)


def test_a_message_of_another_protocol_is_refused() -> None:
    """SRMP headers are read for remote read; over a session they have no place."""
    message = messages.message(**messages.srmp_headers())
    assert UserMessage.decode(message.data).compound is not None
    with pytest.raises(DecodeError, match="AH"):
        decode_packet(message.data)
    empty = patched_u32(vectors.USER_MESSAGE.data, 60, 0x02281C00)
    with pytest.raises(DecodeError, match="AH"):
        decode_packet(empty)


PACKETS = [*(vector.data for vector in vectors.SESSION_PACKETS), builders.all_headers().data]


@given(st.lists(st.sampled_from(PACKETS), max_size=5), st.lists(st.floats(0, 1), max_size=20).map(sorted))
def test_a_stream_cut_anywhere_gives_the_same_packets(packets: list[bytes], cuts: list[float]) -> None:
    stream = b"".join(packets)
    edges = [0, *(int(cut * len(stream)) for cut in cuts), len(stream)]
    reader = StreamReader()
    given_packets = [packet for start, end in pairwise(edges) for packet in reader.feed(stream[start:end])]
    assert given_packets == packets
    assert reader.buffered == 0
    assert not reader.broken


@given(st.integers(0, 11), st.integers(1, 29), st.integers(1, 255))
def test_a_packet_that_begins_differently_ends_many_like_one(offset: int, number: int, flip: int) -> None:
    """What one read gives is what one packet after another gives."""
    packets = [bytearray(messages.message(body=b"%04d" % each).data) for each in range(30)]
    packets[number][offset] ^= flip
    readers = StreamReader(), StreamReader()
    together, one_by_one = [], []
    with suppress(DecodeError):
        together = readers[0].feed(b"".join(packets))
    with suppress(DecodeError):
        for packet in packets:
            one_by_one += readers[1].feed(bytes(packet))
    assert together == one_by_one
    assert len(together) >= number
    assert readers[0].broken == readers[1].broken
    assert readers[0].buffered == readers[1].buffered


def fields_of(packet: Packet) -> bytes:
    return packet.data if isinstance(packet, UserMessage) else packet.encode()


@given(
    st.sampled_from(PACKETS),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=6),
    st.integers(-30, 30),
)
def test_a_mutated_packet_is_read_as_it_is_or_refused(
    data: bytes, changes: list[tuple[int, int]], longer: int
) -> None:
    mutated = bytearray(data + bytes(longer) if longer > 0 else data[: len(data) + longer])
    for offset, value in changes:
        if offset < len(mutated):
            mutated[offset] = value
    try:
        packet = decode_packet(bytes(mutated))
    except DecodeError:
        return
    assert fields_of(packet) == mutated


def test_the_largest_message_passes_a_stream() -> None:
    room = MAX_PACKET_SIZE - len(messages.message(label="", extension=b"", body=b"").data)
    message = messages.message(label="", extension=b"", body=bytes(room), session=SessionHeader())
    assert len(message.data) == MAX_WIRE_SIZE
    reader = StreamReader()
    for start in range(0, MAX_WIRE_SIZE, 1 << 16):
        packets = reader.feed(message.data[start : start + (1 << 16)])
    assert packets == [message.data]
    assert reader.buffered == 0
