"""A program that a test runs on a cluster, and whose executors it kills: a table into a queue, the queue as a table,
and the queue moved into another one as a stream."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.halting import VARIABLE, HaltingSource
from tests.spark.quick import quick
from tests.spark.support import LEDGER, ORDERS, ROOT, again, finished

ROWS = 200


def session(master: str, directory: Path) -> SparkSession:
    settings = {
        "spark.driver.extraJavaOptions": f"{quick()} -Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
        "spark.executor.extraJavaOptions": quick(),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        f"spark.executorEnv.{VARIABLE}": os.environ[VARIABLE],
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # it is searched
        "spark.eventLog.dir": (directory / "events").as_uri(),
        # A task that takes longer than the first half of them is run a second time beside itself.
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.minTaskRuntime": "1s",
    }
    builder = SparkSession.builder.master(master).appName("msmq cluster test")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.dataSource.register(HaltingSource)
    return made


def main(master: str, directory: Path, server: str, token: str) -> None:
    spark = session(master, directory)
    options = {"server": server, "token": token, "timeout": "120"}
    rows = spark.range(0, ROWS, numPartitions=4).selectExpr("concat('order ', id) AS body")
    again(rows.write.format("halting").options(**options).option("queue", ORDERS).mode("append").save)

    table = spark.read.format("halting").options(**options).option("queue", ORDERS).option("partitions", "4")
    frame = table.option("body", "activex").load().select("body")
    found = [row.body for row in again(frame.collect)]
    (directory / "table.json").write_text(json.dumps(found), encoding="utf-8")

    options["checkpointLocation"] = str(directory / "checkpoint")
    read = spark.readStream.format("halting").options(**options).option("queue", ORDERS)
    read = read.option("mode", "consume").option("maxMessagesPerTrigger", "25").option("partitions", "2")
    write = read.load().select("body", "body_type").writeStream.format("halting")
    write = write.options(**options).option("queue", LEDGER)
    query = finished(write.trigger(availableNow=True).start)
    plans = [
        frame._jdf.queryExecution().toString(),
        query._jsq.explainInternal(True),
        str(query.lastProgress),
    ]
    (directory / "plans.txt").write_text("\n".join(plans), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], os.environ["MSMQ_TEST_TOKEN"])
