"""The packets of MS-MQQB chapter 2: Ping, the two that open a session, and the three acknowledgments.

EstablishConnection, ConnectionParameters and SessionAck are internal packets: BaseHeader.Flags.IN is set and an
InternalHeader says which one it is. OrderAck and FinalAck travel as user messages to the order queue; the classes here
read and write their bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.classes import MessageClass
from msmq.wire.declare import Bits, Wire, bytes_of, guid, octets20, octets512, u16, u32, u64, wire
from msmq.wire.headers import (
    BASE_DH,
    BASE_IN,
    BASE_SH,
    DEFAULT_PRIORITY,
    INFINITE,
    NULL_GUID,
    USER_TH,
    BaseHeader,
    MessagePropertiesHeader,
    QueueReference,
    UserHeader,
)
from msmq.wire.layout import properties_start, reader, transaction_at, user_end, user_flags
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader

UNLIMITED_SESSIONS: Final = 0xFFFFFFFF


def session_quota_reached(open_sessions: int, max_in_sessions: int = UNLIMITED_SESSIONS) -> bool:
    """True if no further session from outside is allowed. Ping says so by RF, the opening by CS."""
    return open_sessions >= max_in_sessions


PING_SIGNATURE: Final = 0x5548


@wire("MS-MQQB 2.2.7", size=24, names={"qm_guid": "QMGuid"})
class Ping(Wire):
    """The datagram that asks whether a queue manager is there, and its answer."""

    flags: u16 = 0
    signature: u16 = PING_SIGNATURE
    cookie: u32 = 0
    qm_guid: guid = bytes(16)

    client = Bits("flags", 0, 1, "RC")
    refused = Bits("flags", 1, 1, "RF")

    @classmethod
    def parse(cls, datagram: bytes) -> Self:
        """Parse a datagram; raises DecodeError if it is no Ping. Its receiver then ignores it."""
        if len(datagram) != cls.SIZE:
            raise DecodeError(f"a Ping is 24 bytes, this datagram has {len(datagram)}")
        ping = cls.decode(datagram)
        if ping.signature != PING_SIGNATURE:
            raise DecodeError("the Ping signature is missing", 2)
        return ping

    @classmethod
    def request(cls, cookie: int, qm_guid: bytes, *, server_class: bool = True) -> Self:
        return cls(flags=int(not server_class), cookie=cookie, qm_guid=qm_guid)

    def answer(self, qm_guid: bytes, *, refuse: bool = False) -> Ping:
        """Make the response: it echoes the caller's kind and cookie; the rest is ours."""
        return Ping(flags=self.client | refuse << 1, cookie=self.cookie, qm_guid=qm_guid)

    def answers(self, latest: Ping) -> bool:
        """True if this response belongs to our latest request; any other is ignored."""
        return self.cookie == latest.cookie


class PacketType(IntEnum):
    """InternalHeader.Flags.PT."""

    SESSION_ACK = 1
    ESTABLISH_CONNECTION = 2
    CONNECTION_PARAMETERS = 3


@wire("MS-MQQB 2.2.1", size=4)
class InternalHeader(Wire):
    """Says which internal packet this is, and whether the connection is refused."""

    reserved: u16 = 0
    flags: u16 = 0

    packet_type = Bits("flags", 0, 4, "PT")
    connection_refused = Bits("flags", 4, 1, "CS")


OS_RESERVED: Final = 0x10
_OS_ECHOED: Final = 0x0300  # SE and OS
PADDING_BYTE: Final = 0x5A
RESPONSE_PADDING: Final = bytes([PADDING_BYTE]) * 512


@wire("MS-MQQB 2.2.3.1", size=552)
class EstablishConnectionHeader(Wire):
    """The two hosts of a session. A zero ServerGuid means whichever queue manager is at that address."""

    client_guid: guid = bytes(16)
    server_guid: guid = bytes(16)
    time_stamp: u32 = 0
    operating_system: u16 = OS_RESERVED
    reserved: u16 = 0
    padding: octets512 = RESPONSE_PADDING

    reserved_os = Bits("operating_system", 0, 8, "RE")
    no_ping_sent = Bits("operating_system", 8, 1, "SE")
    server_class = Bits("operating_system", 9, 1, "OS")
    quality_of_service = Bits("operating_system", 10, 1, "QS")

    @property
    def swapped(self) -> bool:
        """True if the two bytes of OperatingSystem are in the wrong order, as some initiators send them; they are
        accepted."""
        return self.operating_system & 0xFF != OS_RESERVED and self.operating_system >> 8 == OS_RESERVED

    def normalized(self) -> int:
        """Return OperatingSystem in the specification's byte order."""
        word = self.operating_system
        return (word >> 8 | word << 8) & 0xFFFF if self.swapped else word


