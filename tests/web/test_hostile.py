"""Strangers fill every field they can with scripts; nothing of it runs, and nothing leaks. And whatever schemathesis
makes of the document, the interface answers as it says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings
from playwright.sync_api import Browser, expect

import msmq
from msmq.client.info import AlarmRule
from tests.web.support import Live, living
from tests.web.test_console import _logged_in, browser

__all__ = ["browser"]
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>{{7*7}}${7*7}javascript:alert(4)'
EXAMPLES = int(os.environ.get("MSMQ_WEB_EXAMPLES", "3"))


def test_scripts_in_every_field_stay_text(browser: Browser, live: Live) -> None:
    extension = json.dumps({"NServiceBus.ExceptionInfo.ExceptionType": EVIL, "x" + EVIL: EVIL}).encode()
    name = "<img/src=x/onerror=alert(5)>"
    live.queue(name, label=EVIL[:100])
    messages = [
        msmq.Message(EVIL, label=EVIL[:200], extension=extension),
        msmq.Message({EVIL: [EVIL]}, label="json" + EVIL[:100], extension=EVIL.encode()),
        msmq.Message(f"<a b='{'x'}'><![CDATA[{EVIL}]]></a>", label="xml" + EVIL[:100]),
    ]
    live.queue("evil", *messages)
    live.do(lambda mq: mq.create_token(EVIL[:60], "S-1-5-21-7-7-7-66"))
    live.do(lambda mq: mq.set_alarms([AlarmRule(EVIL[:90], "depth", 0, f"*{EVIL[:60]}*")]))
    live.do(lambda mq: mq.queue(f"DIRECT=OS:evil.invalid\\private$\\{name}").send("x", label=EVIL[:200]))
    context, wrong = _logged_in(browser, live, "S-1-5-32-544")
    page = context.pages[0]
    page.goto("/messages?queue=HOST%5Cprivate%24%5Cevil")
    grid = page.get_by_role("grid", name="Messages")
    expect(grid.get_by_role("row")).to_have_count(4)
    for label in (EVIL[:200], "json" + EVIL[:100], "xml" + EVIL[:100]):
        grid.get_by_text(label, exact=True).first.click()
        panel = page.get_by_label("Message", exact=True)
        expect(panel.get_by_role("heading", name=label)).to_be_visible()
        expect(panel.get_by_test_id("body")).to_be_visible()
        for tab in panel.get_by_role("tab").all():
            tab.click()
        page.keyboard.press("Escape")
    pages = (
        "/queues",
        "/failures",
        "/network",
        "/activity",
        "/alarms",
        "/access",
        f"/messages?queue={EVIL}",
        "/",
    )
    for path in pages:
        page.goto(path)
        expect(page.locator("main h1")).to_be_visible()
        if path in ("/alarms", "/access"):
            expect(page.get_by_text("onerror=alert").first).to_be_visible()
    page.goto("/failures")
    page.get_by_label("Error queue or journal instead of dead letters").fill(".\\private$\\evil")
    expect(page.get_by_text(EVIL[:30]).first).to_be_visible()
    assert (
        page.evaluate(
            "document.querySelectorAll('main img, main svg, main script, aside img, aside script').length"
        )
        == 0
    )
    context.close()
    live.do(lambda mq: mq.remove_token(EVIL[:60]))
    live.do(lambda mq: mq.set_alarms([]))
    assert wrong == []


def test_a_stranger_learns_nothing_from_refusals(live: Live) -> None:
    live.queue("secret-queue", "secret body")
    with live.client(None) as stranger:
        for path in (
            "/api/queues/.%5Cprivate$%5Csecret-queue",
            "/api/queues/.%5Cprivate$%5Cmissing",
            "/api/nothing",
            "/metrics",
        ):
            answer = stranger.get(path)
            assert answer.status_code in (401, 404)
            assert "secret" not in answer.text
            assert "Traceback" not in answer.text
        traced = stranger.request("TRACE", "/api/queues", headers={"authorization": "Bearer x"})
        assert traced.status_code == 405
        for cookie in ("msmq_session=" + "x" * 5000, "msmq_session=\\x00", "=;=;"):
            assert stranger.get("/api/me", headers={"cookie": cookie}).status_code == 401


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A host of which nobody else wants anything: it is left with the quotas, rights and alarms that chance gave it."""
    with living(tmp_path_factory.mktemp("victim")) as running:
        yield running


def test_schemathesis_finds_nothing(victim: Live) -> None:
    import schemathesis  # which takes long, in each process that only collects this

    live = victim
    with live.client() as admin:
        schema = schemathesis.openapi.from_dict(admin.get("/api/openapi.json").json())
    schema.config.update(base_url=live.url) if hasattr(schema.config, "update") else None
    headers = {"Authorization": f"Bearer {live.token()}"}
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in ("/api/events", "/api/logout", "/api/login") or operation.path.endswith(
            ("/tail", "/export")
        ):
            continue  # those that stream have no end, and the others are about sessions

        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def attempt(case: schemathesis.Case) -> None:
            nonlocal tried
            tried += 1
            answer = case.call(base_url=live.url, headers=headers)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            case.validate_response(answer, headers=headers, checks=_checks())

        strategy = operation.as_strategy()
        from hypothesis import given

        given(case=strategy)(attempt)()
    assert tried > 30


def _checks() -> list[object]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    return [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]


@pytest.mark.parametrize("name", ["content-security-policy", "x-content-type-options"])
def test_downloads_are_never_documents(live: Live, admin: httpx.Client, name: str) -> None:
    queue = live.queue("downloaded", msmq.Message(f"<html><script>{EVIL}</script></html>"))
    row = admin.get(f"/api/queues/{queue}/messages").json()["items"][0]
    for form in ("body", "packet"):
        answer = admin.get(f"/api/queues/{queue}/messages/{row['lookup_id']}/{form}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers[name]
