"""The columns of a message, declared once: name, type in Spark and in Arrow, meaning and source.

A row is made from the packet as it travelled and from what the queue knows about it. Nothing is guessed: what a message
does not have is null. Values are read from the packets of a whole batch together (:mod:`msmq.spark.packets`), and
values that many messages share, such as names of queues, are converted to text once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from msmq.client.queue import QueueIdentity
from msmq.errors import DecodeError
from msmq.manager.messages.message import SenderIdentifierType, sender_sid
from msmq.spark.bodies import BODY_READERS, BodyReader, text, value
from msmq.spark.packets import Numbers, Packets, Stack, column_of, each, numbers_of, texts_of, user_header
from msmq.wire.bodies import read_headers
from msmq.wire.declare import text_of
from msmq.wire.delivery import format_name
from msmq.wire.guid import guid_text
from msmq.wire.headers import INFINITE, USER_RECOVERABLE, UserHeader

SCHEMA_VERSION: Final = 1
"""Written into archives; rises when a column changes its meaning or type, not when one is added."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_NO_TEXT: Final = texts_of([None])[0]
_DELIVERIES: Final = texts_of(["express", "recoverable", "transactional"])


class Messages(NamedTuple):
    """Messages of one queue, column by column."""

    queue: str
    lookup_ids: Numbers
    arrived_times: Numbers
    """In seconds since 1970; 0 if it is not known."""
    packets: Stack
    authentication_levels: Numbers
    dead_letter_classes: Numbers
    identity: QueueIdentity | None = None
    """The queue they are in; None if they are in none, or it is not known."""
    server: str | None = None
    """The name of their computer."""

    @classmethod
    def of(
        cls,
        queue: str,
        lookup_ids: Iterable[int],
        arrived_times: Iterable[int],
        packets: Sequence[bytes],
        authentication_levels: Iterable[int] = (),
        dead_letter_classes: Iterable[int] = (),
    ) -> Messages:
        """Make columns of messages; without levels and classes these are 0."""
        count = len(packets)
        ids, times, levels, classes = (
            np.fromiter(column or bytes(count), np.int64, count)
            for column in (lookup_ids, arrived_times, authentication_levels, dead_letter_classes)
        )
        return cls(queue, ids, times, Stack.of(packets), levels, classes)

    @property
    def numbers(self) -> tuple[Numbers, ...]:
        """The columns but for the packets."""
        return self.lookup_ids, self.arrived_times, self.authentication_levels, self.dead_letter_classes

    def chosen(self, wanted: npt.NDArray[np.bool_]) -> Messages:
        """Return the messages for which ``wanted`` is true."""
        return self._with(self.packets.chosen(wanted), [column[wanted] for column in self.numbers])

    def _with(self, packets: Stack, numbers: Iterable[Numbers]) -> Messages:
        ids, times, levels, classes = numbers
        return Messages(self.queue, ids, times, packets, levels, classes, self.identity, self.server)

    @property
    def size(self) -> int:
        """The bytes of their packets."""
        return len(self.packets.data)


def joined(parts: Sequence[Messages]) -> Messages:
    """Join columns of consecutive messages of one queue."""
    if len(parts) == 1:
        return parts[0]
    numbers = map(np.concatenate, zip(*(part.numbers for part in parts), strict=True))
    return parts[0]._with(Stack.joined([part.packets for part in parts]), numbers)


class _Batch:
    """The argument of the functions in the table below: what the queue knows about some messages, and their packets."""

    def __init__(self, given: Messages) -> None:
        self.given = given
        self.packets = Packets(given.packets)
        self._users: pa.Array | None = None
        self._sources: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.given.packets)

    def same(self, value: str | None) -> pa.Array:
        """Return a column with the same value for all."""
        return pa.repeat(texts_of([value])[0], len(self))

    def texts(self, values: pa.Array, read: Callable[[Any], str | None]) -> pa.Array:
        return each(values, read, texts_of)

    def named(self, read: Callable[[UserHeader], str | None]) -> pa.Array:
        """Return a column that is read from the UserHeaders."""
        if self._users is None:
            self._users = self.packets.names.dictionary_encode()
        return self.texts(self._users, lambda named: read(user_header(named)))

    @property
    def sources(self) -> pa.Array:
        """The queue managers that sent them."""
        if self._sources is None:
            self._sources = column_of(self.packets.heads["source"]).dictionary_encode()
        return self._sources


