"""UserHeader and the queue names in it (MS-MQMQ 2.2.19.2, 2.2.18.1.5, 2.2.18.1.7)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.framing import decode_packet
from msmq.wire.headers import (
    INFINITE,
    MAX_HOP_COUNT,
    NULL_GUID,
    PrivateQueueFormatName,
    QueueName,
    QueueReference,
    UserHeader,
    reference_for,
)
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import OrderAckBody, build_order_message
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from tests.wire.builders import (
    DESTINATION,
    FRAME_7,
    OTHER,
    QUEUE,
    SOURCE,
    USER_FLAGS,
    USER_NAMES,
    accept,
    accept_message,
    all_headers,
    build,
    message_parts,
    messages,
    optional_headers,
    patched,
    patched_u16,
    patched_u32,
    refuse,
    resized,
    texts,
    user_header,
    user_headers,
)

NAMES: dict[int, QueueName] = {
    0: None,
    1: None,
    2: 0x11,
    3: 0x12,
    4: 0x13,
    5: QUEUE,
    6: PrivateQueueFormatName(OTHER, 0x14),
    7: "OS:a\\q",
}
SIZES = {0: 0, 1: 0, 2: 4, 3: 4, 4: 4, 5: 16, 6: 20, 7: 2 + 2 * 7}
DM_RECOVERABLE = 0x20


def flags_of(data: bytes) -> int:
    flags: int = struct.unpack_from("<I", data, USER_FLAGS)[0]
    return flags


def with_flags(data: bytes, flags: int) -> bytes:
    return patched_u32(data, USER_FLAGS, flags)


# --- layout -------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-a")
def test_layout() -> None:
    header = UserHeader(
        SOURCE,
        NULL_GUID,
        time_to_be_received_s=60,
        sent_time=0x44110000,
        message_id=0x8EE,
        flags=0x00606C00 | 7 << 10 | 1 << 16,
        destination_queue="OS:a\\q",
        admin_queue=7,
        connector_type=QUEUE,
    )
    header.admin_reference = 3
    assert header.write() == bytes.fromhex(
        "101112131415161718191a1b1c1d1e1f"  # SourceQueueManager
        "00000000000000000000000000000000"  # QueueManagerAddress
        "3c000000"  # TimeToBeReceived
        "00001144"  # SentTime
        "ee080000"  # MessageID
        "007c6100"  # Flags
        "0e00 4f00 5300 3a00 6100 5c00 7100 0000"  # DestinationQueue
        "07000000"  # AdminQueue
        ""  # ResponseQueue: the same as the admin queue
        "404142434445464748494a4b4c4d4e4f"  # ConnectorType
    )
    assert UserHeader.read(header.write()) == (header, 48 + 16 + 4 + 16)
    assert UserHeader.SIZE == 48
    message = UserMessage.decode(FRAME_7)
    assert UserHeader.read(FRAME_7, 16) == (message.user, 92)
    assert message.user.destination_queue == "OS:a04bm02\\q"
    assert message.user.message_id == 2286


@given(user_headers())
def test_round_trip(header: UserHeader) -> None:
    encoded = header.write()
    assert len(encoded) % 4 == 0
    assert UserHeader.read(encoded) == (header, len(encoded))
    assert UserHeader.read(b"0123" + encoded + b"after", 4) == (header, 4 + len(encoded))
    assert UserHeader.decode(encoded).encode() == encoded[:48]
    for size in range(len(encoded)):
        with pytest.raises(DecodeError):
            UserHeader.read(encoded[:size])
        with pytest.raises(DecodeError):
            UserHeader.read(encoded, 0, size)


@pytest.mark.spec("MQMQ-2.2.19.2-i")
def test_flags() -> None:
    header = UserMessage.decode(FRAME_7).user
    assert header.flags == 0x00281C00
    named = {bits.spec_name: getattr(header, name) for name, bits in UserHeader.BITS}
    assert {name: value for name, value in named.items() if value} == {"DQ": 7, "SH": 1, "MP": 1}
    assert {bits.spec_name: (bits.low, bits.width) for _, bits in UserHeader.BITS} == {
        "RC": (0, 5),
        "DM": (5, 2),
        "JN": (8, 1),
        "JP": (9, 1),
        "DQ": (10, 3),
        "AQ": (13, 3),
        "RQ": (16, 3),
        "SH": (19, 1),
        "TH": (20, 1),
        "MP": (21, 1),
        "CQ": (22, 1),
        "MQ": (23, 1),
        "AH": (25, 1),
        "HH": (28, 1),
    }


# --- who and when -------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-b")
def test_a_router_keeps_the_original_sender() -> None:
    message = all_headers()
    forwarded = message.forwarded()
    assert forwarded is not None
    assert forwarded.user.source_queue_manager == SOURCE
    changed = [i for i, (a, b) in enumerate(zip(message.data, forwarded.data, strict=True)) if a != b]
    assert changed == [USER_FLAGS]  # the hop count alone


@pytest.mark.spec("MQMQ-2.2.19.2-c")
def test_the_destination_queue_manager_decides_who_delivers() -> None:
    message = build(user=user_header(QUEUE))
    assert message.user.queue_manager_address == DESTINATION
    assert message.data[32:48] == DESTINATION


@pytest.mark.spec("MQMQ-2.2.19.2-d")
def test_the_destination_queue_manager_is_named_unless_the_queue_is_direct() -> None:
    frame_7 = UserMessage.decode(FRAME_7)
    assert frame_7.user.destination_reference == 7
    assert frame_7.data[32:48] == bytes(16)
    order = {"source": SOURCE, "message_id": 1, "sent_time": 2}
    by_guid = build_order_message(OrderAckBody.of(1, 1), 0xFF, destination=DESTINATION, **order)  # type: ignore[arg-type]
    by_name = build_order_message(OrderAckBody.of(1, 1), 0xFF, destination=IPv4Address("10.1.2.3"), **order)  # type: ignore[arg-type]
    assert (by_guid.user.destination_reference, by_guid.data[32:48]) == (3, DESTINATION)
    assert (by_name.user.destination_reference, by_name.data[32:48]) == (7, bytes(16))
    for name, address in (("OS:host\\q", DESTINATION), (QUEUE, NULL_GUID), (7, NULL_GUID)):
        user = user_header(name)
        user.queue_manager_address = address
        with pytest.raises(EncodeError, match="QueueManagerAddress"):
            build(user=user)


@pytest.mark.spec("MQMQ-2.2.19.2-e")
def test_time_to_be_received_is_in_seconds() -> None:
    assert UserMessage.decode(FRAME_7).user.time_to_be_received_s == INFINITE == 0xFFFFFFFF
    user = user_header()
    user.time_to_be_received_s = 90
    message = build(user=user)
    assert message.data[48:52] == b"\x5a\0\0\0"
    assert accept_message(message.data).user.time_to_be_received_s == 90


@pytest.mark.spec("MQMQ-2.2.19.2-g")
def test_sent_time_counts_seconds_since_1970() -> None:
    """The clock is the caller's: what it reads is written as seconds and given back."""
    now = datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC)
    packet = build_order_message(
        OrderAckBody.of(1, 1),
        0xFF,
        source=SOURCE,
        destination=DESTINATION,
        message_id=1,
        sent_time=int(now.timestamp()),
    )
    assert packet.data[52:56] == struct.pack("<I", 1709209815)
    assert datetime.fromtimestamp(accept_message(packet.data).user.sent_time, UTC) == now


