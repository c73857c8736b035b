"""What the commands about a domain have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from msmq.cli.domain import REFUSED, UNUSABLE, joining, refusals
from msmq.directory.join import JoiningError
from msmq.server.config import ConfigError


@pytest.mark.parametrize(
    ("error", "status"),
    [(JoiningError("no"), REFUSED), (OSError("no"), REFUSED), (ConfigError("no"), UNUSABLE)],
)
def test_an_error_is_one_line_and_a_status(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught, refusals():
        raise error
    assert caught.value.exit_code == status
    assert capsys.readouterr().err == "msmq directory: no\n"


def test_a_configuration_without_a_domain(tmp_path: Path) -> None:
    file = tmp_path / "qm.toml"
    file.write_text('name = "QM1"', encoding="utf-8")
    with pytest.raises(ConfigError, match="there is no domain in it"), joining(file, ""):
        pass
