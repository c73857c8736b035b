"""The pages on cmdlets and on JSON: every command of the table runs, every name of the shapes is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Live, serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "cmdlets.md").read_text("utf-8")
JSON = (ROOT / "docs" / "cli-json.md").read_text("utf-8")
ROWS = re.findall(r"^\| `([A-Z][^|]*) \| `msmq (.*)` \|$", PAGE, re.MULTILINE)
CMDLETS = {
    "Clear-MsmqOutgoingQueue", "Clear-MsmqQueue", "Enable-MsmqCertificate", "Get-MsmqCertificate",
    "Remove-MsmqCertificate", "Get-MsmqOutgoingQueue", "Get-MsmqQueue", "New-MsmqQueue", "Remove-MsmqQueue",
    "Set-MsmqQueue", "Get-MsmqQueueACL", "Set-MsmqQueueACL", "Get-MsmqQueueManager", "Set-MsmqQueueManager",
    "Get-MsmqQueueManagerACL", "Set-MsmqQueueManagerACL", "Move-MsmqMessage", "New-MsmqMessage",
    "Receive-MsmqQueue", "Send-MsmqQueue", "Suspend-MsmqOutgoingQueue", "Resume-MsmqOutgoingQueue",
}  # fmt: skip


def test_every_cmdlet_has_a_row() -> None:
    assert {re.split(r"[ `]", cmdlet)[0] for cmdlet, _ in ROWS} == CMDLETS


def test_every_row_runs(tmp_path: Path) -> None:
    """From the first to the last, each against what the ones before have left."""
    effects: dict[str, Any] = {}
    with serving(tmp_path / "m") as live:
        for cmdlet, command in ROWS:
            arguments = shlex.split(command)
            if "DIGEST" in arguments:
                digest = live.object("certificate", "list")["digest"]
                arguments[arguments.index("DIGEST")] = digest
            effects[cmdlet.partition("`")[0]] = live.good(*arguments)
        assert effects["New-MsmqQueue"] == "created HOST\\private$\\orders\n"
        assert "two coffees" in effects["Receive-MsmqQueue"]
        assert '"delivery": "transactional"' in effects["Receive-MsmqQueue -Transactional"]
        assert effects["Move-MsmqMessage"].startswith("moved 1 message ")
        assert effects["Clear-MsmqQueue"].startswith("removed 1 message ")
        assert effects["Clear-MsmqOutgoingQueue"].startswith("removed 1 message ")
        assert live.objects("certificate", "list") == []
        paths = [entry["path"] for entry in live.objects("queue", "list")]
        assert paths == ["HOST\\private$\\payments"]


def names(row: str) -> set[str]:
    """The outermost names that a row of the page on JSON gives."""
    (cells,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", JSON, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cells)))


@pytest.mark.parametrize(
    ("row", "command"),
    [
        ("`send`", "send .\\private$\\shapes --body x"),
        ("`queue list`, `show`, `create`, `set`", "queue show .\\private$\\shapes"),
        ("`queue acl`, `manager acl`", "queue acl show .\\private$\\shapes"),
        ("`queue acl`, `manager acl`", "manager acl show"),
        ("`queue purge`, `outgoing purge`", "queue purge .\\private$\\shapes"),
        ("`status`, `manager show`, `set`, `online`, `offline`", "manager show"),
        ("`status`, `manager show`, `set`, `online`, `offline`", "status"),
        ("`certificate list`, `new`, `enable`", "certificate new"),
        ("`token list`", "token list"),
        ("`token remove`", "token remove shapes"),
        ("`ping`", "ping {address} --port {port} --ping-port 1 --timeout 2"),
        ("`top`", "top --once --interval 0.1"),
        ("`dead-letter resend`, `purge`", "dead-letter purge"),
        ("`move`", "move .\\private$\\shapes .\\private$\\shapes;s --all"),
    ],
    ids=lambda value: value.replace("`", "") if isinstance(value, str) else None,
)
def test_the_page_on_json_is_right(live: Live, row: str, command: str) -> None:
    live.run("queue", "create", ".\\private$\\shapes")
    live.run("token", "create", "shapes")
    arguments = command.format(address=live.address, port=live.port).split()
    assert set(live.object(*arguments)) == names(row)


def test_the_page_on_messages_is_right(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "-", given=b"\x00\xff")
    section = JSON.partition("## A message")[2].partition("## Others")[0]
    told = {
        name
        for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert told == set(live.object("receive", queue))
