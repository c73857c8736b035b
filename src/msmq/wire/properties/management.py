"""Properties for monitoring a computer and its queues (MS-MQMQ 2.3.11 and 2.3.12). All are read-only.

Next to the tables are the few decisions behind the values: which of the fixed words applies to a queue, and how the two
properties with arrays of arrays are built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from msmq.wire.management_text import (
    NextHop,
    next_hop_text,
    parse_ds_server,
    parse_history_address,
    parse_next_hop,
)
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    MachineName,
    MsmqVersion,
    MulticastName,
    PrivateName,
    QueueKind,
    SingleName,
)
from msmq.wire.properties.model import Content, Property, Rule, Use, each, one_of, parses
from msmq.wire.properties.texts import FORMAT_NAME, NOT_EMPTY, PATH_NAME
from msmq.wire.variant import VT, Variant

_TEXTS: Final = VT.VECTOR | VT.LPWSTR
_VARIANTS: Final = VT.VECTOR | VT.VARIANT


class Connected(StrEnum):
    """PROPID_MGMT_MSMQ_CONNECTED."""

    MSMQ_CONNECTED = "CONNECTED"
    MSMQ_DISCONNECTED = "DISCONNECTED"


class QueueType(StrEnum):
    """PROPID_MGMT_QUEUE_TYPE."""

    MGMT_QUEUE_TYPE_PUBLIC = "PUBLIC"
    MGMT_QUEUE_TYPE_PRIVATE = "PRIVATE"
    MGMT_QUEUE_TYPE_MACHINE = "MACHINE"
    MGMT_QUEUE_TYPE_CONNECTOR = "CONNECTOR"
    MGMT_QUEUE_TYPE_MULTICAST = "MULTICAST"


class QueueLocation(StrEnum):
    """PROPID_MGMT_QUEUE_LOCATION."""

    MGMT_QUEUE_LOCAL_LOCATION = "LOCAL"
    MGMT_QUEUE_REMOTE_LOCATION = "REMOTE"


class Known(StrEnum):
    """PROPID_MGMT_QUEUE_XACT and PROPID_MGMT_QUEUE_FOREIGN."""

    MGMT_QUEUE_UNKNOWN_TYPE = "UNKNOWN"
    YES = "YES"
    NO = "NO"


class QueueState(StrEnum):
    """PROPID_MGMT_QUEUE_STATE."""

    MGMT_QUEUE_STATE_LOCAL = "LOCAL CONNECTION"
    MGMT_QUEUE_STATE_NONACTIVE = "INACTIVE"
    MGMT_QUEUE_STATE_WAITING = "WAITING"
    MGMT_QUEUE_STATE_NEED_VALIDATE = "NEED VALIDATION"
    MGMT_QUEUE_STATE_ONHOLD = "ONHOLD"
    MGMT_QUEUE_STATE_CONNECTED = "CONNECTED"
    MGMT_QUEUE_STATE_DISCONNECTING = "DISCONNECTING"
    MGMT_QUEUE_STATE_DISCONNECTED = "DISCONNECTED"


class ConnectionStatus(IntEnum):
    """The status of an entry of PROPID_MGMT_QUEUE_CONNECTION_HISTORY; failures have the high bit."""

    IN_PROCESS = 0x00000000
    ESTABLISH_PACKET_RECEIVED = 0x00000001
    READY = 0x00000002
    UNKNOWN_FAILURE = 0x80000000
    PING_FAILED = 0x80000001
    CREATE_SOCKET_FAILED = 0x80000002
    BIND_SOCKET_FAILED = 0x80000003
    CONNECT_SOCKET_FAILED = 0x80000004
    TCP_NOT_ENABLED = 0x80000005
    SEND_FAILED = 0x80000006
    SEND_NOT_READY = 0x80000007
    DNS_FAILED = 0x80000008
    SERVER_CERTIFICATE_INVALID = 0x80000009
    CONNECTION_LIMIT_REACHED = 0x8000000A
    REFUSED_BY_PEER = 0x8000000B
    NO_DIRECTORY = 0x8000000C
    LOW_MEMORY = 0x8000000D


EOD_SOURCE_TYPES: Final = (
    VT.VECTOR | VT.LPWSTR,
    VT.VECTOR | VT.CLSID,
    VT.VECTOR | VT.UI8,
    VT.VECTOR | VT.UI4,
    VT.VECTOR | VT.I4,
    VT.VECTOR | VT.UI4,
)
HISTORY_TYPES: Final = (VT.VECTOR | VT.UI4, VT.VECTOR | VT.I4, VT.VECTOR | VT.I4, _VARIANTS)
"""The last type is printed as a vector of vectors of texts, which only a vector of variants can hold."""


@dataclass(frozen=True, slots=True)
class EodSource:
    """One entry of PROPID_MGMT_QUEUE_EOD_SOURCE_INFO: the last message that a source sent in order (2.3.12.24)."""

    format_name: str
    sender_id: bytes
    sequence_id: int
    sequence_number: int
    last_access_time_s: int
    reject_count: int


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """One entry of PROPID_MGMT_QUEUE_CONNECTION_HISTORY (2.3.12.25)."""

    status: ConnectionStatus
    time_s: int
    error: int
    addresses: tuple[str, ...]


def eod_source_info(sources: Sequence[EodSource]) -> Variant:
    """Build the six parallel arrays of PROPID_MGMT_QUEUE_EOD_SOURCE_INFO."""
    names, senders, ids, numbers, times, rejects = EOD_SOURCE_TYPES
    return Variant(
        _VARIANTS,
        (
            Variant(names, tuple(source.format_name for source in sources)),
            Variant(senders, tuple(source.sender_id for source in sources)),
            Variant(ids, tuple(source.sequence_id for source in sources)),
            Variant(numbers, tuple(source.sequence_number for source in sources)),
            Variant(times, tuple(source.last_access_time_s for source in sources)),
            Variant(rejects, tuple(source.reject_count for source in sources)),
        ),
    )


def connection_history(events: Sequence[ConnectionEvent]) -> Variant:
    """Build the four parallel arrays of PROPID_MGMT_QUEUE_CONNECTION_HISTORY."""
    statuses, times, errors, addresses = HISTORY_TYPES
    return Variant(
        _VARIANTS,
        (
            Variant(statuses, tuple(event.status for event in events)),
            Variant(times, tuple(event.time_s for event in events)),
            Variant(errors, tuple(event.error for event in events)),
            Variant(addresses, tuple(Variant(_TEXTS, event.addresses) for event in events)),
        ),
    )


def _columns(value: object, types: tuple[int, ...]) -> tuple[tuple[object, ...], ...] | None:
    """Return the arrays in an array of arrays if they have these types and equal lengths; else None."""
    if not isinstance(value, tuple) or len(value) != len(types):
        return None
    columns = []
    for item, vt in zip(value, types, strict=True):
        if not isinstance(item, Variant) or item.vt != vt or not isinstance(item.value, tuple):
            return None
        columns.append(item.value)
    return tuple(columns) if len({len(column) for column in columns}) == 1 else None


def _allows_eod_sources(value: object, version: MsmqVersion) -> bool:
    columns = _columns(value, EOD_SOURCE_TYPES)
    return columns is not None and all(
        isinstance(name, str) and FORMAT_NAME.allows(name, version) for name in columns[0]
    )


def _allows_history(value: object, version: MsmqVersion) -> bool:
    columns = _columns(value, HISTORY_TYPES)
    if columns is None or not set(columns[0]) <= set(ConnectionStatus):
        return False
    return all(
        isinstance(item, Variant) and item.vt == _TEXTS and _HISTORY_ADDRESSES.allows(item.value, version)
        for item in columns[3]
    )


_HISTORY_ADDRESSES: Final = each(parses("an address of the connection history", parse_history_address))
_EOD_SOURCES: Final = Rule("six parallel arrays about sources of transactional messages", _allows_eod_sources)
_HISTORY: Final = Rule("four parallel arrays of connection history", _allows_history)
_KNOWN: Final = one_of(Known)


def _management(
    propid: int,
    name: str,
    vt: int,
    doc: str,
    since: MsmqVersion = MsmqVersion.V1,
    rule: Rule | None = None,
    content: Content | None = None,
) -> Property:
    return Property(propid, name, vt, doc, since, rule, uses=Use.READ_ONLY, content=content)


MANAGEMENT_MACHINE: Final = (
    _management(
        1,
        "PROPID_MGMT_MSMQ_ACTIVEQUEUES",
        _TEXTS,
        "Format names of active queues.",
        rule=each(FORMAT_NAME),
    ),
    _management(2, "PROPID_MGMT_MSMQ_PRIVATEQ", _TEXTS, "Paths of private queues.", rule=each(PATH_NAME)),
    _management(
        3,
        "PROPID_MGMT_MSMQ_DSSERVER",
        VT.LPWSTR,
        "The directory server in use.",
        rule=parses("a server name after two backslashes", parse_ds_server),
    ),
    _management(
        4, "PROPID_MGMT_MSMQ_CONNECTED", VT.LPWSTR, "Whether it is on the network.", rule=one_of(Connected)
    ),
    _management(5, "PROPID_MGMT_MSMQ_TYPE", VT.LPWSTR, "Versions of the system and of MSMQ.", rule=NOT_EMPTY),
    _management(
        6, "PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES", VT.I8, "Message bytes in all queues.", MsmqVersion.V3
    ),
)

MANAGEMENT_QUEUE: Final = (
    _management(1, "PROPID_MGMT_QUEUE_PATHNAME", VT.LPWSTR, "The path name.", rule=PATH_NAME),
    _management(2, "PROPID_MGMT_QUEUE_FORMATNAME", VT.LPWSTR, "The format name.", rule=FORMAT_NAME),
    _management(3, "PROPID_MGMT_QUEUE_TYPE", VT.LPWSTR, "Kind of the queue.", rule=one_of(QueueType)),
    _management(4, "PROPID_MGMT_QUEUE_LOCATION", VT.LPWSTR, "Here or elsewhere.", rule=one_of(QueueLocation)),
    _management(5, "PROPID_MGMT_QUEUE_XACT", VT.LPWSTR, "Whether it is transactional.", rule=_KNOWN),
    _management(6, "PROPID_MGMT_QUEUE_FOREIGN", VT.LPWSTR, "Whether it is a foreign queue.", rule=_KNOWN),
    _management(7, "PROPID_MGMT_QUEUE_MESSAGE_COUNT", VT.UI4, "Messages in the queue."),
    _management(8, "PROPID_MGMT_QUEUE_BYTES_IN_QUEUE", VT.UI4, "Message bytes in the queue.", MsmqVersion.V3),
    _management(9, "PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT", VT.UI4, "Messages in its journal."),
    _management(10, "PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL", VT.UI4, "Bytes in its journal.", MsmqVersion.V3),
    _management(11, "PROPID_MGMT_QUEUE_STATE", VT.LPWSTR, "State of connection.", rule=one_of(QueueState)),
    _management(
        12,
        "PROPID_MGMT_QUEUE_NEXTHOPS",
        _TEXTS,
        "Where its messages go next.",
        rule=each(parses("a next hop", parse_next_hop)),
    ),
    _management(
        13, "PROPID_MGMT_QUEUE_EOD_LAST_ACK", VT.BLOB, "Last message in order.", content=Content.SEQUENCE_INFO
    ),
    _management(14, "PROPID_MGMT_QUEUE_EOD_LAST_ACK_TIME", VT.I4, "When the last order ack came."),
    _management(15, "PROPID_MGMT_QUEUE_EOD_LAST_ACK_COUNT", VT.UI4, "How often the last order ack came."),
    _management(
        16,
        "PROPID_MGMT_QUEUE_EOD_FIRST_NON_ACK",
        VT.BLOB,
        "First message without order ack.",
        content=Content.SEQUENCE_INFO,
    ),
    _management(
        17,
        "PROPID_MGMT_QUEUE_EOD_LAST_NON_ACK",
        VT.BLOB,
        "Last message without order ack.",
        content=Content.SEQUENCE_INFO,
    ),
    _management(
        18, "PROPID_MGMT_QUEUE_EOD_NEXT_SEQ", VT.BLOB, "Next message to send.", content=Content.SEQUENCE_INFO
    ),
    _management(19, "PROPID_MGMT_QUEUE_EOD_NO_READ_COUNT", VT.UI4, "Messages arrived but not read."),
    _management(20, "PROPID_MGMT_QUEUE_EOD_NO_ACK_COUNT", VT.UI4, "Messages without order ack."),
    _management(21, "PROPID_MGMT_QUEUE_EOD_RESEND_TIME", VT.I4, "When they are sent again."),
    _management(22, "PROPID_MGMT_QUEUE_EOD_RESEND_INTERVAL", VT.UI4, "Seconds between attempts."),
    _management(23, "PROPID_MGMT_QUEUE_EOD_RESEND_COUNT", VT.UI4, "How often the last message was sent."),
    _management(
        24, "PROPID_MGMT_QUEUE_EOD_SOURCE_INFO", _VARIANTS, "What sources sent in order.", rule=_EOD_SOURCES
    ),
    _management(
        25,
        "PROPID_MGMT_QUEUE_CONNECTION_HISTORY",
        _VARIANTS,
        "What became of connections.",
        rule=_HISTORY,
    ),
    _management(26, "PROPID_MGMT_QUEUE_SUBQUEUE_COUNT", VT.UI4, "How many subqueues it has."),
    _management(27, "PROPID_MGMT_QUEUE_SUBQUEUE_NAMES", _TEXTS, "Names of its subqueues."),
)


def queue_type(name: SingleName) -> QueueType:
    """Return the PROPID_MGMT_QUEUE_TYPE of a queue with this format name."""
    match name:
        case MulticastName():
            return QueueType.MGMT_QUEUE_TYPE_MULTICAST
        case ConnectorName():
            return QueueType.MGMT_QUEUE_TYPE_CONNECTOR
        case MachineName() | DirectName(kind=QueueKind.SYSTEM):
            return QueueType.MGMT_QUEUE_TYPE_MACHINE
        case PrivateName() | DirectName(kind=QueueKind.PRIVATE):
            return QueueType.MGMT_QUEUE_TYPE_PRIVATE
        case _:
            return QueueType.MGMT_QUEUE_TYPE_PUBLIC


def queue_location(local: bool) -> QueueLocation:
    """Return the PROPID_MGMT_QUEUE_LOCATION of a queue; an outgoing queue stands for a remote one."""
    return QueueLocation.MGMT_QUEUE_LOCAL_LOCATION if local else QueueLocation.MGMT_QUEUE_REMOTE_LOCATION


def known(answer: bool | None) -> Known:
    """Return the PROPID_MGMT_QUEUE_XACT or PROPID_MGMT_QUEUE_FOREIGN of a queue; None means "cannot tell"."""
    if answer is None:
        return Known.MGMT_QUEUE_UNKNOWN_TYPE
    return Known.YES if answer else Known.NO


def queue_state(connection: QueueState, *, local: bool, on_hold: bool) -> QueueState:
    """Return the PROPID_MGMT_QUEUE_STATE of a queue: a local one has no connection, and a paused one does not use its
    connection."""
    if local:
        return QueueState.MGMT_QUEUE_STATE_LOCAL
    return QueueState.MGMT_QUEUE_STATE_ONHOLD if on_hold else connection


def next_hops(candidates: Sequence[NextHop], connected: NextHop | None) -> Variant:
    """Return the PROPID_MGMT_QUEUE_NEXTHOPS of a queue: the address in use, or all candidates while none is in use."""
    hops = candidates if connected is None else (connected,)
    return Variant(_TEXTS, tuple(map(next_hop_text, hops)))
