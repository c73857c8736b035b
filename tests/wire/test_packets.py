"""What the packets of MS-MQQB share: InternalHeader, order of headers, reserved bits, one version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from ipaddress import IPv4Address
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.classes import MessageClass
from msmq.wire.declare import Wire, padded
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.headers import MAX_PACKET_SIZE, PrivateQueueFormatName
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    FinalAckBody,
    InternalHeader,
    OrderAckBody,
    PacketType,
    Ping,
    SessionAck,
    build_order_message,
)
from tests.wire import builders, messages, vectors
from tests.wire.vectors import Vector

OURS = bytes(range(16))
INTERNAL = [vectors.ESTABLISH_REQUEST, vectors.PARAMETERS_REQUEST, vectors.SESSION_ACK]
every_internal_frame = pytest.mark.parametrize("vector", INTERNAL, ids=lambda v: v.name)


def refused_by_the_session(data: bytes) -> bool:
    """Whether a session that receives ``data`` has to be closed: the stream or a packet in it is refused."""
    reader = StreamReader()
    try:
        for packet in reader.feed(data):
            decode_packet(packet)
    except DecodeError:
        return True
    return False


# InternalHeader (2.2.1)


@pytest.mark.spec("MQQB-2.2.1-a")
def test_layout_of_the_internal_header() -> None:
    header = InternalHeader.decode(bytes.fromhex("0000 0200"))
    assert (header.packet_type, header.connection_refused) == (2, 0)
    assert [(field.spec_name, field.offset, field.size) for field in InternalHeader.FIELDS] == [
        ("Reserved", 0, 2),
        ("Flags", 2, 2),
    ]
    assert [(bits.spec_name, bits.low, bits.width) for _, bits in InternalHeader.BITS] == [
        ("PT", 0, 4),
        ("CS", 4, 1),
    ]
    assert InternalHeader.decode(bytes.fromhex("0000 1300")) == InternalHeader(0, 0x0013)


@pytest.mark.spec("MQQB-2.2.1-b")
@every_internal_frame
def test_the_reserved_word_is_sent_as_zero_and_ignored(vector: Vector) -> None:
    plain = decode_packet(vector.data)
    assert not isinstance(plain, UserMessage)
    assert plain.internal.reserved == 0
    changed = decode_packet(vector.data[:16] + b"\xff\xff" + vector.data[18:])
    assert not isinstance(changed, UserMessage)
    changed.internal.reserved = 0
    assert changed == plain


@pytest.mark.spec("MQQB-2.2.1-c")
@pytest.mark.parametrize(
    ("packet", "number"),
    [
        (SessionAck.of(SessionHeader()), 0x1),
        (EstablishConnection.request(OURS, None, 0), 0x2),
        (ConnectionParameters.of(500, 20_000, 64), 0x3),
    ],
    ids=["SessionAck", "EstablishConnection", "ConnectionParameters"],
)
def test_packet_types(packet: SessionAck | EstablishConnection | ConnectionParameters, number: int) -> None:
    assert packet.internal.packet_type == number == PacketType(number)
    decoded = decode_packet(packet.encode())
    assert type(decoded) is type(packet)
    assert decoded == packet


@pytest.mark.spec("MQQB-2.2.1-d")
@pytest.mark.parametrize("number", [0, *range(4, 16)])
@every_internal_frame
def test_an_unknown_packet_type_ends_the_stream(vector: Vector, number: int) -> None:
    """Nothing of the packet is given, so there is nothing to answer; and the stream never recovers."""
    reader = StreamReader()
    data = bytearray(vector.data)
    data[18] = number
    with pytest.raises(DecodeError):
        reader.feed(bytes(data))
    assert reader.broken
    with pytest.raises(DecodeError):
        reader.feed(vector.data)
    with pytest.raises(DecodeError):
        decode_packet(bytes(data))


@pytest.mark.spec("MQQB-2.2.1-i")
@every_internal_frame
def test_unused_bits_are_sent_clear_and_ignored(vector: Vector) -> None:
    plain = decode_packet(vector.data)
    data = bytearray(vector.data)
    data[18] |= 0xE0
    data[19] = 0xFF
    changed = decode_packet(bytes(data))
    assert not isinstance(plain, UserMessage)
    assert not isinstance(changed, UserMessage)
    assert changed.internal.packet_type == plain.internal.packet_type
    assert changed.internal.connection_refused == 0
    changed.internal.flags &= 0x001F
    assert changed == plain
    for packet in (SessionAck.of(SessionHeader()), EstablishConnection.request(OURS, None, 0)):
        assert packet.internal.flags & 0xFFE0 == 0


# Headers of a UserMessage (2.2)


def all_headers(packet: UserMessage) -> dict[str, Any]:
    """What ``build`` needs to write a received message again."""
    names = ("transaction", "security", "debug", "envelope", "compound", "soap", "multi_queue", "session")
    return {name: getattr(packet, name) for name in names}


def rebuilt(packet: UserMessage) -> bytes:
    return UserMessage.build(
        base=packet.base,
        user=packet.user,
        properties=packet.properties,
        label=packet.label,
        extension=packet.extension,
        body=packet.body,
        **all_headers(packet),
    ).data


@pytest.mark.spec("MQQB-2.2-b")
def test_a_packet_with_every_header_is_written_again_bit_by_bit() -> None:
    headers = builders.optional_headers()
    headers["transaction"].tx_sequence_id = TxSequenceID(5, 3).number
    sent = messages.message(**headers)
    received = decode_packet(sent.data)
    assert isinstance(received, UserMessage)
    assert set(headers) == {"transaction", "security", "debug", "soap", "multi_queue", "session"}
    assert {name: header for name, header in all_headers(received).items() if header is not None} == headers
    assert rebuilt(received) == sent.data
    # the types: GUID, TxSequenceID, MessageIdentifier, MQFFormatNameElement
    assert received.user.source_queue_manager == builders.SOURCE
    assert received.transaction is not None
    assert TxSequenceID.from_number(received.transaction.tx_sequence_id) == TxSequenceID(5, 3)
    correlated = MessageIdentifier.decode(received.properties.correlation_id)
    assert correlated == MessageIdentifier(builders.OTHER, 1)
    assert received.multi_queue is not None
    lists = received.multi_queue
    elements = [*lists.destination.elements, *lists.administration.elements, *lists.response.elements]
    assert {type(element) for element in elements} == {
        str,
        bytes,
        PrivateQueueFormatName,
        DistributionListName,
    }


OPTIONAL = tuple(builders.optional_headers())


@pytest.mark.spec("MQQB-2.2-c")
@pytest.mark.parametrize("chosen", list(product([False, True], repeat=len(OPTIONAL))))
def test_order_and_presence_of_optional_headers(chosen: tuple[bool, ...]) -> None:
    headers = {
        name: header
        for (name, header), wanted in zip(builders.optional_headers().items(), chosen, strict=True)
        if wanted
    }
    sent = messages.message(**headers)
    received = UserMessage.decode(sent.data)
    assert {name: header for name, header in all_headers(received).items() if header is not None} == headers
    text = (received.label + "\0").encode("utf-16-le")
    properties = padded(received.properties.encode() + text + received.extension + received.body)
    in_order = [
        received.base.encode(),
        received.user.write(),
        *(headers[name].write() for name in ("transaction", "security") if name in headers),
        properties,
        *(headers[name].write() for name in ("debug", "soap", "multi_queue", "session") if name in headers),
    ]
    assert sent.data == b"".join(in_order)
    flags = received.user
    assert flags.has_message_properties_header == 1
    assert flags.has_transaction_header == ("transaction" in headers)
    assert flags.has_security_header == ("security" in headers)
    assert flags.has_soap_header == ("soap" in headers)
    assert flags.has_multi_queue_format_header == ("multi_queue" in headers)
    assert received.base.has_debug_header == ("debug" in headers)
    assert received.base.has_session_header == ("session" in headers)
    assert rebuilt(received) == sent.data


@pytest.mark.spec("MQQB-2.2-d")
@given(*[st.integers(0, 0xFFFFFFFF)] * 4)
def test_sequences_compare_as_64_bit_numbers(
    time_a: int, ordinal_a: int, time_b: int, ordinal_b: int
) -> None:
    assert TxSequenceID(2, 1).number > TxSequenceID(1, 99).number
    a, b = TxSequenceID(time_a, ordinal_a), TxSequenceID(time_b, ordinal_b)
    assert (a.number > b.number) == ((time_a, ordinal_a) > (time_b, ordinal_b))
    body = OrderAckBody(a.number, 1, 0)
    assert body.encode()[:8] == ordinal_a.to_bytes(4, "little") + time_a.to_bytes(4, "little")
    assert TxSequenceID.from_number(body.tx_sequence_id) == a


# What ends a session


@pytest.mark.spec("MQQB-2.1.1-e")
@given(
    st.sampled_from(vectors.SESSION_PACKETS),
    st.lists(st.tuples(st.integers(0, 63), st.integers(0, 255)), max_size=6),
)
def test_a_session_carries_four_shapes_of_packet_and_nothing_else(
    vector: Vector, changes: list[tuple[int, int]]
) -> None:
    """OrderAck and FinalAck are UserMessages; everything that is none of the four is refused."""
    data = bytearray(vector.data)
    for offset, value in changes:
        if offset < len(data):
            data[offset] = value
    reader = StreamReader()
    try:
        packets = [decode_packet(packet) for packet in reader.feed(bytes(data))]
    except DecodeError:
        return
    assert all(
        type(p) in (UserMessage, SessionAck, EstablishConnection, ConnectionParameters) for p in packets
    )
    if packets:
        kinds = {SessionAck: 1, EstablishConnection: 2, ConnectionParameters: 3}
        internal = bool(data[2] & 0x08)
        assert kinds.get(type(packets[0])) == (data[18] & 0xF if internal else None)


@pytest.mark.spec("MQQB-2.1.1-e")
@given(st.binary(min_size=20, max_size=200).filter(lambda data: data[4:8] != b"LIOR"))
def test_other_bytes_end_a_session(data: bytes) -> None:
    assert refused_by_the_session(data)
    assert refused_by_the_session(Ping.request(1, OURS).encode())


@pytest.mark.spec("MQQB-1.6-a")
def test_no_packet_is_larger_than_4_mb() -> None:
    assert MAX_PACKET_SIZE == 0x00400000
    head = vectors.USER_MESSAGE.data
    reader = StreamReader()
    with pytest.raises(DecodeError):
        reader.feed(head[:8] + (0x00400001).to_bytes(4, "little") + head[12:20])
    assert reader.broken
    waiting = StreamReader()
    assert waiting.feed(head[:8] + (0x00400000).to_bytes(4, "little") + head[12:20]) == []
    room = MAX_PACKET_SIZE - len(messages.message(label="", extension=b"", body=b"").data)
    largest = messages.message(label="", extension=b"", body=bytes(room))
    assert largest.base.packet_size == MAX_PACKET_SIZE
    assert UserMessage.decode(largest.data).properties.message_size == room
    with pytest.raises(EncodeError):
        messages.message(label="", extension=b"", body=bytes(room + 1))


@pytest.mark.spec("MQQB-1.7-a")
@pytest.mark.parametrize("vector", vectors.SESSION_PACKETS, ids=lambda v: v.name)
def test_there_is_one_version(vector: Vector) -> None:
    assert vector.data[0] == 0x10
    assert not refused_by_the_session(vector.data)
    for version in range(256):
        if version != 0x10:
            assert refused_by_the_session(bytes([version]) + vector.data[1:])


# Nothing reserved is ever set (1.8)


def structures(value: object) -> Iterator[Wire]:
    """Every declared structure in a packet, however deep."""
    if isinstance(value, UserMessage):
        parts: list[object] = [value.base, value.user, value.properties, *all_headers(value).values()]
    elif isinstance(value, Wire):
        yield value
        return
    elif hasattr(value, "__dataclass_fields__"):
        parts = [getattr(value, field.name) for field in dataclass_fields(value)]  # type: ignore[arg-type]
    else:
        return
    for part in parts:
        yield from structures(part)


REQUEST = EstablishConnection.request(OURS, None, 0)
EVERYTHING_SENT = {
    "ping request": Ping.request(1, OURS, server_class=False),
    "ping response": Ping(0xFFFF, cookie=1).answer(OURS, refuse=True),
    "establish request": REQUEST,
    "establish response": REQUEST.response(OURS),
    "establish refusal": REQUEST.response(OURS, refuse=True),
    "parameters": ConnectionParameters.of(1, 1, 64),
    "session ack": SessionAck.of(SessionHeader(1)),
    "user message": messages.message(**builders.optional_headers()),
    "plain message": messages.message(),
} | {
    name: build_order_message(
        body, number, source=OURS, destination=IPv4Address("10.0.0.5"), message_id=1, sent_time=1
    )
    for name, body, number in (
        ("order ack", OrderAckBody.of(1, 1), MessageClass.ORDER_ACK),
        ("final ack", FinalAckBody(1, 1, 0, OURS, 1), MessageClass.ACK_RECEIVE),
    )
}


@pytest.mark.spec("MQQB-1.8-a")
@pytest.mark.parametrize("name", EVERYTHING_SENT)
def test_reserved_bits_are_zero_in_all_we_send(name: str) -> None:
    """RE of OperatingSystem is reserved too, but has a value it must have."""
    seen = 0
    for structure in structures(EVERYTHING_SENT[name]):
        seen += 1
        for field in structure.FIELDS:
            value = getattr(structure, field.name)
            used = sum(bits.mask << bits.low for _, bits in structure.BITS if bits.field == field.name)
            if used:
                assert value & ~used == 0, f"{type(structure).__name__}.{field.spec_name}"
            elif field.name.startswith("reserved"):
                assert value in (0, bytes(field.size)), f"{type(structure).__name__}.{field.spec_name}"
    assert seen >= 1
