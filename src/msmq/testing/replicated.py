"""A replicated log on three nodes that fail over, and a disk for a queue manager whose instances share the log.

The nodes are lists of entries. The primary has all entries; the other nodes have a part from the beginning, and an
entry is confirmed when one of them has it. When the primary fails, the node that has most is promoted: entries that
were not confirmed may be lost, and the old primary forgets what the new one never got. Everything is deterministic: all
chance comes from a generator.

Batches of a leader take time to reach the primary, and so do the answers; several may be under way. When the leader
dies or its connection breaks, some batches arrive, some of those reach another node, some arrive when another instance
leads, and the others never do.

:class:`ReplicatedSimulatedDisk` takes the place of a :class:`~msmq.testing.disk.SimulatedDisk`. Whenever it loses power
or its process is killed, another instance takes over: the one whose cache followed the log, or one with an empty cache.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple

from msmq.ha.cache import Cache
from msmq.ha.disk import ReplicatedDisk, ReplicatedFile
from msmq.ha.errors import NotLeaderError
from msmq.ha.log import NumberedRow, Row, in_pieces
from msmq.store import Answered, StoreError, StoreFullError
from msmq.testing.disk import SimulatedDisk

_NODES: Final = 3


class Entry(NamedTuple):
    """An entry of the log: a row, the drop of a segment, or the begin of an epoch. Each has the epoch, and the number
    of the last row so far."""

    epoch: int
    number: int = 0
    row: Row | None = None
    dropped: int | None = None

    @property
    def begins_epoch(self) -> bool:
        return self.row is None and self.dropped is None


class SimulatedCluster:
    """The nodes of the cluster, and what can happen to them."""

    where = "the simulated cluster"

    def __init__(self) -> None:
        self.nodes: list[list[Entry]] = [[Entry(0)] for _ in range(_NODES)]
        self.primary = 0
        self.capacity: int | None = None
        """The bytes of rows that the nodes have room for; None for no limit."""
        self.on_the_way_s = (0.0, 0.005)
        """How long rows take to the primary, and an answer back."""
        self.unanswered = 0
        """How many of the next appends get no answer."""
        self.failovers = self.lost_rows = self.pipelined = self.broken = self.late = 0
        """Counters: primaries replaced, rows lost by that, batches sent before earlier ones were answered, batches that
        stayed unanswered, and batches that arrived when another instance led."""

    @property
    def entries(self) -> list[Entry]:
        """The entries of the primary."""
        return self.nodes[self.primary]

    @property
    def epoch(self) -> int:
        return self.entries[-1].epoch

    @property
    def end(self) -> int:
        return self.entries[-1].number

    @property
    def segments(self) -> set[int]:
        found: set[int] = set()
        for entry in self.entries:
            if entry.row is not None:
                found.add(entry.row.segment)
            elif entry.dropped is not None:
                found.discard(entry.dropped)
        return found

    @property
    def used_bytes(self) -> int:
        there = self.segments
        return sum(
            entry.row.size for entry in self.entries if entry.row is not None and entry.row.segment in there
        )

    def replicate(self, node: int | None = None) -> None:
        """Let the other nodes, or one of them, catch up."""
        for number in [node] if node is not None else range(_NODES):
            self.nodes[number] += self.entries[len(self.nodes[number]) :]

    def raise_epoch(self) -> int:
        """Take the lead away from the present leader. The new entry is confirmed, and with it all entries before."""
        epoch = self.epoch + 1
        self.entries.append(Entry(epoch, self.end))
        self.replicate()
        return epoch

    def append(self, epoch: int, number: int, rows: list[Row], rng: Random) -> None:
        if epoch != self.epoch:
            raise NotLeaderError(f"{self.where}: another instance leads.")
        if self.capacity is not None and self.used_bytes + sum(row.size for row in rows) > self.capacity:
            raise StoreFullError(f"{self.where} has no room.")
        self.add(epoch, number, rows)
        confirming = (self.primary + rng.randint(1, _NODES - 1)) % _NODES
        if self.unanswered:
            self.unanswered -= 1
            if rng.random() < 0.5:
                self.replicate(confirming)
            if rng.random() < 0.6:
                self.fail_over(rng)
            raise NotLeaderError(f"{self.where}: rows stayed unanswered.")
        self.replicate(confirming)

    def add(self, epoch: int, number: int, rows: list[Row]) -> None:
        """Add rows to the primary only."""
        self.entries.extend(Entry(epoch, number + index, row) for index, row in enumerate(rows))

    def drop(self, epoch: int, segment: int) -> None:
        if epoch == self.epoch:
            self.entries.append(Entry(epoch, self.end, dropped=segment))

    def fail_over(self, rng: Random) -> None:
        """Replace the primary by one of the nodes that have most; the old one comes back and follows it."""
        others = [number for number in range(_NODES) if number != self.primary]
        rng.shuffle(others)
        before = len(self.entries)
        self.primary = max(others, key=lambda number: len(self.nodes[number]))
        self.failovers += 1
        self.lost_rows += before - len(self.entries)
        for number in range(_NODES):
            del self.nodes[number][len(self.entries) :]

    def rows_after(self, number: int) -> list[NumberedRow]:
        there = self.segments
        return [
            NumberedRow(entry.number, entry.row)
            for entry in self.entries
            if entry.row is not None and entry.number > number and entry.row.segment in there
        ]

    def starts_after(self, epoch: int) -> list[tuple[int, int]]:
        """Return each later epoch with the number of its first row."""
        return [
            (entry.epoch, entry.number + 1)
            for entry in self.entries
            if entry.begins_epoch and entry.epoch > epoch
        ]


class _Batch(NamedTuple):
    """Rows on their way to the primary."""

    before: int
    """The number of the row that must have been added before them."""
    rows: list[Row]
    answered: Answered


class SimulatedLeadership:
    """The log as one leader sees it: both ends of its connection."""

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        self.cluster = cluster
        self._rng = rng
        self.epoch = cluster.raise_epoch()
        self.end = self._last = self._session_end = cluster.end
        """The last row that is confirmed, that was sent, and that the primary has added for this connection."""
        self._sent: deque[_Batch] = deque()
        self._answers: deque[tuple[_Batch, StoreError | None]] = deque()
        self._refusal: StoreFullError | None = None
        self._failure: NotLeaderError | None = None

    @property
    def where(self) -> str:
        return self.cluster.where

    @property
    def is_busy(self) -> bool:
        """True if something is under way."""
        return bool(self._sent or self._answers)

    def send(self, rows: list[Row], answered: Answered) -> None:
        if self._failure is not None:
            answered(self._failure)
            return
        self.cluster.pipelined += self.is_busy
        pieces = list(in_pieces(rows))
        self._sent.append(_Batch(self._last, pieces, answered))
        self._last += len(pieces)
        self._soon(self._arrive)

    def _soon(self, step: Callable[[], None]) -> None:
        """Schedule a step. Steps happen in the order of sending, whichever timer runs out first."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the sender waits for it
        loop.call_later(self._rng.uniform(*self.cluster.on_the_way_s), step)

    def _arrive(self) -> None:
        """Let the next batch arrive at the primary, which handles one after another."""
        if self._sent:
            batch = self._sent.popleft()
            self._answers.append((batch, self._outcome(batch)))
            self._soon(self._deliver)

    def _outcome(self, batch: _Batch) -> StoreError | None:
        if self._failure is not None:
            return self._failure
        if batch.before != self._session_end:
            assert self._refusal is not None, "rows overtook others"
            return self._refusal
        try:
            self.cluster.append(self.epoch, batch.before + 1, batch.rows, self._rng)
        except StoreFullError as full:
            self._refusal = full
            return full
        except NotLeaderError as error:
            self.cluster.broken += 1
            self._failure = error
            return error
        self._session_end += len(batch.rows)
        return None

    def _deliver(self) -> None:
        if not self._answers:
            return
        batch, error = self._answers.popleft()
        if error is None:
            self.end += len(batch.rows)
        if not self.is_busy:
            self._refusal = None
            self._last = self.end
        batch.answered(error)

    def wait(self) -> None:
        while self._sent:
            self._arrive()
        while self._answers:
            self._deliver()

    def cut(self) -> list[_Batch]:
        """End the connection. Some of what was sent has arrived without an answer, and another node may have it.
        Returns the rest, which may or may not arrive later."""
        self._failure = self._failure or NotLeaderError(f"{self.where}: the connection broke.")
        arrived = self._rng.randint(0, len(self._sent))
        self.cluster.broken += len(self._sent)
        for batch in list(self._sent)[:arrived]:
            if self.cluster.epoch != self.epoch or batch.before != self._session_end:
                break
            self.cluster.add(self.epoch, batch.before + 1, batch.rows)
            self._session_end += len(batch.rows)
            if self._rng.random() < 0.5:
                self.cluster.replicate(self._rng.randrange(_NODES))
        return list(self._sent)[arrived:]

    def arrive_late(self, batches: list[_Batch]) -> None:
        """Let batches arrive that were under way when this leader died."""
        for batch in batches:
            before = len(self.cluster.entries)
            with suppress(StoreError):
                self.cluster.append(self.epoch, batch.before + 1, batch.rows, self._rng)
            assert len(self.cluster.entries) == before, "two leaders' rows count"
            self.cluster.late += 1

    def drop(self, segment: int) -> None:
        self.cluster.drop(self.epoch, segment)


