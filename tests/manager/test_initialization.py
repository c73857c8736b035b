"""Initialization, step by step, on a real store and a directory in memory."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import AccessDeniedError, DsError, MachineNotFoundError, NoDsError
from msmq.manager.core import Environment, Subscriber
from msmq.manager.directory import DirectoryResult, ObjectClass
from msmq.manager.initialization import SITE_GATES_UPDATE_S, SITES_UPDATE_S
from msmq.manager.ledger.attributes import change
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import (
    OutgoingState,
    QueueManagerRecord,
    QueueManagerState,
    QueueType,
)
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.sid import ADMINISTRATORS, Sid
from msmq.store import DamagedRecordError, Store
from msmq.testing.directory import MemoryDirectory
from msmq.testing.disk import SimulatedDisk
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.keys import DSPublicKeys
from msmq.wire.names import parse_format_name
from msmq.wire.packets import OrderAckBody, build_order_message
from tests.manager.domain import DOMAIN, SITE, DomainHost, KeyBox, guid
from tests.manager.support import NOON, PEEK, RECEIVE, SEND, Host, body_of

REMOTE = "DIRECT=OS:elsewhere\\private$\\q"
REMOTE_HTTP = "DIRECT=HTTP://elsewhere/MSMQ\\q"


def fresh(identity: Any, settings: Settings | None = None, directory: Any = None) -> QueueManager:
    """A queue manager on a new disk that has not been started."""
    store = Store.open(SimulatedDisk())
    environment = Environment(lambda: NOON, lambda size: bytes(range(1, size + 1)), KeyBox())
    return QueueManager(store, environment, identity, settings, directory)


# --- the host itself ----------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-b", "DMPR-3.1.1.1-e")
def test_the_host_says_who_it_is() -> None:
    host = DomainHost()
    assert host.core.machine_domain_id == DOMAIN
    assert host.core.record.computer_name == "HOST"
    assert host.core.record.qualified_computer_name == "HOST.corp.example"


def test_in_a_workgroup_with_a_list_a_host_is_who_the_list_says() -> None:
    """It takes its identifier and its role from there; without a list it is somebody new, and nobody's router."""
    listed = MemoryDirectory(lambda: NOON)
    own = guid()
    listed.put(QueueManagerRecord(own, "HOST", routing_server=True))
    known = fresh(lambda: Identity("HOST"), Settings(local_directory=True), listed)
    known.start()
    assert (known.core.record.identifier, known.core.record.routing_server) == (own, True)
    alone = fresh(lambda: Identity("HOST"), None, listed)
    alone.start()
    assert alone.core.record.identifier not in (own, bytes(16))
    assert not alone.core.record.routing_server


def test_a_workgroup_that_has_a_directory_has_public_queues() -> None:
    """It is no member of a domain, but there is somebody to ask."""
    here = DomainHost(settings=Settings(local_directory=True), provisioning=False)
    assert not here.core.directory_integrated
    queue = here.manager.queues.create(QueueRequest(".\\q"))
    item = next(item for item in here.directory.objects if item.attributes.get("pathname") == "HOST\\q")
    assert queue.identifier == item.identifier


@pytest.mark.spec("DMPR-3.1.3-c")
def test_a_host_that_does_not_know_itself_does_not_start() -> None:
    def unknown() -> Identity:
        raise OSError("the local security authority does not answer")

    manager = fresh(unknown)
    with pytest.raises(OSError, match="does not answer"):
        manager.start()
    assert manager.core.state is QueueManagerState.STOPPED
    assert not manager.core.queues


@pytest.mark.spec("DMPR-3.1.3-d")
def test_names_are_known_before_any_queue_is_there() -> None:
    def who() -> Identity:
        assert not manager.core.queues
        return Identity("HOST", "corp.example")

    manager = fresh(who)
    manager.start()
    assert manager.core.by_path.keys() >= {"host\\system$;deadletter", "host\\private$\\order_queue$"}
    record = manager.core.record
    assert (record.computer_name, record.qualified_computer_name) == ("HOST", "HOST.corp.example")


