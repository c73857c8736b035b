"""Packets as the channel delivers them, against what Protocol Buffers write and read."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from google.protobuf.message import DecodeError as NoMessageError
from hypothesis import given
from hypothesis import strategies as st

from msmq.api.frames import METHODS
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns, write_columns
from msmq.errors import DecodeError

FIELD = pb.Deliveries.PACKETS_FIELD_NUMBER
read = METHODS["ReadSpan"].deserialize_reply
U32 = st.integers(0, 0xFFFFFFFF)
REMARKS = st.builds(pb.Remark, index=U32, returned_count=U32, dead_letter_class=U32)
ROWS = st.lists(st.tuples(st.integers(0, (1 << 64) - 1), U32, st.binary(max_size=300)), max_size=20)
ROW = 7, 9, b"packet"


def written(rows: list[tuple[int, int, bytes]], remarks: list[pb.Remark]) -> bytes:
    ids, times, packets = ([row[column] for row in rows] for column in range(3))
    return b"".join(write_columns(FIELD, array("Q", ids), times, packets, remarks))


@given(ROWS, st.lists(REMARKS, max_size=3))
def test_it_is_what_the_message_says(rows: list[tuple[int, int, bytes]], remarks: list[pb.Remark]) -> None:
    data = written(rows, remarks)
    said = pb.Packets(
        lookup_ids=[one for one, _, _ in rows],
        arrived_times=[time for _, time, _ in rows],
        packets=b"".join(packet for _, _, packet in rows),
        sizes=[len(packet) for _, _, packet in rows],
        remarks=remarks,
    )
    assert pb.Deliveries.FromString(data) == pb.Deliveries(packets=said)
    for each in (
        data,
        pb.Deliveries(packets=said).SerializeToString(),
    ):  # the order of fields does not matter
        found = read(each)
        assert list(zip(found.lookup_ids, found.arrived_times, found.packets, strict=True)) == rows
        assert (len(found), found.remarks) == (len(rows), remarks)


def test_large_packets_are_not_copied_to_be_written() -> None:
    packets = [bytes(1 << 20), b"small", b"and another", bytes(1 << 17)]
    parts = write_columns(FIELD, array("Q", (1, 2, 3, 4)), (5, 6, 7, 8), packets, ())
    assert [any(part is packet for part in parts) for packet in packets] == [True, False, False, True]
    found = read(b"".join(parts))
    assert replace(found, remarks=()) == PacketColumns.of((1, 2, 3, 4), (5, 6, 7, 8), packets)
    assert found.packets == packets


def test_other_replies_are_messages() -> None:
    reply = pb.Deliveries(messages=[pb.Delivered(lookup_id=1)])
    assert read(reply.SerializeToString()) == reply
    settled = pb.ReceiveReply(settled=pb.Settled(messages=3))
    assert METHODS["Receive"].deserialize_reply(settled.SerializeToString()) == settled


@pytest.mark.parametrize(
    "changes",
    [
        {"lookup_ids": [1, 2]},
        {"arrived_times": []},
        {"sizes": [5]},
        {"sizes": [3, 3]},
        {"packets": b"packets"},
    ],
    ids=str,
)
def test_columns_that_do_not_belong_together_are_an_error(changes: dict[str, object]) -> None:
    columns = {"lookup_ids": [7], "arrived_times": [9], "packets": b"packet", "sizes": [6]}
    assert list(read(pb.Deliveries(packets=pb.Packets(**columns)).SerializeToString()).packets) == [b"packet"]
    with pytest.raises(DecodeError):
        read(pb.Deliveries(packets=pb.Packets(**columns | changes)).SerializeToString())


@given(st.data())
def test_damaged_replies_are_read_within_their_edges_or_refused(data: st.DataObject) -> None:
    good = written([ROW, ROW, ROW], [pb.Remark(index=1)])
    bad = bytearray(good)
    bad[data.draw(st.integers(0, len(bad) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    try:
        found = read(cut)
    except (DecodeError, NoMessageError):
        return
    if isinstance(found, PacketColumns):
        assert len(found.lookup_ids) == len(found.arrived_times) == len(found.packets)
        assert b"".join(found.packets) in cut
