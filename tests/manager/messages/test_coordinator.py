"""Distributed transactions: promises survive, outcomes are asked for, everybody does the same."""

from __future__ import annotations

import pytest

from msmq.errors import TransactionEnlistError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import (
    Coordinator,
    Decision,
    ResourceManager,
    Vote,
    decisions_of,
)
from msmq.manager.messages.message import Message
from msmq.manager.queues.queue import Queue
from tests.manager.support import SEND, Host, body_of
from tests.manager.test_trouble import fill_disk_but_for_the_spare

IDENTIFIER = bytes(range(16))


@pytest.fixture
def queue(host: Host) -> Queue:
    return host.queue("tx", transactional=True)


def resource(host: Host) -> ResourceManager:
    return ResourceManager(host.transactions)


def work(host: Host, queue: Queue) -> ResourceManager:
    """Receive one message and send another as a part of a distributed transaction."""
    host.fill(queue, b"in")
    manager = resource(host)
    transaction = manager.enlist(IDENTIFIER)
    host.reader(queue).receive(transaction=transaction)
    host.send(queue, b"out", transaction)
    return manager


class Elsewhere:
    """Another participant: a database, say."""

    def __init__(self, vote: Vote = Vote.PREPARED) -> None:
        self.vote = vote
        self.calls: list[str] = []

    def prepare(self, identifier: bytes, *, single_phase: bool = False) -> Vote:
        self.calls.append("prepare")
        return self.vote

    def commit(self, identifier: bytes) -> None:
        self.calls.append("commit")

    def abort(self, identifier: bytes) -> None:
        self.calls.append("abort")


@pytest.mark.spec("DMPR-3.1.4.6-a", "DMPR-3.1.4.6-b", "DMPR-3.1.4.3-c")
def test_a_prepared_transaction_is_a_durable_promise(host: Host, queue: Queue) -> None:
    manager = work(host, queue)
    assert manager.prepare(IDENTIFIER) is Vote.PREPARED
    assert not host.transactions.collection[IDENTIFIER].single_phase
    assert host.spy.available == [b"in"], "nothing is committed yet"
    host.kill()
    assert resource(host).in_doubt == [IDENTIFIER]
    assert not host.transactions.collection[IDENTIFIER].single_phase
    states = [entry.state for entry in host.find("tx").positions]
    assert states == [PositionState.LOCKED, PositionState.LOCKED]


@pytest.mark.spec("DMPR-3.1.4.6-c")
def test_a_lone_participant_prepares_and_commits_in_one_step(host: Host, queue: Queue) -> None:
    assert work(host, queue).prepare(IDENTIFIER, single_phase=True) is Vote.COMMITTED
    assert host.contents(queue) == [b"out"]
    assert host.transactions.collection == {}


@pytest.mark.spec("DMPR-3.1.4.6-d")
def test_what_is_not_known_is_voted_down(host: Host) -> None:
    assert resource(host).prepare(IDENTIFIER) is Vote.ABORTED


@pytest.mark.spec("DMPR-3.1.4.7-a", "DMPR-3.1.4.8-a")
@pytest.mark.parametrize(("end", "left"), [("commit", [b"out"]), ("abort", [b"in"])])
def test_the_request_is_carried_out_before_it_is_answered(
    host: Host, queue: Queue, end: str, left: list[bytes]
) -> None:
    manager = work(host, queue)
    manager.prepare(IDENTIFIER)
    getattr(manager, end)(IDENTIFIER)
    assert host.contents(queue) == left, "true when the call returns, which is when the answer may go out"
    assert body_of(host.reader(queue).receive()) == left[0]


@pytest.mark.spec("DMPR-3.1.4.9-a", "DMPR-3.1.4.10-a", "DMPR-3.1.1.11-d")
@pytest.mark.parametrize(("decision", "left"), [(Decision.COMMITTED, [b"out"]), (Decision.ABORTED, [b"in"])])
def test_after_a_crash_the_coordinator_is_asked(
    host: Host, queue: Queue, decision: Decision, left: list[bytes]
) -> None:
    work(host, queue).prepare(IDENTIFIER)
    host.kill()
    assert body_of(host.reader(host.find("tx")).receive()) is None, "locked until the outcome is known"
    asked: list[bytes] = []

    def outcome_of(identifier: bytes) -> Decision:
        asked.append(identifier)
        return decision

    resource(host).reenlist(outcome_of)
    assert asked == [IDENTIFIER]
    assert host.contents(host.find("tx")) == left
    host.kill()
    assert resource(host).in_doubt == []
    assert host.contents(host.find("tx")) == left


