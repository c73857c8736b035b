"""Convert rows to messages: the meaning of columns, the options that fill in missing values, and errors that name the
row.

Columns have the same names as when they are read (:mod:`msmq.spark.schema`), so that rows that were read may be
written. Columns that only a queue manager can fill (lookup_id, message_id, arrived_time and so on) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from msmq.api.generated import msmq_pb2 as pb
from msmq.spark.options import OptionError
from msmq.spark.schema import EXTRAS, HEADERS, NAMES
from msmq.spark.telling import PlainError
from msmq.wire.bodies import HeaderDialect, read_headers, write_body, write_headers


class RowError(PlainError, ValueError):
    """A row that cannot become a message, or that was refused."""

    def __init__(self, place: str, why: object) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place


class Parcel(NamedTuple):
    """Rows as messages, column by column, and their destination."""

    queue: str
    columns: pb.Columns
    rows: Sequence[int]
    """The number of each row in the partition, from 0."""

    def __len__(self) -> int:
        return len(self.rows)

    def heads(self) -> list[tuple[Any, ...]]:
        """Return the properties of each message except its body, whether they are in columns or in kinds."""
        given = self.columns
        of = list(given.kind) or [0] * len(self)

        def filled(column: Sequence[Any], name: str) -> Sequence[Any]:
            said = [getattr(kind, name) for kind in given.kinds]
            return column or [said[kind] for kind in of]

        kinds = [_common(kind) for kind in given.kinds]
        return list(
            zip(
                [kinds[kind] for kind in of],
                filled(given.body_types, "body_type"),
                filled(given.labels, "label"),
                filled(given.extensions, "extension"),
                filled(given.application_tags, "application_tag"),
                filled(given.correlation_ids, "correlation_id"),
                strict=True,
            )
        )


def _common(kind: pb.Message) -> bytes:
    """The properties of a kind that have no column of their own, serialized."""
    common = pb.Message()
    common.CopyFrom(kind)
    for name in ("body_type", *(_FIELDS[column][0] for column in _EACH)):
        common.ClearField(name)
    return common.SerializeToString(deterministic=True)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text is needed, not {type(value).__name__}")
    return value


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _identifier(value: Any) -> bytes:
    """Return the twenty bytes of an identifier, which may be given as the text of the source: {GUID}\number."""
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
"""Columns, the channel's fields that they become, and the conversion of their values."""
_EACH: Final = {
    "label": "labels", "extension": "extensions", "app_specific": "application_tags",
    "correlation_id": "correlation_ids",
}  # fmt: skip
"""Columns that are columns of the channel too; the values of others apply to all messages of a kind."""
_PARCEL_ROWS: Final = 256
_PARCEL_BYTES: Final = 384 << 10
"""The most bytes of a parcel, apart from its last row: the queue manager takes it as a whole."""
_OWN: Final = {"queue", "body", "body_type"}
_IGNORED: Final = {*NAMES, *(column.name for column in EXTRAS.values())} - _FIELDS.keys() - _OWN
_OPTIONS: Final = {
    "label": "label", "priority": "priority", "app_specific": "appSpecific", "response_queue": "responseQueue",
    "admin_queue": "adminQueue", "time_to_reach_queue": "timeToReachQueue",
    "time_to_be_received": "timeToBeReceived", "acknowledgements": "acknowledgements", "journal": "journal",
    "dead_letter": "deadLetter",
}  # fmt: skip
"""Columns and the options that replace them where they are missing or null."""
ROW_OPTIONS: Final = ("queue", "bodyType", "headersAs", *_OPTIONS.values())


