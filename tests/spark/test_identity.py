"""Which queue manager and which queue a position, a claim and a row are of: several in one query, and others in the
place of those that were read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from msmq.spark.archive import archive, read_archive
from msmq.spark.claims import settle
from tests.spark.support import LEDGER, ORDERS, Server, Stream, eventually, finished


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two queue managers of the same name, with queues of the same name."""
    made = Server(tmp_path / "a"), Server(tmp_path / "b")
    for each in made:
        each.directory.mkdir()
        each.start()
        each.create(ORDERS)
    yield made
    for each in made:
        each.kill()


class Union:
    """One query that consumes from several queue managers, with one checkpoint."""

    def __init__(self, spark: SparkSession, servers: tuple[Server, ...], checkpoint: Path) -> None:
        self.rows: list[tuple[str, str]] = []
        self._spark, self._servers, self._checkpoint = spark, servers, str(checkpoint)

    def _source(self, server: Server) -> DataFrame:
        options = {"server": server.address, "queue": ORDERS, "body": "activex", "mode": "consume"}
        options |= {"checkpointLocation": self._checkpoint, "maxMessagesPerTrigger": "40"}
        return self._spark.readStream.format("msmq").options(**options).load()

    def run(self) -> None:
        first, *others = map(self._source, self._servers)
        for other in others:
            first = first.unionByName(other)
        write = first.writeStream.foreachBatch(self._keep).option("checkpointLocation", self._checkpoint)
        finished(write.trigger(availableNow=True).start)

    def _keep(self, frame: DataFrame, number: int) -> None:
        self.rows += [(row.queue_manager, row.body) for row in frame.collect()]