@pytest.mark.spec("DMPR-3.1.4.11-a")
def test_a_coordinator_that_gives_no_answer_stops_the_start(host: Host, queue: Queue) -> None:
    work(host, queue).prepare(IDENTIFIER)
    host.kill()
    with pytest.raises(TransactionEnlistError, match="does not answer"):
        resource(host).reenlist(lambda identifier: None)
    assert resource(host).in_doubt == [IDENTIFIER], "and nothing was decided without it"


def test_the_coordinator_commits_when_all_are_ready(host: Host, queue: Queue) -> None:
    here, there = work(host, queue), Elsewhere()
    coordinator = Coordinator(host.manager.core.ledger)
    assert coordinator.decide(IDENTIFIER, [here, there]) is Decision.COMMITTED
    assert coordinator.outcome_of(IDENTIFIER) is Decision.COMMITTED
    coordinator.complete(IDENTIFIER, [here, there])
    assert there.calls == ["prepare", "commit"]
    assert host.contents(queue) == [b"out"]
    assert coordinator.outcome_of(IDENTIFIER) is Decision.ABORTED, "forgotten, and nobody asks any more"


@pytest.mark.parametrize("refuser_first", [True, False])
def test_the_coordinator_aborts_when_one_is_not(host: Host, queue: Queue, refuser_first: bool) -> None:
    here, there = work(host, queue), Elsewhere(Vote.ABORTED)
    participants = [there, here] if refuser_first else [here, there]
    coordinator = Coordinator(host.manager.core.ledger)
    assert coordinator.decide(IDENTIFIER, participants) is Decision.ABORTED
    assert host.contents(queue) == [b"in"]
    assert there.calls == ["prepare"], "whoever votes against it has undone everything by itself"


def test_a_crash_between_decision_and_completion_is_completed_later(host: Host, queue: Queue) -> None:
    here, there = work(host, queue), Elsewhere()
    Coordinator(host.manager.core.ledger).decide(IDENTIFIER, [here, there])
    host.kill()
    coordinator = Coordinator(host.manager.core.ledger, decisions_of(host.found.values))
    resource(host).reenlist(coordinator.outcome_of)
    assert host.contents(host.find("tx")) == [b"out"]


def test_a_crash_before_the_decision_is_an_abort(host: Host, queue: Queue) -> None:
    work(host, queue).prepare(IDENTIFIER)
    host.kill()
    resource(host).reenlist(Coordinator(host.manager.core.ledger).outcome_of)
    assert host.contents(host.find("tx")) == [b"in"]


@pytest.mark.parametrize("act", ["receive", "move"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_dead_letter_that_has_kept_its_record_is_out_of_its_transaction(
    act: str, when: str, commits: bool
) -> None:
    """A queue is deleted on a full disk, where its unread message becomes a dead letter by a move. What a prepared
    transaction had done to that message is void, also in the log, before and after a restart."""
    host = Host()
    queue = host.queue(transactional=True)
    sender = host.open(queue, SEND)
    sending = host.transactions.create()
    host.manager.posting.send(sender, Message(b"kept", negative_journaling_requested=True), sending)
    host.transactions.commit(sending.identifier)
    prepared = host.transactions.create(single_phase=False)
    identifier = prepared.identifier
    if act == "receive":
        assert body_of(host.reader(queue).receive(transaction=prepared)) == b"kept"
    else:
        (entry,) = queue.positions
        later = host.manager.queues.subqueue(queue, "later")
        host.manager.move_message(queue.position(entry.lookup_id), later, prepared)
    host.transactions.prepare(identifier, single_phase=False)
    host.store.commit()
    fill_disk_but_for_the_spare(host)
    host.manager.queues.delete(queue)
    host.disk.capacity = None
    end = "commit" if commits else "abort"
    if when == "before":
        host.kill()
        getattr(host.transactions, end)(identifier)
    else:
        getattr(host.transactions, end)(identifier)
    host.kill()
    grave = host.manager.core.transactional_dead_letter_queue
    assert grave is not None
    assert host.contents(grave) == [b"kept"]
    assert [entry.state for entry in grave.positions] == [PositionState.AVAILABLE]
    assert host.manager.core.orphans == {}
