"""What senders are told of their messages, in the administration queue they named."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.errors import AccessDeniedError
from msmq.manager.initialization import Settings
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, EVERYONE
from msmq.wire.access_masks import QueueAccessMask
from msmq.wire.classes import MessageClass
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from tests.manager.support import NOON, RECEIVE, Host, position_of
from tests.wire.builders import build, user_header

PA, PR, NA, NR = 1, 2, 4, 8
ALL = PA | PR | NA | NR
ADMIN = "OS:HOST\\private$\\admin"
ANYBODY = Token.anonymous()


@pytest.fixture
def host() -> Host:
    return started()


def started(**settings: Any) -> Host:
    host = Host(settings=Settings(**settings))
    host.queue("admin")
    return host


def asking(
    wanted: int,
    body: bytes = b"body",
    *,
    admin: str | None = ADMIN,
    transactional: bool = False,
    recoverable: bool = False,
    time_to_be_received_s: int = 0xFFFFFFFF,
    time_to_reach_queue_s: int = 0xFFFFFFFF,
    sent_time: int = NOON,
) -> StoredMessage:
    """A message whose sender wants to be told of these fates."""
    user = user_header("OS:HOST\\private$\\orders", admin, recoverable=transactional or recoverable)
    user.time_to_be_received_s = time_to_be_received_s
    user.sent_time = sent_time
    packet = build(
        base=BaseHeader(time_to_reach_queue_s=time_to_reach_queue_s),
        user=user,
        properties=MessagePropertiesHeader(flags=wanted),
        body=body,
        transaction=TransactionHeader() if transactional else None,
    )
    return StoredMessage(packet, LocalAttributes())


def told(host: Host, name: str = "admin") -> list[int]:
    """The classes of the acknowledgments that came, oldest first."""
    return [packet.properties.message_class for packet in packets(host, host.find(name))]


def packets(host: Host, queue: Queue) -> list[UserMessage]:
    return [host.manager.mailbox.load(queue, entry.lookup_id).packet for entry in queue.positions]


def deliver(host: Host, queue: Queue, one: StoredMessage, sender: Token | None = None) -> int:
    return host.deliver(queue, one, sender)


# --- arrival --------------------------------------------------------------------------------------------------


def test_reaching_and_receiving(host: Host) -> None:
    queue = host.queue()
    deliver(host, queue, asking(PA | PR))
    assert told(host) == [0x0002]
    host.reader(queue).receive()
    assert told(host) == [0x0002, 0x4000]


def test_who_asked_for_nothing_is_told_nothing(host: Host) -> None:
    queue = host.queue(quota_kb=1)
    deliver(host, queue, asking(NA | NR))
    host.reader(queue).receive()
    deliver(host, queue, asking(PA | PR, bytes(2000)))
    deliver(host, queue, asking(ALL, admin=None))
    host.manager.queues.purge(queue)
    assert told(host) == []


@pytest.mark.spec("DMPR-3.1.1.2-k")
@pytest.mark.parametrize(("wanted", "expected"), [(NA, [0x8006]), (PA | PR | NR, [])])
def test_unsigned_messages_to_a_queue_that_wants_signatures(wanted: int, expected: list[int]) -> None:
    host = started(send_insecure_nacks=True)
    queue = host.queue(authentication=True)
    assert deliver(host, queue, asking(wanted)) == 0x8006
    assert (host.contents(queue), told(host)) == ([], expected)
    assert not host.queue("default").authentication


@pytest.mark.spec("DMPR-3.1.1.2-m")
def test_kinds_do_not_mix(host: Host) -> None:
    ordered, plain = host.queue("ordered", transactional=True), host.queue("plain")
    assert deliver(host, ordered, asking(NA)) == 0x800A
    assert deliver(host, plain, asking(NA, transactional=True)) == 0x8009
    assert told(host) == [0x800A, 0x8009]
    assert (host.contents(ordered), host.contents(plain)) == ([], [])


@pytest.mark.spec("DMPR-3.1.1.2-o")
def test_rights_on_a_queue() -> None:
    host = started(send_insecure_nacks=True)
    nothing = SecurityDescriptor(owner=ADMINISTRATORS, dacl=Acl()).encode()
    queue = host.queue(security=nothing)
    assert deliver(host, queue, asking(NA), ANYBODY) == 0x8004
    assert told(host) == [0x8004]
    with pytest.raises(AccessDeniedError):
        host.manager.queues.open("DIRECT=OS:.\\private$\\orders", RECEIVE, caller=ANYBODY)
    receiving = Ace(AceType.ACCESS_ALLOWED, int(QueueAccessMask.RECEIVE_MESSAGE), EVERYONE)
    queue.security = SecurityDescriptor(owner=ADMINISTRATORS, dacl=Acl.of(receiving)).encode()
    host.manager.queues.open("DIRECT=OS:.\\private$\\orders", RECEIVE, caller=ANYBODY)
    assert deliver(host, queue, asking(NA), ANYBODY) == 0x8004


def test_refusals_that_tell_too_much_are_kept_back(host: Host) -> None:
    deliver(host, host.queue(authentication=True), asking(NA))
    assert told(host) == []


@pytest.mark.spec("DMPR-3.1.7.1.9-d")
def test_too_late_for_the_queue(host: Host) -> None:
    queue = host.queue()
    late = asking(NA, time_to_reach_queue_s=5, sent_time=NOON - 6)
    assert host.enqueue(queue, late) == ([3], [0])
    assert deliver(host, queue, late) == 0x8002
    assert (host.contents(queue), told(host)) == ([], [0x8002])


def test_full_queues(host: Host) -> None:
    deliver(host, host.queue(quota_kb=1), asking(NA, bytes(2000)))
    assert told(host) == [0x8003]


# --- afterwards -----------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.4-b")
def test_the_queue_is_deleted(host: Host) -> None:
    queue = host.queue(journaling=True)
    for wanted in (NR, NR, PR):
        deliver(host, queue, asking(wanted))
    deliver(host, queue, asking(NR))
    reader = host.reader(queue)
    position_of(reader.begin())  # locked messages are deleted too
    host.manager.queues.delete(queue)
    assert told(host) == [0xC000] * 3


@pytest.mark.spec("DMPR-3.1.7.1.7-c")
def test_the_queue_is_purged(host: Host) -> None:
    queue = host.queue()
    for wanted in (NR, PR, NR):
        deliver(host, queue, asking(wanted))
    host.manager.queues.purge(queue)
    assert told(host) == [0xC001] * 2


@pytest.mark.spec("DMPR-3.1.7.2.7-a")
def test_nobody_reads_it(host: Host) -> None:
    queue = host.queue()
    deliver(host, queue, asking(NR, time_to_be_received_s=2))
    deliver(host, queue, asking(PR, time_to_be_received_s=2))
    host.advance(3)
    assert (host.contents(queue), told(host)) == ([], [0xC002])


def test_journals_are_history(host: Host) -> None:
    queue = host.queue(journaling=True)
    deliver(host, queue, asking(ALL))
    host.reader(queue).receive()
    assert queue.journal is not None
    host.reader(queue.journal).receive()
    assert told(host) == [0x0002, 0x4000]


# --- what an acknowledgment looks like ------------------------------------------------------------------------


def test_an_acknowledgment(host: Host) -> None:
    queue = host.queue(quota_kb=1)
    original = asking(ALL, bytes(1500), recoverable=True)
    deliver(host, queue, original)
    (packet,) = packets(host, host.find("admin"))
    decoded = UserMessage.decode(packet.data)
    assert decoded.properties.correlation_id == original.packet.identifier.encode()
    assert decoded.identifier.queue_manager_guid == host.manager.core.record.identifier
    assert decoded.recoverable
    assert decoded.properties.flags == 0
    assert (decoded.properties.body_type, decoded.properties.application_tag) == (0, 0)
    assert (decoded.base.time_to_reach_queue_s, decoded.user.time_to_be_received_s) == (
        0xFFFFFFFF,
        0xFFFFFFFF,
    )
    assert decoded.user.destination_queue == ADMIN
    assert decoded.user.response_queue == "OS:HOST\\private$\\orders"
    assert decoded.body == bytes(1500)


def test_positive_ones_bring_no_body_back(host: Host) -> None:
    deliver(host, host.queue(), asking(PA))
    (packet,) = packets(host, host.find("admin"))
    assert packet.body == b""
    assert not packet.recoverable


def test_the_administration_queue_may_be_elsewhere(host: Host) -> None:
    deliver(host, host.queue(), asking(PA, admin="OS:far\\private$\\admin"))
    outgoing = host.manager.core.outgoing["direct=os:far\\private$\\admin"]
    assert isinstance(outgoing, OutgoingQueue)
    assert [packet.properties.message_class for packet in packets(host, outgoing)] == [0x0002]
    assert outgoing.open_descriptors == []


@pytest.mark.parametrize(
    "rule",
    [{"transactional": True}, {"authentication": True}, {"quota_kb": 0}],
    ids=lambda rule: next(iter(rule)),
)
def test_acknowledgments_keep_the_rules_of_the_queue_they_go_to(host: Host, rule: dict[str, Any]) -> None:
    """They come from this host and are plain messages like those of any other."""
    strict, queue = host.queue("strict", **rule), host.queue()
    assert (
        deliver(host, queue, asking(ALL, admin="OS:HOST\\private$\\strict")) == MessageClass.ACK_REACH_QUEUE
    )
    assert host.contents(queue) == [b"body"]
    assert host.contents(strict) == []


def test_an_administration_queue_that_is_not_there(host: Host) -> None:
    deliver(host, host.queue(), asking(ALL, admin="OS:HOST\\private$\\nobody"))
    assert told(host) == []


@pytest.mark.parametrize("prepared", [False, True])
def test_the_arrival_in_a_transaction_is_told_at_its_commit(host: Host, prepared: bool) -> None:
    """Also when the queue manager was restarted in between, with the transaction promised to a coordinator."""
    queue = host.queue(transactional=True)
    transaction = host.transactions.create(single_phase=not prepared)
    for message in (
        asking(PA, transactional=True),
        asking(0, transactional=True),
        asking(PR, transactional=True),
    ):
        host.deliver(queue, message, None, transaction)
    assert told(host) == []
    if prepared:
        host.transactions.prepare(transaction.identifier, single_phase=False)
        host.kill()
    host.transactions.commit(transaction.identifier)
    assert told(host) == [MessageClass.ACK_REACH_QUEUE]


def test_nobody_hears_of_the_arrival_of_what_was_aborted(host: Host) -> None:
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    host.deliver(queue, asking(ALL, transactional=True), None, transaction)
    host.transactions.abort(transaction.identifier)
    assert told(host) == []


def test_a_queue_that_is_deleted_gets_nothing_any_more(host: Host) -> None:
    """Its messages may name it as their administration queue."""
    before = host.manager.core.total_bytes
    queue = host.queue()
    deliver(host, queue, asking(ALL, admin="OS:HOST\\private$\\orders", recoverable=True))
    host.manager.queues.delete(queue)
    assert host.manager.core.total_bytes == before
    host.kill()
    assert host.manager.core.total_bytes == before


def test_a_dead_letter_in_a_queue_of_its_application_owes_nothing(host: Host) -> None:
    """Its sender was told of its end already."""
    queue, grave = host.queue(), host.queue("grave")
    dead = asking(ALL)
    dead.packet.user.source_queue_manager = host.manager.core.record.identifier
    dead.local = LocalAttributes(dead_letter_class=MessageClass.NACK_RECEIVE_TIMEOUT)
    host.manager.mailbox.put(grave, host.batch(dead))
    host.reader(grave).receive()
    assert host.contents(queue) == host.contents(grave) == []
    assert told(host) == []
