"""The disk of a leader: files in a local directory, and in front of every sync the log that all instances share.

What the store writes goes to the local file at once and waits for the next sync of any file, or for :meth:`send`, which
is a sync that is not waited for. Either sends all of it to the log in the order of the writes, and it is durable when
the log has confirmed it. Local files are not synced: they are read while this process lives, and whoever takes over
reads the log.

Names need no sync either. A segment is in the log from its first row on, rows are confirmed in their order, and
segments are dropped in the order they are deleted, so whoever comes next sees a state that the store was in.
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
"""A transaction costs the database as much as this many bytes in it."""


class ReplicatedFile:
    """A file of a replicated disk. One that nobody else needs has no ``segment``."""

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
        # Zeros that nothing was written to are of no use to others.
        self._local.allocate(size)

    def truncate(self, size: int) -> None:
        self._local.truncate(size)
        if self._segment is not None:
            self._disk.ends(self._segment, size)

    def close(self) -> None:
        self._local.close()


class ReplicatedDisk:
    """A directory whose segments are in a shared log too. ``local`` has what the log has, and is owned by the
    caller."""

    def __init__(self, local: Disk, log: SharedLog) -> None:
        self._local = local
        self._log = log
        self._waiting: list[Row] = []
        """What was written and not sent."""
        self._under_way: deque[list[Row]] = deque()
        self._refused: list[Row] = []
        """What found no room, with what was sent behind it; it waits again when the last of it was refused."""
        self._in_log: set[int] = set()
        """Segments of which the log has rows, or may have."""
        self._ends: dict[int, int] = {}
        """Where what was written to a segment ends: other instances have it so far and no farther."""
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
        """Segments whose local file may differ from what the log has: changes were not confirmed, or it is gone here
        and perhaps not there."""
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
            # The number of one that the log never had is used again, and must not be dropped then.
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
        """The lease is the lock."""

    def unlock(self) -> None:
        """It is given back by who took it."""

    # --- what its files report ----------------------------------------------------------------------------------

    def changed(self, row: Row) -> None:
        """Something was written; the next sync has to confirm it."""
        # A batch that found no room is written once more.
        self._waiting = [each for each in self._waiting if each[:2] != row[:2] or each.data is None]
        self._waiting.append(row)
        self._ends[row.segment] = max(self._ends.get(row.segment, 0), row.offset + row.size)

    def ends(self, segment: int, size: int) -> None:
        """A file was cut. Others have no zeros at its end, so only what was written has to go there."""
        if size < self._ends.get(segment, 0):
            self._waiting.append(Row(segment, size, None))
            self._ends[segment] = size

    # --- syncs --------------------------------------------------------------------------------------------------

    def ship(self) -> None:
        """Return when everything written so far is confirmed."""
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
        # With any other error nobody knows what the log has: it stays unsettled.
        answered(error)
