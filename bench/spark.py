"""The Spark source and sink at 1 KB: rows per second, beside Parquet and beside our client without Spark.

Run: ``python bench/spark.py [--messages 200000] [--rounds 3] [--only source,stream,sink,whole,streamed] [--pin]``
(needs the extra ``spark``; ``decode`` has a benchmark of its own). The queue manager is a process of its own, and
everything shares this machine. Whatever is compared takes turns, round by round, and each figure is the median of its
rounds. Before the first, everything has run once unmeasured: the start of Spark and of its Python workers, and what the
virtual machine compiles then, are in no figure. What Spark takes for any job, however small, is measured too, with one
row. Its figures are told twice: with that time, and behind it without, which is what many messages come to.

* **Source**: a table read from a queue, its bodies looked at, by one task and by two. Beside it the same rows from
  Parquet by one task, and the same messages read by our client in one process. Spark tells Parquet that only bodies are
  wanted, and a Python source nothing, so that by itself this one makes all its columns. That is the worst case. What
  both have to do alike stands beside it: bodies only, which a schema says to the source, and whole rows, of which
  nothing is kept. What Spark itself takes for any Python source is told by one that reads no queue: its batches, with
  bodies only, are ready. Goals: one task at least 0.5 of Parquet; two at least 1.6 of one, where the cores allow it.
* **Stream**: a stream from a queue into Parquet files, beside one from Parquet files with the same rows into Parquet
  files. What counts is the time of the batches, as Spark tells it itself, for a stream is started once. Goal: at least
  0.6 of that.
* **Sink**, **whole**, **streamed**: rows written to a queue, to a transactional one (all of them or nothing), and by a
  stream to a transactional one (each batch once). Beside it our client that sends the same messages from one process.
  Goal: with one task at least 0.7 of that.

Each figure has the processor time of a row beside it: of the queue manager, of Spark's virtual machine, of its Python
workers, and of this program. Goals are told by processor time as well, of all these together and with what the job
takes: that is what counts for each core, and it depends less on what else the machine does. They share the cores that
there are, so that one task may leave little to others: how much more there is, is said as well. Where two cannot be
much faster than one, what tells is that they take no more processor time. The number of messages is large enough that
the job, which takes some tenths of a second, is a small part of each figure. With ``--pin`` the virtual machine has the
first core and everything else the others, so that two tasks do not gain what is only the machine's own second thread;
with two cores there is then hardly anything left to gain.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import msmq

SOURCE, SINK, WHOLE, SINGLE = (f".\\private$\\{name}" for name in ("source", "sink", "whole", "single"))
BODY = bytes(range(256)) * 4
TASKS = (1, 2)
CLIENT, JOB, PARQUET = "our client, one process", "Spark, one row", "Parquet, 1 task"
BODIES, ROWS, PARQUET_ROWS = "Spark, bodies only", "Spark, whole rows", "Parquet, whole rows"
READY = "no queue, batches ready"
"""By one task each."""
ROUNDABOUT = "Parquet to Parquet"
WRITTEN = ("body", "label", "priority")
READY_ROWS = 4_096
Work = Callable[[], float | None]
SPARK = {tasks: f"Spark, {tasks} task(s)" for tasks in TASKS}


@contextmanager
def serve(directory: Path) -> Iterator[tuple[str, int]]:
    address = f"unix:{directory / 'api'}"
    command = [sys.executable, "-m", "msmq", "serve", "--data", str(directory / "data"), "--name", "BENCH"]
    command += ["--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--api", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def session() -> Iterator[SparkSession]:
    builder = SparkSession.builder.master(f"local[{max(TASKS)}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class Goal(NamedTuple):
    """At least so much of something else."""

    of: str
    what: str
    least: float


class Used(NamedTuple):
    """Processor time in seconds, by who took it."""

    manager: float
    machine: float
    workers: float
    program: float

    def __sub__(self, other: Used) -> Used:
        return Used(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


class Processors:
    """Reads how much processor time the queue manager, Spark's virtual machine, its Python workers and this program
    have taken."""

    def __init__(self, manager: int) -> None:
        gateway = SparkContext._gateway
        assert gateway is not None
        self._manager = manager
        self._machine = gateway.proc.pid

    def used(self) -> Used:
        every = _every_process()
        manager, machine = every[self._manager], every[self._machine]
        workers = sum(process.own + process.gone for process in _below(self._machine, every)) + machine.gone
        own = os.times()
        return Used(manager.own, machine.own, workers, own.user + own.system)


NOTHING = Used(0, 0, 0, 0)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    parent: int
    own: float
    """Processor time in seconds."""
    gone: float
    """The same of its children that have ended."""


def _every_process() -> dict[int, Process]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            user, system, gone_user, gone_system = map(int, fields[11:15])
            own, gone = (user + system) / _TICKS_PER_S, (gone_user + gone_system) / _TICKS_PER_S
            found[int(folder.name)] = Process(int(fields[1]), own, gone)
    return found


def _below(ancestor: int, every: Mapping[int, Process]) -> Iterator[Process]:
    """The processes that a process has begun, and those that these have."""
    for number, process in every.items():
        if process.parent == ancestor:
            yield process
            yield from _below(number, every)


def compare(
    kind: str,
    place: Place,
    works: Mapping[str, Work],
    goals: Sequence[Goal],
    after: Callable[[], object] = lambda: None,
) -> None:
    """Measure works in turns, which may tell themselves how many seconds they took; one is the job of Spark with
    nothing to do. ``after`` each of them something is done that is not measured."""
    took: dict[str, list[float]] = {label: [] for label in works}
    used: dict[str, list[Used]] = {label: [] for label in works}
    rows, processors = place.rows, place.processors
    for turn in range(place.rounds + 1):
        for label, work in works.items():
            before, begun = processors.used(), time.perf_counter()
            told_s = work()
            if turn:  # the first is for warming up
                took[label].append(told_s or time.perf_counter() - begun)
                used[label].append(processors.used() - before)
            after()
    seconds = {label: statistics.median(times) for label, times in took.items()}
    processor = {
        label: Used(*map(statistics.median, zip(*times, strict=True))) for label, times in used.items()
    }
    job, idle = seconds.pop(JOB), processor.pop(JOB)
    for label, time_s in seconds.items():
        without = (
            "" if label == CLIENT or job > time_s / 2 else f", without the job {rows / (time_s - job):,.0f}"
        )
        print(f"{kind + ': ' + label:36} {rows / time_s:10,.0f} rows/s{without}", flush=True)
        print(f"{'':36} {taken(processor[label], idle if label != CLIENT else NOTHING, rows)}", flush=True)
    print(f"{kind + ': ' + JOB:36} {job:10.2f} s", flush=True)
    for goal in goals:
        mine, other = seconds[goal.of], seconds[goal.what]
        bare = (job if goal.what != CLIENT else 0.0) if other > 2 * job or goal.what == CLIENT else None
        more = (
            "" if bare is None or job > mine / 2 else f", without the job {(other - bare) / (mine - job):.2f}"
        )
        cores = sum(processor[goal.what]) / sum(processor[goal.of])
        told = f"{other / mine:.2f} of {goal.what} (goal {goal.least}){more}, by processor time {cores:.2f}"
        print(f"{kind}: {goal.of} is {told}", flush=True)
    shares = {label: processor[label] - idle for label in SPARK.values()}
    one, two = SPARK.values()
    print(
        f"{kind}: a row of {two} takes {sum(shares[two]) / sum(shares[one]):.2f} of the processor time of {one}"
    )
    if seconds[one] > 2 * job:
        print(
            f"{kind}: more tasks have at most {room(shares[one], seconds[one] - job, place.pinned):.2f} of {one}"
        )


def room(used: Used, time_s: float, pinned: bool) -> float:
    """How much more the cores have than was used of them: no number of tasks can be faster than that."""
    cores = len(os.sched_getaffinity(0))
    machine, others = used.machine, sum(used) - used.machine
    if pinned:
        return min(time_s / machine, (cores - 1) * time_s / others)
    return cores * time_s / (machine + others)


def taken(used: Used, idle: Used, rows: int) -> str:
    """Processor time of each row, without what is taken with nothing to do."""
    each = [f"{name} {max(0.0, time_s) / rows * 1e6:.1f}" for name, time_s in (used - idle)._asdict().items()]
    return f"us of processor time a row: {', '.join(each)}"


def look(frame: DataFrame) -> None:
    """Make Spark read every body and keep none."""
    frame.selectExpr("sum(octet_length(body))").collect()


def drop(frame: DataFrame) -> None:
    """Make Spark read every column and keep none."""
    frame.write.format("noop").mode("overwrite").save()


# --- our client -------------------------------------------------------------------------------------------------------


def bare_read(address: str) -> None:
    with msmq.connect_sync(address) as mq:
        queue = mq.queue(SOURCE)
        assert sum(len(message.body) for batch in queue.span(0, (1 << 64) - 1) for message in batch)


def bare_send(address: str, name: str, count: int) -> None:
    with msmq.connect_sync(address) as mq:
        if name == SINK:
            mq.queue(name).send_many((BODY for _ in range(count)), dead_letter=False)
            return
        with mq.transaction() as transaction:
            bodies = (BODY for _ in range(count))
            mq.queue(name).send_many(bodies, transaction=transaction, dead_letter=False)


def empty(address: str) -> None:
    with msmq.connect_sync(address) as mq:
        for name in (SINK, WHOLE):
            mq.queue(name).purge()


# --- Spark ------------------------------------------------------------------------------------------------------------


class Ready(DataSource):
    """A source that has only to hand out batches."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return "body BINARY"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyReader(int(self.options["rows"]))


