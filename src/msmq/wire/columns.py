"""Messages in columns: picking some of them out of each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Make a function that returns the values of a column at these indices. It picks all of them in one step, which
    takes a fraction of the time of one after the other."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda column: [column[index] for index in indices]
