"""The attributes of LocalQueueManager: their defaults and what they do. Which survive: test_attributes."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import AccessDeniedError, IllegalPropertyValueError
from msmq.manager.core import Environment, Subscriber
from msmq.manager.directory import ObjectClass, adopt, by_identifier, directory_object
from msmq.manager.ledger.attributes import change
from msmq.manager.mailbox.batch import Batch
from msmq.manager.model import (
    UNLIMITED,
    DirectoryServerType,
    EnqueueStatus,
    OperatingSystemType,
    QueueManagerRecord,
    QueueType,
)
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, EVERYONE, Sid
from msmq.store import Store
from msmq.testing.disk import SimulatedDisk
from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask
from msmq.wire.guid import NULL_GUID
from msmq.wire.packets import Ping
from tests.manager.domain import DOMAIN, OTHER_DOMAIN, DomainHost, guid
from tests.manager.support import NOON, SEND, Host, message

CALLER = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1000"))

# --- what the host is like -----------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.1-a")
def test_queues_are_named_after_the_computer() -> None:
    host = Host()
    assert host.manager.core.record.computer_name == "HOST"
    assert host.queue().pathname == "HOST\\private$\\orders"


@pytest.mark.spec("DMPR-3.1.1.1-b", "DMPR-3.1.1.1-i", "DMPR-3.1.1.1-n", "DMPR-3.1.1.1-r")
def test_a_fresh_host_is_an_ordinary_one() -> None:
    record = Host().manager.core.record
    assert record.queue_manager_version == ""
    assert record.foreign_system is False
    assert (record.remote_access_server, record.supporting_server) == (False, False)
    assert record.clustered is False


@pytest.mark.spec("DMPR-3.1.1.1-c")
def test_peers_do_not_take_us_for_an_old_system() -> None:
    version = Host().manager.core.record.operating_system_version
    assert version
    assert not version.startswith(("4.0", "5.0"))


@pytest.mark.spec("DMPR-3.1.1.1-d")
@pytest.mark.parametrize(
    ("name", "client"),
    [("Foreign", 1), ("Win95", 1), ("WinClient", 1), ("WinServer", 0), ("WinEnt", 0), ("Other", 1)],
)
def test_the_operating_system_is_one_of_six_and_tells_servers_from_clients(name: str, client: int) -> None:
    assert len(OperatingSystemType) == 6
    core = Host().manager.core
    assert core.record.operating_system_type is OperatingSystemType.FOREIGN
    change(core, operating_system_type=name)
    ping = Ping.request(1, NULL_GUID, server_class=core.record.operating_system_type.server_class)
    assert ping.client == client
    with pytest.raises(IllegalPropertyValueError):
        change(core, operating_system_type="Linux")
    assert core.record.operating_system_type is OperatingSystemType(name)


@pytest.mark.spec("DMPR-3.1.1.1-f")
def test_writing_to_the_directory_moves_modify_time_only() -> None:
    host = DomainHost()
    created = host.core.record.create_time
    assert created == host.core.record.modify_time == int(host.now)
    host.advance(100)
    host.manager.directory.write(directory_object(host.core.record), ("journal_quota_kb",))
    for attributes in (
        host.own.attributes,
        {name: getattr(host.core.record, name) for name in ("create_time", "modify_time")},
    ):
        assert attributes["create_time"] == created
        assert attributes["modify_time"] == created + 100
    host.kill()
    assert host.core.record.modify_time == created + 100


@pytest.mark.spec("DMPR-3.1.1.1-j")
def test_the_directory_chooses_the_distinguished_name() -> None:
    assert Host().manager.core.record.full_path == ""
    host = DomainHost()
    _, own = host.manager.directory.read(
        ObjectClass.QUEUE_MANAGER, by_identifier(host.core.record.identifier), ("full_path",)
    )
    assert own is not None
    assert own.attributes == {"full_path": "CN=HOST,OU=msmq,DC=test"}
    assert host.core.record.full_path == "CN=HOST,OU=msmq,DC=test"


@pytest.mark.spec("DMPR-3.1.1.1-o")
def test_the_type_of_no_directory_server_is_ignored() -> None:
    record = QueueManagerRecord(directory_server_type=DirectoryServerType.PRIMARY_SITE_CONTROLLER)
    assert "directory_server_type" not in directory_object(record).attributes
    peer = QueueManagerRecord()
    item = directory_object(record)
    item.attributes["directory_server_type"] = DirectoryServerType.PRIMARY_SITE_CONTROLLER
    adopt(peer, item)
    assert peer.directory_server_type is DirectoryServerType.STANDALONE

    host = Host()
    change(host.manager.core, directory_server_type="BackupSiteController")
    host.restart()
    assert host.manager.core.record.directory_server_type is DirectoryServerType.STANDALONE

    record.directory_server = True
    adopt(peer, directory_object(record))
    assert peer.directory_server_type is DirectoryServerType.PRIMARY_SITE_CONTROLLER
    assert [kind.value for kind in DirectoryServerType] == [
        "Standalone",
        "BackupSiteController",
        "PrimarySiteController",
        "PrimaryEnterpriseController",
    ]


@pytest.mark.spec("DMPR-3.1.1.1-q")
def test_the_descriptor_decides_who_creates_queues() -> None:
    host = Host()
    request = QueueRequest(".\\private$\\orders")
    with pytest.raises(AccessDeniedError):
        host.manager.queues.create(request, CALLER)
    administrator = Token.authenticated(CALLER.user, [ADMINISTRATORS])
    host.manager.queues.create(QueueRequest(".\\private$\\other"), administrator)
    allowed = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x4, EVERYONE))
    assert QueueManagerAccessMask.CREATE_QUEUE == 0x4
    descriptor = SecurityDescriptor(owner=ADMINISTRATORS, group=ADMINISTRATORS, dacl=allowed)
    change(host.manager.core, security=descriptor.encode())
    host.restart()
    assert host.manager.queues.create(request, CALLER).pathname == "HOST\\private$\\orders"


@pytest.mark.spec("DMPR-3.1.1-a", "DMPR-3.1.1.1-s")
def test_the_last_domain_is_remembered_while_a_new_one_is_learned() -> None:
    seen: set[tuple[bytes, bytes]] = set()
    host = DomainHost()
    assert host.core.last_domain == DOMAIN
    host.identity = Identity("HOST", "other.example", OTHER_DOMAIN)
    read = host.directory.read

    def watched(*arguments: Any) -> Any:
        seen.add((host.core.last_domain, host.core.machine_domain_id))
        return read(*arguments)

    host.directory.read = watched  # type: ignore[method-assign]
    host.restart()
    assert seen == {(DOMAIN, OTHER_DOMAIN)}
    assert host.core.last_domain == OTHER_DOMAIN
    alone = Host()
    assert alone.manager.core.last_domain == b""
    alone.restart()
    assert alone.manager.core.last_domain == b""


def anonymous_rights(queue: Queue) -> int:
    acl = SecurityDescriptor.decode(queue.security).dacl
    assert acl is not None
    return sum(ace.mask for ace in acl.aces if ace.sid == ANONYMOUS)


@pytest.mark.spec("DMPR-3.1.1.1-v")
@pytest.mark.parametrize("strict", [True, False])
def test_strangers_may_write_only_where_http_is_spoken(strict: bool) -> None:
    write = QueueAccessMask.WRITE_MESSAGE
    silent = Host(settings=Settings(srmp_http_support=False, strict_default_security=strict))
    assert not anonymous_rights(silent.queue()) & write
    spoken = Host(settings=Settings(srmp_http_support=True, strict_default_security=strict))
    assert anonymous_rights(spoken.queue()) & write
    assert not silent.manager.core.srmp_pgm_support


# --- what they do --------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.1-g")
def test_the_quota_of_the_host_is_in_kilobytes() -> None:
    host = Host()
    assert host.manager.core.record.queue_manager_quota_kb == 0x00100000
    change(host.manager.core, queue_manager_quota_kb=4)
    queue, other = host.queue(), host.queue("other")
    host.send(queue, bytes(2000))
    (status,), _ = host.enqueue(other, message(bytes(3000)))
    assert status is EnqueueStatus.QUEUE_MANAGER_QUOTA
    assert status == 2
    host.send(other, bytes(1000))


@pytest.mark.spec("DMPR-3.1.1.1-h")
def test_a_full_journal_gets_no_more_copies() -> None:
    host = Host()
    assert host.manager.core.record.journal_quota_kb == 0xFFFFFFFF
    journal = host.manager.core.journal_queue
    assert journal is not None
    change(host.manager.core, journal_quota_kb=4)
    for body in (b"a" * 2000, b"b" * 3000, b"c" * 1000):
        host.manager.sending.journal_sent(Batch.of((message(body),), host.manager.core.record.identifier))
    assert [body[:1] for body in host.contents(journal)] == [b"a", b"c"]
    change(host.manager.core, journal_quota_kb=UNLIMITED)
    host.manager.sending.journal_sent(Batch.of((message(b"b" * 3000),), host.manager.core.record.identifier))
    assert len(host.contents(journal)) == 3


@pytest.mark.spec("DMPR-6-a")
def test_the_unlimited_quota_of_an_old_peer_is_no_limit() -> None:
    host = DomainHost()
    host.own.attributes |= {"queue_manager_quota_kb": 0xFFFFFFFF, "supporting_server": True}
    host.restart()
    assert host.core.record.queue_manager_quota_kb == UNLIMITED
    assert host.core.record.supporting_server
    queue = host.queue()
    host.core.total_bytes += 0xFFFFFFFF * 1024
    host.send(queue, bytes(3000))


@pytest.mark.spec("DMPR-3.1.1.1-x")
def test_a_throttled_host_takes_no_messages() -> None:
    host = Host()
    queue = host.queue()
    assert not host.manager.core.throttled
    host.manager.begin_flow_control()
    (status,), _ = host.enqueue(queue, message())
    assert status == 2
    host.manager.end_flow_control()
    (status,), _ = host.enqueue(queue, message())
    assert status == 0


@pytest.mark.spec("DMPR-3.1.4.12-a", "DMPR-3.1.4.13-a")
def test_a_host_can_be_taken_offline() -> None:
    manager = Host().manager
    assert manager.core.connection_active
    manager.take_offline()
    assert not manager.core.connection_active
    manager.bring_online()
    assert manager.core.connection_active


@pytest.mark.spec("DMPR-3.1.1.1-aa")
def test_the_states_of_a_life() -> None:
    def note() -> None:
        trace.append(manager.core.state.value)

    class Watcher(Subscriber):
        queue_manager_started = queue_manager_stopped = lambda self: note()

    def who() -> Identity:
        note()
        return Identity("HOST")

    trace: list[str] = []
    manager = QueueManager(Store.open(SimulatedDisk()), Environment(lambda: NOON, bytes), who)
    manager.subscribe(Watcher())
    note()
    manager.start()
    manager.stop()
    note()
    assert trace == ["Stopped", "Initializing", "Ready", "Stopping", "Stopped"]


@pytest.mark.spec("DMPR-3.1.1.1-ab")
def test_three_system_queues() -> None:
    core = Host().manager.core
    queues = [core.dead_letter_queue, core.transactional_dead_letter_queue, core.journal_queue]
    assert all(queue is not None and queue.queue_type is QueueType.SYSTEM for queue in queues)
    assert len({id(queue) for queue in queues}) == 3


@pytest.mark.spec("DMPR-3.1.1.1-ac")
def test_the_collection_of_queues_is_built_again() -> None:
    host = DomainHost()
    queue = host.queue()
    host.manager.queues.create(QueueRequest(".\\public"))
    host.manager.queues.open("DIRECT=OS:elsewhere\\q", SEND)
    before = {(found.pathname, found.queue_type) for found in host.core.queues.values()}
    assert len(before) >= 10
    host.kill()
    assert {(found.pathname, found.queue_type) for found in host.core.queues.values()} == before
    assert host.find().identifier == queue.identifier


@pytest.mark.spec("DMPR-3.1.1.1-af")
def test_an_open_transaction_survives_until_it_is_resolved() -> None:
    host = Host()
    queue = host.queue(transactional=True)
    transaction = host.transactions.create(guid(), single_phase=False)
    host.send(queue, b"promised", transaction)
    host.transactions.prepare(transaction.identifier, single_phase=False)
    host.kill()
    assert list(host.transactions.collection) == [transaction.identifier]
    host.transactions.commit(transaction.identifier)
    host.kill()
    assert host.transactions.collection == {}
    assert host.contents(host.find()) == [b"promised"]


@pytest.mark.spec("DMPR-3.1.1.1-aj")
def test_sequential_numbers_never_repeat() -> None:
    host = Host()
    low = (1 << 56) - 1
    numbers = [host.send(host.queue(), b"1", recoverable=True).lookup_id & low]
    for _ in range(3):
        host.kill()
        numbers.append(host.send(host.find(), b"2", recoverable=True).lookup_id & low)
    assert numbers == sorted(set(numbers))


# --- how long messages travel --------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.6-d")
def test_the_enterprise_says_how_long_a_message_may_travel() -> None:
    host = DomainHost()
    assert host.core.times_to_reach_queue_s((345_600,)) == [345_600]
    host.enterprise.attributes["default_time_to_live_s"] = 3600
    host.restart()
    assert host.core.times_to_reach_queue_s((345_600, 60)) == [3600, 60], (
        "the general default stands for its own"
    )


@pytest.mark.spec("DMPR-6-c")
def test_no_message_travels_longer_than_the_operator_lets_it() -> None:
    usual = Host().manager.core
    assert usual.times_to_reach_queue_s((0xFFFFFFFF,)) == [345_600]
    patient = Host(settings=Settings(longest_time_to_reach_queue_s=7_776_000)).manager.core
    assert patient.times_to_reach_queue_s((1_000_000, 0xFFFFFFFF)) == [1_000_000, 7_776_000]
