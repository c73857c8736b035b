"""Open Queue and Close Queue: MS-MQDMPR 3.1.7.1.5, 3.1.7.1.6."""

from __future__ import annotations

import pytest

from msmq.errors import (
    InvalidHandleError,
    MQError,
    QueueNotFoundError,
    SharingViolationError,
    StaleHandleError,
    UnsupportedAccessModeError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.directory import DirectoryObject, ObjectClass
from msmq.manager.initialization import Settings
from msmq.manager.model import OutgoingState, QueueAccessType, QueueShareMode, RemoteReadState
from msmq.manager.queues.management import format_name
from msmq.manager.queues.queue import OpenQueueDescriptor, OutgoingQueue
from msmq.manager.queues.queues import QueueRequest
from msmq.wire.guid import guid_text
from msmq.wire.names import PrivateName
from tests.manager.domain import DomainHost, guid
from tests.manager.support import PEEK, RECEIVE, SEND, Host

DENY_NONE, DENY_RECEIVE = QueueShareMode.DENY_NONE, QueueShareMode.DENY_RECEIVE
MOVE, PEEK_ADMIN, RECEIVE_ADMIN = (
    QueueAccessType.MOVE,
    QueueAccessType.PEEK_ADMIN,
    QueueAccessType.RECEIVE_ADMIN,
)
LOCAL = "DIRECT=OS:.\\private$\\orders"
FAR = "DIRECT=OS:far\\private$\\orders"
OTHER_ACCESS = [access for access in QueueAccessType if access is not SEND]


def open_(
    host: Host, name: str, access: QueueAccessType = SEND, share_mode: QueueShareMode = DENY_NONE
) -> OpenQueueDescriptor:
    return host.manager.queues.open(name, access, share_mode)


def outgoing(host: Host, name: str) -> OutgoingQueue:
    queue = open_(host, name).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


def refusal(host: Host, name: str, access: QueueAccessType = SEND, share: QueueShareMode = DENY_NONE) -> int:
    """The status an open fails with; nothing may be left of the attempt."""
    core, descriptors = host.manager.core, dict(host.manager.queues.descriptors)
    before = set(core.queues)
    with pytest.raises(MQError) as refused:
        open_(host, name, access, share)
    assert set(core.queues) == before
    assert host.manager.queues.descriptors == descriptors
    return refused.value.code


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.5-a", "DMPR-3.1.7.1.5-x")
@pytest.mark.parametrize("share_mode", QueueShareMode)
def test_open_gives_a_descriptor(host: Host, share_mode: QueueShareMode) -> None:
    queue = host.queue()
    descriptor = open_(host, LOCAL, RECEIVE, share_mode)
    assert descriptor.access_type is RECEIVE
    assert descriptor.share_mode is share_mode
    assert descriptor.queue is queue
    assert descriptor.format_name == "DIRECT=OS:.\\PRIVATE$\\orders"
    assert not descriptor.multiple
    assert queue.open_descriptors == [descriptor]
    if share_mode is DENY_RECEIVE:
        assert refusal(host, LOCAL, RECEIVE) == 0xC00E0009
    other = open_(host, LOCAL, PEEK)
    assert other.handle != descriptor.handle
    assert other.context_value != descriptor.context_value


@pytest.mark.spec("DMPR-3.1.7.1.5-b")
def test_a_list_that_cannot_be_resolved(domain: DomainHost) -> None:
    group = guid()
    assert refusal(domain, f"DL={guid_text(group)}") == 0xC00E001E
    domain.directory.lists[group] = [FAR, "DIRECT=OS:near\\private$\\q"]
    assert len(open_(domain, f"DL={guid_text(group)}").children) == 2


@pytest.mark.spec("DMPR-3.1.7.1.5-c")
@pytest.mark.parametrize("access", OTHER_ACCESS)
def test_several_queues_can_only_be_sent_to(host: Host, access: QueueAccessType) -> None:
    host.queue()
    assert refusal(host, f"{LOCAL},{FAR}", access) == 0xC00E0020


@pytest.mark.spec("DMPR-3.1.7.1.5-d")
def test_several_queues_are_not_opened_exclusively(host: Host) -> None:
    host.queue()
    assert refusal(host, f"{LOCAL},{FAR}", SEND, DENY_RECEIVE) == 0xC00E0045


@pytest.mark.spec("DMPR-3.1.7.1.5-e", "DMPR-3.1.7.1.5-f")
def test_a_multiple_descriptor_and_its_children(host: Host) -> None:
    names = ["DIRECT=OS:a\\PRIVATE$\\q", "DIRECT=OS:b\\PRIVATE$\\q", "DIRECT=OS:c\\PRIVATE$\\q"]
    parent = open_(host, ",".join(names))
    assert (parent.access_type, parent.share_mode) == (SEND, DENY_NONE)
    assert parent.format_name == ",".join(names)
    assert (parent.multiple, parent.queue, parent.remote_read_state) == (True, None, RemoteReadState.NONE)
    assert [child.format_name for child in parent.children] == names
    assert {child.access_type for child in parent.children} == {SEND}
    assert {child.share_mode for child in parent.children} == {DENY_NONE}
    numbers = [parent.handle, parent.context_value]
    for child in parent.children:
        assert isinstance(child.queue, OutgoingQueue)
        numbers += [child.handle, child.context_value]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.spec("DMPR-3.1.7.1.5-g")
def test_one_bad_element_spoils_the_list(host: Host) -> None:
    queue = host.queue()
    missing = "DIRECT=OS:.\\private$\\zzz"
    assert refusal(host, f"{LOCAL},{missing}") == 0xC00E0003
    assert queue.open_descriptors == []
    assert host.manager.queues.descriptors == {}


@pytest.mark.spec("DMPR-3.1.7.1.5-h")
@pytest.mark.parametrize("access", OTHER_ACCESS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_http_names_are_for_sending(host: Host, scheme: str, access: QueueAccessType) -> None:
    name = f"DIRECT={scheme}://h/msmq/q"
    assert refusal(host, name, access) == 0xC00E0020
    open_(host, name)
    assert refusal(host, name, access) == 0xC00E0020


@pytest.mark.spec("DMPR-3.1.7.1.5-i")
@pytest.mark.parametrize("suffix", ["DEADLETTER", "DEADXACT", "JOURNAL"])
def test_nothing_is_sent_to_a_machine(host: Host, suffix: str) -> None:
    assert refusal(host, f"MACHINE={guid_text(host.manager.core.record.identifier)};{suffix}") == 0xC00E0020


@pytest.mark.parametrize("name", [f"{LOCAL};JOURNAL", f"{FAR};JOURNAL", "DIRECT=OS:.\\SYSTEM$;DEADLETTER"])
def test_nothing_is_sent_to_journals_and_dead_letter_queues(host: Host, name: str) -> None:
    host.queue()
    assert refusal(host, name) == 0xC00E0020


@pytest.mark.spec("DMPR-3.1.7.1.5-j")
@pytest.mark.parametrize("access", OTHER_ACCESS)
def test_multicast_names_are_for_sending(host: Host, access: QueueAccessType) -> None:
    assert refusal(host, "MULTICAST=234.1.1.1:8001", access) == 0xC00E0020


# --- finding the queue ----------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.5-k")
def test_one_queue_goes_by_many_names(domain: DomainHost) -> None:
    core = domain.core
    public = domain.manager.queues.create(QueueRequest(".\\q"))
    private = domain.queue()
    own = guid_text(core.record.identifier)
    for name in (f"PUBLIC={guid_text(public.identifier)}", "DIRECT=OS:HOST\\q", "DIRECT=TCP:127.0.0.1\\q"):
        assert open_(domain, name, RECEIVE).queue is public
        assert open_(domain, f"{name};JOURNAL", RECEIVE).queue is public.journal
    for name in (
        str(PrivateName(core.record.identifier, private.private_queue_number)),
        "DIRECT=OS:HOST.corp.example\\private$\\ORDERS",
        "DIRECT=OS:localhost\\private$\\orders",
        LOCAL,
    ):
        assert open_(domain, name, RECEIVE).queue is private
        assert open_(domain, f"{name};journal", RECEIVE).queue is private.journal
    assert open_(domain, f"MACHINE={own};JOURNAL", PEEK).queue is core.journal_queue
    assert open_(domain, FAR).queue is open_(domain, FAR.upper()).queue


@pytest.mark.spec("MQMQ-2.2.11-b")
def test_every_suffix_opens_its_queue(host: Host) -> None:
    core, own = host.manager.core, guid_text(host.manager.core.record.identifier)
    queue = host.queue()
    foreign = bytes(range(1, 17))
    connector, transactional = host.manager.queues.create_connector(foreign)
    opened = {
        name: open_(host, name, RECEIVE).queue
        for name in (
            f"{LOCAL};JOURNAL",
            f"{LOCAL};sub",
            f"MACHINE={own};DEADLETTER",
            f"MACHINE={own};DEADXACT",
            f"MACHINE={own};JOURNAL",
            f"CONNECTOR={guid_text(foreign)}",
            f"CONNECTOR={guid_text(foreign)};XACTONLY",
        )
    }
    assert list(opened.values()) == [
        queue.journal,
        queue.subqueue_collection["sub"],
        core.dead_letter_queue,
        core.transactional_dead_letter_queue,
        core.journal_queue,
        connector,
        transactional,
    ]
    assert transactional.transactional
    assert open_(host, "DIRECT=OS:.\\SYSTEM$;DEADXACT", PEEK).queue is core.transactional_dead_letter_queue


@pytest.mark.spec("DMPR-3.1.7.1.5-l")
@pytest.mark.parametrize("access", OTHER_ACCESS)
@pytest.mark.parametrize("name", [LOCAL, FAR])
def test_what_is_not_here_cannot_be_read(host: Host, name: str, access: QueueAccessType) -> None:
    assert refusal(host, name, access) == 0xC00E0003


@pytest.mark.spec("DMPR-3.1.7.1.5-m")
@pytest.mark.parametrize(
    "address",
    ["OS:HOST", "OS:host", "OS:HOST.corp.example", "OS:.", "OS:localhost", "TCP:127.0.0.1", "TCP:10.0.0.7"],
)
def test_what_should_be_here_and_is_not(address: str) -> None:
    host = Host(settings=Settings(local_addresses=frozenset({"10.0.0.7"})))
    assert refusal(host, f"DIRECT={address}\\private$\\nope") == 0xC00E0003
    assert refusal(host, "DIRECT=http://HOST/msmq/nope") == 0xC00E0003
    assert host.manager.core.outgoing == {}
    open_(host, "DIRECT=TCP:10.0.0.8\\private$\\nope")


@pytest.mark.spec("DMPR-3.1.7.1.5-n")
def test_a_public_name_nobody_knows(domain: DomainHost) -> None:
    name = f"PUBLIC={guid_text(guid())}"
    assert refusal(domain, name) == 0xC00E0020
    domain.directory.connected = False
    assert refusal(domain, name) == 0xC00E0020


@pytest.mark.spec("DMPR-3.1.7.1.5-o")
def test_a_public_name_that_leads_here_to_nothing(domain: DomainHost) -> None:
    """A host of the domain has what the directory says it has; one that only reads the directory does not."""
    queue = domain.manager.queues.create(QueueRequest(".\\q"))
    domain.manager.queues.delete(queue, skip_directory=True)
    name = f"PUBLIC={guid_text(queue.identifier)}"
    domain.manager.core.directory_integrated = False
    assert refusal(domain, name) == 0xC00E0003
    domain.manager.core.directory_integrated = True
    adopted = open_(domain, name).queue
    assert adopted is not None
    assert (adopted.pathname, adopted.identifier) == (queue.pathname, queue.identifier)


@pytest.mark.spec("DMPR-3.1.7.1.5-p")
def test_a_private_number_that_is_not_used_here(host: Host) -> None:
    own = host.manager.core.record.identifier
    assert refusal(host, str(PrivateName(own, 99))) == 0xC00E0003
    open_(host, str(PrivateName(guid(), 99)))


# --- outgoing queues ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.5-q")
def test_a_queue_elsewhere_gets_an_outgoing_queue(host: Host) -> None:
    first, second = open_(host, FAR), open_(host, FAR)
    queue = outgoing(host, FAR)
    assert first.queue is second.queue is queue
    assert len(queue.open_descriptors) == 3
    assert queue.label == queue.destination_format_name == first.format_name
    assert (queue.next_hops, queue.state) == (None, OutgoingState.INACTIVE)
    assert any(queue.identifier)
    assert queue.identifier != outgoing(host, "DIRECT=OS:other\\q").identifier
    assert host.manager.core.queues[queue.number] is queue


@pytest.mark.spec("DMPR-3.1.1.3-a")
def test_each_name_of_a_queue_has_an_outgoing_queue(host: Host) -> None:
    assert outgoing(host, FAR) is not outgoing(host, "DIRECT=TCP:10.0.0.8\\private$\\orders")


@pytest.mark.spec("DMPR-3.1.1.3-b")
def test_outgoing_queues_come_back_with_their_messages(host: Host) -> None:
    queue = outgoing(host, FAR)
    host.fill(queue, b"first", b"second", recoverable=True)
    host.send(queue, b"express")
    host.kill()
    again = outgoing(host, FAR)
    assert again is not queue
    assert again.destination_format_name == queue.destination_format_name
    assert host.contents(again) == [b"first", b"second"]


@pytest.mark.spec("DMPR-3.1.7.1.5-r", "DMPR-3.1.1.2-p")
def test_base_priorities_come_from_the_directory(domain: DomainHost) -> None:
    names = {}
    for priority in (0, 9, 4):
        identifier = guid()
        attributes = {"identifier": identifier, "pathname": f"FAR\\q{priority}", "base_priority": priority}
        domain.directory.put(DirectoryObject(ObjectClass.QUEUE, attributes))
        names[priority] = f"PUBLIC={guid_text(identifier)}"
    queues = {priority: outgoing(domain, name) for priority, name in names.items()}
    assert {priority: queue.base_priority for priority, queue in queues.items()} == {0: 0, 9: 9, 4: 4}


@pytest.mark.spec("DMPR-3.1.7.1.5-s")
def test_hardened_hosts_lock_what_is_not_http() -> None:
    host = Host(settings=Settings(hardened_security=True))
    assert outgoing(host, FAR).state is OutgoingState.LOCKED
    assert outgoing(host, "DIRECT=https://far/msmq/q").state is OutgoingState.INACTIVE


@pytest.mark.spec("DMPR-3.1.7.1.5-t")
def test_the_multicast_flag(host: Host) -> None:
    assert outgoing(host, "MULTICAST=234.1.1.1:8001").multicast
    assert not outgoing(host, FAR).multicast
    host.restart()
    assert outgoing(host, "MULTICAST=234.1.1.1:8001").multicast


# --- sharing --------------------------------------------------------------------------------------------------

SHARING_VIOLATION = SharingViolationError.code
assert SHARING_VIOLATION == 0xC00E0009


@pytest.mark.spec("DMPR-3.1.7.1.5-u", "DMPR-3.1.1.17-d")
def test_an_exclusive_receiver(host: Host) -> None:
    host.queue()
    first = open_(host, LOCAL, RECEIVE, DENY_RECEIVE)
    assert refusal(host, LOCAL, RECEIVE) == SHARING_VIOLATION
    for access in (RECEIVE, PEEK, SEND):
        assert refusal(host, LOCAL, access, DENY_RECEIVE) == SHARING_VIOLATION
    open_(host, LOCAL, PEEK)
    open_(host, LOCAL, SEND)
    host.close(first)
    open_(host, LOCAL, RECEIVE, DENY_RECEIVE)


@pytest.mark.spec("DMPR-3.1.7.1.5-v")
def test_an_exclusive_peeker(host: Host) -> None:
    host.queue()
    open_(host, LOCAL, PEEK, DENY_RECEIVE)
    assert refusal(host, LOCAL, RECEIVE) == SHARING_VIOLATION
    assert refusal(host, LOCAL, RECEIVE, DENY_RECEIVE) == SHARING_VIOLATION
    open_(host, LOCAL, PEEK)


@pytest.mark.spec("DMPR-3.1.7.1.5-w")
def test_a_shared_receiver(host: Host) -> None:
    host.queue()
    open_(host, LOCAL, RECEIVE)
    assert refusal(host, LOCAL, RECEIVE, DENY_RECEIVE) == SHARING_VIOLATION
    assert refusal(host, LOCAL, PEEK, DENY_RECEIVE) == SHARING_VIOLATION
    open_(host, LOCAL, RECEIVE)


def test_local_and_outgoing_queues_are_read_differently(host: Host) -> None:
    host.queue()
    open_(host, FAR)
    for name, access in (
        (LOCAL, PEEK_ADMIN),
        (LOCAL, RECEIVE_ADMIN),
        (FAR, PEEK),
        (FAR, RECEIVE),
        (FAR, MOVE),
    ):
        assert refusal(host, name, access) == UnsupportedAccessModeError.code


# --- close ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.6-a", "MQMQ-2.4-d")
def test_handles_end_with_their_descriptor_and_with_the_service(host: Host) -> None:
    queue = host.queue()
    descriptor, other = host.open(queue), host.open(queue)
    assert host.manager.queues.resolve(descriptor.handle) is descriptor
    host.close(descriptor)
    with pytest.raises(InvalidHandleError) as closed:
        host.manager.queues.resolve(descriptor.handle)
    assert closed.value.code == 0xC00E0007
    host.restart()
    with pytest.raises(StaleHandleError) as stale:
        host.manager.queues.resolve(other.handle)
    assert stale.value.code == 0xC00E0056
    with pytest.raises(InvalidHandleError):
        host.manager.queues.resolve(0)


def test_each_life_of_the_service_has_handles_of_its_own(host: Host) -> None:
    host.queue()
    lives = set()
    for _ in range(8):
        lives.add(host.open(host.find()).handle >> 32)
        host.restart()
    assert len(lives) == 8
    assert all(0 < life < 1 << 31 for life in lives), "handles are positive numbers of 64 bits"


@pytest.mark.spec("DMPR-3.1.7.1.6-b", "DMPR-3.1.7.1.6-c")
def test_closing_many_closes_each(host: Host) -> None:
    queue = host.queue()
    staying = host.open(queue, SEND)
    parent = open_(host, f"{LOCAL},{FAR}")
    far = outgoing(host, FAR)
    assert (len(queue.open_descriptors), len(far.open_descriptors)) == (2, 2)
    host.close(parent)
    assert (len(queue.open_descriptors), len(far.open_descriptors)) == (1, 1)
    for child in parent.children:
        with pytest.raises(InvalidHandleError):
            host.manager.queues.resolve(child.handle)
    host.close(parent)
    assert queue.open_descriptors == [staying]


@pytest.mark.spec("DMPR-3.1.7.1.6-b")
def test_closing_what_was_deleted_does_nothing(host: Host) -> None:
    queue = host.queue()
    descriptor = host.open(queue)
    host.manager.queues.delete(queue)
    host.close(descriptor)
    host.close(descriptor)
    assert host.manager.queues.descriptors == {}


@pytest.mark.spec("DMPR-3.1.7.1.6-d", "DMPR-3.1.7.1.6-e")
def test_closing_ends_every_wait(host: Host) -> None:
    queue = host.queue()
    closing, staying = host.reader(queue), host.reader(queue)
    closing.receive(timeout_s=60, tag=1)
    closing.receive(timeout_s=60)
    closing.peek(timeout_s=60)
    staying.receive(timeout_s=60)
    host.close(closing.descriptor)
    assert closing.statuses == [0xC00E0008] * 3
    assert staying.results == []
    host.send(queue, b"for the other one")
    assert staying.bodies == [b"for the other one"]


@pytest.mark.spec("DMPR-3.1.7.1.6-f")
def test_closing_takes_cursors_along(host: Host) -> None:
    queue = host.queue()
    reader = host.reader(queue)
    reader.cursor()
    reader.cursor()
    assert len(reader.descriptor.cursors) == 2
    host.close(reader.descriptor)
    assert len(reader.descriptor.cursors) == 0
    assert queue.open_descriptors == []
    assert not queue.active
    open_(host, LOCAL, RECEIVE, DENY_RECEIVE)


def test_a_format_name_leads_back_to_its_queue(domain: DomainHost) -> None:
    core = domain.core
    domain.queue()
    domain.manager.queues.create(QueueRequest(".\\q"))
    domain.manager.queues.create_connector(bytes(range(1, 17)))
    domain.manager.queues.subqueue(domain.find(), "sub")
    for queue in list(core.queues.values()):
        assert open_(domain, format_name(core, queue), RECEIVE).queue is queue


def test_outgoing_errors_are_told_apart(host: Host) -> None:
    with pytest.raises(QueueNotFoundError):
        open_(host, LOCAL)
    with pytest.raises(UnsupportedFormatnameOperationError):
        open_(host, f"PUBLIC={guid_text(guid())}")
