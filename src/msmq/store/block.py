"""Make many records in one go.

They have the same form as any other record (:mod:`msmq.store.layout`), but are made column by column, including their
checksums, and form one piece of the batch: a block.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import xor
from struct import Struct
from typing import Final

from msmq.store.checksum import crc32
from msmq.store.layout import HEAD_SIZE, LEAD, RECORD_SIZE, ROW

_WORD: Final = 4
_ROW_WORDS: Final = ROW.size // _WORD
_HEAD_WORDS: Final = HEAD_SIZE // _WORD
_PADDING: Final = tuple(bytes(length) for length in range(8))


@lru_cache(maxsize=64)
def _piece(size: int) -> Struct:
    return Struct(f"{size}s")


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cut data into pieces of one size."""
    return chain.from_iterable(_piece(size).iter_unpack(data))


def build_block(
    marks: int, seed: int, offsets: Sequence[int], fronts: bytes, tails: Sequence[bytes], sizes: Sequence[int]
) -> bytes:
    """Build records with the same marks that follow each other at ``offsets`` of a segment whose checksums start at
    ``seed``.

    ``fronts`` holds, for each record, the head and the beginning of the payload, with the same length for all;
    ``tails`` holds the rest. ``sizes`` are those of the whole payloads.
    """
    width = len(fronts) // len(tails)
    leads = array("I", bytes(LEAD.size * len(tails)))
    leads[0::3] = array("I", sizes)
    leads[1::3] = array(
        "I",
        map(crc32, tails, map(crc32, pieces(fronts, width), map(xor, offsets, (seed ^ marks,) * len(tails)))),
    )
    leads[2::3] = array("I", (marks,)) * len(tails)
    if sys.byteorder == "big":
        leads.byteswap()
    padding = [_PADDING[-(size + RECORD_SIZE) & 7] for size in sizes]
    parts = zip(pieces(leads.tobytes(), LEAD.size), pieces(fronts, width), tails, padding, strict=True)
    return b"".join(chain.from_iterable(parts))


def block_rows(marks: int, fronts: bytes, sizes: Sequence[int], addresses: Sequence[int]) -> bytes:
    """Build the index rows for the records of a block; ``sizes`` are those of their payloads."""
    count = len(sizes)
    words, step = array("I", fronts), len(fronts) // (count * _WORD)
    halves_of = array("Q", addresses)
    marks_of, lengths = array("I", (marks,)) * count, array("I", sizes)
    if sys.byteorder == "big":
        for column in (halves_of, marks_of, lengths):
            column.byteswap()
    rows = array("I", bytes(ROW.size * count))
    rows[0::_ROW_WORDS] = marks_of
    for word in range(_HEAD_WORDS):
        rows[1 + word :: _ROW_WORDS] = words[word::step]
    halves = array("I", halves_of.tobytes())
    rows[_ROW_WORDS - 3 :: _ROW_WORDS] = halves[0::2]
    rows[_ROW_WORDS - 2 :: _ROW_WORDS] = halves[1::2]
    rows[_ROW_WORDS - 1 :: _ROW_WORDS] = lengths
    return rows.tobytes()
