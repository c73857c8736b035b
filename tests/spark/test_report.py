"""The report: its figures against the data they were made from, and a page that is safe to open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from msmq.spark.report import Report, page, report
from msmq.spark.schema import Table

NOON = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
MADE = datetime(2026, 3, 2, tzinfo=UTC)
DEAD = "DIRECT=OS:host\\SYSTEM$;DEADLETTER"


def message(queue: str, size: int, *, latency_s: int = 0, hours: int = 0, **columns: Any) -> dict[str, Any]:
    sent = NOON + timedelta(hours=hours)
    values = {"queue": queue, "body": bytes(size), "sent_time": sent, "class": 0, "label": "order"}
    return values | {"arrived_time": sent + timedelta(seconds=latency_s)} | columns


MESSAGES = [
    *(message("orders", 100 * number, latency_s=number) for number in range(1, 11)),
    message("orders", 5, hours=1),
    message("replies", 7, arrived_time=None),
    message("admin", 0, **{"class": 0x8000}),
    message(DEAD, 9, **{"class": 0x8002, "destination_queue": "DIRECT=OS:gone\\q", "label": "<b>late</b>"}),
    message(DEAD, 9, **{"class": 0x8002, "destination_queue": "DIRECT=OS:gone\\q", "label": "<b>late</b>"}),
]


def made(spark: SparkSession) -> Report:
    names = [name for name, _ in Table().types]
    rows = [tuple(values.get(name) for name in names) for values in MESSAGES]
    return report(spark.createDataFrame(rows, Table().ddl), now=lambda: MADE)


def test_the_figures_are_those_of_the_data(spark: SparkSession) -> None:
    found = made(spark)
    traffic = {(row["queue"], row["hour"].hour): (row["messages"], row["bytes"]) for row in found.traffic}
    assert traffic[("orders", 12)] == (10, 5_500)
    assert traffic[("orders", 13)] == (1, 5)
    assert traffic[("replies", 12)] == (1, 7), "by the time it was sent, where no arrival is known"
    orders = next(row for row in found.queues if row["queue"] == "orders")
    assert (orders["messages"], orders["bytes"], orders["largest"]) == (11, 5_505, 1_000)
    assert (orders["latency_p50"], orders["median_size"]) == (5, 500)
    assert orders["latency_p99"] > orders["latency_p95"] > 9
    assert next(row for row in found.queues if row["queue"] == "replies")["latency_p50"] is None
    failures = {(row["queue"], row["reason"]): row["messages"] for row in found.failures}
    assert failures == {
        ("admin", "the destination queue does not exist"): 1,
        (DEAD, "the message did not reach its queue in time"): 2,
    }
    (dead,) = found.dead_letters
    assert (dead["messages"], dead["destination_queue"]) == (2, "DIRECT=OS:gone\\q")


def test_the_page_is_whole_and_safe(spark: SparkSession) -> None:
    text = page(made(spark))
    assert "<b>late</b>" not in text
    assert "&lt;b&gt;late&lt;/b&gt;" in text
    assert "http" not in text, "nothing is fetched"
    assert text.count("<rect") == 5
    assert "5,505" in text


def test_an_empty_report(spark: SparkSession) -> None:
    empty = report(spark.createDataFrame([], Table().ddl), now=lambda: MADE)
    assert empty.queues == []
    assert page(empty).count("None.") == 4
