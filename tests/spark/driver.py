"""A program that tests run and kill: it moves messages from queues into others, and ends when all are moved."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.halting import HaltingSource


def move(spark: SparkSession, server: str, source: str, target: str, checkpoint: str) -> StreamingQuery:
    options = {"server": server, "timeout": "120", "checkpointLocation": checkpoint}
    read = spark.readStream.format("halting").options(**options).option("queue", source)
    read = read.option("mode", "consume").option("maxMessagesPerTrigger", "20").option("partitions", "2")
    write = read.load().select("body", "body_type").writeStream.format("halting")
    return write.options(**options).option("queue", target).trigger(availableNow=True).start()


def main(server: str, *moves: str) -> None:
    """Each move is three arguments: from where, to where, and its checkpoint."""
    # A task may fail three times, and some wait for the test.
    spark = SparkSession.builder.master("local[8,4]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(HaltingSource)
    each = iter(moves)
    for query in [move(spark, server, *one) for one in zip(each, each, each, strict=True)]:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
