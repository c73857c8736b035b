"""Queries of the directory (MS-MQDSSM): what is found, in which order, by which operator."""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    SortKey,
    by_identifier,
)
from msmq.manager.model import OperatingSystemType, QueuePrivacyLevel
from msmq.wire.certificates import certificate_digest
from tests.directory.support import CONFIGURATION, Domain, every, link, one, parse_ldif, paths

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
END = DirectoryResult.END_OF_DATA
RANDOM = uuid4().bytes_le
EQUALS = Relation.EQUALS
ALICE = "CN=alice,CN=Users,DC=msmq,DC=test"


# --- queries ------------------------------------------------------------------------------------------------


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


def test_a_query_that_is_ended_early_gives_the_connection_back(domain: Domain) -> None:
    for cost in (1, 2, 3):
        link(domain, cost)
    directory = ActiveDirectory(replace(domain.settings(), page_size=1))
    assert directory.initialize()
    result, query = directory.read_begin(ObjectClass.ROUTING_LINK, None, ["actual_cost"], None)
    assert result is SUCCESS
    assert query is not None
    assert directory.read_next(query)[0] is SUCCESS
    assert directory.connection.ref_count == 1, "there are more pages"
    assert directory.read_end(query) is SUCCESS
    assert directory.connection.ref_count == 0


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
    computer = domain.directory.objects.names.computer(domain.computer())
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
