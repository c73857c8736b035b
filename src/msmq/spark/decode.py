"""Decode captures into tables: one row for each packet of any number of pcap and pcapng files.

How the work is divided ----------------------- A task has some small files, one file, or a share of a large one. Each
share reads all frames of its file but reassembles only its own TCP connections, so that tasks are independent. Skipping
a frame costs about a tenth of decoding it; with more than :data:`MOST_SHARES` shares the reading would outweigh the
rest. A task holds one batch of rows, and the state of the reassembly, which is bounded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from msmq.capture.cutter import Damage
from msmq.capture.format import Format
from msmq.capture.inputs import Found, Origin, Source, Tally, find_packets
from msmq.capture.problems import UnreadableError
from msmq.capture.streams import Endpoint
from msmq.errors import DecodeError
from msmq.spark.schema import NAMES, Messages, Table
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
_OF_A_QUEUE: Final = frozenset(
    ("queue", "lookup_id", "arrived_time", "queue_manager", "queue_guid", "server")
)


class Task(NamedTuple):
    """One share of one file."""

    path: str
    share: int = 0
    shares: int = 1

    def wants(self, source: Endpoint, destination: Endpoint) -> bool:
        """True if a connection belongs to this share; both of its directions are in the same one."""
        return _lot(source, destination) % self.shares == self.share

    def stream(self, number: int) -> int:
        """Return a number for the connection that no other share of the file uses."""
        return (number - 1) * self.shares + self.share + 1


@lru_cache(maxsize=1 << 14)
def _lot(source: Endpoint, destination: Endpoint) -> int:
    """Return a number that depends only on the connection, and is the same on every computer."""
    ends = "|".join(sorted((_endpoint(source), _endpoint(destination))))
    return hashlib.blake2b(ends.encode(), digest_size=1).digest()[0]


def plan(paths: Iterable[str | Path], split_bytes: int = SPLIT_BYTES) -> list[list[Task]]:
    """Divide the files among tasks: some small files, one file, or a share of a large one for each."""
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
    """Return a table with a row for each packet of the captures, and for each piece that could not be read (``error``).
    The files are read where the tasks run, by the same paths."""
    groups = plan(paths, split_bytes)
    work = partial(_work, groups=groups, body=body, port=port, ping_port=ping_port)
    return spread(spark, len(groups)).mapInArrow(work, f"{_FRAME_DDL}, {columns_of(body).ddl}")


def spread(spark: SparkSession, count: int) -> DataFrame:
    """Return a table of the numbers below ``count``, each in a partition of its own."""
    return spark.range(0, count, 1, numPartitions=max(1, count))


def columns_of(body: str = "bytes") -> Table:
    """Return the columns of a message in a capture: all but those that only a queue knows."""
    return Table(body, only=[name for name in NAMES if name not in _OF_A_QUEUE])


def _work(
    batches: Iterator[pa.RecordBatch], *, groups: list[list[Task]], body: str, port: int, ping_port: int
) -> Iterator[pa.RecordBatch]:
    """Do the tasks of one executor."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for task in groups[number]:
                yield from read(task, columns_of(body), port=port, ping_port=ping_port)


def read(task: Task, table: Table, *, port: int, ping_port: int) -> Iterator[pa.RecordBatch]:
    """Decode one share of one file, without Spark."""
    rows = _Rows(task, table)
    try:
        with Source.open(task.path) as source:
            wanted = task.wants if task.shares > 1 else None
            for found in find_packets(source, Format.AUTO, port, ping_port, Tally(), wanted):
                if found.origin is None and task.share:
                    continue  # damage of the file itself is reported once
                rows.add(found)
                if rows.full:
                    yield rows.batch()
    except UnreadableError as error:
        if not task.share:
            rows.unreadable(str(error))
    if len(rows):
        yield rows.batch()


class _Rows:
    """Collects rows for a batch: where each packet was found, what it is, and the messages among them. Packets are made
    into columns when the batch is full."""

    def __init__(self, task: Task, table: Table) -> None:
        self._task = task
        self._table = table
        self._schema = pa.schema([*_FRAME, *table.arrow])
        self._begin()

    def _begin(self) -> None:
        self._origins: list[Origin | None] = []
        self._kinds: list[str] = []
        self._sizes: list[int | None] = []
        self._errors: dict[int, str] = {}
        self._rows: list[int] = []  # of the packets that were not read yet
        self._packets: list[bytes] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def full(self) -> bool:
        return len(self._kinds) >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def unreadable(self, reason: str) -> None:
        self._odd(None, "Malformed", None, reason)

    def add(self, found: Found) -> None:
        cut, is_ping, origin = found
        if isinstance(cut, Damage):
            self._odd(origin, cut.packet, cut.size, cut.reason)
            return
        data = cut.data
        if is_ping:
            self._add_ping(origin, data)
            return
        self._rows.append(len(self._kinds))
        self._packets.append(data)
        self._origins.append(origin)
        self._kinds.append("UserMessage")
        self._sizes.append(len(data))
        self._bytes += len(data)

    def _add_ping(self, origin: Origin | None, data: bytes) -> None:
        try:
            packet = Ping.parse(data)
        except DecodeError as error:
            self._odd(origin, "Malformed", len(data), str(error))
        else:
            self._odd(origin, type(packet).__name__, len(data))

    def _odd(self, origin: Origin | None, kind: str, size: int | None, error: str | None = None) -> None:
        """Add a row without a message."""
        if error is not None:
            self._errors[len(self._kinds)] = error
        self._origins.append(origin)
        self._kinds.append(kind)
        self._sizes.append(size)

    def batch(self) -> pa.RecordBatch:
        """Return everything collected so far, and begin a new batch."""
        messages = self._read()
        frames = [pa.array(column, field.type) for column, field in zip(self._frames(), _FRAME, strict=True)]
        self._begin()
        return pa.RecordBatch.from_arrays([*frames, *messages.columns], schema=self._schema)

    def _read(self) -> pa.RecordBatch:
        """Read the columns of the messages, and find out what each packet is."""
        messages: list[bytes] = []
        standing: list[int] = []
        for row, data in zip(self._rows, self._packets, strict=True):
            try:
                packet = decode_packet(data)
            except DecodeError as error:
                self._kinds[row], self._errors[row] = "Malformed", str(error)
                continue
            if isinstance(packet, UserMessage):
                messages.append(packet.data)
                standing.append(row)
            else:
                self._kinds[row] = type(packet).__name__
        nowhere = Messages.of("", (), (), messages)
        return self._table.spread(nowhere, standing, len(self))

    def _frames(self) -> Iterator[Iterable[Any]]:
        """Yield the columns of :data:`_FRAME`."""
        count, origins, task = len(self), self._origins, self._task
        yield repeat(self._task.path, count)
        yield [None if origin is None else round(origin.time * 1_000_000) for origin in origins]
        yield [
            None if origin is None or origin.stream is None else task.stream(origin.stream)
            for origin in origins
        ]
        yield [None if origin is None else _endpoint(origin.source) for origin in origins]
        yield [None if origin is None else _endpoint(origin.destination) for origin in origins]
        yield self._kinds
        yield self._sizes
        yield map(self._errors.get, range(count))


@lru_cache(maxsize=1 << 14)
def _endpoint(endpoint: Endpoint) -> str:
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
