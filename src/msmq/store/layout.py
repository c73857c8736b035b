"""The form of a store on disk. Everything is little-endian; structures start at multiples of 8 bytes.

A store is a directory of these files::

    LOCK          locked by the owning process, whose number is its text
    FORMAT        version and identifier of the store
    00000001.log  segments, oldest first; numbers rise and are never used twice

A segment is preallocated with zeros and only ever appended to. It holds one batch after another; once it is sealed, an
index follows them and the file ends there::

    batch   header of 48 bytes, then records; what one commit wrote, there whole or not at all
    record  size u32 | crc u32 | kind u8 | flags u8 | attributes u16 | head 40 bytes | payload | padding to 8
    index   marker of 8 bytes, then a row of 56 bytes for each record, then a trailer

:func:`segment_seed` says what the checksum of a record covers. It depends on the store's identifier and on the place of
the record, so neither bytes that a stranger put into a message, nor a record that the disk wrote to the wrong place,
can pass for a valid one. For the same reason a batch header names the store and its own address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from msmq.store.checksum import crc32
from msmq.store.errors import NewerFormatError, NotAStoreError

FORMAT_VERSION: Final = 1
FORMAT_FILE: Final = "FORMAT"
LOCK_FILE: Final = "LOCK"

ID_SIZE: Final = 16
HEAD_SIZE: Final = 40
"""Size of the part of a record that recovery returns without reading the payload."""
SECTOR_SIZE: Final = 512
"""What a disk writes whole or not at all. Larger sectors are multiples of it."""
OFFSET_BITS: Final = 32
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

# --- segments -----------------------------------------------------------------------------------------------

_SEGMENT_NAME: Final = re.compile(r"(\d{8,10})\.log")


def segment_name(number: int) -> str:
    return f"{number:08d}.log"


def segment_number(name: str) -> int | None:
    """Return the number of a segment file, or None if ``name`` is not one."""
    match = _SEGMENT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def place(address: int) -> tuple[int, int]:
    """Return the segment number and the offset of an address."""
    return address >> OFFSET_BITS, address & OFFSET_MASK


# --- records ------------------------------------------------------------------------------------------------

RECORD: Final = Struct(f"<IIBBH{HEAD_SIZE}s")
"""Size of the payload, checksum, kind, flags, attributes, head."""
RECORD_SIZE: Final = RECORD.size
LEAD: Final = Struct("<III")
"""The beginning of a record up to its head, with kind, flags and attributes as one number: the marks."""
PASSING: Final = 0x0001
"""Attribute of a record that matters only until everything before it is gone."""
LARGEST_PAYLOAD: Final = 0xFFFF0000
LARGE: Final = 1 << 16
"""From which size on a payload is written and read by itself, so that nothing of it is copied."""


Entry: TypeAlias = tuple[int, int, bytes, int, int]
"""What recovery returns for a record: kind, flags, head, address, size of the payload. It is a plain tuple, because
making named ones takes three times as long, and there may be millions."""


def footprint(payload_size: int) -> int:
    """Return the bytes that a record with such a payload takes."""
    return payload_size + RECORD_SIZE + 7 & ~7


def footprints(payload_sizes: Sequence[int]) -> int:
    """Return the bytes that records with such payloads take together."""
    return sum([size + RECORD_SIZE + 7 & ~7 for size in payload_sizes])


@lru_cache(maxsize=64)
def segment_seed(store_id: bytes, number: int) -> int:
    """Return the start value for the checksums of a segment. For each record its offset and marks are added with
    exclusive or; the checksum covers its head and payload."""
    return crc32(number.to_bytes(4, "little"), crc32(store_id))


# --- batches ------------------------------------------------------------------------------------------------

BATCH_MAGIC: Final = b"MQb\x01"
_BATCH: Final = Struct("<4sI8sQQIIII")
BATCH_HEADER_SIZE: Final = _BATCH.size
_CONTINUED: Final = 0x0001
_ZEROS: Final = bytes(SECTOR_SIZE)
_LONGEST_PADDING: Final = 7
_TAG_SIZE: Final = 8


class BatchHeader(NamedTuple):
    """The header of a batch. Sequence numbers rise by one from batch to batch through the whole log.

    A ``continued`` batch is the first part of a commit that was divided at the end of a segment; it is valid only
    together with the next batch. ``zero_sectors`` distinguishes a body of zeros from one that was never written; it is
    0 in batches of older programs.
    """

    length: int
    sequence: int
    address: int
    record_count: int
    continued: bool
    zero_sectors: int = 0


def pack_batch_header(store_id: bytes, header: BatchHeader) -> bytes:
    fields = (header.length, store_id[:_TAG_SIZE], header.sequence, header.address, header.record_count)
    flags = _CONTINUED if header.continued else 0
    checked = _BATCH.pack(BATCH_MAGIC, *fields, flags, header.zero_sectors, 0)[:-4]
    return checked + crc32(checked).to_bytes(4, "little")


def batch_header_at(data: bytes, offset: int, store_id: bytes, number: int) -> BatchHeader | None:
    """Return the batch header at ``offset`` of a segment's bytes, or None if there is none."""
    end = offset + BATCH_HEADER_SIZE
    if end > len(data):
        return None
    magic, length, tag, sequence, address, count, flags, zeros, crc = _BATCH.unpack_from(data, offset)
    if magic != BATCH_MAGIC or tag != store_id[:_TAG_SIZE] or address != number << OFFSET_BITS | offset:
        return None
    if crc != crc32(data[offset : end - 4]) or length < BATCH_HEADER_SIZE + count * footprint(0):
        return None
    return BatchHeader(length, sequence, address, count, bool(flags & _CONTINUED), zeros)


