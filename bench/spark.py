"""The Spark source and sink at 1 KB: rows per second, beside Parquet and beside our client without Spark.

Run: ``python bench/spark.py [--messages 60000] [--rounds 3] [--only source,stream,sink,whole,streamed] [--pin]`` (needs
the extra ``spark``; ``decode`` has a benchmark of its own). The queue manager is a process of its own, and everything
shares this machine. Whatever is compared takes turns, round by round, and each figure is the median of its rounds.
Before the first, everything has run once unmeasured: the start of Spark and of its Python workers, and what the virtual
machine compiles then, are in no figure. What Spark takes for any job, however small, is measured too, with nothing to
read or write. Its figures are told twice: with that time, and behind it without, which is what many messages come to.

* **Source**: a table read from a queue with all its columns, its bodies looked at, by one task and by two. Beside it
  the same rows from Parquet by one task, and the same messages read by our client in one process. Goals: one task at
  least 0.5 of Parquet, two at least 1.6 of one.
* **Stream**: a stream from a queue into Parquet files, beside one from Parquet files with the same rows into Parquet
  files. What counts is the time of the batches, as Spark tells it itself, for a stream is started once. Goal: at least
  0.6 of that.
* **Sink**, **whole**, **streamed**: rows written to a queue, to a transactional one (all of them or nothing), and by a
  stream to a transactional one (each batch once). Beside it our client that sends the same messages from one process.
  Goal: with one task at least 0.7 of that.

Spark's virtual machine, its Python workers and the queue manager share the cores that there are: a computer with two
shows the least. With ``--pin`` the virtual machine has the first core and everything else the others, so that two tasks
do not gain what is only the machine's own second thread.
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
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import msmq

SOURCE, SINK, WHOLE, EMPTY = (f".\\private$\\{name}" for name in ("source", "sink", "whole", "empty"))
BODY = bytes(range(256)) * 4
TASKS = (1, 2)
CLIENT, JOB, PARQUET = "our client, one process", "Spark, nothing to do", "Parquet, 1 task"
ROUNDABOUT = "Parquet to Parquet"
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


def compare(
    kind: str,
    rows: int,
    rounds: int,
    works: Mapping[str, Callable[[], float | None]],
    goals: Sequence[Goal],
    after: Callable[[], object] = lambda: None,
) -> None:
    """Measure works in turns, which may tell themselves how many seconds they took; one is the job of Spark with
    nothing to do. ``after`` each of them something is done that is not measured."""
    took: dict[str, list[float]] = {label: [] for label in works}
    for turn in range(rounds + 1):
        for label, work in works.items():
            begun = time.perf_counter()
            told_s = work()
            if turn:  # the first is for warming up
                took[label].append(told_s or time.perf_counter() - begun)
            after()
    seconds = {label: statistics.median(times) for label, times in took.items()}
    job = seconds.pop(JOB)
    for label, time_s in seconds.items():
        without = (
            "" if label == CLIENT or job > time_s / 2 else f", without the job {rows / (time_s - job):,.0f}"
        )
        print(f"{kind + ': ' + label:36} {rows / time_s:10,.0f} rows/s{without}", flush=True)
    print(f"{kind + ': ' + JOB:36} {job:10.2f} s", flush=True)
    for goal in goals:
        mine, other = seconds[goal.of], seconds[goal.what]
        bare = (job if goal.what != CLIENT else 0.0) if other > 2 * job or goal.what == CLIENT else None
        more = (
            "" if bare is None or job > mine / 2 else f", without the job {(other - bare) / (mine - job):.2f}"
        )
        print(f"{kind}: {goal.of} is {other / mine:.2f} of {goal.what} (goal {goal.least}){more}", flush=True)


def look(frame: DataFrame) -> None:
    """Make Spark read every body and keep none."""
    frame.selectExpr("sum(octet_length(body))").collect()


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


def read(spark: SparkSession, address: str, tasks: int, queue: str = SOURCE) -> DataFrame:
    given = spark.read.format("msmq").option("server", address).option("partitions", str(tasks))
    return given.option("queue", queue).load()


def write(table: DataFrame, address: str, queue: str) -> None:
    given = table.write.format("msmq").option("server", address).option("queue", queue)
    given.option("deadLetter", "false").mode("append").save()  # what is purged between rounds is not kept


def source(spark: SparkSession, address: str, folder: Path, count: int, rounds: int) -> None:
    works: dict[str, Callable[[], float | None]] = {CLIENT: lambda: bare_read(address)}
    for tasks, label in SPARK.items():
        works[label] = lambda n=tasks: look(read(spark, address, n))  # type: ignore[misc]
    path = parquet(spark, address, folder)
    works[PARQUET] = lambda: look(spark.read.parquet(path))
    works[JOB] = lambda: look(read(spark, address, 1, EMPTY))
    compare("source", count, rounds, works, [Goal(SPARK[1], PARQUET, 0.5), Goal(SPARK[2], SPARK[1], 1.6)])


def parquet(spark: SparkSession, address: str, folder: Path) -> str:
    """The messages as Parquet, in one file."""
    path = str(folder / "rows")
    read(spark, address, 1).write.mode("overwrite").parquet(path)
    return path


def run(stream: DataFrame, form: str, checkpoint: Path, **options: str) -> float:
    """A stream, until everything is read that is there; gives how long its batches took."""
    write = stream.writeStream.format(form).options(**options).option("checkpointLocation", str(checkpoint))
    query = write.trigger(availableNow=True).start()
    assert query.awaitTermination(600)
    batches = [each for each in query.recentProgress if each.numInputRows]
    return sum(each.durationMs["triggerExecution"] for each in batches) / 1_000


def stream(spark: SparkSession, address: str, folder: Path, count: int, rounds: int) -> None:
    numbers = iter(range(1_000))
    path = parquet(spark, address, folder)
    rows = spark.read.parquet(path).schema

    def queue(name: str, tasks: int) -> float:
        place = folder / f"stream {next(numbers)}"
        read = spark.readStream.format("msmq").option("server", address).option("queue", name)
        read = read.option("partitions", str(tasks)).option("maxBytesPerTrigger", str(1 << 30))
        return run(read.load(), "parquet", place / "checkpoint", path=str(place / "rows"))

    def files() -> float:
        place = folder / f"stream {next(numbers)}"
        return run(
            spark.readStream.schema(rows).parquet(path),
            "parquet",
            place / "checkpoint",
            path=str(place / "rows"),
        )

    works: dict[str, Callable[[], float | None]] = {
        SPARK[tasks]: lambda n=tasks: queue(SOURCE, n)  # type: ignore[misc]
        for tasks in TASKS
    }
    works |= {ROUNDABOUT: files, JOB: lambda: queue(EMPTY, 1)}
    compare("stream", count, rounds, works, [Goal(SPARK[tasks], ROUNDABOUT, 0.6) for tasks in TASKS])


def sink(spark: SparkSession, address: str, folder: Path, kind: str, count: int, rounds: int) -> None:
    queue = SINK if kind == "sink" else WHOLE
    works: dict[str, Callable[[], float | None]] = {CLIENT: lambda: bare_send(address, queue, count)}
    rows = read(spark, address, 1).select("body", "label", "priority")
    tables = {tasks: rows.repartition(tasks).cache() for tasks in TASKS}
    nothing = rows.limit(0).repartition(1).cache()
    for tasks, table in tables.items():
        table.count()
        works[SPARK[tasks]] = lambda t=table: write(t, address, queue)  # type: ignore[misc]
    nothing.count()
    works[JOB] = lambda: write(nothing, address, queue)
    compare(kind, count, rounds, works, [Goal(SPARK[1], CLIENT, 0.7)], lambda: empty(address))
    for table in (*tables.values(), nothing):
        table.unpersist()


def streamed(spark: SparkSession, address: str, folder: Path, count: int, rounds: int) -> None:
    numbers = iter(range(1_000))
    places = {label: str(folder / f"from {tasks}") for tasks, label in SPARK.items()} | {
        JOB: str(folder / "none")
    }
    rows = read(spark, address, 1).select("body", "label", "priority")
    for tasks, label in SPARK.items():
        rows.repartition(tasks).write.mode("overwrite").parquet(places[label])
    rows.limit(0).write.mode("overwrite").parquet(places[JOB])
    kinds = rows.schema

    def send(place: str) -> float:
        table = spark.readStream.schema(kinds).parquet(place)
        checkpoint = folder / f"streamed {next(numbers)}"
        return run(table, "msmq", checkpoint, server=address, queue=WHOLE, deadLetter="false")

    works: dict[str, Callable[[], float | None]] = {CLIENT: lambda: bare_send(address, WHOLE, count)}
    works |= {label: lambda p=place: send(p) for label, place in places.items()}  # type: ignore[misc]
    compare("streamed", count, rounds, works, [Goal(SPARK[1], CLIENT, 0.7)], lambda: empty(address))


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


KINDS = ("source", "stream", "sink", "whole", "streamed")


def main(messages: int, rounds: int, only: list[str], pinned: bool) -> None:
    os.environ["PYSPARK_PYTHON"] = str(unpinned(Path(tempfile.mkdtemp()))) if pinned else sys.executable
    with tempfile.TemporaryDirectory() as name, serve(Path(name)) as (address, server), session() as spark:
        folder = Path(name)
        with msmq.connect_sync(address) as mq:
            chance = random.Random(1)  # Parquet would keep a body that all have only once
            mq.create_queue(SOURCE).send_many(chance.randbytes(len(BODY)) for _ in range(messages))
            mq.create_queue(SINK)
            mq.create_queue(EMPTY)
            mq.create_queue(WHOLE, transactional=True)
        if pinned:
            pin([server])
        for kind in only:
            if kind == "source":
                source(spark, address, folder, messages, rounds)
            elif kind == "stream":
                stream(spark, address, folder, messages, rounds)
            elif kind == "streamed":
                streamed(spark, address, folder, messages, rounds)
            else:
                sink(spark, address, folder, kind, messages, rounds)


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
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--pin", action="store_true")
    given = parser.parse_args()
    main(given.messages, given.rounds, given.only, given.pin)
