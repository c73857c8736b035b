"""Places of transactional messages: written, dropped in order, found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msmq.manager.ledger.ledger import Ledger
from msmq.server.inbound.places import Places, stored_places
from msmq.store import RealDisk, Store
from msmq.transfer.order_sender import Place
from tests.store.support import committed

QUEUE = 20


class Book:
    """A ledger that can be opened again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.values: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        self.store = Store.open(RealDisk(self.directory))
        self.ledger = Ledger(self.store)
        self.values = self.ledger.recover().values

    def reopen(self) -> dict[int, list[tuple[int, int, list[int]]]]:
        self.store.close()
        self.open()
        return stored_places(self.values)


def test_they_are_found_again(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    assert places.last == (0, 0)
    places.write(Place(7, 1, 0), [100, 102, 101])
    places.write(Place(7, 4, 3), [103])
    assert places.last == (7, 4)
    found = book.reopen()
    assert found == {QUEUE: [(7, 1, [100, 102, 101]), (7, 4, [103])]}
    again = Places(book.ledger, QUEUE)
    assert again.restore(found[QUEUE], {100, 101, 103}) == [(7, 1, 100), (7, 3, 101), (7, 4, 103)]
    assert again.last == (7, 4)
    book.store.close()


def test_the_last_number_is_known_as_long_as_any_message_is_there(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    for number in range(1, 4):
        places.write(Place(7, number, 0), [100 + number])
    places.done(103)
    places.done(102)
    places.done(999)  # has no place
    assert places.last == (7, 3)
    found = book.reopen()[QUEUE]
    assert [first for _, first, _ in found] == [1, 2, 3]
    again = Places(book.ledger, QUEUE)
    again.restore(found, {101})
    again.done(101)
    assert again.last == (0, 0)
    assert book.reopen() == {}
    book.store.close()


def test_sequences_in_their_order(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    places.write(Place(9, 1, 0), [1])
    places.write(Place(10, 1, 0), [2])
    found = book.reopen()[QUEUE]
    again = Places(book.ledger, QUEUE)
    assert again.restore(list(reversed(found)), {1, 2}) == [(9, 1, 1), (10, 1, 2)]
    assert again.last == (10, 1)
    book.store.close()


def test_what_a_crash_left_behind_is_dropped(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    places.write(Place(7, 1, 0), [1])
    places.write(Place(7, 2, 0), [2])
    found = book.reopen()[QUEUE]
    again = Places(book.ledger, QUEUE)
    assert again.restore(found, {2}) == [(7, 2, 2)]
    found = book.reopen()[QUEUE]
    assert found == [(7, 2, [2])]
    again = Places(book.ledger, QUEUE)
    assert again.restore(found, set()) == []
    assert book.reopen() == {}
    book.store.close()


def test_identifiers_that_follow_each_other_take_little_room(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    written = {1: list(range(1 << 56, (1 << 56) + 500)), 501: [7], 502: [8, 10], 504: [12, 11]}
    for first, lookup_ids in written.items():
        places.write(Place(7, first, 0), lookup_ids)
    assert 0 < committed(book.store) < 1_000
    found = book.reopen()[QUEUE]
    assert {first: lookup_ids for _, first, lookup_ids in found} == written
    book.store.close()


def test_many_are_done_at_once(tmp_path: Path) -> None:
    book = Book(tmp_path)
    places = Places(book.ledger, QUEUE)
    places.write(Place(7, 1, 0), [1, 2, 3])
    places.write(Place(7, 4, 0), [4, 5])
    places.done_all([2, 3, 4, 5, 99])
    assert places.last == (7, 5)
    places.done_all([1, 1])
    assert places.last == (0, 0)
    book.store.close()
