"""Archives: each message once, repeated batches, compaction, versions, and whatever of it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pyarrow.dataset as dataset
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from msmq.spark.archive import Archive, ArchiveError, archive, compact, read_archive
from tests.spark.halting import VARIABLE, Halts
from tests.spark.support import ORDERS, Server, eventually, finished, program


def bodies(spark: SparkSession, path: Path) -> list[str]:
    rows = read_archive(spark, str(path)).select("body").collect()
    return sorted(bytes(row.body).decode("utf-16-le") for row in rows)


def test_a_queue_is_archived_once_and_compacted(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    place = tmp_path / "archive"
    options = {"server": server.address, "queue": ORDERS, "mode": "consume", "maxMessagesPerTrigger": "4"}
    expected = []
    for run in range(2):
        sent = [f"{run} {number}" for number in range(6)]
        server.send(sent)
        expected += sent
        finished(lambda: archive(spark, str(place), options))
    assert bodies(spark, place) == expected
    assert server.bodies() == []
    folders = Archive(str(place)).folders()
    assert len(folders) == 4
    assert compact(spark, str(place)) == 3
    assert len(Archive(str(place)).folders()) == 2
    assert bodies(spark, place) == expected
    assert server.bodies() == []


def test_a_repeated_batch_is_written_anew(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.send(["a", "b"])
    place = tmp_path / "archive"
    options = {"server": server.address, "queue": ORDERS}
    finished(lambda: archive(spark, str(place), options))
    for committed in (place / "_checkpoint" / "commits").iterdir():
        committed.unlink()  # as if it had been killed before
    server.send(["c"])
    finished(lambda: archive(spark, str(place), options))
    assert bodies(spark, place) == ["a", "b", "c"]


def folder(place: Path, name: str, *, done: bool = True) -> None:
    (place / "messages" / name).mkdir(parents=True)
    if done:
        (place / "messages" / name / "_SUCCESS").touch()


def test_half_a_batch_does_not_count(tmp_path: Path) -> None:
    Archive(str(tmp_path)).prepare()
    folder(tmp_path, "batch=000")
    folder(tmp_path, "batch=001", done=False)
    assert Archive(str(tmp_path)).folders() == ["batch=000"]


def test_a_compaction_that_was_killed_is_ended(tmp_path: Path) -> None:
    """While its folder is not whole the others count; then it counts, whatever is left of them."""
    place = Archive(str(tmp_path))
    place.prepare()
    for name in ("batch=000", "batch=001", "batch=001.1", "batch=002"):
        folder(tmp_path, name)
    folder(tmp_path, "batch=000-001", done=False)
    assert place.folders() == ["batch=000", "batch=001.1", "batch=002"]
    (tmp_path / "messages" / "batch=000-001" / "_SUCCESS").touch()
    assert place.folders() == ["batch=000-001", "batch=002"]
    place.prepare()
    assert sorted(path.name for path in (tmp_path / "messages").iterdir()) == ["batch=000-001", "batch=002"]


def test_a_batch_is_written_beside_the_one_it_replaces(tmp_path: Path) -> None:
    """What is there counts until the new one is whole, and is deleted only then."""
    place = Archive(str(tmp_path))
    place.prepare()
    seen: list[list[str]] = []

    def write(target: str) -> None:
        seen.append(place.folders())
        Path(target.removeprefix("file://")).mkdir(parents=True)

    names = [place.fill(7, 7, write) for _ in range(3)]
    assert names == ["batch=000000000007", "batch=000000000007.1", "batch=000000000007.2"]
    assert seen == [[], names[:1], names[1:2]]
    assert place.folders() == names[2:]
    assert place.fill(5, 8, write) == "batch=000000000005-000000000008"
    assert [path.name for path in (tmp_path / "messages").iterdir()] == ["batch=000000000005-000000000008"]
    with pytest.raises(ArchiveError, match="the batch 7 is among those of batch=000000000005-000000000008"):
        place.fill(7, 7, write)


def test_an_archive_without_its_checkpoint_takes_no_message(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Batches would be counted from 0 again, and take the place of those that are there."""
    Archive(str(tmp_path)).prepare()
    folder(tmp_path, "batch=000000000000")
    with pytest.raises(ArchiveError, match="its folder _checkpoint is gone"):
        archive(spark, str(tmp_path), {"server": server.address, "queue": ORDERS, "mode": "consume"})


