"""The console in a real browser: permissions, moves with progress, chosen failures, access."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

import msmq
from tests.web.support import Live
from tests.web.test_console import _confirm, _upload, browser, page

__all__ = ["browser", "page"]


def _queues(page: Page, name: str) -> None:
    page.get_by_role("link", name="Queues").click()
    page.get_by_placeholder("Search in names and labels").fill(name)


def test_all_messages_of_a_queue_are_moved_with_progress(page: Page, live: Live) -> None:
    live.queue("move-from", *[msmq.Message("x", label=f"m {at}") for at in range(40)])
    live.queue("move-to")
    _queues(page, "move-from")
    page.get_by_role("button", name="Move the messages of HOST\\private$\\move-from").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To the queue").fill(".\\private$\\move-to")
    dialog.get_by_label("At a time").fill("10")
    dialog.get_by_label("Messages a second").fill("50")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(dialog.get_by_role("progressbar")).to_be_visible()
    expect(dialog).to_have_count(0)
    assert live.do(lambda mq: mq.queue_info(".\\private$\\move-from")).messages == 0
    assert live.do(lambda mq: mq.queue_info(".\\private$\\move-to")).messages == 40


def test_every_property_and_the_permissions_are_changed(page: Page, live: Live, admin: httpx.Client) -> None:
    queue = live.queue("changed")
    _queues(page, "changed")
    page.get_by_role("button", name="Change HOST\\private$\\changed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("only authenticated").check()
    dialog.get_by_label("Journal quota").fill("77")
    dialog.get_by_label("Encryption").select_option("demanded")
    dialog.get_by_label("Most deliveries").fill("3")
    dialog.get_by_label("Subqueue for poison").fill("bad")
    _confirm(page, "", "Change")
    found = admin.get(f"/api/queues/{queue}").json()
    names = (
        "authenticated_only",
        "journal_quota_kb",
        "quota_kb",
        "privacy_level",
        "max_deliveries",
    )
    assert [found[name] for name in names] == [True, 77, None, 2, 3]
    assert found["poison_subqueue"] == "bad"
    page.get_by_role("button", name="Access to HOST\\private$\\changed").click()
    dialog.get_by_label("SID of somebody else").fill("S-1-5-21-7-7-7-5")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_role("group", name="S-1-5-21-7-7-7-5").get_by_label("receive", exact=True).check()
    dialog.get_by_role("button", name="Remove EVERYONE").click()
    _confirm(page, "", "Save")
    entries = {
        each["sid"]: each["rights"] for each in admin.get(f"/api/queues/{queue}/security").json()["entries"]
    }
    assert entries["S-1-5-21-7-7-7-5"] == 0x27
    assert "S-1-1-0" not in entries


def test_outgoing_queues_stand_in_the_tree(page: Page, live: Live) -> None:
    live.do(lambda mq: mq.queue("DIRECT=OS:tree.invalid\\private$\\x").send("x"))
    _queues(page, "tree.invalid")
    row = page.get_by_role("row", name=re.compile("tree.invalid"))
    row.get_by_role("button", name=re.compile("^Pause")).click()
    expect(row.get_by_text("OnHold")).to_be_visible()
    row.get_by_role("button", name=re.compile("^Resume")).click()
    expect(row.get_by_text("OnHold")).to_have_count(0)
    row.get_by_role("button", name=re.compile("^Purge")).click()
    _confirm(page, "1", "Remove all messages")


def test_chosen_failures_are_resubmitted_with_another_label(page: Page, live: Live) -> None:
    live.queue("chosen-errors", *[msmq.Message("x", label=f"c {at}") for at in range(5)])
    live.queue("chosen-home")
    page.goto("/messages?queue=HOST%5Cprivate%24%5Cchosen-errors")
    for label in ("c 1", "c 3"):
        page.get_by_label(f"Choose {label}").check()
    page.get_by_role("button", name="Resubmit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To another queue").fill(".\\private$\\chosen-home")
    dialog.get_by_label("New label").fill("once more")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("status")).to_contain_text("2 would go to .\\private$\\chosen-home")
    dialog.get_by_role("button", name="Resubmit", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("3 messages.")).to_be_visible()
    moved = live.do(lambda mq: mq.queue(".\\private$\\chosen-home").receive(timeout=120))
    assert moved.label == "once more"


def test_all_that_suit_a_filter_are_moved_and_deleted(page: Page, live: Live) -> None:
    live.queue("suits", *[msmq.Message("x" * at, label=f"s {at}") for at in range(1, 301)])
    live.queue("suits-home")
    page.goto("/messages?queue=HOST%5Cprivate%24%5Csuits&label=s+2&least_bytes=1")
    expect(page.get_by_text("111 found among 300 of 300.")).to_be_visible()
    page.get_by_role("button", name="Move").click()
    dialog = page.get_by_role("dialog", name="Move all messages that suit")
    expect(dialog).to_contain_text("label: s 2, least bytes: 1")
    dialog.get_by_label("To the queue").fill(".\\private$\\suits-home")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text("0 found among 189 of 189.")).to_be_visible()
    assert live.do(lambda mq: mq.queue_info(".\\private$\\suits-home")).messages == 111
    page.get_by_label("Label contains").fill("s 17")
    expect(page.get_by_text("11 found among 189 of 189.")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    _confirm(page, "all", "Delete")
    assert live.do(lambda mq: mq.queue_info(".\\private$\\suits")).messages == 178


def test_a_tail_stops_at_its_limit_and_packets_are_exported(page: Page, live: Live) -> None:
    live.queue("limited", "before")
    page.goto("/messages?queue=HOST%5Cprivate%24%5Climited")
    expect(page.get_by_text("1 message.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export packets").click()
    assert b"LIOR" in download.value.path().read_bytes()
    page.get_by_role("button", name="More filters").click()
    page.get_by_label("Tail: most messages").fill("2")
    page.get_by_role("button", name="Live tail").click()
    expect(page.get_by_text("0 came since.")).to_be_visible()
    live.queue("limited", *["x"] * 4)
    expect(page.get_by_text("2 came since. The tail has ended")).to_be_visible()


def test_a_tail_ends_with_its_queue_and_its_filters(page: Page, live: Live) -> None:
    live.queue("tailed", "one")
    live.queue("tailed-too", "one", "two")
    page.goto("/messages?queue=HOST%5Cprivate%24%5Ctailed")
    tail = page.get_by_role("button", name="Live tail")
    tail.click()
    expect(page.get_by_text("0 came since.")).to_be_visible()
    page.get_by_label("Queue").select_option("HOST\\private$\\tailed-too")
    expect(page.get_by_text("2 messages.")).to_be_visible()
    tail.click()
    expect(page.get_by_text("0 came since.")).to_be_visible()
    page.get_by_label("Label contains").fill("nothing")
    expect(page.get_by_text("0 found among 2 of 2.")).to_be_visible()
    expect(tail).to_be_visible()


def test_tokens_and_users_are_made_and_removed(page: Page, live: Live) -> None:
    page.get_by_role("link", name="Access").click()
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("browser-token")
    dialog.get_by_role("button", name="Make").click()
    expect(page.get_by_role("status")).to_contain_text("The new token browser-token has the secret")
    page.get_by_role("button", name="New user").click()
    dialog.get_by_label("Name").fill("browser-user")
    dialog.get_by_role("button", name="Add").click()
    expect(page.get_by_role("status")).to_contain_text("The new user browser-user has the secret")
    for kind in ("token", "user"):
        page.get_by_role("button", name=f"Remove the {kind} browser-{kind}").click()
        _confirm(page, f"browser-{kind}", "Remove")
        expect(page.get_by_role("cell", name=f"browser-{kind}")).to_have_count(0)


def test_yaml_is_exported_and_compared(page: Page, live: Live) -> None:
    live.queue("in-yaml", label="plain-label")
    page.get_by_role("link", name="Definitions").click()
    page.get_by_label("Form of the export").select_option("YAML")
    page.get_by_role("button", name="Export").click()
    document = page.get_by_label("Document")
    expect(document).to_have_value(re.compile("label: plain-label"))
    _upload(page, document.input_value().replace("plain-label", "other-label"))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text('"plain-label" → "other-label"')).to_be_visible()
