"""The source on a real Spark with a real queue manager: what is read, what is left, what is told when it goes wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from msmq.spark.claims import settle
from msmq.spark.offsets import Offset, lane_of, number_of
from tests.server.support import free_port
from tests.spark.support import ORDERS, Server, Stream, eventually


def load(spark: SparkSession, server: Server, **options: str) -> DataFrame:
    given = {"server": server.address, "body": "activex", **options}
    if not given.keys() & {"queues", "queuePattern"}:
        given["queue"] = ORDERS
    return spark.read.format("msmq").options(**given).load()


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
        (ORDERS, 40),
        (".\\private$\\other", 1),
    }
    assert len(server.bodies()) == 40, "nothing was removed"
    seen = [row.lookup_id for row in rows if row.body in ("6: 9", "1: 4")]
    middle = Offset({ORDERS: {lane_of(one): number_of(one) for one in seen}})
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


LOSS = pytest.mark.parametrize("fails", ["true", "false"], ids=["failOnDataLoss", "goOn"])


@LOSS
def test_a_queue_of_a_pattern_is_deleted_while_the_query_runs(
    spark: SparkSession, server: Server, tmp_path: Path, fails: str
) -> None:
    """The others go on. When there is one of that name again, nobody knows what came to the old one and was not
    read."""
    names = [f".\\private$\\shop-{number}" for number in range(2)]
    for name in names:
        server.create(name)
        server.send([f"first in {name}"], name)
    options = {"queuePattern": r".*\\shop-\d", "failOnDataLoss": fails}
    stream = Stream(spark, server, tmp_path / "checkpoint", **options)
    del stream._options["queue"]
    query = stream.start(processingTime="0 seconds")
    eventually(lambda: len(stream.bodies) == 2)
    server.delete(names[0])
    server.send(["others go on"], names[1])
    eventually(lambda: "others go on" in stream.bodies)
    server.create(names[0])
    server.send(["it is back"], names[0])
    if fails == "true":
        with pytest.raises(PySparkException, match="shop-0 was deleted and created again"):
            query.awaitTermination(120)
        assert len(stream.bodies) == 3
        return
    eventually(lambda: "it is back" in stream.bodies)
    assert query.isActive
    query.stop()
    assert len(stream.bodies) == 4, "each once"


@LOSS
def test_a_named_queue_is_deleted_while_the_query_runs(
    spark: SparkSession, server: Server, tmp_path: Path, fails: str
) -> None:
    server.create(ORDERS)
    server.send(["before"])
    stream = Stream(spark, server, tmp_path / "checkpoint", failOnDataLoss=fails)
    query = stream.start(processingTime="0 seconds")
    eventually(lambda: stream.bodies == ["before"])
    server.delete(ORDERS)
    if fails == "true":
        with pytest.raises(PySparkException, match=r"private\$\\orders was deleted"):
            query.awaitTermination(120)
        server.create(ORDERS)
        stream = Stream(spark, server, tmp_path / "checkpoint", failOnDataLoss="false")
        stream.batches[-1] = ["before"]
        query = stream.start(processingTime="0 seconds")
    else:
        server.create(ORDERS)
    server.send(["after"])
    eventually(lambda: stream.bodies == ["before", "after"])
    assert query.isActive
    query.stop()


@LOSS
@pytest.mark.parametrize("back", [False, True], ids=["gone", "recreated"])
def test_a_queue_is_deleted_between_the_plan_of_a_batch_and_its_reading(
    spark: SparkSession, server: Server, tmp_path: Path, fails: str, back: bool
) -> None:
    server.create(ORDERS)
    server.send(["lost"])
    stream = Stream(spark, server, tmp_path / "checkpoint", failOnDataLoss=fails)
    keep = stream._keep

    def delete_and_keep(frame: DataFrame, number: int) -> None:
        if not number:
            server.delete(ORDERS)
        if back and not number:
            server.create(ORDERS)
        keep(frame, number)

    stream._keep = delete_and_keep  # type: ignore[method-assign]
    if fails == "true":
        told = "was deleted and created again" if back else "was deleted before this batch was read"
        with pytest.raises(PySparkException, match=rf"private\$\\orders.* {told}"):
            stream.run()
        assert stream.bodies == []
        return
    stream.run()
    assert stream.bodies == []
    if not back:
        server.create(ORDERS)
    server.send(["found"])
    stream._keep = keep  # type: ignore[method-assign]
    stream.run()
    assert stream.bodies == ["found"]


def test_a_schema_chooses_columns(spark: SparkSession, server: Server) -> None:
    server.create(ORDERS)
    server.send(["a", "b"], label="a label")
    read = spark.read.format("msmq").option("server", server.address).option("queue", ORDERS)
    frame = read.option("body", "activex").schema("label STRING, body STRING").load()
    assert [tuple(row) for row in frame.collect()] == [("a label", "a"), ("a label", "b")]
    with pytest.raises(PySparkException, match="The column label is string, not int"):
        read.schema("label INT").load().collect()
    with pytest.raises(PySparkException, match="There is no column colour"):
        read.schema("colour STRING").load().collect()


def test_filters_by_queue_and_place_are_taken_over(spark: SparkSession, server: Server) -> None:
    names = [f".\\private$\\shop-{number}" for number in range(2)]
    for name in names:
        server.create(name)
        server.send(["a", "b", "c"], name)
    last = max(server.numbered(names[0]))
    options = {"queues": ",".join(names), "pushFilters": "true"}
    with pytest.raises(PySparkException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        load(spark, server, **options).collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        queue = names[0].replace("\\", "\\\\")
        taken = load(spark, server, **options).where(f"queue = '{queue}' AND lookup_id < {last}")
        assert [row.body for row in taken.collect()] == ["a", "b"]
        assert "Filter (" not in taken._jdf.queryExecution().executedPlan().toString(), (
            "Spark need not look again"
        )
        left = load(spark, server, **options).where(
            f"queue LIKE '%-0' AND body >= 'b' AND lookup_id IN ({last})"
        )
        assert [row.body for row in left.collect()] == ["c"]
        ends = Offset({name: {4: 1 << 50} for name in names})
        taken = load(spark, server, **options, endingOffsets=ends.json()).where(f"queue = '{queue}'")
        assert [row.queue for row in taken.collect()] == [names[0]] * 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_one_queue_is_large_some_are_empty_and_bodies_too(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Skew: the share of the limits that empty queues leave goes to the others, and tasks are of one size."""
    names = [f".\\private$\\shop-{number}" for number in range(4)]
    for name in names:
        server.create(name)
    server.send([f"{number}" for number in range(500)], names[1])
    server.send(["small"], names[3])
    stream = Stream(
        spark, server, tmp_path / "checkpoint", queues=",".join(names), maxMessagesPerTrigger="300"
    )
    del stream._options["queue"]
    stream.run()
    assert sorted(stream.bodies) == sorted([*(f"{number}" for number in range(500)), "small"])
    assert [len(batch) for batch in stream.batches.values()] == [300, 201]
    partitions = load(spark, server, queues=",".join(names), partitions="5").rdd.glom().map(len).collect()
    assert max(partitions) <= 101


