"""The columns of a message, declared once: name, type in Spark and in Arrow, what it means and where it comes from.

A row is made from the packet as it travelled and what the queue says about it. Nothing is guessed: what a message does
not have is null. Values are read straight from the headers of the packet: this is done for every message of a pipeline,
and making a whole message object first takes as long as everything else together. Messages that look alike
(:mod:`msmq.spark.alike`) are not even taken apart one by one: what they share is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from msmq.client.queue import QueueIdentity
from msmq.errors import DecodeError
from msmq.manager.messages.message import SenderIdentifierType, sender_sid
from msmq.spark.alike import Alike, Numbers, look_alike
from msmq.spark.bodies import BODY_READERS
from msmq.wire.bodies import read_headers
from msmq.wire.declare import text_of
from msmq.wire.delivery import format_name
from msmq.wire.guid import guid_text
from msmq.wire.headers import INFINITE, MessagePropertiesHeader, UserHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader

SCHEMA_VERSION: Final = 1
"""Written into archives; rises when a column changes its meaning or type, not when one is added."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class ReadMessage(NamedTuple):
    """One message of a queue: its packet, and what only the queue knows."""

    queue: str
    lookup_id: int
    packet: UserMessage
    arrived_time: int | None = None
    authentication_level: int = 0
    """What the queue manager has verified, not what the packet claims."""
    dead_letter_class: int = 0
    """Why it is in a dead-letter queue, as a class; 0 for every other message."""
    identity: QueueIdentity | None = None
    """Which queue that is; None if it is in none, or nobody said."""


class Messages(NamedTuple):
    """Messages of one queue, column by column."""

    queue: str
    lookup_ids: Sequence[int]
    arrived_times: Sequence[int | None]
    packets: Sequence[bytes]
    authentication_levels: Sequence[int]
    dead_letter_classes: Sequence[int]
    identity: QueueIdentity | None = None
    """Which queue that is; None if they are in none, or nobody said."""

    @property
    def columns(self) -> tuple[Sequence[Any], ...]:
        return self[1:6]

    def each(self) -> Iterator[ReadMessage]:
        """One by one."""
        for lookup_id, arrived, data, level, dead in zip(*self.columns, strict=True):
            packet = UserMessage.route(data)
            yield ReadMessage(self.queue, lookup_id, packet, arrived, level, dead, self.identity)

    def part(self, start: int, end: int) -> Messages:
        return self._with([column[start:end] for column in self.columns])

    def at(self, places: Sequence[int]) -> Messages:
        """The messages at the given places."""
        return self._with([[column[place] for place in places] for column in self.columns])

    def chosen(self, wanted: Sequence[bool]) -> Messages:
        """The messages for which ``wanted`` is true."""
        return self._with([list(compress(column, wanted)) for column in self.columns])

    def _with(self, columns: list[Any]) -> Messages:
        return Messages(self.queue, *columns)._replace(identity=self.identity)

    @property
    def size(self) -> int:
        """Bytes of their packets."""
        return sum(map(len, self.packets))


def joined(parts: Sequence[Messages]) -> Messages:
    """Messages of one queue one behind the other."""
    columns = zip(*(part.columns for part in parts), strict=True)
    return parts[0]._with([list(chain.from_iterable(column)) for column in columns])


class _Part(NamedTuple):
    """Messages that look alike: what their queue says of them, and their columns."""

    given: Messages
    alike: Alike


class _Source(NamedTuple):
    """What the functions of the table below see: the message, and the headers most of them want."""

    read: ReadMessage
    packet: UserMessage
    user: UserHeader
    properties: MessagePropertiesHeader
    transaction: TransactionHeader | None


class Column(NamedTuple):
    """One column. ``spark`` is its type in DDL. ``values`` gives those of messages that look alike; without it they all
    have the same."""

    name: str
    spark: str
    arrow: pa.DataType
    value: Callable[[_Source], Any]
    meaning: str
    values: Callable[[_Part], pa.Array] | None = None


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


def _message_ids(part: _Part) -> pa.Array:
    sender, numbers = part.alike.sample.user.source_queue_manager, pa.array(part.alike.numbers("message_id"))
    texts = pc.binary_join_element_wise(f"{{{_guid_text(sender)}}}\\", numbers.cast(pa.string()), "")
    return texts if any(sender) else pc.if_else(pc.equal(numbers, 0), None, texts)


