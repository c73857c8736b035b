"""Internal transactions: all or nothing, through aborts, purges and restarts."""

from __future__ import annotations

import pytest

from msmq.errors import TransactionSequenceError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import ResourceManager
from msmq.manager.messages.serialize import deserialize
from msmq.manager.model import OperationType
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.wire.classes import MessageClass
from tests.manager.support import Host, body_of

UNKNOWN = bytes(range(16))


@pytest.fixture
def queue(host: Host) -> Queue:
    return host.queue("tx", transactional=True)


@pytest.mark.spec("DMPR-3.1.7.1.8-a", "DMPR-3.1.1.14-a")
def test_a_transaction_is_found_by_its_identifier_and_keeps_its_operations_in_order(
    host: Host, queue: Queue
) -> None:
    transaction = host.transactions.create(UNKNOWN)
    assert host.transactions.collection[UNKNOWN] is transaction
    assert transaction.single_phase
    places = [host.send(queue, body, transaction) for body in (b"1", b"2", b"3")]
    assert [[*operation.ids] for operation in transaction.operations] == [[p.lookup_id] for p in places]
    reader = host.reader(queue)
    host.transactions.commit(UNKNOWN)
    assert [body_of(reader.receive()) for _ in range(3)] == [b"1", b"2", b"3"], "replayed in order"


@pytest.mark.spec("DMPR-3.1.4.3-a", "DMPR-3.1.4.3-b", "DMPR-3.1.4.4-b", "DMPR-3.1.4.5-b")
def test_unknown_transactions_cannot_be_prepared_committed_or_aborted(host: Host) -> None:
    host.transactions.create(UNKNOWN)
    host.transactions.prepare(UNKNOWN)
    for end in (host.transactions.prepare, host.transactions.commit, host.transactions.abort):
        with pytest.raises(TransactionSequenceError) as refused:
            end(bytes(16))
        assert refused.value.code == 0xC00E0051


@pytest.mark.spec("DMPR-3.1.4.3-c")
def test_a_transaction_says_how_it_was_prepared(host: Host) -> None:
    begun = host.transactions.create()
    for single_phase in (True, False):
        host.transactions.prepare(begun.identifier, single_phase=single_phase)
        assert begun.single_phase is single_phase


@pytest.mark.spec("DMPR-3.1.4.4-a")
def test_a_committed_transaction_is_gone_and_cannot_be_committed_again(host: Host, queue: Queue) -> None:
    transaction = host.transactions.create()
    host.send(queue, b"once", transaction)
    host.transactions.commit(transaction.identifier)
    assert transaction.identifier not in host.transactions.collection
    with pytest.raises(TransactionSequenceError):
        host.transactions.commit(transaction.identifier)
    assert host.contents(queue) == [b"once"]


@pytest.mark.spec("DMPR-3.1.4.4-c", "DMPR-3.1.7.1.9-i")
def test_a_sent_message_is_seen_at_the_commit_and_wakes_a_reader_then(host: Host, queue: Queue) -> None:
    reader, peeker = host.reader(queue), host.reader(queue)
    assert reader.receive(timeout_s=10) is None
    transaction = host.transactions.create()
    position = host.send(queue, b"late", transaction)
    assert position.state is PositionState.LOCKED
    assert [operation.operation_type for operation in transaction.operations] == [OperationType.ENQUEUE]
    assert body_of(peeker.peek()) is None
    assert reader.results == []
    assert host.spy.available == []
    host.transactions.commit(transaction.identifier)
    assert reader.bodies == [b"late"]


