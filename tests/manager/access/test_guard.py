"""Who may do what: the access checks at opens and at administrative events."""

from __future__ import annotations

import pytest

from msmq.errors import AccessDeniedError
from msmq.manager.directory import ObjectClass
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, Sid
from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask, SecurityInformation
from msmq.wire.classes import MessageClass
from msmq.wire.variant import VT, Variant
from tests.manager.domain import DomainHost
from tests.manager.support import PEEK, RECEIVE, SEND, Host, message

USER = Sid.parse("S-1-5-21-1-2-3-1001")
CALLER = Token.authenticated(USER)
ADMINISTRATOR = Token.authenticated(USER, [ADMINISTRATORS])
PEEK_ADMIN, RECEIVE_ADMIN, MOVE = (
    QueueAccessType.PEEK_ADMIN,
    QueueAccessType.RECEIVE_ADMIN,
    QueueAccessType.MOVE,
)
LABEL = 108


def granting(mask: int) -> bytes:
    return SecurityDescriptor(
        owner=ADMINISTRATORS,
        group=ADMINISTRATORS,
        dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, int(mask), USER)),
    ).encode()


def queue_for(host: Host, mask: int) -> Queue:
    """A queue on which the caller has exactly these rights."""
    return host.queue(security=granting(mask))


def grant_on_manager(host: Host, mask: int) -> None:
    host.manager.core.record.security = granting(mask)


def may_open(host: Host, name: str, access: QueueAccessType) -> bool:
    try:
        descriptor = host.manager.queues.open(name, access, caller=CALLER)
    except AccessDeniedError:
        return False
    host.close(descriptor)
    return True


@pytest.mark.spec("MQQB-3.1.5.8.3-y")
def test_who_may_send_to_a_public_queue_is_what_the_directory_says() -> None:
    host = DomainHost()
    queue = host.manager.queues.create(QueueRequest(".\\orders", security=granting(QueueAccessMask(0))))
    published = host.directory.find(ObjectClass.QUEUE, identifier=queue.identifier)
    assert published is not None

    def fates() -> list[MessageClass]:
        """Of a message of the caller and of one that nobody has signed."""
        batch = host.batch(message(b"signed"), message(b"anonymous"))
        return host.manager.sending.deliver(queue, batch, Token.anonymous(), senders={0: CALLER}).fates

    denied, reached = MessageClass.NACK_ACCESS_DENIED, MessageClass.ACK_REACH_QUEUE
    assert fates() == [denied, denied]
    published.attributes["security"] = granting(QueueAccessMask.WRITE_MESSAGE)  # by somebody else
    assert fates() == [reached, denied]
    assert queue.security == granting(QueueAccessMask(0)), "this host's own copy"
    host.directory.objects.remove(published)
    assert fates() == [denied, denied], "the directory does not know the queue"
    host.directory.put(published)
    assert fates() == [reached, denied]
    host.directory.connected = False
    assert fates() == [denied, denied], "nobody can be asked"


# --- opens ----------------------------------------------------------------------------------------------------

LOCAL = "DIRECT=OS:.\\private$\\orders"
RIGHTS = QueueAccessMask


@pytest.mark.spec("DMPR-3.1.7.1.5-y")
@pytest.mark.parametrize(
    ("suffix", "access", "needed"),
    [
        ("", SEND, RIGHTS.WRITE_MESSAGE),
        ("", PEEK, RIGHTS.PEEK_MESSAGE),
        ("", RECEIVE, RIGHTS.RECEIVE_MESSAGE),
        ("", MOVE, RIGHTS.RECEIVE_MESSAGE),
        (";sub", RECEIVE, RIGHTS.RECEIVE_MESSAGE),
        (";sub", PEEK, RIGHTS.PEEK_MESSAGE),
        (";JOURNAL", PEEK, RIGHTS.PEEK_MESSAGE),
        (";JOURNAL", RECEIVE, RIGHTS.RECEIVE_JOURNAL_MESSAGE),
    ],
)
def test_opening_a_queue(host: Host, suffix: str, access: QueueAccessType, needed: QueueAccessMask) -> None:
    queue = queue_for(host, needed)
    assert may_open(host, LOCAL + suffix, access)
    for bit in RIGHTS:
        if bit in needed:
            queue.security = granting(RIGHTS.QUEUE_GENERIC_ALL & ~bit)
            assert not may_open(host, LOCAL + suffix, access)


@pytest.mark.spec("MQMQ-2.4-k")
def test_access_denied(host: Host) -> None:
    queue_for(host, RIGHTS.QUEUE_GENERIC_ALL & ~RIGHTS.WRITE_MESSAGE)
    with pytest.raises(AccessDeniedError) as refused:
        host.manager.queues.open(LOCAL, SEND, caller=CALLER)
    assert refused.value.code == 0xC00E0025


