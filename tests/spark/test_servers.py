"""Several queue managers in one table and one stream, and what goes on meanwhile: one is away, a second stream would
consume the same queue, messages expire, the stream falls behind."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from msmq.spark import source
from msmq.spark.claims import settle
from msmq.spark.doors import ConsumedError
from msmq.spark.options import SourceOptions
from msmq.spark.planner import DataLossError
from msmq.spark.progress import lag_of
from tests.spark.micro_batches import Killed, MicroBatches, killed
from tests.spark.support import ORDERS, Server, eventually, finished


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two queue managers with queues of the same name."""
    folder = tmp_path_factory.mktemp("servers")
    made = Server(folder / "n", name="NORTH"), Server(folder / "s", name="SOUTH")
    for each in made:
        each.directory.mkdir()
        each.start()
    yield made
    for each in made:
        each.kill()


@pytest.fixture(autouse=True)
def queues(servers: tuple[Server, Server]) -> Iterator[None]:
    for each in servers:
        each.create(ORDERS)
    yield
    for each in servers:
        each.delete(ORDERS)


def both(servers: tuple[Server, Server]) -> str:
    return ",".join(server.address for server in servers)


def test_a_fleet_is_consumed_as_one(
    spark: SparkSession, servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """Both number their messages alike."""
    for server in servers:
        server.send([f"{server.name} {number}" for number in range(50)])
    guids = {server.name: server.guid for server in servers}
    checkpoint, rows = str(tmp_path / "checkpoint"), list[tuple[str, str, str, str]]()

    def keep(frame: DataFrame, number: int) -> None:
        rows.extend((row.server, row.queue_manager, row.queue, row.body) for row in frame.collect())

    options = {
        "servers": both(servers),
        "mode": "consume",
        "body": "activex",
        "checkpointLocation": checkpoint,
    }
    read = spark.readStream.format("msmq").options(**options).option("queue", ORDERS.upper())
    write = read.option("maxMessagesPerTrigger", "60").load().writeStream.foreachBatch(keep)
    write = write.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = finished(write.start)
    assert len(rows) == 100
    assert set(rows) == {
        (name, guids[name], ORDERS, f"{name} {number}") for name in guids for number in range(50)
    }
    lags = lag_of(query.recentProgress[0])
    assert {(lag.server, lag.queue_manager, lag.queue) for lag in lags} == {
        (*each, ORDERS) for each in guids.items()
    }
    assert [(lag.messages, lag.batch_messages) for lag in lags] == [(20, 30), (20, 30)]
    assert settle(checkpoint, servers=both(servers)) == 0 or not any(server.bodies() for server in servers)


def test_one_is_away_when_a_run_begins(
    servers: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other goes on, and nothing is lost or doubled when it is back."""
    monkeypatch.setattr(
        "msmq.spark.fleet._PATIENCE_S", 60.0
    )  # whoever answers is there, on a busy computer too
    north, south = servers
    for server in servers:
        server.send([f"{server.name} {number}" for number in range(50)])
    options = {"servers": both(servers), "mode": "consume", "failOnUnreachable": "false", "timeout": "5"}
    query = MicroBatches(tmp_path, maxMessagesPerTrigger="40", **options)
    query.run()
    assert sorted(query.bodies) == sorted(
        f"{name} {number}" for name in ("NORTH", "SOUTH") for number in range(50)
    )
    assert {(lag.server, lag.messages, lag.batch_messages) for lag in query.lags[0]} == {
        ("NORTH", 30, 20),
        ("SOUTH", 30, 20),
    }
    assert all(lag.bytes > lag.batch_bytes > 0 for lag in query.lags[0])
    assert (north.bodies(), south.bodies()) == ([], [])
    south.kill()
    north.send(["alone"])
    query.rows.clear()
    query.run()
    assert query.bodies == ["alone"]
    south.start()
    south.send(["back"])
    query.run()
    assert query.bodies == ["alone", "back"]
    assert (north.bodies(), south.bodies()) == ([], [])
    assert not list((tmp_path / "msmq-claims").iterdir())


def test_an_older_copy_of_the_data_is_put_back(servers: tuple[Server, Server], tmp_path: Path) -> None:
    """It has the same GUIDs and gives numbers again: a batch that was begun would read and remove other messages, and
    the next ones would be stepped over."""
    north, _ = servers
    north.kill()
    shutil.copytree(north.directory / "data", tmp_path / "copy")
    north.start()
    north.send([f"old {number}" for number in range(5)])
    query = MicroBatches(tmp_path / "checkpoint", servers=both(servers), mode="consume")
    query.before_commit = killed
    with pytest.raises(Killed):
        query.run()
    north.kill()
    shutil.rmtree(north.directory / "data")
    shutil.copytree(tmp_path / "copy", north.directory / "data")
    north.start()
    north.send([f"new {number}" for number in range(7)])
    query.before_commit = lambda: None
    with pytest.raises(
        DataLossError, match="goes on from an older copy of its data than the one that was read"
    ):
        query.run()
    assert (len(north.bodies()), query.rows) == (7, []), "nothing was read or removed"
    anew = MicroBatches(
        tmp_path / "checkpoint", servers=both(servers), mode="consume", failOnDataLoss="false"
    )
    anew.run()
    assert anew.bodies == [f"new {number}" for number in range(7)]
    assert north.bodies() == []
    north.send(["later"])
    query.run()
    assert query.bodies == ["later"], "from now on this is the queue"


def test_a_table_of_a_fleet(spark: SparkSession, servers: tuple[Server, Server]) -> None:
    north, south = servers
    north.send([f"{number}" for number in range(10)])
    south.send(["early"])
    time.sleep(1.1)  # times of arrival are in whole seconds
    now_ms = int(time.time()) * 1_000
    south.send(["late"], priority=7)
    read = spark.read.format("msmq").option("servers", both(servers)).option("queue", ORDERS)
    read = read.option("body", "activex")
    assert {(row.server, row["count"]) for row in read.load().groupBy("server").count().collect()} == {
        ("NORTH", 10),
        ("SOUTH", 2),
    }
    assert [row.body for row in read.option("startingTimestamp", str(now_ms)).load().collect()] == ["late"]
    before = read.option("startingTimestamp", "0").option("endingTimestamp", str(now_ms)).load()
    assert sorted(row.body for row in before.collect()) == sorted(["early", *map(str, range(10))])
    read = spark.read.format("msmq").option("servers", both(servers)).option("queue", ORDERS)
    assert (
        read.option("startingTimestamp", "0").option("minPartitions", "6").load().rdd.getNumPartitions() >= 6
    )


def test_a_batch_waits_for_enough_messages(
    servers: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or until it has waited for long enough; a run that ends when it has read what is there does not wait."""
    now = 1_000.0
    monkeypatch.setattr("msmq.spark.source.time.monotonic", lambda: now)
    given = {"servers": both(servers), "queue": ORDERS, "minMessagesPerTrigger": "4", "maxTriggerDelay": "60"}
    reader = source.MsmqStreamReader(SourceOptions.of(given), ("body",))
    try:
        start = reader.initialOffset()
        for server in servers:
            server.send(["a"])
        limit = reader.getDefaultReadLimit()
        assert reader.latestOffset(start, limit) == start
        for server in servers:
            server.send(["b"])
        end = reader.latestOffset(start, limit)
        assert end != start
        servers[0].send(["c"])
        assert reader.latestOffset(end, limit) == end
        now += 61
        last = reader.latestOffset(end, limit)
        assert last != end
        servers[1].send(["d"])
        reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(last, limit) != last
    finally:
        reader.stop()


def test_sql(spark: SparkSession, servers: tuple[Server, Server]) -> None:
    servers[0].send(["a", "b"])
    options = f"server '{servers[0].address}', queue '{ORDERS.replace(chr(92), chr(92) * 2)}', body 'activex'"
    spark.sql(f"CREATE TEMPORARY VIEW orders USING msmq OPTIONS ({options})")
    try:
        found = spark.sql("SELECT body FROM orders WHERE queue LIKE '%orders' ORDER BY body")
        assert [row.body for row in found.collect()] == ["a", "b"]
    finally:
        spark.sql("DROP VIEW orders")
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE orders_table USING msmq OPTIONS ({options})")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a queue consumed says so soon."""
    monkeypatch.setattr("msmq.spark.doors._LEASE_PATIENCE_S", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_second_consumer_is_refused_by_name(servers: tuple[Server, Server], tmp_path: Path) -> None:
    north = servers[0]
    north.send(["a"])
    first = MicroBatches(tmp_path / "first", server=north.address, mode="consume")
    second = MicroBatches(tmp_path / "second", server=north.address, mode="consume")
    browsing = MicroBatches(tmp_path / "third", server=north.address)

    def others() -> None:
        with pytest.raises(
            ConsumedError, match=r"orders of NORTH is consumed already, by process .*/first\."
        ):
            second.run()
        browsing.run()

    first.before_reading = others
    first.run()
    assert (first.bodies, second.bodies, browsing.bodies) == (["a"], [], ["a"])
    north.send(["b"])
    second.run()
    assert second.bodies == ["b"], "when the first has ended"


@pytest.mark.usefixtures("impatient")
def test_a_batch_that_is_repeated_waits_for_the_queue_too(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """The first was killed in the middle of a batch, and comes back while another consumes the queue: both would have
    the messages of that batch."""
    north = servers[0]
    north.send(["a"])
    first = MicroBatches(tmp_path / "first", server=north.address, mode="consume")
    first.before_commit = killed
    with pytest.raises(Killed):
        first.run()
    second = MicroBatches(tmp_path / "second", server=north.address, mode="consume")

    def back() -> None:
        first.before_commit = lambda: None
        with pytest.raises(ConsumedError, match=r"is consumed already, by process .*/second\."):
            first.run()

    second.before_reading = back
    second.run()
    assert (first.bodies, second.bodies) == ([], ["a"])


def test_messages_that_expire_in_the_middle_of_a_batch(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """Planned and claimed, they are gone when a task comes to read them: that is what their sender wanted."""
    north = servers[0]
    north.send(["a"])
    north.send(["gone", "gone"], time_to_be_received=4)
    north.send(["b"])
    query = MicroBatches(tmp_path, server=north.address, mode="consume")
    query.before_reading = lambda: eventually(lambda: north.bodies() == ["a", "b"])
    query.run()
    assert query.bodies == ["a", "b"]
    assert north.bodies() == []


def test_a_batch_that_is_repeated_misses_what_somebody_took(
    servers: tuple[Server, Server], tmp_path: Path
) -> None:
    """Its last message is still there, and what expired is no loss. Nothing of it would be noticed by the position."""
    north = servers[0]
    north.send(["a", "b"])
    north.send(["gone"], time_to_be_received=10)
    north.send(["c"])
    query = MicroBatches(tmp_path, server=north.address, mode="consume")
    query.before_commit = killed
    with pytest.raises(Killed):
        query.run()
    query.before_commit = lambda: None
    with north.connect() as mq:
        assert mq.queue(ORDERS).receive(5).text == "a"
    eventually(lambda: north.bodies() == ["b", "c"])
    with pytest.raises(DataLossError, match=r"1 message\(s\) of .*orders that belong to this batch are gone"):
        query.run()
    anew = MicroBatches(tmp_path, server=north.address, mode="consume", failOnDataLoss="false")
    anew.run()
    assert (anew.bodies, north.bodies()) == (["b", "c"], [])
