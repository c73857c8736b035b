"""ConnectionParameters (MS-MQQB 2.2.2): times within their ranges, any window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.packets import ConnectionParameters, ConnectionParametersHeader, EstablishConnection

LAYOUT = bytes.fromhex("d8050000 c0d40100 0000 4000")


def parameters() -> ConnectionParameters:
    return ConnectionParameters.of(1496, 120_000, 64)


@pytest.mark.spec("MQQB-2.2.2-b")
def test_flags() -> None:
    packet = parameters()
    assert (packet.base.internal, packet.internal.packet_type) == (1, 3)
    plain = bytearray(packet.encode())
    plain[2] &= ~0x08
    with pytest.raises(DecodeError):
        ConnectionParameters.decode(bytes(plain))
    with pytest.raises(DecodeError):  # as a user message it is too short
        decode_packet(bytes(plain))
    with pytest.raises(DecodeError):
        StreamReader().feed(bytes(plain))


@pytest.mark.spec("MQQB-2.2.2.1-a")
def test_layout_of_the_header() -> None:
    header = ConnectionParametersHeader.decode(LAYOUT)
    assert header == ConnectionParametersHeader(1496, 120_000, 0, 64)
    assert header.encode() == LAYOUT
    assert [field.spec_name for field in header.FIELDS] == [
        "RecoverableAckTimeout",
        "AckTimeout",
        "Reserved",
        "WindowSize",
    ]


@given(st.integers(500, 120_000), st.integers(20_000, 120_000), st.integers(0, 0xFFFF))
def test_round_trip(recoverable_ms: int, ack_ms: int, window: int) -> None:
    packet = ConnectionParameters.of(recoverable_ms, ack_ms, window)
    assert packet.header == ConnectionParametersHeader(recoverable_ms, ack_ms, 0, window)
    assert decode_packet(packet.encode()) == packet


@pytest.mark.spec("MQQB-2.2.2.1-b")
@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        (0, 500),
        (499, 500),
        (500, 500),
        (501, 501),
        (120_000, 120_000),
        (120_001, 120_000),
        (8 * 60_000, 120_000),
    ],
)
def test_recoverable_ack_timeout_is_brought_into_its_range(asked: int, sent: int) -> None:
    assert ConnectionParameters.of(asked, 20_000, 64).header.recoverable_ack_timeout_ms == sent
    assert parameters().encode()[20:24] == (1496).to_bytes(4, "little")


@pytest.mark.spec("MQQB-2.2.2.1-c")
@pytest.mark.parametrize(
    ("asked", "sent"),
    [(0, 20_000), (19_999, 20_000), (20_000, 20_000), (120_000, 120_000), (120_001, 120_000)],
)
def test_ack_timeout_is_brought_into_its_range(asked: int, sent: int) -> None:
    assert ConnectionParameters.of(500, asked, 64).header.ack_timeout_ms == sent


@pytest.mark.spec("MQQB-2.2.2.1-d")
def test_reserved_is_sent_as_zero_and_ignored() -> None:
    packet = parameters()
    assert packet.encode()[28:30] == b"\0\0"
    packet.header.reserved = 0xBEEF
    decoded = ConnectionParameters.decode(packet.encode())
    assert (decoded.header.ack_timeout_ms, decoded.header.window_size) == (120_000, 64)


@pytest.mark.parametrize("window", [0, 1, 64, 0xFFFF])
def test_any_window_is_accepted(window: int) -> None:
    packet = decode_packet(ConnectionParameters.of(500, 20_000, window).encode())
    assert isinstance(packet, ConnectionParameters)
    assert packet.header.window_size == window


@pytest.mark.spec("MQQB-2.2.2.1-f")
@pytest.mark.parametrize(
    ("recoverable_ms", "ack_ms"),
    [
        (499, 20_000),
        (120_001, 20_000),
        (500, 1),
        (500, 19_999),
        (500, 120_001),
        (0, 0),
        (0xFFFFFFFF, 0xFFFFFFFF),
    ],
)
def test_received_times_out_of_range_are_refused(recoverable_ms: int, ack_ms: int) -> None:
    """A refused packet closes its session."""
    packet = parameters()
    packet.header = ConnectionParametersHeader(recoverable_ms, ack_ms, 0, 64)
    with pytest.raises(DecodeError):
        ConnectionParameters.decode(packet.encode())
    with pytest.raises(DecodeError):
        decode_packet(packet.encode())


def test_a_refusal_is_understood() -> None:
    packet = parameters()
    packet.internal.connection_refused = 1
    assert packet.encode()[18:20] == bytes.fromhex("1300")
    assert ConnectionParameters.decode(packet.encode()).internal.connection_refused == 1


@pytest.mark.parametrize("size", [31, 33, 48])
def test_another_size_is_refused(size: int) -> None:
    data = parameters().encode()
    wrong = data[:8] + size.to_bytes(4, "little") + data[12:]
    with pytest.raises(DecodeError):
        StreamReader().feed(wrong)
    for broken in (wrong, wrong.ljust(size, b"\0")[:size], data.ljust(size, b"\0")[:size]):
        with pytest.raises(DecodeError):
            ConnectionParameters.decode(broken)


def test_another_internal_packet_is_refused() -> None:
    with pytest.raises(DecodeError):
        ConnectionParameters.decode(EstablishConnection.request(bytes(16), None, 0).encode())


def test_a_window_is_16_bits() -> None:
    with pytest.raises(EncodeError):
        ConnectionParameters.of(500, 20_000, 0x10000).encode()
