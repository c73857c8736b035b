"""Which attributes of LocalQueueManager survive a restart, and how they are changed."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import PropertyNotallowedError
from msmq.manager.directory import ObjectClass, adopt, by_identifier, queue_object
from msmq.manager.ledger.attributes import DIRECTORY, PERSISTENT, change
from msmq.manager.model import (
    ConnectedNetwork,
    DirectoryServerType,
    Enterprise,
    OperatingSystemType,
    QueueManagerRecord,
    QueuePrivacyLevel,
    QueueType,
    RoutingLink,
    Site,
    User,
)
from msmq.manager.queue_manager import Settings
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.wire.guid import NULL_GUID
from tests.manager.domain import OTHER_DOMAIN, DomainHost, guid
from tests.manager.support import Host

CHANGED: dict[str, Any] = {
    "former_identifiers": (bytes(range(16)),),
    "last_domain": OTHER_DOMAIN,
    "directory_server_list": ("DC1", "DC2"),
    "directory_integrated": True,
    "srmp_http_support": True,
    "srmp_pgm_support": True,
    "hardened_at_next_start": True,
    "initialization_retry_timer_duration_s": 240,
}


@pytest.mark.spec("DMPR-3.1.1-a", "DMPR-3.1.1.1-t", "DMPR-3.1.1.1-ai")
def test_persistent_attributes_survive() -> None:
    assert CHANGED.keys() == set(PERSISTENT)
    host = Host()
    core = host.manager.core
    assert core.directory_server_list == ()
    assert core.initialization_retry_timer_duration_s == 120
    assert not any(
        (core.directory_integrated, core.srmp_http_support, core.srmp_pgm_support, core.hardened_security)
    )
    kept_queue: dict[str, Any] = {
        "label": "orders of the day",
        "type": guid(),
        "journaling": True,
        "quota_kb": 10,
        "journal_quota_kb": 20,
        "authentication": True,
        "privacy_level": QueuePrivacyLevel.BODY,
        "transactional": True,
        "multicast_address": "234.1.1.1:8001",
    }
    queue = host.queue(**kept_queue)
    kept_queue |= {
        name: getattr(queue, name) for name in ("identifier", "security", "create_time", "queue_type")
    }
    host.kill()
    core = host.manager.core
    for name, value in kept_queue.items():
        assert getattr(host.find(), name) == value, name

    change(core, **{name: value for name, value in CHANGED.items() if name != "directory_integrated"})
    host.kill()
    core = host.manager.core
    assert core.directory_server_list == ("DC1", "DC2"), "without a directory to ask"
    assert core.initialization_retry_timer_duration_s == 240
    assert core.srmp_http_support
    assert core.srmp_pgm_support
    assert core.hardened_security


@pytest.mark.spec("DMPR-3.1.1-a", "DMPR-3.1.1.1-u")
def test_a_workgroup_asks_no_directory_and_a_domain_member_stays_one() -> None:
    host = DomainHost()
    assert host.core.directory_integrated
    host.settings = Settings()
    host.restart()
    assert host.core.directory_integrated, "as it was"

    host.settings = Settings(directory_integrated=False)
    host.directory.calls.clear()
    host.restart()
    assert not host.core.directory_integrated
    assert host.directory.calls == []


@pytest.mark.spec("DMPR-3.1.1-b")
def test_directory_attributes_survive_and_are_published() -> None:
    host = DomainHost()
    queue = host.manager.queues.create(QueueRequest(".\\orders", label="before"))
    queue.label = "after"
    host.manager.queues.write(queue)
    host.manager.directory.write(queue_object(queue))
    host.kill()
    assert host.core.by_path["host\\orders"].label == "after"
    _, item = host.manager.directory.read(ObjectClass.QUEUE, by_identifier(queue.identifier))
    assert item is not None
    assert item.attributes["label"] == "after"


def test_all_directory_attributes_of_a_host_survive_without_its_directory() -> None:
    host = DomainHost()
    values: dict[str, Any] = {
        "operating_system_type": OperatingSystemType.WIN_SERVER,
        "queue_manager_quota_kb": 5,
        "journal_quota_kb": 6,
        "foreign_system": True,
        "site_identifier_list": (guid(), guid()),
        "connected_network_identifier_list": (guid(),),
        "out_routing_server_identifier_list": (guid(),),
        "in_routing_server_identifier_list": (guid(), guid()),
        "directory_server": True,
        "directory_server_type": DirectoryServerType.PRIMARY_SITE_CONTROLLER,
        "remote_access_server": True,
        "routing_server": True,
        "supporting_server": True,
        "clustered": True,
        "queue_manager_version": "v",
    }
    change(host.core, **values)
    before = {name: getattr(host.core.record, name) for name in DIRECTORY}
    host.directory.connected = False
    host.kill()
    assert {name: getattr(host.core.record, name) for name in DIRECTORY} == before


@pytest.mark.spec("DMPR-3.1.1-c")
def test_everything_else_is_forgotten() -> None:
    host = DomainHost()
    host.manager.begin_flow_control()
    host.manager.take_offline()
    host.lose_directory()
    core = host.core
    assert (core.throttled, core.connection_active, core.directory_offline) == (True, False, True)
    host.directory.connected = True
    host.restart()
    core = host.core
    assert (core.throttled, core.connection_active, core.directory_offline) == (False, True, False)


@pytest.mark.spec("DMPR-3.1.1-d")
def test_an_identifier_never_changes() -> None:
    elements = [
        kind() for kind in (QueueManagerRecord, Enterprise, Site, RoutingLink, ConnectedNetwork, User)
    ]
    for element in (*elements, Queue(20, "HOST\\q", QueueType.PUBLIC)):
        element.identifier = first = guid()
        with pytest.raises(PropertyNotallowedError):
            element.identifier = guid()
        assert element.identifier == first

    host = DomainHost()
    queue = host.manager.queues.create(QueueRequest(".\\orders"))
    identifiers = (host.core.record.identifier, queue.identifier)
    assert len({*identifiers, NULL_GUID}) == 3
    with pytest.raises(PropertyNotallowedError):
        change(host.core, identifier=guid())
    change(host.core, journal_quota_kb=9)
    queue.label = "new"
    item = queue_object(queue)
    item.attributes["identifier"] = guid()
    adopt(queue, item)
    host.manager.queues.write(queue)
    assert (host.core.record.identifier, queue.identifier) == identifiers
    host.kill()
    assert (host.core.record.identifier, host.core.by_path["host\\orders"].identifier) == identifiers


def test_hardening_waits_for_the_next_start() -> None:
    host = Host()
    change(host.manager.core, hardened_security=True)
    assert not host.manager.core.hardened_security
    change(host.manager.core, journal_quota_kb=1)
    host.restart()
    assert host.manager.core.hardened_security
    host.settings = Settings(hardened_security=False)
    host.restart()
    assert not host.manager.core.hardened_security


def test_only_attributes_can_be_changed() -> None:
    core = Host().manager.core
    for name in ("throttled", "total_bytes", "nonsense"):
        with pytest.raises(PropertyNotallowedError):
            change(core, **{name: True})