class Column(NamedTuple):
    """One column. ``spark`` is its type in DDL."""

    name: str
    spark: str
    arrow: pa.DataType
    values: Callable[[_Batch], pa.Array]
    meaning: str


_guid_text = lru_cache(maxsize=1 << 12)(guid_text)
"""Cached, because few queue managers send many messages."""


def object_identifier(identifier: bytes) -> str | None:
    """Write an OBJECTID for people: the queue manager and a number. None if it is empty."""
    if not any(identifier):
        return None
    return f"{{{_guid_text(identifier[:16])}}}\\{int.from_bytes(identifier[16:], 'little')}"


def _numbers(values: npt.NDArray[Any]) -> pa.Array:
    return numbers_of(values.astype(np.int64))


def _message_ids(batch: _Batch) -> pa.Array:
    heads = batch.packets.heads
    senders = batch.texts(batch.sources, lambda guid: f"{{{_guid_text(guid)}}}\\")
    numbers = _numbers(heads["number"])
    texts = pc.binary_join_element_wise(senders, numbers.cast(pa.string()), texts_of([""])[0])
    if heads["number"].all():
        return texts
    nobody = pc.and_(
        numbers_of(heads["number"] == 0), pc.equal(senders, texts_of([f"{{{_guid_text(bytes(16))}}}\\"])[0])
    )
    return pc.if_else(nobody, _NO_TEXT, texts)


def _classes(batch: _Batch) -> pa.Array:
    own, dead = batch.packets.properties["message_class"], batch.given.dead_letter_classes
    if dead.any():
        own = np.where(dead, dead, own)
    return numbers_of(own.astype(np.int32))


def _priorities(batch: _Batch) -> pa.Array:
    """Return the priorities: zero for a transactional message, whatever its BaseHeader says."""
    packets = batch.packets
    return numbers_of(np.where(packets.transactional, 0, packets.heads["base_flags"] & 7).astype(np.int32))


def _label(label: bytes) -> str:
    return text_of(label).partition("\0")[0]


def _authenticated(batch: _Batch) -> pa.Array:
    return numbers_of(batch.given.authentication_levels != 0)


def _times(seconds: npt.NDArray[Any]) -> pa.Array:
    """Convert to microseconds, in which Arrow keeps times."""
    return numbers_of(seconds.astype(np.int64) * 1_000_000, seconds == 0).cast(_TIMESTAMP)


def _limits(seconds: npt.NDArray[Any]) -> pa.Array:
    return numbers_of(seconds.astype(np.int64), seconds == INFINITE)


def _delivery(batch: _Batch) -> pa.Array:
    packets = batch.packets
    kinds = np.where(packets.transactional, 2, (packets.flags & USER_RECOVERABLE) != 0)
    return _DELIVERIES.take(numbers_of(kinds))


def _transaction_ids(batch: _Batch) -> pa.Array:
    packets = batch.packets
    return numbers_of(packets.transaction_flags >> 4 & 0xFFFFF, ~packets.transactional)


def _senders(batch: _Batch) -> pa.Array:
    packets = batch.packets
    if not packets.sender_kinds.any():
        return batch.same(None)
    texts = batch.texts(packets.senders, _sid_text)
    return pc.if_else(numbers_of(packets.sender_kinds == SenderIdentifierType.SID), texts, _NO_TEXT)


def _destination(user: UserHeader) -> str | None:
    return format_name(user, user.destination_reference, user.destination_queue)


def _admin(user: UserHeader) -> str | None:
    return None if user.admin_queue is None else format_name(user, user.admin_reference, user.admin_queue)


def _response(user: UserHeader) -> str | None:
    return (
        format_name(user, reference, user.response_queue) if (reference := user.response_reference) else None
    )


