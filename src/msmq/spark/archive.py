"""Archive queues to Parquet, exactly once, and read archives back.

How it works ------------ Each batch of the stream is written to a folder of its own, ``messages/batch=N``, divided by
queue and day. A folder counts when it contains ``_SUCCESS``, which is written last. A batch that is repeated after a
crash is written to another folder, ``batch=N.1``, and the one with the highest number counts. :func:`compact` writes
several folders as one with fewer, larger files, ``batch=N-M``, which counts in place of them; only then are they
deleted. So nothing is ever moved or overwritten, half a batch is never read, and the program may be killed at any time,
even on stores without an atomic rename (:mod:`msmq.spark.storage`).

``_last.json`` says which batch was begun last, and where it ends according to Spark's own log. A checkpoint that is
older than the archive would give the same batch numbers to other messages, which would replace the archived ones: such
a batch is refused.

``_archive.json`` holds the format, the version of the columns, and their types. Columns that are added later are null
in older files; a change of meaning or type is a new version, which older releases refuse. Options of the source choose
types too (``body``): a run that would write a column in another type than those before is refused before it claims
anything, because nobody could read the archive as one table any more.

With the format ``delta`` the messages are one Delta table instead, ``delta``. Each batch names itself (``txnAppId`` and
``txnVersion``), so that a repeated one is skipped, and Delta's own ``OPTIMIZE`` compacts.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.parquet as parquet

from msmq.spark.claims import settle
from msmq.spark.schema import SCHEMA_VERSION, Table
from msmq.spark.storage import Entry, read_json, storage_of, write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MESSAGES: Final = "messages"
DELTA: Final = "delta"
FORMATS: Final = ("parquet", DELTA)
_ABOUT: Final = "_archive.json"
_LAST: Final = "_last.json"
_CHECKPOINT: Final = "_checkpoint"
_WHOLE: Final = "_SUCCESS"
_NAME: Final = re.compile(r"batch=(\d+)(?:-(\d+))?(?:\.(\d+))?")
_HELD_BYTES: Final = 16 << 20
"""The rows that Spark or Parquet hold at once, in bytes for each task. Messages may have four megabytes."""
_WRITING: Final = {
    # By default Parquet checks only after a hundred rows whether a page or a group is full.
    "parquet.block.size": str(_HELD_BYTES),
    "parquet.page.size.row.check.min": "1",
    # The archive itself records which folders are whole, once they are on the disk.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_READ_AT_ONCE: Final = "spark.sql.parquet.columnarReaderBatchSize"
_LOOKED_AT: Final = 64
"""The number of files, the largest ones, from which the size of an archive's rows is estimated."""
_PARTITIONS: Final = ("queue", "date")
_DATE: Final = "to_date(coalesce(arrived_time, sent_time, timestamp_seconds(0)))"


class ArchiveError(ValueError):
    """A folder that is no archive, or is one of a newer release."""


class Folder(NamedTuple):
    """A folder of one batch, or of several that were compacted, with the number of earlier attempts."""

    first: int
    last: int
    attempt: int
    name: str

    def stands_for(self, other: Folder) -> bool:
        """True if this folder counts in place of another."""
        if not (self.first <= other.first and other.last <= self.last):
            return False
        return (self.last - self.first, self.attempt) > (other.last - other.first, other.attempt)


