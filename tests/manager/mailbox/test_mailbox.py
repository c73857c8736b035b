"""Messages going into queues, along them and out: MS-MQDMPR 3.1.7.1.9, 3.1.7.1.16, 3.1.7.2.1, 3.1.7.2.2, 3.1.7.2.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from msmq.errors import IllegalOperationError, InsufficientResourcesError
from msmq.manager.core import Subscriber
from msmq.manager.initialization import Settings
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import EnqueueStatus, QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from tests.manager.support import NOON, PEEK, Host, body_of, message, position_of

KB = 1024


def enqueue(host: Host, queue: Queue, body: bytes = b"", **attributes: Any) -> int:
    attributes.setdefault("sent_time", int(host.now))
    (status,), _ = host.enqueue(queue, message(body, **attributes))
    return status


def size_of(body: bytes, **attributes: Any) -> int:
    return message(body, **attributes).size


def journal(queue: Queue) -> Queue:
    assert queue.journal is not None
    return queue.journal


# --- enqueue and quotas ---------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.9-a")
def test_a_message_goes_in_and_is_seen(host: Host) -> None:
    queue = host.queue()
    assert enqueue(host, queue, b"hello") == 0
    assert body_of(host.reader(queue, PEEK).peek()) == b"hello"
    assert [int(status) for status in EnqueueStatus] == [0, 1, 2, 3]


@pytest.mark.spec("DMPR-3.1.7.1.9-b", "DMPR-3.1.7.2.5-a", "DMPR-3.1.7.2.6-a")
def test_flow_control(host: Host) -> None:
    queue = host.queue()
    before = host.send(queue)
    total = host.manager.core.total_bytes
    host.manager.begin_flow_control()
    assert host.manager.core.throttled
    assert [enqueue(host, queue), enqueue(host, queue)] == [2, 2]
    assert (queue.total_bytes, host.manager.core.total_bytes, len(queue.positions)) == (total, total, 1)
    host.manager.end_flow_control()
    assert not host.manager.core.throttled
    assert enqueue(host, queue) == 0
    after = [entry.lookup_id for entry in queue.positions][-1]
    assert after == before.lookup_id + 1  # the refused ones took no number


@pytest.mark.spec("DMPR-3.1.7.1.9-b", "DMPR-3.1.7.1.9-c")
def test_the_quota_of_the_host_comes_first(host: Host) -> None:
    queue = host.queue(quota_kb=1)
    roomy = host.queue("roomy")
    host.manager.core.record.queue_manager_quota_kb = 2
    assert enqueue(host, queue, bytes(3 * KB)) == 2
    assert enqueue(host, queue, bytes(KB)) == 1
    assert enqueue(host, roomy, bytes(3 * KB)) == 2
    assert enqueue(host, roomy, bytes(KB)) == 0
    assert enqueue(host, roomy, bytes(KB)) == 2
    assert queue.total_bytes == 0


@pytest.mark.spec("DMPR-3.1.1.2-i", "DMPR-3.1.7.1.9-c")
def test_the_quota_of_a_queue(host: Host) -> None:
    queue = host.queue(quota_kb=1)
    assert enqueue(host, queue, bytes(2 * KB)) == 1
    assert (queue.total_bytes, len(queue.positions)) == (0, 0)
    body = bytes(KB - size_of(b""))
    assert size_of(body) == KB
    assert enqueue(host, queue, body) == 0
    assert enqueue(host, queue) == 1
    host.reader(queue).receive()
    assert enqueue(host, queue, body) == 0
    assert enqueue(host, host.queue("unlimited"), bytes(100 * KB)) == 0


def test_express_messages_have_a_bound_of_their_own() -> None:
    host = Host(settings=Settings(express_limit_bytes=2 * KB))
    queue = host.queue()
    host.send(queue, bytes(KB))
    with pytest.raises(InsufficientResourcesError):
        host.send(queue, bytes(KB))
    host.send(queue, bytes(KB), recoverable=True)
    host.manager.queues.purge(queue)
    host.send(queue, bytes(KB))


@pytest.mark.spec("DMPR-3.1.7.1.9-e", "DMPR-3.1.7.1.9-f")
def test_lookup_identifiers(host: Host) -> None:
    queue, ordered = host.queue(), host.queue("ordered", transactional=True)
    low, high = host.send(queue, priority=3).lookup_id, host.send(queue, priority=7).lookup_id
    assert (low >> 56, high >> 56) == (0x04, 0x00)
    mask = (1 << 56) - 1
    assert high & mask == (low & mask) + 1
    transactional = [position.lookup_id for position in host.fill(ordered, b"a", b"b")]
    assert {identifier >> 56 for identifier in transactional} == {0}
    host.fill(queue, b"c", b"d", priority=0)
    for one in (queue, ordered):
        identifiers = [entry.lookup_id for entry in one.positions]
        assert identifiers == sorted(identifiers)


@pytest.mark.spec("DMPR-3.1.7.1.9-g")
def test_higher_priorities_overtake(host: Host) -> None:
    queue = host.queue()
    host.fill(queue, b"1", b"2")
    host.send(queue, b"urgent", priority=7)
    host.send(queue, b"3")
    assert host.contents(queue) == [b"urgent", b"1", b"2", b"3"]


@pytest.mark.spec("DMPR-3.1.7.1.9-i")
def test_what_a_transaction_sends_is_not_there_yet(host: Host) -> None:
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    waiting = host.reader(queue)
    waiting.receive(timeout_s=60)
    position = host.send(queue, b"soon", transaction)
    assert position.state is PositionState.LOCKED
    assert [[*operation.ids] for operation in transaction.operations] == [[position.lookup_id]]
    assert (host.spy.available, waiting.results) == ([], [])
    assert body_of(host.reader(queue).receive()) is None
    assert body_of(host.reader(queue, PEEK).peek()) is None
    host.transactions.commit(transaction.identifier)
    assert waiting.bodies == [b"soon"]


@pytest.mark.parametrize("ends_by", ["commit", "abort"])
def test_what_a_transaction_sends_is_written_even_if_express(host: Host, ends_by: str) -> None:
    queue = host.queue()
    transaction = host.transactions.create()
    host.send(queue, b"express", transaction)
    assert host.manager.core.express_bytes == 0
    getattr(host.transactions, ends_by)(transaction.identifier)
    host.kill()
    assert host.contents(host.find()) == ([b"express"] if ends_by == "commit" else [])


@pytest.mark.spec("DMPR-3.1.7.1.9-j")
def test_whoever_waits_wakes(host: Host) -> None:
    queue = host.queue()
    reader = host.reader(queue)
    reader.receive(timeout_s=60)
    host.send(queue, b"now")
    assert reader.bodies == [b"now"]


# --- time -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.9-h", "DMPR-3.1.1.12-af")
def test_unread_messages_expire(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"sent a while ago", time_to_be_received_s=5, sent_time=NOON - 3)
    host.send(queue, b"forever")
    host.advance(1)
    assert len(queue.positions) == 2
    host.advance(1)
    assert host.contents(queue) == [b"forever"]
    assert host.spy.deleted == [(b"sent a while ago", MessageClass.NACK_RECEIVE_TIMEOUT)]
    assert message().packet.user.time_to_be_received_s == 0xFFFFFFFF
    host.advance(1e9)
    assert host.contents(queue) == [b"forever"]


@pytest.mark.spec("DMPR-3.1.2.4-a")
def test_no_time_at_all(host: Host) -> None:
    queue = host.queue()
    waiting = host.reader(queue)
    waiting.receive(timeout_s=60)
    host.send(queue, b"too late", time_to_be_received_s=0)
    assert host.contents(queue) == []
    assert waiting.results == []
    assert host.spy.deleted == [(b"too late", 0xC002)]
    host.send(queue, b"in time", time_to_be_received_s=0xFFFFFFFF)
    assert waiting.bodies == [b"in time"]


@pytest.mark.spec("DMPR-3.1.2.4-b")
def test_time_goes_on_while_the_service_is_down(host: Host) -> None:
    queue = host.queue(journaling=True)
    host.send(queue, b"read", recoverable=True, time_to_be_received_s=10)
    host.reader(queue).receive()
    host.send(queue, b"late", recoverable=True, time_to_be_received_s=10)
    host.send(queue, b"later", recoverable=True, time_to_be_received_s=30)
    host.now += 20
    host.kill()
    host.manager.run_timers()
    assert host.contents(host.find()) == [b"later"]
    assert host.spy.deleted == [(b"late", 0xC002)]
    assert host.contents(journal(host.find())) == [b"read"]  # system queues keep theirs
    host.advance(100)
    assert host.contents(host.find()) == []
    assert host.contents(journal(host.find())) == [b"read"]


@pytest.mark.spec("DMPR-3.1.7.2.7-b")
@pytest.mark.parametrize("ends_by", ["commit", "abort"])
def test_expiry_inside_the_transaction_that_sends(host: Host, ends_by: str) -> None:
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    position = host.send(queue, b"slow", transaction, time_to_be_received_s=2)
    host.advance(5)
    assert position.state is PositionState.LOCKED
    getattr(host.transactions, ends_by)(transaction.identifier)
    assert host.contents(queue) == []
    assert host.spy.deleted == ([(b"slow", 0xC002)] if ends_by == "commit" else [])
    host.kill()
    assert host.contents(host.find()) == []


@pytest.mark.spec("DMPR-3.1.7.2.7-c")
def test_expiry_of_what_somebody_holds(host: Host) -> None:
    queue = host.queue(transactional=True)
    sending = host.transactions.create()
    host.send(queue, b"held", sending, time_to_be_received_s=2)
    host.send(queue, b"unread", sending, time_to_be_received_s=2)
    host.transactions.commit(sending.identifier)
    reading = host.transactions.create()
    assert body_of(host.reader(queue).receive(transaction=reading)) == b"held"
    host.advance(2)
    assert host.contents(queue) == [b"held"]
    assert host.spy.deleted == [(b"unread", 0xC002)]
    host.transactions.abort(reading.identifier)
    assert host.contents(queue) == []
    assert host.spy.deleted[1:] == [(b"held", 0xC002)]


def test_a_message_taken_in_time_is_kept(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"held", time_to_be_received_s=2)
    reader = host.reader(queue)
    held = position_of(reader.begin())
    host.advance(5)
    reader.end(held, keep=True)
    assert host.spy.deleted == [(b"held", MessageClass.ACK_RECEIVE)]


# --- available and deleted ------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.2.1-a", "DMPR-3.1.7.2.1-b")
def test_a_position_is_deleted(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"stays")
    before = queue.total_bytes
    seen: list[tuple[Queue, StoredMessage, int]] = []

    class Watcher(Subscriber):
        every_message = True

        def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
            seen.extend((queue, message, reason) for message in messages)

    host.manager.subscribe(Watcher())
    position = host.send(queue, b"goes")
    reader = host.reader(queue, PEEK)
    cursor = reader.cursor()
    assert [body_of(reader.peek(cursor=cursor)), body_of(reader.peek_next(cursor))] == [b"stays", b"goes"]
    host.send(queue, b"next")
    with_next = queue.total_bytes
    host.manager.mailbox.remove(queue, (position.lookup_id,), MessageClass.NACK_RECEIVE_REJECTED)
    ((where, what, why),) = seen
    assert (where, what.lookup_id, why) == (queue, position.lookup_id, MessageClass.NACK_RECEIVE_REJECTED)
    assert queue.total_bytes == with_next - what.size
    assert position.state is PositionState.DELETED
    assert host.contents(queue) == [b"stays", b"next"]
    assert queue.total_bytes == before + size_of(b"next")
    assert body_of(reader.peek_next(cursor)) == b"next"


@pytest.mark.spec("DMPR-3.1.7.2.2-b")
def test_bytes_are_counted_once(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"x")
    total = queue.total_bytes
    reader = host.reader(queue)
    for _ in range(3):
        position = position_of(reader.begin())
        assert queue.total_bytes == total
        reader.end(position, keep=False)
        assert position.state is PositionState.AVAILABLE
        assert queue.total_bytes == host.manager.core.total_bytes == total


def test_nothing_is_remembered_of_what_is_gone(host: Host) -> None:
    queue = host.queue()
    position = host.send(queue, b"x", time_to_be_received_s=5, allow_peek_when_locked=True)
    sub = host.manager.queues.subqueue(queue, "sub")
    reader = host.reader(queue)
    reader.end(position_of(reader.begin()), keep=False)
    assert queue.aborts == {position.lookup_id: 1}
    host.manager.move_message(position, sub)
    assert (queue.aborts, sub.aborts) == ({}, {position.lookup_id: 1})
    host.reader(sub).receive()
    for one in (queue, sub):
        assert [one.aborts, one.moves, one.overdue, one.peekable_when_locked, one.volatile] == [
            {},
            {},
            set(),
            set(),
            {},
        ]


# --- journals -------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.2-h", "MQMQ-2.3.1.4-b")
@pytest.mark.parametrize("transactional", [False, True])
def test_journaling(host: Host, transactional: bool) -> None:
    for name, journaling in (("with", True), ("without", False)):
        queue = host.queue(name, journaling=journaling, transactional=transactional)
        host.fill(queue, b"taken", b"left", recoverable=True)
        transaction = host.transactions.create() if transactional else None
        host.reader(queue).receive(transaction=transaction)
        if transaction is not None:
            host.transactions.commit(transaction.identifier)
        taking = host.manager.queues.open(f"DIRECT=OS:{queue.pathname};JOURNAL", QueueAccessType.PEEK)
        assert taking.queue is queue.journal
        for _ in range(2):
            queue = host.find(name)
            assert host.contents(journal(queue)) == ([b"taken"] if journaling else [])
            assert host.contents(queue) == [b"left"]
            host.kill()


def test_what_is_not_received_is_not_journaled(host: Host) -> None:
    queue = host.queue(journaling=True)
    host.fill(queue, b"a", b"b")
    host.send(queue, b"c", time_to_be_received_s=1)
    host.advance(2)
    host.manager.queues.purge(queue)
    assert host.contents(journal(queue)) == []


@pytest.mark.spec("DMPR-3.1.1.2-j")
@pytest.mark.parametrize("transactional", [False, True])
def test_a_full_journal_takes_no_more(host: Host, transactional: bool) -> None:
    queue = host.queue(journaling=True, journal_quota_kb=1, transactional=transactional)
    host.fill(queue, bytes(600), bytes(600), recoverable=True)
    reader = host.reader(queue)
    for _ in range(2):
        transaction = host.transactions.create() if transactional else None
        assert body_of(reader.receive(transaction=transaction)) == bytes(600)
        if transaction is not None:
            host.transactions.commit(transaction.identifier)
    assert host.contents(journal(queue)) == [bytes(600)]
    assert journal(queue).total_bytes <= KB
    assert host.manager.core.total_bytes == journal(queue).total_bytes


@pytest.mark.spec("DMPR-3.1.1.2-j")
def test_what_leaves_together_fills_a_journal_together(host: Host) -> None:
    queue = host.queue(journaling=True, journal_quota_kb=1, transactional=True)
    transaction, reader = host.transactions.create(), host.reader(queue)
    host.fill(queue, bytes(600), bytes(600), recoverable=True)
    for _ in range(2):
        reader.receive(transaction=transaction)
    host.transactions.commit(transaction.identifier)
    assert host.contents(journal(queue)) == [bytes(600)]


# --- moves ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.16-a", "DMPR-3.1.7.1.16-b")
def test_move_to_a_subqueue(host: Host) -> None:
    queue = host.queue()
    sub = host.manager.queues.subqueue(queue, "sub")
    first, second, third = host.fill(queue, b"1", b"2", b"3", recoverable=True)
    for position in (third, first):
        host.manager.move_message(position, sub)
        assert position.state is PositionState.DELETED
    assert (host.contents(queue), host.contents(sub)) == ([b"2"], [b"1", b"3"])
    assert [entry.lookup_id for entry in sub.positions] == [first.lookup_id, third.lookup_id]
    assert {entry.state for entry in sub.positions} == {PositionState.AVAILABLE}
    taken = host.reader(sub).receive()
    assert taken is not None
    assert taken.message is not None
    assert taken.message.packet.identifier == message().packet.identifier

    waiting = host.reader(sub)
    waiting.receive(timeout_s=60)
    assert waiting.bodies == [b"3"]
    waiting.receive(timeout_s=60)
    host.manager.move_message(second, sub)
    assert waiting.bodies == [b"3", b"2"]
    assert sub.moves == {}
    host.kill()
    assert host.contents(host.find()) == []


def test_moves_are_counted_and_survive(host: Host) -> None:
    queue = host.queue()
    sub = host.manager.queues.subqueue(queue, "sub")
    position = host.send(queue, b"x", recoverable=True)
    host.manager.move_message(position, sub)
    host.advance(7)
    host.manager.move_message(sub.position(position.lookup_id), queue)
    assert queue.moves == {position.lookup_id: (2, NOON + 7)}
    host.manager.move_message(position, sub)
    host.kill()
    assert host.contents(host.find().subqueue_collection["sub"]) == [b"x"]


@pytest.mark.spec("DMPR-3.1.7.1.16-c")
def test_move_to_a_system_queue(host: Host) -> None:
    core = host.manager.core
    queue = host.queue()
    dead = core.dead_letter_queue
    assert dead is not None
    waiting = host.reader(dead, PEEK)
    waiting.peek(timeout_s=60)
    position = host.send(queue, b"undeliverable", recoverable=True)
    host.manager.sending.dead_letter(queue, position.lookup_id, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
    assert waiting.bodies == [b"undeliverable"]
    assert dead.total_bytes == core.total_bytes == size_of(b"undeliverable")
    host.kill()
    core = host.manager.core
    assert core.dead_letter_queue is not None
    assert host.contents(core.dead_letter_queue) == [b"undeliverable"]

    core.record.journal_quota_kb = 1
    assert core.journal_queue is not None
    for body in (bytes(600), bytes(601)):
        host.manager.move_message(host.send(host.find(), body), core.journal_queue)
    assert host.contents(core.journal_queue) == [bytes(600)]
    assert host.contents(host.find()) == []
    transaction, position = host.transactions.create(), host.send(host.find(), b"")
    with pytest.raises(IllegalOperationError):
        host.manager.move_message(position, core.journal_queue, transaction)


@pytest.mark.spec("DMPR-3.1.7.1.16-d")
@pytest.mark.parametrize("ends_by", ["commit", "abort"])
def test_move_in_a_transaction(host: Host, ends_by: str) -> None:
    queue = host.queue(transactional=True)
    sub = host.manager.queues.subqueue(queue, "sub")
    position = host.send(queue, b"x")
    transaction = host.transactions.create()
    host.manager.move_message(position, sub, transaction)
    assert position.state is PositionState.LOCKED
    for one in (queue, sub):
        assert body_of(host.reader(one, PEEK).peek()) is None
    getattr(host.transactions, ends_by)(transaction.identifier)
    moved = ends_by == "commit"
    for _ in range(2):
        queue = host.find()
        sub = queue.subqueue_collection["sub"]
        assert host.contents(queue) == ([] if moved else [b"x"])
        assert host.contents(sub) == ([b"x"] if moved else [])
        host.kill()


def test_messages_stay_in_their_family(host: Host) -> None:
    position = host.send(host.queue(), b"x")
    with pytest.raises(IllegalOperationError):
        host.manager.move_message(position, host.queue("other"))


# --- the sums -------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.2-t")
def test_total_bytes(host: Host) -> None:
    queue = host.queue(transactional=True)
    host.fill(queue, b"a", b"bb", b"ccc")
    sizes = [size_of(body, transactional=True) for body in (b"a", b"bb", b"ccc")]
    assert queue.total_bytes == sum(sizes)
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    assert queue.total_bytes == sum(sizes)
    host.transactions.abort(transaction.identifier)
    assert queue.total_bytes == sum(sizes)
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    host.transactions.commit(transaction.identifier)
    assert queue.total_bytes == sum(sizes[1:])
    host.kill()
    assert host.find().total_bytes == host.manager.core.total_bytes == sum(sizes[1:])
