"""A million small messages through the sink and the source: ``make spark-million``.

It takes minutes, which is why it is no test.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.support import ORDERS, Server


def main(messages: int) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        server.start()
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            server.create(ORDERS)
            run(spark, server, Path(folder), messages)
        finally:
            spark.stop()
            server.kill()


def run(spark: SparkSession, server: Server, folder: Path, messages: int) -> None:
    began = time.monotonic()
    rows = spark.range(0, messages, numPartitions=4).selectExpr("encode(cast(id AS STRING), 'utf-8') AS body")
    to_queue = rows.write.format("msmq").option("server", server.address).option("queue", ORDERS)
    to_queue.mode("append").save()
    written = time.monotonic()
    checkpoint, path = str(folder / "checkpoint"), str(folder / "rows")
    read = spark.readStream.format("msmq").option("server", server.address).option("queue", ORDERS)
    read = read.option("mode", "consume").option("checkpointLocation", checkpoint).option("body", "text")
    read = read.option("maxMessagesPerTrigger", "200000").schema(
        "queue STRING, lookup_id BIGINT, body STRING"
    )
    query = read.load().writeStream.format("parquet").option("checkpointLocation", checkpoint)
    assert query.trigger(availableNow=True).start(path).awaitTermination(3600)
    moved = time.monotonic()
    found = spark.read.parquet(path)
    counted = found.selectExpr(
        "count(*)", "count(DISTINCT body)", "min(cast(body AS INT))", "max(cast(body AS INT))"
    )
    assert list(counted.collect()[0]) == [messages, messages, 0, messages - 1], "each once"
    left = server.queues()["HOST\\private$\\orders"]
    assert left == 0, f"{left} are left"
    largest = max(
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"{messages:,} messages: sent in {written - began:.0f} s, consumed in {moved - written:.0f} s")
    print(f"each is there once, none is left; the largest process of it all had {largest / 1024:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    main(parser.parse_args().messages)
