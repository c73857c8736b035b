"""Rows to messages: which column is what, what an option gives to rows that do not say, and which row is at fault.

Columns have the names they have when they are read (:mod:`msmq.spark.schema`), so that what was read may be written.
Those that only a queue manager can say (lookup_id, message_id, arrived_time and so on) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.message import Message
from msmq.spark.options import OptionError
from msmq.spark.schema import EXTRAS, HEADERS, NAMES
from msmq.spark.telling import PlainError
from msmq.wire.bodies import HeaderDialect, read_headers, write_body, write_headers


class RowError(PlainError, ValueError):
    """A row that cannot become a message, or that was refused."""

    def __init__(self, place: str, why: object) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place


class Letter(NamedTuple):
    """A row as a message, and where it goes."""

    queue: str
    message: Message
    row: int
    """Its number in the partition, from 0."""

    @property
    def kind(self) -> pb.Message:
        """What it may say in the same way as others."""
        return _kind(self.message)

    @property
    def own(self) -> Sequence[tuple[Any, ...]]:
        """What it says for itself: its body first, and whatever else has a column of its own."""
        return [self.message.own()[:_OWN_COLUMNS]]


class Parcel(NamedTuple):
    """Rows that say the same but for some columns, as messages, and where they go."""

    queue: str
    columns: pb.Columns
    row: int
    """The number of the first in the partition."""

    def __len__(self) -> int:
        return len(self.columns.bodies)

    @property
    def kind(self) -> pb.Message:
        """What all of them say."""
        return _kind(Message.from_proto(self.columns.kinds[0]))

    @property
    def own(self) -> Sequence[tuple[Any, ...]]:
        """What each says for itself."""
        given, usual = self.columns, Message.from_proto(self.columns.kinds[0]).own()[:_OWN_COLUMNS]
        columns: tuple[Sequence[Any], ...] = (
            given.bodies, given.body_types, given.labels, given.extensions, given.application_tags,
            given.correlation_ids,
        )  # fmt: skip
        pairs = zip(columns, usual, strict=True)
        return list(zip(*(column or [value] * len(self) for column, value in pairs), strict=True))


_OWN_COLUMNS: Final = 6
"""Rows have columns for so many of what a message says for itself; the others say it in common."""


def _kind(message: Message) -> pb.Message:
    common = message.with_(
        body=b"", body_type=0, label="", extension=b"", application_tag=0, correlation_id=b""
    )
    return common.to_proto()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is needed, not {type(value).__name__}")
    return value


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _identifier(value: Any) -> bytes:
    """Twenty bytes, or the text that the source gives: {GUID}\\number."""
    if isinstance(value, bytes):
        if len(value) != 20:
            raise ValueError(f"an identifier has 20 bytes, not {len(value)}")
        return value
    guid, _, number = _text(value).partition("\\")
    return UUID(guid.strip("{}")).bytes_le + int(number or 0).to_bytes(4, "little")


def _in(lowest: int, highest: int) -> Callable[[Any], int]:
    def checked(value: Any) -> int:
        number = int(value)
        if not lowest <= number <= highest:
            raise ValueError(f"it is between {lowest} and {highest}, not {number}")
        return number

    return checked


_U32: Final = _in(0, 0xFFFFFFFF)
_FIELDS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "label": ("label", _text),
    "priority": ("priority", _in(0, 7)),
    "app_specific": ("application_tag", _U32),
    "correlation_id": ("correlation_id", _identifier),
    "extension": ("extension", _bytes),
    "response_queue": ("response_queue", _text),
    "admin_queue": ("admin_queue", _text),
    "time_to_reach_queue": ("time_to_reach_queue_s", _U32),
    "time_to_be_received": ("time_to_be_received_s", _U32),
    "acknowledgements": ("acknowledgements", _in(0, 15)),
    "journal": ("journal", bool),
    "dead_letter": ("dead_letter", bool),
}
"""Columns, the fields of the channel they become, and what they may hold."""
_EACH: Final = {
    "label": "labels", "extension": "extensions", "app_specific": "application_tags",
    "correlation_id": "correlation_ids",
}  # fmt: skip
"""Columns that are columns of the channel too; what the others say holds for all messages of a kind."""
_PARCEL_ROWS: Final = 256
_PARCEL_BYTES: Final = 384 << 10
"""What a parcel has at most, or one row more: the queue manager takes it as a whole."""
_OWN: Final = {"queue", "body", "body_type"}
_IGNORED: Final = {*NAMES, *(column.name for column in EXTRAS.values())} - _FIELDS.keys() - _OWN
_OPTIONS: Final = {
    "label": "label", "priority": "priority", "app_specific": "appSpecific", "response_queue": "responseQueue",
    "admin_queue": "adminQueue", "time_to_reach_queue": "timeToReachQueue",
    "time_to_be_received": "timeToBeReceived", "acknowledgements": "acknowledgements", "journal": "journal",
    "dead_letter": "deadLetter",
}  # fmt: skip
"""Columns and the option that stands in for them where they are missing or null."""
LETTER_OPTIONS: Final = ("queue", "bodyType", "headersAs", *_OPTIONS.values())


class Letters:
    """Makes messages of rows."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._queue = options.get("queue")
        self._body_type = _given(options, "bodyType", _U32)
        self._columns = {name.lower(): name for name in columns}
        unknown = self._columns.keys() - _FIELDS.keys() - _OWN - _IGNORED
        if unknown:
            raise OptionError(
                f"No message has what the column(s) {', '.join(sorted(unknown))} say. Columns that are written: "
                f"{', '.join(sorted(_FIELDS.keys() | _OWN))}."
            )
        self._fields = _FIELDS | {"extension": ("extension", self._extension)}
        self._dialect = _given(options, "headersAs", HeaderDialect)
        if HEADERS.name in self._columns and self._dialect is None and "extension" not in self._columns:
            raise OptionError(
                "The column headers becomes the extension of messages, which NServiceBus and Rebus write differently: "
                f"say whose by the option headersAs, {' or '.join(HeaderDialect)}; or write the column extension."
            )
        if self._queue is None and "queue" not in self._columns:
            raise OptionError("Say where to write: by the option queue, or by a column queue.")
        self._defaults: dict[str, Any] = {"dead_letter": True}
        for column, option in _OPTIONS.items():
            value = _given(options, option, _read_option(column))
            if value is not None:
                self._defaults[_FIELDS[column][0]] = value

    def parcels(self, batch: pa.RecordBatch, first: int = 0) -> list[Parcel] | None:
        """The rows of a batch, many at a time. None when they go to several queues, differ in more than columns can
        say, or one of them is at fault: :meth:`of` tells which."""
        columns = self._lists(batch)
        shared = columns.keys() & _FIELDS.keys() - _EACH.keys()
        if self._queue is None:
            shared.add("queue")
        if not batch.num_rows or any(len(set(columns[name])) > 1 for name in shared):
            return None
        queue = self._queue if self._queue is not None else columns["queue"][0]
        try:
            return self._parcels(queue, columns, shared - {"queue"}, first, batch.num_rows) if queue else None
        except (TypeError, ValueError, KeyError, OverflowError):
            return None

    def _parcels(
        self, queue: str, columns: dict[str, list[Any]], shared: set[str], first: int, count: int
    ) -> list[Parcel]:
        common = pb.Message(**self._defaults)
        for name in shared:
            field, convert = self._fields[name]
            if (value := columns[name][0]) is not None:
                setattr(common, field, convert(value))
        each = {_EACH[name]: self._values(name, columns[name]) for name in columns.keys() & _EACH.keys()}
        bodies = columns.get("body") or [None] * count
        types = columns.get("body_type") or [None] * len(bodies)
        pairs = [
            write_body(body, body_type=self._body_type if kind is None else kind)
            for body, kind in zip(bodies, types, strict=True)
        ]
        each["bodies"], each["body_types"] = map(list, zip(*pairs, strict=True))
        return [
            Parcel(queue, _columns(common, each, start, end), first + start)
            for start, end in _cuts(each["bodies"])
        ]

    def _lists(self, batch: pa.RecordBatch) -> dict[str, list[Any]]:
        """The columns that are written."""
        written = {name: given for name, given in self._columns.items() if name not in _IGNORED}
        columns = {name: batch.column(given).to_pylist() for name, given in written.items()}
        if (given := self._columns.get(HEADERS.name)) is not None:
            extensions = columns.get("extension", [None] * batch.num_rows)
            columns["extension"] = list(zip(extensions, batch.column(given).to_pylist(), strict=True))
        return columns

    def _extension(self, value: Any) -> bytes:
        """The extension that a row has, by itself or beside headers: these are written, or have been read from it."""
        if not isinstance(value, tuple):
            return _bytes(value)
        extension, pairs = value
        if pairs is None:
            return b"" if extension is None else _bytes(extension)
        headers = dict(pairs)
        if self._dialect is not None:
            return write_headers(headers, self._dialect)
        if extension is None or read_headers(_bytes(extension)) != headers:
            raise ValueError(
                "the column headers has others than it. The option headersAs, "
                f"{' or '.join(HeaderDialect)}, writes those of the column"
            )
        return _bytes(extension)

    def _values(self, name: str, values: list[Any]) -> list[Any]:
        """A column with what options and defaults give to rows that do not say."""
        field, convert = self._fields[name]
        usual = self._defaults.get(field, _NOTHING[field])
        return [usual if value is None else convert(value) for value in values]

    def of(self, batch: pa.RecordBatch, first: int = 0) -> Iterator[Letter]:
        """The rows of a batch; ``first`` is the number of its first row."""
        columns = self._lists(batch)
        nothing = [None] * batch.num_rows
        queues, bodies = columns.get("queue", nothing), columns.get("body", nothing)
        types = columns.get("body_type", nothing)
        fields = [(name, *self._fields[name], columns[name]) for name in columns.keys() & _FIELDS.keys()]
        for row in range(batch.num_rows):
            queue = self._queue if self._queue is not None else queues[row]
            column = "queue"
            try:
                if not queue:
                    raise ValueError("it names no queue, and there is no option queue")
                column = "body"
                body_type = types[row] if types[row] is not None else self._body_type
                body, kind = write_body(bodies[row], body_type=body_type)
                made = pb.Message(body=body, body_type=kind, **self._defaults)
                for column, field, convert, values in fields:  # noqa: B007  # the error names it
                    value = values[row]
                    if value is not None:
                        setattr(made, field, convert(value))
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise RowError(f"row {first + row}, column {column}", error) from error
            yield Letter(queue, Message.from_proto(made), first + row)


_NOTHING: Final[dict[str, Any]] = {"label": "", "extension": b"", "application_tag": 0, "correlation_id": b""}
"""What a message has that does not say."""


def _columns(common: pb.Message, columns: Mapping[str, list[Any]], start: int, end: int) -> pb.Columns:
    if (start, end) == (0, len(columns["bodies"])):
        return pb.Columns(kinds=[common], **columns)
    return pb.Columns(kinds=[common], **{name: column[start:end] for name, column in columns.items()})


def _cuts(bodies: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where parcels begin and end."""
    start = size = 0
    for end, body in enumerate(bodies, 1):
        size += len(body)
        if size >= _PARCEL_BYTES or end - start >= _PARCEL_ROWS or end == len(bodies):
            yield start, end
            start, size = end, 0


def _read_option(column: str) -> Callable[[str], Any]:
    convert = _FIELDS[column][1]
    if convert is bool:
        return lambda text: {"true": True, "false": False}[text.lower()]
    return convert


def _given(options: Mapping[str, str], name: str, convert: Callable[[str], Any]) -> Any:
    value = options.get(name)
    if value is None:
        return None
    try:
        return convert(value)
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(f"{name}: {value!r} cannot be ({error}).") from error
