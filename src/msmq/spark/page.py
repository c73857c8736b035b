"""Write a report as one self-contained HTML file: no script, no font, no outside reference.

Charts are drawings in the page (SVG), with a tooltip on each mark; tables hold every figure that a chart shows for a
queue. Long periods are drawn in longer steps, so that no bar is too thin to see.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msmq.spark.report import Report, is_dead_letter_queue

MOST_CHARTS: Final = 100
"""The most queues with charts; tables have all queues."""
MOST_OPEN: Final = 12
"""The most queues whose charts are unfolded at first."""
MOST_ROWS: Final = 2_000
MOST_STEPS: Final = 120
_MINUTES: Final = (1, 2, 5, 10, 15, 30)
_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 168, 720, 8_760)
_STEPS_S: Final = (*(60 * each for each in _MINUTES), *(3_600 * each for each in _HOURS))
_WIDTH, _HEIGHT = 640, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 10, 22
_PLOT_W, _PLOT_H = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

_STYLE: Final = """
:root { color-scheme: light dark; --ink: light-dark(#16202b, #e8ecf1); --soft: light-dark(#5c6875, #9aa6b2);
  --line: light-dark(#e2e6eb, #2d353e); --paper: light-dark(#f6f7f9, #12161b); --card: light-dark(#fff, #1a2027);
  --bar: light-dark(#2a78d6, #5b9fe6); --bad: light-dark(#c9372c, #f0736a); --late: light-dark(#b45309, #e5a34d); }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 84rem; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: .95rem; margin: 0 0 .5rem; overflow-wrap: anywhere; } p { color: var(--soft); margin: .2rem 0 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.5rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .9rem 1rem; }
.tiles .card { display: flex; flex-direction: column; } .tiles span { color: var(--soft); font-size: .85rem; }
.tiles strong { font-size: 1.45rem; font-weight: 600; } .bad strong { color: var(--bad); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1rem; }
.scroll { overflow-x: auto; padding: 0 .25rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 500; font-size: .85rem; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; } td { overflow-wrap: anywhere; }
td:not(.number) { min-width: 9rem; }
details { margin-top: .75rem; } summary { cursor: pointer; color: var(--soft); padding: .25rem 0; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); } .bar { fill: var(--bar); } .bar.failed { fill: var(--bad); }
.line { fill: none; stroke-width: 2; stroke: var(--bar); } .line.p95 { stroke: var(--late); }
.dot { fill: var(--bar); } .dot.p95 { fill: var(--late); }
.key { display: flex; gap: 1rem; color: var(--soft); font-size: .8rem; margin: .5rem 0 .15rem; }
.key i { display: inline-block; width: .7rem; height: .7rem; border-radius: .15rem; margin-right: .35rem;
  background: var(--bar); } .key i.failed { background: var(--bad); } .key i.p95 { background: var(--late); }
"""
_FIGURES: Final = (
    ("Messages", "messages"), ("Failures", "failures"), ("Bytes", "bytes"), ("Median size", "median_size"),
    ("Largest", "largest"), ("Latency p50, s", "latency_p50"), ("p95", "latency_p95"), ("p99", "latency_p99"),
)  # fmt: skip
_QUEUES: Final = (("Queue", "queue"), *_FIGURES)
_TRAFFIC: Final = (("Queue", "queue"), ("Time", "time"), *_FIGURES)
_FAILURES: Final = (("Queue", "queue"), ("Time", "time"), ("Reason", "reason"), ("Messages", "messages"))
_REASONS: Final = (("Queue", "queue"), ("Reason", "reason"), ("Messages", "messages"))
_LETTERS: Final = (
    ("Sent to", "destination_queue"), ("Label", "label"), ("Reason", "reason"), ("Messages", "messages"),
)  # fmt: skip
_NONE: Final = '<p class="none">None.</p>'
_NUMBERS: Final = {key for _, key in _FIGURES}


def page(found: Report, *, archive: str = "", where: str = "") -> str:
    """Write the report as a page, with a note of its ``archive`` and of the condition ``where`` that chose its
    messages. Failures come first, and queues with failures before the others."""
    times = [row["time"] for row in found.traffic if row["time"] is not None]
    axis = _Axis(times, found.step_s) if times else None  # one axis for all, so that charts can be compared
    queues = sorted(found.queues, key=lambda row: -row["failures"])  # those without failures by traffic
    charts = [_charts(row["queue"], found.traffic, axis) for row in queues[:MOST_CHARTS]]
    more = len(queues) - MOST_CHARTS
    left_out = f"<p>{more:,} quieter queues are in the tables.</p>" if more > 0 else ""
    grid = _grid_of(charts[:MOST_OPEN]) if charts else _NONE
    if charts[MOST_OPEN:]:
        folded = f"<summary>{len(charts) - MOST_OPEN:,} more queues</summary>{_grid_of(charts[MOST_OPEN:])}"
        grid += f"<details>{folded}{left_out}</details>"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Queues</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>
<h1>Queues</h1>{_about(found, archive, where)}
{_tiles(found)}
<h2>Failures</h2>{_table("failures", _summed(found.failures), _REASONS)}
{_by_time("failures-by-time", found.failures, _FAILURES)}
<h2>Why messages are dead letters</h2>{_table("dead-reasons", _summed(found.dead_reasons), _REASONS)}
{_by_time("dead-reasons-by-time", found.dead_reasons, _FAILURES)}
<h2>Most frequent dead letters</h2>{_table("dead-letters", found.dead_letters, _LETTERS)}
<h2>Traffic and latency</h2>{_table("queues", queues, _QUEUES)}
{_by_time("traffic", found.traffic, _TRAFFIC)}
<h2>By queue and time</h2>{grid}
</body></html>
"""


def _grid_of(charts: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(charts)}</div>'


def _about(found: Report, archive: str, where: str) -> str:
    """Describe which messages the report covers."""
    of = f"Messages of <b>{html.escape(archive)}</b>. " if archive else ""
    chosen = "" if where in ("", "true") else f"Only where <code>{html.escape(where)}</code>. "
    return f"<p>{of}{chosen}{_period(found)} Made {found.made:%Y-%m-%d %H:%M} UTC; all times are UTC.</p>"


def _period(found: Report) -> str:
    times = [row["time"] for row in found.traffic if row["time"] is not None]
    if not times:
        return ""
    end = max(times) + timedelta(seconds=found.step_s)
    return f"{min(times):%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}."


def _tiles(found: Report) -> str:
    failures = sum(row["failures"] for row in found.queues)
    dead = sum(row["messages"] for row in found.queues if is_dead_letter_queue(row["queue"]))
    tiles = (
        ("Messages", f"{sum(row['messages'] for row in found.queues):,}", False),
        ("Volume", _volume(sum(row["bytes"] or 0 for row in found.queues)), False),
        ("Queues", f"{len(found.queues):,}", False),
        ("Failures", f"{failures:,}", failures > 0),
        ("Dead letters", f"{dead:,}", dead > 0),
    )
    cards = "".join(
        f'<div class="card{" bad" if bad else ""}"><span>{name}</span><strong>{value}</strong></div>'
        for name, value, bad in tiles
    )
    return f'<div class="tiles">{cards}</div>'


def _volume(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1_000 or unit == "TB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1_000
    raise AssertionError


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(name: str, rows: Sequence[dict[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return _NONE
    head = "".join(f"<th{_class(key)}>{html.escape(title)}</th>" for title, key in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_class(key)}>{html.escape(_shown(row[key]))}</td>" for _, key in columns)
        + "</tr>"
        for row in rows
    )
    table = f'<table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="card scroll">{table}</div>'


def _by_time(name: str, rows: Sequence[dict[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    """Make a table to unfold, with only the latest times if there are too many for a page."""
    if not rows:
        return ""
    shown = (
        sorted(rows, key=lambda row: row["time"] or datetime.min)[-MOST_ROWS:]
        if len(rows) > MOST_ROWS
        else rows
    )
    note = (
        f"<p>The latest {MOST_ROWS:,} of {len(rows):,}; without --page all are printed.</p>"
        if shown != rows
        else ""
    )
    return f"<details><summary>By time</summary>{note}{_table(name, shown, columns)}</details>"


def _summed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum up by queue and reason, most frequent first, whatever the time."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[row["queue"], row["reason"]] += row["messages"]
    return [{"queue": queue, "reason": why, "messages": count} for (queue, why), count in sums.most_common()]


def _class(key: str) -> str:
    return ' class="number"' if key in _NUMBERS else ""


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- charts -----------------------------------------------------------------------------------------------------------


class _Axis:
    """Time from left to right, in a limited number of steps."""

    def __init__(self, times: Sequence[datetime], least_s: int) -> None:
        first, last = min(times), max(times)
        span_s = (last - first) // timedelta(seconds=1) + least_s
        steps = [step for step in _STEPS_S if step >= least_s]
        self.step_s = next((step for step in steps if -(-span_s // step) <= MOST_STEPS), steps[-1])
        self.count = -(-span_s // self.step_s)
        self.first = first
        self.width = _PLOT_W / self.count

    @property
    def every(self) -> str:
        """The length of a step in words."""
        number, unit = (
            (self.step_s // 60, "minute") if self.step_s < 3_600 else (self.step_s // 3_600, "hour")
        )
        return unit if number == 1 else f"{number} {unit}s"

    def number(self, time: datetime) -> int:
        return (time - self.first) // timedelta(seconds=self.step_s)

    def x(self, number: float) -> float:
        return _LEFT + number * self.width

    def time(self, number: int) -> datetime:
        return self.first + timedelta(seconds=self.step_s) * number

    def labels(self) -> str:
        """Draw a few times under the axis, none beyond its end."""
        apart = max(1, -(-self.count // 5))
        form = "%m-%d %H:%M" if self.step_s < 24 * 3_600 else "%Y-%m-%d"
        return "".join(
            f'<text x="{self.x(number):.1f}" y="{_HEIGHT - 6}">{self.time(number):{form}}</text>'
            for number in range(0, self.count, apart)
            if self.x(number) < _WIDTH - 80 or number == 0
        )


def _charts(queue: str, traffic: Sequence[dict[str, Any]], axis: _Axis | None) -> str:
    rows = [row for row in traffic if row["queue"] == queue and row["time"] is not None]
    title = f"<h3>{html.escape(queue)}</h3>"
    if axis is None or not rows:
        return f'<div class="card">{title}<p>No times are known.</p></div>'
    bars = f'<div class="key"><span><i></i>Messages per {axis.every}</span>'
    if any(row["failures"] for row in rows):
        bars += '<span><i class="failed"></i>Failures among them</span>'
    lines = ""
    if any(row["latency_p50"] is not None for row in rows):
        lines = '<div class="key"><span><i></i>Latency p50, s</span><span><i class="p95"></i>p95</span></div>'
        lines += _lines(rows, axis)
    return f'<div class="card">{title}{bars}</div>{_bars(rows, axis)}{lines}</div>'


def _bars(rows: Sequence[dict[str, Any]], axis: _Axis) -> str:
    """Draw the messages of each step, with failures in front."""
    sums = [[0, 0] for _ in range(axis.count)]
    for row in rows:
        bar = sums[axis.number(row["time"])]
        bar[0] += row["messages"]
        bar[1] += row["failures"]
    top = _nice(max(bar[0] for bar in sums))
    gap = min(2.0, axis.width / 5)
    width = min(axis.width - gap, 24.0)  # a single bar should not fill the chart
    marks = ""
    for number, values in enumerate(sums):
        said = f"{axis.time(number):%Y-%m-%d %H:%M}: {values[0]:,} messages"
        said += f", {values[1]:,} failures" if values[1] else ""
        for value, kind in zip(values, ("bar", "bar failed"), strict=True):
            height = _PLOT_H * value / top
            if value:
                marks += (
                    f'<rect class="{kind}" x="{axis.x(number) + gap / 2:.1f}" y="{_TOP + _PLOT_H - height:.1f}" '
                    f'width="{width:.1f}" height="{max(height, 1):.1f}" rx="{min(2, width / 4):.1f}">'
                    f"<title>{said}</title></rect>"
                )
    return _svg("messages", _grid(top) + marks + axis.labels())


def _lines(rows: Sequence[dict[str, Any]], axis: _Axis) -> str:
    """Draw latencies; a longer step shows its highest."""
    found: dict[str, dict[int, int]] = {"latency_p95": {}, "latency_p50": {}}
    for row in rows:
        for key, values in found.items():
            if row[key] is not None:
                number = axis.number(row["time"])
                values[number] = max(values.get(number, 0), row[key])
    top = _nice(max(max(values.values()) for values in found.values()))
    marks = ""
    for key, values in found.items():
        short = key.removeprefix("latency_")
        points = [
            (axis.x(number) + min(axis.width, 24) / 2, _TOP + _PLOT_H * (1 - value / top), number, value)
            for number, value in sorted(values.items())
        ]
        for run in _runs(points):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in run)
            marks += f'<polyline class="line {short}" points="{path}"/>'
            radius = 2.5 if len(run) == 1 or axis.count <= 48 else 1.6  # a single dot must be visible
            marks += "".join(
                f'<circle class="dot {short}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
                f"<title>{axis.time(number):%Y-%m-%d %H:%M}: {short} {value:,} s</title></circle>"
                for x, y, number, value in run
            )
    return _svg("latency", _grid(top) + marks + axis.labels())


_Point = tuple[float, float, int, int]


def _runs(points: Iterable[_Point]) -> list[list[_Point]]:
    """Divide points into runs of consecutive steps: no line is drawn over times without messages."""
    runs: list[list[_Point]] = []
    for point in points:
        if runs and point[2] == runs[-1][-1][2] + 1:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def _nice(highest: int) -> int:
    """Return the end of an axis: the next round number whose half is round too."""
    power = 1
    while highest > 10 * power:
        power *= 10
    steps = (1, 2, 4, 6, 8, 10) if power == 1 else (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
    return int(next(step * power for step in steps if step * power >= highest))


def _grid(top: int) -> str:
    marks = ""
    for value in sorted({0, top} if top % 2 else {0, top // 2, top}):
        y = _TOP + _PLOT_H * (1 - value / top)
        marks += f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        marks += f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>'
    return marks


def _short(value: int) -> str:
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return str(value)


def _svg(kind: str, marks: str) -> str:
    return f'<svg class="{kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{marks}</svg>'
