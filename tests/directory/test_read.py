"""Reading objects (MS-MQDSSM 3.1.6.3 to 3.1.6.6), on a real domain controller."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from msmq.directory.names import Names
from msmq.directory.schema import KINDS
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel
from msmq.security.sid import Sid
from tests.directory.support import (
    CONFIGURATION,
    DEFAULT_SITE,
    ENTERPRISE_DN,
    Domain,
    every,
    link,
    one,
    paths,
)

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
END = DirectoryResult.END_OF_DATA
RANDOM = uuid4().bytes_le
EQUALS = Relation.EQUALS
ALICE = "CN=alice,CN=Users,DC=msmq,DC=test"


def names(domain: Domain) -> Names:
    return domain.directory.objects.names


# --- Read Directory -----------------------------------------------------------------------------------------


@pytest.mark.spec("DSSM-3.1.6.3-a")
def test_reading_changes_nothing(domain: Domain) -> None:
    item = domain.queue_manager()
    before = domain.look(item.attributes["full_path"], "uSNChanged")
    one(domain, ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier))
    assert domain.look(item.attributes["full_path"], "uSNChanged") == before


@pytest.mark.spec("DSSM-3.1.6.3-b", "DSSM-3.1.6.19-a", "DSSM-3.1.6.19-e")
def test_an_identifier_or_a_path_is_read_at_once(domain: Domain) -> None:
    item = domain.queue_manager()
    for condition in (
        Expression("identifier", EQUALS, item.identifier),
        Expression("full_path", EQUALS, item.attributes["full_path"]),
    ):
        domain.trace.clear()
        found = one(domain, ObjectClass.QUEUE_MANAGER, [condition], "full_path")
        assert found.attributes["full_path"] == item.attributes["full_path"]
        assert {request.fields["scope"] for request in domain.trace.sent("searchRequest")} == {0}
    assert domain.directory.read(ObjectClass.QUEUE, by_identifier(RANDOM), None) == (NOT_FOUND, None)


@pytest.mark.spec("DSSM-2.2.6-b")
def test_a_path_that_leads_nowhere(domain: Domain) -> None:
    missing = [Expression("full_path", EQUALS, "CN=missing,DC=msmq,DC=test")]
    assert domain.directory.read(ObjectClass.QUEUE, missing, None) == (NOT_FOUND, None)


@pytest.mark.spec(
    "DSSM-3.1.6.3-c", "DSSM-3.1.6.15-h", "DSSM-3.1.6.15-i", "DSSM-3.1.6.3.1-c", "DSSM-3.1.6.3.1-d"
)
def test_anything_else_is_searched_for(domain: Domain) -> None:
    sid = domain.look(ALICE, "objectSid")["objectSid"][0]
    domain.trace.clear()
    found = one(domain, ObjectClass.USER, [Expression("security_identifier", EQUALS, sid)], "full_path")
    assert found.attributes["full_path"] == ALICE
    search = domain.trace.sent("searchRequest")[-1]
    assert search.fields["scope"] == 2
    assert search.fields["time_limit"] == 120
    assert search.fields["size_limit"] == 0
    assert search.fields["deref"] == 0
    assert search.fields["filter"].startswith("(&(objectClass=user)(objectSid=")
    unknown = [Expression("security_identifier", EQUALS, Sid.parse("S-1-5-21-1-2-3-4").encode())]
    for _ in range(20):
        assert domain.directory.read(ObjectClass.USER, unknown, None) == (NOT_FOUND, None)
    assert domain.directory.reading.iterators == {}


@pytest.mark.spec("DSSM-3.1.6.3.1-a")
def test_the_first_of_several(domain: Domain) -> None:
    label = domain.name("label")
    host = domain.queue_manager().attributes["computer_name"]
    both = {domain.queue(host, label=label).identifier for _ in range(2)}
    assert one(domain, ObjectClass.QUEUE, [Expression("label", EQUALS, label)]).identifier in both
    assert domain.directory.reading.iterators == {}


@pytest.mark.spec("DSSM-3.1.6.3-e", "DSSM-3.1.6.4-c")
def test_connected_networks_are_not_read(domain: Domain) -> None:
    kind = ObjectClass.CONNECTED_NETWORK
    assert domain.directory.read(kind, by_identifier(RANDOM), None) == (GENERIC, None)
    assert domain.directory.read_begin(kind, None, None, None) == (GENERIC, None)
    assert domain.trace.messages == []
    assert domain.directory.reading.iterators == {}


@pytest.mark.spec("DSSM-3.1.6.3-f")
def test_only_what_was_asked_for(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"], label="x")
    assert one(domain, ObjectClass.QUEUE, by_identifier(item.identifier), "label").attributes == {
        "label": "x"
    }


@pytest.mark.parametrize(
    ("kind", "listed"),
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER,
            "connected_network_identifier_list",
            marks=pytest.mark.spec("DSSM-3.1.6.3.2.1-a", "DSSM-3.1.6.4.1.1-a"),
            id="queue-manager",
        ),
        pytest.param(
            ObjectClass.SITE,
            "primary_site_controller",
            marks=pytest.mark.spec("DSSM-3.1.6.3.5.1-a", "DSSM-3.1.6.4.4.1-a"),
            id="site-controller",
        ),
        pytest.param(
            ObjectClass.SITE,
            "public_signing_key",
            marks=pytest.mark.spec("DSSM-3.1.6.3.5.1-a", "DSSM-3.1.6.4.4.1-a"),
            id="site-key",
        ),
    ],
)
def test_what_cannot_be_asked_for(domain: Domain, kind: ObjectClass, listed: str) -> None:
    assert domain.directory.read(kind, by_identifier(RANDOM), [listed]) == (GENERIC, None)
    assert domain.directory.read_begin(kind, None, [listed], None) == (GENERIC, None)
    assert domain.trace.messages == []


BY_HAND: dict[ObjectClass, tuple[str, str, dict[str, str], dict[str, Any]]] = {
    ObjectClass.QUEUE_MANAGER: (
        "CN=msmq",
        "mSMQConfiguration",
        {"mSMQQuota": "33", "mSMQRoutingServices": "TRUE", "mSMQOSType": "1024"},
        {
            "queue_manager_quota_kb": 33,
            "routing_server": True,
            "operating_system_type": OperatingSystemType.WIN_SERVER,
        },
    ),
    ObjectClass.QUEUE: (
        "CN=Orders",
        "mSMQQueue",
        {"mSMQLabelEx": "by hand", "mSMQQueueQuota": "-1", "mSMQPrivacyLevel": "0"},
        {"label": "by hand", "quota_kb": 0xFFFFFFFF, "privacy_level": QueuePrivacyLevel.NONE},
    ),
    ObjectClass.SITE: ("", "site", {"mSMQInterval1": "4"}, {"intra_site_replication_interval_s": 4}),
    ObjectClass.USER: ("", "user", {}, {"certificates": b"", "certificate_digest_list": ()}),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER,
            marks=pytest.mark.spec("DSSM-3.1.6.3.2-a", "DSSM-3.1.6.3.2.2-a"),
            id="queue-manager",
        ),
        pytest.param(
            ObjectClass.QUEUE, marks=pytest.mark.spec("DSSM-3.1.6.3.3-a", "DSSM-3.1.6.3.3.2-a"), id="queue"
        ),
        pytest.param(
            ObjectClass.SITE, marks=pytest.mark.spec("DSSM-3.1.6.3.5-a", "DSSM-3.1.6.3.5.2-a"), id="site"
        ),
        pytest.param(
            ObjectClass.USER, marks=pytest.mark.spec("DSSM-3.1.6.3.7-a", "DSSM-3.1.6.3.7.2-a"), id="user"
        ),
    ],
)
def test_objects_made_by_hand(domain: Domain, kind: ObjectClass) -> None:
    element, ldap_class, given, expected = BY_HAND[kind]
    parent = f"CN=Sites,{CONFIGURATION}"
    if kind is ObjectClass.USER:
        parent = "CN=Users,DC=msmq,DC=test"
    elif kind is not ObjectClass.SITE:
        parent = names(domain).computer(domain.computer())
    if kind is ObjectClass.QUEUE:
        parent = domain.add(f"CN=msmq,{parent}", "mSMQConfiguration")
    dn = domain.add(f"{element or 'CN=' + domain.name()},{parent}", ldap_class, **given)
    identifier = domain.look(dn, "objectGUID")["objectGUID"][0]
    by_guid = one(domain, kind, by_identifier(identifier))
    by_path = one(domain, kind, [Expression("full_path", EQUALS, dn)])
    assert by_guid == by_path
    assert {name: by_guid.attributes[name] for name in expected} == expected
    assert by_guid.identifier == identifier
    assert by_guid.attributes["full_path"] == dn
    assert set(by_guid.attributes) >= set(KINDS[kind].names) - {"directory_server_type"}
    assert domain.directory.read(kind, by_identifier(RANDOM), None) == (NOT_FOUND, None)


@pytest.mark.spec("DSSM-3.1.6.3-d", "DSSM-3.1.6.3.4-a", "DSSM-3.1.6.3.4.2-a", "DSSM-2.2.1-e", "DSSM-2.2.3-a")
@pytest.mark.spec("DSSM-2.2.3-b", "DSSM-3.1.6.10.3-a", "DSSM-3.1.6.11.3-b", "DSSM-3.1.6.11.3-d", "DSSM-6-a")
@pytest.mark.spec("DSSM-3.1.6.11.3.1-a", "DSSM-3.1.6.15-d", "DSSM-3.1.6.4.3-a")
def test_the_enterprise(enterprise: Domain) -> None:
    domain = enterprise
    seen = domain.look(ENTERPRISE_DN)
    assert b"mSMQEnterpriseSettings" in seen["objectClass"]
    assert not {"mSMQLongLived", "mSMQNameStyle", "mSMQCSPName"} & set(seen)
    found = one(domain, ObjectClass.ENTERPRISE, None)
    assert set(found.attributes) == set(KINDS[ObjectClass.ENTERPRISE].names)
    assert found.identifier == seen["objectGUID"][0]
    assert found.attributes["name"] == "DC=msmq,DC=test"
    assert found.attributes["default_time_to_live_s"] == 345_600
    assert found.attributes["weakened_security"] is False
    assert found.attributes["non_ldap_capable_queue_manager_notification"] is True
    assert found.attributes["old_directory"] is False
    by_guid = one(domain, ObjectClass.ENTERPRISE, by_identifier(found.identifier))
    by_path = one(domain, ObjectClass.ENTERPRISE, [Expression("full_path", EQUALS, ENTERPRISE_DN)])
    assert found == by_guid == by_path
    assert len(every(domain, ObjectClass.ENTERPRISE, listed=("identifier",))) == 1
    assert domain.directory.read(ObjectClass.ENTERPRISE, by_identifier(RANDOM), None) == (NOT_FOUND, None)


@pytest.mark.spec("DSSM-3.1.6.11.1.1-a")
def test_the_computer_of_a_queue_manager_is_read_from_its_distinguished_name(domain: Domain) -> None:
    for name in (domain.name("plain"), domain.name("a,b=c")):
        item = domain.queue_manager(
            computer_name=domain.computer(name, sAMAccountName=domain.name("q") + "$")
        )
        found = one(domain, ObjectClass.QUEUE_MANAGER, by_identifier(item.identifier), "computer_name")
        assert found.attributes == {"computer_name": name}


@pytest.mark.spec("DSSM-3.1.6.11.3-c")
def test_an_old_directory(enterprise: Domain) -> None:
    for stored, expected in (("200", False), ("3", True), ([], True)):
        enterprise.change(ENTERPRISE_DN, mSMQVersion=stored)
        found = one(enterprise, ObjectClass.ENTERPRISE, None, "old_directory")
        assert found.attributes == {"old_directory": expected}


@pytest.mark.spec("DSSM-3.1.6.4.3.2-c", "DSSM-3.1.6.4.3.2-d", "DSSM-3.1.6.4.3.4-a", "DSSM-3.1.6.4.3.5-a")
def test_looking_for_the_enterprise(enterprise: Domain) -> None:
    domain, kind = enterprise, ObjectClass.ENTERPRISE
    for stored, old in (("200", False), ("3", True)):
        domain.change(ENTERPRISE_DN, mSMQVersion=stored)
        for asked in (False, True):
            found = every(domain, kind, ("old_directory", EQUALS, asked), listed=("identifier",))
            assert len(found) == (asked is old)
    domain.change(ENTERPRISE_DN, mSMQNameStyle="TRUE", mSMQCSPName="N", mSMQLongLived="77")
    identifier = domain.look(ENTERPRISE_DN, "objectGUID")["objectGUID"][0]
    for conditions in (
        [("identifier", EQUALS, identifier), ("default_time_to_live_s", EQUALS, 77)],
        [("weakened_security", EQUALS, True)],
        [("non_ldap_capable_queue_manager_notification", EQUALS, False)],
    ):
        found = every(domain, kind, *conditions, listed=("identifier",))
        assert [item.identifier for item in found] == [identifier]
    assert every(domain, kind, ("weakened_security", EQUALS, False), listed=("identifier",)) == []


@pytest.mark.spec("DSSM-2.2.1-d", "DSSM-3.1.6.11.4-b", "DSSM-3.1.6.11.4-c", "DSSM-3.1.6.11.4-d")
@pytest.mark.spec("DSSM-3.1.6.4.4.2-c", "DSSM-3.1.6.15-e")
def test_the_first_site(domain: Domain) -> None:
    path = names(domain).site(DEFAULT_SITE)
    found = one(domain, ObjectClass.SITE, [Expression("full_path", EQUALS, path)])
    assert found.attributes["name"] == DEFAULT_SITE
    assert found.attributes["intra_site_replication_interval_s"] == 2
    assert found.attributes["inter_site_replication_interval_s"] == 10
    assert found.attributes["foreign_site"] is False
    assert found.attributes["migrated_from_msmq10"] is False
    assert paths(every(domain, ObjectClass.SITE, ("name", EQUALS, DEFAULT_SITE))) == [path]


@pytest.mark.spec("DSSM-3.1.6.3.6-a", "DSSM-3.1.6.3.6.2-a", "DSSM-3.1.6.11.5-b", "DSSM-3.1.6.11.5-c")
@pytest.mark.spec(
    "DSSM-3.1.6.11.5.1-a", "DSSM-3.1.6.11.5.2-a", "DSSM-3.1.6.11.5.3-a", "DSSM-2.2.2-g", "DSSM-2.2.2-m"
)
@pytest.mark.spec("DSSM-3.1.6.11.5.3-b")
def test_a_link_made_by_hand(domain: Domain) -> None:
    """A gate that was deleted is skipped (ruling A4)."""
    kind = ObjectClass.ROUTING_LINK
    (name1, site1), (name2, site2) = domain.site(), domain.site()
    gate = domain.queue_manager()
    ends = {
        "mSMQSite1": f"CN={name1},CN=Sites,{CONFIGURATION}",
        "mSMQSite2": f"CN={name2},CN=Sites,{CONFIGURATION}",
    }
    dn = f"CN={domain.name()},{ENTERPRISE_DN}"
    with pytest.raises(Exception, match=r"\(65\)"):
        domain.add(dn, "mSMQSiteLink", **ends)
    with pytest.raises(Exception, match=r"\(19\)"):
        domain.add(dn, "mSMQSiteLink", mSMQCost="5", **{**ends, "mSMQSite1": "CN=nowhere,DC=msmq,DC=test"})
    domain.add(dn, "mSMQSiteLink", mSMQCost="5", **ends)
    identifier = domain.look(dn, "objectGUID")["objectGUID"][0]
    expected = {
        "identifier": identifier,
        "description": "",
        "full_path": dn,
        "actual_cost": 5,
        "site1_identifier": site1,
        "site2_identifier": site2,
        "site_gate_identifier_list": (),
    }
    for condition in (Expression("identifier", EQUALS, identifier), Expression("full_path", EQUALS, dn)):
        assert one(domain, kind, [condition]).attributes == expected
    domain.change(dn, mSMQSiteGates=gate.attributes["full_path"])
    expected["site_gate_identifier_list"] = (gate.identifier,)
    assert one(domain, kind, by_identifier(identifier)).attributes == expected
    assert domain.directory.read(kind, by_identifier(RANDOM), None) == (NOT_FOUND, None)
    domain.remove(gate.attributes["full_path"])
    expected["site_gate_identifier_list"] = ()
    assert one(domain, kind, by_identifier(identifier)).attributes == expected
    domain.directory.delete(DirectoryObject(kind, {"identifier": identifier}), None)


@pytest.mark.spec("DSSM-3.1.6.3.2.2-b", "DSSM-3.1.6.3.2.2-c", "DSSM-3.1.6.4.1.2-c", "DSSM-3.1.6.11.1-n")
def test_attributes_that_imply_others(domain: Domain) -> None:
    item = domain.queue_manager(directory_server=True)
    kind = ObjectClass.QUEUE_MANAGER
    domain.trace.clear()
    found = one(domain, kind, by_identifier(item.identifier), "clustered")
    assert found.attributes == {"clustered": False, "full_path": item.attributes["full_path"]}
    first, second = domain.trace.sent("searchRequest")
    assert "distinguishedName" in first.fields["attributes"]
    assert second.dn == names(domain).computer(item.attributes["computer_name"])
    domain.trace.clear()
    found = one(domain, kind, by_identifier(item.identifier), "directory_server_type")
    assert set(found.attributes) == {"directory_server", "directory_server_type"}
    assert {"mSMQDsServices", "mSMQServiceType"} <= set(
        domain.trace.sent("searchRequest")[0].fields["attributes"]
    )
    domain.trace.clear()
    one(domain, kind, by_identifier(item.identifier), "journal_quota_kb")
    assert domain.trace.operations == ["searchRequest"]
    for each in every(domain, kind, ("identifier", EQUALS, item.identifier), listed=("clustered",)):
        assert each.attributes["full_path"] == item.attributes["full_path"]


@pytest.mark.spec("DSSM-3.1.6.3.3.1-a", "DSSM-3.1.6.3.4.1-a", "DSSM-3.1.6.3.6.1-a", "DSSM-3.1.6.3.7.1-a")
@pytest.mark.spec("DSSM-3.1.6.4.2.1-a", "DSSM-3.1.6.4.3.1-a", "DSSM-3.1.6.4.5.1-a", "DSSM-3.1.6.4.6.1-a")
@pytest.mark.parametrize(
    "kind",
    [ObjectClass.QUEUE, ObjectClass.ENTERPRISE, ObjectClass.ROUTING_LINK, ObjectClass.USER],
    ids=lambda kind: kind.value,
)
def test_any_list_may_be_asked_of_these(domain: Domain, kind: ObjectClass) -> None:
    domain.queue(domain.queue_manager().attributes["computer_name"])
    link(domain, 1)
    for item in every(domain, kind, listed=("scope", "nonsense"))[:1]:
        assert item.attributes == {}
    assert domain.directory.read(kind, None, ["scope"])[0] is SUCCESS
