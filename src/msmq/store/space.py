"""The segments of the log: create, grow, shrink and delete them.

One segment, the *active* one, is being filled, and while the disk has room there is an empty *spare* after it. On a
full disk the spare is reserved for deletions: messages are refused as soon as no new spare can be made, but the records
which say that messages are gone may fill it, until segments become free and a new spare can be made.

Segments are deleted strictly oldest first. A record which says that another one is dead comes later in the log; so it
outlives that one, and may simply be deleted with its own segment.

Sizes double from segment to segment while the log grows, up to a limit, so that a small store is small and a
large one has few files.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass

from msmq.store.disk import Disk, DiskFile
from msmq.store.errors import StoreFullError
from msmq.store.layout import BATCH_HEADER_SIZE, OFFSET_MASK, segment_name
from msmq.store.segment import Segment

NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OPEN_FILES = 64


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store uses its disk."""

    smallest_segment_bytes: int = 1 << 20
    largest_segment_bytes: int = 1 << 26
    limit_bytes: int | None = None
    """The most bytes that segments may take; None leaves the limit to the file system. Indexes add a few per cent."""
    largest_batch_bytes: int = 1 << 22
    """A batch with so many bytes gets no more. What comes while others are written would otherwise make the next batch
    ever larger, and everybody would have to wait for the last byte of it."""
    clean_above: float = 0.5
    """Live records are copied out of old segments when more than this share of them is dead."""

    def __post_init__(self) -> None:
        if not 4096 <= self.smallest_segment_bytes <= self.largest_segment_bytes <= 1 << 30:
            raise ValueError("segments have between 4 KiB and 1 GiB, and the smallest is not the largest")
        if not 0 < self.clean_above < 1:
            raise ValueError("clean_above is a share between 0 and 1")