@pytest.mark.spec("DMPR-3.1.4.4-d", "DMPR-3.1.7.1.10-k")
def test_a_received_message_is_hidden_until_the_commit_removes_it(host: Host, queue: Queue) -> None:
    host.fill(queue, b"mine")
    transaction = host.transactions.create()
    first, second = host.reader(queue), host.reader(queue)
    assert body_of(first.receive(transaction=transaction)) == b"mine"
    assert body_of(second.receive()) is None
    (operation,) = transaction.operations
    assert operation.operation_type is OperationType.DEQUEUE
    assert operation.reasons == {}, "nothing but that it is received"
    host.transactions.commit(transaction.identifier)
    assert host.contents(queue) == []
    assert host.spy.deleted == [(b"mine", MessageClass.ACK_RECEIVE)]


@pytest.mark.spec("DMPR-3.1.4.5-a", "DMPR-3.1.4.5-c")
def test_an_abort_brings_everything_back_to_its_old_place(host: Host, queue: Queue) -> None:
    places = host.fill(queue, b"1", b"2", b"3")
    bytes_before = queue.total_bytes
    transaction = host.transactions.create()
    reader = host.reader(queue)
    reader.receive(transaction=transaction)
    reader.receive(transaction=transaction)
    host.send(queue, b"4", transaction)
    host.transactions.abort(transaction.identifier)
    assert transaction.identifier not in host.transactions.collection
    assert host.contents(queue) == [b"1", b"2", b"3"]
    assert queue.total_bytes == bytes_before
    again = reader.receive()
    assert again is not None
    assert again.position is not None
    assert again.position.lookup_id == places[0].lookup_id


@pytest.mark.spec("DMPR-3.1.4.5-e")
def test_an_aborted_send_was_never_there(host: Host, queue: Queue) -> None:
    transaction = host.transactions.create()
    host.send(queue, b"never", transaction)
    host.transactions.abort(transaction.identifier)
    assert host.contents(queue) == []
    assert queue.total_bytes == 0
    assert host.spy.available == []
    assert host.spy.deleted == []


@pytest.mark.spec("DMPR-3.1.4.5-d")
def test_a_message_purged_while_it_was_held_does_not_come_back(host: Host, queue: Queue) -> None:
    host.fill(queue, b"purged")
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    host.manager.queues.purge(queue)
    host.transactions.abort(transaction.identifier)
    assert host.contents(queue) == []
    assert host.spy.deleted == [(b"purged", MessageClass.NACK_Q_PURGED)]


@pytest.mark.spec("DMPR-3.1.7.1.7-d")
def test_a_purge_does_not_take_what_was_not_sent_yet(host: Host, queue: Queue) -> None:
    """The documented choice: a commit after a purge puts its messages into the purged queue."""
    transaction = host.transactions.create()
    host.send(queue, b"kept", transaction)
    host.manager.queues.purge(queue)
    host.transactions.commit(transaction.identifier)
    assert host.contents(queue) == [b"kept"]


@pytest.mark.spec("DMPR-3.1.4.4-e", "DMPR-3.1.4.4-f", "DMPR-3.1.7.1.16-d")
def test_a_move_happens_at_the_commit_and_counts_bytes_on_both_sides(host: Host, queue: Queue) -> None:
    places = host.fill(queue, *(b"%d" % n for n in range(10)))
    target = host.manager.queues.subqueue(queue, "parked")
    size = queue.total_bytes
    transaction = host.transactions.create()
    for place in places:
        host.manager.move_message(place, target, transaction)
    reader, other = host.reader(queue), host.reader(target)
    assert body_of(reader.peek()) is None
    assert body_of(other.peek()) is None
    host.transactions.commit(transaction.identifier)
    assert (host.contents(queue), len(host.contents(target))) == ([], 10)
    assert (queue.total_bytes, target.total_bytes) == (0, size)
    assert host.spy.deleted == [], "nobody is told that a moved message left"
    back = host.transactions.create()
    for entry in list(target.positions):
        host.manager.move_message(target.position(entry.lookup_id), queue, back)
    host.transactions.abort(back.identifier)
    assert (queue.total_bytes, target.total_bytes) == (0, size)
    for entry in list(target.positions):
        host.manager.move_message(target.position(entry.lookup_id), queue)
    assert (queue.total_bytes, target.total_bytes) == (size, 0)
    assert host.contents(queue) == [b"%d" % n for n in range(10)]


