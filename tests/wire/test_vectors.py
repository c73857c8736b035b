"""The sample session of MS-MQQB 4.1: what every frame decodes to, and every frame built from its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.declare import Wire
from msmq.wire.framing import Packet, StreamReader, decode_packet, packet_length
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader, SessionHeader
from msmq.wire.packets import ConnectionParameters, EstablishConnection, Ping, SessionAck
from tests.wire import vectors
from tests.wire.vectors import Vector

every_session_packet = pytest.mark.parametrize("vector", vectors.SESSION_PACKETS, ids=lambda v: v.name)
every_ping = pytest.mark.parametrize("vector", vectors.PINGS, ids=lambda v: v.name)

Values = dict[tuple[int, int], int | bytes]


def fields(header: Wire, start: int) -> Iterator[tuple[tuple[int, int], Any]]:
    """Every declared field of a header that begins at ``start``: where it lies, and its decoded value."""
    for field in header.FIELDS:
        yield (start + field.offset, field.size), getattr(header, field.name)


def decoded_values(packet: Packet | Ping) -> Values:
    """All values of a decoded packet by the place (offset, size) they were read from."""
    if isinstance(packet, Ping):
        return dict(fields(packet, 0))
    values: Values = dict(fields(packet.base, 0))
    match packet:
        case UserMessage():
            assert packet.security is not None
            assert isinstance(packet.user.destination_queue, str)
            name = (packet.user.destination_queue + "\0").encode("utf-16-le")
            label = (packet.label + "\0").encode("utf-16-le")
            values.update(fields(packet.user, 16))
            values.update(fields(packet.security, 92))
            values.update(fields(packet.properties, packet.properties_offset))
            values |= {
                (64, 2): len(name),
                (66, 26): name,
                (108, 28): packet.security.security_id,
                (192, 30): label,
                (packet.extension_offset, 0): packet.extension,
                (packet.body_offset, 2000): packet.body,
            }
        case SessionAck():
            values.update(fields(packet.internal, 16))
            values.update(fields(packet.session, 20))
        case EstablishConnection() | ConnectionParameters():
            values.update(fields(packet.internal, 16))
            values.update(fields(packet.header, 20))
    return values


def declared_bits(packet: Packet | Ping) -> dict[tuple[int, int, int], int]:
    """Every named run of bits by where its field lies, its lowest bit and its width."""
    headers: list[tuple[Wire, int]] = []
    match packet:
        case Ping():
            headers = [(packet, 0)]
        case UserMessage():
            assert packet.security is not None
            headers = [
                (packet.user, 16),
                (packet.security, 92),
                (packet.properties, packet.properties_offset),
            ]
        case SessionAck():
            headers = [(packet.internal, 16), (packet.session, 20)]
        case EstablishConnection() | ConnectionParameters():
            headers = [(packet.internal, 16), (packet.header, 20)]
    if not isinstance(packet, Ping):
        headers.append((packet.base, 0))
    bits = {}
    for header, start in headers:
        offsets = {field.name: start + field.offset for field in header.FIELDS}
        for name, run in header.BITS:
            bits[offsets[run.field], run.low, run.width] = getattr(header, name)
    return bits


def as_shown(value: int | bytes, row: dict[str, Any]) -> int | str:
    """A decoded value the way the description prints it: blobs by their length, GUIDs and names as text."""
    if isinstance(value, int):
        return value
    if isinstance(row["dump_value"], int):
        return len(value)
    if row["size"] == 16:
        return str(UUID(bytes_le=value)).upper()
    return value.decode("utf-16-le").removesuffix("\0")


def check_rows(packet: Packet | Ping, vector: Vector) -> int:
    """Hold the decoded packet against every row of the specification's table whose bytes are trusted."""
    values, bits, checked = decoded_values(packet), declared_bits(packet), 0
    for row in vector.description["fields"]:
        if "offset" not in row or not vector.trusted(row["offset"], row["size"]):
            continue
        where = f"{row['layer']}.{row['field']}"
        if "bit" in row:
            field = values[row["offset"], row["size"]]
            assert isinstance(field, int)
            assert field >> row["bit"] & (1 << row["bits"]) - 1 == row["dump_value"], where
            named = bits.get((row["offset"], row["bit"], row["bits"]))
            assert named in (None, row["dump_value"]), where
        elif row["field"] == "Padding" and row["size"] < 4:
            continue
        else:
            assert as_shown(values[row["offset"], row["size"]], row) == row["dump_value"], where
        checked += 1
    return checked


@pytest.mark.spec("MQQB-2.2.7-a")
@every_ping
def test_a_ping_frame_decodes_to_its_table_and_encodes_to_its_bytes(vector: Vector) -> None:
    ping = Ping.parse(vector.data)
    assert check_rows(ping, vector) == 6
    assert ping.encode() == vector.data