@pytest.mark.spec("DMPR-3.1.3-w")
def test_a_damaged_store_keeps_the_queue_manager_down() -> None:
    host = Host()
    host.store.close()
    segment = next(name for name in host.disk.names() if name.endswith(".log"))
    start = host.disk.durable_content(segment).rindex(b'"queue manager"')
    host.disk.flip(segment, start + 40)

    store = Store.open(host.disk)
    environment = Environment(lambda: NOON, host.random.randbytes)
    manager = QueueManager(store, environment, lambda: Identity("HOST"))
    with pytest.raises(DamagedRecordError):
        manager.start()
    assert manager.core.state is QueueManagerState.STOPPED


@pytest.mark.spec("DMPR-3.1.4.1-a")
def test_protocols_open_their_doors_when_the_queue_manager_is_ready() -> None:
    states: list[QueueManagerState] = []

    class Protocol(Subscriber):
        def queue_manager_started(self) -> None:
            states.append(manager.core.state)

    def who() -> Identity:
        states.append(manager.core.state)
        return Identity("HOST")

    manager = fresh(who)
    manager.subscribe(Protocol())
    manager.start()
    assert states == [QueueManagerState.INITIALIZING, QueueManagerState.READY]
    assert manager.core.state is QueueManagerState.READY

    states.clear()
    manager = fresh(who, Settings(directory_integrated=True))
    manager.subscribe(Protocol())
    with pytest.raises(NoDsError):
        manager.start(provisioning=True)
    assert states == [QueueManagerState.INITIALIZING], "no door was opened"


# --- provisioning -------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-a")
def test_only_provisioning_makes_keys_and_looks_for_sites_and_servers() -> None:
    asked: list[str] = []

    def servers(domain: str) -> list[str]:
        asked.append(domain)
        return ["DC1"]

    settings = Settings(directory_integrated=True, site_identifier=SITE, find_directory_servers=servers)
    host = DomainHost(settings=settings)
    assert asked == ["corp.example"]
    assert host.key_box.made == 6
    assert host.core.record.site_identifier_list == (SITE,)

    settings.site_identifier = guid()
    host.restart()
    assert asked == ["corp.example"]
    assert host.key_box.made == 6
    assert host.core.record.site_identifier_list == (SITE,)


@pytest.mark.spec("DMPR-3.1.3-e")
def test_provisioning_sets_the_retry_duration() -> None:
    host = DomainHost(provisioning=True)
    assert host.core.initialization_retry_timer_duration_s == 120
    change(host.core, initialization_retry_timer_duration_s=7)
    host.restart()
    assert host.core.initialization_retry_timer_duration_s == 7
    host.provision = True
    host.restart()
    assert host.core.initialization_retry_timer_duration_s == 120


@pytest.mark.spec("DMPR-3.1.3-f", "DMPR-3.1.1.1-k")
def test_provisioning_puts_the_host_into_its_site() -> None:
    assert Host().manager.core.record.site_identifier_list == ()
    host = DomainHost()
    assert host.core.record.site_identifier_list == (SITE,)
    assert host.own.attributes["site_identifier_list"] == (SITE,)


@pytest.mark.spec("DMPR-3.1.3-g")
def test_provisioning_asks_dns_for_directory_servers_and_asks_again_each_day() -> None:
    servers = ["DC1", "DC2"]
    settings = Settings(directory_integrated=True, find_directory_servers=lambda domain: servers)
    host = DomainHost(settings=settings)
    assert host.core.directory_server_list == ("DC1", "DC2")
    servers.append("DC3")
    host.advance(24 * 3600)
    host.restart()
    assert host.core.directory_server_list == ("DC1", "DC2", "DC3")


@pytest.mark.spec("DMPR-3.1.3-m")
def test_only_provisioning_may_find_the_directory_without_us() -> None:
    host = DomainHost(directory=MemoryDirectory())
    assert host.own.identifier == host.core.record.identifier

    host.directory.objects.clear()
    with pytest.raises(MachineNotFoundError):
        host.restart()
    assert host.core.state is QueueManagerState.STOPPED


