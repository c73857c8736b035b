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
_HEAD_WORDS: Final = HEAD_SIZE // _WORD


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


def block_rows(kind: int, fronts: bytes, count: int, size: int, address: int) -> bytes:
    """The rows of the index for the records of a block: ``size`` is that of their payloads, ``address`` where the first
    one stands."""
    words, step = array("I", fronts), len(fronts) // (count * _WORD)
    length = footprint(size)
    addresses = array("Q", range(address, address + count * length, length))
    marks, sizes = array("I", (kind,)) * count, array("I", (size,)) * count
    if sys.byteorder == "big":
        for column in (addresses, marks, sizes):
            column.byteswap()
    rows = array("I", bytes(ROW.size * count))
    rows[0::_ROW_WORDS] = marks
    for word in range(_HEAD_WORDS):
        rows[1 + word :: _ROW_WORDS] = words[word::step]
    halves = array("I", addresses.tobytes())
    rows[_ROW_WORDS - 3 :: _ROW_WORDS] = halves[0::2]
    rows[_ROW_WORDS - 2 :: _ROW_WORDS] = halves[1::2]
    rows[_ROW_WORDS - 1 :: _ROW_WORDS] = sizes
    return rows.tobytes()
