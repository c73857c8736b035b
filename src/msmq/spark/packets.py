"""Read the packets of many messages column by column.

The first headers of a packet tell how long each of the next ones is (:mod:`msmq.wire.message` lists them). Here that is
computed for all packets of a batch together: the offsets of a header are one column, the values there are another, and
no Python code runs for one message alone, whether messages look alike or not.

Packets of strangers must have been checked before (`UserMessage.decode`): here only the bounds are checked, so that
nothing outside of a packet is ever read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, compress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from msmq.errors import DecodeError
from msmq.wire.headers import NAME_SIZES, USER_CQ, USER_SH, USER_TH, BaseHeader, QueueReference, UserHeader
from msmq.wire.layout import FIXED_SIZE

Numbers = npt.NDArray[np.int64]

_HEADS: Final = np.dtype(
    {
        "names": [
            "base_flags",
            "size",
            "reach_s",
            "source",
            "address",
            "received_s",
            "sent",
            "number",
            "flags",
        ],
        "formats": ["<u2", "<u4", "<u4", "V16", "V16", "<u4", "<u4", "<u4", "<u4"],
        "offsets": [2, 8, 12, 16, 32, 48, 52, 56, 60],
        "itemsize": FIXED_SIZE,
    }
)
"""BaseHeader and the fixed part of UserHeader."""
_PROPERTIES: Final = np.dtype(
    [
        ("flags", "u1"), ("label_length", "u1"), ("message_class", "<u2"), ("correlation_id", "V20"),
        ("body_type", "<u4"), ("application_tag", "<u4"), ("message_size", "<u4"), ("room", "<u4"),
        ("privacy_level", "<u4"), ("hash_algorithm", "<u4"), ("encryption_algorithm", "<u4"),
        ("extension_size", "<u4"),
    ]
)  # fmt: skip
"""MessagePropertiesHeader; ``room`` is AllocationBodySize."""
_SECURITY: Final = np.dtype(
    [
        ("flags", "<u2"),
        ("sender", "<u2"),
        ("key", "<u2"),
        ("signature", "<u2"),
        ("cert", "<u4"),
        ("info", "<u4"),
    ]
)
_TRANSACTION_SIZE: Final = 20
_SIZES: Final = np.array([*NAME_SIZES, 2], np.int64)
"""The bytes of a queue's name by its reference; a direct name has its own length."""
_REFERENCES: Final = (10, 13, 16)
"""The bit positions of Flags.DQ, AQ and RQ."""


def _words(sizes: npt.NDArray[Any]) -> Numbers:
    """Add the padding to four bytes to sizes."""
    return sizes.astype(np.int64) + 3 & ~3


class Stack:
    """Packets that stand one behind the other, less than two gigabytes together."""

    def __init__(self, data: bytes | memoryview, sizes: Numbers) -> None:
        self.data = data
        self.sizes = sizes
        """How long each is."""

    @classmethod
    def of(cls, packets: Sequence[bytes]) -> Stack:
        """Put packets one behind the other."""
        return cls(b"".join(packets), np.fromiter(map(len, packets), np.int64, len(packets)))

    @classmethod
    def joined(cls, stacks: Sequence[Stack]) -> Stack:
        """Put stacks one behind the other."""
        if len(stacks) == 1:
            return stacks[0]
        return cls(b"".join(each.data for each in stacks), np.concatenate([each.sizes for each in stacks]))

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def starts(self) -> Numbers:
        """Where each begins."""
        return np.cumsum(self.sizes) - self.sizes

    def __iter__(self) -> Iterator[bytes]:
        view = memoryview(self.data)
        for start, size in zip(self.starts.tolist(), self.sizes.tolist(), strict=True):
            yield bytes(view[start : start + size])

    def chosen(self, wanted: npt.NDArray[np.bool_]) -> Stack:
        """Return the packets for which ``wanted`` is true."""
        return Stack(b"".join(compress(self, wanted.tolist())), self.sizes[wanted])


