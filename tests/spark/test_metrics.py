"""What queries tell of themselves, as Prometheus reads it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from msmq.spark.metrics import Metrics
from msmq.spark.progress import Lag
from tests.spark.support import ORDERS, Server, Stream, eventually

ORDERS_BEHIND = Lag("NORTH", "guid", 'a "queue"\\', 7, 700, 1.5, 3, 300)


def progress(number: int, lag: Lag = ORDERS_BEHIND) -> dict[str, Any]:
    said = json.dumps({"lag": [lag._asdict()]})
    return {
        "id": "q1",
        "name": "orders",
        "batchId": number,
        "numInputRows": lag.batch_messages,
        "sources": [{"latestOffset": said}],
    }


def test_lag_is_a_gauge_and_what_was_read_a_counter() -> None:
    metrics = Metrics()
    metrics.take(progress(0))
    metrics.take(progress(0))
    metrics.take(progress(1, ORDERS_BEHIND._replace(messages=0)))
    metrics.take(progress(2, ORDERS_BEHIND._replace(batch_messages=0, messages=4)))
    labels = '{query="orders",server="NORTH",queue="a \\"queue\\"\\\\"}'
    lines = metrics.text().splitlines()
    assert f"msmq_spark_lag_messages{labels} 4" in lines
    assert f"msmq_spark_lag_seconds{labels} 1.5" in lines
    assert f"msmq_spark_read_messages_total{labels} 6" in lines, "a batch that comes again counts once"
    assert f"msmq_spark_read_bytes_total{labels} 600" in lines
    assert metrics.port is None


def test_prometheus_reads_what_a_query_tells(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.send(["a", "b", "c"])
    metrics = Metrics(0)
    spark.streams.addListener(metrics)
    try:
        Stream(spark, server, tmp_path / "checkpoint", maxMessagesPerTrigger="2").run()

        def text() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                return str(answer.read().decode())

        whose = 'server="HOST",queue=".\\\\private$\\\\orders"}'
        eventually(
            lambda: any(f"{whose} 3" in line for line in text().splitlines() if "messages_total{" in line)
        )
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/")
    finally:
        spark.streams.removeListener(metrics)
        metrics.close()
