"""Packets made from templates are those that serializing makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    LabelTooLongError,
    MQError,
    TransactionUsageError,
)
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes
from msmq.manager.messages.drafts import Posting
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.template import Template, kind_of, options, refuse, suits, write_packets
from msmq.wire.headers import NULL_GUID
from msmq.wire.identifiers import MessageIdentifier
from tests.manager.message_strategies import common, messages
from tests.manager.support import SEND, Host

RECOVERABLE = DeliveryGuarantee.RECOVERABLE
PROPERTIES = (
    "body",
    "body_type",
    "label",
    "extension",
    "application_tag",
    "correlation_identifier",
    "message_class",
)
PER_MESSAGE = (
    *PROPERTIES,
    "acknowledgements_requested",
    "priority",
    "delivery_guarantee",
    "time_to_reach_queue_s",
    "time_to_be_received_s",
    "positive_journaling_requested",
    "negative_journaling_requested",
)

UNSUITED: dict[str, Any] = {
    "signature": b"",
    "multiple_destination_signature": b"",
    "privacy_level": 0,
    "symmetric_key": b"",
    "tracing_requested": False,
    "tracing_queue_identifier": NULL_GUID,
    "soap_header": "",
    "soap_body": "",
    "destination_multi_queue_format_name": (),
    "administration_multi_queue_format_name": (),
    "response_multi_queue_format_name": (),
}


def fill(template: Template, message: Message) -> bytes:
    user_flags = template.user_flags | options(
        recoverable=bool(message.delivery_guarantee),
        negative_journaling=message.negative_journaling_requested,
        positive_journaling=message.positive_journaling_requested,
    )
    row: Any = (
        template.form,
        message.identifier.ordinal,
        message.transaction_identifier or 0,
        user_flags,
        template.base_flags | (0 if template.covered else message.priority),
        message.time_to_reach_queue_s,
        message.time_to_be_received_s,
        message.acknowledgements_requested,
        *(getattr(message, name) for name in PROPERTIES),
    )
    (packet,) = write_packets([row], message.sent_time, refuse)
    return packet


@given(messages(), common, st.integers(0, 0xFFFFF))
def test_a_template_gives_the_packet_that_serializing_gives(
    first: Message, others: dict[str, Any], transaction: int
) -> None:
    """Whatever the message that a template was made of, another one of its kind is filled in completely."""
    first = replace(first, **UNSUITED)
    assert suits(first)
    own = {name: others[name] for name in (*PER_MESSAGE, "sent_time")}
    second = replace(first, **own)
    second.identifier = MessageIdentifier(first.identifier.queue_manager_guid, others["identifier"].ordinal)
    if first.transaction_identifier is not None:
        second.transaction_identifier = transaction
        second.delivery_guarantee = first.delivery_guarantee
    assert kind_of(first) == kind_of(second)
    template = Template.of(first)
    for message in (first, second):
        assert fill(template, message) == serialize(message).data


@given(messages())
def test_what_a_template_cannot_do_does_not_suit(message: Message) -> None:
    """A signature is over the body, and rare headers stand behind it."""
    packet = serialize(message)
    behind = any(header is not None for header in packet.rare)
    signed = packet.security is not None and bool(packet.security.signature_size)
    assert not (suits(message) and (behind or signed))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"label": "x" * 250}, LabelTooLongError),
        ({"label": "a\0b"}, IllegalPropertyValueError),
        ({"correlation_identifier": b"short"}, IllegalPropertySizeError),
        ({"message_class": 0x0200}, IllegalPropertyValueError),
        ({"body_type": 1 << 32}, IllegalPropertyValueError),
        ({"body_type": -1}, IllegalPropertyValueError),
        ({"application_tag": 1 << 32}, IllegalPropertyValueError),
        ({"acknowledgements_requested": 0x10}, IllegalPropertyValueError),
        ({"acknowledgements_requested": -1}, IllegalPropertyValueError),
    ],
    ids=["label", "null", "correlation", "class", "type", "negative", "tag", "acknowledgements", "below"],
)
def test_what_no_application_may_send_is_refused_alike(changed: dict[str, Any], error: type[MQError]) -> None:
    """The first message of its kind is checked as a whole, those that follow by the template."""
    host = Host()
    host.queue("orders")
    descriptor = host.manager.queues.open("DIRECT=OS:HOST\\private$\\orders", SEND)
    for _ in range(2):
        with pytest.raises(error):
            host.manager.posting.send(descriptor, Message(body=b"body", **changed))
        host.manager.posting.send(descriptor, Message(body=b"body"))
    assert len(host.find("orders").positions) == 2


def test_messages_of_one_kind_differ_in_what_is_their_own() -> None:
    """Sent one after another, in and out of transactions, each has its number, its transaction and its priority."""
    host = Host()
    plain, strict = host.queue("plain"), host.queue("strict", transactional=True)
    to_plain, to_strict = (
        host.manager.queues.open(f"DIRECT=OS:HOST\\private$\\{name}", SEND) for name in ("plain", "strict")
    )
    send, transactions = host.manager.posting.send, host.manager.transactions
    for number in range(3):
        send(to_plain, Message(body=b"%d" % number, priority=number, label="x" * number))
        transaction = transactions.create()
        for _ in range(2):
            send(to_strict, Message(body=b"%d" % number, priority=5), transaction)
        transactions.commit(transaction.identifier)
    load = host.manager.mailbox.load
    found = [load(plain, entry.lookup_id).packet for entry in plain.positions]
    assert [(packet.body, packet.priority, packet.label) for packet in found] == [
        (b"2", 2, "xx"),
        (b"1", 1, "x"),
        (b"0", 0, ""),
    ]
    sent = [load(strict, entry.lookup_id).packet for entry in strict.positions]
    headers = [packet.transaction for packet in sent]
    assert [packet.body for packet in sent] == [b"0", b"0", b"1", b"1", b"2", b"2"]
    assert all(packet.user.delivery_mode == DeliveryGuarantee.RECOVERABLE for packet in sent)
    numbers = [header.transaction_id for header in headers if header is not None]
    assert numbers[::2] == numbers[1::2]
    assert len(set(numbers)) == 3
    assert len({packet.user.message_id for packet in found + sent}) == 9


@pytest.mark.parametrize("changed", [{"priority": 8}, {"priority": -1}, {"time_to_be_received_s": 1 << 32}])
def test_what_does_not_fit_its_field_is_refused_beside_a_template(changed: dict[str, Any]) -> None:
    host = Host()
    queue = host.queue("orders")
    descriptor = host.manager.queues.open("DIRECT=OS:HOST\\private$\\orders", SEND)
    host.manager.posting.send(descriptor, Message(body=b"body"))
    with pytest.raises(IllegalPropertyValueError):
        host.manager.posting.send(descriptor, Message(body=b"body", **changed))
    assert len(queue.positions) == 1


def test_a_message_that_is_not_transactional_never_shares_a_template_with_one_that_is() -> None:
    host = Host()
    queue = host.queue("orders")
    descriptor = host.manager.queues.open("DIRECT=OS:HOST\\private$\\orders", SEND)
    with pytest.raises(TransactionUsageError):
        host.manager.posting.send(
            descriptor, Message(transaction_identifier=7, delivery_guarantee=RECOVERABLE)
        )
    host.manager.posting.send(descriptor, Message())
    (entry,) = queue.positions
    assert host.manager.mailbox.load(queue, entry.lookup_id).packet.transaction is None


def test_messages_without_local_attributes_have_none() -> None:
    assert Posting.local(Message()) is NO_ATTRIBUTES
    assert Posting.local(Message(allow_peek_when_locked=True)) == LocalAttributes(allow_peek_when_locked=True)
