"""Names on their way through a send: which of them ask the directory, and for what."""

from __future__ import annotations

import pytest

from msmq.errors import UnsupportedFormatnameOperationError
from msmq.manager.directory import DirectoryObject, ObjectClass
from msmq.manager.messages.message import Message
from msmq.manager.queues.queue import OutgoingQueue
from msmq.wire.guid import guid_text
from tests.manager.domain import DomainHost, guid
from tests.manager.support import SEND


@pytest.fixture
def host() -> DomainHost:
    return DomainHost()


@pytest.mark.spec("MQMQ-2.1.2-m")
def test_a_direct_name_works_while_the_directory_is_away(host: DomainHost) -> None:
    host.directory.connected = False
    before = len(host.directory.calls)
    descriptor = host.manager.queues.open("DIRECT=TCP:10.0.0.9\\PRIVATE$\\orders", SEND)
    host.manager.posting.send(descriptor, Message(body=b"x"))
    assert isinstance(descriptor.queue, OutgoingQueue)
    assert len(descriptor.queue.positions) == 1
    assert len(host.directory.calls) == before, "nobody asked it"


@pytest.mark.spec("MQMQ-2.1.3-d")
def test_a_public_name_is_looked_up_by_its_guid(host: DomainHost) -> None:
    identifier = guid()
    name = f"PUBLIC={guid_text(identifier)}"
    with pytest.raises(UnsupportedFormatnameOperationError):
        host.manager.queues.open(name, SEND)
    attributes = {"identifier": identifier, "pathname": "ELSEWHERE\\orders", "base_priority": 3}
    host.directory.put(DirectoryObject(ObjectClass.QUEUE, attributes))
    host.directory.calls.clear()
    descriptor = host.manager.queues.open(name, SEND)
    assert ObjectClass.QUEUE in host.directory.asked("read")
    assert descriptor.queue is not None
    assert descriptor.queue.base_priority == 3, "that very object was found"


@pytest.mark.spec("MQMQ-2.1.5-c")
def test_a_distribution_list_sends_to_its_members(host: DomainHost) -> None:
    group = guid()
    members = [f"DIRECT=OS:HOST\\private$\\{name}" for name in ("a", "b")]
    queues = [host.queue("a"), host.queue("b")]
    host.directory.lists[group] = members
    descriptor = host.manager.queues.open(f"DL={guid_text(group)}", SEND)
    host.manager.posting.send(descriptor, Message(body=b"to all"))
    assert [host.contents(queue) for queue in queues] == [[b"to all"], [b"to all"]]
