"""The console in a real browser: every workflow, with the mouse and with the keyboard, and what axe thinks of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

import msmq
from msmq.client.connection import Connection
from tests.web.support import LOOKER, Live

ROOT = Path(__file__).parents[2]
PATIENCE_MS = 60_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    subprocess.run([ROOT / "scripts" / "chromium.sh"], check=True, timeout=600)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        expect.set_options(timeout=PATIENCE_MS)
        yield made
        made.close()


def _logged_in(browser: Browser, live: Live, sid: str, **options: Any) -> tuple[BrowserContext, list[str]]:
    """Somebody who has logged in, and what went wrong in the browser or left for elsewhere."""
    context = browser.new_context(base_url=live.url, **options)
    context.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(f"a script ran: {dialog.message}"))
    page.on("request", lambda request: request.url.startswith(live.url) or wrong.append(request.url))
    page.goto("/")
    page.get_by_label("Token").fill(live.token(sid))
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Queues").wait_for()
    return context, wrong


@pytest.fixture
def page(browser: Browser, live: Live) -> Iterator[Page]:
    context, wrong = _logged_in(browser, live, "S-1-5-32-544")
    yield context.pages[0]
    context.close()
    assert wrong == []


def _confirm(page: Page, typed: str, button: str) -> None:
    dialog = page.get_by_role("dialog")
    confirm = dialog.get_by_role("button", name=button)
    if typed:
        expect(confirm).to_be_disabled()
        dialog.get_by_label("to confirm").fill(typed)
    confirm.click()
    expect(dialog).to_have_count(0)


def test_a_queue_is_made_changed_purged_and_deleted(page: Page, live: Live) -> None:
    page.get_by_role("link", name="Queues").click()
    page.get_by_role("button", name="New queue").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Path").fill(".\\private$\\ui")
    dialog.get_by_label("Label").fill("By hand")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_have_count(0)
    page.get_by_placeholder("Search in names and labels").fill("by hand")
    expect(page.get_by_role("button", name="ui", exact=True)).to_be_visible()
    live.queue("ui", "one", "two")
    page.get_by_role("button", name="Purge HOST\\private$\\ui").click()
    _confirm(page, "ui", "Remove all messages")
    assert live.do(lambda mq: mq.queue_info(".\\private$\\ui")).messages == 0
    page.get_by_role("button", name="Change HOST\\private$\\ui").click()
    page.get_by_role("dialog").get_by_label("Label").fill("By hand, twice")
    _confirm(page, "", "Change")
    expect(page.get_by_text("By hand, twice")).to_be_visible()
    page.get_by_role("button", name="Delete HOST\\private$\\ui").click()
    _confirm(page, "ui", "Delete the queue")
    expect(page.get_by_text("No queue suits.")).to_be_visible()
    assert not live.do(lambda mq: mq.queue_exists(".\\private$\\ui"))


def test_filters_of_queues_are_kept(page: Page, live: Live) -> None:
    live.queue("filter-empty")
    live.queue("filter-full", "x")
    page.get_by_role("link", name="Queues").click()
    page.get_by_placeholder("Search in names and labels").fill("filter-")
    page.get_by_label("hide empty").check()
    expect(page.get_by_role("button", name="filter-full", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="filter-empty", exact=True)).to_have_count(0)
    page.get_by_label("Name for this filter").fill("mine")
    page.get_by_role("button", name="Save filter").click()
    page.get_by_label("hide empty").uncheck()
    page.get_by_placeholder("Search in names and labels").fill("")
    page.get_by_label("Saved filters").select_option("mine")
    expect(page.get_by_placeholder("Search in names and labels")).to_have_value("filter-")
    expect(page.get_by_label("hide empty")).to_be_checked()


def test_another_search_begins_with_its_first_page(page: Page, live: Live) -> None:
    async def make(mq: Connection) -> None:
        for number in range(201):  # one more than a page has
            await mq.create_queue(f".\\private$\\paged-{number:03}", if_missing=True)

    async def remove(mq: Connection) -> None:
        for number in range(201):
            await mq.delete_queue(f".\\private$\\paged-{number:03}")

    live.do(make)
    page.get_by_role("link", name="Queues").click()
    search = page.get_by_placeholder("Search in names and labels")
    search.fill("paged-")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("button", name="paged-200", exact=True)).to_be_visible()
    search.fill("paged-007")
    expect(page.get_by_role("button", name="paged-007", exact=True)).to_be_visible()
    live.do(remove)


def test_the_overview_shows_which_queues_grow(page: Page, live: Live) -> None:
    live.queue("grows", "x")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("img", name="Messages waiting")).to_have_attribute(
        "aria-label", re.compile("now messages [1-9]")
    )
    live.queue("grows", *["x"] * 3)
    row = page.get_by_role("region", name="Queues that grow").get_by_role("row", name=re.compile("^grows"))
    # Three, or four if the console had looked before the first one came.
    expect(row).to_contain_text(re.compile(r"\+[34]"))


def test_messages_with_the_keyboard_only(page: Page, live: Live) -> None:
    live.queue("keys", *[msmq.Message({"n": at}, label=f"key {at:04}") for at in range(250)])
    page.goto("/messages?queue=HOST%5Cprivate%24%5Ckeys")
    grid = page.get_by_role("grid", name="Messages")
    expect(grid.get_by_text("key 0000")).to_be_visible()
    assert grid.get_attribute("aria-rowcount") == "251"
    grid.focus()
    page.keyboard.press("End")
    expect(grid.get_by_text("key 0249")).to_be_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    panel = page.get_by_label("Message", exact=True)
    expect(panel.get_by_role("heading", name="key 0248")).to_be_visible()
    expect(panel.get_by_test_id("body")).to_contain_text('"n": 248')
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.keyboard.press("Space")
    expect(page.get_by_text("1 chosen")).to_be_visible()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    expect(page.get_by_text("2 chosen")).to_be_visible()
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("to confirm").focus()
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("248 messages.")).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("/")
    page.keyboard.type("KEY 0123")
    expect(page.get_by_text("1 found among 248 of 248.")).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("5")
    expect(page.get_by_role("heading", name="Network")).to_be_visible()


def test_messages_are_found_by_body_sent_and_tailed(page: Page, live: Live) -> None:
    live.queue("found", *[msmq.Message({"order": {"n": at}}, label=f"m{at}") for at in range(30)])
    page.goto("/messages?queue=HOST%5Cprivate%24%5Cfound")
    grid = page.get_by_role("grid", name="Messages")
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("Inside of the body").fill("order.n=17")
    expect(page.get_by_text("1 found among")).to_be_visible()
    expect(grid.get_by_text("m17", exact=True)).to_be_visible()
    page.get_by_label("Inside of the body").fill("")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("dialog").get_by_label("Label").fill("by hand")
    page.get_by_role("dialog").get_by_label("Body").fill("hello")
    page.get_by_role("dialog").get_by_role("button", name="Send").click()
    expect(page.get_by_text("31 messages.")).to_be_visible()
    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_text("0 came since.")).to_be_visible()
    live.queue("found", msmq.Message("x", label="came live"))
    expect(grid.get_by_text("came live")).to_be_visible()


def test_a_failure_is_mended_exactly_once(page: Page, live: Live, admin: httpx.Client) -> None:
    headers = {
        "NServiceBus.ExceptionInfo.ExceptionType": "System.OutOfTea",
        "NServiceBus.FailedQ": "tea@HOST",
    }
    extension = json.dumps(headers).encode()
    live.queue("tea")
    live.queue("errors", *[msmq.Message("x", label=f"pot {at}", extension=extension) for at in range(4)])
    page.get_by_role("link", name="Failures").click()
    page.get_by_label("Error queue or journal instead of dead letters").fill(".\\private$\\errors")
    row = page.get_by_role("row", name=re.compile("System.OutOfTea"))
    expect(row).to_be_visible()
    row.get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At a time").fill("2")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("4 would go to .\\private$\\tea")
    assert live.do(lambda mq: mq.queue_info(".\\private$\\tea")).messages == 0
    dialog.get_by_role("button", name="Resubmit", exact=True).click()
    expect(page.get_by_text("Nothing failed.")).to_be_visible()
    found = admin.get("/api/queues/.%5Cprivate$%5Ctea/messages").json()["items"]
    assert sorted(each["label"] for each in found) == [f"pot {at}" for at in range(4)]
    page.get_by_role("link", name="Activity").click()
    line = page.get_by_role("row", name=re.compile("resubmit messages")).first
    expect(line).to_contain_text("queue .\\private$\\errors")
    expect(line).to_contain_text("done 4")


def test_one_failure_is_edited_and_goes_where_it_failed(page: Page, live: Live) -> None:
    extension = json.dumps({"NServiceBus.FailedQ": "kettle@HOST"}).encode()
    live.queue("kettle")
    live.queue("kettle-errors", msmq.Message("cold", label="one pot", extension=extension))
    page.goto("/messages?queue=HOST%5Cprivate%24%5Ckettle-errors")
    page.get_by_role("grid", name="Messages").get_by_text("one pot").click()
    page.get_by_label("Message", exact=True).get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("To", exact=True)).to_have_value(".\\private$\\kettle")
    dialog.get_by_label("Body").fill("hot")
    dialog.get_by_role("button", name="Resubmit").click()
    expect(page.get_by_text("0 messages.")).to_be_visible()
    assert live.do(lambda mq: mq.queue(".\\private$\\kettle").receive(timeout=120)).value == "hot"


def test_outgoing_queues_are_paused_and_resumed(page: Page, live: Live) -> None:
    live.do(lambda mq: mq.queue("DIRECT=OS:away.invalid\\private$\\x").send("x"))
    page.get_by_role("link", name="Network").click()
    row = page.get_by_role("row", name=re.compile("DIRECT=OS:away.invalid"))
    row.get_by_role("button", name="Pause").click()
    expect(row.get_by_text("OnHold")).to_be_visible()
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_text("OnHold")).to_have_count(0)
    row.get_by_role("button", name="Purge").click()
    _confirm(page, "1", "Remove all messages")


def _upload(page: Page, document: str) -> None:
    """Bring a document as a file: a browser takes seconds for each thousand lines that are typed into a field."""
    file = {"name": "definitions.json", "mimeType": "text/plain", "buffer": document.encode()}
    page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
    expect(page.get_by_label("Document")).to_have_value(document.replace("\r\n", "\n"))


def test_definitions_are_exported_compared_and_imported(page: Page, live: Live) -> None:
    live.queue("described", label="before")
    page.get_by_role("link", name="Definitions").click()
    page.get_by_role("button", name="Export").click()
    document = page.get_by_label("Document")
    expect(document).to_have_value(re.compile("described"))
    _upload(page, document.input_value().replace('"before"', '"after"'))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text('"before" → "after"')).to_be_visible()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_contain_text("1 change was made.")
    assert live.do(lambda mq: mq.queue_info(".\\private$\\described")).label == "after"


def test_who_may_only_look_is_offered_nothing_else(browser: Browser, live: Live) -> None:
    live.queue("watched", "x")
    context, wrong = _logged_in(browser, live, LOOKER)
    page = context.pages[0]
    page.get_by_role("link", name="Queues").click()
    page.get_by_placeholder("Search in names and labels").fill("watched")
    expect(page.get_by_role("button", name="watched", exact=True)).to_be_visible()
    for name in ("New queue", "Purge", "Change", "Delete"):
        expect(page.get_by_role("button", name=re.compile(f"^{name}"))).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Axe's program, which lies with what the pages are built with."""
    elsewhere = {
        **os.environ,
        "CONSOLE_OUT": str(tmp_path_factory.mktemp("pages")),
    }  # others look at the pages meanwhile
    subprocess.run([ROOT / "scripts" / "console.sh"], check=True, timeout=900, env=elsewhere)
    return ROOT / "build" / "console" / "node_modules" / "axe-core" / "axe.min.js"