# --- how it travels -----------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-k")
def test_delivery_mode() -> None:
    express, recoverable = build(), build(user=user_header(recoverable=True))
    assert accept_message(express.data).recoverable is False  # need not be kept over a restart
    assert accept_message(recoverable.data).recoverable is True  # must be
    assert flags_of(recoverable.data) ^ flags_of(express.data) == DM_RECOVERABLE
    for mode in (2, 3):
        refuse(with_flags(express.data, flags_of(express.data) | mode << 5), r"Flags\.DM")
        user = user_header()
        user.delivery_mode = mode
        with pytest.raises(EncodeError, match=r"Flags\.DM"):
            build(user=user)


@pytest.mark.spec("MQMQ-2.2.19.2-l")
def test_a_transactional_message_is_recoverable() -> None:
    message = build(transaction=TransactionHeader())
    received = accept_message(message.data)
    assert received.transactional
    assert received.recoverable
    refuse(with_flags(message.data, flags_of(message.data) & ~DM_RECOVERABLE), "express")
    with pytest.raises(EncodeError, match="recoverable"):
        build(user=user_header(recoverable=False), transaction=TransactionHeader())


def test_a_hop_count_beyond_its_range_is_never_sent() -> None:
    user = user_header()
    user.hop_count = MAX_HOP_COUNT
    assert build(user=user).user.hop_count == 0x1D
    user.hop_count = MAX_HOP_COUNT + 1
    with pytest.raises(EncodeError, match=r"Flags\.RC"):
        build(user=user)