TRUSTED_ROWS = {
    vectors.ESTABLISH_REQUEST: 27,
    vectors.ESTABLISH_RESPONSE: 29,
    vectors.PARAMETERS_REQUEST: 22,
    vectors.PARAMETERS_RESPONSE: 21,
    vectors.SESSION_ACK: 25,
}


@pytest.mark.parametrize("vector", TRUSTED_ROWS, ids=lambda v: v.name)
def test_an_internal_frame_decodes_to_its_table_and_encodes_to_its_bytes(vector: Vector) -> None:
    packet = decode_packet(vector.data)
    assert not isinstance(packet, UserMessage)
    assert check_rows(packet, vector) == TRUSTED_ROWS[vector]
    assert packet.encode() == vector.data


def test_the_user_message_frame_decodes_to_its_table() -> None:
    """Fields of frame 7 through its completed form; the description is that of the dump."""
    message = decode_packet(vectors.USER_MESSAGE.data)
    assert isinstance(message, UserMessage)
    assert check_rows(message, vectors.USER_MESSAGE_DUMP) == 62
    assert message.data == vectors.USER_MESSAGE.data
    assert message.user.destination_queue == "OS:a04bm02\\q"
    assert message.body == b"a\0" * 1000
    assert (message.properties.body_type, message.properties.encryption_algorithm) == (8, 0x6801)


@pytest.mark.spec("MQQB-2.2-a")
def test_guids_are_in_the_mixed_order() -> None:
    guid = Ping.parse(vectors.PING_REQUEST.data).qm_guid
    assert guid.hex(" ").startswith("d1 58 73 55 50 91")
    assert UUID(bytes_le=guid) == UUID("557358d1-9150-9595-4997-b6e611ea26c6")
    assert Ping.parse(vectors.PING_REQUEST.data).cookie == int.from_bytes(b"\x04\0\0\0", "little")


CLIENT = UUID("1F742305-BE5E-4177-BC77-C4DD7719E474").bytes_le
SERVER = UUID("3C3A6AEB-F567-4143-87D3-85CF4D68CEB4").bytes_le


@pytest.mark.spec("MQQB-4.1.1-a")
def test_frame_1_and_2_from_their_values() -> None:
    """The unused bits of Flags are whatever lay in memory there."""
    request = Ping.request(4, vectors.PING_REQUEST.data[8:], server_class=False)
    response = request.answer(vectors.PING_RESPONSE.data[8:])
    request.flags |= 0x7D00
    response.flags |= 0xB294
    assert request.encode() == vectors.PING_REQUEST.data
    assert response.encode() == vectors.PING_RESPONSE.data


@pytest.mark.spec("MQQB-4.1.3-a")
def test_frame_3_from_its_values() -> None:
    data = vectors.ESTABLISH_REQUEST.data
    packet = EstablishConnection.request(data[20:36], data[36:52], 0x1DDECA4E)
    packet.base.reserved = 0xC0
    assert packet.encode() == data


def test_frame_4_from_its_values() -> None:
    request = EstablishConnection.request(CLIENT, SERVER, 0x1DDECA4E)
    response = request.response(SERVER)
    response.base.reserved = 0x5A
    assert response.encode() == vectors.ESTABLISH_RESPONSE.data


@pytest.mark.spec("MQQB-2.2.2-a", "MQQB-4.1.5-a", "MQQB-4.1.6-a")
@pytest.mark.parametrize(
    "vector", [vectors.PARAMETERS_REQUEST, vectors.PARAMETERS_RESPONSE], ids=lambda v: v.name
)
def test_frames_5_and_6_from_their_values(vector: Vector) -> None:
    packet = ConnectionParameters.of(1496, 120_000, 64)
    encoded = packet.encode()
    assert len(encoded) == packet.base.packet_size == 0x20
    assert packet.base.time_to_reach_queue_s == 0xFFFFFFFF
    assert encoded[:1] + b"\xc0" + encoded[2:] == vector.data


def test_frame_7_from_its_values() -> None:
    data = vectors.USER_MESSAGE.data
    user = UserHeader(data[16:32], sent_time=0x524F494C, message_id=2286, destination_queue="OS:a04bm02\\q")
    user.destination_reference = QueueReference.DIRECT
    security = SecurityHeader(security_id=data[108:136])
    security.sender_id_type = 1
    properties = MessagePropertiesHeader(
        flags=0x0F, body_type=8, hash_algorithm=0x8004, encryption_algorithm=0x6801
    )
    message = UserMessage.build(
        base=BaseHeader(time_to_reach_queue_s=345_600),
        user=user,
        security=security,
        properties=properties,
        label=data[192:220].decode("utf-16-le"),
        body=b"a\0" * 1000,
    )
    assert message.data == data


