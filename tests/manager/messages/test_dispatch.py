"""The dispatch collection: one message at a time, the most important one first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from msmq.manager.core import Subscriber
from msmq.manager.messages.dispatch import Dispatch
from msmq.manager.model import OutgoingState
from msmq.manager.queues.queue import MessagePosition, OutgoingQueue, Queue
from msmq.wire.classes import MessageClass
from tests.manager.support import SEND, Host

SESSION = object()


class Wire:
    """A transfer protocol that remembers what it was handed; ``instant`` ones are done with it at once."""

    def __init__(self, host: Host, *, instant: bool = False) -> None:
        self.host = host
        self.sent: list[bytes] = []
        self.handed: list[tuple[MessagePosition, Any]] = []
        self.instant = instant

    def __call__(self, position: MessagePosition, data: Any) -> None:
        self.handed.append((position, data))
        self.sent.append(self.host.body_at(position))
        if self.instant:
            self.host.manager.mailbox.remove(position.queue, (position.lookup_id,), MessageClass.NORMAL)
            self.host.manager.dispatch.remove(position)


class Sender(Subscriber):
    """What MS-MQQB does: everything in an outgoing queue is to be sent."""

    def __init__(self, host: Host) -> None:
        self.host = host

    only_outgoing = True

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        for lookup_id in lookup_ids:
            self.host.manager.dispatch.add(queue.position(lookup_id), SESSION, 0)

    def resume_queue(self, queue: OutgoingQueue) -> None:
        for entry in list(queue.positions):
            self.host.manager.dispatch.add(queue.position(entry.lookup_id), SESSION, 0)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def dispatch(host: Host) -> Dispatch:
    return host.manager.dispatch


def outgoing(host: Host, name: str = "q", base_priority: int = 0) -> OutgoingQueue:
    queue = host.manager.queues.open(f"DIRECT=OS:elsewhere\\{name}", SEND).queue
    assert isinstance(queue, OutgoingQueue)
    queue.base_priority = base_priority
    return queue


@pytest.mark.spec("DMPR-3.1.7.1.28-a")
def test_an_entry_has_the_priority_of_queue_and_message_and_is_tried_at_once(
    host: Host, dispatch: Dispatch
) -> None:
    queue = outgoing(host, base_priority=10)
    first, second = host.fill(queue, b"1", b"2")
    dispatch.send_binary = wire = Wire(host)
    entry = dispatch.add(first, SESSION, 5)
    assert entry in list(dispatch)
    assert (entry.position, entry.protocol_data, entry.priority) == (first, SESSION, 15)
    assert wire.sent == [b"1"]
    assert entry.send_in_progress
    waiting = dispatch.add(second, SESSION, 7)
    assert not waiting.send_in_progress
    assert list(dispatch) == [waiting, entry]


@pytest.mark.spec("DMPR-3.1.7.1.29-a")
def test_when_one_is_sent_the_next_follows_without_recursion(host: Host, dispatch: Dispatch) -> None:
    queue = outgoing(host)
    positions = host.fill(queue, *(b"%d" % number for number in range(3000)))
    for position in positions:
        dispatch.add(position, SESSION, 3)
    dispatch.send_binary = wire = Wire(host, instant=True)
    dispatch.remove(host.send(queue, b"never added"))
    assert wire.sent == [b"%d" % number for number in range(3000)]
    assert len(dispatch) == 0


@pytest.mark.spec("DMPR-3.1.7.1.34-a")
def test_a_paused_queue_takes_its_entries_away_and_nothing_is_sent_for_it(
    host: Host, dispatch: Dispatch
) -> None:
    paused, other = outgoing(host, "paused"), outgoing(host, "other")
    entries = [dispatch.add(position, SESSION, 0) for position in host.fill(paused, b"1", b"2")]
    kept = dispatch.add(host.send(other, b"3"), SESSION, 0)
    dispatch.send_binary = wire = Wire(host)
    assert len(entries) == 2
    host.manager.pause_queue(paused)
    assert list(dispatch) == [kept]
    assert wire.sent == []


@pytest.mark.spec("DMPR-3.1.7.3.9-a")
def test_one_message_at_a_time(host: Host, dispatch: Dispatch) -> None:
    queue = outgoing(host)
    dispatch.send_binary = wire = Wire(host)
    positions = host.fill(queue, b"1", b"2", b"3")
    for count, position in enumerate(positions, 1):
        dispatch.add(position, SESSION, count)
        assert sum(entry.send_in_progress for entry in dispatch) == 1
    for position in positions:
        dispatch.remove(position)
        assert sum(entry.send_in_progress for entry in dispatch) == min(1, len(dispatch))
    assert wire.sent == [b"1", b"3"]


@pytest.mark.spec("DMPR-3.1.7.3.9-b")
def test_the_highest_priority_goes_first_and_what_is_gone_does_not(host: Host, dispatch: Dispatch) -> None:
    queue = outgoing(host)
    for priority in (2, 9, 5, 9):
        dispatch.add(host.send(queue, b"%d" % priority), SESSION, priority)
    gone = host.send(queue, b"gone")
    dispatch.add(gone, SESSION, 100)
    host.manager.mailbox.remove(queue, (gone.lookup_id,), MessageClass.NORMAL)
    idle = host.queue()  # nobody has it open: it is not active
    dispatch.add(host.send(idle, b"idle"), SESSION, 50)
    dispatch.send_binary = wire = Wire(host, instant=True)
    dispatch.send_next()
    assert wire.sent == [b"9", b"9", b"5", b"2"]
    assert len(dispatch) == 2
    dispatch.send_next()
    assert len(wire.sent) == 4


@pytest.mark.spec("DMPR-3.1.7.3.9-c")
def test_binary_entries_and_srmp_entries_go_to_their_protocols(host: Host, dispatch: Dispatch) -> None:
    queue = outgoing(host)
    binary, srmp = host.fill(queue, b"binary", b"srmp")
    dispatch.send_binary = by_binary = Wire(host, instant=True)
    dispatch.add(srmp, None, 7)
    assert not by_binary.sent, "nobody speaks SRMP yet"
    dispatch.add(binary, SESSION, 0)
    assert by_binary.handed == [(binary, SESSION)]
    dispatch.send_srmp = by_srmp = Wire(host, instant=True)
    dispatch.send_next()
    assert by_srmp.handed == [(srmp, None)]
    assert len(by_binary.handed) == 1


def test_an_entry_that_is_added_again_stands_once(host: Host, dispatch: Dispatch) -> None:
    position = host.send(outgoing(host), b"1")
    dispatch.add(position, SESSION, 1)
    again = dispatch.add(position, SESSION, 2)
    assert list(dispatch) == [again]


# --- administration ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.4.14-a", "DMPR-3.1.4.15-a")
def test_pause_and_resume(host: Host, dispatch: Dispatch) -> None:
    host.manager.subscribe(Sender(host))
    queue = outgoing(host)
    host.fill(queue, b"1", b"2")
    host.manager.pause_queue(queue)
    assert queue.state is OutgoingState.ON_HOLD
    dispatch.send_binary = wire = Wire(host, instant=True)
    host.send(queue, b"3")
    dispatch.send_next()
    assert wire.sent == []
    host.manager.resume_queue(queue)
    assert queue.state is OutgoingState.INACTIVE
    assert wire.sent == [b"3", b"1", b"2"], "what was added while it was held stood first"


@pytest.mark.spec("DMPR-3.1.1.1-ak")
def test_the_collection_is_volatile_and_filled_again() -> None:
    host = Host()
    host.manager.subscribe(Sender(host))
    queue = outgoing(host)
    host.send(queue, b"1", recoverable=True)
    promised = host.transactions.create(b"t" * 16, single_phase=False)
    host.send(queue, b"2", promised, transactional=True)
    host.transactions.prepare(promised.identifier, single_phase=False)
    assert [host.body_at(entry.position) for entry in host.manager.dispatch] == [b"1"]
    host.kill()
    assert len(host.manager.dispatch) == 0
    host.manager.subscribe(Sender(host))
    host.transactions.commit(promised.identifier)
    assert [host.body_at(entry.position) for entry in host.manager.dispatch] == [b"2"]
    host.send(host.manager.core.outgoing["direct=os:elsewhere\\q"], b"3")
    assert len(host.manager.dispatch) == 2
