"""A short form of ``make jepsen``, and the parts it stands on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.ha.jepsen import Book, play
from tests.ha.patroni import new_patroni

_SECONDS = 120


def test_the_books_find_what_is_wrong() -> None:
    book = Book()
    book.attempted = {(0, number) for number in range(10)}
    book.acknowledged = {(0, number) for number in range(8)}
    book.given_up = {(0, 9)}
    book.perhaps_received = {(0, 1)}
    book.received = [(0, 0), (0, 3), (0, 2), (0, 3), (0, 4), (0, 8), (0, 9), (1, 5)]
    assert book.balance() == {
        "attempted": 10,
        "acknowledged": 8,
        "received": 8,
        "lost": 3,
        "uncertain": 1,
        "unexpected": 2,
        "duplicated": 1,
        "recovered": 3,
        "out of order": 1,
    }


def test_a_real_cluster_loses_nothing(tmp_path: Path) -> None:
    with new_patroni() as cluster:
        outcome = asyncio.run(play(cluster, tmp_path, _SECONDS, seed=7))
    assert outcome.problems == [], outcome
    assert outcome.faults
    assert outcome.orders["acknowledged"] > 0
    assert outcome.mail["acknowledged"] > 0
    assert outcome.from_afar > 0