def _serious(page: Page, axe: Path) -> list[Any]:
    """What axe finds on a page as it stands, or in the dialog that is open."""
    page.add_script_tag(path=axe)
    found = page.evaluate(
        "axe.run(document.querySelector('dialog[open]') ?? document, {resultTypes: ['violations']})"
    )
    return [
        (each["id"], [node["target"] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}
DIALOGS = {
    "/queues": tuple(
        f"{verb} HOST\\private$\\axe" for verb in ("Move the messages of", "Change", "Access to", "Delete")
    ),
    "/network": ("Purge",),
    "/alarms": ("New alarm",),
    "/access": ("New token",),
}
"""Buttons of pages, and each opens a dialog."""


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_every_page(browser: Browser, live: Live, look: str, axe: Path) -> None:
    """Axe finds nothing serious, and no page is wider than its window."""
    live.queue("axe", *[msmq.Message({"a": at}, label=f"axe {at}") for at in range(30)])
    away = "DIRECT=OS:axe.invalid\\private$\\x"
    live.do(lambda mq: mq.queue(away).send("x"))
    context, wrong = _logged_in(browser, live, "S-1-5-32-544", bypass_csp=True, **LOOKS[look])
    page = context.pages[0]
    for path in (
        "/",
        "/queues",
        "/messages?queue=HOST%5Cprivate%24%5Caxe",
        "/failures",
        "/network",
        "/definitions",
        "/activity",
        "/alarms",
        "/access",
    ):
        page.goto(path)
        expect(page.locator("main h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if path.startswith("/messages"):
            page.get_by_text("axe 3", exact=True).click()
            expect(page.get_by_test_id("body")).to_be_visible()
        assert _serious(page, axe) == [], path
        for button in DIALOGS.get(path, ()):
            page.get_by_role("button", name=button, exact=True).first.click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            assert _serious(page, axe) == [], (path, button)
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
    live.do(lambda mq: mq.purge_outgoing(away))
    context.close()
    assert wrong == []
