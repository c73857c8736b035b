"""What must work with every version of Spark that is supported: ``make spark-versions`` runs this with each of
them. With the name of a table format it writes and reads tables of that format too."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from msmq.spark.archive import archive, compact, read_archive, settle_archive
from msmq.spark.claims import settle
from msmq.spark.replay import replay
from msmq.spark.versions import TELLS_POSITIONS
from tests import ready
from tests.spark.quick import PLAIN, SETTINGS
from tests.spark.support import LEDGER, ORDERS, Server, finished

COUNT = 40
BODIES = sorted(f"order {number}" for number in range(COUNT))
_BATCHES = [15, 15, 10] if TELLS_POSITIONS else [COUNT]
"""A Spark before 4.2 asks for no limits."""


def settings(forms: list[str], folder: str) -> dict[str, str]:
    """What a session needs for some table formats."""
    extensions, found = list[str](), dict[str, str]()
    if "delta" in forms:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        found["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        found["spark.databricks.delta.snapshotPartitions"] = (
            "2"  # usually 50 tasks, for every look at a table
        )
    if "iceberg" in forms:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        found["spark.sql.catalog.ice"] = "org.apache.iceberg.spark.SparkCatalog"
        found["spark.sql.catalog.ice.type"] = "hadoop"
        found["spark.sql.catalog.ice.warehouse"] = f"{folder}/ice"
    return found | {"spark.sql.extensions": ",".join(extensions)}


class Smoke:
    """One session, one queue manager, and what is tried with them."""

    def __init__(self, spark: SparkSession, server: Server, folder: Path) -> None:
        self.spark, self.server, self.folder = spark, server, folder
        self.at = {"server": server.address}
        server.create(ORDERS, transactional=True)
        server.create(LEDGER, transactional=True)

    def source(self) -> dict[str, str]:
        return {**self.at, "queue": ORDERS, "mode": "consume", "maxMessagesPerTrigger": "15"}

    def write(self) -> None:
        rows = self.spark.range(COUNT).selectExpr("concat('order ', id) AS body")
        rows.write.format("msmq").options(**self.at).option("queue", ORDERS).mode("append").save()
        assert sorted(self.server.bodies()) == BODIES

    def read(self) -> None:
        table = self.spark.read.format("msmq").options(**self.at).option("queue", ORDERS)
        rows = table.option("body", "activex").load()
        assert sorted(row.body for row in rows.select("body").collect()) == BODIES
        assert rows.where("delivery = 'transactional'").count() == COUNT

    def stream(self) -> None:
        """From one queue into the other, exactly once."""
        place = str(self.folder / "moved")
        read = self.spark.readStream.format("msmq").options(**self.source(), checkpointLocation=place)
        write = read.load().select("body", "body_type").writeStream.format("msmq").options(**self.at)
        write = write.option("queue", LEDGER).option("checkpointLocation", place)
        query = finished(lambda: write.trigger(availableNow=True).start())
        assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == _BATCHES
        assert sorted(self.server.bodies(LEDGER)) == BODIES
        settle(place, **self.at)  # a Spark before 4.2 asks no more when the last batch is committed
        assert self.server.bodies(ORDERS) == []

    def keep(self, form: str = "parquet") -> None:
        """Into an archive and back."""
        place = str(self.folder / form)
        finished(lambda: archive(self.spark, place, self.source(), format=form))
        settle_archive(place, self.source(), self.spark)
        assert self.server.bodies(ORDERS) == []
        compact(self.spark, place)
        assert read_archive(self.spark, place).count() == COUNT
        self.server.delete(LEDGER)
        self.server.create(LEDGER, transactional=True)
        for sent in (COUNT, 0):
            found = read_archive(self.spark, place)
            assert replay(found, {**self.at, "queue": LEDGER}, name=place) == sent
        assert sorted(self.server.bodies(LEDGER)) == BODIES

    def delta(self) -> None:
        """An archive that is a Delta table, and a stream into another."""
        self.write()
        self.keep("delta")
        self.write()
        self.table("delta", str(self.folder / "orders"))

    def iceberg(self) -> None:
        self.write()
        rows = self.spark.read.format("msmq").options(**self.at).option("queue", ORDERS).load()
        rows.limit(0).writeTo("ice.msmq.orders").create()
        self.table("iceberg", "ice.msmq.orders")

    def table(self, form: str, place: str) -> None:
        """A queue is consumed into a table, by two runs; and the table is written back to a queue."""
        checkpoint = str(self.folder / f"into {form}")
        for run in range(2):
            if run:
                self.write()
            read = self.spark.readStream.format("msmq").options(
                **self.source(), checkpointLocation=checkpoint
            )
            write = read.load().writeStream.format(form).option("checkpointLocation", checkpoint)
            write = write.trigger(availableNow=True)
            finished(partial(write.toTable if form == "iceberg" else write.start, place))
            settle(checkpoint, **self.at)
            assert self.server.bodies(ORDERS) == []
        rows = self.spark.read.format(form).load(place)
        bodies = [bytes(row.body).decode("utf-16-le") for row in rows.select("body").collect()]
        assert sorted(bodies) == sorted(BODIES * 2)
        rows.write.format("msmq").options(**self.at).option("queue", ORDERS).mode("append").save()
        assert sorted(self.server.bodies()) == sorted(BODIES * 2)
        with self.server.connect() as mq:
            mq.queue(ORDERS).purge()


def main(forms: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]")
        given = {
            "spark.driver.extraJavaOptions": PLAIN,  # to make an archive for one run takes longer than it saves
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.jars": os.environ.get("MSMQ_TEST_JARS", ""),
        }
        for name, value in (SETTINGS | given | settings(forms, folder)).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        server = Server(Path(folder))
        server.start()
        try:
            smoke = Smoke(spark, server, Path(folder))
            steps: list[Callable[[], None]] = [smoke.write, smoke.read, smoke.stream, smoke.write, smoke.keep]
            for step in [*steps, *(getattr(smoke, form) for form in forms)]:
                step()
        finally:
            server.kill()
            spark.stop()
    print(
        f"Spark {pyspark.__version__}: read, write, stream, archive and replay{''.join(f', {form}' for form in forms)}"
    )


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = ready.python(ready.SPARK)
    main(sys.argv[1:])
