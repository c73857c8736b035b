"""``msmq message``: the same commands in a group."""

from __future__ import annotations

from typer.main import get_command
from typer.testing import CliRunner

from msmq.cli import app
from msmq.cli.message import COMMANDS
from tests.cli.support import Live


def test_each_command_stands_alone_too() -> None:
    runner = CliRunner()
    for name, _, _, _ in COMMANDS:
        alone, grouped = (runner.invoke(app, [*group, name, "--help"]) for group in ([], ["message"]))
        assert alone.exit_code == grouped.exit_code == 0
        assert "Examples" in alone.stdout
        assert alone.stdout.splitlines()[5:] == grouped.stdout.splitlines()[5:]


def test_in_the_group(live: Live) -> None:
    queue = live.queue()
    live.good("message", "send", queue, "--body", "x")
    assert live.object("message", "receive", queue)["body"] == "x"


def test_every_command_says_what_it_does() -> None:
    """Help that teaches: each command has one, whatever its depth."""

    def check(command: object, path: str) -> None:
        assert getattr(command, "help", None), path
        for name, member in getattr(command, "commands", {}).items():
            check(member, f"{path} {name}")

    check(get_command(app), "msmq")
