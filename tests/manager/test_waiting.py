"""Readers that wait: who is served, in which order, what ends a wait, and what a callback may do."""

from __future__ import annotations

from random import Random

import pytest

from msmq.errors import (
    IoTimeoutError,
    OperationCancelledError,
    QueueNotAvailableError,
    TransactionSequenceError,
)
from msmq.manager.mailbox.positions import END, PositionState
from msmq.manager.messages.readers import INFINITE, STATUS_NOT_FOUND
from msmq.manager.messages.transactions import Transaction
from msmq.manager.queues.queue import Queue, ReadResult
from tests.manager.support import MQ_OK, PEEK, Host, Reader, body_of, position_of, status_of


def no_trace(host: Host, queue: Queue, *readers: Reader) -> bool:
    """No wait is remembered anywhere."""
    descriptors = [reader.descriptor for reader in readers]
    return (
        not queue.waiting
        and not any(descriptor.waiting for descriptor in descriptors)
        and host.manager.core.timers.next_deadline is None
    )


# --- the record of a wait -----------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.10-a", "DMPR-3.1.7.3.1-c", "DMPR-3.1.7.3.4-a")
def test_a_blocked_reader_is_on_record(host: Host, queue: Queue) -> None:
    receiver, peeker = host.reader(queue), host.reader(queue, PEEK)
    cursor = receiver.cursor()
    assert receiver.receive(60, tag=7, cursor=cursor) is None
    assert peeker.peek(INFINITE) is None
    (received,) = receiver.descriptor.waiting
    (peeked,) = peeker.descriptor.waiting
    assert (received.destructive_read, received.tag, received.cursor) == (True, 7, cursor)
    assert (peeked.destructive_read, peeked.tag, peeked.cursor) == (False, None, None)
    assert queue.waiting == [received, peeked]
    assert received.timer is not None
    assert received.timer.deadline == host.manager.core.timers.next_deadline == host.now + 60
    assert peeked.timer is None, "an infinite wait never expires"


@pytest.mark.spec("DMPR-3.1.7.3.1-b", "DMPR-3.1.7.1.10-h", "DMPR-3.1.7.1.10-i")
@pytest.mark.parametrize("timeout_s", [0, -1])
def test_without_time_there_is_no_wait(host: Host, queue: Queue, timeout_s: float) -> None:
    reader = host.reader(queue)
    for read in (reader.receive, reader.begin, reader.peek):
        assert status_of(read(timeout_s)) == IoTimeoutError.code == 0xC00E001B
    assert status_of(reader.peek(timeout_s, cursor=reader.cursor())) == IoTimeoutError.code
    assert no_trace(host, queue, reader)
    assert reader.receive(5) is None
    host.advance(5)
    assert reader.statuses[-1] == IoTimeoutError.code, "elapsed"
    host.manager.queues.delete(queue)
    assert status_of(reader.receive(5)) == QueueNotAvailableError.code
    assert no_trace(host, queue, reader)


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.2.3-a", "DMPR-3.1.6.3-a")
def test_each_wait_has_a_timer_of_its_own(host: Host, queue: Queue) -> None:
    two, five, forever = host.reader(queue), host.reader(queue), host.reader(queue)
    assert two.receive(2) is None
    assert five.peek(5) is None
    assert forever.receive(INFINITE) is None
    host.advance(1.75)
    assert two.results == [], "not a moment too early"
    host.advance(0.25)
    assert two.statuses == [IoTimeoutError.code] == [0xC00E001B]
    assert five.results == []
    host.advance(3)
    assert five.statuses == [IoTimeoutError.code]
    host.advance(86_400)
    assert forever.results == []
    host.send(queue, b"a")
    assert forever.bodies == [b"a"]


