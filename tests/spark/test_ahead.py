"""Fetching ahead: everything in order, errors where they belong, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import cast

import pytest

from msmq.spark.ahead import ahead


def numbers(count: int, *, closed: threading.Event | None = None) -> Generator[int, None, None]:
    try:
        yield from range(count)
    finally:
        if closed is not None:
            closed.set()


@pytest.mark.parametrize("depth", [1, 3, 100])
def test_everything_in_order(depth: int) -> None:
    assert list(ahead(numbers(50), depth)) == list(range(50))


def test_it_is_fetched_before_it_is_wanted() -> None:
    fetched = threading.Event()

    def items() -> Generator[int, None, None]:
        yield 1
        yield 2
        fetched.set()
        yield 3

    found = ahead(items(), 2)
    assert next(found) == 1
    assert fetched.wait(60), "while nobody asks"
    assert list(found) == [2, 3]


def test_an_error_comes_behind_what_came_before_it() -> None:
    def items() -> Generator[int, None, None]:
        yield 1
        raise LookupError("gone")

    found = ahead(items(), 5)
    assert next(found) == 1
    with pytest.raises(LookupError, match="gone"):
        next(found)


def test_whoever_stops_closes_it() -> None:
    closed = threading.Event()
    found = ahead(numbers(1_000, closed=closed), 2)
    assert next(found) == 0
    cast("Generator[int, None, None]", found).close()
    assert closed.wait(60)
    assert not [thread for thread in threading.enumerate() if thread.name == "fetching ahead"]


def test_nothing_at_all() -> None:
    empty: Iterator[int] = ahead(numbers(0), 1)
    assert list(empty) == []
