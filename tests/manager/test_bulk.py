"""Many messages at once: they arrive as one by one they would have, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from msmq.manager.core import Subscriber
from msmq.manager.message import DeliveryGuarantee, Message
from msmq.manager.positions import PositionState
from msmq.manager.queue import Queue, ReadResult
from msmq.manager.stored import LocalAttributes
from msmq.manager.template import Template
from msmq.manager.transactions import Transaction
from msmq.wire.identifiers import MessageIdentifier
from tests.manager.support import RECEIVE, Host

NO_CORRELATION = bytes(20)


@pytest.fixture
def host() -> Host:
    host = Host()
    host.manager.core.unsubscribe(host.spy)
    host.queue()
    return host


def template(host: Host, local: LocalAttributes | None = None, **properties: Any) -> Template:
    given: dict[str, Any] = {"delivery_guarantee": DeliveryGuarantee.RECOVERABLE, **properties}
    identifier = MessageIdentifier(host.manager.core.record.identifier, 1)
    made = Message(
        destination_queue_format_name="DIRECT=OS:HOST\\private$\\orders",
        identifier=identifier,
        sent_time=int(host.now),
        **given,
    )
    return Template(made, local or LocalAttributes())


def packets(host: Host, made: Template, *bodies: bytes) -> list[bytes]:
    ordinal, now = host.manager.core.next_message_ordinal, int(host.now)
    return [made.packet(ordinal(), now, body, 0, "label", b"", 7, NO_CORRELATION, 0, 0) for body in bodies]


def bodies(host: Host) -> list[bytes]:
    queue = host.find()
    return [bytes(host.manager.core.load(queue, entry).packet.body) for entry in queue.positions]


@pytest.mark.parametrize("restarted", ["kill", "restart"])
def test_they_stand_in_their_queue_and_survive(host: Host, restarted: str) -> None:
    urgent, usual = template(host, priority=7), template(host)
    for made, given in ((usual, (b"c", b"dd")), (urgent, (b"a", b"b"))):
        assert host.manager.bulk.takes(host.find(), made)
        ids = host.manager.bulk.place(host.find(), made, packets(host, made, *given))
        assert ids is not None
        assert ids == sorted(ids)
    queue = host.find()
    total = sum(entry.size for entry in queue.positions)
    assert host.manager.core.total_bytes == queue.positions.total_bytes == total
    assert bodies(host) == [b"a", b"b", b"c", b"dd"]
    getattr(host, restarted)()
    assert bodies(host) == [b"a", b"b", b"c", b"dd"]
    assert host.manager.core.total_bytes == total
    message = host.manager.core.load(host.find(), next(iter(host.find().positions)))
    assert (message.packet.label, message.packet.properties.application_tag) == ("label", 7)
    assert message.arrival_time == int(host.now)


@pytest.mark.parametrize("life", ["live", "kill"])
@pytest.mark.parametrize("kept", [False, True])
def test_those_who_want_it_are_kept_when_nobody_reads_them(host: Host, kept: bool, life: str) -> None:
    made = template(host, negative_journaling_requested=kept)
    host.manager.bulk.place(host.find(), made, packets(host, made, b"1", b"2"))
    if life == "kill":
        host.kill()
    host.manager.queues.purge(host.find())
    assert bodies(host) == []
    grave = host.manager.core.dead_letter_queue
    assert grave is not None
    assert len(grave.positions) == (2 if kept else 0)


@pytest.mark.parametrize(
    "properties",
    [
        {"delivery_guarantee": DeliveryGuarantee.EXPRESS},
        {"time_to_be_received_s": 60},
        {"time_to_reach_queue_s": 0},
        {"positive_journaling_requested": True},
        {"administration_queue_format_name": "DIRECT=OS:HOST\\private$\\admin"},
        {"transaction_identifier": 3},
        {"local": LocalAttributes(allow_peek_when_locked=True)},
    ],
    ids=lambda properties: next(iter(properties)),
)
def test_what_more_comes_of_goes_another_way(host: Host, properties: dict[str, Any]) -> None:
    made = template(host, **properties)
    host.now += 1
    assert not host.manager.bulk.takes(host.find(), made)


@pytest.mark.parametrize("attributes", [{"transactional": True}, {"authentication": True}], ids=str)
def test_a_queue_that_refuses_them_does_not_take_them(host: Host, attributes: dict[str, Any]) -> None:
    assert not host.manager.bulk.takes(host.queue("strict", **attributes), template(host))


def test_a_reader_that_waits_and_those_who_want_to_hear_are_not_passed_over(host: Host) -> None:
    made = template(host)
    assert host.manager.bulk.takes(host.find(), made)
    host.manager.subscribe(host.spy)
    assert not host.manager.bulk.takes(host.find(), made)
    host.manager.core.unsubscribe(host.spy)

    class Curious(Subscriber):
        def message_arrived(self, queue: Queue, message: object, fate: int) -> None: ...

    curious = Curious()
    host.manager.subscribe(curious)
    assert not host.manager.bulk.takes(host.find(), made)
    host.manager.core.unsubscribe(curious)
    assert host.manager.bulk.takes(host.find(), made)
    descriptor = host.open(host.find(), RECEIVE)
    host.reading.dequeue(descriptor, lambda result: None)
    assert not host.manager.bulk.takes(host.find(), made)


@pytest.mark.parametrize("limit", ["queue", "machine", "throttled"])
def test_no_room_for_all_is_room_for_none(host: Host, limit: str) -> None:
    made, core = template(host), host.manager.core
    if limit == "queue":
        host.find().quota_kb = 3
    elif limit == "machine":
        core.record.queue_manager_quota_kb = 3
    else:
        core.throttled = True
    assert host.manager.bulk.place(host.find(), made, packets(host, made, *[bytes(1000)] * 4)) is None
    assert bodies(host) == []
    assert core.total_bytes == 0
    if limit != "throttled":
        assert host.manager.bulk.place(host.find(), made, packets(host, made, bytes(1000))) is not None


# --- in a transaction -------------------------------------------------------------------------------------------------


def begun(host: Host, *given: bytes) -> Transaction:
    """A transaction that sends messages to the queue ``whole``."""
    transaction = host.manager.transactions.create()
    made = template(host, transaction_identifier=transaction.number, priority=0)
    queue = host.find("whole")
    assert host.manager.bulk.takes(queue, made, transaction)
    filled = [
        made.packet(number, int(host.now), body, 0, "", b"", 0, NO_CORRELATION, 0, 0, transaction.number)
        for number, body in enumerate(given, 1)
    ]
    ids = host.manager.bulk.place(queue, made, filled, transaction)
    assert ids is not None
    assert ids == sorted(ids)
    return transaction


def seen(host: Host) -> list[tuple[bytes, bool, bool]]:
    """What may be read there: bodies, and which of them begin and end a transaction."""
    queue = host.find("whole")
    found = []
    for entry in queue.positions:
        if entry.state is PositionState.AVAILABLE:
            packet = host.manager.core.load(queue, entry).packet
            assert packet.transaction is not None
            edges = packet.transaction.first_message == 1, packet.transaction.last_message == 1
            found.append((bytes(packet.body), *edges))
    return found


@pytest.mark.parametrize("life", ["same", "kill", "restart"])
def test_in_a_transaction_they_are_seen_at_the_commit(host: Host, life: str) -> None:
    host.queue("whole", transactional=True)
    transaction = begun(host, b"a", b"b", b"c")
    assert seen(host) == []
    host.manager.transactions.commit(transaction.identifier)
    if life != "same":
        getattr(host, life)()
    assert seen(host) == [(b"a", True, False), (b"b", False, False), (b"c", False, True)]
    assert host.manager.core.total_bytes == host.find("whole").positions.total_bytes


@pytest.mark.parametrize("end", ["abort", "kill", "restart"])
def test_an_abort_and_a_crash_take_all_of_them_back(host: Host, end: str) -> None:
    host.queue("whole", transactional=True)
    transaction = begun(host, b"a", b"b")
    if end == "abort":
        host.manager.transactions.abort(transaction.identifier)
    else:
        getattr(host, end)()
    assert len(host.find("whole").positions) == 0
    assert host.manager.core.total_bytes == 0


def test_a_reader_that_waits_has_the_first_with_the_commit(host: Host) -> None:
    queue = host.queue("whole", transactional=True)
    got: list[ReadResult] = []
    descriptor = host.open(queue, RECEIVE)
    host.reading.dequeue(descriptor, got.append)
    transaction = begun(host, b"a", b"b", b"c")
    assert got == []
    host.manager.transactions.commit(transaction.identifier)
    assert [bytes(result.message.packet.body) for result in got if result.message] == [b"a"]
    assert [body for body, _, _ in seen(host)] == [b"b", b"c"]


def test_a_queue_of_the_other_kind_takes_none(host: Host) -> None:
    transaction = host.manager.transactions.create()
    whole = host.queue("whole", transactional=True)
    inside, outside = template(host, transaction_identifier=transaction.number), template(host)
    assert not host.manager.bulk.takes(host.find(), inside, transaction)
    assert not host.manager.bulk.takes(whole, outside, transaction)
    assert not host.manager.bulk.takes(whole, inside)
