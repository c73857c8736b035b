"""Reading objects (MS-MQDSSM 3.1.6.3 to 3.1.6.6), on a real domain controller."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import pytest

from msmq.directory.names import Names
from msmq.directory.schema import KINDS
from msmq.directory.threads import find_all
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    SortKey,
    by_identifier,
)
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel
from msmq.security.sid import Sid
from msmq.wire.certificates import certificate_digest
from tests.directory.support import CONFIGURATION, DEFAULT_SITE, ENTERPRISE_DN, Domain, parse_ldif

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
END = DirectoryResult.END_OF_DATA
RANDOM = uuid4().bytes_le
EQUALS = Relation.EQUALS
ALICE = "CN=alice,CN=Users,DC=msmq,DC=test"


def names(domain: Domain) -> Names:
    return domain.directory.objects.names


def one(domain: Domain, kind: ObjectClass, conditions: Filter | None, *listed: str) -> DirectoryObject:
    result, item = domain.directory.read(kind, conditions, listed or None)
    assert result is SUCCESS, domain.directory.last_failure
    assert item is not None
    return item


def every(
    domain: Domain,
    kind: ObjectClass,
    *conditions: tuple[str, Relation, Any],
    listed: tuple[str, ...] = ("full_path",),
    order: dict[str, SortKey] | None = None,
) -> list[DirectoryObject]:
    result, found = find_all(
        domain.directory, kind, [Expression(*condition) for condition in conditions] or None, listed, order
    )
    assert result is SUCCESS, domain.directory.last_failure
    return found


def paths(found: list[DirectoryObject]) -> list[str]:
    return [item.attributes["full_path"] for item in found]


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


@pytest.mark.spec("DSSM-3.1.6.11.3-c")
def test_an_old_directory(enterprise: Domain) -> None:
    for stored, expected in (("200", False), ("3", True), ([], True)):
        enterprise.change(ENTERPRISE_DN, mSMQVersion=stored)
        found = one(enterprise, ObjectClass.ENTERPRISE, None, "old_directory")
        assert found.attributes == {"old_directory": expected}


@pytest.mark.spec("DSSM-3.1.6.4.3.2-c", "DSSM-3.1.6.4.3.2-d", "DSSM-3.1.6.4.3.4-a", "DSSM-3.1.6.4.3.5-a")
def test_looking_for_the_enterprise(enterprise: Domain) -> None:
    domain, kind = enterprise, ObjectClass.ENTERPRISE
    assert len(every(domain, kind, ("old_directory", EQUALS, False), listed=("identifier",))) == 1
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


# --- queries ------------------------------------------------------------------------------------------------


def link(domain: Domain, cost: int) -> DirectoryObject:
    attributes = {
        "site1_identifier": domain.site()[1],
        "site2_identifier": domain.site()[1],
        "actual_cost": cost,
    }
    item = DirectoryObject(ObjectClass.ROUTING_LINK, attributes)
    result, identifier = domain.directory.create(item, None, None)
    assert result is SUCCESS
    item.attributes["identifier"] = identifier
    return item


@pytest.mark.spec("DSSM-3.1.6.4-a", "DSSM-3.1.6.4-d", "DSSM-3.1.6.5-a", "DSSM-3.1.6.5-b", "DSSM-3.1.6.5-c")
@pytest.mark.spec("DSSM-3.1.6.6-a", "DSSM-3.1.6.6-b", "DSSM-3.1.1.2-a", "DSSM-3.1.1.2-b", "DSSM-3.1.1.3-a")
def test_a_query(domain: Domain) -> None:
    label = domain.name("label")
    host = domain.queue_manager().attributes["computer_name"]
    expected = {domain.queue(host, label=label).identifier for _ in range(3)}
    directory = domain.directory
    wanted = [Expression("label", EQUALS, label)]
    result, query = directory.read_begin(ObjectClass.QUEUE, wanted, ["identifier", "label"], None)
    _, other = directory.read_begin(ObjectClass.QUEUE, wanted, None, None)
    assert result is SUCCESS
    assert query is not None
    assert other is not None
    assert query != other
    assert len(directory.reading.iterators) == 2
    state = directory.reading.iterators[query]
    for sublist in state.ldap_state:
        assert list(sublist)[: len(state.ldap_attribute_list)] == list(state.ldap_attribute_list)
    found = set()
    for _ in range(3):
        result, item = directory.read_next(query)
        assert result is SUCCESS
        assert item is not None
        found.add(item.identifier)
    assert found == expected
    assert directory.read_next(query) == (END, None)
    assert directory.read_next(query) == (END, None)
    assert directory.read_end(query) is SUCCESS
    assert len(directory.reading.iterators) == 1
    assert directory.read_end(query) is GENERIC
    assert directory.read_next(query) == (GENERIC, None)
    assert directory.read_end(other) is SUCCESS


@pytest.mark.spec("DSSM-3.1.6.4-b", "DSSM-3.1.6.4.2.3-a")
def test_results_in_order(domain: Domain) -> None:
    mark = uuid4().bytes_le
    host = domain.queue_manager().attributes["computer_name"]
    for label, quota in (("b", 5), ("a", 5), ("C", 9), ("d", 0xFFFFFFFF)):
        domain.queue(host, label=label, quota_kb=quota, type=mark)
    order = {"quota_kb": SortKey(2, ascending=False), "label": SortKey(1), "type": SortKey(0)}
    listed = ("quota_kb", "label", "type")
    found = every(domain, ObjectClass.QUEUE, ("type", EQUALS, mark), listed=listed, order=order)
    assert [item.attributes["label"] for item in found] == ["d", "C", "a", "b"]
    plain = every(domain, ObjectClass.QUEUE, ("type", EQUALS, mark), listed=listed)
    assert {item.attributes["label"] for item in plain} == {"a", "b", "C", "d"}


SORTED: dict[ObjectClass, tuple[str, str]] = {
    ObjectClass.QUEUE_MANAGER: ("queue_manager_quota_kb", "clustered"),
    ObjectClass.QUEUE: ("quota_kb", "scope"),
    ObjectClass.ENTERPRISE: ("default_time_to_live_s", "name"),
    ObjectClass.SITE: ("name", "nonsense"),
    ObjectClass.ROUTING_LINK: ("actual_cost", "nonsense"),
    ObjectClass.USER: ("security_identifier", "nonsense"),
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            marks=pytest.mark.spec(
                f"DSSM-3.1.6.4.{number}.2-a", f"DSSM-3.1.6.4.{number}.2-b", f"DSSM-3.1.6.4.{number}.3-a"
            ),
            id=kind.value,
        )
        for number, kind in enumerate(SORTED, start=1)
    ],
)
def test_sorting_passes_over_what_has_no_attribute(domain: Domain, kind: ObjectClass) -> None:
    host = domain.queue_manager(queue_manager_quota_kb=4).attributes["computer_name"]
    domain.queue_manager(queue_manager_quota_kb=2)
    for quota in (3, 1, 2):
        domain.queue(host, quota_kb=quota)
        link(domain, quota)
    by, without = SORTED[kind]
    for ascending in (True, False):
        order = {"full_path": SortKey(1), without: SortKey(2), by: SortKey(3, ascending)}
        found = every(domain, kind, listed=tuple(order), order=order)
        values = [item.attributes[by] for item in found]
        key = (lambda value: value.casefold()) if isinstance(values[0], str) else None
        assert values == sorted(values, key=key, reverse=not ascending)
    assert domain.directory.reading.iterators == {}
    nothing = [Expression("identifier", EQUALS, RANDOM), Expression("full_path", EQUALS, "CN=x,DC=y")]
    result, query = domain.directory.read_begin(kind, nothing, None, None)
    assert result is SUCCESS
    assert query is not None
    assert domain.directory.read_next(query) == (END, None)
    assert domain.directory.read_end(query) is SUCCESS
    offline = type(domain.directory)(domain.settings())
    assert offline.read_begin(kind, None, None, None) == (DirectoryResult.DIRECTORY_NOT_CONNECTED, None)


@pytest.mark.parametrize(
    ("kind", "ldap_class"),
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER,
            "mSMQConfiguration",
            marks=pytest.mark.spec("DSSM-3.1.6.4.1-a"),
            id="managers",
        ),
        pytest.param(
            ObjectClass.QUEUE,
            "mSMQQueue",
            marks=pytest.mark.spec("DSSM-3.1.6.4.2-a", "DSSM-3.1.6.4-f", "DSSM-3.1.6.15-c"),
            id="queues",
        ),
        pytest.param(ObjectClass.SITE, "site", marks=pytest.mark.spec("DSSM-3.1.6.4.4-a"), id="sites"),
        pytest.param(
            ObjectClass.ROUTING_LINK,
            "mSMQSiteLink",
            marks=pytest.mark.spec("DSSM-3.1.6.4.5-a", "DSSM-3.1.6.15-f"),
            id="links",
        ),
        pytest.param(
            ObjectClass.USER,
            "user",
            marks=pytest.mark.spec("DSSM-3.1.6.4.6-a", "DSSM-3.1.6.15-k"),
            id="users",
        ),
    ],
)
def test_everything_of_a_class(domain: Domain, kind: ObjectClass, ldap_class: str) -> None:
    """Others may be making and removing objects meanwhile: what was there before and after must be found."""
    domain.queue(domain.queue_manager().attributes["computer_name"])
    link(domain, 1)

    def seen() -> set[str]:
        found = set()
        for base in ("DC=msmq,DC=test", CONFIGURATION):
            text = domain.controller.ldapsearch(base, "objectGUID", conditions=f"(objectClass={ldap_class})")
            found |= {entry["objectGUID"][0].hex() for entry in parse_ldif(text)}
        return found

    before = seen()
    found = {item.identifier.hex() for item in every(domain, kind, listed=("identifier",))}
    after = seen()
    assert before & after <= found <= before | after


@pytest.mark.spec("DSSM-3.1.6.4-g")
def test_each_operator(domain: Domain) -> None:
    mark = uuid4().bytes_le
    host = domain.queue_manager().attributes["computer_name"]
    for quota in (1, 5, 9, 0x90000000, 0xFFFFFFFF):
        domain.queue(host, quota_kb=quota, type=mark)

    def quotas(relation: Relation, value: int) -> set[int]:
        conditions = [("type", EQUALS, mark), ("quota_kb", relation, value)]
        return {
            item.attributes["quota_kb"]
            for item in every(domain, ObjectClass.QUEUE, *conditions, listed=("quota_kb",))
        }

    large = {0x90000000, 0xFFFFFFFF}
    assert quotas(Relation.EQUALS, 5) == {5}
    assert quotas(Relation.NOT_EQUALS, 5) == {1, 9} | large
    assert quotas(Relation.LESS_THAN, 5) == {1}
    assert quotas(Relation.LESS_THAN_OR_EQUAL, 5) == {1, 5}
    assert quotas(Relation.GREATER_THAN, 5) == {9} | large
    assert quotas(Relation.GREATER_THAN_OR_EQUAL, 5) == {5, 9} | large
    assert quotas(Relation.LESS_THAN, 0xFFFFFFFF) == {1, 5, 9, 0x90000000}
    assert quotas(Relation.GREATER_THAN_OR_EQUAL, 0xFFFFFFFF) == {0xFFFFFFFF}


@pytest.mark.spec("DSSM-3.1.6.4.1.2-d", "DSSM-3.1.6.4.1.2-e", "DSSM-3.1.6.4.1.2-f", "DSSM-3.1.6.4.1.2-g")
@pytest.mark.spec("DSSM-3.1.6.4.1.2-h", "DSSM-3.1.6.4.1.2-i")
def test_looking_for_queue_managers(domain: Domain) -> None:
    where = uuid4().bytes_le
    kind = ObjectClass.QUEUE_MANAGER
    first = domain.queue_manager(
        site_identifier_list=(where,), journal_quota_kb=5, operating_system_type=OperatingSystemType.WIN_ENT
    )
    second = domain.queue_manager(site_identifier_list=(where,), journal_quota_kb=6)
    domain.change(second.attributes["full_path"], mSMQRoutingServices="TRUE")
    here = ("site_identifier_list", EQUALS, where)
    one_path, two_path = first.attributes["full_path"], second.attributes["full_path"]
    assert set(paths(every(domain, kind, here))) == {one_path, two_path}
    both = [("full_path", EQUALS, one_path), ("journal_quota_kb", EQUALS, 5)]
    assert paths(every(domain, kind, *both)) == [one_path]
    assert paths(
        every(domain, kind, here, ("operating_system_type", EQUALS, OperatingSystemType.WIN_ENT))
    ) == [one_path]
    assert paths(every(domain, kind, here, ("routing_server", EQUALS, True))) == [two_path]
    name = ("computer_name", EQUALS, first.attributes["computer_name"])
    assert paths(every(domain, kind, name)) == [one_path]
    domain.trace.clear()
    long_ago = ("create_time", Relation.GREATER_THAN_OR_EQUAL, 1_600_000_000)
    assert set(paths(every(domain, kind, here, long_ago))) == {one_path, two_path}
    assert "(whenCreated>=20200913122640.0Z)" in domain.trace.sent("searchRequest")[-1].fields["filter"]
    assert every(domain, kind, here, ("create_time", Relation.LESS_THAN, 1_600_000_000)) == []


@pytest.mark.spec("DSSM-3.1.6.4.2.2-c", "DSSM-3.1.6.4.2.2-d", "DSSM-3.1.6.4.2.2-e", "DSSM-3.1.6.4.2.2-f")
@pytest.mark.spec("DSSM-3.1.6.4.2.2-g", "DSSM-3.1.6.4.2.2-h")
def test_looking_for_queues(domain: Domain) -> None:
    mark = uuid4().bytes_le
    kind = ObjectClass.QUEUE
    host = domain.queue_manager().attributes["computer_name"]
    first = domain.queue(host, "first", label="Orders", type=mark, transactional=True)
    second = domain.queue(host, "second", label="other", type=mark, privacy_level=QueuePrivacyLevel.BODY)
    here = ("type", EQUALS, mark)
    one_path, two_path = first.attributes["full_path"], second.attributes["full_path"]
    assert paths(every(domain, kind, here, ("label", EQUALS, "oRDERS"))) == [one_path]
    later = int(time.time()) + 3600
    assert len(every(domain, kind, here, ("modify_time", Relation.LESS_THAN, later))) == 2
    assert paths(every(domain, kind, here, ("transactional", EQUALS, True))) == [one_path]
    assert paths(every(domain, kind, here, ("privacy_level", EQUALS, QueuePrivacyLevel.BODY))) == [two_path]
    assert paths(every(domain, kind, ("pathname", EQUALS, f"{host}\\SECOND"))) == [two_path]
    assert every(domain, kind, here, ("journaling", EQUALS, False)) == []


@pytest.mark.spec("DSSM-3.1.6.4.4.2-d")
def test_looking_for_foreign_sites(domain: Domain) -> None:
    name = domain.name("site")
    domain.directory.create(
        DirectoryObject(ObjectClass.SITE, {"name": name, "foreign_site": True}), None, None
    )
    found = every(domain, ObjectClass.SITE, ("foreign_site", EQUALS, True), listed=("name", "foreign_site"))
    assert name in {item.attributes["name"] for item in found}
    assert {item.attributes["foreign_site"] for item in found} == {True}


@pytest.mark.spec("DSSM-3.1.6.4.5.2-c", "DSSM-3.1.6.4.5.2-d", "DSSM-3.1.6.4.5.4-a", "DSSM-3.1.6.4.5.5-a")
@pytest.mark.spec("DSSM-3.1.6.4.5.4-b", "DSSM-3.1.6.4.5.5-b", "DSSM-3.1.6.4-e")
def test_looking_for_links(domain: Domain) -> None:
    kind = ObjectClass.ROUTING_LINK
    cheap, dear = link(domain, 2), link(domain, 8)
    ends = {item.identifier: item for item in (cheap, dear)}
    found = {
        item.identifier
        for item in every(domain, kind, ("actual_cost", Relation.LESS_THAN, 5), listed=("identifier",))
    }
    assert found & set(ends) == {cheap.identifier}
    ignored = every(domain, kind, ("site_gate_identifier_list", EQUALS, RANDOM), listed=("identifier",))
    assert set(ends) <= {item.identifier for item in ignored}
    for name in ("site1_identifier", "site2_identifier"):
        found_here = every(domain, kind, (name, EQUALS, dear.attributes[name]), listed=("identifier",))
        assert [item.identifier for item in found_here] == [dear.identifier]
        bad = [Expression(name, EQUALS, RANDOM)]
        assert domain.directory.read_begin(kind, bad, None, None) == (GENERIC, None)
    assert domain.directory.reading.iterators == {}


@pytest.mark.spec("DSSM-3.1.6.4.6.2-c", "DSSM-3.1.6.4.6.2-d", "DSSM-3.1.1.4-a", "DSSM-3.1.6.11.6-b")
def test_looking_for_users(domain: Domain) -> None:
    digest = certificate_digest(domain.name().encode())
    user = domain.add(f"CN={domain.name()},CN=Users,DC=msmq,DC=test", "user", mSMQDigests=[digest])
    computer = names(domain).computer(domain.computer())
    domain.change(computer, mSMQDigests=[digest])
    found = every(domain, ObjectClass.USER, ("certificate_digest_list", EQUALS, digest))
    assert set(paths(found)) == {user, computer}
    sid = domain.look(user, "objectSid")["objectSid"][0]
    (found_user,) = every(
        domain, ObjectClass.USER, ("security_identifier", EQUALS, sid), listed=("full_path", "certificates")
    )
    assert found_user.attributes == {"full_path": user, "certificates": b""}


@pytest.mark.spec("DSSM-3.1.6.5-d")
def test_an_object_that_cannot_be_read_is_passed_over(domain: Domain) -> None:
    mark = uuid4().bytes_le
    host = domain.queue_manager().attributes["computer_name"]
    for quota in (1, 2, 3):
        domain.queue(host, quota_kb=quota, type=mark)
    order = {"quota_kb": SortKey(1)}
    wanted = [Expression("type", EQUALS, mark)]
    _, query = domain.directory.read_begin(ObjectClass.QUEUE, wanted, ["quota_kb", "identifier"], order)
    assert query is not None
    domain.directory.reading.iterators[query].ldap_state[1]["objectGUID"] = []
    results = [domain.directory.read_next(query)[0] for _ in range(4)]
    assert results == [SUCCESS, GENERIC, SUCCESS, END]
    domain.directory.read_end(query)


@pytest.mark.spec("DSSM-3.1.1-a")
def test_what_was_read_is_a_copy(domain: Domain) -> None:
    item = domain.queue(domain.queue_manager().attributes["computer_name"], label="x")
    first = one(domain, ObjectClass.QUEUE, by_identifier(item.identifier))
    first.attributes["label"] = "changed"
    assert one(domain, ObjectClass.QUEUE, by_identifier(item.identifier)).attributes["label"] == "x"


def test_injection(domain: Domain) -> None:
    """Names full of the marks of RFC 4514 and 4515 find themselves and nothing else."""
    host = domain.queue_manager().attributes["computer_name"]
    nasty = '*)(objectClass=*)(|(cn=\\00,DC=x+y"<>;=#/ '
    label = f"*)(mSMQLabelEx=*) {domain.name()}\\"
    item = domain.queue(host, nasty, label=label)
    domain.queue(host, label="innocent")
    kind = ObjectClass.QUEUE
    assert [
        found.identifier for found in every(domain, kind, ("label", EQUALS, label), listed=("identifier",))
    ] == [item.identifier]
    path = ("pathname", EQUALS, f"{host}\\{nasty}")
    assert [found.identifier for found in every(domain, kind, path, listed=("identifier",))] == [
        item.identifier
    ]
    assert every(domain, kind, ("label", EQUALS, "*"), listed=("identifier",)) == []


SPECIAL = '"+,;<>\\=#*() '
"""Every character that RFC 4514 or RFC 4515 escapes; the nul, which no name can have, comes by itself."""


def test_each_special_character_is_stored_and_found(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    mark, kind = domain.name(), ObjectClass.QUEUE
    made = {}
    for character in SPECIAL:
        name, label = f"{character}{mark}{character}{character}", f"{character}{mark}{character}"
        made[character] = domain.queue(host, name, label=label).identifier
    assert len(set(made.values())) == len(SPECIAL)
    for character, identifier in made.items():
        name, label = f"{character}{mark}{character}{character}", f"{character}{mark}{character}"
        for condition in (("pathname", EQUALS, f"{host}\\{name}"), ("label", EQUALS, label)):
            (found,) = every(domain, kind, condition, listed=("identifier", "label", "pathname"))
            assert (found.identifier, found.attributes["label"]) == (identifier, label)
            assert found.attributes["pathname"] == f"{host}\\{name}".lower()
    for nobody in (f"*{mark}", f"{mark}*", f"\\2a{mark}", f"\0{mark}", f"{mark})(cn=*"):
        assert every(domain, kind, ("label", EQUALS, nobody), listed=("identifier",)) == []
        assert every(domain, kind, ("pathname", EQUALS, f"{host}\\{nobody}"), listed=("identifier",)) == []
