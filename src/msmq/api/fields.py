"""Fields of protocol buffers, written and read without a message around them.

A protobuf message copies the values set in it, and copies them again when it is serialized. Where bodies make up
nearly all of a message, its fields are written here, and the bodies are copied once. The result is what the message
would have serialized to, except for the order of its fields, which has no meaning. In the same way large bodies are
taken out of a request before the rest of it is parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.pieces import gathered

_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_LOW_BITS: Final = 0x7F
_LONGEST_VARINT: Final = 10
_MOST_FIELDS: Final = 1 << 14
"""More fields than that are left to the parser, which is much faster with them."""
LARGE_BYTES: Final = 1 << 16
"""From which size on bytes had better not be copied to put something in front of them."""


@lru_cache(maxsize=1 << 14)
def lead(field: int, size: int) -> bytes:
    """The prefix of a field of bytes or of a nested message: its field number and its size."""
    made = bytearray((field << 3 | _LENGTH_DELIMITED,))
    while size > _LOW_BITS:
        made.append(size & _LOW_BITS | ~_LOW_BITS & 0xFF)
        size >>= 7
    made.append(size)
    return bytes(made)


def repeated(field: int, values: Sequence[bytes]) -> list[bytes]:
    """A repeated field of bytes, in parts that are to be joined."""
    return list(chain.from_iterable(zip(map(lead, repeat(field), map(len, values)), values, strict=True)))


def within(field: int, parts: Iterable[bytes]) -> list[bytes]:
    """A message whose only field is a message, of which these are the parts. It is in parts, too: small ones are put
    together, and large ones are what was given."""
    inside = list(parts)
    inside.insert(0, lead(field, sum(map(len, inside))))
    return gathered(inside, LARGE_BYTES)


def apart(data: bytes, *path: int) -> tuple[bytes, list[memoryview]]:
    """Take the values of a repeated field of bytes out of a serialized message, without copying them. ``path`` are the
    numbers of the fields that lead to it, through messages within messages. Returns the message without them, and the
    values. If the first of them is not large, the message has very many fields or cannot be read, all of it stays as it
    is."""
    values: list[memoryview] = []
    if len(data) < LARGE_BYTES:
        return data, values
    try:
        return _without(memoryview(data), path, values, iter(range(_MOST_FIELDS))), values
    except (_LeaveError, IndexError):
        return data, []


def fields_in(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields of a serialized message that have a length: their numbers and their values, not copied. Raises
    DecodeError if it is none."""
    try:
        for field, _, value, end in _fields(data):
            if value is not None:
                yield field, data[value:end]
    except (_LeaveError, IndexError):
        raise DecodeError("no message of protocol buffers") from None


class _LeaveError(Exception):
    """The message is better left as it is."""


def _without(data: memoryview, path: Sequence[int], values: list[memoryview], fields: Iterator[int]) -> bytes:
    """A serialized message without the field at ``path``, whose values are added to ``values``. Each field that is
    looked at takes one of ``fields``."""
    kept: list[bytes | memoryview] = []
    for field, start, value, end in _fields(data):
        if next(fields, None) is None:
            raise _LeaveError
        if value is None or field != path[0]:
            kept.append(data[start:end])
        elif len(path) > 1:
            inner = _without(data[value:end], path[1:], values, fields)
            kept += (lead(path[0], len(inner)), inner)
        elif values or end - value >= LARGE_BYTES:
            values.append(data[value:end])
        else:
            raise _LeaveError
    return b"".join(kept)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the number of each field, where it begins, where its value begins if that has a length, and where it
    ends."""
    start = 0
    while start < len(data):
        tag, value = _varint(data, start)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, value = _varint(data, value)
            end = value + size
        elif kind == _VARINT:
            _, end = _varint(data, value)
        elif kind in (_FIXED_32, _FIXED_64):
            end = value + (8 if kind == _FIXED_64 else 4)
        else:
            raise _LeaveError
        if end > len(data):
            raise _LeaveError
        yield tag >> 3, start, value if kind == _LENGTH_DELIMITED else None, end
        start = end


def _varint(data: memoryview, start: int) -> tuple[int, int]:
    """A number, and where the bytes behind it begin."""
    number = 0
    for place in range(_LONGEST_VARINT):
        byte = data[start + place]
        number |= (byte & _LOW_BITS) << 7 * place
        if byte <= _LOW_BITS:
            return number, start + place + 1
    raise _LeaveError
