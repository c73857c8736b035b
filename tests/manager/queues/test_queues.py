"""The life of queues: MS-MQDMPR 3.1.1.2, 3.1.7.1.3, 3.1.7.1.4, 3.1.7.1.7, 3.1.7.1.33."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import (
    AccessDeniedError,
    IllegalQueuePathnameError,
    IllegalSecurityDescriptorError,
    MQError,
    NoDsError,
    PrivilegeNotHeldError,
    QueueExistsError,
    QueueNotAvailableError,
    QueueNotFoundError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import QueueAccessType, QueuePrivacyLevel, QueueScope, QueueType
from msmq.manager.queues.management import format_name
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.descriptor import Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.classes import MessageClass
from msmq.wire.guid import NULL_GUID
from msmq.wire.names import QueuePath
from tests.manager.domain import DomainHost
from tests.manager.support import NOON, PEEK, RECEIVE, Host, body_of, status_of

APPLICATION = bytes(range(16))
USER = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1001"))


def create(host: Host, path: str, **attributes: Any) -> Queue:
    return host.manager.queues.create(QueueRequest(path, **attributes))


def counts(host: Host) -> int:
    return len(host.manager.core.queues)


# --- attributes -----------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.2-a")
def test_private_queues_are_kept_here_and_public_ones_are_published_too(domain: DomainHost) -> None:
    create(domain, ".\\private$\\here", label="private", quota_kb=5)
    create(domain, ".\\there", label="public", quota_kb=6)
    assert [
        item.attributes["label"] for item in domain.directory.objects if "quota_kb" in item.attributes
    ] == ["public"]
    domain.directory.connected = False
    domain.restart()
    kept = domain.core.by_path
    assert (kept["host\\private$\\here"].label, kept["host\\private$\\here"].quota_kb) == ("private", 5)
    assert (kept["host\\there"].label, kept["host\\there"].quota_kb) == ("public", 6)


@pytest.mark.spec("DMPR-3.1.1.2-b", "DMPR-3.1.1.2-d")
def test_label_and_type_survive_a_restart(host: Host) -> None:
    host.queue(label="Aufträge", type=APPLICATION)
    host.queue("plain")
    host.restart()
    assert (host.find().label, host.find().type) == ("Aufträge", APPLICATION)
    assert (host.find("plain").label, host.find("plain").type) == ("", NULL_GUID)


@pytest.mark.spec("DMPR-3.1.1.2-e")
@pytest.mark.parametrize("path", ["HOST\\q", "HOST\\private$\\q", "HOST\\system$;q", "HOST\\q;sub"])
def test_the_forms_of_a_path(path: str) -> None:
    assert str(QueuePath.parse(path)) == path


@pytest.mark.spec("DMPR-3.1.1.2-e", "DMPR-3.1.7.1.3-b")
@pytest.mark.parametrize("name", ["a+b", "a,b", 'a"b', "x" * 125, ""])
def test_what_is_no_path_makes_no_queue(host: Host, name: str) -> None:
    before = counts(host)
    with pytest.raises(IllegalQueuePathnameError) as refused:
        host.queue(name)
    assert refused.value.code == 0xC00E0014
    assert counts(host) == before
    host.queue("x" * 124)


@pytest.mark.parametrize("path", ["OTHER\\private$\\q", ".\\private$\\q;sub", ".\\private$\\q;JOURNAL"])
def test_queues_of_others_subqueues_and_journals_are_not_created(host: Host, path: str) -> None:
    with pytest.raises(IllegalQueuePathnameError):
        create(host, path)


@pytest.mark.spec("DMPR-3.1.1.2-f")
def test_the_qualified_path_has_the_full_name_of_the_computer(host: Host) -> None:
    assert host.queue().qualified_pathname == "HOST.corp.example\\private$\\orders"


@pytest.mark.spec("DMPR-3.1.1.2-g", "DMPR-3.1.7.1.3-h")
def test_numbers_of_private_queues(host: Host) -> None:
    first, second = host.queue("first"), host.queue("second")
    assert first.private_queue_number != second.private_queue_number
    name = format_name(host.manager.core, second)
    assert host.manager.queues.open(name, RECEIVE).queue is second
    host.restart()
    assert host.manager.queues.open(name, RECEIVE).queue is host.find("second")
    host.manager.queues.delete(host.find("first"))
    third, fourth = host.queue("third"), host.queue("fourth")
    numbers = [
        host.find("second").private_queue_number,
        third.private_queue_number,
        fourth.private_queue_number,
    ]
    assert len({*numbers, 4}) == 4


@pytest.mark.spec("DMPR-3.1.1.2-n")
def test_the_multicast_address_is_returned_unchanged(host: Host) -> None:
    assert host.queue("plain").multicast_address is None
    host.queue(multicast_address="234.1.1.1:8001")
    host.restart()
    assert host.find().multicast_address == "234.1.1.1:8001"


@pytest.mark.spec("DMPR-3.1.1.2-q", "DMPR-3.1.7.1.3-j")
def test_directory_paths(domain: DomainHost) -> None:
    private, public = create(domain, ".\\private$\\q"), create(domain, ".\\q")
    assert (private.full_path, private.directory_path) == ("", "")
    item = next(item for item in domain.directory.objects if item.attributes.get("pathname") == "HOST\\q")
    assert public.full_path == item.attributes["full_path"] != ""
    assert public.directory_path == item.attributes["directory_path"] != ""


@pytest.mark.spec("DMPR-3.1.1.2-s")
def test_active_is_worked_out_and_not_stored(host: Host) -> None:
    queue = host.queue()
    assert not queue.active
    descriptor = host.open(queue)
    assert queue.active
    host.close(descriptor)
    assert not queue.active

    away = host.manager.queues.open("DIRECT=OS:far\\private$\\q", QueueAccessType.SEND)
    assert away.queue is not None
    outgoing = away.queue
    host.send(outgoing, b"waits")
    host.close(away)
    assert outgoing.active


@pytest.mark.spec("DMPR-3.1.1.2-u")
def test_queues_know_their_queue_manager(host: Host) -> None:
    queue = host.queue()
    host.advance(100)
    sub = host.manager.queues.subqueue(queue, "sub")
    assert sub.create_time == sub.modify_time == int(host.now) != queue.create_time
    host.restart()
    own = host.manager.core.record
    assert own.identifier
    for member in host.find().family:
        assert member.queue_manager is own
    assert sub.queue_manager is not None
    assert sub.queue_manager.identifier == own.identifier


@pytest.mark.spec("DMPR-3.1.1.2-v", "DMPR-3.1.7.1.3-g")
def test_the_path_tells_the_type(domain: DomainHost) -> None:
    types = [create(domain, path).queue_type for path in ("HOST\\private$\\q", "HOST\\system$;q", "HOST\\q")]
    assert types == [QueueType.PRIVATE, QueueType.SYSTEM, QueueType.PUBLIC]
    published = [item.attributes.get("pathname") for item in domain.directory.objects]
    assert "HOST\\q" in published
    assert "HOST\\private$\\q" not in published
    domain.restart()
    kept = domain.core.by_path
    assert [kept[path].queue_type for path in ("host\\private$\\q", "host\\system$;q", "host\\q")] == types


@pytest.mark.spec("DMPR-3.1.1.2-w", "DMPR-3.1.7.1.3-d")
def test_every_queue_has_a_journal_and_no_subqueue_has(host: Host) -> None:
    queue = host.queue()
    assert host.manager.queues.open("DIRECT=OS:.\\private$\\orders;JOURNAL", RECEIVE).queue is queue.journal
    sub = host.manager.queues.open("DIRECT=OS:.\\private$\\orders;sub", RECEIVE).queue
    assert sub is not None
    assert sub.journal is None


@pytest.mark.spec("DMPR-3.1.1.2-x")
def test_opening_a_subqueue_makes_it(host: Host) -> None:
    queue = host.queue()
    sub = host.manager.queues.open("DIRECT=OS:HOST\\private$\\orders;sub", RECEIVE).queue
    assert sub is not None
    assert queue.subqueue_collection == {"sub": sub}
    position = host.send(queue, b"there and back", recoverable=True)
    host.manager.move_message(position, sub)
    assert host.contents(sub) == [b"there and back"]
    host.manager.move_message(sub.position(position.lookup_id), queue)
    assert (host.contents(queue), host.contents(sub)) == ([b"there and back"], [])
    host.restart()
    assert list(host.find().subqueue_collection) == ["sub"]
    assert host.contents(host.find()) == [b"there and back"]


# --- create ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.3-a", "DMPR-3.1.7.1.3-l")
def test_create(host: Host) -> None:
    queue = create(host, "HOST\\private$\\q")
    assert host.manager.core.queues[queue.number] is queue
    assert host.manager.core.by_path["host\\private$\\q"] is queue
    for name in ("DIRECT=OS:HOST\\private$\\q", format_name(host.manager.core, queue)):
        assert host.manager.queues.open(name, RECEIVE).queue is queue
    public = host.manager.queues.create(QueueRequest("HOST\\q"), skip_directory=True)
    assert host.manager.queues.open(format_name(host.manager.core, public), RECEIVE).queue is public


@pytest.mark.spec("DMPR-3.1.7.1.3-c")
@pytest.mark.parametrize(
    "again", [".\\private$\\orders", "host\\PRIVATE$\\ORDERS", "HOST.corp.example\\private$\\orders"]
)
def test_nothing_is_created_twice(host: Host, again: str) -> None:
    host.queue()
    before = counts(host)
    with pytest.raises(QueueExistsError) as refused:
        create(host, again)
    assert refused.value.code == 0xC00E0005
    assert counts(host) == before


@pytest.mark.spec("DMPR-3.1.7.1.3-e")
def test_what_is_copied_from_the_request(domain: DomainHost) -> None:
    request = QueueRequest(
        "HOST\\q",
        label="label",
        type=APPLICATION,
        journaling=True,
        quota_kb=11,
        journal_quota_kb=12,
        authentication=True,
        privacy_level=QueuePrivacyLevel.BODY,
        transactional=True,
        multicast_address="234.1.1.1:8001",
        security=SecurityDescriptor(owner=USER.user, group=USER.user, dacl=Acl()).encode(),
        base_priority=-7,
    )
    queue = domain.manager.queues.create(request)
    assert {name: getattr(queue, name) for name in request.__slots__} == {
        name: getattr(request, name) for name in request.__slots__
    }
    domain.restart()
    assert domain.core.by_path["host\\q"].base_priority == -7


@pytest.mark.spec("DMPR-3.1.7.1.3-f")
def test_what_is_worked_out(host: Host) -> None:
    queue = host.queue()
    assert queue.queue_manager is host.manager.core.record
    assert (queue.active, queue.total_bytes, len(queue.positions)) == (False, 0, 0)
    assert (queue.subqueue_collection, queue.incoming, queue.open_descriptors) == ({}, {}, [])
    assert queue.create_time == queue.modify_time == NOON
    assert queue.qualified_pathname.partition("\\")[0] == "HOST.corp.example"
    assert queue.scope is QueueScope.ENTERPRISE
    assert (queue.full_path, queue.directory_path) == ("", "")


@pytest.mark.spec("DMPR-3.1.7.1.3-i")
def test_identifiers(domain: DomainHost) -> None:
    public, private = create(domain, ".\\q"), create(domain, ".\\private$\\q")
    item = next(item for item in domain.directory.objects if item.attributes.get("pathname") == "HOST\\q")
    assert public.identifier == item.identifier
    assert private.identifier not in (NULL_GUID, public.identifier)
    domain.restart()
    assert domain.find("q").identifier == private.identifier


@pytest.mark.spec("DMPR-3.1.7.1.3-k", "MQMQ-2.4-o")
def test_no_directory_no_public_queue(domain: DomainHost, host: Host) -> None:
    domain.directory.connected, domain.directory.last_failure = False, "dc1 hung up"
    for manager in (domain, host):
        before = counts(manager)
        with pytest.raises(NoDsError) as refused:
            create(manager, ".\\q")
        assert refused.value.code == 0xC00E0013
        assert ("in workgroup mode" in str(refused.value)) is (manager is host)
        assert ("dc1 hung up" in str(refused.value)) is (manager is domain)
        assert counts(manager) == before
        assert "host\\q" not in manager.manager.core.by_path


@pytest.mark.spec("DMPR-3.1.7.1.33-a")
def test_queue_defaults(host: Host) -> None:
    request = QueueRequest("HOST\\private$\\q")
    assert (request.label, request.type, request.journaling) == ("", NULL_GUID, False)
    assert (request.quota_kb, request.journal_quota_kb) == (0xFFFFFFFF, 0xFFFFFFFF)
    assert (request.authentication, request.privacy_level) == (False, QueuePrivacyLevel.OPTIONAL)
    assert (request.transactional, request.multicast_address, request.base_priority) == (False, None, 0)
    queue = host.manager.queues.create(request)
    dacl = SecurityDescriptor.decode(queue.security).dacl
    assert dacl is not None
    assert dacl.aces[0].sid == EVERYONE


def test_a_descriptor_that_is_none_is_refused(host: Host) -> None:
    with pytest.raises(IllegalSecurityDescriptorError):
        host.queue(security=b"no descriptor")
    assert "host\\private$\\orders" not in host.manager.core.by_path


def test_an_audit_list_needs_the_privilege(host: Host) -> None:
    everyone = SecurityDescriptor(dacl=None).encode()
    host.manager.administration.set_manager_security(
        SecurityInformation.DACL, everyone
    )  # anybody may create queues
    request = QueueRequest(".\\private$\\q", security=SecurityDescriptor(sacl=Acl()).encode())
    with pytest.raises(PrivilegeNotHeldError):
        host.manager.queues.create(request, USER)


def test_private_queues_have_no_base_priority(host: Host) -> None:
    assert host.queue(base_priority=5).base_priority == 0


# --- delete ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.4-a", "DMPR-3.1.7.1.4-d")
def test_a_deleted_queue_is_gone_for_good(host: Host) -> None:
    queue = host.queue(journaling=True)
    sub = host.manager.queues.subqueue(queue, "sub")
    host.fill(queue, b"a", b"b", recoverable=True)
    host.send(sub, b"c", recoverable=True)
    host.reader(queue).receive()
    host.manager.queues.delete(queue)
    for _ in range(2):
        with pytest.raises(QueueNotFoundError):
            host.manager.queues.open("DIRECT=OS:.\\private$\\orders", RECEIVE)
        assert host.manager.core.total_bytes == 0
        assert not [one for one in host.manager.core.queues.values() if "orders" in one.pathname]
        host.restart()
    assert host.contents(host.queue()) == []


def test_every_message_is_deleted_for_a_reason_even_locked_ones(host: Host) -> None:
    queue = host.queue()
    host.fill(queue, b"locked", b"free")
    host.reader(queue).begin()
    host.manager.queues.delete(queue)
    assert host.spy.deleted == [(b"locked", 0xC000), (b"free", 0xC000)]


@pytest.mark.spec("DMPR-3.1.7.1.4-c")
def test_open_descriptors_of_a_deleted_queue(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"x")
    reader = host.reader(queue)
    host.manager.queues.delete(queue)
    assert not queue.open_descriptors
    assert reader.descriptor.queue is None
    assert status_of(reader.receive()) == 0xC00E004B
    host.close(reader.descriptor)
    with pytest.raises(QueueNotAvailableError):
        host.manager.queues.purge_opened(reader.descriptor)


@pytest.mark.spec("DMPR-3.1.7.1.4-f")
def test_blocked_readers_hear_of_the_end(host: Host) -> None:
    queue = host.queue()
    receiving, peeking = host.reader(queue), host.reader(queue, PEEK)
    receiving.receive(timeout_s=60)
    peeking.peek(timeout_s=60)
    host.manager.queues.delete(queue)
    assert receiving.statuses == peeking.statuses == [0xC00E004B]
    host.advance(100)
    assert len(receiving.results) == len(peeking.results) == 1


def test_a_reader_that_comes_back_at_once_finds_the_queue_gone(host: Host) -> None:
    queue = host.queue()
    descriptor = host.open(queue)
    statuses: list[int] = []

    def again(result: Any) -> None:
        statuses.append(result.status)
        if len(statuses) < 3:
            host.reading.dequeue(descriptor, again, timeout_s=60)

    host.reading.dequeue(descriptor, again, timeout_s=60)
    host.manager.queues.delete(queue)
    assert statuses == [0xC00E004B] * 3


def test_the_directory_is_asked_first(domain: DomainHost) -> None:
    """Ruling 12: a directory that refuses costs nothing."""
    queue = create(domain, ".\\q")
    domain.send(queue, b"safe")
    domain.directory.connected = False
    with pytest.raises(NoDsError):
        domain.manager.queues.delete(queue)
    assert domain.contents(queue) == [b"safe"]
    domain.manager.queues.delete(queue, skip_directory=True)
    assert "host\\q" not in domain.core.by_path


def test_deleting_removes_the_directory_object(domain: DomainHost) -> None:
    queue = create(domain, ".\\q")
    domain.manager.queues.delete(queue)
    assert "HOST\\q" not in [item.attributes.get("pathname") for item in domain.directory.objects]


@pytest.mark.parametrize("ends_by", ["commit", "abort"])
def test_transactions_outlive_the_queues_they_touched(host: Host, ends_by: str) -> None:
    queue, other = host.queue(transactional=True), host.queue("other", transactional=True)
    sub = host.manager.queues.subqueue(queue, "sub")
    host.fill(queue, b"read", b"moved")
    transaction = host.transactions.create()
    host.send(queue, b"sent", transaction)
    host.send(other, b"sent elsewhere", transaction)
    host.reader(queue).receive(transaction=transaction)
    moved = next(entry.lookup_id for entry in queue.positions if entry.state is PositionState.AVAILABLE)
    host.manager.move_message(queue.position(moved), sub, transaction)
    host.manager.queues.delete(queue)
    getattr(host.transactions, ends_by)(transaction.identifier)
    expected = [b"sent elsewhere"] if ends_by == "commit" else []
    assert host.contents(other) == expected
    host.kill()
    assert host.contents(host.find("other")) == expected
    assert host.manager.core.total_bytes == host.find("other").total_bytes


@pytest.mark.parametrize("name", ["order_queue$", "notify_queue$", "DEADLETTER", "DEADXACT", "JOURNAL"])
def test_the_queue_managers_own_queues_stay(host: Host, name: str) -> None:
    path = f"host\\private$\\{name}" if name.endswith("$") else f"host\\system$;{name.lower()}"
    with pytest.raises(AccessDeniedError):
        host.manager.queues.delete(host.manager.core.by_path[path])


def test_parts_of_a_queue_are_not_deleted_alone(host: Host) -> None:
    queue = host.queue()
    for part in (queue.journal, host.manager.queues.subqueue(queue, "sub")):
        assert part is not None
        with pytest.raises(UnsupportedFormatnameOperationError):
            host.manager.queues.delete(part)


@pytest.mark.spec("MQMQ-2.4-f")
def test_name_errors(host: Host) -> None:
    queue = host.queue()
    for text, code in (("DIRECT=XX:y\\z", 0xC00E001E), ("nonsense", 0xC00E001E)):
        with pytest.raises(MQError) as refused:
            host.manager.queues.open(text, RECEIVE)
        assert refused.value.code == code
    journal = f"{format_name(host.manager.core, queue)};JOURNAL"
    with pytest.raises(UnsupportedFormatnameOperationError) as unsupported:
        host.manager.queues.open(journal, QueueAccessType.SEND)
    assert unsupported.value.code == 0xC00E0020


# --- purge ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.7-a")
def test_purge_empties_a_queue(host: Host) -> None:
    queue = host.queue()
    host.fill(queue, b"a", b"b", b"c", recoverable=True)
    host.manager.queues.purge(queue)
    assert (host.contents(queue), queue.total_bytes) == ([], 0)
    assert [reason for _, reason in host.spy.deleted] == [MessageClass.NACK_Q_PURGED] * 3
    host.restart()
    assert host.contents(host.find()) == []


@pytest.mark.spec("DMPR-3.1.7.1.7-b")
def test_purge_and_locked_messages(host: Host) -> None:
    queue = host.queue()
    host.fill(queue, b"held", b"free")
    reader = host.reader(queue)
    held = reader.begin()
    assert held is not None
    assert held.position is not None
    host.manager.queues.purge(queue)
    assert held.position.state is PositionState.PURGE_PENDING
    assert body_of(host.reader(queue).receive()) is None
    assert body_of(host.reader(queue, PEEK).peek()) is None
    reader.end(held.position, keep=False)
    assert host.contents(queue) == []
    assert host.spy.deleted[-1] == (b"held", 0xC001)


@pytest.mark.spec("DMPR-3.1.7.1.7-d")
@pytest.mark.parametrize("ends_by", ["commit", "abort"])
def test_purge_does_not_reach_what_is_still_being_sent(host: Host, ends_by: str) -> None:
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    host.send(queue, b"sent", transaction)
    host.manager.queues.purge(queue)
    getattr(host.transactions, ends_by)(transaction.identifier)
    assert host.contents(queue) == ([b"sent"] if ends_by == "commit" else [])


@pytest.mark.spec("DMPR-3.1.1.17-c")
def test_what_each_access_is_for(host: Host) -> None:
    queue = host.queue()
    host.send(queue, b"x")
    with pytest.raises(AccessDeniedError):
        host.manager.queues.purge_opened(host.open(queue, PEEK))
    assert host.contents(queue) == [b"x"]
    host.manager.queues.purge_opened(host.open(queue, RECEIVE))
    assert host.contents(queue) == []

    name = "DIRECT=OS:far\\private$\\q"
    outgoing = host.manager.queues.open(name, QueueAccessType.SEND).queue
    assert outgoing is not None
    host.fill(outgoing, b"1", b"2")
    for access in (RECEIVE, PEEK, QueueAccessType.MOVE):
        with pytest.raises(MQError):
            host.manager.queues.open(name, access)
    peeking = host.manager.queues.open(name, QueueAccessType.PEEK_ADMIN)
    with pytest.raises(AccessDeniedError):
        host.manager.queues.purge_opened(peeking)
    taking = host.manager.queues.open(name, QueueAccessType.RECEIVE_ADMIN)
    results: list[Any] = []
    host.reading.dequeue(taking, results.append, timeout_s=0)
    assert body_of(results[0]) == b"1"
    host.manager.queues.purge_opened(taking)
    assert host.contents(outgoing) == []
    with pytest.raises(MQError):
        host.open(queue, QueueAccessType.RECEIVE_ADMIN)


# --- connectors -----------------------------------------------------------------------------------------------


def test_connector_queues(host: Host) -> None:
    foreign = bytes(range(1, 17))
    plain, transactional = host.manager.queues.create_connector(foreign)
    host.send(transactional, b"for them")
    with pytest.raises(QueueExistsError):
        host.manager.queues.create_connector(foreign)
    host.restart()
    open_ = host.manager.queues.open
    assert open_(plain.pathname, RECEIVE).queue is host.manager.core.queues[plain.number]
    kept = open_(transactional.pathname, RECEIVE).queue
    assert kept is not None
    assert (kept.transactional, kept.queue_type, host.contents(kept)) == (
        True,
        QueueType.CONNECTOR,
        [b"for them"],
    )


# --- subqueues that nobody needs --------------------------------------------------------------------------------


def test_an_empty_subqueue_goes_when_nobody_has_it_open(host: Host) -> None:
    queue = host.queue()
    name = f"DIRECT=OS:{queue.pathname};later"
    first = host.manager.queues.open(name, RECEIVE)
    second = host.manager.queues.open(name, PEEK)
    sub = first.queue
    assert sub is not None
    host.close(first)
    assert queue.subqueue_collection == {"later": sub}
    host.close(second)
    assert queue.subqueue_collection == {}
    assert sub.number not in host.manager.core.queues
    host.restart()
    assert host.find().subqueue_collection == {}


def test_a_subqueue_with_messages_stays(host: Host) -> None:
    queue = host.queue(transactional=True)
    name = f"DIRECT=OS:{queue.pathname};later"
    transaction = host.transactions.create()
    position = host.send(queue, b"x", transaction)
    host.transactions.commit(transaction.identifier)
    descriptor = host.manager.queues.open(name, RECEIVE)
    sub = descriptor.queue
    assert sub is not None
    moving = host.transactions.create()
    host.manager.move_message(position, sub, moving)
    host.close(descriptor)
    assert queue.subqueue_collection == {"later": sub}, "something is on its way there"
    host.transactions.commit(moving.identifier)
    host.close(host.manager.queues.open(name, RECEIVE))
    assert host.contents(sub) == [b"x"]
    host.restart()
    assert list(host.find().subqueue_collection) == ["later"]
