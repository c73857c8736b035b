"""BaseHeader (MS-MQMQ 2.2.19.1)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.classes import MessageClass
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.headers import INFINITE, BaseHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import DebugHeader, SessionHeader, TransactionHeader
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    FinalAckBody,
    OrderAckBody,
    SessionAck,
    build_order_message,
)
from tests.wire.builders import (
    BASE_FLAGS,
    BASE_PACKET_SIZE,
    BASE_SIGNATURE,
    DESTINATION,
    FRAME_7,
    QUEUE,
    SESSION_FRAMES,
    SOURCE,
    accept,
    accept_message,
    all_headers,
    base_headers,
    build,
    frame,
    messages,
    patched,
    patched_u16,
    patched_u32,
    refuse,
    resized,
    user_header,
)

INTERNAL_PACKETS = {
    "establish": EstablishConnection.request(SOURCE, DESTINATION, 1).encode(),
    "parameters": ConnectionParameters.of(500, 20_000, 64).encode(),
    "ack": SessionAck.of(SessionHeader(1)).encode(),
}


@pytest.mark.spec("MQMQ-2.2.18-a", "MQMQ-2.2.19.1-a")
def test_layout() -> None:
    header = BaseHeader(reserved=0xC0, flags=0x0123, packet_size=0x8B0, time_to_reach_queue_s=345600)
    assert header.encode() == bytes.fromhex(
        "10"  # VersionNumber
        "c0"  # Reserved
        "2301"  # Flags
        "4c494f52"  # Signature
        "b0080000"  # PacketSize
        "00460500"  # TimeToReachQueue
    )
    for stem in SESSION_FRAMES:
        data = frame(stem)
        assert data[4:8] == b"LIOR"
        decoded = BaseHeader.decode(data)
        assert struct.unpack_from("<BBHIII", data) == (
            decoded.version_number,
            decoded.reserved,
            decoded.flags,
            decoded.signature,
            decoded.packet_size,
            decoded.time_to_reach_queue_s,
        )
        assert (decoded.version_number, decoded.signature, decoded.packet_size) == (
            0x10,
            0x524F494C,
            len(data),
        )
        assert decoded.encode() == data[:16]


@given(base_headers)
def test_round_trip(header: BaseHeader) -> None:
    assert BaseHeader.decode(header.encode()) == header


@pytest.mark.spec("MQMQ-2.2.19.1-b")
def test_only_version_0x10_is_taken() -> None:
    for packet in (FRAME_7, *INTERNAL_PACKETS.values()):
        for version in range(256):
            changed = patched(packet, 0, bytes([version]))
            if version == 0x10:
                accept(changed)
            else:
                refuse(changed, "VersionNumber")


@pytest.mark.spec("MQMQ-2.2.19.1-c")
def test_reserved_is_ignored() -> None:
    assert {frame(stem)[1] for stem in SESSION_FRAMES} >= {0xC0, 0x5A, 0x00, 0xCD}
    for packet in (FRAME_7, *INTERNAL_PACKETS.values()):
        for value in range(256):
            accept(patched(packet, 1, bytes([value])))


@pytest.mark.spec("MQMQ-2.2.19.1-d")
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (0x000B, {"PR": 3, "IN": 1, "SH": 0, "DH": 0, "TR": 0}),
        (0x001B, {"PR": 3, "IN": 1, "SH": 1, "DH": 0, "TR": 0}),
        (0x0003, {"PR": 3, "IN": 0, "SH": 0, "DH": 0, "TR": 0}),
        (0x0127, {"PR": 7, "IN": 0, "SH": 0, "DH": 1, "TR": 1}),
        (0xFEC0, {"PR": 0, "IN": 0, "SH": 0, "DH": 0, "TR": 0}),
    ],
)
def test_flags(flags: int, named: dict[str, int]) -> None:
    header = BaseHeader(flags=flags)
    assert {bits.spec_name: getattr(header, name) for name, bits in BaseHeader.BITS} == named


def test_the_default_priority_is_3() -> None:
    assert BaseHeader().priority == 3


@pytest.mark.spec("MQMQ-2.2.19.1-f")
def test_a_transactional_message_has_priority_0() -> None:
    message = build(base=BaseHeader(flags=5), transaction=TransactionHeader())
    assert message.data[BASE_FLAGS] & 7 == 0
    # and one that arrives with a priority has none
    received = accept_message(patched(message.data, BASE_FLAGS, b"\x05"))
    assert received.base.priority == 5
    assert received.priority == 0
    assert build(base=BaseHeader(flags=5)).priority == 5


@pytest.mark.spec("MQMQ-2.2.19.1-g")
def test_in_is_set_on_the_three_internal_packets_only() -> None:
    for name, packet in INTERNAL_PACKETS.items():
        assert packet[BASE_FLAGS] & 0x08, name
    order_ack, final_ack = (
        build_order_message(
            body, message_class, source=SOURCE, destination=DESTINATION, message_id=1, sent_time=2
        )
        for body, message_class in (
            (OrderAckBody.of(1, 1), MessageClass.ORDER_ACK),
            (FinalAckBody(1, 1, 0, SOURCE, 1), MessageClass.ACK_RECEIVE),
        )
    )
    for message in (order_ack, final_ack, all_headers(), build(base=BaseHeader(flags=0x0B))):
        assert not message.data[BASE_FLAGS] & 0x08
    # a received one goes by InternalHeader.PT, whatever else it looks like
    assert isinstance(accept(INTERNAL_PACKETS["establish"]), EstablishConnection)
    assert isinstance(accept(INTERNAL_PACKETS["parameters"]), ConnectionParameters)
    assert isinstance(accept(INTERNAL_PACKETS["ack"]), SessionAck)
    refuse(patched(FRAME_7, BASE_FLAGS, b"\x0b"), "Flags.PT|PacketSize")


@pytest.mark.spec("MQMQ-2.2.19.1-h")
def test_sh_says_that_a_session_header_is_there() -> None:
    data = frame("frame08_session_ack")
    assert data[BASE_FLAGS] & 0x10
    ack = accept(data)
    assert isinstance(ack, SessionAck)
    assert ack.session.encode() == data[20:]
    refuse(patched(data, BASE_FLAGS, b"\x0b"))
    assert build(session=SessionHeader(7)).session == SessionHeader(7)
    assert build().session is None


@pytest.mark.spec("MQMQ-2.2.19.1-i")
def test_dh_belongs_to_user_messages_with_a_debug_header() -> None:
    for packet in INTERNAL_PACKETS.values():
        accept(packet)
        refuse(patched(packet, BASE_FLAGS, bytes([packet[BASE_FLAGS] | 0x20])))
    with_debug = build(debug=DebugHeader(1, queue_identifier=QUEUE))
    assert with_debug.data[BASE_FLAGS] & 0x20
    assert with_debug.debug == DebugHeader(1, queue_identifier=QUEUE)
    without = build()
    assert not without.data[BASE_FLAGS] & 0x20
    assert without.debug is None
    # with the bit wrong either way, the packet does not end where its headers do
    refuse(patched(with_debug.data, BASE_FLAGS, b"\x03"), "the headers end at")
    refuse(patched(without.data, BASE_FLAGS, b"\x23"), "DebugHeader")


@pytest.mark.spec("MQMQ-2.2.19.1-j")
def test_tr_asks_for_dh() -> None:
    traced = build(base=BaseHeader(flags=0x103), debug=DebugHeader(1, queue_identifier=QUEUE))
    assert accept_message(traced.data).base.traced
    refuse(patched_u16(build().data, BASE_FLAGS, 0x103), "Flags.TR")
    with pytest.raises(EncodeError, match=r"Flags\.TR"):
        build(base=BaseHeader(flags=0x103))


@pytest.mark.spec("MQMQ-2.2.19.1-k")
@given(messages, st.integers(0, 0xFFFF))
def test_reserved_bits_change_nothing(message: UserMessage, noise: int) -> None:
    noisy = patched_u16(message.data, BASE_FLAGS, message.base.flags | noise & 0xFEC0)
    received = accept_message(noisy)
    assert received.base.flags & 0x13F == message.base.flags
    assert received.user == message.user
    assert received.properties == message.properties
    assert received.debug == message.debug
    assert received.session == message.session
    assert (received.label, received.extension, received.body) == (
        message.label,
        message.extension,
        message.body,
    )
    for packet in INTERNAL_PACKETS.values():
        (flags,) = struct.unpack_from("<H", packet, BASE_FLAGS)
        assert type(accept(patched_u16(packet, BASE_FLAGS, flags | noise & 0xFEC0))) is type(accept(packet))


def test_reserved_bits_are_not_set_by_default() -> None:
    for packet in (build().data, *INTERNAL_PACKETS.values()):
        assert struct.unpack_from("<H", packet, BASE_FLAGS)[0] & 0xFEC0 == 0


@pytest.mark.spec("MQMQ-2.2.19.1-l")
@pytest.mark.parametrize("signature", [b"ROIL", b"LIOS", bytes(4), b"\xff" * 4])
def test_another_signature_is_refused(signature: bytes) -> None:
    for packet in (FRAME_7, *INTERNAL_PACKETS.values()):
        assert packet[4:8] == bytes.fromhex("4C 49 4F 52")
        refuse(patched(packet, BASE_SIGNATURE, signature), "signature")


@pytest.mark.spec("MQMQ-2.2.19.1-m")
def test_packet_size_leaves_the_session_header_out() -> None:
    message = build(body=b"odd", session=SessionHeader(1))
    assert message.base.packet_size + 16 == len(message.data)
    assert message.base.packet_size % 4 == 0  # the padding of the body is counted
    assert accept_message(message.data).session == SessionHeader(1)
    reader = StreamReader()
    with pytest.raises(DecodeError, match="above the limit"):
        reader.feed(patched_u32(message.data, BASE_PACKET_SIZE, 0x00400001)[:20])
    assert reader.broken
    with pytest.raises(DecodeError, match="above the limit"):  # the session is over
        reader.feed(message.data)


def test_the_largest_packet_is_taken() -> None:
    reader = StreamReader()
    assert reader.feed(patched_u32(build().data, BASE_PACKET_SIZE, 0x00400000)[:20]) == []
    assert reader.missing == 0x00400000 - 20


@pytest.mark.spec("MQMQ-2.2.19.1-n")
def test_a_session_ack_counts_its_session_header() -> None:
    data = frame("frame08_session_ack")
    reader = StreamReader()
    (packet,) = reader.feed(data)
    assert (packet, reader.buffered) == (data, 0)
    ack = decode_packet(packet)
    assert isinstance(ack, SessionAck)
    assert ack.base.packet_size == 36
    assert SessionAck.of(SessionHeader(1)).encode()[8:12] == b"\x24\0\0\0"


@pytest.mark.spec("MQMQ-2.2.19.1-o")
def test_packet_size_is_at_least_the_fixed_part() -> None:
    smallest = build(user=user_header(None))
    assert len(smallest.data) == 120
    accept(smallest.data)
    minimum = {"establish": (572,), "parameters": (32,), "ack": (20, 36)}
    for size in range(600):
        if size < 120:
            # twenty bytes are enough to know: nothing further is read
            refuse(patched_u32(smallest.data, BASE_PACKET_SIZE, size)[:20])
        for name, packet in INTERNAL_PACKETS.items():
            changed = patched_u32(packet, BASE_PACKET_SIZE, size)
            if size in minimum[name]:
                assert accept(changed)
            else:
                refuse(changed[:20])


@pytest.mark.spec("MQMQ-2.2.19.1-q")
def test_time_to_reach_queue_is_in_seconds() -> None:
    assert accept_message(FRAME_7).base.time_to_reach_queue_s == 345600 == 4 * 24 * 60 * 60
    message = build(base=BaseHeader(time_to_reach_queue_s=INFINITE))
    assert message.data[12:16] == b"\xff\xff\xff\xff"
    assert BaseHeader().time_to_reach_queue_s == INFINITE


@pytest.mark.spec("MQMQ-2.2.19.1-r")
def test_other_packets_have_an_infinite_time() -> None:
    for stem in SESSION_FRAMES:
        if "user_message" not in stem:
            assert BaseHeader.decode(frame(stem)).time_to_reach_queue_s == INFINITE
    for packet in INTERNAL_PACKETS.values():
        assert packet[12:16] == b"\xff\xff\xff\xff"


def test_a_packet_cut_short_waits_and_a_longer_one_gives_its_rest_back() -> None:
    reader = StreamReader()
    data = resized(FRAME_7)
    assert reader.feed(data[:-1]) == []
    assert reader.feed(data[-1:] + data[:5]) == [data]
    assert reader.buffered == 5
