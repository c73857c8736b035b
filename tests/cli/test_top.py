"""``msmq top`` against a live daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msmq.cli.top import rates
from msmq.client import QueueStatistics, Statistics
from tests.cli.support import Live


def test_once(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x", "--count", "7")
    text = live.good("top", "--once", "--interval", "0.1")
    assert text.startswith("HOST  ")
    assert queue[2:] in text
    assert "in/s" in text


def test_the_shape_of_json(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x", "--count", "7")
    live.good("send", "DIRECT=TCP:127.0.0.96\\private$\\far", "--body", "x")
    shown = live.object("top", "--once", "--interval", "0.1")
    assert set(shown) == {
        "computer_name", "time", "started_time", "messages", "bytes", "express_bytes", "arrived_total",
        "removed_total", "transactions", "sessions", "queues", "outgoing", "arrived_per_s", "removed_per_s",
    }  # fmt: skip
    (mine,) = [entry for entry in shown["queues"] if entry["path"].lower() == f"host{queue[1:]}".lower()]
    assert set(mine) == {
        "path", "messages", "bytes", "journal_messages", "arrived_total", "removed_total", "waiting_readers",
        "arrived_per_s", "removed_per_s",
    }  # fmt: skip
    assert mine["messages"] == 7
    assert shown["outgoing"][0].keys() >= {"format_name", "state", "last_error_words"}


def test_it_goes_on_until_it_is_stopped(live: Live) -> None:
    command = [sys.executable, "-m", "msmq", "--server", live.socket, "top", "--json", "--interval", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    times = [json.loads(process.stdout.readline())["time"] for _ in range(3)]
    process.terminate()
    process.communicate(timeout=120)
    assert times == sorted(set(times))


def test_rates() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    queue = QueueStatistics("HOST\\private$\\q", 5, 50, 0, 10, 5, 0)
    before = Statistics(start, start, 5, 50, 0, 100, 50, 0, (), (queue,), ())
    now = replace(
        before,
        time=start + timedelta(seconds=2),
        arrived_total=110,
        removed_total=60,
        queues=(
            replace(queue, arrived_total=30, removed_total=9),
            replace(queue, path="new", arrived_total=4),
        ),
    )
    assert rates(before, now) == {"": (5.0, 5.0), queue.path: (10.0, 2.0), "new": (2.0, 2.5)}
