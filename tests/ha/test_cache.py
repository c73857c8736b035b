"""The copy of the log that a standby has."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.ha.cache import Cache
from msmq.ha.log import NumberedRow, Row
from msmq.store import RealDisk


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(RealDisk(tmp_path / "cache"))


def files(cache: Cache) -> dict[str, bytes]:
    cache.close()
    assert isinstance(cache.disk, RealDisk)
    return {path.name: path.read_bytes() for path in cache.disk.path.iterdir()}


def rows(*given: Row, first: int = 1) -> list[NumberedRow]:
    return [NumberedRow(number, row) for number, row in enumerate(given, start=first)]


def test_rows_make_files(cache: Cache) -> None:
    cache.apply(
        rows(Row(0, 0, b"format"), Row(1, 0, b"12345"), Row(1, 5, b"678"), Row(1, 6, None), Row(2, 0, b"x"))
    )
    assert files(cache) == {"FORMAT": b"format", "00000001.log": b"123456", "00000002.log": b"x"}
    assert cache.applied == 5


def test_a_number_that_is_used_again_brings_nothing_of_the_old_file_back(cache: Cache) -> None:
    cache.apply(rows(Row(1, 0, b"a long batch of long ago")))
    cache.apply(rows(Row(1, 0, b"new"), first=9))
    assert files(cache) == {"00000001.log": b"new"}


def test_dropped_segments_go(cache: Cache) -> None:
    cache.apply(rows(Row(1, 0, b"a"), Row(2, 0, b"b"), Row(3, 0, b"c")))
    cache.keep({2, 3})
    assert set(files(cache)) == {"00000002.log", "00000003.log"}


@pytest.mark.parametrize(
    ("end", "starts", "anew"),
    [(2, [], False), (3, [3], False), (1, [], True), (5, [2], True), (5, [6, 2], True)],
)
def test_rows_that_the_log_lost_are_found_out(cache: Cache, end: int, starts: list[int], anew: bool) -> None:
    """The log ends before them, or a leader began below them."""
    cache.apply(rows(Row(1, 0, b"a"), Row(1, 1, b"b")))
    assert cache.compare(end, starts) is anew
    assert bool(files(cache)) is not anew
    assert cache.applied == (0 if anew else 2)


def test_what_was_not_confirmed_is_fetched_again(cache: Cache) -> None:
    cache.apply(rows(Row(1, 0, b"a"), Row(2, 0, b"b")))
    cache.discard({2, 3})
    assert set(files(cache)) == {"00000001.log"}
    assert cache.missing == {2, 3}
    cache.keep({1, 2})
    assert cache.missing == {2}
    cache.restore(2, [Row(2, 0, b"b")])
    assert files(cache) == {"00000001.log": b"a", "00000002.log": b"b"}
    assert not cache.missing
