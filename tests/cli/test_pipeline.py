"""``msmq pipeline``: what it says about itself; the work is tested with tests/spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from msmq.cli import app


@pytest.mark.parametrize("command", ["archive", "replay", "report", "decode"])
def test_help(command: str) -> None:
    done = CliRunner().invoke(app, ["pipeline", command, "--help"])
    assert done.exit_code == 0
    assert "--master" in done.output


def test_the_commands_are_listed() -> None:
    done = CliRunner().invoke(app, ["pipeline", "--help"])
    for command in ("archive", "replay", "report", "decode"):
        assert command in done.output
