"""SessionHeader, SoapHeader and DebugHeader (MS-MQMQ 2.2.20.4, 2.2.20.7, 2.2.20.8)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import DebugHeader, SessionHeader, SoapHeader
from msmq.wire.packets import SessionAck
from tests.wire.builders import (
    QUEUE,
    accept,
    accept_message,
    build,
    debug_headers,
    frame,
    patched,
    patched_u16,
    patched_u32,
    refuse,
    resized,
    session_headers,
    soap_headers,
    texts,
    u16s,
)

# --- SessionHeader ------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.4-f")
def test_a_session_header_that_says_nothing_acknowledges_nothing() -> None:
    assert SessionHeader(window_size=1).encode() == bytes(12) + b"\1\0\0\0"


@pytest.mark.spec("MQMQ-2.2.20.4-a")
def test_session_layout() -> None:
    header = SessionHeader(
        ack_sequence_number=0x0102,
        recoverable_msg_ack_seq_number=0x0304,
        recoverable_msg_ack_flags=0x05060708,
        user_msg_sequence_number=0x090A,
        recoverable_msg_seq_number=0x0B0C,
        window_size=0x0D0E,
        reserved=0x0F10,
    )
    assert header.encode() == bytes.fromhex(
        "0201"  # AckSequenceNumber
        "0403"  # RecoverableMsgAckSeqNumber
        "08070605"  # RecoverableMsgAckFlags
        "0a09"  # UserMsgSequenceNumber
        "0c0b"  # RecoverableMsgSeqNumber
        "0e0d"  # WindowSize
        "100f"  # Reserved
    )
    assert SessionHeader.SIZE == 16
    ack = accept(frame("frame08_session_ack"))
    assert isinstance(ack, SessionAck)
    assert ack.session == SessionHeader(1, 0, 0, 0, 0, 64, 0)


@pytest.mark.spec("MQMQ-2.2.20.4-b")
@given(session_headers)
def test_one_header_alone_or_behind_a_message(header: SessionHeader) -> None:
    encoded = header.encode()
    assert SessionHeader.read(encoded) == (header, 16)
    alone = accept(SessionAck.of(header).encode())
    behind = accept_message(build(session=header).data)
    assert isinstance(alone, SessionAck)
    assert alone.session == behind.session == header
    assert build().session is None
    # in a SessionAck it is mandatory
    refuse(patched(SessionAck.of(header).encode(), 2, b"\x0b"))
    for size in range(16):
        with pytest.raises(DecodeError):
            SessionHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            SessionHeader.read(encoded, 0, size)


@given(st.integers(1, 0xFFFF), st.sets(st.integers(1, 31)))
def test_acknowledged_numbers_wrap_at_16_bits(base: int, distances: set[int]) -> None:
    numbers = [(base + distance) & 0xFFFF for distance in (0, *sorted(distances))]
    flags = sum(1 << distance for distance in {0, *distances})
    header = SessionHeader(recoverable_msg_ack_seq_number=base, recoverable_msg_ack_flags=flags)
    assert SessionHeader.decode(header.encode()).acknowledged_recoverables == numbers
    assert SessionHeader().acknowledged_recoverables == []


@pytest.mark.spec("MQMQ-2.2.20.4-j")
@pytest.mark.parametrize("window", [0, 1, 0x40, 0xFFFF])
def test_window_size(window: int) -> None:
    assert SessionHeader().encode()[12:14] == b"\x40\0"
    ack, message = SessionAck.of(SessionHeader()).encode(), build(session=SessionHeader()).data
    for packet in (ack, message):
        changed = patched_u16(packet, len(packet) - 4, window)
        if window:
            session = getattr(accept(changed), "session", None)
            assert isinstance(session, SessionHeader)
            assert session.window_size == window
        else:
            refuse(changed, "WindowSize")


def test_a_closed_window_is_not_sent() -> None:
    closed = SessionHeader(window_size=0)
    with pytest.raises(EncodeError, match="WindowSize"):
        build(session=closed)
    with pytest.raises(EncodeError, match="WindowSize"):
        build().with_session(closed)
    with pytest.raises(EncodeError, match="WindowSize"):
        SessionAck.of(closed).encode()


@pytest.mark.spec("MQMQ-2.2.20.4-k")
@given(u16s)
def test_session_reserved_is_ignored(noise: int) -> None:
    for packet in (SessionAck.of(SessionHeader(1)).encode(), build(session=SessionHeader(1)).data):
        session = getattr(accept(patched_u16(packet, len(packet) - 2, noise)), "session", None)
        assert session == SessionHeader(1, reserved=noise)


# --- SoapHeader ---------------------------------------------------------------------------------------------


def soap_at(message: UserMessage) -> int:
    """Where the SoapHeader begins in a message that has no debug header."""
    return message.properties.end(message.data, message.properties_offset, message.base.packet_size)


@pytest.mark.spec("MQMQ-2.2.20.7-a")
def test_soap_layout() -> None:
    assert SoapHeader("a", "b").write() == bytes.fromhex(
        "2003"  # HeaderSectionID
        "0000"  # Reserved
        "02000000"  # HeaderDataLength
        "6100 0000"  # Header
        "8403"  # BodySectionID
        "0000"  # Reserved1
        "02000000"  # BodyDataLength
        "6200 0000"  # Body
    )


@pytest.mark.spec("MQMQ-2.2.20.7-d", "MQMQ-2.2.20.7-g")
@given(soap_headers)
def test_soap_round_trip(header: SoapHeader) -> None:
    encoded = header.write()
    assert SoapHeader.read(encoded) == (header, len(encoded))
    assert accept_message(build(soap=header).data).soap == header
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            SoapHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            SoapHeader.read(encoded, 0, size)


@pytest.mark.parametrize(
    "at_body",
    [
        pytest.param(False, marks=pytest.mark.spec("MQMQ-2.2.20.7-b")),
        pytest.param(True, marks=pytest.mark.spec("MQMQ-2.2.20.7-e")),
    ],
)
def test_soap_section_ids(at_body: bool) -> None:
    message = build(soap=SoapHeader("a", "b"))
    offset = soap_at(message) + 12 * at_body
    right = (0x0320, 0x0384)[at_body]
    for value in (0, 0x0320, 0x0384, 0x2003, 0x8403, right - 1, right + 1, 0xFFFF):
        changed = patched_u16(message.data, offset, value)
        if value == right:
            assert accept_message(changed).soap == SoapHeader("a", "b")
        else:
            refuse(changed, "SectionID")


@pytest.mark.spec("MQMQ-2.2.20.7-c", "MQMQ-2.2.20.7-f")
@given(texts(), texts())
def test_soap_lengths_count_characters_and_the_null(header: str, body: str) -> None:
    encoded = SoapHeader(header, body).write()
    units = [len(text.encode("utf-16-le", "surrogatepass")) // 2 for text in (header, body)]
    assert int.from_bytes(encoded[4:8], "little") == units[0] + 1
    section = encoded[(8 + 2 * (units[0] + 1) + 3) // 4 * 4 :]
    assert section[:2] == b"\x84\x03"
    assert int.from_bytes(section[4:8], "little") == units[1] + 1


@pytest.mark.spec("MQMQ-2.2.20.7-h")
@given(u16s, u16s)
def test_soap_reserved_is_ignored(reserved: int, reserved1: int) -> None:
    assert SoapHeader("a", "b").write()[2:4] == SoapHeader("a", "b").write()[14:16] == b"\0\0"
    message = build(soap=SoapHeader("a", "b"))
    start = soap_at(message)
    received = accept_message(
        patched_u16(patched_u16(message.data, start + 2, reserved), start + 14, reserved1)
    )
    assert received.soap is not None
    assert (received.soap.header, received.soap.body) == ("a", "b")


@pytest.mark.spec("MQMQ-2.2.20.7-i")
@pytest.mark.parametrize(("header", "padding"), [("", 2), ("a", 0), ("ab", 2), ("abc", 0)])
def test_the_body_section_begins_at_a_multiple_of_four(header: str, padding: int) -> None:
    encoded = SoapHeader(header, "b").write()
    end = 8 + 2 * (len(header) + 1)
    assert encoded[end + padding : end + padding + 2] == b"\x84\x03"
    assert encoded[end : end + padding] == bytes(padding)
    noisy = encoded[:end] + b"\xff" * padding + encoded[end + padding :]
    assert SoapHeader.read(noisy) == (SoapHeader(header, "b"), len(encoded))
    if padding:
        with pytest.raises(DecodeError):
            SoapHeader.read(encoded[:end] + encoded[end + padding :])


def test_a_soap_section_may_have_no_text_at_all() -> None:
    data = bytes.fromhex("2003 0000 00000000 8403 0000 00000000")
    assert SoapHeader.read(data) == (SoapHeader("", ""), 16)


@pytest.mark.spec("MQMQ-2.2.20.7-j")
def test_hostile_soap_lengths() -> None:
    message = build(soap=SoapHeader("abc", "def"))
    start = soap_at(message)
    for offset in (start + 4, start + 20):
        for value in (1, 3, 5, 6, 0x7FFFFFFF, 0x80000001, 0x80000004, 0xFFFFFFFF):
            refuse(patched_u32(message.data, offset, value))
    for terminator in (start + 14, start + 30):
        assert message.data[terminator : terminator + 2] == b"\0\0"
        for character in (b"a\0", b"\0a"):
            refuse(patched(message.data, terminator, character), "not terminated")


@pytest.mark.parametrize("reserved", [-1, 0x10000])
def test_soap_reserved_is_a_word(reserved: int) -> None:
    with pytest.raises(EncodeError):
        SoapHeader("a", "b", reserved).write()


# --- DebugHeader --------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.8-a")
def test_debug_layout() -> None:
    with_queue = DebugHeader(flags=1, queue_identifier=QUEUE)
    assert with_queue.write() == bytes.fromhex(
        "0100"  # Flags
        "0000"  # Reserved
        "404142434445464748494a4b4c4d4e4f"  # QueueIdentifier
    )
    assert DebugHeader.read(with_queue.write()) == (with_queue, 20)
    assert DebugHeader().write() == bytes(4)
    assert DebugHeader.read(bytes(4)) == (DebugHeader(), 4)


@given(debug_headers)
def test_debug_round_trip(header: DebugHeader) -> None:
    encoded = header.write()
    assert DebugHeader.read(encoded) == (header, len(encoded))
    assert accept_message(build(debug=header).data).debug == header


@pytest.mark.spec("MQMQ-2.2.20.8-b")
def test_debug_queue_types() -> None:
    none, public = build(debug=DebugHeader()), build(debug=DebugHeader(1, queue_identifier=QUEUE))
    received = accept_message(none.data).debug
    assert received is not None
    assert received.queue_identifier is None
    received = accept_message(public.data).debug
    assert received is not None
    assert received.queue_identifier == QUEUE
    for message, start in ((none, len(none.data) - 4), (public, len(public.data) - 20)):
        for kind in (2, 3):
            refuse(patched_u16(message.data, start, kind), r"Flags\.QT")
    refuse(patched_u16(none.data, len(none.data) - 4, 1))
    refuse(patched_u16(public.data, len(public.data) - 20, 0))
    for flags, queue in ((0, QUEUE), (1, None), (2, QUEUE), (3, QUEUE), (2, None), (1, QUEUE[:15])):
        with pytest.raises(EncodeError, match=r"Flags\.QT"):
            DebugHeader(flags, queue_identifier=queue).write()


@pytest.mark.spec("MQMQ-2.2.20.8-d", "MQMQ-2.2.20.8-e")
@given(debug_headers, u16s, u16s)
def test_debug_unused_bits_are_ignored(header: DebugHeader, noise: int, reserved: int) -> None:
    message = build(debug=header)
    start = len(message.data) - len(header.write())
    noisy = patched_u16(patched_u16(message.data, start, header.flags | noise & 0xFFFC), start + 2, reserved)
    received = accept_message(noisy).debug
    assert received is not None
    assert (received.queue_type, received.queue_identifier) == (header.queue_type, header.queue_identifier)


@pytest.mark.spec("MQMQ-2.2.20.8-f")
def test_the_debug_header_must_fit() -> None:
    encoded = DebugHeader(1, queue_identifier=QUEUE).write()
    for size in range(20):
        with pytest.raises(DecodeError):
            DebugHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            DebugHeader.read(encoded, 0, size)
    message = build(debug=DebugHeader(1, queue_identifier=QUEUE))
    refuse(resized(message.data[:-16]), "DebugHeader")