# --- queue names --------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.18.1.5-a")
@pytest.mark.parametrize("field", ["destination", "admin", "response"])
def test_the_reference_alone_decides_the_layout(field: str) -> None:
    legal = {"destination": [0, 3, 5, 7], "admin": [0, 2, 3, 5, 6, 7], "response": list(range(8))}[field]
    shift = {"destination": 10, "admin": 13, "response": 16}[field]
    tail = b"\x0e\x00" + bytes(30)  # long enough for any of them; read as a direct name: seven characters
    fixed = user_header(None).encode()
    for reference in legal:
        header = fixed[:44] + struct.pack("<I", 1 << 21 | reference << shift)
        decoded, end = UserHeader.read(header + tail)
        assert end == 48 + SIZES[reference], reference
        assert getattr(decoded, f"{field}_reference") == reference


@pytest.mark.spec("MQMQ-2.2.18.1.5.1-a")
def test_a_private_queue_number_takes_four_bytes() -> None:
    message = build_order_message(
        OrderAckBody.of(1, 1), 0xFF, source=SOURCE, destination=DESTINATION, message_id=1, sent_time=2
    )
    assert message.data[USER_NAMES : USER_NAMES + 4] == b"\x04\0\0\0"
    assert accept_message(message.data).user.destination_queue == 4
    for number in (-1, 1 << 32):
        with pytest.raises(EncodeError, match="32 bits"):
            build(user=user_header(number))


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-a")
def test_direct_name_layout() -> None:
    assert FRAME_7[USER_NAMES : USER_NAMES + 2] == b"\x1a\0"
    header, end = UserHeader.read(FRAME_7, 16)
    assert (header.destination_queue, end - 16) == ("OS:a04bm02\\q", 76)
    assert user_header("OS:a\\qq").write()[48:] == bytes.fromhex(
        "1000"  # Count
        "4f00 5300 3a00 6100 5c00 7100 7100 0000"  # DirectFormatName
        "0000"  # padding
    )


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-b", "MQMQ-2.2.18.1.5.2-c")
@given(texts(40))
def test_count_includes_the_terminator_and_no_padding(name: str) -> None:
    written = user_header(name).write()[48:]
    (count,) = struct.unpack_from("<H", written)
    units = len(name.encode("utf-16-le", "surrogatepass")) // 2
    assert count == 2 * (units + 1)
    assert written[count : count + 2] == b"\0\0"
    assert len(written) - (2 + count) in (0, 2)


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-d")
def test_direct_name_padding() -> None:
    for length, padding in ((11, 2), (12, 0)):
        written = user_header("q" * length).write()
        assert len(written) == 48 + 2 + 2 * (length + 1) + padding
        for value in (b"\0\0", b"\xff\xff", b"\x01\xfe"):
            noisy = written[: len(written) - padding] + value[:padding]
            assert UserHeader.read(noisy) == (user_header("q" * length), len(written))
    # counted from the start of the header, wherever the header itself lies
    shifted = b"xx" + user_header("q" * 11).write()
    assert UserHeader.read(shifted, 2) == (user_header("q" * 11), len(shifted))


@pytest.mark.spec("MQMQ-2.2.18.1.5.2-e")
def test_hostile_counts() -> None:
    message = build(user=user_header("OS:host\\q"), body=bytes(100))
    accept(message.data)
    for count in (0, 1, 3, 19, 21, 0x7FFF, 0xFFFE, 0xFFFF):
        refuse(patched_u16(message.data, USER_NAMES, count), "direct queue name")
    terminator = USER_NAMES + 2 + 18
    assert message.data[terminator : terminator + 2] == b"\0\0"
    for value in (b"a\0", b"\0a"):
        refuse(patched(message.data, terminator, value), "not terminated")
    # a Count that ends with the packet while its padding would not
    bare = UserHeader.read(user_header("q" * 11).write())[0].write()[:-2]
    with pytest.raises(DecodeError):
        UserHeader.read(bare)