class ReadyReader(DataSourceReader):
    """Hands out one batch over and over."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        chance = random.Random(1)
        batch = pa.record_batch({"body": [chance.randbytes(1024) for _ in range(READY_ROWS)]})
        for start in range(0, self._rows, READY_ROWS):
            yield batch.slice(0, self._rows - start)


class Place(NamedTuple):
    """Where everything is, and how much of it."""

    spark: SparkSession
    address: str
    folder: Path
    rows: int
    rounds: int
    processors: Processors
    pinned: bool = False
    """Whether the virtual machine has the first core for itself."""

    def read(self, tasks: int, queue: str = SOURCE, columns: str | None = None) -> DataFrame:
        given = self.spark.read.format("msmq").option("server", self.address).option("partitions", str(tasks))
        return (given if columns is None else given.schema(columns)).option("queue", queue).load()

    def write(self, table: DataFrame, queue: str) -> None:
        given = table.write.format("msmq").option("server", self.address).option("queue", queue)
        given.option("deadLetter", "false").mode("append").save()  # what is purged between rounds is not kept

    def parquet(self, queue: str = SOURCE) -> str:
        """The messages of a queue as Parquet, in one file."""
        path = str(self.folder / queue.rpartition("\\")[2])
        self.read(1, queue).write.mode("overwrite").parquet(path)
        return path


def source(place: Place) -> None:
    works: dict[str, Work] = {CLIENT: lambda: bare_read(place.address)}
    for tasks, label in SPARK.items():
        works[label] = lambda n=tasks: look(place.read(n))  # type: ignore[misc]
    path = place.parquet()
    works[PARQUET] = lambda: look(place.spark.read.parquet(path))
    works[BODIES] = lambda: look(place.read(1, columns="body BINARY"))
    works[ROWS] = lambda: drop(place.read(1))
    works[PARQUET_ROWS] = lambda: drop(place.spark.read.parquet(path))
    place.spark.dataSource.register(Ready)
    works[READY] = lambda: look(place.spark.read.format("ready").option("rows", str(place.rows)).load())
    works[JOB] = lambda: look(place.read(1, SINGLE))
    goals = [Goal(SPARK[1], PARQUET, 0.5), Goal(BODIES, PARQUET, 0.5), Goal(ROWS, PARQUET_ROWS, 0.5)]
    compare("source", place, works, [*goals, Goal(SPARK[2], SPARK[1], 1.6)])


def run(stream: DataFrame, form: str, checkpoint: Path, **options: str) -> float:
    """A stream, until everything is read that is there; gives how long its batches took."""
    write = stream.writeStream.format(form).options(**options).option("checkpointLocation", str(checkpoint))
    query = write.trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    batches = [each for each in query.recentProgress if each.numInputRows]
    assert batches
    return sum(each.durationMs["triggerExecution"] for each in batches) / 1_000


def stream(place: Place) -> None:
    numbers = iter(range(1_000))
    path = place.parquet()
    rows = place.spark.read.parquet(path).schema

    def written(read: DataFrame) -> float:
        folder = place.folder / f"stream {next(numbers)}"
        return run(read, "parquet", folder / "checkpoint", path=str(folder / "rows"))

    def queue(name: str, tasks: int) -> float:
        read = place.spark.readStream.format("msmq").option("server", place.address).option("queue", name)
        return written(
            read.option("partitions", str(tasks)).option("maxBytesPerTrigger", str(1 << 30)).load()
        )

    works: dict[str, Work] = {
        SPARK[tasks]: lambda n=tasks: queue(SOURCE, n)  # type: ignore[misc]
        for tasks in TASKS
    }
    works |= {
        ROUNDABOUT: lambda: written(place.spark.readStream.schema(rows).parquet(path)),
        JOB: lambda: queue(SINGLE, 1),
    }
    compare("stream", place, works, [Goal(SPARK[tasks], ROUNDABOUT, 0.6) for tasks in TASKS])


def sink(place: Place, kind: str) -> None:
    queue = SINK if kind == "sink" else WHOLE
    works: dict[str, Work] = {CLIENT: lambda: bare_send(place.address, queue, place.rows)}
    tables = {
        label: place.read(1).select(*WRITTEN).repartition(tasks).cache() for tasks, label in SPARK.items()
    } | {JOB: place.read(1, SINGLE).select(*WRITTEN).cache()}
    for label, table in tables.items():
        table.count()
        works[label] = lambda t=table: place.write(t, queue)  # type: ignore[misc]
    compare(kind, place, works, [Goal(SPARK[1], CLIENT, 0.7)], lambda: empty(place.address))
    for table in tables.values():
        table.unpersist()


def streamed(place: Place) -> None:
    numbers = iter(range(1_000))
    folders = {label: str(place.folder / f"from {tasks}") for tasks, label in SPARK.items()}
    for tasks, label in SPARK.items():
        place.read(1).select(*WRITTEN).repartition(tasks).write.mode("overwrite").parquet(folders[label])
    folders[JOB] = place.parquet(SINGLE)
    kinds = place.read(1).select(*WRITTEN).schema

    def send(folder: str) -> float:
        table = place.spark.readStream.schema(kinds).parquet(folder)
        checkpoint = place.folder / f"streamed {next(numbers)}"
        return run(table, "msmq", checkpoint, server=place.address, queue=WHOLE, deadLetter="false")

    works: dict[str, Work] = {CLIENT: lambda: bare_send(place.address, WHOLE, place.rows)}
    works |= {label: lambda p=folder: send(p) for label, folder in folders.items()}  # type: ignore[misc]
    compare("streamed", place, works, [Goal(SPARK[1], CLIENT, 0.7)], lambda: empty(place.address))


def pin(processes: list[int]) -> None:
    """Let Spark's virtual machine have the first core, and others, now and later, the rest."""
    first, *others = sorted(os.sched_getaffinity(0))
    gateway = SparkContext._gateway
    assert gateway is not None
    for thread in Path(f"/proc/{gateway.proc.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {first})
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), others)


