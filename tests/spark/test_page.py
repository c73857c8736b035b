"""The page of a report, looked at in a real browser: its figures are those of the report, and it is safe to open."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msmq.spark.page import MOST_CHARTS, MOST_OPEN, MOST_ROWS, MOST_STEPS, _nice, _short, _volume, page
from msmq.spark.report import Report
from tests.spark.browser import Read, dom

NOON = datetime(2026, 3, 1, 12)
MADE = datetime(2026, 3, 2, tzinfo=UTC)
DEAD = ".\\deadletter$"
EVIL = "<script>document.title='evil'</script><b>late</b>"
NONE = Report([], [], [], [], [], MADE)


def figures(queue: str, messages: int, *, failures: int = 0, latency: int | None = 3) -> dict[str, Any]:
    return {
        "queue": queue, "messages": messages, "failures": failures, "bytes": messages * 1_000, "median_size": 990,
        "largest": 1_010, "latency_p50": latency, "latency_p95": latency, "latency_p99": latency,
    }  # fmt: skip


def hour(queue: str, hours: int, messages: int, **others: Any) -> dict[str, Any]:
    return figures(queue, messages, **others) | {"time": NOON + timedelta(hours=hours)}


def why(queue: str, hours: int, messages: int) -> dict[str, Any]:
    return {
        "queue": queue, "time": NOON + timedelta(hours=hours), "class": 0x8002, "messages": messages,
        "reason": "too late",
    }  # fmt: skip


FOUND = Report(
    traffic=[
        hour("orders", 0, 1_200),
        hour("orders", 1, 34, failures=5),
        hour("orders", 9, 1, latency=None),
        hour(DEAD, 1, 2, failures=2),
    ],
    queues=[figures("orders", 1_235, failures=5), figures(DEAD, 2, failures=2)],
    failures=[why("orders", 0, 4), why("orders", 1, 5), why(DEAD, 1, 2)],
    dead_reasons=[why(DEAD, 1, 2)],
    dead_letters=[{"destination_queue": None, "label": EVIL, "reason": "too late", "messages": 2}],
    made=MADE,
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Read:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(FOUND), encoding="utf-8")
    return Read(dom(path))


def test_the_tables_have_the_figures(seen: Read) -> None:
    head, *rows = seen.tables["queues"]
    assert head[:3] == ["Queue", "Messages", "Failures"]
    assert rows == [
        ["orders", "1,235", "5", "1,235,000", "990", "1,010", "3", "3", "3"],
        [DEAD, "2", "2", "2,000", "990", "1,010", "3", "3", "3"],
    ]
    by_hour = [row[:4] for row in seen.tables["traffic"][1:]]
    assert by_hour == [
        ["orders", "2026-03-01 12:00", "1,200", "0"],
        ["orders", "2026-03-01 13:00", "34", "5"],
        ["orders", "2026-03-01 21:00", "1", "0"],
        [DEAD, "2026-03-01 13:00", "2", "2"],
    ]
    assert seen.tables["traffic"][3][-1] == "-", "no latency is known"
    assert seen.tables["failures"][1:] == [["orders", "too late", "9"], [DEAD, "too late", "2"]]
    assert seen.tables["failures-by-time"][1:3] == [
        ["orders", "2026-03-01 12:00", "too late", "4"],
        ["orders", "2026-03-01 13:00", "too late", "5"],
    ]
    assert seen.tables["dead-reasons"][1:] == [[DEAD, "too late", "2"]]
    assert seen.tables["dead-reasons-by-time"][1:] == [[DEAD, "2026-03-01 13:00", "too late", "2"]]
    assert seen.texts[:5] == ["1,237", "1.2 MB", "2", "7", "2"]


def test_the_charts_have_the_figures(seen: Read) -> None:
    assert sorted(set(seen.titles["messages"])) == [
        "2026-03-01 12:00: 1,200 messages",
        "2026-03-01 13:00: 2 messages, 2 failures",
        "2026-03-01 13:00: 34 messages, 5 failures",
        "2026-03-01 21:00: 1 messages",
    ]
    assert sorted(set(seen.titles["latency"])) == [
        f"2026-03-01 {clock}:00: {kind} 3 s" for clock in (12, 13) for kind in ("p50", "p95")
    ]
    assert seen.texts[5:] == ["orders", DEAD]


def test_what_strangers_wrote_is_text(seen: Read) -> None:
    assert seen.tables["dead-letters"][1] == ["-", EVIL, "too late", "2"]
    text = page(FOUND)
    assert "<script" not in text
    assert "http" not in text, "nothing is fetched"


def test_an_empty_report() -> None:
    assert page(NONE).count("None.") == 5


def test_long_times_are_drawn_in_steps() -> None:
    traffic = [hour("orders", hours, 10) for hours in range(24 * 30)]
    text = page(Report(traffic, [figures("orders", 7_200)], [], [], [], MADE))
    assert text.count("<rect") == 24 * 30 / 6 <= MOST_STEPS
    assert "Messages per 6 hours" in text
    assert "2026-03-01 12:00: 60 messages" in text


def test_many_queues() -> None:
    names = [f"queue {number}" for number in range(MOST_CHARTS + 3)]
    text = page(Report([hour(n, 0, 1) for n in names], [figures(n, 1) for n in names], [], [], [], MADE))
    assert text.count("<h3>") == MOST_CHARTS
    assert "3 quieter queues" in text
    shown, folded, hidden = text.partition(f"<summary>{MOST_CHARTS - MOST_OPEN} more queues</summary>")
    assert folded
    assert (shown.count("<h3>"), hidden.count("<h3>")) == (MOST_OPEN, MOST_CHARTS - MOST_OPEN)


def test_what_went_wrong_comes_first() -> None:
    text = page(FOUND)
    heads = ("Failures", "Why messages are dead letters", "Most frequent dead letters", "Traffic and latency")
    places = [text.index(f"<h2>{head}</h2>") for head in heads]
    assert places == sorted(places)
    busy = page(Report([], [figures("busy", 9), figures("failing", 2, failures=1)], [], [], [], MADE))
    assert busy.index("failing") < busy.index("busy")


def test_a_page_says_what_it_is_of() -> None:
    text = page(FOUND, archive="/data/<orders>", where="priority > 3 AND label <> ''")
    assert "Messages of <b>/data/&lt;orders&gt;</b>." in text
    assert "Only where <code>priority &gt; 3 AND label &lt;&gt; &#x27;&#x27;</code>." in text
    assert "2026-03-01 12:00 to 2026-03-01 22:00." in text
    assert "Only where" not in page(FOUND, archive="x", where="true")


def test_a_page_has_an_end() -> None:
    traffic = [hour("orders", hours, hours) for hours in reversed(range(MOST_ROWS + 9))]
    text = page(Report(traffic, [figures("orders", 1)], [], [], [], MADE))
    assert f"The latest {MOST_ROWS:,} of {MOST_ROWS + 9:,}" in text
    assert text.count("<tr>") == 2 + 1 + MOST_ROWS


def test_messages_without_times() -> None:
    text = page(Report([figures("q", 1) | {"time": None}], [figures("q", 1)], [], [], [], MADE))
    assert "No times are known." in text


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (1, 1), (3, 4), (10, 10), (11, 12), (101, 120), (1_300, 1_600), (9_999, 10_000)],
)
def test_the_end_of_an_axis(highest: int, top: int) -> None:
    assert _nice(highest) == top


def test_short_numbers() -> None:
    assert [_short(value) for value in (0, 999, 1_200, 5_000_000)] == ["0", "999", "1.2k", "5M"]
    assert [_volume(value) for value in (7, 1_500, 2e12, 3e15)] == [
        "7 bytes",
        "1.5 kB",
        "2.0 TB",
        "3,000.0 TB",
    ]


def test_an_afternoon_is_drawn_by_the_minute() -> None:
    def minute(number: int) -> dict[str, Any]:
        return figures("orders", 10) | {"time": NOON + timedelta(minutes=number)}

    queues = [figures("orders", 900)]
    text = page(Report([minute(number) for number in range(90)], queues, [], [], [], MADE, 60))
    assert "Messages per minute" in text
    assert "2026-03-01 12:00 to 2026-03-01 13:30." in text
    assert text.count('class="bar"') == 90
    text = page(Report([minute(number) for number in range(300)], queues, [], [], [], MADE, 60))
    assert "Messages per 5 minutes" in text
    assert text.count('class="bar"') == 60
