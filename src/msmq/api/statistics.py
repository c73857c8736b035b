"""The call WatchStatistics: how much is in the queues, and how much has passed through them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Final

from msmq.api.administration import outgoing_info
from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.manager.core import Subscriber
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.security.access import QueueManagerOperation, Token

_SHORTEST_MS: Final = 100
_USUAL_MS: Final = 1_000
_SPARE: Final = 64


class Counting(Subscriber):
    """Counts the messages that leave each queue. The number that arrived follows from it and the number present, since
    subscribers are not told when a transaction's messages arrive with its commit."""

    def __init__(self, queues: Mapping[int, Queue]) -> None:
        self._queues = queues
        self.removed: Counter[int] = Counter()
        self._arrived: Counter[int] = Counter()
        self._before: dict[int, int] = {}

    def messages_removed(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.removed[queue.number] += len(lookup_ids)
        if len(self.removed) > 2 * len(self._queues) + _SPARE:
            for table in (self.removed, self._arrived, self._before):
                for number in table.keys() - self._queues.keys():  # of deleted queues
                    del table[number]

    def begin(self, queues: Iterable[Queue]) -> None:
        """Begin to count, with the messages that are in the queues now."""
        self._before = {queue.number: len(queue.positions) for queue in queues}

    def arrived(self, queue: Queue) -> int:
        """How many messages arrived since counting began, not counting those that were moved elsewhere by hand."""
        number = queue.number
        seen = len(queue.positions) + self.removed.get(number, 0) - self._before.get(number, 0)
        arrived = max(self._arrived.get(number, 0), seen)
        self._arrived[number] = arrived
        return arrived


class StatisticsCalls:
    """The call WatchStatistics."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._core = desk.manager.core
        self._counting = Counting(self._core.queues)
        self._counting.begin(self._core.queues.values())
        desk.manager.subscribe(self._counting)
        self._started_ms = self._now_ms()

    def _now_ms(self) -> int:
        return int(self._core.environment.now() * 1000)

    async def watch_statistics(
        self, request: pb.WatchStatisticsRequest, caller: Token
    ) -> AsyncIterator[pb.Statistics]:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        interval_s = max(request.interval_ms or _USUAL_MS, _SHORTEST_MS) / 1000
        first: dict[int, int] = {}
        reports = 0
        while True:
            yield self._report(first, request.queues)
            reports += 1
            if reports == request.count:
                return
            await asyncio.sleep(interval_s)

    def _report(self, first: dict[int, int], most: int) -> pb.Statistics:
        """Return the figures of now. ``first`` has the messages of each queue when the caller first looked at it."""
        core, counting = self._core, self._counting
        local = [queue for queue in core.by_path.values() if not isinstance(queue, OutgoingQueue)]
        depths = {queue.number: len(queue.positions) for queue in local}
        grown = {number: depth - first.setdefault(number, depth) for number, depth in depths.items()}
        numbers: Iterable[int] = depths
        if most:
            numbers = {*nlargest(most, depths, depths.__getitem__), *nlargest(most, grown, grown.__getitem__)}
        return pb.Statistics(
            time_ms=self._now_ms(),
            started_ms=self._started_ms,
            messages=sum(len(queue.positions) for queue in core.queues.values()),
            bytes=core.total_bytes,
            express_bytes=core.express_bytes,
            arrived_total=sum(map(counting.arrived, local)),
            removed_total=sum(counting.removed.get(number, 0) for number in depths),
            sessions=[
                pb.SessionInfo(peer=session.peer, incoming=session.incoming)
                for session in self._desk.host.sessions()
            ],
            queues=[
                pb.QueueStatistics(
                    path=queue.pathname,
                    messages=len(queue.positions),
                    bytes=queue.total_bytes,
                    journal_messages=len(queue.journal.positions) if queue.journal else 0,
                    journal_bytes=queue.journal.total_bytes if queue.journal else 0,
                    arrived_total=counting.arrived(queue),
                    removed_total=counting.removed[queue.number],
                    waiting_readers=len(queue.waiting),
                    grown=grown[queue.number],
                )
                for queue in sorted(
                    map(core.queues.__getitem__, numbers), key=lambda queue: queue.pathname.lower()
                )
            ],
            outgoing=[outgoing_info(queue) for _, queue in sorted(core.outgoing.items())],
            transactions=len(self._desk.manager.transactions.collection),
            work=self._desk.host.work_done(),
        )
