"""Creating objects (MS-MQDSSM 3.1.6.1), on a real domain controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from msmq.directory.results import DirectoryFailure
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.manager.model import QueuePrivacyLevel
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from tests.directory.items import host_of, link, made, queue, queue_manager, refused, site
from tests.directory.support import CONFIGURATION, ENTERPRISE_DN, Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
EXISTS = DirectoryResult.OBJECT_ALREADY_EXISTS
RANDOM = uuid4().bytes_le


# --- what is refused before anything is asked ---------------------------------------------------------------

PRECONDITIONS: Mapping[str, tuple[DirectoryObject, tuple[str, ...]]] = {
    "DSSM-3.1.6.1.1.1-a": (queue_manager(computer_name="x", site_identifier_list=()), ("computer_name",)),
    "DSSM-3.1.6.1.1.1-b": (queue_manager(site_identifier_list=()), ()),
    "DSSM-3.1.6.1.1.1-c": (
        queue_manager(computer_name="x", site_identifier_list=()),
        ("site_identifier_list", "connected_network_identifier_list"),
    ),
    "DSSM-3.1.6.1.2.1-a": (queue(pathname="x\\y"), ("label",)),
    "DSSM-3.1.6.1.2.1-b": (queue(pathname="x\\y"), ("pathname", "scope")),
    "DSSM-3.1.6.1.2.1-c": (queue(label="x"), ()),
    "DSSM-3.1.6.1.3.1-a": (site(name="x"), ("security",)),
    "DSSM-3.1.6.1.3.1-b": (site(foreign_site=True), ()),
}


@pytest.mark.parametrize(
    ("item", "listed"),
    [pytest.param(*case, marks=pytest.mark.spec(row), id=row) for row, case in PRECONDITIONS.items()],
)
def test_preconditions(domain: Domain, item: DirectoryObject, listed: tuple[str, ...]) -> None:
    assert refused(domain, item, *listed) is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.1.3.1-c")
@pytest.mark.parametrize("name", ["primary_site_controller", "public_signing_key", "public_signing_key_list"])
def test_a_site_has_no_controller_and_no_key(domain: Domain, name: str) -> None:
    assert refused(domain, site(name="x"), "name", name) is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.1.4.1-a")
@pytest.mark.parametrize("left_out", ["site1_identifier", "site2_identifier", "actual_cost"])
def test_a_link_names_its_ends_and_its_cost(domain: Domain, left_out: str) -> None:
    names = {"site1_identifier", "site2_identifier", "actual_cost"} - {left_out}
    item = link(site1_identifier=RANDOM, site2_identifier=RANDOM, actual_cost=1)
    assert refused(domain, item, *sorted(names)) is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.1.4.1-b")
def test_a_link_has_a_cost(domain: Domain) -> None:
    assert refused(domain, link(site1_identifier=RANDOM, site2_identifier=RANDOM)) is GENERIC


@pytest.mark.spec("DSSM-3.1.6.1-b")
@pytest.mark.parametrize("kind", [ObjectClass.USER, ObjectClass.ENTERPRISE, ObjectClass.CONNECTED_NETWORK])
def test_other_classes_are_not_created(domain: Domain, kind: ObjectClass) -> None:
    assert refused(domain, DirectoryObject(kind, {"name": "x"})) is GENERIC
    assert domain.trace.messages == []


# --- queues -------------------------------------------------------------------------------------------------

TYPE = uuid4().bytes_le
QUEUE_VALUES: list[tuple[str, str, Any, str, list[bytes]]] = [
    ("DSSM-3.1.6.1.2.2-b", "label", "héllo", "mSMQLabelEx", ["héllo".encode()]),
    ("DSSM-3.1.6.1.2.2-c DSSM-2.2.2-l", "type", TYPE, "mSMQQueueType", [TYPE]),
    (
        "DSSM-3.1.6.1.2.2-g",
        "multicast_address",
        "234.1.1.1:8001",
        "MSMQ-MulticastAddress",
        [b"234.1.1.1:8001"],
    ),
    ("DSSM-3.1.6.1.2.2-i", "base_priority", -5, "mSMQBasePriority", [b"-5"]),
    ("", "quota_kb", 100, "mSMQQueueQuota", [b"100"]),
    ("DSSM-2.2.2-k", "quota_kb", 0xFFFFFFFF, "mSMQQueueQuota", [b"-1"]),
    ("", "journal_quota_kb", 0xFFFFFFFF, "mSMQQueueJournalQuota", [b"-1"]),
    ("", "transactional", True, "mSMQTransactional", [b"TRUE"]),
    ("", "privacy_level", QueuePrivacyLevel.BODY, "mSMQPrivacyLevel", [b"2"]),
]


@pytest.mark.parametrize(
    ("name", "value", "ldap", "expected"),
    [
        pytest.param(*case, marks=[pytest.mark.spec(*rows.split())] if rows else [], id=f"{case[0]}-{number}")
        for number, (rows, *case) in enumerate(QUEUE_VALUES)
    ],
)
def test_attributes_of_a_queue(
    domain: Domain, name: str, value: Any, ldap: str, expected: list[bytes]
) -> None:
    item = domain.queue(host_of(domain), **{name: value})
    assert domain.look(item.attributes["full_path"])[ldap] == expected
    _, read = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), [name])
    assert read is not None
    assert read.attributes[name] == value


@pytest.mark.spec("DSSM-3.1.6.1.2.2-e")
def test_quotas_of_a_queue(domain: Domain) -> None:
    seen = domain.look(
        domain.queue(host_of(domain), quota_kb=100, journal_quota_kb=0xFFFFFFFF).attributes["full_path"]
    )
    assert (seen["mSMQQueueQuota"], seen["mSMQQueueJournalQuota"]) == ([b"100"], [b"-1"])


@pytest.mark.spec("DSSM-3.1.6.1.2.2-d", "DSSM-2.2.2-j")
def test_booleans(domain: Domain) -> None:
    seen = domain.look(
        domain.queue(host_of(domain), journaling=True, authentication=False).attributes["full_path"]
    )
    assert (seen["mSMQJournal"], seen["mSMQAuthenticate"]) == ([b"TRUE"], [b"FALSE"])
    with pytest.raises(DirectoryFailure, match=r"\(21\)"):
        domain.add(
            domain.directory.objects.names.queue(f"{host_of(domain)}\\{domain.name()}"),
            "mSMQQueue",
            mSMQJournal="1",
        )


@pytest.mark.spec("DSSM-3.1.6.1.2.4-a")
def test_privacy_levels(domain: Domain) -> None:
    stored = []
    for level in QueuePrivacyLevel:
        item = domain.queue(host_of(domain), privacy_level=level)
        stored += domain.look(item.attributes["full_path"])["mSMQPrivacyLevel"]
    assert stored == [b"0", b"1", b"2"]
    with pytest.raises(DirectoryFailure):
        domain.change(item.attributes["full_path"], mSMQPrivacyLevel="3")


@pytest.mark.spec(
    "DSSM-2.2.1-a", "DSSM-3.1.6.1.2-a", "DSSM-3.1.6.1.2.2-j", "DSSM-3.1.6.1.2.3-a", "DSSM-3.1.6.1.2.5-f"
)
def test_where_a_queue_is(domain: Domain) -> None:
    host, name = host_of(domain), domain.name("q")
    domain.trace.clear()
    identifier = made(domain, queue(pathname=f"{host}\\{name}"))
    assert domain.trace.operations == ["searchRequest", "addRequest", "searchRequest"]
    (added,) = domain.trace.sent("addRequest")
    assert added.dn == f"CN={name},CN=msmq,CN={host},CN=Computers,DC=msmq,DC=test"
    seen = domain.look(added.dn)
    assert seen["objectGUID"] == [identifier]
    assert b"mSMQQueue" in seen["objectClass"]
    assert "mSMQQueueNameExt" not in seen


@pytest.mark.spec("DSSM-2.2.1-l", "DSSM-2.2.6-d", "DSSM-3.1.6.1.2.2-k")
def test_a_queue_twice_or_without_its_queue_manager(domain: Domain) -> None:
    item = domain.queue(host_of(domain))
    assert refused(domain, queue(pathname=item.attributes["pathname"])) is EXISTS
    assert refused(domain, queue(pathname=f"{domain.computer()}\\q")) is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.1.2.2-a")
def test_times_are_not_sent(domain: Domain) -> None:
    made(
        domain,
        queue(pathname=f"{host_of(domain)}\\{domain.name()}", create_time=5, label="x"),
        "pathname",
        "create_time",
    )
    (added,) = domain.trace.sent("addRequest")
    assert set(added.fields) == {"objectClass"}


@pytest.mark.spec("DSSM-2.2.1-k", "DSSM-3.1.6.1.2.5-a")
@pytest.mark.parametrize(
    "name",
    ["a=b", "a#b", "#ab", "a/b", "a<b", "a>b", "a+b", 'a"b', "a,b;c", " a b ", "a(b)*", "ü\u20ac", "a\nb"],
    ids=lambda name: name.encode("unicode_escape").decode(),
)
def test_special_characters(domain: Domain, name: str) -> None:
    unique = f"{name}{domain.name()}" if not name.endswith(" ") else f" {domain.name()} "
    item = domain.queue(host_of(domain), unique)
    assert (
        domain.look(item.attributes["full_path"], "cn")["cn"] == [unique.encode()]
        or _raw_cn(domain, item) == unique
    )
    assert ", " not in item.attributes["full_path"].replace("\\, ", "")
    _, read = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["pathname"])
    assert read is not None
    assert read.attributes["pathname"] == f"{host_of(domain)}\\{unique}".lower()


def _raw_cn(domain: Domain, item: DirectoryObject) -> str:
    """Our own LDIF reader strips blanks at the ends."""
    found = domain.directory.objects.get(item.attributes["full_path"], b"", ["cn"])
    return found["cn"][0].decode()


@pytest.mark.spec("DSSM-3.1.6.1.2.5-b")
def test_a_name_of_63_characters(domain: Domain) -> None:
    name = domain.name("n" * 55)
    assert len(name) == 63
    seen = domain.look(domain.queue(host_of(domain), name).attributes["full_path"])
    assert seen["cn"] == [name.encode()]
    assert "mSMQQueueNameExt" not in seen


@pytest.mark.spec("DSSM-3.1.6.1.2.5-c", "DSSM-3.1.6.1.2.5-d")
def test_long_names(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    seen = domain.look(domain.queue(host, "x" * 100).attributes["full_path"])
    assert seen["cn"] == [b"x" * 55 + b"-afd888b4"]
    assert seen["mSMQQueueNameExt"] == [b"x" * 45]
    seen = domain.look(domain.queue(host, "q" * 64).attributes["full_path"])
    assert seen["cn"] == [b"q" * 55 + b"-a3a15b81"]
    assert seen["mSMQQueueNameExt"] == [b"q" * 9]


@pytest.mark.spec("MQMQ-2.3.1.21-a")
def test_a_name_of_80_characters_has_a_suffix(domain: Domain) -> None:
    name = domain.name("w" * 72)
    assert len(name) == 80
    item = domain.queue(domain.queue_manager().attributes["computer_name"], name)
    seen = domain.look(item.attributes["full_path"])
    assert len(seen["cn"][0]) == 64
    assert seen["cn"][0].decode()[:55] + seen["mSMQQueueNameExt"][0].decode() == name
    _, read = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["pathname"])
    assert read is not None
    assert read.attributes["pathname"] == item.attributes["pathname"].lower()


@pytest.mark.spec("DSSM-2.2.5-a")
def test_long_names_that_differ_at_their_end(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    paths = {domain.queue(host, "y" * 99 + digit).attributes["full_path"] for digit in "12"}
    assert len({domain.look(path, "cn")["cn"][0] for path in paths}) == 2


@pytest.mark.spec("DSSM-3.1.6.1.2.5-e", "DSSM-3.1.6.11.2.1-e", "DSSM-3.1.6.2.2.2-b", "DSSM-3.1.6.7.2.5-a")
def test_a_long_name_reaches_the_same_queue_always(domain: Domain) -> None:
    host = domain.queue_manager().attributes["computer_name"]
    name = "z" * 30 + "=" + "z" * 49 + "=" + "z" * 19
    assert len(name) == 100
    item = domain.queue(host, name)
    assert domain.directory.write(queue(pathname=f"{host}\\{name}", label="found"), None, None) is SUCCESS
    _, read = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["pathname", "label"])
    assert read is not None
    assert read.attributes == {"pathname": f"{host}\\{name}", "label": "found"}
    assert domain.directory.delete(queue(pathname=f"{host}\\{name}"), None) is SUCCESS
    assert not domain.exists(item.attributes["full_path"])


@pytest.mark.spec("DSSM-3.1.6.1.2.2-h")
def test_the_descriptor_of_a_queue(domain: Domain) -> None:
    alice = Sid.decode(domain.look("CN=alice,CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0])
    aces = (Ace(AceType.ACCESS_ALLOWED, 0x3, alice), Ace(AceType.ACCESS_ALLOWED, 0x20024, EVERYONE))
    security = SecurityDescriptor(dacl=Acl.of(*aces)).encode()
    item = domain.queue(host_of(domain), security=security)
    _, read = domain.directory.read(ObjectClass.QUEUE, by_identifier(item.identifier), ["security"])
    assert read is not None
    dacl = SecurityDescriptor.decode(read.attributes["security"]).dacl
    assert dacl is not None
    stored = {(ace.type, ace.mask, ace.sid) for ace in dacl.aces}
    assert stored >= {(ace.type, ace.mask, ace.sid) for ace in aces}
    domain.trace.clear()
    other = queue(pathname=f"{host_of(domain)}\\{domain.name('q')}", security=security)
    assert domain.directory.create(other, ("pathname",), None)[0] is SUCCESS
    (added,) = domain.trace.sent("addRequest")
    assert "nTSecurityDescriptor" not in added.fields  # it was not listed


# --- sites and links ----------------------------------------------------------------------------------------


@pytest.mark.spec("DSSM-3.1.6.1.3-a", "DSSM-3.1.6.1.3.2-a", "DSSM-3.1.6.1.3.2-b", "DSSM-3.1.6.1.3.2-c")
@pytest.mark.spec("DSSM-3.1.6.1.3.3-a", "DSSM-3.1.6.1.3.4-a", "DSSM-2.2.2-o")
def test_a_site(domain: Domain) -> None:
    name = domain.name("site")
    item = site(
        name=name,
        intra_site_replication_interval_s=2,
        inter_site_replication_interval_s=10,
        foreign_site=True,
        migrated_from_msmq10=True,
    )
    made(domain, item)
    assert [name for name in domain.trace.operations if name != "searchRequest"] == ["addRequest"]
    assert domain.trace.operations[-2:] == ["addRequest", "searchRequest"]
    (added,) = domain.trace.sent("addRequest")
    assert added.fields["objectClass"] == [b"site"]
    assert "nTSecurityDescriptor" in added.fields
    seen = domain.look(added.dn)
    assert (seen["mSMQInterval1"], seen["mSMQInterval2"]) == ([b"2"], [b"10"])
    assert (seen["mSMQSiteForeign"], seen["mSMQNt4Stub"]) == ([b"TRUE"], [b"1"])


@pytest.mark.spec("DSSM-3.1.6.1.3.2-d")
def test_sites_are_not_among_the_services(domain: Domain) -> None:
    name, _ = domain.site()
    assert domain.exists(f"CN={name},CN=Sites,{CONFIGURATION}")
    with pytest.raises(DirectoryFailure, match=r"\(64\)"):
        domain.add(f"CN={domain.name()},CN=Services,{CONFIGURATION}", "site")


@pytest.mark.spec("DSSM-3.1.6.1.3.2-e")
def test_a_site_twice(domain: Domain) -> None:
    name, _ = domain.site()
    assert refused(domain, site(name=name)) is EXISTS


@pytest.mark.spec("DSSM-2.2.1-g", "DSSM-3.1.6.1.4-a", "DSSM-3.1.6.1.4.2-a", "DSSM-3.1.6.1.4.2-b")
@pytest.mark.spec("DSSM-3.1.6.1.4.2-c", "DSSM-3.1.6.1.4.2-d", "DSSM-3.1.6.1.4.3-a", "DSSM-3.1.6.1.4.4-a")
@pytest.mark.spec("DSSM-3.1.6.1.4.5-a", "DSSM-3.1.6.1.4.6-a")
def test_a_routing_link(domain: Domain) -> None:
    (name1, site1), (name2, site2) = domain.site(), domain.site()
    gate = domain.queue_manager()
    item = link(
        site1_identifier=site1,
        site2_identifier=site2,
        actual_cost=5,
        description="over the river",
        site_gate_identifier_list=(gate.identifier, RANDOM),
    )
    made(domain, item)
    operations = domain.trace.operations
    assert operations == ["searchRequest"] * 5 + ["addRequest", "searchRequest"]
    (added,) = domain.trace.sent("addRequest")
    cn, _, where = added.dn.partition(",")
    assert where == ENTERPRISE_DN
    assert len(cn) == 3 + 64
    assert cn[3:11] == site1[3::-1].hex().upper()
    assert "nTSecurityDescriptor" not in added.fields
    seen = domain.look(added.dn)
    assert seen["description"] == [b"over the river"]
    assert seen["mSMQCost"] == [b"5"]
    assert seen["mSMQSite1"] == [f"CN={name1},CN=Sites,{CONFIGURATION}".encode()]
    assert seen["mSMQSite2"] == [f"CN={name2},CN=Sites,{CONFIGURATION}".encode()]
    assert seen["mSMQSiteGates"] == [gate.attributes["full_path"].encode()]


@pytest.mark.spec("DSSM-3.1.6.1.4.2-e")
def test_the_same_link_twice_and_the_other_way_round(domain: Domain) -> None:
    one, two = domain.site()[1], domain.site()[1]
    made(domain, link(site1_identifier=one, site2_identifier=two, actual_cost=1))
    assert refused(domain, link(site1_identifier=one, site2_identifier=two, actual_cost=1)) is EXISTS
    made(domain, link(site1_identifier=two, site2_identifier=one, actual_cost=1))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("site1_identifier", marks=pytest.mark.spec("DSSM-3.1.6.1.4.4-b"), id="site1"),
        pytest.param("site2_identifier", marks=pytest.mark.spec("DSSM-3.1.6.1.4.5-b"), id="site2"),
    ],
)
def test_a_link_into_nowhere(domain: Domain, end: str) -> None:
    ends = {"site1_identifier": domain.site()[1], "site2_identifier": domain.site()[1], end: RANDOM}
    domain.trace.clear()
    assert refused(domain, link(actual_cost=1, **ends)) is GENERIC
    assert "addRequest" not in domain.trace.operations


def test_what_is_created_belongs_to_the_caller(domain: Domain) -> None:
    alice = Sid.decode(domain.look("CN=alice,CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0])
    item = queue_manager(computer_name=domain.computer(), site_identifier_list=())
    result, identifier = domain.directory.create(item, None, Token.authenticated(alice))
    assert result is SUCCESS
    assert identifier is not None
    _, read = domain.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(identifier), ["security"])
    assert read is not None
    dacl = SecurityDescriptor.decode(read.attributes["security"]).dacl
    assert dacl is not None
    assert (0xF00F7, alice) in {(ace.mask, ace.sid) for ace in dacl.aces}
