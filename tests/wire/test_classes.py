"""Message classes (MS-MQMQ 2.2.18.1.6)."""

from __future__ import annotations

import pytest
from hypothesis import given

from msmq.errors import EncodeError
from msmq.wire.classes import MessageClass, class_name, is_application_class, reason
from msmq.wire.headers import MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.packets import OrderAckBody, build_order_message
from tests.wire.builders import DESTINATION, FRAME_7, SOURCE, accept_message, build, u16s


def of_class(number: int) -> UserMessage:
    return build(properties=MessagePropertiesHeader(message_class=number))


@pytest.mark.spec("MQMQ-2.2.18.1.6-a")
def test_a_class_is_sixteen_bits_of_the_properties_header() -> None:
    message = of_class(0xC004)
    start = message.properties_offset
    assert message.data[start + 2 : start + 4] == b"\x04\xc0"
    assert accept_message(message.data).properties.message_class == MessageClass.NACK_RECEIVE_REJECTED


@pytest.mark.spec("MQMQ-2.2.18.1.6-b")
def test_an_application_message_is_normal() -> None:
    assert UserMessage.decode(FRAME_7).properties.message_class == 0
    assert class_name(0) == "MQMSG_CLASS_NORMAL"
    assert MessagePropertiesHeader().message_class == MessageClass.NORMAL


@pytest.mark.spec("MQMQ-2.2.18.1.6-e")
def test_an_order_ack_carries_its_class() -> None:
    packet = build_order_message(
        OrderAckBody.of(7, 1),
        MessageClass.ORDER_ACK,
        source=DESTINATION,
        destination=SOURCE,
        message_id=1,
        sent_time=2,
    )
    message = accept_message(packet.data)
    assert message.properties.message_class == 0x00FF
    assert message.user.queue_manager_address == SOURCE  # the original sender
    assert message.user.source_queue_manager == DESTINATION


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("NORMAL", 0x0000),
        ("REPORT", 0x0001),
        ("ACK_REACH_QUEUE", 0x0002),
        ("ORDER_ACK", 0x00FF),
        ("ACK_RECEIVE", 0x4000),
        ("NACK_BAD_DST_Q", 0x8000),
        ("NACK_DELETED", 0x8001),
        ("NACK_REACH_QUEUE_TIMEOUT", 0x8002),
        ("NACK_Q_EXCEED_QUOTA", 0x8003),
        ("NACK_ACCESS_DENIED", 0x8004),
        ("NACK_HOP_COUNT_EXCEEDED", 0x8005),
        ("NACK_BAD_SIGNATURE", 0x8006),
        ("NACK_BAD_ENCRYPTION", 0x8007),
        ("NACK_NOT_TRANSACTIONAL_Q", 0x8009),
        ("NACK_NOT_TRANSACTIONAL_MSG", 0x800A),
        ("NACK_UNSUPPORTED_CRYPTO_PROVIDER", 0x800B),
        ("NACK_Q_DELETED", 0xC000),
        ("NACK_Q_PURGED", 0xC001),
        ("NACK_RECEIVE_TIMEOUT", 0xC002),
        ("NACK_RECEIVE_REJECTED", 0xC004),
    ],
)
def test_table(name: str, number: int) -> None:
    assert class_name(number) == f"MQMSG_CLASS_{name}"
    assert is_application_class(number)


@pytest.mark.spec("MQMQ-2.2.18.1.6-v")
def test_unassigned_numbers_have_no_name() -> None:
    named = {number for number in range(0x10000) if class_name(number)}
    assert named == set(MessageClass)
    assert len(named) == 20
    assert not named & {0x8008, 0xC003}
    assert not [number for number in named if 0x800C <= number < 0xC000 or number > 0xC004]


@pytest.mark.spec("MQMQ-2.2.18.1.6-w")
def test_an_application_uses_the_bits_of_the_mask() -> None:
    assert of_class(0x0100).properties.message_class == 0x0100
    for number in (0x0200, 0x0400, 0x0800, 0x1000):
        with pytest.raises(EncodeError, match="0xe1ff"):
            of_class(number)
    allowed = [number for number in range(0x10000) if is_application_class(number)]
    assert allowed == [number for number in range(0x10000) if number & 0x1E00 == 0]
    assert not is_application_class(-1)
    assert not is_application_class(0x10000)


@pytest.mark.spec("MQMQ-2.2.19.3-m")
@given(u16s)
def test_any_received_class_is_passed_on(number: int) -> None:
    message = of_class(0)
    start = message.properties_offset + 2
    received = message.data[:start] + number.to_bytes(2, "little") + message.data[start + 2 :]
    assert accept_message(received).properties.message_class == number


def test_every_class_has_a_reason_in_words() -> None:
    assert len({reason(number) for number in MessageClass}) == len(MessageClass)
    assert not any(reason(number).startswith("class") for number in MessageClass)
    assert reason(0x1234) == "class 0x1234"