class Packer:
    """Makes messages of rows, many at a time."""

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

    def parcels(self, batch: pa.RecordBatch, first: int = 0) -> list[Parcel]:
        """Make messages of the rows of a batch. Those for one queue keep their order; ``first`` is the number of the
        first row.

        Raises:
            RowError: one of them cannot become a message.
        """
        columns = self._lists(batch)
        count = batch.num_rows
        queues = self._queues(columns, count, first)
        each = {
            _EACH[name]: self._values(name, columns[name], first) for name in columns.keys() & _EACH.keys()
        }
        each["bodies"], each["body_types"] = self._bodies(columns, count, first)
        each["kind"], kinds = self._kinds(columns, count, first)
        return [
            Parcel(queue, _columns(kinds, each, rows), [first + row for row in rows])
            for queue, every in queues.items()
            for rows in _cuts(each, every)
        ]

    def _queues(
        self, columns: Mapping[str, list[Any]], count: int, first: int
    ) -> Mapping[str, Sequence[int]]:
        """Return the indexes of the rows for each queue."""
        if self._queue is not None:
            return {self._queue: range(count)}
        named: list[str | None] = columns["queue"]
        found: dict[str, list[int]] = {}
        for row, queue in enumerate(named):
            if not queue:
                raise RowError(
                    f"row {first + row}, column queue", "it names no queue, and there is no option queue"
                )
            found.setdefault(queue, []).append(row)
        return found if len(found) > 1 else dict.fromkeys(found, range(count))

    def _bodies(
        self, columns: Mapping[str, list[Any]], count: int, first: int
    ) -> tuple[list[bytes], list[int]]:
        """Return the bodies as bytes, and their types."""
        usual = self._body_type
        types: list[int | None] = [usual] * count
        if "body_type" in columns:
            given = columns["body_type"]
            types = _converted("body_type", lambda kind: usual if kind is None else _U32(kind), given, first)
        pairs = zip(columns.get("body", [None] * count), types, strict=True)
        written = _converted("body", lambda pair: write_body(pair[0], body_type=pair[1]), pairs, first)
        return [body for body, _ in written], [kind for _, kind in written]

    def _kinds(
        self, columns: Mapping[str, list[Any]], count: int, first: int
    ) -> tuple[list[int], list[pb.Message]]:
        """Return the kind of each row, by index, and the kinds: combinations of properties that have no column."""
        names = sorted(columns.keys() & _FIELDS.keys() - _EACH.keys())
        if not names:
            return [0] * count, [pb.Message(**self._defaults)]
        places: dict[tuple[Any, ...], int] = {}
        of = [
            places.setdefault(said, len(places))
            for said in zip(*(columns[name] for name in names), strict=True)
        ]
        kinds = []
        for said, place in places.items():
            kind = pb.Message(**self._defaults)
            for name, value in zip(names, said, strict=True):
                field, convert = self._fields[name]
                if value is not None:
                    (found,) = _converted(name, convert, [value], first + of.index(place))
                    setattr(kind, field, found)
            kinds.append(kind)
        return of, kinds

    def _lists(self, batch: pa.RecordBatch) -> dict[str, list[Any]]:
        """Return the columns that are written."""
        written = {name: given for name, given in self._columns.items() if name not in _IGNORED}
        columns = {name: batch.column(given).to_pylist() for name, given in written.items()}
        if (given := self._columns.get(HEADERS.name)) is not None:
            extensions = columns.get("extension", [None] * batch.num_rows)
            columns["extension"] = list(zip(extensions, batch.column(given).to_pylist(), strict=True))
        return columns

    def _extension(self, value: Any) -> bytes:
        """Return the extension of a row, given directly or with headers: headers are written, or were read from the
        extension."""
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

    def _values(self, name: str, values: list[Any], first: int) -> list[Any]:
        """Return a column with missing values filled in from options and defaults."""
        field, convert = self._fields[name]
        usual = self._defaults.get(field, _NOTHING[field])
        return _converted(name, lambda value: usual if value is None else convert(value), values, first)


_NOTHING: Final[dict[str, Any]] = {"label": "", "extension": b"", "application_tag": 0, "correlation_id": b""}
"""The values of a message without these columns."""


def _converted(name: str, convert: Callable[[Any], Any], values: Iterable[Any], first: int) -> list[Any]:
    """Convert the values of a column. Raises RowError, which names the row, for one that cannot be converted."""
    made: list[Any] = []
    try:
        for value in values:
            made.append(convert(value))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise RowError(f"row {first + len(made)}, column {name}", error) from error
    return made


def _columns(
    kinds: Sequence[pb.Message], columns: Mapping[str, list[Any]], rows: Sequence[int]
) -> pb.Columns:
    taken = {
        name: column[rows.start : rows.stop] if isinstance(rows, range) else [column[row] for row in rows]
        for name, column in columns.items()
    }
    if len(kinds) == 1:
        return pb.Columns(kinds=kinds, **{**taken, "kind": ()})
    used = {kind: place for place, kind in enumerate(dict.fromkeys(taken["kind"]))}
    taken["kind"] = [used[kind] for kind in taken["kind"]] if len(used) > 1 else []
    return pb.Columns(kinds=[kinds[kind] for kind in used], **taken)


def _cuts(columns: Mapping[str, list[Any]], rows: Sequence[int]) -> Iterator[Sequence[int]]:
    """Divide rows into parcels."""
    sizes = list(map(len, columns["bodies"]))
    if "extensions" in columns:
        sizes = list(map(add, sizes, map(len, columns["extensions"])))
    start = size = 0
    for end, row in enumerate(rows, 1):
        size += sizes[row]
        if size >= _PARCEL_BYTES or end - start >= _PARCEL_ROWS or end == len(rows):
            yield rows[start:end]
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
