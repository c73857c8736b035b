"""How far a stream is behind: what the source tells of each batch, and what is read out of the progress of a query."""

from __future__ import annotations

import json
import time
from array import array
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from msmq.client.queue import QueueIdentity, Waiting
from msmq.spark.doors import Host
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.planner import Read
from msmq.spark.progress import Lag, lag_of, latest_with_lag
from tests.spark.support import ORDERS, Server, Stream, finished

HERE = QueueIdentity("guid", "queue", "now")


def test_what_lies_behind_a_batch() -> None:
    end = FleetOffset({"a": Offset().reading("q", HERE, [5], ())})
    waiting = {"q": Waiting(2, 300, 90, array("Q", [7])), "empty": Waiting(0, 0, 0, array("Q"))}
    said = latest_with_lag(end, {"a": (Host("A", "guid"), waiting, {"q": Read(5, 600)})}, 100.5)
    latest = FleetOffset.parse(said).parts["a"]
    assert (latest.lanes("q"), latest.lanes("empty")) == ({0: 7}, {})
    assert end.parts["a"].lanes("q") == {0: 5}
    progress: dict[str, object] = {
        "sources": [{"latestOffset": json.dumps(said)}, {"latestOffset": None}, {"latestOffset": "5"}]
    }
    assert lag_of(progress | {"durationMs": {"triggerExecution": 2_000}})[0][-2:] == (2.5, 300.0)
    assert lag_of(progress) == [
        Lag("A", "guid", "q", 2, 300, 10.5, 5, 600),
        Lag("A", "guid", "empty", 0, 0, 0.0, 0, 0),
    ]


def test_a_query_tells_how_far_it_is_behind(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    began = time.time()
    server.send(["a", "b", "c", "d", "e"])
    time.sleep(1.1)  # times of arrival are in whole seconds
    numbers = count()  # whoever has to be started again begins anew

    def start() -> StreamingQuery:
        stream = Stream(spark, server, tmp_path / f"checkpoint {next(numbers)}", maxMessagesPerTrigger="2")
        return stream.start(availableNow=True)

    query = finished(start)
    lags = [lag for progress in query.recentProgress for lag in lag_of(progress)]
    assert {(lag.server, lag.queue_manager, lag.queue) for lag in lags} == {("HOST", server.guid, ORDERS)}
    assert [(lag.messages, lag.batch_messages) for lag in lags[:3]] == [(3, 2), (1, 2), (0, 1)]
    first, second, last = lags[:3]
    assert first.bytes > second.bytes > last.bytes == 0
    assert all(lag.batch_bytes > 0 for lag in lags[:3])
    assert 1 <= first.oldest_s <= second.oldest_s <= time.time() - began + 1
    assert last.oldest_s == 0
    assert all(lag.messages_per_s > 0 and lag.bytes_per_s > lag.messages_per_s for lag in lags[:3])
