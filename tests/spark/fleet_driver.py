"""A program that is run and killed: it consumes the orders of several queue managers into Parquet, for ever."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.spark.quick import quick
from tests.spark.support import ORDERS


def main(master: str, servers: str, checkpoint: str, output: str) -> None:
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.executor.extraJavaOptions": quick(),
        "spark.executor.memory": "512m",  # less than a worker of the small cluster has
        "spark.task.maxFailures": "20",
        "spark.executor.maxNumFailures": "1000",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "servers": servers,
        "timeout": "60",
        "failOnUnreachable": "false",
        "checkpointLocation": checkpoint,
    }
    read = (
        spark.readStream.format("msmq").options(**options).option("queue", ORDERS).option("mode", "consume")
    )
    read = read.option("maxMessagesPerTrigger", "60").option("partitions", "3").option("body", "activex")
    rows = read.schema("body STRING, server STRING, queue_manager STRING").load()
    write = rows.writeStream.format("parquet").option("path", output).option("checkpointLocation", checkpoint)
    write.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