def test_a_checkpoint_that_is_older_than_the_archive_overwrites_nothing(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """It gives the number of a batch again to other messages; those of that batch are nowhere else any more."""
    server.create(ORDERS)
    place = tmp_path / "archive"
    options = {"server": server.address, "queue": ORDERS, "mode": "consume"}
    for body in ("a", "b"):
        server.send([body])
        finished(lambda: archive(spark, str(place), options))
        if body == "a":
            shutil.copytree(place / "_checkpoint", tmp_path / "older")
    shutil.rmtree(place / "_checkpoint")
    shutil.copytree(tmp_path / "older", place / "_checkpoint")
    server.send(["c"])
    with pytest.raises(PySparkException, match="is older than that"):
        finished(lambda: archive(spark, str(place), options))
    assert bodies(spark, place) == ["a", "b"]
    assert server.bodies() == ["c"]


def test_a_delta_table_without_its_checkpoint_takes_no_message(tmp_path: Path) -> None:
    """Delta passes over batches whose numbers it has had: their messages would be removed and written nowhere."""
    place = Archive(str(tmp_path))
    place.prepare("delta")
    place.check_checkpoint()
    for number in (3, 3, 4):
        place.begin_batch(number)
    with pytest.raises(ArchiveError, match="its folder _checkpoint is gone"):
        place.check_checkpoint()
    with pytest.raises(ArchiveError, match="gives the number 3 to other messages now"):
        place.begin_batch(3)
    (tmp_path / "_checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "_checkpoint" / "offsets" / "4").write_text("another end", encoding="utf-8")
    with pytest.raises(ArchiveError, match="gives the number 4 to other messages now"):
        place.begin_batch(4)
    place.check_checkpoint()


def test_columns_that_were_added_later(spark: SparkSession, tmp_path: Path) -> None:
    """A batch of an older release has fewer columns, and they are null."""
    Archive(str(tmp_path)).prepare()
    table = "SELECT 'orders' AS queue, current_date() AS date, binary('%s') AS body"
    for number, columns in enumerate(("", ", 'a label' AS label")):
        folder_of_batch = tmp_path / "messages" / f"batch={number}"
        batch = spark.sql((table % f"body {number}") + columns)
        batch.write.partitionBy("queue", "date").parquet(str(folder_of_batch))
    rows = read_archive(spark, str(tmp_path)).orderBy("body").collect()
    assert [(bytes(row.body), row.label) for row in rows] == [(b"body 0", None), (b"body 1", "a label")]


def test_a_column_keeps_its_type(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """A run that would write another is refused before it takes a message out of its queue."""
    server.create(ORDERS)
    server.send(["a"])
    place = str(tmp_path / "archive")
    options = {"server": server.address, "queue": ORDERS, "mode": "consume"}
    finished(lambda: archive(spark, place, options))
    server.send(["b"])
    with pytest.raises(
        ArchiveError, match="has the column body as binary; with these options it would be string"
    ):
        archive(spark, place, {**options, "body": "activex"})
    assert server.bodies() == ["b"]
    finished(lambda: archive(spark, place, {**options, "includeHeaders": "true"}))
    finished(lambda: archive(spark, place, options))
    assert bodies(spark, tmp_path / "archive") == ["a", "b"]
    said = json.loads((tmp_path / "archive" / "_archive.json").read_text(encoding="utf-8"))
    assert (said["schema_version"], said["columns"]["body"]) == (1, "binary")
    assert said["columns"]["headers"] == "map<string,string>"


def test_large_messages_are_read_few_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would hold up to 4,096 rows of four megabytes, however well they are compressed in their file."""
    size = "spark.sql.parquet.columnarReaderBatchSize"
    place = Archive(str(tmp_path))
    place.prepare()
    table = "SELECT 'orders' AS queue, current_date() AS date, binary(repeat('x', %d)) AS body FROM range(%d)"
    for number, (length, rows) in enumerate(((100, 5_000), (4_000_000, 10))):
        batch = spark.sql(table % (length, rows)).coalesce(1)
        batch.write.partitionBy("queue", "date").parquet(str(tmp_path / "messages" / f"batch={number}"))
    usual = spark.conf.get(size)
    try:
        assert place.rows_within(["batch=0"], 16 << 20) > 100_000
        assert place.rows_within(["batch=0", "batch=1"], 16 << 20) == 4
        assert read_archive(spark, str(tmp_path)).selectExpr("sum(length(body))").first() == (40_500_000,)
        assert spark.conf.get(size) == "4"
    finally:
        spark.conf.unset(size)
    assert spark.conf.get(size) == usual


def test_without_delta_it_says_what_to_install(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"io\.delta:delta-spark_\d+\.\d+_2\.13:.*parquet needs nothing"):
        archive(spark, str(tmp_path / "archive"), {"queue": ORDERS}, format="delta")
    assert not (tmp_path / "archive").exists()
    about = '{"schema_version": 1, "format": "delta", "id": "x"}'
    (tmp_path / "_archive.json").write_text(about, encoding="utf-8")
    for use in (read_archive, compact):
        with pytest.raises(ArchiveError, match="Delta Lake"):
            use(spark, str(tmp_path))


def test_formats(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="parquet or delta, not 'orc'"):
        Archive(str(tmp_path)).prepare("orc")
    Archive(str(tmp_path)).prepare("delta")
    with pytest.raises(ArchiveError, match="another format"):
        Archive(str(tmp_path)).prepare()


def test_what_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no archive"):
        Archive(str(tmp_path)).check()
    (tmp_path / "_archive.json").write_text('{"schema_version": 99}', encoding="utf-8")
    with pytest.raises(ArchiveError, match="99"):
        Archive(str(tmp_path)).prepare()


# --- killed -----------------------------------------------------------------------------------------------------------

STARTING_S = 600
CONTINUOUSLY = ("--every", "1 second")
KILLS = (
    ("reading", CONTINUOUSLY),  # a task has given some messages, and its file is begun
    ("written", ()),  # the folder of a batch is whole, and Spark has not written that the batch is done
    ("half-deleted", ("--compact",)),  # one folder stands for several, and one of those is gone
)


class Killed:
    """A queue that is archived and consumed, by a command that is killed again and again."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.place = directory / "archive"
        self.halts = Halts(directory / "halts")
        self.halts.folder.mkdir()
        self.sent: set[str] = set()
        server.create(ORDERS)

    def send(self, run: str) -> None:
        bodies = [f"{run} {number}" for number in range(30)]
        self.server.send(bodies)
        self.sent.update(bodies)

    def command(
        self, more: tuple[str, ...], output: IO[bytes] | None = None
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        given = ("--queue", ORDERS, "--consume", "--server", self.server.address, *more)
        limits = ("--option", "maxMessagesPerTrigger=15", "--option", "timeout=120")
        folder = str(self.place)
        variables = {VARIABLE: str(self.halts.folder)}
        return program("tests.spark.archiver", "archive", folder, *given, *limits, output=output, **variables)

    def kill_when(self, phase: str, more: tuple[str, ...]) -> None:
        self.halts.at(phase)
        ended = True
        # Spark gives a worker of Python ten seconds to begin, which a busy computer may not have.
        while ended:
            said = self.place.with_name("said")
            with said.open("wb") as log, self.command(more, log) as run:
                eventually(lambda r=run: r.poll() is not None or self.halts.reached(phase), STARTING_S)  # type: ignore[misc]
                ended = run.poll() is not None
            text = said.read_text(encoding="utf-8")
            assert not ended or "failed to connect back" in text, f"it ended before it was {phase}: {text}"
        waiting = self.halts.reached(phase)
        eventually(lambda: not Path(f"/proc/{waiting}").exists())
        self.halts.go_on(phase)

    def archived(self) -> list[str]:
        """What a reader of the archive finds."""
        found = []
        for name in Archive(str(self.place)).folders():
            table = dataset.dataset(self.place / "messages" / name, format="parquet").to_table(["body"])
            found += [body.decode("utf-16-le") for body in table["body"].to_pylist()]
        return found

    def is_sound(self) -> None:
        archived, queued = self.archived(), self.server.bodies()
        assert len(archived) == len(set(archived)), "twice"
        assert {*archived, *queued} == self.sent, "lost"


def test_the_virtual_machine_ends_and_the_command_says_why(server: Server, tmp_path: Path) -> None:
    """When it has run out of memory nobody answers any more, and a refused connection says nothing to anybody."""
    killed = Killed(server, tmp_path)
    killed.send("a")
    killed.halts.at("reading")
    with (tmp_path / "said").open("wb") as said, killed.command((), said) as run:
        eventually(lambda: run.poll() is not None or killed.halts.reached("reading"), STARTING_S)
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text(encoding="ascii")
        (java,) = (
            int(each) for each in children.split() if b"java" in Path(f"/proc/{each}/cmdline").read_bytes()
        )
        os.kill(java, signal.SIGKILL)
        assert run.wait(STARTING_S) == 1
    lines = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    (told,) = [line for line in lines if line.startswith("msmq: ")]
    assert told.startswith("msmq: Spark's virtual machine ended by signal 9. Most often it")
    assert "spark.driver.memory" in told
    assert "maxBytesPerTrigger" in told
    assert len(server.bodies()) == 30


def test_killed_at_any_time_every_message_is_archived_once(server: Server, tmp_path: Path) -> None:
    killed = Killed(server, tmp_path)
    for phase, more in KILLS:
        killed.send(phase)
        killed.kill_when(phase, more)
        killed.is_sound()
    with killed.command(("--compact",)) as run:
        assert run.wait(STARTING_S) == 0
    assert sorted(killed.archived()) == sorted(killed.sent)
    assert server.bodies() == [], "left behind"