def test_one_query_consumes_from_two_queue_managers(
    spark: SparkSession, servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """Both number their messages alike, so that what one has read stands for other messages of the other."""
    a, b = servers
    a.send([f"a {number}" for number in range(200)])
    b.send([f"b {number}" for number in range(50)])
    union = Union(spark, (b, a), tmp_path / "checkpoint")
    union.run()
    expected = [
        (each.guid, f"{name} {n}")
        for each, name, count in ((a, "a", 200), (b, "b", 50))
        for n in range(count)
    ]
    assert sorted(union.rows) == sorted(expected)
    union.run()  # which settles what the last batch has left
    assert (a.bodies(), b.bodies()) == ([], [])
    assert sorted(union.rows) == sorted(expected), "nothing comes again"
    assert not [path for path in (tmp_path / "checkpoint" / "msmq-claims").rglob("*") if path.is_file()]


def rebuild(server: Server) -> None:
    """Another queue manager in its place, which gives its numbers anew."""
    server.kill()
    shutil.rmtree(server.directory / "data")
    server.start()
    server.create(ORDERS)


def recreate(server: Server) -> None:
    server.delete(ORDERS)
    server.create(ORDERS)


CHANGES = pytest.mark.parametrize(
    ("change", "told"),
    [(rebuild, "is that of another queue manager now"), (recreate, "was deleted and created again")],
)


@CHANGES
@pytest.mark.parametrize("mode", ["browse", "consume"])
def test_a_queue_in_the_place_of_another_is_read_from_its_beginning(
    spark: SparkSession,
    server: Server,
    tmp_path: Path,
    mode: str,
    change: Callable[[Server], None],
    told: str,
) -> None:
    """The position of the old one would step over its messages. With failOnDataLoss the query says so and ends."""
    server.create(ORDERS)
    server.send([f"old {number}" for number in range(100)])
    stream = Stream(spark, server, tmp_path / "checkpoint", mode=mode, failOnDataLoss="true")
    stream.run()
    assert len(stream.bodies) == 100
    change(server)
    server.send([f"new {number}" for number in range(30)])
    with pytest.raises(PySparkException, match=rf"orders {told}.*failOnDataLoss=false begins anew"):
        stream.run()
    assert len(server.bodies()) == 30, "nothing was removed"
    assert len(stream.bodies) == 100
    anew = Stream(spark, server, tmp_path / "checkpoint", mode=mode, failOnDataLoss="false")
    anew.run()
    assert anew.bodies == [f"new {number}" for number in range(30)]
    assert len(server.bodies()) == (0 if mode == "consume" else 30)
    server.send(["later"])
    stream.batches.clear()
    stream.run()
    assert stream.bodies == ["later"], "from now on this is the queue"


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_queue_manager_is_set_up_anew_after_a_batch_was_planned(
    spark: SparkSession, server: Server, tmp_path: Path, fails: str
) -> None:
    """The batch that is repeated has the numbers of messages that are others now: it reads and removes none of them."""
    server.create(ORDERS)
    server.send([f"old {number}" for number in range(20)])
    stream = Stream(spark, server, tmp_path / "checkpoint", mode="consume", failOnDataLoss=fails)
    keep = stream._keep

    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError("the sink is broken")

    stream._keep = fail  # type: ignore[method-assign]
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    rebuild(server)
    server.send([f"new {number}" for number in range(30)])
    stream._keep = keep  # type: ignore[method-assign]
    if fails == "true":
        with pytest.raises(PySparkException, match="is that of another queue manager now"):
            stream.run()
        assert stream.bodies == []
        assert len(server.bodies()) == 30
        return
    stream.run()
    assert stream.bodies == [f"new {number}" for number in range(30)]
    eventually(lambda: settle(str(tmp_path / "checkpoint"), server=server.address) or not server.bodies())


def test_a_task_reads_from_no_other_queue_than_its_plan_meant(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """The queue manager is set up anew between the plan of a batch and its reading."""
    server.create(ORDERS)
    server.send([f"old {number}" for number in range(20)])
    stream = Stream(spark, server, tmp_path / "checkpoint", failOnDataLoss="true")
    keep = stream._keep

    def rebuild_and_keep(frame: DataFrame, number: int) -> None:
        rebuild(server)
        server.send([f"new {number}" for number in range(20)])
        keep(frame, number)

    stream._keep = rebuild_and_keep  # type: ignore[method-assign]
    with pytest.raises(PySparkException, match="is that of another queue manager now"):
        stream.run()
    assert stream.bodies == []


def test_rows_say_where_they_are_from(spark: SparkSession, server: Server) -> None:
    for name in (ORDERS, LEDGER):
        server.create(name)
        server.send(["a"], name)
    read = spark.read.format("msmq").option("server", server.address).option("queues", f"{ORDERS},{LEDGER}")
    with server.connect() as mq:
        expected = {
            (name, mq.manager().identifier, mq.queue_info(name).identifier) for name in (ORDERS, LEDGER)
        }
    assert {(row.queue, row.queue_manager, row.queue_guid) for row in read.load().collect()} == expected


def test_an_archive_says_which_queue_manager_its_messages_are_from(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Another in the place of the first numbers its messages alike, and none is taken for one that is archived."""
    server.create(ORDERS)
    server.send(["old 0", "old 1"])
    place = str(tmp_path / "archive")
    options = {"server": server.address, "queue": ORDERS, "mode": "consume", "body": "activex"}
    finished(lambda: archive(spark, place, options))
    expected = {(server.guid, f"old {number}") for number in range(2)}
    rebuild(server)
    server.send(["new 0", "new 1", "new 2"])
    with pytest.raises(PySparkException, match="is that of another queue manager now"):
        finished(lambda: archive(spark, place, options))
    assert len(server.bodies()) == 3, "nothing was removed"
    finished(lambda: archive(spark, place, {**options, "failOnDataLoss": "false"}))
    expected |= {(server.guid, f"new {number}") for number in range(3)}
    rows = [(row.queue_manager, row.body) for row in read_archive(spark, place).collect()]
    assert (len(rows), set(rows)) == (5, expected)
    assert server.bodies() == []
