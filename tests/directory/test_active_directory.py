"""The directory as a queue manager uses it, and who may do what (MS-MQDSSM 3.1, 3.1.6, 5.1)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.schema import KINDS
from msmq.manager.core import Environment
from msmq.manager.directory import Directory, DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.manager.model import QueueAccessType, QueueScope, QueueShareMode
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.manager.queues.queues import QueueRequest
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import Sid
from msmq.store import Store, StoreOptions
from msmq.testing.disk import SimulatedDisk
from msmq.wire.guid import guid_text
from msmq.wire.variant import VT, Variant
from tests.directory.support import Domain, Trace
from tests.manager.domain import KeyBox

PROPID_QM_SITE_ID = 201
SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR


@pytest.mark.spec("DSSM-3.1.6-a", "DSSM-3.1.1.1-a")
def test_it_is_a_directory(domain: Domain) -> None:
    directory: Directory = domain.directory
    assert isinstance(directory, ActiveDirectory)
    assert set(KINDS) == {
        ObjectClass.QUEUE_MANAGER,
        ObjectClass.QUEUE,
        ObjectClass.ENTERPRISE,
        ObjectClass.SITE,
        ObjectClass.ROUTING_LINK,
        ObjectClass.USER,
    }
    events = ("create", "delete", "read", "read_begin", "read_next", "read_end", "write")
    for event in (*events, "resolve_distribution_list"):
        assert callable(getattr(directory, event))
    assert callable(directory.resolving.alias)  # for the members of lists


class Host:
    """A queue manager whose directory is the domain's."""

    def __init__(self, domain: Domain, name: str, site: bytes) -> None:
        self.trace = Trace()
        self.directory = domain.directory_as("Administrator", self.trace)
        self.disk = SimulatedDisk()
        self.name = name
        self.settings = Settings(directory_integrated=True, site_identifier=site)
        self.keys = KeyBox()

    def start(self, *, provisioning: bool = False) -> QueueManager:
        store = Store.open(self.disk, StoreOptions(smallest_segment_bytes=1 << 16))
        environment = Environment(lambda: 1_700_000_000.0, Random(1).randbytes, self.keys)
        identity = Identity(self.name, "msmq.test", bytes(range(16)))
        manager = QueueManager(store, environment, lambda: identity, self.settings, self.directory)
        manager.start(provisioning=provisioning)
        self.store = store
        return manager


@pytest.mark.spec(
    "DSSM-3.1.6.20.2-b", "DSSM-2.2.4-a", "DSSM-2.4-a", "MQMQ-6-m", "DMPR-2.3-a", "DMPR-3.1.1.2-r"
)
@pytest.mark.spec("MQMQ-2.3.2.1-a", "MQMQ-2.3.10.5-a")
def test_a_queue_manager_joins_the_domain(domain: Domain) -> None:
    """The traces of this and all other tests see to it that nothing out of use is sent (Trace.__call__)."""
    computer = domain.computer()
    host = Host(domain, computer, domain.site()[1])
    manager = host.start(provisioning=True)
    core = manager.core
    path = domain.directory.objects.names.queue_manager(computer)
    seen = domain.look(path)
    assert seen["objectGUID"] == [core.record.identifier]
    assert seen["mSMQEncryptKey"] == [core.record.public_encryption_key_list]
    assert core.enterprise is not None
    assert core.enterprise.name == "DC=msmq,DC=test"
    assert [site.identifier for site in core.sites] == [host.settings.site_identifier]
    (site,) = manager.administration.get_manager_properties([PROPID_QM_SITE_ID])
    assert site == Variant(VT.CLSID, core.sites[0].identifier)
    account = Sid.decode(domain.look(domain.directory.objects.names.computer(computer))["objectSid"][0])
    _, own = domain.directory.read(
        ObjectClass.QUEUE_MANAGER, by_identifier(core.record.identifier), ["security"]
    )
    assert own is not None
    dacl = SecurityDescriptor.decode(own.attributes["security"]).dacl
    assert dacl is not None
    assert account in {ace.sid for ace in dacl.aces}

    public = manager.queues.create(QueueRequest(".\\orders", label="Orders", quota_kb=9))
    seen = domain.look(domain.directory.objects.names.queue(f"{computer}\\orders"))
    assert seen["objectGUID"] == [public.identifier]
    assert (seen["mSMQLabelEx"], seen["mSMQQueueQuota"]) == ([b"Orders"], [b"9"])
    assert b"mSMQQueue" in seen["objectClass"]
    assert public.scope is QueueScope.ENTERPRISE
    assert not [name for name in host.trace.sent("addRequest")[-1].fields if "scope" in name.lower()]
    assert public.full_path == seen["dn"][0].decode()
    host.trace.clear()
    manager.queues.create(QueueRequest(".\\private$\\secret"))
    assert host.trace.messages == []

    manager.stop()
    host.store.close()
    manager = host.start()
    name = f"PUBLIC={guid_text(public.identifier)}"
    opened = manager.queues.open(name, QueueAccessType.RECEIVE, QueueShareMode.DENY_NONE)
    assert opened.queue is not None
    manager.queues.delete(opened.queue)
    assert not domain.exists(public.full_path)
    manager.stop()
    host.store.close()


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER,
            ("connected_network_identifier_list",),
            marks=pytest.mark.spec("DSSM-3.1.6.20.1-d"),
            id="queue-manager",
        ),
        pytest.param(
            ObjectClass.SITE,
            ("primary_site_controller", "public_signing_key_list"),
            marks=pytest.mark.spec("DSSM-3.1.6.20.4-b"),
            id="site",
        ),
    ],
)
def test_what_active_directory_does_not_keep(
    domain: Domain, kind: ObjectClass, names: tuple[str, ...]
) -> None:
    given: dict[str, Any] = {"computer_name": "x", "name": "x", "site_identifier_list": ()}
    item = DirectoryObject(kind, given)
    for name in names:
        listed = ["name", "site_identifier_list", name]
        assert domain.directory.create(item, listed, None) == (GENERIC, None)
        assert domain.directory.read(kind, by_identifier(bytes(16)), [name]) == (GENERIC, None)
        assert domain.directory.read_begin(kind, None, [name], None) == (GENERIC, None)
        assert domain.directory.write(item, [name], None) is GENERIC
    assert domain.trace.messages == []


