"""Describe a packet as a tree for people: every field by its specification name, with value, meaning and place.

:func:`describe` reads a packet of a session, :func:`describe_ping` a datagram. The tree is built from the structures'
own declarations (``Wire.FIELDS`` and ``Wire.BITS``); only variable tails are placed by hand. Its leaves cover every
byte of the packet once, including padding. Bytes that are shown a second time (the text of a body, an acknowledgment in
a body) are marked ``derived``.
"""

from __future__ import annotations

import struct
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Final

from msmq.errors import DecodeError
from msmq.wire.bodies.text import read_number, read_text
from msmq.wire.classes import MessageClass
from msmq.wire.declare import Bits, Wire, rounded_up
from msmq.wire.delivery import format_name
from msmq.wire.framing import Packet, packet_length
from msmq.wire.guid import guid_text
from msmq.wire.headers import (
    BASE_IN,
    BaseHeader,
    MessagePropertiesHeader,
    PrivateQueueFormatName,
    QueueName,
    UserHeader,
)
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from msmq.wire.layout import BASE, FIXED_SIZE
from msmq.wire.meanings import UNUSED_BITS, meaning_of, meaning_of_bits
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import (
    DIRECT,
    DISTRIBUTION_LIST,
    PRIVATE,
    PUBLIC,
    DistributionListName,
    MQFAddressHeader,
    MQFElement,
    MQFSignatureHeader,
    MultiQueueFormatHeader,
)
from msmq.wire.optional_headers import (
    DebugHeader,
    ProviderInfo,
    SecurityHeader,
    SenderIdType,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    EstablishConnectionHeader,
    InternalHeader,
    OrderAckBody,
    PacketType,
    Ping,
    SessionAck,
    is_for_order_queue,
    order_ack_body,
)
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader


class Kind(Enum):
    """The kind of a node: named nodes, a list of nodes, an integer with named bits, one group of those bits, or a
    value."""

    STRUCTURE = "structure"
    LIST = "list"
    FLAGS = "flags"
    BITS = "bits"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Node:
    """One row of a description. ``offset`` and ``size`` count bytes of the packet; for BITS, bits of the field.

    ``value`` is an integer, a text (names, GUIDs, SIDs) or raw bytes; structures and lists have ``children``.
    """

    kind: Kind
    name: str
    offset: int
    size: int
    value: int | str | bytes = b""
    meaning: str = ""
    children: tuple[Node, ...] = ()
    section: str = ""
    derived: bool = False

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Description:
    """A packet: its name in the specification, its headers in wire order, and the decoded packet itself."""

    packet: str
    size: int
    headers: tuple[Node, ...]
    decoded: Packet | Ping = field(repr=False)


_INTERNAL_SIZE: Final = BaseHeader.SIZE + InternalHeader.SIZE
_INTERNAL: Final[dict[int, type[SessionAck] | type[EstablishConnection] | type[ConnectionParameters]]] = {
    PacketType.SESSION_ACK: SessionAck,
    PacketType.ESTABLISH_CONNECTION: EstablishConnection,
    PacketType.CONNECTION_PARAMETERS: ConnectionParameters,
}
_FILLS: Final = "fills up to a multiple of four"


def describe_ping(datagram: bytes) -> Description:
    """Describe a datagram of the ping port; raises DecodeError if it is no Ping."""
    ping = Ping.parse(datagram)
    return Description("Ping", len(datagram), (_structure("Ping", ping, 0),), ping)


