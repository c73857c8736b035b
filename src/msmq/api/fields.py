"""Fields of protocol buffers, written without a message around them.

A protobuf message copies the values set in it, and copies them again when it is serialized. Where bodies make up
nearly all of a message, its fields are written here, and the bodies are copied once. The result is what the message
would have serialized to, except for the order of its fields, which has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, repeat
from typing import Final

_LENGTH_DELIMITED: Final = 2
_LOW_BITS: Final = 0x7F


@lru_cache(maxsize=1 << 12)
def lead(field: int, size: int) -> bytes:
    """The prefix of a field of bytes or of a nested message: its field number and its size."""
    made = bytearray((field << 3 | _LENGTH_DELIMITED,))
    while size > _LOW_BITS:
        made.append(size & _LOW_BITS | ~_LOW_BITS & 0xFF)
        size >>= 7
    made.append(size)
    return bytes(made)


def repeated(field: int, values: list[bytes]) -> list[bytes]:
    """A repeated field of bytes, as parts to be joined."""
    return list(chain.from_iterable(zip(map(lead, repeat(field), map(len, values)), values, strict=True)))


def within(field: int, parts: Iterable[bytes]) -> bytes:
    """A message with one field, which is a message made of these parts."""
    inside = list(parts)
    return b"".join((lead(field, sum(map(len, inside))), *inside))
