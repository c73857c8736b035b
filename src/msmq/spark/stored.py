"""Decode store files into tables: the messages in the data directories of queue managers that do not run.

How it works ------------ Each segment of a store is read by one task, independently. But several segments together
decide the state of a message: its own record, the outcome of its transaction, and records that move or remove it. So
two tables are read: one of messages, and one of what all records say
(:func:`msmq.manager.ledger.ledger.statement_of`), which is small and comes from the indexes of the segments. Spark
finds the state of each message from the small one and joins it to the other, whose rows go to another task only once. A
message that was removed is shown for as long as its record is there, which may be long.

The queue manager must not run; a copy of its directory may be read instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from msmq.errors import DecodeError
from msmq.manager.initialization import DEAD_LETTER, DEAD_XACT, JOURNAL, NOTIFY, ORDER
from msmq.manager.ledger.ledger import (
    NO_TRANSACTION,
    WITH_PAYLOAD,
    Gone,
    Head,
    Kind,
    Moved,
    Named,
    OutcomeHead,
    Put,
    Statement,
    TransactionOutcome,
    statement_of,
)
from msmq.manager.ledger.recovered import marks_in
from msmq.manager.mailbox.stored import from_record
from msmq.spark.decode import BATCH_BYTES, BATCH_ROWS, spread
from msmq.spark.schema import Messages, Table
from msmq.store.browse import Record, SegmentFile, records, segments
from msmq.store.layout import FORMAT_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN_QUEUES: Final = {
    DEAD_LETTER: ".\\deadletter$",
    DEAD_XACT: ".\\xactdeadletter$",
    JOURNAL: ".\\journal$",
    ORDER: ".\\private$\\order_queue$",
    NOTIFY: ".\\private$\\notify_queue$",
}
_PLACE: Final = pa.schema(
    [
        ("store", pa.string()),
        ("file", pa.string()),
        ("address", pa.int64()),
        ("error", pa.string()),
        ("queue_number", pa.int64()),
    ]
)
_PLACE_DDL: Final = "`store` STRING, `file` STRING, `address` BIGINT, `error` STRING, `queue_number` BIGINT"
_MARK: Final = pa.schema(
    [
        ("store", pa.string()),
        ("says", pa.string()),
        ("address", pa.int64()),
        ("lookup_id", pa.int64()),
        ("queue_number", pa.int64()),
        ("transaction", pa.binary()),
        ("outcome", pa.int32()),
        ("name", pa.string()),
    ]
)
_MARK_DDL: Final = (
    "`store` STRING, `says` STRING, `address` BIGINT, `lookup_id` BIGINT, `queue_number` BIGINT, `transaction` BINARY, "
    "`outcome` INT, `name` STRING"
)
_COMMITTED: Final = int(TransactionOutcome.COMMITTED)
_Found = tuple[int, int, bytes, int, int]
"""A message as the columns of :class:`Messages` have it."""


def is_store(path: str | Path) -> bool:
    """True if a path is a store, or the data directory of a queue manager, which contains one."""
    return (_store_of(path) / FORMAT_FILE).is_file()


def _store_of(path: str | Path) -> Path:
    inside = Path(path) / "store"
    return inside if (inside / FORMAT_FILE).is_file() else Path(path)


def decode_stores(
    spark: SparkSession, directories: Sequence[str | Path], *, body: str = "bytes"
) -> DataFrame:
    """Return a table with a row for each message of the stores: the ``store`` and ``file`` it is in, its ``state``, and
    the columns of the source; and a row with ``error`` for each piece that could not be read. ``state`` is
    ``standing``, ``removed``, ``open`` for a message of a transaction without an outcome, or ``aborted``. Express
    messages are in no store.

    Raises:
        StoreError: a directory is no store, or its queue manager runs.
    """
    from pyspark.sql import functions as f

    files = [segment for directory in directories for segment in segments(_store_of(directory))]
    table = Table(body)
    tasks = spread(spark, len(files))
    found = tasks.mapInArrow(partial(_read_messages, files=files, body=body), f"{_PLACE_DDL}, {table.ddl}")
    states = _states(tasks, files)
    # Spark takes a table of a million numbers, which compress well, for one to send to every task.
    rows = found.join(states.hint("merge"), ["store", "address"], "left")
    # Cleaning may have left a record and its copy, of which only the newest has a state.
    rows = rows.where("error IS NOT NULL OR state IS NOT NULL")
    rows = rows.withColumn("state", f.expr("IF(error IS NULL, state, NULL)"))
    rows = rows.withColumn("queue_number", f.coalesce("now_in", "queue_number")).drop("queue")
    columns = ["store", "file", "state", "error", *(name for name, _ in table.types)]
    names = f.broadcast(_names(spark, tasks, files))
    return rows.join(names, ["store", "queue_number"], "left").select(*columns)


def _states(tasks: DataFrame, files: Sequence[SegmentFile]) -> DataFrame:
    """Return a table with the newest record of each message: where it is, the message's state, and the number of the
    queue it is in now."""
    from pyspark.sql import functions as f

    outcomes = _marks_of(tasks, files, Kind.OUTCOME)
    outcomes = outcomes.where(f"outcome <> {int(TransactionOutcome.PREPARED)}")
    outcomes = outcomes.select("store", f.col("transaction").alias("key"), "outcome").distinct()
    changes = _marks_of(tasks, files, Kind.MESSAGE, Kind.DELETE, Kind.DELETE_ALL, Kind.MOVE).drop("outcome")
    # What is in no transaction has a key of its own, so that not all of it comes into one task.
    changes = changes.withColumn("key", f.expr("coalesce(transaction, unhex(hex(lookup_id)))"))
    changes = changes.join(outcomes.hint("merge"), ["store", "key"], "left")
    is_done = f"(transaction IS NULL OR outcome = {_COMMITTED})"
    put = "max(struct(address, queue_number, transaction, outcome)) FILTER (WHERE says = 'Put')"
    moved = f"max(struct(address, queue_number)) FILTER (WHERE says = 'Moved' AND {is_done})"
    removed = f"coalesce(bool_or(says = 'Gone' AND {is_done}), false)"
    messages = changes.groupBy("store", "lookup_id").agg(
        f.expr(put).alias("put"), f.expr(moved).alias("moved"), f.expr(removed).alias("is_removed")
    )
    return messages.where("put IS NOT NULL").select(
        "store",
        "put.address",
        f.expr(
            "CASE WHEN is_removed THEN 'removed' "
            f"WHEN put.transaction IS NULL OR put.outcome = {_COMMITTED} THEN 'standing' "
            "WHEN put.outcome IS NULL THEN 'open' ELSE 'aborted' END"
        ).alias("state"),
        f.expr("IF(moved.address > put.address, moved.queue_number, put.queue_number)").alias("now_in"),
    )


def _names(spark: SparkSession, tasks: DataFrame, files: Sequence[SegmentFile]) -> DataFrame:
    """Return the names of the queues, including deleted ones."""
    from pyspark.sql import functions as f

    named = _marks_of(tasks, files, Kind.VALUE).where("name IS NOT NULL").groupBy("store", "queue_number")
    said = named.agg(f.max_by("name", "address").alias("queue"))
    stores = {segment.directory for segment in files}
    own = [(store, number, queue) for store in stores for number, queue in _OWN_QUEUES.items()]
    return said.unionByName(spark.createDataFrame(own, "store STRING, queue_number BIGINT, queue STRING"))


def _marks_of(tasks: DataFrame, files: Sequence[SegmentFile], *kinds: Kind) -> DataFrame:
    """Return what the records of some kinds say."""
    return tasks.mapInArrow(partial(_read_marks, files=files, kinds=kinds), _MARK_DDL)


# --- on executors -----------------------------------------------------------------------------------------------------


def _read_messages(
    batches: Iterator[pa.RecordBatch], *, files: Sequence[SegmentFile], body: str
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read_messages(files[number], Table(body))


def read_messages(segment: SegmentFile, table: Table) -> Iterator[pa.RecordBatch]:
    """Read the messages of one segment, without Spark."""
    places: list[tuple[Any, ...]] = []
    messages: list[_Found] = []
    size = 0
    where = (segment.directory, segment.path.name)
    for found in records(segment, (Kind.MESSAGE,)):
        if not isinstance(found, Record):
            yield _rows([(*where, None, f"offset {found.offset}: {found.reason}", None)], [], table)
            continue
        head = Head.decode(found.head)
        assert found.payload is not None
        try:
            stored = from_record(found.payload, head.lookup_id, marks_in(head.flags))
            stored.packet.properties  # noqa: B018  # reads and checks all headers
            local = stored.local
        except DecodeError as error:
            yield _rows([(*where, found.address, str(error), head.queue)], [], table)
            continue
        places.append((*where, found.address, None, head.queue))
        messages.append(
            (
                head.lookup_id,
                stored.arrival_time,
                stored.packet.data,
                local.authentication_level,
                local.dead_letter_class,
            )
        )
        size += len(found.payload)
        if len(messages) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _rows(places, messages, table)
            places, messages, size = [], [], 0
    if messages:
        yield _rows(places, messages, table)


def _rows(places: Sequence[tuple[Any, ...]], messages: Sequence[_Found], table: Table) -> pa.RecordBatch:
    """Make rows with their messages, or all without."""
    nothing = [pa.nulls(len(places), field.type) for field in table.arrow] if not messages else []
    ids, arrived, packets, levels, dead = zip(*messages, strict=True) if messages else ((),) * 5
    right = nothing or table.rows(Messages.of("", ids, arrived, packets, levels, dead)).columns
    schema = pa.schema([*_PLACE, *table.arrow])
    return pa.RecordBatch.from_arrays([*_columns(places, _PLACE), *right], schema=schema)


def _columns(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    columns = zip(*rows, strict=True)
    return [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]


def _read_marks(
    batches: Iterator[pa.RecordBatch], *, files: Sequence[SegmentFile], kinds: Sequence[Kind]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from read_marks(files[number], kinds)


def read_marks(segment: SegmentFile, kinds: Sequence[Kind]) -> Iterator[pa.RecordBatch]:
    """Read what the records of some kinds in one segment say about messages and queues, without Spark."""
    rows: list[tuple[Any, ...]] = []
    for found in records(segment, kinds, with_payload=WITH_PAYLOAD.__contains__):
        if isinstance(found, Record):
            said = statement_of(Kind(found.kind), found.head, partial(bytes, found.payload or b""))
            place = (segment.directory, type(said).__name__, found.address)
            rows += [(*place, *mark) for mark in _marks(said)]
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_arrays(_columns(rows, _MARK), schema=_MARK)
            rows = []
    if rows:
        yield pa.RecordBatch.from_arrays(_columns(rows, _MARK), schema=_MARK)


def _marks(said: Statement) -> Iterator[tuple[Any, ...]]:
    """Yield lookup identifier, queue, transaction, outcome and name of the queue."""
    match said:
        case OutcomeHead():
            yield None, None, said.transaction, said.outcome, None
        case Named():
            names = _queue_names(*json.loads(said.value)) if said.value is not None else ()
            yield from ((None, number, None, None, name) for number, name in names)
        case Put() | Moved() | Gone():
            queue = None if isinstance(said, Gone) else said.queue
            transaction = _transaction(said.transaction)
            yield from ((lookup_id, queue, transaction, None, None) for lookup_id in said.lookup_ids)
        case _:
            assert_never(said)


def _transaction(identifier: bytes) -> bytes | None:
    return None if identifier == NO_TRANSACTION else identifier


def _queue_names(key: str, value: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the names and numbers of the queue in a record, of its journal and its subqueues; none if the value is
    another one."""
    if not key.startswith("queue/"):
        return
    path = value["pathname"]
    yield int(key.removeprefix("queue/")), path
    if value["journal"] is not None:
        yield value["journal"], f"{path};JOURNAL"
    for name, (number, _) in value["subqueues"].items():
        yield number, f"{path};{name}"
