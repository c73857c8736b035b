"""What can be watched of a live queue manager: MS-MQMQ 2.3.11 and 2.3.12."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import IllegalPropidError
from msmq.manager.core import Core
from msmq.manager.model import (
    ConnectionHistoryEntry,
    ConnectionStatus,
    IncomingTransactionalTransferInfo,
    OutgoingState,
)
from msmq.manager.queues.management import format_name, machine_properties, queue_properties
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.wire.names import QueuePath, parse_format_name
from msmq.wire.properties import TABLES, ObjectType, check_value
from msmq.wire.properties.management import QueueState
from msmq.wire.variant import VT, Variant
from tests.manager.domain import DomainHost
from tests.manager.support import RECEIVE, SEND, Host, message

TEXTS = 0x101F


def machine(host: Host, propid: int) -> Variant:
    (value,) = machine_properties(host.manager.core, [propid])
    return value


def of(host: Host, queue: Queue, propid: int) -> Variant:
    (value,) = queue_properties(host.manager.core, queue, [propid])
    return value


def outgoing(host: Host, name: str = "DIRECT=OS:far\\PRIVATE$\\q") -> OutgoingQueue:
    queue = host.manager.queues.open(name, SEND).queue
    assert isinstance(queue, OutgoingQueue)
    return queue


# --- the queue manager ----------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.3.11.1-a")
def test_active_queues(host: Host) -> None:
    queue = host.queue()
    assert machine(host, 1) == Variant(TEXTS, ())
    descriptor = host.open(queue)
    away = outgoing(host)
    names = (format_name(host.manager.core, queue), away.destination_format_name)
    assert machine(host, 1) == Variant(TEXTS, names)
    host.close(descriptor)
    assert machine(host, 1) == Variant(TEXTS, names[1:])


@pytest.mark.spec("MQMQ-2.3.11.2-a")
def test_private_queues(host: Host) -> None:
    assert machine(host, 2) == Variant(TEXTS, ())
    host.queue("a")
    host.queue("b")
    assert machine(host, 2) == Variant(TEXTS, ("HOST\\private$\\a", "HOST\\private$\\b"))
    host.manager.queues.delete(host.find("a"))
    assert machine(host, 2) == Variant(TEXTS, ("HOST\\private$\\b",))


def test_the_directory_server(host: Host) -> None:
    assert machine(host, 3) == Variant(VT.EMPTY)
    host.manager.core.directory_server_list = ("dc1.corp.example", "dc2.corp.example")
    assert machine(host, 3) == Variant(VT.LPWSTR, "\\\\dc1.corp.example")


@pytest.mark.spec("MQMQ-2.3.11.4-a")
def test_connected(host: Host) -> None:
    assert machine(host, 4) == Variant(0x001F, "CONNECTED")
    host.manager.take_offline()
    assert machine(host, 4) == Variant(0x001F, "DISCONNECTED")
    host.manager.bring_online()
    assert machine(host, 4) == Variant(0x001F, "CONNECTED")


@pytest.mark.spec("MQMQ-2.3.11.6-a")
def test_bytes_in_all_queues(host: Host) -> None:
    first, second = host.queue("a"), host.queue("b")
    total = 0
    for queue, body in ((first, b"x" * 100), (second, b"y" * 200)):
        host.send(queue, body)
        total += message(body).size
        assert machine(host, 6) == Variant(0x0014, total)


# --- queues ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.3.12.1-a")
def test_the_path(host: Host) -> None:
    assert of(host, host.queue(), 1) == Variant(0x001F, "HOST\\private$\\orders")


def test_names_and_words(host: Host) -> None:
    core = host.manager.core
    queue = host.queue(transactional=True)
    values = [of(host, queue, propid).value for propid in (3, 4, 5, 6, 11)]
    assert values == ["PRIVATE", "LOCAL", "YES", "NO", "LOCAL CONNECTION"]
    assert [of(host, host.queue("b"), 5).value, of(host, outgoing(host), 5).value] == ["NO", "UNKNOWN"]
    values = [of(host, outgoing(host), propid).value for propid in (1, 2, 3, 4, 6, 11)]
    assert values == [None, "DIRECT=OS:far\\PRIVATE$\\q", "PRIVATE", "REMOTE", "UNKNOWN", "INACTIVE"]
    for system in (core.dead_letter_queue, core.transactional_dead_letter_queue, core.journal_queue):
        assert system is not None
        assert of(host, system, 3).value == "MACHINE"
    assert of(host, outgoing(host, "MULTICAST=234.1.1.1:8001"), 3).value == "MULTICAST"
    (connector, _) = host.manager.queues.create_connector(bytes(range(16)))
    assert of(host, connector, 3).value == "CONNECTOR"


@pytest.mark.spec("MQMQ-2.3.12.7-a", "MQMQ-2.3.12.8-a")
def test_messages_in_the_queue(host: Host) -> None:
    queue = host.queue()
    size = message(b"x" * 50).size
    for count in (1, 2, 3):
        host.send(queue, b"x" * 50)
        assert of(host, queue, 7) == Variant(0x0013, count)
        assert of(host, queue, 8) == Variant(0x0013, count * size)
    host.reader(queue).receive()
    assert (of(host, queue, 7).value, of(host, queue, 8).value) == (2, 2 * size)
    queue.positions.total_bytes = 1 << 33
    assert of(host, queue, 8).value == 0xFFFFFFFF, "the most that its type can say"


@pytest.mark.spec("MQMQ-2.3.12.9-a", "MQMQ-2.3.12.10-a")
def test_messages_in_the_journal(host: Host) -> None:
    queue = host.queue(journaling=True)
    size = message(b"x" * 50).size
    host.fill(queue, b"x" * 50, b"x" * 50, b"x" * 50)
    reader = host.reader(queue)
    for count in (1, 2):
        reader.receive()
        assert of(host, queue, 9) == Variant(0x0013, count)
        assert of(host, queue, 10) == Variant(0x0013, count * size)
    assert (of(host, outgoing(host), 9).value, of(host, outgoing(host), 10).value) == (0, 0)


@pytest.mark.parametrize("state", OutgoingState)
def test_every_state_has_a_word(host: Host, state: OutgoingState) -> None:
    queue = outgoing(host)
    queue.state = state
    assert of(host, queue, 11).value in {word.value for word in QueueState}


@pytest.mark.spec("MQMQ-2.3.12.26-a", "MQMQ-2.3.12.27-a")
def test_subqueues(host: Host) -> None:
    queue = host.queue()
    assert (of(host, queue, 26), of(host, queue, 27)) == (Variant(0x0013, 0), Variant(TEXTS, ()))
    position = host.send(queue, b"x")
    host.manager.move_message(position, host.manager.queues.subqueue(queue, "Poison"))
    assert of(host, queue, 26) == Variant(0x0013, 1)
    assert of(host, queue, 27) == Variant(TEXTS, ("Poison",))


def test_sources_of_transactional_messages(host: Host) -> None:
    queue = host.queue(transactional=True)
    sender = bytes(range(16))
    name = "DIRECT=OS:HOST\\q"
    queue.incoming[sender, name.lower()] = IncomingTransactionalTransferInfo(name, sender, 7, 8, 9, 1)
    columns = of(host, queue, 24).value
    assert isinstance(columns, tuple)
    assert [column.value for column in columns if isinstance(column, Variant)] == [
        ("DIRECT=OS:HOST\\q",),
        (sender,),
        (7,),
        (8,),
        (9,),
        (1,),
    ]


def test_connections(host: Host) -> None:
    queue = outgoing(host)
    queue.next_hops = ("10.0.0.2", "fe80::1")
    assert of(host, queue, 12) == Variant(TEXTS, ("IP=10.0.0.2", "IPv6=fe80::1"))
    queue.connection_history += [
        ConnectionHistoryEntry(ConnectionStatus.DNS_FAILURE, 5, 0xC00E0069, ("far",)),
        ConnectionHistoryEntry(ConnectionStatus.ESTABLISHED, 6, 0, ("10.0.0.2",)),
    ]
    queue.state = OutgoingState.CONNECTED
    assert of(host, queue, 12) == Variant(TEXTS, ("IP=10.0.0.2",))
    columns: Any = of(host, queue, 25).value
    assert [column.value for column in columns[:3]] == [(0x80000008, 2), (5, 6), (0xC00E0069 - 2**32, 0)]
    assert [item.value for item in columns[3].value] == [("\\\\far",), ("10.0.0.2",)]


def test_counters_are_shown_as_far_as_they_go(host: Host) -> None:
    queue = host.queue()
    queue.positions.total_bytes = 1 << 40
    assert of(host, queue, 8).value == 0xFFFFFFFF


def test_every_property_of_everything_obeys_its_table() -> None:
    host = DomainHost()
    host.queue(journaling=True)
    host.manager.queues.create(QueueRequest(".\\public"))
    host.manager.queues.subqueue(host.find(), "sub")
    outgoing(host)
    core: Core = host.core
    for propid, row in TABLES[ObjectType.MANAGEMENT_MACHINE].items():
        value = machine(host, propid)
        if value.vt != VT.EMPTY:
            check_value(row, value)
    for queue in list(core.queues.values()):
        for propid, row in TABLES[ObjectType.MANAGEMENT_QUEUE].items():
            value = of(host, queue, propid)
            if value.vt != VT.EMPTY:
                check_value(row, value)
    with pytest.raises(IllegalPropidError):
        machine(host, 7)
    with pytest.raises(IllegalPropidError):
        of(host, host.find(), 28)


def test_format_names_parse_and_paths_too(host: Host) -> None:
    queue = host.queue()
    for member in queue.family:
        parse_format_name(format_name(host.manager.core, member))
        assert QueuePath.parse(member.pathname)
        assert host.manager.queues.open(format_name(host.manager.core, member), RECEIVE).queue is member
