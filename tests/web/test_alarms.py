"""Alarms: they begin, they are told, they end."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.info import AlarmRule as Rule
from msmq.errors import AccessDeniedError
from msmq.web import alarms as module
from msmq.web.alarms import Alarms, rule_of
from msmq.web.application import ProblemError
from tests.web.support import Live


class Hook:
    """Somebody who is told."""

    def __init__(self) -> None:
        heard: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *given: object) -> None:
                """Say nothing."""

        self.heard = heard
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_an_alarm_is_told_once_when_it_begins_and_once_when_it_ends(live: Live) -> None:
    hook = Hook()
    live.queue("alarming", "x", "x", "x")
    rules = [
        Rule("deep", "depth", 2, "*\\alarming", webhooks=(hook.url,)),
        Rule("unread", "no_reader", 0, "*\\alarming", for_s=3600, webhooks=(hook.url,)),
        Rule("old", "age", -1, "*\\alarming", webhooks=("http://127.0.0.1:1/",)),
        Rule("disk", "store_bytes", 1, webhooks=(hook.url,)),
        Rule("room", "disk_free", 1e30, webhooks=(hook.url,)),
        Rule("enough room", "disk_free", 1, webhooks=(hook.url,)),
        Rule("never", "depth", 10, "*\\alarming", webhooks=(hook.url,)),
    ]

    async def look(mq: Any) -> Alarms:
        async def connect(host: str) -> Any:
            return mq

        watching = Alarms(connect, ("HOST",))
        watching.go_by(rules)
        await watching.look("HOST")
        await watching.look("HOST")
        assert {key[0] for key in watching.on} == {"deep", "unread", "old", "disk", "room"}
        await mq.queue(".\\private$\\alarming").purge()
        await watching.look("HOST")
        return watching

    watching = live.do(look)
    hook.close()
    told = [(each["rule"], each["state"]) for each in hook.heard]
    assert sorted(told[:3]) == [("deep", "on"), ("disk", "on"), ("room", "on")]
    assert told[3:] == [("deep", "off")]
    deep = next(each for each in hook.heard if each["rule"] == "deep")
    assert deep["value"] == 3
    assert deep["thing"].endswith("alarming")
    assert {key[0] for key in watching.on} == {"disk", "room"}


def test_a_host_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(host: str) -> Any:
        raise AccessDeniedError("gone")

    mails: list[Any] = []

    class Server:
        def __init__(self, *given: object, **more: object) -> None:
            assert given[0] == "mail.example"

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *given: object) -> None:
            """Nothing to do."""

        def send_message(self, message: Any) -> None:
            mails.append(message)

    monkeypatch.setattr(module.smtplib, "SMTP", Server)
    watching = Alarms(connect, ("HOST",), "mail.example:25", "msmq@example")
    watching.go_by([Rule("away", "down", mail_to=("me@example",)), Rule("deep", "depth")])
    asyncio.run(watching.look("HOST"))
    assert [alarm.rule for alarm in watching.on.values()] == ["away"]
    (mail,) = mails
    assert (mail["To"], mail["From"]) == ("me@example", "msmq@example")
    assert "away on HOST" in mail["Subject"]


def test_a_queue_manager_that_breaks_off_is_down_and_is_watched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(host: str) -> Any:
        return None

    async def statistics(mq: Any) -> Any:
        raise ProblemError(503, "The queue manager does not answer")

    monkeypatch.setattr(module, "statistics", statistics)
    watching = Alarms(connect, ("HOST",))
    watching.go_by([Rule("away", "down")])
    asyncio.run(watching.look("HOST"))
    assert [alarm.thing for alarm in watching.on.values()] == ["The queue manager does not answer"]


def test_ages_are_the_same_in_summer_and_winter(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*given: object, **more: object) -> dict[str, Any]:
        return {"items": [{"arrived_time": "2026-07-01T12:00:00Z"}]}

    noon_s = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()
    monkeypatch.setattr(module, "find", found)
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        watching = Alarms(lambda host: None, ("HOST",))
        watching.go_by([Rule("old", "age", 60)])
        given = pb.Statistics(queues=[pb.QueueStatistics(path="a", messages=1)])
        with monkeypatch.context() as patched:
            patched.setattr(module.time, "time", lambda: noon_s + 90)
            ages = asyncio.run(watching._ages(None, given))  # type: ignore[arg-type]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert ages == {"a": 90.0}


def test_who_is_slow_to_be_told_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)

    def post(url: str, news: dict[str, Any]) -> None:
        together.wait(60)  # each waits for the others: told one after another, they would wait for ever

    async def connect(host: str) -> Any:
        raise AccessDeniedError("gone")

    monkeypatch.setattr(module, "_post", post)
    watching = Alarms(connect, ("HOST",))
    watching.go_by(
        [Rule("one", "down", webhooks=("http://a", "http://b")), Rule("two", "down", webhooks=("http://c",))]
    )
    asyncio.run(watching.look("HOST"))
    assert not together.broken


def test_rules_from_json() -> None:
    assert rule_of({"name": "a", "kind": "depth", "webhooks": ["http://x"]}) == Rule(
        "a", "depth", webhooks=("http://x",)
    )
