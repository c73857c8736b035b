"""The data source ``msmq``: queues as tables and as streams.

``spark.read.format("msmq")`` reads what is in the queues now, ``spark.readStream`` also what comes later. Planning
happens on the driver: it surveys the queues, and gives each task the lookup identifiers of its messages. Tasks read
them from the queue manager themselves, in Arrow batches, and report any that are missing.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from msmq.errors import QueueNotFoundError
from msmq.spark.claims import Claims, Log
from msmq.spark.doors import open_door
from msmq.spark.fleet import Fleet, FleetPlanner
from msmq.spark.kept import KeptClaims
from msmq.spark.offsets import NUMBERS, FleetOffset
from msmq.spark.options import EARLIEST, LATEST, OptionError, SourceOptions
from msmq.spark.planner import MessagesPartition, Planner, divide, runs
from msmq.spark.progress import latest_with_lag
from msmq.spark.schema import Messages, Table, joined
from msmq.spark.storage import is_local, storage_of
from msmq.spark.telling import plainly
from msmq.spark.versions import (
    TELLS_POSITIONS,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    in_batches,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ROWS_PER_BATCH: Final = 4_096
_BYTES_PER_BATCH: Final = 16 << 20
_SETTLE_EVERY_S: Final = 1.0


class MsmqDataSource(DataSource):
    """The data source that Spark finds under the name ``msmq``."""

    @classmethod
    def name(cls) -> str:
        return "msmq"

    def __repr__(self) -> str:
        return "msmq"

    def schema(self) -> str:
        return _table(SourceOptions.of(self.options)).ddl

    def reader(self, schema: StructType) -> MsmqReader:
        options = SourceOptions.of(self.options)
        kind = MsmqReader
        if options.push_filters:
            try:
                from msmq.spark.filters import FilteringReader
            except ImportError:
                raise OptionError("pushFilters needs Spark 4.1 or later.") from None
            kind = FilteringReader
        return kind(options, _chosen(options, schema))

    def streamReader(self, schema: StructType) -> MsmqStreamReader:
        options = SourceOptions.of(self.options)
        return MsmqStreamReader(options, _chosen(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from msmq.spark.sink import MsmqWriter

        return MsmqWriter(self.options, schema.fieldNames(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from msmq.spark.sink import MsmqStreamWriter

        return in_batches(MsmqStreamWriter(self.options, schema.fieldNames()), schema)


def _table(options: SourceOptions, only: Sequence[str] | None = None) -> Table:
    return Table(options.body, extras=options.extras, only=only)


def _chosen(options: SourceOptions, schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema, which may be fewer than there are: only these are made."""
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
    """Read the messages of a partition as rows, on an executor."""
    table = _table(options, columns)
    missing = Missing(partition.lookup_ids)
    access = options.access_to(partition.server)
    with plainly(access), open_door(access) as door:
        planner = Planner(options, door, server=partition.server)
        waiting: list[Messages] = []
        count = size = 0
        try:
            seen = missing.highest
            now = door.survey(partition.queue, (), known=partition.identity, seen=seen)
            of = now.identity
            if now.restored or (partition.identity is not None and not partition.identity.is_same(of)):
                planner.replaced(partition.queue, partition.identity, now)
                return
            for first, last in runs(partition.lookup_ids):
                for given in door.read(partition.queue, first - 1, last):
                    found = missing.found(given)
                    waiting.append(found)
                    count += len(found.packets)
                    size += found.size
                    if count >= _ROWS_PER_BATCH or size >= _BYTES_PER_BATCH:
                        yield table.rows(joined(waiting)._replace(identity=of, server=door.host.name))
                        waiting, count, size = [], 0, 0
        except QueueNotFoundError:
            planner.deleted(partition.queue)
        else:
            planner.missing(partition, missing.left)
        if count:
            yield table.rows(joined(waiting)._replace(identity=of, server=door.host.name))


