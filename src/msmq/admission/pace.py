"""A limit on requests: some at once, and then some in each second.

Each address has a bucket that fills with time; a request takes one drop. If it is empty the caller is told how long to
wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_MOST: Final = 10_000


class Pace:
    """Remembers how much is left for each address."""

    def __init__(self, clock: Callable[[], float], per_second: float, at_once: float) -> None:
        self._clock = clock
        self._per_second = per_second
        self._at_once = at_once
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By address, how much was left and when, the oldest first."""

    def wait_s(self, address: str, cost: float = 1.0) -> float:
        """Take from the bucket of an address and return 0, or, if too little is left, take nothing and return how long
        to wait."""
        now_s = self._clock()
        left, since_s = self._buckets.get(address, (self._at_once, now_s))
        left = min(left + (now_s - since_s) * self._per_second, self._at_once)
        enough = left >= cost
        self._buckets[address] = left - cost if enough else left, now_s
        self._buckets.move_to_end(address)
        while len(self._buckets) > _MOST:  # the address seen longest ago has most of it back anyway
            self._buckets.popitem(last=False)
        return 0.0 if enough else (cost - left) / self._per_second
