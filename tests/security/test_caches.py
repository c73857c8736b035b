"""Caches that forget: the rule that all of MS-MQQB's caches follow."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from msmq.security.caches import AgingCache

MINUTE = 60_000
LIFETIME = 10 * MINUTE


@dataclass(frozen=True)
class Thing:
    cached_time_ms: int


def filled(size: int, count: int) -> AgingCache[int, Thing]:
    cache: AgingCache[int, Thing] = AgingCache(size, LIFETIME)
    for number in range(count):
        cache.add(number, Thing(number))
    return cache


def test_a_full_cache_drops_its_older_half() -> None:
    assert len(filled(53, 53)) == 53
    cache = filled(53, 54)
    assert [thing.cached_time_ms for thing in cache] == list(range(26, 54))
    assert cache.get(25) is None
    assert cache.get(26) == Thing(26)


def test_the_smallest_caches() -> None:
    assert len(filled(0, 3)) == 0
    assert filled(0, 3).deadline_ms is None
    assert [thing.cached_time_ms for thing in filled(1, 3)] == [2]


def test_an_entry_that_comes_again_is_new() -> None:
    cache = filled(3, 3)
    cache.add(0, Thing(7))
    cache.add(9, Thing(9))
    assert [thing.cached_time_ms for thing in cache] == [2, 7, 9]


def test_the_timer_runs_for_the_first_entry_and_then_for_the_oldest() -> None:
    cache: AgingCache[int, Thing] = AgingCache(9, LIFETIME)
    assert cache.deadline_ms is None
    cache.add(1, Thing(0))
    cache.add(2, Thing(4 * MINUTE))
    assert cache.deadline_ms == LIFETIME
    cache.handle_timer(LIFETIME - 1)
    assert (len(cache), cache.deadline_ms) == (2, LIFETIME)
    cache.handle_timer(LIFETIME)
    assert len(cache) == 2, "exactly as old as its lifetime"
    assert cache.deadline_ms == LIFETIME + MINUTE
    cache.handle_timer(LIFETIME + MINUTE)
    assert (len(cache), cache.deadline_ms) == (1, 4 * MINUTE + LIFETIME + MINUTE)
    cache.handle_timer(5 * MINUTE + LIFETIME)
    assert (len(cache), cache.deadline_ms) == (0, None)


@given(st.integers(0, 20), st.lists(st.tuples(st.integers(0, 9), st.integers(0, LIFETIME))))
def test_a_timer_runs_exactly_while_there_is_something(size: int, steps: list[tuple[int, int]]) -> None:
    cache: AgingCache[int, Thing] = AgingCache(size, LIFETIME)
    now_ms = 0
    for key, later_ms in steps:
        now_ms += later_ms
        cache.handle_timer(now_ms)
        cache.add(key, Thing(now_ms))
        assert len(cache) <= size
        assert (cache.deadline_ms is None) == (len(cache) == 0)
        assert all(now_ms - thing.cached_time_ms <= LIFETIME + 2 * MINUTE + LIFETIME for thing in cache)