def describe(data: bytes) -> Description:
    """Describe one whole packet of a session; raises DecodeError if it is malformed.

    A message marked as sent over HTTP is described too, although a session may not carry one.
    """
    if len(data) < _INTERNAL_SIZE:
        raise DecodeError(f"no packet is {len(data)} bytes long")
    length = packet_length(data)
    if length != len(data):
        raise DecodeError(f"the packet says {length} bytes and has {len(data)}", BASE["packet_size"])
    if not data[BASE["flags"]] & BASE_IN:
        return _describe_message(UserMessage.decode(data))
    packet = _INTERNAL[InternalHeader.decode(data, BaseHeader.SIZE).packet_type].decode(data)
    internal = _structure("InternalHeader", packet.internal, BaseHeader.SIZE)
    headers = [_structure("BaseHeader", packet.base, 0), internal]
    if isinstance(packet, SessionAck):
        headers.append(_session_header(packet.session, _INTERNAL_SIZE))
    elif isinstance(packet, EstablishConnection):
        headers.append(_establish_header(packet.header))
    else:
        headers.append(_structure("ConnectionParametersHeader", packet.header, _INTERNAL_SIZE))
    return Description(type(packet).__name__, len(data), tuple(headers), packet)


def _describe_message(message: UserMessage) -> Description:
    data, limit = message.data, message.base.packet_size
    headers = [_structure("BaseHeader", message.base, 0)]
    user, cursor = UserHeader.read(data, BaseHeader.SIZE, limit)
    headers.append(_user_header(data, user, cursor))
    if message.transaction is not None:
        transaction, end = TransactionHeader.read(data, cursor, limit)
        connector = (("ConnectorQMGuid", transaction.connector_qm_guid),)
        tail = _guids(connector, cursor + TransactionHeader.SIZE, TransactionHeader)
        headers.append(_structure("TransactionHeader", transaction, cursor, tail))
        cursor = end
    if message.security is not None:
        headers.append(_security_header(data, message.security, cursor))
        cursor = headers[-1].end
    headers.append(_properties_header(message))
    cursor = headers[-1].end
    if message.debug is not None:
        tail = _guids(
            (("QueueIdentifier", message.debug.queue_identifier),), cursor + DebugHeader.SIZE, DebugHeader
        )
        headers.append(_structure("DebugHeader", message.debug, cursor, tail))
        cursor = headers[-1].end
    headers += _late_headers(message, cursor)
    name = "UserMessage"
    if is_for_order_queue(message):
        try:
            body = order_ack_body(message)
        except DecodeError:
            pass  # a message for the order queue that is no acknowledgment is shown as the message it is
        else:
            name = "OrderAck" if isinstance(body, OrderAckBody) else "FinalAck"
            headers.append(_structure(f"{name}Body", body, message.body_offset, derived=True))
    return Description(name, len(data), tuple(headers), message)


def _late_headers(message: UserMessage, cursor: int) -> list[Node]:
    """Describe what may follow the DebugHeader: the two headers of HTTP, Soap, the queue lists and the
    SessionHeader.
    """
    data, limit = message.data, message.base.packet_size
    headers = []
    if message.envelope is not None:
        _, end = SRMPEnvelopeHeader.read(data, cursor, limit)
        nodes = _text_section(data, cursor, end, ("HeaderId", "Reserved", "DataLength", "Data"))
        headers.append(_parent("SRMPEnvelopeHeader", "MS-MQRR 2.2.5.1.2.1", nodes))
        cursor = end
    if message.compound is not None:
        _, end = CompoundMessageHeader.read(data, cursor, limit)
        start = cursor + CompoundMessageHeader.SIZE
        tail = [_bytes(CompoundMessageHeader, "Data", message.compound.data, start)]
        tail += _padding(data, tail, end)
        headers.append(_structure("CompoundMessageHeader", message.compound, cursor, tail))
        cursor = end
    if message.soap is not None:
        _, end = SoapHeader.read(data, cursor, limit)
        headers.append(_soap_header(data, cursor, end))
        cursor = end
    if message.multi_queue is not None:
        headers.append(_multi_queue_header(data, message.multi_queue, cursor))
    if message.session is not None:
        headers.append(_session_header(message.session, limit))
    return headers


# The general part: a declared structure becomes nodes.