# --- who may do what ----------------------------------------------------------------------------------------


@pytest.mark.spec("DSSM-5.1.1-b", "DSSM-5.1.5-a")
def test_what_an_ordinary_user_may_not(domain: Domain) -> None:
    alice = domain.directory_as("alice")
    manager = domain.queue_manager()
    assert alice.delete(manager, None) is GENERIC
    assert domain.exists(manager.attributes["full_path"])
    ends = {"site1_identifier": domain.site()[1], "site2_identifier": domain.site()[1], "actual_cost": 1}
    assert alice.create(DirectoryObject(ObjectClass.ROUTING_LINK, ends), None, None) == (GENERIC, None)


@pytest.mark.spec("DSSM-5.1.4-a")
def test_an_administrator_makes_sites(domain: Domain) -> None:
    name = domain.name("site")
    item = DirectoryObject(ObjectClass.SITE, {"name": name})
    assert domain.directory_as("alice").create(item, None, None) == (GENERIC, None)
    assert domain.directory.create(item, None, None)[0] is SUCCESS


@pytest.mark.spec("DSSM-5.1.2-a")
def test_who_may_create_queues(domain: Domain) -> None:
    """CREATE_QUEUE on a queue manager is what it takes, and it can be given."""
    manager = domain.queue_manager()
    host = manager.attributes["computer_name"]
    alice = domain.directory_as("alice")
    item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"{host}\\hers"})
    assert alice.create(item, None, None) == (GENERIC, None)
    _, found = domain.directory.read(
        ObjectClass.QUEUE_MANAGER, by_identifier(manager.identifier), ["security"]
    )
    assert found is not None
    old = SecurityDescriptor.decode(found.attributes["security"])
    assert old.dacl is not None
    sid = Sid.decode(domain.look("CN=alice,CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0])
    delegated = Acl.of(*old.dacl.aces, Ace(AceType.ACCESS_ALLOWED, 0x20024, sid))
    change = {"identifier": manager.identifier, "security": SecurityDescriptor(dacl=delegated).encode()}
    wanted = DirectoryObject(ObjectClass.QUEUE_MANAGER, change)
    assert domain.directory.write(wanted, ["security"], None) is SUCCESS
    result, _ = alice.create(item, None, None)
    assert result is SUCCESS, alice.last_failure


def test_failures_are_told_in_words(domain: Domain) -> None:
    alice = domain.directory_as("alice")
    change = DirectoryObject(ObjectClass.ENTERPRISE, {"default_time_to_live_s": 1})
    assert alice.write(change, None, None) is GENERIC
    assert "insufficientAccessRights" in alice.last_failure
