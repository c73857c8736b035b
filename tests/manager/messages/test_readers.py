"""Receiving and peeking: which message it is, what becomes of it, and which status a read ends with."""

from __future__ import annotations

import pytest

from msmq.errors import (
    AccessDeniedError,
    IllegalCursorActionError,
    IoTimeoutError,
    MessageAlreadyReceivedError,
    MessageStorageFailedError,
    QueueNotAvailableError,
    TransactionSequenceError,
)
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.readers import INFINITE
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import OperationType
from msmq.manager.queues.queue import Queue
from msmq.store import StoreFullError
from msmq.wire.classes import MessageClass
from msmq.wire.guid import NULL_GUID
from tests.manager.support import MQ_OK, NOON, PEEK, SEND, Host, body_of, message, position_of, status_of

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
PURGE_PENDING, DELETED = PositionState.PURGE_PENDING, PositionState.DELETED
ACK_RECEIVE_WANTED = 2


@pytest.fixture
def transactional(host: Host) -> Queue:
    return host.queue("tx", transactional=True)


def classes_in(host: Host, queue: Queue) -> list[int]:
    """The classes of the messages in a queue."""
    stored = [host.manager.mailbox.load(queue, entry.lookup_id) for entry in queue.positions]
    return [message.packet.properties.message_class for message in stored]


# --- order --------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.2-z", "MQMQ-2.2.19.1-e")
@pytest.mark.parametrize(
    ("priorities", "order"),
    [((3, 7, 3, 0), (1, 0, 2, 3)), ((3, 7, 0), (1, 0, 2)), (range(8), range(7, -1, -1))],
)
def test_higher_priorities_come_first_and_older_messages_before_younger_ones(
    host: Host, queue: Queue, priorities: tuple[int, ...], order: tuple[int, ...]
) -> None:
    for number, priority in enumerate(priorities):
        host.send(queue, b"%d" % number, priority=priority)
        host.now += 1
    reader = host.reader(queue)
    assert [body_of(reader.receive()) for _ in priorities] == [b"%d" % number for number in order]


def test_a_message_has_priority_three_unless_it_says_otherwise() -> None:
    assert message().packet.priority == 3


@pytest.mark.spec("DMPR-3.1.1.12-a")
@pytest.mark.parametrize("recoverable", [True, False])
def test_lookup_identifiers_ascend_along_the_queue(host: Host, queue: Queue, recoverable: bool) -> None:
    for number in range(50):
        host.send(queue, b"%d" % number, priority=number * 5 % 8, recoverable=recoverable)
    reader = host.reader(queue)
    cursor = reader.cursor()
    reader.peek(cursor=cursor)
    while status_of(reader.peek_next(cursor)) == MQ_OK:
        pass
    seen = [result.message for result in reader.results if result.message is not None]
    identifiers = [message.lookup_id for message in seen]
    assert len(identifiers) == len(set(identifiers)) == 50
    assert identifiers == sorted(identifiers)
    assert all(0 <= identifier < 1 << 64 for identifier in identifiers)
    ranks = [(-message.packet.priority, int(bytes(message.packet.body))) for message in seen]
    assert ranks == sorted(ranks)


def test_a_transactional_queue_knows_only_arrival(host: Host, transactional: Queue) -> None:
    for number, priority in enumerate((0, 7, 3)):
        host.send(transactional, b"%d" % number, priority=priority)
    assert host.contents(transactional) == [b"0", b"1", b"2"]


# --- dequeue ------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.10-a", "DMPR-3.1.7.1.10-g")
@pytest.mark.parametrize("recoverable", [True, False])
def test_a_receive_takes_the_first_message(host: Host, queue: Queue, recoverable: bool) -> None:
    reader = host.reader(queue)
    host.send(queue, b"only", recoverable=recoverable)
    result = reader.receive()
    assert (status_of(result), body_of(result)) == (MQ_OK, b"only"), "the head is not skipped"
    assert not queue.positions
    host.fill(queue, b"a", b"b", recoverable=recoverable)
    assert body_of(reader.receive(INFINITE)) == b"a"
    assert host.contents(queue) == [b"b"]


