"""EstablishConnection (MS-MQQB 2.2.3): the request, the answers it gets, and what is let pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.packets import (
    EstablishConnection,
    EstablishConnectionHeader,
    session_quota_reached,
)

OURS = bytes(range(16))
THEIRS = bytes(range(16, 32))
FOREIGN = bytes(range(32, 48))
NOBODY = bytes(16)
SERVERS = ["anybody", "ours", "foreign"]

guids = st.binary(min_size=16, max_size=16)


def request(server: bytes | None = OURS, **options: bool) -> EstablishConnection:
    return EstablishConnection.request(THEIRS, server, 1234, **options)


@pytest.mark.spec("MQQB-2.2.3-a")
def test_a_packet_is_572_bytes() -> None:
    packet = request()
    encoded = packet.encode()
    assert len(encoded) == packet.base.packet_size == 0x23C
    for size in (571, 573, 588):
        wrong = encoded[:8] + size.to_bytes(4, "little") + encoded[12:]
        for data in (wrong, wrong.ljust(size, b"Z"), encoded.ljust(size, b"Z")[:size]):
            with pytest.raises(DecodeError):
                decode_packet(data)
            with pytest.raises(DecodeError):
                EstablishConnection.decode(data)


@pytest.mark.spec("MQQB-2.2.3-b")
def test_flags() -> None:
    encoded = request().encode()
    assert encoded[2:4] == bytes.fromhex("0b 00")
    assert encoded[16:20] == bytes.fromhex("0000 0200")


@pytest.mark.spec("MQQB-2.2.3.1-a")
def test_layout_of_the_header() -> None:
    assert [
        (field.spec_name, 20 + field.offset, field.size) for field in EstablishConnectionHeader.FIELDS
    ] == [
        ("ClientGuid", 20, 16),
        ("ServerGuid", 36, 16),
        ("TimeStamp", 52, 4),
        ("OperatingSystem", 56, 2),
        ("Reserved", 58, 2),
        ("Padding", 60, 512),
    ]
    encoded = request().encode()
    assert encoded[20:36] == THEIRS
    assert encoded[36:52] == OURS
    assert encoded[52:60] == bytes.fromhex("d2040000 1003 0000")


@given(
    guids, guids, st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFF), st.binary(min_size=512, max_size=512)
)
def test_round_trip(client: bytes, server: bytes, time_stamp: int, system: int, padding: bytes) -> None:
    packet = request()
    packet.header = EstablishConnectionHeader(client, server, time_stamp, system, 0, padding)
    assert EstablishConnection.decode(packet.encode()) == packet
    assert decode_packet(packet.encode()) == packet


@pytest.mark.spec("MQQB-2.2.3.1-b")
@given(guids)
def test_the_response_repeats_client_guid(client: bytes) -> None:
    asked = EstablishConnection.request(client, OURS, 0).encode()
    answered = EstablishConnection.decode(asked).response(OURS).encode()
    assert answered[20:36] == asked[20:36] == client


@pytest.mark.spec("MQQB-2.2.3.1-c")
def test_server_guid_of_a_request() -> None:
    assert request(None).encode()[36:52] == NOBODY
    assert request(OURS).encode()[36:52] == OURS


@pytest.mark.spec("MQQB-2.2.3.1-d")
@pytest.mark.parametrize(("asked", "answered"), [(None, OURS), (OURS, OURS), (FOREIGN, FOREIGN)], ids=SERVERS)
def test_server_guid_of_a_response(asked: bytes | None, answered: bytes) -> None:
    assert request(asked).response(OURS).header.server_guid == answered


@pytest.mark.spec("MQQB-2.2.3.1-e")
@pytest.mark.parametrize(
    ("sent_ms", "now_ms", "round_trip_ms"),
    [(1000, 1187, 187), (0xFFFFFFF0, 0x100000010, 0x20), (0xFFFFFFF0, 0x10, 0x20), (1 << 40, 1 << 40, 0)],
)
def test_the_time_stamp_comes_back_and_measures_the_round_trip(
    sent_ms: int, now_ms: int, round_trip_ms: int
) -> None:
    """A system up for more than 49 days has a count that does not fit; both ends of the measure wrap."""
    asked = EstablishConnection.request(THEIRS, None, sent_ms)
    response = EstablishConnection.decode(asked.response(OURS).encode())
    assert response.header.time_stamp == asked.header.time_stamp == sent_ms & 0xFFFFFFFF
    assert response.round_trip_ms(now_ms) == round_trip_ms


@pytest.mark.spec("MQQB-2.2.3.1-f")
@given(st.integers(0, 0xFFFF))
def test_the_low_byte_of_operating_system_is_always_16(received: int) -> None:
    asked = request()
    assert asked.header.reserved_os == 0x10
    asked.header.operating_system = received
    assert asked.response(OURS).encode()[56] == 0x10


@pytest.mark.spec("MQQB-2.2.3.1-g")
@pytest.mark.parametrize("ping_sent", [False, True])
def test_se_says_that_no_ping_was_sent_and_is_echoed(ping_sent: bool) -> None:
    asked = request(ping_sent=ping_sent)
    assert bool(asked.header.operating_system & 0x0100) == (not ping_sent)
    response = EstablishConnection.decode(asked.encode()).response(OURS)
    assert response.header.no_ping_sent == asked.header.no_ping_sent == (not ping_sent)


@pytest.mark.spec("MQQB-2.2.3.1-h")
@pytest.mark.parametrize("server", [False, True])
def test_os_says_whether_the_initiator_is_a_server(server: bool) -> None:
    asked = request(server_class=server)
    assert asked.header.server_class == server
    assert bool(asked.header.operating_system & 0x0200) == server


@pytest.mark.spec("MQQB-2.2.3.1-i")
@pytest.mark.parametrize("server", [None, OURS, FOREIGN], ids=SERVERS)
@pytest.mark.parametrize("quota_reached", [False, True])
def test_the_os_bit_does_not_change_acceptance(server: bytes | None, quota_reached: bool) -> None:
    answers = [
        request(server, server_class=bit).response(OURS, refuse=quota_reached).internal
        for bit in (False, True)
    ]
    assert answers[0] == answers[1]


@pytest.mark.spec("MQQB-2.2.3.1-j")
def test_quality_of_service_is_never_sent_and_changes_nothing() -> None:
    asked = request()
    plain = asked.response(OURS)
    assert asked.header.quality_of_service == 0
    asked.header.quality_of_service = 1
    assert EstablishConnection.decode(asked.encode()).response(OURS) == plain


@pytest.mark.spec("MQQB-2.2.3.1-k")
def test_unused_bits_of_operating_system_are_sent_clear_and_ignored() -> None:
    asked = request()
    plain = asked.response(OURS)
    assert (asked.header.operating_system | plain.header.operating_system) & 0xF800 == 0
    asked.header.operating_system |= 0xF800
    assert EstablishConnection.decode(asked.encode()).response(OURS) == plain


@pytest.mark.spec("MQQB-2.2.3.1-l")
def test_reserved_is_sent_as_zero_and_ignored() -> None:
    asked = request()
    assert asked.header.reserved == asked.response(OURS).header.reserved == 0
    plain = asked.response(OURS)
    asked.header.reserved = 0xFFFF
    assert EstablishConnection.decode(asked.encode()).response(OURS) == plain


@pytest.mark.spec("MQQB-2.2.3.1-m")
@given(st.binary(min_size=512, max_size=512))
def test_padding_is_5a_in_a_response_and_anything_in_a_request(padding: bytes) -> None:
    asked = request()
    asked.header.padding = padding
    answered = EstablishConnection.decode(asked.encode()).response(OURS).encode()
    assert answered[60:] == b"\x5a" * 512
    assert answered[18:20] == bytes.fromhex("0200")


def test_our_own_request_leaks_no_memory_in_its_padding() -> None:
    assert request().header.padding == b"\x5a" * 512


@pytest.mark.parametrize("ping_sent", [False, True])
@pytest.mark.parametrize("server_class", [False, True])
def test_operating_system_with_its_bytes_swapped_is_understood(ping_sent: bool, server_class: bool) -> None:
    asked = request(ping_sent=ping_sent, server_class=server_class)
    plain = asked.response(OURS)
    word = asked.header.operating_system
    asked.header.operating_system = word >> 8 | (word & 0xFF) << 8
    swapped = EstablishConnection.decode(asked.encode())
    assert swapped.header.swapped
    assert swapped.header.normalized() == word
    assert swapped.response(OURS) == plain


@pytest.mark.spec("MQQB-2.2.1-f")
@pytest.mark.parametrize(("server", "refused"), [(None, 0), (OURS, 0), (FOREIGN, 1)], ids=SERVERS)
def test_only_a_request_for_another_queue_manager_is_refused(server: bytes | None, refused: int) -> None:
    asked = EstablishConnection.decode(request(server).encode())
    assert asked.meant_for(OURS) == (not refused)
    response = EstablishConnection.decode(asked.response(OURS).encode())
    assert response.internal.connection_refused == refused


@pytest.mark.spec("MQQB-2.2.1-e")
def test_a_refusal_is_flag_cs() -> None:
    assert request(FOREIGN).response(OURS).encode()[18:20] == bytes.fromhex("1200")
    assert request(OURS).response(OURS).encode()[18:20] == bytes.fromhex("0200")
    assert request(OURS).response(OURS, refuse=True).internal.flags == 0x0012


@pytest.mark.spec("MQQB-2.2.1-g")
def test_a_session_beyond_the_quota_is_refused() -> None:
    answers = [
        request(OURS).response(OURS, refuse=session_quota_reached(open_sessions, max_in_sessions=1))
        for open_sessions in (0, 1)
    ]
    assert [answer.internal.connection_refused for answer in answers] == [0, 1]


@pytest.mark.parametrize("bit", [0x10, 0x20])
def test_a_session_or_debug_header_has_no_place_here(bit: int) -> None:
    data = bytearray(request().encode())
    data[2] |= bit
    with pytest.raises(DecodeError):
        EstablishConnection.decode(bytes(data))
    with pytest.raises(DecodeError):
        decode_packet(bytes(data))


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_mutated_packet_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(request().encode())
    for offset, value in changes:
        data[offset] = value
    try:
        StreamReader().feed(bytes(data))
        packet = EstablishConnection.decode(bytes(data))
    except DecodeError:
        return
    assert packet.encode() == data
    assert packet.response(OURS).encode()[60:] == b"\x5a" * 512