def _classes(part: _Part) -> pa.Array:
    own, dead = part.alike.numbers("message_class"), part.given.dead_letter_classes
    if any(dead):
        why = np.fromiter(dead, np.int64, len(own))
        own = np.where(why, why, own)
    return pa.array(own.astype(np.int32))


def _labels(part: _Part) -> pa.Array:
    return _each(part.alike.labels, lambda label: text_of(label).partition("\0")[0], pa.string())


def _authenticated(part: _Part) -> pa.Array:
    levels, count = part.given.authentication_levels, len(part.alike)
    return pa.array(np.fromiter(levels, np.int64, count) != 0) if any(levels) else pa.repeat(False, count)


def _times(seconds: pa.Array) -> pa.Array:
    known = pc.if_else(pc.equal(seconds, 0), None, seconds)
    return pc.multiply(known, 1_000_000).cast(_TIMESTAMP)


def _transactions(part: _Part, read: Callable[[Numbers], npt.NDArray[Any]], otherwise: pa.Scalar) -> pa.Array:
    """What TransactionHeader.Flags say, of messages that have them."""
    alike = part.alike
    if not alike.sample.transactional:
        return pa.repeat(otherwise, len(alike))
    return pa.array(read(alike.numbers("flags")))


def _each(values: pa.Array, read: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """What is read from each value, of which many are the same."""
    known = values.dictionary_encode()
    return _array([read(value) for value in known.dictionary.to_pylist()], kind).take(known.indices)


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
        lambda p: pa.array(p.given.lookup_ids, pa.int64()),
    ),
    Column(
        "message_id", "STRING", pa.string(), lambda s: _message_id(s.user),
        "Identifier of the message: sending queue manager and number.",
        _message_ids,
    ),
    Column(
        "correlation_id", "STRING", pa.string(),
        lambda s: object_identifier(s.properties.correlation_id),
        "Identifier the application gave to match it with another message.",
        lambda p: _each(p.alike.correlation_ids, object_identifier, pa.string()),
    ),
    Column(
        "class", "INT", pa.int32(),
        lambda s: s.read.dead_letter_class or s.properties.message_class,
        "0 for an ordinary message; acknowledgments and reports have others, and dead letters say why they are.",
        _classes,
    ),
    Column("priority", "INT", pa.int32(), lambda s: s.packet.priority, "0 to 7, 7 first."),
    Column(
        "label", "STRING", pa.string(), lambda s: s.packet.label, "Label.",
        _labels,
    ),
    Column(
        "body", "BINARY", pa.binary(), lambda s: s.packet.body, "Body; a string when it is decoded.",
        lambda p: p.alike.bodies,
    ),
    Column(
        "body_type", "BIGINT", pa.int64(), lambda s: s.properties.body_type, "Type of the body as its sender says.",
        lambda p: pa.array(p.alike.numbers("body_type")),
    ),
    Column(
        "app_specific", "BIGINT", pa.int64(), lambda s: s.properties.application_tag, "Number the application gave.",
        lambda p: pa.array(p.alike.numbers("application_tag")),
    ),
    Column(
        "sent_time", "TIMESTAMP", _TIMESTAMP, lambda s: _time(s.user.sent_time), "When it was sent.",
        lambda p: _times(pa.array(p.alike.numbers("sent_time"))),
    ),
    Column(
        "arrived_time", "TIMESTAMP", _TIMESTAMP, lambda s: _time(s.read.arrived_time),
        "When it reached its queue; null when that is not known.",
        lambda p: _times(pa.array(p.given.arrived_times, pa.int64())),
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
        _authenticated,
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
        lambda p: _transactions(p, lambda flags: flags >> 4 & 0xFFFFF, pa.scalar(None, pa.int64())),
    ),
    Column(
        "first_in_transaction", "BOOLEAN", pa.bool_(),
        lambda s: s.transaction is not None and s.transaction.first_message == 1,
        "Whether its transaction begins with it.",
        lambda p: _transactions(p, lambda flags: flags & 4 != 0, pa.scalar(False)),
    ),
    Column(
        "last_in_transaction", "BOOLEAN", pa.bool_(),
        lambda s: s.transaction is not None and s.transaction.last_message == 1,
        "Whether its transaction ends with it.",
        lambda p: _transactions(p, lambda flags: flags & 8 != 0, pa.scalar(False)),
    ),
    Column(
        "extension", "BINARY", pa.binary(), lambda s: s.packet.extension, "What the application added.",
        lambda p: p.alike.extensions,
    ),
    Column(
        "time_to_reach_queue", "BIGINT", pa.int64(), lambda s: _limit(s.packet.base.time_to_reach_queue_s),
        "Seconds it may travel; null for as long as it takes.",
    ),
    Column(
        "time_to_be_received", "BIGINT", pa.int64(), lambda s: _limit(s.user.time_to_be_received_s),
        "Seconds it may wait to be received; null for ever.",
    ),
    Column(
        "queue_manager", "STRING", pa.string(),
        lambda s: s.read.identity.queue_manager if s.read.identity else None,
        "GUID of the queue manager it was read from; its address where it was read by remote read.",
    ),
    Column(
        "queue_guid", "STRING", pa.string(),
        lambda s: (s.read.identity.queue if s.read.identity else None) or None,
        "GUID of the queue, which tells it from another of that name; null where it was read by remote read.",
    ),
)  # fmt: skip
_MAP: Final = pa.map_(pa.string(), pa.string())


