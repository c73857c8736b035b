"""The sentence on each packet."""

from __future__ import annotations

import pytest

from msmq.wire.classes import MessageClass
from msmq.wire.describe import describe, describe_ping
from msmq.wire.explain import FATES, Role, explain
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader, SessionHeader, TransactionHeader
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    FinalAckBody,
    OrderAckBody,
    Ping,
    SessionAck,
    build_order_message,
)
from tests.wire import builders, messages


def sentence(data: bytes, role: Role = Role.UNKNOWN) -> str:
    text = explain(describe(data), role)
    assert text.endswith(".")
    assert text[0].isupper()
    return text


def of_message(message: UserMessage) -> str:
    return sentence(message.data)


def test_pings() -> None:
    asked, refused = Ping(), Ping().answer(builders.SOURCE, refuse=True)
    texts = {explain(describe_ping(asked.encode()), role) for role in Role}
    assert len(texts) == 3
    assert "takes no session" in explain(describe_ping(refused.encode()), Role.RESPONSE)


def test_opening() -> None:
    packet = EstablishConnection.request(builders.SOURCE, builders.OTHER, 1)
    assert "names the queue manager it wants" in sentence(packet.encode(), Role.REQUEST)
    anyone = EstablishConnection.request(builders.SOURCE, bytes(16), 1)
    assert "whichever queue manager" in sentence(anyone.encode(), Role.REQUEST)
    assert "Accepts" in sentence(packet.response(builders.OTHER).encode(), Role.RESPONSE)
    assert "Refuses" in sentence(packet.response(builders.OTHER, refuse=True).encode(), Role.RESPONSE)
    assert "or accepts one" in sentence(packet.encode())


def test_terms() -> None:
    packet = ConnectionParameters.of(500, 20_000, 64)
    assert "within 20 s" in sentence(packet.encode(), Role.REQUEST)
    assert "64 unconfirmed" in sentence(packet.encode(), Role.RESPONSE)
    packet.internal.connection_refused = 1
    assert "Refuses" in sentence(packet.encode())


@pytest.mark.parametrize(("count", "text"), [(1, "1 message has arrived"), (3, "3 messages have arrived")])
def test_session_acks(count: int, text: str) -> None:
    assert text in sentence(SessionAck.of(SessionHeader(ack_sequence_number=count)).encode())


def test_session_acks_of_stored_messages() -> None:
    session = SessionHeader(2, recoverable_msg_ack_seq_number=1, recoverable_msg_ack_flags=0b11)
    assert "recoverable 1, 2" in sentence(SessionAck.of(session).encode())


def test_messages() -> None:
    assert of_message(messages.message(label="", body=b"")) == (
        "Carries a recoverable message to DIRECT=OS:host\\private$\\orders: no body."
    )
    assert "a transactional message “An order”" in of_message(
        messages.message(transaction=TransactionHeader())
    )
    assert "9 bytes" in of_message(messages.message(body=b"\x01" * 9))
    assert "5 characters of text" in of_message(messages.message(body="order".encode("utf-16-le")))
    security = SecurityHeader(encryption_key=b"key.")
    security.body_encrypted = 1
    assert "encrypted" in of_message(messages.message(security=security))


@pytest.mark.parametrize("message_class", list(FATES))
def test_every_acknowledgment_says_what_happened(message_class: MessageClass) -> None:
    plain = messages.message()
    data = builders.patched_u16(plain.data, plain.properties_offset + 2, message_class)
    assert FATES[message_class] in sentence(data)


def test_every_class_that_answers_has_a_fate() -> None:
    assert FATES.keys() == set(MessageClass) - {
        MessageClass.NORMAL,
        MessageClass.REPORT,
        MessageClass.ORDER_ACK,
    }


def test_reports() -> None:
    plain = messages.message()
    data = builders.patched_u16(plain.data, plain.properties_offset + 2, MessageClass.REPORT)
    assert sentence(data).startswith("Reports to DIRECT=")


@pytest.mark.parametrize(
    ("body", "message_class", "text"),
    [
        (OrderAckBody.of(9, 3), MessageClass.ORDER_ACK, "up to number 3"),
        (FinalAckBody(9, 3, 2, builders.SOURCE, 77), MessageClass.ACK_RECEIVE, "message 77"),
        (FinalAckBody(9, 3, 2, builders.SOURCE, 77), MessageClass.NACK_Q_PURGED, "purged"),
        (FinalAckBody(9, 3, 2, builders.SOURCE, 77), 0x4001, "class 0x4001"),
    ],
)
def test_order_acks(body: OrderAckBody | FinalAckBody, message_class: int, text: str) -> None:
    message = build_order_message(
        body, message_class, source=builders.SOURCE, destination=builders.OTHER, message_id=1, sent_time=2
    )
    assert text in of_message(message)