MIN_RECOVERABLE_ACK_TIMEOUT_MS: Final = 500
MIN_ACK_TIMEOUT_MS: Final = 20_000
MAX_ACK_TIMEOUT_MS: Final = 120_000


@wire("MS-MQQB 2.2.2.1", size=12)
class ConnectionParametersHeader(Wire):
    """The acknowledgment times and the window that one side uses."""

    recoverable_ack_timeout_ms: u32 = MIN_RECOVERABLE_ACK_TIMEOUT_MS
    ack_timeout_ms: u32 = MIN_ACK_TIMEOUT_MS
    reserved: u16 = 0
    window_size: u16 = 64

    def check(self) -> None:
        """Refuse times outside their range, which close the session (ruling on MQQB-2.2.2.1-f)."""
        if not MIN_RECOVERABLE_ACK_TIMEOUT_MS <= self.recoverable_ack_timeout_ms <= MAX_ACK_TIMEOUT_MS:
            raise DecodeError(
                f"RecoverableAckTimeout {self.recoverable_ack_timeout_ms} is outside 500..120000", 20
            )
        if not MIN_ACK_TIMEOUT_MS <= self.ack_timeout_ms <= MAX_ACK_TIMEOUT_MS:
            raise DecodeError(f"AckTimeout {self.ack_timeout_ms} is outside 20000..120000", 24)


def _internal_base(size: int, flags: int = BASE_IN) -> BaseHeader:
    return BaseHeader(flags=flags | DEFAULT_PRIORITY, packet_size=size, time_to_reach_queue_s=INFINITE)


def _read_internal(
    data: bytes, expected: PacketType, sizes: tuple[int, ...]
) -> tuple[BaseHeader, InternalHeader]:
    """Read the two headers that begin all internal packets, and check that they fit the packet's kind."""
    base = BaseHeader.decode(data)
    base.check()
    internal = InternalHeader.decode(data, BaseHeader.SIZE)
    # A SessionAck ends with a SessionHeader; no other internal packet does.
    session = BASE_SH if expected == PacketType.SESSION_ACK else 0
    if base.flags & (BASE_IN | BASE_SH | BASE_DH) != BASE_IN | session or internal.packet_type != expected:
        raise DecodeError(f"this is no {expected.name} packet", 2)
    if base.packet_size not in sizes or len(data) != sizes[0]:
        raise DecodeError(f"a {expected.name} packet takes {sizes[0]} bytes, not {base.packet_size}", 8)
    return base, internal


@dataclass(slots=True)
class EstablishConnection:
    """Opens a session, or answers the opening (MS-MQQB 2.2.3)."""

    SIZE = 572

    base: BaseHeader
    internal: InternalHeader
    header: EstablishConnectionHeader

    @classmethod
    def request(
        cls,
        client_guid: bytes,
        server_guid: bytes | None,
        time_stamp_ms: int,
        *,
        ping_sent: bool = False,
        server_class: bool = True,
    ) -> Self:
        """Make the opening. ``server_guid`` is None for a direct name; ``time_stamp_ms`` counts from the system's
        start."""
        header = EstablishConnectionHeader(
            client_guid, server_guid or NULL_GUID, time_stamp_ms & 0xFFFFFFFF, OS_RESERVED
        )
        header.no_ping_sent = int(not ping_sent)
        header.server_class = int(server_class)
        return cls(_internal_base(cls.SIZE), InternalHeader(flags=PacketType.ESTABLISH_CONNECTION), header)

    def response(self, own_guid: bytes, *, refuse: bool = False) -> EstablishConnection:
        """Make the acceptor's answer: it repeats what the initiator said, with a zero ServerGuid replaced by ours.

        An initiator that asked for another queue manager is refused in any case. Of OperatingSystem only SE and OS are
        echoed: the acceptor may not set the other bits.
        """
        asked = self.header
        server_guid = asked.server_guid if any(asked.server_guid) else own_guid
        header = EstablishConnectionHeader(
            asked.client_guid, server_guid, asked.time_stamp, OS_RESERVED | asked.normalized() & _OS_ECHOED
        )
        internal = InternalHeader(flags=PacketType.ESTABLISH_CONNECTION)
        internal.connection_refused = int(refuse or not self.meant_for(own_guid))
        return EstablishConnection(_internal_base(self.SIZE), internal, header)

    def round_trip_ms(self, now_ms: int) -> int:
        """Return the time between our request and this response, which echoes its TimeStamp; 32 bits may wrap."""
        return (now_ms - self.header.time_stamp) & 0xFFFFFFFF

    def meant_for(self, own_guid: bytes) -> bool:
        """True unless ServerGuid names another queue manager; zero means any (MQQB-2.2.1-f)."""
        return self.header.server_guid in (own_guid, NULL_GUID)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _read_internal(data, PacketType.ESTABLISH_CONNECTION, (cls.SIZE,))
        header = EstablishConnectionHeader.decode(data, 20)
        return cls(base, internal, header)

    def encode(self) -> bytes:
        return self.base.encode() + self.internal.encode() + self.header.encode()


