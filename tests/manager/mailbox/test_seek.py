"""Seeking along a queue and by lookup identifier, and what a reader gets that way."""

from __future__ import annotations

import pytest

from msmq.errors import (
    AccessDeniedError,
    MessageAlreadyReceivedError,
    MessageNotFoundError,
    QueueNotAvailableError,
    TransactionUsageError,
)
from msmq.manager.mailbox.positions import END, START, PositionState
from msmq.manager.mailbox.seek import next_readable, previous_readable, seek_by_id
from msmq.manager.model import MessageSeekAction, OperationType
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from tests.manager.support import MQ_OK, PEEK, SEND, Host, body_of, position_of

FIRST, PREVIOUS, CURRENT = MessageSeekAction.FIRST, MessageSeekAction.PREVIOUS, MessageSeekAction.CURRENT
NEXT, LAST = MessageSeekAction.NEXT, MessageSeekAction.LAST
NOT_FOUND = MessageNotFoundError.code


@pytest.fixture
def crafted(host: Host, queue: Queue) -> dict[str, int]:
    """Seven messages by name. Locked ones are skipped, except that a peek may see the one that is shown; the
    purged one is held as well. The first and the last are held, too."""
    names = {
        "lock0": False,
        "a": False,
        "shown": True,
        "purge": True,
        "b": False,
        "c": False,
        "lock1": False,
    }
    places = {
        name: host.send(queue, name.encode(), allow_peek_when_locked=peekable).lookup_id
        for name, peekable in names.items()
    }
    for name in ("lock0", "shown", "lock1"):
        queue.positions.set_state(places[name], PositionState.LOCKED)
    queue.positions.set_state(places["purge"], PositionState.PURGE_PENDING)
    return places


# --- along the queue ----------------------------------------------------------------------------------------


def walk(queue: Queue, crafted: dict[str, int], *, peek: bool, forward: bool) -> list[str]:
    """Every message a seek comes to, from one reserved entry to the other."""
    names = {lookup_id: name for name, lookup_id in crafted.items()}
    seek = next_readable if forward else previous_readable
    found: list[str] = []
    place: int | None = START if forward else END
    while place is not None:
        place = seek(queue, place, peek=peek)
        found += [] if place is None else [names[place]]
    return found


@pytest.mark.spec("DMPR-3.1.7.3.2-a", "DMPR-3.1.7.3.2-b", "DMPR-3.1.7.3.2-c")
def test_seeking_skips_what_is_held_unless_a_peek_may_see_it(queue: Queue, crafted: dict[str, int]) -> None:
    assert walk(queue, crafted, peek=False, forward=True) == ["a", "b", "c"]
    assert walk(queue, crafted, peek=False, forward=False) == ["c", "b", "a"]
    assert walk(queue, crafted, peek=True, forward=True) == ["a", "shown", "b", "c"]
    assert walk(queue, crafted, peek=True, forward=False) == ["c", "b", "shown", "a"]
    for peek in (False, True):
        assert next_readable(queue, crafted["purge"], peek=peek) == crafted["b"]
        assert previous_readable(queue, crafted["a"], peek=peek) is None, "back from the first one is none"
        assert next_readable(queue, crafted["c"], peek=peek) is None
        assert next_readable(queue, END, peek=peek) is None
        assert previous_readable(queue, START, peek=peek) is None


@pytest.mark.spec("DMPR-3.1.7.3.2-d")
def test_what_a_transaction_holds_is_seen_by_peeks_when_its_sender_allows_it(
    host: Host, queue: Queue
) -> None:
    for body, allowed in ((b"hidden", False), (b"shown", True), (b"free", False)):
        host.send(queue, body, allow_peek_when_locked=allowed)
    transaction = host.transactions.create(b"t" * 16)
    taking, looking = host.reader(queue), host.reader(queue, PEEK)
    for _ in range(2):
        taking.receive(transaction=transaction)
    assert taking.bodies == [b"hidden", b"shown"]
    assert body_of(looking.peek()) == b"shown"
    assert body_of(host.reader(queue).receive()) == b"free"
    host.transactions.abort(transaction.identifier)
    assert body_of(looking.peek()) == b"hidden"


@pytest.mark.spec("DMPR-3.1.1.11-e")
def test_the_way_forward_and_the_way_back_visit_the_same_places(host: Host, queue: Queue) -> None:
    sent = [host.send(queue, b"%d" % number, priority=number * 5 % 8) for number in range(40)]
    forward, place = [], queue.positions.next_available(START)
    while place is not None:
        forward.append(place)
        place = queue.positions.next_available(place.lookup_id)
    backward, place = [], queue.positions.previous_available(END)
    while place is not None:
        backward.append(place)
        place = queue.positions.previous_available(place.lookup_id)
    assert forward == backward[::-1] == list(queue.positions)
    assert {place.lookup_id for place in forward} == {position.lookup_id for position in sent}
    assert all(position.queue is queue for position in sent), "each place knows its queue"


# --- by identifier ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.17-b", "DMPR-3.1.7.3.3-a", "DMPR-3.1.7.3.3-c", "DMPR-3.1.7.3.3-e")
@pytest.mark.parametrize("peek", [True, False])
@pytest.mark.parametrize(
    ("action", "found"),
    [(FIRST, b"a"), (PREVIOUS, b"b"), (CURRENT, b"c"), (NEXT, b"d"), (LAST, b"e")],
)
def test_each_action_finds_its_message(
    host: Host, queue: Queue, action: MessageSeekAction, found: bytes, peek: bool
) -> None:
    places = host.fill(queue, b"a", b"b", b"c", b"d", b"e")
    sought = seek_by_id(queue, places[2].lookup_id, action, peek=peek)
    assert sought == (MQ_OK, places[b"abcde".index(found)].lookup_id)
    result = host.reader(queue).lookup(places[2].lookup_id, action, peek=peek)
    assert body_of(result) == found
    assert (found in host.contents(queue)) == peek


