"""When messages expire: by second, first ones first, and without a trace of those that left."""

from __future__ import annotations

from msmq.manager.mailbox.positions import PositionList
from msmq.server.outbound.deadlines import Expiries


def queue_of(*lookup_ids: int) -> PositionList:
    positions = PositionList()
    for lookup_id in lookup_ids:
        positions.add((lookup_id,), (0,), (100,), bytes(1))
    return positions


def test_the_first_second_counts() -> None:
    expiries = Expiries(queue_of(1, 2, 3))
    assert expiries.first is None
    assert expiries.add(20, 1)
    assert not expiries.add(30, 2)
    assert not expiries.add(20, 3), "somebody is woken for this second already"
    assert expiries.add(10, 4)
    assert (expiries.first, len(expiries)) == (10, 4)


def test_a_message_lives_through_its_last_second() -> None:
    expiries = Expiries(queue_of(1, 2, 3))
    for lookup_id, second in ((1, 20), (2, 30), (3, 20)):
        expiries.add(second, lookup_id)
    assert list(expiries.pop_before(20)) == []
    assert list(expiries.pop_before(21)) == [1, 3]
    assert (expiries.first, len(expiries)) == (30, 1)


def test_who_is_put_off_while_the_others_are_looked_at() -> None:
    expiries = Expiries(queue_of(1, 2))
    expiries.add(20, 1)
    expiries.add(20, 2)
    for lookup_id in expiries.pop_before(50):
        expiries.add(51, lookup_id)
    assert (expiries.first, len(expiries)) == (51, 2)


def test_messages_that_left_are_forgotten_when_they_are_many() -> None:
    positions = queue_of(5_000)
    expiries = Expiries(positions)
    for lookup_id in range(1, 10_000):
        expiries.add(100 + lookup_id // 1_000, lookup_id)
    assert len(expiries) <= 2_048
    assert 5_000 in expiries.pop_before(1_000)
