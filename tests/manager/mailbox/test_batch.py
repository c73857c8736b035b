"""Messages of every kind in one batch: into a queue, seen there, and out of it again."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import pytest

from msmq.errors import InsufficientResourcesError
from msmq.manager.core import Core
from msmq.manager.initialization import Settings
from msmq.manager.mailbox.batch import NEVER, Batch, marks_of, second_after
from msmq.manager.mailbox.positions import START, PositionMark, PositionState
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.store.layout import place, segment_name
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE, USER_TH
from msmq.wire.trailers import host_address
from tests.manager.support import NOON, Host, message, position_of

ADMIN = "OS:HOST\\private$\\admin"
LOCAL: dict[str, Any] = {"authentication_level": 5, "allow_peek_when_locked": True}
SOURCE = host_address(ip_address("10.0.0.1"))


@pytest.fixture
def host() -> Host:
    host = Host()
    host.queue("admin")
    return host


def mixed() -> list[StoredMessage]:
    """Express and recoverable, of several priorities, some with attributes of their own, some that expire, some that
    came from another host."""
    return [
        message(b"plain", recoverable=True, source="10.0.0.1"),
        message(b"express"),
        message(b"urgent", priority=7, source="10.0.0.1"),
        message(b"urgent too", priority=7, recoverable=True, source="10.0.0.1", **LOCAL),
        message(b"express with more", **LOCAL),
        message(b"short", recoverable=True, time_to_be_received_s=10),
        message(b"low", priority=0, recoverable=True, time_to_be_received_s=20, **LOCAL),
    ]


ORDER = [b"urgent", b"urgent too", b"plain", b"express", b"express with more", b"short", b"low"]


def damage(host: Host, position: MessagePosition) -> None:
    host.store.commit()
    entry = position.queue.positions.get(position.lookup_id)
    assert entry is not None
    number, offset = place(entry.address)
    host.disk.flip(segment_name(number), offset + 80, 1)


def sums_are_right(core: Core) -> bool:
    queues = core.queues.values()
    express = sum(entry.size for each in queues for entry in each.positions if not entry.address)
    return (core.total_bytes, core.express_bytes) == (sum(each.total_bytes for each in queues), express)


def sources(host: Host, queue: Queue) -> list[bytes]:
    return host.manager.mailbox.look(queue, START, 10, 1 << 20).sources


# --- the columns ----------------------------------------------------------------------------------------------


def test_the_columns_of_messages_at_hand() -> None:
    batch = Batch.of(mixed(), bytes(16))
    assert len(batch) == 7
    assert [*batch.local] == [3, 4, 6]
    assert batch.expiries == [NEVER] * 5 + [NOON + 10, NOON + 20]
    assert batch.sizes == [one.size for one in mixed()]
    part = batch.only([6, 0, 4])
    assert [part.packets[index] for index in range(3)] == [batch.packets[index] for index in (6, 0, 4)]
    assert {index: local.authentication_level for index, local in part.local.items()} == {0: 5, 2: 5}
    assert [*part.sources] == [b"", SOURCE, b""]
    assert [*part.expiries] == [NOON + 20, NEVER, NEVER]
    assert batch.only(range(7)) is batch


def test_time_limits_end_at_a_second_that_fits() -> None:
    assert second_after(NOON, INFINITE) == NEVER
    assert second_after(NOON, 5) == NOON + 5
    assert second_after(0xFFFFFFF0, 0xFFFF) == NEVER


def test_marks_say_who_may_have_to_hear_of_a_message() -> None:
    no_receipt, kept = PositionMark.OWES_NO_RECEIPT, PositionMark.KEPT_UNREAD
    owes_nothing = PositionMark.OWES_NOTHING | no_receipt
    admin, transactional, negative, positive = 1 << 13, USER_TH, 0x100, 0x200
    assert marks_of(0, 0xF, ours=True) == marks_of(0, 0xF, ours=False) == owes_nothing, "no queue is named"
    assert marks_of(admin, 0x1, ours=False) == owes_nothing, "the arrival is told at once"
    assert marks_of(admin, 0x2, ours=False) == marks_of(admin, 0xA, ours=True) == 0
    assert marks_of(admin, 0x8, ours=True) == no_receipt, "only that it was not received"
    assert marks_of(negative, 0, ours=True) == owes_nothing, "delivered when it reached its queue"
    assert marks_of(transactional | negative, 0, ours=True) == owes_nothing | kept
    assert marks_of(transactional | positive, 0, ours=True) == owes_nothing
    assert (
        marks_of(transactional | negative, 0, ours=False)
        == marks_of(transactional | positive, 0, ours=False)
        == 0
    )
    assert marks_of(transactional, 0, ours=False) == owes_nothing
    assert marks_of(transactional, 0, ours=False, final_ack=2) == 0


# --- into a queue ---------------------------------------------------------------------------------------------


def test_a_mixed_batch_goes_in_as_its_messages_would(host: Host, queue: Queue) -> None:
    ids = host.manager.mailbox.put(queue, host.batch(*mixed()))
    numbers = [lookup_id & (1 << 56) - 1 for lookup_id in ids]
    assert numbers == list(range(numbers[0], numbers[0] + 7)), "numbered as they came"
    assert host.contents(queue) == ORDER
    assert host.spy.available == [bytes(one.packet.body) for one in mixed()]
    assert set(queue.volatile) == {ids[1], ids[2], ids[4]}
    assert queue.peekable_when_locked == {ids[3], ids[4], ids[6]}
    assert sums_are_right(host.manager.core)
    loaded = host.manager.mailbox.load(queue, ids[3])
    assert loaded.local == LocalAttributes(authentication_level=5, allow_peek_when_locked=True)
    assert sources(host, queue) == [SOURCE, SOURCE, SOURCE, b"", b"", b"", b""]
    host.kill()
    queue = host.find()
    assert host.contents(queue) == [body for body in ORDER if b"express" not in body and body != b"urgent"]
    assert queue.peekable_when_locked == {ids[3], ids[6]}
    assert host.manager.mailbox.load(queue, ids[6]).local.authentication_level == 5
    assert sources(host, queue) == [SOURCE, SOURCE, b"", b""]
    host.advance(10)
    assert host.contents(queue) == [b"urgent too", b"plain", b"low"]
    host.advance(10)
    assert host.contents(queue) == [b"urgent too", b"plain"]


def test_those_of_a_batch_whose_time_is_over_leave_at_once(host: Host, queue: Queue) -> None:
    waiting = host.reader(queue)
    waiting.receive(timeout_s=60)
    late = [
        message(b"late", recoverable=True, sent_time=NOON - 9, time_to_be_received_s=5, admin=ADMIN, acknowledge=8),
        message(b"in time", recoverable=True),
        message(b"late too", time_to_be_received_s=0, **LOCAL),
    ]  # fmt: skip
    host.manager.mailbox.put(queue, host.batch(*late))
    assert waiting.bodies == [b"in time"]
    assert host.contents(queue) == []
    assert (b"late", MessageClass.NACK_RECEIVE_TIMEOUT) in host.spy.deleted
    assert (b"late too", MessageClass.NACK_RECEIVE_TIMEOUT) in host.spy.deleted
    assert len(host.find("admin").positions) == 1
    assert sums_are_right(host.manager.core)
    assert (queue.overdue, queue.volatile, queue.peekable_when_locked) == (set(), {}, set())


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_mixed_batch_in_a_transaction(host: Host, queue: Queue, commit: bool, killed: bool) -> None:
    transaction = host.transactions.create()
    ids = host.transactions.enqueue(transaction, queue, host.batch(*mixed()))
    assert {entry.state for entry in queue.positions} == {PositionState.LOCKED}
    assert (host.spy.available, host.manager.core.express_bytes) == ([], 0), "all of it is written"
    assert len(host.manager.mailbox.look(queue, START, 10, 1 << 20)) == 0
    assert host.manager.mailbox.load(queue, ids[3]).local.authentication_level == 5, "before the commit"
    host.advance(10)
    assert len(queue.positions) == 7, "it is not there yet, so it cannot expire"
    end = host.transactions.commit if commit else host.transactions.abort
    end(transaction.identifier)
    if killed:
        host.kill()
        queue = host.find()
    assert host.contents(queue) == ([body for body in ORDER if body != b"short"] if commit else [])
    assert sums_are_right(host.manager.core)
    if commit:
        found = host.manager.mailbox.look(queue, START, 10, 1 << 20)
        local = {found.ids[index]: one.authentication_level for index, one in found.local.items()}
        assert local == dict.fromkeys((ids[index] for index in (3, 4, 6)), 5)
        assert sources(host, queue) == [SOURCE, SOURCE, SOURCE, b"", b"", b""]
        first, last = (host.manager.mailbox.load(queue, ids[index]).packet.transaction for index in (0, 6))
        assert first is last is None, "these are not transactional, so no header says it"


def test_a_batch_that_express_memory_cannot_take_changes_nothing() -> None:
    host = Host(settings=Settings(express_limit_bytes=1500))
    queue, core = host.queue(), host.manager.core
    before = core.last_sequential_id
    with pytest.raises(InsufficientResourcesError):
        host.manager.mailbox.put(
            queue, host.batch(message(b"r", recoverable=True), *(message(bytes(600)) for _ in range(3)))
        )
    assert (len(queue.positions), core.total_bytes, core.last_sequential_id) == (0, 0, before)


def test_waiting_readers_share_a_batch_and_protocols_hear_of_the_rest(host: Host, queue: Queue) -> None:
    readers = [host.reader(queue) for _ in range(3)]
    for reader in readers:
        reader.receive(timeout_s=60)
    host.manager.mailbox.put(queue, host.batch(*mixed()))
    assert [reader.bodies for reader in readers] == [[b"plain"], [b"express"], [b"urgent"]], "as they came"
    assert sorted(host.contents(queue)) == sorted(host.spy.available)
    assert len(queue.positions) == 4


def test_quotas_let_in_what_fits(host: Host) -> None:
    queue = host.queue("small", quota_kb=1)
    batch = host.batch(message(bytes(500)), message(bytes(600)), message(bytes(100)))
    statuses, lookup_ids = host.manager.sending.enqueue(queue, batch)
    assert [int(status) for status in statuses] == [0, 1, 0]
    assert [bool(lookup_id) for lookup_id in lookup_ids] == [True, False, True]
    assert host.contents(queue) == [bytes(500), bytes(100)]


# --- out of a queue -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason", [MessageClass.NACK_Q_PURGED, MessageClass.ACK_RECEIVE], ids=["purged", "received"]
)
def test_a_mixed_group_leaves_together(host: Host, queue: Queue, reason: MessageClass) -> None:
    asking = message(b"asks", recoverable=True, admin=ADMIN, acknowledge=8 | 2, **LOCAL)
    ids = host.manager.mailbox.put(queue, host.batch(*mixed(), asking))
    gone = [*ids[1:6], ids[7]]
    assert host.manager.mailbox.remove(queue, [*gone, 12345], reason) == 6, "whatever of them is there"
    assert host.manager.mailbox.remove(queue, gone, reason) == 0
    assert host.contents(queue) == [b"plain", b"low"]
    assert len(host.find("admin").positions) == 1
    assert sums_are_right(host.manager.core)
    host.kill()
    assert host.contents(host.find()) == [b"plain", b"low"]
    host.store.compact(host.manager.cleaning)
    host.kill()
    assert host.contents(host.find()) == [b"plain", b"low"]


def test_what_senders_have_to_hear_of_is_read_before_anything_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(spying=False)
    host.queue("admin")
    queue = host.queue()
    asking = [message(b"%d" % one, recoverable=True, admin=ADMIN, acknowledge=8) for one in range(3)]
    host.manager.mailbox.put(queue, host.batch(message(b"quiet", recoverable=True), *asking))
    places = [queue.position(entry.lookup_id) for entry in queue.positions]
    damage(host, places[2])
    store, seen = host.store, list[tuple[int, int]]()
    read_many = store.read_many

    def counted(records: list[tuple[int, int]], cuts: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        seen.append((len(records), len(queue.positions)))
        return read_many(records, cuts)

    monkeypatch.setattr(store, "read_many", counted)
    host.manager.queues.purge(queue)
    assert seen[0] == (3, 4), "those that ask, while all are there"
    assert len(queue.positions) == 0
    assert len(host.find("admin").positions) == 2, "damage costs only what it hits"
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [places[2].lookup_id]
    host.kill()
    assert len(host.find().positions) == 0
    assert len(host.find("admin").positions) == 2, "recoverable as the messages they are about"


def test_received_messages_are_read_only_if_a_receipt_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart it is not known any more who asked for what; then they are read, and told nothing."""
    host = Host(spying=False)
    host.queue("admin")
    queue = host.queue()
    asking = [message(bytes((asked,)), recoverable=True, admin=ADMIN, acknowledge=asked) for asked in (2, 8)]
    ids = [*host.manager.mailbox.put(queue, host.batch(*asking, *asking))]
    read: list[int] = []

    def receive(chosen: Sequence[int]) -> None:
        read_many = host.store.read_many

        def counted(records: list[tuple[int, int]], cuts: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
            read.append(len(records))
            return read_many(records, cuts)

        with monkeypatch.context() as patched:
            patched.setattr(host.store, "read_many", counted)
            host.manager.mailbox.remove(host.find(), chosen, MessageClass.ACK_RECEIVE)

    receive(ids[:2])
    assert read == [1]
    assert len(host.find("admin").positions) == 1
    host.store.commit()
    host.kill()
    receive(ids[2:])
    assert read == [1, 2]
    assert len(host.find("admin").positions) == 2


def test_journals_take_of_a_group_what_fits(host: Host) -> None:
    queue = host.queue("journaling", journaling=True, journal_quota_kb=1)
    bodies = [bytes(500), b"express", bytes(600), b"small"]
    batch = host.batch(*(message(body, recoverable=body != b"express") for body in bodies))
    host.manager.mailbox.put(queue, batch)
    assert len(host.reading.take(host.open(queue), 10, 1 << 20)) == 4
    assert queue.journal is not None
    assert host.contents(queue.journal) == [bytes(500), b"express", b"small"]
    assert sums_are_right(host.manager.core)
    host.kill()
    journal = host.find("journaling").journal
    assert journal is not None
    assert host.contents(journal) == [bytes(500), b"small"]


def test_a_group_moves_as_it_is(host: Host, queue: Queue) -> None:
    sub = host.manager.queues.subqueue(queue, "sub")
    ids = host.manager.mailbox.put(queue, host.batch(*mixed()))
    reader = host.reader(queue)
    reader.end(position_of(reader.begin()), keep=False)
    assert host.manager.mailbox.move(queue, [*ids[2:]], sub) == 5
    assert host.contents(queue) == [b"plain", b"express"]
    assert host.contents(sub) == [body for body in ORDER if body not in (b"plain", b"express")]
    assert (queue.aborts, sub.aborts) == ({}, {ids[2]: 1})
    assert (queue.peekable_when_locked, sub.peekable_when_locked) == (set(), {ids[3], ids[4], ids[6]})
    assert sums_are_right(host.manager.core)
    host.kill()
    queue = host.find()
    sub = queue.subqueue_collection["sub"]
    assert (host.contents(queue), host.contents(sub)) == ([b"plain"], [b"urgent too", b"short", b"low"])
    host.advance(10)
    assert host.contents(sub) == [b"urgent too", b"low"], "it expires where it stands"
