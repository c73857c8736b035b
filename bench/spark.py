"""The Spark source, sink and ``decode`` at 1 KB: rows per second, beside Parquet and beside our code without Spark.

Run: ``python bench/spark.py [--messages 50000] [--packets 50000] [--only source,sink,decode]`` (needs the extras
``spark`` and ``capture``). The queue manager is a process of its own, and everything shares this machine. Each figure
is the best of ``--rounds``. Before the first, everything has run once unmeasured: the start of Spark and of its Python
workers, and what the virtual machine compiles then, are in no figure.

* **Source**: a table read from a queue, its bodies looked at, with one core and with two. Beside it the same rows
  from Parquet, and the same messages read by our client in one process.
* **Sink**: the same rows written to a queue, and to a transactional one as a whole. Beside it Parquet, and our client
  that sends them from one process, outside of a transaction and in one.
* **Decode**: captures, two files with a thousand connections each, their packets counted. Beside it the same loop over
  the same packets in one process, without Spark and without making rows.

"of one process" is the rate against our code without Spark on one core; goals are 0.7 for source and sink and 0.5 for
``decode`` with one core, and for ``decode`` twice as much with two. Where the queue manager, Spark's virtual machine
and its Python workers want more cores than there are, they share them: a computer with two shows the least.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import msmq
from msmq.capture.format import Format
from msmq.capture.inputs import Source, Tally, find_packets
from msmq.manager.message import Message
from msmq.manager.serialize import serialize
from msmq.spark.decode import decode
from msmq.wire.framing import decode_packet

SOURCE, SINK, WHOLE = (f".\\private$\\{name}" for name in ("source", "sink", "whole"))
BODY = bytes(range(256)) * 4
CONNECTIONS = 1_000
CORES = (1, 2)


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
def session(cores: int) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


class Figures:
    """Measures, and keeps the rate of our code without Spark to compare with."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._bare: dict[str, float] = {}

    def __call__(
        self, kind: str, label: str, rows: int, work: Callable[[], object], *, bare: bool = False
    ) -> None:
        best = float("inf")
        for _ in range(self._rounds):
            begun = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - begun)
        rate = rows / best
        if bare:
            self._bare[kind] = rate
        share = f"{rate / self._bare[kind]:6.2f} of one process" if kind in self._bare else ""
        print(f"{label:44} {rate:10,.0f} rows/s  {share}", flush=True)


def look(frame: DataFrame) -> None:
    """Make Spark read every body and keep none."""
    frame.selectExpr("sum(octet_length(body))").collect()


def bare_read(address: str) -> None:
    with msmq.connect_sync(address) as mq:
        queue = mq.queue(SOURCE)
        assert sum(len(message.body) for batch in queue.span(0, (1 << 64) - 1) for message in batch)


def bare_send(address: str, name: str, count: int) -> None:
    with msmq.connect_sync(address) as mq:
        if name == SINK:
            mq.queue(name).send_many(BODY for _ in range(count))
            return
        with mq.transaction() as transaction:
            mq.queue(name).send_many((BODY for _ in range(count)), transaction=transaction)


def empty(address: str) -> None:
    with msmq.connect_sync(address) as mq:
        for name in (SINK, WHOLE):
            mq.queue(name).purge()


def source(spark: SparkSession, address: str, cores: int, count: int, figures: Figures) -> DataFrame:
    given = spark.read.format("msmq").option("server", address).option("partitions", str(cores))
    table = given.option("queue", SOURCE).load()
    look(table)
    figures("source", f"source: Spark, {cores} core(s)", count, lambda: look(table))
    return table


def sink(
    spark: SparkSession, rows: DataFrame, address: str, cores: int, count: int, figures: Figures
) -> None:
    def write(table: DataFrame, queue: str) -> None:
        given = table.write.format("msmq").option("server", address).option("queue", queue)
        given.mode("append").save()

    table = rows.repartition(cores).cache()
    table.count()
    for queue, kind in ((SINK, "sink"), (WHOLE, "whole")):
        write(table.limit(100), queue)
        label = "as rows come" if queue == SINK else "as a whole"
        figures(kind, f"sink: Spark, {cores} core(s), {label}", count, lambda q=queue: write(table, q))  # type: ignore[misc]
        empty(address)
    table.unpersist()