def test_a_direct_name_is_written_within_its_limits() -> None:
    assert UserHeader.read(user_header("q" * 0x7FFE).write())[0].destination_queue == "q" * 0x7FFE
    with pytest.raises(EncodeError, match="16-bit"):
        user_header("q" * 0x7FFF).write()
    with pytest.raises(EncodeError, match="null"):
        user_header("OS:host\\q\0x").write()


@pytest.mark.spec("MQMQ-2.2.18.1.7.1-a")
def test_a_public_name_is_a_guid() -> None:
    header = user_header(QUEUE)
    assert header.destination_reference == 5
    assert header.write()[48:] == QUEUE
    assert UserHeader.read(header.write()) == (header, 64)


@pytest.mark.spec("MQMQ-2.2.18.1.7.2-a")
def test_a_private_name_is_a_guid_and_a_number() -> None:
    header = user_header(None, PrivateQueueFormatName(OTHER, 0x01020304))
    assert header.admin_reference == 6
    assert header.write()[48:] == OTHER + bytes.fromhex("04030201")
    assert UserHeader.read(header.write()) == (header, 68)


@pytest.mark.spec("MQMQ-2.2.18.1.7.2-c")
def test_a_number_belongs_to_its_queue_manager() -> None:
    names = [PrivateQueueFormatName(manager, 7) for manager in (SOURCE, OTHER)]
    read = [UserHeader.read(user_header(None, name).write())[0] for name in names]
    assert read[0].admin_queue != read[1].admin_queue
    assert [header.host_of(6, header.admin_queue) for header in read] == [SOURCE, OTHER]


@pytest.mark.spec("MQMQ-2.2.19.2-o")
@pytest.mark.parametrize("dq", [0, 3, 5, 7])
def test_destination_references(dq: int) -> None:
    header = user_header(NAMES[dq], dq=dq)
    message = build(user=header)
    received = accept_message(message.data).user
    assert received.destination_queue == NAMES[dq]
    assert UserHeader.read(message.data, 16)[1] == 64 + SIZES[dq]


@pytest.mark.spec("MQMQ-2.2.19.2-p")
@pytest.mark.parametrize("dq", [1, 2, 4, 6])
def test_other_destination_references_are_refused(dq: int) -> None:
    message = build(user=user_header(None), body=bytes(40))
    accept(message.data)
    refuse(with_flags(message.data, flags_of(message.data) | dq << 10), r"Flags\.DQ")
    with pytest.raises(EncodeError, match=r"Flags\.DQ"):
        build(user=user_header(NAMES[dq], dq=dq))


HOSTS = {2: SOURCE, 3: DESTINATION, 5: None, 6: OTHER, 7: None}


@pytest.mark.spec("MQMQ-2.2.19.2-q")
@pytest.mark.parametrize("aq", [0, 2, 3, 5, 6, 7])
def test_admin_references(aq: int) -> None:
    message = build(user=user_header(3, NAMES[aq], aq=aq))
    received = accept_message(message.data).user
    assert received.admin_queue == NAMES[aq]
    assert UserHeader.read(message.data, 16)[1] == 68 + SIZES[aq]
    assert received.host_of(aq, received.admin_queue) == HOSTS.get(aq)


@pytest.mark.spec("MQMQ-2.2.19.2-r")
@pytest.mark.parametrize("aq", [1, 4])
def test_other_admin_references_are_refused(aq: int) -> None:
    message = build(user=user_header(None), body=bytes(40))
    refuse(with_flags(message.data, flags_of(message.data) | aq << 13), r"Flags\.AQ")
    with pytest.raises(EncodeError, match=r"AQ"):
        build(user=user_header(None, NAMES[aq], aq=aq))


@pytest.mark.spec("MQMQ-2.2.19.2-s", "MQMQ-2.2.19.2-t")
@pytest.mark.parametrize("rq", range(8))
def test_response_references(rq: int) -> None:
    admin = PrivateQueueFormatName(OTHER, 7)
    message = build(user=user_header(3, admin, NAMES[rq], rq=rq))
    received = accept_message(message.data).user
    assert received.response_queue == NAMES[rq]
    assert UserHeader.read(message.data, 16)[1] == 68 + 20 + SIZES[rq]
    assert (SIZES[1], SIZES[4]) == (0, 4)
    assert received.answers_to == (admin if rq == 1 else NAMES[rq])
    assert received.host_of(rq, received.response_queue) == (HOSTS | {4: OTHER}).get(rq)


