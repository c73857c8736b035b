"""A program that tests run and kill: it moves messages from one queue into another, and ends when all are moved."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.spark.halting import HaltingSource
from tests.spark.support import LEDGER, ORDERS, QUICK


def main(server: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")  # a task may fail three times
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(HaltingSource)
    options = {"server": server, "timeout": "120", "checkpointLocation": checkpoint}
    read = spark.readStream.format("halting").options(**options).option("queue", ORDERS)
    read = read.option("mode", "consume").option("maxMessagesPerTrigger", "20").option("partitions", "2")
    write = read.load().select("body", "body_type").writeStream.format("halting")
    write = write.options(**options).option("queue", LEDGER)
    write.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