def _structure(
    name: str, value: Wire, offset: int, tail: list[Node] | None = None, *, derived: bool = False
) -> Node:
    nodes = []
    for spec in value.FIELDS:
        raw = getattr(value, spec.name)
        meaning = meaning_of(type(value), spec.spec_name, raw)
        place = offset + spec.offset
        bits = _bits(value, spec.name, spec.spec_name)
        if bits:
            nodes.append(Node(Kind.FLAGS, spec.spec_name, place, spec.size, raw, meaning, bits))
        elif spec.code == "Q":
            nodes.append(_sequence_id(spec.spec_name, raw, place, meaning))
        else:
            shown = guid_text(raw).lower() if spec.code == "16s" else raw
            nodes.append(Node(Kind.VALUE, spec.spec_name, place, spec.size, shown, meaning))
    return _parent(name, value.SECTION, nodes + (tail or []), derived=derived)


@cache
def _runs(structure: type[Wire], field_name: str) -> tuple[Bits, ...]:
    """Return the groups of bits of one field from the lowest on, including unused ones."""
    declared = (*(bits for _, bits in structure.BITS), *UNUSED_BITS.get(structure, ()))
    return tuple(sorted((bits for bits in declared if bits.field == field_name), key=lambda bits: bits.low))


def _bits(value: Wire, field_name: str, spec_name: str) -> tuple[Node, ...]:
    nodes = []
    for bits in _runs(type(value), field_name):  # type: ignore[arg-type]  # classes can be hashed
        number = getattr(value, field_name) >> bits.low & bits.mask
        meaning = meaning_of_bits(type(value), f"{spec_name}.{bits.spec_name}", number, bits.width)
        nodes.append(Node(Kind.BITS, bits.spec_name, bits.low, bits.width, number, meaning))
    return tuple(nodes)


def _parent(name: str, section: str, nodes: list[Node], *, derived: bool = False, meaning: str = "") -> Node:
    offset = nodes[0].offset
    size = nodes[-1].end - offset
    return Node(Kind.STRUCTURE, name, offset, size, b"", meaning, tuple(nodes), section, derived)


def _integer(name: str, value: int, offset: int, size: int, meaning: str = "") -> Node:
    return Node(Kind.VALUE, name, offset, size, value, meaning)


def _bytes(structure: type[Wire], name: str, value: bytes, offset: int) -> Node:
    return Node(Kind.VALUE, name, offset, len(value), value, meaning_of(structure, name, value))


def _padding(data: bytes, before: list[Node], end: int, name: str = "Padding") -> list[Node]:
    """Return a node for the bytes between the last node and ``end``, if there are any."""
    start = before[-1].end
    if start == end:
        return []
    return [Node(Kind.VALUE, name, start, end - start, data[start:end], _FILLS)]


def _sequence_id(name: str, number: int, offset: int, meaning: str) -> Node:
    sequence = TxSequenceID.from_number(number)
    nodes = [
        _integer("Ordinal", sequence.ordinal, offset, 4),
        _integer("TimeStamp", sequence.time_stamp, offset + 4, 4),
    ]
    return _parent(name, "MS-MQMQ 2.2.18.1.2", nodes, meaning=meaning)


def _guids(named: tuple[tuple[str, bytes | None], ...], offset: int, structure: type[Wire]) -> list[Node]:
    """Describe the optional GUIDs at the end of a header."""
    nodes = []
    for name, value in named:
        if value is not None:
            text = guid_text(value).lower()
            nodes.append(Node(Kind.VALUE, name, offset, 16, text, meaning_of(structure, name, value)))
            offset += 16
    return nodes


# The variable tails of the structures.


def _user_header(data: bytes, user: UserHeader, end: int) -> Node:
    cursor = FIXED_SIZE
    tail: list[Node] = []
    for name, reference, queue in (
        ("DestinationQueue", user.destination_reference, user.destination_queue),
        ("AdminQueue", user.admin_reference, user.admin_queue),
        ("ResponseQueue", user.response_reference, user.response_queue),
    ):
        if queue is not None:
            meaning = format_name(user, reference, queue) or "on a host whose GUID the packet does not tell"
            tail.append(_parent(name, "MS-MQMQ 2.2.18.1", _queue_name(data, queue, cursor), meaning=meaning))
            cursor = tail[-1].end
    tail += _guids((("ConnectorType", user.connector_type),), end - 16, UserHeader)
    return _structure("UserHeader", user, BaseHeader.SIZE, tail)


