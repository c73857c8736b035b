"""The columns of a message, declared once: name, type in Spark and in Arrow, what it means and where it comes from.

A row is made from the packet as it travelled and what the queue says about it. Nothing is guessed: what a message does
not have is null. Values are read straight from the headers of the packet: this is done for every message of a pipeline,
and making a whole message object first takes as long as everything else together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from msmq.errors import DecodeError
from msmq.manager.message import SenderIdentifierType, sender_sid
from msmq.spark.bodies import BODY_READERS
from msmq.spark.headers import nservicebus_headers
from msmq.wire.delivery import format_name
from msmq.wire.guid import guid_text
from msmq.wire.headers import INFINITE, MessagePropertiesHeader, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader

SCHEMA_VERSION: Final = 1
"""Written into archives; rises when a column changes its meaning or type, not when one is added."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """One message of a queue: its packet, and what only the queue knows."""

    queue: str
    lookup_id: int
    packet: UserMessage
    arrived_time: int | None = None
    authentication_level: int = 0
    """What the queue manager has verified, not what the packet claims."""
    dead_letter_class: int = 0
    """Why it is in a dead-letter queue, as a class; 0 for every other message."""


class _Source(NamedTuple):
    """What the functions of the table below see: the message, and the headers most of them want."""

    read: ReadMessage
    packet: UserMessage
    user: UserHeader
    properties: MessagePropertiesHeader
    transaction: TransactionHeader | None


class Column(NamedTuple):
    """One column. ``spark`` is its type in DDL."""

    name: str
    spark: str
    arrow: pa.DataType
    value: Callable[[_Source], Any]
    meaning: str


def _time(seconds: int | None) -> int | None:
    """Microseconds, which is how Arrow keeps a time."""
    return seconds * 1_000_000 if seconds else None


def _limit(seconds: int) -> int | None:
    return None if seconds == INFINITE else seconds


_guid_text = lru_cache(maxsize=1 << 12)(guid_text)
"""Few queue managers send many messages."""


def object_identifier(identifier: bytes) -> str | None:
    """OBJECTID as people write it: the queue manager and a number. None if there is none."""
    if not any(identifier):
        return None
    return f"{{{_guid_text(identifier[:16])}}}\\{int.from_bytes(identifier[16:], 'little')}"


def _message_id(user: UserHeader) -> str | None:
    if not user.message_id and not any(user.source_queue_manager):
        return None
    return f"{{{_guid_text(user.source_queue_manager)}}}\\{user.message_id}"


def _destination(user: UserHeader) -> str | None:
    return format_name(user, user.destination_reference, user.destination_queue)


def _admin(user: UserHeader) -> str | None:
    return None if user.admin_queue is None else format_name(user, user.admin_reference, user.admin_queue)


def _response(user: UserHeader) -> str | None:
    return (
        format_name(user, reference, user.response_queue) if (reference := user.response_reference) else None
    )


def _sender(packet: UserMessage) -> str | None:
    security = packet.security
    if security is None or security.sender_id_type != SenderIdentifierType.SID or not security.security_id:
        return None
    return _sid_text(security.security_id)


@lru_cache(maxsize=1 << 12)
def _sid_text(identifier: bytes) -> str | None:
    try:
        return str(sender_sid(SenderIdentifierType.SID, identifier))
    except DecodeError:
        return None


COLUMNS: Final = (
    Column("queue", "STRING", pa.string(), lambda s: s.read.queue, "Name the queue was read by."),
    Column(
        "lookup_id", "BIGINT", pa.int64(), lambda s: s.read.lookup_id,
        "Place in the queue; the top byte is 7 minus the priority.",
    ),
    Column(
        "message_id", "STRING", pa.string(), lambda s: _message_id(s.user),
        "Identifier of the message: sending queue manager and number.",
    ),
    Column(
        "correlation_id", "STRING", pa.string(),
        lambda s: object_identifier(s.properties.correlation_id),
        "Identifier the application gave to match it with another message.",
    ),
    Column(
        "class", "INT", pa.int32(),
        lambda s: s.read.dead_letter_class or s.properties.message_class,
        "0 for an ordinary message; acknowledgments and reports have others, and dead letters say why they are.",
    ),
    Column("priority", "INT", pa.int32(), lambda s: s.packet.priority, "0 to 7, 7 first."),
    Column("label", "STRING", pa.string(), lambda s: s.packet.label, "Label."),
    Column("body", "BINARY", pa.binary(), lambda s: s.packet.body, "Body; a string when it is decoded."),
    Column("body_type", "BIGINT", pa.int64(), lambda s: s.properties.body_type, "Type of the body as its sender says."),
    Column(
        "app_specific", "BIGINT", pa.int64(), lambda s: s.properties.application_tag, "Number the application gave."
    ),
    Column("sent_time", "TIMESTAMP", _TIMESTAMP, lambda s: _time(s.user.sent_time), "When it was sent."),
    Column(
        "arrived_time", "TIMESTAMP", _TIMESTAMP, lambda s: _time(s.read.arrived_time),
        "When it reached its queue; null when that is not known.",
    ),
    Column(
        "source_machine", "STRING", pa.string(),
        lambda s: _guid_text(s.user.source_queue_manager),
        "GUID of the queue manager it was sent from.",
    ),
    Column("sender_id", "STRING", pa.string(), lambda s: _sender(s.packet), "SID its sender claims."),
    Column(
        "authenticated", "BOOLEAN", pa.bool_(), lambda s: bool(s.read.authentication_level),
        "Whether the queue manager verified its signature.",
    ),
    Column(
        "encrypted", "BOOLEAN", pa.bool_(), lambda s: bool(s.properties.privacy_level),
        "Whether it travelled encrypted.",
    ),
    Column(
        "response_queue", "STRING", pa.string(), lambda s: _response(s.user),
        "Queue for answers.",
    ),
    Column(
        "admin_queue", "STRING", pa.string(), lambda s: _admin(s.user),
        "Queue for acknowledgments.",
    ),
    Column(
        "destination_queue", "STRING", pa.string(), lambda s: _destination(s.user),
        "Queue it was sent to; dead letters and journals are elsewhere.",
    ),
    Column(
        "delivery", "STRING", pa.string(),
        lambda s: "transactional" if s.transaction else "recoverable" if s.packet.recoverable else "express",
        "express, recoverable or transactional.",
    ),
    Column(
        "transaction_id", "BIGINT", pa.int64(), lambda s: s.transaction.transaction_id if s.transaction else None,
        "Number that messages of one transaction share; null outside of one.",
    ),
    Column(
        "first_in_transaction", "BOOLEAN", pa.bool_(),
        lambda s: s.transaction is not None and s.transaction.first_message == 1,
        "Whether its transaction begins with it.",
    ),
    Column(
        "last_in_transaction", "BOOLEAN", pa.bool_(),
        lambda s: s.transaction is not None and s.transaction.last_message == 1,
        "Whether its transaction ends with it.",
    ),
    Column("extension", "BINARY", pa.binary(), lambda s: s.packet.extension, "What the application added."),
    Column(
        "time_to_reach_queue", "BIGINT", pa.int64(), lambda s: _limit(s.packet.base.time_to_reach_queue_s),
        "Seconds it may travel; null for as long as it takes.",
    ),
    Column(
        "time_to_be_received", "BIGINT", pa.int64(), lambda s: _limit(s.user.time_to_be_received_s),
        "Seconds it may wait to be received; null for ever.",
    ),
)  # fmt: skip
HEADERS: Final = Column(
    "headers", "MAP<STRING, STRING>", pa.map_(pa.string(), pa.string()),
    lambda s: nservicebus_headers(s.packet.extension),
    "Headers of NServiceBus, from the extension; null when there are none.",
)  # fmt: skip
NAMES: Final = tuple(column.name for column in COLUMNS)


class Table:
    """The columns one reader gives: how bodies are decoded, whether headers are among them, or only those with some
    names."""

    def __init__(
        self, body: str = "bytes", *, include_headers: bool = False, only: Sequence[str] | None = None
    ) -> None:
        self._columns = [_decoded(column, body) if column.name == "body" else column for column in COLUMNS]
        if include_headers:
            self._columns.append(HEADERS)
        if only is not None:
            by_name = {column.name: column for column in self._columns}
            self._columns = [by_name[name] for name in only]
        self.arrow = pa.schema([(column.name, column.arrow) for column in self._columns])

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.types)

    @property
    def types(self) -> list[tuple[str, str]]:
        """The columns and their types in Spark."""
        return [(column.name, column.spark) for column in self._columns]

    def batch(self, messages: list[ReadMessage]) -> pa.RecordBatch:
        """Messages as rows, column by column."""
        sources = [_source(read) for read in messages]
        arrays = [
            pa.array([column.value(source) for source in sources], column.arrow) for column in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def _source(read: ReadMessage) -> _Source:
    packet = read.packet
    properties = packet.properties  # which reads all headers
    return _Source(read, packet, packet.user, properties, packet.transaction)


def _decoded(column: Column, body: str) -> Column:
    read = BODY_READERS[body]
    if read is None:
        return column
    return column._replace(
        spark="STRING", arrow=pa.string(), value=lambda s: read(s.properties.body_type, s.packet.body)
    )
