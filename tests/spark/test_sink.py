"""The sink on a real Spark with a real queue manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import msmq
from msmq.spark.options import OptionError
from msmq.spark.rows import Packer, Parcel, RowError
from msmq.spark.sink import (
    Digest,
    MsmqWriter,
    RepeatedBatchError,
    SinkOptions,
    Staged,
    StagingError,
    send_once,
)
from tests.spark.support import LEDGER, ORDERS, Server, finished


def test_a_table_is_sent(spark: SparkSession, server: Server) -> None:
    server.create(ORDERS)
    rows = spark.range(50).selectExpr(
        "concat('body ', id) AS body", "concat('label ', id) AS label", "3 AS priority"
    )
    rows.write.format("msmq").option("server", server.address).option("queue", ORDERS).mode("append").save()
    assert sorted(server.bodies()) == sorted(f"body {number}" for number in range(50))


def test_rows_say_which_queue_they_are_for(spark: SparkSession, server: Server) -> None:
    """The option goes before the column."""
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    queue = "CASE WHEN id % 2 = 0 THEN '.\\\\private$\\\\orders' ELSE '.\\\\private$\\\\ledger' END AS queue"
    rows = spark.range(20).selectExpr("concat('body ', id) AS body", queue)
    write = rows.write.format("msmq").option("server", server.address).mode("append")
    write.save()
    even, odd = ([f"body {number}" for number in range(first, 20, 2)] for first in range(2))
    assert (sorted(server.bodies(ORDERS)), sorted(server.bodies(LEDGER))) == (sorted(even), sorted(odd))
    write.option("queue", ORDERS).save()
    assert sorted(server.bodies(ORDERS)) == sorted(even + even + odd)
    assert sorted(server.bodies(LEDGER)) == sorted(odd)


def test_values_and_headers_are_columns_both_ways(spark: SparkSession, server: Server) -> None:
    """Rows become messages as NServiceBus or Rebus send them, and come back as text, VARIANT and map."""
    server.create(ORDERS)
    given = spark.range(2).selectExpr(
        """encode(concat('{"number": ', id, '}'), 'utf-8') AS body""",
        "map('kind', concat('order ', id)) AS headers",
    )
    for dialect in ("nservicebus", "rebus"):
        write = given.write.format("msmq").option("server", server.address).option("queue", ORDERS)
        write.option("headersAs", dialect).option("bodyType", "0").mode("append").save()
    read = spark.read.format("msmq").option("server", server.address).option("queue", ORDERS)
    read = read.option("includeText", "true").option("includeValue", "true").option("includeHeaders", "true")
    number = "variant_get(try_parse_json(value), '$.number', 'int')"
    rows = read.load().selectExpr(f"{number} AS number", "text", "headers['kind'] AS kind", "extension")
    found = sorted((row.number, row.text, row.kind, bytes(row.extension)[:1]) for row in rows.collect())
    assert found == [
        (number, f'{{"number": {number}}}', f"order {number}", begin)
        for number in range(2)
        for begin in (b"<", b"{")
    ]


def test_a_table_is_sent_to_transactional_queues_all_or_nothing(spark: SparkSession, server: Server) -> None:
    names = [f".\\private$\\{name}" for name in ("left", "right")]
    for name in names:
        server.create(name, transactional=True)
    queue = f"CASE WHEN id % 2 = 0 THEN '{names[0]}' ELSE '{names[1]}' END AS queue".replace("\\", "\\\\")
    good = spark.range(0, 40, numPartitions=3).selectExpr("concat('body ', id) AS body", queue)
    good.write.format("msmq").option("server", server.address).mode("append").save()
    assert sorted(server.bodies(names[0]) + server.bodies(names[1])) == sorted(f"body {n}" for n in range(40))
    priority = "IF(id = 25, 8, 3) AS priority"
    bad = spark.range(0, 40, numPartitions=1).selectExpr("concat('body ', id) AS body", queue, priority)
    with pytest.raises(PySparkException, match=r"row 25, column priority"):
        bad.write.format("msmq").option("server", server.address).mode("append").save()
    assert len(server.bodies(names[0]) + server.bodies(names[1])) == 40, "nothing of it was sent"
    left = [path for path in server.queues() if "staging" in path]
    assert not left, left


def test_a_large_body_survives_staging(spark: SparkSession, server: Server) -> None:
    server.create(LEDGER, transactional=True)
    rows = spark.sql("SELECT encode(repeat('x', 4100000), 'utf-8') AS body")
    rows.write.format("msmq").option("server", server.address).option("queue", LEDGER).mode("append").save()
    with server.connect() as mq:
        assert mq.queue(LEDGER).peek().body == b"x" * 4_100_000


def test_rows_that_were_put_aside_and_are_gone_are_missed(server: Server) -> None:
    """Somebody purges a private queue that he does not know. Then nothing is sent, instead of a part."""
    server.create(LEDGER, transactional=True)
    writer = MsmqWriter({"server": server.address, "queue": LEDGER}, ["body"], overwrite=False)
    made = [
        writer.write(iter([pa.RecordBatch.from_pydict({"body": [b"x" * 1_000] * count})]))
        for count in (10, 700)
    ]
    with server.connect() as mq:
        assert isinstance(made[1], Staged)
        assert made[1].queue is not None
        mq.queue(made[1].queue).receive()
    with pytest.raises(StagingError, match=r"Of 700 rows that partition 0 put aside .* 444 are there"):
        writer.commit(made)
    assert server.bodies(LEDGER) == []
    writer.abort(made)
    assert not [path for path in server.queues() if "staging" in path]


def test_what_goes_wrong_is_told(spark: SparkSession, server: Server) -> None:
    rows = spark.sql("SELECT 'a' AS body")
    write = rows.write.format("msmq").option("server", server.address)
    with pytest.raises(PySparkException, match="MQ_ERROR_QUEUE_NOT_FOUND"):
        write.option("queue", ".\\private$\\nowhere").mode("append").save()
    with pytest.raises(PySparkException, match="append"):
        write.option("queue", ORDERS).mode("overwrite").save()


def test_a_stream_is_sent_once(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """A batch that was sent but not committed comes again when the query is restarted: nothing is sent for it."""
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        read = spark.readStream.format("msmq").option("server", server.address).option("queue", ORDERS)
        write = read.load().select("body", "body_type").writeStream.format("msmq").option("queue", LEDGER)
        write = write.option("server", server.address).option("checkpointLocation", str(checkpoint))
        finished(write.trigger(availableNow=True).start)

    server.send([f"{number}" for number in range(10)])
    run()
    assert server.bodies(LEDGER) == [f"{number}" for number in range(10)]
    for committed in (checkpoint / "commits").iterdir():
        committed.unlink()  # as if the driver had been killed before
    server.send(["more"])
    run()
    assert server.bodies(LEDGER) == [*(f"{number}" for number in range(10)), "more"]


async def parcels(*given: list[bytes], last: str = LEDGER) -> AsyncIterator[Parcel]:
    """Rows, those of the last batch for another queue perhaps."""
    packer = Packer({}, ["queue", "body"])
    for number, bodies in enumerate(given, 1):
        queue = last if number == len(given) else LEDGER
        for parcel in packer.parcels(
            pa.RecordBatch.from_pydict({"queue": [queue] * len(bodies), "body": bodies})
        ):
            yield parcel


def test_the_same_batch_again_sends_nothing_and_another_is_an_error(server: Server) -> None:
    server.create(LEDGER, transactional=True)
    token = ".\\private$\\token"

    async def test() -> None:
        async with msmq.connect(server.address) as mq:
            assert not await send_once(mq, token, 0, parcels([b"a"], [b"b"]))
            assert await send_once(mq, token, 0, parcels([b"b", b"a"])), "whatever the order"
            with pytest.raises(RepeatedBatchError, match="2 rows"):
                await send_once(mq, token, 0, parcels([b"a"]))
            assert await send_once(mq, token, 0, parcels([b"a"]), keeps_sent=True), "one has expired"
            assert not await send_once(mq, token, 1, parcels([b"c"]), keeps_sent=True)
            with pytest.raises(RowError, match=r"row 0 (and others )?to"):
                await send_once(mq, token, 2, parcels([b"d"], [b"e"], last=".\\private$\\none"))
            assert not await send_once(mq, token, 2, parcels([b"d"]))
            found = [message.body async for message in mq.queue(LEDGER).browse()]
            assert found == [b"a", b"b", b"c", b"d"]

    asyncio.run(test())


def test_what_is_done_with_a_repeated_batch_is_an_option() -> None:
    assert [SinkOptions.of(given).keeps_sent for given in ({}, {"repeatedBatch": "Sent"})] == [False, True]
    with pytest.raises(OptionError, match="repeatedBatch is one of error, sent"):
        SinkOptions.of({"repeatedBatch": "again"})


def test_rows_count_alike_however_they_are_divided() -> None:
    """How Arrow cuts them may differ from one attempt to the next, and so what they have in common in a parcel."""
    columns = {
        "body": [b"a", b"b" * 2_000, None, b"a"],
        "label": ["x", None, "y", "x"],
        "priority": [5, 5, 6, 5],
        "app_specific": [1, 2, None, 1],
        "correlation_id": [None, bytes(range(20)), None, None],
    }
    batch = pa.RecordBatch.from_pydict(columns)
    packer = Packer({"queue": LEDGER, "label": "usual", "timeToBeReceived": "60"}, tuple(columns))

    def counted(*rows: int) -> Digest:
        digest = Digest()
        for row in rows:
            for parcel in packer.parcels(batch.slice(row, 1)):
                digest.add(parcel)
        return digest

    whole = Digest()
    for parcel in packer.parcels(batch):
        whole.add(parcel)
    assert whole.value() == counted(3, 2, 1, 0).value()
    assert whole.rows == 4
    other = counted(0, 1, 2, 1)
    assert (other.rows, other.value() == whole.value()) == (4, False)
    assert counted(0, 1).value() != counted(1, 2).value()


def test_a_token_of_an_earlier_release_tells_how_many(server: Server) -> None:
    """It added up otherwise, so that only the number of rows can be compared."""
    server.create(LEDGER, transactional=True)
    token = ".\\private$\\token"
    server.create(token, transactional=True)
    with server.connect() as mq, mq.transaction() as transaction:
        mq.queue(token).send(b'{"batch": 0, "sent": {"rows": 2, "sum": "5"}}', transaction=transaction)

    async def test() -> None:
        async with msmq.connect(server.address) as mq:
            assert await send_once(mq, token, 0, parcels([b"a", b"b"]))
            with pytest.raises(RepeatedBatchError, match="2 rows"):
                await send_once(mq, token, 0, parcels([b"a"]))

    asyncio.run(test())
    assert server.bodies(LEDGER) == []


def test_two_tasks_with_the_same_partition_send_once(server: Server) -> None:
    server.create(LEDGER, transactional=True)
    bodies = [f"{number}".encode() for number in range(300)]

    async def attempt() -> bool:
        async with msmq.connect(server.address) as mq:
            return await send_once(mq, ".\\private$\\token", 0, parcels(bodies))

    async def test() -> None:
        repeated = await asyncio.gather(*(attempt() for _ in range(4)))
        assert sorted(repeated) == [False, True, True, True]

    asyncio.run(test())
    with server.connect() as mq:
        assert [message.body for message in mq.queue(LEDGER).browse()] == bodies