class Missing:
    """The messages of a task that it has not found yet, by their lookup identifiers."""

    def __init__(self, lookup_ids: array[int]) -> None:
        self._ids = np.sort(np.array(lookup_ids, np.int64))
        self._waiting = np.ones(len(self._ids), np.bool_)

    @property
    def highest(self) -> int:
        """The highest number of arrival among them."""
        return int((self._ids & NUMBERS).max())

    def found(self, given: Messages) -> Messages:
        """Return those of some messages that were missing until now: others may have come since, or belong to other
        tasks."""
        places = np.minimum(np.searchsorted(self._ids, given.lookup_ids), len(self._ids) - 1)
        wanted = (self._ids[places] == given.lookup_ids) & self._waiting[places]
        self._waiting[places[wanted]] = False
        return given if wanted.all() else given.chosen(wanted)

    @property
    def left(self) -> set[int]:
        return set(self._ids[self._waiting].tolist())


class MsmqReader(DataSourceReader):
    """Reads once what is in the queues."""

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
        fleet = Fleet.of(options)
        try:
            with plainly(options.access):
                planner = FleetPlanner(options, fleet, self._wants_queue)
                found = [part.chosen(self._wanted_of(part.lookup_ids)) for part in self._found(planner)]
                return divide(options, found) or [_NOTHING]
        finally:
            fleet.close()

    def _found(self, planner: FleetPlanner) -> list[MessagesPartition]:
        starting, ending = self._options.starting, self._options.ending
        start = starting if isinstance(starting, FleetOffset) else FleetOffset()
        if self._options.starting_time_s is not None:
            start = planner.since(self._options.starting_time_s)
        end = ending if isinstance(ending, FleetOffset) else None
        if self._options.ending_time_s is not None:
            end = planner.since(self._options.ending_time_s)
        found = planner.now(start) if end is None else planner.between(start, end, exact=False)
        return [] if starting == LATEST else found  # a queue that does not exist is still an error

    def _wants_queue(self, queue: str) -> bool:
        return True

    def _wanted_of(self, lookup_ids: array[int]) -> array[int]:
        return lookup_ids

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessagesPartition)
        return _read(self._options, self._columns, partition) if partition.lookup_ids else iter(())


_NOTHING: Final = MessagesPartition("", "", None, array("Q"))
"""Spark wants at least one partition of a table."""


class MsmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads continuously. One lives on the driver as long as its query; tasks have copies that only read."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._open: FleetPlanner | None = None
        self._target: FleetOffset | None = None
        self._end: FleetOffset | None = None
        self._settled_at = float("-inf")
        self._batch_at = time.monotonic()
        self._claimed = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}  # all that a task needs

    # --- planning ---------------------------------------------------------------------------------------------------

    @property
    def _planner(self) -> FleetPlanner:
        # Not when the reader is made: then Spark raises an UnboundLocalError of its own after this error.
        if self._options.consume and self._options.checkpoint is None:
            raise OptionError(
                "mode=consume removes messages when their batch is committed, and finds that out from the checkpoint "
                "of the query: give the source the option checkpointLocation too, the same as the query's."
            )
        if not TELLS_POSITIONS and self._log is None:
            raise OptionError(
                "A Spark before 4.2 does not say where a query is: give the source the option checkpointLocation too, "
                "the same as the query's, in a local folder."
            )
        if self._open is None:
            fleet = Fleet.of(self._options)
            self._open = FleetPlanner(self._options, fleet)
        return self._open

    def initialOffset(self) -> dict[str, Any]:
        starting = self._options.starting
        with plainly(self._options.access):
            if self._claims is not None:
                self._claims.begin(self._planner)
            if isinstance(starting, FleetOffset):
                return starting.value()
            if self._options.starting_time_s is not None:
                return self._planner.since(self._options.starting_time_s).value()
            start = FleetOffset() if starting == EARLIEST else self._planner.latest(FleetOffset())
        return start.value()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_messages:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with plainly(self._options.access):
            self._target = self._planner.latest(FleetOffset())

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        if start is None:
            start, limit = self._where_the_query_is(), ReadAllAvailable()
        begun = FleetOffset.parse(start)
        most, most_bytes = self._options.max_messages, self._options.max_bytes
        if isinstance(limit, ReadAllAvailable):
            most, most_bytes = 0, 0
        elif isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            most_bytes = limit.max_bytes
        with plainly(self._options.access):
            self._settle_now_and_then(begun)
            self._end = self._planner.latest(begun, self._target, most, most_bytes)
            if self._end != begun and self._is_too_little():
                self._end = begun
            return self._end.value()

    def _is_too_little(self) -> bool:
        """True if the next batch waits for more messages. A run that ends when it has read what is there never
        waits.
        """
        now = time.monotonic()
        enough = self._planner.planned_messages >= self._options.min_messages
        if enough or self._target is not None or now - self._batch_at >= self._options.max_delay_s:
            self._batch_at = now
            return False
        return True

    def _where_the_query_is(self) -> dict[str, Any]:
        """Return what Spark before 4.2 does not say: where its planned batches end, by its own log. It does not say
        either how much it wants, or that it wants no more than is there now, so a batch has everything."""
        planned = self._log.last() if self._log is not None else ()
        if len(planned) > 1:
            raise OptionError(
                "A Spark before 4.2 does not say where a source is, and its log has several positions: let a query "
                "have one source msmq, which may read several servers by the option servers."
            )
        return planned[0].value() if planned else self.initialOffset()

    @property
    def _log(self) -> Log | None:
        """What Spark has recorded about the query, if it can be read here."""
        checkpoint = self._options.checkpoint
        return None if checkpoint is None or not is_local(checkpoint) else Log(storage_of(checkpoint))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where everything ends that is there now, with what is left after the batch: for the progress of a
        query."""
        if self._end is None:
            return None
        with plainly(self._options.access):
            return latest_with_lag(self._end, self._planner.waiting(self._end), time.time())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with plainly(self._options.access):
            return self._partitions(FleetOffset.parse(start), FleetOffset.parse(end))

    def _partitions(self, start: FleetOffset, ended: FleetOffset) -> Sequence[InputPartition]:
        found = self._planner.between(start, ended, exact=True)
        if self._claims is not None:
            found = self._claims.begun(self._planner.fleet, ended, found)
        found = [part for part in found if part.lookup_ids]
        if self._claims is not None and found:
            if not self._claims.belongs(ended):
                raise OptionError(
                    f"The option checkpointLocation of the source, {self._options.checkpoint}, is not that "
                    "of this query: what it reads could not be removed. Give both the same, with its scheme (s3a://, "
                    "hdfs://) if it is not on this computer."
                )
            self._claims.make(self._planner.fleet, ended, found)
            self._claimed = True
        return divide(self._options, found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessagesPartition)
        return _read(self._options, self._columns, partition)

    # --- removing ---------------------------------------------------------------------------------------------------

    @property
    def _claims(self) -> Claims | KeptClaims | None:
        checkpoint = self._options.checkpoint
        if not self._options.consume or checkpoint is None:
            return None
        return Claims(checkpoint) if is_local(checkpoint) else KeptClaims(checkpoint)

    def commit(self, end: dict[str, Any]) -> None:
        """Settle the batch with this end, which is committed; Spark says so when the next one begins."""
        if self._claims is not None:
            with plainly(self._options.access):
                self._claims.settle_end(self._planner.fleet, FleetOffset.parse(end))

    def _settle_now_and_then(self, committed: FleetOffset) -> None:
        """Settle at once if there may be something to settle, because a query that ends may not ask again; otherwise
        only now and then, because an idle query asks many times a second."""
        due = self._claimed or time.monotonic() - self._settled_at > _SETTLE_EVERY_S
        if self._claims is not None and due:
            self._claims.settle(self._planner.fleet, committed)
            self._claimed = self._claims.any()
            self._settled_at = time.monotonic()

    def stop(self) -> None:
        """Remove the last batch, which is possible if Spark says that the query ended."""
        try:
            if self._claims is not None:
                self._claims.settle(self._planner.fleet)
        finally:
            if self._open is not None:
                self._open.fleet.close()
                self._open = None