class _Instance:
    """A computer whose cache follows the log while another one leads."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.local = SimulatedDisk()
        self.cache = Cache(self.local)
        self._epoch = 0

    def follow(self) -> None:
        begun = self._cluster.starts_after(self._epoch)
        self.cache.compare(self._cluster.end, [start for _, start in begun])
        self._epoch = max([self._epoch, *(epoch for epoch, _ in begun)])
        for segment in sorted(self.cache.missing & self._cluster.segments):
            rows = self._cluster.rows_after(0)
            own = [row for number, row in rows if row.segment == segment and number <= self.cache.applied]
            self.cache.restore(segment, own)
        self.cache.apply(self._cluster.rows_after(self.cache.applied))
        self.cache.applied = max(self.cache.applied, self._cluster.end)
        self.cache.keep(self._cluster.segments)
        self.cache.close()


class ReplicatedSimulatedDisk:
    """A disk for one queue manager, whose instances take turns."""

    def __init__(self, rng: Random) -> None:
        self.cluster = SimulatedCluster()
        self._rng = rng
        self._leader, self._standby = _Instance(self.cluster), _Instance(self.cluster)
        self.log: SimulatedLeadership | None = None
        self._disk: ReplicatedDisk | None = None
        self._locked = False
        self._late: tuple[SimulatedLeadership, list[_Batch]] | None = None
        self.takeovers = 0

    where = SimulatedCluster.where
    ahead_bytes = 1_000
    """Small enough for batches to follow each other closely, as they do with larger messages."""

    # --- what the store asks for --------------------------------------------------------------------------------

    def _own(self) -> ReplicatedDisk:
        assert self._disk is not None, "nobody leads"
        return self._disk

    def lock(self, name: str) -> None:
        """Take over: raise the epoch and read the rest of the log."""
        self._leader.local.require_power()
        assert not self._locked, "two instances lead"
        self.log = SimulatedLeadership(self.cluster, self._rng)
        if self._late is not None:
            self._late[0].arrive_late(self._late[1])
            self._late = None
        self._leader.follow()
        self._disk = ReplicatedDisk(self._leader.local, self.log)
        self._locked = True
        self.takeovers += 1

    def unlock(self) -> None:
        self._locked = False

    def names(self) -> list[str]:
        return self._own().names()

    def open(self, name: str, *, create: bool = False) -> ReplicatedFile:
        if self._rng.random() < 0.3:
            self._standby.follow()
        return self._own().open(name, create=create)

    def unlink(self, name: str) -> None:
        self._own().unlink(name)

    def remove(self, name: str) -> None:
        self._own().remove(name)

    def rename(self, old: str, new: str) -> None:
        self._own().rename(old, new)

    def sync_directory(self) -> None:
        self._own().sync_directory()

    is_quick = False

    def free_bytes(self) -> int:
        return self._own().free_bytes()

    def send(self, answered: Answered) -> None:
        self._own().send(answered)

    # --- faults -------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the instance that leads. The other one takes over, or one with an empty cache."""
        self._cut()
        if self.log is not None and self._disk is not None and self._rng.random() < 0.3:
            # It comes back as a standby, without what it has not seen confirmed.
            self._leader.local.kill()
            self._leader.cache.applied = self.log.end
            self._leader.cache.discard(self._disk.unsettled)
            came_back = self._leader
        else:
            came_back = _Instance(self.cluster)
        self._leader, self._standby = self._standby, came_back
        if self._rng.random() < 0.3:
            self._leader, self._standby = self._standby, self._leader
        self._locked = False

    def crash(self, rng: Random | None = None) -> None:
        """Turn off the power of the leader's computer: its cache is not used again."""
        self._cut()
        self._leader, self._standby = self._standby, _Instance(self.cluster)
        self._locked = False

    def _cut(self) -> None:
        if self._locked and self.log is not None:
            self._late = self.log, self.log.cut()

    def fail_over(self) -> None:
        """Give the database another primary. The outcome of anything under way is unknown to its sender."""
        if self._locked and self.log is not None and self.log.is_busy:
            self.log.cut()
        self.cluster.fail_over(self._rng)

    def crash_at(self, operation: int) -> None:
        self._leader.local.crash_at(operation)

    def spare_power(self) -> None:
        self._leader.local.spare_power()

    @property
    def powerless(self) -> bool:
        return self._leader.local.powerless

    @property
    def capacity(self) -> int | None:
        return self.cluster.capacity

    @capacity.setter
    def capacity(self, capacity: int | None) -> None:
        self.cluster.capacity = capacity

    @property
    def used_bytes(self) -> int:
        return self.cluster.used_bytes

    @property
    def failing_syncs(self) -> int:
        return self.cluster.unanswered

    @failing_syncs.setter
    def failing_syncs(self, count: int) -> None:
        self.cluster.unanswered = count