def test_an_unreachable_directory_stops_provisioning_but_not_a_start() -> None:
    directory = MemoryDirectory()
    directory.connected = False
    with pytest.raises(NoDsError):
        DomainHost(directory=directory)

    host = DomainHost()
    host.own.attributes["queue_manager_quota_kb"] = 77
    host.directory.connected = False
    host.restart()
    assert host.core.directory_offline
    assert host.core.record.public_encryption_key_list
    assert host.core.sites == []
    host.directory.connected = True
    host.advance(60)
    assert not host.core.directory_offline
    assert host.core.record.queue_manager_quota_kb == 77
    assert [site.name for site in host.core.sites] == ["Berlin"]
    assert host.core.enterprise is not None


def test_a_directory_that_fails_otherwise_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    host = DomainHost()
    failed = (DirectoryResult.GENERIC_ERROR, None)
    monkeypatch.setattr(host.directory, "read", lambda *arguments: failed)
    with pytest.raises(DsError):
        host.restart()


def test_provisioning_again_publishes_new_keys_and_keeps_the_identifier() -> None:
    host = DomainHost()
    before = host.core.record.identifier
    host.own.attributes["public_encryption_key_list"] = DSPublicKeys().encode()
    host.provision = True
    host.restart()
    assert host.core.record.identifier == before
    assert host.own.attributes["public_encryption_key_list"] == host.manager.keys.public_encryption_key_list()


def test_a_computer_that_is_installed_anew_becomes_its_old_object() -> None:
    first = DomainHost()
    first.own.attributes["journal_quota_kb"] = 55
    again = DomainHost(directory=first.directory)
    assert again.core.record.identifier == first.core.record.identifier
    assert again.core.record.journal_quota_kb == 55
    again.directory.connected = False
    again.kill()
    assert again.core.record.identifier == first.core.record.identifier


# --- the directory ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-k")
def test_the_directory_knows_better_what_we_are_like() -> None:
    host = DomainHost()
    host.manager.stop()
    host.store.close()
    host.own.attributes["queue_manager_quota_kb"] = 4711
    host.start()
    assert host.core.record.queue_manager_quota_kb == 4711


@pytest.mark.spec("DMPR-3.1.3-l", "DMPR-3.1.1.1-ad")
def test_sites_that_exist_are_read() -> None:
    host = DomainHost()
    host.own.attributes["site_identifier_list"] = (SITE, guid())
    host.restart()
    assert [site.identifier for site in host.core.sites] == [SITE]
    assert {site.identifier for site in host.core.sites} <= set(host.core.record.site_identifier_list)


@pytest.mark.spec("DMPR-3.1.3-n", "DMPR-3.1.1.1-ah")
def test_the_enterprise_is_read() -> None:
    host = DomainHost(notifications=False)
    assert host.core.enterprise is not None
    assert host.core.enterprise.identifier == host.enterprise.identifier
    assert host.core.enterprise.name == "Corp"
    assert not host.core.enterprise.non_ldap_capable_queue_manager_notification


@pytest.mark.spec("DMPR-3.1.3-o")
def test_an_enterprise_that_does_not_say_wants_notifications() -> None:
    host = DomainHost(notifications=False)
    del host.enterprise.attributes["non_ldap_capable_queue_manager_notification"]
    host.restart()
    assert host.core.enterprise is not None
    assert host.core.enterprise.non_ldap_capable_queue_manager_notification


@pytest.mark.spec("DMPR-3.1.3-p")
def test_directory_timers_run_in_directory_mode_only() -> None:
    assert Host().manager.next_deadline is None
    host = DomainHost()
    host.core.sites[0].site_gate_collection.append(QueueManagerRecord(guid(), "GATE"))
    host.directory.calls.clear()
    host.advance(SITE_GATES_UPDATE_S)
    assert host.directory.asked("read") == [ObjectClass.QUEUE_MANAGER]
    host.directory.calls.clear()
    host.advance(SITES_UPDATE_S - SITE_GATES_UPDATE_S)
    assert ObjectClass.SITE in host.directory.asked("read")