def _headers(extension: bytes) -> list[tuple[str, str]] | None:
    found = read_headers(extension)
    return None if found is None else list(found.items())


HEADERS: Final = Column(
    "headers", "MAP<STRING, STRING>", _MAP,
    lambda s: _headers(s.packet.extension),
    "Headers of NServiceBus or Rebus, from the extension; null when there are none.",
    lambda p: _each(p.alike.extensions, _headers, _MAP),
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
            _array([column.value(source) for source in sources], column.arrow) for column in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def rows(self, messages: Messages) -> pa.RecordBatch:
        """Messages of a queue as rows; those that look alike are read together."""
        count = len(messages.packets)
        found, others = look_alike(messages.packets)
        if len(found) == 1 and not others:
            return self.alike(messages, found[0])
        parts = [(each.places.tolist(), each) for each in found]
        made = [self.alike(messages.at(places), each) for places, each in parts]
        made.append(self.batch(list(messages.at(others).each())))
        return in_order(made, [*(places for places, _ in parts), others], count)

    def alike(self, given: Messages, alike: Alike) -> pa.RecordBatch:
        """Messages that look alike as rows."""
        part, count = _Part(given, alike), len(alike)
        first = ReadMessage(given.queue, given.lookup_ids[0], alike.sample, identity=given.identity)
        source = _source(first)
        arrays = [
            pa.repeat(_array([column.value(source)], column.arrow)[0], count)
            if column.values is None
            else column.values(part)
            for column in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def in_order(
    made: Sequence[pa.RecordBatch], places: Sequence[Sequence[int] | Numbers], count: int
) -> pa.RecordBatch:
    """Rows at their places among ``count``; where there is none, everything is null."""
    rows = pa.concat_batches(made)
    standing = np.concatenate([np.array(part, np.int64) for part in places])
    if len(standing) == count and (np.diff(standing) > 0).all():
        return rows
    numbers = np.full(count, -1, np.int64)
    numbers[standing] = np.arange(len(standing))
    return rows.take(pa.array(numbers, mask=numbers < 0))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as Arrow keeps them. Text of strangers may hold halves of surrogate pairs, which it cannot keep: they
    become the character that stands for what is unknown."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([None if text is None else _whole(text) for text in values], kind)


def _whole(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _source(read: ReadMessage) -> _Source:
    packet = read.packet
    properties = packet.properties  # which reads all headers
    return _Source(read, packet, packet.user, properties, packet.transaction)


def _decoded(column: Column, body: str) -> Column:
    read = BODY_READERS[body]
    if read is None:
        return column
    return column._replace(
        spark="STRING",
        arrow=pa.string(),
        value=lambda s: read(s.properties.body_type, s.packet.body),
        values=lambda p: _array(
            list(map(read, p.alike.numbers("body_type").tolist(), p.alike.bodies.to_pylist())), pa.string()
        ),
    )