@pytest.mark.spec(
    "DMPR-3.1.7.1.10-b", "DMPR-3.1.7.1.11-b", "DMPR-3.1.7.1.12-b", "DMPR-3.1.7.1.14-b", "DMPR-3.1.7.1.15-b"
)
def test_every_read_of_a_deleted_queue_is_refused(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a", b"b")
    reader = host.reader(queue)
    cursor = reader.cursor()
    reader.peek(cursor=cursor)
    begun = position_of(reader.begin())
    host.manager.queues.delete(queue)
    gone = QueueNotAvailableError.code
    assert gone == 0xC00E004B
    assert status_of(reader.receive(INFINITE)) == gone
    assert status_of(reader.begin(INFINITE)) == gone
    assert status_of(reader.peek(INFINITE)) == gone
    assert status_of(reader.peek_next(cursor, INFINITE)) == gone
    with pytest.raises(QueueNotAvailableError):
        reader.end(begun, keep=True)


@pytest.mark.spec("DMPR-3.1.7.1.10-k")
def test_a_receive_in_a_transaction_waits_for_its_end(host: Host, transactional: Queue) -> None:
    first, _ = host.fill(transactional, b"a", b"b")
    reader, other = host.reader(transactional), host.reader(transactional)
    for end, left in ((host.transactions.abort, [b"a", b"b"]), (host.transactions.commit, [b"b"])):
        transaction = host.transactions.create()
        assert body_of(reader.receive(transaction=transaction)) == b"a"
        assert first.state is LOCKED
        (operation,) = transaction.operations
        assert operation.operation_type is OperationType.DEQUEUE
        assert (operation.queue, [*operation.ids]) == (first.queue, [first.lookup_id])
        assert operation.reasons == {}
        assert body_of(other.peek()) == b"b", "invisible to others"
        end(transaction.identifier)
        assert host.contents(transactional) == left
    assert host.spy.deleted == [(b"a", MessageClass.ACK_RECEIVE)]


@pytest.mark.spec("DMPR-3.1.7.1.10-l", "DMPR-3.1.7.1.11-a")
def test_a_two_phase_receive_leaves_the_message_locked(host: Host, queue: Queue) -> None:
    position = host.send(queue, b"a")
    reader, other = host.reader(queue), host.reader(queue)
    result = reader.begin()
    assert (status_of(result), body_of(result)) == (MQ_OK, b"a")
    assert position_of(result) == position
    assert position.state is LOCKED
    assert status_of(other.receive()) == status_of(other.peek()) == IoTimeoutError.code
    reader.end(position, keep=True)
    assert position.state is DELETED

    position = host.send(queue, b"b")
    assert body_of(reader.receive(two_phase_read=True)) == b"b"
    assert position.state is LOCKED
    assert reader.begin() is not None
    assert host.reader(queue).begin(INFINITE) is None, "without a time-out it waits for ever"


@pytest.mark.spec("DMPR-3.1.7.1.10-m", "MQMQ-2.3.1.4-b")
def test_a_plain_receive_removes_acknowledges_and_journals(host: Host) -> None:
    admin = host.queue("admin")
    wanting = {"admin": "OS:HOST\\private$\\admin", "acknowledge": ACK_RECEIVE_WANTED}
    for name, journaling, copies in (("plain", False, []), ("journaling", True, [b"a", b"b"])):
        queue = host.queue(name, journaling=journaling)
        host.send(queue, b"a", **wanting)
        host.send(queue, b"b", recoverable=True)
        reader = host.reader(queue)
        assert [body_of(reader.receive()) for _ in range(2)] == [b"a", b"b"]
        assert not queue.positions
        assert host.spy.deleted == [(b"a", MessageClass.ACK_RECEIVE), (b"b", MessageClass.ACK_RECEIVE)]
        assert queue.journal is not None
        assert host.contents(queue.journal) == copies
        assert classes_in(host, admin) == [MessageClass.ACK_RECEIVE], "the one that asked for it"
        host.manager.queues.purge(admin)
        host.spy.deleted.clear()


# --- the second phase ---------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.12-a", "DMPR-3.1.7.1.12-e")
def test_who_keeps_the_message_removes_it_and_acknowledges(host: Host, queue: Queue) -> None:
    admin = host.queue("admin")
    position = host.send(queue, b"a", admin="OS:HOST\\private$\\admin", acknowledge=ACK_RECEIVE_WANTED)
    reader = host.reader(queue)
    reader.begin()
    assert not admin.positions
    reader.end(position, keep=True)
    assert position.state is DELETED
    assert not queue.positions
    assert host.spy.deleted == [(b"a", MessageClass.ACK_RECEIVE)]
    assert classes_in(host, admin) == [MessageClass.ACK_RECEIVE]


@pytest.mark.spec("DMPR-3.1.7.1.12-g")
def test_who_gives_the_message_back_leaves_it_in_its_place(host: Host, queue: Queue) -> None:
    positions = host.fill(queue, b"a", b"b", b"c")
    reader = host.reader(queue)
    for _ in range(3):
        taken = position_of(reader.begin())
        assert taken == positions[0]
        reader.end(taken, keep=False)
        assert taken.state is AVAILABLE
    assert host.contents(queue) == [b"a", b"b", b"c"]
    assert host.spy.deleted == []


@pytest.mark.spec("DMPR-3.1.7.1.12-c")
def test_a_read_is_ended_once_and_by_who_began_it(host: Host, queue: Queue) -> None:
    position = host.send(queue, b"a")
    reader, other = host.reader(queue), host.reader(queue)
    for keep in (True, False):
        with pytest.raises(TransactionSequenceError, match="not begun") as refused:
            reader.end(position, keep=keep)
        assert refused.value.code == 0xC00E0051
    reader.begin()
    reader.end(position, keep=False)
    with pytest.raises(TransactionSequenceError):
        reader.end(position, keep=False)

    assert body_of(other.begin()) == b"a"
    with pytest.raises(TransactionSequenceError):
        reader.end(position, keep=True)  # late for the first read, and the second one is not its own
    assert position.state is LOCKED
    other.end(position, keep=True)
    with pytest.raises(TransactionSequenceError):
        other.end(position, keep=True)


@pytest.mark.spec("DMPR-3.1.7.1.12-d", "DMPR-3.1.7.1.11-c")
@pytest.mark.parametrize("keep", [True, False])
def test_the_end_of_a_transactional_read_is_left_to_the_transaction(
    host: Host, transactional: Queue, keep: bool
) -> None:
    position = host.send(transactional, b"a")
    reader = host.reader(transactional)
    for end, state in ((host.transactions.abort, AVAILABLE), (host.transactions.commit, DELETED)):
        transaction = host.transactions.create()
        reader.begin(transaction=transaction)
        assert [operation.operation_type for operation in transaction.operations] == [OperationType.DEQUEUE]
        reader.end(position, keep=keep, transactional=True)
        assert position.state is LOCKED
        with pytest.raises(TransactionSequenceError):
            reader.end(position, keep=True)  # a plain end does not undercut the transaction
        end(transaction.identifier)
        assert position.state is state


def test_a_transaction_without_identifier_is_none(host: Host, queue: Queue) -> None:
    position = host.send(queue, b"a")
    reader, nothing = host.reader(queue), Transaction(NULL_GUID)
    assert body_of(reader.begin(transaction=nothing)) == b"a"
    assert position.state is LOCKED
    assert nothing.operations == []
    reader.end(position, keep=False)
    assert body_of(reader.receive(transaction=nothing)) == b"a"
    assert position.state is DELETED


@pytest.mark.spec("DMPR-3.1.7.1.12-f", "DMPR-3.1.1.11-c")
@pytest.mark.parametrize("keep", [True, False])
def test_a_purge_between_the_phases_has_the_last_word(host: Host, queue: Queue, keep: bool) -> None:
    position = host.send(queue, b"a")
    reader = host.reader(queue)
    reader.begin()
    host.manager.queues.purge(queue)
    assert position.state is PURGE_PENDING
    assert host.contents(queue) == [b"a"]
    reader.end(position, keep=keep)
    assert position.state is DELETED
    assert not queue.positions
    assert host.spy.deleted == [(b"a", MessageClass.NACK_Q_PURGED)]


def test_a_message_that_expired_between_the_phases_does_not_come_back(host: Host, queue: Queue) -> None:
    kept, returned = host.fill(queue, b"a", b"b", time_to_be_received_s=10)
    reader = host.reader(queue)
    reader.begin()
    reader.begin()
    host.advance(11)
    reader.end(kept, keep=True)
    reader.end(returned, keep=False)
    assert host.spy.deleted == [(b"a", MessageClass.ACK_RECEIVE), (b"b", MessageClass.NACK_RECEIVE_TIMEOUT)]
    assert not queue.positions


def test_closing_the_handle_gives_back_what_was_begun(host: Host, queue: Queue) -> None:
    positions = host.fill(queue, b"a", b"b", b"c")
    reader, other = host.reader(queue), host.reader(queue)
    for _ in positions:
        reader.begin()
    reader.end(positions[1], keep=True)
    assert other.receive(60) is None
    host.close(reader.descriptor)
    assert other.bodies == [b"a"]
    assert host.contents(queue) == [b"c"]
    with pytest.raises(QueueNotAvailableError):
        reader.end(positions[2], keep=True)


# --- peek ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.15-a", "DMPR-3.1.7.1.15-e", "DMPR-3.1.1.12-c")
def test_a_peek_shows_the_first_visible_message_and_leaves_it(host: Host, transactional: Queue) -> None:
    host.send(transactional, b"only")
    reader = host.reader(transactional, PEEK)
    assert [body_of(reader.peek()), body_of(reader.peek())] == [b"only", b"only"]
    transaction = host.transactions.create()
    holder = host.reader(transactional)
    holder.receive(transaction=transaction)
    assert status_of(reader.peek()) == IoTimeoutError.code, "locked"

    position = host.send(transactional, b"shown", allow_peek_when_locked=True)
    holder.receive(transaction=transaction)
    assert position.state is LOCKED
    assert body_of(reader.peek()) == b"shown"
    assert status_of(holder.receive()) == IoTimeoutError.code, "visible, but not to be had"
    host.send(transactional, b"free")
    assert body_of(reader.peek()) == b"shown"
    assert body_of(holder.receive()) == b"free"
    host.transactions.commit(transaction.identifier)
    assert status_of(reader.peek()) == IoTimeoutError.code


def test_the_permission_to_peek_when_locked_survives_a_restart(host: Host, transactional: Queue) -> None:
    host.send(transactional, b"shown", allow_peek_when_locked=True)
    host.kill()
    queue = host.find("tx")
    host.reader(queue).begin()
    assert body_of(host.reader(queue).peek()) == b"shown"


# --- states of a place --------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.11-a")
def test_a_place_is_available_locked_purge_pending_deleted(host: Host, transactional: Queue) -> None:
    position = host.send(transactional, b"a")
    states = [position.state]
    transaction = host.transactions.create()
    host.reader(transactional).receive(transaction=transaction)
    states.append(position.state)
    host.manager.queues.purge(transactional)
    states.append(position.state)
    host.transactions.commit(transaction.identifier)
    states.append(position.state)
    assert states == [AVAILABLE, LOCKED, PURGE_PENDING, DELETED]
    assert list(PositionState) == states


@pytest.mark.spec("DMPR-3.1.1.11-b")
def test_nobody_else_gets_a_locked_message(host: Host, transactional: Queue) -> None:
    transaction, sending = host.transactions.create(), host.transactions.create()
    received, read = host.fill(transactional, b"a", b"b")
    host.reader(transactional).receive(transaction=transaction)
    host.reader(transactional).begin()
    sent = host.send(transactional, b"c", transaction=sending)
    assert [position.state for position in (received, read, sent)] == [LOCKED] * 3
    second = host.reader(transactional)
    assert status_of(second.receive()) == IoTimeoutError.code
    assert second.receive(60) is None, "waits"
    host.advance(60)
    assert second.statuses[-1] == IoTimeoutError.code, "times out"
    assert second.receive(60) is None
    host.transactions.commit(sending.identifier)
    assert second.bodies[-1] == b"c", "until it is let go"


@pytest.mark.spec("DMPR-3.1.1.11-d")
@pytest.mark.parametrize("committed", [True, False])
def test_a_lock_of_a_distributed_transaction_survives_a_restart(
    host: Host, transactional: Queue, committed: bool
) -> None:
    host.fill(transactional, b"a", b"b")
    transaction = host.transactions.create(bytes(range(16)), single_phase=False)
    host.reader(transactional).receive(transaction=transaction)
    host.transactions.prepare(transaction.identifier, single_phase=False)
    host.kill()
    queue = host.find("tx")
    assert [entry.state for entry in queue.positions] == [LOCKED, AVAILABLE]
    assert body_of(host.reader(queue).peek()) == b"b"
    end = host.transactions.commit if committed else host.transactions.abort
    end(transaction.identifier)
    assert host.contents(queue) == [b"a", b"b"][committed:]
    assert all(entry.state is AVAILABLE for entry in queue.positions)


def test_a_two_phase_read_does_not_survive_a_restart(host: Host, transactional: Queue) -> None:
    host.fill(transactional, b"a")
    host.reader(transactional).begin()
    host.kill()
    assert body_of(host.reader(host.find("tx")).receive()) == b"a"


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.4-j")
def test_the_statuses_of_reads_that_got_nothing(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    assert reader.receive(1) is None
    host.advance(1)
    assert reader.statuses == [IoTimeoutError.code] == [0xC00E001B]
    cursor = reader.cursor()
    assert status_of(reader.peek_next(cursor)) == IllegalCursorActionError.code == 0xC00E001C
    host.send(queue, b"a")
    reader.peek(cursor=cursor)
    host.reader(queue).receive()
    assert status_of(reader.receive(cursor=cursor)) == MessageAlreadyReceivedError.code == 0xC00E001D


def test_a_handle_serves_the_reads_it_was_opened_for(host: Host, queue: Queue) -> None:
    host.fill(queue, b"a")
    peeker, sender = host.reader(queue, PEEK), host.reader(queue, SEND)
    assert body_of(peeker.peek()) == b"a"
    for read in (peeker.receive, peeker.begin, sender.receive, sender.peek):
        assert status_of(read()) == AccessDeniedError.code
    assert host.contents(queue) == [b"a"]


def test_a_store_that_refuses_is_an_answer_and_changes_nothing(
    host: Host, transactional: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = host.send(transactional, b"a", sent_time=NOON)

    def full(*_: object, **__: object) -> None:
        raise StoreFullError("The disk is full.")

    reader, transaction = host.reader(transactional), host.transactions.create()
    with monkeypatch.context() as patch:
        patch.setattr(host.store, "reserve", full)
        assert status_of(reader.receive()) == MessageStorageFailedError.code
        assert status_of(reader.receive(transaction=transaction)) == MessageStorageFailedError.code
    assert position.state is AVAILABLE
    assert transaction.operations == []
    assert body_of(reader.receive()) == b"a"


@pytest.mark.parametrize("purged", [False, True], ids=["kept", "purged"])
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_read_in_two_phases_may_end_in_a_transaction(purged: bool, outcome: str) -> None:
    host = Host()
    queue = host.queue(transactional=True)
    host.fill(queue, b"one")
    reader = host.reader(queue)
    position = position_of(reader.begin())
    transaction = host.transactions.create()
    if purged:
        host.manager.queues.purge(queue)
    host.reading.join_transaction(reader.descriptor, position, transaction)
    assert [each.operation_type for each in transaction.operations] == [OperationType.DEQUEUE]
    with pytest.raises(TransactionSequenceError):  # it is the transaction's now
        host.reading.dequeue_end(reader.descriptor, position, delete_message=True)
    with pytest.raises(TransactionSequenceError):
        host.reading.join_transaction(reader.descriptor, position, transaction)
    host.close(reader.descriptor)
    assert position.state is (PositionState.PURGE_PENDING if purged else LOCKED)
    end = host.transactions.commit if outcome == "commit" else host.transactions.abort
    end(transaction.identifier)
    gone = purged or outcome == "commit"
    assert host.contents(queue) == ([] if gone else [b"one"])
    host.kill()
    assert host.contents(host.find()) == ([] if gone else [b"one"])


# --- many at once -------------------------------------------------------------------------------------------


def bodies(found: Found) -> list[bytes]:
    return [bytes(message.packet.body) for message in found.messages]


def states(queue: Queue, found: Found) -> list[PositionState]:
    return [queue.position(lookup_id).state for lookup_id in found.ids]


@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
@pytest.mark.parametrize("journaling", [False, True], ids=["plain", "journaling"])
def test_many_messages_are_received_as_they_are_one_by_one(
    host: Host, recoverable: bool, journaling: bool
) -> None:
    queues = [host.queue(name, journaling=journaling) for name in ("single", "many")]
    for queue in queues:
        for number in range(9):
            host.send(queue, b"%d" % number, priority=number % 3, recoverable=recoverable)
    single, many = (host.reader(queue) for queue in queues)
    found = host.manager.reading.take(many.descriptor, 5, 1 << 20)
    assert bodies(found) == [body_of(single.receive()) for _ in range(5)]
    assert states(queues[1], found) == 5 * [DELETED]
    assert host.contents(queues[0]) == host.contents(queues[1])
    for queue in queues:
        assert queue.journal is not None
        assert len(queue.journal.positions) == (5 if journaling else 0)
    if recoverable:
        host.store.commit()
        host.kill()
        assert host.contents(host.find("many")) == host.contents(host.find("single"))
        assert len(host.find("many").positions) == 4


def test_many_messages_are_no_more_than_asked_for(host: Host, queue: Queue) -> None:
    host.fill(queue, *(bytes(1000) for _ in range(6)), recoverable=True)
    descriptor = host.reader(queue).descriptor
    take = host.manager.reading.take
    assert len(take(descriptor, 2, 1 << 20)) == 2
    assert len(take(descriptor, 10, 1)) == 1, "one in any case"
    assert len(take(descriptor, 10, 2000)) == 2
    assert len(take(descriptor, 10, 1 << 20)) == 1
    assert len(take(descriptor, 10, 1 << 20)) == 0, "nobody waits"


def test_many_messages_are_refused_like_one(host: Host, queue: Queue) -> None:
    host.send(queue)
    take = host.manager.reading.take
    with pytest.raises(AccessDeniedError):
        take(host.reader(queue, PEEK).descriptor, 5, 1 << 20)
    ended = host.manager.transactions.create()
    host.manager.transactions.abort(ended.identifier)
    with pytest.raises(TransactionSequenceError):
        take(host.reader(queue).descriptor, 5, 1 << 20, transaction=ended)
    assert len(queue.positions) == 1


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_many_messages_are_received_in_a_transaction(host: Host, transactional: Queue, commit: bool) -> None:
    sent = host.manager.transactions.create()
    for number in range(4):
        host.enqueue(transactional, message(b"%d" % number, transactional=True), sent)
    host.manager.transactions.commit(sent.identifier)
    descriptor = host.reader(transactional).descriptor
    transaction = host.manager.transactions.create()
    found = host.manager.reading.take(descriptor, 3, 1 << 20, transaction=transaction)
    assert bodies(found) == [b"0", b"1", b"2"]
    assert states(transactional, found) == 3 * [LOCKED]
    if commit:
        host.manager.transactions.commit(transaction.identifier)
        assert host.contents(transactional) == [b"3"]
    else:
        host.manager.transactions.abort(transaction.identifier)
        assert host.contents(transactional) == [b"0", b"1", b"2", b"3"]


def test_many_reads_of_two_phases_end_together(host: Host, queue: Queue) -> None:
    host.fill(queue, b"0", b"1", b"2", b"3", recoverable=True)
    reader, stranger = host.reader(queue), host.reader(queue)
    reading = host.manager.reading
    found = reading.take(reader.descriptor, 3, 1 << 20, two_phase_read=True)
    assert states(queue, found) == 3 * [LOCKED]
    assert reading.keep(stranger.descriptor, found.ids) == 0, "only who began them ends them"
    assert reading.keep(reader.descriptor, found.ids[:2]) == 2
    assert reading.keep(reader.descriptor, found.ids[:2]) == 0, "and only once"
    host.close(reader.descriptor)
    assert host.contents(queue) == [b"2", b"3"]
    with pytest.raises(QueueNotAvailableError):
        reading.keep(reader.descriptor, found.ids[2:])


def test_messages_that_were_purged_while_they_were_held_go_for_that_reason(host: Host, queue: Queue) -> None:
    host.fill(queue, b"0", b"1", recoverable=True)
    reader = host.reader(queue)
    found = host.manager.reading.take(reader.descriptor, 2, 1 << 20, two_phase_read=True)
    queue.positions.set_state(found.ids[0], PURGE_PENDING)
    host.spy.deleted.clear()
    assert host.manager.reading.keep(reader.descriptor, found.ids) == 2
    assert [each[-1] for each in host.spy.deleted] == [MessageClass.ACK_RECEIVE, MessageClass.NACK_Q_PURGED]
