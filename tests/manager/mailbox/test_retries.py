"""Messages that are rejected: out of sight for a while, and gone when it was too often."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import IllegalOperationError, IllegalPropertyValueError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.retries import Retry
from msmq.manager.queues.queue import Queue
from msmq.wire.classes import MessageClass
from tests.manager.support import Host, Reader, body_of, position_of


def retrying(host: Host, retry: Retry, **attributes: Any) -> tuple[Queue, Reader]:
    queue = host.queue(**attributes)
    host.manager.administration.set_retry(queue, retry)
    return queue, host.reader(queue)


def reject(reader: Reader) -> bytes | None:
    """Read the next message and reject it."""
    result = reader.begin()
    if body_of(result) is not None:
        reader.host.reading.reject(reader.descriptor, (position_of(result).lookup_id,))
    return body_of(result)


def abort(host: Host, reader: Reader) -> bytes | None:
    """Receive the next message in a transaction that is aborted."""
    transaction = host.transactions.create()
    body = body_of(reader.receive(transaction=transaction))
    host.transactions.abort(transaction.identifier)
    return body


def test_a_rejected_message_lets_others_pass_and_comes_back() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(delay_ms=2_000))
    host.fill(queue, b"bad", b"good")
    assert [reject(reader), body_of(reader.receive()), body_of(reader.receive())] == [b"bad", b"good", None]
    assert len(queue.paused) == 1
    host.advance(1.9)
    assert body_of(reader.receive()) is None
    assert reader.receive(timeout_s=60) is None
    host.advance(0.2)
    assert reader.bodies[-1] == b"bad"
    assert not queue.paused


def test_too_many_rejections_lead_to_a_subqueue() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(max_deliveries=3, poison_subqueue="Poison"))
    host.fill(queue, b"bad", b"good")
    assert [reject(reader) for _ in range(4)] == [b"bad", b"bad", b"bad", b"good"]
    poison = queue.subqueue_collection["poison"]
    assert (host.contents(queue), host.contents(poison), queue.poisoned_total) == ([b"good"], [b"bad"], 1)
    # Whoever looks after the subqueue may reject there as often as it likes.
    other = host.reader(poison)
    assert [reject(other) for _ in range(5)] == [b"bad"] * 5


@pytest.mark.parametrize("transactional", [False, True])
def test_or_to_the_dead_letter_queue_whatever_the_sender_wanted(transactional: bool) -> None:
    host = Host()
    queue, reader = retrying(host, Retry(max_deliveries=2), transactional=transactional)
    host.fill(queue, b"bad")
    reject(reader)
    reject(reader)
    core = host.manager.core
    grave = core.transactional_dead_letter_queue if transactional else core.dead_letter_queue
    assert grave is not None
    assert (host.contents(queue), host.contents(grave)) == ([], [b"bad"])
    (entry,) = grave.positions
    letter = host.manager.mailbox.load(grave, entry.lookup_id)
    assert letter.local.dead_letter_class == MessageClass.NACK_RECEIVE_REJECTED
    assert host.spy.deleted == [(b"bad", MessageClass.NACK_RECEIVE_REJECTED)]


def test_a_full_dead_letter_queue_loses_nothing() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(max_deliveries=1))
    host.fill(queue, bytes(3_000))
    host.manager.core.record.journal_quota_kb = 1
    reject(reader)
    assert (len(queue.positions), queue.poisoned_total) == (1, 0)
    host.manager.core.record.journal_quota_kb = 100
    reject(reader)
    assert (len(queue.positions), queue.poisoned_total) == (0, 1)


def test_aborted_transactions_count_and_the_move_is_in_their_event() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(1_000, 2, "poison"), transactional=True)
    host.fill(queue, b"bad", b"good")
    assert abort(host, reader) == b"bad"
    assert abort(host, reader) == b"good"
    host.advance(1)
    assert abort(host, reader) == b"bad"
    host.kill()
    queue = host.find()
    assert host.contents(queue) == [b"good"]
    assert host.contents(queue.subqueue_collection["poison"]) == [b"bad"]


def test_a_restart_ends_pauses_and_keeps_the_policy() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(3_600_000, 2, "poison"), transactional=True)
    host.fill(queue, b"bad")
    reject(reader)
    host.kill()
    queue = host.find()
    assert queue.retry == Retry(3_600_000, 2, "poison")
    reader = host.reader(queue)
    assert (reject(reader), len(queue.paused)) == (b"bad", 1)


def test_a_reader_has_a_policy_of_its_own() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(delay_ms=1_000))
    host.manager.administration.set_reader_retry(reader.descriptor, Retry(0, 1, "mine"))
    host.fill(queue, b"one", b"two")
    assert reject(reader) == b"one"
    assert host.contents(queue.subqueue_collection["mine"]) == [b"one"]
    other = host.reader(queue)
    assert reject(other) == b"two"
    assert len(queue.paused) == 1


def test_a_reader_that_leaves_has_rejected_nothing() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(1_000, 1, "poison"))
    host.fill(queue, b"one", b"two")
    reader.end(position_of(reader.begin()), keep=False)
    reader.begin()
    reader.begin()
    host.close(reader.descriptor)
    assert [entry.state for entry in queue.positions] == [PositionState.AVAILABLE] * 2


def test_a_purge_or_the_end_of_its_time_reaches_a_message_out_of_sight() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(delay_ms=5_000))
    host.send(queue, b"purged")
    reject(reader)
    host.manager.queues.purge(queue)
    host.send(queue, b"overdue", time_to_be_received_s=2)
    reject(reader)
    host.advance(5)
    assert host.contents(queue) == []
    assert host.spy.deleted == [
        (b"purged", MessageClass.NACK_Q_PURGED),
        (b"overdue", MessageClass.NACK_RECEIVE_TIMEOUT),
    ]


def test_a_queue_may_be_deleted_meanwhile() -> None:
    host = Host()
    queue, reader = retrying(host, Retry(delay_ms=5_000))
    host.send(queue, b"x")
    reject(reader)
    host.manager.queues.delete(queue)
    host.advance(5)
    assert host.manager.core.timers.failures == 0


def test_the_subqueue_stays_as_long_as_a_policy_names_it() -> None:
    host = Host()
    queue, _ = retrying(host, Retry(0, 1, "poison"))
    host.close(host.open(queue.subqueue_collection["poison"]))
    assert "poison" in queue.subqueue_collection
    host.manager.administration.set_retry(queue, Retry())
    assert not queue.subqueue_collection


def test_names_that_no_subqueue_has() -> None:
    host = Host()
    queue = host.queue()
    for name in ("journal", "a;b", "x" * 32):
        with pytest.raises(IllegalPropertyValueError):
            host.manager.administration.set_retry(queue, Retry(0, 1, name))
    subqueue = host.manager.queues.subqueue(queue, "sub")
    with pytest.raises(IllegalOperationError):
        host.manager.administration.set_retry(subqueue, Retry(1))
