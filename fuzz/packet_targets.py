"""Targets for what arrives over a session or a remote read: streams, packets, messages and their headers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from fuzz.oracles import attempt, require, require_exact, target
from msmq.errors import DecodeError, EncodeError
from msmq.remote_read.interface import StartReceiveReply
from msmq.wire.classes import MessageClass, class_name
from msmq.wire.delivery import acknowledgments
from msmq.wire.describe import Kind, Node, describe, describe_ping
from msmq.wire.explain import Role, explain
from msmq.wire.framing import MAX_WIRE_SIZE, StreamReader, decode_packet, packet_length
from msmq.wire.headers import (
    MAX_HOP_COUNT,
    SIGNATURE,
    BaseHeader,
    MessagePropertiesHeader,
    UserHeader,
)
from msmq.wire.identifiers import MessageIdentifier, SequenceInfo, TxSequenceID
from msmq.wire.incoming import row_of
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MQFAddressHeader, MQFSignatureHeader, MultiQueueFormatHeader
from msmq.wire.names import (
    DirectName,
)
from msmq.wire.optional_headers import (
    DebugHeader,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.packets import (
    ConnectionParametersHeader,
    EstablishConnection,
    EstablishConnectionHeader,
    FinalAckBody,
    InternalHeader,
    OrderAckBody,
    Ping,
    is_for_order_queue,
    order_ack_body,
)
from msmq.wire.sections import join_sections, split_sections
from msmq.wire.signature import SignatureType, signature_input
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from msmq.wire.trailers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    MessagePacket,
    SubqueueHeader,
)


@target(max_len=2048, weight=8)
def stream(data: bytes) -> None:
    """StreamReader: however the stream is cut, the same packets come out. The first byte chooses the cut."""
    cut_at, content = (data[0] if data else 0), data[1:]
    whole, whole_packets = _feed([content])
    for packet in whole_packets:
        require(packet_length(packet) == len(packet), "a packet of the wrong length was cut out")
        attempt(decode_packet, packet)
    cut, packets = _feed(_chunks(content, cut_at))
    require(packets == whole_packets, "another cut of the stream gave other packets")
    require(cut.broken == whole.broken, "another cut of the stream was judged otherwise")
    require(whole.buffered <= MAX_WIRE_SIZE, "more than one packet is buffered")
    if not whole.broken:
        consumed = sum(map(len, packets))
        require(whole.buffered == cut.buffered == len(content) - consumed, "bytes of the stream were lost")
        require(whole.missing == cut.missing > 0, "a reader with a whole packet waits for more")


def _chunks(content: bytes, cut_at: int) -> list[bytes]:
    """Single bytes at first, up to 31, then pieces of one size."""
    single, size = cut_at & 31, cut_at + 48
    return [
        *(content[at : at + 1] for at in range(min(single, len(content)))),
        *(content[at : at + size] for at in range(single, len(content), size)),
    ]


def _feed(chunks: list[bytes]) -> tuple[StreamReader, list[bytes]]:
    reader = StreamReader()
    packets: list[bytes] = []
    for chunk in chunks:
        try:
            packets += reader.feed(chunk)
        except DecodeError:
            require(reader.broken, "a reader refused its input and goes on")
            break
    return reader, packets


@target(max_len=1024, weight=16)
def packet(data: bytes) -> None:
    """decode_packet: what it takes is written back byte for byte, and a message of it has its row of columns."""
    decoded = attempt(decode_packet, data)
    row = attempt(row_of, data)
    require((row is not None) == isinstance(decoded, UserMessage), "the columns judge a packet otherwise")
    if decoded is None:
        return
    require_exact(decode_packet, data)
    if isinstance(decoded, UserMessage):
        _inspect(decoded, data)
        return
    require(decoded.encode() == data, "an internal packet changed on its way through")
    if isinstance(decoded, EstablishConnection):
        answer = decoded.response(b"0123456789abcdef", refuse=not decoded.meant_for(bytes(16)))
        require(decode_packet(answer.encode()) == answer, "the answer to a packet cannot be read")


@target(max_len=1024, weight=16)
def user_message(data: bytes) -> None:
    """UserMessage.decode and .route, with the messages decode_packet leaves to remote read."""
    _check_message(data)


@target(max_len=1024, weight=24)
def resized_message(data: bytes) -> None:
    """The same behind a BaseHeader whose size is made to fit, so that inputs of all lengths get past it."""
    _check_message(_resized(data))


def _resized(data: bytes) -> bytes:
    if len(data) < BaseHeader.SIZE:
        return data
    size = len(data) - (SessionHeader.SIZE if data[2] & 0x10 else 0)
    return b"\x10" + data[1:4] + struct.pack("<II", SIGNATURE, max(size, 0)) + data[12:]


def _check_message(data: bytes) -> None:
    routed = attempt(UserMessage.route, data)
    decoded = attempt(UserMessage.decode, data)
    if routed is None:
        require(decoded is None, "decode takes what route refuses")
        return
    if decoded is None:
        require(attempt(lambda _: routed.properties, data) is None, "reading later takes what decode refuses")
        return
    require(routed.session == decoded.session, "route and decode read different things")
    require_exact(UserMessage.decode, data)
    _inspect(decoded, data)


_HEADERS = (
    *("transaction", "security", "debug", "envelope", "compound", "soap", "multi_queue", "session"),
)  # fmt: skip


def _inspect(message: UserMessage, data: bytes) -> None:
    """Read everything a message can be asked for, then send it on and build it anew."""
    properties, user = message.properties, message.user
    require(message.data == data and message.size == len(data), "a message is not its bytes")
    require("\0" not in message.label, "a label goes on after its end")
    require(len(message.body) == properties.message_size, "a body is shorter than its size")
    require(len(message.extension) == properties.extension_size, "an extension is shorter than its size")
    require(len(message.identifier.encode()) == MessageIdentifier.SIZE, "an identifier is not 20 bytes")
    require(message.priority in range(8), "there are eight priorities")
    class_name(properties.message_class)
    for reference, name in (
        (user.destination_reference, user.destination_queue),
        (user.admin_reference, user.admin_queue),
        (user.response_reference, user.answers_to),
    ):
        user.host_of(reference, name)
        if isinstance(name, str):
            attempt(DirectName.from_wire_text, name)
    if message.session is not None:
        require(len(message.session.acknowledged_recoverables) <= 32, "a header acknowledges at most 32")
    if message.transaction is not None:
        number = message.transaction.tx_sequence_id
        require(TxSequenceID.from_number(number).number == number, "a sequence id changed")
    is_for_order_queue(message)
    for kind in SignatureType:
        require(message.body in signature_input(message, kind), "a signature leaves out the body")
    for fate in (MessageClass.ACK_RECEIVE, MessageClass.NACK_Q_PURGED):
        for answer in acknowledgments([message], fate, send_insecure_nacks=True):
            goes_somewhere = answer.destinations and all("=" in name for name in answer.destinations)
            require(bool(goes_somewhere), "an acknowledgment goes nowhere")
    _send_on(message, data)
    _build_anew(message)


def _send_on(message: UserMessage, data: bytes) -> None:
    forwarded = message.forwarded()
    require((forwarded is None) == (message.user.hop_count >= MAX_HOP_COUNT), "a hop limit was not kept")
    if forwarded is not None:
        expected = bytearray(data)
        expected[60] += 1
        require(forwarded.data == expected, "more than the hop count changed")
    other = None if message.session is not None else SessionHeader(window_size=1)
    require(
        message.with_session(other).with_session(message.session).data == data,
        "a message does not survive the change of its session header",
    )


def _build_anew(message: UserMessage) -> None:
    """A message built from what was read says the same, and building is stable from then on."""
    flags, label_length = message.base.flags, message.properties.label_length
    built = _build(message)
    if built is None:
        return
    again = UserMessage.decode(built.data)
    require(again.user == message.user, "the UserHeader changed")
    require(again.label == message.label, "the label changed")
    require(again.extension == message.extension and again.body == message.body, "extension or body changed")
    for name in _HEADERS:
        require(getattr(again, name) == getattr(message, name), f"the {name} header changed")
    # A label of nothing but its terminator, or with a null inside, is written shorter than it came.
    length = len(message.label.encode("utf-16-le", "surrogatepass")) // 2
    if label_length == (length + 1 if length else 0):
        require(again.properties.encode() == message.properties.encode(), "the message properties changed")
    require(again.base.flags & ~7 == flags & ~7, "flags of the BaseHeader changed")
    once_more = _build(again)
    require(once_more is not None and once_more.data == built.data, "a message built twice differs")


def _build(message: UserMessage) -> UserMessage | None:
    """The message from its parts, if the writer will: it is stricter with us than the reader with others."""
    copy = UserMessage.decode(message.data)
    try:
        return UserMessage.build(
            base=copy.base, user=copy.user, properties=copy.properties,
            label=copy.label, extension=copy.extension, body=copy.body,
            **{name: getattr(copy, name) for name in _HEADERS},
        )  # fmt: skip
    except EncodeError:
        return None


@target(max_len=64)
def ping(data: bytes) -> None:
    """Ping.parse: only a Ping is one."""
    for datagram in (data, data[:2] + b"\x48\x55" + data[4:24]):
        parsed = attempt(Ping.parse, datagram)
        if parsed is not None:
            require_exact(Ping.parse, datagram)
            require(parsed.encode() == datagram, "a Ping changed on its way through")
            answer = Ping.parse(parsed.answer(bytes(16), refuse=bool(parsed.refused)).encode())
            require(answer.cookie == parsed.cookie, "an answer lost its cookie")


@target(max_len=1024, weight=3)
def order_ack(data: bytes) -> None:
    """order_ack_body: the bodies of order acknowledgments."""
    data = _resized(data)
    message = attempt(UserMessage.route, data)
    if message is None:
        return
    body = attempt(lambda _: order_ack_body(message), data)
    if body is not None:
        require(body.encode() == message.body, "an order acknowledgment changed on its way through")
        is_for_order_queue(message)


@target(max_len=1536, weight=6)
def remote_read(data: bytes) -> None:
    """MessagePacket: a message with the trailing headers of remote read."""
    _check_message_packet(data)
    if len(data) > BaseHeader.SIZE:
        size = int.from_bytes(data[8:12], "little") + (SessionHeader.SIZE if data[2] & 0x10 else 0)
        remaining = len(data) - size - ExtensionHeader.SIZE
        if remaining >= 0:
            start = struct.pack("<II", ExtensionHeader.SIZE, remaining)
            _check_message_packet(data[:size] + start + data[size + 8 :])


def _check_message_packet(data: bytes) -> None:
    decoded = attempt(MessagePacket.decode, data)
    if decoded is None:
        return
    require_exact(MessagePacket.decode, data)
    names = (decoded.subqueue.subqueue, decoded.subqueue.target_subqueue)
    require(all("\0" not in name for name in names), "a name goes on after its end")
    address = decoded.extended_address.source
    if address is not None:
        require(ExtendedAddressHeader.of(address).source == address, "an address changed on its way through")
    _inspect(decoded.message, data[: decoded.message.size])
    if decoded.dead_letter is None:
        require(decoded.encode() == data, "a message packet changed on its way through")
    else:
        again = MessagePacket.of(
            decoded.message, decoded.subqueue, decoded.dead_letter, address, bool(decoded.extension.flags & 8)
        )
        packed = MessagePacket.decode(again.encode())
        require(packed.dead_letter == decoded.dead_letter, "a dead-letter name changed on its way through")


@target(max_len=1536, weight=3)
def section(data: bytes) -> None:
    """The sections of remote read: a packet cut anywhere is joined again, but for what was withheld.

    The first two bytes are how much of a body the reader wants; the rest is a packet, and an answer with sections.
    """
    wanted, content = int.from_bytes(data[:2], "little"), data[2:]
    for packet in (content, _resized(content)):
        sections = attempt(split_sections, packet, wanted, wanted)
        if sections is None:
            continue
        joined = join_sections(sections)
        require(len(joined) == len(packet), "the sections of a packet make one of another length")
        require(joined.startswith(sections[0].data), "the first section changed")
        require(len(sections) == 1 or packet.endswith(sections[1].data), "the second section changed")
        message = UserMessage.decode(packet, trailing=True)
        # Of a message that came over HTTP even the header before the body may be withheld.
        if message.compound is None or wanted >= CompoundMessageHeader.SIZE:
            again = UserMessage.decode(joined, trailing=True)
            require(again.user == message.user and again.size == message.size, "the packet was cut wrongly")
    for ndr64 in (False, True):
        reply = attempt(StartReceiveReply.decode, content, ndr64)
        if reply is not None:
            again, _ = StartReceiveReply.decode(reply[0].encode(ndr64), ndr64)
            require(again == reply[0], "an answer changed on its way through")
            attempt(lambda found: join_sections(found.sections), reply[0])


@target(max_len=1024, weight=6, memory_factor=256)
def description(data: bytes) -> None:
    """describe and explain: every packet that can be decoded can be shown, every byte of it once."""
    for content in (data, _resized(data)):
        described = attempt(describe, content)
        require(described is not None or attempt(decode_packet, content) is None, "a packet cannot be shown")
        if described is None:
            continue
        cursor = 0
        for start, end in sorted(_leaves(described.headers)):
            require(start == cursor, "a description leaves out bytes or shows them twice")
            cursor = end
        require(cursor == described.size == len(content), "a description ends before its packet")
        for role in Role:
            require(bool(explain(described, role)), "a packet is explained by nothing")
    datagram = attempt(describe_ping, data)
    if datagram is not None:
        explain(datagram)


def _leaves(nodes: Iterable[Node]) -> Iterator[tuple[int, int]]:
    for node in nodes:
        if node.derived:
            continue
        if node.kind in (Kind.STRUCTURE, Kind.LIST):
            yield from _leaves(node.children)
        elif node.size:
            yield node.offset, node.end


HEADERS: tuple[Any, ...] = (
    *(BaseHeader, UserHeader, TransactionHeader, SecurityHeader, DebugHeader, SoapHeader, SessionHeader),
    *(SRMPEnvelopeHeader, CompoundMessageHeader),
    *(MQFAddressHeader, MQFSignatureHeader, MultiQueueFormatHeader),
    *(ExtensionHeader, SubqueueHeader, DeadLetterHeader, ExtendedAddressHeader),
    *(InternalHeader, EstablishConnectionHeader, ConnectionParametersHeader, OrderAckBody, FinalAckBody),
    *(MessageIdentifier, SequenceInfo, SequenceInfo, MessagePropertiesHeader),  # twice: the place is kept
)
"""Everything with ``read`` and ``write``. Seeds name a header by its place here, so add at the end only."""


@target(max_len=1024, weight=8)
def header(data: bytes) -> None:
    """Every header's read. The first byte chooses the header, the second where it starts and must end."""
    if len(data) < 2:
        return
    kind = HEADERS[data[0] % len(HEADERS)]
    content = data[2:]
    start = 4 * (data[1] & 3)
    limit = max(len(content) - (data[1] >> 2 & 31), 0)
    inside = attempt(kind.read, content, start, limit)
    alone = attempt(kind.read, content[:limit], start)
    require((inside is None) == (alone is None), f"{kind.__name__} depends on what follows it")
    if inside is None or alone is None:
        return
    require(inside == alone, f"{kind.__name__} reads what follows it")
    value, end = inside
    require(start <= end <= limit, f"{kind.__name__} ends outside its limit")
    if kind is MessagePropertiesHeader:
        attempt(lambda _: value.end(content, start, limit), content)
    try:
        written = value.write()
    except EncodeError:
        return  # writers are stricter than readers: we make no claims about signatures, for one
    again, length = kind.read(written)
    require(again == value and length == len(written), f"{kind.__name__} does not survive being written")
