"""How commands find the queue manager, what they say when they cannot, and the completion of names."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from msmq.cli import app
from msmq.cli.calls import Server, confirm, fail, with_options
from tests.cli.support import Live


def invoke(*arguments: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), env=environment, prog_name="msmq")
    return result.exit_code, result.stderr


def test_nobody_is_there(tmp_path: Path) -> None:
    code, said = invoke("--server", f"unix:{tmp_path}/none", "queue", "list")
    assert code == 4
    assert said.count("\n") == 1
    assert said.startswith("msmq queue list: There is no socket")
    assert "msmq serve" in said


def test_nobody_answers() -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{door.getsockname()[1]}"
        code, said = invoke("--server", address, "--connect-timeout", "0.3", "manager", "show")
    assert (code, said.count("\n")) == (4, 1)
    assert address in said


def test_the_environment_names_the_server(live: Live) -> None:
    assert invoke("manager", "show", MSMQ_SERVER=live.socket) == (0, "")
    code, _ = invoke("manager", "show", MSMQ_SERVER="unix:/nonexistent")
    assert code == 4
    assert invoke("--server", live.socket, "manager", "show", MSMQ_SERVER="unix:/nonexistent") == (0, "")


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    code, said = invoke("--server", "tls:127.0.0.1:1", "--tls-ca", str(tmp_path / "none"), "manager", "show")
    assert (code, said.count("\n")) == (1, 1)
    assert "No such file" in said


def test_an_interrupt_is_one_line(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x")
    process = subprocess.Popen(
        [sys.executable, "-m", "msmq", "--server", live.socket, "follow", queue],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, b"msmq follow: interrupted\n")


def complete(live: Live, words: str) -> list[str]:
    environment = {**os.environ, "MSMQ_SERVER": live.socket, "_MSMQ_COMPLETE": "complete_zsh"}
    environment["_TYPER_COMPLETE_ARGS"] = words
    program = "from msmq.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    return done.stdout.splitlines()


def test_the_shell_completes_commands_and_queues(live: Live) -> None:
    live.good("queue", "create", ".\\private$\\completed")
    assert any("dead-letter" in line for line in complete(live, "msmq dead"))
    # Completion gives up after two seconds, which a busy machine may need to connect.
    tries = (complete(live, "msmq peek '.\\private$\\compl") for _ in range(10))
    assert any("completed" in line for lines in tries for line in lines)
    assert not any("completed" in line for line in complete(live, "msmq peek '.\\private$\\x"))


def test_completion_is_silent_when_nobody_answers() -> None:
    context = typer.Context(typer.main.get_command(app))
    context.params["server"] = "unix:/nonexistent"
    from msmq.cli.calls import complete_queue

    assert complete_queue(context, "") == []


def test_failing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    context = typer.Context(typer.main.get_command(app), info_name="msmq")
    with pytest.raises(typer.Exit) as ended:
        fail(context, "two\nlines", 7)
    assert ended.value.exit_code == 7
    assert capsys.readouterr().err == "msmq: two lines\n"
    confirm(context, "Really?", yes=True)


def test_what_stands_before_the_command() -> None:
    connection = Server("127.0.0.1:1", "secret", timeout_s=1).connection()
    assert connection.address == "127.0.0.1:1"


def test_names_as_dotnet_writes_them_are_taken_by_every_command(live: Live, tmp_path: Path) -> None:
    """``FormatName:`` in front of a format name, wherever a queue is named."""
    short, other = live.queue(), live.queue()
    queue, target = (f"FormatName:DIRECT=OS:.{name[1:]}" for name in (short, other))
    file = str(tmp_path / "exported")
    sent = live.object(
        *("send", queue, "--body", "one", "--response-queue", queue, "--admin-queue", target),
        *("--acknowledge", "full-reach-queue"),
    )
    assert sent["lookup_id"]
    shown = live.object("peek", queue)
    assert shown["response_queue"].endswith(short[1:])
    live.good("message", "show", queue, shown["lookup_id_text"])
    live.good("queue", "show", queue)
    live.good("queue", "locate", queue)
    live.good("queue", "properties", queue)
    live.good("queue", "set", queue, "--label", "named")
    live.good("queue", "acl", "show", queue)
    live.good("queue", "acl", "set", queue, "--allow", "EVERYONE=full")
    live.good("export", queue, file)
    live.good("import", target, file)
    live.good("move", queue, f"{queue};kept", "--all")
    live.good("move", f"{queue};kept", target, "--all")
    assert live.object("receive", target, "--id", str(live.objects("peek", target, "--all")[0]["lookup_id"]))
    live.good("queue", "purge", target, "--yes")
    away = "FormatName:DIRECT=TCP:127.0.0.9\\private$\\away"
    live.good("send", away, "--body", "x")
    for command in ("pause", "resume"):
        live.good("outgoing", command, away)
    live.good("outgoing", "purge", away, "--yes")
    live.good("queue", "delete", queue, "--yes")
    assert "create the queue" in live.bad("queue", "show", short)


def test_commands_share_groups_of_options() -> None:
    def size(
        ctx: typer.Context, width: int = 1, height: Annotated[int, typer.Option()] = 2
    ) -> tuple[int, int]:
        assert ctx.command_path
        return width, height

    @with_options(size=size)
    def draw(ctx: typer.Context, what: str, size: Any = None, colour: str = "red") -> None:
        print(what, size, colour)

    drawing = typer.Typer()
    drawing.command()(draw)
    run = CliRunner().invoke
    assert run(drawing, ["box", "--height", "5"]).stdout == "box (1, 5) red\n"
    options = re.findall(r"--(\w+)", run(drawing, ["--help"]).stdout)
    assert [each for each in options if each in ("width", "height", "colour")] == [
        "width",
        "height",
        "colour",
    ]
