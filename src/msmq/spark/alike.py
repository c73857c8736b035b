"""Messages that look alike, read column by column.

What somebody sends to a queue is nearly always the same but for number, time, properties, label, extension and body.
Once one packet was decoded to the end, a :class:`Shape` says which bytes the next ones must share with it, and which
rules the others must keep, so that decoding them would give the same but for those. Their fields are then taken out of
the bytes as they stand, all of one column at once and without a step of Python for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from msmq.errors import DecodeError
from msmq.wire.headers import BASE_DH, BASE_SH, MAX_LABEL_LENGTH, USER_AH, USER_HH, USER_MQ
from msmq.wire.message import UserMessage

FEW: Final = 32
"""Messages that look alike, of which there are so few that columns of their own cost more than they save."""
_TRIES: Final = 4
"""Shapes that packets may have whose BaseHeader and UserHeader are the same but for what always differs."""
_BASE_RARE: Final = BASE_DH | BASE_SH
_USER_RARE: Final = USER_AH | USER_HH | USER_MQ
_FIRST_HEADERS: Final = {"packet_size": (8, "<u4"), "sent_time": (52, "<u4"), "message_id": (56, "<u4")}
"""What differs in BaseHeader and UserHeader: where it stands, and its type."""
_TRANSACTION: Final = {"flags": (0, "<u4"), "number": (12, "<u4"), "previous": (16, "<u4")}
"""The same of TransactionHeader."""
_PROPERTIES: Final = {
    "properties_flags": (0, "u1"),
    "label_length": (1, "u1"),
    "message_class": (2, "<u2"),
    "correlation_id": (4, "V20"),
    "body_type": (24, "<u4"),
    "application_tag": (28, "<u4"),
    "body_size": (32, "<u4"),
    "room": (36, "<u4"),
    "extension_size": (52, "<u4"),
}
"""The same of MessagePropertiesHeader; ``room`` is AllocationBodySize."""
_PROPERTIES_SIZE: Final = 56
_CG_OR_FA: Final = 0x3
"""Flags of a TransactionHeader of which the first makes it longer."""
_LARGEST_U32: Final = 0xFFFFFFFF

Numbers = npt.NDArray[np.int64]


def _layout(sample: UserMessage) -> np.dtype[Any]:
    """The fields that may differ, where they stand in packets like one."""
    places = dict(_FIRST_HEADERS)
    if sample.transactional:
        places |= {name: (sample.user_end + offset, kind) for name, (offset, kind) in _TRANSACTION.items()}
    start = sample.properties_offset
    places |= {name: (start + offset, kind) for name, (offset, kind) in _PROPERTIES.items()}
    return np.dtype(
        {
            "names": list(places),
            "formats": [kind for _, kind in places.values()],
            "offsets": [offset for offset, _ in places.values()],
            "itemsize": start + _PROPERTIES_SIZE,
        }
    )


class Shape:
    """What messages like one have in common. Make one with :meth:`of`."""

    __slots__ = ("_common", "_flags", "_head", "layout", "sample")

    def __init__(self, sample: UserMessage) -> None:
        self.sample = sample
        self.layout = _layout(sample)
        self._head = np.frombuffer(sample.data, np.uint8, self.layout.itemsize)
        self._common = np.ones(self.layout.itemsize, np.bool_)
        for kind, offset, *_ in (self.layout.fields or {}).values():
            self._common[offset : offset + kind.itemsize] = False
        if sample.transactional:  # TxSequenceID
            self._common[sample.user_end + 4 : sample.user_end + 12] = False
        self._flags = 0 if sample.transaction is None else sample.transaction.flags & _CG_OR_FA

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """The shape of a packet; None if it has headers that take a closer look, or cannot be read at all."""
        try:
            sample = UserMessage.decode(data)
        except DecodeError:
            return None
        transaction = sample.transaction
        longer = transaction is not None and transaction.has_connector_qm_guid
        if longer or sample.base.flags & _BASE_RARE or sample.user.flags & _USER_RARE:
            return None
        return cls(sample)

    def alike(self, packets: Sequence[bytes]) -> Alike:
        """Those of some packets, less than two gigabytes, that look like the sample."""
        count, size = len(packets), self.layout.itemsize
        lengths = np.fromiter(map(len, packets), np.int64, count)
        heads = b"".join([data[:size] for data in packets])
        if len(heads) < count * size:  # some are shorter, and fit in nothing
            heads = b"".join([data[:size].ljust(size, b"\0") for data in packets])
        fields = np.frombuffer(heads, self.layout)
        octets = np.frombuffer(heads, np.uint8).reshape(count, size)
        whole = b"".join(packets)
        starts = np.cumsum(lengths) - lengths
        labels, rooms = fields["label_length"].astype(np.int64), fields["room"].astype(np.int64)
        label_ends = size + 2 * labels
        fits = ~((octets != self._head) & self._common).any(axis=1)
        fits &= (fields["packet_size"] == lengths) & (labels <= MAX_LABEL_LENGTH)
        fits &= fields["body_size"] <= rooms
        fits &= (label_ends + fields["extension_size"] + rooms + 3 & ~3) == lengths
        if self.sample.transactional:
            fits &= (fields["flags"] & _CG_OR_FA) == self._flags
            fits &= (fields["number"] != 0) & (fields["previous"] != _LARGEST_U32)
        labelled = np.flatnonzero(fits & (labels > 0))
        if labelled.size:
            ends = (starts + label_ends)[labelled]
            letters = np.frombuffer(whole, np.uint8)
            fits[labelled] = (letters[ends - 1] | letters[ends - 2]) == 0
        if fits.all():
            return Alike(self, np.arange(count), fields, whole, starts)
        return Alike(self, np.flatnonzero(fits), fields[fits], whole, starts[fits])


class Alike:
    """Packets of one shape, as columns. ``places`` tells which they are of those that were looked at."""

    def __init__(
        self, shape: Shape, places: Numbers, fields: npt.NDArray[Any], whole: bytes, starts: Numbers
    ) -> None:
        self.sample = shape.sample
        self.places = places
        self._fields = fields
        self._whole = whole
        self._label_starts = starts + shape.layout.itemsize
        self._extension_starts = self._label_starts + 2 * self.numbers("label_length")

    def __len__(self) -> int:
        return len(self._fields)

    def numbers(self, field: str) -> Numbers:
        return self._fields[field].astype(np.int64)

    @property
    def correlation_ids(self) -> pa.Array:
        column = np.ascontiguousarray(self._fields["correlation_id"])
        return pa.Array.from_buffers(pa.binary(20), len(self), [None, pa.py_buffer(column)])

    @property
    def labels(self) -> pa.Array:
        """As they stand, without their terminators."""
        return self._cut(self._label_starts, np.maximum(2 * self.numbers("label_length") - 2, 0))

    @property
    def extensions(self) -> pa.Array:
        return self._cut(self._extension_starts, self.numbers("extension_size"))

    @property
    def bodies(self) -> pa.Array:
        return self._cut(self._extension_starts + self.numbers("extension_size"), self.numbers("body_size"))

    def _cut(self, starts: Numbers, sizes: Numbers) -> pa.Array:
        """A piece of each packet."""
        count = len(self)
        if not sizes.any():
            return pa.repeat(b"", count)
        edges = np.empty(2 * count, np.int32)
        edges[::2], edges[1::2] = starts, starts + sizes
        # Every other piece is what lies between those that are wanted.
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(self._whole)]
        )
        return pieces.take(pa.array(np.arange(0, 2 * count, 2)))


def look_alike(packets: Sequence[bytes]) -> tuple[list[Alike], list[int]]:
    """Packets by what they look like, and the places of those that look like few others."""
    found: list[Alike] = []
    others: list[int] = []
    left = _take_out(packets, np.arange(len(packets)), found, others)  # most often these are all
    kinds: dict[bytes, list[int]] = {}
    for place in left.tolist():
        data = packets[place]
        kinds.setdefault(data[:8] + data[12:52] + data[60:64], []).append(place)
    for kind in kinds.values():
        left = np.array(kind, np.int64)
        for _ in range(_TRIES):
            left = _take_out(packets, left, found, others)
        others += left.tolist()
    return found, sorted(others)


def _take_out(packets: Sequence[bytes], places: Numbers, found: list[Alike], others: list[int]) -> Numbers:
    """Take the first of some packets and those that look like it; gives the places of the rest."""
    if len(places) < FEW:
        return places
    shape = Shape.of(packets[places[0]])
    if shape is None:
        others.append(int(places[0]))
        return places[1:]
    alike = shape.alike([packets[place] for place in places.tolist()])
    taken, left = places[alike.places], np.delete(places, alike.places)
    if len(alike) < FEW:
        others += taken.tolist()
    else:
        alike.places = taken
        found.append(alike)
    return left
