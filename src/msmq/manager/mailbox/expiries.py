"""Time To Be Received of messages at their destination, with a few bytes for each message.

Messages of a queue that expire in the same second share a bucket, and the buckets of a queue share a timer, which is
set for the first of them. A message that leaves its queue is not looked for: what is left of it is its identifier in a
bucket, and the buckets of a queue are swept when they hold more than twice as many identifiers as the queue has
messages. So memory follows the queue, however long the times and however many messages come and go.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final

from msmq.manager.core import Timer, Timers
from msmq.manager.queues.queue import Queue

_SMALLEST_SWEEP: Final = 1024
_AT_ONCE: Final = 512
"""How many messages of a second expire in one event."""


class _Watch:
    """The messages of one queue that expire some time."""

    __slots__ = ("buckets", "count", "seconds", "set_for", "timer")

    def __init__(self) -> None:
        self.buckets: dict[int, array[int]] = {}
        """By second, the messages that expire then."""
        self.seconds: list[int] = []
        """A heap of these seconds."""
        self.count = 0
        self.timer: Timer | None = None
        self.set_for: int | None = None
        """The second that the timer waits for, or tries again."""

    def add(self, second: int, ids: Sequence[int]) -> None:
        bucket = self.buckets.get(second)
        if bucket is None and ids:
            bucket = self.buckets[second] = array("Q")
            heappush(self.seconds, second)
        if bucket is not None:
            bucket.extend(ids)
        self.count += len(ids)


class Expiries:
    """The buckets of all queues. ``expire`` is called with messages of a queue whose time has come, which is what
    ``now`` says."""

    def __init__(
        self, timers: Timers, now: Callable[[], float], expire: Callable[[Queue, Sequence[int]], None]
    ) -> None:
        self._timers = timers
        self._now = now
        self._expire = expire
        self._watches: dict[Queue, _Watch] = {}

    def __len__(self) -> int:
        return sum(watch.count for watch in self._watches.values())

    def watch(self, queue: Queue, ids: Iterable[int], seconds: Iterable[int]) -> None:
        """Have messages expire, each at its second, if they are still in the queue then."""
        pairs = list(zip(ids, seconds, strict=True))
        if not pairs:
            return
        watch = self._watches.get(queue)
        if watch is None:
            watch = self._watches[queue] = _Watch()
        for lookup_id, second in pairs:
            watch.add(second, (lookup_id,))
        if watch.count > _SMALLEST_SWEEP and watch.count > 2 * len(queue.positions):
            self._sweep(queue, watch)
        self._set_timer(queue, watch)

    def of(self, queue: Queue) -> set[int]:
        """The messages of a queue that expire some time, and some that have left it."""
        watch = self._watches.get(queue)
        return set() if watch is None else {one for ids in watch.buckets.values() for one in ids}

    def forget(self, queue: Queue) -> None:
        """The queue is gone."""
        watch = self._watches.pop(queue, None)
        if watch is not None and watch.timer is not None:
            watch.timer.cancelled = True

    def _set_timer(self, queue: Queue, watch: _Watch) -> None:
        """Set the timer for the first second, unless it waits for that or an earlier one."""
        if not watch.seconds or (watch.set_for is not None and watch.set_for <= watch.seconds[0]):
            return
        if watch.timer is not None:
            watch.timer.cancelled = True
        watch.set_for = watch.seconds[0]
        watch.timer = self._timers.start(watch.set_for, partial(self._run, queue))

    def _sweep(self, queue: Queue, watch: _Watch) -> None:
        """Forget the messages that left."""
        address_of = queue.positions.address_of
        for second, ids in list(watch.buckets.items()):
            kept = array("Q", (lookup_id for lookup_id in ids if address_of(lookup_id) is not None))
            if kept:
                watch.buckets[second] = kept
            else:
                del watch.buckets[second]
        watch.seconds = sorted(watch.buckets)
        watch.count = sum(map(len, watch.buckets.values()))

    def _run(self, queue: Queue) -> None:
        """A second has come. Very many messages expire a part at a time, so that others have their turn. What cannot be
        done now, for want of space, is done when the timer tries again."""
        watch, now_s = self._watches[queue], self._now()
        later: list[tuple[int, array[int]]] = []
        try:
            while watch.seconds and watch.seconds[0] <= now_s:
                second = heappop(watch.seconds)
                ids = watch.buckets.pop(second)
                watch.count -= len(ids)
                later.append((second, ids))
                self._expire(queue, ids[:_AT_ONCE])
                later[-1] = second, ids[_AT_ONCE:]
        finally:
            for second, ids in later:
                watch.add(second, ids)
        watch.timer = watch.set_for = None
        if watch.seconds:
            self._set_timer(queue, watch)
        else:
            self._watches.pop(queue, None)