def _queue_name(data: bytes, queue: QueueName, cursor: int) -> list[Node]:
    """Describe a queue name as a UserHeader holds it, with padding; a direct name is aligned like its header."""
    if isinstance(queue, str):
        count = int.from_bytes(data[cursor : cursor + 2], "little")
        nodes = [
            _integer("Count", count, cursor, 2, "bytes, the null included"),
            Node(Kind.VALUE, "DirectFormatName", cursor + 2, count, queue),
        ]
        return nodes + _padding(data, nodes, cursor + rounded_up(2 + count))
    if isinstance(queue, PrivateQueueFormatName):
        return _private_name(queue, cursor)
    if isinstance(queue, bytes):
        return [Node(Kind.VALUE, "PublicQueueIdentifier", cursor, 16, guid_text(queue).lower())]
    return [_integer("PrivateQueueIdentifier", queue or 0, cursor, 4)]


def _private_name(name: PrivateQueueFormatName, cursor: int) -> list[Node]:
    return [
        Node(Kind.VALUE, "SourceQueueManager", cursor, 16, guid_text(name.source_queue_manager).lower()),
        _integer("PrivateQueueIdentifier", name.private_queue_identifier, cursor + 16, 4),
    ]


def sid_text(sid: bytes) -> str:
    """Write a SID whose size was checked as ``S-1-5-21-...`` (MS-DTYP 2.4.2.1)."""
    authority = int.from_bytes(sid[2:8], "big")
    head = str(authority) if authority < 1 << 32 else f"0x{authority:012X}"
    return "-".join(["S-1", head, *map(str, struct.unpack(f"<{sid[1]}I", sid[8:]))])


def _security_header(data: bytes, security: SecurityHeader, offset: int) -> Node:
    cursor = offset + SecurityHeader.SIZE
    items: list[Node] = []
    for name, value in (
        ("SecurityID", security.security_id),
        ("EncryptionKey", security.encryption_key),
        ("Signature", security.signature),
        ("SenderCert", security.sender_cert),
        ("ProviderInfo", security.provider_info),
    ):
        if value:
            items.append(_security_item(security, name, value, cursor))
            cursor += rounded_up(len(value))
            items += _padding(data, items, cursor, f"{name}Padding")
    tail = [_parent("SecurityData", "MS-MQMQ 2.2.20.6", items)]
    return _structure("SecurityHeader", security, offset, tail)


def _security_item(security: SecurityHeader, name: str, value: bytes, offset: int) -> Node:
    if name == "SecurityID" and security.sender_id_type == SenderIdType.SID:
        return Node(Kind.VALUE, name, offset, len(value), sid_text(value), "the sending user")
    if name == "SecurityID":
        return Node(Kind.VALUE, name, offset, 16, guid_text(value).lower(), "the sending queue manager")
    if name == "ProviderInfo":
        info = ProviderInfo.decode(value)
        kind = _integer("ProviderType", info.provider_type, offset, 4)
        text = Node(Kind.VALUE, "ProviderName", offset + 4, len(value) - 4, info.provider_name)
        return _parent(name, "MS-MQMQ 2.2.20.6", [kind, text])
    return _bytes(SecurityHeader, name, value, offset)


_ANSWERS: Final = frozenset(MessageClass) - {MessageClass.NORMAL, MessageClass.REPORT, MessageClass.ORDER_ACK}


