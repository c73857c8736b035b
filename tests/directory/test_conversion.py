"""From LDAP values to objects (MS-MQDSSM 3.1.6.11): defaults, errors, and what takes a second look."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from msmq.directory import conversion
from msmq.directory.connection import CachedConnection
from msmq.directory.conversion import Converter
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure
from msmq.directory.schema import KINDS, REQUIRED
from msmq.directory.settings import Password, Settings
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.model import UNLIMITED, DirectoryServerType, OperatingSystemType, QueuePrivacyLevel
from msmq.wire.guid import NULL_GUID
from tests.directory.support import Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
GUID = uuid4().bytes_le
DN = b"CN=Orders,CN=msmq,CN=QM1,CN=Computers,DC=msmq,DC=test"


@pytest.mark.parametrize("name", ["computer_name", "pathname", "identifier", "security"])
def test_what_is_empty_says_nothing(name: str) -> None:
    for value in ("", b"", None, NULL_GUID):
        assert not conversion.populated(DirectoryObject(ObjectClass.QUEUE, {name: value}), name)
    assert conversion.populated(DirectoryObject(ObjectClass.QUEUE, {name: "x"}), name)
    assert conversion.populated(DirectoryObject(ObjectClass.QUEUE, {"label": ""}), "label")


def converter() -> Converter:
    """One that reaches no directory."""
    return Converter(Objects(CachedConnection(Settings((), Password("nobody", "")))))


def element(kind: ObjectClass, *listed: str, **found: list[bytes]) -> dict[str, Any]:
    values = {name.replace("_", "-"): value for name, value in found.items()}
    return converter().element(KINDS[kind], listed, values, {}).attributes


DEFAULTS: list[tuple[str, ObjectClass, str, Any]] = [
    ("DSSM-3.1.6.11.1-c", ObjectClass.QUEUE_MANAGER, "queue_manager_version", ""),
    ("DSSM-3.1.6.11.1-d", ObjectClass.QUEUE_MANAGER, "operating_system_type", OperatingSystemType.OTHER),
    ("DSSM-3.1.6.11.1-f", ObjectClass.QUEUE_MANAGER, "queue_manager_quota_kb", 1048576),
    ("DSSM-3.1.6.11.1-g", ObjectClass.QUEUE_MANAGER, "journal_quota_kb", 0xFFFFFFFF),
    ("DSSM-3.1.6.11.1-h", ObjectClass.QUEUE_MANAGER, "foreign_system", False),
    ("DSSM-3.1.6.11.1-l", ObjectClass.QUEUE_MANAGER, "public_encryption_key_list", b""),
    ("", ObjectClass.QUEUE_MANAGER, "routing_server", False),
    ("", ObjectClass.QUEUE_MANAGER, "remote_access_server", False),
    ("", ObjectClass.QUEUE, "label", ""),
    ("DSSM-3.1.6.11.2-d", ObjectClass.QUEUE, "type", NULL_GUID),
    ("DSSM-3.1.6.11.2-g", ObjectClass.QUEUE, "privacy_level", QueuePrivacyLevel.OPTIONAL),
    ("DSSM-3.1.6.11.2-i", ObjectClass.QUEUE, "base_priority", 0),
]


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        pytest.param(*case, marks=[pytest.mark.spec(row)] if row else [], id=f"{case[0].value}-{case[1]}")
        for row, *case in DEFAULTS
    ],
)
def test_defaults(kind: ObjectClass, name: str, expected: Any) -> None:
    assert element(kind, name) == {name: expected}


@pytest.mark.spec("DSSM-3.1.6.11-b", "DSSM-3.1.6.11.1-t")
@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.value)
def test_each_attribute_without_a_value(kind: ObjectClass) -> None:
    for entry in KINDS[kind].attributes:
        if entry.name == "name" and kind is ObjectClass.ENTERPRISE:
            continue
        if entry.default is REQUIRED:
            with pytest.raises(DirectoryFailure) as caught:
                element(kind, entry.name)
            assert caught.value.result is GENERIC
        elif entry.name != "directory_server_type":
            assert element(kind, entry.name) == {entry.name: entry.default}


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER,
            ("identifier", "full_path"),
            marks=pytest.mark.spec("DSSM-3.1.6.11.1-a"),
        ),
        pytest.param(
            ObjectClass.QUEUE, ("identifier", "full_path"), marks=pytest.mark.spec("DSSM-3.1.6.11.2-a")
        ),
        pytest.param(ObjectClass.QUEUE, ("pathname",), marks=pytest.mark.spec("DSSM-3.1.6.11.2.1-b")),
        pytest.param(
            ObjectClass.QUEUE, ("qualified_pathname",), marks=pytest.mark.spec("DSSM-3.1.6.11.2.2-b")
        ),
        pytest.param(
            ObjectClass.ENTERPRISE, ("identifier", "security"), marks=pytest.mark.spec("DSSM-3.1.6.11.3-a")
        ),
        pytest.param(
            ObjectClass.SITE,
            ("identifier", "name", "full_path", "security"),
            marks=pytest.mark.spec("DSSM-3.1.6.11.4-a"),
        ),
        pytest.param(
            ObjectClass.ROUTING_LINK,
            ("identifier", "full_path", "actual_cost"),
            marks=pytest.mark.spec("DSSM-3.1.6.11.5-a"),
        ),
        pytest.param(
            ObjectClass.USER,
            ("identifier", "security_identifier", "full_path"),
            marks=pytest.mark.spec("DSSM-3.1.6.11.6-a"),
        ),
    ],
)
def test_what_an_object_cannot_be_without(kind: ObjectClass, listed: tuple[str, ...]) -> None:
    for name in listed:
        with pytest.raises(DirectoryFailure) as caught:
            element(kind, name)
        assert caught.value.result is GENERIC


@pytest.mark.spec("DSSM-3.1.6.11-a", "DSSM-3.1.6.11.2.1-a", "DSSM-3.1.6.11.1-b")
def test_fixed_values() -> None:
    found = element(
        ObjectClass.QUEUE,
        "identifier",
        "pathname",
        "quota_kb",
        "journaling",
        objectGUID=[GUID],
        distinguishedName=[DN],
        mSMQQueueQuota=[b"-1"],
        mSMQJournal=[b"TRUE"],
    )
    expected = {"identifier": GUID, "pathname": "qm1\\orders", "quota_kb": UNLIMITED, "journaling": True}
    assert found == expected
    path = b"CN=msmq,CN=QM1,CN=Computers,DC=msmq,DC=test"
    manager = element(ObjectClass.QUEUE_MANAGER, "computer_name", distinguishedName=[path])
    assert manager == {"computer_name": "QM1"}


@pytest.mark.spec("DSSM-3.1.6.11.2-b", "DSSM-3.1.6.11.2-e", "DSSM-3.1.6.11.2-f")
def test_unset_attributes_of_a_queue() -> None:
    expected = {
        "label": "",
        "multicast_address": "",
        "journaling": False,
        "authentication": False,
        "transactional": False,
        "quota_kb": UNLIMITED,
        "journal_quota_kb": UNLIMITED,
    }
    assert element(ObjectClass.QUEUE, *expected) == expected


@pytest.mark.spec("DSSM-3.1.6.11.1-j", "DSSM-3.1.6.11.1-k")
def test_the_roles_of_a_queue_manager() -> None:
    roles = ("routing_server", "directory_server", "supporting_server", "remote_access_server")
    assert element(ObjectClass.QUEUE_MANAGER, *roles) == dict.fromkeys(roles, False)
    found = element(ObjectClass.QUEUE_MANAGER, *roles, mSMQRoutingServices=[b"TRUE"], mSMQServiceType=[b"17"])
    assert found == dict.fromkeys(roles, False) | {"routing_server": True, "remote_access_server": True}


@pytest.mark.spec("DSSM-3.1.6.11.1.5-a", "DSSM-3.1.6.11.1.5-b")
def test_the_type_of_a_directory_server() -> None:
    listed = ("directory_server", "directory_server_type")
    kinds = DirectoryServerType
    expected = {
        b"0": kinds.STANDALONE,
        b"2": kinds.BACKUP_SITE_CONTROLLER,
        b"4": kinds.PRIMARY_SITE_CONTROLLER,
        b"8": kinds.PRIMARY_ENTERPRISE_CONTROLLER,
    }
    for bits, kind in expected.items():
        found = element(ObjectClass.QUEUE_MANAGER, *listed, mSMQDsServices=[b"TRUE"], mSMQServiceType=[bits])
        assert found["directory_server_type"] is kind
    found = element(ObjectClass.QUEUE_MANAGER, *listed, mSMQDsServices=[b"FALSE"], mSMQServiceType=[b"4"])
    assert found == {"directory_server": False}


def test_keys_that_are_empty_say_nothing() -> None:
    item = DirectoryObject(ObjectClass.QUEUE, {"identifier": NULL_GUID, "full_path": "", "label": ""})
    assert [conversion.populated(item, name) for name in ("identifier", "full_path", "label", "type")] == [
        False,
        False,
        True,
        False,
    ]


def test_what_is_no_list_of_certificates_has_no_digests() -> None:
    assert conversion.certificate_attributes(b"keys") == {
        "mSMQSignCertificates": [b"keys"],
        "mSMQDigests": [],
    }
    assert conversion.certificate_attributes(b"") == {"mSMQSignCertificates": [], "mSMQDigests": []}


# --- on a real directory ------------------------------------------------------------------------------------


def read(domain: Domain, identifier: bytes, name: str) -> tuple[DirectoryResult, Any]:
    result, item = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(identifier), [name])
    return result, None if item is None else item.attributes[name]


@pytest.mark.spec("DSSM-3.1.6.11.1.6-a", "DSSM-3.1.6.11.1-s")
def test_clustered(domain: Domain) -> None:
    for names, expected in (
        ([b"MSClusterVirtualServer/x", b"HOST/x"], True),
        ([b"HOST/y"], False),
        ([], False),
    ):
        marked = [name + domain.name().encode() for name in names]
        item = domain.queue_manager(computer_name=domain.computer(servicePrincipalName=marked))
        assert read(domain, item.identifier, "clustered") == (SUCCESS, expected)


@pytest.mark.spec("DSSM-3.1.6.11.1-p", "DSSM-3.1.6.11.1-r", "DSSM-3.1.6.11.2-l")
def test_a_computer_that_says_little(domain: Domain) -> None:
    item = domain.queue_manager(computer_name=domain.computer(dNSHostName=""))
    assert read(domain, item.identifier, "qualified_computer_name") == (GENERIC, None)
    assert read(domain, item.identifier, "operating_system_version") == (SUCCESS, "")
    queue = domain.queue(item.attributes["computer_name"])
    result, found = domain.directory.read(
        ObjectClass.QUEUE, by_identifier(queue.identifier), ["qualified_pathname"]
    )
    assert result is SUCCESS
    assert found is not None
    assert found.attributes == {"qualified_pathname": ""}


@pytest.mark.spec("DSSM-2.2.2-c")
def test_what_is_asked_of_the_computer(domain: Domain) -> None:
    item = domain.queue_manager()
    path = domain.directory.objects.names.computer(item.attributes["computer_name"])
    domain.trace.clear()
    result, _ = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), None)
    assert result is SUCCESS
    (asked,) = [request for request in domain.trace.sent("searchRequest") if request.dn == path]
    always = {"objectGUID", "distinguishedName"}
    expected = {"mSMQSignCertificates", "servicePrincipalName", "dNSHostName", "operatingSystemVersion"}
    assert set(asked.fields["attributes"]) - always == expected


@pytest.mark.spec("DSSM-3.1.6.11.2-k", "DSSM-3.1.6.11.2.2-a", "DSSM-3.1.6.11.2.1-d")
def test_a_qualified_path_name(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    item = domain.queue(host, "a=b")
    domain.trace.clear()
    _, found = domain.directory.read(
        ObjectClass.QUEUE, by_identifier(item.identifier), ["qualified_pathname", "pathname"]
    )
    assert found is not None
    assert found.attributes == {
        "qualified_pathname": f"{host}.msmq.test\\a=b",
        "pathname": f"{host}\\a=b",
    }
    assert domain.trace.operations == ["searchRequest", "searchRequest"]


def test_a_list_asks_for_each_computer_once(domain: Domain) -> None:
    mark = uuid4().bytes_le
    host = domain.queue_manager().attributes["computer_name"]
    for _ in range(5):
        domain.queue(host, type=mark)
    domain.trace.clear()
    wanted = [Expression("type", Relation.EQUALS, mark)]
    _, query = domain.directory.read_begin(ObjectClass.QUEUE, wanted, ["qualified_pathname"], None)
    assert query is not None
    while domain.directory.read_next(query)[0] is SUCCESS:
        pass
    domain.directory.read_end(query)
    assert domain.trace.operations == ["searchRequest"] * 3


@pytest.mark.spec("DSSM-3.1.6.11.2.1-c")
def test_a_name_of_124_characters(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    name = "abcdefghij" * 12 + "klmn"
    item = domain.queue(host, name)
    _, found = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["pathname"])
    assert found is not None
    assert found.attributes == {"pathname": f"{host}\\{name}"}


@pytest.mark.spec("DSSM-3.1.6.11.2-c")
def test_times_are_the_servers(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"])
    _, found = domain.directory.read(
        ObjectClass.QUEUE, by_identifier(item.identifier), ["create_time", "modify_time"]
    )
    assert found is not None
    seen = domain.look(item.attributes["full_path"], "whenCreated", "whenChanged")
    for name, ldap in (("create_time", "whenCreated"), ("modify_time", "whenChanged")):
        text = datetime.fromtimestamp(found.attributes[name], UTC).strftime("%Y%m%d%H%M%S.0Z")
        assert seen[ldap] == [text.encode()]


@pytest.mark.spec("DSSM-3.1.6.11.1-m", "DSSM-3.1.6.11.2-h", "DSSM-3.1.6.14-e")
def test_an_ordinary_user_reads_descriptors(domain: Domain) -> None:
    manager = domain.queue_manager()
    queue = domain.queue(manager.attributes["computer_name"])
    alice = domain.directory_as("alice")
    for kind, item in ((ObjectClass.QUEUE_MANAGER, manager), (ObjectClass.QUEUE, queue)):
        result, found = alice.read(kind, by_identifier(item.identifier), ["security"])
        assert result is SUCCESS
        assert found is not None
        assert found.attributes["security"]
        path = item.attributes["full_path"]
        assert "nTSecurityDescriptor" not in domain.look(path)
        with alice.connection.use():
            (seen,) = alice.connection.search(path, attributes=["*"])
            assert seen.get("nTSecurityDescriptor") == []
            (named,) = alice.connection.search(path, attributes=["nTSecurityDescriptor"])
            assert named.get("nTSecurityDescriptor")
