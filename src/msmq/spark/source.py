"""The data source ``msmq``: queues as tables and as streams.

``spark.read.format("msmq")`` reads what is in the queues now, ``spark.readStream`` goes on with what comes. Planning
happens on the driver: it surveys the queues, and gives each task the lookup identifiers of its messages. Tasks read
them from the queue manager themselves, in Arrow batches, and miss none silently.
"""

from __future__ import annotations

import logging
import operator
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from msmq.errors import QueueNotFoundError
from msmq.spark.claims import Claims
from msmq.spark.doors import Door, open_door
from msmq.spark.offsets import Offset
from msmq.spark.options import EARLIEST, LATEST, OptionError, SourceOptions
from msmq.spark.planner import MessagesPartition, Planner, runs
from msmq.spark.schema import Messages, Table, joined
from msmq.spark.telling import plainly

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

_ROWS_PER_BATCH: Final = 4_096
_BYTES_PER_BATCH: Final = 16 << 20
_SETTLE_EVERY_S: Final = 1.0


class MsmqDataSource(DataSource):
    """What Spark finds under the name ``msmq``."""

    @classmethod
    def name(cls) -> str:
        return "msmq"

    def __repr__(self) -> str:
        return "msmq"

    def schema(self) -> str:
        return _table(SourceOptions.of(self.options)).ddl

    def reader(self, schema: StructType) -> MsmqReader:
        options = SourceOptions.of(self.options)
        return (FilteringReader if options.push_filters else MsmqReader)(options, _chosen(options, schema))

    def streamReader(self, schema: StructType) -> MsmqStreamReader:
        options = SourceOptions.of(self.options)
        return MsmqStreamReader(options, _chosen(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from msmq.spark.sink import MsmqWriter

        return MsmqWriter(self.options, schema.fieldNames(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from msmq.spark.sink import MsmqStreamWriter

        return MsmqStreamWriter(self.options, schema.fieldNames())


def _table(options: SourceOptions, only: Sequence[str] | None = None) -> Table:
    return Table(options.body, include_headers=options.include_headers, only=only)


def _chosen(options: SourceOptions, schema: StructType) -> tuple[str, ...]:
    """The columns of a schema, which may be fewer than there are: only these are made."""
    types = {name: kind.lower().replace(" ", "") for name, kind in _table(options).types}
    for field in schema:
        kind = types.get(field.name)
        if kind is None:
            raise OptionError(f"There is no column {field.name}. There are: {', '.join(types)}.")
        if field.dataType.simpleString() != kind:
            raise OptionError(f"The column {field.name} is {kind}, not {field.dataType.simpleString()}.")
    return tuple(schema.fieldNames())


def _read(
    options: SourceOptions, columns: Sequence[str], partition: MessagesPartition
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition as rows, on an executor."""
    table = _table(options, columns)
    wanted = set(partition.lookup_ids)
    with plainly(options.access), open_door(options.access) as door:
        planner = Planner(options, door)
        waiting: list[Messages] = []
        count = size = 0
        try:
            now = door.survey(partition.queue, ()).identity
            if partition.identity not in (None, now):
                planner.replaced(partition.queue, partition.identity, now)
                return
            for first, last in runs(partition.lookup_ids):
                for given in door.read(partition.queue, first - 1, last):
                    found = _chosen_of(given, wanted)
                    wanted.difference_update(found.lookup_ids)
                    waiting.append(found)
                    count += len(found.packets)
                    size += found.size
                    if count >= _ROWS_PER_BATCH or size >= _BYTES_PER_BATCH:
                        yield table.rows(joined(waiting)._replace(identity=now))
                        waiting, count, size = [], 0, 0
        except QueueNotFoundError:
            planner.deleted(partition.queue)
        else:
            planner.lost(partition.queue, len(wanted))
        if count:
            yield table.rows(joined(waiting)._replace(identity=now))


def _chosen_of(found: Messages, wanted: set[int]) -> Messages:
    """What is wanted of some messages: others may have come between since, or belong to other tasks."""
    if wanted.issuperset(found.lookup_ids):
        return found
    return found.chosen([lookup_id in wanted for lookup_id in found.lookup_ids])


class MsmqReader(DataSourceReader):
    """Reads what is in the queues, once."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        if options.consume:
            raise OptionError(
                "A batch has no end that the source is told of, so that nothing could be removed safely: "
                "mode=consume is for readStream, with trigger(availableNow=True) to do it once."
            )
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with plainly(options.access), open_door(options.access) as door:
            planner = Planner(options, door, self._wants_queue)
            found = [
                MessagesPartition(part.queue, part.identity, self._wanted_of(part.lookup_ids))
                for part in self._found(planner)
            ]
            return planner.divide(found) or [_NOTHING]

    def _found(self, planner: Planner) -> list[MessagesPartition]:
        starting, ending = self._options.starting, self._options.ending
        start = starting if isinstance(starting, Offset) else Offset()
        found = (
            planner.between(start, ending, exact=False) if isinstance(ending, Offset) else planner.now(start)
        )
        return [] if starting == LATEST else found  # a queue that is not there is an error nevertheless

    def _wants_queue(self, queue: str) -> bool:
        return True

    def _wanted_of(self, lookup_ids: array[int]) -> array[int]:
        return lookup_ids

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessagesPartition)
        return _read(self._options, self._columns, partition) if partition.lookup_ids else iter(())


class FilteringReader(MsmqReader):
    """Takes over the filters that need no message to be read: by queue and by lookup identifier.

    Spark refuses readers that could do this as long as its setting ``spark.sql.python.filterPushdown.enabled`` is
    false, as it usually is. That is why the option ``pushFilters`` asks for it.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        taken = [each for each in filters if _column(each) in ("queue", "lookup_id")]
        self._filters += taken
        return [each for each in filters if each not in taken]

    def _wants_queue(self, queue: str) -> bool:
        return all(_holds(each, queue) for each in self._filters if _column(each) == "queue")

    def _wanted_of(self, lookup_ids: array[int]) -> array[int]:
        tests = [each for each in self._filters if _column(each) == "lookup_id"]
        return array("Q", (number for number in lookup_ids if all(_holds(each, number) for each in tests)))


_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, choices: value in choices,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


def _column(given: Filter) -> str | None:
    """The column that a filter is about, if it is one that can be taken over. Neither of the two is ever null."""
    if isinstance(given, IsNotNull) or type(given) in _COMPARISONS:
        return given.attribute[0]  # type: ignore[attr-defined, no-any-return]
    return None


def _holds(given: Filter, value: str | int) -> bool:
    if isinstance(given, IsNotNull):
        return True
    return _COMPARISONS[type(given)](value, given.value)  # type: ignore[attr-defined]


_NOTHING: Final = MessagesPartition("", None, array("Q"))
"""Spark wants at least one partition of a table."""


class MsmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on and on. One lives on the driver for as long as its query; tasks have copies that only read."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._open: Planner | None = None
        self._door_open: Door | None = None
        self._target: Offset | None = None
        self._settled_at = float("-inf")
        self._claimed = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}  # all that a task needs

    # --- planning ---------------------------------------------------------------------------------------------------

    @property
    def _door(self) -> Door:
        # Not when the reader is made: Spark then raises an UnboundLocalError of its own behind what is said here.
        if self._options.consume and self._options.checkpoint is None:
            raise OptionError(
                "mode=consume removes messages when their batch is committed, and finds that out from the checkpoint "
                "of the query: give the source the option checkpointLocation too, the same as the query's."
            )
        if self._door_open is None:
            self._door_open = open_door(self._options.access).__enter__()
        return self._door_open

    @property
    def _planner(self) -> Planner:
        if self._open is None:
            self._open = Planner(self._options, self._door)
        return self._open

    def initialOffset(self) -> dict[str, Any]:
        starting = self._options.starting
        if isinstance(starting, Offset):
            return starting.value()
        with plainly(self._options.access):
            start = Offset() if starting == EARLIEST else self._planner.latest(Offset())
        return start.value()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_messages:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with plainly(self._options.access):
            self._target = self._planner.latest(Offset())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = Offset.parse(start)
        most, most_bytes = self._options.max_messages, self._options.max_bytes
        if isinstance(limit, ReadAllAvailable):
            most, most_bytes = 0, 0
        elif isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            most_bytes = limit.max_bytes
        with plainly(self._options.access):
            self._settle_now_and_then()
            end = self._planner.latest(begun, self._target, most, most_bytes)
            # Spark compares positions: one where nothing was read stays as it is.
            return (self._planner.with_expiring(begun, end) if any(begun.spans(end)) else end).value()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with plainly(self._options.access):
            return self._partitions(Offset.parse(start), Offset.parse(end))

    def _partitions(self, start: Offset, ended: Offset) -> Sequence[InputPartition]:
        found = self._planner.between(start, ended, exact=True)
        messages = {part.queue: part.lookup_ids for part in found if part.lookup_ids}
        if self._claims is not None and messages:
            if not self._claims.belongs(ended):
                raise OptionError(
                    f"The option checkpointLocation of the source, {self._options.checkpoint}, is not that "
                    "of this query: what it reads could not be removed. Give both the same."
                )
            self._claims.make(ended, messages)
            self._claimed = True
        return self._planner.divide(found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessagesPartition)
        return _read(self._options, self._columns, partition)

    # --- removing ---------------------------------------------------------------------------------------------------

    @property
    def _claims(self) -> Claims | None:
        if not self._options.consume or self._options.checkpoint is None:
            return None
        return Claims(self._options.checkpoint)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch with this end is committed; Spark says so when the next one begins."""
        if self._claims is not None:
            with plainly(self._options.access):
                self._claims.settle_end(self._door, Offset.parse(end))

    def _settle_now_and_then(self) -> None:
        """At once if there may be something to settle: a query that ends may not ask again. An idle one asks many
        times a second."""
        due = self._claimed or time.monotonic() - self._settled_at > _SETTLE_EVERY_S
        if self._claims is not None and due:
            self._claims.settle(self._door)
            self._claimed = self._claims.any()
            self._settled_at = time.monotonic()

    def stop(self) -> None:
        """The query ended, if it is told so: the last batch may be removed now."""
        try:
            if self._claims is not None:
                self._claims.settle(self._door)
        finally:
            if self._door_open is not None:
                self._door_open.__exit__(None, None, None)
                self._door_open = self._open = None
