"""Many plain messages on their way out: read and kept as one by one they would have been, or left to that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Subscriber
from msmq.manager.positions import END, PositionState
from msmq.manager.queue import OpenQueueDescriptor, Queue
from msmq.manager.stored import StoredMessage
from msmq.wire.message import UserMessage
from tests.manager.support import PEEK, RECEIVE, Host

MUCH = 1 << 20


@pytest.fixture
def host() -> Host:
    host = Host()
    host.manager.core.unsubscribe(host.spy)
    host.queue()
    return host


def filled(host: Host, count: int, **attributes: Any) -> OpenQueueDescriptor:
    host.fill(host.find(), *(b"%d" % number for number in range(count)), recoverable=True, **attributes)
    return host.reader(host.find()).descriptor


def hold(host: Host, descriptor: OpenQueueDescriptor, most: int = 10) -> list[int]:
    found = host.manager.bulk_reading.hold(descriptor, most, MUCH)
    return [] if found is None else list(found.lookup_ids)


def test_the_first_messages_are_held_as_they_lie_there(host: Host) -> None:
    descriptor = filled(host, 5)
    found = host.manager.bulk_reading.hold(descriptor, 3, MUCH)
    assert found is not None
    assert [UserMessage.decode(data).body for data in found.packets] == [b"0", b"1", b"2"]
    assert found.arrival_times == 3 * [int(host.now)]
    assert [host.find().position(each).state for each in found.lookup_ids] == 3 * [PositionState.LOCKED]
    assert descriptor.begun == set(found.lookup_ids)
    rest = host.manager.bulk_reading.hold(descriptor, 10, MUCH)
    assert rest is not None
    assert [UserMessage.decode(data).body for data in rest.packets] == [b"3", b"4"]
    assert host.manager.bulk_reading.hold(descriptor, 10, MUCH) is None, "nothing is left"


def test_whether_they_will_survive_is_told(host: Host) -> None:
    descriptor = filled(host, 2)
    pending = host.manager.bulk_reading.hold(descriptor, 1, MUCH)
    host.store.commit()
    written = host.manager.bulk_reading.hold(descriptor, 1, MUCH)
    assert pending is not None
    assert written is not None
    assert [pending.durable, written.durable] == [False, True]


# --- a look at them ---------------------------------------------------------------------------------------------------


def look(
    host: Host, after: int = 0, upto: int = END - 1, most: int = 10, most_bytes: int = MUCH
) -> list[bytes]:
    found = host.manager.bulk_reading.look(host.find(), after, upto, most, most_bytes)
    if found is None:
        return []
    assert found.arrival_times == [int(host.now)] * len(found.packets)
    return [bytes(UserMessage.decode(data).body) for data in found.packets]


def test_a_look_leaves_them_where_they_are(host: Host) -> None:
    descriptor = filled(host, 5)
    ids = [entry.lookup_id for entry in host.find().positions]
    assert look(host) == look(host) == [b"0", b"1", b"2", b"3", b"4"]
    assert look(host, ids[0], ids[3]) == [b"1", b"2", b"3"]
    assert look(host, most=2) == [b"0", b"1"]
    assert look(host, most_bytes=1) == [b"0"], "but never nothing"
    assert look(host, ids[4]) == look(host, ids[1], ids[1]) == []
    assert hold(host, descriptor, 2) == ids[:2]
    assert look(host) == [b"2", b"3", b"4"], "what somebody holds is not shown"
    host.kill()
    assert look(host) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_look_at_what_says_more_than_its_packet_is_taken_one_by_one(host: Host) -> None:
    host.queue("whole", transactional=True)
    transaction = host.manager.transactions.create()
    for number in range(4):
        host.send(host.find("whole"), b"%d" % number, transaction)
    host.manager.transactions.commit(transaction.identifier)
    queue, bulk = host.find("whole"), host.manager.bulk_reading
    ids = [entry.lookup_id for entry in queue.positions]
    assert bulk.look(queue, 0, END - 1, 10, MUCH) is None, "the first says so"
    found = bulk.look(queue, ids[0], END - 1, 10, MUCH)
    assert found is not None
    assert list(found.lookup_ids) == ids[1:3]
    descriptor = filled(host, 2)
    (held,) = hold(host, descriptor, 1)
    host.reading.dequeue_end(descriptor, host.find().position(held), delete_message=False)
    assert look(host) == [], "one was given back, which a reader is told"
    assert look(host, held) == [b"1"]
    host.fill(host.find(), b"express", recoverable=False)
    assert look(host, held) == [b"1"]


def test_a_look_never_takes_local_attributes_for_the_packet(host: Host) -> None:
    """Neither while the records wait for the disk, nor afterwards."""
    path = host.find().pathname
    filled(host, 2)
    filled(host, 2, application_deadletter_queue=path)
    for _ in range(2):
        assert look(host, most=2) == [b"0", b"1"]
        assert look(host) in ([], [b"0", b"1"])
        host.store.commit()


@pytest.mark.parametrize("chosen", [slice(None), slice(1, 3), slice(0, None, 2)])
@pytest.mark.parametrize("restarted", ["kill", "restart"])
def test_what_is_kept_is_gone_and_the_rest_comes_back(host: Host, chosen: slice, restarted: str) -> None:
    descriptor = filled(host, 5)
    ids = hold(host, descriptor)
    kept = ids[chosen]
    before = host.manager.core.total_bytes
    assert host.manager.bulk_reading.keep(descriptor, kept)
    assert host.manager.core.total_bytes == before * (5 - len(kept)) // 5
    assert not host.manager.bulk_reading.keep(descriptor, kept), "only once"
    left = [b"%d" % number for number in range(5) if ids[number] not in kept]
    host.store.commit()
    getattr(host, restarted)()
    assert host.contents(host.find()) == left


def test_what_was_kept_and_not_committed_is_there_again(host: Host) -> None:
    descriptor = filled(host, 3)
    host.store.commit()
    assert host.manager.bulk_reading.keep(descriptor, hold(host, descriptor))
    host.disk.kill()
    host.start()
    assert host.contents(host.find()) == [b"0", b"1", b"2"]


def test_the_space_of_what_was_kept_is_given_back(host: Host) -> None:
    descriptor = filled(host, 50)
    host.store.commit()
    live = host.store.live_bytes
    assert host.manager.bulk_reading.keep(descriptor, hold(host, descriptor, 50))
    host.store.commit()
    assert host.store.live_bytes < live - 50 * 100


@pytest.mark.parametrize(
    "attributes",
    [{"admin": "DIRECT=OS:HOST\\private$\\admin"}, {"transactional": True}, {"private": True}],
    ids=["may owe", "transactional", "local attributes"],
)
def test_messages_that_are_not_plain_are_read_otherwise(host: Host, attributes: dict[str, Any]) -> None:
    assert hold(host, filled(host, 2, **attributes)) == []


def test_the_run_ends_before_a_message_that_is_not_plain(host: Host) -> None:
    filled(host, 2)
    host.send(host.find(), b"express")
    descriptor = filled(host, 1)
    assert len(hold(host, descriptor)) == 2
    assert hold(host, descriptor) == []


def test_those_that_were_given_back_are_read_otherwise(host: Host) -> None:
    descriptor = filled(host, 2)
    first, _ = hold(host, descriptor)
    host.close(descriptor)
    again = host.open(host.find(), RECEIVE)
    assert hold(host, again) == [], "the reader is to be told how often it came back"
    assert host.find().aborts[first] == 1


def test_only_who_may_receive_gets_any(host: Host) -> None:
    descriptor = filled(host, 1)
    assert hold(host, host.open(host.find(), PEEK)) == []
    host.close(descriptor)
    assert hold(host, descriptor) == [], "closed"


def test_a_damaged_message_is_left_to_who_sets_it_aside(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = filled(host, 2)

    def damaged(_: object) -> list[bytes]:
        raise MessageStorageFailedError("damaged")

    monkeypatch.setattr(host.store, "read_many", damaged)
    assert hold(host, descriptor) == []
    assert not descriptor.begun


@pytest.mark.parametrize("why", ["journaling", "purged", "of somebody else", "gone"])
def test_what_cannot_be_kept_like_this(host: Host, why: str) -> None:
    descriptor = filled(host, 3)
    ids = hold(host, descriptor)
    queue = host.find()
    if why == "journaling":
        queue.journaling = True
    elif why == "purged":
        queue.positions.set_state(ids[1], PositionState.PURGE_PENDING)
    elif why == "of somebody else":
        descriptor = host.open(queue, RECEIVE)
    else:
        ids.append(4711)
        descriptor.begun.add(4711)
    assert not host.manager.bulk_reading.keep(descriptor, ids)
    assert len(queue.positions) == 3


class Listener(Subscriber):
    def __init__(self) -> None:
        self.together: list[list[int]] = []
        self.single: list[int] = []

    def message_position_deleted(self, queue: Queue, message: StoredMessage, reason: int) -> None:
        self.single.append(message.lookup_id)


class PatientListener(Listener):
    def messages_received(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.together.append(list(lookup_ids))


class Indifferent(Listener):
    only_owing = True


def test_who_wants_to_hear_of_each_message_does(host: Host) -> None:
    descriptor = filled(host, 2)
    ids = hold(host, descriptor)
    patient, indifferent, curious = PatientListener(), Indifferent(), Listener()
    for listener in (patient, indifferent, curious):
        host.manager.subscribe(listener)
    assert not host.manager.bulk_reading.keep(descriptor, ids), "somebody wants to be told of each"
    host.manager.core.unsubscribe(curious)
    assert host.manager.bulk_reading.keep(descriptor, ids)
    assert patient.together == [ids]
    assert not patient.single
    assert not indifferent.single


def test_nothing_is_remembered_of_what_is_gone(host: Host) -> None:
    descriptor = filled(host, 2)
    ids = hold(host, descriptor)
    queue = host.find()
    for table in (queue.aborts, queue.moves, host.manager.core.moved):
        table[ids[0]] = 1  # type: ignore[assignment]
    queue.overdue.add(ids[1])
    assert host.manager.bulk_reading.keep(descriptor, ids)
    assert not queue.aborts
    assert not queue.moves
    assert not host.manager.core.moved
    assert not queue.overdue