def test_bodies_of_four_megabytes(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    body = "x" * 2_050_000  # which is sent as UTF-16
    server.send([body] * 5)
    stream = Stream(spark, server, tmp_path / "checkpoint", mode="consume", maxBytesPerTrigger="9000000")
    stream.run()
    assert [len(each) for each in stream.bodies] == [len(body)] * 5
    assert [len(batch) for batch in stream.batches.values()] == [2, 2, 1], "as many as there is room for"
    eventually(lambda: not server.numbered())


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A queue manager that asks who one is, by the channel and by remote read."""
    channel, rpc = free_port(), free_port()
    config = tmp_path / "msmq.toml"
    config.write_text("[rpc]\nendpoint_mapper_port = 0\n", encoding="utf-8")
    arguments = ["--config", str(config), "--api", f"127.0.0.1:{channel}", "--rpc-port", str(rpc)]
    server = Server(tmp_path, *arguments)
    server.start()
    server.create(ORDERS)
    yield f"127.0.0.1:{channel}", f"mqrr:127.0.0.1:{rpc}"
    server.kill()


def test_strangers_are_told_what_to_do(spark: SparkSession, doors: tuple[str, str], tmp_path: Path) -> None:
    """In one line, and without the traces of how it came about. What is secret is in none of it."""
    channel, remote = doors
    soon = {"timeout": "0.5"}  # of those who never answer
    cases = [
        (
            {"server": f"unix:{tmp_path / 'nobody'}", "token": "s3cret", **soon},
            "No queue manager answers at .*option server",
        ),
        ({"server": "host.invalid:8181", **soon}, "No queue manager answers at host.invalid.*option server"),
        ({"server": "mqrr:127.0.0.1:1", **soon}, "127.0.0.1 cannot be reached.*option server"),
        ({"server": channel, "token": "s3cret"}, "bearer token is not known here.*tokenFile"),
        ({"server": channel}, "has not the right.*tokenFile"),
        ({"server": remote, "user": "alice", "password": "s3cret"}, "does not let us in.*passwordFile"),
    ]
    for options, line in cases:
        given = {"queue": ORDERS, **options}
        frame = spark.read.format("msmq").options(**given).load()
        with pytest.raises(PySparkException) as told:
            frame.count()
        is_one_line(str(told.value), line)
        assert "s3cret" not in frame._jdf.queryExecution().toString()
        query = spark.readStream.format("msmq").options(**given).load().writeStream.format("noop")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        with pytest.raises(PySparkException) as told:
            query.start().awaitTermination(120)
        is_one_line(str(told.value), line)
    for options, line in (cases[0], cases[3]):
        given = {"queue": ORDERS, **options}
        with pytest.raises(PySparkException) as told:
            spark.sql("SELECT 'a' AS body").write.format("msmq").options(**given).mode("append").save()
        is_one_line(str(told.value), line.partition(".*")[0])


def is_one_line(told: str, pattern: str) -> None:
    assert len([line for line in told.splitlines() if re.search(pattern, line)]) >= 1, told
    assert "direct cause" not in told
    assert "During handling" not in told
    assert "s3cret" not in told
    traces = [line for line in told.splitlines() if line.startswith("  File ")]
    assert len(traces) < 20, told


def test_what_goes_wrong_is_told(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="MQ_ERROR_QUEUE_NOT_FOUND"):
        load(spark, server).count()
    with pytest.raises(PySparkException, match="availableNow"):
        load(spark, server, mode="consume").count()
    with pytest.raises(PySparkException, match="one of the options queue"):
        spark.read.format("msmq").load()
    consume = Stream(spark, server, tmp_path / "checkpoint", mode="consume")
    del consume._options["checkpointLocation"]
    with pytest.raises(PySparkException, match="give the source the option checkpointLocation") as told:
        consume.run()
    assert "UnboundLocalError" not in str(told.value), "of Spark, which would be the last line"


def test_a_message_that_expires_after_its_batch_was_planned(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Its sender wanted that, so that nothing is lost: the batch that is repeated goes on without it."""
    server.create(ORDERS)
    server.send(["stays"])
    server.send(["expires"], time_to_be_received=5)
    stream = Stream(spark, server, tmp_path / "checkpoint", mode="consume")
    keep = stream._keep

    def fail(frame: DataFrame, number: int) -> None:
        eventually(lambda: server.bodies() == ["stays"])
        raise RuntimeError("the sink is broken")

    stream._keep = fail  # type: ignore[method-assign]
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    stream._keep = keep  # type: ignore[method-assign]
    stream.run()
    assert stream.bodies == ["stays"]
    server.send(["later"])
    stream.run()
    assert stream.bodies == ["stays", "later"]


def test_another_reader_is_noticed(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """A message that is held may come back: the stream waits for it in front of it."""
    server.create(ORDERS)
    server.send(["a", "b", "c"])
    stream = Stream(spark, server, tmp_path / "checkpoint")
    with server.connect() as mq, mq.queue(ORDERS).receiver(prefetch=1) as receiver:
        held = receiver.receive(timeout=120)
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