def test_who_may_not_read_makes_no_subqueue(host: Host) -> None:
    queue = queue_for(host, RIGHTS.WRITE_MESSAGE)
    assert not may_open(host, f"{LOCAL};sub", RECEIVE)
    assert queue.subqueue_collection == {}


SYSTEM = QueueManagerAccessMask


@pytest.mark.parametrize(
    ("name", "access", "needed"),
    [
        ("DEADLETTER", PEEK, SYSTEM.PEEK_DEADLETTER_MESSAGE),
        ("DEADLETTER", RECEIVE, SYSTEM.RECEIVE_DEADLETTER_MESSAGE),
        ("DEADXACT", PEEK, SYSTEM.PEEK_DEADLETTER_MESSAGE),
        ("DEADXACT", RECEIVE, SYSTEM.RECEIVE_DEADLETTER_MESSAGE),
        ("JOURNAL", PEEK, SYSTEM.PEEK_JOURNAL_QUEUE_MESSAGE),
        ("JOURNAL", RECEIVE, SYSTEM.RECEIVE_JOURNAL_QUEUE_MESSAGE),
    ],
)
def test_opening_a_system_queue(host: Host, name: str, access: QueueAccessType, needed: int) -> None:
    full = f"DIRECT=OS:.\\SYSTEM$;{name}"
    grant_on_manager(host, needed)
    assert may_open(host, full, access)
    grant_on_manager(host, SYSTEM.MACHINE_GENERIC_ALL & ~needed)
    assert not may_open(host, full, access)


def test_opening_an_outgoing_queue(host: Host) -> None:
    far = "DIRECT=OS:far\\private$\\q"
    grant_on_manager(host, 0)
    assert may_open(host, far, SEND)
    for access in (PEEK_ADMIN, RECEIVE_ADMIN):
        assert not may_open(host, far, access)
    grant_on_manager(host, SYSTEM.SET_MACHINE_PROPERTIES)
    for access in (PEEK_ADMIN, RECEIVE_ADMIN):
        assert may_open(host, far, access)


@pytest.mark.parametrize("name", ["order_queue$", "notify_queue$", "order_queue$;sub"])
@pytest.mark.parametrize("access", [SEND, PEEK, RECEIVE])
def test_internal_queues_are_for_nobody(host: Host, name: str, access: QueueAccessType) -> None:
    grant_on_manager(host, SYSTEM.MACHINE_GENERIC_ALL)
    assert not may_open(host, f"DIRECT=OS:.\\private$\\{name}", access)


def test_a_queue_of_a_similar_name_is_no_internal_one(host: Host) -> None:
    host.queue("my_order_queue$", security=granting(RIGHTS.WRITE_MESSAGE))
    assert may_open(host, "DIRECT=OS:.\\private$\\my_order_queue$", SEND)


# --- administration -------------------------------------------------------------------------------------------


def test_creating_needs_a_right_on_the_queue_manager(host: Host) -> None:
    grant_on_manager(host, SYSTEM.MACHINE_GENERIC_ALL & ~SYSTEM.CREATE_QUEUE)
    before = set(host.manager.core.queues)
    with pytest.raises(AccessDeniedError):
        host.manager.queues.create(QueueRequest(".\\private$\\q"), CALLER)
    with pytest.raises(AccessDeniedError):
        host.manager.queues.create_connector(bytes(range(16)), CALLER)
    assert set(host.manager.core.queues) == before
    grant_on_manager(host, SYSTEM.CREATE_QUEUE)
    host.manager.queues.create(QueueRequest(".\\private$\\q"), CALLER)


def test_deleting_needs_its_right(host: Host) -> None:
    queue = queue_for(host, RIGHTS.QUEUE_GENERIC_ALL & ~RIGHTS.DELETE_QUEUE)
    host.send(queue, b"safe")
    with pytest.raises(AccessDeniedError):
        host.manager.queues.delete(queue, CALLER)
    assert host.contents(queue) == [b"safe"]
    queue.security = granting(RIGHTS.DELETE_QUEUE)
    host.manager.queues.delete(queue, CALLER)


def test_purging_is_receiving_everything(host: Host) -> None:
    queue = queue_for(host, RIGHTS.QUEUE_GENERIC_ALL & ~RIGHTS.DELETE_MESSAGE)
    host.send(queue, b"safe")
    with pytest.raises(AccessDeniedError):
        host.manager.queues.purge(queue, CALLER)
    assert host.contents(queue) == [b"safe"]
    queue.security = granting(RIGHTS.RECEIVE_MESSAGE)
    host.manager.queues.purge(queue, CALLER)
    assert host.contents(queue) == []


