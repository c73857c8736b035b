"""Store files into tables: what stands in the queues, what was removed, and what a transaction left; the store is that
of a queue manager that was killed."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import msmq
from msmq.spark.schema import Table
from msmq.spark.stored import decode_stores, is_store, read_messages
from msmq.store import StoreError, StoreLockedError
from msmq.store.browse import segments
from tests.spark.support import LEDGER, ORDERS, Server, eventually

DEAD = ".\\deadletter$"
NOWHERE = "DIRECT=TCP:127.0.0.9\\private$\\gone"
JOURNALED = ".\\private$\\journaled"


def fill(server: Server) -> None:
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    server.create(JOURNALED, journaling=True)
    recoverable = {"delivery": msmq.Delivery.RECOVERABLE}
    server.send([f"order {number}" for number in range(6)], **recoverable)
    server.send(["express"], delivery=msmq.Delivery.EXPRESS)
    server.send(["kept"], JOURNALED, **recoverable)
    with server.connect() as mq:
        mq.queue(ORDERS).receive()  # order 0
        mq.queue(JOURNALED).receive()
        first = next(iter(mq.queue(ORDERS).browse()))
        mq.queue(ORDERS).move([first], f"{ORDERS};poison")  # order 1
        with mq.transaction() as transaction:
            transaction.send(LEDGER, "committed")
        with suppress(LookupError), mq.transaction() as transaction:
            transaction.send(LEDGER, "undone")
            raise LookupError
        mq.queue(NOWHERE).send("late", time_to_reach_queue=1, **recoverable)
    eventually(lambda: server.bodies(DEAD))


def test_a_store_is_a_table(spark: SparkSession, server: Server) -> None:
    fill(server)
    data = server.directory / "data"
    with pytest.raises(StoreLockedError):
        decode_stores(spark, [data])
    server.kill()
    assert is_store(data)
    rows = decode_stores(spark, [data], body="activex").collect()
    assert [row.error for row in rows if row.error] == []
    by_body = {row.body: row for row in rows if not row.queue.lower().endswith(";journal")}
    path = by_body["order 2"].queue
    assert path.lower() == "host\\private$\\orders"
    assert (by_body["order 0"].state, by_body["order 0"].queue) == ("removed", path)
    assert (by_body["order 1"].state, by_body["order 1"].queue) == ("standing", f"{path};poison")
    assert {by_body[f"order {number}"].state for number in range(2, 6)} == {"standing"}
    assert by_body["committed"].state == "standing"
    assert by_body["committed"].delivery == "transactional"
    assert {row.state for row in rows if row.body == "undone"} <= {"aborted"}
    assert "express" not in by_body
    (kept,) = [row for row in rows if row.body == "kept" and row.state == "standing"]
    assert kept.queue.lower() == "host\\private$\\journaled;journal"
    (dead,) = [row for row in rows if row.body == "late" and row.state == "standing"]
    assert dead.queue == DEAD
    assert dead["class"] & 0x8000, "why it is there"
    assert all(row.arrived_time is not None for row in rows)


TAKEN = {"single": 5, "grouped": 5, "transaction": 5, "purged": 8, "removed": 5, "deleted": 8}
"""Ways of taking messages out of a queue, and how many are taken."""


def test_what_was_received_in_any_way_is_removed(spark: SparkSession, server: Server) -> None:
    """What the store says of the messages is what the queue manager finds in it when it starts again. Elsewhere are the
    acknowledgments that senders want."""
    queues = {way: f".\\private$\\{way}" for way in (*TAKEN, "undone")}
    for name in queues.values():
        server.create(name, transactional=True)
    for way, name in queues.items():
        server.send([f"{way} {number}" for number in range(8)], name, delivery=msmq.Delivery.TRANSACTIONAL)
    with server.connect() as mq:
        for _ in range(5):
            mq.queue(queues["single"]).receive()
        with mq.queue(queues["grouped"]).receiver() as receiver:
            receiver.acknowledge(*(receiver.receive() for _ in range(5)))
        with mq.transaction() as transaction:
            for _ in range(5):
                transaction.receive(queues["transaction"])
        mq.queue(queues["purged"]).purge()
        chosen = [message.lookup_id for message in mq.queue(queues["removed"]).browse()][:5]
        mq.queue(queues["removed"]).remove(chosen)
        mq.delete_queue(queues["deleted"])
        with suppress(LookupError), mq.transaction() as transaction:
            transaction.receive(queues["undone"])
            raise LookupError
    server.kill()
    rows = decode_stores(spark, [server.directory / "data"], body="activex").collect()
    server.start()
    del queues["deleted"]
    queues["xactdeadletter$"] = ".\\xactdeadletter$"  # for what was purged, and deleted with its queue
    queues["journal$"] = ".\\journal$"  # for those whose senders want a copy
    rows = [row for row in rows if row.queue.rpartition("\\")[2] in queues.keys() | TAKEN]
    assert any(row.extension for row in rows)
    found = [(row.queue.rpartition("\\")[2], row.body, row.state) for row in rows]
    assert sorted((queue, body) for queue, body, state in found if state == "standing") == sorted(
        (queue, body) for queue, name in queues.items() for body in server.bodies(name)
    )
    removed = Counter(queue for queue, _, state in found if state == "removed")
    assert removed == TAKEN
    assert {state for _, _, state in found} == {"standing", "removed"}


def test_what_is_damaged_is_a_row(spark: SparkSession, server: Server) -> None:
    server.create(ORDERS)
    server.send([f"order {number}" for number in range(5)], delivery=msmq.Delivery.RECOVERABLE)
    server.kill()
    data = server.directory / "data"
    (segment,) = [found for found in segments(data / "store") if b"o\0r\0d\0e\0r" in found.path.read_bytes()]
    content = bytearray(segment.path.read_bytes())
    place = content.find("order 2".encode("utf-16-le"))
    content[place] ^= 1
    segment.path.write_bytes(content)
    rows = decode_stores(spark, [data], body="activex").collect()
    assert sorted(row.body for row in rows if row.error is None) == [f"order {n}" for n in (0, 1, 3, 4)]
    (damaged,) = [row for row in rows if row.error is not None]
    assert (damaged.file, damaged.state, damaged.body) == (segment.path.name, None, None)
    batches = list(read_messages(segment, Table("activex")))
    assert sum(batch.num_rows for batch in batches) == 5


def test_what_is_no_store(spark: SparkSession, tmp_path: Path) -> None:
    assert not is_store(tmp_path)
    with pytest.raises(StoreError):
        decode_stores(spark, [tmp_path])
