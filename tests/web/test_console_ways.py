"""The console in a real browser where it looks at many hosts, one of which is away: login by an issuer, alarms."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.support import free_port
from tests.web.issuer import Issuer, issuing
from tests.web.support import ADMINISTRATORS, Live
from tests.web.test_console import PATIENCE_MS, browser
from tests.web.test_console_keys import press, reach
from tests.web.test_login_calls import oidc

__all__ = ["browser"]
TOKEN = "a-token-that-all-of-them-know"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture(scope="module")
def many(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Three queue managers: the one with the console, one that runs, and one that is killed as soon as it has run."""
    directory = tmp_path_factory.mktemp("many")
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    tokens = f'[api]\ntokens = {{"{digest}" = "{ADMINISTRATORS}"}}\n'
    others = {name: Live(directory / name, name, tokens) for name in ("STORE", "AWAY")}
    for other in others.values():
        other.socket = f"127.0.0.1:{free_port()}"
    hosts = ", ".join(f'{name} = "{other.socket}"' for name, other in others.items())
    first = Live(directory / "FIRST", "FIRST")
    first.directory.mkdir()
    first.config = oidc(issuer, first.directory / "secret") + f"hosts = {{{hosts}}}\n" + tokens
    running = []
    try:
        for live in (*others.values(), first):
            live.start()
            running.append(live)
        others["AWAY"].stop(kill=True)
        running.remove(others["AWAY"])
        yield first
    finally:
        for live in running:
            live.stop()


@pytest.fixture
def page(browser: Browser, many: Live, issuer: Issuer) -> Iterator[Page]:
    """Somebody whom the issuer has let in."""
    context = browser.new_context(base_url=many.url)
    context.set_default_timeout(PATIENCE_MS)
    made = context.new_page()
    made.goto("/")
    made.get_by_role("link", name="Log in with your organization").click()
    made.get_by_label("Name").fill("alice")
    made.get_by_role("button", name="Sign in").click()
    made.get_by_role("link", name="Queues").wait_for()
    yield made
    context.close()


def test_somebody_logs_in_by_the_issuer_and_out(page: Page, many: Live) -> None:
    assert page.url.startswith(many.url)
    expect(page.get_by_text("alice")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in with your organization")).to_be_visible()


def test_the_issuer_may_know_somebody_who_has_no_role_here(browser: Browser, many: Live) -> None:
    with browser.new_context(base_url=many.url) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_role("link", name="Log in with your organization").click()
        page.get_by_label("Name").fill("eve")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("no role here")


def test_an_alarm_is_made_changed_and_removed(page: Page, many: Live) -> None:
    page.get_by_role("link", name="Alarms").click()
    page.get_by_role("button", name="New alarm").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("orders pile up")
    dialog.get_by_label("Queues").fill("*orders*")
    dialog.get_by_label("Above").fill("5")
    dialog.get_by_label("Webhooks").fill("nonsense")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Webhooks").fill("http://127.0.0.1:9/hook")
    dialog.get_by_label("E-mail").fill("ops@example.com\nboss@example.com")
    dialog.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name=re.compile("orders pile up"))
    expect(row).to_contain_text("5 messages")
    with httpx.Client(
        base_url=many.url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60
    ) as client:
        (rule,) = client.get("/api/alarms").json()["rules"]
        assert rule == {
            "name": "orders pile up", "kind": "depth", "threshold": 5, "queue": "*orders*", "for_s": 0,
            "webhooks": ["http://127.0.0.1:9/hook"], "mail_to": ["ops@example.com", "boss@example.com"],
        }  # fmt: skip
        row.get_by_role("button", name="Change").click()
        dialog.get_by_label("What").select_option("down")
        expect(dialog.get_by_label("Above")).to_have_count(0)
        dialog.get_by_role("button", name="Save").click()
        expect(page.get_by_role("row", name=re.compile("AWAY"))).to_be_visible()
        row = page.get_by_role("row", name=re.compile("Queue manager down"))
        row.get_by_role("button", name="Remove").click()
        dialog.get_by_role("button", name="Remove").click()
        expect(page.get_by_text("Nobody wants to be told of anything yet.")).to_be_visible()
        assert client.get("/api/alarms").json() == {"rules": [], "on": []}


def test_one_console_looks_at_many_hosts_with_keys_only(browser: Browser, many: Live) -> None:
    with browser.new_context(base_url=many.url) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Network").click()
        for host, state in (("FIRST", "online"), ("STORE", "online"), ("AWAY", "down")):
            expect(page.get_by_role("row", name=re.compile(f"^{host}"))).to_contain_text(state)
        reach(page, page.get_by_role("combobox", name="Host"))
        page.keyboard.type("AWAY")
        expect(page.get_by_role("alert").first).to_contain_text("No queue manager answers")
        reach(page, page.get_by_role("combobox", name="Host"))
        page.keyboard.type("STORE")
        expect(page.get_by_role("heading", name="STORE")).to_be_visible()
        press(page, page.get_by_role("link", name="Queues"))
        press(page, page.get_by_role("button", name="New queue"))
        page.keyboard.press("End")
        page.keyboard.type("over-there")
        page.keyboard.press("Enter")
        expect(page.get_by_text("over-there").first).to_be_visible()
    with httpx.Client(
        base_url=many.url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=60
    ) as client:
        there = client.get("/api/queues", params={"host": "STORE", "search": "over-there"}).json()
        here = client.get("/api/queues", params={"host": "FIRST", "search": "over-there"}).json()
        assert (there["total"], here["total"]) == (1, 0)
        assert client.get("/api/queues", params={"host": "AWAY"}).status_code == 503
        assert client.get("/api/queues", params={"host": "NOWHERE"}).status_code == 404
