"""Captures into tables: every packet of any number of pcap and pcapng files, one row each.

How the work is divided
-----------------------
A task has some small files, one file, or a share of a large one. Each share reads all frames of its file but puts
together only its own TCP connections, so that no task needs another one's. Passing over a frame costs about a tenth of
decoding what is in it; beyond :data:`MOST_SHARES` the reading would outweigh the rest. A task holds one batch of rows,
and what the reassembly of connections holds, which is bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from msmq.capture.cutter import Damage
from msmq.capture.format import Format
from msmq.capture.inputs import Found, Source, Tally, find_packets
from msmq.capture.problems import UnreadableError
from msmq.capture.streams import Endpoint
from msmq.errors import DecodeError
from msmq.spark.schema import ReadMessage, Table
from msmq.wire.framing import decode_packet
from msmq.wire.message import UserMessage
from msmq.wire.packets import Ping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES: Final = 256 << 20
GROUP_BYTES: Final = 32 << 20
MOST_SHARES: Final = 8
BATCH_ROWS: Final = 2_000
BATCH_BYTES: Final = 16 << 20
_FRAME: Final = pa.schema(
    [
        ("file", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("stream", pa.int64()),
        ("source", pa.string()),
        ("destination", pa.string()),
        ("packet", pa.string()),
        ("size", pa.int64()),
        ("error", pa.string()),
    ]
)
_FRAME_DDL: Final = (
    "`file` STRING, `time` TIMESTAMP, `stream` BIGINT, `source` STRING, `destination` STRING, `packet` STRING, "
    "`size` BIGINT, `error` STRING"
)
_OF_A_QUEUE: Final = ("queue", "lookup_id", "arrived_time")
"""Columns of a message that only a queue knows."""


class Task(NamedTuple):
    """One share of one file."""

    path: str
    share: int = 0
    shares: int = 1

    def wants(self, source: Endpoint, destination: Endpoint) -> bool:
        """Whether a connection is of this share; both of its directions are of the same one."""
        return self.shares == 1 or _lot(source, destination) % self.shares == self.share

    def stream(self, number: int) -> int:
        """A number for the connection that no other share of the file gives."""
        return (number - 1) * self.shares + self.share + 1


@lru_cache(maxsize=1 << 14)
def _lot(source: Endpoint, destination: Endpoint) -> int:
    """A number that depends on a connection alone, on every computer."""
    ends = "|".join(sorted((_endpoint(source), _endpoint(destination))))
    return hashlib.blake2b(ends.encode(), digest_size=1).digest()[0]


def plan(paths: Iterable[str | Path], split_bytes: int = SPLIT_BYTES) -> list[list[Task]]:
    """What each task of Spark does: some small files, one file, or a share of a large one."""
    groups: list[list[Task]] = []
    waiting: list[Task] = []
    size = 0
    for path in map(Path, paths):
        length = path.stat().st_size
        shares = min(MOST_SHARES, max(1, -(-length // split_bytes)))
        if length >= GROUP_BYTES or shares > 1:
            groups += [[Task(str(path), share, shares)] for share in range(shares)]
            continue
        if size + length > GROUP_BYTES:
            groups.append(waiting)
            waiting, size = [], 0
        waiting.append(Task(str(path)))
        size += length
    return [*groups, waiting] if waiting else groups


def decode(
    spark: SparkSession,
    paths: Sequence[str | Path],
    *,
    body: str = "bytes",
    port: int = 1801,
    ping_port: int = 3527,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """A table with a row for each packet of the captures, and for each piece that could not be read (``error``). The
    files are read where the tasks run, by the same paths."""
    groups = plan(paths, split_bytes)
    work = partial(_work, groups=groups, body=body, port=port, ping_port=ping_port)
    return spread(spark, len(groups)).mapInArrow(work, f"{_FRAME_DDL}, {_message_ddl(Table(body))}")


def spread(spark: SparkSession, count: int) -> DataFrame:
    """A table of the numbers below ``count``, each in a partition of its own."""
    return spark.range(0, count, 1, numPartitions=max(1, count))


def _message_ddl(table: Table) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in table.types if name not in _OF_A_QUEUE)


def _work(
    batches: Iterator[pa.RecordBatch], *, groups: list[list[Task]], body: str, port: int, ping_port: int
) -> Iterator[pa.RecordBatch]:
    """What an executor does with its tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for task in groups[number]:
                yield from read(task, Table(body), port=port, ping_port=ping_port)


def read(task: Task, table: Table, *, port: int, ping_port: int) -> Iterator[pa.RecordBatch]:
    """Decode one share of one file, without Spark."""
    rows = _Rows(task, table)
    try:
        with Source.open(task.path) as source:
            for found in find_packets(source, Format.AUTO, port, ping_port, Tally(), task.wants):
                if found.origin is None and task.share:
                    continue  # damage of the file itself is told once
                rows.add(found)
                if rows.full:
                    yield rows.batch()
    except UnreadableError as error:
        if not task.share:
            rows.unreadable(str(error))
    if len(rows):
        yield rows.batch()


class _Rows:
    """Rows on their way into a batch."""

    def __init__(self, task: Task, table: Table) -> None:
        self._task = task
        self._table = table
        self._names = [name for name, _ in table.types if name not in _OF_A_QUEUE]
        self._schema = pa.schema([*_FRAME, *(table.arrow.field(name) for name in self._names)])
        self._frames: list[tuple[Any, ...]] = []
        self._messages: list[ReadMessage] = []
        self._places: list[int | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def full(self) -> bool:
        return len(self._frames) >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def unreadable(self, reason: str) -> None:
        self._add(None, (None,) * 4, "Malformed", None, reason)

    def add(self, found: Found) -> None:
        origin, cut = found.origin, found.cut
        where: tuple[Any, ...] = (None,) * 4
        if origin is not None:
            stream = None if origin.stream is None else self._task.stream(origin.stream)
            ends = _endpoint(origin.source), _endpoint(origin.destination)
            where = (round(origin.time * 1_000_000), stream, *ends)
        if isinstance(cut, Damage):
            self._add(None, where, cut.packet, cut.size, cut.reason)
            return
        try:
            packet = Ping.parse(cut.data) if found.is_ping else decode_packet(cut.data)
        except DecodeError as error:
            self._add(None, where, "Malformed", len(cut.data), str(error))
            return
        message = packet if isinstance(packet, UserMessage) else None
        self._add(message, where, type(packet).__name__, len(cut.data), None)

    def _add(
        self,
        message: UserMessage | None,
        where: tuple[Any, ...],
        packet: str,
        size: int | None,
        error: str | None,
    ) -> None:
        self._frames.append((self._task.path, *where, packet, size, error))
        if message is None:
            self._places.append(None)
            return
        self._places.append(len(self._messages))
        self._messages.append(ReadMessage("", 0, message))
        self._bytes += len(message.data)

    def batch(self) -> pa.RecordBatch:
        """Everything so far; begins anew."""
        frames = [
            pa.array(column, field.type)
            for column, field in zip(zip(*self._frames, strict=True), _FRAME, strict=True)
        ]
        made = self._table.batch(self._messages)
        columns = [made.column(name) for name in self._names]
        if len(self._messages) < len(self._frames):
            places = pa.array(self._places, pa.int64())
            columns = [column.take(places) for column in columns]
        self._frames, self._messages, self._places, self._bytes = [], [], [], 0
        return pa.RecordBatch.from_arrays([*frames, *columns], schema=self._schema)


@lru_cache(maxsize=1 << 14)
def _endpoint(endpoint: Endpoint) -> str:
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
