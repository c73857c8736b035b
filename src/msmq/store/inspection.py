"""Inspect a store without opening it for work: what is in it, and whether all of it is sound. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msmq.store.disk import Disk, DiskFile
from msmq.store.errors import NotAStoreError
from msmq.store.identity import read_store_id
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    FORMAT_VERSION,
    LOCK_FILE,
    Trailer,
    segment_name,
    segment_number,
)
from msmq.store.scan import UNKNOWN, Damage, Scan, TornTail, read_bytes, read_index, read_trailer, scan


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One file of the log."""

    name: str
    file_bytes: int
    sealed: bool
    first_sequence: int | None
    next_sequence: int | None
    records: int
    record_bytes: int
    """Bytes in use; the rest of the file is index or preallocated."""
    standing_records: int
    standing_bytes: int
    """Records that were not written as passing. Only the owner of the store knows which of them are still live."""

    @property
    def batches(self) -> int:
        return (self.next_sequence or 0) - (self.first_sequence or 0)

    @property
    def passing_bytes(self) -> int:
        return self.record_bytes - self.batches * BATCH_HEADER_SIZE - self.standing_bytes


@dataclass(slots=True)
class Inspection:
    """The results of an inspection, with the oldest segment first."""

    where: str
    store_id: bytes
    format_version: int = FORMAT_VERSION
    segments: list[SegmentInfo] = field(default_factory=list)
    torn: list[TornTail] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        """The number of the last batch; 0 if there is none."""
        return max((segment.next_sequence or 1 for segment in self.segments), default=1) - 1


def inspect(
    disk: Disk, *, thorough: bool = False, progress: Callable[[int, int], None] = lambda done, total: None
) -> Inspection:
    """Inspect all segments; with ``thorough`` every byte is read and every checksum verified.

    ``progress`` is called with the bytes done and the bytes in total. The store is locked meanwhile, so no other
    process may use it.
    """
    store_id = read_store_id(disk)
    if store_id is None:
        raise NotAStoreError(f"{disk.where} is not a store: it has no FORMAT file.")
    disk.lock(LOCK_FILE)
    try:
        return _inspect(disk, store_id, thorough, progress)
    finally:
        disk.unlock()


def _inspect(disk: Disk, store_id: bytes, thorough: bool, progress: Callable[[int, int], None]) -> Inspection:
    result = Inspection(disk.where, store_id)
    numbers = sorted(filter(None, map(segment_number, disk.names())))
    files = {number: disk.open(segment_name(number)) for number in numbers}
    total = sum(file.size() for file in files.values())
    done = 0
    following: int | None = None
    try:
        # Newest first: whether a batch is torn or damaged depends on what follows it.
        for number in reversed(numbers):
            file = files[number]
            info = _look(file, store_id, number, following, thorough, result)
            result.segments.insert(0, info)
            if info.first_sequence is not None:
                following = info.first_sequence
            elif info.records:
                following = UNKNOWN
            done += file.size()
            progress(done, total)
    finally:
        for file in files.values():
            file.close()
    result.torn.reverse()
    result.damaged.sort(key=lambda damage: (damage.file, damage.offset))
    _report_gaps(result)
    return result


def _look(
    file: DiskFile, store_id: bytes, number: int, following: int | None, thorough: bool, result: Inspection
) -> SegmentInfo:
    trailer = read_trailer(file, store_id, number)
    if trailer is not None and not thorough:
        return _from_trailer(file, trailer)
    if trailer is None:
        found = scan(read_bytes(file, file.size(), 0), store_id, number, following)
    else:
        # The trailer says that every batch was durable, so whatever is wrong is damage.
        found = scan(read_bytes(file, trailer.data_end, 0), store_id, number, trailer.next_sequence)
        if read_index(file, trailer) is None:
            reason = "the index does not have its checksum"
            result.damaged.append(Damage(found.name, trailer.data_end, trailer.index_size, reason))
        elif found.records < trailer.record_count and not found.damaged:
            reason = "records of the index are missing"
            result.damaged.append(Damage(found.name, 0, trailer.data_end, reason))
    if found.torn is not None:
        result.torn.append(found.torn)
    result.damaged += found.damaged
    return _from_scan(file, found, sealed=trailer is not None)


def _from_trailer(file: DiskFile, trailer: Trailer) -> SegmentInfo:
    return SegmentInfo(
        segment_name(trailer.number),
        file.size(),
        True,
        trailer.first_sequence,
        trailer.next_sequence,
        trailer.record_count,
        trailer.data_end,
        trailer.standing_records,
        trailer.standing_bytes,
    )


def _from_scan(file: DiskFile, found: Scan, *, sealed: bool) -> SegmentInfo:
    return SegmentInfo(
        found.name,
        file.size(),
        sealed,
        found.first_sequence,
        found.next_sequence,
        found.records,
        found.data_end,
        found.standing_records,
        found.standing_bytes,
    )


def _report_gaps(result: Inspection) -> None:
    expected: int | None = None
    for segment in result.segments:
        if segment.first_sequence is None or segment.next_sequence is None:
            expected = None if segment.records else expected
            continue
        if expected is not None and segment.first_sequence > expected:
            reason = f"batches {expected} to {segment.first_sequence - 1} are missing before this file"
            result.damaged.append(Damage(segment.name, 0, 0, reason))
        expected = segment.next_sequence
