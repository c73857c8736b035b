"""How often somebody may ask: so many requests at once, and then so many a second.

Each address has a bucket that fills by itself; a request takes one drop. Who finds it empty is told how long to wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST: Final = 10_000


class Pace:
    """Remembers how much each address has left."""

    def __init__(self, clock: Callable[[], float], per_second: float, at_once: float) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By address, how much there was and when, the longest ago first."""

    def wait_s(self, address: str, cost: float = 1.0) -> float:
        """Take from the bucket of an address; 0 when there was enough, else how long to wait. Nothing is taken then."""
        now_s = self._clock()
        left, since_s = self._buckets.get(address, (self._at_once, now_s))
        left = min(left + (now_s - since_s) * self._per_second, self._at_once)
        enough = left >= cost
        self._buckets[address] = left - cost if enough else left, now_s
        self._buckets.move_to_end(address)
        while len(self._buckets) > _MOST:  # who was not seen for longest has most of it back anyway
            self._buckets.popitem(last=False)
        return 0.0 if enough else (cost - left) / self._per_second
