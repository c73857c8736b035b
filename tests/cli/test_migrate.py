"""``msmq migrate plan``: a script that makes the queues of a Windows host here, and can be run twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.cli.migrate import RIGHTS, commands
from tests.cli.support import Live
from tests.test_readme import ROOT

SAMPLE = ROOT / "samples" / "windows-inventory.json"


def test_the_plan_makes_the_queues(live: Live) -> None:
    script = "\n".join(commands(json.loads(SAMPLE.read_text(encoding="utf-8"))))
    environment = {
        **os.environ,
        "MSMQ_SERVER": live.socket,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for _ in range(2):
        subprocess.run(["sh"], input=script, text=True, env=environment, check=True, capture_output=True)
    queue = live.object("queue", "show", r".\private$\invoices")
    assert (queue["transactional"], queue["label"], queue["journaling"]) == (
        True,
        "Invoices of the shop",
        True,
    )
    assert (queue["quota_kb"], queue["journal_quota_kb"]) == (100_000, None)
    entries = live.object("queue", "acl", "show", r".\private$\invoices")["entries"]
    assert {"S-1-5-21-1-2-3-1105", "S-1-1-0"} <= {entry["sid"] for entry in entries}


def test_every_right_has_an_equal_that_is_one(live: Live) -> None:
    queue = live.queue()
    live.good("queue", "acl", "set", queue, "--allow", f"EVERYONE={','.join(RIGHTS.values())}")


def test_what_has_no_equal_is_said() -> None:
    plan = "\n".join(commands(json.loads(SAMPLE.read_text(encoding="utf-8"))))
    assert "# ORDERS-1\\reports is a public queue" in plan
    assert "# 3 messages wait in it" in plan
    odd = {"path": r"X\private$\q", "acl": [{"who": "a", "sid": "S-1-1-0", "rights": "Fly, PeekMessage"}]}
    plan = "\n".join(commands({"computer": "X", "queues": [odd]}))
    assert "# no equal for Fly of a" in plan
    assert "--allow S-1-1-0=peek" in plan


def test_an_inventory_cannot_smuggle_commands_in() -> None:
    queue = {"path": "X\\private$\\q; touch /owned", "label": "$(touch /owned)\nrm", "acl": []}
    plan = list(commands({"computer": "X\ntouch /owned", "queues": [queue]}))
    assert not [line for line in plan if line.startswith("touch")]
    assert "'.\\private$\\q; touch /owned'" in plan[-1]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"computer": "X", "queues": [1]}', '{"computer": "X", "queues": 1}']
)
def test_what_is_no_inventory_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_text(text)
    done = CliRunner().invoke(app, ["migrate", "plan", str(file)], prog_name="msmq")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is no inventory" in done.stderr
