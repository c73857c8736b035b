"""Queues and what is open on them: descriptors, their numbers and what they remember."""

from __future__ import annotations

import pytest

from msmq.errors import InvalidHandleError, StaleHandleError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import QueueAccessType, QueueShareMode, RemoteReadState
from msmq.manager.queues.queue import Queue
from tests.manager.support import PEEK, RECEIVE, SEND, Host


@pytest.mark.spec("DMPR-3.1.1.2-ab")
def test_a_queue_knows_who_has_it_open(host: Host, queue: Queue) -> None:
    assert queue.open_descriptors == []
    descriptors = [host.open(queue), host.open(queue, PEEK), host.open(queue, SEND)]
    assert queue.open_descriptors == descriptors
    host.close(descriptors[1])
    assert queue.open_descriptors == [descriptors[0], descriptors[2]]
    host.restart()
    assert host.find().open_descriptors == []


@pytest.mark.spec("DMPR-3.1.1.16-a")
def test_handles_and_context_values_are_unique_and_end_with_the_process(host: Host, queue: Queue) -> None:
    other = host.queue("other")
    descriptors = [host.open(opened) for opened in (queue, queue, other, other)]
    assert len({descriptor.handle for descriptor in descriptors}) == 4
    assert len({descriptor.context_value for descriptor in descriptors}) == 4
    resolve = host.manager.queues.resolve
    assert [resolve(descriptor.handle) for descriptor in descriptors] == descriptors
    host.close(descriptors[0])
    with pytest.raises(InvalidHandleError):
        resolve(descriptors[0].handle)
    host.restart()
    host.open(host.find())
    for descriptor in descriptors:
        assert 0 < descriptor.handle < 1 << 63, "protocols may write it as a signed number"
        with pytest.raises(StaleHandleError):
            host.manager.queues.resolve(descriptor.handle)


@pytest.mark.spec("DMPR-3.1.1.16-b")
@pytest.mark.parametrize(
    ("access", "share_mode"),
    [
        (RECEIVE, QueueShareMode.DENY_NONE),
        (RECEIVE, QueueShareMode.DENY_RECEIVE),
        (PEEK, QueueShareMode.DENY_NONE),
        (SEND, QueueShareMode.DENY_NONE),
    ],
)
def test_a_descriptor_shows_what_was_asked_for(
    host: Host, queue: Queue, access: QueueAccessType, share_mode: QueueShareMode
) -> None:
    descriptor = host.open(queue, access, share_mode)
    assert descriptor.access_type is access
    assert descriptor.share_mode is share_mode
    assert descriptor.queue is queue
    assert descriptor.format_name.lower() == "direct=os:host\\private$\\orders"
    assert descriptor.remote_read_state is RemoteReadState.NONE
    assert (descriptor.cursors, descriptor.waiting, descriptor.begun) == ({}, [], set())


@pytest.mark.spec("DMPR-3.1.1.16-c")
def test_several_queues_at_once_are_one_descriptor_with_children(host: Host, queue: Queue) -> None:
    names = ["DIRECT=OS:a\\q", "DIRECT=OS:b\\q"]
    many = host.manager.queues.open(",".join(names), SEND)
    assert many.multiple
    assert many.access_type is SEND
    assert many.remote_read_state is RemoteReadState.NONE
    assert many.queue is None
    assert [child.format_name for child in many.children] == names
    for child in many.children:
        assert child.queue is not None
        assert child.queue.open_descriptors == [child]
    single = host.open(queue, SEND)
    assert not single.multiple
    assert single.children == []


def test_a_place_whose_message_is_gone_is_deleted(host: Host, queue: Queue) -> None:
    position = host.send(queue, b"a")
    assert position.state is PositionState.AVAILABLE
    host.reader(queue).receive()
    assert position.state is PositionState.DELETED
    assert queue.position(12345).state is PositionState.DELETED