def parquet(
    spark: SparkSession, rows: DataFrame, folder: Path, cores: int, count: int, figures: Figures
) -> None:
    table = rows.repartition(cores).cache()
    table.count()
    path = str(folder / "rows")
    table.write.mode("overwrite").parquet(path)
    figures(
        "parquet",
        f"  Parquet written, {cores} core(s)",
        count,
        lambda: table.write.mode("overwrite").parquet(path),
    )
    look(spark.read.parquet(path))
    figures("parquet", f"  Parquet read, {cores} core(s)", count, lambda: look(spark.read.parquet(path)))
    table.unpersist()


# --- captures ---------------------------------------------------------------------------------------------------------


def write_capture(path: Path, packets: int) -> None:
    """Connections that take turns, each packet in one segment."""
    destination = "DIRECT=OS:server\\private$\\orders"
    data = serialize(Message(body=BODY, label="order", destination_queue_format_name=destination)).data
    tcp = struct.Struct("!HHIIBBHHH")
    ip = struct.Struct("!BBHHHBBH4s4s")
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number in range(packets):
            turn, connection = divmod(number, CONNECTIONS)
            segment = (
                tcp.pack(20_000 + connection, 1801, turn * len(data), 0, 0x50, 0x10, 0xFFFF, 0, 0) + data
            )
            addresses = bytes((10, 0, 0, 2)), bytes((10, 0, 0, 1))
            head = ip.pack(0x45, 0, ip.size + len(segment), 0, 0, 64, 6, 0, *addresses)
            frame = bytes(12) + b"\x08\0" + head + segment
            file.write(struct.pack("<IIII", 1_700_000_000 + turn, 0, len(frame), len(frame)) + frame)


def bare_decode(path: Path) -> None:
    with Source.open(str(path)) as capture:
        for found in find_packets(capture, Format.AUTO, 1801, 3527, Tally()):
            decode_packet(found.cut.data)  # type: ignore[union-attr]


def decoding(spark: SparkSession, files: list[Path], cores: int, count: int, figures: Figures) -> None:
    tables = {
        "two files": (decode(spark, files), 2 * count),
        f"one file in {cores} share(s)": (
            decode(spark, files[:1], split_bytes=files[0].stat().st_size // cores + 1),
            count,
        ),
    }
    for label, (table, rows) in tables.items():
        look(table)
        figures("decode", f"decode: Spark, {cores} core(s), {label}", rows, lambda t=table: look(t))  # type: ignore[misc]


def main(messages: int, packets: int, rounds: int, only: list[str]) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    figures = Figures(rounds)
    with tempfile.TemporaryDirectory() as name, serve(Path(name)) as address:
        folder = Path(name)
        files = [folder / f"{number}.pcap" for number in range(2)]
        if "decode" in only:
            for path in files:
                write_capture(path, packets)
            figures("decode", "decode: one process", packets, lambda: bare_decode(files[0]), bare=True)
        with msmq.connect_sync(address) as mq:
            mq.create_queue(SOURCE).send_many(BODY for _ in range(messages))
            mq.create_queue(SINK)
            mq.create_queue(WHOLE, transactional=True)
        if "source" in only:
            figures(
                "source", "source: our client, one process", messages, lambda: bare_read(address), bare=True
            )
        if "sink" in only:
            for kind, queue in (("sink", SINK), ("whole", WHOLE)):
                label = "as rows come" if queue == SINK else "one transaction"
                work = lambda q=queue: bare_send(address, q, messages)  # type: ignore[misc]  # noqa: E731
                figures(kind, f"sink: our client, one process, {label}", messages, work, bare=True)
            empty(address)
        for cores in CORES:
            with session(cores) as spark:
                if "decode" in only:
                    decoding(spark, files, cores, packets, figures)
                if {"source", "sink"} & set(only):
                    table = source(spark, address, cores, messages, figures)
                    rows = table.select("body", "label", "priority")
                    parquet(spark, rows, folder, cores, messages, figures)
                if "sink" in only:
                    sink(spark, rows, address, cores, messages, figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--packets", type=int, default=50_000, help="in each of two captures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["source", "sink", "decode"])
    given = parser.parse_args()
    main(given.messages, given.packets, given.rounds, given.only)
