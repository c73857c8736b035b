"""The disk of a leader: files in a local directory, and the shared log, which has to confirm every sync.

A write of the store goes to the local file at once and waits for the next sync of any file, or for :meth:`send`, which
is a sync that nobody waits for. Either sends all waiting writes to the log in order, and they are durable when the log
has confirmed them. Local files are not synced: only this process reads them, and whoever takes over reads the log.

Names need no sync either. A segment is in the log from its first row on, rows are confirmed in order, and segments are
dropped in the order of their deletion, so the next leader sees a state that the store was in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from msmq.ha.log import FORMAT_SEGMENT, Row, SharedLog, segment_of
from msmq.store import Answered, Disk, DiskFile, StoreError, StoreFullError

_LONGEST_FORMAT: Final = 4096
_AHEAD_BYTES: Final = 1 << 17
"""A transaction costs the database as much as this many bytes do."""


class ReplicatedFile:
    """A file of a replicated disk. A file that other instances do not need has no ``segment``."""

    def __init__(self, disk: ReplicatedDisk, local: DiskFile, segment: int | None) -> None:
        self._disk = disk
        self._local = local
        self._segment = segment

    def size(self) -> int:
        return self._local.size()

    def pread(self, length: int, offset: int) -> bytes:
        return self._local.pread(length, offset)

    def pwrite(self, data: bytes, offset: int) -> None:
        self._local.pwrite(data, offset)
        if self._segment is not None:
            self._disk.changed(Row(self._segment, offset, data))

    def pwritev(self, pieces: Sequence[bytes], offset: int) -> None:
        self.pwrite(b"".join(pieces), offset)

    def fdatasync(self) -> None:
        self._disk.ship()

    def allocate(self, size: int) -> None:
        # Zeros behind the written part are of no use to other instances.
        self._local.allocate(size)

    def truncate(self, size: int) -> None:
        self._local.truncate(size)
        if self._segment is not None:
            self._disk.ends(self._segment, size)

    def uncache(self, offset: int, length: int) -> None:
        """Do nothing: it would write to the local disk first what is not synced."""

    def close(self) -> None:
        self._local.close()


class ReplicatedDisk:
    """A directory whose segments are also in a shared log. ``local`` has the same contents as the log and belongs to
    the caller."""

    def __init__(self, local: Disk, log: SharedLog) -> None:
        self._local = local
        self._log = log
        self._waiting: list[Row] = []
        """Writes that were not sent yet."""
        self._under_way: deque[list[Row]] = deque()
        self._refused: list[Row] = []
        """Rows that found no room, and those sent after them; they wait again once the last of them has been
        refused."""
        self._in_log: set[int] = set()
        """Segments of which the log has rows, or may have."""
        self._ends: dict[int, int] = {}
        """The end of the written part of each segment; other instances have nothing behind it."""
        self._dropped: set[int] = set()
        for name in local.names():
            segment = segment_of(name)
            if segment is not None:
                file = local.open(name)
                self._ends[segment] = file.size()
                self._in_log.add(segment)
                file.close()

    @property
    def where(self) -> str:
        return self._log.where

    @property
    def unsettled(self) -> set[int]:
        """Segments whose local file may differ from the log, because changes were not confirmed, or the file was
        deleted here and perhaps not in the log."""
        under_way = (row for rows in self._under_way for row in rows)
        return {row.segment for row in (*under_way, *self._refused, *self._waiting)} | self._dropped

    @property
    def ahead_bytes(self) -> int:
        return _AHEAD_BYTES

    # --- what the store asks for --------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return self._local.names()

    def open(self, name: str, *, create: bool = False) -> ReplicatedFile:
        return ReplicatedFile(self, self._local.open(name, create=create), segment_of(name))

    def unlink(self, name: str) -> None:
        segment = segment_of(name)
        self._local.unlink(name)
        if segment is not None:
            self._waiting = [row for row in self._waiting if row.segment != segment]
            self._ends.pop(segment, None)
            # The number of a segment that the log never had is used again, and must not be dropped then.
            if segment in self._in_log:
                self._in_log.discard(segment)
                self._dropped.add(segment)
                self._log.drop(segment)

    def remove(self, name: str) -> None:
        self.unlink(name)
        self.sync_directory()

    def rename(self, old: str, new: str) -> None:
        self._local.rename(old, new)
        segment = segment_of(new)
        if segment is not None:
            file = self._local.open(new)
            try:
                self.changed(Row(segment, 0, file.pread(_LONGEST_FORMAT, 0)))
            finally:
                file.close()

    def sync_directory(self) -> None:
        if any(row.segment == FORMAT_SEGMENT for row in self._waiting):
            self.ship()

    @property
    def is_quick(self) -> bool:
        return False

    def free_bytes(self) -> int:
        return self._local.free_bytes()

    def lock(self, name: str) -> None:
        """Nothing to do: the lease is the lock."""

    def unlock(self) -> None:
        """Nothing to do: :class:`~msmq.ha.instance.Instance` gives the lease back."""

    # --- what its files report ----------------------------------------------------------------------------------

    def changed(self, row: Row) -> None:
        """Record a write, which the next sync has to have confirmed."""
        # A batch that found no room is written again.
        self._waiting = [each for each in self._waiting if each[:2] != row[:2] or each.data is None]
        self._waiting.append(row)
        self._ends[row.segment] = max(self._ends.get(row.segment, 0), row.offset + row.size)

    def ends(self, segment: int, size: int) -> None:
        """Record that a file was cut. Other instances have no zeros at its end, so only a cut of the written part
        matters."""
        if size < self._ends.get(segment, 0):
            self._waiting.append(Row(segment, size, None))
            self._ends[segment] = size

    # --- syncs --------------------------------------------------------------------------------------------------

    def ship(self) -> None:
        """Return once everything written so far is confirmed."""
        if not self._waiting:
            return
        answers: list[StoreError | None] = []
        self.send(answers.append)
        self._log.wait()
        (error,) = answers
        if error is not None:
            raise error

    def send(self, answered: Answered) -> None:
        """See :class:`~msmq.store.FarDisk`."""
        rows, self._waiting = self._waiting, []
        self._under_way.append(rows)
        self._in_log.update(row.segment for row in rows)
        self._log.send(rows, partial(self._answer, answered))

    def _answer(self, answered: Answered, error: StoreError | None) -> None:
        if error is None:
            self._under_way.popleft()
        elif isinstance(error, StoreFullError):
            self._refused += self._under_way.popleft()
            if not self._under_way:
                self._waiting[:0] = [row for row in self._refused if row.segment not in self._dropped]
                self._refused = []
        # After any other error the state of the log is unknown, and the rows stay unsettled.
        answered(error)
