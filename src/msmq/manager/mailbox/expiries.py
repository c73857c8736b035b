"""When messages expire, with a few bytes for each message.

Messages of a queue that expire in the same second share a bucket. A message that leaves its queue is not looked for:
what is left of it is its identifier in a bucket, and the buckets of a queue are swept when they hold more than twice as
many identifiers as the queue has messages. So memory follows the queue, however long the times and however many
messages come and go.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import chain, repeat
from typing import Final

from msmq.manager.core import Timer, Timers
from msmq.manager.mailbox.positions import PositionList
from msmq.manager.queues.queue import Queue

_SMALLEST_SWEEP: Final = 1024
_SWEPT_TOGETHER: Final = 4096
_AT_ONCE: Final = 512
"""How many messages of a second expire in one event."""


class Buckets:
    """Messages of one queue by the second in which they expire."""

    __slots__ = ("_buckets", "_count", "_positions", "_seconds")

    def __init__(self, positions: PositionList) -> None:
        self._positions = positions
        self._buckets: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        """A heap of the seconds."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._buckets.values())

    @property
    def first(self) -> int | None:
        """The second in which the next messages expire."""
        return self._seconds[0] if self._seconds else None

    def add(self, ids: Iterable[int], seconds: Iterable[int]) -> None:
        """Add messages, each with its second."""
        buckets, heap, count = self._buckets, self._seconds, self._count
        for lookup_id, second in zip(ids, seconds, strict=True):
            bucket = buckets.get(second)
            if bucket is None:
                buckets[second] = array("Q", (lookup_id,))
                heappush(heap, second)
            else:
                bucket.append(lookup_id)
            count += 1
        self._count = count
        if self._count > _SMALLEST_SWEEP and self._count > 2 * len(self._positions):
            self._sweep()

    def pop(self) -> tuple[int, array[int]]:
        """Remove the first second, and return it with its messages, of which some may have left."""
        second = heappop(self._seconds)
        ids = self._buckets.pop(second)
        self._count -= len(ids)
        return second, ids

    def _sweep(self) -> None:
        """Forget the messages that left."""
        unswept = list(self._buckets.items())
        while unswept:
            some: list[tuple[int, array[int]]] = []
            size = 0
            while unswept and size < _SWEPT_TOGETHER:
                some.append(unswept.pop())
                size += len(some[-1][1])
            wanted = list(chain.from_iterable(ids for _, ids in some))
            there = frozenset(self._positions.find(wanted).ids)
            for second, ids in some:
                left = [lookup_id for lookup_id in ids if lookup_id in there]
                if not left:
                    del self._buckets[second]
                elif len(left) < len(ids):
                    self._buckets[second] = array("Q", left)
        self._seconds = sorted(self._buckets)
        self._count = sum(map(len, self._buckets.values()))


class _Watch:
    """The messages of one queue that expire some time, and a timer for the first of them."""

    __slots__ = ("buckets", "set_for", "timer")

    def __init__(self, queue: Queue) -> None:
        self.buckets = Buckets(queue.positions)
        self.timer: Timer | None = None
        self.set_for: int | None = None
        """The second that the timer waits for, or tries again."""


class Expiries:
    """Time To Be Received of messages at their destination, in all queues. ``expire`` is called with messages of a
    queue whose time has come, which is what ``now`` says."""

    def __init__(
        self, timers: Timers, now: Callable[[], float], expire: Callable[[Queue, Sequence[int]], None]
    ) -> None:
        self._timers = timers
        self._now = now
        self._expire = expire
        self._watches: dict[Queue, _Watch] = {}

    def __len__(self) -> int:
        return sum(len(watch.buckets) for watch in self._watches.values())

    def watch(self, queue: Queue, ids: Iterable[int], seconds: Iterable[int]) -> None:
        """Have messages expire, each at its second, if they are still in the queue then."""
        watch = self._watches.get(queue)
        if watch is None:
            watch = self._watches[queue] = _Watch(queue)
        watch.buckets.add(ids, seconds)
        self._set_timer(queue, watch)

    def of(self, queue: Queue) -> set[int]:
        """The messages of a queue that expire some time, and some that have left it."""
        watch = self._watches.get(queue)
        return set() if watch is None else set(watch.buckets)

    def forget(self, queue: Queue) -> None:
        """The queue is gone."""
        watch = self._watches.pop(queue, None)
        if watch is not None and watch.timer is not None:
            watch.timer.cancelled = True

    def _set_timer(self, queue: Queue, watch: _Watch) -> None:
        """Set the timer for the first second, unless it waits for that or an earlier one."""
        first = watch.buckets.first
        if first is None or (watch.set_for is not None and watch.set_for <= first):
            return
        if watch.timer is not None:
            watch.timer.cancelled = True
        watch.set_for = first
        watch.timer = self._timers.start(first, partial(self._run, queue))

    def _run(self, queue: Queue) -> None:
        """A second has come. Very many messages expire a part at a time, so that others have their turn. What cannot be
        done now, for want of space, is done when the timer tries again."""
        watch, now_s = self._watches[queue], self._now()
        buckets = watch.buckets
        later: list[tuple[int, array[int]]] = []
        try:
            while buckets.first is not None and buckets.first <= now_s:
                second, ids = buckets.pop()
                later.append((second, ids))
                self._expire(queue, ids[:_AT_ONCE])
                later[-1] = second, ids[_AT_ONCE:]
        finally:
            for second, ids in later:
                buckets.add(ids, repeat(second, len(ids)))
        watch.timer = watch.set_for = None
        if len(buckets):
            self._set_timer(queue, watch)
        else:
            self._watches.pop(queue, None)