def _properties_header(message: UserMessage) -> Node:
    properties, offset, data = message.properties, message.properties_offset, message.data
    end = properties.end(data, offset, message.base.packet_size)
    header = _structure("MessagePropertiesHeader", properties, offset)
    nodes = [
        _correlation(message, node) if node.name == "CorrelationID" else node for node in header.children
    ]
    meaning = meaning_of(MessagePropertiesHeader, "Label", message.label)
    nodes += [
        Node(Kind.VALUE, "Label", header.end, 2 * properties.label_length, message.label, meaning),
        _bytes(MessagePropertiesHeader, "ExtensionData", message.extension, message.extension_offset),
    ]
    nodes += _body(message)
    start = message.body_offset + properties.message_size
    if start < end:
        unused = properties.allocation_body_size - properties.message_size
        meaning = f"{unused} bytes reserved for the body, then up to a multiple of four" if unused else _FILLS
        nodes.append(Node(Kind.VALUE, "Padding", start, end - start, data[start:end], meaning))
    return replace(header, size=end - offset, children=tuple(nodes))


def _body(message: UserMessage) -> list[Node]:
    """Describe the body, and once more as text if it is text."""
    body, offset = message.body, message.body_offset
    if is_encrypted(message):
        return [Node(Kind.VALUE, "MessageBody", offset, len(body), body, "encrypted")]
    number = read_number(message.properties.body_type, body)
    meaning = "" if number is None else f"the value {number}"
    nodes = [Node(Kind.VALUE, "MessageBody", offset, len(body), body, meaning)]
    found = read_text(message.properties.body_type, body)
    if found is not None:
        caption = f"{found.kind} in {found.encoding}"
        text = Node(Kind.VALUE, "MessageBodyText", offset, len(body), found.text, caption, derived=True)
        nodes.append(text)
    return nodes


def is_encrypted(message: UserMessage) -> bool:
    return message.security is not None and bool(message.security.body_encrypted)


def _correlation(message: UserMessage, node: Node) -> Node:
    """Explain a correlation identifier: in an acknowledgment it names the message that is answered; elsewhere it is the
    application's own."""
    raw = node.value
    if not isinstance(raw, bytes) or not any(raw):
        meaning = "none"
    elif message.properties.message_class in _ANSWERS:
        answered = MessageIdentifier.decode(raw)
        meaning = f"answers message {answered.ordinal} of {guid_text(answered.queue_manager_guid).lower()}"
    else:
        meaning = "the application's own"
    return replace(node, meaning=meaning)


def _text_section(data: bytes, offset: int, end: int, names: tuple[str, str, str, str]) -> list[Node]:
    """Describe identifier, reserved word, length in characters and terminated text, as Soap and SRMP headers have
    them.
    """
    identifier, reserved, length = struct.unpack_from("<HHI", data, offset)
    text = data[offset + 8 : offset + 8 + 2 * length].decode("utf-16-le", "surrogatepass").removesuffix("\0")
    nodes = [
        _integer(names[0], identifier, offset, 2),
        _integer(names[1], reserved, offset + 2, 2),
        _integer(names[2], length, offset + 4, 4, "characters, the null included"),
    ]
    if length:
        nodes.append(Node(Kind.VALUE, names[3], offset + 8, 2 * length, text))
    return nodes + _padding(data, nodes, end, f"{names[3]}Padding")


def _soap_header(data: bytes, offset: int, end: int) -> Node:
    (length,) = struct.unpack_from("<I", data, offset + 4)
    middle = offset + rounded_up(8 + 2 * length)
    nodes = _text_section(data, offset, middle, ("HeaderSectionID", "Reserved", "HeaderDataLength", "Header"))
    nodes += _text_section(data, middle, end, ("BodySectionID", "Reserved1", "BodyDataLength", "Body"))
    return _parent("SoapHeader", "MS-MQMQ 2.2.20.7", nodes)


