"""The Spark source and sink at 1 KB: rows per second, beside Parquet and beside our client without Spark.

Run: ``python bench/spark.py [--messages 60000] [--rounds 3] [--only source,sink,whole]`` (needs the extra ``spark``;
``decode`` has a benchmark of its own). The queue manager is a process of its own, and everything shares this machine.
Whatever is compared takes turns, round by round, and each figure is the median of its rounds. Before the first,
everything has run once unmeasured: the start of Spark and of its Python workers, and what the virtual machine compiles
then, are in no figure. What Spark takes for any job, however small, is measured too, with nothing to read or write.
Its figures are told twice: with that time, and behind it without, which is what many messages or a stream come to.

* **Source**: a table read from a queue with all its columns, its bodies looked at, by one task and by two. Beside it
  the same rows from Parquet, and the same messages read by our client in one process.
* **Sink**: rows written to a queue, by one task and by two. Beside it Parquet, and our client that sends the same
  messages from one process.
* **Whole**: the same to a transactional queue, all of it or nothing.

"of one process" is the rate against our client in one process; the goal is 0.7 with one task, which has one core for
its Python. Where the queue manager, Spark's virtual machine and its Python workers want more cores than there are, they
share them: a computer with two shows the least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import msmq

SOURCE, SINK, WHOLE, EMPTY = (f".\\private$\\{name}" for name in ("source", "sink", "whole", "empty"))
BODY = bytes(range(256)) * 4
TASKS = (1, 2)
CLIENT, JOB, PARQUET = "our client, one process", "Spark, nothing to do", "Parquet, 1 task"
SPARK = {tasks: f"Spark, {tasks} task(s)" for tasks in TASKS}


@contextmanager
def serve(directory: Path) -> Iterator[str]:
    address = f"unix:{directory / 'api'}"
    command = [sys.executable, "-m", "msmq", "serve", "--data", str(directory / "data"), "--name", "BENCH"]
    command += ["--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--api", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready")
        yield address
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


def compare(
    kind: str, rows: int, rounds: int, works: Mapping[str, Callable[[], object]], after: Callable[[], object]
) -> None:
    """Measure works in turns; the first is the one the others are compared with, and one is the job of Spark with
    nothing to do. ``after`` each of them something is done that is not measured."""
    took: dict[str, list[float]] = {label: [] for label in works}
    for turn in range(rounds + 1):
        for label, work in works.items():
            begun = time.perf_counter()
            work()
            if turn:  # the first is for warming up
                took[label].append(time.perf_counter() - begun)
            after()
    seconds = {label: statistics.median(times) for label, times in took.items()}
    bare, job = seconds[CLIENT], seconds.pop(JOB)
    for label, time_s in seconds.items():
        text = f"{kind + ': ' + label:32} {rows / time_s:10,.0f} rows/s {bare / time_s:6.2f} of one process"
        if label in SPARK.values():
            goal = " (goal 0.7)" if label == SPARK[1] else ""
            text += f"{goal}; without the job itself {_without(job, time_s, bare, rows)}"
        print(text, flush=True)
    print(f"{kind + ': ' + JOB:32} {job:10.2f} s", flush=True)


def _without(job: float, time_s: float, bare: float, rows: int) -> str:
    """What is left of a time. A difference of two that are about the same would say nothing."""
    if job > time_s / 2:
        return "it cannot be told: these are too few messages"
    return f"{rows / (time_s - job):10,.0f} rows/s {bare / (time_s - job):6.2f}"


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
    works: dict[str, Callable[[], object]] = {CLIENT: lambda: bare_read(address)}
    for tasks, label in SPARK.items():
        works[label] = lambda n=tasks: look(read(spark, address, n))  # type: ignore[misc]
    path = str(folder / "rows")
    read(spark, address, 1).write.mode("overwrite").parquet(path)
    works[PARQUET] = lambda: look(spark.read.parquet(path))
    works[JOB] = lambda: look(read(spark, address, 1, EMPTY))
    compare("source", count, rounds, works, lambda: None)


def sink(spark: SparkSession, address: str, folder: Path, queue: str, count: int, rounds: int) -> None:
    kind = "sink" if queue == SINK else "whole"
    works: dict[str, Callable[[], object]] = {CLIENT: lambda: bare_send(address, queue, count)}
    rows = read(spark, address, 1).select("body", "label", "priority")
    tables = {tasks: rows.repartition(tasks).cache() for tasks in TASKS}
    nothing = rows.limit(0).repartition(1).cache()
    for tasks, table in tables.items():
        table.count()
        works[SPARK[tasks]] = lambda t=table: write(t, address, queue)  # type: ignore[misc]
    nothing.count()
    path = str(folder / "written")
    works[PARQUET] = lambda: tables[1].write.mode("overwrite").parquet(path)
    works[JOB] = lambda: write(nothing, address, queue)
    compare(kind, count, rounds, works, lambda: empty(address))
    for table in (*tables.values(), nothing):
        table.unpersist()


def main(messages: int, rounds: int, only: list[str]) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as name, serve(Path(name)) as address, session() as spark:
        folder = Path(name)
        with msmq.connect_sync(address) as mq:
            mq.create_queue(SOURCE).send_many(BODY for _ in range(messages))
            mq.create_queue(SINK)
            mq.create_queue(EMPTY)
            mq.create_queue(WHOLE, transactional=True)
        if "source" in only:
            source(spark, address, folder, messages, rounds)
        for kind, queue in (("sink", SINK), ("whole", WHOLE)):
            if kind in only:
                sink(spark, address, folder, queue, messages, rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["source", "sink", "whole"])
    given = parser.parse_args()
    main(given.messages, given.rounds, given.only)