@lru_cache(maxsize=1 << 12)
def _sid_text(identifier: bytes) -> str | None:
    if not identifier:
        return None
    try:
        return str(sender_sid(SenderIdentifierType.SID, identifier))
    except DecodeError:
        return None


COLUMNS: Final = (
    Column(
        "queue", "STRING", pa.string(), lambda b: b.same(b.given.queue),
        "Path of the queue, with a dot for its computer.",
    ),
    Column(
        "lookup_id", "BIGINT", pa.int64(), lambda b: _numbers(b.given.lookup_ids),
        "Place in the queue; the top byte is 7 minus the priority.",
    ),
    Column(
        "message_id", "STRING", pa.string(), _message_ids,
        "Identifier of the message: sending queue manager and number.",
    ),
    Column(
        "correlation_id", "STRING", pa.string(),
        lambda b: b.texts(column_of(b.packets.properties["correlation_id"]), object_identifier),
        "Identifier the application gave to match it with another message.",
    ),
    Column(
        "class", "INT", pa.int32(), _classes,
        "0 for an ordinary message; acknowledgments and reports have others, and dead letters say why they are.",
    ),
    Column("priority", "INT", pa.int32(), _priorities, "0 to 7, 7 first."),
    Column("label", "STRING", pa.string(), lambda b: b.texts(b.packets.labels, _label), "Label."),
    Column(
        "body", "BINARY", pa.binary(), lambda b: b.packets.bodies, "Body; a string when it is decoded.",
    ),
    Column(
        "body_type", "BIGINT", pa.int64(), lambda b: _numbers(b.packets.properties["body_type"]),
        "Type of the body as its sender says.",
    ),
    Column(
        "app_specific", "BIGINT", pa.int64(), lambda b: _numbers(b.packets.properties["application_tag"]),
        "Number the application gave.",
    ),
    Column(
        "sent_time", "TIMESTAMP", _TIMESTAMP, lambda b: _times(b.packets.heads["sent"]),
        "When it was sent.",
    ),
    Column(
        "arrived_time", "TIMESTAMP", _TIMESTAMP, lambda b: _times(b.given.arrived_times),
        "When it reached its queue; null when that is not known.",
    ),
    Column(
        "source_machine", "STRING", pa.string(),
        lambda b: b.texts(b.sources, _guid_text),
        "GUID of the queue manager it was sent from.",
    ),
    Column("sender_id", "STRING", pa.string(), _senders, "SID its sender claims."),
    Column(
        "authenticated", "BOOLEAN", pa.bool_(), _authenticated, "Whether the queue manager verified its signature.",
    ),
    Column(
        "encrypted", "BOOLEAN", pa.bool_(), lambda b: numbers_of(b.packets.properties["privacy_level"] != 0),
        "Whether it travelled encrypted.",
    ),
    Column("response_queue", "STRING", pa.string(), lambda b: b.named(_response), "Queue for answers."),
    Column("admin_queue", "STRING", pa.string(), lambda b: b.named(_admin), "Queue for acknowledgments."),
    Column(
        "destination_queue", "STRING", pa.string(), lambda b: b.named(_destination),
        "Queue it was sent to; dead letters and journals are elsewhere.",
    ),
    Column("delivery", "STRING", pa.string(), _delivery, "express, recoverable or transactional."),
    Column(
        "transaction_id", "BIGINT", pa.int64(), _transaction_ids,
        "Number that messages of one transaction share; null outside of one.",
    ),
    Column(
        "first_in_transaction", "BOOLEAN", pa.bool_(), lambda b: numbers_of(b.packets.transaction_flags & 4 != 0),
        "Whether its transaction begins with it.",
    ),
    Column(
        "last_in_transaction", "BOOLEAN", pa.bool_(), lambda b: numbers_of(b.packets.transaction_flags & 8 != 0),
        "Whether its transaction ends with it.",
    ),
    Column(
        "extension", "BINARY", pa.binary(), lambda b: b.packets.extensions, "What the application added.",
    ),
    Column(
        "time_to_reach_queue", "BIGINT", pa.int64(), lambda b: _limits(b.packets.heads["reach_s"]),
        "Seconds it may travel; null for as long as it takes.",
    ),
    Column(
        "time_to_be_received", "BIGINT", pa.int64(), lambda b: _limits(b.packets.heads["received_s"]),
        "Seconds it may wait to be received; null for ever.",
    ),
    Column(
        "queue_manager", "STRING", pa.string(),
        lambda b: b.same(b.given.identity.queue_manager if b.given.identity else None),
        "GUID of the queue manager it was read from; its address where it was read by remote read.",
    ),
    Column(
        "queue_guid", "STRING", pa.string(),
        lambda b: b.same((b.given.identity.queue if b.given.identity else None) or None),
        "GUID of the queue, which tells it from another of that name; null where it was read by remote read.",
    ),
    Column(
        "server", "STRING", pa.string(), lambda b: b.same(b.given.server),
        "Name of the computer it was read from; its address where it was read by remote read.",
    ),
)  # fmt: skip
_MAP: Final = pa.map_(pa.string(), pa.string())


