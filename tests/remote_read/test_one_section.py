"""The shortcut of answers with one section: the same bytes and values as the declaration, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.remote_read.interface import StartReceiveReply
from msmq.remote_read.one_section import OneSection, whole_packet, write_whole_packet
from msmq.wire.sections import Section

SYNTAXES = pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
SECTIONS = st.builds(Section, st.integers(0, 0xFFFF), U32, st.binary(max_size=40))
REPLIES = st.one_of(
    st.builds(StartReceiveReply, U32, U64, st.just(1), st.lists(SECTIONS, min_size=1, max_size=1), U32),
    st.builds(StartReceiveReply, U32, U64, st.just(2), st.lists(SECTIONS, min_size=2, max_size=2), U32),
    st.builds(StartReceiveReply, U32, U64, st.just(0), st.none(), U32),
)


@SYNTAXES
@given(reply=REPLIES)
def test_written_as_declared(reply: StartReceiveReply, ndr64: bool) -> None:
    stub = reply.encode_declared(ndr64)
    assert reply.encode(ndr64) == stub
    assert StartReceiveReply.decode(stub, ndr64) == (reply, len(stub))
    usual = reply.pdw_number_of_sections == 1
    assert (OneSection().pack(StartReceiveReply.VALUES(reply), ndr64) is not None) is usual
    assert (OneSection().unpack(stub, ndr64) is not None) is usual


@SYNTAXES
@given(
    reply=REPLIES,
    place=st.integers(0, 150),
    octet=st.integers(0, 255),
    cut=st.integers(0, 3),
    more=st.binary(max_size=9),
)
def test_read_as_declared(
    reply: StartReceiveReply, ndr64: bool, place: int, octet: int, cut: int, more: bytes
) -> None:
    """Whatever the bytes, both ways find the same or the shortcut finds nothing."""
    stub = bytearray(reply.encode_declared(ndr64))
    stub[place % len(stub)] = octet
    data = bytes(stub[: len(stub) - cut]) + more
    quick = OneSection().unpack(data, ndr64)
    try:
        declared = StartReceiveReply.decode_declared(data, ndr64)
    except DecodeError:
        assert quick is None
        return
    if quick is not None:
        assert (StartReceiveReply(*quick[0]), quick[1]) == declared


FULL = st.binary(max_size=40).map(lambda data: Section(0, len(data), data))
WELL = st.builds(StartReceiveReply, U32, U64, st.just(1), FULL.map(lambda one: [one]), st.just(0))


@SYNTAXES
@given(reply=WELL, cut=st.integers(0, 40))
def test_a_whole_packet_is_written_as_declared(reply: StartReceiveReply, ndr64: bool, cut: int) -> None:
    ((_, size, data),) = reply.pp_packet_sections or ()
    stub = write_whole_packet(
        reply.pdw_arrive_time, reply.p_sequence_id, (data[:cut], data[cut:]), size, ndr64
    )  # fmt: skip
    assert stub == reply.encode_declared(ndr64)
    assert whole_packet(stub, ndr64) == (reply.pdw_arrive_time, reply.p_sequence_id, data)


@SYNTAXES
@given(
    reply=WELL | REPLIES,
    place=st.integers(0, 150),
    octet=st.none() | st.integers(0, 255),
    cut=st.integers(0, 3),
    more=st.binary(max_size=9),
)
def test_a_whole_packet_is_read_as_declared(
    reply: StartReceiveReply, ndr64: bool, place: int, octet: int | None, cut: int, more: bytes
) -> None:
    """Whatever the bytes, what is found is what the declaration finds, and nothing but a full packet is."""
    stub = bytearray(reply.encode_declared(ndr64))
    if octet is not None:
        stub[place % len(stub)] = octet
    data = bytes(stub[: len(stub) - cut]) + more
    found = whole_packet(data, ndr64)
    if found is not None:
        declared, end = StartReceiveReply.decode_declared(data, ndr64)
        arrival, sequence, packet = found
        assert declared == StartReceiveReply(arrival, sequence, 1, [Section(0, len(packet), packet)], 0)
        assert end == len(data)


@SYNTAXES
@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 2, [Section(0, 1, b"x")], 0),
        (1, 2, 1, [], 0),
        (1, 2, 1, None, 0),
        (-1, 2, 1, [Section(0, 1, b"x")], 0),
        (1, 1 << 64, 1, [Section(0, 1, b"x")], 0),
        (1, 2, 1, [Section(0, 1, b"x")], None),
        (1, 2, 1, [Section(0, 1, "text")], 0),  # type: ignore[arg-type]
    ],
    ids=["count", "empty", "none", "negative", "large", "status", "text"],
)
def test_what_it_does_not_write(values: tuple[object, ...], ndr64: bool) -> None:
    assert OneSection().pack(values, ndr64) is None
