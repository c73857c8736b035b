"""The data source ``msmq``: queues as tables and as streams.

``spark.read.format("msmq")`` reads what is in the queues now, ``spark.readStream`` goes on with what comes. Planning
happens on the driver: it surveys the queues, and gives each task the lookup identifiers of its messages. Tasks read
them from the queue manager themselves, in Arrow batches, and miss none silently.
"""

from __future__ import annotations

import logging
import operator
import os
import time
from array import array
from bisect import bisect_left
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

from msmq.client.queue import QueueIdentity, Survey
from msmq.errors import QueueNotFoundError
from msmq.spark.claims import Claims
from msmq.spark.doors import Door, open_door
from msmq.spark.offsets import LANES, Offset, Span, lane_of
from msmq.spark.options import EARLIEST, LATEST, OptionError, SourceOptions
from msmq.spark.schema import Messages, Table, joined
from msmq.spark.telling import PlainError, plainly

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

_LAST_NUMBER: Final = (1 << 56) - 1
_ROWS_PER_BATCH: Final = 4_096
_BYTES_PER_BATCH: Final = 16 << 20
_LEAST_PER_PARTITION: Final = 5_000
_LARGEST_MESSAGE: Final = 8 << 20
"""More than any message takes: a survey that stops so far below its limit has seen all that is there."""
_SETTLE_EVERY_S: Final = 1.0
_HELD_PAUSE_S: Final = 0.1


class DataLossError(PlainError):
    """Messages that were to be read are not in their queue."""


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


class MessagesPartition(InputPartition):
    """The messages of one task: of one queue, ascending."""

    def __init__(self, queue: str, identity: QueueIdentity | None, lookup_ids: array[int]) -> None:
        self.queue = queue
        self.identity = identity
        self.lookup_ids = lookup_ids

    def __repr__(self) -> str:
        return f"MessagesPartition({self.queue!r}, {len(self.lookup_ids)} messages)"


