"""What went through the queues: traffic, latency, sizes, failures, as tables and as a page that needs nothing else.

The input is any table with the columns of :mod:`msmq.spark.schema`: an archive, or a queue read as it is.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msmq.wire.classes import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOP: Final = 20
_HOUR: Final = "date_trunc('HOUR', coalesce(arrived_time, sent_time))"
_LATENCY: Final = "unix_seconds(arrived_time) - unix_seconds(sent_time)"


@dataclass(frozen=True, slots=True)
class Report:
    """The tables, each a list of rows."""

    traffic: list[dict[str, Any]]
    """Messages and bytes by queue and hour."""
    queues: list[dict[str, Any]]
    """By queue: messages, bytes, sizes and seconds from sending to arrival."""
    failures: list[dict[str, Any]]
    """By queue and class: what was not delivered or not received, and why."""
    dead_letters: list[dict[str, Any]]
    """The most frequent destinations and labels of messages in dead-letter queues, with their reason."""
    made: datetime


def report(messages: DataFrame, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Report:
    """Count everything there is to count; runs four Spark jobs."""
    from pyspark.sql import functions as f

    sized = messages.withColumn("hour", f.expr(_HOUR)).withColumn("bytes", f.expr("octet_length(body)"))
    timed = sized.withColumn("latency", f.expr(_LATENCY))
    traffic = sized.groupBy("queue", "hour").agg(
        f.count("*").alias("messages"), f.sum("bytes").alias("bytes")
    )
    queues = timed.groupBy("queue").agg(
        f.count("*").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.max("bytes").alias("largest"),
        f.expr("percentile(bytes, 0.5)").alias("median_size"),
        f.expr("percentile(latency, 0.5)").alias("latency_p50"),
        f.expr("percentile(latency, 0.95)").alias("latency_p95"),
        f.expr("percentile(latency, 0.99)").alias("latency_p99"),
        f.min("hour").alias("first_hour"),
        f.max("hour").alias("last_hour"),
    )
    failed = messages.where("`class` >= 32768").groupBy("queue", "class").agg(f.count("*").alias("messages"))
    dead = messages.where("lower(queue) LIKE '%;dead%' OR lower(queue) LIKE '%deadletter%'")
    dead = dead.groupBy("queue", "class", "destination_queue", "label").agg(f.count("*").alias("messages"))
    return Report(
        traffic=_rows(traffic.orderBy("queue", "hour")),
        queues=_rows(queues.orderBy(f.desc("messages"), "queue")),
        failures=_explained(_rows(failed.orderBy(f.desc("messages"), "queue", "class"))),
        dead_letters=_explained(_rows(dead.orderBy(f.desc("messages"), "queue", "label").limit(TOP))),
        made=now(),
    )


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def _explained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"reason": reason(row["class"])} for row in rows]


# The page

_STYLE: Final = """
:root { color-scheme: light dark; --ink: light-dark(#1c2126, #e6e9ec); --soft: light-dark(#6b7480, #98a2ad);
  --line: light-dark(#dfe3e8, #343b43); --paper: light-dark(#ffffff, #15191d); --bar: light-dark(#2f6fb5, #6aa5e3); }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.made { color: var(--soft); margin: .2rem 0 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; } td.number, th.number { text-align: right; }
.scroll { overflow-x: auto; } svg { width: 100%; height: 9rem; } rect { fill: var(--bar); }
svg text { fill: var(--soft); font-size: 10px; } .none { color: var(--soft); }
"""
_QUEUE_COLUMNS: Final = (
    ("Queue", "queue"), ("Messages", "messages"), ("Bytes", "bytes"), ("Median size", "median_size"),
    ("Largest", "largest"), ("Latency p50, s", "latency_p50"), ("p95", "latency_p95"), ("p99", "latency_p99"),
)  # fmt: skip
_FAILURE_COLUMNS: Final = (("Queue", "queue"), ("Reason", "reason"), ("Messages", "messages"))
_DEAD_COLUMNS: Final = (
    ("Sent to", "destination_queue"), ("Label", "label"), ("Reason", "reason"), ("Messages", "messages"),
)  # fmt: skip


def page(found: Report) -> str:
    """The report as one HTML file without any reference to elsewhere."""
    charts = [
        f"<h3>{html.escape(row['queue'])}</h3>{_chart([r for r in found.traffic if r['queue'] == row['queue']])}"
        for row in found.queues
    ]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Queues</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>
<h1>Queues</h1><p class="made">{found.made:%Y-%m-%d %H:%M} UTC</p>
<h2>Traffic and latency</h2>{_table("queues", found.queues, _QUEUE_COLUMNS)}
<h2>Messages by hour</h2>{"".join(charts) or _NONE}
<h2>Failures</h2>{_table("failures", found.failures, _FAILURE_COLUMNS)}
<h2>Dead letters</h2>{_table("dead-letters", found.dead_letters, _DEAD_COLUMNS)}
</body></html>
"""


_NONE: Final = '<p class="none">None.</p>'


def _table(name: str, rows: list[dict[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return _NONE
    numeric = {key for _, key in columns if isinstance(rows[0][key], int | float)}
    head = "".join(f"<th{_number(key in numeric)}>{html.escape(title)}</th>" for title, key in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_number(key in numeric)}>{html.escape(_shown(row[key]))}</td>" for _, key in columns)
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table id="{name}"><tr>{head}</tr>{body}</table></div>'


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _chart(rows: list[dict[str, Any]]) -> str:
    """Bars, one for each hour that had messages; hovering tells which and how many."""
    dated = [row for row in rows if row["hour"] is not None]
    if not dated:
        return _NONE
    largest = max(row["messages"] for row in dated)
    width = 1_000 / len(dated)
    bars = "".join(
        f'<rect x="{place * width:.1f}" y="{100 - 100 * row["messages"] / largest:.1f}" '
        f'width="{max(width - 1, 1):.1f}" height="{100 * row["messages"] / largest:.1f}">'
        f"<title>{row['hour']:%Y-%m-%d %H:00}: {row['messages']:,} messages</title></rect>"
        for place, row in enumerate(dated)
    )
    first, last = dated[0]["hour"], dated[-1]["hour"]
    return (
        f'<svg viewBox="0 0 1000 120" preserveAspectRatio="none" role="img">{bars}'
        f'<text x="0" y="114">{first:%Y-%m-%d %H:00}</text>'
        f'<text x="1000" y="114" text-anchor="end">{last:%Y-%m-%d %H:00}</text></svg>'
    )
