"""Many records of one size, made in one go.

What a batch has to hold for each of them is the same as for any other record (:mod:`msmq.store.layout`). They are made
in columns, checksums included, without a step of Python for each, and lie in one piece of the batch: a block.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import Final
from zlib import crc32

from msmq.store.layout import HEAD_SIZE, LEAD, RECORD_SIZE, ROW, footprint

FEW: Final = 4
"""Records that are too few for a block."""
_WORD: Final = 4
_ROW_WORDS: Final = ROW.size // _WORD
_KEPT_WORDS: Final = (RECORD_SIZE - 8) // _WORD
"""How much of a record its row begins with: all but size and checksum."""


@lru_cache(maxsize=64)
def _piece(size: int) -> Struct:
    return Struct(f"{size}s")


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cut data into pieces of one size."""
    return chain.from_iterable(_piece(size).iter_unpack(data))


def build_block(kind: int, seed: int, offset: int, fronts: bytes, tails: Sequence[bytes]) -> bytes:
    """Records of a kind from ``offset`` of a segment on, whose checksums start at ``seed``. ``fronts`` has, for each of
    them, the head and the beginning of the payload, and ``tails`` the rest of it, all of one size."""
    count = len(tails)
    width = len(fronts) // count
    size = width - HEAD_SIZE + len(tails[0])
    length = footprint(size)
    seeds = map((seed ^ kind).__xor__, range(offset, offset + count * length, length))
    leads = array("I", bytes(LEAD.size * count))
    leads[0::3] = array("I", (size,)) * count
    leads[1::3] = array("I", map(crc32, tails, map(crc32, pieces(fronts, width), seeds)))
    leads[2::3] = array("I", (kind,)) * count
    if sys.byteorder == "big":
        leads.byteswap()
    padding = repeat(bytes(length - size - RECORD_SIZE))
    parts = zip(pieces(leads.tobytes(), LEAD.size), pieces(fronts, width), tails, padding, strict=False)
    return b"".join(chain.from_iterable(parts))


def block_rows(block: bytes, length: int, address: int) -> bytes:
    """The rows of the index for a block of records of ``length`` bytes each, the first of which has this address."""
    words, step = array("I", block), length // _WORD
    count = len(block) // length
    addresses = array("Q", range(address, address + len(block), length))
    if sys.byteorder == "big":
        addresses.byteswap()
    halves = array("I", addresses.tobytes())
    rows = array("I", bytes(ROW.size * count))
    for word in range(_KEPT_WORDS):
        rows[word::_ROW_WORDS] = words[2 + word :: step]
    rows[_KEPT_WORDS::_ROW_WORDS] = halves[0::2]
    rows[_KEPT_WORDS + 1 :: _ROW_WORDS] = halves[1::2]
    rows[_KEPT_WORDS + 2 :: _ROW_WORDS] = words[0::step]
    return rows.tobytes()
