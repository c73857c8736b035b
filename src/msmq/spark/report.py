"""Report on the traffic of queues: tables of volume, latency, sizes and failures by queue and time.
:mod:`msmq.spark.page` makes a page of them.

The input is any table with the columns of :mod:`msmq.spark.schema`: an archive, or a queue read as it is. A message
counts for the minute or hour in which it arrived, or was sent if its arrival is unknown; hours are used when there
would be too many minutes. Queues of several servers may have the same path; then the name of the computer is in it.
Percentiles are those of ``percentile_approx``, which are values of the data and take little memory.
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
"""The most reasons of dead letters for each queue and time."""
TOP_LETTERS: Final = 20
MOST_MINUTES: Final = 360
"""Longer periods are divided into hours."""
_TIME: Final = "coalesce(arrived_time, sent_time)"
_STEPS: Final = {60: "MINUTE", 3_600: "HOUR"}
_LATENCY: Final = "unix_seconds(arrived_time) - unix_seconds(sent_time)"
_FAILED: Final = "`class` >= 32768"
_OF_ITS_SERVER: Final = (
    "if(startswith(queue, '.') AND server IS NOT NULL, concat(server, substr(queue, 2)), queue)"
)
"""The path of a queue, with the name of its computer in place of the dot."""
_DEAD: Final = "lower(queue) LIKE '%;dead%' OR lower(queue) LIKE '%deadletter$'"


@dataclass(frozen=True, slots=True)
class Report:
    """The tables, each a list of rows."""

    traffic: list[dict[str, Any]]
    """By queue and time: messages, failures among them, bytes, sizes, and seconds from sending to arrival."""
    queues: list[dict[str, Any]]
    """By queue, busiest first: the sums of ``traffic``, with the first and the last time."""
    failures: list[dict[str, Any]]
    """By queue, time and class: what was not delivered or not received, and why."""
    dead_reasons: list[dict[str, Any]]
    """By dead-letter queue and time: why most of its messages are there."""
    dead_letters: list[dict[str, Any]]
    """The most frequent destinations and labels of messages in dead-letter queues, with their reason."""
    made: datetime
    step_s: int = 3_600
    """The length of the periods in the tables, a minute or an hour; a period is named by its beginning."""


def is_dead_letter_queue(name: str) -> bool:
    """True for the name of a dead-letter queue; the same as the condition above."""
    return ";dead" in name.lower() or name.lower().endswith("deadletter$")


def report(messages: DataFrame, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Report:
    """Compute the whole report; runs six Spark jobs."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    step_s, servers = _extent(messages)
    time = f.expr(f"date_trunc('{_STEPS[step_s]}', {_TIME})").alias("time")
    known = messages.select(
        f.expr(_OF_ITS_SERVER if servers > 1 else "queue").alias("queue"), "class", "label", "destination_queue", time,
        f.expr("octet_length(body)").alias("bytes"), f.expr(_LATENCY).alias("latency"),
    )  # fmt: skip
    figures = _figures()
    traffic = known.groupBy("queue", "time").agg(*figures)
    queues = known.groupBy("queue").agg(
        *figures, f.min("time").alias("first_time"), f.max("time").alias("last_time")
    )
    counted = f.count("*").alias("messages")
    failed = known.where(_FAILED).groupBy("queue", "time", "class").agg(counted)
    dead = known.where(_DEAD)
    most = Window.partitionBy("queue", "time").orderBy(f.desc("messages"), "class")
    reasons = (
        dead.groupBy("queue", "time", "class").agg(counted).withColumn("rank", f.row_number().over(most))
    )
    letters = dead.groupBy("queue", "class", "destination_queue", "label").agg(counted)
    return Report(
        traffic=_rows(traffic.orderBy("queue", "time")),
        queues=_rows(queues.orderBy(f.desc("messages"), "queue")),
        failures=_explained(_rows(failed.orderBy("queue", "time", f.desc("messages"), "class"))),
        dead_reasons=_explained(
            _rows(reasons.where(f"rank <= {TOP_REASONS}").orderBy("queue", "time", "rank").drop("rank"))
        ),
        dead_letters=_explained(
            _rows(letters.orderBy(f.desc("messages"), "queue", "label", "class").limit(TOP_LETTERS))
        ),
        made=now(),
        step_s=step_s,
    )


def _extent(messages: DataFrame) -> tuple[int, int]:
    """Return the seconds that the figures cover, and the number of servers, which archives of earlier releases do not
    record."""
    servers = "count(DISTINCT server)" if "server" in messages.columns else "0"
    found = messages.selectExpr(f"unix_seconds(max({_TIME})) - unix_seconds(min({_TIME}))", servers).first()
    assert found is not None
    span_s, count = found
    return 60 if span_s is not None and span_s < MOST_MINUTES * 60 else 3_600, count


def _figures() -> list[Column]:
    """Return the figures that are computed for any set of messages."""
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
