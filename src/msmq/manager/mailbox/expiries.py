"""When messages expire, with a few bytes for each message.

Messages of a queue that expire in the same second share a bucket. A message that leaves its queue is not looked for:
what is left of it is its identifier in a bucket, and the buckets of a queue are swept when they hold more than twice as
many identifiers as the queue has messages. So memory follows the queue, however long the times and however many
messages come and go.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import chain, repeat
from typing import Final, Self

from msmq.manager.core import Timer, Timers
from msmq.manager.mailbox.positions import PositionList
from msmq.manager.queues.queue import Queue

_SMALLEST_SWEEP: Final = 1024
_SWEPT_TOGETHER: Final = 4096
_ASKED_TOGETHER: Final = 4096
_DENSE: Final = 8
"""Up to how many times as many numbers are looked at one by one, rather than a few of them searched for."""
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

    def parts(self, begun: set[int]) -> Iterator[Sequence[int]]:
        """Yield the messages in parts of about the same size. Between two of them messages may come, leave and expire.
        ``begun`` is told the seconds whose messages have been yielded, at least in part."""
        part = array("Q")
        for second in tuple(self._buckets):
            begun.add(second)
            ids = self._buckets.get(second, ())
            for start in range(0, len(ids), _ASKED_TOGETHER):
                part.extend(ids[start : start + _ASKED_TOGETHER])
                if len(part) >= _ASKED_TOGETHER:
                    yield part
                    part = array("Q")
        yield part

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


class Search:
    """Finds out which messages of a queue expire some time, a part at a time. Those that expire while it is open are
    among them. It is closed by leaving its block."""

    def __init__(self, expiries: Expiries, queue: Queue) -> None:
        self._expiries = expiries
        self._queue = queue
        self._begun: set[int] = set()
        self._expired: list[int] = []

    def __enter__(self) -> Self:
        self._expiries.searches.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._expiries.searches.remove(self)

    def expired(self, queue: Queue, second: int, ids: Iterable[int]) -> None:
        """Note messages that have left the buckets, unless they are found there."""
        if queue is self._queue and second not in self._begun:
            self._expired += ids

    def among(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """Yield those of some messages that expire, in parts. The messages must ascend."""
        buckets = self._expiries.buckets(self._queue)
        if buckets is not None and ids:
            for part in buckets.parts(self._begun):
                yield _common(ids, part)
        yield _common(ids, self._expired)


def _common(ascending: Sequence[int], some: Sequence[int]) -> list[int]:
    """Those of some numbers that are among many others, without looking at all of them."""
    if not some:
        return []
    begin, end = bisect_left(ascending, min(some)), bisect_right(ascending, max(some))
    if end - begin <= _DENSE * len(some):
        return sorted(set(some).intersection(ascending[begin:end]))
    places = (bisect_left(ascending, one, begin, end) for one in some)
    return [one for one, place in zip(some, places, strict=True) if place < end and ascending[place] == one]


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
        self.searches: list[Search] = []

    def __len__(self) -> int:
        return sum(len(watch.buckets) for watch in self._watches.values())

    def watch(self, queue: Queue, ids: Iterable[int], seconds: Iterable[int]) -> None:
        """Have messages expire, each at its second, if they are still in the queue then."""
        watch = self._watches.get(queue)
        if watch is None:
            watch = self._watches[queue] = _Watch(queue)
        watch.buckets.add(ids, seconds)
        self._set_timer(queue, watch)

    def buckets(self, queue: Queue) -> Buckets | None:
        """The messages of a queue that expire some time, and some that have left it."""
        watch = self._watches.get(queue)
        return None if watch is None else watch.buckets

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
                for search in self.searches:
                    search.expired(queue, second, ids[:_AT_ONCE])
                later[-1] = second, ids[_AT_ONCE:]
        finally:
            for second, ids in later:
                buckets.add(ids, repeat(second, len(ids)))
        watch.timer = watch.set_for = None
        if len(buckets):
            self._set_timer(queue, watch)
        else:
            self._watches.pop(queue, None)
