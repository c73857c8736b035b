"""What remote read makes of a message (MS-MQRR 2.2.5): overlaid fields and trailing headers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import padded
from msmq.wire.headers import UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.trailers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    MessagePacket,
    SourceAddress,
    SubqueueHeader,
    expiry_time,
    host_address,
    host_in,
    remotely_read,
)
from tests.wire import builders, messages
from tests.wire.builders import patched, patched_u32

INFINITE = 0xFFFFFFFF
IPV4 = IPv4Address("127.0.0.1")
IPV6 = IPv6Address("2001:db8:1:2:3:4:5:6")
LINK_LOCAL = IPv6Address("fe80::1%3")

addresses = st.none() | st.ip_addresses()
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=15)
u32s = st.integers(0, INFINITE)

MESSAGE = messages.message()
START = MESSAGE.size
"""Where the trailing headers begin."""


def as_remotely_read(message: UserMessage, source: IPv4Address | IPv6Address | None = None) -> UserMessage:
    return UserMessage.route(remotely_read(message, host_address(source) if source else b""))


@st.composite
def subqueue_headers(draw: st.DrawFn) -> SubqueueHeader:
    header = SubqueueHeader(abort_counter=draw(u32s), move_counter=draw(u32s), last_move_time=draw(u32s))
    header.acknowledgement_class = draw(st.integers(0, 0xFFFF))
    header.subqueue = draw(names)
    header.target_subqueue = draw(names)
    return header


# UserMessage (2.2.5.1)


@pytest.mark.spec("MQRR-2.2.5.1-a")
def test_order_of_headers() -> None:
    """Each optional header that is there stands in its place; the others leave no gap."""
    headers = builders.optional_headers() | messages.srmp_headers()
    order = ("transaction", "security", "", "debug", "envelope", "compound", "soap", "multi_queue", "session")
    for left_out in ("", "transaction", "security", "debug", "soap", "multi_queue", "session"):
        chosen = {name: header for name, header in headers.items() if name != left_out}
        message = MessagePacket.decode(MessagePacket.of(messages.message(**chosen)).encode()).message
        properties = padded(
            message.properties.encode()
            + (message.label + "\0").encode("utf-16-le")
            + message.extension
            + message.body
        )
        parts = [chosen[name].write() if name else properties for name in order if not name or name in chosen]
        assert message.data == message.base.encode() + message.user.write() + b"".join(parts)
        found = {name: getattr(message, name) for name in headers if getattr(message, name) is not None}
        assert found == chosen


@pytest.mark.spec("MQRR-2.2.5.1-d")
@pytest.mark.parametrize(
    ("time_to_reach_queue_s", "expected"),
    [(60, 0x44110000 + 60), (0, 0x44110000), (INFINITE, INFINITE), (INFINITE - 1, INFINITE)],
)
def test_time_to_reach_queue_becomes_the_time_of_expiry(time_to_reach_queue_s: int, expected: int) -> None:
    stored = messages.message(time_to_reach_queue_s=time_to_reach_queue_s)
    assert stored.user.sent_time == 0x44110000
    assert expiry_time(time_to_reach_queue_s, 0x44110000) == expected
    read = MessagePacket.decode(MessagePacket.of(as_remotely_read(stored)).encode()).message
    assert read.base.time_to_reach_queue_s == expected
    assert stored.base.time_to_reach_queue_s == time_to_reach_queue_s


@pytest.mark.spec("MQRR-2.2.5.1-e")
def test_the_address_a_direct_message_came_from_stands_in_queue_manager_address() -> None:
    stored = messages.message("TCP:127.0.0.1\\private$\\orders")
    read = as_remotely_read(stored, IPV4)
    overlay = bytes.fromhex("0400 0100 00000000 7f000001 00000000")
    assert read.data[16:][16:32] == overlay
    assert SourceAddress.decode(read.user.queue_manager_address).address[:4] == IPV4.packed
    assert read.data[16:32] == stored.data[16:32]
    assert read.data[48:] == stored.data[48:]
    assert stored.user.queue_manager_address == bytes(16)


@pytest.mark.spec("MQRR-2.2.5.1-f")
@pytest.mark.parametrize("name", [builders.QUEUE, 21], ids=["public", "private"])
def test_other_destinations_keep_the_guid_of_their_host(name: bytes | int) -> None:
    stored = messages.message(name)
    read = as_remotely_read(stored, IPV4)
    assert read.user.queue_manager_address == stored.user.queue_manager_address == builders.DESTINATION


@pytest.mark.spec("MQRR-2.2.5.1-g")
@pytest.mark.parametrize("source", [IPV4, IPV6, None])
def test_the_guid_of_the_sender_stays(source: IPv4Address | IPv6Address | None) -> None:
    read = as_remotely_read(MESSAGE, source)
    assert read.user.source_queue_manager == read.data[16:32] == builders.SOURCE


@pytest.mark.spec("MQRR-2.2.5.1-h", "MQRR-2.2.5.1-i", "MQRR-2.2.5.1-j")
@pytest.mark.parametrize(
    ("source", "overlay"),
    [
        (IPV4, SourceAddress(4, 1, 0, bytes.fromhex("7f000001 00000000"))),
        (IPV6, SourceAddress(16, 6, 0, IPV6.packed[:8])),
        (LINK_LOCAL, SourceAddress(16, 6, 3, bytes.fromhex("fe80000000000000"))),
        (None, SourceAddress(0, 0, 0, bytes(8))),
    ],
)
def test_length_type_scope_and_as_much_of_the_address_as_fits(
    source: IPv4Address | IPv6Address | None, overlay: SourceAddress
) -> None:
    assert SourceAddress.decode(overlay.encode()) == overlay
    read = as_remotely_read(MESSAGE, source)
    assert SourceAddress.decode(read.user.queue_manager_address) == overlay


@pytest.mark.spec("MQRR-2.2.5.1-k")
@pytest.mark.parametrize("name", ["OS:host\\q", builders.QUEUE, 21], ids=["direct", "public", "private"])
def test_from_time_to_be_received_on_the_user_header_is_that_of_ms_mqmq(name: str | bytes | int) -> None:
    stored = messages.message(name)
    read = MessagePacket.decode(MessagePacket.of(as_remotely_read(stored, IPV6)).encode()).message
    offsets = {field.spec_name: 16 + field.offset for field in UserHeader.FIELDS}
    assert offsets["TimeToBeReceived"] == 48
    assert (offsets["SentTime"], offsets["MessageID"], offsets["Flags"]) == (52, 56, 60)
    for part in ("time_to_be_received_s", "sent_time", "message_id", "flags", "destination_queue"):
        assert getattr(read.user, part) == getattr(stored.user, part)
    assert read.data[48:] == stored.data[48:]


@pytest.mark.spec("MQRR-2.2.5.1-l")
@pytest.mark.parametrize("session", [None, SessionHeader(9)])
def test_a_session_header_is_there_with_its_flag(session: SessionHeader | None) -> None:
    stored = messages.message(session=session)
    packet = MessagePacket.decode(MessagePacket.of(stored).encode())
    assert packet.message.base.has_session_header == (session is not None)
    assert packet.message.session == session
    assert packet.message.size - packet.message.base.packet_size == (16 if session else 0)


# The packet (2.2.5)


@pytest.mark.spec("MQRR-2.2.5-a", "MQRR-2.2.5.2-a", "MQRR-2.2.5.2-b", "MQRR-2.2.5.2-d", "MQRR-2.2.5.2-f")
def test_a_plain_message_is_followed_by_three_headers() -> None:
    data = MessagePacket.of(MESSAGE, source=IPV4).encode()
    trailers = data[START:]
    assert len(trailers) == 12 + 148 + 28
    assert trailers[:12] == bytes.fromhex("0c000000 b0000000 12 000000")
    assert trailers[12:16] == (148).to_bytes(4, "little")
    assert trailers[160:164] == (28).to_bytes(4, "little")
    packet = MessagePacket.decode(data)
    assert packet.extension == ExtensionHeader(12, 148 + 28, 0x12)
    assert ExtensionHeader().encode() == bytes.fromhex("0c000000 00000000 00 000000"), "nothing follows"
    assert packet.subqueue == SubqueueHeader()
    assert packet.dead_letter is None
    assert packet.extended_address == ExtendedAddressHeader.of(IPV4)
    assert packet.message.data == MESSAGE.data


@pytest.mark.spec("MQRR-2.2.5-a", "MQRR-2.2.5.2-b", "MQRR-2.2.5.2-c")
def test_a_dead_letter_header_stands_between_the_others() -> None:
    dead_letter = DeadLetterHeader("DIRECT=OS:.\\private$\\dead")
    size = len(dead_letter.write())
    data = MessagePacket.of(MESSAGE, dead_letter=dead_letter).encode()
    packet = MessagePacket.decode(data)
    assert packet.extension.flags == 0x13
    assert (packet.extension.has_dead_letter_header, packet.dead_letter) == (1, dead_letter)
    assert packet.extension.remaining_headers_size == 176 + size == len(data) - START - 12
    assert data[START + 160 :][:size] == dead_letter.write()
    without = MessagePacket.decode(MessagePacket.of(MESSAGE).encode())
    assert (without.extension.has_dead_letter_header, without.dead_letter) == (0, None)


@pytest.mark.spec("MQRR-2.2.5.2-e")
def test_di_marks_an_unusable_dead_letter_queue() -> None:
    dead_letter = DeadLetterHeader("DIRECT=OS:gone\\q")
    for invalid in (False, True):
        data = MessagePacket.of(MESSAGE, dead_letter=dead_letter, dead_letter_invalid=invalid).encode()
        packet = MessagePacket.decode(data)
        assert packet.extension.dead_letter_invalid == invalid
        assert packet.dead_letter_invalid == invalid
    assert MessagePacket.of(MESSAGE, dead_letter_invalid=True).extension.dead_letter_invalid == 0
    ignored = patched(MessagePacket.of(MESSAGE).encode(), START + 8, b"\x1a")
    assert not MessagePacket.decode(ignored).dead_letter_invalid


@pytest.mark.spec("MQRR-2.2.5.2-g")
def test_unused_flags_and_reserved_bytes_are_ignored() -> None:
    data = MessagePacket.of(MESSAGE).encode()
    assert data[START + 8] == 0x12
    packet = MessagePacket.decode(patched(data, START + 8, b"\xf6\xff\xff\xff"))
    assert packet.dead_letter is None
    assert packet.subqueue == SubqueueHeader()
    assert [(bits.spec_name, bits.low) for _, bits in ExtensionHeader.BITS] == [
        ("DL", 0),
        ("SQ", 1),
        ("DI", 3),
        ("EA", 4),
    ]


@given(
    builders.message_parts(http=True),
    subqueue_headers(),
    st.none() | st.builds(DeadLetterHeader, names),
    addresses,
    st.booleans(),
)
def test_round_trip(
    parts: dict[str, object],
    subqueue: SubqueueHeader,
    dead_letter: DeadLetterHeader | None,
    source: IPv4Address | IPv6Address | None,
    invalid: bool,
) -> None:
    message = builders.build(**parts)
    packet = MessagePacket.of(message, subqueue, dead_letter, source, invalid)
    data = packet.encode()
    received = MessagePacket.decode(data)
    assert received.message.data == message.data
    assert received.extension == packet.extension
    assert received.subqueue == subqueue
    assert received.dead_letter == dead_letter
    assert received.extended_address.source == source
    assert data.startswith(message.data)


def test_a_received_packet_is_written_again_byte_for_byte() -> None:
    data = MessagePacket.of(MESSAGE, dead_letter=DeadLetterHeader("q"), source=LINK_LOCAL).encode()
    assert MessagePacket.decode(data).encode() == data


# SubqueueHeader (2.2.5.3)


@pytest.mark.spec("MQRR-2.2.5.3-a", "MQRR-2.2.5.3-c")
def test_layout_of_the_subqueue_header() -> None:
    header = SubqueueHeader(abort_counter=2, move_counter=3, last_move_time=4)
    header.acknowledgement_class = 0xC004
    data = header.encode()
    assert len(data) == 148
    assert data[:20] == bytes.fromhex("94000000 08800100 02000000 03000000 04000000")
    assert int.from_bytes(data[4:8], "little") == 0xC004 << 1
    assert header.transactional_move == data[4] & 1 == 0
    assert [(field.spec_name, field.offset, field.size) for field in SubqueueHeader.FIELDS][-2:] == [
        ("SubqueueName", 20, 64),
        ("TargetSubqueueName", 84, 64),
    ]


@pytest.mark.spec("MQRR-2.2.5.3-b")
def test_a_subqueue_header_without_a_name_is_disregarded() -> None:
    header = SubqueueHeader(abort_counter=2, move_counter=3)
    header.target_subqueue = "elsewhere"
    assert MessagePacket.decode(MessagePacket.of(MESSAGE, header).encode()).in_subqueue is None
    header.subqueue = "sub"
    assert MessagePacket.decode(MessagePacket.of(MESSAGE, header).encode()).in_subqueue == header


@pytest.mark.spec("MQRR-2.2.5.3-h")
def test_the_subqueue_name_is_terminated_and_padded() -> None:
    header = SubqueueHeader()
    assert header.subqueue_name == bytes(64)
    header.subqueue = "sub"
    packet = MessagePacket.decode(MessagePacket.of(MESSAGE, header).encode())
    assert packet.subqueue.subqueue_name == b"s\0u\0b\0" + bytes(58)
    assert packet.subqueue.subqueue == "sub"
    assert MessagePacket.decode(MessagePacket.of(MESSAGE).encode()).subqueue.subqueue_name == bytes(64)


@pytest.mark.parametrize("name", ["x" * 32, "\N{SNOWMAN}" * 32, "\U0001f600" * 16, "a\0b"])
def test_a_name_that_does_not_fit_is_not_written(name: str) -> None:
    header = SubqueueHeader()
    with pytest.raises(EncodeError):
        header.subqueue = name
    with pytest.raises(EncodeError):
        header.target_subqueue = name
    header.subqueue = "x" * 31
    assert header.subqueue == "x" * 31


def test_a_name_without_its_terminator_ends_with_its_field() -> None:
    assert SubqueueHeader(subqueue_name=b"x\0" * 32).subqueue == "x" * 32


# DeadLetterHeader (2.2.5.4)


@pytest.mark.spec("MQRR-2.2.5.4-a", "MQRR-2.2.5.4-b")
@pytest.mark.parametrize(("path", "padding"), [("", 2), ("a", 0), ("ab", 2), ("DIRECT=OS:.\\q", 0)])
def test_the_dead_letter_queue_is_terminated_and_padded(path: str, padding: int) -> None:
    data = DeadLetterHeader(path).write()
    text = (path + "\0").encode("utf-16-le")
    assert data == len(data).to_bytes(4, "little") + text + bytes(padding)
    assert len(data) % 4 == 0
    read = DeadLetterHeader(path), 8 + len(data)
    assert DeadLetterHeader.read(b"before.." + data + b"after", 8) == read
    assert DeadLetterHeader.read(b"before.." + data, 8) == read, "nothing need follow"
    assert DeadLetterHeader.read(b"before.." + data + b"after", 8, read[1]) == read
    with pytest.raises(DecodeError):
        DeadLetterHeader.read(b"before.." + data + b"after", 8, read[1] - 1)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "080000",
        "00000000",
        "04000000",
        "0a000000 61000000 0000",
        "0c000000 61000000",
        "ffffffff 61000000",
        "08000000 61006200",
    ],
)
def test_a_dead_letter_header_that_does_not_fit_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        DeadLetterHeader.read(bytes.fromhex(data))


def test_a_path_with_a_null_is_not_written() -> None:
    with pytest.raises(EncodeError):
        DeadLetterHeader("a\0b").write()


# ExtendedAddressHeader (2.2.5.5)


@pytest.mark.spec("MQRR-2.2.5.5-a", "MQRR-2.2.5.5-c")
@pytest.mark.parametrize(
    ("source", "fields"),
    [
        (IPV4, "1c000000 0400 0100 00000000 7f000001 000000000000000000000000"),
        (IPV6, "1c000000 1000 0600 00000000 20010db8000100020003000400050006"),
        (LINK_LOCAL, "1c000000 1000 0600 03000000 fe800000000000000000000000000001"),
    ],
)
def test_the_whole_address_a_message_came_from(source: IPv4Address | IPv6Address, fields: str) -> None:
    data = MessagePacket.of(MESSAGE, source=source).encode()
    assert data[-28:] == bytes.fromhex(fields)
    assert MessagePacket.decode(data).extended_address.source == source
    assert data[-24:] == host_address(source)
    assert host_in(host_address(source)).packed == source.packed


@pytest.mark.spec("MQRR-2.2.5.5-b")
@pytest.mark.parametrize(
    ("kind", "source"), [(0, None), (1, IPv4Address("1.2.3.4")), (6, IPv6Address("102:304::")), (2, None)]
)
def test_the_type_says_how_the_address_is_read(kind: int, source: IPv4Address | IPv6Address | None) -> None:
    header = ExtendedAddressHeader(28, 16, kind, 0, bytes.fromhex("01020304").ljust(16, b"\0"))
    packet = MessagePacket.of(MESSAGE)
    packet.extended_address = header
    assert MessagePacket.decode(packet.encode()).extended_address.source == source
    assert MessagePacket.decode(MessagePacket.of(MESSAGE).encode()).extended_address.source is None


# Hostile packets


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, 11),
        (0, 0xFFFFFFFF),
        (4, 0),
        (4, 175),
        (4, 177),
        (4, 0xFFFFFFFF),
        (8, 0x02),
        (8, 0x10),
        (8, 0x13),
        (12, 147),
        (160, 27),
        (160, 0xFFFFFFFF),
    ],
)
def test_headers_that_contradict_the_packet_are_refused(offset: int, value: int) -> None:
    data = MessagePacket.of(MESSAGE, source=IPV4).encode()
    with pytest.raises(DecodeError):
        MessagePacket.decode(patched_u32(data, START + offset, value))


def test_every_truncation_and_every_addition_is_refused() -> None:
    data = MessagePacket.of(MESSAGE, dead_letter=DeadLetterHeader("q"), source=IPV6).encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            MessagePacket.decode(data[:length])
    with pytest.raises(DecodeError):
        MessagePacket.decode(data + b"\0")


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=6))
def test_a_mutated_packet_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(MessagePacket.of(MESSAGE, dead_letter=DeadLetterHeader("q"), source=IPV6).encode())
    for offset, value in changes:
        if offset < len(data):
            data[offset] = value
    try:
        packet = MessagePacket.decode(bytes(data))
    except DecodeError:
        return
    assert isinstance(packet.message, UserMessage)
    assert packet.subqueue.subqueue == packet.subqueue.subqueue[:32]
    packet.extended_address.source  # noqa: B018  # an unknown or strange address may not raise
