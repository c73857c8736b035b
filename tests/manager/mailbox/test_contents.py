"""Messages of every kind read at their places, and what the disk has damaged."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.manager.mailbox.positions import END, START
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.store.layout import place, segment_name
from msmq.wire.layout import FIXED_SIZE
from tests.manager.support import NOON, Host, message

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