@pytest.mark.spec("MQMQ-2.2.19.2-u")
@pytest.mark.parametrize("rq", [1, 4])
def test_a_response_queue_that_follows_a_missing_admin_queue(rq: int) -> None:
    message = build(user=user_header(None, None, NAMES[rq], rq=rq))
    received = accept_message(message.data).user
    assert received.host_of(rq, received.response_queue) is None
    if rq == 1:
        assert received.answers_to is None
        assert received.host_of(received.admin_reference, received.answers_to) is None


@pytest.mark.spec("MQMQ-2.2.19.2-ae")
@pytest.mark.parametrize("lengths", [(9, 10, 11), (10, 10, 10), (11, 9, 9), (1, 2, 3), (0, 0, 0)])
def test_names_follow_in_order_each_padded(lengths: tuple[int, int, int]) -> None:
    names = [letter * length for letter, length in zip("dar", lengths, strict=True)]
    message = build(user=user_header(*names, connector_type=QUEUE), body=b"body")
    received = accept_message(message.data)
    user = received.user
    assert [user.destination_queue, user.admin_queue, user.response_queue] == names
    assert user.connector_type == QUEUE
    assert received.body == b"body"
    cursor = USER_NAMES
    for name in names:
        encoded = name.encode("utf-16-le") + b"\0\0"
        assert message.data[cursor : cursor + 2 + len(encoded)] == struct.pack("<H", len(encoded)) + encoded
        cursor = (cursor + 2 + len(encoded) + 3) // 4 * 4
    assert message.data[cursor : cursor + 16] == QUEUE


def test_a_name_must_fit_its_reference() -> None:
    wrong: list[tuple[QueueName, int]] = [
        ("OS:host\\q", 5),
        (QUEUE, 7),
        (QUEUE[:15], 5),
        (7, 5),
        (None, 7),
        (QUEUE, 0),
        (PrivateQueueFormatName(QUEUE[:15], 1), 6),
    ]
    for name, reference in wrong:
        with pytest.raises(EncodeError):
            build(user=user_header(None, None, name, rq=reference))
    with pytest.raises(EncodeError):
        build(user=user_header(QUEUE, dq=0))


@pytest.mark.parametrize("reference", range(8))
def test_references_follow_from_names(reference: int) -> None:
    name = NAMES[reference]
    numbers = QueueReference(reference) if isinstance(name, int) else QueueReference.PRIVATE_ON_SOURCE
    assert reference_for(name, numbers) == (0 if name is None else reference)


# --- presence bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "bit"),
    [
        pytest.param("security", 19, marks=pytest.mark.spec("MQMQ-2.2.19.2-v", "MQMQ-2.2.20-e")),
        pytest.param("transaction", 20, marks=pytest.mark.spec("MQMQ-2.2.19.2-w", "MQMQ-2.2.20-d")),
        pytest.param("multi_queue", 23, marks=pytest.mark.spec("MQMQ-2.2.19.2-z", "MQMQ-2.2.20-h")),
        pytest.param("soap", 28, marks=pytest.mark.spec("MQMQ-2.2.19.2-ac", "MQMQ-2.2.20-g")),
    ],
)
def test_a_bit_of_the_flags_is_the_presence_of_a_header(part: str, bit: int) -> None:
    header = optional_headers()[part]
    user = user_header(recoverable=True)
    with_it, without = build(user=user_header(recoverable=True), **{part: header}), build(user=user)
    assert flags_of(with_it.data) ^ flags_of(without.data) == 1 << bit
    name = "has_multi_queue_format_header" if part == "multi_queue" else f"has_{part}_header"
    assert (getattr(with_it.user, name), getattr(without.user, name)) == (1, 0)
    assert len(with_it.data) - len(without.data) == len(header.write())
    assert getattr(accept_message(with_it.data), part) == header
    assert getattr(accept_message(without.data), part) is None
    # the decoder follows the bit: a lie about it does not parse
    refuse(with_flags(with_it.data, flags_of(with_it.data) & ~(1 << bit)))
    refuse(with_flags(without.data, flags_of(without.data) | 1 << bit))
    # and a stale bit in the values we were given is corrected
    stale = user_header(recoverable=True)
    stale.flags |= 1 << bit
    assert build(user=stale).data == without.data


