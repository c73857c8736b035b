"""Long work a slice at a time: purging and deleting queues with more messages than one event takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from msmq.errors import MessageStorageFailedError, QueueNotAvailableError, QueueNotFoundError
from msmq.manager.chores import SLICE, Chores
from msmq.manager.messages.message import Message
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import DELETING
from msmq.wire.classes import MessageClass
from tests.manager.support import SEND, Host, message, position_of

MANY = 2 * SLICE + 100


@pytest.fixture
def host() -> Host:
    return Host(spying=False)


def stock(host: Host, queue: Queue, count: int = MANY, **attributes: bool) -> None:
    batch = host.batch(*(message(b"%d" % number, **attributes) for number in range(count)))
    host.manager.mailbox.put(queue, batch)


def counting(upto: int, ran: list[int]) -> Iterator[int]:
    for number in range(upto):
        ran.append(number)
        yield 10


def test_what_one_slice_finishes_is_done_at_once() -> None:
    chores, ran = Chores(), list[int]()
    woken: list[bool] = []
    chores.wake = lambda: woken.append(True)
    chore = chores.start(counting(1, ran))
    assert (chore.done, chore.messages, chores.pending, woken) == (True, 10, False, [])
    told: list[str] = []
    chore.when_done(lambda: told.append("now"))
    assert told == ["now"]


def test_longer_work_takes_turns_and_tells_its_end() -> None:
    chores = Chores()
    woken: list[bool] = []
    chores.wake = lambda: woken.append(True)
    first, second = list[int](), list[int]()
    one, other = chores.start(counting(4, first)), chores.start(counting(3, second))
    told: list[str] = []
    one.when_done(lambda: told.append("one"))
    other.when_done(lambda: told.append("other"))
    assert (first, second, woken) == ([0, 1], [0, 1], [True, True])
    assert chores.step()
    assert (first, second) == ([0, 1, 2], [0, 1])
    assert chores.step()
    assert (first, second, told) == ([0, 1, 2], [0, 1, 2], [])
    chores.finish()
    assert (first, second, told) == ([0, 1, 2, 3], [0, 1, 2], ["other", "one"])
    assert (one.messages, other.messages, chores.pending) == (40, 30, False)


def test_work_that_fails_ends_and_says_why() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 1
        raise QueueNotFoundError("gone")

    chores = Chores()
    chore = chores.start(failing())
    told: list[Exception | None] = []
    chore.when_done(lambda: told.append(chore.error))
    with pytest.raises(QueueNotFoundError):
        chores.step()
    assert (chore.done, chores.pending) == (True, False)
    assert isinstance(told[0], QueueNotFoundError)


# --- purge ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
def test_a_purge_takes_what_was_there_and_leaves_what_comes_meanwhile(host: Host, recoverable: bool) -> None:
    queue, core = host.queue(), host.manager.core
    stock(host, queue, recoverable=recoverable)
    chore = host.manager.queues.purge(queue)
    assert not chore.done
    assert 0 < len(queue.positions) < MANY
    urgent = host.send(queue, b"urgent", priority=7, recoverable=recoverable)
    later = host.send(queue, b"later", recoverable=recoverable)
    while core.chores.step():
        host.send(queue, b"more", priority=1, recoverable=recoverable)
    assert chore.done
    assert chore.messages == MANY
    kept = host.contents(queue)
    assert kept[:2] == [b"urgent", b"later"]
    assert set(kept[2:]) <= {b"more"}
    assert {urgent.lookup_id, later.lookup_id} < {entry.lookup_id for entry in queue.positions}
    assert core.total_bytes == queue.total_bytes
    host.kill()
    assert host.contents(host.find()) == (kept if recoverable else [])


def test_a_purge_ends_while_messages_keep_coming(host: Host) -> None:
    queue, core = host.queue(), host.manager.core
    stock(host, queue)
    chore = host.manager.queues.purge(queue)
    for _ in range(10):
        stock(host, queue, SLICE)
        core.chores.step()
    assert chore.done
    assert (chore.messages, len(queue.positions)) == (MANY, 10 * SLICE)


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "given back"])
@pytest.mark.parametrize("meanwhile", [True, False], ids=["meanwhile", "before"])
def test_what_readers_hold_goes_when_they_let_go(host: Host, keep: bool, meanwhile: bool) -> None:
    queue, core = host.queue(), host.manager.core
    stock(host, queue, recoverable=True)
    reader = host.reader(queue)
    if not meanwhile:
        held = position_of(reader.begin())
    host.manager.queues.purge(queue)
    if meanwhile:
        held = position_of(reader.begin())
    new = host.send(queue, b"new", priority=7, recoverable=True)
    other = host.reader(queue)
    other.begin()
    core.chores.finish()
    assert [entry.lookup_id for entry in queue.positions] == [new.lookup_id, held.lookup_id]
    host.manager.subscribe(host.spy)
    host.spy.deleted.clear()
    reader.end(held, keep=keep)
    assert [reason for _, reason in host.spy.deleted] == [MessageClass.NACK_Q_PURGED]
    other.end(new, keep=False)
    assert host.contents(queue) == [b"new"]


def test_a_queue_that_is_deleted_while_it_is_purged(host: Host) -> None:
    queue, core = host.queue(), host.manager.core
    stock(host, queue, 4 * SLICE, recoverable=True)
    purging = host.manager.queues.purge(queue)
    deleting = host.manager.queues.delete(queue)
    core.chores.finish()
    assert purging.done
    assert deleting.done
    assert core.total_bytes == 0
    assert queue.number not in core.queues


# --- deletion -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slices", [0, 1, 2])
def test_a_deletion_that_is_killed_is_finished_after_a_restart(host: Host, slices: int) -> None:
    queue = host.queue()
    host.queue("other")
    stock(host, queue, recoverable=True)
    sub = host.manager.queues.subqueue(queue, "sub")
    stock(host, sub, 50, recoverable=True)
    chore = host.manager.queues.delete(queue)
    for _ in range(slices):
        host.manager.core.chores.step()
    assert not chore.done
    host.send(host.find("other"), b"stays", recoverable=True)
    host.kill()
    core = host.manager.core
    assert f"{DELETING}{queue.number}" in host.found.values
    assert "host\\private$\\orders" not in core.by_path
    core.chores.finish()
    assert core.total_bytes == host.find("other").total_bytes
    assert not {queue.number, sub.number} & {*core.queues}
    host.kill()
    assert f"{DELETING}{queue.number}" not in host.found.values
    assert host.manager.core.total_bytes == host.find("other").total_bytes
    assert (host.contents(host.find("other")), host.manager.core.orphans) == ([b"stays"], {})


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed"])
def test_the_names_of_a_deleted_queue_are_free_at_once(host: Host, killed: bool) -> None:
    queue = host.queue()
    stock(host, queue, recoverable=True)
    reader = host.reader(queue)
    waiting = host.reader(host.manager.queues.subqueue(queue, "sub"))
    waiting.receive(timeout_s=60)
    host.manager.queues.delete(queue)
    assert waiting.statuses == [QueueNotAvailableError.code]
    reader.receive()
    assert reader.statuses == [QueueNotAvailableError.code]
    if killed:
        host.kill()
    again = host.queue()
    assert again.number != queue.number
    host.send(again, b"new", recoverable=True)
    host.manager.core.chores.finish()
    host.kill()
    assert host.contents(host.find()) == [b"new"]
    assert host.manager.core.total_bytes == host.find().total_bytes


def test_cleaning_keeps_what_is_still_to_be_deleted_and_no_more(host: Host) -> None:
    queue = host.queue()
    stock(host, queue, recoverable=True)
    host.manager.queues.delete(queue)
    host.store.compact(host.manager.cleaning)
    host.kill()
    core = host.manager.core
    core.chores.finish()
    host.store.compact(host.manager.cleaning)
    assert (core.total_bytes, core.orphans, core.lost_records) == (0, {}, [])
    host.kill()
    assert host.manager.core.total_bytes == 0


def test_senders_hear_of_every_message_of_a_big_queue_that_is_deleted(host: Host) -> None:
    admin, queue = host.queue("admin"), host.queue()
    asking = [
        message(b"%d" % number, recoverable=True, admin="OS:HOST\\private$\\admin", acknowledge=8)
        for number in range(MANY)
    ]
    host.manager.mailbox.put(queue, host.batch(*asking))
    host.manager.queues.delete(queue)
    host.kill()
    host.manager.core.chores.finish()
    load, admin = host.manager.mailbox.load, host.find("admin")
    told = [load(admin, entry.lookup_id).packet.properties.message_class for entry in admin.positions]
    assert told == [MessageClass.NACK_Q_DELETED] * MANY


def test_dead_letters_of_a_big_queue_that_is_deleted(host: Host) -> None:
    host.queue("tx", transactional=True)
    descriptor = host.manager.queues.open("DIRECT=OS:HOST\\private$\\tx", SEND)
    transaction = host.transactions.create()
    for number in range(SLICE + 10):
        kept = Message(body=b"%d" % number, negative_journaling_requested=True)
        host.manager.posting.send(descriptor, kept, transaction)
    host.transactions.commit(transaction.identifier)
    host.manager.queues.delete(host.find("tx"))
    host.manager.core.chores.finish()
    host.kill()
    dead = host.manager.core.transactional_dead_letter_queue
    assert dead is not None
    assert host.contents(dead) == [b"%d" % number for number in range(SLICE + 10)]
    assert host.manager.core.total_bytes == dead.total_bytes


@pytest.mark.parametrize("end", ["purge", "delete"])
def test_a_full_disk_costs_dead_letters_their_reason_at_most(host: Host, end: str) -> None:
    """There is room for one large record or the other, not for both."""
    host.queue("tx", transactional=True)
    descriptor = host.manager.queues.open("DIRECT=OS:HOST\\private$\\tx", SEND)
    transaction = host.transactions.create()
    bodies = [b"%d" % number * 9000 for number in range(6)]
    for body in bodies:
        host.manager.posting.send(
            descriptor, Message(body=body, negative_journaling_requested=True), transaction
        )
    host.transactions.commit(transaction.identifier)
    host.store.commit()
    filling = host.queue("filling")
    host.disk.capacity = host.disk.used_bytes
    with suppress(MessageStorageFailedError):
        for _ in range(1000):
            host.send(filling, bytes(900), recoverable=True)
    assert len(filling.positions) < 1000, "the disk is full"
    chore = getattr(host.manager.queues, end)(host.find("tx"))
    assert chore.done
    host.disk.capacity = None
    host.kill()
    dead = host.manager.core.transactional_dead_letter_queue
    assert dead is not None
    assert host.contents(dead) == bodies
    reasons = {MessageClass.NACK_Q_PURGED, MessageClass.NACK_Q_DELETED, 0}
    load = host.manager.mailbox.load
    assert {load(dead, entry.lookup_id).local.dead_letter_class for entry in dead.positions} <= reasons
