"""OrderAck and FinalAck (MS-MQQB 2.2.4, 2.2.5): user messages to the order queue of the original sender."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.classes import MessageClass
from msmq.wire.framing import decode_packet
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader, TransactionHeader
from msmq.wire.packets import (
    FinalAckBody,
    OrderAckBody,
    build_order_message,
    is_for_order_queue,
    order_ack_body,
)

Destination = bytes | IPv4Address | IPv6Address
Maker = Callable[[Destination], UserMessage]

RECEIVER = bytes(range(16))
SENDER = bytes(range(16, 32))
ADDRESS = IPv4Address("10.0.0.5")
ORDER_BODY = OrderAckBody.of(0x0000000200000001, 7)
FINAL_BODY = FinalAckBody(0x0000000200000001, 7, 6, SENDER, 99)

u32s = st.integers(0, 0xFFFFFFFF)
u64s = st.integers(0, 0xFFFFFFFFFFFFFFFF)
guids = st.binary(min_size=16, max_size=16)
sequence_numbers = st.integers(1, 0xFFFFFFFF)

both_destinations = pytest.mark.parametrize("destination", [SENDER, ADDRESS], ids=["private", "direct"])


def order_ack(destination: Destination = SENDER) -> UserMessage:
    return build(ORDER_BODY, MessageClass.ORDER_ACK, destination)


def final_ack(
    destination: Destination = SENDER, message_class: int = MessageClass.ACK_RECEIVE
) -> UserMessage:
    return build(FINAL_BODY, message_class, destination)


def build(body: OrderAckBody | FinalAckBody, message_class: int, destination: Destination) -> UserMessage:
    return build_order_message(
        body, message_class, source=RECEIVER, destination=destination, message_id=5, sent_time=1_700_000_000
    )


def received(message: UserMessage) -> UserMessage:
    packet = decode_packet(message.data)
    assert isinstance(packet, UserMessage)
    return packet


@pytest.mark.spec("MQQB-2.2.4-a", "MQQB-2.2.5-a")
@both_destinations
@pytest.mark.parametrize("make", [order_ack, final_ack])
def test_three_headers_and_a_body_of_36_bytes(make: Maker, destination: Destination) -> None:
    message = received(make(destination))
    optional = ("transaction", "security", "debug", "soap", "multi_queue", "session", "envelope", "compound")
    assert [name for name in optional if getattr(message, name) is not None] == []
    assert len(message.body) == message.properties.allocation_body_size == 36
    assert message.extension == b""


@pytest.mark.spec("MQQB-2.2.4-c", "MQQB-2.2.5-c")
@both_destinations
@pytest.mark.parametrize("make", [order_ack, final_ack])
def test_base_flags_are_zero_and_a_session_header_is_tolerated(make: Maker, destination: Destination) -> None:
    message = make(destination)
    assert message.data[2:4] == b"\0\0"
    carried = received(message.with_session(SessionHeader(3)))
    assert carried.session == SessionHeader(3)
    assert is_for_order_queue(carried)
    assert order_ack_body(carried) == order_ack_body(message)


@pytest.mark.spec("MQQB-2.2.4-d", "MQQB-2.2.5-d")
@both_destinations
def test_user_flags(destination: Destination) -> None:
    """MP, DQ, and DM for a FinalAck only."""
    reference = QueueReference.PRIVATE_ON_DESTINATION if destination == SENDER else QueueReference.DIRECT
    assert order_ack(destination).user.flags == 1 << 21 | reference << 10
    assert final_ack(destination).user.flags == 1 << 21 | reference << 10 | 1 << 5


@pytest.mark.spec("MQQB-2.2.4-e")
def test_an_order_ack_is_sent_express_and_taken_either_way() -> None:
    sent = order_ack()
    assert sent.user.delivery_mode == 0
    assert not sent.recoverable
    data = bytearray(sent.data)
    data[60] |= 0x20
    message = received(UserMessage.decode(bytes(data)))
    assert message.recoverable
    assert is_for_order_queue(message)
    assert order_ack_body(message) == ORDER_BODY


@pytest.mark.spec("MQQB-2.2.4-f", "MQQB-2.2.5-e")
@pytest.mark.parametrize("make", [order_ack, final_ack])
def test_a_known_sender_is_named_by_guid_and_queue_number(make: Maker) -> None:
    message = make(SENDER)
    assert message.user.queue_manager_address == SENDER
    assert message.user.destination_queue == 4
    assert message.data[64:68] == bytes.fromhex("04000000")
    assert is_for_order_queue(received(message))


@pytest.mark.spec("MQQB-2.2.4-g", "MQQB-2.2.5-e")
@pytest.mark.parametrize("make", [order_ack, final_ack])
@pytest.mark.parametrize(
    ("address", "name"),
    [
        (IPv4Address("10.0.0.5"), "TCP:10.0.0.5\\PRIVATE$\\order_queue$"),
        (IPv6Address("2001:db8::1"), "TCP:2001:db8::1\\PRIVATE$\\order_queue$"),
        (IPv6Address("fe80::1%3"), "TCP:fe80::1\\PRIVATE$\\order_queue$"),
    ],
)
def test_the_sender_of_a_direct_name_is_named_by_its_address(
    make: Maker, address: IPv4Address | IPv6Address, name: str
) -> None:
    message = make(address)
    assert message.user.destination_queue == name
    assert message.user.queue_manager_address == bytes(16)
    text = (name + "\0").encode("utf-16-le")
    assert message.data[64 : 66 + len(text)] == len(text).to_bytes(2, "little") + text
    assert is_for_order_queue(received(message))


@pytest.mark.spec("MQQB-2.2.4-h")
def test_properties_of_an_order_ack() -> None:
    message = received(order_ack())
    assert message.label == "QM Ordering Ack"
    assert message.properties == MessagePropertiesHeader(
        flags=0,
        label_length=16,
        message_class=0x00FF,
        body_type=0,
        message_size=0x24,
        allocation_body_size=0x24,
    )


@pytest.mark.spec("MQQB-2.2.5-f")
def test_properties_of_a_final_ack() -> None:
    message = received(final_ack())
    assert message.label == "QM Ordering Ack"
    assert message.properties == MessagePropertiesHeader(
        label_length=16, message_class=0x4000, message_size=0x24, allocation_body_size=0x24
    )
    assert (message.properties.flags, message.properties.body_type) == (0, 0)


@pytest.mark.spec("MQQB-2.2.4-i")
def test_an_spx_name_of_the_order_queue_is_read_and_never_written() -> None:
    data = plain_message("SPX:00000012.00AA00BB00CC\\PRIVATE$\\order_queue$").data
    message = UserMessage.decode(data)
    assert is_for_order_queue(message)
    for destination in (SENDER, ADDRESS, IPv6Address("::1")):
        name = order_ack(destination).user.destination_queue
        assert not isinstance(name, str) or name.startswith("TCP:")


@pytest.mark.spec("MQQB-2.2.4.1-a")
def test_layout_of_the_order_ack_body() -> None:
    data = bytes.fromhex("0100000002000000 07000000 06000000") + bytes(20)
    assert OrderAckBody.SIZE == 36
    assert OrderAckBody.decode(data) == ORDER_BODY
    assert ORDER_BODY.encode() == data == order_ack().body
    assert [(field.spec_name, field.offset, field.size) for field in OrderAckBody.FIELDS] == [
        ("TxSequenceID", 0, 8),
        ("TxSequenceNumber", 8, 4),
        ("TxPreviousSequenceNumber", 12, 4),
        ("Reserved", 16, 20),
    ]


@pytest.mark.spec("MQQB-2.2.4.1-b")
@given(u64s, sequence_numbers)
def test_an_order_ack_names_the_sequence_of_the_message(sequence: int, number: int) -> None:
    header = transactional_message(sequence, number, number - 1).transaction
    assert header is not None
    message = received(
        build(
            OrderAckBody.of(header.tx_sequence_id, header.tx_sequence_number), MessageClass.ORDER_ACK, SENDER
        )
    )
    body = order_ack_body(message)
    assert isinstance(body, OrderAckBody)
    assert (body.tx_sequence_id, body.tx_sequence_number) == (sequence, number)


@pytest.mark.spec("MQQB-2.2.4.1-d")
@given(u64s, sequence_numbers)
def test_the_previous_number_of_an_order_ack_is_one_less(sequence: int, number: int) -> None:
    assert OrderAckBody.of(sequence, number).tx_previous_sequence_number == number - 1


@pytest.mark.parametrize("number", [-1, 0, 0x100000000])
def test_sequence_numbers_count_from_one(number: int) -> None:
    with pytest.raises(EncodeError):
        OrderAckBody.of(1, number)


@pytest.mark.spec("MQQB-2.2.4.1-e", "MQQB-2.2.4.1-f")
@given(st.binary(min_size=20, max_size=20))
def test_reserved_bytes_of_an_order_ack_are_sent_as_zero_and_ignored(junk: bytes) -> None:
    message = order_ack()
    assert message.body[16:] == bytes(20)
    start = message.body_offset + 16
    replayed = received(UserMessage.decode(message.data[:start] + junk + message.data[start + 20 :]))
    body = order_ack_body(replayed)
    assert isinstance(body, OrderAckBody)
    assert (body.tx_sequence_id, body.tx_sequence_number, body.tx_previous_sequence_number) == (
        ORDER_BODY.tx_sequence_id,
        7,
        6,
    )


@pytest.mark.spec("MQQB-2.2.5.1-a")
def test_layout_of_the_final_ack_body() -> None:
    data = bytes.fromhex("0100000002000000 07000000 06000000") + SENDER + bytes.fromhex("63000000")
    assert FinalAckBody.SIZE == 36
    assert FinalAckBody.decode(data) == FINAL_BODY
    assert FINAL_BODY.encode() == data == final_ack().body
    assert [(field.spec_name, field.offset, field.size) for field in FinalAckBody.FIELDS] == [
        ("TxSequenceID", 0, 8),
        ("TxSequenceNumber", 8, 4),
        ("TxPreviousSequenceNumber", 12, 4),
        ("SourceGUID", 16, 16),
        ("MessageID", 32, 4),
    ]


@pytest.mark.spec("MQQB-2.2.5.1-b", "MQQB-2.2.5.1-c")
@given(u64s, sequence_numbers, st.integers(0, 0xFFFFFFFE), guids, u32s)
def test_a_final_ack_names_the_message_and_its_place(
    sequence: int, number: int, previous: int, source: bytes, message_id: int
) -> None:
    original = transactional_message(sequence, number, previous, source, message_id)
    ack = received(build(FinalAckBody.of(original), MessageClass.NACK_Q_PURGED, SENDER))
    body = order_ack_body(ack)
    assert isinstance(body, FinalAckBody)
    assert original.transaction is not None
    assert body.tx_sequence_id == original.transaction.tx_sequence_id == sequence
    assert body.tx_sequence_number == original.transaction.tx_sequence_number == number
    assert body.tx_previous_sequence_number == original.transaction.previous_tx_sequence_number == previous
    assert (body.source_guid, body.message_id) == (source, message_id)
    assert original.identifier.encode() == body.source_guid + body.message_id.to_bytes(4, "little")


def test_a_message_outside_any_transaction_has_no_final_ack() -> None:
    with pytest.raises(EncodeError):
        FinalAckBody.of(plain_message("TCP:10.0.0.1\\private$\\q"))


FINAL_CLASSES = [number for number in MessageClass if number >= MessageClass.ACK_RECEIVE]


@pytest.mark.parametrize("message_class", [*FINAL_CLASSES, 0x8100, 0xE000])
def test_every_class_from_0x4000_on_is_a_final_ack(message_class: int) -> None:
    """Also those that 2.2.5 leaves out and ones it does not know."""
    message = received(final_ack(message_class=message_class))
    assert message.properties.message_class == message_class
    assert order_ack_body(message) == FINAL_BODY


@pytest.mark.parametrize(
    "message_class", [MessageClass.NORMAL, MessageClass.REPORT, MessageClass.ACK_REACH_QUEUE]
)
def test_other_classes_are_no_order_acknowledgments(message_class: int) -> None:
    for body in (ORDER_BODY, FINAL_BODY):
        with pytest.raises(EncodeError):
            build(body, message_class, SENDER)
    message = plain_message(4, body=bytes(36), message_class=message_class)
    assert is_for_order_queue(message)
    with pytest.raises(DecodeError):
        order_ack_body(message)


def test_a_body_takes_only_its_own_classes() -> None:
    with pytest.raises(EncodeError):
        build(ORDER_BODY, MessageClass.ACK_RECEIVE, SENDER)
    with pytest.raises(EncodeError):
        build(FINAL_BODY, MessageClass.ORDER_ACK, SENDER)


@pytest.mark.parametrize("size", [0, 35, 37, 40])
@pytest.mark.parametrize("message_class", [MessageClass.ORDER_ACK, MessageClass.ACK_RECEIVE])
def test_a_body_of_another_size_is_refused(size: int, message_class: int) -> None:
    with pytest.raises(DecodeError):
        order_ack_body(plain_message(4, body=bytes(size), message_class=message_class))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (4, True),
        (5, False),
        ("TCP:10.0.0.5\\PRIVATE$\\order_queue$", True),
        ("OS:host\\private$\\ORDER_QUEUE$", True),
        ("OS:host\\private$\\my_order_queue$", False),
        ("OS:host\\order_queue$", False),
        (bytes(15) + b"\x04", False),
    ],
)
def test_which_messages_are_for_the_order_queue(name: int | str | bytes, expected: bool) -> None:
    assert is_for_order_queue(plain_message(name)) == expected


def plain_message(
    name: int | str | bytes, body: bytes = b"", message_class: int = MessageClass.NORMAL
) -> UserMessage:
    references = {
        int: QueueReference.PRIVATE_ON_DESTINATION,
        str: QueueReference.DIRECT,
        bytes: QueueReference.PUBLIC,
    }
    user = UserHeader(SENDER, bytes(16) if isinstance(name, str) else SENDER, destination_queue=name)
    user.destination_reference = references[type(name)]
    properties = MessagePropertiesHeader(message_class=message_class)
    return UserMessage.build(base=BaseHeader(), user=user, properties=properties, body=body)


def transactional_message(
    sequence: int, number: int, previous: int, source: bytes = SENDER, message_id: int = 1
) -> UserMessage:
    user = UserHeader(source, message_id=message_id, destination_queue="OS:host\\private$\\orders")
    user.destination_reference = QueueReference.DIRECT
    user.delivery_mode = 1
    return UserMessage.build(
        base=BaseHeader(),
        user=user,
        properties=MessagePropertiesHeader(),
        transaction=TransactionHeader(0, sequence, number, previous),
        body=b"order 66",
    )
