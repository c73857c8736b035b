"""The directory events: publishing, reading online and offline, coming back, and the elements that are
published."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import DsError
from msmq.manager.directory import (
    ONLINE_CHECK_S,
    Change,
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Published,
    Relation,
    SortKey,
    by_identifier,
    directory_object,
    element_of,
    queue_object,
)
from msmq.manager.initialization import SITE_GATES_UPDATE_S, SITES_UPDATE_S
from msmq.manager.model import (
    ConnectedNetwork,
    Enterprise,
    QueueManagerRecord,
    QueueType,
    RoutingLink,
    Site,
    User,
)
from msmq.manager.queue_manager import Settings
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import (
    Token,
)
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, EVERYONE, Sid
from msmq.wire.access_masks import ConnectedNetworkAccessMask, EnterpriseAccessMask, SiteAccessMask
from tests.manager.domain import ENTERPRISE, SITE, DomainHost, guid
from tests.manager.support import Host

SUCCESS, NOT_FOUND = DirectoryResult.SUCCESS, DirectoryResult.OBJECT_NOT_FOUND
NOT_CONNECTED = DirectoryResult.DIRECTORY_NOT_CONNECTED
QUEUE, QUEUE_MANAGER = ObjectClass.QUEUE, ObjectClass.QUEUE_MANAGER


def public_queue(host: DomainHost, name: str = "orders", **attributes: Any) -> Queue:
    return host.manager.queues.create(QueueRequest(f".\\{name}", **attributes))


def foreign_queue(name: str = "far", **attributes: Any) -> DirectoryObject:
    queue = Queue(0, f"ELSEWHERE\\{name}", QueueType.PUBLIC, identifier=guid())
    item = queue_object(queue)
    item.attributes |= attributes
    return item


@pytest.fixture
def host() -> DomainHost:
    return DomainHost()


@pytest.fixture
def events(host: DomainHost) -> DirectoryEvents:
    return host.manager.directory


# --- create, delete, write ----------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.18-a")
def test_create_gives_the_identifier_the_directory_chose(host: DomainHost, events: DirectoryEvents) -> None:
    item = foreign_queue(label="far away")
    result, identifier = events.create(item)
    assert result is SUCCESS
    assert identifier not in (None, item.identifier)
    assert host.directory.find(QUEUE, identifier=identifier, label="far away") is not None

    part = foreign_queue("part")
    _, identifier = events.create(part, ("pathname", "label"))
    found = host.directory.find(QUEUE, identifier=identifier)
    assert found is not None
    assert "quota_kb" not in found.attributes


@pytest.mark.spec("DMPR-3.1.7.1.18-b")
def test_others_hear_of_a_new_public_queue_before_it_is_published(host: DomainHost) -> None:
    queue = public_queue(host)
    host.queue("secret")
    assert [(change, item.attributes["pathname"]) for change, item in host.notifications] == [
        (Change.QUEUE_CREATION, queue.pathname)
    ]
    assert not any(host.notifications[0][1].identifier), "the directory had not been asked yet"


@pytest.mark.spec("DMPR-3.1.7.1.18-d", "DMPR-3.1.7.1.24-d")
def test_the_directory_is_asked_even_about_old_hosts(host: DomainHost, events: DirectoryEvents) -> None:
    """Delegating to MS-MQDS is what Windows XP and before do; this project is neither."""
    host.directory.put(QueueManagerRecord(guid(), "ELSEWHERE", operating_system_version="5.0"))
    assert host.core.enterprise is not None
    assert host.core.enterprise.non_ldap_capable_queue_manager_notification
    item = foreign_queue()
    host.directory.calls.clear()
    _, identifier = events.create(item)
    item.attributes["identifier"] = identifier
    assert events.write(item) is SUCCESS
    assert events.delete(item) is SUCCESS
    assert host.directory.calls == [("create", QUEUE), ("write", QUEUE), ("delete", QUEUE)]


@pytest.mark.spec("DMPR-3.1.7.1.19-a")
def test_what_is_deleted_cannot_be_read(host: DomainHost, events: DirectoryEvents) -> None:
    item = host.directory.put(foreign_queue())
    assert events.read(QUEUE, by_identifier(item.identifier))[0] is SUCCESS
    assert events.delete(item) is SUCCESS
    assert events.read(QUEUE, by_identifier(item.identifier))[0] is NOT_FOUND
    assert events.delete(item) is NOT_FOUND


@pytest.mark.spec("DMPR-3.1.7.1.19-b")
def test_others_hear_of_a_queue_that_goes(host: DomainHost) -> None:
    queue = public_queue(host)
    host.notifications.clear()
    host.manager.queues.delete(queue)
    assert [(change, item.identifier) for change, item in host.notifications] == [
        (Change.QUEUE_DELETION, queue.identifier)
    ]


@pytest.mark.spec("DMPR-3.1.7.1.24-a")
def test_what_is_written_can_be_read(host: DomainHost, events: DirectoryEvents) -> None:
    queue = public_queue(host, label="old")
    queue.label, queue.quota_kb = "new", 7
    assert events.write(queue_object(queue), ("label",)) is SUCCESS
    _, found = events.read(QUEUE, by_identifier(queue.identifier), ("label", "quota_kb"))
    assert found is not None
    assert found.attributes == {"label": "new", "quota_kb": 0xFFFFFFFF}
    assert events.write(queue_object(queue)) is SUCCESS
    _, found = events.read(QUEUE, by_identifier(queue.identifier), ("label", "quota_kb"))
    assert found is not None
    assert found.attributes == {"label": "new", "quota_kb": 7}


@pytest.mark.spec("DMPR-3.1.7.1.24-c")
def test_others_hear_of_writes_that_succeeded(host: DomainHost, events: DirectoryEvents) -> None:
    queue = public_queue(host)
    host.notifications.clear()
    events.write(queue_object(queue))
    events.write(directory_object(host.core.record))
    events.write(directory_object(host.core.sites[0]))
    events.write(foreign_queue())  # the directory does not know it
    host.directory.connected = False
    events.write(queue_object(queue))
    assert [(change, item.identifier) for change, item in host.notifications] == [
        (Change.QUEUE_UPDATE, queue.identifier),
        (Change.QUEUE_MANAGER_UPDATE, host.core.record.identifier),
    ]


@pytest.mark.spec("DMPR-3.1.1.6-c")
@pytest.mark.parametrize("wanted", [True, False])
def test_the_enterprise_decides_whether_others_are_told(wanted: bool) -> None:
    host = DomainHost(notifications=wanted)
    queue = public_queue(host)
    host.notifications.clear()
    assert host.manager.directory.write(queue_object(queue)) is SUCCESS
    assert bool(host.notifications) is wanted


@pytest.mark.spec("DMPR-3.1.7.1.18-c", "DMPR-3.1.7.1.19-c", "DMPR-3.1.7.1.24-b")
@pytest.mark.parametrize("event", ["create", "delete", "write"])
def test_a_lost_directory_is_noticed(host: DomainHost, event: str) -> None:
    events, item = host.manager.directory, foreign_queue()
    host.directory.connected = False
    for _ in range(2):  # the second time the timer runs already
        answer = getattr(events, event)(item)
        assert (answer[0] if isinstance(answer, tuple) else answer) is NOT_CONNECTED
        assert host.core.directory_offline
    host.directory.calls.clear()
    host.advance(ONLINE_CHECK_S)
    assert host.directory.calls == [("read", QUEUE_MANAGER)], "one timer, one check"


@pytest.mark.spec("DMPR-3.1.1.6-b")
@pytest.mark.parametrize("weakened", [True, False])
def test_weakened_security_lends_the_queue_managers_rights(host: DomainHost, weakened: bool) -> None:
    host.enterprise.attributes["weakened_security"] = weakened
    host.restart()
    host.directory.writers = set()
    user = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1000"), [ADMINISTRATORS])
    request = QueueRequest(".\\orders")
    if weakened:
        host.manager.queues.create(request, user)
        assert host.directory.find(QUEUE, pathname="HOST\\orders") is not None
    else:
        with pytest.raises(DsError):
            host.manager.queues.create(request, user)
        assert host.directory.find(QUEUE, pathname="HOST\\orders") is None


# --- read ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.20-a", "DMPR-3.1.7.1.20-f")
def test_read_gives_the_one_object_and_the_attributes_asked_for(
    host: DomainHost, events: DirectoryEvents
) -> None:
    first, second = (host.directory.put(foreign_queue(name, label=name)) for name in ("one", "two"))
    host.directory.calls.clear()
    result, found = events.read(QUEUE, by_identifier(second.identifier), ("identifier", "label"))
    assert result is SUCCESS
    assert found is not None
    assert found.attributes == {"identifier": second.identifier, "label": "two"}
    assert host.directory.calls == [("read", QUEUE)]

    _, found = events.read(QUEUE, None)
    assert found is not None
    assert found.attributes == first.attributes
    assert events.read(QUEUE, by_identifier(guid())) == (NOT_FOUND, None)


@pytest.mark.spec("DMPR-3.1.7.1.20-b")
@pytest.mark.parametrize(
    ("relation", "wanted"),
    [
        (Relation.EQUALS, {20}),
        (Relation.NOT_EQUALS, {10, 30}),
        (Relation.LESS_THAN, {10}),
        (Relation.GREATER_THAN, {30}),
        (Relation.LESS_THAN_OR_EQUAL, {10, 20}),
        (Relation.GREATER_THAN_OR_EQUAL, {20, 30}),
    ],
)
def test_filters(host: DomainHost, events: DirectoryEvents, relation: Relation, wanted: set[int]) -> None:
    for cost in (10, 20, 30):
        host.directory.put(RoutingLink(guid(), f"link {cost}", actual_cost=cost))
    expression = Expression("actual_cost", relation, 20)
    assert {link.actual_cost for link in links(events, [expression])} == wanted
    both = [expression, Expression("actual_cost", Relation.NOT_EQUALS, 10)]
    assert {link.actual_cost for link in links(events, both)} == wanted - {10}


def links(events: DirectoryEvents, conditions: Any, sort_order: Any = None) -> list[RoutingLink]:
    result, query = events.read_begin(ObjectClass.ROUTING_LINK, conditions, None, sort_order)
    assert result is SUCCESS
    assert query is not None
    found = []
    while (answer := events.read_next(query))[0] is SUCCESS:
        assert answer[1] is not None
        found.append(element_of(RoutingLink, answer[1]))
    assert answer == (DirectoryResult.END_OF_DATA, None)
    events.read_end(query)
    return found


@pytest.mark.spec("DMPR-3.1.7.1.20-c")
def test_offline_our_own_queues_are_known(host: DomainHost, events: DirectoryEvents) -> None:
    queue = public_queue(host, label="ours")
    theirs = host.directory.put(foreign_queue())
    host.lose_directory()
    host.directory.calls.clear()
    result, found = events.read(QUEUE, by_identifier(queue.identifier))
    assert result is SUCCESS
    assert found is not None
    assert found.attributes["label"] == "ours"
    assert events.read(QUEUE, by_identifier(theirs.identifier)) == (NOT_FOUND, None)
    assert host.directory.calls == []


@pytest.mark.spec("DMPR-3.1.7.1.20-d")
def test_offline_we_are_known(host: DomainHost, events: DirectoryEvents) -> None:
    host.lose_directory()
    result, found = events.read(QUEUE_MANAGER, by_identifier(host.core.record.identifier))
    assert result is SUCCESS
    assert found == directory_object(host.core.record)


@pytest.mark.spec("DMPR-3.1.7.1.20-e")
def test_offline_nothing_else_is_known(host: DomainHost, events: DirectoryEvents) -> None:
    host.lose_directory()
    host.directory.calls.clear()
    assert events.read(ObjectClass.SITE, by_identifier(SITE)) == (NOT_CONNECTED, None)
    assert events.read(QUEUE_MANAGER, by_identifier(guid())) == (NOT_CONNECTED, None)
    assert host.directory.calls == []


@pytest.mark.spec("DMPR-3.1.7.1.20-g")
def test_a_read_notices_a_lost_directory_unless_it_is_forced(
    host: DomainHost, events: DirectoryEvents
) -> None:
    host.directory.connected = False
    deadline = host.manager.core.timers.next_deadline
    assert events.read(ObjectClass.SITE, None, force=True) == (NOT_CONNECTED, None)
    assert not host.core.directory_offline
    assert host.manager.core.timers.next_deadline == deadline
    assert events.read(ObjectClass.SITE, None) == (NOT_CONNECTED, None)
    assert host.core.directory_offline
    assert host.manager.core.timers.next_deadline == host.now + ONLINE_CHECK_S


@pytest.mark.spec("DMPR-3.1.1.1-w")
def test_only_who_has_a_directory_can_lose_it() -> None:
    host = DomainHost()
    assert not host.core.directory_offline
    host.directory.connected = False
    host.manager.directory.read(ObjectClass.SITE, None)
    assert host.core.directory_offline

    alone = Host().manager
    for event in (
        lambda: alone.directory.read(ObjectClass.SITE, None),
        lambda: alone.directory.create(foreign_queue()),
        lambda: alone.directory.write(foreign_queue()),
        lambda: alone.directory.delete(foreign_queue()),
        lambda: alone.directory.check_online(),
    ):
        event()
        assert not alone.core.directory_offline


# --- queries ------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.21-a", "DMPR-3.1.7.1.22-a", "DMPR-3.1.7.1.22-b", "DMPR-3.1.7.1.23-a")
def test_a_query_gives_one_object_after_the_other(host: DomainHost, events: DirectoryEvents) -> None:
    for name in ("one", "two"):
        host.directory.put(foreign_queue(name, label=name))
    result, query = events.read_begin(QUEUE, None, ("label",))
    assert result is SUCCESS
    assert query is not None
    answers = [events.read_next(query) for _ in range(3)]
    assert answers == [
        (SUCCESS, DirectoryObject(QUEUE, {"label": "one"})),
        (SUCCESS, DirectoryObject(QUEUE, {"label": "two"})),
        (DirectoryResult.END_OF_DATA, None),
    ]
    assert events.read_end(query) is SUCCESS
    assert events.read_next(query) == (DirectoryResult.GENERIC_ERROR, None)
    assert events.read_end(query) is DirectoryResult.GENERIC_ERROR


@pytest.mark.spec("DMPR-3.1.7.1.21-b")
def test_queries_are_sorted(host: DomainHost, events: DirectoryEvents) -> None:
    for description, cost in (("b", 1), ("a", 2), ("a", 1), ("b", 2)):
        host.directory.put(RoutingLink(guid(), description, actual_cost=cost))
    order = {"actual_cost": SortKey(1, ascending=False), "description": SortKey(2), "full_path": SortKey(0)}
    found = [(link.description, link.actual_cost) for link in links(events, None, order)]
    assert found == [("a", 2), ("a", 1), ("b", 2), ("b", 1)]
    order = {"actual_cost": SortKey(5, ascending=False), "description": SortKey(2, ascending=False)}
    found = [(link.description, link.actual_cost) for link in links(events, None, order)]
    assert found == [("b", 2), ("a", 2), ("b", 1), ("a", 1)]


# --- being offline and coming back --------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.25-a", "DMPR-3.1.7.1.25-c", "DMPR-3.1.2.5-a")
def test_the_directory_is_looked_for_each_minute(host: DomainHost) -> None:
    host.lose_directory()
    host.directory.calls.clear()
    for checks in range(1, 4):
        host.advance(ONLINE_CHECK_S - 1)
        assert len(host.directory.calls) == checks - 1
        host.advance(1)
        assert host.directory.calls == [("read", QUEUE_MANAGER)] * checks
        assert host.core.directory_offline


@pytest.mark.spec("DMPR-3.1.7.1.25-b")
def test_back_online_everything_that_changed_is_taken_over(host: DomainHost) -> None:
    kept, gone = public_queue(host, "kept"), public_queue(host, "gone", label="as it was")
    host.lose_directory()
    host.own.attributes["journal_quota_kb"] = 99
    published = host.directory.find(QUEUE, identifier=kept.identifier)
    forgotten = host.directory.find(QUEUE, identifier=gone.identifier)
    assert published is not None
    assert forgotten is not None
    published.attributes["label"] = "renamed"
    host.directory.objects.remove(forgotten)
    host.directory.connected = True
    host.advance(ONLINE_CHECK_S)
    assert not host.core.directory_offline
    assert host.core.record.journal_quota_kb == 99
    assert (kept.label, gone.label) == ("renamed", "as it was")
    host.directory.connected = False
    host.kill()
    assert host.core.by_path["host\\kept"].label == "renamed", "and it stays so after a crash"
    assert host.core.record.journal_quota_kb == 99


# --- sites and gates ----------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.2.1-a", "DMPR-3.1.6.1-a")
def test_sites_are_read_again_every_twelve_hours(host: DomainHost) -> None:
    assert SITES_UPDATE_S == 43_200
    published = host.directory.find(ObjectClass.SITE, identifier=SITE)
    assert published is not None
    for name in ("Bonn", "Mainz"):
        published.attributes["name"] = name
        host.advance(SITES_UPDATE_S - 1)
        assert host.core.sites[0].name != name
        host.advance(1)
        assert host.core.sites[0].name == name
    published.attributes["name"] = "Ulm"
    host.directory.connected = False
    host.advance(SITES_UPDATE_S)
    assert host.core.sites[0].name == "Mainz"


@pytest.mark.spec("DMPR-3.1.2.2-a", "DMPR-3.1.6.2-a", "DMPR-3.1.1.7-b")
def test_site_gates_are_read_again_every_hour(host: DomainHost) -> None:
    assert SITE_GATES_UPDATE_S == 3600
    gates = [QueueManagerRecord(guid(), f"GATE{number}") for number in range(2)]
    published = [host.directory.put(gate) for gate in gates]
    assert host.core.sites[0].site_gate_collection == []
    host.core.sites[0].site_gate_collection += gates
    for name in ("a", "b"):
        for item in published:
            item.attributes["qualified_computer_name"] = name
        host.advance(SITE_GATES_UPDATE_S - 1)
        assert {gate.qualified_computer_name for gate in gates} != {name}
        host.advance(1)
        assert [gate.qualified_computer_name for gate in gates] == [name, name]


def test_both_periods_can_be_configured() -> None:
    host = DomainHost(settings=Settings(directory_integrated=True, sites_update_s=10, site_gates_update_s=5))
    host.directory.calls.clear()
    assert host.manager.core.timers.next_deadline == host.now + 5


# --- elements -----------------------------------------------------------------------------------------------


def descriptor(mask: int) -> bytes:
    acl = Acl.of(Ace(AceType.ACCESS_ALLOWED, mask, EVERYONE))
    return SecurityDescriptor(owner=ADMINISTRATORS, group=ADMINISTRATORS, dacl=acl).encode()


def read_back(host: DomainHost, element: Published) -> Published:
    """Publish an element, and read what everybody else sees of it."""
    host.directory.objects.clear()
    result, identifier = host.manager.directory.create(directory_object(element))
    assert result is SUCCESS
    assert identifier is not None
    found = host.manager.directory.read_element(type(element), identifier)
    assert found is not None
    return found


@pytest.mark.spec("DMPR-3.1.1.6-a")
def test_an_enterprise_has_all_its_attributes(host: DomainHost) -> None:
    security = descriptor(EnterpriseAccessMask.CREATE_SITE)
    found = read_back(host, Enterprise(ENTERPRISE, "Corp", True, True, 77, True, security))
    assert isinstance(found, Enterprise)
    assert (found.name, found.weakened_security, found.old_directory) == ("Corp", True, True)
    assert found.non_ldap_capable_queue_manager_notification
    assert found.default_time_to_live_s == 77
    assert found.security == security


@pytest.mark.spec("DMPR-3.1.1.7-a")
def test_a_site_has_all_its_attributes(host: DomainHost) -> None:
    site = Site(
        SITE, "Berlin", "PSC", 3, 11, "", True, b"keys", True, descriptor(SiteAccessMask.CREATE_MACHINE),
    )  # fmt: skip
    found = read_back(host, site)
    assert isinstance(found, Site)
    for name in (
        "name", "primary_site_controller", "intra_site_replication_interval_s",
        "inter_site_replication_interval_s", "foreign_site", "public_signing_key_list",
        "migrated_from_msmq10",
    ):  # fmt: skip
        assert getattr(found, name) == getattr(site, name)
    assert found.full_path == "CN=Berlin,OU=msmq,DC=test"
    assert found.security == site.security
    assert host.manager.directory.create(directory_object(site))[0] is DirectoryResult.OBJECT_ALREADY_EXISTS


@pytest.mark.spec("DMPR-3.1.1.8-a")
def test_a_routing_link_has_all_its_attributes(host: DomainHost) -> None:
    ends, gates = (guid(), guid()), (guid(), guid())
    found = read_back(host, RoutingLink(guid(), "to the south", "", 25, *ends, gates))
    assert isinstance(found, RoutingLink)
    assert (found.description, found.actual_cost) == ("to the south", 25)
    assert (found.site1_identifier, found.site2_identifier) == ends
    assert found.site_gate_identifier_list == gates
    assert found.full_path == "CN=to the south,OU=msmq,DC=test"


@pytest.mark.spec("DMPR-3.1.1.8-b")
def test_a_link_costs_something_and_not_too_much() -> None:
    for cost in (1, 999_999):
        assert RoutingLink(actual_cost=cost).actual_cost == cost
    for cost in (0, 1_000_000):
        with pytest.raises(ValueError, match="costs"):
            RoutingLink(actual_cost=cost)


@pytest.mark.spec("DMPR-3.1.1.9-a")
def test_a_connected_network_round_trips(host: DomainHost) -> None:
    security = descriptor(ConnectedNetworkAccessMask.SET_CN_PROPERTIES)
    found = read_back(host, ConnectedNetwork(guid(), "LAN", security))
    assert isinstance(found, ConnectedNetwork)
    assert (found.name, found.security) == ("LAN", security)


def test_a_user_round_trips(host: DomainHost) -> None:
    sid = Sid.parse("S-1-5-21-1-2-3-1001").encode()
    found = read_back(host, User(guid(), sid, (b"d" * 16,), b"certificates"))
    assert isinstance(found, User)
    assert (found.security_identifier, found.certificate_digest_list) == (sid, (b"d" * 16,))


def test_a_host_without_a_directory_gets_one_answer_to_everything() -> None:
    events = Host().manager.directory
    item = foreign_queue()
    assert not events.exists
    assert events.create(item) == (NOT_CONNECTED, None)
    assert events.delete(item) is events.write(item) is events.read_end(1) is NOT_CONNECTED
    assert events.read_begin(QUEUE, None) == events.read_next(1) == (NOT_CONNECTED, None)
    assert events.resolve_distribution_list(guid(), None) == (NOT_CONNECTED, ())
