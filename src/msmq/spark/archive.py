"""Queues into Parquet, exactly once, and back.

How it works
------------
Each batch of the stream is written to a folder of its own, ``messages/batch=N``, divided by queue and day. A batch that
is repeated after a crash writes its folder anew. A folder counts when Spark has put ``_SUCCESS`` into it, so that half
a batch is never read. :func:`compact` writes several folders as one with fewer, larger files; a note in
``_compaction.json`` says which of them count until the old ones are deleted, so that it may be killed at any time too.

``_archive.json`` holds the format, the version of the columns, and their types. Columns that are added later are null
in older files; a change of meaning or type is a new version, which older releases refuse. Options of the source choose
types too (``body``): a run that would write a column in another type than those before is refused before it claims
anything, because nobody could read the archive as one table any more.

With the format ``delta`` the messages are one Delta table instead, ``delta``. Each batch names itself (``txnAppId`` and
``txnVersion``), so that a repeated one is passed over, and Delta's own ``OPTIMIZE`` compacts.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.fs as files
import pyarrow.parquet as parquet

from msmq.spark.claims import file_uri, settle
from msmq.spark.durable import make_durable
from msmq.spark.schema import SCHEMA_VERSION, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MESSAGES: Final = "messages"
DELTA: Final = "delta"
FORMATS: Final = ("parquet", DELTA)
_ABOUT: Final = "_archive.json"
_HELD_BYTES: Final = 16 << 20
"""Of rows that Spark or Parquet hold at once, for each task. Messages may have four megabytes."""
_SMALL_GROUPS: Final = {"parquet.block.size": str(_HELD_BYTES), "parquet.page.size.row.check.min": "1"}
"""Parquet usually looks only after a hundred rows whether a page or a group is full."""
_READ_AT_ONCE: Final = "spark.sql.parquet.columnarReaderBatchSize"
_LOOKED_AT: Final = 64
"""Files that tell how large the rows of an archive are: the largest."""
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

    def prepare(self, form: str = "parquet") -> None:
        """Make the folder an archive, or see that it is one of this format; end a compaction that was killed."""
        if form not in FORMATS:
            raise ArchiveError(f"The format of an archive is {' or '.join(FORMATS)}, not {form!r}.")
        self._system.create_dir(self._root, recursive=True)
        if self._read(_ABOUT) is None:
            identifier = uuid.uuid4().hex
            self._write(_ABOUT, {"schema_version": SCHEMA_VERSION, "format": form, "id": identifier})
        if self.check() != form:
            raise ArchiveError(f"{self.path} is an archive in another format than {form}.")
        if form != DELTA:
            self._system.create_dir(self._inside(MESSAGES), recursive=True)
            self._finish_compaction()

    def keep_columns(self, types: Mapping[str, str]) -> None:
        """Note the columns that are going to be written, beside those that the archive has.

        Raises:
            ArchiveError: one of them has another type in the archive.
        """
        said = self._about()
        known: dict[str, str] = said.get("columns", {})
        for name, kind in types.items():
            if known.get(name, kind) != kind:
                raise ArchiveError(
                    f"{self.path} has the column {name} as {known[name]}; with these options it would be {kind}. Give "
                    "the options that the archive was begun with, or begin another one."
                )
        if not types.keys() <= known.keys():
            self._write(_ABOUT, said | {"columns": known | dict(types)})

    def check(self) -> str:
        """See that it is an archive; gives its format.

        Raises:
            ArchiveError: it is none, or it is newer than this release.
        """
        said = self._about()
        if said["schema_version"] > SCHEMA_VERSION:
            raise ArchiveError(
                f"{self.path} has columns of version {said['schema_version']}; this release knows {SCHEMA_VERSION}."
            )
        return str(said.get("format", "parquet"))

    @property
    def identifier(self) -> str:
        """What tells it from other archives."""
        return str(self._about().get("id", self.path))

    def _about(self) -> dict[str, Any]:
        said = self._read(_ABOUT)
        if said is None:
            raise ArchiveError(f"{self.path} is no archive: `msmq pipeline archive` makes one.")
        return said

    def folders(self) -> list[str]:
        """The folders that count, in order."""
        found = self._system.get_file_info(files.FileSelector(self._inside(MESSAGES), allow_not_found=True))
        names = sorted(info.base_name for info in found if info.type == files.FileType.Directory)
        note = self._read("_compaction.json")
        if note is not None:
            replaced = note["replaces"] if note["target"] in names else [note["target"]]
            names = [name for name in names if name not in replaced]
        return [name for name in names if self._is_file(MESSAGES, name, "_SUCCESS")]

    def rows_within(self, folders: Sequence[str], size: int) -> int:
        """How many rows of some folders take about ``size`` bytes in memory where rows are largest; at least one."""
        found = [
            info
            for name in folders
            for info in self._system.get_file_info(
                files.FileSelector(self._inside(MESSAGES, name), recursive=True)
            )
            if info.type == files.FileType.File and info.path.endswith(".parquet")
        ]
        found.sort(key=lambda info: info.size, reverse=True)
        average = 1
        for info in found[:_LOOKED_AT]:
            footer = parquet.read_metadata(info.path, filesystem=self._system)
            groups = (footer.row_group(number) for number in range(footer.num_row_groups))
            average = max(average, *(group.total_byte_size // max(group.num_rows, 1) for group in groups), 1)
        return max(size // average, 1)

    # --- compaction -------------------------------------------------------------------------------------------------

    def replace(self, old: Sequence[str], write: Callable[[str], None]) -> str:
        """Put one folder, which ``write`` fills, in the place of several."""
        target = f"{old[0].partition('-')[0]}-{old[-1].rpartition('=')[2].rpartition('-')[2]}"
        self._delete("_compacting")
        write(self.uri("_compacting"))
        self.keep("_compacting")
        self._write("_compaction.json", {"target": target, "replaces": list(old)})
        self._finish_compaction()
        return target

    def _finish_compaction(self) -> None:
        note = self._read("_compaction.json")
        if note is None:
            return
        if self._is_file("_compacting", "_SUCCESS"):
            self._system.move(self._inside("_compacting"), self._inside(MESSAGES, note["target"]))
            self.keep(MESSAGES, note["target"])
        for name in note["replaces"]:
            self._delete(MESSAGES, name)
        self._system.delete_file(self._inside("_compaction.json"))

    # --- files ------------------------------------------------------------------------------------------------------

    def keep(self, *names: str) -> None:
        """See that a folder survives a power failure: its messages are removed elsewhere next."""
        make_durable(self._system, self._inside(*names))

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
        make_durable(self._system, self._inside(f"{name}.new"))
        self._system.move(self._inside(f"{name}.new"), self._inside(name))
        make_durable(self._system, self._inside(name))


def archive(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    interval: str | None = None,
    format: str = "parquet",
) -> StreamingQuery:
    """Write queues into an archive; ``options`` are those of the source. Without an ``interval`` (``"1 minute"``) it
    ends when everything is written that was there when it began. With ``mode=consume`` messages leave their queue when
    they are safe in the archive. ``format`` is ``parquet``, or ``delta`` where Spark has Delta.

    Raises:
        ArchiveError: the folder is something else, or has columns of other types, or Delta is missing.
    """
    if format == DELTA:
        require_delta(spark)
    place = Archive(path)
    place.prepare(format)
    read = spark.readStream.format("msmq").options(**options).option("checkpointLocation", place.checkpoint)
    messages = read.load().selectExpr("*", f"{_DATE} AS date")
    place.keep_columns(dict(messages.dtypes))
    write = partial(_write_delta if format == DELTA else _write_parquet, place)
    query = messages.writeStream.foreachBatch(write).option("checkpointLocation", place.checkpoint)
    return (
        query.trigger(processingTime=interval).start()
        if interval
        else query.trigger(availableNow=True).start()
    )


def _write_parquet(place: Archive, batch: DataFrame, number: int) -> None:
    folder = place.uri(MESSAGES, f"batch={number:012d}")
    _parquet(batch, folder)
    place.keep(MESSAGES, f"batch={number:012d}")


def _parquet(rows: DataFrame, folder: str) -> None:
    rows.write.mode("overwrite").partitionBy(*_PARTITIONS).options(**_SMALL_GROUPS).parquet(folder)


def _write_delta(place: Archive, batch: DataFrame, number: int) -> None:
    write = batch.write.format(DELTA).mode("append").partitionBy(*_PARTITIONS).option("mergeSchema", "true")
    write.option("txnAppId", place.identifier).option("txnVersion", number).save(place.uri(DELTA))


def require_delta(spark: SparkSession) -> None:
    """
    Raises:
        ArchiveError: this Spark has no Delta, with what to install.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    extension = "io.delta.sql.DeltaSparkSessionExtension"
    try:
        spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(extension)  # type: ignore[union-attr]
    except Py4JJavaError:
        raise ArchiveError(
            f"The format delta needs Delta Lake, which this Spark ({spark.version}) does not have. Start it with a "
            "release of Delta that is made for it: "
            f"spark.jars.packages=io.delta:delta-spark_{_made_for(spark)}_2.13:VERSION "
            f"and spark.sql.extensions={extension} (and pip install delta-spark==VERSION). "
            "The format parquet needs nothing."
        ) from None