def _headers(extension: bytes) -> list[tuple[str, str]] | None:
    found = read_headers(extension)
    return None if found is None else list(found.items())


HEADERS: Final = Column(
    "headers", "MAP<STRING, STRING>", _MAP,
    lambda b: each(b.packets.extensions, _headers, partial(pa.array, type=_MAP)),
    "Headers of NServiceBus or Rebus, from the extension; null when there are none.",
)  # fmt: skip
TEXT: Final = Column(
    "text", "STRING", pa.string(), lambda b: _read_bodies(b, text),
    "Body as text: as its type says, or else UTF-8; null when it is neither.",
)  # fmt: skip
VALUE: Final = Column(
    "value", "STRING", pa.string(), lambda b: _read_bodies(b, value),
    "Value of the body as the formatter of .NET wrote it, or of a body in JSON, as JSON; null when it has none.",
)  # fmt: skip
EXTRAS: Final = {"includeText": TEXT, "includeValue": VALUE, "includeHeaders": HEADERS}
"""Columns that exist only with an option."""
NAMES: Final = tuple(column.name for column in COLUMNS)


class Table:
    """The columns that one reader has: how bodies are decoded, which options add others, or a selection by name."""

    def __init__(
        self, body: str = "bytes", *, extras: Collection[str] = (), only: Sequence[str] | None = None
    ) -> None:
        self._columns = [_decoded(column, body) if column.name == "body" else column for column in COLUMNS]
        self._columns += [column for option, column in EXTRAS.items() if option in extras]
        if only is not None:
            by_name = {column.name: column for column in self._columns}
            self._columns = [by_name[name] for name in only]
        self.arrow = pa.schema([(column.name, column.arrow) for column in self._columns])

    @property
    def ddl(self) -> str:
        """The schema in Spark's DDL."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.types)

    @property
    def types(self) -> list[tuple[str, str]]:
        """The columns with their types in Spark."""
        return [(column.name, column.spark) for column in self._columns]

    def rows(self, messages: Messages) -> pa.RecordBatch:
        """Make rows of messages of a queue, column by column."""
        batch = _Batch(messages)
        return pa.RecordBatch.from_arrays(
            [column.values(batch) for column in self._columns], schema=self.arrow
        )

    def spread(self, messages: Messages, places: Sequence[int], count: int) -> pa.RecordBatch:
        """Make rows of messages at their indices among ``count``; the other rows are null."""
        numbers = np.full(count, -1, np.int64)
        numbers[np.array(places, np.int64)] = np.arange(len(places))
        return self.rows(messages).take(numbers_of(numbers, numbers < 0))


def _decoded(column: Column, body: str) -> Column:
    read = BODY_READERS[body]
    if read is None:
        return column

    return column._replace(spark="STRING", arrow=pa.string(), values=lambda batch: _read_bodies(batch, read))


def _read_bodies(batch: _Batch, read: BodyReader) -> pa.Array:
    kinds, bodies = batch.packets.properties["body_type"].tolist(), batch.packets.bodies.to_pylist()
    return texts_of(list(map(read, kinds, bodies)))