class Archive:
    """The files of an archive."""

    def __init__(self, path: str, spark: SparkSession | None = None) -> None:
        self.path = path.rstrip("/")
        self._storage = storage_of(self.path, spark)

    def uri(self, *names: str) -> str:
        """The URI of something in the archive, as Spark takes it."""
        return posixpath.join(self._storage.uri, *names)

    @property
    def checkpoint(self) -> str:
        return self.uri(_CHECKPOINT)

    def prepare(self, form: str = "parquet") -> None:
        """Make the folder an archive, or check that it is one of this format; finish a compaction that was killed."""
        if form not in FORMATS:
            raise ArchiveError(f"The format of an archive is {' or '.join(FORMATS)}, not {form!r}.")
        if read_json(self._storage, _ABOUT) is None:
            identifier = uuid.uuid4().hex
            about = {"schema_version": SCHEMA_VERSION, "format": form, "id": identifier}
            write_json(self._storage, _ABOUT, about)
        if self.check() != form:
            raise ArchiveError(f"{self.path} is an archive in another format than {form}.")
        if form != DELTA:
            self._tidy()

    def keep_columns(self, types: Mapping[str, str]) -> None:
        """Record the columns that are going to be written, in addition to those that the archive has.

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
            write_json(self._storage, _ABOUT, said | {"columns": known | dict(types)})

    def check(self) -> str:
        """Check that the folder is an archive. Returns its format.

        Raises:
            ArchiveError: it is none, or is of a newer release.
        """
        said = self._about()
        if said["schema_version"] > SCHEMA_VERSION:
            raise ArchiveError(
                f"{self.path} has columns of version {said['schema_version']}; this release knows {SCHEMA_VERSION}."
            )
        return str(said.get("format", "parquet"))

    def check_checkpoint(self) -> None:
        """Check that batches continue after the last one.

        Raises:
            ArchiveError: the checkpoint is gone. Spark would count batches from 0 again, and each would replace one
                that is there.
        """
        begun = self.folders() or read_json(self._storage, _LAST) is not None
        if begun and not self._storage.files(posixpath.join(_CHECKPOINT, "offsets")):
            raise ArchiveError(
                f"{self.path} has messages, and its folder {_CHECKPOINT} is gone, which says how far the queues were "
                "read: new batches would take the place of those that are there. Begin another archive."
            )

    def begin_batch(self, number: int) -> None:
        """Record that a batch is going to be written, before anything of it is.

        Raises:
            ArchiveError: this number was given to other messages before.
        """
        end = self._storage.read(posixpath.join(_CHECKPOINT, "offsets", str(number)))
        now = {"batch": number, "end": hashlib.sha256(end or b"").hexdigest()}
        last = read_json(self._storage, _LAST)
        if last is not None and last["batch"] >= number and last != now:
            raise ArchiveError(
                f"{self.path} has the batch {last['batch']} already, and its folder {_CHECKPOINT} is older than that: "
                f"it gives the number {number} to other messages now, which would take the place of those that are "
                "there. Begin another archive."
            )
        if last != now:
            write_json(self._storage, _LAST, now)

    @property
    def identifier(self) -> str:
        """The identifier that distinguishes it from other archives."""
        return str(self._about().get("id", self.path))

    def _about(self) -> dict[str, Any]:
        said = read_json(self._storage, _ABOUT)
        if said is None:
            raise ArchiveError(f"{self.path} is no archive: `msmq pipeline archive` makes one.")
        return said

    # --- folders ----------------------------------------------------------------------------------------------------

    def folders(self) -> list[str]:
        """Return the folders that count, in order."""
        return [folder.name for folder in self._counting()]

    def _counting(self) -> list[Folder]:
        """Return the folders that count. They are listed until two lists agree: listing takes a while, in which a
        compaction may run."""
        before, found = None, self._whole()
        while found != before:
            before, found = found, self._whole()
        return sorted(each for each in found if not any(other.stands_for(each) for other in found))

    def _whole(self) -> list[Folder]:
        """Return the folders that were written completely."""
        marks = [entry.name.split("/") for entry in self._storage.files(MESSAGES)]
        return sorted(_folder(mark[1]) for mark in marks if len(mark) == 3 and mark[2] == _WHOLE)

    def parts(self, folders: Sequence[str]) -> list[Entry]:
        """Return the files of some folders; a batch without messages has none."""
        wanted = set(folders)
        return [
            entry
            for entry in self._storage.files(MESSAGES)
            if entry.name.split("/")[1] in wanted and entry.name.endswith(".parquet")
        ]

    def rows_within(self, folders: Sequence[str], size: int) -> int:
        """Return how many of the folders' largest rows take about ``size`` bytes in memory; at least one."""
        found = self.parts(folders)
        found.sort(key=lambda entry: entry.size, reverse=True)
        average = 1
        for entry in found[:_LOOKED_AT]:
            with self._storage.open(entry) as file:
                footer = parquet.read_metadata(file)
            groups = (footer.row_group(number) for number in range(footer.num_row_groups))
            average = max(average, *(group.total_byte_size // max(group.num_rows, 1) for group in groups), 1)
        return max(size // average, 1)

    def fill(self, first: int, last: int, write: Callable[[str], None]) -> str:
        """Let ``write`` write a folder for some batches; it replaces the present folders of these batches."""
        name = f"batch={first:012d}" if first == last else f"batch={first:012d}-{last:012d}"
        begun = [_folder(each) for each in self._storage.folders(MESSAGES, f"{name}*")]
        attempts = [each.attempt for each in begun if (each.first, each.last) == (first, last)]
        made = _folder(f"{name}.{max(attempts) + 1}" if attempts else name)
        for each in map(_folder, self._storage.folders(MESSAGES, "batch=*-*")):
            if each.stands_for(made) and self._is_whole(each.name):
                raise ArchiveError(f"{self.path}: the batch {first} is among those of {each.name} already.")
        write(self.uri(MESSAGES, made.name))
        self._keep(made.name)
        self._storage.write(posixpath.join(MESSAGES, made.name, _WHOLE), b"")
        self._keep(made.name)
        replaced = begun if first == last else map(_folder, self._storage.folders(MESSAGES))
        for each in replaced:
            if made.stands_for(each):
                self._delete(each.name)
        return made.name

    def _is_whole(self, name: str) -> bool:
        return self._storage.read(posixpath.join(MESSAGES, name, _WHOLE)) is not None

    def _tidy(self) -> None:
        """Delete the folders that others have replaced."""
        for name in ("_compaction.json", "_compacting"):  # left by earlier releases that were killed
            self._storage.delete(name)
        whole = self._whole()
        for each in map(_folder, self._storage.folders(MESSAGES)):
            if any(other.stands_for(each) for other in whole):
                self._delete(each.name)

    def _keep(self, name: str) -> None:
        """Make sure that a folder survives a power failure, because its messages are removed from their queue next."""
        self._storage.keep(posixpath.join(MESSAGES, name))

    def _delete(self, name: str) -> None:
        self._storage.delete(posixpath.join(MESSAGES, name))


def _folder(name: str) -> Folder:
    found = _NAME.fullmatch(name)
    if found is None:
        return Folder(-1, -2, 0, name)  # a foreign folder: it stands for nothing
    first, last, attempt = found.groups()
    return Folder(int(first), int(last or first), int(attempt or 0), name)


def archive(
    spark: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    interval: str | None = None,
    format: str = "parquet",
) -> StreamingQuery:
    """Write queues into an archive; ``options`` are those of the source. Without an ``interval`` (``"1 minute"``) it
    ends when everything that was there at the start is written. With ``mode=consume`` messages leave their queue
    when they are safe in the archive. ``format`` is ``parquet``, or ``delta`` where Spark has Delta.

    Raises:
        ArchiveError: the folder is something else, or has columns of other types, or Delta is missing.
    """
    if format == DELTA:
        require_delta(spark)
    place = Archive(path, spark)
    place.prepare(format)
    place.check_checkpoint()
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
    place.begin_batch(number)
    place.fill(number, number, partial(_parquet, batch))


def _parquet(rows: DataFrame, folder: str) -> None:
    rows.write.mode("append").partitionBy(*_PARTITIONS).options(**_WRITING).parquet(folder)


def _write_delta(place: Archive, batch: DataFrame, number: int) -> None:
    place.begin_batch(number)
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
    """Return the name that the packages of Delta use for a version of Spark: its first two numbers."""
    return ".".join(spark.version.split(".")[:2])


def settle_archive(path: str, options: Mapping[str, str], spark: SparkSession | None = None) -> int:
    """Remove the messages from their queues that are safe in a consuming archive whose query has ended."""
    where = {
        name: value for name, value in options.items() if name not in ("queue", "queues", "queuePattern")
    }
    return settle(Archive(path, spark).checkpoint, spark, **where)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """Read everything in an archive, with the columns of the source and the day as ``date``."""
    place = Archive(path, spark)
    if place.check() == DELTA:
        require_delta(spark)
        return spark.read.format(DELTA).load(place.uri(DELTA))
    folders = place.folders()
    if not place.parts(folders):
        return spark.createDataFrame([], f"{Table().ddl}, `date` DATE")
    return _read_folders(spark, place, folders)


def _read_folders(spark: SparkSession, place: Archive, folders: Sequence[str]) -> DataFrame:
    """Read the messages of some folders. Spark reads thousands of rows at once, however large they are; if they would
    not fit into its memory, the session is told to read fewer."""
    usual = int(str(spark.conf.get(_READ_AT_ONCE)))
    spark.conf.set(_READ_AT_ONCE, str(min(usual, place.rows_within(folders, _HELD_BYTES))))
    read = spark.read.option("basePath", place.uri(MESSAGES)).option("mergeSchema", "true")
    return read.parquet(*(place.uri(MESSAGES, name) for name in folders)).drop("batch")


def compact(spark: SparkSession, path: str, *, least: int = 2) -> int:
    """Merge the folders of an archive into one, with one file for each queue and day. Returns how many folders there
    were. While the archive is being written to, its last folder may be rewritten and is left out. For a Delta table,
    which Delta compacts itself, it returns 0."""
    place = Archive(path, spark)
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

    place.fill(_folder(old[0]).first, _folder(old[-1]).last, write)
    return len(old)
