"""The data source with places to halt: whoever comes first to the place that a test has named waits there, and says
so, until the test lets it go on or kills it.

It is the real source and sink; nothing is done differently, only later. The folder that test and query share is named
by a variable of the environment, which every process of Spark inherits. In it a query that is one of several has a
folder of its own, named like its checkpoint.
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
from msmq.spark.claims import Claims, Servers
from msmq.spark.kept import KeptClaims
from msmq.spark.offsets import FleetOffset
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


def pause(place: str, checkpoint: str | None = None) -> None:
    folder = Path(os.environ[VARIABLE])
    own = folder / Path(checkpoint).name if checkpoint is not None else folder
    Halts(own if own.is_dir() else folder).pause(place)


# --- the source -------------------------------------------------------------------------------------------------------


def _halting(
    rows: Iterator[pa.RecordBatch], place: str, checkpoint: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows, and a halt when the first are on their way."""
    for batch in rows:
        yield batch
        pause(place, checkpoint)


class HaltingReader(MsmqReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _halting(super().read(partition), "table-reading")


class HaltingStreamReader(MsmqStreamReader):
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pause("planned", self._options.checkpoint)
        made = super().partitions(start, end)
        pause("claimed", self._options.checkpoint)
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _halting(super().read(partition), "reading", self._options.checkpoint)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        assert start is not None
        if isinstance(self._claims, HaltingClaims) and self._claims.due():
            pause("committed", self._options.checkpoint)
        found = super().latestOffset(start, limit)
        if any(part.queues for part in FleetOffset.parse(start).parts.values()):
            pause("settled", self._options.checkpoint)
        return found

    @property
    def _claims(self) -> Claims | KeptClaims | None:
        made = super()._claims
        checkpoint = self._options.checkpoint
        return HaltingClaims(checkpoint) if isinstance(made, Claims) and checkpoint is not None else made


class HaltingClaims(Claims):
    def __init__(self, checkpoint: str) -> None:
        super().__init__(checkpoint)
        self._of = checkpoint

    def due(self) -> bool:
        """Whether there is something to remove."""
        return any(self._name(end) in self._names() for end in self._log.committed())

    def settle_end(self, servers: Servers, end: FleetOffset) -> int:
        return super().settle_end(HalfRemoving(servers, self._of), end)

    def _delete(self, path: str) -> None:
        pause("removed", self._of)
        super()._delete(path)


class HalfRemoving:
    """Servers, except that messages are removed in two halves."""

    def __init__(self, servers: Servers, checkpoint: str) -> None:
        self._servers, self._checkpoint = servers, checkpoint

    def remove(
        self, server: str, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None
    ) -> Removal:
        ids = array("Q", lookup_ids)
        first = self._servers.remove(server, queue, ids[: len(ids) // 2], identity)
        pause("removing", self._checkpoint)
        second = self._servers.remove(server, queue, ids[len(ids) // 2 :], identity)
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
    checkpoint: str | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        pause("slow", self.checkpoint)
        done = super().write(_halting(iterator, "writing", self.checkpoint))
        pause("half-sent", self.checkpoint)
        return done

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pause("sent", self.checkpoint)
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
        made = HaltingStreamWriter(self.options, schema.fieldNames())
        made.checkpoint = self.options.get("checkpointLocation")
        return made
