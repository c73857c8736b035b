"""Giving space back under a living queue manager."""

from __future__ import annotations

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import ResourceManager
from msmq.manager.queues.queue import Queue
from msmq.store import StoreOptions, layout
from tests.manager.support import Host

IDENTIFIER = bytes(range(16))
SMALL = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


def clean(host: Host) -> None:
    """Copy everything that matters to the end of the log and drop the rest."""
    host.store.compact(host.manager.cleaning)  # type: ignore[arg-type]
    host.store.commit()


def test_what_stands_in_queues_survives_cleaning_and_a_restart() -> None:
    host = Host()
    queue = host.queue()
    host.fill(queue, *(b"%d" % n for n in range(50)), recoverable=True)
    reader = host.reader(queue)
    for _ in range(40):
        reader.receive()
    clean(host)
    assert host.contents(queue) == [b"%d" % n for n in range(40, 50)]
    host.kill()
    assert host.contents(host.find()) == [b"%d" % n for n in range(40, 50)]


def test_a_moved_message_stays_where_it_was_moved_to() -> None:
    host = Host()
    queue = host.queue()
    (place,) = host.fill(queue, b"parked", recoverable=True)
    host.manager.move_message(place, host.manager.queues.subqueue(queue, "sub"))
    clean(host)
    host.kill()
    queue = host.find()
    assert host.contents(queue) == []
    assert host.contents(queue.subqueue_collection["sub"]) == [b"parked"]


def test_a_committed_message_is_not_undone_by_its_copy() -> None:
    host = Host()
    queue = host.queue("tx", transactional=True)
    transaction = host.transactions.create()
    host.send(queue, b"sent", transaction)
    host.transactions.commit(transaction.identifier)
    clean(host)
    host.kill()
    assert host.contents(host.find("tx")) == [b"sent"]


@pytest.mark.parametrize("moved", [False, True])
def test_a_commit_holds_for_a_message_that_was_copied_before_it(moved: bool) -> None:
    """The record of the operation is older than the copy then, and its segment is deleted before the copy's."""
    host = Host(options=SMALL)
    queue, besides = host.queue(), host.queue("besides")
    target = host.manager.queues.subqueue(queue, "sub")
    (place,) = host.fill(queue, b"mine", recoverable=True)
    host.fill(besides, *[bytes(600)] * 8, recoverable=True)
    transaction = host.transactions.create()
    if moved:
        host.manager.move_message(place, target, transaction)
    else:
        host.reader(queue).receive(transaction=transaction)
    host.fill(besides, *[bytes(600)] * 8, recoverable=True)
    host.manager.queues.purge(besides)
    host.store.commit()

    def address() -> int:
        entry = queue.positions.get(place.lookup_id)
        assert entry is not None
        return entry.address

    before = address()
    while address() == before:
        host.store.clean_step(host.manager.cleaning, 100)  # type: ignore[arg-type]
        host.store.commit()
    host.transactions.commit(transaction.identifier)
    while host.store.clean_step(host.manager.cleaning):  # type: ignore[arg-type]
        host.store.commit()
    host.store.commit()
    host.kill()
    queue = host.find()
    assert host.contents(queue) == []
    if moved:
        assert host.contents(queue.subqueue_collection["sub"]) == [b"mine"]


def test_a_promise_survives_cleaning() -> None:
    host = Host()
    queue = host.queue("tx", transactional=True)
    host.fill(queue, b"in")
    manager = ResourceManager(host.transactions)
    transaction = manager.enlist(IDENTIFIER)
    host.reader(queue).receive(transaction=transaction)
    host.send(queue, b"out", transaction)
    manager.prepare(IDENTIFIER)
    clean(host)
    host.kill()
    manager = ResourceManager(host.transactions)
    assert manager.in_doubt == [IDENTIFIER]
    assert {entry.state for entry in host.find("tx").positions} == {PositionState.LOCKED}
    manager.commit(IDENTIFIER)
    assert host.contents(host.find("tx")) == [b"out"]


