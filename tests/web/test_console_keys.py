"""The console in a real browser by somebody without a mouse: Tab reaches everything, other keys do it."""

from __future__ import annotations

import json
import re

import httpx
from playwright.sync_api import Locator, Page, expect

import msmq
from tests.web.support import Live
from tests.web.test_console import browser, page

__all__ = ["browser", "page"]


def reach(page: Page, wanted: Locator) -> None:
    """Go to something with Tab, as somebody without a mouse does."""
    wanted.wait_for()
    for _ in range(400):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{wanted} cannot be reached with the keyboard")


def press(page: Page, button: Locator) -> None:
    reach(page, button)
    page.keyboard.press("Enter")


def go(page: Page, key: str, heading: str) -> None:
    expect(page.get_by_role("dialog")).to_have_count(0)  # until it has closed, keys are its own
    page.keyboard.press(key)
    page.get_by_role("heading", name=heading, exact=True).wait_for()


def test_a_queue_is_made_and_deleted(page: Page, live: Live) -> None:
    go(page, "2", "Queues")
    press(page, page.get_by_role("button", name="New queue"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Path")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type("by-keys")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="New queue")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("by-keys")
    press(page, page.get_by_role("button", name="Delete HOST\\private$\\by-keys"))
    page.keyboard.type("by-keys")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No queue suits.")).to_be_visible()
    expect(page.locator("main")).to_be_focused()  # the button is gone with its queue
    assert not live.do(lambda mq: mq.queue_exists(".\\private$\\by-keys"))


def test_the_overview_leads_to_a_message_that_is_edited_and_resubmitted(page: Page, live: Live) -> None:
    live.queue("key-pot", *[msmq.Message("tepid", label=f"pot {at}") for at in range(500)])
    live.queue("key-kettle")
    press(page, page.get_by_role("button", name="key-pot", exact=True).first)
    reach(page, page.get_by_role("grid", name="Messages"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    panel = page.get_by_label("Message", exact=True)
    expect(panel.get_by_role("heading", name="pot 1", exact=True)).to_be_visible()
    press(page, panel.get_by_role("tab", name="Hex"))
    expect(panel.get_by_test_id("body")).to_contain_text("74 00 65 00 70 00 69 00 64 00")
    press(page, panel.get_by_role("button", name="Resubmit"))
    expect(page.get_by_role("dialog").get_by_label("To", exact=True)).to_be_focused()
    for text in (".\\private$\\key-kettle", "pot 1, warmed", "hot"):
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    press(page, page.get_by_role("dialog").get_by_role("button", name="Resubmit"))
    expect(page.get_by_text("499 messages.")).to_be_visible()
    expect(page.get_by_role("grid", name="Messages")).to_be_focused()
    mended = live.do(lambda mq: mq.queue(".\\private$\\key-kettle").receive(timeout=120))
    assert (mended.label, mended.value) == ("pot 1, warmed", "hot")


def test_failures_are_mended(page: Page, live: Live) -> None:
    live.queue("key-errors", *[msmq.Message("x", label=f"k {at}") for at in range(3)])
    live.queue("key-home")
    go(page, "4", "Failures")
    reach(page, page.get_by_label("Error queue or journal instead of dead letters"))
    page.keyboard.type(".\\private$\\key-errors")
    page.keyboard.press("Escape")  # the list of queues that suit
    press(page, page.get_by_role("row", name=re.compile("k 0")).get_by_role("button", name="Move"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("To the queue")).to_be_focused()
    page.keyboard.type(".\\private$\\key-home")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing failed.")).to_be_visible()
    assert live.do(lambda mq: mq.queue_info(".\\private$\\key-home")).messages == 3


def test_an_outgoing_queue_is_looked_into_paused_resumed_and_purged(page: Page, live: Live) -> None:
    live.do(lambda mq: mq.queue("DIRECT=OS:keys.invalid\\private$\\x").send("x"))
    go(page, "5", "Network")
    row = page.get_by_role("region", name="Outgoing queues").get_by_role(
        "row", name=re.compile("keys.invalid")
    )
    press(page, row.locator("summary"))
    expect(row.locator("li").first).to_contain_text("DnsFailure")
    press(page, row.get_by_role("button", name="Pause"))
    expect(row.get_by_text("OnHold")).to_be_visible()
    press(page, row.get_by_role("button", name="Resume"))
    expect(row.get_by_text("OnHold")).to_have_count(0)
    press(page, row.get_by_role("button", name="Purge"))
    page.keyboard.type("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    reach(page, page.get_by_label("hide empty"))
    page.keyboard.press("Space")
    expect(row).to_have_count(0)
    press(page, page.get_by_role("button", name="Compare again"))
    expect(page.get_by_text("Nothing differs.")).to_be_visible()


def test_definitions_are_exported_rehearsed_and_imported(page: Page, live: Live) -> None:
    live.queue("key-defined")
    go(page, "6", "Definitions")
    reach(page, page.get_by_label("Form of the export"))
    page.keyboard.type("Y")
    press(page, page.get_by_role("button", name="Export"))
    document = page.get_by_label("Document")
    expect(document).to_have_value(re.compile("key-defined"))
    with page.expect_download() as download:
        press(page, page.get_by_role("button", name="Download"))
    assert download.value.suggested_filename == "definitions.yaml"
    assert "key-defined" in download.value.path().read_text(encoding="utf-8")
    reach(page, document)
    page.keyboard.press("Control+A")
    wanted = {"openmsmq_definitions": 1, "queues": [{"path": ".\\private$\\key-defined", "label": "typed"}]}
    page.keyboard.type(json.dumps(wanted))
    expect(
        page.get_by_role("button", name="Import")
    ).to_be_disabled()  # nobody has seen yet what it would change
    press(page, page.get_by_role("button", name="Compare"))
    expect(page.get_by_text('"" → "typed"')).to_be_visible()
    assert live.do(lambda mq: mq.queue_info(".\\private$\\key-defined")).label == ""
    press(page, page.get_by_role("button", name="Import"))
    expect(page.get_by_role("status")).to_contain_text("1 change was made.")
    assert live.do(lambda mq: mq.queue_info(".\\private$\\key-defined")).label == "typed"


def test_an_alarm_is_made_changed_and_removed(page: Page, admin: httpx.Client) -> None:
    go(page, "8", "Alarms")
    press(page, page.get_by_role("button", name="New alarm"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Tab")
    page.keyboard.type("Space left")
    reach(page, dialog.get_by_label("Below"))
    page.keyboard.press("Control+A")
    page.keyboard.type("5000000000")
    page.keyboard.press("Enter")
    row = page.get_by_role("row", name=re.compile("by keys"))
    expect(row).to_contain_text("below 5,000,000,000 bytes")
    expect(page.get_by_role("button", name="New alarm")).to_be_focused()
    press(page, row.get_by_role("button", name="Change"))
    reach(page, dialog.get_by_label("E-mail"))
    page.keyboard.type("ops@example.com")
    press(page, dialog.get_by_role("button", name="Save"))
    expect(row).to_contain_text("ops@example.com")
    (rule,) = admin.get("/api/alarms").json()["rules"]
    assert (rule["kind"], rule["threshold"], rule["mail_to"]) == ("disk_free", 5e9, ["ops@example.com"])
    press(page, row.get_by_role("button", name="Remove"))
    press(page, dialog.get_by_role("button", name="Remove"))
    expect(page.get_by_text("Nobody wants to be told of anything yet.")).to_be_visible()


def test_a_token_is_made_and_taken_back_and_the_record_tells(page: Page, live: Live) -> None:
    go(page, "9", "Access")
    press(page, page.get_by_role("button", name="New token"))
    page.keyboard.type("key-token")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The new token key-token has the secret")
    press(page, page.get_by_role("button", name="Remove the token key-token"))
    page.keyboard.type("key-token")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="key-token")).to_have_count(0)
    assert "key-token" not in {token.name for token in live.do(lambda mq: mq.tokens())}
    go(page, "7", "Activity")
    page.keyboard.press("/")
    page.keyboard.type("key-token")
    for what in ("create token", "remove token"):
        expect(page.get_by_role("row", name=re.compile(what))).to_contain_text("done")
