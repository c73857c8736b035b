"""``msmq demo``, which is ``make run``: the whole story, told by real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app, demonstration
from msmq.server.web_settings import DEFAULT_ADDRESS

ROOT = Path(__file__).resolve().parents[2]


def test_the_story() -> None:
    command = [sys.executable, "-m", "msmq", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "two queue managers run", "CUT", "RESTORED", "has 30 orders: 1, 2, 3 ... 30", "received 30 replies",
        "in its dead-letter queue: the destination queue does not exist", "Summary", "make serve",
        f"the console, http://{DEFAULT_ADDRESS}/",
    ):  # fmt: skip
        assert part in done.stdout
    assert "NO " not in done.stdout.partition("Summary")[2]


def test_make_run_and_make_serve() -> None:
    for target, command in (("run", "msmq demo"), ("serve", "msmq serve --data msmq-data")):
        made = subprocess.run(
            ["make", "--no-print-directory", "--dry-run", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.strip().endswith(command)


def test_a_story_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstration, "SHOP", "192.0.2.1")
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "No TCP port is free" in result.stderr