class _Planner:
    """What batch and streaming have in common, on the driver."""

    def __init__(
        self, options: SourceOptions, door: Door, wanted: Callable[[str], bool] | None = None
    ) -> None:
        self._options = options
        self._door = door
        self._wanted = wanted
        self._told_of_pattern = False

    def queues(self) -> tuple[str, ...]:
        pattern = self._options.pattern
        queues = self._options.queues if pattern is None else tuple(self._door.queues(pattern))
        if not queues:
            self.nothing_matches()
        return queues if self._wanted is None else tuple(filter(self._wanted, queues))

    def latest(
        self, start: Offset, upto: Offset | None = None, most_messages: int = 0, most_bytes: int = 0
    ) -> Offset:
        """How far one may read from a position; never beyond ``upto``. Each queue has its share of a limit, and what
        some leave of it goes to the others."""
        position, left, left_bytes = start, most_messages, most_bytes
        waiting, first = list(self.queues()), True
        while waiting:
            full: list[str] = []
            for place, queue in enumerate(waiting):
                if (most_messages and left <= 0) or (most_bytes and left_bytes <= 0):
                    return position
                others = len(waiting) - place
                # 0 is no limit, for the door too
                share, share_bytes = -(-max(left, 0) // others), -(-max(left_bytes, 0) // others)
                found = self._survey(queue, position, upto, share, share_bytes)
                if found is None or (not first and most_bytes and found.bytes > left_bytes):
                    continue  # a survey gives at least one message; only the first round need have one
                left -= len(found.lookup_ids)
                left_bytes -= found.bytes
                position = position.reading({queue: _ends(found.lookup_ids)}, {queue: found.identity})
                by_count = most_messages and len(found.lookup_ids) >= share
                by_size = most_bytes and found.lookup_ids and found.bytes > share_bytes - _LARGEST_MESSAGE
                if by_count or by_size:
                    full.append(queue)
            waiting, first = full, False
        return position

    def now(self, start: Offset) -> list[MessagesPartition]:
        """The messages behind a position that may be read now, queue by queue."""
        found = ((queue, self._survey(queue, start, None, 0, 0)) for queue in self.queues())
        return [
            MessagesPartition(queue, survey.identity, survey.lookup_ids) for queue, survey in found if survey
        ]

    def _survey(
        self, queue: str, start: Offset, upto: Offset | None, most_messages: int, most_bytes: int
    ) -> Survey | None:
        """What is in a queue; None if it is gone, and that is no error. A queue that is not the one that was read is
        surveyed from its beginning."""
        try:
            found = self._door.survey(queue, _whole(start, queue, upto), most_messages, most_bytes)
            if start.is_of(queue, found.identity):
                return found
            self.replaced(queue, start.identity(queue), found.identity)
            begun = start.reading({queue: ()}, {queue: found.identity})
            found = self._door.survey(queue, _whole(begun, queue, upto), most_messages, most_bytes)
            return found if begun.is_of(queue, found.identity) else None
        except QueueNotFoundError:
            named = self._options.pattern is None
            if named and queue not in start.queues:
                raise
            if named and self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{queue} was deleted, with whatever came to it and was not read yet. The option "
                    "failOnDataLoss=false waits for another one of that name."
                ) from None
            _log.warning("%s is gone, and is read again when it is back.", queue)
            return None

    def between(self, start: Offset, end: Offset, *, exact: bool) -> list[MessagesPartition]:
        """The messages between two positions, queue by queue. ``exact``: the end was seen in the queue, so that it
        must be there."""
        spans: dict[str, list[Span]] = {}
        for span in start.spans(end):
            if self._wanted is not None and not self._wanted(span.queue):
                continue
            spans.setdefault(span.queue, []).append(span)
        found: list[MessagesPartition] = []
        for queue, parts in spans.items():
            try:
                survey = self._all_of(queue, parts)
            except QueueNotFoundError:
                self.deleted(queue)
                continue
            if not end.is_of(queue, survey.identity):
                self.replaced(queue, end.identity(queue), survey.identity)
                continue
            if exact:
                there = set(survey.lookup_ids)
                missing = [part.last_lookup_id for part in parts if part.last_lookup_id not in there]
                self.lost(queue, len(missing))
            found.append(MessagesPartition(queue, survey.identity, survey.lookup_ids))
        return found

    def _all_of(self, queue: str, parts: list[Span]) -> Survey:
        """Everything in some spans; waits for messages that somebody holds, which may come back."""
        wanted = [(part.first_lookup_id, part.last_lookup_id) for part in parts]
        deadline = time.monotonic() + self._options.access.timeout_s
        while True:
            survey = self._door.survey(queue, wanted)
            held = survey.held
            if not held:
                return survey
            if time.monotonic() > deadline:
                raise DataLossError(
                    f"Another reader, or an open transaction, holds {len(held)} message(s) of {queue} that belong to "
                    f"this batch, {held[0]:#x} among them. Let nobody else receive from the queue, or try again."
                )
            time.sleep(_HELD_PAUSE_S)

    def nothing_matches(self) -> None:
        """No queue has a path like the pattern: one may come, or the pattern was meant otherwise."""
        if not self._told_of_pattern:
            _log.warning(
                "No queue has a whole path that queuePattern=%s matches. Paths are like HOST\\private$\\orders, and a "
                "backslash and a dollar sign of theirs are written \\\\ and \\$ in a regular expression.",
                self._options.pattern,
            )
        self._told_of_pattern = True

    def deleted(self, queue: str) -> None:
        """A queue is gone, with messages of a batch."""
        text = (
            f"{queue} was deleted before this batch was read. The option failOnDataLoss=false goes on without it, and "
            "reads it again when it is back."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def replaced(self, queue: str, before: QueueIdentity | None, now: QueueIdentity) -> None:
        """A queue has the name of one that was read before and is not there any more."""
        assert before is not None
        if before.queue_manager != now.queue_manager:
            what = (
                f"{queue} is that of another queue manager now, {now.queue_manager}; {before.queue_manager} was read "
                "before: it was set up anew, or the option server names another one"
            )
        else:
            what = f"{queue} was deleted and created again"
        text = (
            f"{what}. What came to the old queue and was not read yet is lost. The option failOnDataLoss=false begins "
            "anew, with everything that is in the queue now."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def lost(self, queue: str, count: int) -> None:
        """Some messages are gone."""
        if not count:
            return
        text = (
            f"{count} message(s) of {queue} that belong to this batch are gone: another reader took them, or they "
            "expired. The option failOnDataLoss=false goes on without them."
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(text)
        _log.warning(text)

    def divide(self, messages: Sequence[MessagesPartition]) -> list[MessagesPartition]:
        """Messages in about equal parts: as many as the option says, or as there are processors here."""
        total = sum(len(part.lookup_ids) for part in messages)
        wanted = self._options.partitions or min(os.cpu_count() or 1, -(-total // _LEAST_PER_PARTITION))
        size = max(-(-total // max(wanted, 1)), 1)
        return [
            MessagesPartition(part.queue, part.identity, part.lookup_ids[place : place + size])
            for part in messages
            for place in range(0, len(part.lookup_ids), size)
        ]


def _whole(start: Offset, queue: str, upto: Offset | None) -> list[tuple[int, int]]:
    """Everything behind a position, lane by lane; that is the order of the queue."""
    begun = start.lanes(queue)
    ended = None if upto is None else upto.lanes(queue, start.identity(queue))
    spans = (
        Span(queue, lane, begun.get(lane, 0), _LAST_NUMBER if ended is None else ended.get(lane, 0))
        for lane in range(LANES)
    )
    return [(span.first_lookup_id, span.last_lookup_id) for span in spans if span.end > span.start]


def _ends(ids: array[int]) -> array[int]:
    """The last of each lane."""
    return array("Q", (last for _, last in _runs(ids)))


def _read(
    options: SourceOptions, columns: Sequence[str], partition: MessagesPartition
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition as rows, on an executor."""
    table = _table(options, columns)
    wanted = set(partition.lookup_ids)
    with plainly(options.access), open_door(options.access) as door:
        planner = _Planner(options, door)
        waiting: list[Messages] = []
        count = size = 0
        try:
            now = door.survey(partition.queue, ()).identity
            if partition.identity not in (None, now):
                planner.replaced(partition.queue, partition.identity, now)
                return
            for first, last in _runs(partition.lookup_ids):
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


def _runs(ids: array[int]) -> Iterator[tuple[int, int]]:
    """First and last of each lane among ascending identifiers: what lies between lanes is another's."""
    start = 0
    while start < len(ids):
        end = bisect_left(ids, lane_of(ids[start]) + 1, start, key=lane_of)
        yield ids[start], ids[end - 1]
        start = end


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
            planner = _Planner(options, door, self._wants_queue)
            found = [
                MessagesPartition(part.queue, part.identity, self._wanted_of(part.lookup_ids))
                for part in self._found(planner)
            ]
            return planner.divide(found) or [_NOTHING]

    def _found(self, planner: _Planner) -> list[MessagesPartition]:
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
        if options.consume and options.checkpoint is None:
            raise OptionError(
                "mode=consume removes messages when their batch is committed, and finds that out from the checkpoint "
                "of the query: give the source the option checkpointLocation too, the same as the query's."
            )
        self._options = options
        self._columns = columns
        self._open: _Planner | None = None
        self._door_open: Door | None = None
        self._target: Offset | None = None
        self._settled_at = float("-inf")
        self._claimed = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns}  # all that a task needs

    # --- planning ---------------------------------------------------------------------------------------------------

    @property
    def _door(self) -> Door:
        if self._door_open is None:
            self._door_open = open_door(self._options.access).__enter__()
        return self._door_open

    @property
    def _planner(self) -> _Planner:
        if self._open is None:
            self._open = _Planner(self._options, self._door)
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
            return self._planner.latest(begun, self._target, most, most_bytes).value()

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
