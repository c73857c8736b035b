"""Fields of protocol buffers, written without a message around them.

A protobuf message copies the values set in it, and copies them again when it is serialized. Where bodies make up
nearly all of a message, its fields are written here, and the bodies are copied once. The result is what the message
would have serialized to, except for the order of its fields, which has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, groupby, repeat
from typing import Final

_LENGTH_DELIMITED: Final = 2
_LOW_BITS: Final = 0x7F
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
    if max(map(len, inside)) < LARGE_BYTES:
        return [b"".join(inside)]
    found: list[bytes] = []
    for large, group in groupby(inside, lambda part: len(part) >= LARGE_BYTES):
        together = list(group)
        found += together if large else (b"".join(together),)
    return found
