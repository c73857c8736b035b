"""``msmq migrate plan``: a script that makes the queues of a Windows host here, and can be run twice."""

from __future__ import annotations

import codecs
import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.cli.migrate import RIGHTS, commands, definitions
from tests import ready
from tests.cli.support import Live
from tests.test_readme import ROOT

SAMPLE = ROOT / "samples" / "windows-inventory.json"


def test_the_plan_makes_the_queues(live: Live) -> None:
    script = "\n".join(commands(json.loads(SAMPLE.read_text(encoding="utf-8"))))
    environment = {
        **os.environ,
        "MSMQ_SERVER": live.socket,
        "PATH": f"{Path(ready.msmq()).parent}:{os.environ['PATH']}",
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-with-mark"])
def test_the_inventory_is_read_as_powershell_writes_it(encoding: str, tmp_path: Path) -> None:
    """Windows PowerShell redirects in UTF-16, PowerShell 7 in UTF-8, some tools put a mark before it."""
    text = SAMPLE.read_text(encoding="utf-8").replace("Invoices of the shop", "Rechnungen für Köln")
    file = tmp_path / "inventory.json"
    big = encoding == "utf-16-be-with-mark"
    file.write_bytes(codecs.BOM_UTF16_BE + text.encode("utf-16-be") if big else text.encode(encoding))
    done = CliRunner().invoke(app, ["migrate", "plan", str(file)], prog_name="msmq")
    assert done.exit_code == 0, done.stderr
    assert "--label 'Rechnungen für Köln'" in done.stdout


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


def test_somebody_without_a_sid_gets_no_rights() -> None:
    """The inventory has the name of an account that the Windows host could not find."""
    gone = {"who": "CORP\\gone", "sid": "CORP\\gone", "rights": "PeekMessage"}
    inventory = {"computer": "X", "queues": [{"path": "X\\private$\\q", "acl": [gone]}]}
    assert list(commands(inventory))[-1] == "# no equal for PeekMessage of CORP\\gone"
    document, left_out = definitions(inventory)
    assert document["queues"][0]["sddl"] == "D:"
    assert left_out == [".\\private$\\q: PeekMessage of CORP\\gone"]


def test_the_definitions_make_the_queues(live: Live, tmp_path: Path) -> None:
    """Printed, compared, imported, and then nothing is different."""
    inventory = json.loads(SAMPLE.read_text(encoding="utf-8"))
    inventory["queues"][0] |= {"path": "ORDERS-1\\private$\\defined", "authenticate": True, "privacy": "Body"}
    refused = {"who": "Guests", "sid": "S-1-5-32-546", "rights": "FullControl", "allow": False}
    inventory["queues"][0]["acl"].append(refused)
    (tmp_path / "inventory.json").write_text(json.dumps(inventory), encoding="utf-8")
    done = CliRunner().invoke(app, ["migrate", "definitions", str(tmp_path / "inventory.json")])
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith("left out: ORDERS-1\\reports is a public queue")
    file = tmp_path / "definitions.json"
    file.write_text(done.stdout, encoding="utf-8")
    assert live.run("definitions", "diff", str(file)).code == 1
    live.good("definitions", "import", str(file))
    assert live.run("definitions", "diff", str(file)).code == 0
    queue = live.object("queue", "show", ".\\private$\\defined")
    assert (queue["transactional"], queue["quota_kb"], queue["journal_quota_kb"]) == (True, 100_000, None)
    assert (queue["authenticated_only"], queue["privacy_level"]) == (True, 2)
    entries = live.object("queue", "acl", "show", ".\\private$\\defined")["entries"]
    assert [(entry["sid"], entry["allow"]) for entry in entries] == [
        ("S-1-5-32-546", False),
        ("S-1-1-0", True),
        ("S-1-5-21-1-2-3-1105", True),
    ]


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
    for command in ("plan", "definitions"):
        done = CliRunner().invoke(app, ["migrate", command, str(file)], prog_name="msmq")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "is no inventory" in done.stderr
