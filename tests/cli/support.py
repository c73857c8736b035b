"""A queue manager in a process of its own, and the command line in this one."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from msmq.cli import app
from tests import ready
from tests.server.support import ALICE, free_port

QUICK = "[timers]\nsession_retry_connect_ms = 100\norder_ack_timeout_ms = 50\n"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Live:
    """A queue manager that runs. One serves all tests of a run, so each test has queues of its own."""

    def __init__(self, directory: Path, address: str, port: int) -> None:
        self.directory = directory
        self.socket = f"unix:{directory / 's'}"
        self.address = address
        self.port = port
        self._numbers = count(1)

    def queue(self, *options: str) -> str:
        """A new queue."""
        name = f".\\private$\\q{next(self._numbers)}"
        self.good("queue", "create", name, *options)
        return name

    def run(self, *arguments: str, given: str | bytes | None = None) -> Result:
        """One command."""
        result = CliRunner().invoke(app, ["--server", self.socket, *arguments], input=given, prog_name="msmq")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Result(result.exit_code, result.stdout, result.stderr)

    def good(self, *arguments: str, given: str | bytes | None = None) -> str:
        """What a command prints that must do its work."""
        result = self.run(*arguments, given=given)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def objects(self, *arguments: str, given: str | bytes | None = None) -> list[dict[str, Any]]:
        """What it prints with --json."""
        return [json.loads(line) for line in self.good(*arguments, "--json", given=given).splitlines()]

    def object(self, *arguments: str, given: str | bytes | None = None) -> dict[str, Any]:
        (found,) = self.objects(*arguments, given=given)
        return found

    def bad(self, *arguments: str, code: int = 1, given: str | bytes | None = None) -> str:
        """The one line of a command that must fail."""
        result = self.run(*arguments, given=given)
        assert result.code == code, result
        assert result.err.endswith("\n")
        assert result.err.count("\n") == 1, result.err
        return result.err

    def bodies(self, queue: str) -> list[str]:
        """What is in a queue."""
        result = self.run("peek", queue, "--all", "--json")
        return [json.loads(line)["body"] for line in result.out.splitlines()]


@contextmanager
def serving(
    directory: Path, address: str = ALICE, name: str = "HOST", port: int = 0, api: str = ""
) -> Iterator[Live]:
    """A queue manager, until the end of the block; ``api`` is the table of its channel, instead of the socket."""
    directory.mkdir(parents=True, exist_ok=True)
    live = Live(directory, address, port or free_port())
    config = directory / "quick.toml"
    config.write_text(QUICK + textwrap.dedent(api))
    command = ["serve", "--data", str(directory / "data"), "--name", name]
    command += ["--listen", address, "--port", str(live.port), "--ping-port", "0"]
    command += [] if api else ["--api", live.socket]
    command += ["--config", str(config)]
    with (directory / "log").open("wb") as log:
        process = ready.start("msmq", *command, stderr=log)
    with process:
        try:
            line = process.stdout.readline()
            assert line.startswith(b"ready"), (directory / "log").read_text()
            yield live
        finally:
            process.terminate()
            assert process.wait(120) == 0
