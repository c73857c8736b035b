"""Rules of alarms over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


def test_rules_are_changed_and_kept(admin: httpx.Client) -> None:
    rule = {"name": "deep", "kind": "depth", "threshold": 1e9, "queue": "*orders*"}
    changed = admin.put("/api/alarms", json={"rules": [rule]}).json()
    assert changed["rules"][0] | rule == changed["rules"][0]
    assert admin.get("/api/alarms").json() == {"rules": changed["rules"], "on": []}
    listed = admin.get("/api/alarms/rules?where=threshold>1&columns=name").json()
    assert listed["items"] == [{"name": "deep"}]
    assert admin.get("/api/alarms/on").json()["items"] == []
    assert admin.put("/api/alarms", json={"rules": []}).json()["rules"] == []


@pytest.mark.parametrize(
    "rules",
    [
        [{"name": "a", "kind": "none"}], [{"name": "", "kind": "depth"}], [{"name": "a", "kind": "depth"}] * 2,
        [{"name": "a", "kind": "depth", "webhooks": ["file:///etc/passwd"]}],
        [{"name": "a", "kind": "depth", "mail_to": ["a@b\nBcc: c@d"]}],
    ],
    ids=str,
)  # fmt: skip
def test_rules_that_make_no_sense(admin: httpx.Client, rules: list[Any]) -> None:
    assert admin.put("/api/alarms", json={"rules": rules}).status_code == 400