@pytest.mark.spec("DMPR-3.1.3-v", "DMPR-3.1.1.1-af")
def test_a_restart_undoes_internal_transactions(host: Host, queue: Queue) -> None:
    host.fill(queue, b"taken", b"left")
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    host.send(queue, b"sent", transaction)
    host.kill()
    assert set(host.found.open_transactions) == {transaction.identifier}, "there until recovery resolves it"
    assert host.transactions.collection == {}
    assert host.contents(host.find("tx")) == [b"taken", b"left"]


@pytest.mark.spec("DMPR-3.1.1.13-b")
def test_the_reason_of_a_receive_may_change_until_the_commit(host: Host, queue: Queue) -> None:
    host.fill(queue, b"taken", b"refused", b"taken too")
    transaction = host.transactions.create()
    found = host.reading.take(host.open(queue), 3, 1 << 20, transaction=transaction)
    transaction.operations[0].reasons[found.ids[1]] = MessageClass.NACK_RECEIVE_REJECTED
    host.transactions.commit(transaction.identifier)
    assert sorted(host.spy.deleted) == [
        (b"refused", MessageClass.NACK_RECEIVE_REJECTED),
        (b"taken", MessageClass.ACK_RECEIVE),
        (b"taken too", MessageClass.ACK_RECEIVE),
    ]


@pytest.mark.parametrize("step", ["operations", "decided"])
def test_a_crash_leaves_all_of_a_transaction_or_nothing(host: Host, queue: Queue, step: str) -> None:
    other = host.queue("other", transactional=True)
    host.fill(queue, b"in")
    host.store.commit()
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    host.send(other, b"out", transaction)
    if step == "decided":
        host.transactions.commit(transaction.identifier)
    host.kill()
    inner, outer = host.contents(host.find("tx")), host.contents(host.find("other"))
    assert (inner, outer) == (([b"in"], []) if step == "operations" else ([], [b"out"]))


@pytest.mark.spec("DMPR-3.1.1.13-a")
def test_the_record_of_each_operation(host: Host, queue: Queue) -> None:
    """One for each call, with its fields; those of a promised transaction are still there after a restart."""
    taken, moved = host.fill(queue, b"taken", b"moved")
    resource = ResourceManager(host.transactions)
    transaction = resource.enlist(UNKNOWN)
    counts = [len(transaction.operations)]
    sent = host.send(queue, b"sent", transaction)
    counts.append(len(transaction.operations))
    host.reader(queue).receive(transaction=transaction)
    counts.append(len(transaction.operations))
    target = host.manager.queues.subqueue(queue, "retry")
    host.manager.move_message(moved, target, transaction)
    counts.append(len(transaction.operations))
    assert counts == [0, 1, 2, 3]

    def records() -> list[tuple[OperationType, str, list[int], str | None, dict[int, int]]]:
        return [
            (
                operation.operation_type,
                operation.queue.pathname,
                [*operation.ids],
                None if operation.target_queue is None else operation.target_queue.pathname,
                operation.reasons,
            )
            for operation in host.transactions.collection[UNKNOWN].operations
        ]

    expected = [
        (OperationType.ENQUEUE, queue.pathname, [sent.lookup_id], None, {}),
        (OperationType.DEQUEUE, queue.pathname, [taken.lookup_id], None, {}),
        (OperationType.MOVE, queue.pathname, [moved.lookup_id], target.pathname, {}),
    ]
    assert records() == expected
    resource.prepare(UNKNOWN)
    host.kill()
    assert records() == expected
    ResourceManager(host.transactions).commit(UNKNOWN)
    assert host.contents(host.find("tx")) == [b"sent"]


# --- first and last -----------------------------------------------------------------------------------------


