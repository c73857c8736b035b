"""The times when the messages of a queue expire, at eight bytes a message.

Most messages of a queue live equally long, and thousands of them expire in the same second. So there is one array of
lookup identifiers per second, and a heap of seconds. Messages that leave earlier stay in their array: they are skipped
when their second comes, or removed together when they are the majority.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from typing import Final

from msmq.manager.mailbox.positions import PositionList

_SMALLEST_SWEEP: Final = 1_024


class Expiries:
    """The last second of each message that has one."""

    __slots__ = ("_count", "_positions", "_seconds", "_sweep_at", "_when")

    def __init__(self, positions: PositionList) -> None:
        self._positions = positions
        self._when: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._count = 0
        self._sweep_at = _SMALLEST_SWEEP

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> int | None:
        """The last second of the message that expires first."""
        return self._seconds[0] if self._seconds else None

    def add(self, second: int, lookup_id: int) -> bool:
        """Add a message. Returns whether it expires before all others."""
        if self._count >= self._sweep_at:
            self._sweep()
        self._count += 1
        there = self._when.get(second)
        if there is not None:
            there.append(lookup_id)
            return False
        self._when[second] = array("Q", (lookup_id,))
        heapq.heappush(self._seconds, second)
        return self._seconds[0] == second

    def pop_before(self, now_s: int) -> Iterator[int]:
        """Remove and return the messages whose last second is over."""
        while self._seconds and self._seconds[0] < now_s:
            gone = self._when.pop(heapq.heappop(self._seconds))
            self._count -= len(gone)
            yield from gone

    def _sweep(self) -> None:
        """Remove messages that are gone. The next sweep comes when there are twice as many as are left now."""
        kept = {second: self._positions.find(there).ids for second, there in self._when.items()}
        self._when = {second: there for second, there in kept.items() if there}
        self._seconds = sorted(self._when)
        self._count = sum(map(len, self._when.values()))
        self._sweep_at = max(2 * self._count, _SMALLEST_SWEEP)
