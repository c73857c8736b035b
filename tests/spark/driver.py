"""A program that tests run and kill: it moves messages from one queue into another, and ends when all are moved."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.spark.support import LEDGER, ORDERS


def main(server: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    read = spark.readStream.format("msmq").option("server", server).option("queue", ORDERS)
    read = read.option("mode", "consume").option("checkpointLocation", checkpoint)
    read = read.option("maxMessagesPerTrigger", "25").option("partitions", "2")
    write = read.load().select("body", "body_type").writeStream.format("msmq")
    write = write.option("server", server).option("queue", LEDGER).option("checkpointLocation", checkpoint)
    write.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
