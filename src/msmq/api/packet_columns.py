"""Messages as the channel delivers them to readers of packets: `pb.Packets`, written and read without a message.

The packets stand one behind the other, so that neither side has to do anything for each of them until somebody wants
one. What is written is what a `pb.Packets` would have written, except for the order of its fields.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Self

from msmq.api.fields import fields_in, lead, within
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import DecodeError

_TYPES: Final = {
    pb.Packets.LOOKUP_IDS_FIELD_NUMBER: "Q",
    pb.Packets.ARRIVED_TIMES_FIELD_NUMBER: "I",
    pb.Packets.SIZES_FIELD_NUMBER: "I",
}
"""The columns of numbers, which have a fixed size on the channel, and their type codes."""


@dataclass(slots=True)
class PacketColumns:
    """Some messages, column by column."""

    lookup_ids: array[int]
    arrived_times: array[int]
    sizes: array[int]
    """How long each packet is."""
    data: bytes | memoryview
    """The packets, one behind the other."""
    remarks: Sequence[pb.Remark] = ()

    @classmethod
    def read(cls, written: memoryview) -> Self:
        """Read a `pb.Packets`, without copying the packets. Raises DecodeError if it is none."""
        numbers = {field: array(code) for field, code in _TYPES.items()}
        data = memoryview(b"")
        remarks = []
        for field, value in fields_in(written):
            if field in numbers:
                if len(value) % numbers[field].itemsize:
                    raise DecodeError(f"a column of {len(value)} bytes")
                numbers[field].frombytes(value)
            elif field == pb.Packets.PACKETS_FIELD_NUMBER:
                data = value
            elif field == pb.Packets.REMARKS_FIELD_NUMBER:
                remarks.append(pb.Remark.FromString(bytes(value)))
        ids, times, sizes = map(_in_memory, numbers.values())
        if not len(ids) == len(times) == len(sizes) or sum(sizes) != len(data):
            raise DecodeError("the columns of a delivery do not belong together")
        return cls(ids, times, sizes, data, remarks)

    @classmethod
    def of(cls, lookup_ids: Iterable[int], arrived_times: Iterable[int], packets: Sequence[bytes]) -> Self:
        """Make columns of packets."""
        sizes = array("I", map(len, packets))
        return cls(array("Q", lookup_ids), array("I", arrived_times), sizes, b"".join(packets))

    def __len__(self) -> int:
        return len(self.lookup_ids)

    @property
    def packets(self) -> list[bytes]:
        """Each packet by itself."""
        whole = bytes(self.data)
        return [whole[start:stop] for start, stop in pairwise(accumulate(self.sizes, initial=0))]


def write_columns(
    field: int,
    lookup_ids: array[int],
    arrived_times: Iterable[int],
    packets: Sequence[bytes],
    remarks: Iterable[pb.Remark],
) -> list[bytes]:
    """Write a reply whose ``field`` has messages, in parts."""
    sizes = array("I", map(len, packets))
    numbers = zip(_TYPES, (lookup_ids, array("I", arrived_times), sizes), strict=True)
    said = pb.Packets(remarks=remarks).SerializeToString()
    head = b"".join([_packed(number, column) for number, column in numbers]) + said
    return within(field, (head, lead(pb.Packets.PACKETS_FIELD_NUMBER, sum(sizes)), *packets))


def _packed(field: int, column: array[int]) -> bytes:
    written = _in_memory(column).tobytes()
    return lead(field, len(written)) + written


def _in_memory(column: array[int]) -> array[int]:
    """Return a column of the channel, which is little-endian, as it has to be in memory, or the other way round."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
