"""``msmq serve``: what it says when it cannot start."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from msmq.cli import app

runner = CliRunner()


def test_a_configuration_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "msmq.toml"
    file.write_text("port = 99999\n")
    result = runner.invoke(app, ["serve", "--config", str(file), "--data", str(tmp_path / "data")])
    assert result.exit_code == 2
    assert "msmq serve: " in result.stderr
    assert "0 to 65535" in result.stderr
    assert not (tmp_path / "data").exists()


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path), "--listen", "192.0.2.1", "--port", "18011"]
    result = runner.invoke(app, ["serve", *options])
    assert result.exit_code == 2
    assert "msmq serve: " in result.stderr