@dataclass(slots=True)
class ConnectionParameters:
    """The second exchange that opens a session (MS-MQQB 2.2.2)."""

    SIZE = 32

    base: BaseHeader
    internal: InternalHeader
    header: ConnectionParametersHeader

    @classmethod
    def of(cls, recoverable_ack_timeout_ms: int, ack_timeout_ms: int, window_size: int) -> Self:
        """Make the packet; times outside their ranges are moved to the nearest limit."""
        header = ConnectionParametersHeader(
            min(max(recoverable_ack_timeout_ms, MIN_RECOVERABLE_ACK_TIMEOUT_MS), MAX_ACK_TIMEOUT_MS),
            min(max(ack_timeout_ms, MIN_ACK_TIMEOUT_MS), MAX_ACK_TIMEOUT_MS),
            window_size=window_size,
        )
        return cls(_internal_base(cls.SIZE), InternalHeader(flags=PacketType.CONNECTION_PARAMETERS), header)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _read_internal(data, PacketType.CONNECTION_PARAMETERS, (cls.SIZE,))
        header = ConnectionParametersHeader.decode(data, 20)
        header.check()
        return cls(base, internal, header)

    def encode(self) -> bytes:
        return self.base.encode() + self.internal.encode() + self.header.encode()


SESSION_ACK_SIZES: Final = (36, 20)
"""The PacketSize of a SessionAck: it counts the SessionHeader in the published sample, but not according to the
text.
"""


@dataclass(slots=True)
class SessionAck:
    """Acknowledges packets that came over a session (MS-MQQB 2.2.6)."""

    SIZE = 36

    base: BaseHeader
    internal: InternalHeader
    session: SessionHeader

    @classmethod
    def of(cls, session: SessionHeader) -> Self:
        base = _internal_base(cls.SIZE, BASE_IN | BASE_SH)
        return cls(base, InternalHeader(flags=PacketType.SESSION_ACK), session)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        base, internal = _read_internal(data, PacketType.SESSION_ACK, SESSION_ACK_SIZES)
        session, _ = SessionHeader.read(data, 20, len(data))
        return cls(base, internal, session)

    def encode(self) -> bytes:
        return self.base.encode() + self.internal.encode() + self.session.write()


ORDER_QUEUE_NUMBER: Final = 4
ORDER_QUEUE_NAME: Final = "PRIVATE$\\order_queue$"
ORDER_ACK_LABEL: Final = "QM Ordering Ack"


@wire("MS-MQQB 2.2.4.1", size=36, names={"tx_sequence_id": "TxSequenceID"})
class OrderAckBody(Wire):
    """Says that every message of a sequence up to this number has arrived in order."""

    tx_sequence_id: u64
    tx_sequence_number: u32
    tx_previous_sequence_number: u32
    reserved: octets20 = bytes(20)

    @classmethod
    def of(cls, tx_sequence_id: int, tx_sequence_number: int) -> Self:
        if not 1 <= tx_sequence_number <= 0xFFFFFFFF:
            raise EncodeError("sequence numbers count from 1 to 0xFFFFFFFF")
        return cls(tx_sequence_id, tx_sequence_number, tx_sequence_number - 1)


@wire("MS-MQQB 2.2.5.1", size=36, names={"tx_sequence_id": "TxSequenceID", "source_guid": "SourceGUID", "message_id": "MessageID"})  # fmt: skip  # noqa: E501
class FinalAckBody(Wire):
    """Says what happened to one transactional message in its destination queue."""

    tx_sequence_id: u64
    tx_sequence_number: u32
    tx_previous_sequence_number: u32
    source_guid: guid
    message_id: u32

    @classmethod
    def of(cls, message: UserMessage) -> Self:
        """Make the body for ``message``, which must be transactional."""
        data = message.data
        if not user_flags(data)[0] & USER_TH:
            raise EncodeError("only a transactional message has a FinalAck")
        _, sequence, number, previous = transaction_at(data, user_end(data))
        return cls(sequence, number, previous, message.source, message.number)


