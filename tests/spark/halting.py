"""The data source with places to halt: whoever comes first to the place that a test has named waits there, and says
so, until the test lets it go on or kills it.

It is the real source and sink; nothing is done differently, only later. The folder that test and query share is named
by a variable of the environment, which every process of Spark inherits.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit

from msmq.client.queue import QueueIdentity, Removal
from msmq.spark.claims import Claims
from msmq.spark.doors import Door
from msmq.spark.offsets import Offset
from msmq.spark.options import SourceOptions
from msmq.spark.sink import MsmqStreamWriter, MsmqWriter
from msmq.spark.source import MsmqDataSource, MsmqReader, MsmqStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VARIABLE = "MSMQ_TEST_HALTS"
_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Halts:
    """The places where the first to come shall wait; kept in a folder."""

    folder: Path

    def at(self, place: str) -> None:
        """The next that comes here shall wait."""
        (self.folder / f"{place}.reached").unlink(missing_ok=True)
        (self.folder / place).touch()

    def go_on(self, place: str) -> None:
        (self.folder / place).unlink(missing_ok=True)

    def reached(self, place: str) -> int | None:
        """The process that waits there; None if nobody does."""
        try:
            return int((self.folder / f"{place}.reached").read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def pause(self, place: str) -> None:
        """Wait, if a test wants that and nobody has waited here yet."""
        wanted = self.folder / place
        if not wanted.exists():
            return
        try:
            with (self.folder / f"{place}.reached").open("x", encoding="ascii") as said:
                said.write(f"{os.getpid()}")
        except FileExistsError:
            return
        deadline = time.monotonic() + _LONGEST_S
        while wanted.exists() and time.monotonic() < deadline:
            time.sleep(0.05)


def pause(place: str) -> None:
    Halts(Path(os.environ[VARIABLE])).pause(place)


# --- the source -------------------------------------------------------------------------------------------------------


def _halting(rows: Iterator[pa.RecordBatch], place: str) -> Iterator[pa.RecordBatch]:
    """Rows, and a halt when the first are on their way."""
    for batch in rows:
        yield batch
        pause(place)


class HaltingReader(MsmqReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _halting(super().read(partition), "table-reading")


class HaltingStreamReader(MsmqStreamReader):
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pause("planned")
        made = super().partitions(start, end)
        pause("claimed")
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _halting(super().read(partition), "reading")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if isinstance(self._claims, HaltingClaims) and self._claims.due():
            pause("committed")
        found = super().latestOffset(start, limit)
        if Offset.parse(start).queues:
            pause("settled")
        return found

    @property
    def _claims(self) -> Claims | None:
        checkpoint = self._options.checkpoint
        return None if checkpoint is None or not self._options.consume else HaltingClaims(checkpoint)


class HaltingClaims(Claims):
    def due(self) -> bool:
        """Whether there is something to remove."""
        return any(self._name(end) in self._names(self._folder) for end in self._committed())

    def _settle(self, door: Door, end: Offset) -> int:
        return super()._settle(HalfRemoving(door), end)

    def _delete(self, path: str) -> None:
        pause("removed")
        super()._delete(path)


class HalfRemoving:
    """A door, except that messages are removed in two halves."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def __getattr__(self, name: str) -> Any:
        return getattr(self._door, name)

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        ids = array("Q", lookup_ids)
        first = self._door.remove(queue, ids[: len(ids) // 2], identity)
        pause("removing")
        second = self._door.remove(queue, ids[len(ids) // 2 :], identity)
        return Removal(
            first.removed + second.removed,
            first.not_found + second.not_found,
            first.held + second.held,
            first.elsewhere or second.elsewhere,
        )


# --- the sink ---------------------------------------------------------------------------------------------------------


class HaltingWriter(MsmqWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(_halting(iterator, "table-writing"))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        pause("table-staged")
        super().commit(messages)


class HaltingStreamWriter(MsmqStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        pause("slow")
        done = super().write(_halting(iterator, "writing"))
        pause("half-sent")
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pause("sent")
        super().commit(messages, batchId)


class HaltingSource(MsmqDataSource):
    """``format("halting")``."""

    @classmethod
    def name(cls) -> str:
        return "halting"

    def reader(self, schema: StructType) -> MsmqReader:
        return HaltingReader(SourceOptions.of(self.options), schema.fieldNames())

    def streamReader(self, schema: StructType) -> MsmqStreamReader:  # noqa: N802
        return HaltingStreamReader(SourceOptions.of(self.options), schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> MsmqWriter:
        return HaltingWriter(self.options, schema.fieldNames(), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MsmqStreamWriter:  # noqa: N802
        return HaltingStreamWriter(self.options, schema.fieldNames())