def test_time_outs_keep_fractions_of_a_second(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    reader.receive(1.5)
    host.advance(1.25)
    assert reader.results == []
    host.advance(0.25)
    assert reader.statuses == [IoTimeoutError.code]


def test_timers_of_ended_waits_are_forgotten(host: Host, queue: Queue) -> None:
    """Many short reads with long time-outs must not pile up timers until those are over."""
    reader = host.reader(queue)
    for _ in range(5000):
        reader.receive(86_400)
        host.send(queue)
    assert reader.statuses == [MQ_OK] * 5000
    assert len(host.manager.core.timers) < 2000
    assert no_trace(host, queue, reader)


# --- how waits end ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.3.1-a", "DMPR-3.1.7.3.1-d")
def test_a_wait_ends_with_a_message_the_time_or_a_cancel_and_leaves_nothing(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    assert reader.receive(60, tag=1) is None, "blocks"
    host.send(queue, b"a")
    assert reader.bodies == [b"a"]
    assert no_trace(host, queue, reader)

    assert reader.receive(60, tag=2) is None
    host.advance(60)
    assert reader.statuses[1:] == [IoTimeoutError.code]
    assert no_trace(host, queue, reader)

    assert reader.receive(60, tag=3) is None
    assert host.reading.cancel(reader.descriptor, 3) == MQ_OK
    assert reader.statuses[2:] == [OperationCancelledError.code]
    assert no_trace(host, queue, reader)
    host.advance(3600)
    host.send(queue, b"b")
    assert len(reader.results) == 3, "each wait was answered once"


@pytest.mark.spec("DMPR-3.1.7.1.17-b", "DMPR-3.1.7.1.17-c", "DMPR-3.1.7.3.5-a")
def test_a_cancel_ends_one_wait_of_its_own_handle(host: Host, queue: Queue) -> None:
    mine, theirs = host.reader(queue), host.reader(queue)
    assert mine.receive(60, tag=1) is None
    assert mine.receive(60, tag=2) is None
    assert mine.peek(60) is None
    assert theirs.receive(60, tag=1) is None
    assert host.reading.cancel(mine.descriptor, 3) == STATUS_NOT_FOUND == 0xC0000225
    assert mine.results == []
    assert host.reading.cancel(mine.descriptor, 1) == MQ_OK
    assert mine.statuses == [OperationCancelledError.code]
    assert theirs.results == [], "the same tag, but another client's"
    assert [reader.tag for reader in mine.descriptor.waiting] == [2, None]
    assert host.reading.cancel(mine.descriptor, 1) == STATUS_NOT_FOUND, "once"
    assert host.reading.cancel(mine.descriptor, 2, status=IoTimeoutError.code) == MQ_OK
    assert mine.statuses[1:] == [IoTimeoutError.code], "the reason is the caller's"


@pytest.mark.spec("DMPR-3.1.7.1.17-a")
def test_a_two_phase_receive_that_waits_can_be_cancelled(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    assert reader.begin(INFINITE, tag=9) is None
    assert host.reading.cancel(reader.descriptor, 9) == MQ_OK
    assert reader.statuses == [OperationCancelledError.code] == [0xC00E0008]
    assert no_trace(host, queue, reader)
    host.send(queue, b"a")
    assert host.contents(queue) == [b"a"], "nobody holds it"


def test_a_peek_with_a_tag_can_be_cancelled(host: Host, queue: Queue) -> None:
    reader = host.reader(queue, PEEK)
    cursor = reader.cursor()
    assert reader.peek(60, cursor=cursor, tag=5) is None
    assert host.reading.cancel(reader.descriptor, 5) == MQ_OK
    assert reader.statuses == [OperationCancelledError.code]
    assert not cursor.waits


@pytest.mark.spec("DMPR-3.1.7.1.2-a", "DMPR-3.1.7.1.2-b")
def test_closing_a_cursor_ends_the_read_that_waits_on_it(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    cursor, other = reader.cursor(), reader.cursor()
    assert reader.receive(60, cursor=cursor) is None
    assert reader.receive(60, cursor=other) is None
    assert reader.receive(60) is None
    host.reading.close_cursor(cursor)
    assert reader.statuses == [OperationCancelledError.code] == [0xC00E0008]
    assert cursor.handle not in reader.descriptor.cursors
    assert [waiting.cursor for waiting in reader.descriptor.waiting] == [other, None]
    assert [waiting.cursor for waiting in queue.waiting] == [other, None]


@pytest.mark.spec("DMPR-3.1.1.16-e", "DMPR-3.1.7.1.6-d", "DMPR-3.1.7.1.6-e")
def test_closing_a_handle_ends_its_reads_and_cursors(host: Host, queue: Queue) -> None:
    reader, other = host.reader(queue), host.reader(queue)
    cursors = [reader.cursor(), reader.cursor()]
    reader.receive(INFINITE, tag=1)
    reader.peek(60)
    reader.receive(60, cursor=cursors[0])
    other.receive(60)
    host.close(reader.descriptor)
    assert reader.statuses == [OperationCancelledError.code] * 3
    assert not reader.descriptor.cursors
    assert not reader.descriptor.waiting
    assert status_of(reader.peek(cursor=cursors[1])) == QueueNotAvailableError.code
    host.send(queue, b"a")
    assert other.bodies == [b"a"]


@pytest.mark.spec("DMPR-3.1.7.1.4-f")
def test_deleting_the_queue_ends_all_reads(host: Host, queue: Queue) -> None:
    readers = [host.reader(queue) for _ in range(3)]
    for reader in readers:
        reader.receive(INFINITE, tag=1)
        reader.peek(60, cursor=reader.cursor())
    host.manager.queues.delete(queue)
    for reader in readers:
        assert reader.statuses == [QueueNotAvailableError.code] * 2 == [0xC00E004B] * 2
    assert no_trace(host, queue, *readers)


def test_a_read_in_a_transaction_does_not_outlive_it(host: Host) -> None:
    """A message that came later would stay locked for a transaction that nobody can end any more."""
    queue = host.queue("tx", transactional=True)
    for number, end in enumerate((host.transactions.commit, host.transactions.abort)):
        reader = host.reader(queue)
        transaction = host.transactions.create()
        assert reader.receive(60, transaction=transaction) is None
        end(transaction.identifier)
        assert reader.statuses == [TransactionSequenceError.code]
        assert no_trace(host, queue, reader)
        assert status_of(reader.receive(60, transaction=transaction)) == TransactionSequenceError.code
        host.send(queue, b"%d" % number)
        assert body_of(host.reader(queue).receive()) == b"%d" % number


def test_a_prepared_transaction_takes_no_more_messages(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    reader = host.reader(queue)
    transaction = host.transactions.create(bytes(range(16)), single_phase=False)
    assert reader.receive(60, transaction=transaction) is None
    host.transactions.prepare(transaction.identifier, single_phase=False)
    assert reader.statuses == [TransactionSequenceError.code]
    host.send(queue, b"a")
    assert status_of(reader.receive(transaction=transaction)) == TransactionSequenceError.code
    assert host.contents(queue) == [b"a"]


# --- who is served ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.2.2-c", "DMPR-3.1.7.2.2-d", "DMPR-3.1.1.16-f")
def test_who_blocked_first_is_served_first_and_a_receiver_ends_the_round(host: Host, queue: Queue) -> None:
    one, two = host.reader(queue), host.reader(queue)
    one.receive(60, tag=1)
    two.receive(60, tag=2)
    one.receive(60, tag=3)
    host.send(queue, b"a")
    assert (one.bodies, two.bodies) == ([b"a"], []), "exactly one wakes"
    assert [waiting.tag for waiting in queue.waiting] == [2, 3]
    host.send(queue, b"b")
    assert (one.bodies, two.bodies) == ([b"a"], [b"b"])
    host.send(queue, b"c")
    assert (one.bodies, two.bodies) == ([b"a", b"c"], [b"b"])
    assert host.spy.available == [], "nothing was left for others"


@pytest.mark.spec("DMPR-3.1.7.2.2-e", "DMPR-3.1.7.3.7-a", "DMPR-3.1.7.1.15-f", "DMPR-3.1.7.3.6-a")
def test_a_peeker_lets_the_next_reader_run(host: Host, queue: Queue) -> None:
    peekers = [host.reader(queue, PEEK), host.reader(queue, PEEK)]
    receiver, late = host.reader(queue), host.reader(queue)
    for peeker in peekers:
        assert peeker.peek(60) is None
    assert receiver.receive(60) is None
    assert late.peek(60) is None
    position = host.send(queue, b"a")
    for reader in (*peekers, receiver):
        assert reader.bodies == [b"a"]
        assert position_of(reader.results[0]) == position, "that very place"
    assert late.results == [], "the message was taken before it came to this one"
    assert not queue.positions


@pytest.mark.spec("DMPR-3.1.7.1.14-d", "DMPR-3.1.7.1.15-d")
def test_cursor_peeks_that_waited_let_the_next_reader_run(host: Host, queue: Queue) -> None:
    host.send(queue, b"a")
    next_peeker, peeker, receiver = host.reader(queue), host.reader(queue), host.reader(queue)
    cursor, behind = next_peeker.cursor(), peeker.cursor()
    next_peeker.peek(cursor=cursor)
    peeker.receive(cursor=behind)
    assert next_peeker.peek_next(cursor, 60) is None
    assert peeker.peek(60, cursor=behind) is None
    assert receiver.receive(60) is None
    host.send(queue, b"b")
    assert next_peeker.bodies[-1] == peeker.bodies[-1] == receiver.bodies[-1] == b"b"
    assert next_peeker.peek_next(cursor, 5) is None
    assert peeker.peek(5, cursor=peeker.cursor()) is None
    host.advance(5)
    assert next_peeker.statuses[-1] == peeker.statuses[-1] == IoTimeoutError.code == 0xC00E001B


@pytest.mark.spec("DMPR-3.1.7.1.10-f")
def test_a_cursor_receive_waits_for_a_later_message_or_ends_behind_the_tail(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    cursor = reader.cursor()
    assert reader.receive(60, cursor=cursor) is None
    host.send(queue, b"a")
    assert reader.bodies == [b"a"]
    assert not queue.positions
    assert reader.receive(60, cursor=cursor) is None
    host.advance(60)
    assert reader.statuses[-1] == IoTimeoutError.code == 0xC00E001B
    assert cursor.place == END


def test_a_message_given_back_wakes_who_waits(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    host.send(queue, b"a")
    first, second, third = host.reader(queue), host.reader(queue), host.reader(queue)
    held = position_of(first.begin())
    assert second.begin(60) is None
    first.end(held, keep=False)
    assert second.bodies == [b"a"]
    transaction = host.transactions.create()
    assert third.receive(60, transaction=transaction) is None
    second.end(held, keep=False)
    assert third.bodies == [b"a"]
    assert first.receive(60) is None
    host.transactions.abort(transaction.identifier)
    assert first.bodies[-1] == b"a"
    assert host.spy.available == [b"a"], "only the first time was it there for everybody"


def test_a_message_locked_by_the_reader_that_waited_is_not_announced(host: Host, queue: Queue) -> None:
    reader = host.reader(queue)
    assert reader.begin(60) is None
    position = host.send(queue, b"a")
    assert position.state is PositionState.LOCKED
    assert host.spy.available == []
    reader.end(position, keep=False)
    assert host.spy.available == [b"a"]


def test_a_committed_transaction_wakes_readers_in_the_order_it_sent(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    readers = [host.reader(queue) for _ in range(3)]
    for reader in readers:
        reader.receive(60)
    transaction = host.transactions.create()
    host.fill(queue, b"a", b"b", b"c", b"d", transaction=transaction)
    assert [reader.results for reader in readers] == [[]] * 3, "locked until the commit"
    host.transactions.commit(transaction.identifier)
    assert [reader.bodies for reader in readers] == [[b"a"], [b"b"], [b"c"]]
    assert host.contents(queue) == [b"d"]


# --- callbacks that call back -------------------------------------------------------------------------------


def test_a_consumer_that_reads_on_from_its_callback_piles_up_no_calls(host: Host, queue: Queue) -> None:
    descriptor = host.open(queue)
    bodies: list[bytes | None] = []

    def done(result: ReadResult) -> None:
        bodies.append(body_of(result))
        if result.status == MQ_OK:
            host.reading.dequeue(descriptor, done, timeout_s=60)

    sent = [b"%d" % number for number in range(3000)]
    host.fill(queue, *sent)
    host.reading.dequeue(descriptor, done)
    assert bodies == sent
    host.send(queue, b"late")
    assert bodies[-1] == b"late"
    assert len(queue.waiting) == 1


def test_a_peeker_that_takes_the_message_leaves_nothing_for_the_next_reader(host: Host, queue: Queue) -> None:
    """The receiver that waited behind the peeker was first; the callback finds the message gone."""
    peeker, receiver = host.reader(queue), host.reader(queue)
    taken: list[ReadResult] = []
    host.reading.peek(
        peeker.descriptor,
        lambda _: host.reading.dequeue(peeker.descriptor, taken.append, timeout_s=0),
        timeout_s=60,
    )
    receiver.receive(60)
    host.send(queue, b"a")
    assert receiver.bodies == [b"a"]
    assert [result.status for result in taken] == [IoTimeoutError.code]


def test_what_a_callback_sends_comes_after_what_woke_it(host: Host, queue: Queue) -> None:
    peeker, first, second = host.reader(queue), host.reader(queue), host.reader(queue)
    host.reading.peek(peeker.descriptor, lambda _: host.send(queue, b"b") and None, timeout_s=60)
    first.receive(60)
    second.receive(60)
    host.send(queue, b"a")
    assert (first.bodies, second.bodies) == ([b"a"], [b"b"])


def test_a_callback_may_close_its_handle_and_delete_the_queue(host: Host, queue: Queue) -> None:
    closer, others = host.reader(queue), [host.reader(queue) for _ in range(3)]

    def close(_: ReadResult) -> None:
        host.close(closer.descriptor)
        host.close(others[0].descriptor)
        host.manager.queues.delete(queue)

    host.reading.peek(closer.descriptor, close, timeout_s=60)
    closer.receive(60)
    for other in others:
        other.receive(60)
    host.send(queue, b"a")
    assert closer.bodies == [b"a"], "served before the peeker could do anything about it"
    assert others[0].statuses == [OperationCancelledError.code]
    assert [other.statuses for other in others[1:]] == [[QueueNotAvailableError.code]] * 2
    assert no_trace(host, queue, closer, *others)


def test_a_callback_in_a_commit_sees_all_of_it(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    seen: list[list[bytes]] = []
    host.reading.dequeue(host.open(queue), lambda _: seen.append(host.contents(queue)), timeout_s=60)
    transaction = host.transactions.create()
    host.fill(queue, b"a", b"b", b"c", transaction=transaction)
    host.transactions.commit(transaction.identifier)
    assert seen == [[b"b", b"c"]]
    assert all(entry.state is PositionState.AVAILABLE for entry in queue.positions)


# --- nobody is forgotten ------------------------------------------------------------------------------------


def nobody_waits_beside_a_message(queue: Queue) -> bool:
    """A reader without a cursor waits only while there is nothing for it."""
    blocked = any(waiting.cursor is None for waiting in queue.waiting)
    return not blocked or queue.positions.next_available(-1) is None


class Bustle:
    """Reads, sends, time, cancels, two-phase reads and transactions at random, from callbacks too."""

    def __init__(self, seed: int) -> None:
        self.random, self.host = Random(seed), Host(seed)
        self.queue = self.host.queue("tx", transactional=True)
        self.readers = [self.host.reader(self.queue) for _ in range(5)]
        self.sent = 0
        self.undone: set[bytes] = set()
        self.kept: list[bytes | None] = []
        self.held: list[tuple[Reader, ReadResult]] = []
        self.open: list[tuple[Transaction, list[bytes]]] = []
        self.steps = [self.receive, self.peek, self.begin, self.send, self.send, self.pass_time]
        self.steps += [self.cancel, self.end, self.open_transaction, self.end_transaction]

    def step(self) -> None:
        self.random.choice(self.steps)(self.random.choice(self.readers))
        assert nobody_waits_beside_a_message(self.queue)

    def receive(self, reader: Reader) -> None:
        timeout_s = self.random.choice((0, 2, INFINITE))
        self.host.reading.dequeue(reader.descriptor, self.received, timeout_s=timeout_s, tag=1)

    def received(self, result: ReadResult) -> None:
        if result.status == MQ_OK:
            self.kept.append(body_of(result))
            reader = self.random.choice(self.readers)
            if self.random.random() < 0.4:
                self.random.choice((self.send, self.receive, self.end, self.cancel))(reader)

    def peek(self, reader: Reader) -> None:
        self.host.reading.peek(reader.descriptor, lambda _: None, timeout_s=5)

    def begin(self, reader: Reader) -> None:
        self.host.reading.dequeue_begin(
            reader.descriptor, lambda result: self.held.append((reader, result)), timeout_s=2
        )

    def end(self, _: Reader) -> None:
        if self.held:
            reader, result = self.held.pop(self.random.randrange(len(self.held)))
            if result.status == MQ_OK:
                keep = self.random.random() < 0.5
                self.kept += [body_of(result)] if keep else []
                reader.end(position_of(result), keep=keep)

    def send(self, _: Reader, transaction: Transaction | None = None) -> bytes:
        self.sent += 1
        body = b"%d" % self.sent
        self.host.send(self.queue, body, transaction)
        return body

    def pass_time(self, _: Reader) -> None:
        self.host.advance(self.random.random())

    def cancel(self, reader: Reader) -> None:
        self.host.reading.cancel(reader.descriptor, 1)

    def open_transaction(self, reader: Reader) -> None:
        transaction = self.host.transactions.create()
        self.open.append(
            (transaction, [self.send(reader, transaction) for _ in range(self.random.randrange(4))])
        )

    def end_transaction(self, _: Reader) -> None:
        if self.open:
            transaction, bodies = self.open.pop()
            if self.random.random() < 0.5:
                self.host.transactions.commit(transaction.identifier)
            else:
                self.host.transactions.abort(transaction.identifier)
                self.undone.update(bodies)


@pytest.mark.spec("DMPR-3.1.7.3.1-e")
@pytest.mark.parametrize("seed", range(8))
def test_no_wake_up_is_lost_and_no_message_comes_twice(seed: int) -> None:
    bustle = Bustle(seed)
    for _ in range(1000):
        bustle.step()
    everything = {b"%d" % number for number in range(1, bustle.sent + 1)}
    left = bustle.host.contents(bustle.queue)
    assert len(bustle.kept) > 100
    assert sorted([*bustle.kept, *left, *bustle.undone]) == sorted(everything), "each message once"


@pytest.mark.spec("DMPR-3.1.7.1.10-n")
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_receivers_and_a_hundred_messages_in_any_order(seed: int) -> None:
    random, host = Random(seed), Host(seed)
    queue = host.queue()
    readers = [host.reader(queue) for _ in range(100)]
    steps = [lambda reader=reader: reader.receive(INFINITE) for reader in readers]
    steps += [lambda number=number: host.send(queue, b"%d" % number) for number in range(100)]
    random.shuffle(steps)
    for step in steps:
        step()
    assert sorted(int(body or b"-1") for reader in readers for body in reader.bodies) == list(range(100))
    assert all(len(reader.results) == 1 for reader in readers)
    assert no_trace(host, queue, *readers)
    assert not queue.positions
