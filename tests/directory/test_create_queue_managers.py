"""Queue managers that are created in the directory, with their settings and certificates."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.manager.model import DirectoryServerType, OperatingSystemType
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.wire.certificates import UserSignCert, UserSignCerts
from tests.directory.items import made, queue_manager, refused
from tests.directory.support import CONFIGURATION, Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
EXISTS = DirectoryResult.OBJECT_ALREADY_EXISTS
RANDOM = uuid4().bytes_le


# --- queue managers -----------------------------------------------------------------------------------------

QUEUE_MANAGER_VALUES: Mapping[str, tuple[str, Any, str, list[bytes]]] = {
    "DSSM-3.1.6.1.1.2-b": ("queue_manager_version", "6.0", "mSMQComputerTypeEx", [b"6.0"]),
    "DSSM-3.1.6.1.1.2-c": ("queue_manager_quota_kb", 0x00100000, "mSMQQuota", [b"1048576"]),
    "DSSM-3.1.6.1.1.2-d": ("journal_quota_kb", 0xFFFFFFFF, "mSMQJournalQuota", [b"-1"]),
    "DSSM-3.1.6.1.1.2-e": ("foreign_system", True, "mSMQForeign", [b"TRUE"]),
    "DSSM-3.1.6.1.1.2-h": ("public_encryption_key_list", b"\1\0keys", "mSMQEncryptKey", [b"\1\0keys"]),
    "DSSM-3.1.6.1.1.5-a": ("routing_server", True, "mSMQServiceType", [b"1"]),
    "DSSM-3.1.6.1.1.5-b": ("remote_access_server", True, "mSMQServiceType", [b"16"]),
}


@pytest.mark.parametrize(
    ("name", "value", "ldap", "expected"),
    [
        pytest.param(*case, marks=pytest.mark.spec(row), id=case[0])
        for row, case in QUEUE_MANAGER_VALUES.items()
    ],
)
def test_attributes_of_a_queue_manager(
    domain: Domain, name: str, value: Any, ldap: str, expected: list[bytes]
) -> None:
    item = domain.queue_manager(**{name: value})
    assert domain.look(item.attributes["full_path"])[ldap] == expected
    result, read = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), [name])
    assert result is SUCCESS
    assert read is not None
    assert read.attributes[name] == value


@pytest.mark.spec("DSSM-3.1.6.1.1.2-f", "DSSM-3.1.6.11.1-i")
def test_a_queue_manager_in_two_sites(domain: Domain) -> None:
    sites = (domain.site()[1], domain.site()[1])
    item = domain.queue_manager(site_identifier_list=sites)
    assert set(domain.look(item.attributes["full_path"])["mSMQSites"]) == set(sites)
    _, read = domain.directory.read(
        ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), ["site_identifier_list"]
    )
    assert read is not None
    assert set(read.attributes["site_identifier_list"]) == set(sites)
    none = domain.queue_manager()
    _, read = domain.directory.read(
        ObjectClass.QUEUE_MANAGER, by_identifier(none.identifier), ["site_identifier_list"]
    )
    assert read is not None
    assert read.attributes["site_identifier_list"] == ()


@pytest.mark.spec("DSSM-3.1.6.1.1.2-g")
def test_the_flags_of_a_server(domain: Domain) -> None:
    item = domain.queue_manager(routing_server=True, directory_server=False, supporting_server=False)
    seen = domain.look(item.attributes["full_path"])
    flags = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")
    assert [seen[name] for name in flags] == [[b"TRUE"], [b"FALSE"], [b"FALSE"]]


@pytest.mark.spec("DSSM-3.1.6.1.1.5-c")
def test_the_bits_of_a_directory_server(domain: Domain) -> None:
    controller = DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER
    first = domain.queue_manager(routing_server=True, directory_server=True, directory_server_type=controller)
    assert domain.look(first.attributes["full_path"])["mSMQServiceType"] == [b"9"]
    alone = domain.queue_manager(directory_server=True, directory_server_type=DirectoryServerType.STANDALONE)
    assert domain.look(alone.attributes["full_path"])["mSMQServiceType"] == [b"0"]


@pytest.mark.spec("DSSM-3.1.6.1.1.4-a")
def test_operating_systems(domain: Domain) -> None:
    kinds = OperatingSystemType
    order = (kinds.OTHER, kinds.FOREIGN, kinds.WIN95, kinds.WIN_CLIENT, kinds.WIN_SERVER, kinds.WIN_ENT)
    stored = []
    for kind in order:
        item = domain.queue_manager(operating_system_type=kind)
        stored += domain.look(item.attributes["full_path"])["mSMQOSType"]
    assert stored == [b"0", b"256", b"512", b"768", b"1024", b"1280"]


@pytest.mark.spec(
    "DSSM-3.1.6.1-a", "DSSM-2.2.1-b", "DSSM-3.1.6.1.1.2-i", "DSSM-3.1.6.12-c", "DSSM-3.1.6.12-d"
)
def test_where_a_queue_manager_is(domain: Domain) -> None:
    computer = domain.computer()
    identifier = made(domain, queue_manager(computer_name=computer, site_identifier_list=()))
    (added,) = domain.trace.sent("addRequest")
    assert added.dn == f"CN=msmq,CN={computer},CN=Computers,DC=msmq,DC=test"
    assert added.fields["objectClass"] == [b"mSMQConfiguration"]
    assert added.controls == []
    seen = domain.look(added.dn)
    assert seen["objectGUID"] == [identifier]
    assert b"mSMQConfiguration" in seen["objectClass"]


@pytest.mark.spec("DSSM-3.1.6.1.1.2-a")
def test_only_what_is_listed_and_known_is_sent(domain: Domain) -> None:
    item = queue_manager(
        computer_name=domain.computer(), site_identifier_list=(), clustered=True, queue_manager_quota_kb=7
    )
    made(domain, item, "site_identifier_list", "clustered", "queue_manager_quota_kb")
    (added,) = domain.trace.sent("addRequest")
    assert set(added.fields) == {"objectClass", "mSMQQuota"}
    domain.trace.clear()
    made(domain, _again(domain, item))
    (added,) = domain.trace.sent("addRequest")
    assert set(added.fields) == {"objectClass", "mSMQQuota", "nTSecurityDescriptor"}


def _again(domain: Domain, item: DirectoryObject) -> DirectoryObject:
    """The same for another computer."""
    again = DirectoryObject(item.object_class, {**item.attributes, "computer_name": domain.computer()})
    domain.trace.clear()
    return again


@pytest.mark.spec("DSSM-3.1.6.1.1.2-j")
def test_a_queue_manager_that_exists_is_left_alone(domain: Domain) -> None:
    first = domain.queue_manager(queue_manager_quota_kb=5)
    again = queue_manager(
        computer_name=first.attributes["computer_name"], site_identifier_list=(), queue_manager_quota_kb=6
    )
    assert made(domain, again) == first.identifier
    assert domain.look(first.attributes["full_path"])["mSMQQuota"] == [b"5"]


@pytest.mark.spec("DSSM-3.1.6.1.1.2-l", "DSSM-3.1.6.12-b")
def test_a_queue_manager_without_a_computer(domain: Domain) -> None:
    _, where = domain.site()
    domain.trace.clear()
    item = queue_manager(computer_name="nobody", site_identifier_list=(where,), routing_server=True)
    assert refused(domain, item) is NOT_FOUND
    assert "addRequest" not in domain.trace.operations


@pytest.mark.parametrize(
    ("name", "ldap"),
    [
        pytest.param(
            "out_routing_server_identifier_list",
            "mSMQOutRoutingServers",
            marks=pytest.mark.spec("DSSM-3.1.6.1.1.6-a", "DSSM-3.1.6.1.1.6-b", "DSSM-3.1.6.11.1.3-a"),
            id="out",
        ),
        pytest.param(
            "in_routing_server_identifier_list",
            "mSMQInRoutingServers",
            marks=pytest.mark.spec("DSSM-3.1.6.1.1.7-a", "DSSM-3.1.6.1.1.7-b", "DSSM-3.1.6.11.1.4-a"),
            id="in",
        ),
    ],
)
def test_routing_servers(domain: Domain, name: str, ldap: str) -> None:
    servers = [domain.queue_manager(), domain.queue_manager()]
    identifiers = tuple(server.identifier for server in servers)
    item = domain.queue_manager(**{name: (*identifiers, RANDOM)})
    paths = {server.attributes["full_path"].encode() for server in servers}
    assert set(domain.look(item.attributes["full_path"])[ldap]) == paths
    _, read = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), [name])
    assert read is not None
    assert set(read.attributes[name]) == set(identifiers)
    lost = domain.queue_manager(**{name: (RANDOM,)})
    assert ldap not in domain.look(lost.attributes["full_path"])


def certificates(count: int) -> UserSignCerts:
    listed = [UserSignCert.of(b"certificate %d" % number, uuid4().bytes_le) for number in range(count)]
    return UserSignCerts(tuple(listed))


@pytest.mark.spec(
    "DSSM-3.1.6.1.1.3-a",
    "DSSM-3.1.6.1.1.9-a",
    "DSSM-3.1.6.1.1.9-b",
    "DSSM-3.1.6.1.1.9-c",
    "DSSM-3.1.6.20.1-b",
    "DSSM-3.1.6.11.1-q",
)
def test_certificates_are_on_the_computer(domain: Domain) -> None:
    computer = domain.computer()
    blob = certificates(3).encode()
    item = queue_manager(computer_name=computer, site_identifier_list=(), public_signing_key_list=blob)
    identifier = made(domain, item)
    (modified,) = domain.trace.sent("modifyRequest")
    assert set(modified.fields) == {"mSMQSignCertificates", "mSMQDigests"}
    seen = domain.look(domain.directory.objects.names.computer(computer))
    assert seen["mSMQSignCertificates"] == [blob]
    expected = {
        hashlib.md5(b"certificate %d" % number, usedforsecurity=False).digest() for number in range(3)
    }
    assert set(seen["mSMQDigests"]) == expected
    configuration = domain.look(domain.directory.objects.names.queue_manager(computer))
    assert not {"mSMQSignCertificates", "mSMQDigests"} & set(configuration)
    for wanted, key in ((blob, identifier), (b"", domain.queue_manager().identifier)):
        _, read = domain.directory.read(
            ObjectClass.QUEUE_MANAGER, by_identifier(key), ["public_signing_key_list"]
        )
        assert read is not None
        assert read.attributes["public_signing_key_list"] == wanted


@pytest.mark.spec(
    "DSSM-2.2.1-h",
    "DSSM-2.2.2-h",
    "DSSM-3.1.6.1.1-a",
    "DSSM-3.1.6.1.1.3-d",
    "DSSM-3.1.6.1.1.3-f",
    "DSSM-3.1.6.1.1.3-g",
    "DSSM-5.1-c",
)
def test_a_server_has_settings_in_each_of_its_sites(domain: Domain) -> None:
    computer = domain.computer()
    sites = [domain.site(), domain.site()]
    for name, _ in sites:
        domain.server(computer, name)
    item = queue_manager(
        computer_name=computer,
        site_identifier_list=tuple(identifier for _, identifier in sites),
        routing_server=True,
        directory_server=False,
        supporting_server=True,
        public_signing_key_list=certificates(1).encode(),
    )
    identifier = made(domain, item)
    changes = [operation for operation in domain.trace.operations if operation != "searchRequest"]
    assert changes == ["addRequest", "modifyRequest", "addRequest", "addRequest"]
    configuration = domain.look(domain.directory.objects.names.queue_manager(computer))
    for added, (name, _) in zip(domain.trace.sent("addRequest")[1:], sites, strict=True):
        prefix = f"CN=MSMQ Settings,CN={computer},CN=Servers,CN={name},"
        assert added.dn == f"{prefix}CN=Sites,{CONFIGURATION}"
        assert "nTSecurityDescriptor" not in added.fields
        seen = domain.look(added.dn)
        assert seen["mSMQQMID"] == [identifier]
        assert seen["mSMQServices"] == configuration["mSMQServiceType"] == [b"1"]
        assert seen["mSMQRoutingService"] == configuration["mSMQRoutingServices"] == [b"TRUE"]
        assert seen["mSMQDsService"] == configuration["mSMQDsServices"] == [b"FALSE"]
        assert seen["mSMQDependentClientService"] == configuration["mSMQDependentClientServices"] == [b"TRUE"]


@pytest.mark.spec("DSSM-3.1.6.1.1.3-c")
def test_a_client_has_no_settings(domain: Domain) -> None:
    name, identifier = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    made(domain, queue_manager(computer_name=computer, site_identifier_list=(identifier,)))
    assert len(domain.trace.sent("addRequest")) == 1


@pytest.mark.spec("DSSM-3.1.6.1.1.3-h")
def test_old_settings_are_replaced(domain: Domain) -> None:
    name, where = domain.site()
    computer = domain.computer()
    path = domain.add(f"CN=MSMQ Settings,{domain.server(computer, name)}", "mSMQSettings", mSMQQMID=RANDOM)
    identifier = made(
        domain, queue_manager(computer_name=computer, site_identifier_list=(where,), routing_server=True)
    )
    assert domain.look(path)["mSMQQMID"] == [identifier]


@pytest.mark.spec("DSSM-3.1.6.1.1.3-j")
def test_settings_need_a_server_object(domain: Domain) -> None:
    computer = domain.computer()
    item = queue_manager(
        computer_name=computer, site_identifier_list=(domain.site()[1],), routing_server=True
    )
    assert refused(domain, item) is NOT_FOUND
    assert domain.exists(domain.directory.objects.names.queue_manager(computer))


def test_a_site_that_is_not_there_has_no_settings(domain: Domain) -> None:
    name, where = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    item = queue_manager(computer_name=computer, site_identifier_list=(RANDOM, where), routing_server=True)
    made(domain, item)
    assert len(domain.trace.sent("addRequest")) == 2


@pytest.mark.spec("DSSM-3.1.6.1.1.8-a", "DSSM-3.1.6.1.1.8-g")
def test_the_descriptor_of_a_queue_manager_knows_its_computer(domain: Domain) -> None:
    computer = domain.computer()
    path = domain.directory.objects.names.computer(computer)
    identifier = made(domain, queue_manager(computer_name=computer, site_identifier_list=()))
    asked = [request for request in domain.trace.sent("searchRequest") if request.dn == path]
    assert any("objectSid" in request.fields["attributes"] for request in asked)
    machine = Sid.decode(domain.look(path, "objectSid")["objectSid"][0])
    _, read = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(identifier), ["security"])
    assert read is not None
    dacl = SecurityDescriptor.decode(read.attributes["security"]).dacl
    assert dacl is not None
    entries = [(ace.mask, ace.sid) for ace in dacl.aces]
    assert entries[0] == (0x20020, EVERYONE)
    assert entries[1] == (0xF00F7, machine)
    creator = domain.look("CN=Administrator,CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0]
    assert (0xF00F7, Sid.decode(creator)) in entries


def test_the_descriptor_of_a_foreign_queue_manager(domain: Domain) -> None:
    alice, bob = (
        Sid.decode(domain.look(f"CN={name},CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0])
        for name in ("alice", "bob")
    )
    supplied = SecurityDescriptor(owner=alice, dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20, bob))).encode()
    item = domain.queue_manager(foreign_system=True, security=supplied)
    _, read = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), ["security"])
    assert read is not None
    dacl = SecurityDescriptor.decode(read.attributes["security"]).dacl
    assert dacl is not None
    entries = {(ace.mask, ace.sid) for ace in dacl.aces}
    assert {(0x20024, EVERYONE), (0xF00F7, alice)} <= entries
    assert bob not in {sid for _, sid in entries}