def edges(host: Host, *positions: MessagePosition) -> list[tuple[int, int]]:
    """Flags FM and LM of messages, as a reader sees them."""
    found = []
    for queue, lookup_id in positions:
        entry = host.manager.core.queues[queue.number].positions.get(lookup_id)
        assert entry is not None
        header = host.manager.mailbox.load(
            host.manager.core.queues[queue.number], entry.lookup_id
        ).packet.transaction
        assert header is not None
        found.append((header.first_message, header.last_message))
    return found


@pytest.mark.spec("DMPR-3.1.1.12-av", "DMPR-3.1.4.3-d", "MQMQ-2.2.20.5-e", "MQMQ-2.2.20.5-f")
@pytest.mark.parametrize("life", ["at once", "killed", "rewritten", "rewritten and killed"])
def test_the_first_and_the_last_message_of_a_transaction_say_so(life: str) -> None:
    host = Host()
    one, two = host.queue("one", transactional=True), host.queue("two", transactional=True)
    single, several = host.transactions.create(), host.transactions.create()
    alone = host.send(one, b"alone", single)
    host.transactions.commit(single.identifier)
    three = [host.send(queue, b"x", several) for queue in (one, two, one)]
    assert edges(host, *three) == [(0, 0)] * 3
    host.transactions.commit(several.identifier)
    if "rewritten" in life:
        host.store.compact(host.manager.cleaning)
    if "killed" in life:
        host.kill()
    assert edges(host, alone) == [(1, 1)]
    assert edges(host, *three) == [(1, 0), (0, 0), (0, 1)]
    message = host.reader(host.find("one")).receive()
    assert message is not None
    assert message.message is not None
    whole = deserialize(message.message.packet)
    assert (whole.first_in_transaction, whole.last_in_transaction) == (True, True)


@pytest.mark.spec("DMPR-3.1.4.3-d")
def test_first_and_last_are_known_for_a_promised_transaction_after_a_restart() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    positions = [host.send(queue, b"%d" % number, transaction) for number in range(3)]
    host.transactions.prepare(transaction.identifier, single_phase=False)
    host.kill()
    host.transactions.commit(transaction.identifier)
    assert edges(host, *positions) == [(1, 0), (0, 0), (0, 1)]


def test_the_last_message_is_no_first_one_when_those_before_it_are_gone() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    positions = [host.send(queue, b"%d" % number, transaction) for number in range(3)]
    host.transactions.commit(transaction.identifier)
    reader = host.reader(queue)
    reader.receive()
    reader.receive()
    host.kill()
    assert edges(host, positions[2]) == [(0, 1)]


def test_marks_go_with_a_message_to_a_subqueue_and_a_journal() -> None:
    host = Host()
    queue = host.queue(transactional=True, journaling=True)
    transaction = host.transactions.create()
    first, last = (host.send(queue, b"x", transaction) for _ in range(2))
    host.transactions.commit(transaction.identifier)
    target = host.manager.queues.subqueue(queue, "later")
    host.manager.move_message(last, target)
    host.reader(queue).receive()
    assert queue.journal is not None
    moved = [queue.journal.position(first.lookup_id), target.position(last.lookup_id)]
    assert edges(host, *moved) == [(1, 0), (0, 1)]
    host.kill()
    assert edges(host, *moved) == [(1, 0), (0, 1)]


def test_what_was_being_sent_to_a_deleted_queue_never_comes_back() -> None:
    """Neither in the queue that gets its number after a restart."""
    host = Host()
    transaction = host.transactions.create()
    host.send(host.queue("old", transactional=True), b"x", transaction)
    host.transactions.prepare(transaction.identifier, single_phase=False)
    host.manager.queues.delete(host.find("old"))
    host.kill()
    host.transactions.commit(transaction.identifier)
    host.queue("new", transactional=True)
    host.kill()
    assert host.contents(host.find("new")) == []
