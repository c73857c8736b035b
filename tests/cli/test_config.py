"""``msmq config``."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from msmq.cli import app
from msmq.server.config import Config, load

runner = CliRunner()


def test_the_defaults_are_a_file(tmp_path: Path) -> None:
    result = runner.invoke(app, ["config", "show", "--defaults"])
    assert result.exit_code == 0
    file = tmp_path / "msmq.toml"
    file.write_text(result.stdout.replace("port = 1801", "port = 1802"))
    assert load(file).port == 1802
    assert load(file).timers == Config().timers
    shown = runner.invoke(app, ["config", "show", "--config", str(file)])
    assert "\nport = 1802\n" in shown.stdout


def test_for_programs() -> None:
    shown = json.loads(runner.invoke(app, ["config", "show", "--json"]).stdout)
    assert shown["port"] == 1801
    assert shown["timers"]["session_retry_connect_ms"] == 5000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = runner.invoke(app, ["config", "show", "--config", str(tmp_path / "none.toml")])
    assert result.exit_code == 2
    assert "none.toml" in result.stderr
