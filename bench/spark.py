"""The Spark source and sink at 1 KB: rows per second, beside Parquet and beside our client without Spark.

Run: ``python bench/spark.py [--messages 50000]`` (needs the extra ``spark``). The queue manager is a process of
its own, Spark has two cores (``local[2]``), and everything shares this machine.

* **Source**: a table read from a queue, its bodies looked at. Beside it the same rows read from Parquet, and the same
  messages browsed by our client in one process.
* **Sink**: the same rows written to a queue, and in one transaction to a transactional one. Beside it Parquet, and our
  client that sends them from one process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import msmq

SOURCE, SINK, WHOLE = (f".\\private$\\{name}" for name in ("source", "sink", "whole"))
BODY = bytes(range(256)) * 4


def serve(directory: Path) -> tuple[subprocess.Popen[bytes], str]:
    address = f"unix:{directory / 'api'}"
    command = [sys.executable, "-m", "msmq", "serve", "--data", str(directory / "data"), "--name", "BENCH"]
    command += ["--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--api", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready")
    return process, address


def timed(label: str, rows: int, work: Callable[[], object]) -> None:
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    print(f"{label:44} {rows / seconds:10,.0f} rows/s  ({seconds:.1f} s)", flush=True)


def look(frame: DataFrame) -> None:
    """Make Spark read every body and keep none."""
    frame.selectExpr("sum(octet_length(body))").collect()


def bare_read(address: str) -> None:
    with msmq.connect_sync(address) as mq:
        queue = mq.queue(SOURCE)
        assert sum(len(message.body) for batch in queue.span(0, (1 << 64) - 1) for message in batch)


def bare_send(address: str, count: int) -> None:
    with msmq.connect_sync(address) as mq:
        mq.queue(SINK).send_many(BODY for _ in range(count))


def main(count: int) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        process, address = serve(Path(folder))
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            with msmq.connect_sync(address) as mq:
                mq.create_queue(SOURCE).send_many(BODY for _ in range(count))
                mq.create_queue(SINK)
                mq.create_queue(WHOLE, transactional=True)
            given = spark.read.format("msmq").option("server", address).option("partitions", "2")
            table = given.option("queue", SOURCE).load()
            table.limit(1).collect()  # the first use of anything is slow
            timed("source: Spark from a queue", count, lambda: look(table))
            timed("  our client, one process", count, lambda: bare_read(address))
            parquet = f"{folder}/rows"
            rows = table.select("body", "label", "priority").cache()
            rows.count()
            timed("sink: Parquet", count, lambda: rows.write.parquet(parquet))
            timed("source: Spark from Parquet", count, lambda: look(spark.read.parquet(parquet)))
            write = rows.write.format("msmq").option("server", address).mode("append")
            timed("sink: Spark into a queue", count, lambda: write.option("queue", SINK).save())
            timed("sink: Spark, one transaction", count, lambda: write.option("queue", WHOLE).save())
            timed("  our client, one process", count, lambda: bare_send(address, count))
        finally:
            spark.stop()
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=50_000)
    main(parser.parse_args().messages)
