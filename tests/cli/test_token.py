"""``msmq token`` with ``msmq queue acl``: who may do what, without a file being edited."""

from __future__ import annotations

import grp
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from tests.cli.support import Live, serving
from tests.server.support import free_port


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Live, str]]:
    """A queue manager at its socket and at a port of TCP."""
    port = free_port()
    api = f'[api]\nlisten = ["unix:{tmp_path / "s"}", "127.0.0.1:{port}"]\n'
    with serving(tmp_path, api=api) as live:
        yield live, f"127.0.0.1:{port}"


def test_who_may_do_what_without_editing_files(both: tuple[Live, str]) -> None:
    live, address = both
    queue = live.queue()

    def remote(token: str, *arguments: str) -> tuple[int, str]:
        given = ["--server", address, "--token", token, *arguments]
        result = CliRunner().invoke(app, given, prog_name="msmq")
        assert result.stderr.count("\n") <= 1
        return result.exit_code, result.stderr

    reports = live.object("token", "create", "reports")
    assert "not shown again" in live.good("token", "create", "second")
    assert remote(reports["token"], "receive", queue, "--timeout", "0")[0] == 1
    live.good("queue", "acl", "set", queue, "--allow", "token:reports=receive,peek")
    live.good("send", queue, "--body", "x")
    assert remote(reports["token"], "receive", queue, "--timeout", "60") == (0, "")
    operators = live.object("token", "create", "operators", "--as", "BUILTIN_ADMINISTRATORS")
    assert remote(operators["token"], "queue", "purge", queue, "--yes") == (0, "")
    live.good("token", "remove", "operators", "--yes")
    status, told = remote(operators["token"], "queue", "list")
    assert status == 1
    assert "msmq token create" in told
    status, told = remote("", "queue", "list")
    assert status == 1
    assert "token" in told
    names = [found["name"] for found in live.objects("token", "list")]
    assert names == ["reports", "second"]
    assert "no token nobody" in live.bad("queue", "acl", "set", queue, "--allow", "token:nobody=send")


def test_groups_of_this_computer(live: Live) -> None:
    queue, group = live.queue(), grp.getgrgid(os.getgid()).gr_name
    live.good("queue", "acl", "set", queue, "--allow", f"group:{group}=full")
    assert f"S-1-22-2-{os.getgid()}" in live.good("queue", "acl", "show", queue)
    assert "no group" in live.bad("queue", "acl", "set", queue, "--allow", "group:no such=full")
