"""Messages that expire: kept by the second, and forgotten when they leave."""

from __future__ import annotations

from array import array
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.manager.mailbox import expiries
from msmq.manager.mailbox.expiries import Buckets, Search
from msmq.manager.mailbox.positions import PositionList
from tests.manager.support import Host


def buckets_of(*lookup_ids: int) -> Buckets:
    """The buckets of a queue with these messages."""
    positions = PositionList()
    for lookup_id in lookup_ids:
        positions.add((lookup_id,), (0,), (100,), (8,), bytes(1))
    return Buckets(positions)


def test_the_first_second_comes_first() -> None:
    buckets = buckets_of(1, 2, 3)
    assert buckets.first is None
    buckets.add((1, 2, 3), (20, 30, 20))
    buckets.add((4,), (10,))
    assert (buckets.first, len(buckets), set(buckets)) == (10, 4, {1, 2, 3, 4})
    assert buckets.pop() == (10, array("Q", (4,)))
    assert buckets.pop() == (20, array("Q", (1, 3)))
    assert (buckets.first, len(buckets), set(buckets)) == (30, 1, {2})


def test_messages_that_left_are_forgotten_when_they_are_many() -> None:
    buckets = buckets_of(5_000)
    for lookup_id in range(1, 10_000):
        buckets.add((lookup_id,), (100 + lookup_id // 1_000,))
    assert len(buckets) <= 1_025
    assert buckets.first == 105
    assert 5_000 in buckets.pop()[1]


def test_very_many_messages_are_swept_a_part_at_a_time() -> None:
    there = range(0, 20_000, 7)
    buckets = buckets_of(*there)
    buckets.add(range(20_000), (number % 100 for number in range(20_000)))
    assert sorted(buckets) == [*there]
    assert [buckets.pop()[0] for _ in range(100)] == [*range(100)]


def test_messages_that_leave_do_not_pile_up() -> None:
    """A day to be received, and every message is received at once."""
    host = Host()
    queue, timers = host.queue(), host.manager.core.timers
    reader = host.reader(queue)
    for number in range(5000):
        host.now += 1 if number % 10 == 0 else 0
        host.send(queue, b"x", time_to_be_received_s=86_400)
        reader.receive()
    assert len(host.manager.mailbox.expiries) <= 1025
    assert len(timers) < 50, "a queue has one timer, whatever the times of its messages"


def test_messages_of_a_queue_share_a_timer() -> None:
    host = Host()
    queue = host.queue()
    before = len(host.manager.core.timers)
    host.fill(queue, *[b"x"] * 2000, time_to_be_received_s=60)
    host.fill(queue, *[b"x"] * 1000, time_to_be_received_s=70)
    assert len(host.manager.core.timers) == before + 1
    assert len(host.manager.mailbox.expiries) == 3000
    host.advance(60)
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 1000
    host.advance(10)
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 0


def test_who_expires_sooner_than_all_others_is_not_late() -> None:
    host = Host()
    queue = host.queue()
    for seconds in (300, 200, 100, 400):
        host.send(queue, b"%d" % seconds, time_to_be_received_s=seconds)
    for left in (3, 2, 1, 0):
        host.advance(99)
        assert len(queue.positions) == left + 1
        host.advance(1)
        assert len(queue.positions) == left


def test_seconds_that_have_gone_by_together_expire_together() -> None:
    host = Host()
    queue = host.queue()
    for seconds in range(1, 20):
        host.send(queue, b"x", time_to_be_received_s=seconds)
    host.now += 15
    host.manager.run_timers()
    assert len(queue.positions) == len(host.manager.mailbox.expiries) == 4


def test_sweeping_forgets_nothing_that_is_there() -> None:
    host = Host()
    queue = host.queue()
    kept = host.send(queue, b"kept", time_to_be_received_s=100, priority=0)
    reader = host.reader(queue)
    for _ in range(3000):
        host.send(queue, b"x", time_to_be_received_s=50)
        reader.receive()
    last = host.send(queue, b"last", time_to_be_received_s=100)
    host.advance(99)
    assert {entry.lookup_id for entry in queue.positions} == {kept.lookup_id, last.lookup_id}
    host.advance(1)
    assert len(queue.positions) == 0


def test_a_deleted_queue_takes_its_timers_along() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"a", b"b", time_to_be_received_s=60)
    host.manager.queues.delete(queue)
    assert len(host.manager.mailbox.expiries) == 0
    host.advance(100)
    assert host.manager.core.timers.failures == 0


@given(st.sets(st.integers(0, 3_000)), st.lists(st.integers(0, 3_000), max_size=200))
def test_what_two_have_in_common(many: set[int], some: list[int]) -> None:
    found = expiries._common(array("Q", sorted(many)), array("Q", some))
    assert set(found) == many.intersection(some)


def test_some_of_very_many_are_asked_for_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiries, "_ASKED_TOGETHER", 100)
    host = Host()
    queue = host.queue()
    for number in range(10):
        host.fill(queue, *[b"x"] * 150, time_to_be_received_s=60 + number)
        host.fill(queue, *[b"x"] * 50)
    ids = [entry.lookup_id for entry in queue.positions]
    ending = [one for place, one in enumerate(ids) if place % 200 < 150]
    with Search(host.manager.mailbox.expiries, queue) as search:
        parts = list(search.among(ids))
    assert sorted(chain.from_iterable(parts)) == ending
    assert max(map(len, parts)) < 200
    with Search(host.manager.mailbox.expiries, queue) as search:
        assert list(chain.from_iterable(search.among(ids[:300]))) == [*ids[:150], *ids[200:300]]
    assert host.manager.mailbox.expiries.searches == []


@pytest.mark.parametrize("after", range(6))
def test_those_that_expire_while_they_are_asked_for_are_told_once(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Whatever part was told before: some of them expire when none was, some when all were."""
    monkeypatch.setattr(expiries, "_ASKED_TOGETHER", 100)
    host = Host()
    queue, other = host.queue(), host.queue("other")
    for seconds in (60, 70, 80):
        host.fill(queue, *[b"x"] * 150, time_to_be_received_s=seconds)
        host.fill(other, *[b"x"] * 150, time_to_be_received_s=seconds)
    ids = [entry.lookup_id for entry in queue.positions]
    with Search(host.manager.mailbox.expiries, queue) as search:
        told: list[int] = []
        if after == 0:
            host.advance(70)
        for number, part in enumerate(search.among(ids), 1):
            told += part
            if number == after:
                host.advance(70)
    assert sorted(told) == ids


def test_those_that_came_after_the_search_began_are_found() -> None:
    host = Host()
    queue = host.queue()
    with Search(host.manager.mailbox.expiries, queue) as search:
        sent = host.send(queue, b"x", time_to_be_received_s=60)
        assert list(chain.from_iterable(search.among([sent.lookup_id]))) == [sent.lookup_id]