@pytest.mark.spec("MQQB-2.2.6-a", "MQQB-4.1.8-a")
def test_frame_8_from_its_values() -> None:
    packet = SessionAck.of(SessionHeader(ack_sequence_number=1))
    encoded = packet.encode()
    assert len(encoded) == packet.base.packet_size == 0x24
    assert encoded[:1] + b"\xcd" + encoded[2:] == vectors.SESSION_ACK.data


@pytest.mark.spec("MQQB-2.1.1-f")
@every_session_packet
def test_a_frame_is_its_base_header_and_the_rest_of_packet_size(vector: Vector) -> None:
    base = BaseHeader.decode(vector.data)
    rest = vector.data[BaseHeader.SIZE :]
    assert len(rest) == base.packet_size - BaseHeader.SIZE
    decoded = decode_packet(vector.data[: BaseHeader.SIZE] + rest)
    assert decoded.base == base


def test_the_cut_user_message_is_refused_at_every_length() -> None:
    dump = vectors.USER_MESSAGE_DUMP.data
    assert len(dump) == 1650
    for length in range(len(dump) + 1):
        for decode in (decode_packet, UserMessage.decode, UserMessage.route):
            with pytest.raises(DecodeError):
                decode(dump[:length])


def test_the_stream_reader_waits_for_the_rest_of_the_cut_user_message() -> None:
    dump = vectors.USER_MESSAGE_DUMP.data
    for length in range(len(dump) + 1):
        reader = StreamReader()
        assert reader.feed(dump[:length]) == []
        assert reader.missing == (20 if length < 20 else 2224) - length
        assert not reader.broken
    assert reader.missing == 574
    assert reader.feed(vectors.USER_MESSAGE.data[1650:]) == [vectors.USER_MESSAGE.data]


@every_session_packet
def test_every_truncation_of_a_frame_is_refused_and_waited_for(vector: Vector) -> None:
    for length in range(len(vector.data)):
        with pytest.raises(DecodeError):
            decode_packet(vector.data[:length])
        assert StreamReader().feed(vector.data[:length]) == []


@every_session_packet
def test_a_frame_fed_whole_and_byte_by_byte(vector: Vector) -> None:
    assert StreamReader().feed(vector.data) == [vector.data]
    reader = StreamReader()
    pieces = [reader.feed(vector.data[at : at + 1]) for at in range(len(vector.data))]
    assert pieces == [[]] * (len(vector.data) - 1) + [[vector.data]]
    assert (reader.buffered, reader.missing) == (0, 20)


@every_session_packet
def test_trailing_bytes_begin_the_next_packet_of_a_stream_and_are_refused_in_a_buffer(vector: Vector) -> None:
    for size in (1, 16, 19):
        trailing = vectors.SESSION_ACK.data[:size]
        reader = StreamReader()
        assert reader.feed(vector.data + trailing) == [vector.data]
        assert (reader.buffered, reader.missing) == (size, 20 - size)
        with pytest.raises(DecodeError):
            decode_packet(vector.data + trailing)
        assert reader.feed(vectors.SESSION_ACK.data[size:]) == [vectors.SESSION_ACK.data]


@every_session_packet
@pytest.mark.parametrize("following", vectors.SESSION_PACKETS, ids=lambda v: v.name)
def test_two_frames_glued_together(vector: Vector, following: Vector) -> None:
    assert StreamReader().feed(vector.data + following.data) == [vector.data, following.data]
    assert packet_length(vector.data + following.data) == len(vector.data)
    with pytest.raises(DecodeError):
        decode_packet(vector.data + following.data)


@given(st.data())
def test_the_whole_session_in_chunks_of_any_size(data: st.DataObject) -> None:
    stream = b"".join(vector.data for vector in vectors.SESSION_PACKETS)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40).map(sorted))
    reader = StreamReader()
    packets = [
        packet
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for packet in reader.feed(stream[start:end])
    ]
    assert packets == [vector.data for vector in vectors.SESSION_PACKETS]


@every_ping
def test_a_ping_frame_is_refused_at_every_other_length(vector: Vector) -> None:
    for datagram in (*(vector.data[:size] for size in range(24)), vector.data + b"\0"):
        with pytest.raises(DecodeError):
            Ping.parse(datagram)


@given(st.lists(st.tuples(st.integers(0, 2223), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_mutated_user_message_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(vectors.USER_MESSAGE.data)
    for offset, value in changes:
        data[offset] = value
    mutated = bytes(data)
    try:
        packet = decode_packet(mutated)
    except DecodeError:
        return
    assert isinstance(packet, UserMessage)
    assert packet.data == mutated
    assert len(packet.body) <= len(mutated)


def test_every_single_byte_of_the_headers_may_be_wrong() -> None:
    """No value of any byte before the body brings down the decoder with anything but its own error."""
    for offset in range(222):
        for value in range(256):
            data = bytearray(vectors.USER_MESSAGE.data)
            data[offset] = value
            try:
                decode_packet(bytes(data))
            except DecodeError:
                continue
