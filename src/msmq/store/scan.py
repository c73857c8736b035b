"""Read a whole segment: what is in it, what was torn off, what is damaged.

How the end of the log is told from damage
------------------------------------------
A batch is written in one piece and synced before anything later is written. So when *anything* valid follows
a batch, here or in a later segment, the batch was durable, and what is wrong with it now is damage: it costs
the records that fail their checksums and no others. Sequence numbers tell whether something valid follows.

Only the last batch of the log can be incomplete because of a power failure. Segments are new files full of zeros, so of
a torn batch each sector is either written or still zero. When the last batch has bad records and one of them lies on a
sector that is still zero (or beyond the end of the file), the batch is a torn tail and is dropped whole. When all its
sectors were written, bits have flipped, which is damage again. Messages may contain zeros themselves; so the header
says how many sectors of the batch were zero when it was written.

The same holds for a damaged batch header: its records are found by their own checksums.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Final

from msmq.store.checksum import crc32
from msmq.store.disk import DiskFile
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    BATCH_MAGIC,
    INDEX_MARKER,
    LEAD,
    OFFSET_BITS,
    PASSING,
    RECORD_SIZE,
    SECTOR_SIZE,
    TRAILER_SIZE,
    BatchHeader,
    Trailer,
    batch_header_at,
    footprint,
    pack_rows,
    parse_trailer,
    segment_name,
    segment_seed,
    zero_sectors,
)

_LEAD_SIZE: Final = LEAD.size
_NOTHING: Final = bytes(8)
_ZEROS: Final = bytes(1 << 16)
_UNREADABLE: Final = b"\xff"
UNKNOWN: Final = 1 << 64
"""Replaces a sequence number: batches follow, but none of their headers can be read."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not what was written there."""

    file: str
    offset: int
    length: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file} at offset {self.offset}, {self.length} bytes: {self.reason}"


