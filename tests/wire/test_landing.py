"""Something large that is put together where it stays, however it comes."""

from __future__ import annotations

import os
import tracemalloc
from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.landing import LARGE, Landing

WHOLE = os.urandom(1_000_000)


steps = st.lists(st.tuples(st.booleans(), st.integers(1_000, 300_000)), min_size=1, max_size=5)


@given(steps, st.integers(LARGE, len(WHOLE)))
def test_bytes_are_copied_to_their_place_or_written_there(pieces: list[tuple[bool, int]], size: int) -> None:
    landing = Landing(size)
    for directly, most in cycle(pieces):
        left = WHOLE[landing.filled : size]
        spot = landing.spot
        if spot and directly:
            count = min(most, len(spot), len(left))
            spot[:count] = left[:count]
            landing.landed(count)
        else:
            del spot
            landing.put(left[:most])
        assert landing.missing == size - landing.filled
        if not landing.missing:
            break
    assert landing.whole() == WHOLE[:size]


def test_the_last_bytes_are_copied() -> None:
    """So that nobody holds on to the place when all of it is there."""
    landing = Landing(LARGE)
    while spot := landing.spot:
        landing.landed(len(spot))
        del spot
    assert 0 < landing.missing < LARGE // 16
    landing.put(bytes(landing.missing))
    assert len(landing.whole()) == LARGE


def test_nothing_is_copied_at_the_end() -> None:
    tracemalloc.start()
    try:
        landing = Landing(len(WHOLE))
        landing.put(WHOLE)
        assert landing.whole() == WHOLE
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(WHOLE)
    finally:
        tracemalloc.stop()


def test_memory_follows_what_has_come() -> None:
    tracemalloc.start()
    try:
        landing = Landing(1 << 26)
        assert len(landing.spot) <= LARGE
        landing.put(WHOLE[:100_000])
        assert len(landing.spot) <= 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
