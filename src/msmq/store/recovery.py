"""Recover the state of the log after a restart, clean or not.

Sealed segments are read by their index; the bodies of their records are not touched. The others, normally only the one
that was active when the process ended, are scanned (see :mod:`msmq.store.scan`) and sealed, so that nothing is ever
appended behind a torn tail and no address is used twice. Files without anything valid are deleted.

A killed process leaves batches in the page cache that were never synced. They are read like any others, so they are
synced here before anything relies on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from errno import EIO

from msmq.store.layout import Trailer, segment_number
from msmq.store.scan import UNKNOWN, Damage, Scan, TornTail, read_bytes, read_index, read_trailer, scan
from msmq.store.segment import Segment
from msmq.store.space import NO_SPACE_ERRORS, Space


@dataclass(slots=True)
class RecoveryReport:
    """The results of recovery."""

    segments: int = 0
    scanned: int = 0
    """Segments that had no valid index and were read in full."""
    batches: int = 0
    records: int = 0
    bytes: int = 0
    torn: list[TornTail] = field(default_factory=list)
    damaged: list[Damage] = field(default_factory=list)


class Recovery:
    """One pass over all segments of a store."""

    def __init__(self, space: Space, store_id: bytes) -> None:
        self._space = space
        self._store_id = store_id
        self._numbers = sorted(filter(None, map(segment_number, space.disk.names())))
        self._trailers: dict[int, Trailer] = {}
        self._scans: dict[int, Scan] = {}
        self.report = RecoveryReport()
        self.next_sequence = 0
        """The number of the next batch; 0 until a batch was seen."""

    def run(self) -> Iterator[bytes]:
        """Bring all segments into the space. Yields their index rows one segment after another."""
        self._look_backwards()
        last = max((*self._trailers, *(n for n, found in self._scans.items() if found.batches)), default=0)
        for number in self._numbers:
            self._space.skip_numbers(number)
            if number > last:
                self._drop(number)
            elif number in self._trailers:
                yield self._by_index(self._trailers[number])
            else:
                yield self._by_scan(self._scans.pop(number))
        self._space.disk.sync_directory()
        self.next_sequence = self.next_sequence or 1

    def _look_backwards(self) -> None:
        """Read trailers or scan, the newest segment first: what follows a batch decides whether it is torn or
        damaged.
        """
        following: int | None = None
        for number in reversed(self._numbers):
            trailer = self._trailer(number)
            if trailer is not None:
                self._trailers[number] = trailer
                following = trailer.first_sequence
            else:
                found = self._scans[number] = self._scan(number, following)
                if found.batches:
                    following = UNKNOWN if found.first_sequence is None else found.first_sequence

    def _trailer(self, number: int) -> Trailer | None:
        return read_trailer(self._space.reader(Segment(number, 0)), self._store_id, number)

    def _scan(self, number: int, following: int | None, size: int | None = None) -> Scan:
        file = self._space.reader(Segment(number, 0))
        data = read_bytes(file, file.size() if size is None else size, 0)
        return scan(data, self._store_id, number, following)

    def _drop(self, number: int) -> None:
        """Delete a spare, or a segment of which only a torn beginning was written."""
        torn = self._scans.pop(number).torn
        if torn is not None:
            self.report.torn.append(torn)
        segment = Segment(number, 0)
        self._space.close_reader(number)
        self._space.disk.unlink(segment.name)

    def _by_index(self, trailer: Trailer) -> bytes:
        file = self._space.reader(Segment(trailer.number, 0))
        rows = read_index(file, trailer)
        if rows is None:
            # The trailer proves that all batches were durable, so anything wrong in them is damage.
            return self._by_scan(self._scan(trailer.number, trailer.next_sequence, trailer.data_end))
        segment = Segment(
            trailer.number,
            file.size(),
            trailer.data_end,
            trailer.first_sequence,
            trailer.next_sequence,
            trailer.standing_records,
            trailer.standing_bytes,
            closed=True,
        )
        self._count(segment, trailer.next_sequence - trailer.first_sequence, trailer.record_count)
        return rows

    def _by_scan(self, found: Scan) -> bytes:
        segment = Segment(
            found.number,
            self._space.reader(Segment(found.number, 0)).size(),
            found.data_end,
            found.first_sequence or 0,
            found.next_sequence or 0,
            found.standing_records,
            found.standing_bytes,
            rows=[bytes(found.rows)],
        )
        self.report.scanned += 1
        self.report.damaged += found.damaged
        if found.torn is not None:
            self.report.torn.append(found.torn)
        rows = segment.rows[0]
        self._make_durable(segment, found)
        self._count(segment, found.batches, found.records)
        return rows

    def _make_durable(self, segment: Segment, found: Scan) -> None:
        self._space.close_reader(segment.number)
        segment.file = file = self._space.disk.open(segment.name)
        if found.torn is not None:
            file.truncate(found.data_end)
            segment.size = found.data_end
        # After a failed sync the page cache may show a batch that never reached the disk, and that no later sync would
        # write. Only the last batch can be of this kind.
        try:
            last = file.pread(found.data_end - found.last_batch, found.last_batch)
        except OSError as error:
            if error.errno != EIO:
                raise
            # What the disk cannot read now must not be overwritten: it may be able to later.
        else:
            file.pwrite(last, found.last_batch)
        file.fdatasync()
        # A damaged segment is left as it is, so that it can be examined.
        if not found.damaged:
            try:
                segment.seal(self._store_id)
            except OSError as error:
                if error.errno not in NO_SPACE_ERRORS:
                    raise
        file.fdatasync()
        file.close()
        segment.file = None
        segment.closed = True

    def _count(self, segment: Segment, batches: int, records: int) -> None:
        self._space.add(segment)
        report = self.report
        report.segments += 1
        report.batches += batches
        report.records += records
        report.bytes += segment.end
        if not segment.first_sequence:  # no header could be read: the number of batches is unknown
            self.next_sequence += 1 if self.next_sequence else 0
            return
        if self.next_sequence and segment.first_sequence > self.next_sequence:
            reason = (
                f"batches {self.next_sequence} to {segment.first_sequence - 1} are missing before this file"
            )
            report.damaged.append(Damage(segment.name, 0, 0, reason))
        self.next_sequence = segment.next_sequence
