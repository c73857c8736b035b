"""The report: its figures against the data they were made from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from msmq.spark.report import TOP_REASONS, Report, is_dead_letter_queue, report
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


def made(spark: SparkSession, messages: list[dict[str, Any]] = MESSAGES) -> Report:
    names = [name for name, _ in Table().types]
    rows = [tuple(values.get(name) for name in names) for values in messages]
    return report(spark.createDataFrame(rows, Table().ddl), now=lambda: MADE)


def test_the_figures_are_those_of_the_data(spark: SparkSession) -> None:
    found = made(spark)
    traffic = {(row["queue"], row["time"].hour): row for row in found.traffic}
    noon, one = traffic[("orders", 12)], traffic[("orders", 13)]
    assert (noon["messages"], noon["failures"], noon["bytes"]) == (10, 0, 5_500)
    assert (noon["median_size"], noon["largest"], noon["latency_p50"]) == (500, 1_000, 5)
    assert (one["messages"], one["bytes"], one["latency_p99"]) == (1, 5, 0)
    assert traffic[("replies", 12)]["bytes"] == 7, "by the time it was sent, where no arrival is known"
    orders = next(row for row in found.queues if row["queue"] == "orders")
    assert (orders["messages"], orders["bytes"], orders["largest"]) == (11, 5_505, 1_000)
    assert (orders["latency_p50"], orders["latency_p95"], orders["latency_p99"]) == (5, 10, 10)
    assert (orders["first_time"].hour, orders["last_time"].hour) == (12, 13)
    assert next(row for row in found.queues if row["queue"] == "replies")["latency_p50"] is None
    failures = {(row["queue"], row["time"].hour, row["reason"]): row["messages"] for row in found.failures}
    assert failures == {
        ("admin", 12, "the destination queue does not exist"): 1,
        (DEAD, 12, "the message did not reach its queue in time"): 2,
    }
    (dead,) = found.dead_letters
    assert (dead["messages"], dead["destination_queue"]) == (2, "DIRECT=OS:gone\\q")
    (why,) = found.dead_reasons
    assert (why["queue"], why["time"].hour, why["messages"], why["class"]) == (DEAD, 12, 2, 0x8002)


def test_the_most_frequent_reasons_of_each_hour(spark: SparkSession) -> None:
    """Seven reasons in each of two hours, the later ones more often."""
    messages = [
        message(DEAD, 1, hours=hours, **{"class": 0x8000 + kind})
        for hours in range(2)
        for kind in range(7)
        for _ in range(kind + 1 + hours)
    ]
    found = made(spark, messages).dead_reasons
    for hours in range(2):
        said = [(row["class"], row["messages"]) for row in found if row["time"].hour == 12 + hours]
        assert said == [(0x8000 + kind, kind + 1 + hours) for kind in (6, 5, 4, 3, 2)]
        assert len(said) == TOP_REASONS


def test_an_empty_report(spark: SparkSession) -> None:
    empty = made(spark, [])
    assert (empty.queues, empty.traffic, empty.dead_reasons) == ([], [], [])


def test_dead_letter_queues_by_any_name(spark: SparkSession) -> None:
    names = [DEAD, ".\\deadletter$", ".\\xactdeadletter$", "DIRECT=OS:h\\SYSTEM$;DeadXact", "orders"]
    found = made(spark, [message(name, 1, **{"class": 0x8000}) for name in names])
    assert {row["queue"] for row in found.dead_reasons} == set(filter(is_dead_letter_queue, names))
    assert set(filter(is_dead_letter_queue, names)) == set(names[:-1])


def test_queues_of_several_servers_are_told_apart(spark: SparkSession) -> None:
    """Their paths are the same. An archive of an earlier release does not say whose they are."""
    orders = ".\\private$\\orders"
    north, south = (message(orders, 10, server=name) for name in ("NORTH", "SOUTH"))
    dead = message(".\\deadletter$", 9, server="SOUTH", **{"class": 0x8002})
    found = made(spark, [north, south, south, dead, message(orders, 10)])
    assert [(row["queue"], row["messages"]) for row in found.queues] == [
        ("SOUTH\\private$\\orders", 2),
        (orders, 1),
        ("NORTH\\private$\\orders", 1),
        ("SOUTH\\deadletter$", 1),
    ]
    assert [row["queue"] for row in found.dead_reasons] == ["SOUTH\\deadletter$"]
    alone = [north, message(orders, 10)]
    assert [(row["queue"], row["messages"]) for row in made(spark, alone).queues] == [(orders, 2)]
    names = [name for name, _ in Table().types if name != "server"]
    rows = spark.createDataFrame([tuple(north.get(name) for name in names)], Table(only=names).ddl)
    assert [row["queue"] for row in report(rows).queues] == [orders]


def test_figures_of_an_afternoon_are_told_by_the_minute(spark: SparkSession) -> None:
    rows = [
        message("orders", 10, hours=0),
        message("orders", 10, latency_s=61),
        message("orders", 10, hours=5),
    ]
    found = made(spark, rows)
    assert found.step_s == 60
    assert [(f"{row['time']:%H:%M}", row["messages"]) for row in found.traffic] == [
        ("12:05", 1),
        ("12:06", 1),
        ("17:05", 1),
    ]
    assert made(spark, [*rows, message("orders", 1, hours=7)]).step_s == 3_600
