"""What went through the queues: traffic, latency, sizes and failures by queue and hour, as tables.
:mod:`msmq.spark.page` makes a page of them.

The input is any table with the columns of :mod:`msmq.spark.schema`: an archive, or a queue read as it is. A message
counts for the hour in which it arrived, or was sent where that is not known. Percentiles are those of
``percentile_approx``, which are values of the data and take little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msmq.wire.classes import reason

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TOP_REASONS: Final = 5
"""Reasons of dead letters for each queue and hour."""
TOP_LETTERS: Final = 20
_HOUR: Final = "date_trunc('HOUR', coalesce(arrived_time, sent_time))"
_LATENCY: Final = "unix_seconds(arrived_time) - unix_seconds(sent_time)"
_FAILED: Final = "`class` >= 32768"
_DEAD: Final = "lower(queue) LIKE '%;dead%' OR lower(queue) LIKE '%deadletter$'"


@dataclass(frozen=True, slots=True)
class Report:
    """The tables, each a list of rows."""

    traffic: list[dict[str, Any]]
    """By queue and hour: messages, failures among them, bytes, sizes, and seconds from sending to arrival."""
    queues: list[dict[str, Any]]
    """By queue, busiest first: the sums of ``traffic``, with the first and the last hour."""
    failures: list[dict[str, Any]]
    """By queue, hour and class: what was not delivered or not received, and why."""
    dead_reasons: list[dict[str, Any]]
    """By dead-letter queue and hour: why most of its messages are there."""
    dead_letters: list[dict[str, Any]]
    """The most frequent destinations and labels of messages in dead-letter queues, with their reason."""
    made: datetime


def is_dead_letter_queue(name: str) -> bool:
    """True for the name of a dead-letter queue, as the condition above has it."""
    return ";dead" in name.lower() or name.lower().endswith("deadletter$")


def report(messages: DataFrame, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Report:
    """Count everything there is to count; runs five Spark jobs."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    known = messages.select(
        "queue", "class", "label", "destination_queue", f.expr(_HOUR).alias("hour"),
        f.expr("octet_length(body)").alias("bytes"), f.expr(_LATENCY).alias("latency"),
    )  # fmt: skip
    figures = _figures()
    traffic = known.groupBy("queue", "hour").agg(*figures)
    queues = known.groupBy("queue").agg(
        *figures, f.min("hour").alias("first_hour"), f.max("hour").alias("last_hour")
    )
    counted = f.count("*").alias("messages")
    failed = known.where(_FAILED).groupBy("queue", "hour", "class").agg(counted)
    dead = known.where(_DEAD)
    most = Window.partitionBy("queue", "hour").orderBy(f.desc("messages"), "class")
    reasons = (
        dead.groupBy("queue", "hour", "class").agg(counted).withColumn("rank", f.row_number().over(most))
    )
    letters = dead.groupBy("queue", "class", "destination_queue", "label").agg(counted)
    return Report(
        traffic=_rows(traffic.orderBy("queue", "hour")),
        queues=_rows(queues.orderBy(f.desc("messages"), "queue")),
        failures=_explained(_rows(failed.orderBy("queue", "hour", f.desc("messages"), "class"))),
        dead_reasons=_explained(
            _rows(reasons.where(f"rank <= {TOP_REASONS}").orderBy("queue", "hour", "rank").drop("rank"))
        ),
        dead_letters=_explained(
            _rows(letters.orderBy(f.desc("messages"), "queue", "label", "class").limit(TOP_LETTERS))
        ),
        made=now(),
    )


def _figures() -> list[Column]:
    """What is counted of any set of messages."""
    from pyspark.sql import functions as f

    return [
        f.count("*").alias("messages"),
        f.expr(f"count_if({_FAILED})").alias("failures"),
        f.sum("bytes").alias("bytes"),
        f.expr("percentile_approx(bytes, 0.5)").alias("median_size"),
        f.max("bytes").alias("largest"),
        f.expr("percentile_approx(latency, 0.5)").alias("latency_p50"),
        f.expr("percentile_approx(latency, 0.95)").alias("latency_p95"),
        f.expr("percentile_approx(latency, 0.99)").alias("latency_p99"),
    ]


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _explained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"reason": reason(row["class"])} for row in rows]
