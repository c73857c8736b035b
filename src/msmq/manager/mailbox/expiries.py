"""Time To Be Received of messages at their destination, with a few bytes for each message.

Messages that expire in the same second share a bucket and a timer. When a message leaves its queue its identifier
stays in its bucket; the buckets of a queue are swept when they hold more than twice as many identifiers as the queue
has messages. So memory follows the queue, however long the times and however many messages come and go.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from msmq.manager.core import Timer, Timers
from msmq.manager.queues.queue import Queue

_SMALLEST_SWEEP: Final = 1024
_AT_ONCE: Final = 512
"""How many messages expire in one event."""


class Expiries:
    """The buckets of all queues. ``expire`` is called with messages of a queue whose time has come."""

    def __init__(self, timers: Timers, expire: Callable[[Queue, Sequence[int]], None]) -> None:
        self._timers = timers
        self._expire = expire
        self._buckets: dict[Queue, dict[int, tuple[array[int], Timer]]] = {}
        self._counts: dict[Queue, int] = {}

    def __len__(self) -> int:
        return sum(self._counts.values())

    def watch(self, queue: Queue, ids: Iterable[int], seconds: Iterable[int]) -> None:
        """Have messages expire, each at its second, if they are still in the queue then."""
        pairs = list(zip(ids, seconds, strict=True))
        if not pairs:
            return
        buckets = self._buckets.setdefault(queue, {})
        for lookup_id, second in pairs:
            if second not in buckets:
                timer = self._timers.start(second, partial(self._run, queue, second))
                buckets[second] = array("Q"), timer
            buckets[second][0].append(lookup_id)
        count = self._counts[queue] = self._counts.get(queue, 0) + len(pairs)
        if count > _SMALLEST_SWEEP and count > 2 * len(queue.positions):
            self._sweep(queue)

    def of(self, queue: Queue) -> set[int]:
        """The messages of a queue that expire at some time, and some that have left it."""
        return {one for ids, _ in self._buckets.get(queue, {}).values() for one in ids}

    def forget(self, queue: Queue) -> None:
        """Forget a queue that is gone."""
        for _, timer in self._buckets.pop(queue, {}).values():
            timer.cancelled = True
        self._counts.pop(queue, None)

    def _sweep(self, queue: Queue) -> None:
        """Forget messages that have left the queue."""
        buckets = self._buckets[queue]
        for second, (ids, timer) in list(buckets.items()):
            kept = queue.positions.find(ids).ids
            if kept:
                buckets[second] = kept, timer
            else:
                timer.cancelled = True
                del buckets[second]
        self._counts[queue] = sum(len(ids) for ids, _ in buckets.values())

    def _run(self, queue: Queue, second: int) -> None:
        """Expire the messages of a second. Very many are expired in parts, so that other work has its turn. If there
        is no space for that, the timer tries again."""
        buckets = self._buckets[queue]
        ids, _ = buckets[second]
        part = ids[:_AT_ONCE]
        self._expire(queue, part)
        del ids[: len(part)]
        self._counts[queue] -= len(part)
        if ids:
            timer = self._timers.start(second, partial(self._run, queue, second))
            buckets[second] = ids, timer
            return
        del buckets[second]
        if not buckets:
            self.forget(queue)
