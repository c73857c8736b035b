"""``msmq manager`` against a live daemon."""

from __future__ import annotations

import pytest

from tests.cli.support import Live

SHAPE = {
    "computer_name": str, "identifier": str, "product": str, "online": bool, "directory_integrated": bool,
    "quota_kb": (int, type(None)), "journal_quota_kb": (int, type(None)), "bytes": int, "messages": int,
    "dead_letter_queue": str, "transactional_dead_letter_queue": str, "journal_queue": str, "caller": str,
    "caller_groups": list, "losses": list, "resources": dict,
}  # fmt: skip


def test_show(live: Live) -> None:
    shown = live.object("manager", "show")
    assert list(shown) == list(SHAPE)
    for name, kind in SHAPE.items():
        assert isinstance(shown[name], kind), name
    assert shown["computer_name"] == "HOST"
    sheet = live.good("manager", "show")
    assert live.good("status").splitlines()[0] == sheet.splitlines()[0]
    assert "computer         HOST" in sheet
    assert f" of {shown['resources']['descriptor_limit']}, " in sheet


def test_set_and_set_back(live: Live) -> None:
    before = live.object("manager", "show")
    changed = live.object("manager", "set", "--quota", "2000000", "--journal-quota", "1000000")
    assert (changed["quota_kb"], changed["journal_quota_kb"]) == (2_000_000, 1_000_000)
    live.good("manager", "set", "--quota", str(before["quota_kb"]), "--journal-quota", "none")
    assert live.object("manager", "show")["quota_kb"] == before["quota_kb"]


def test_off_the_network_and_back(live: Live) -> None:
    try:
        assert live.object("manager", "offline")["online"] is False
    finally:
        assert live.object("manager", "online")["online"] is True


def test_access_list(live: Live) -> None:
    live.good("manager", "acl", "set", "--allow", "NETWORK=create-queue")
    shown = live.object("manager", "acl", "show")
    assert {entry["sid"]: entry["right_names"] for entry in shown["entries"]}["S-1-5-2"] == ["create-queue"]
    live.good("manager", "acl", "set", "--remove", "NETWORK")
    assert "NETWORK" not in live.good("manager", "acl", "show")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("set",), 2, "nothing to change"),
        (("set", "--quota", "much"), 2, "a size such as"),
        (("acl", "set", "--allow", "EVERYONE=send"), 1, "no right 'send'"),
        (("acl", "set", "--sddl", "nonsense"), 1, "msmq manager acl set:"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_failures_are_one_line(live: Live, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in live.bad("manager", *arguments, code=code)
