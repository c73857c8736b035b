"""The source on a real Spark with a real queue manager: what is read, what is left, what is told when it goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from msmq.spark.claims import settle
from msmq.spark.offsets import Offset
from tests.spark.support import ORDERS, Server, eventually


def load(spark: SparkSession, server: Server, **options: str) -> DataFrame:
    given = {"server": server.address, "body": "activex", **options}
    if not given.keys() & {"queues", "queuePattern"}:
        given["queue"] = ORDERS
    return spark.read.format("msmq").options(**given).load()


class Stream:
    """A stream whose rows are collected by batch."""

    def __init__(self, spark: SparkSession, server: Server, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[str]] = {}
        self._spark, self._server, self._checkpoint = spark, server, str(checkpoint)
        self._options = {"body": "activex", "queue": ORDERS, **options}
        if self._options.get("mode") == "consume":
            self._options["checkpointLocation"] = self._checkpoint

    def start(self, **trigger: Any) -> StreamingQuery:
        read = self._spark.readStream.format("msmq").option("server", self._server.address)
        write = read.options(**self._options).load().writeStream.foreachBatch(self._keep)
        return write.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def run(self) -> None:
        """Once, until all is read that is there now."""
        assert self.start(availableNow=True).awaitTermination(120)

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [row.body for row in frame.select("body").collect()]

    @property
    def bodies(self) -> list[str]:
        return [body for number in sorted(self.batches) for body in self.batches[number]]


def test_a_table_of_what_is_there(spark: SparkSession, server: Server) -> None:
    server.create(ORDERS)
    server.create(".\\private$\\other")
    assert load(spark, server).count() == 0, "an empty queue is an empty table"
    for priority in (1, 6):
        server.send([f"{priority}: {number}" for number in range(20)], priority=priority, label="a label")
    server.send(["elsewhere"], ".\\private$\\other")
    rows = load(spark, server, partitions="3").collect()
    assert [row.body for row in rows] == [f"{p}: {n}" for p in (6, 1) for n in range(20)], "in their order"
    assert {(row.queue, row.label, row.delivery) for row in rows} == {(ORDERS, "a label", "recoverable")}
    both = load(spark, server, queuePattern=r"HOST\\private\$\\.*")
    assert {(row.queue, row["count"]) for row in both.groupBy("queue").count().collect()} == {
        ("HOST\\private$\\orders", 40),
        ("HOST\\private$\\other", 1),
    }
    assert len(server.bodies()) == 40, "nothing was removed"
    middle = Offset().reading({ORDERS: [row.lookup_id for row in rows if row.body in ("6: 9", "1: 4")]})
    assert load(spark, server, startingOffsets=middle.json()).count() == 10 + 15
    assert load(spark, server, endingOffsets=middle.json()).count() == 10 + 5
    assert load(spark, server, startingOffsets="latest").count() == 0


def test_a_stream_sees_each_message_once_whatever_its_priority(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create(ORDERS)
    server.send([f"early {number}" for number in range(10)], priority=2)
    stream = Stream(spark, server, tmp_path / "checkpoint", maxMessagesPerTrigger="4")
    stream.run()
    assert stream.bodies == [f"early {number}" for number in range(10)]
    assert [len(batch) for batch in stream.batches.values()] == [4, 4, 2]
    server.send(["urgent", "more urgent"], priority=7)  # sorts before all that was read
    server.send(["late"], priority=2)
    stream.run()
    assert stream.bodies[10:] == ["urgent", "more urgent", "late"]
    assert len(server.bodies()) == 13


def test_consume_removes_what_is_committed_and_the_last_batch_too(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create(ORDERS)
    server.send([f"{number}" for number in range(10)])
    stream = Stream(spark, server, tmp_path / "checkpoint", mode="consume", maxMessagesPerTrigger="3")
    query = stream.start(processingTime="0 seconds")
    eventually(lambda: not server.bodies())
    server.send(["one more"])
    eventually(lambda: len(stream.bodies) == 11 and not server.bodies())
    query.stop()
    assert stream.bodies == [*map(str, range(10)), "one more"]


def test_a_batch_that_fails_is_not_removed(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.send(["a", "b"])
    stream = Stream(spark, server, tmp_path / "checkpoint", mode="consume")
    keep = stream._keep

    def fail(frame: DataFrame, number: int) -> None:
        keep(frame, number)
        raise RuntimeError("the sink is broken")

    stream._keep = fail  # type: ignore[method-assign]
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    assert settle(str(tmp_path / "checkpoint"), server=server.address) == 0
    assert server.bodies() == ["a", "b"]
    stream._keep = keep  # type: ignore[method-assign]
    stream.run()
    eventually(lambda: settle(str(tmp_path / "checkpoint"), server=server.address) or not server.bodies())
    assert stream.bodies == ["a", "b"]
    assert server.bodies() == []


def test_queues_that_come_and_go(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    names = [f".\\private$\\shop-{number}" for number in range(3)]
    for name in names[:2]:
        server.create(name)
        server.send([f"first in {name}"], name)
    options = {"queuePattern": r".*\\shop-\d", "failOnDataLoss": "false"}
    stream = Stream(spark, server, tmp_path / "checkpoint", **options)
    del stream._options["queue"]
    stream.run()
    server.delete(names[0])
    server.create(names[2])
    server.send([f"first in {names[2]}"], names[2])
    server.create(names[0])
    server.send([f"again in {names[0]}"], names[0])
    stream.run()
    assert sorted(stream.bodies) == sorted([*(f"first in {name}" for name in names), f"again in {names[0]}"])


def test_what_goes_wrong_is_told(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="MQ_ERROR_QUEUE_NOT_FOUND"):
        load(spark, server).count()
    nowhere = {"server": f"unix:{tmp_path / 'nobody'}", "timeout": "0.5", "token": "s3cret", "queue": ORDERS}
    frame = spark.read.format("msmq").options(**nowhere).load()
    with pytest.raises(PySparkException, match="No queue manager answers") as told:
        frame.count()
    assert "s3cret" not in str(told.value)
    assert "s3cret" not in frame._jdf.queryExecution().toString()
    with pytest.raises(PySparkException, match="availableNow"):
        load(spark, server, mode="consume").count()
    with pytest.raises(PySparkException, match="one of the options queue"):
        spark.read.format("msmq").load()
    consume = Stream(spark, server, tmp_path / "checkpoint", mode="consume")
    del consume._options["checkpointLocation"]
    with pytest.raises(PySparkException, match="checkpointLocation"):
        consume.run()


def test_another_reader_is_noticed(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """A message that is held may come back: the stream waits for it in front of it."""
    server.create(ORDERS)
    server.send(["a", "b", "c"])
    stream = Stream(spark, server, tmp_path / "checkpoint")
    with server.connect() as mq, mq.queue(ORDERS).receiver(prefetch=1) as receiver:
        held = receiver.receive(timeout=30)
        assert held.text == "a"
        stream.run()
        assert stream.bodies == []
        held.reject()
    stream.run()
    assert stream.bodies == ["a", "b", "c"]


def test_offsets_in_the_checkpoint_are_the_documented_json(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create(ORDERS)
    server.send(["a"], priority=3)
    Stream(spark, server, tmp_path / "checkpoint").run()
    last = (tmp_path / "checkpoint" / "offsets" / "0").read_text(encoding="utf-8").splitlines()[-1]
    said = json.loads(last)
    assert said["version"] == 1
    assert list(said["queues"][ORDERS]) == ["4"]