class Packets:
    """The packets of some messages, column by column."""

    def __init__(self, stack: Stack) -> None:
        self._lengths, self._starts, self._whole = stack.sizes, stack.starts, stack.data
        self._octets = np.frombuffer(self._whole, np.uint8)
        self._within(np.full(len(stack), FIXED_SIZE))
        self.heads = self._fields(np.zeros(len(stack), np.int64), _HEADS)
        self.flags = self.heads["flags"].astype(np.int64)
        self.user_end = self._names_end()
        self.transactional = (self.flags & USER_TH) != 0
        self.transaction_flags = np.where(
            self.transactional, self._number(self.user_end, 4, self.transactional), 0
        )
        security = self.user_end + self.transactional * _TRANSACTION_SIZE
        security += (self.transaction_flags & 1) * 16
        start = self._read_security(security)
        self._within(start + _PROPERTIES.itemsize)
        self.properties = self._fields(start, _PROPERTIES)
        self._label_start = start + _PROPERTIES.itemsize
        self._extension_start = self._label_start + 2 * self.properties["label_length"].astype(np.int64)
        self._body_start = self._extension_start + self.properties["extension_size"]
        self._within(self._body_start + self.properties["message_size"])

    def __len__(self) -> int:
        return len(self._starts)

    # --- where headers begin ----------------------------------------------------------------------------------------

    def _names_end(self) -> Numbers:
        """Return where each UserHeader ends: after the names of three queues and a connector type."""
        cursor = np.full(len(self), FIXED_SIZE, np.int64)
        for shift in _REFERENCES:
            reference = self.flags >> shift & 7
            direct = reference == QueueReference.DIRECT
            cursor = cursor + _SIZES[reference]
            if direct.any():
                self._within(cursor)
                # The text is padded to four bytes, counted from the start of the UserHeader, which is aligned itself.
                cursor = np.where(direct, _words(cursor + self._number(cursor - 2, 2, direct)), cursor)
        cursor += np.where(self.flags & USER_CQ, 16, 0)
        return cursor

    def _read_security(self, start: Numbers) -> Numbers:
        """Read the claimed senders. Returns where each SecurityHeader ends."""
        signed = (self.flags & USER_SH) != 0
        self.sender_kinds = np.zeros(len(self), np.int64)
        self._sender_start, self._sender_size = start, np.zeros(len(self), np.int64)
        if not signed.any():
            return start
        self._within(start + signed * _SECURITY.itemsize)
        header = self._fields(np.where(signed, start, 0), _SECURITY)
        self.sender_kinds = np.where(signed, header["flags"] & 0xF, 0)
        self._sender_start = start + _SECURITY.itemsize
        self._sender_size = np.where(signed, header["sender"], 0).astype(np.int64)
        size = np.where(signed, _SECURITY.itemsize, 0)
        for name in ("sender", "key", "signature", "cert", "info"):
            size += np.where(signed, _words(header[name]), 0)
        return start + size

    def _within(self, ends: Numbers) -> None:
        """Check that something ends inside of its packet."""
        if (ends > self._lengths).any():
            place = int(np.argmax(ends > self._lengths))
            raise DecodeError(
                f"packet {place} of a batch ends inside a header or its body", int(self._lengths[place])
            )

    # --- what stands there ------------------------------------------------------------------------------------------

    def _fields(self, offsets: Numbers, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        """Read a structure of each packet."""
        if not len(self):
            return np.empty(0, kind)
        pieces = self.cut(offsets, np.full(len(self), kind.itemsize))
        return np.frombuffer(pieces.buffers()[2], kind, len(self))

    def _number(self, offsets: Numbers, size: int, where: npt.NDArray[np.bool_]) -> Numbers:
        """Read a number of ``size`` bytes of some packets; 0 for the others."""
        found = np.zeros(len(self), np.int64)
        if where.any():
            self._within(np.where(where, offsets + size, 0))
            places = (self._starts + offsets)[where]
            for byte in range(size):
                found[where] |= self._octets[places + byte].astype(np.int64) << 8 * byte
        return found

    def cut(self, starts: Numbers, sizes: npt.NDArray[Any]) -> pa.Array:
        """Return a piece of each packet, as binary."""
        count = len(self)
        if not sizes.any():
            return pa.repeat(bytes_of([b""], pa.binary())[0], count)
        edges = np.empty(2 * count, np.int32)
        edges[::2] = self._starts + starts
        edges[1::2] = edges[::2] + sizes
        # Every other piece is what lies between the wanted ones.
        pieces = pa.Array.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(self._whole)]
        )
        return pieces.take(numbers_of(np.arange(0, 2 * count, 2)))

    @property
    def labels(self) -> pa.Array:
        """The labels as they stand, without their terminators."""
        return self.cut(
            self._label_start, np.maximum(2 * self.properties["label_length"].astype(np.int64) - 2, 0)
        )

    @property
    def extensions(self) -> pa.Array:
        return self.cut(self._extension_start, self.properties["extension_size"])

    @property
    def bodies(self) -> pa.Array:
        return self.cut(self._body_start, self.properties["message_size"])

    @property
    def senders(self) -> pa.Array:
        """SecurityID."""
        return self.cut(self._sender_start, self._sender_size)

    @property
    def names(self) -> pa.Array:
        """The UserHeaders without the fields that always differ: everything that decides the names of the queues."""
        fixed = np.zeros(len(self), np.dtype([("source", "V16"), ("address", "V16"), ("flags", "<u4")]))
        for name in ("source", "address"):
            fixed[name] = self.heads[name]
        fixed["flags"] = self.flags & _NAMING
        return pc.binary_join_element_wise(
            column_of(fixed),
            self.cut(np.full(len(self), FIXED_SIZE), self.user_end - FIXED_SIZE),
            bytes_of([b""], pa.binary())[0],
        )