@pytest.mark.spec("DMPR-3.1.1.1-ae", "DMPR-3.1.1.1-ag", "DMPR-3.1.1.9-a")
def test_collections_follow_their_identifier_lists() -> None:
    host = DomainHost()
    known, unknown, inward, network = guid(), guid(), guid(), guid()
    host.directory.put(QueueManagerRecord(known, "ROUTER1"))
    host.directory.put(QueueManagerRecord(inward, "ROUTER2"))
    host.own.attributes |= {
        "out_routing_server_identifier_list": (known, unknown),
        "in_routing_server_identifier_list": (inward,),
        "connected_network_identifier_list": (network,),
    }
    host.restart()
    core, record = host.core, host.core.record
    assert [server.computer_name for server in core.out_routing_servers] == ["ROUTER1"]
    assert [server.computer_name for server in core.in_routing_servers] == ["ROUTER2"]
    assert {s.identifier for s in core.out_routing_servers} <= set(record.out_routing_server_identifier_list)
    assert {s.identifier for s in core.in_routing_servers} <= set(record.in_routing_server_identifier_list)
    assert {n.identifier for n in core.connected_networks} == set(record.connected_network_identifier_list)


# --- our own queues -----------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-q")
@pytest.mark.parametrize("suffix", ["DEADLETTER", "DEADXACT", "JOURNAL"])
@pytest.mark.parametrize("make", [Host, DomainHost])
def test_system_queues_can_be_peeked(make: type[Host], suffix: str) -> None:
    host = make()
    opened = host.manager.queues.open(f"DIRECT=OS:.\\SYSTEM$;{suffix}", PEEK)
    assert opened.queue is not None
    assert opened.queue.queue_type is QueueType.SYSTEM


@pytest.mark.spec("DMPR-3.1.3-r")
def test_internal_queues_are_closed_to_applications_and_open_to_protocols() -> None:
    host = Host()
    administrator = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1000"), [ADMINISTRATORS])
    for name in ("order_queue$", "notify_queue$"):
        for access in (SEND, PEEK, RECEIVE):
            with pytest.raises(AccessDeniedError):
                host.manager.queues.open(f"DIRECT=OS:.\\private$\\{name}", access, caller=administrator)

    own = host.manager.core.record.identifier
    order_queue = host.manager.naming.find(parse_format_name(f"PRIVATE={guid_text(own)}\\00000004"))
    assert order_queue is not None
    assert order_queue.queue_type is QueueType.SYSTEM
    ack = build_order_message(
        OrderAckBody.of(1, 1),
        MessageClass.ORDER_ACK,
        source=guid(),
        destination=own,
        message_id=1,
        sent_time=int(host.now),
    )
    fate = host.deliver(order_queue, StoredMessage(ack, LocalAttributes()))
    assert fate is MessageClass.ACK_REACH_QUEUE
    assert len(order_queue.positions) == 1


# --- outgoing queues ----------------------------------------------------------------------------------------


def outgoing_states(host: Host) -> dict[str, OutgoingState]:
    return {name: queue.state for name, queue in host.manager.core.outgoing.items()}


def test_outgoing_queues_are_let_go_when_the_host_is_no_longer_hardened() -> None:
    host = Host(settings=Settings(hardened_security=True))
    host.manager.queues.open(REMOTE, SEND)
    assert outgoing_states(host) == {REMOTE.lower(): OutgoingState.LOCKED}
    host.settings = Settings(hardened_security=False)
    host.restart()
    assert outgoing_states(host) == {REMOTE.lower(): OutgoingState.WAITING}


@pytest.mark.spec("DMPR-3.1.3-t")
def test_a_hardened_host_locks_what_is_not_http() -> None:
    host = Host()
    host.manager.queues.open(REMOTE, SEND)
    host.manager.queues.open(REMOTE_HTTP, SEND)
    host.settings = Settings(hardened_security=True)
    host.restart()
    states = outgoing_states(host)
    assert states[REMOTE.lower()] is OutgoingState.LOCKED
    assert states[REMOTE_HTTP.lower()] is not OutgoingState.LOCKED


# --- transactions -------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.3-v")
def test_unfinished_internal_transactions_are_undone() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    host.fill(queue, b"old")
    transaction = host.transactions.create()
    host.send(queue, b"new", transaction)
    assert body_of(host.reader(queue).receive(transaction=transaction)) == b"old"
    host.kill()
    queue = host.find()
    assert host.contents(queue) == [b"old"]
    assert body_of(host.reader(queue).receive()) == b"old"
    assert host.transactions.collection == {}
