"""Queues into Parquet, exactly once, and back.

How it works
------------
Each batch of the stream is written to a folder of its own, ``messages/batch=N``, divided by queue and day. A folder
counts when ``_SUCCESS`` is in it, which is put there when everything else is safe. A batch that is repeated after a
crash is written to another folder, ``batch=N.1``, and that of the highest number counts. :func:`compact` writes several
folders as one with fewer, larger files, ``batch=N-M``, which counts in the place of all within it. Only then the others
are deleted. So nothing is ever moved or overwritten, half a batch is never read, and it may be killed at any time, on
stores without an atomic rename too (:mod:`msmq.spark.storage`).

``_last.json`` says which batch was begun last, and where it ends by Spark's own log. A checkpoint that is older than
the archive would give numbers of batches again to other messages, which would take the place of those that are there:
such a batch is refused.

``_archive.json`` holds the format, the version of the columns, and their types. Columns that are added later are null
in older files; a change of meaning or type is a new version, which older releases refuse. Options of the source choose
types too (``body``): a run that would write a column in another type than those before is refused before it claims
anything, because nobody could read the archive as one table any more.

With the format ``delta`` the messages are one Delta table instead, ``delta``. Each batch names itself (``txnAppId`` and
``txnVersion``), so that a repeated one is passed over, and Delta's own ``OPTIMIZE`` compacts.
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
"""Of rows that Spark or Parquet hold at once, for each task. Messages may have four megabytes."""
_WRITING: Final = {
    # Parquet usually looks only after a hundred rows whether a page or a group is full.
    "parquet.block.size": str(_HELD_BYTES),
    "parquet.page.size.row.check.min": "1",
    # The archive says itself what is whole, when it is on the disk.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_READ_AT_ONCE: Final = "spark.sql.parquet.columnarReaderBatchSize"
_LOOKED_AT: Final = 64
"""Files that tell how large the rows of an archive are: the largest."""
_PARTITIONS: Final = ("queue", "date")
_DATE: Final = "to_date(coalesce(arrived_time, sent_time, timestamp_seconds(0)))"


class ArchiveError(ValueError):
    """A folder that is no archive, or one of a newer release."""


class Folder(NamedTuple):
    """A folder of one batch or of several that were compacted, and how often it was begun before."""

    first: int
    last: int
    attempt: int
    name: str

    def stands_for(self, other: Folder) -> bool:
        """Whether this one counts instead of another."""
        if not (self.first <= other.first and other.last <= self.last):
            return False
        return (self.last - self.first, self.attempt) > (other.last - other.first, other.attempt)


class Archive:
    """The files of an archive."""

    def __init__(self, path: str, spark: SparkSession | None = None) -> None:
        self.path = path.rstrip("/")
        self._storage = storage_of(self.path, spark)

    def uri(self, *names: str) -> str:
        """A place in it, as Spark takes it."""
        return posixpath.join(self._storage.uri, *names)

    @property
    def checkpoint(self) -> str:
        return self.uri(_CHECKPOINT)

    def prepare(self, form: str = "parquet") -> None:
        """Make the folder an archive, or see that it is one of this format; end a compaction that was killed."""
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
            write_json(self._storage, _ABOUT, said | {"columns": known | dict(types)})

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

    def check_checkpoint(self) -> None:
        """See that batches go on where they were.

        Raises:
            ArchiveError: the checkpoint is gone. Spark would count batches from 0 again, and each would take the place
                of one that is there.
        """
        begun = self.folders() or read_json(self._storage, _LAST) is not None
        if begun and not self._storage.files(posixpath.join(_CHECKPOINT, "offsets")):
            raise ArchiveError(
                f"{self.path} has messages, and its folder {_CHECKPOINT} is gone, which says how far the queues were "
                "read: new batches would take the place of those that are there. Begin another archive."
            )

    def begin_batch(self, number: int) -> None:
        """Note that a batch is going to be written, before anything of it is.

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
        """What tells it from other archives."""
        return str(self._about().get("id", self.path))

    def _about(self) -> dict[str, Any]:
        said = read_json(self._storage, _ABOUT)
        if said is None:
            raise ArchiveError(f"{self.path} is no archive: `msmq pipeline archive` makes one.")
        return said

    # --- folders ----------------------------------------------------------------------------------------------------

    def folders(self) -> list[str]:
        """The folders that count, in order."""
        return [folder.name for folder in self._counting()]

    def _counting(self) -> list[Folder]:
        """Looks until it finds the same twice: a list takes a while, in which a compaction may have come and gone."""
        before, found = None, self._whole()
        while found != before:
            before, found = found, self._whole()
        return sorted(each for each in found if not any(other.stands_for(each) for other in found))

    def _whole(self) -> list[Folder]:
        """The folders that everything was written to."""
        marks = [entry.name.split("/") for entry in self._storage.files(MESSAGES)]
        return sorted(_folder(mark[1]) for mark in marks if len(mark) == 3 and mark[2] == _WHOLE)

    def parts(self, folders: Sequence[str]) -> list[Entry]:
        """The files of some folders; a batch without messages has none."""
        wanted = set(folders)
        return [
            entry
            for entry in self._storage.files(MESSAGES)
            if entry.name.split("/")[1] in wanted and entry.name.endswith(".parquet")
        ]

    def rows_within(self, folders: Sequence[str], size: int) -> int:
        """How many rows of some folders take about ``size`` bytes in memory where rows are largest; at least one."""
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
        """Have a folder written for some batches, in the place of those that are there of them."""
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
        """Delete the folders in whose place there are others."""
        for name in ("_compaction.json", "_compacting"):  # what earlier releases left when they were killed
            self._storage.delete(name)
        whole = self._whole()
        for each in map(_folder, self._storage.folders(MESSAGES)):
            if any(other.stands_for(each) for other in whole):
                self._delete(each.name)

    def _keep(self, name: str) -> None:
        """See that a folder survives a power failure: its messages are removed elsewhere next."""
        self._storage.keep(posixpath.join(MESSAGES, name))

    def _delete(self, name: str) -> None:
        self._storage.delete(posixpath.join(MESSAGES, name))


def _folder(name: str) -> Folder:
    found = _NAME.fullmatch(name)
    if found is None:
        return Folder(-1, -2, 0, name)  # somebody else's: it stands for nothing
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
    ends when everything is written that was there when it began. With ``mode=consume`` messages leave their queue when
    they are safe in the archive. ``format`` is ``parquet``, or ``delta`` where Spark has Delta.

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
    """What the packages of Delta call a version of Spark: its first two numbers."""
    return ".".join(spark.version.split(".")[:2])


def settle_archive(path: str, options: Mapping[str, str], spark: SparkSession | None = None) -> int:
    """Remove from their queues what is safe in a consuming archive whose query has ended."""
    where = {
        name: value for name, value in options.items() if name not in ("queue", "queues", "queuePattern")
    }
    return settle(Archive(path, spark).checkpoint, spark, **where)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """Everything in an archive, with the columns of the source and the day as ``date``."""
    place = Archive(path, spark)
    if place.check() == DELTA:
        require_delta(spark)
        return spark.read.format(DELTA).load(place.uri(DELTA))
    folders = place.folders()
    if not place.parts(folders):
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