def test_settings_and_queues_survive_cleaning() -> None:
    host = Host()
    host.queue("kept", label="a label")
    host.manager.queues.delete(host.queue("gone"))
    identifier = host.manager.core.record.identifier
    clean(host)
    host.kill()
    assert host.find("kept").label == "a label"
    assert "host\\private$\\gone" not in host.manager.core.by_path
    assert host.manager.core.record.identifier == identifier


def damage(host: Host, address: int | None, byte: int) -> None:
    """Flip a bit in a record."""
    assert address is not None
    number, offset = layout.place(address)
    host.disk.flip(layout.segment_name(number), offset + byte)


def fill_segments(host: Host, besides: Queue) -> None:
    """Make the oldest segments worth cleaning."""
    host.fill(besides, *[bytes(600)] * 16, recoverable=True)
    host.manager.queues.purge(besides)
    host.store.commit()


def test_a_damaged_message_that_a_transaction_holds_costs_no_other_message() -> None:
    """What the transaction has written about it is dead as soon as the damage is met, and must be counted as dead only
    once: otherwise its segment seems to be empty before the next message has been copied."""
    for budget in range(100, 1000, 20):
        host = Host(options=SMALL)
        queue, besides = host.queue(), host.queue("besides")
        (place,) = host.fill(queue, b"damaged", recoverable=True)
        transaction = host.transactions.create()
        host.reader(queue).receive(transaction=transaction)
        host.fill(queue, b"kept", recoverable=True)
        fill_segments(host, besides)
        damage(host, queue.positions.address_of(place.lookup_id), 80)
        while host.store.clean_step(host.manager.cleaning, budget):  # type: ignore[arg-type]
            host.store.commit()
        assert [lost.lookup_id for lost in host.manager.core.lost_records] == [place.lookup_id]
        host.transactions.commit(transaction.identifier)
        host.kill()
        assert host.contents(host.find()) == [b"kept"], budget


def test_a_damaged_value_is_written_again() -> None:
    """The queue manager knows it still, and would not know the queue with its messages after the next start."""
    host = Host(options=SMALL)
    queue, besides = host.queue(), host.queue("besides")
    host.fill(queue, b"kept", recoverable=True)
    fill_segments(host, besides)
    first = min(name for name in host.disk.names() if name.endswith(".log"))
    host.disk.flip(first, host.disk.durable_content(first).rindex(b'["queue/%d"' % queue.number) + 20)
    while host.store.clean_step(host.manager.cleaning, 1000):  # type: ignore[arg-type]
        host.store.commit()
    assert [lost.name for lost in host.manager.core.lost_records] == [f"queue/{queue.number}"]
    host.manager.queues.change(queue, label="new")
    host.kill()
    assert host.contents(host.find()) == [b"kept"]
    assert host.find().label == "new"


def test_damage_does_not_undo_what_a_transaction_has_done() -> None:
    """The record of its operation has nothing but its head, which the index of the segment has as well."""
    host = Host(options=SMALL)
    queue, besides = host.queue(), host.queue("besides")
    host.fill(queue, b"taken", recoverable=True)
    manager = ResourceManager(host.transactions)
    transaction = manager.enlist(IDENTIFIER)
    host.reader(queue).receive(transaction=transaction)
    manager.prepare(IDENTIFIER)
    fill_segments(host, besides)
    damage(host, transaction.operations[0].addresses[0], 20)
    damage(host, transaction.prepared_at, 20)
    while host.store.clean_step(host.manager.cleaning, 1000):  # type: ignore[arg-type]
        host.store.commit()
    host.kill()
    manager = ResourceManager(host.transactions)
    assert manager.in_doubt == [IDENTIFIER]
    manager.commit(IDENTIFIER)
    host.kill()
    assert host.contents(host.find()) == []
