"""Hosts over HTTP: who one is, figures, events."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.web.support import LOOKER, Live


def test_who_is_logged_in_and_what_the_host_is(admin: httpx.Client) -> None:
    assert admin.get("/api/me").json() == {
        "sid": "S-1-5-32-544", "name": "BUILTIN_ADMINISTRATORS", "role": "administer", "hosts": ["HOST"],
    }  # fmt: skip
    assert admin.get("/api/manager").json()["computer_name"] == "HOST"
    (host,) = admin.get("/api/hosts").json()["items"]
    assert (host["host"], host["up"], host["online"]) == ("HOST", True, True)
    assert admin.get("/api/health").json() == {"status": "up"}


def test_the_network_and_quotas_can_be_changed(admin: httpx.Client) -> None:
    assert (
        admin.patch("/api/manager", json={"online": False, "quota_kb": 2_000_000}).json()["online"] is False
    )
    after = admin.patch("/api/manager", json={"online": True, "quota_kb": None}).json()
    assert (after["online"], after["quota_kb"]) == (True, None)


def test_the_overview_tells_of_full_queues_and_old_messages(live: Live, admin: httpx.Client) -> None:
    live.queue("overseen", *["x"] * 3)
    shown = admin.get("/api/overview").json()
    row = next(each for each in shown["statistics"]["queues"] if each["path"].endswith("overseen"))
    assert row["messages"] == "3"
    assert shown["oldest"][row["path"]].startswith("20")
    assert int(shown["statistics"]["memory_bytes"]) > 1 << 20
    assert int(shown["statistics"]["disk_free_bytes"]) > 0


def test_the_overview_tells_what_changed_to_those_who_administer(live: Live, admin: httpx.Client) -> None:
    admin.post("/api/queues", json={"path": r".\private$\just-made"})
    newest = admin.get("/api/overview").json()["changed"][0]
    assert (newest["what"], newest["thing"], newest["outcome"]) == (
        "create_queue",
        r".\private$\just-made",
        "done",
    )
    with live.client(LOOKER) as looker:
        assert looker.get("/api/overview").json()["changed"] == []


def test_events_tell_of_the_fullest_queues_and_of_those_that_grow(live: Live, admin: httpx.Client) -> None:
    live.queue("brimming", *["x"] * 50)
    live.queue("growing", "x")
    told: list[dict[str, Any]] = []
    with admin.stream("GET", "/api/events?interval_ms=500&queues=1") as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                told.append(json.loads(line.removeprefix("data: ")))
                if len(told) == 1:
                    live.queue("growing", "x", "x")
                grown = {each["path"].rpartition("\\")[2]: int(each["grown"]) for each in told[-1]["queues"]}
                if grown.get("growing") == 2:
                    break
            assert len(told) < 100
    assert all(len(each["queues"]) <= 2 for each in told)
    fullest = max(int(each["messages"]) for each in admin.get("/api/statistics").json()["queues"])
    assert max(int(each["messages"]) for each in told[-1]["queues"]) == fullest


def test_figures_come_as_events(admin: httpx.Client) -> None:
    with admin.stream("GET", "/api/events?interval_ms=500") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        shown = [
            line for line, _ in zip(answer.iter_lines(), range(6), strict=False) if line.startswith("data:")
        ]
    first, second = (json.loads(each.removeprefix("data: ")) for each in shown)
    assert int(second["time_ms"]) > int(first["time_ms"])
