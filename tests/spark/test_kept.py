"""Claims that the queue managers keep: settled is what lies before a committed position, and nothing else."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TypeVar

import pytest

from msmq.client.queue import QueueIdentity
from msmq.spark import kept
from msmq.spark.doors import Door
from msmq.spark.kept import KeptClaims, NotKeptError
from msmq.spark.offsets import FleetOffset
from msmq.spark.planner import MessagesPartition
from tests.spark.support import ORDERS, Server
from tests.spark.test_claims import A, FakeDoor, at, part

_T = TypeVar("_T")
PLACE = "s3a://bucket/checkpoint"


class One:
    """A fleet of one server, which may be away."""

    def __init__(self, door: FakeDoor) -> None:
        self._door: FakeDoor | None = door

    def at(self, server: str, identity: QueueIdentity | None, question: Callable[[Door], _T]) -> _T | None:
        return None if self._door is None else question(self._door)

    def away(self) -> One:
        self._door = None
        return self


FIRST, SECOND = at({"q": {0: 5}}, A), at({"q": {0: 9}}, A)


def test_nothing_is_removed_before_its_batch_is_committed() -> None:
    door = FakeDoor(q=range(1, 20))
    claims, fleet = KeptClaims(PLACE), One(door)
    claims.make(fleet, FIRST, [part("q", 1, 2, 5)])
    assert claims.settle(fleet) == 0, "nobody says how far it is"
    assert claims.settle(fleet, FleetOffset()) == 0
    assert claims.settle(fleet, FIRST) == 3
    assert door.left["q"] == set(range(1, 20)) - {1, 2, 5}, "exactly its own, and not what lies between"
    assert door.claims("q") == []
    claims.make(fleet, SECOND, [part("q", 6, 9)])
    assert claims.settle(fleet, FIRST) == 0
    assert claims.settle_end(fleet, SECOND) == 2


def test_a_batch_that_was_left_is_settled_with_a_later_one() -> None:
    """Somebody held a message, or the server was away."""
    door = FakeDoor(q=range(1, 20))
    door.held = {2}
    claims, fleet = KeptClaims(PLACE), One(door)
    claims.make(fleet, FIRST, [part("q", 1, 2)])
    assert claims.settle(fleet, FIRST) == 1
    door.held = set()
    claims.make(fleet, SECOND, [part("q", 9)])
    assert claims.settle(fleet, SECOND) == 2
    assert door.claims("q") == []


def test_a_repeated_batch_claims_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_IDS_AT_ONCE", 2)
    door = FakeDoor(q=range(1, 20))
    claims, fleet = KeptClaims(PLACE), One(door)
    claims.make(fleet, FIRST, [part("q", 1, 2, 3, 4, 5)])
    assert len(door.claims("q")) == 3, "no message becomes too large"
    claims.make(fleet, FIRST, [part("q", 1, 5)])
    assert len(door.claims("q")) == 1
    assert claims.settle(fleet, FIRST) == 2
    assert {2, 3, 4} <= door.left["q"], "they were not in the batch that was committed"


def test_a_repeated_batch_is_as_it_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made its claim anew may have been killed before the old one was forgotten."""
    monkeypatch.setattr(kept, "_IDS_AT_ONCE", 2)
    door = FakeDoor(q=range(1, 20))
    claims, fleet = KeptClaims(PLACE), One(door)
    whole = MessagesPartition("", "q", A, array("Q", [1, 2, 5]), frozenset({5}), 300)
    claims.make(fleet, FIRST, [whole])
    monkeypatch.setattr(door, "forget", lambda queue, lookup_ids: None)
    claims.make(fleet, FIRST, [whole])
    assert len(door.claims("q")) == 4
    (found,) = claims.begun(fleet, FIRST, [part("q", 1)])
    assert (list(found.lookup_ids), found.expiring, found.size) == ([1, 2, 5], frozenset({5}), 300)
    (found,) = claims.begun(fleet, SECOND, [part("q", 1)])
    assert list(found.lookup_ids) == [1]


def test_claims_of_others_are_theirs() -> None:
    door = FakeDoor(q=range(1, 20))
    fleet = One(door)
    KeptClaims("hdfs://host/other").make(fleet, FIRST, [part("q", 1)])
    assert KeptClaims(PLACE).settle(fleet, FIRST) == 0
    assert KeptClaims("hdfs://host/other/").settle(fleet, FIRST) == 1


def test_what_was_claimed_before_the_checkpoint_was_begun_is_forgotten() -> None:
    """Somebody deleted the checkpoint, with a batch in it that was never read, and begins behind its messages."""
    door = FakeDoor(q=range(1, 20))
    claims, fleet = KeptClaims(PLACE), One(door)
    claims.make(fleet, FIRST, [part("q", 1, 2)])
    KeptClaims("hdfs://host/other").make(fleet, FIRST, [part("q", 3)])

    class Queues:
        def each_queue(self, ask: Callable[[Door, str], None]) -> None:
            ask(door, "q")

    claims.begin(Queues())
    assert len(door.claims("q")) == 1, "that of another query"
    assert claims.settle(fleet, SECOND) == 0
    assert door.left["q"] == set(range(1, 20))


def test_a_queue_that_is_another_now_keeps_its_messages() -> None:
    door = FakeDoor(q=[1])
    claims, fleet = KeptClaims(PLACE), One(door)
    claims.make(fleet, FIRST, [part("q", 1)])
    door.identity = QueueIdentity("a", "new")
    assert claims.settle(fleet, at({"q": {0: 5}}, door.identity)) == 0
    assert door.left == {"q": {1}}
    claims.make(fleet, FIRST, [part("gone", 1)])
    assert claims.settle(fleet, at({"gone": {0: 5}}, A)) == 0
    assert door.claims("gone") == [], "a queue that was deleted took its messages with it"


def test_a_batch_does_not_begin_without_its_claim() -> None:
    with pytest.raises(NotKeptError, match="which does not answer now"):
        KeptClaims(PLACE).make(One(FakeDoor()).away(), FIRST, [part("q", 1)])


def test_a_real_queue_manager_keeps_them(server: Server) -> None:
    from msmq.spark.doors import open_door
    from msmq.spark.options import Access

    server.create(ORDERS)
    server.send(["a", "b"])
    with open_door(Access.of({"server": server.address})) as door:
        assert door.claims(ORDERS) == []
        door.claim(ORDERS, "label", b"body")
        door.claim(ORDERS, "label 2", b"")
    server.kill()
    server.start()
    with open_door(Access.of({"server": server.address})) as door:
        found = door.claims(ORDERS)
        assert [(claim.label, claim.body) for claim in found] == [("label", b"body"), ("label 2", b"")]
        door.forget(ORDERS, array("Q", [found[0].lookup_id]))
        assert door.claims(ORDERS) == found[1:]
        assert door.queues(".*") == [ORDERS], "nobody reads them by a pattern"
