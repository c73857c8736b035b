"""Messages in columns: what is taken out of the rows of the log."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from random import Random

import pytest

from msmq.manager.ledger.recovered import (
    NEVER,
    PEEKABLE_WHEN_LOCKED,
    ROW_SIZE,
    Block,
    Places,
    Recovered,
    Rows,
    Standing,
    front_in,
)
from msmq.manager.mailbox.positions import PositionMark

MESSAGE, DELETE, OTHER = 1, 2, 5
_ROW = struct.Struct("<BBHIQIII16sQI")
NO_TRANSACTION = bytes(16)
TRANSACTION = bytes(15) + b"\1"


def row(
    kind: int, lookup_id: int, address: int = 0, queue: int = 16, transaction: bytes = NO_TRANSACTION
) -> bytes:
    return _ROW.pack(kind, 0, 0, queue, lookup_id, 7, NEVER, 0, transaction, address, 108)


def block(*messages: tuple[int, int], queue: int = 16, expiry: int = NEVER, flags: int = 0) -> Block:
    """Messages, given as identifier and address."""
    count = len(messages)
    ids, addresses = zip(*messages, strict=True)
    numbers = ([108] * count, [queue] * count, [expiry] * count, [flags] * count)
    return Block(array("Q", ids), array("Q", addresses), *(array("I", column) for column in numbers))


def ids(lanes: dict[tuple[int, int], list[Places]]) -> dict[int, list[int]]:
    """The identifiers in each queue; no queue has several priorities."""
    return {queue: [one for places in parts for one in places.ids] for (queue, _), parts in lanes.items()}


def test_a_row_has_the_size_that_the_log_gives_it() -> None:
    assert _ROW.size == ROW_SIZE


@pytest.mark.parametrize("others", [0, 3, 40], ids=["none", "few", "many"])
def test_rows_are_divided_into_messages_deletions_and_the_rest(others: int) -> None:
    rows = [row(MESSAGE, 7 << 56 | number, 1 << 40 | number) for number in range(1, 60)]
    rows += [row(DELETE, number) for number in range(100, 105)]
    rows += [row(OTHER, 0) for _ in range(others)]
    rows += [row(MESSAGE, 500, 9, transaction=TRANSACTION) for _ in range(others)]
    Random(others).shuffle(rows)
    found = Rows(b"".join(rows), MESSAGE, DELETE)
    messages = found.messages()
    assert sorted(messages.ids) == [7 << 56 | number for number in range(1, 60)]
    pairs = zip(messages.ids, messages.addresses, strict=True)
    assert all(address == 1 << 40 | lookup_id & 0xFF for lookup_id, address in pairs)
    assert set(messages.sizes) == {108}
    assert sorted(found.deleted()) == list(range(100, 105))
    assert len(found.unusual) == others
    assert all(rows[number][0] == OTHER for number in found.unusual)
    assert list(found.sent()) == [(TRANSACTION, 500, Standing(16, 9, 108, NEVER, 0))] * others


@pytest.mark.parametrize("early", [False, True])
def test_what_is_dead_is_released(early: bool) -> None:
    found, released = Recovered(), list[tuple[int, int]]()
    found.add(block((1, 10), (2, 20), (3, 30)))
    found.commit({4: Standing(16, 40, 108, NEVER, 0)}, 0, 0)
    found.moved[2] = 17
    found.dead |= {2, 4, 99}
    if early:
        found.bury(lambda *columns: released.extend(zip(*columns, strict=True)))
    found.add(block((5, 50)))
    found.settle(lambda *columns: released.extend(zip(*columns, strict=True)))
    assert sorted(released) == [(20, 108), (40, 108)]
    assert ids(found.lanes()) == {16: [1, 3, 5]}
    assert found.moved == {}


def test_of_a_message_and_its_copies_the_last_one_counts() -> None:
    found, released = Recovered(), list[tuple[int, int]]()
    found.add(block((1, 10), (2, 20), (7, 70)))
    found.commit({8: Standing(16, 80, 108, NEVER, 0)}, 0, 0)
    found.highest = 8
    found.add(block((9, 90), (1, 100)))
    found.add(block((1, 110), (8, 120), queue=17))
    found.settle(lambda *columns: released.extend(zip(*columns, strict=True)))
    assert sorted(released) == [(10, 108), (80, 108), (100, 108)]
    lanes = found.lanes()
    assert ids(lanes) == {16: [2, 7, 9], 17: [1, 8]}
    assert [address for places in lanes[17, 0] for address in places.addresses] == [110, 120]


def test_a_copy_comes_back_to_its_place() -> None:
    found = Recovered()
    found.add(block((2, 20), (3, 30)))
    found.add(block((1, 40)))
    found.settle(lambda *columns: None)
    (lane,) = found.lanes()[16, 0]
    assert (list(lane.ids), list(lane.addresses)) == ([1, 2, 3], [40, 20, 30])
    assert list(lane.sizes) == [108 - front_in(0)] * 3
    assert list(lane.fronts) == [front_in(0)] * 3


@pytest.mark.parametrize("queues", [1, 3])
def test_lanes_are_those_of_queues_and_priorities(queues: int) -> None:
    found, expected, number = Recovered(), dict[tuple[int, int], list[int]](), 0
    random = Random(queues)
    for _ in range(4):
        rows = list[bytes]()
        for _ in range(50):
            number += 1
            queue, top = 16 + random.randrange(queues), random.randrange(8)
            rows.append(row(MESSAGE, top << 56 | number, number, queue))
            expected.setdefault((queue, top), []).append(top << 56 | number)
        found.add(Rows(b"".join(rows), MESSAGE, DELETE).messages())
    found.settle(lambda *columns: None)
    lanes = found.lanes()
    assert {key: [one for places in parts for one in places.ids] for key, parts in lanes.items()} == expected
    assert not found.blocks


def test_messages_stand_where_they_were_moved() -> None:
    found = Recovered()
    found.add(block((1, 10), (2, 20), (3, 30)))
    found.commit({4: Standing(16, 40, 108, NEVER, 0)}, 0, 0)
    found.moved = {2: 17, 4: 17, 3: 16, 99: 17}
    found.settle(lambda *columns: None)
    assert ids(found.lanes()) == {16: [1, 3], 17: [2, 4]}
    assert found.moved == {2: 17, 4: 17}, "only those whose record says another queue"


def test_details_are_given_for_those_that_have_any() -> None:
    found = Recovered()
    found.add(block((1, 10)))
    found.add(block((2, 20), expiry=1000))
    found.add(block((3, 30), flags=PEEKABLE_WHEN_LOCKED))
    found.add(block((4, 40), flags=2 | 5 << 8))
    lane = found.lanes()[16, 0]
    assert [(queue, list(ids), list(seconds)) for queue, ids, seconds in found.expiring()] == [
        (16, [2], [1000])
    ]
    assert list(found.peekable()) == [(16, 3)]
    marks = [mark for places in lane for mark in places.marks]
    assert marks == [0, 0, 0, PositionMark.FIRST | PositionMark.HAS_LOCAL]
    assert [size for places in lane for size in places.sizes] == [100, 100, 100, 95]


def sent(*messages: tuple[int, int]) -> Rows:
    """Messages in a transaction, given as identifier and address."""
    rows = [row(MESSAGE, *each, transaction=TRANSACTION) for each in messages]
    return Rows(b"".join(rows), MESSAGE, DELETE)


def test_messages_of_a_transaction_wait_for_its_outcome() -> None:
    found, released = Recovered(), list[tuple[int, int]]()

    def release(*columns: Sequence[int]) -> None:
        released.extend(zip(*columns, strict=True))

    found.send(sent((1, 10), (2, 20)), release)
    found.send(sent((3, 30), (1, 40)), release)
    assert released == [(10, 108)], "of a message that was copied meanwhile the copy counts"
    assert found.highest == 3
    found.dead.add(2)
    found.bury(release)
    assert released[1:] == [(20, 108)], "its queue was deleted"
    found.commit(found.open_transactions.pop(TRANSACTION).sent, 1, 3)
    found.settle(release)
    (lane,) = found.lanes()[16, 0]
    assert (list(lane.ids), list(lane.addresses)) == ([1, 3], [40, 30])
    assert list(lane.marks) == [PositionMark.FIRST, PositionMark.LAST]
    assert len(released) == 2


def test_what_an_aborted_transaction_sent_is_released() -> None:
    found, released = Recovered(), list[tuple[int, int]]()
    found.send(sent((1, 10), (2, 20)), lambda *columns: None)
    found.open_transactions.pop(TRANSACTION).undo(
        lambda *columns: released.extend(zip(*columns, strict=True))
    )
    found.settle(lambda *columns: None)
    assert sorted(released) == [(10, 108), (20, 108)]
    assert found.lanes() == {}
