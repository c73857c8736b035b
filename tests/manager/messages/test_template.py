"""Packets made from templates are those that serializing makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import IllegalPropertySizeError, IllegalPropertyValueError, LabelTooLongError, MQError
from msmq.manager.mailbox.stored import LocalAttributes
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.template import Template, kind_of, suits
from msmq.wire.headers import NULL_GUID
from msmq.wire.identifiers import MessageIdentifier
from tests.manager.message_strategies import common, messages
from tests.manager.support import SEND, Host

PER_MESSAGE = (
    "body",
    "body_type",
    "label",
    "extension",
    "application_tag",
    "correlation_identifier",
    "message_class",
    "acknowledgements_requested",
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
    return template.packet(
        message.identifier.ordinal,
        message.sent_time,
        *(getattr(message, name) for name in PER_MESSAGE),
        message.transaction_identifier or 0,
    )


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
    assert kind_of(first) == kind_of(second)
    template = Template.of(first, LocalAttributes())
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


def test_messages_without_local_attributes_have_none() -> None:
    assert Template.of(Message(), LocalAttributes()).kind.local is None
    kept = LocalAttributes(allow_peek_when_locked=True)
    assert Template.of(Message(), kept).kind.local is kept
