"""A full disk costs nothing that was there, and damage costs what it hits and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import pytest

from msmq.errors import IoTimeoutError, MessageNotFoundError, MessageStorageFailedError
from msmq.manager.ledger.ledger import Kind
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import MessageSeekAction, OutgoingState
from msmq.manager.queues.queue import MessagePosition, OutgoingQueue, Queue
from msmq.store import StoreFullError, StoreOptions
from msmq.store.layout import place, segment_name
from msmq.wire.classes import MessageClass
from tests.manager.support import MQ_OK, NOON, SEND, Host, body_of, status_of

SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


def fill_disk(host: Host) -> None:
    """Nothing fits any more, not even what the store keeps back."""
    host.disk.capacity = host.disk.used_bytes
    with suppress(StoreFullError):
        while True:
            host.store.append(Kind.DELETE, bytes(40), live=False)


def fill_disk_but_for_the_spare(host: Host) -> None:
    """What only adds is refused; what frees may still be written."""
    host.disk.capacity = host.disk.used_bytes
    with suppress(StoreFullError):
        while True:
            host.store.reserve(40)
            host.store.append(Kind.DELETE, bytes(40), live=False)


def damage(host: Host, address: int) -> None:
    host.store.commit()
    number, offset = place(address)
    host.disk.flip(segment_name(number), offset + 60)


def damage_message(host: Host, position: MessagePosition) -> None:
    entry = position.queue.positions.get(position.lookup_id)
    assert entry is not None
    damage(host, entry.address)


def restart_with_damage(host: Host, key: str) -> None:
    """Stop, damage the last record of a value, and start."""
    host.manager.stop()
    host.store.close()
    text = f'["{key}"'.encode()
    contents = {name: host.disk.durable_content(name) for name in host.disk.names() if name.endswith(".log")}
    segment = max(name for name, content in contents.items() if text in content)
    host.disk.flip(segment, contents[segment].rindex(text) + 4)
    host.start()


def sent(host: Host, queue: Queue, *bodies: bytes) -> list[MessagePosition]:
    transaction = host.transactions.create()
    positions = [host.send(queue, body, transaction) for body in bodies]
    host.transactions.commit(transaction.identifier)
    return positions


# --- events are whole ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", range(0, 4096, 64))
def test_a_commit_is_whole_wherever_a_segment_ends(padding: int) -> None:
    """The message is in the queue or in the journal, never in neither, when the power goes between two files."""
    host = Host(options=SMALL)
    queue = host.queue(transactional=True, journaling=True)
    sent(host, queue, b"x" * 100)
    host.send(host.queue("other"), b"." * padding, recoverable=True)
    host.store.commit()
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    host.store.commit()
    host.transactions.commit(transaction.identifier)
    batch = host.store.take()
    assert batch is not None
    host.store.write(type(batch)(batch.chunks[:1], batch.lsn))
    host.disk.crash(Random(0))
    host.start()
    queue = host.find()
    assert queue.journal is not None
    assert len(queue.positions) + len(queue.journal.positions) == 1


def test_room_for_copies_is_certain_before_a_commit_decides() -> None:
    host = Host(options=SMALL)
    queue = host.queue(transactional=True, journaling=True)
    sent(host, queue, *(b"." * 1800 for _ in range(6)))
    host.store.commit()
    transaction = host.transactions.create()
    reader = host.reader(queue)
    for _ in range(6):
        reader.receive(transaction=transaction)
    host.store.commit()
    fill_disk_but_for_the_spare(host)
    with pytest.raises(StoreFullError):
        host.transactions.commit(transaction.identifier)
    assert len(transaction.operations) == len(queue.positions) == 6
    host.disk.capacity = None
    host.transactions.commit(transaction.identifier)
    host.kill()
    journal = host.find().journal
    assert journal is not None
    assert (len(host.find().positions), len(journal.positions)) == (0, 6)


def test_what_was_received_in_a_transaction_can_go_when_the_disk_is_full() -> None:
    host = Host(options=SMALL)
    queue = host.queue(transactional=True)
    sent(host, queue, b"1", b"2")
    transaction = host.transactions.create()
    host.store.commit()
    fill_disk_but_for_the_spare(host)
    with pytest.raises(StoreFullError):
        sent(host, queue, b"3")
    reader = host.reader(queue)
    assert body_of(reader.receive(transaction=transaction)) == b"1"
    assert body_of(reader.receive(transaction=transaction)) == b"2"
    host.transactions.commit(transaction.identifier)
    assert len(queue.positions) == 0
    host.disk.capacity = None
    host.kill()
    assert len(host.find().positions) == 0


def test_a_full_disk_costs_the_acknowledgment_and_not_the_message() -> None:
    """The room that is kept back for what frees is not for telling senders."""
    host = Host(options=SMALL)
    queue, admin = host.queue(), host.queue("admin")
    positions = host.fill(queue, b"1", b"2", recoverable=True, admin=f"OS:{admin.pathname}", acknowledge=0x0A)
    host.store.commit()
    assert body_of(host.reader(queue).receive()) == b"1"
    assert len(admin.positions) == 1
    fill_disk_but_for_the_spare(host)
    host.manager.queues.purge(queue)
    assert positions[1].state is PositionState.DELETED
    assert len(admin.positions) == 1


# --- a full disk changes nothing ----------------------------------------------------------------------------


def test_a_move_that_finds_no_room_has_not_begun() -> None:
    host = Host(options=SMALL)
    queue = host.queue(transactional=True)
    (position,) = sent(host, queue, b"x")
    target = host.manager.queues.subqueue(queue, "later")
    host.store.commit()
    fill_disk(host)
    transaction = host.transactions.create()
    with pytest.raises(StoreFullError):
        host.manager.move_message(position, target, transaction)
    assert position.state is PositionState.AVAILABLE
    assert transaction.operations == []


def test_a_message_that_could_not_expire_expires_when_there_is_room() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    position = host.send(queue, b"x", recoverable=True, time_to_be_received_s=5)
    host.store.commit()
    fill_disk(host)
    host.advance(10)
    assert position.state is PositionState.AVAILABLE
    assert host.manager.core.timers.failures == 1
    assert host.manager.core.timers.next_deadline == NOON + 11
    host.disk.capacity = None
    host.advance(1)
    assert host.spy.deleted == [(b"x", MessageClass.NACK_RECEIVE_TIMEOUT)]


def test_something_periodic_goes_on_after_a_failure() -> None:
    host = Host()
    calls: list[float] = []

    def fail() -> None:
        calls.append(host.now)
        raise IoTimeoutError("")

    host.manager.core.every(10, fail)
    for _ in range(3):
        host.advance(10)
    assert calls == [NOON + 10, NOON + 20, NOON + 30]


def pause(host: Host, queue: Queue, outgoing: OutgoingQueue) -> None:
    host.manager.pause_queue(outgoing)


def make_subqueue(host: Host, queue: Queue, outgoing: OutgoingQueue) -> None:
    host.manager.queues.subqueue(queue, "later")


def open_outgoing(host: Host, queue: Queue, outgoing: OutgoingQueue) -> None:
    host.manager.queues.open("DIRECT=OS:far\\private$\\other", SEND)


def relabel(host: Host, queue: Queue, outgoing: OutgoingQueue) -> None:
    host.manager.queues.change(queue, label="new")


@pytest.mark.parametrize("change", [pause, make_subqueue, open_outgoing, relabel])
def test_a_change_that_finds_no_room_is_not_made(
    change: Callable[[Host, Queue, OutgoingQueue], None],
) -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    outgoing = host.manager.queues.open("DIRECT=OS:far\\private$\\q", SEND).queue
    assert isinstance(outgoing, OutgoingQueue)
    host.store.commit()
    fill_disk(host)
    known = set(host.manager.core.queues)
    with pytest.raises(StoreFullError):
        change(host, queue, outgoing)
    assert not queue.subqueue_collection
    assert queue.label == ""
    assert outgoing.state is not OutgoingState.ON_HOLD
    assert len(host.manager.core.outgoing) == 1
    assert set(host.manager.core.queues) == known


def test_a_read_that_could_not_be_ended_can_be_ended_later() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    position = host.send(queue, b"x", recoverable=True)
    reader = host.reader(queue)
    reader.begin()
    host.store.commit()
    fill_disk(host)
    with pytest.raises(StoreFullError):
        reader.end(position, keep=True)
    assert position.state is PositionState.LOCKED
    host.disk.capacity = None
    reader.end(position, keep=True)
    assert position.state is PositionState.DELETED


# --- damage costs what it hits ------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["receive", "peek", "begin", "cursor", "first", "next", "transaction"])
def test_a_damaged_message_is_set_aside_and_the_next_one_read(event: str) -> None:
    host = Host()
    queue = host.queue(transactional=event == "transaction")
    if event == "transaction":
        before, bad, _ = sent(host, queue, b"0", b"1", b"2")
    else:
        before, bad, _ = host.fill(queue, b"0", b"1", b"2", recoverable=True)
    damage_message(host, bad)
    reader = host.reader(queue)
    if event == "first":
        reader.receive()
        result = reader.lookup(0, MessageSeekAction.FIRST)
    elif event == "next":
        result = reader.lookup(before.lookup_id, MessageSeekAction.NEXT)
    elif event == "cursor":
        cursor = reader.cursor()
        reader.peek(cursor=cursor)
        result = reader.peek_next(cursor)  # type: ignore[assignment]
    else:
        reader.receive()
        if event == "transaction":
            transaction = host.transactions.create()
            result = reader.receive(transaction=transaction)  # type: ignore[assignment]
            host.transactions.commit(transaction.identifier)
        else:
            result = getattr(reader, event)()
    assert (status_of(result), body_of(result)) == (MQ_OK, b"2")
    assert bad.state is PositionState.DELETED
    (lost,) = host.manager.core.lost_records
    assert (lost.kind, lost.lookup_id, lost.name) == (Kind.MESSAGE, bad.lookup_id, queue.pathname)
    assert ".log at offset" in lost.reason
    host.kill()
    assert host.find().positions.get(bad.lookup_id) is None
    assert host.manager.core.total_bytes == host.find().total_bytes


def test_the_very_message_is_not_found_when_it_is_damaged() -> None:
    host = Host()
    queue = host.queue()
    bad = host.send(queue, b"1", recoverable=True)
    damage_message(host, bad)
    result = host.reader(queue).lookup(bad.lookup_id, MessageSeekAction.CURRENT)
    assert status_of(result) == MessageNotFoundError.code


def test_a_reader_that_waits_waits_on_when_what_comes_back_is_damaged() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    (bad,) = sent(host, queue, b"1")
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    damage_message(host, bad)
    waiting, second, third = host.reader(queue), host.reader(queue), host.reader(queue)
    assert waiting.receive(timeout_s=10) is None
    assert second.receive(timeout_s=20) is None
    host.advance(4)
    host.transactions.abort(transaction.identifier)
    assert waiting.statuses == []
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [bad.lookup_id]
    sent(host, queue, b"2")
    assert (waiting.bodies, second.statuses) == ([b"2"], []), "it has not lost its turn"
    host.advance(30)
    assert second.statuses == [IoTimeoutError.code]
    assert third.statuses == []


def test_a_wait_that_goes_on_after_damage_ends_when_it_was_to_end() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    (bad,) = sent(host, queue, b"1")
    transaction = host.transactions.create()
    host.reader(queue).receive(transaction=transaction)
    damage_message(host, bad)
    waiting = host.reader(queue)
    cursor = waiting.cursor()
    assert waiting.receive(timeout_s=10, cursor=cursor) is None
    host.advance(6)
    host.transactions.abort(transaction.identifier)
    host.advance(3)
    assert waiting.statuses == []
    host.advance(2)
    assert waiting.statuses == [IoTimeoutError.code]


@pytest.mark.parametrize("end", ["purge", "delete"])
def test_what_is_thrown_away_is_not_read(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless its sender may want to hear of it."""
    host = Host(spying=False)
    host.queue("admin")
    queue = host.queue(journaling=True)
    asked = "OS:HOST\\private$\\admin"
    host.fill(queue, b"1", b"2", recoverable=True)
    host.send(queue, b"3", recoverable=True, admin=asked, acknowledge=8)
    host.kill()
    read_many, addresses = host.store.read_many, list[int]()

    def counted(records: Sequence[tuple[int, int]], cuts: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        addresses.extend(address for address, _ in records)
        return read_many(records, cuts)

    monkeypatch.setattr(host.store, "read_many", counted)
    monkeypatch.setattr(host.store, "read", None)
    queue = host.find()
    last = list(queue.positions)[-1].address
    getattr(host.manager.queues, end)(queue)
    assert addresses == [last]
    assert len(host.find("admin").positions) == 1
    assert host.manager.core.total_bytes == host.find("admin").total_bytes
    host.kill()
    assert end == "delete" or len(host.find().positions) == 0


def test_a_queue_is_deleted_whole_or_not_at_all() -> None:
    """The disk has room for some of the deletions, not for all."""
    host = Host(options=SMALL)
    queue = host.queue(transactional=True)
    sent(host, queue, *(b"%d" % number for number in range(150)))
    transaction = host.transactions.create()
    held = host.reader(queue)
    held.receive(transaction=transaction)
    waiting = host.reader(queue)
    host.store.commit()
    fill_disk_but_for_the_spare(host)
    before = [entry.lookup_id for entry in queue.positions]
    with pytest.raises(MessageStorageFailedError):
        host.manager.queues.delete(queue)
    assert [entry.lookup_id for entry in queue.positions] == before
    assert (host.find(), waiting.descriptor.queue) == (queue, queue)
    host.transactions.abort(transaction.identifier)
    host.disk.capacity = None
    host.kill()
    assert [entry.lookup_id for entry in host.find().positions] == before
    host.manager.queues.delete(host.find())
    host.kill()
    assert "host\\private$\\orders" not in host.manager.core.by_path
    assert (host.manager.core.total_bytes, host.manager.core.orphans) == (0, {})


@pytest.mark.parametrize("end", ["purge", "delete", "expire", "commit", "commit move", "move"])
def test_damage_stops_no_other_event(end: str) -> None:
    host = Host()
    queue = host.queue(transactional="commit" in end, journaling=True)
    if "commit" in end:
        bad, good = sent(host, queue, b"1", b"2")
    else:
        bad, good = host.fill(queue, b"1", b"2", recoverable=True, time_to_be_received_s=5)
    target = host.manager.queues.subqueue(queue, "later")
    transaction = host.transactions.create()
    if end == "commit":
        host.reader(queue).receive(transaction=transaction)
    elif end == "commit move":
        host.manager.move_message(bad, target, transaction)
    damage_message(host, bad)
    if end == "purge":
        host.manager.queues.purge(queue)
    elif end == "delete":
        host.manager.queues.delete(queue)
    elif end == "expire":
        host.advance(10)
    elif end == "move":
        with pytest.raises(MessageNotFoundError):
            host.manager.move_message(bad, target)
    else:
        host.transactions.commit(transaction.identifier)
    assert bad.state is PositionState.DELETED
    assert (good.state is PositionState.AVAILABLE) == (end in ("commit", "commit move", "move"))
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [bad.lookup_id]
    host.kill()
    family = [] if end == "delete" else host.find().family
    found = [entry.lookup_id for member in family for entry in member.positions]
    assert found == ([good.lookup_id] if good.state is PositionState.AVAILABLE else [])


def test_a_commit_leaves_damage_among_what_was_sent_to_its_readers() -> None:
    """Whose arrival is told is read at the commit; what cannot be read then is nobody's to take away yet."""
    host = Host()
    host.manager.core.told_available_here.remove(host.spy.messages_available)  # which reads bodies
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    asking = {"admin": "OS:host\\private$\\admin", "acknowledge": 0x1}
    bad, _ = (host.send(queue, body, transaction, recoverable=True, **asking) for body in (b"1", b"2"))
    damage_message(host, bad)
    host.transactions.commit(transaction.identifier)
    assert bad.state is PositionState.AVAILABLE
    assert not host.manager.core.lost_records
    assert body_of(host.reader(queue).receive()) == b"2"
    assert bad.state is PositionState.DELETED
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [bad.lookup_id]


def test_cleaning_that_meets_a_damaged_message_frees_its_transaction_of_it() -> None:
    host = Host(options=SMALL)
    queue = host.queue(transactional=True)
    bad, _ = sent(host, queue, b"1", b"2")
    transaction = host.transactions.create()
    reader = host.reader(queue)
    reader.receive(transaction=transaction)
    reader.receive(transaction=transaction)
    damage_message(host, bad)
    host.store.compact(host.manager.cleaning)
    host.transactions.abort(transaction.identifier)
    assert host.contents(queue) == [b"2"]
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [bad.lookup_id]


def test_a_read_begun_on_a_message_that_cleaning_lost_is_over() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    bad = host.send(queue, b"1", recoverable=True)
    descriptor = host.open(queue)
    host.reading.dequeue_begin(descriptor, lambda result: None, timeout_s=0)
    damage_message(host, bad)
    host.store.compact(host.manager.cleaning)
    host.close(descriptor)
    assert len(queue.positions) == 0


def test_a_damaged_queue_costs_that_queue_and_keeps_its_messages() -> None:
    host = Host(options=SMALL)
    other, queue = host.queue("other"), host.queue()
    host.fill(other, b"1", recoverable=True)
    orphan = host.send(queue, b"orphan", recoverable=True)
    restart_with_damage(host, f"queue/{queue.number}")
    core = host.manager.core
    assert host.contents(host.find("other")) == [b"1"]
    assert not any(path.endswith("orders") for path in core.by_path)
    told = [(lost.kind, lost.name) for lost in core.lost_records]
    assert told == [(Kind.VALUE, ""), (Kind.VALUE, f"queue/{queue.number}")]
    assert "1 messages" in core.lost_records[1].reason

    # the log keeps them, whatever happens to it, and no new queue gets them
    host.store.compact(host.manager.cleaning)
    assert host.queue("newer").number > queue.number
    host.kill()
    assert core is not host.manager.core
    assert len(host.find("newer").positions) == 0
    _, address = host.manager.core.orphans[orphan.lookup_id]
    assert b"orphan" in host.store.read(address)


def test_the_value_before_a_damaged_one_counts() -> None:
    host = Host()
    queue = host.queue(label="old")
    host.manager.queues.change(queue, label="new")
    restart_with_damage(host, f"queue/{queue.number}")
    assert host.find().label == "old"
    assert [lost.name for lost in host.manager.core.lost_records] == [f"queue/{queue.number}"]
    host.manager.queues.change(host.find(), label="newest")
    host.kill()
    assert host.manager.core.lost_records == []
    assert host.find().label == "newest"


def test_no_number_comes_again_when_the_limits_are_damaged() -> None:
    host = Host()
    queue = host.queue()
    before = host.send(queue, b"1", recoverable=True)
    restart_with_damage(host, "numbers")
    assert host.send(host.find(), b"2").lookup_id > before.lookup_id


def test_a_message_that_leaves_is_forgotten_everywhere() -> None:
    host = Host()
    queue = host.queue()
    target = host.manager.queues.subqueue(queue, "later")
    for position in host.fill(queue, b"1", b"2", recoverable=True):
        host.manager.move_message(position, target)
    assert len(host.manager.core.moved) == 2
    host.reader(target).receive()
    host.manager.queues.purge(target)
    assert host.manager.core.moved == {}


def test_the_queue_manager_cleans_its_store() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    keep = host.send(queue, b"keep", recoverable=True)
    reader = host.reader(queue)
    for _ in range(40):
        host.send(queue, b"." * 1000, recoverable=True, priority=7)
        reader.receive()
        host.store.commit()
    peak = host.store.disk_bytes
    while host.store.clean_step(host.manager.cleaning, 1 << 16):
        host.store.commit()
    assert host.store.disk_bytes < peak
    assert host.body_at(keep) == b"keep"


def test_damage_among_many_messages_costs_only_what_it_hits() -> None:
    host = Host()
    queue = host.queue()
    places = host.fill(queue, b"0", b"1", b"2", b"3", b"4", recoverable=True)
    for number in (0, 2):
        damage_message(host, places[number])
    descriptor = host.reader(queue).descriptor
    first, second, third = (
        host.manager.reading.take(descriptor, 3, 1 << 20, two_phase_read=two_phase)
        for two_phase in (False, True, False)
    )
    assert [message.packet.body for message in first.messages] == [b"1"]
    assert [message.packet.body for message in second.messages] == [b"3", b"4"]
    assert len(third) == 0
    assert [record.lookup_id for record in host.manager.core.lost_records] == [
        places[0].lookup_id,
        places[2].lookup_id,
    ]


def test_a_full_disk_lets_many_messages_be_received_or_none() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, b"0", b"1", b"2", recoverable=True)
    fill_disk_but_for_the_spare(host)
    descriptor = host.reader(queue).descriptor
    found = host.manager.reading.take(descriptor, 3, 1 << 20)
    assert [message.packet.body for message in found.messages] == [b"0", b"1", b"2"], "that frees room"
    assert len(queue.positions) == 0


def test_a_purge_that_a_full_disk_refuses_leaves_what_is_held() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    host.fill(queue, b"held", b"free", recoverable=True)
    reader = host.reader(queue)
    held = reader.begin()
    assert held is not None
    assert held.position is not None
    fill_disk(host)
    with pytest.raises(StoreFullError):
        host.manager.queues.purge(queue)
    host.disk.capacity = None
    reader.end(held.position, keep=False)
    assert host.contents(queue) == [b"held", b"free"]


def test_an_express_message_that_is_late_on_a_full_disk_is_refused_and_leaves_nothing() -> None:
    host = Host(options=SMALL)
    queue = host.queue()
    host.send(queue, b"in time")
    fill_disk(host)
    with pytest.raises(StoreFullError):
        host.send(queue, b"late", time_to_be_received_s=0)
    assert host.contents(queue) == [b"in time"]
    assert queue.overdue == set()