def _multi_queue_header(data: bytes, lists: MultiQueueFormatHeader, offset: int) -> Node:
    nodes: list[Node] = []
    for name, header in (
        ("Destination", lists.destination),
        ("Administration", lists.administration),
        ("Response", lists.response),
    ):
        elements = _format_name_list(data, header, offset + MQFAddressHeader.SIZE)
        end = offset + rounded_up(header.header_size)
        nodes.append(_structure(name, header, offset, [elements, *_padding(data, [elements], end)]))
        offset = end
    signature = lists.signature
    tail = [_bytes(MQFSignatureHeader, "Signature", signature.signature, offset + MQFSignatureHeader.SIZE)]
    tail += _padding(data, tail, offset + rounded_up(MQFSignatureHeader.SIZE + signature.size))
    nodes.append(_structure("Signature", signature, offset, tail))
    return _parent("MultiQueueFormatHeader", "MS-MQMQ 2.2.20.1", nodes)


def _format_name_list(data: bytes, header: MQFAddressHeader, offset: int) -> Node:
    nodes = []
    cursor = offset
    for element in header.elements:
        nodes.append(_element(data, element, cursor))
        cursor = nodes[-1].end
    return Node(Kind.LIST, "FormatNameList", offset, cursor - offset, children=tuple(nodes))


def _element(data: bytes, element: MQFElement, offset: int) -> Node:
    """Describe an MQFFormatNameElement (2.2.18.1.4): a direct name follows its type at once, other names after
    padding.
    """
    start = rounded_up(offset + 2)
    if isinstance(element, str):
        start = offset + 2
        size = 2 + len(element.encode("utf-16-le", "surrogatepass"))
        kind, meaning = DIRECT, f"DIRECT={element}"
        names = [Node(Kind.VALUE, "DirectFormatName", start, size, element)]
    elif isinstance(element, PrivateQueueFormatName):
        number = element.private_queue_identifier
        kind, meaning = PRIVATE, f"PRIVATE={guid_text(element.source_queue_manager)}\\{number:08X}"
        names = _private_name(element, start)
    elif isinstance(element, DistributionListName):
        identifier = guid_text(element.identifier)
        kind, meaning = DISTRIBUTION_LIST, f"DL={identifier}"
        names = [Node(Kind.VALUE, "DistributionListIdentifier", start, 16, identifier.lower())]
    else:
        kind, meaning = PUBLIC, f"PUBLIC={guid_text(element)}"
        names = [Node(Kind.VALUE, "PublicQueueIdentifier", start, 16, guid_text(element).lower())]
    head = [_integer("FormatType", kind, offset, 2)]
    nodes = [*head, *_padding(data, head, start), _parent("FormatName", "MS-MQMQ 2.2.18.1.4", names)]
    return _parent("MQFFormatNameElement", "MS-MQMQ 2.2.18.1.4", nodes, meaning=meaning)


def _session_header(session: SessionHeader, offset: int) -> Node:
    """Describe a SessionHeader; its bit map is spelled out as the sequence numbers that it confirms."""
    header = _structure("SessionHeader", session, offset)
    numbers = session.acknowledged_recoverables
    if not numbers:
        return header
    meaning = "on disk: recoverable " + ", ".join(map(str, numbers))
    return _change(header, "RecoverableMsgAckFlags", value=session.recoverable_msg_ack_flags, meaning=meaning)


def _establish_header(header: EstablishConnectionHeader) -> Node:
    """Describe an EstablishConnectionHeader. If the two bytes of OperatingSystem are swapped, its bits are shown in the
    right order."""
    if not header.swapped:
        return _structure("EstablishConnectionHeader", header, _INTERNAL_SIZE)
    straight = copy(header)
    straight.operating_system = header.normalized()
    node = _structure("EstablishConnectionHeader", straight, _INTERNAL_SIZE)
    meaning = f"its bytes are swapped; the bits are those of {straight.operating_system:#06x}"
    return _change(node, "OperatingSystem", value=header.operating_system, meaning=meaning)


def _change(header: Node, name: str, *, value: int, meaning: str) -> Node:
    children = (
        replace(node, value=value, meaning=meaning) if node.name == name else node for node in header.children
    )
    return replace(header, children=tuple(children))
