"""A message and its record."""

from __future__ import annotations

from dataclasses import asdict
from ipaddress import ip_address

import pytest
from hypothesis import given, settings

from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import deserialize, serialize
from msmq.wire.headers import INFINITE
from msmq.wire.trailers import host_address
from tests.manager.message_strategies import messages
from tests.manager.support import NOON, Host, message


@pytest.mark.parametrize(
    "local",
    [
        LocalAttributes(),
        LocalAttributes(allow_peek_when_locked=True, application_deadletter_queue="HOST\\private$\\dead ☠"),
        LocalAttributes(transaction_status_queue="DIRECT=OS:HOST\\private$\\status"),
    ],
)
@pytest.mark.spec("DMPR-3.1.1.12-ap", "DMPR-3.1.1.12-ay")
def test_what_no_header_carries_survives_beside_the_packet(local: LocalAttributes) -> None:
    host = Host()
    queue = host.queue()
    sent = message(b"body", recoverable=True)
    sent.local = local
    _, (lookup_id,) = host.enqueue(queue, sent)
    host.kill()
    again = host.find()
    loaded = host.manager.mailbox.load(again, lookup_id)
    assert loaded.local == local
    assert loaded.packet.data == sent.packet.data
    assert (loaded.lookup_id, loaded.arrival_time) == (lookup_id, NOON)
    assert (lookup_id in again.peekable_when_locked) is local.allow_peek_when_locked


@pytest.mark.spec("DMPR-3.1.1.12-ax")
def test_a_message_leads_to_its_position() -> None:
    host = Host()
    queue = host.queue()
    _, position = host.fill(queue, b"1", b"2")
    load = host.manager.mailbox.load
    assert queue.position(load(queue, position.lookup_id).lookup_id) == position
    later = host.manager.queues.subqueue(queue, "later")
    host.manager.move_message(position, later)
    (entry,) = later.positions
    assert load(later, entry.lookup_id).lookup_id == entry.lookup_id
    assert host.body_at(later.position(entry.lookup_id)) == b"2"


@pytest.mark.spec("DMPR-3.1.1.12-ay")
@settings(max_examples=50)
@given(messages())
def test_every_attribute_of_a_recoverable_message_survives(sent: Message) -> None:
    sent.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
    sent.time_to_be_received_s = sent.time_to_reach_queue_s = INFINITE  # it has to be there to be compared
    host = Host()
    local = LocalAttributes(
        allow_peek_when_locked=True,
        application_deadletter_queue="HOST\\private$\\dead",
        authentication_level=5,
        private=True,
        transaction_status_queue="HOST\\private$\\status",
        direct_session=True,
        dead_letter_class=0x8003,
    )
    assert all(asdict(local).values()), "all of them, and none at its default"
    source = host_address(ip_address("fe80::1%3"))
    _, (lookup_id,) = host.enqueue(host.queue(), StoredMessage(serialize(sent), local, source=source))

    def everything() -> tuple[Message, LocalAttributes, int, int, bytes]:
        queue = host.find()
        loaded = host.manager.mailbox.load(queue, lookup_id)
        return (
            deserialize(loaded.packet),
            loaded.local,
            loaded.lookup_id,
            loaded.arrival_time,
            loaded.source,
        )

    before = everything()
    host.kill()
    assert everything() == before
    assert (before[1], before[4]) == (local, source)


def test_size_and_expiry_follow_from_the_packet() -> None:
    plain = message(b"body")
    assert plain.size == len(plain.packet.data)
    assert plain.expiry is None
    assert message(sent_time=NOON, time_to_be_received_s=10).expiry == NOON + 10


def test_a_copy_is_for_another_place() -> None:
    first = message(b"body")
    copy = first.same_place(7)
    assert isinstance(copy, StoredMessage)
    assert (copy.lookup_id, copy.packet) == (7, first.packet)
