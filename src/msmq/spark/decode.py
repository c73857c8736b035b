"""Captures into tables: every packet of any number of pcap and pcapng files, one row each.

Files are spread over the tasks. A large one is given to several tasks, each of which reads all of it but puts together
only its share of the TCP streams: reading is cheap beside decoding, and no packet needs another one's stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
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
BATCH_ROWS: Final = 2_000
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
    share: int
    shares: int

    def wants(self, source: Endpoint, destination: Endpoint) -> bool:
        """Whether a connection is of this share; both of its directions are of the same one."""
        if self.shares == 1:
            return True
        ends = "|".join(sorted((_endpoint(source), _endpoint(destination))))
        return hashlib.blake2b(ends.encode(), digest_size=4).digest()[0] % self.shares == self.share


def plan(paths: Iterable[str | Path], split_bytes: int = SPLIT_BYTES) -> list[Task]:
    """The tasks for some files, large files in several shares."""
    tasks = []
    for path in map(Path, paths):
        shares = min(256, max(1, -(-path.stat().st_size // split_bytes)))
        tasks += [Task(str(path), share, shares) for share in range(shares)]
    return tasks


def decode(
    spark: SparkSession,
    paths: Sequence[str | Path],
    *,
    body: str = "bytes",
    port: int = 1801,
    ping_port: int = 3527,
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """A table with a row for each packet of the captures, and for each piece that could not be read (``error``)."""
    tasks = plan(paths, split_bytes)
    frame = spark.createDataFrame(tasks, "path STRING, share INT, shares INT").repartition(max(1, len(tasks)))
    work = partial(_work, body=body, port=port, ping_port=ping_port)
    return frame.mapInArrow(work, f"{_FRAME_DDL}, {_message_ddl(Table(body))}")


def _message_ddl(table: Table) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in table.types if name not in _OF_A_QUEUE)


def _work(
    batches: Iterator[pa.RecordBatch], *, body: str, port: int, ping_port: int
) -> Iterator[pa.RecordBatch]:
    """What an executor does with its tasks."""
    for batch in batches:
        for row in batch.to_pylist():
            task = Task(row["path"], row["share"], row["shares"])
            yield from read(task, Table(body), port=port, ping_port=ping_port)


def read(task: Task, table: Table, *, port: int, ping_port: int) -> Iterator[pa.RecordBatch]:
    """Decode one share of one file, without Spark."""
    rows = _Rows(task.path, table)
    try:
        with Source.open(task.path) as source:
            for found in find_packets(source, Format.AUTO, port, ping_port, Tally(), task.wants):
                if found.origin is None and task.share:
                    continue  # damage of the file itself is told once
                rows.add(found)
                if len(rows) >= BATCH_ROWS:
                    yield rows.batch()
    except UnreadableError as error:
        if not task.share:
            rows.unreadable(str(error))
    if len(rows):
        yield rows.batch()


class _Rows:
    """Rows on their way into a batch."""

    def __init__(self, path: str, table: Table) -> None:
        self._path = path
        self._table = table
        self._names = [name for name, _ in table.types if name not in _OF_A_QUEUE]
        self._frames: list[dict[str, Any]] = []
        self._messages: list[UserMessage | None] = []

    def __len__(self) -> int:
        return len(self._frames)

    def unreadable(self, reason: str) -> None:
        self._add(None, {"packet": "Malformed", "error": reason})

    def add(self, found: Found) -> None:
        frame: dict[str, Any] = {}
        if found.origin is not None:
            frame = {
                "time": datetime.fromtimestamp(found.origin.time, UTC),
                "stream": found.origin.stream,
                "source": _endpoint(found.origin.source),
                "destination": _endpoint(found.origin.destination),
            }
        if isinstance(found.cut, Damage):
            self._add(
                None, frame | {"packet": found.cut.packet, "size": found.cut.size, "error": found.cut.reason}
            )
            return
        data = found.cut.data
        frame["size"] = len(data)
        try:
            packet = Ping.parse(data) if found.is_ping else decode_packet(data)
        except DecodeError as error:
            self._add(None, frame | {"packet": "Malformed", "error": str(error)})
            return
        message = packet if isinstance(packet, UserMessage) else None
        self._add(message, frame | {"packet": type(packet).__name__})

    def _add(self, message: UserMessage | None, frame: dict[str, Any]) -> None:
        self._frames.append({"file": self._path} | frame)
        self._messages.append(message)

    def batch(self) -> pa.RecordBatch:
        """Everything so far; begins anew."""
        frames = pa.RecordBatch.from_pylist(self._frames, schema=_FRAME)
        whole = [ReadMessage("", 0, message) for message in self._messages if message is not None]
        made = self._table.batch(whole)
        numbers = iter(range(len(whole)))
        places = pa.array(
            [None if message is None else next(numbers) for message in self._messages], pa.int64()
        )
        columns = [made.column(name).take(places) for name in self._names]
        self._frames, self._messages = [], []
        schema = pa.schema([*_FRAME, *(self._table.arrow.field(name) for name in self._names)])
        return pa.RecordBatch.from_arrays([*frames.columns, *columns], schema=schema)


def _endpoint(endpoint: Endpoint) -> str:
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"