def _made_for(spark: SparkSession) -> str:
    """What the packages of Delta call a version of Spark: its first two numbers."""
    return ".".join(spark.version.split(".")[:2])


def settle_archive(path: str, options: Mapping[str, str]) -> int:
    """Remove from their queues what is safe in a consuming archive whose query has ended."""
    where = {
        name: value for name, value in options.items() if name not in ("queue", "queues", "queuePattern")
    }
    return settle(Archive(path).checkpoint, **where)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """Everything in an archive, with the columns of the source and the day as ``date``."""
    place = Archive(path)
    if place.check() == DELTA:
        require_delta(spark)
        return spark.read.format(DELTA).load(place.uri(DELTA))
    folders = place.folders()
    if not folders:
        return spark.createDataFrame([], f"{Table().ddl}, `date` DATE")
    return _read_folders(spark, place, folders)


def _read_folders(spark: SparkSession, place: Archive, folders: Sequence[str]) -> DataFrame:
    """The messages of some folders. Spark reads thousands of rows at once, however large they are: where they would not
    fit into its memory the session is told to read fewer."""
    usual = int(str(spark.conf.get(_READ_AT_ONCE)))
    spark.conf.set(_READ_AT_ONCE, str(min(usual, place.rows_within(folders, _HELD_BYTES))))
    read = spark.read.option("basePath", place.uri(MESSAGES)).option("mergeSchema", "true")
    return read.parquet(*(place.uri(MESSAGES, name) for name in folders)).drop("batch")


def compact(spark: SparkSession, path: str, *, least: int = 2) -> int:
    """Write the folders of an archive as one, with one file for each queue and day; gives how many there were. While
    it is archived to, the last folder may be written anew: compaction leaves it alone. For a Delta table, which Delta
    compacts, it gives 0."""
    place = Archive(path)
    if place.check() == DELTA:
        require_delta(spark)
        spark.sql(f"OPTIMIZE delta.`{place.uri(DELTA)}`")
        return 0
    place.prepare()
    old = place.folders()[:-1]
    if len(old) < max(least, 2):
        return 0

    def write(target: str) -> None:
        messages = _read_folders(spark, place, old)
        sorted_ = messages.repartition(*_PARTITIONS).sortWithinPartitions(*_PARTITIONS, "lookup_id")
        _parquet(sorted_, target)

    place.replace(old, write)
    return len(old)