@pytest.mark.spec("DMPR-3.1.7.3.3-b")
def test_an_unknown_identifier_matters_only_to_who_starts_from_it(host: Host, queue: Queue) -> None:
    places = host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    for unknown in (0, places[0].lookup_id + 77, (1 << 64) - 1):
        for action in (PREVIOUS, CURRENT, NEXT):
            for peek in (True, False):
                assert reader.lookup(unknown, action, peek=peek).status == NOT_FOUND == 0xC00E0088
        assert body_of(reader.lookup(unknown, FIRST)) == b"a"
        assert body_of(reader.lookup(unknown, LAST)) == b"b"


@pytest.mark.spec("DMPR-3.1.7.3.3-d")
def test_next_and_previous_stop_at_the_reserved_entries(host: Host, queue: Queue) -> None:
    first, second = host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    for peek in (True, False):
        assert reader.lookup(second.lookup_id, NEXT, peek=peek).status == NOT_FOUND == 0xC00E0088
        assert reader.lookup(first.lookup_id, PREVIOUS, peek=peek).status == NOT_FOUND
    assert body_of(reader.lookup(first.lookup_id, NEXT)) == b"b"
    assert body_of(reader.lookup(second.lookup_id, PREVIOUS)) == b"a"


def test_the_first_and_last_of_an_empty_queue_are_not_found(host: Host, queue: Queue) -> None:
    for action in MessageSeekAction:
        assert host.reader(queue).lookup(0, action).status == NOT_FOUND


@pytest.mark.spec("DMPR-3.1.7.3.3-f", "DMPR-3.1.7.3.3-g", "DMPR-3.1.7.1.13-c")
def test_the_very_message_when_it_is_held_or_gone(host: Host, queue: Queue, crafted: dict[str, int]) -> None:
    reader = host.reader(queue)
    assert body_of(reader.lookup(crafted["shown"], CURRENT)) == b"shown"
    assert reader.lookup(crafted["lock0"], CURRENT).status == TransactionUsageError.code == 0xC00E0050
    assert reader.lookup(crafted["purge"], CURRENT).status == NOT_FOUND
    for held in ("lock0", "shown", "purge"):
        assert reader.lookup(crafted[held], CURRENT, peek=False).status == NOT_FOUND == 0xC00E0088
    assert reader.lookup(crafted["b"], CURRENT, peek=False).status == MQ_OK
    for peek in (True, False):
        gone = reader.lookup(crafted["b"], CURRENT, peek=peek).status
        assert gone in (MessageAlreadyReceivedError.code, NOT_FOUND)
    assert reader.lookup(1, CURRENT).status == NOT_FOUND, "an unknown one"


# --- reading by identifier ----------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.13-a", "DMPR-3.1.7.1.13-d")
def test_a_lookup_peek_answers_at_once_and_changes_nothing(host: Host, queue: Queue) -> None:
    places = host.fill(queue, b"a", b"b", b"c")
    reader = host.reader(queue, PEEK)
    for _ in range(2):
        result = reader.lookup(places[1].lookup_id, CURRENT)
        assert body_of(result) == b"b"
        assert position_of(result) == places[1]
        assert places[1].state is PositionState.AVAILABLE
    assert not queue.waiting


@pytest.mark.spec("DMPR-3.1.7.1.13-b")
def test_a_lookup_in_a_deleted_queue(host: Host, queue: Queue) -> None:
    place = host.send(queue, b"a")
    reader = host.reader(queue)
    host.manager.queues.delete(queue)
    for peek in (True, False):
        status = reader.lookup(place.lookup_id, CURRENT, peek=peek).status
        assert status == QueueNotAvailableError.code == 0xC00E004B


@pytest.mark.spec("DMPR-3.1.7.1.13-e")
def test_a_lookup_receive_takes_locks_or_joins_a_transaction(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    plain, two_phase, joined = host.fill(queue, b"a", b"b", b"c")
    reader = host.reader(queue)
    assert body_of(reader.lookup(plain.lookup_id, CURRENT, peek=False)) == b"a"
    assert plain.state is PositionState.DELETED
    assert host.spy.deleted == [(b"a", MessageClass.ACK_RECEIVE)]

    assert body_of(reader.lookup(two_phase.lookup_id, CURRENT, peek=False, two_phase_read=True)) == b"b"
    assert two_phase.state is PositionState.LOCKED

    transaction = host.transactions.create()
    result = reader.lookup(joined.lookup_id, CURRENT, peek=False, transaction=transaction)
    assert body_of(result) == b"c"
    assert joined.state is PositionState.LOCKED
    (operation,) = transaction.operations
    assert operation.operation_type is OperationType.DEQUEUE
    assert (operation.queue, [*operation.ids]) == (joined.queue, [joined.lookup_id])
    assert operation.reasons == {}

    reader.end(two_phase, keep=True)
    host.transactions.commit(transaction.identifier)
    assert not queue.positions


def test_a_lookup_needs_the_access_that_its_read_needs(host: Host, queue: Queue) -> None:
    place = host.send(queue, b"a")
    peeker, sender = host.reader(queue, PEEK), host.reader(queue, SEND)
    assert peeker.lookup(place.lookup_id, CURRENT, peek=False).status == AccessDeniedError.code
    assert sender.lookup(place.lookup_id, CURRENT).status == AccessDeniedError.code
    assert body_of(peeker.lookup(place.lookup_id, CURRENT)) == b"a"