_NAMING: Final = USER_CQ | 0x7FC00
"""Flags that decide how queues are named."""


def user_header(named: bytes) -> UserHeader:
    """Decode a value of :attr:`Packets.names` as the UserHeader of its packet."""
    between = bytes(_HEADS.fields["flags"][1] - BaseHeader.SIZE - 32)  # type: ignore[index]
    flags = int.from_bytes(named[32:36], "little") | _WHOLE
    return UserHeader.read(named[:32] + between + flags.to_bytes(4, "little") + named[36:])[0]


_WHOLE: Final = 1 << 21
"""Flags.MP, which every message has."""


# pa.array and pa.scalar import pandas, which takes each new worker of Spark most of a second.
def bytes_of(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return bytes, or texts in UTF-8, as Arrow has them."""
    present = None
    if None in values:
        present = pa.py_buffer(_bits(np.array([value is not None for value in values], np.bool_)))
    known = [value or b"" for value in values]
    edges = pa.py_buffer(array("i", accumulate(map(len, known), initial=0)))
    return pa.Array.from_buffers(kind, len(values), [present, edges, pa.py_buffer(b"".join(known))])


def texts_of(values: Sequence[str | None]) -> pa.Array:
    """Return texts as Arrow has them. Text of strangers may hold lone surrogates, which Arrow cannot keep: they become
    the replacement character."""
    return bytes_of([None if value is None else whole(value).encode() for value in values], pa.string())


def whole(text: str) -> str:
    """Return a text without lone surrogates."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def numbers_of(values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or truth values as they are, null where ``null`` is true."""
    bits = values.dtype == np.bool_
    held = _bits(values) if bits else np.ascontiguousarray(values)
    present = None if null is None else pa.py_buffer(_bits(~null))
    kind = pa.bool_() if bits else pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(held)])


def _bits(values: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    return np.packbits(values, bitorder="little")


def column_of(values: npt.NDArray[Any]) -> pa.Array:
    """Return values of a fixed size as binary."""
    size, held = values.dtype.itemsize, np.ascontiguousarray(values)
    edges = np.arange(0, (len(values) + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(edges), pa.py_buffer(held)])


def each(values: pa.Array, read: Callable[[Any], Any], made: Callable[[list[Any]], pa.Array]) -> pa.Array:
    """Apply ``read`` to each value, but only once to equal ones."""
    known = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
    found = made([read(value) for value in known.dictionary.to_pylist()])
    return pa.repeat(found[0], len(known)) if len(found) == 1 else found.take(known.indices)
