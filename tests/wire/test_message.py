"""The UserMessage packet as a whole (MS-MQMQ 2.2.20)."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Wire
from msmq.wire.framing import StreamReader, decode_packet
from msmq.wire.headers import MAX_HOP_COUNT, MAX_PACKET_SIZE, BaseHeader, MessagePropertiesHeader, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MQFAddressHeader, MQFSignatureHeader, MultiQueueFormatHeader
from msmq.wire.optional_headers import (
    DebugHeader,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.packets import SessionAck
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from tests.wire.builders import (
    BASE_FLAGS,
    BASE_PACKET_SIZE,
    FRAME_7,
    QUEUE,
    USER_FLAGS,
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
    session_headers,
    user_header,
)

PARTS = ("transaction", "security", "debug", "envelope", "compound", "soap", "multi_queue", "session")
OPTIONAL = ("transaction", "security", "debug", "soap", "multi_queue", "session")
LENGTH_VALUES = (0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def assert_is(message: UserMessage, parts: dict[str, Any]) -> None:
    """The message says what it was built from."""
    for name in ("base", "user", "properties", *PARTS):
        assert getattr(message, name) == parts.get(name), name
    assert (message.label, message.extension, message.body) == (
        parts["label"],
        parts["extension"],
        parts["body"],
    )


# --- order and presence -------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20-a")
def test_headers_stand_in_order() -> None:
    parts = optional_headers()
    user = user_header(recoverable=True)
    properties = MessagePropertiesHeader()
    message = build(base=BaseHeader(), user=user, properties=properties, body=b"body", **parts)
    assert message.data == b"".join(
        (
            message.base.encode(),
            user.write(),
            parts["transaction"].write(),
            parts["security"].write(),
            properties.encode() + b"body",
            parts["debug"].write(),
            parts["soap"].write(),
            parts["multi_queue"].write(),
            parts["session"].write(),
        )
    )
    received = accept_message(message.data)
    assert_is(received, parts | {"base": message.base, "user": user, "properties": properties} | {
        "label": "", "extension": b"", "body": b"body"
    })  # fmt: skip


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=len(OPTIONAL))))
def test_every_combination_of_headers(present: tuple[bool, ...]) -> None:
    chosen = {
        name: part for (name, part), there in zip(optional_headers().items(), present, strict=True) if there
    }
    assert tuple(optional_headers()) == OPTIONAL
    message = build(label="label", extension=b"ext", body=b"body", **chosen)
    received = accept_message(message.data)
    for name in OPTIONAL:
        assert getattr(received, name) == chosen.get(name)
    assert (received.label, received.extension, received.body) == ("label", b"ext", b"body")


@given(message_parts())
def test_round_trip(parts: dict[str, Any]) -> None:
    message = UserMessage.build(**parts)
    assert_is(message, parts)
    received = accept_message(message.data)
    assert_is(received, parts)
    assert received.data == message.data
    assert received.size == len(message.data)
    again = UserMessage.build(
        **{
            name: getattr(received, name)
            for name in ("base", "user", "properties", "label", "extension", "body", *PARTS)
        }
    )
    assert again.data == message.data


@given(message_parts())
def test_a_kept_packet_says_the_same(parts: dict[str, Any]) -> None:
    """Whichever part is asked for first."""
    known = UserMessage.decode(UserMessage.build(**parts).data)
    asked = (
        "asks",
        "source",
        "transaction",
        "security",
        "properties",
        "user_end",
        "size",
        "base",
        "user",
        "body",
    )
    for name in asked:
        assert getattr(UserMessage.kept(known.data), name) == getattr(known, name), name
    with pytest.raises(AttributeError, match="no such_thing"):
        _ = UserMessage.kept(known.data).such_thing


def test_the_parts_that_are_given_are_completed() -> None:
    """Sizes and presence bits are written into the headers handed in, so they say what was sent."""
    base, user, properties = BaseHeader(), user_header(), MessagePropertiesHeader()
    message = UserMessage.build(
        base=base, user=user, properties=properties, body=b"abc", session=SessionHeader()
    )
    received = accept_message(message.data)
    assert (received.base, received.user, received.properties) == (base, user, properties)


@given(message_parts(http=True))
def test_round_trip_with_the_headers_of_http(parts: dict[str, Any]) -> None:
    message = UserMessage.build(**parts)
    assert_is(UserMessage.decode(message.data), parts)
    refuse(message.data, r"Flags\.AH")


def test_the_two_headers_of_http_come_together() -> None:
    for part in ({"envelope": SRMPEnvelopeHeader("x")}, {"compound": CompoundMessageHeader()}):
        with pytest.raises(EncodeError, match="both"):
            build(**part)


@pytest.mark.spec("MQMQ-2.2.20-b")
def test_three_headers_are_in_every_packet() -> None:
    smallest = build(user=user_header(None))
    assert len(smallest.data) == 16 + 48 + 56
    received = accept_message(smallest.data)
    assert (received.label, received.extension, received.body) == ("", b"", b"")
    for size in range(120):
        with pytest.raises(DecodeError):
            accept(resized(smallest.data[:size].ljust(20, b"\0")))
    named = build(user=user_header("OS:host\\q"))
    for size in range(120, len(named.data)):  # long enough, but not for what it holds
        refuse(resized(named.data[:size]))


@pytest.mark.spec("MQMQ-2.2.20-c")
def test_in_leads_away_from_user_messages() -> None:
    message = build(base=BaseHeader(flags=0x0B))
    assert not message.base.internal  # never sent
    flagged = patched(message.data, BASE_FLAGS, bytes([message.base.flags | 0x08]))
    with pytest.raises(DecodeError, match=r"Flags\.IN"):
        UserMessage.decode(flagged)
    refuse(flagged)
    # bytes that are both: the internal reading wins
    ack = SessionAck.of(SessionHeader(1)).encode()
    assert isinstance(accept(ack), SessionAck)
    with pytest.raises(DecodeError):
        UserMessage.decode(ack)


@pytest.mark.spec("MQMQ-2.2.20-e")
def test_frame_7_has_a_security_header() -> None:
    message = accept_message(FRAME_7)
    assert message.user.has_security_header
    assert message.security is not None


@pytest.mark.spec("MQMQ-2.2.20-f")
def test_dh_is_the_presence_of_a_debug_header() -> None:
    header = DebugHeader(1, queue_identifier=QUEUE)
    with_it, without = build(debug=header), build()
    assert with_it.base.flags ^ without.base.flags == 0x20
    assert accept_message(with_it.data).debug == header
    assert accept_message(without.data).debug is None
    refuse(patched_u16(with_it.data, BASE_FLAGS, with_it.base.flags & ~0x20))
    refuse(patched_u16(without.data, BASE_FLAGS, without.base.flags | 0x20))
    assert build(base=BaseHeader(flags=0x23)).data == without.data  # a stale bit is corrected


@pytest.mark.spec("MQMQ-2.2.20-i")
def test_a_session_header_is_the_last_16_bytes() -> None:
    header = SessionHeader(1, 2, 3, 4, 5)
    with_it, without = build(body=b"body", session=header), build(body=b"body")
    assert with_it.base.flags ^ without.base.flags == 0x10
    assert with_it.user.flags == without.user.flags  # UserHeader.SH is the other one
    assert with_it.base.packet_size == without.base.packet_size == len(without.data)
    assert with_it.data[with_it.base.packet_size :] == header.encode()
    assert accept_message(with_it.data).session == header
    assert accept_message(without.data).session is None
    # promised and not there; there and not promised
    reader = StreamReader()
    assert reader.feed(patched_u16(without.data, BASE_FLAGS, without.base.flags | 0x10)) == []
    assert reader.missing == 16
    with pytest.raises(DecodeError):
        decode_packet(patched_u16(without.data, BASE_FLAGS, without.base.flags | 0x10))
    with pytest.raises(DecodeError):
        decode_packet(patched_u16(with_it.data, BASE_FLAGS, with_it.base.flags & ~0x10))


@pytest.mark.spec("MQMQ-2.2.20-j")
def test_a_message_is_whole_and_at_most_four_megabytes() -> None:
    overhead = len(build(user=user_header(None)).data)
    largest = build(user=user_header(None), body=bytes(MAX_PACKET_SIZE - overhead), session=SessionHeader())
    assert largest.base.packet_size == MAX_PACKET_SIZE == 0x00400000
    assert len(largest.data) == MAX_PACKET_SIZE + 16
    received = accept_message(largest.data)
    assert len(received.body) == MAX_PACKET_SIZE - overhead
    with pytest.raises(EncodeError, match="above the limit"):
        build(user=user_header(None), body=bytes(MAX_PACKET_SIZE - overhead + 1))
    refuse(patched_u32(largest.data, BASE_PACKET_SIZE, MAX_PACKET_SIZE + 4), "above the limit")


@pytest.mark.spec("MQMQ-2.2.20-k")
@pytest.mark.parametrize("extra", [4, 8, 16, 44])
def test_the_headers_end_where_the_packet_does(extra: int) -> None:
    for message in (build(body=b"body"), all_headers()):
        size = message.base.packet_size
        longer = resized(message.data[:size] + bytes(extra) + message.data[size:])
        refuse(longer, "the headers end at")
        accept(message.data)


# --- padding ------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-6-a")
def test_padding_is_written_as_zeros_and_read_as_anything() -> None:
    """Every byte of padding there is: behind each name, item, text, list and the body."""
    parts: dict[str, Any] = {
        "user": user_header("d", "a", "r", recoverable=True),
        "security": SecurityHeader(
            flags=0x20, encryption_key=b"\xaa", signature=b"\xaa", sender_cert=b"\xaa\xaa"
        ),
        "soap": SoapHeader("he", "bo"),
        "multi_queue": MultiQueueFormatHeader.of([b"\xaa" * 16, "x"], ["y"], ["z"], b"\xaa"),
        "body": b"\xaa",
    }
    message = build(**parts)

    def content(received: UserMessage) -> tuple[Any, ...]:
        lists = received.multi_queue
        assert (
            lists is not None
        )  # the bytes of a list are kept for its signature; its elements are what it says
        parts = (lists.destination, lists.administration, lists.response)
        elements = [(part.reserved, part.elements) for part in parts]
        headers = [getattr(received, name) for name in ("base", "user", "properties", "security", "soap")]
        return *headers, *elements, lists.signature, received.body

    expected = content(accept_message(message.data))
    ignored = []
    for offset in range(64, len(message.data)):
        changed = patched(message.data, offset, bytes([message.data[offset] ^ 0xFF]))
        try:
            if content(accept_message(changed)) == expected:
                ignored.append(offset)
        except DecodeError:
            continue
    # names 2 each, items 3, 3 and 2, body 3, texts 2 each, public element 2, lists 2 each, signature 3
    assert len(ignored) == 3 * 2 + 3 + 3 + 2 + 3 + 2 * 2 + 2 + 3 * 2 + 3
    assert {message.data[offset] for offset in ignored} == {0}


# --- reading on demand --------------------------------------------------------------------------------------


@given(message_parts())
def test_headers_are_read_on_demand(parts: dict[str, Any]) -> None:
    data = UserMessage.build(**parts).data
    for name in (*PARTS, "properties", "label", "extension", "body"):
        message = UserMessage.route(data)
        assert getattr(message, name) == parts.get(name), name
    message = UserMessage.route(data)
    assert message.data is data
    assert (
        message.properties_offset
        <= message.extension_offset
        <= message.body_offset
        <= message.base.packet_size
    )


def test_routing_reads_two_headers_only() -> None:
    message = all_headers()
    broken = patched_u32(message.data, message.properties_offset + 52, 0xFFFFFFFF)
    routed = UserMessage.route(broken)
    assert routed.user == message.user
    for name in ("properties", "label", "body", "session", "multi_queue", "security"):
        with pytest.raises(DecodeError):
            getattr(UserMessage.route(broken), name)
    with pytest.raises(DecodeError):
        UserMessage.decode(broken)


@given(messages, st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_for_remote_read_only(message: UserMessage, tail: bytes) -> None:
    received = UserMessage.decode(message.data + tail, trailing=True)
    assert received.size == len(message.data)
    assert received.properties == message.properties
    assert received.session == message.session
    with pytest.raises(DecodeError):
        UserMessage.decode(message.data + tail)
    with pytest.raises(DecodeError):
        UserMessage.decode(message.data[:-1], trailing=True)


@given(messages)
def test_views(message: UserMessage) -> None:
    assert message.identifier.queue_manager_guid == message.user.source_queue_manager
    assert message.identifier.ordinal == message.user.message_id
    assert message.transactional == (message.transaction is not None)
    assert message.recoverable == bool(message.user.delivery_mode)
    assert message.priority == (0 if message.transactional else message.base.priority)


@given(messages, st.none() | session_headers)
def test_another_session_header(message: UserMessage, session: SessionHeader | None) -> None:
    resent = message.with_session(session)
    assert accept_message(resent.data).session == session
    size = message.base.packet_size
    assert resent.data[3:size] == message.data[3:size]
    assert resent.base.packet_size == size


@given(messages)
def test_forwarding_changes_the_hop_count_only(message: UserMessage) -> None:
    forwarded = message.forwarded()
    if message.user.hop_count == MAX_HOP_COUNT:
        assert forwarded is None
        return
    assert forwarded is not None
    assert forwarded.user.hop_count == message.user.hop_count + 1
    assert forwarded.data[:USER_FLAGS] == message.data[:USER_FLAGS]
    assert forwarded.data[USER_FLAGS + 1 :] == message.data[USER_FLAGS + 1 :]


# --- hostile bytes ------------------------------------------------------------------------------------------


def lengths(message: UserMessage) -> dict[str, tuple[int, int]]:
    """Offset and size of every length in a packet made by ``all_headers``."""
    data = message.data
    _, cursor = UserHeader.read(data, 16)
    _, security = TransactionHeader.read(data, cursor)
    _, properties = SecurityHeader.read(data, security)
    assert properties == message.properties_offset
    end = message.properties.end(data, properties, message.base.packet_size)
    _, soap = DebugHeader.read(data, end)
    assert message.soap is not None
    body_section = data.index(b"\x84\x03\x00\x00", soap)
    _, lists = SoapHeader.read(data, soap)
    found = {
        "PacketSize": (BASE_PACKET_SIZE, 4),
        "Count": (64, 2),
        "LabelLength": (properties + 1, 1),
        "HeaderDataLength": (soap + 4, 4),
        "BodyDataLength": (body_section + 4, 4),
    }

    def named(cls: type[Wire], start: int, *names: str, prefix: str = "") -> None:
        for field in cls.FIELDS:
            if field.spec_name in names:
                found[prefix + field.spec_name] = (start + field.offset, field.size)

    named(SecurityHeader, security, "SenderIdSize", "EncryptionKeySize", "SignatureSize", "SenderCertSize")
    named(SecurityHeader, security, "ProviderInfoSize")
    named(MessagePropertiesHeader, properties, "MessageSize", "AllocationBodySize", "ExtensionSize")
    for prefix in ("Destination.", "Administration.", "Response."):
        named(MQFAddressHeader, lists, "HeaderSize", "ElementCount", prefix=prefix)
        _, lists = MQFAddressHeader.read(data, lists)
    named(MQFSignatureHeader, lists, "Size")
    return found


ALL_HEADERS = all_headers()
LENGTHS = lengths(ALL_HEADERS)


def test_every_length_of_the_packet_is_known() -> None:
    assert len(LENGTHS) == 20
    accept(ALL_HEADERS.data)


@pytest.mark.spec("MQMQ-2.2.19.1-p")
@pytest.mark.parametrize("name", LENGTHS)
def test_hostile_lengths(name: str) -> None:
    """Nothing but the right length makes sense of a packet that has everything, or it is a decode error."""
    offset, size = LENGTHS[name]
    data = ALL_HEADERS.data
    right = int.from_bytes(data[offset : offset + size], "little")
    largest = (1 << 8 * size) - 1
    past_the_end = len(data) - offset
    values = {value & largest for value in LENGTH_VALUES} | {largest, past_the_end & largest, right ^ 1}
    for value in values - {right}:
        changed = patched(data, offset, value.to_bytes(size, "little"))
        for read in (decode_packet, UserMessage.decode, lambda d: UserMessage.decode(d, trailing=True)):
            try:
                read(changed)
            except DecodeError:
                continue
            # legal too: an item whose padding covers the difference, a body that leaves room
            legal = abs(value - right) < 4 or (name == "MessageSize" and value < right)
            assert legal, f"{name} {value:#x} was believed"


def test_every_truncation_is_a_decode_error() -> None:
    for size in range(len(ALL_HEADERS.data)):
        cut = ALL_HEADERS.data[:size]
        for data in (cut, resized(cut) if size > 20 else cut):
            with pytest.raises(DecodeError):
                decode_packet(data)
            with pytest.raises(DecodeError):
                UserMessage.decode(data)
            with pytest.raises(DecodeError):
                UserMessage.decode(data, trailing=True)


def test_the_stream_waits_for_a_cut_packet() -> None:
    for size in range(len(FRAME_7)):
        reader = StreamReader()
        assert reader.feed(FRAME_7[:size]) == []
        assert reader.feed(FRAME_7[size:]) == [FRAME_7]


@given(messages, st.data())
def test_damaged_packets_are_read_or_refused(message: UserMessage, data: st.DataObject) -> None:
    damaged = bytearray(message.data)
    for _ in range(data.draw(st.integers(1, 4))):
        offset = data.draw(st.integers(0, len(damaged) - 1))
        damaged[offset] = data.draw(st.integers(0, 255))
    try:
        received = UserMessage.decode(bytes(damaged))
    except DecodeError:
        return
    assert received.size == len(damaged)
    _ = received.label, received.extension, received.body, received.identifier


@settings(max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF))
def test_noise_behind_a_good_beginning_is_read_or_refused(noise: bytes, flags: int, user_flags: int) -> None:
    head = build(user=user_header(None)).data[:64]
    head = patched_u32(patched_u16(head, BASE_FLAGS, flags & ~0x08), USER_FLAGS, user_flags | 1 << 21)
    packet = resized(head + noise)
    for read in (decode_packet, UserMessage.decode):
        try:
            message = read(packet)
        except DecodeError:
            continue
        assert isinstance(message, UserMessage)
        assert struct.unpack_from("<I", packet, BASE_PACKET_SIZE)[0] == message.base.packet_size


@given(message_parts(), st.binary(max_size=60))
def test_a_decrypted_message_is_the_same_but_for_its_body(parts: dict[str, Any], body: bytes) -> None:
    security = parts["security"] = parts["security"] or SecurityHeader(encryption_key=b"key")
    security.body_encrypted = 1
    before = accept_message(UserMessage.build(**parts).data)
    after = accept_message(before.decrypted(body).data)
    assert after.body == after.allocated_body == body
    assert (after.label, after.extension, after.identifier) == (
        before.label,
        before.extension,
        before.identifier,
    )
    for name in (*PARTS, "user"):
        one, other = getattr(before, name), getattr(after, name)
        if name == "security":
            assert (one.body_encrypted, other.body_encrypted) == (1, 0)
            other.body_encrypted = 1
        assert one == other, name
    after.properties.message_size = before.properties.message_size
    after.properties.allocation_body_size = before.properties.allocation_body_size
    assert after.properties == before.properties
