"""What a destination queue takes and refuses, and where messages go that nobody takes: MS-MQDMPR 3.1.1.2, 3.1.7.1.9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from msmq.errors import LabelTooLongError, MessageStorageFailedError
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import QueuePrivacyLevel
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.store.layout import place, segment_name
from msmq.wire.access_masks import QueueAccessMask
from msmq.wire.classes import MessageClass
from msmq.wire.headers import BaseHeader
from msmq.wire.optional_headers import SecurityHeader
from tests.manager.support import SEND, Host, body_of, message
from tests.wire.builders import SID, build, user_header

SENDER = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1001"))
REACHED = MessageClass.ACK_REACH_QUEUE
UNREACHED = MessageClass.NACK_REACH_QUEUE_TIMEOUT


class Arrivals(Subscriber):
    def __init__(self) -> None:
        self.fates: list[int] = []

    every_message = True

    def messages_arrived(self, queue: Queue, messages: Sequence[StoredMessage], fate: int) -> None:
        self.fates += [fate] * len(messages)


def deliver(host: Host, queue: Queue, one: StoredMessage | None = None, sender: Token | None = None) -> int:
    """The fate of a message, which subscribers are told and which the queue bears out."""
    arrivals = Arrivals()
    host.manager.subscribe(arrivals)
    before = len(queue.positions)
    one = one or message(transactional=queue.transactional)
    fate = host.deliver(queue, one, sender)
    assert len(queue.positions) == before + (fate == REACHED)
    assert arrivals.fates == [fate]
    return fate


def encrypted() -> StoredMessage:
    """A message that came encrypted; its own claim, in EB, is worth nothing."""
    return StoredMessage(build(), LocalAttributes(private=True))


def claiming() -> StoredMessage:
    header = SecurityHeader(flags=0x21, security_id=SID, encryption_key=b"key")
    return StoredMessage(build(security=header), LocalAttributes())


@pytest.mark.parametrize(
    ("transactional", "fate"), [(True, MessageClass.NACK_NOT_TRANSACTIONAL_MSG), (False, 0x8009)]
)
def test_kinds_do_not_mix(host: Host, transactional: bool, fate: int) -> None:
    queue = host.queue(transactional=transactional)
    assert deliver(host, queue, message(transactional=not transactional)) == fate
    assert deliver(host, queue, message(transactional=transactional)) == REACHED


@pytest.mark.spec("DMPR-3.1.1.2-l")
@pytest.mark.parametrize(
    ("level", "clear", "secret"),
    [
        (QueuePrivacyLevel.NONE, REACHED, MessageClass.NACK_BAD_ENCRYPTION),
        (QueuePrivacyLevel.OPTIONAL, REACHED, REACHED),
        (QueuePrivacyLevel.BODY, MessageClass.NACK_BAD_ENCRYPTION, REACHED),
    ],
)
def test_privacy(host: Host, level: QueuePrivacyLevel, clear: int, secret: int) -> None:
    queue = host.queue(privacy_level=level)
    assert (deliver(host, queue), deliver(host, queue, encrypted())) == (clear, secret)
    assert deliver(host, queue, claiming()) == clear
    assert host.queue("default").privacy_level is QueuePrivacyLevel.OPTIONAL


def test_authentication(host: Host) -> None:
    queue = host.queue(authentication=True)
    assert deliver(host, queue) == MessageClass.NACK_BAD_SIGNATURE
    assert deliver(host, queue, message(authentication_level=3)) == REACHED
    claiming = message()
    claiming.packet = build(security=SecurityHeader(flags=1, security_id=SID, signature=b"unverified"))
    assert deliver(host, queue, claiming) == MessageClass.NACK_BAD_SIGNATURE  # nobody verified it


def test_the_sender_needs_the_right_to_send(host: Host) -> None:
    rights = QueueAccessMask.QUEUE_GENERIC_ALL & ~QueueAccessMask.WRITE_MESSAGE
    dacl = Acl.of(Ace(AceType.ACCESS_ALLOWED, int(rights), EVERYONE))
    queue = host.queue(security=SecurityDescriptor(dacl=dacl).encode())
    assert deliver(host, queue, sender=SENDER) == 0x8004
    assert deliver(host, host.queue("open"), sender=SENDER) == REACHED


def test_quotas_refuse_arrivals(host: Host) -> None:
    queue = host.queue(quota_kb=1)
    assert deliver(host, queue, message(bytes(2000))) == 0x8003
    host.manager.begin_flow_control()
    assert deliver(host, queue) == 0x8003


def late(sent_time: int, time_to_reach_queue_s: int) -> StoredMessage:
    user = user_header()
    user.sent_time = sent_time
    base = BaseHeader(time_to_reach_queue_s=time_to_reach_queue_s)
    return StoredMessage(build(base=base, user=user), LocalAttributes())


def test_too_late(host: Host) -> None:
    queue, now = host.queue(), int(host.now)
    assert deliver(host, queue, late(now - 10, 9)) == 0x8002
    assert deliver(host, queue, late(now - 10, 10)) == REACHED
    assert deliver(host, queue, late(now - 10_000, 0xFFFFFFFF)) == REACHED


def test_in_a_transaction_messages_arrive_with_the_commit(host: Host) -> None:
    queue = host.queue(transactional=True)
    transaction = host.transactions.create()
    arrivals = Arrivals()
    host.manager.subscribe(arrivals)
    fate = host.deliver(queue, message(transactional=True), transaction=transaction)
    assert fate == REACHED
    assert arrivals.fates == []


@pytest.mark.spec("MQMQ-2.4-r")
def test_labels_have_a_limit() -> None:
    assert build(label="x" * 249).label == "x" * 249
    with pytest.raises(LabelTooLongError) as refused:
        build(label="x" * 250)
    assert refused.value.code == 0xC00E005D


# --- dead letters and journals --------------------------------------------------------------------------------


def system_queues(host: Host) -> tuple[Any, Any, Any]:
    core = host.manager.core
    return core.dead_letter_queue, core.transactional_dead_letter_queue, core.journal_queue


def test_dead_letters_go_to_the_queue_of_their_kind(host: Host) -> None:
    outgoing = host.manager.queues.open("DIRECT=OS:far\\q", SEND).queue
    assert outgoing is not None
    for transactional in (False, True):
        position = host.send(outgoing, b"x", transactional=transactional, recoverable=True)
        host.manager.sending.dead_letter(outgoing, position.lookup_id, UNREACHED)
    host.kill()
    plain, transactional_one, _ = system_queues(host)
    assert [len(plain.positions), len(transactional_one.positions)] == [1, 1]


@pytest.mark.parametrize(("fits", "there"), [(True, True), (False, True), (True, False)])
def test_an_application_may_have_its_own_dead_letter_queue(host: Host, fits: bool, there: bool) -> None:
    own = host.queue("own", transactional=not fits) if there else None
    queue = host.queue()
    position = host.send(queue, b"x", application_deadletter_queue="HOST\\private$\\own")
    host.manager.sending.dead_letter(queue, position.lookup_id, UNREACHED)
    system, _, _ = system_queues(host)
    assert len(system.positions) == (0 if fits and there else 1)
    if own is not None:
        assert len(own.positions) == (1 if fits else 0)


def reasons(host: Host) -> list[int]:
    dead, _, _ = system_queues(host)
    load = host.manager.mailbox.load
    return [load(dead, entry.lookup_id).local.dead_letter_class for entry in dead.positions]


@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
def test_a_dead_letter_keeps_why_it_is_one(host: Host, recoverable: bool) -> None:
    queue = host.queue()
    position = host.send(queue, b"x", recoverable=recoverable)
    host.manager.sending.dead_letter(queue, position.lookup_id, UNREACHED)
    refused = message(b"y", recoverable=recoverable)
    host.manager.sending.dead_letter_copies((refused,), MessageClass.NACK_Q_EXCEED_QUOTA)
    assert refused.local.dead_letter_class == 0
    assert reasons(host) == [0x8002, 0x8003]
    host.kill()
    assert reasons(host) == ([0x8002, 0x8003] if recoverable else [])


def test_a_dead_letter_stands_where_it_was_put_last(host: Host) -> None:
    """It was moved before, and its new record must count for more than that move; and it may be thrown away."""
    queue = host.queue()
    sub = host.manager.queues.subqueue(queue, "sub")
    for body in (b"a", b"b"):
        position = host.send(queue, body, recoverable=True)
        host.manager.move_message(position, sub)
        host.manager.sending.dead_letter(sub, position.lookup_id, UNREACHED)
    for _ in range(2):
        host.kill()
        dead, _, _ = system_queues(host)
        assert host.contents(dead) == [b"a", b"b"]
        assert reasons(host) == [0x8002, 0x8002]
        assert host.contents(host.find().subqueue_collection["sub"]) == []
    host.manager.queues.purge(dead)
    host.kill()
    dead, _, _ = system_queues(host)
    assert host.contents(dead) == []


def test_a_full_disk_costs_the_reason_and_not_the_message(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = host.queue()
    position = host.send(queue, b"x", recoverable=True)
    store = host.manager.core.ledger.store
    reserve = store.reserve

    def full(size: int, records: int = 1, freeing: bool = False) -> None:
        if not freeing:
            raise MessageStorageFailedError("The disk is full.")
        reserve(size, records, freeing=True)

    with monkeypatch.context() as patch:
        patch.setattr(store, "reserve", full)
        host.manager.sending.dead_letter(queue, position.lookup_id, UNREACHED)
    host.kill()
    dead, _, _ = system_queues(host)
    assert host.contents(dead) == [b"x"]
    assert reasons(host) == [0]


def test_full_dead_letter_queues_take_nothing(host: Host) -> None:
    host.manager.core.record.journal_quota_kb = 0
    queue = host.queue()
    position = host.send(queue, b"x")
    host.manager.sending.dead_letter(queue, position.lookup_id, UNREACHED)
    assert host.manager.core.total_bytes == 0


def test_copies_of_what_was_sent(host: Host) -> None:
    core = host.manager.core
    one = message(b"sent", recoverable=True)
    host.manager.sending.journal_sent(Batch.of((one,), host.manager.core.record.identifier))
    core.record.journal_quota_kb = 1
    host.manager.sending.journal_sent(Batch.of((message(bytes(1000)),), host.manager.core.record.identifier))
    core.record.journal_quota_kb = 0xFFFFFFFF
    core.record.queue_manager_quota_kb = 1
    host.manager.sending.journal_sent(Batch.of((message(bytes(1000)),), host.manager.core.record.identifier))
    host.kill()
    _, _, journal = system_queues(host)
    assert host.contents(journal) == [b"sent"]


def scattered(host: Host) -> tuple[Queue, list[StoredMessage]]:
    """Messages of every priority, on disk and in memory, in an outgoing queue."""
    outgoing = host.manager.queues.open("DIRECT=OS:far\\q", SEND).queue
    assert outgoing is not None
    given = [
        message(b"%d" % number, priority=number * 5 % 8, recoverable=bool(number % 3)) for number in range(24)
    ]
    host.manager.mailbox.put(outgoing, host.batch(*given))
    return outgoing, given


@pytest.mark.parametrize("quota_kb", [0xFFFFFFFF, 1], ids=["all fit", "few fit"])
def test_delivered_messages_move_to_the_journal_as_far_as_they_fit(host: Host, quota_kb: int) -> None:
    outgoing, given = scattered(host)
    places = [entry.lookup_id for entry in outgoing.positions]
    chosen, left = places[::2], places[1::2]
    core, fitting = host.manager.core, len(chosen)
    core.record.journal_quota_kb = quota_kb
    if quota_kb == 1:
        fitting = 1024 // max(one.size for one in given)
        assert 0 < fitting < len(chosen)
    bodies = [host.body_at(outgoing.position(one)) for one in chosen[:fitting]]
    recoverable = [body for body in bodies if int(body) % 3]
    host.manager.sending.move_to_system_queue(outgoing, chosen[::-1], system_queues(host)[2])
    assert host.contents(system_queues(host)[2]) == bodies
    assert [entry.lookup_id for entry in outgoing.positions] == left
    assert core.total_bytes == sum(each.total_bytes for each in core.queues.values())
    host.kill()
    assert host.contents(system_queues(host)[2]) == recoverable
    reader = host.reader(system_queues(host)[2])
    for body in recoverable:
        assert body_of(reader.receive()) == body


def test_a_damaged_message_is_found_by_who_reads_the_journal() -> None:
    host = Host(spying=False)
    outgoing, _ = scattered(host)
    damaged = next(entry for entry in outgoing.positions if entry.address)
    host.store.commit()
    number, offset = place(damaged.address)
    host.disk.flip(segment_name(number), offset + 80, 1)
    journal = system_queues(host)[2]
    places = [entry.lookup_id for entry in outgoing.positions]
    host.manager.sending.move_to_system_queue(outgoing, places, journal)
    assert (len(outgoing.positions), len(journal.positions), host.manager.core.lost_records) == (0, 24, [])
    reader = host.reader(journal)
    assert sum(body_of(reader.receive()) is not None for _ in range(24)) == 23
    assert [lost.lookup_id for lost in host.manager.core.lost_records] == [damaged.lookup_id]
