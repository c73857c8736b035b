"""Where a message that failed belongs."""

from __future__ import annotations

import json

import httpx
import pytest

import msmq
from msmq.web.failures import Group, home_of, key_of
from tests.web.support import Live

ROW = {
    "dead_letter_reason": "r",
    "destination": "d",
    "exception": "e",
    "size": 5,
    "arrived_time": "2026",
    "label": "l",
}


def test_a_group_counts_what_is_added_to_it() -> None:
    group = Group("q", "r", "d", "e", "NORMAL")
    for time in ("2026-02", "2026-01", "2026-03", "2026-03"):
        group.add(ROW | {"arrived_time": time, "label": time})
    assert (group.messages, group.bytes, group.oldest, group.newest) == (4, 20, "2026-01", "2026-03")
    assert group.labels == ["2026-02", "2026-01", "2026-03"]
    assert key_of(ROW) == ("r", "d", "e")


@pytest.mark.parametrize(
    ("headers", "home"),
    [
        ({"NServiceBus.FailedQ": "orders@HOST"}, ".\\private$\\orders"),
        ({"NServiceBus.FailedQ": "orders@far.example"}, "DIRECT=OS:far.example\\private$\\orders"),
        ({"rbs2-source-queue": "orders@HOST"}, ".\\private$\\orders"),
        ({"NServiceBus.FailedQ": "..\\evil@HOST"}, "as sent"),
        ({}, "as sent"),
    ],
)
def test_a_failed_message_goes_home(headers: dict[str, str], home: str) -> None:
    class Failed:
        extension = json.dumps(headers).encode()
        destination = "as sent"

    assert home_of(Failed(), "host") == home  # type: ignore[arg-type]


def test_error_queues_are_grouped_by_exception(live: Live, admin: httpx.Client) -> None:
    headers = {
        "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
        "NServiceBus.FailedQ": "x@HOST",
    }
    live.queue(
        "error", *[msmq.Message("x", extension=json.dumps(headers).encode()) for _ in range(3)], "plain"
    )
    found = admin.get("/api/failures", params={"queue": ".\\private$\\error"}).json()
    assert {(each["exception"], each["messages"]) for each in found["items"]} == {
        ("System.TimeoutException", "3"),
        ("", "1"),
    }
    assert found["whole"] is True