def build_order_message(
    body: OrderAckBody | FinalAckBody,
    message_class: int,
    *,
    source: bytes,
    destination: bytes | IPv4Address | IPv6Address,
    message_id: int,
    sent_time: int,
) -> UserMessage:
    """Build an OrderAck or FinalAck for the original sender (MS-MQQB 2.2.4, 2.2.5).

    ``destination`` is the sender's GUID, or its address when the session serves a direct name. OrderAcks are express
    messages, FinalAcks recoverable ones.
    """
    final = isinstance(body, FinalAckBody)
    fits = message_class >= MessageClass.ACK_RECEIVE if final else message_class == MessageClass.ORDER_ACK
    if not fits:
        raise EncodeError(f"class {message_class:#06x} does not fit {type(body).__name__}")
    user = UserHeader(source, sent_time=sent_time, message_id=message_id)
    if isinstance(destination, bytes):
        user.queue_manager_address = destination
        user.destination_queue = ORDER_QUEUE_NUMBER
        user.destination_reference = QueueReference.PRIVATE_ON_DESTINATION
    else:
        address = type(destination)(int(destination))  # without an IPv6 zone, which has no meaning elsewhere
        user.destination_queue = f"TCP:{address}\\{ORDER_QUEUE_NAME}"
        user.destination_reference = QueueReference.DIRECT
    user.delivery_mode = int(final)
    return UserMessage.build(
        base=BaseHeader(flags=0, time_to_reach_queue_s=INFINITE),
        user=user,
        properties=MessagePropertiesHeader(message_class=message_class),
        label=ORDER_ACK_LABEL,
        body=body.encode(),
    )


def build_order_messages(
    bodies: Sequence[OrderAckBody | FinalAckBody],
    message_class: int,
    *,
    source: bytes,
    destination: bytes | IPv4Address | IPv6Address,
    message_ids: Sequence[int],
    sent_time: int,
) -> tuple[UserMessage, list[bytes]]:
    """Build several order messages for one sender. Returns the first, as :func:`build_order_message` builds it, and the
    packets of all, which differ only in MessageID and body."""
    first = build_order_message(
        bodies[0],
        message_class,
        source=source,
        destination=destination,
        message_id=message_ids[0],
        sent_time=sent_time,
    )
    number, start = BaseHeader.SIZE + _MESSAGE_ID.offset, first.body_offset
    head, between, tail = (
        first.data[:number],
        first.data[number + 4 : start],
        first.data[start + bodies[0].SIZE :],
    )
    return first, [
        b"".join((head, message_id.to_bytes(4, "little"), between, body.encode(), tail))
        for body, message_id in zip(bodies, message_ids, strict=True)
    ]


_MESSAGE_ID: Final = next(spec for spec in UserHeader.FIELDS if spec.name == "message_id")


def is_for_order_queue(message: UserMessage) -> bool:
    """True if a message is for the acknowledgment processor and not for an application."""
    name = message.user.destination_queue
    if isinstance(name, str):
        return name.lower().endswith("\\" + ORDER_QUEUE_NAME.lower())
    return (
        message.user.destination_reference == QueueReference.PRIVATE_ON_DESTINATION
        and name == ORDER_QUEUE_NUMBER
    )


_BODY_SIZE: Final = OrderAckBody.SIZE
_LABEL: Final = bytes_of(ORDER_ACK_LABEL + "\0")
_contents_at: Final = reader(
    (MessagePropertiesHeader, {"label_length", "message_class", "message_size", "extension_size"})
)


def order_acknowledgment_in(packet: bytes) -> tuple[int, OrderAckBody | FinalAckBody] | None:
    """Read a checked packet for the order queue: the class and the body of an OrderAck or FinalAck; None if its label
    says that it is something else. Express and recoverable messages are both accepted."""
    start = properties_start(packet)
    label_length, message_class, size, extension_size = _contents_at(packet, start)
    start += MessagePropertiesHeader.SIZE
    label_end = start + 2 * label_length
    if not packet.startswith(_LABEL, start, label_end):
        return None
    return message_class, _order_ack_body(packet, label_end + extension_size, size, message_class)


def order_ack_body(message: UserMessage) -> OrderAckBody | FinalAckBody:
    """Read the body of a message to the order queue, by its class, whatever its label."""
    properties = message.properties
    return _order_ack_body(
        message.data, message.body_offset, properties.message_size, properties.message_class
    )


def _order_ack_body(packet: bytes, start: int, size: int, message_class: int) -> OrderAckBody | FinalAckBody:
    if size != _BODY_SIZE:
        raise DecodeError(f"an order acknowledgment's body is {_BODY_SIZE} bytes, not {size}")
    if message_class == MessageClass.ORDER_ACK:
        return OrderAckBody.decode(packet, start)
    if message_class >= MessageClass.ACK_RECEIVE:
        return FinalAckBody.decode(packet, start)
    raise DecodeError(f"class {message_class:#06x} is no order acknowledgment")
