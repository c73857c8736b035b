"""What commands print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

import pytest

from msmq.cli import output


class Kind(IntEnum):
    GOOD = 1


@dataclass
class Thing:
    kind: Kind
    when: datetime
    data: bytes
    quota_kb: int
    parts: tuple[int, ...]


WHEN = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)


def test_objects(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"thing": Thing(Kind.GOOD, WHEN, b"\x01", 0xFFFFFFFF, (1, 2))})
    assert json.loads(capsys.readouterr().out) == {
        "thing": {
            "kind": "good",
            "when": "2026-07-01T12:00:00Z",
            "data": "01",
            "quota_kb": None,
            "parts": [1, 2],
        }
    }
    assert output.plain(WHEN.replace(microsecond=5000)) == "2026-07-01T12:00:00.005Z"


def test_nothing_that_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    assert output.clean("a\x1b[31mb\x07") == "a\ufffd[31mb\ufffd"
    output.print_table(("label",), [("[red]\x1b[2J",)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]" in out


def test_tables_and_sheets(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("name", "count"), [("a", 1), ("b", 12345)])
    output.print_sheet([("yes or no", True), ("empty", "")])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name   count", "a          1", "b     12,345", "yes or no  yes", "empty",
    ]  # fmt: skip


def test_words() -> None:
    assert output.several(1, "message") == "1 message"
    assert output.several(2000, "message") == "2,000 messages"
    assert [output.size(number) for number in (0, 1023, 1024, 5 << 20, 7 << 40)] == [
        "0 B", "1023 B", "1.0 KB", "5.0 MB", "7168.0 GB",
    ]  # fmt: skip
    assert output.limit(0xFFFFFFFF) == "none"
    assert output.limit(1000) == "1,000 KB"
    assert output.one_line("a\n b" + "c" * 100, 10) == "a bcccccc…"
