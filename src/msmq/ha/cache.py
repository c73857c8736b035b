"""A copy of the log in a local directory, for an instance that waits to lead."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.ha.log import NumberedRow, Row, file_of, segment_of
from msmq.store import Disk, DiskFile


class Cache:
    """The files that the rows of the log describe, as far as they were applied.

    Nothing is synced. After a crash of the computer the files may hold anything, so every process begins with an empty
    cache.
    """

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.applied = 0
        """The number of the last row applied."""
        self.missing: set[int] = set()
        """Segments that have to be fetched as a whole, up to ``applied``, before any more rows are applied."""
        self._open: tuple[int, DiskFile] | None = None

    def clear(self) -> None:
        """Empty the cache."""
        self.close()
        for name in self.disk.names():
            if segment_of(name) is not None:
                self.disk.unlink(name)
        self.applied = 0
        self.missing.clear()

    def compare(self, end: int, starts: Iterable[int]) -> bool:
        """Empty the cache, and return True, if it has rows that the log lacks: the log ends before them, or an epoch
        that is new here started below them. Such rows were lost before anybody was told that they are safe."""
        if end < self.applied or any(start <= self.applied for start in starts):
            self.clear()
            return True
        return False

    def apply(self, rows: Iterable[NumberedRow]) -> None:
        """Apply rows, which must follow the last one applied."""
        for number, row in rows:
            assert number > self.applied, f"row {number} comes after row {self.applied}"
            self._apply(row)
            self.applied = number

    def restore(self, segment: int, rows: Iterable[Row]) -> None:
        """Apply all rows of a missing segment."""
        for row in rows:
            self._apply(row)
        self.missing.discard(segment)

    def keep(self, segments: set[int]) -> None:
        """Delete all other segments than these, because the log no longer has them."""
        self.close()
        for name in self.disk.names():
            segment = segment_of(name)
            if segment is not None and segment not in segments:
                self.disk.unlink(name)
        self.missing &= segments

    def discard(self, segments: set[int]) -> None:
        """Delete segments that may differ from the log, to have them fetched again."""
        self.close()
        names = set(self.disk.names())
        for segment in segments:
            if file_of(segment) in names:
                self.disk.unlink(file_of(segment))
        self.missing |= segments

    def close(self) -> None:
        """Close the file that was last written."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _apply(self, row: Row) -> None:
        file = self._file(row.segment)
        if row.data is None:
            file.truncate(row.offset)
            return
        if row.offset == 0:
            # Either the first row of a new file, perhaps with the number of a dropped one, or the whole file.
            file.truncate(0)
        file.pwrite(row.data, row.offset)

    def _file(self, segment: int) -> DiskFile:
        if self._open is None or self._open[0] != segment:
            self.close()
            self._open = segment, self.disk.open(file_of(segment), create=True)
        return self._open[1]
