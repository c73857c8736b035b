"""The command around its commands: quick to start, and a version."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text

from msmq import __version__
from msmq.cli import app


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, check=False, text=True)


def test_version() -> None:
    process = run("-m", "msmq", "--version")
    assert (process.returncode, process.stdout) == (0, f"msmq {__version__}\n")


def test_help_lists_the_commands() -> None:
    process = run("-m", "msmq", "--help")
    assert process.returncode == 0
    assert "decode" in process.stdout
    assert run("-m", "msmq", "decode", "-h").stdout == run("-m", "msmq", "decode", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-command"], "msmq: No such command 'no-such-command'. See msmq --help."),
        (["--no-such-option"], "msmq: No such option: --no-such-option"),
        (["decode", "--port", "0"], "msmq decode: Invalid value for '--port'"),
        (
            ["queue", "acl", "show"],
            "msmq queue acl show: Missing argument 'QUEUE'. See msmq queue acl show --help.",
        ),
        (["receive", "q", "--count", "many"], "msmq receive: Invalid value for '--count'"),
    ],
    ids=["command", "option", "bound", "missing", "type"],
)
def test_wrong_use_is_status_2_and_one_line(arguments: list[str], says: str) -> None:
    process = run("-m", "msmq", *arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith(says)
    assert process.stderr.count("\n") == 1


def test_a_group_without_a_command_shows_its_help() -> None:
    process = run("-m", "msmq", "queue")
    assert process.returncode == 2
    assert "purge" in process.stdout + process.stderr
    assert "NoArgs" not in process.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["decode", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom msmq.cli import main\n"
        f"sys.argv = ['msmq', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'dpkt', 'cryptography', 'asyncio', 'http'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & heavy))\n"
        "print('msmq.wire.message' in sys.modules)"
    )
    assert run("-c", program).stdout.splitlines()[-2:] == ["[]", "False"]


def test_help_shows_every_word() -> None:
    """Names in square brackets would be taken for markup and vanish."""
    shown = dict(_helps("msmq", typer.main.get_command(app)))
    assert "listen of \\[api]" in shown["msmq serve"]
    for command, text in shown.items():
        assert Text.from_markup(text).plain == text.replace("\\[", "["), command
    assert "[api]" in run("-m", "msmq", "serve", "--help").stdout


def _helps(path: str, command: Any) -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for parameter in command.params:
        yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _helps(f"{path} {name}", inner)