@pytest.mark.parametrize(
    ("event", "needed"),
    [
        ("get_properties", RIGHTS.GET_QUEUE_PROPERTIES),
        ("watch", RIGHTS.GET_QUEUE_PROPERTIES),
        ("set_properties", RIGHTS.SET_QUEUE_PROPERTIES),
        ("get_security", RIGHTS.GET_QUEUE_PERMISSIONS),
        ("set_dacl", RIGHTS.CHANGE_QUEUE_PERMISSIONS),
        ("set_owner", RIGHTS.TAKE_QUEUE_OWNERSHIP),
    ],
)
def test_each_event_needs_its_right(host: Host, event: str, needed: QueueAccessMask) -> None:
    administration = host.manager.administration
    own = SecurityDescriptor(owner=USER, group=USER, dacl=Acl())

    def run() -> None:
        match event:
            case "get_properties":
                administration.get_properties(queue, [LABEL], CALLER)
            case "watch":
                administration.watch_queue(queue, [1], CALLER)
            case "set_properties":
                administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "x")], CALLER)
            case "get_security":
                administration.get_security(queue, caller=CALLER)
            case "set_dacl":
                administration.set_security(queue, SecurityInformation.DACL, own.encode(), CALLER)
            case "set_owner":
                administration.set_security(queue, SecurityInformation.OWNER, own.encode(), CALLER)

    queue = queue_for(host, RIGHTS.QUEUE_GENERIC_ALL & ~needed)
    before = (queue.label, queue.security)
    with pytest.raises(AccessDeniedError):
        run()
    assert (queue.label, queue.security) == before
    queue.security = granting(needed)
    run()


@pytest.mark.parametrize(
    ("event", "needed"),
    [
        ("get_properties", SYSTEM.GET_MACHINE_PROPERTIES),
        ("watch", SYSTEM.GET_MACHINE_PROPERTIES),
        ("set_properties", SYSTEM.SET_MACHINE_PROPERTIES),
        ("get_security", SYSTEM.GET_MACHINE_PERMISSIONS),
        ("set_dacl", SYSTEM.CHANGE_MACHINE_PERMISSIONS),
        ("set_owner", SYSTEM.TAKE_MACHINE_OWNERSHIP),
    ],
)
def test_each_event_of_the_manager_needs_its_right(
    host: Host, event: str, needed: QueueManagerAccessMask
) -> None:
    administration = host.manager.administration
    own = SecurityDescriptor(owner=USER, group=USER, dacl=Acl())

    def run() -> None:
        match event:
            case "get_properties":
                administration.get_manager_properties([202], CALLER)
            case "watch":
                administration.watch_manager([1], CALLER)
            case "set_properties":
                administration.set_manager_properties([214], [Variant(VT.UI4, 7)], CALLER)
            case "get_security":
                administration.get_manager_security(caller=CALLER)
            case "set_dacl":
                administration.set_manager_security(SecurityInformation.DACL, own.encode(), CALLER)
            case "set_owner":
                administration.set_manager_security(SecurityInformation.OWNER, own.encode(), CALLER)

    grant_on_manager(host, SYSTEM.MACHINE_GENERIC_ALL & ~needed)
    with pytest.raises(AccessDeniedError):
        run()
    grant_on_manager(host, needed)
    run()


def test_queues_without_a_descriptor_are_the_managers(host: Host) -> None:
    outgoing = host.manager.queues.open("DIRECT=OS:far\\private$\\q", SEND).queue
    assert outgoing is not None
    dead = host.manager.core.dead_letter_queue
    assert dead is not None
    grant_on_manager(host, SYSTEM.GET_MACHINE_PROPERTIES)
    for queue in (outgoing, dead):
        host.manager.administration.watch_queue(queue, [7], CALLER)
        with pytest.raises(AccessDeniedError):
            host.manager.queues.purge(queue, CALLER)


def test_a_fresh_host_lets_administrators_work_and_others_look(host: Host) -> None:
    host.manager.queues.create(QueueRequest(".\\private$\\q"), ADMINISTRATOR)
    host.manager.administration.get_manager_properties([202], CALLER)
    with pytest.raises(AccessDeniedError):
        host.manager.queues.create(QueueRequest(".\\private$\\r"), CALLER)


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"\xff" * 40])
def test_a_damaged_descriptor_lets_nobody_in(host: Host, damaged: bytes) -> None:
    host.manager.core.record.security = damaged
    with pytest.raises(AccessDeniedError):
        host.manager.queues.create(QueueRequest(".\\private$\\q"), ADMINISTRATOR)


def test_a_new_descriptor_counts_at_once(host: Host) -> None:
    """What was allowed before is remembered by the descriptor that allowed it."""
    queue = queue_for(host, QueueAccessMask.WRITE_MESSAGE)
    for _ in range(2):
        assert may_open(host, f"DIRECT=OS:{queue.pathname}", SEND)
        allowing, queue.security = queue.security, granting(QueueAccessMask.RECEIVE_MESSAGE)
        assert not may_open(host, f"DIRECT=OS:{queue.pathname}", SEND)
        queue.security = allowing