KINDS: dict[str, Callable[[Place], None]] = {
    "source": source,
    "stream": stream,
    "sink": lambda place: sink(place, "sink"),
    "whole": lambda place: sink(place, "whole"),
    "streamed": streamed,
}


def main(messages: int, rounds: int, only: list[str], pinned: bool) -> None:
    os.environ["PYSPARK_PYTHON"] = str(unpinned(Path(tempfile.mkdtemp()))) if pinned else sys.executable
    with tempfile.TemporaryDirectory() as name, serve(Path(name)) as (address, server), session() as spark:
        with msmq.connect_sync(address) as mq:
            chance = random.Random(1)  # Parquet would keep a body that all have only once
            mq.create_queue(SOURCE).send_many(chance.randbytes(len(BODY)) for _ in range(messages))
            mq.create_queue(SINGLE).send(BODY)
            mq.create_queue(SINK)
            mq.create_queue(WHOLE, transactional=True)
        if pinned:
            pin([server])
        place = Place(spark, address, Path(name), messages, rounds, Processors(server), pinned)
        for kind in only:
            KINDS[kind](place)


def unpinned(folder: Path) -> Path:
    """A Python for the workers, which are children of the virtual machine, on the cores that it has not."""
    others = ",".join(map(str, sorted(os.sched_getaffinity(0))[1:]))
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec taskset -c {others} {sys.executable} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return program


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--pin", action="store_true")
    given = parser.parse_args()
    main(given.messages, given.rounds, given.only, given.pin)
