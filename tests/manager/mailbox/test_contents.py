"""Messages of every kind read at their places, and what the disk has damaged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from msmq.errors import IoTimeoutError, MessageStorageFailedError
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.positions import END, START, PositionMark
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import MessageSeekAction
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.store.layout import place, segment_name
from msmq.wire.layout import FIXED_SIZE
from tests.manager.support import NOON, Host, body_of, message, status_of

LOCAL: dict[str, Any] = {"authentication_level": 5, "allow_peek_when_locked": True}


def mixed() -> list[StoredMessage]:
    """On disk and in memory, with attributes of their own and without, in the order of their queue."""
    return [
        message(b"urgent", priority=7, recoverable=True, **LOCAL),
        message(b"plain", recoverable=True, source="fd00::7"),
        message(b"express"),
        message(b"express with more", **LOCAL),
        message(b"more", recoverable=True, **LOCAL),
        message(b"low", priority=0, recoverable=True),
    ]


def damage(host: Host, position: MessagePosition) -> None:
    host.store.commit()
    entry = position.queue.positions.get(position.lookup_id)
    assert entry is not None
    number, offset = place(entry.address)
    host.disk.flip(segment_name(number), offset + 80, 1)


def bodies(messages: Any) -> list[bytes]:
    return [bytes(one.packet.body) for one in messages]


def test_a_look_gives_no_more_than_asked_for_and_what_lies_between(host: Host, queue: Queue) -> None:
    given = mixed()
    host.manager.mailbox.put(queue, host.batch(*given))
    places = [entry.lookup_id for entry in queue.positions]
    look = host.manager.mailbox.look
    assert [*look(queue, START, 3, 1 << 20).ids] == places[:3]
    assert [*look(queue, START, 10, 1).ids] == places[:1]
    assert [*look(queue, places[1], 10, 1 << 20, places[4]).ids] == places[2:5]
    assert bodies(look(queue, START, 10, 1 << 20, END).messages) == bodies(given)
    assert len(queue.positions) == 6


def test_all_kinds_are_read_together(host: Host, queue: Queue) -> None:
    given = mixed()
    host.manager.mailbox.put(queue, host.batch(*given))
    found = host.manager.mailbox.look(queue, START, 10, 1 << 20)
    assert found.packets == [one.packet.data for one in given]
    assert [one.local for one in found.messages] == [one.local for one in given]
    assert [*found.local] == [0, 3, 4]
    assert found.arrival_times == [int(NOON)] * 6


def test_one_of_them_is_read_like_all(host: Host, queue: Queue) -> None:
    given = mixed()
    ids = host.manager.mailbox.put(queue, host.batch(*given))
    for lookup_id, one in zip(ids, given, strict=True):
        for read in (host.manager.mailbox.load, host.manager.mailbox.fetch):
            seen = read(queue, lookup_id)
            assert seen is not None
            assert (seen.lookup_id, seen.packet.data, seen.local) == (lookup_id, one.packet.data, one.local)


def test_a_look_passes_over_damage(host: Host, queue: Queue) -> None:
    places = host.fill(queue, b"0", b"1", b"2", recoverable=True)
    damage(host, places[0])
    found = host.manager.mailbox.look(queue, START, 1, 1 << 20)
    assert bodies(found.messages) == [b"1"]
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [places[0].lookup_id]
    assert host.contents(queue) == [b"1", b"2"]


def test_damage_at_a_place_of_somebody_else_stays_there(host: Host, queue: Queue) -> None:
    places = host.fill(queue, b"0", b"1", b"2", recoverable=True)
    damage(host, places[1])
    mailbox = host.manager.mailbox
    positions = queue.positions.find([one.lookup_id for one in places])
    assert bodies(mailbox.read(queue, positions, ours=False).messages) == [b"0", b"2"]
    with pytest.raises(MessageStorageFailedError):
        mailbox.load(queue, places[1].lookup_id)
    assert (len(queue.positions), host.manager.core.lost_records) == (3, [])
    assert mailbox.fetch(queue, places[1].lookup_id) is None
    assert (len(queue.positions), len(host.manager.core.lost_records)) == (2, 1)


@pytest.mark.parametrize("event", ["peek", "cursor", "first", "last", "many", "show"])
@pytest.mark.parametrize("holder", ["reader", "receiving", "sending"])
def test_who_may_only_peek_passes_over_damage_and_leaves_it_to_its_holder(holder: str, event: str) -> None:
    host = Host(spying=False)
    queue = host.queue(transactional=holder != "reader")
    transaction = host.transactions.create()
    own = transaction if holder == "sending" else None
    places = [
        host.send(queue, body, own, recoverable=True, allow_peek_when_locked=True)
        for body in (b"0", b"1", b"2")
    ]
    reader, other = host.reader(queue), host.reader(queue)
    if holder != "sending":
        hold = reader.begin if holder == "reader" else partial(reader.receive, transaction=transaction)
        assert [body_of(hold()) for _ in places] == [b"0", b"1", b"2"]
    damage(host, places[0])
    damage(host, places[2])
    if event == "many":
        found = host.reading.look_on(other.descriptor, other.cursor(), 5, 1 << 20)
        assert found.ids.tolist() == [places[1].lookup_id]
    elif event == "show":
        shown = [host.reading.show(other.descriptor, one.lookup_id) for one in places]
        assert [one is not None for one in shown] == [False, True, False]
    elif event == "cursor":
        cursor = other.cursor()
        assert body_of(other.peek(cursor=cursor)) == b"1"
        assert status_of(other.peek_next(cursor)) == IoTimeoutError.code
    elif event == "peek":
        assert body_of(other.peek()) == b"1"
    else:
        assert body_of(other.lookup(0, MessageSeekAction[event.upper()])) == b"1"
    assert (len(queue.positions), host.manager.core.lost_records) == (3, []), "it was not theirs to remove"
    if holder == "reader":
        assert host.reading.keep(reader.descriptor, [one.lookup_id for one in places]) == 3
    else:
        host.transactions.commit(transaction.identifier)
    assert [body_of(other.receive()) for _ in range(2)] == [b"1" if holder == "sending" else None, None]
    assert (len(queue.positions), host.manager.core.total_bytes) == (0, 0)


class Lost(Subscriber):
    """What subscribers are told of damage."""

    def __init__(self) -> None:
        self.heard: list[tuple[Queue, list[int]]] = []

    def messages_lost(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.heard.append((queue, [*lookup_ids]))

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        """To be told of a message that is asked for, it has to be read."""


@pytest.mark.parametrize("how", ["set aside", "purged", "buried", "cleaned"])
def test_subscribers_are_told_of_messages_that_nobody_could_read(how: str) -> None:
    host = Host(spying=False)
    lost = Lost()
    host.manager.subscribe(lost)
    queue = host.queue()
    asked: dict[str, Any] = {"recoverable": True, "admin": "OS:HOST\\private$\\admin", "acknowledge": 0xF}
    places = [host.send(queue, body, **asked) for body in (b"0", b"1", b"2", b"3")]
    for one in places if how == "buried" else ():
        queue.positions.mark(one.lookup_id, PositionMark.KEPT_UNREAD)
    damage(host, places[1])
    damage(host, places[2])
    bad = [places[1].lookup_id, places[2].lookup_id]
    if how == "set aside":
        host.manager.mailbox.look(queue, START, 10, 1 << 20)
    elif how == "cleaned":
        host.store.compact(host.manager.cleaning)
    else:
        host.manager.queues.purge(queue)
    told = [lookup_id for where, ids in lost.heard for lookup_id in ids if where is queue]
    assert told == bad
    assert not queue.positions.find(bad).ids


def test_headers_of_large_messages_are_read_without_their_bodies(host: Host, queue: Queue) -> None:
    large = bytes(100_000)
    given = [
        *mixed(),
        message(large, recoverable=True, source="fd00::7"),
        message(large),
        message(large, recoverable=True, **LOCAL),
        message(large, recoverable=True),
    ]
    ids = list(host.manager.mailbox.put(queue, host.batch(*given)))
    packets = {one: each.packet.data for one, each in zip(ids, given, strict=True)}

    def check(expected: list[int]) -> None:
        found = dict(host.manager.mailbox.headers(queue, ids))
        assert sorted(found) == sorted(expected)
        assert all(
            packets[one].startswith(packet) and len(packet) >= FIXED_SIZE for one, packet in found.items()
        )

    check(ids)
    host.store.commit()
    check(ids)
    for index in (1, 6, 8):
        entry = queue.positions.get(ids[index])
        assert entry is not None
        number, offset = place(entry.address)
        host.disk.flip(segment_name(number), offset + entry.size, 1)
    # The small one is read as a whole; of the others the headers are sound.
    check([one for one in ids if one != ids[1]])
