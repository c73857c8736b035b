"""Fields that are written by hand, against what the messages write themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.api.fields import LARGE_BYTES, lead, repeated, within
from msmq.api.generated import msmq_pb2 as pb

PACKETS = pb.Packets.PACKETS_FIELD_NUMBER


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16_383, 16_384, (1 << 21) - 1, 1 << 21, 4_300_000])
def test_sizes_are_written_as_messages_write_them(size: int) -> None:
    data = bytes(size)
    assert lead(PACKETS, size) + data == pb.Packets(packets=[data]).SerializeToString()


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(0, (1 << 64) - 1), max_size=5))
def test_a_message_within_a_message(values: list[bytes], ids: list[int]) -> None:
    rest = pb.Packets(lookup_ids=ids).SerializeToString()
    (written,) = within(pb.ReceiveReply.PACKETS_FIELD_NUMBER, (rest, *repeated(PACKETS, values)))
    assert written == pb.ReceiveReply(packets=pb.Packets(lookup_ids=ids, packets=values)).SerializeToString()


def test_large_values_stay_what_they_are() -> None:
    values = [b"small", bytes(LARGE_BYTES), b"", b"x" * 300_000, bytes(LARGE_BYTES - 1)]
    parts = within(pb.ReceiveReply.PACKETS_FIELD_NUMBER, repeated(PACKETS, values))
    assert len(parts) == 5, "two large ones, and what stands around them"
    assert (parts[1] is values[1], parts[3] is values[3]) == (True, True)
    assert b"".join(parts) == pb.ReceiveReply(packets=pb.Packets(packets=values)).SerializeToString()