@dataclass(frozen=True, slots=True)
class TornTail:
    """The beginning of a batch that was being written when the power failed; nobody was told that it was durable."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file} at offset {self.offset}: the last batch is incomplete and was dropped"


@dataclass(slots=True)
class Scan:
    """The content of a segment."""

    number: int
    rows: bytearray = field(default_factory=bytearray)
    """A row of the index for each good record."""
    records: int = 0
    standing_records: int = 0
    standing_bytes: int = 0
    batches: int = 0
    first_sequence: int | None = None
    next_sequence: int | None = None
    """Both are None as long as no batch header could be read."""
    last_batch: int = 0
    """Where the last batch starts; :attr:`data_end` is where it ends."""
    data_end: int = 0
    torn: TornTail | None = None
    damaged: list[Damage] = field(default_factory=list)

    @property
    def name(self) -> str:
        return segment_name(self.number)


@dataclass(slots=True)
class _Records:
    """The good records of a region, and the bad stretches between them."""

    rows: bytearray = field(default_factory=bytearray)
    count: int = 0
    standing_records: int = 0
    standing_bytes: int = 0
    bad: list[tuple[int, int]] = field(default_factory=list)


class _Reader:
    """Reads the bytes of one segment."""

    def __init__(self, data: bytes, store_id: bytes, number: int) -> None:
        self.data = data
        self.base = number << OFFSET_BITS
        self._store_id = store_id
        self._number = number
        self._seed = segment_seed(store_id, number)

    def header_at(self, offset: int) -> BatchHeader | None:
        return batch_header_at(self.data, offset, self._store_id, self._number)

    def next_header(self, offset: int) -> BatchHeader | None:
        """Return the first batch header at or after ``offset``."""
        while (offset := self.data.find(BATCH_MAGIC, offset)) >= 0:
            header = self.header_at(offset)
            if header is not None:
                return header
            offset += 1
        return None

    def record_end(self, offset: int, limit: int) -> int:
        """Return where the good record at ``offset`` ends, with its padding; 0 if there is none."""
        if offset + RECORD_SIZE > limit:
            return 0
        size, crc, marks = LEAD.unpack_from(self.data, offset)
        if offset + footprint(size) > limit:
            return 0
        checked = self.data[offset + _LEAD_SIZE : offset + RECORD_SIZE + size]
        if crc32(checked, self._seed ^ offset ^ marks) != crc:
            return 0
        return offset + footprint(size)

    def records(self, start: int, end: int) -> _Records:
        """Find all good records between two offsets. After a bad one the next is searched at every 8 bytes."""
        found = _Records()
        offset = start
        while offset < end:
            stop = self.record_end(offset, end)
            if stop:
                self._keep(found, offset, stop)
                offset = stop
            else:
                bad, offset = offset, self._next_record(offset, end)
                found.bad.append((bad, offset))
        return found

    def _keep(self, found: _Records, offset: int, stop: int) -> None:
        size, _, marks = LEAD.unpack_from(self.data, offset)
        found.rows += pack_rows([self.data[offset : offset + RECORD_SIZE]], [self.base | offset], [size])
        found.count += 1
        if not marks >> 16 & PASSING:
            found.standing_records += 1
            found.standing_bytes += stop - offset

    def _next_record(self, offset: int, end: int) -> int:
        # Most often only the payload is damaged, and the size still tells where the next record starts.
        if offset + RECORD_SIZE <= end:
            claimed = offset + footprint(LEAD.unpack_from(self.data, offset)[0])
            if claimed == end or (claimed < end and self.record_end(claimed, end)):
                return claimed
        data = self.data
        for candidate in range(offset + 8, end - RECORD_SIZE + 1, 8):
            if data[candidate : candidate + 8] != _NOTHING and self.record_end(candidate, end):
                return candidate
        return end

    def was_written(self, offset: int, header: BatchHeader, bad: list[tuple[int, int]]) -> bool:
        """True if every sector of a batch was written: no more of them are zero now than then."""
        start, end = offset + BATCH_HEADER_SIZE, offset + header.length
        if end > len(self.data):
            return False
        zeros = zero_sectors((memoryview(self.data)[start:end],), start)
        under_bad = sum(
            any(sector < stop and begin < sector + SECTOR_SIZE for begin, stop in bad) for sector in zeros
        )
        # The other zero sectors are sound, by the checksums of their records.
        return under_bad <= max(0, header.zero_sectors - (len(zeros) - under_bad))


def _is_zero(data: bytes, start: int, stop: int) -> bool:
    pieces = range(start, stop - len(_ZEROS) + 1, len(_ZEROS))
    rest = start + len(pieces) * len(_ZEROS)
    return all(data.startswith(_ZEROS, piece) for piece in pieces) and not any(data[rest:stop])


def scan(data: bytes, store_id: bytes, number: int, following: int | None) -> Scan:
    """Read all batches of a segment.

    ``following`` is the sequence number of the first batch that is known to have been written after this
    segment: None if there is none, UNKNOWN if its header cannot be read.
    """
    reader = _Reader(data, store_id, number)
    result = Scan(number)
    offset = 0
    while offset < len(data):
        header = reader.header_at(offset)
        if header is not None:
            if not _take_batch(reader, result, offset, header, following):
                break
            offset += header.length
            continue
        successor = reader.next_header(offset)
        if successor is None:
            _judge_remainder(reader, result, offset, following)
            break
        stop = successor.address - reader.base
        _salvage(reader, result, offset, stop, "a batch header is damaged")
        offset = stop
    return result


def _take_batch(
    reader: _Reader, result: Scan, offset: int, header: BatchHeader, following: int | None
) -> bool:
    """Add a batch to the result. Returns False if it is the torn tail."""
    end = offset + header.length
    found = reader.records(offset + BATCH_HEADER_SIZE, min(end, len(reader.data)))
    whole = found.count == header.record_count and not found.bad and end <= len(reader.data)
    if not whole or header.continued:
        successor = reader.next_header(end)
        later = following if successor is None else successor.sequence
        last = later is None or later <= header.sequence
        if last and (header.continued or not reader.was_written(offset, header, found.bad)):
            result.torn = TornTail(result.name, offset)
            return False
    _add(result, found)
    for start, stop in found.bad:
        _report(result, start, stop, "a record does not have its checksum")
    if end > len(reader.data):
        _report(result, len(reader.data), end, "the file is too short")
    result.batches += 1
    if result.first_sequence is None:
        result.first_sequence = header.sequence
    result.next_sequence = header.sequence + 1
    result.last_batch, result.data_end = offset, end
    return True


def _judge_remainder(reader: _Reader, result: Scan, offset: int, following: int | None) -> None:
    """Judge what follows the last valid batch: free space, an index, a torn batch, or a damaged one."""
    data = reader.data
    if data.startswith(INDEX_MARKER, offset) or _is_zero(data, offset, len(data)):
        return
    if following is not None:
        # No batch is missing: this is the rest of an index that was never synced.
        if result.next_sequence is not None and following <= result.next_sequence:
            return
        _salvage(reader, result, offset, len(data), "a batch header is damaged")
        if following != UNKNOWN:
            result.next_sequence = following
    elif _header_was_written(reader, offset):
        _salvage(reader, result, offset, len(data), "the last batch header is damaged")
        if result.next_sequence is not None:
            result.next_sequence += 1
    else:
        result.torn = TornTail(result.name, offset)


def _header_was_written(reader: _Reader, offset: int) -> bool:
    """True if none of the sectors under a header is still zero."""
    data, end = reader.data, offset + BATCH_HEADER_SIZE
    for sector in range(offset // SECTOR_SIZE * SECTOR_SIZE, end, SECTOR_SIZE):
        start, stop = max(sector, offset), min(sector + SECTOR_SIZE, len(data))
        if stop - start >= 8 and _is_zero(data, start, stop):
            return False
    return end <= len(data)


def _salvage(reader: _Reader, result: Scan, start: int, stop: int, reason: str) -> None:
    found = reader.records(start, stop)
    _add(result, found)
    for bad_start, bad_stop in found.bad:
        _report(result, bad_start, bad_stop, reason)
        reason = "a record does not have its checksum"
    result.batches += 1
    result.last_batch, result.data_end = start, stop


def _add(result: Scan, found: _Records) -> None:
    result.rows += found.rows
    result.records += found.count
    result.standing_records += found.standing_records
    result.standing_bytes += found.standing_bytes


def _report(result: Scan, start: int, stop: int, reason: str) -> None:
    result.damaged.append(Damage(result.name, start, stop - start, reason))


# --- the index ----------------------------------------------------------------------------------------------


def read_trailer(file: DiskFile, store_id: bytes, number: int) -> Trailer | None:
    """Return the trailer of a segment, or None if it is not sealed."""
    size = file.size()
    data = read_bytes(file, TRAILER_SIZE, size - TRAILER_SIZE) if size >= TRAILER_SIZE else b""
    return parse_trailer(data, store_id, number, size)


def read_index(file: DiskFile, trailer: Trailer) -> bytes | None:
    """Return the rows of a sealed segment, or None if the index is damaged."""
    return index_rows(read_bytes(file, trailer.index_size, trailer.data_end), trailer)


def read_bytes(file: DiskFile, size: int, offset: int) -> bytes:
    """Read a part of a segment. Sectors that the disk cannot read are filled with something that is no zero: they were
    written, so what is missing there is damage and no torn tail."""
    try:
        return file.pread(size, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    middle = (offset + size // 2) // SECTOR_SIZE * SECTOR_SIZE
    if middle <= offset:
        middle = (offset // SECTOR_SIZE + 1) * SECTOR_SIZE
    if middle >= offset + size:
        return _UNREADABLE * size
    return read_bytes(file, middle - offset, offset) + read_bytes(file, offset + size - middle, middle)


def index_rows(index: bytes, trailer: Trailer) -> bytes | None:
    """Return the rows in the bytes of an index, or None if they are damaged."""
    if len(index) != trailer.index_size or crc32(index) != trailer.index_crc:
        return None
    return index[len(INDEX_MARKER) :]
