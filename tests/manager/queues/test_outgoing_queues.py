"""Outgoing queues: whose they are, and those that nobody asked for."""

from __future__ import annotations

import pytest

from msmq.errors import InsufficientResourcesError, QueueNotFoundError
from msmq.manager.directory import DirectoryObject, ObjectClass
from msmq.manager.messages.message import Message
from msmq.manager.queues.outgoing_queues import Purpose, queue_manager_of
from msmq.manager.queues.queue import OutgoingQueue
from msmq.wire.guid import NULL_GUID, guid_text
from tests.manager.domain import DomainHost, guid
from tests.manager.support import SEND, Host

REMOTE = "DIRECT=TCP:10.0.0.9\\private$\\orders"


def opened(host: Host, name: str, purpose: Purpose = Purpose.APPLICATION) -> OutgoingQueue:
    descriptor = host.manager.queues.open(name, SEND, purpose=purpose)
    queue = descriptor.queue
    assert isinstance(queue, OutgoingQueue)
    host.manager.queues.close(descriptor)
    return queue


def test_a_message_for_a_public_queue_says_whose_it_is() -> None:
    host = DomainHost()
    queue, machine = guid(), guid()
    name = f"PUBLIC={guid_text(queue)}"
    attributes = {"identifier": queue, "pathname": "ELSEWHERE\\orders"}
    host.directory.put(DirectoryObject(ObjectClass.QUEUE, attributes))
    assert opened(host, name).destination_queue_manager == NULL_GUID, (
        "the directory does not know the computer yet"
    )
    host.directory.put(
        DirectoryObject(ObjectClass.QUEUE_MANAGER, {"identifier": machine, "computer_name": "ELSEWHERE"})
    )
    assert opened(host, name).destination_queue_manager == machine
    host.restart()
    host.directory.connected = False
    descriptor = host.manager.queues.open(name, SEND)
    (stored,) = host.manager.posting.send(descriptor, Message(body=b"x"))
    assert stored.packet.user.queue_manager_address == machine, "kept over a restart"
    assert descriptor.queue is not None
    assert queue_manager_of(host.manager.core, descriptor.queue) == machine
    assert queue_manager_of(host.manager.core, host.queue("here")) == host.manager.core.record.identifier


def test_private_names_say_it_themselves() -> None:
    host = Host()
    assert opened(host, f"PRIVATE={guid_text(b'x' * 16)}\\00000005").destination_queue_manager == b"x" * 16
    with pytest.raises(QueueNotFoundError):
        opened(host, f"PRIVATE={guid_text(host.manager.core.record.identifier)}\\000000FF")


def test_incidental_queues_are_bounded_unless_they_are_owed() -> None:
    host = Host()
    queues = host.manager.queues.outgoing
    queues.most_incidental = 1
    courtesy = opened(host, REMOTE, Purpose.COURTESY)
    assert queues.incidental == [courtesy]
    with pytest.raises(InsufficientResourcesError, match="no application asked for"):
        opened(host, REMOTE + "2", Purpose.COURTESY)
    assert queues.refused == 1
    owed = opened(host, REMOTE + "3", Purpose.DUTY)
    assert queues.incidental == [courtesy, owed]
    assert not opened(host, REMOTE + "4").incidental
    assert opened(host, REMOTE, Purpose.COURTESY) is courtesy, "one that is there can be used"
    host.restart()
    assert [queue.label.lower() for queue in host.manager.queues.outgoing.incidental] == [
        REMOTE.lower(),
        REMOTE.lower() + "3",
    ]


def test_only_what_nobody_needs_is_discarded() -> None:
    host = Host()
    queues = host.manager.queues.outgoing
    stays = opened(host, REMOTE)
    assert not queues.discard(stays)
    full = opened(host, REMOTE + "2", Purpose.COURTESY)
    host.send(full, b"x")
    assert not queues.discard(full)
    used = host.manager.queues.open(REMOTE + "3", SEND, purpose=Purpose.COURTESY)
    assert isinstance(used.queue, OutgoingQueue)
    assert not queues.discard(used.queue)
    empty = opened(host, REMOTE + "4", Purpose.COURTESY)
    assert queues.discard(empty)
    assert empty.destination_format_name.lower() not in host.manager.core.outgoing
    host.restart()
    assert empty.destination_format_name.lower() not in host.manager.core.outgoing
    assert len(host.manager.core.outgoing) == 3
