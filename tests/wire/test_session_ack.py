"""SessionAck (MS-MQQB 2.2.6), alone or at the end of a UserMessage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import SessionAck
from tests.wire import vectors

u16s = st.integers(0, 0xFFFF)
session_headers = st.builds(
    SessionHeader, u16s, u16s, st.integers(0, 0xFFFFFFFF), u16s, u16s, st.integers(1, 0xFFFF), u16s
)


@given(session_headers)
def test_round_trip(session: SessionHeader) -> None:
    packet = SessionAck.of(session)
    assert decode_packet(packet.encode()) == packet


@pytest.mark.spec("MQQB-2.2.6-b", "MQQB-2.2.1-e")
def test_flags() -> None:
    packet = SessionAck.of(SessionHeader())
    assert (packet.base.internal, packet.base.has_session_header, packet.base.priority) == (1, 1, 3)
    assert packet.base.flags == 0x001B
    assert (packet.internal.packet_type, packet.internal.connection_refused) == (1, 0)
    assert packet.internal.flags == 0x0001


@pytest.mark.spec("MQQB-2.2.6-c")
def test_layout_of_the_session_header() -> None:
    data = bytes.fromhex("0100 0000 00000000 0000 0000 4000 0000")
    assert SessionHeader.decode(data) == SessionHeader(1, 0, 0, 0, 0, 64, 0)
    assert [(field.spec_name, field.offset, field.size) for field in SessionHeader.FIELDS] == [
        ("AckSequenceNumber", 0, 2),
        ("RecoverableMsgAckSeqNumber", 2, 2),
        ("RecoverableMsgAckFlags", 4, 4),
        ("UserMsgSequenceNumber", 8, 2),
        ("RecoverableMsgSeqNumber", 10, 2),
        ("WindowSize", 12, 2),
        ("Reserved", 14, 2),
    ]


@pytest.mark.spec("MQQB-2.2.6-d")
def test_bit_k_acknowledges_the_recoverable_k_after_the_base() -> None:
    session = SessionHeader(recoverable_msg_ack_seq_number=5, recoverable_msg_ack_flags=0b101)
    assert session.acknowledged_recoverables == [5, 7]


@pytest.mark.spec("MQQB-2.2.6-e")
@given(session_headers)
def test_an_acknowledgment_says_the_same_at_the_end_of_a_user_message(session: SessionHeader) -> None:
    alone = decode_packet(SessionAck.of(session).encode())
    message = UserMessage.decode(vectors.USER_MESSAGE.data).with_session(session)
    carried = decode_packet(message.data)
    assert isinstance(alone, SessionAck)
    assert isinstance(carried, UserMessage)
    assert carried.session is not None
    assert carried.session == alone.session
    assert carried.session.acknowledged_recoverables == alone.session.acknowledged_recoverables


@pytest.mark.spec("MQQB-2.1.1-g")
def test_packet_size_counts_the_session_header_of_a_session_ack_only() -> None:
    ack = vectors.SESSION_ACK.data
    message = UserMessage.decode(vectors.USER_MESSAGE.data).with_session(SessionHeader(7))
    assert len(ack) == int.from_bytes(ack[8:12], "little") == 36
    assert len(message.data) == message.base.packet_size + 16
    stream = StreamReader().feed(ack + message.data + ack + message.data + ack)
    assert [len(packet) for packet in stream] == [36, 2240, 36, 2240, 36]
    assert decode_packet(stream[0]) == decode_packet(stream[2]) == decode_packet(stream[4])
    for data in (stream[1], stream[3]):
        packet = decode_packet(data)
        assert isinstance(packet, UserMessage)
        assert packet.session == SessionHeader(7)


def test_the_other_reading_of_packet_size_is_understood() -> None:
    """A peer that follows the text says 20 and still sends 36 bytes."""
    data = bytearray(vectors.SESSION_ACK.data)
    data[8] = 20
    packets = StreamReader().feed(bytes(data) + vectors.SESSION_ACK.data)
    assert packets == [data, vectors.SESSION_ACK.data]
    packet = decode_packet(packets[0])
    assert isinstance(packet, SessionAck)
    assert packet.session == SessionHeader(1)


def test_a_session_ack_without_its_session_header_is_refused() -> None:
    data = bytearray(vectors.SESSION_ACK.data)
    data[2] &= ~0x10
    with pytest.raises(DecodeError):
        decode_packet(bytes(data))


def test_a_window_of_zero_is_refused() -> None:
    data = bytearray(vectors.SESSION_ACK.data)
    data[32] = 0
    with pytest.raises(DecodeError):
        decode_packet(bytes(data))
    with pytest.raises(DecodeError):
        UserMessage.decode(
            vectors.USER_MESSAGE.data[:2] + b"\x13" + vectors.USER_MESSAGE.data[3:] + data[20:]
        )


@pytest.mark.parametrize("size", [0, 19, 21, 35, 37, 52])
def test_another_size_is_refused(size: int) -> None:
    data = vectors.SESSION_ACK.data
    wrong = data[:8] + size.to_bytes(4, "little") + data[12:]
    with pytest.raises(DecodeError):
        StreamReader().feed(wrong)
    with pytest.raises(DecodeError):
        SessionAck.decode(wrong)


@given(st.binary(min_size=36, max_size=36))
def test_any_36_bytes_are_read_or_refused(noise: bytes) -> None:
    data = vectors.SESSION_ACK.data[:16] + noise[16:]
    try:
        packet = SessionAck.decode(data)
    except DecodeError:
        return
    assert packet.encode() == data