class Space:
    """All segments of a store, oldest first."""

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self.disk = disk
        self.options = options
        self.segments: dict[int, Segment] = {}
        """Every segment that holds batches, including the active one."""
        self.active: Segment | None = None
        self.spare: Segment | None = None
        self._next_number = 1
        self._readers: dict[int, DiskFile] = {}

    # --- overview -------------------------------------------------------------------------------------------

    @property
    def disk_bytes(self) -> int:
        """The bytes that the segments take on disk, including the spare."""
        total = sum(segment.size for segment in self.segments.values())
        return total + (self.spare.size if self.spare else 0)

    def add(self, segment: Segment) -> None:
        self.segments[segment.number] = segment
        self.skip_numbers(segment.number)

    def skip_numbers(self, number: int) -> None:
        """Note that ``number`` was in use: later segments get higher ones."""
        self._next_number = max(self._next_number, number + 1)

    def fitting_size(self, at_least: int = 0) -> int:
        """Return the segment size that suits the live part of the log: an eighth of it, as a power of two."""
        live = sum(segment.live_bytes for segment in self.segments.values())
        size = max(at_least, 1 << (live // 8).bit_length(), self.options.smallest_segment_bytes)
        return min(size, self.options.largest_segment_bytes)

    # --- the next segment -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the first segment to write to, and a spare, if the disk has room for them."""
        with suppress(StoreFullError):
            self.ensure_spare()
            self.advance(keep_spare=False)
            self.ensure_spare()

    def ensure_spare(self, needed: int = 0) -> None:
        """Make sure that the spare takes ``needed`` bytes of records, or raise StoreFullError."""
        needed += BATCH_HEADER_SIZE
        if needed > OFFSET_MASK:
            raise StoreFullError(f"{needed} bytes are more than one segment can hold.")
        if self.spare is None:
            grown = 2 * self.active.size if self.active is not None else 0
            self.spare = self._create(self.fitting_size(grown), needed)
        elif self.spare.size < needed:
            self._check_limit(needed - self.spare.size)
            try:
                self.spare.writable().allocate(needed)
            except OSError as error:
                raise self._refusal(needed, error) from error
            self.spare.size = needed

    def advance(self, *, keep_spare: bool) -> Segment:
        """Make the spare the active segment. With ``keep_spare`` this happens only if another spare can be made;
        otherwise StoreFullError is raised."""
        assert self.spare is not None
        following = self._create(self.fitting_size(2 * self.spare.size)) if keep_spare else None
        active, self.active, self.spare = self.spare, self.spare, following
        self.add(active)
        return active

    def shrink_spare(self, size: int) -> None:
        if self.spare is not None:
            self.shrink(self.spare, size)

    def shrink(self, segment: Segment, size: int) -> None:
        """Make a segment smaller that holds no batch yet."""
        if segment.size > size:
            segment.writable().truncate(size)
            segment.size = size

    def _create(self, preferred: int, needed: int = 0) -> Segment:
        """Make a new segment of the preferred size, or a smaller one if the disk has no room for that."""
        floor = max(needed, self.options.smallest_segment_bytes)
        size = max(floor, preferred)
        while True:
            try:
                self._check_limit(size)
                return self._allocate(size)
            except StoreFullError:
                if size == floor:
                    raise
            size = max(floor, size // 2)

    def _allocate(self, size: int) -> Segment:
        number = self._next_number
        name = segment_name(number)
        file = self.disk.open(name, create=True)
        try:
            file.allocate(size)
        except OSError as error:
            file.close()
            self.disk.unlink(name)
            raise self._refusal(size, error) from error
        # The name must be durable before anything in the file is called durable.
        self.disk.sync_directory()
        self._next_number = number + 1
        return Segment(number, size, file=file)

    def _check_limit(self, more: int) -> None:
        limit = self.options.limit_bytes
        if limit is not None and self.disk_bytes + more > limit:
            raise StoreFullError(
                f"{self.disk.where} takes {self.disk_bytes} bytes, needs {more} more, and may take {limit}: "
                "receive or purge messages, or raise limit_bytes."
            )

    def _refusal(self, needed: int, error: OSError) -> StoreFullError:
        """Return the error for a full disk; any other error is raised again."""
        if error.errno not in NO_SPACE_ERRORS:
            raise error
        return StoreFullError(
            f"{self.disk.where} needs {needed} bytes more, and its file system has "
            f"{self.disk.free_bytes()} free: "
            "receive or purge messages, free space there, or move the store to a larger file system."
        )

    # --- deleting -------------------------------------------------------------------------------------------

    def free_oldest(self, durable: int | None, most: int) -> int:
        """Delete up to ``most`` of the oldest segments that hold nothing live. Returns how many were deleted.

        ``durable`` is the sequence number of the last durable batch, or None if all batches are durable.
        """
        count = 0
        while count < most and self.segments:
            oldest = next(iter(self.segments.values()))
            if not oldest.closed or oldest.live_records > 0:
                break
            if durable is not None and oldest.barrier > durable:
                break
            self.close_reader(oldest.number)
            # In this order: if a later segment went and an earlier one came back after a crash, the records that
            # say what is dead in the earlier one would be missing.
            self.disk.remove(oldest.name)
            del self.segments[oldest.number]
            count += 1
        return count

    def discard(self, segment: Segment) -> None:
        """Delete a segment that holds no batch."""
        segment.writable().close()
        segment.file = None  # whatever happens next, it is not closed again
        self.segments.pop(segment.number, None)
        self.disk.unlink(segment.name)
        self.disk.sync_directory()

    # --- reading --------------------------------------------------------------------------------------------

    def reader(self, segment: Segment) -> DiskFile:
        """Return a file for reading the segment. Only some files are kept open: a large store has more segments than a
        process may open files."""
        if segment.file is not None:
            return segment.file
        file = self._readers.pop(segment.number, None)
        if file is None:
            if len(self._readers) >= _OPEN_FILES:
                self.close_reader(next(iter(self._readers)))
            file = self.disk.open(segment.name)
        self._readers[segment.number] = file
        return file

    def close_reader(self, number: int) -> None:
        file = self._readers.pop(number, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        for number in list(self._readers):
            self.close_reader(number)
        for segment in (*self.segments.values(), self.spare):
            if segment is not None and segment.file is not None:
                segment.file.close()
                segment.file = None