@pytest.mark.spec("MQMQ-2.2.19.2-x")
def test_mp_is_always_set() -> None:
    message = all_headers()
    assert flags_of(message.data) & 1 << 21
    refuse(with_flags(message.data, flags_of(message.data) & ~(1 << 21)), r"Flags\.MP")
    user = user_header()
    user.flags &= ~(1 << 21)
    assert build(user=user).user.has_message_properties_header


@pytest.mark.spec("MQMQ-2.2.19.2-y", "MQMQ-2.2.19.2-ag")
def test_connector_type() -> None:
    with_it, without = build(user=user_header(connector_type=OTHER)), build()
    assert flags_of(with_it.data) ^ flags_of(without.data) == 1 << 22
    end = UserHeader.read(without.data, 16)[1]
    assert UserHeader.read(with_it.data, 16)[1] == end + 16
    assert with_it.data[end : end + 16] == OTHER
    assert accept_message(with_it.data).user.connector_type == OTHER
    assert accept_message(without.data).user.connector_type is None
    refuse(with_flags(with_it.data, flags_of(with_it.data) & ~(1 << 22)))
    refuse(with_flags(without.data, flags_of(without.data) | 1 << 22))
    with pytest.raises(EncodeError, match="ConnectorType"):
        build(user=user_header(connector_type=OTHER[:15]))


@pytest.mark.spec("MQMQ-2.2.19.2-aa")
@given(message_parts())
def test_ah_is_never_set_by_this_protocol(parts: dict[str, object]) -> None:
    user = parts["user"]
    assert isinstance(user, UserHeader)
    user.sent_by_http = 1
    message = UserMessage.build(**parts)  # type: ignore[arg-type]
    assert not flags_of(message.data) & 1 << 25
    assert accept_message(message.data).envelope is None


@pytest.mark.spec("MQMQ-2.2.19.2-ab")
def test_ah_over_the_binary_protocol_is_refused() -> None:
    envelope = SRMPEnvelopeHeader("<Envelope/>")
    over_http = build(envelope=envelope, compound=CompoundMessageHeader(data=b"POST"))
    assert over_http.user.sent_by_http
    assert UserMessage.decode(over_http.data).envelope == envelope  # as remote read has it
    refuse(over_http.data, r"Flags\.AH")
    plain = build()
    refuse(with_flags(plain.data, flags_of(plain.data) | 1 << 25), r"Flags\.AH")


@pytest.mark.spec("MQMQ-2.2.19.2-ad")
@given(messages, st.integers(0, 0xFFFFFFFF))
def test_reserved_bits_change_nothing(message: UserMessage, noise: int) -> None:
    reserved = 1 << 7 | 1 << 24 | 3 << 26 | 7 << 29
    assert not message.user.flags & reserved
    received = accept_message(with_flags(message.data, message.user.flags | noise & reserved))
    received.user.flags &= ~reserved
    assert received.user == message.user
    for part in ("base", "properties", "transaction", "security", "debug", "soap", "multi_queue", "session"):
        assert getattr(received, part) == getattr(message, part)
    assert (received.label, received.extension, received.body) == (
        message.label,
        message.extension,
        message.body,
    )


# --- hostile bytes ------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-ah")
@pytest.mark.parametrize("size", range(64, 93))
def test_frame_7_cut_inside_its_queue_name(size: int) -> None:
    cut = FRAME_7[:size]
    for data in (cut, resized(cut)):
        with pytest.raises(DecodeError):
            decode_packet(data)
        with pytest.raises(DecodeError):
            UserMessage.decode(data)
    with pytest.raises(DecodeError):
        UserHeader.read(FRAME_7, 16, size - 1)


@given(user_headers(), st.data())
def test_noise_in_the_variable_part_is_read_or_refused(header: UserHeader, data: st.DataObject) -> None:
    tail = data.draw(st.binary(max_size=80))
    encoded = header.write()[:48] + tail
    try:
        decoded, end = UserHeader.read(encoded)
    except DecodeError:
        return
    assert end <= len(encoded)
    assert UserHeader.read(decoded.write()) == (decoded, len(decoded.write()))