def zero_sectors(pieces: Iterable[bytes | memoryview], start: int) -> list[int]:
    """Return the sectors that begin within some bytes of a segment and are zero. The bytes come in pieces, one after
    another from an offset on.

    Less than 8 bytes at the end can be padding, which is zero anyway.
    """
    sector = -(-start // SECTOR_SIZE) * SECTOR_SIZE
    before = sector - start
    found: list[int] = []
    begun = b""
    for piece in pieces:
        view = memoryview(piece)[before:]
        before = max(before - len(piece), 0)
        if begun:  # a sector in several pieces
            missing = SECTOR_SIZE - len(begun)
            begun += view[:missing]
            view = view[missing:]
            if len(begun) < SECTOR_SIZE:
                continue
            if begun == _ZEROS:
                found.append(sector)
            sector += SECTOR_SIZE
        whole = len(view) // SECTOR_SIZE * SECTOR_SIZE
        sample = bytes(view[:whole:SECTOR_SIZE])
        number = sample.find(0)
        while number >= 0:
            at = number * SECTOR_SIZE
            if bytes(view[at : at + SECTOR_SIZE]) == _ZEROS:
                found.append(sector + at)
            number = sample.find(0, number + 1)
        sector += whole
        begun = bytes(view[whole:])
    if len(begun) > _LONGEST_PADDING and not any(begun):
        found.append(sector)
    return found


# --- the index of a sealed segment --------------------------------------------------------------------------

INDEX_MARKER: Final = b"MQindex\x01"
ROW: Final = Struct(f"<BB2x{HEAD_SIZE}sQI")
"""A row of the index: a record from its kind to its head, then its address and payload size, as in an Entry."""
_ROW_PIECES: Final = f"{RECORD_SIZE - 8}sQI"
_ROWS_AT_ONCE: Final = 64


@cache
def _rows(count: int) -> Struct:
    return Struct("<" + _ROW_PIECES * count)


def pack_rows(headers: Sequence[bytes], addresses: Sequence[int], sizes: Iterable[int]) -> bytes:
    """Pack the rows of many records. Packing many at once takes a fraction of the time."""
    pieces = list(
        chain.from_iterable(zip([header[8:RECORD_SIZE] for header in headers], addresses, sizes, strict=True))
    )
    if len(headers) <= _ROWS_AT_ONCE:
        return _rows(len(headers)).pack(*pieces)
    step = 3 * _ROWS_AT_ONCE
    parts = (pieces[start : start + step] for start in range(0, len(pieces), step))
    return b"".join([_rows(len(part) // 3).pack(*part) for part in parts])


_TRAILER: Final = Struct("<8s8sIIQQQQIIII")
TRAILER_SIZE: Final = _TRAILER.size
_TRAILER_MAGIC: Final = b"MQseal\x00\x01"


class Trailer(NamedTuple):
    """The end of a sealed segment. It is written only after all batches of the segment are durable."""

    number: int
    record_count: int
    data_end: int
    first_sequence: int
    next_sequence: int
    standing_bytes: int
    standing_records: int
    """Records that were not written as passing; which of them are still live is not on disk."""
    index_crc: int

    @property
    def index_size(self) -> int:
        return len(INDEX_MARKER) + self.record_count * ROW.size


def pack_trailer(store_id: bytes, trailer: Trailer) -> bytes:
    checked = _TRAILER.pack(_TRAILER_MAGIC, store_id[:_TAG_SIZE], *trailer, 0, 0)[:-4]
    return checked + crc32(checked).to_bytes(4, "little")


def parse_trailer(data: bytes, store_id: bytes, number: int, file_size: int) -> Trailer | None:
    """Parse the trailer in the last bytes of a file; None if they are something else."""
    if len(data) != TRAILER_SIZE:
        return None
    magic, tag, *fields, _, crc = _TRAILER.unpack(data)
    trailer = Trailer._make(fields)
    if magic != _TRAILER_MAGIC or tag != store_id[:_TAG_SIZE] or crc != crc32(data[:-4]):
        return None
    if trailer.number != number or trailer.data_end + trailer.index_size + TRAILER_SIZE != file_size:
        return None
    return trailer


# --- the FORMAT file ----------------------------------------------------------------------------------------

_FORMAT_TEXT: Final = "msmq store\nformat {version}\nid {id}\n"


def format_text(store_id: bytes) -> bytes:
    text = _FORMAT_TEXT.format(version=FORMAT_VERSION, id=store_id.hex()).encode()
    return text + b"check %08x\n" % crc32(text)


def parse_format(data: bytes, where: str) -> bytes:
    """Return the store's identifier. The version is checked first, because a newer format may have other lines after
    it."""
    start = re.match(rb"msmq store\nformat (\d{1,9})\n", data)
    if not start:
        raise NotAStoreError(f"{where} is not a store: its {FORMAT_FILE} file says something else.")
    if int(start[1]) > FORMAT_VERSION:
        raise NewerFormatError(where, int(start[1]), FORMAT_VERSION)
    identifier = re.match(rb"id ([0-9a-f]{32})\n", data[start.end() :])
    store_id = bytes.fromhex(identifier[1].decode()) if identifier else b""
    if format_text(store_id) != data:
        raise NotAStoreError(
            f"The {FORMAT_FILE} file of {where} is damaged; put back a copy of it, its lines never change."
        )
    return store_id
