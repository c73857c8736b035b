"""Write Directory (MS-MQDSSM 3.1.6.7), on a real domain controller."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import uuid4

import pytest

from msmq.directory.schema import SETTINGS_OF_CONFIGURATION
from msmq.directory.settings import Password
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from msmq.manager.model import DirectoryServerType, OperatingSystemType, QueuePrivacyLevel
from msmq.security.sid import Sid
from msmq.wire.certificates import UserSignCert, UserSignCerts
from tests.directory.support import CONFIGURATION, DEFAULT_SITE, ENTERPRISE_DN, Domain, read, write

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
REPLACE = 2
RANDOM = uuid4().bytes_le
ALICE = "CN=alice,CN=Users,DC=msmq,DC=test"


@pytest.mark.spec("DSSM-3.1.6.7-b")
def test_there_are_no_connected_networks(domain: Domain) -> None:
    assert write(domain, ObjectClass.CONNECTED_NETWORK, name="x") is GENERIC
    assert domain.trace.messages == []


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER, marks=pytest.mark.spec("DSSM-3.1.6.7.1.1-b"), id="queue-manager"
        ),
        pytest.param(ObjectClass.QUEUE, marks=pytest.mark.spec("DSSM-3.1.6.7.2.1-a"), id="queue"),
        pytest.param(ObjectClass.SITE, marks=pytest.mark.spec("DSSM-3.1.6.7.4.1-b"), id="site"),
        pytest.param(ObjectClass.ROUTING_LINK, marks=pytest.mark.spec("DSSM-3.1.6.7.5.1-a"), id="link"),
        pytest.param(ObjectClass.USER, marks=pytest.mark.spec("DSSM-3.1.6.7.6.1-a"), id="user"),
    ],
)
def test_writing_needs_a_key(domain: Domain, kind: ObjectClass) -> None:
    assert write(domain, kind, label="x") is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.7.1.1-a")
def test_connected_networks_of_a_queue_manager(domain: Domain) -> None:
    name = "connected_network_identifier_list"
    assert write(domain, ObjectClass.QUEUE_MANAGER, name, computer_name="x") is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.7.4.1-a")
@pytest.mark.parametrize("name", ["primary_site_controller", "public_signing_key_list"])
def test_what_a_site_does_not_have(domain: Domain, name: str) -> None:
    assert write(domain, ObjectClass.SITE, name, name=DEFAULT_SITE) is GENERIC
    assert domain.trace.messages == []


# --- queue managers -----------------------------------------------------------------------------------------


@pytest.mark.spec("DSSM-3.1.6.7.1.2-a", "DSSM-3.1.6.16-c")
def test_a_queue_manager_is_written(domain: Domain) -> None:
    item = domain.queue_manager()
    values: dict[str, Any] = {
        "queue_manager_version": "7.1",
        "operating_system_type": OperatingSystemType.WIN_ENT,
        "queue_manager_quota_kb": 77,
        "journal_quota_kb": 0xFFFFFFFF,
        "foreign_system": True,
        "site_identifier_list": (RANDOM,),
        "routing_server": False,
        "directory_server": False,
        "supporting_server": False,
        "remote_access_server": True,
        "public_encryption_key_list": b"keys",
    }
    assert write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **values) is SUCCESS
    (modified,) = domain.trace.sent("modifyRequest")
    assert {operation for operation, _ in modified.fields.values()} == {REPLACE}
    assert modified.fields.keys() == {
        "mSMQComputerTypeEx", "mSMQOSType", "mSMQQuota", "mSMQJournalQuota", "mSMQForeign", "mSMQSites",
        "mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices", "mSMQServiceType", "mSMQEncryptKey",
    }  # fmt: skip
    seen = domain.look(item.attributes["full_path"])
    assert seen["mSMQComputerTypeEx"] == [b"7.1"]
    assert seen["mSMQOSType"] == [b"1280"]
    assert seen["mSMQServiceType"] == [b"16"]
    assert seen["mSMQQuota"] == [b"77"]
    assert seen["mSMQJournalQuota"] == [b"-1"]
    assert seen["mSMQForeign"] == [b"TRUE"]
    assert seen["mSMQSites"] == [RANDOM]
    assert seen["mSMQEncryptKey"] == [b"keys"]
    services = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")
    assert [seen[name] for name in services] == [[b"FALSE"]] * 3
    assert read(domain, ObjectClass.QUEUE_MANAGER, item.identifier, *values) == values
    offered = {
        "routing_server": True,
        "directory_server": True,
        "supporting_server": True,
        "foreign_system": False,
    }
    servers = tuple(domain.queue_manager().identifier for _ in range(2))
    lists = {"out_routing_server_identifier_list": servers, "in_routing_server_identifier_list": servers[:1]}
    assert write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **offered, **lists) is SUCCESS
    seen = domain.look(item.attributes["full_path"])
    assert [seen[name] for name in services] == [[b"TRUE"]] * 3
    assert seen["mSMQForeign"] == [b"FALSE"]
    assert (len(seen["mSMQOutRoutingServers"]), len(seen["mSMQInRoutingServers"])) == (2, 1)
    assert read(domain, ObjectClass.QUEUE_MANAGER, item.identifier, *lists) == lists


@pytest.mark.spec("DSSM-3.1.6.7.1.2-b")
def test_which_queue_manager_is_written(domain: Domain) -> None:
    one, two, three = (domain.queue_manager() for _ in range(3))
    key = {
        "identifier": one.identifier,
        "full_path": two.attributes["full_path"],
        "computer_name": three.attributes["computer_name"],
    }
    kind = ObjectClass.QUEUE_MANAGER
    for item in (one, two, three):
        assert write(domain, kind, "queue_manager_quota_kb", queue_manager_quota_kb=9, **key) is SUCCESS
        assert domain.look(item.attributes["full_path"])["mSMQQuota"] == [b"9"]
        key.pop(next(iter(key)))
    assert write(domain, kind, computer_name="missing", queue_manager_quota_kb=9) is NOT_FOUND


def test_nothing_to_write_is_no_request_to_modify(domain: Domain) -> None:
    item = domain.queue_manager()
    assert write(domain, ObjectClass.QUEUE_MANAGER, "clustered", identifier=item.identifier) is SUCCESS
    assert "modifyRequest" not in domain.trace.operations


@pytest.mark.spec("DSSM-3.1.6.1.1.5-d")
def test_a_role_that_is_not_written_keeps_its_bit(domain: Domain) -> None:
    item = domain.queue_manager(remote_access_server=True)
    assert (
        write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, routing_server=True) is SUCCESS
    )
    assert domain.look(item.attributes["full_path"])["mSMQServiceType"] == [b"17"]


@pytest.mark.parametrize(
    ("name", "ldap"),
    [
        pytest.param(
            "out_routing_server_identifier_list",
            "mSMQOutRoutingServers",
            marks=pytest.mark.spec("DSSM-3.1.6.7.1.6-a"),
            id="out",
        ),
        pytest.param(
            "in_routing_server_identifier_list",
            "mSMQInRoutingServers",
            marks=pytest.mark.spec("DSSM-3.1.6.7.1.7-a"),
            id="in",
        ),
    ],
)
def test_routing_servers_are_written(domain: Domain, name: str, ldap: str) -> None:
    item, server = domain.queue_manager(), domain.queue_manager()
    values = {name: (server.identifier, RANDOM)}
    assert write(domain, ObjectClass.QUEUE_MANAGER, name, identifier=item.identifier, **values) is SUCCESS
    assert domain.look(item.attributes["full_path"])[ldap] == [server.attributes["full_path"].encode()]
    for _ in range(2):
        empty: dict[str, Any] = {name: ()}
        assert write(domain, ObjectClass.QUEUE_MANAGER, name, identifier=item.identifier, **empty) is SUCCESS
        assert ldap not in domain.look(item.attributes["full_path"])


def certificates(*texts: bytes) -> UserSignCerts:
    return UserSignCerts(tuple(UserSignCert.of(text, uuid4().bytes_le) for text in texts))


@pytest.mark.spec("DSSM-3.1.6.7.1.8-a", "DSSM-3.1.6.7.1.10-a", "DSSM-2.2.2-p")
def test_certificates_of_a_queue_manager(domain: Domain) -> None:
    item = domain.queue_manager(public_signing_key_list=certificates(b"old").encode())
    blob = certificates(b"old", b"new")
    values = {"public_signing_key_list": blob.encode()}
    assert write(domain, ObjectClass.QUEUE_MANAGER, *values, identifier=item.identifier, **values) is SUCCESS
    seen = domain.look(domain.directory.objects.names.computer(item.attributes["computer_name"]))
    assert seen["mSMQSignCertificates"] == [blob.encode()]
    assert sorted(seen["mSMQDigests"]) == sorted(entry.digest for entry in blob.certificates)
    sent = {name for request in domain.trace.sent("modifyRequest") for name in request.fields}
    assert sent == {"mSMQSignCertificates", "mSMQDigests"}
    fewer = UserSignCerts(blob.certificates[:1])
    values = {"public_signing_key_list": fewer.encode()}
    assert write(domain, ObjectClass.QUEUE_MANAGER, *values, identifier=item.identifier, **values) is SUCCESS
    seen = domain.look(domain.directory.objects.names.computer(item.attributes["computer_name"]))
    assert seen["mSMQSignCertificates"] == [fewer.encode()]
    assert seen["mSMQDigests"] == [fewer.certificates[0].digest]


def server(domain: Domain, **attributes: Any) -> tuple[DirectoryObject, str]:
    """A queue manager that could be a server, and where its settings would be."""
    name, where = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    item = domain.queue_manager(computer_name=computer, site_identifier_list=(where,), **attributes)
    return item, domain.directory.objects.names.settings(computer, name)


@pytest.mark.spec("DSSM-3.1.6.7.1.9-a", "DSSM-3.1.6.7.1.3-d", "MQMQ-2.3.8.3-a")
def test_settings_come_and_go_with_the_roles(domain: Domain) -> None:
    item, settings = server(domain)
    for role in ("routing_server", "directory_server", "supporting_server"):
        assert not domain.exists(settings)
        assert write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **{role: True}) is SUCCESS
        assert domain.look(settings)["mSMQQMID"] == [item.identifier]
        assert (
            write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **{role: False}) is SUCCESS
        )
    assert not domain.exists(settings)


@pytest.mark.spec("DSSM-3.1.6.20.1-c")
def test_servers_have_settings_whatever_is_written(domain: Domain) -> None:
    item, settings = server(domain)
    random = Random(7)
    roles = dict.fromkeys(("routing_server", "directory_server", "supporting_server"), False)
    for _ in range(12):
        changed = {role: random.random() < 0.4 for role in random.sample(sorted(roles), random.randint(1, 3))}
        roles |= changed
        assert write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **changed) is SUCCESS
        assert domain.exists(settings) is any(roles.values())
        if any(roles.values()):
            configuration, repeated = domain.look(item.attributes["full_path"]), domain.look(settings)
            assert repeated["mSMQQMID"] == configuration["objectGUID"]
            assert repeated["mSMQRoutingService"] == configuration["mSMQRoutingServices"]


@pytest.mark.spec("DSSM-3.1.6.7.1.9-b", "DSSM-3.1.6.7.1.9-c")
def test_settings_are_made_from_what_was_there(domain: Domain) -> None:
    item, settings = server(domain, remote_access_server=True)
    domain.trace.clear()
    assert (
        write(
            domain,
            ObjectClass.QUEUE_MANAGER,
            "routing_server",
            identifier=item.identifier,
            routing_server=True,
        )
        is SUCCESS
    )
    (added,) = domain.trace.sent("addRequest")
    assert added.dn == settings
    assert added.fields["objectClass"] == [b"mSMQSettings"]
    assert added.fields["mSMQQMID"] == [item.identifier]
    seen = domain.look(settings)
    assert (seen["mSMQServices"], seen["mSMQRoutingService"]) == ([b"17"], [b"TRUE"])
    configuration = domain.look(item.attributes["full_path"])
    for setting, attribute in SETTINGS_OF_CONFIGURATION.items():
        assert seen.get(setting) == configuration.get(attribute)


@pytest.mark.spec("DSSM-3.1.6.7.1.4-a", "DSSM-3.1.6.7.1.5-a")
def test_the_system_and_the_bits_of_a_queue_manager(domain: Domain) -> None:
    item = domain.queue_manager(operating_system_type=OperatingSystemType.WIN_ENT)
    values = {
        "operating_system_type": OperatingSystemType.OTHER,
        "directory_server": True,
        "directory_server_type": DirectoryServerType.PRIMARY_SITE_CONTROLLER,
        "routing_server": True,
    }
    assert write(domain, ObjectClass.QUEUE_MANAGER, identifier=item.identifier, **values) is SUCCESS
    seen = domain.look(item.attributes["full_path"])
    assert (seen["mSMQOSType"], seen["mSMQServiceType"]) == ([b"0"], [b"5"])


@pytest.mark.spec("DSSM-3.1.6.7.1.9-d")
def test_settings_that_are_in_the_way(domain: Domain) -> None:
    item, settings = server(domain)
    domain.add(settings, "mSMQSettings")
    values = {"identifier": item.identifier, "routing_server": True}
    assert write(domain, ObjectClass.QUEUE_MANAGER, **values) is DirectoryResult.OBJECT_ALREADY_EXISTS


@pytest.mark.spec("DSSM-3.1.6.7.1.9-f", "DSSM-3.1.6.7.1.9-g")
def test_settings_follow_the_roles(domain: Domain) -> None:
    item, settings = server(domain, routing_server=True)
    kind = ObjectClass.QUEUE_MANAGER
    domain.trace.clear()
    assert write(domain, kind, identifier=item.identifier, remote_access_server=True) is SUCCESS
    assert domain.look(settings)["mSMQServices"] == [b"17"]
    assert set(domain.trace.sent("modifyRequest")[-1].fields) == {"mSMQServices"}
    controller = DirectoryServerType.BACKUP_SITE_CONTROLLER
    values = {"directory_server": True, "directory_server_type": controller}
    assert write(domain, kind, identifier=item.identifier, **values) is SUCCESS
    seen = domain.look(settings)
    assert (seen["mSMQServices"], seen["mSMQDsService"]) == ([b"19"], [b"TRUE"])
    domain.trace.clear()
    assert write(domain, kind, identifier=item.identifier, queue_manager_quota_kb=3) is SUCCESS
    assert [request.dn for request in domain.trace.sent("modifyRequest")] == [item.attributes["full_path"]]


def test_settings_follow_the_sites(domain: Domain) -> None:
    item, settings = server(domain, routing_server=True)
    name, where = domain.site()
    computer = item.attributes["computer_name"]
    domain.server(computer, name)
    values = {"site_identifier_list": (where,)}
    assert write(domain, ObjectClass.QUEUE_MANAGER, *values, identifier=item.identifier, **values) is SUCCESS
    assert not domain.exists(settings)
    assert domain.exists(domain.directory.objects.names.settings(computer, name))


# --- queues -------------------------------------------------------------------------------------------------


@pytest.mark.spec("DSSM-3.1.6.7.2.2-a", "DSSM-3.1.6.1.2.2-f", "DSSM-3.1.6.7.2.4-a")
def test_a_queue_is_written(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    item = domain.queue(host, transactional=True)
    values: dict[str, Any] = {
        "label": "täglich",
        "type": uuid4().bytes_le,
        "journaling": True,
        "quota_kb": 12,
        "journal_quota_kb": 13,
        "authentication": True,
        "privacy_level": QueuePrivacyLevel.BODY,
        "multicast_address": "234.1.1.1:8001",
        "base_priority": 3,
    }
    assert (
        write(domain, ObjectClass.QUEUE, identifier=item.identifier, transactional=False, **values) is SUCCESS
    )
    (modified,) = domain.trace.sent("modifyRequest")
    assert "mSMQTransactional" not in modified.fields
    seen = domain.look(item.attributes["full_path"])
    assert seen["mSMQTransactional"] == [b"TRUE"]
    assert seen["mSMQLabelEx"] == ["täglich".encode()]
    assert seen["mSMQPrivacyLevel"] == [b"2"]
    assert read(domain, ObjectClass.QUEUE, item.identifier, *values) == values


@pytest.mark.spec("DSSM-3.1.6.7-a", "DSSM-3.1.6.7.2.2-b", "DSSM-3.1.6.7.2.2-c", "DSSM-3.1.6.11.2-j")
def test_which_queue_is_written(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"])
    found = read(domain, ObjectClass.QUEUE, item.identifier)
    assert found["directory_path"] == f"LDAP:///{item.attributes['full_path']}"
    keys = {name: found[name] for name in ("identifier", "full_path", "directory_path", "pathname")}
    keys["short directory_path"] = found["directory_path"].replace("///", "//")
    for number, (name, key) in enumerate(keys.items()):
        values = {name.rpartition(" ")[2]: key, "label": f"label {number}"}
        assert write(domain, ObjectClass.QUEUE, "label", **values) is SUCCESS
        assert domain.look(item.attributes["full_path"])["mSMQLabelEx"] == [b"label %d" % number]
    assert write(domain, ObjectClass.QUEUE, label="x", pathname="missing\\queue") is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.7.2.2-d", "DSSM-2.2.2-n")
def test_empty_texts_are_removed(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    item = domain.queue(host, label="something", multicast_address="234.1.1.1:8001")
    assert (
        write(domain, ObjectClass.QUEUE, identifier=item.identifier, label="", multicast_address="")
        is SUCCESS
    )
    (modified,) = domain.trace.sent("modifyRequest")
    assert modified.fields == {"mSMQLabelEx": (REPLACE, []), "MSMQ-MulticastAddress": (REPLACE, [])}
    seen = domain.look(item.attributes["full_path"])
    assert not {"mSMQLabelEx", "MSMQ-MulticastAddress"} & set(seen)
    assert read(domain, ObjectClass.QUEUE, item.identifier, "label") == {"label": ""}
    domain.queue(host, label="")
    empty = domain.queue(host, label="")
    assert "mSMQLabelEx" not in domain.look(empty.attributes["full_path"])


@pytest.mark.spec("DSSM-3.1.6.16-b")
def test_what_is_not_there_is_not_modified(domain: Domain) -> None:
    assert write(domain, ObjectClass.QUEUE, label="x", identifier=RANDOM) is NOT_FOUND
    assert write(domain, ObjectClass.QUEUE, label="x", pathname="missing\\queue") is NOT_FOUND
    assert "modifyRequest" not in domain.trace.operations


@pytest.mark.spec("DSSM-3.1.6.16-d")
def test_all_or_nothing(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"], label="before")
    values = {"label": "after", "multicast_address": "x" * 100_000, "quota_kb": 5}
    long_label = values | {"label": "l" * 200}
    assert write(domain, ObjectClass.QUEUE, identifier=item.identifier, **long_label) is GENERIC
    seen = domain.look(item.attributes["full_path"])
    assert seen["mSMQLabelEx"] == [b"before"]
    assert "mSMQQueueQuota" not in seen


# --- the enterprise, sites, links, users --------------------------------------------------------------------


@pytest.mark.spec("DSSM-3.1.6.7.3.1-a", "DSSM-3.1.6.7.3.2-a", "DSSM-3.1.6.7.3.2-b")
@pytest.mark.spec("DSSM-3.1.6.7.3.2-c", "DSSM-3.1.6.7.3.2-d", "DSSM-3.1.6.7.3.4-a", "DSSM-3.1.6.11.3.2-a")
def test_the_enterprise(enterprise: Domain) -> None:
    domain = enterprise
    for flag in (True, False):
        values = {
            "weakened_security": flag,
            "non_ldap_capable_queue_manager_notification": flag,
            "default_time_to_live_s": 345600 + flag,
            "old_directory": flag,
        }
        domain.trace.clear()
        assert write(domain, ObjectClass.ENTERPRISE, name="another", **values) is SUCCESS
        (modified,) = domain.trace.sent("modifyRequest")
        assert modified.dn == ENTERPRISE_DN
        assert len(modified.fields) == 4
        seen = domain.look(ENTERPRISE_DN)
        assert seen["mSMQNameStyle"] == [b"TRUE" if flag else b"FALSE"]
        assert seen["mSMQCSPName"] == [b"Y" if flag else b"N"]
        assert seen["mSMQLongLived"] == [b"345601" if flag else b"345600"]
        assert seen["mSMQVersion"] == [b"3" if flag else b"200"]
        _, item = domain.directory.read(ObjectClass.ENTERPRISE, None, list(values))
        assert item is not None
        assert item.attributes == values
    domain.change(ENTERPRISE_DN, mSMQNameStyle=[])
    _, item = domain.directory.read(ObjectClass.ENTERPRISE, None, ["weakened_security"])
    assert item is not None
    assert item.attributes == {"weakened_security": False}


@pytest.mark.spec("DSSM-5.1.3-a")
def test_an_ordinary_user_reads_the_enterprise_and_does_not_change_it(domain: Domain) -> None:
    alice = domain.directory_as("alice")
    assert alice.read(ObjectClass.ENTERPRISE, None, None)[0] is SUCCESS
    change = DirectoryObject(ObjectClass.ENTERPRISE, {"default_time_to_live_s": 1})
    assert alice.write(change, None, None) is GENERIC


@pytest.mark.spec("DSSM-3.1.6.7.4.2-a", "DSSM-3.1.6.7.4.2-b")
def test_a_site_is_written(domain: Domain) -> None:
    name, identifier = domain.site()
    path = f"CN={name},CN=Sites,{CONFIGURATION}"
    kind = ObjectClass.SITE
    values = {
        "intra_site_replication_interval_s": 3,
        "inter_site_replication_interval_s": 11,
        "foreign_site": True,
        "migrated_from_msmq10": True,
    }
    assert write(domain, kind, name=name, **values) is SUCCESS
    seen = domain.look(path)
    assert (seen["mSMQInterval1"], seen["mSMQInterval2"]) == ([b"3"], [b"11"])
    assert (seen["mSMQSiteForeign"], seen["mSMQNt4Stub"]) == ([b"TRUE"], [b"1"])
    assert read(domain, kind, identifier, *values) == values
    for key in ({"identifier": identifier}, {"full_path": path}):
        assert write(domain, kind, **key, foreign_site=False) is SUCCESS
        assert domain.look(path)["mSMQSiteForeign"] == [b"FALSE"]
        domain.change(path, mSMQSiteForeign="TRUE")
    assert write(domain, kind, name="missing", foreign_site=True) is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.7.5-a", "DSSM-3.1.6.7.5.2-a", "DSSM-3.1.6.7.5.2-b", "DSSM-3.1.6.7.5.3-a")
@pytest.mark.spec("DSSM-3.1.6.7.5.4-a", "DSSM-3.1.6.7.5.5-a", "DSSM-3.1.6.7.5.6-a")
def test_a_link_is_written(domain: Domain) -> None:
    kind = ObjectClass.ROUTING_LINK
    (_, one), (name2, two), (name3, three) = domain.site(), domain.site(), domain.site()
    gate = domain.queue_manager()
    item = DirectoryObject(kind, {"site1_identifier": one, "site2_identifier": two, "actual_cost": 1})
    _, identifier = domain.directory.create(item, None, None)
    assert identifier is not None
    path = domain.directory.objects.get("", identifier, [])["distinguishedName"][0].decode()
    values = {
        "description": "new",
        "actual_cost": 7,
        "site1_identifier": two,
        "site2_identifier": three,
        "site_gate_identifier_list": (gate.identifier, RANDOM),
    }
    domain.trace.clear()
    assert write(domain, kind, identifier=identifier, **values) is SUCCESS
    assert domain.trace.operations[-1] == "modifyRequest"
    assert len(domain.trace.sent("modifyRequest")) == 1
    assert write(domain, kind, identifier=RANDOM, actual_cost=3) is NOT_FOUND
    seen = domain.look(path)
    assert (seen["description"], seen["mSMQCost"]) == ([b"new"], [b"7"])
    assert seen["mSMQSite1"] == [f"CN={name2},CN=Sites,{CONFIGURATION}".encode()]
    assert seen["mSMQSite2"] == [f"CN={name3},CN=Sites,{CONFIGURATION}".encode()]
    assert seen["mSMQSiteGates"] == [gate.attributes["full_path"].encode()]
    gates = "site_gate_identifier_list"
    assert write(domain, kind, gates, identifier=identifier, site_gate_identifier_list=()) is SUCCESS
    assert "mSMQSiteGates" not in domain.look(path)
    for end in ("site1_identifier", "site2_identifier"):
        assert write(domain, kind, end, identifier=identifier, **{end: RANDOM}) is GENERIC
    change = DirectoryObject(kind, {"identifier": identifier, "actual_cost": 2})
    assert domain.directory_as("alice").write(change, None, None) is GENERIC
    assert domain.look(path)["mSMQCost"] == [b"7"]


@pytest.mark.spec("DSSM-3.1.6.7.6-a", "DSSM-3.1.6.7.6.2-a", "DSSM-3.1.6.7.6.2-b", "DSSM-3.1.6.7.6.2-c")
@pytest.mark.spec("DSSM-3.1.6.7.6.2-d", "DSSM-3.1.6.7.6.3-a", "DSSM-5.1.6-a")
def test_a_user_registers_a_certificate(domain: Domain) -> None:
    name = domain.name("user")
    password = "P@ssw0rd!msmq"
    domain.controller.tool("user", "create", name, password)
    dn = f"CN={name},CN=Users,DC=msmq,DC=test"
    sid = domain.look(dn, "objectSid")["objectSid"][0]
    identifier = domain.look(dn, "objectGUID")["objectGUID"][0]
    own = domain.directory_as(name)
    assert isinstance(own.connection.settings.credential, Password)
    for count, key in enumerate(({"security_identifier": sid}, {"identifier": identifier}), start=1):
        blob = certificates(*(b"certificate %d" % number for number in range(count)))
        digests = tuple(entry.digest for entry in blob.certificates)
        values = {"certificates": blob.encode(), "certificate_digest_list": digests}
        assert own.write(DirectoryObject(ObjectClass.USER, {**key, **values}), None, None) is SUCCESS
        seen = domain.look(dn, "mSMQSignCertificates", "mSMQDigests")
        assert seen["mSMQSignCertificates"] == [blob.encode()]
        assert set(seen["mSMQDigests"]) == set(digests)
        domain.trace.clear()
        assert (
            domain.directory.write(DirectoryObject(ObjectClass.USER, {**key, **values}), None, None)
            is SUCCESS
        )
        (modified,) = domain.trace.sent("modifyRequest")
        assert set(modified.fields) == {"mSMQSignCertificates", "mSMQDigests"}
        searches = domain.trace.sent("searchRequest")
        assert domain.trace.operations == ["searchRequest"] * len(searches) + ["modifyRequest"]
        by_sid = [search for search in searches if "objectSid" in search.fields["filter"]]
        assert len(by_sid) == ("security_identifier" in key)
    alice = DirectoryObject(
        ObjectClass.USER, {"security_identifier": domain.look(ALICE, "objectSid")["objectSid"][0], **values}
    )
    assert own.write(alice, None, None) is GENERIC
    unknown = DirectoryObject(
        ObjectClass.USER, {"security_identifier": Sid.parse("S-1-5-21-1-2-3-4").encode()}
    )
    assert own.write(unknown, None, None) is GENERIC
