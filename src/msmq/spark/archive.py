"""Queues into Parquet, exactly once, and back.

How it works
------------
Each batch of the stream is written to a folder of its own, ``messages/batch=N``, divided by queue and day. A batch that
is repeated after a crash writes its folder anew. A folder counts when Spark has put ``_SUCCESS`` into it, so that half
a batch is never read. :func:`compact` writes several folders as one with fewer, larger files; a note in
``_compaction.json`` says which of them count until the old ones are deleted, so that it may be killed at any time too.

``_archive.json`` holds the version of the columns. Columns that are added later are null in older files.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as files

from msmq.spark.claims import file_uri, settle
from msmq.spark.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MESSAGES: Final = "messages"
_PARTITIONS: Final = ("queue", "date")
_DATE: Final = "to_date(coalesce(arrived_time, sent_time, timestamp_seconds(0)))"


class ArchiveError(ValueError):
    """A folder that is no archive, or one of a newer release."""


class Archive:
    """The files of an archive."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")
        self._system, self._root = files.FileSystem.from_uri(file_uri(self.path))

    def _inside(self, *names: str) -> str:
        return posixpath.join(self._root, *names)

    def uri(self, *names: str) -> str:
        """A place in it, as Spark takes it."""
        return posixpath.join(file_uri(self.path), *names)

    @property
    def checkpoint(self) -> str:
        return self.uri("_checkpoint")

    def prepare(self) -> None:
        """Make the folder an archive, or see that it is one; end a compaction that was killed."""
        self._system.create_dir(self._inside(MESSAGES), recursive=True)
        if self._read("_archive.json") is None:
            self._write("_archive.json", {"schema_version": SCHEMA_VERSION})
        self.check()
        self._finish_compaction()

    def check(self) -> None:
        """
        Raises:
            ArchiveError: it is none, or it is newer than this release.
        """
        said = self._read("_archive.json")
        if said is None:
            raise ArchiveError(f"{self.path} is no archive: `msmq pipeline archive` makes one.")
        if said["schema_version"] > SCHEMA_VERSION:
            raise ArchiveError(
                f"{self.path} has columns of version {said['schema_version']}; this release knows {SCHEMA_VERSION}."
            )

    def folders(self) -> list[str]:
        """The folders that count, in order."""
        found = self._system.get_file_info(files.FileSelector(self._inside(MESSAGES), allow_not_found=True))
        names = sorted(info.base_name for info in found if info.type == files.FileType.Directory)
        note = self._read("_compaction.json")
        if note is not None:
            replaced = note["replaces"] if note["target"] in names else [note["target"]]
            names = [name for name in names if name not in replaced]
        return [name for name in names if self._is_file(MESSAGES, name, "_SUCCESS")]

    # --- compaction -------------------------------------------------------------------------------------------------

    def replace(self, old: Sequence[str], write: Callable[[str], None]) -> str:
        """Put one folder, which ``write`` fills, in the place of several."""
        target = f"{old[0].partition('-')[0]}-{old[-1].rpartition('=')[2].rpartition('-')[2]}"
        self._delete("_compacting")
        write(self.uri("_compacting"))
        self._write("_compaction.json", {"target": target, "replaces": list(old)})
        self._finish_compaction()
        return target

    def _finish_compaction(self) -> None:
        note = self._read("_compaction.json")
        if note is None:
            return
        if self._is_file("_compacting", "_SUCCESS"):
            self._system.move(self._inside("_compacting"), self._inside(MESSAGES, note["target"]))
        for name in note["replaces"]:
            self._delete(MESSAGES, name)
        self._system.delete_file(self._inside("_compaction.json"))

    # --- files ------------------------------------------------------------------------------------------------------

    def _is_file(self, *names: str) -> bool:
        return bool(self._system.get_file_info(self._inside(*names)).type == files.FileType.File)

    def _delete(self, *names: str) -> None:
        if self._system.get_file_info(self._inside(*names)).type == files.FileType.Directory:
            self._system.delete_dir(self._inside(*names))

    def _read(self, name: str) -> dict[str, Any] | None:
        if not self._is_file(name):
            return None
        with self._system.open_input_stream(self._inside(name)) as stream:
            said: dict[str, Any] = json.loads(bytes(stream.read()))
        return said

    def _write(self, name: str, value: Mapping[str, Any]) -> None:
        with self._system.open_output_stream(self._inside(f"{name}.new")) as stream:
            stream.write(json.dumps(value).encode())
        self._system.move(self._inside(f"{name}.new"), self._inside(name))


def archive(
    spark: SparkSession, path: str, options: Mapping[str, str], *, interval: str | None = None
) -> StreamingQuery:
    """Write queues into an archive; ``options`` are those of the source. Without an ``interval`` (``"1 minute"``) it
    ends when everything is written that was there when it began. With ``mode=consume`` messages leave their queue when
    they are safe in the archive."""
    place = Archive(path)
    place.prepare()
    read = spark.readStream.format("msmq").options(**options).option("checkpointLocation", place.checkpoint)
    messages = read.load().selectExpr("*", f"{_DATE} AS date")

    def write(batch: DataFrame, number: int) -> None:
        folder = place.uri(MESSAGES, f"batch={number:012d}")
        batch.write.mode("overwrite").partitionBy(*_PARTITIONS).parquet(folder)

    query = messages.writeStream.foreachBatch(write).option("checkpointLocation", place.checkpoint)
    return (
        query.trigger(processingTime=interval).start()
        if interval
        else query.trigger(availableNow=True).start()
    )


def settle_archive(path: str, options: Mapping[str, str]) -> int:
    """Remove from their queues what is safe in a consuming archive whose query has ended."""
    where = {
        name: value for name, value in options.items() if name not in ("queue", "queues", "queuePattern")
    }
    return settle(Archive(path).checkpoint, **where)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """Everything in an archive, with the columns of the source and the day as ``date``."""
    place = Archive(path)
    place.check()
    folders = place.folders()
    if not folders:
        from msmq.spark.schema import Table

        return spark.createDataFrame([], f"{Table().ddl}, `date` DATE")
    read = spark.read.option("basePath", place.uri(MESSAGES)).option("mergeSchema", "true")
    return read.parquet(*(place.uri(MESSAGES, name) for name in folders)).drop("batch")


def compact(spark: SparkSession, path: str, *, least: int = 2) -> int:
    """Write the folders of an archive as one, with one file for each queue and day; gives how many there were. While
    it is archived to, the last folder may be written anew: compaction leaves it alone."""
    place = Archive(path)
    place.prepare()
    old = place.folders()[:-1]
    if len(old) < max(least, 2):
        return 0

    def write(target: str) -> None:
        read = spark.read.option("basePath", place.uri(MESSAGES)).option("mergeSchema", "true")
        messages = read.parquet(*(place.uri(MESSAGES, name) for name in old)).drop("batch")
        sorted_ = messages.repartition(*_PARTITIONS).sortWithinPartitions(*_PARTITIONS, "lookup_id")
        sorted_.write.mode("overwrite").partitionBy(*_PARTITIONS).parquet(target)

    place.replace(old, write)
    return len(old)
