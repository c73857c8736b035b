"""The page that maps System.Messaging to the client names nothing that is not there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import msmq
from msmq.client.cursor import Cursor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "system-messaging.md"
KINDS = {
    "mq": {*dir(msmq.Connection)},
    "queue": {*dir(msmq.Queue)},
    "cursor": {*dir(Cursor)},
    "message": {*dir(msmq.ReceivedMessage)},
    "Message": {*dir(msmq.Message)},
    "info": {field.name for field in fields(msmq.QueueInfo)},
    "msmq": {"errors"},
}


LINES = PAGE.read_text(encoding="utf-8").splitlines()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES if line.startswith("| `")]


def test_everything_named_is_there() -> None:
    named = [
        re.fullmatch(r"`(\w+)\.(\w+)`", name) for _, here, _ in ROWS if here for name in here.split(", ")
    ]
    assert len(ROWS) > 70
    assert len(named) > 80
    assert [match and match[0] for match in named if match is None or match[2] not in KINDS[match[1]]] == []


def test_what_has_no_equal_says_missing() -> None:
    assert [theirs for theirs, here, notes in ROWS if not here and not notes.startswith("missing")] == []
