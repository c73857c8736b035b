"""``msmq user`` as an operator runs it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.rpc.accounts import AccountFile
from msmq.rpc.ntlm import nt_hash_of


def run(*arguments: object, password: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, ["user", *map(str, arguments)], input=password + "\n")
    return result.exit_code, result.output


def test_an_account_from_beginning_to_end(tmp_path: Path) -> None:
    file = tmp_path / "users"
    status, told = run("add", file, "alice", "--group", "BUILTIN_ADMINISTRATORS", password="first")
    assert status == 0
    name, sid = told.split()
    assert (name, sid.startswith("S-1-5-21-"), sid.endswith("-1001")) == ("alice", True, True)
    assert run("add", file, "bob", "--group", "S-1-5-21-1-2-3-4", password="other")[0] == 0
    assert run("list", file)[1].splitlines() == [
        f"alice {sid} S-1-5-32-544",
        f"bob {sid[:-4]}1002 S-1-5-21-1-2-3-4",
    ]
    first = json.loads(run("list", file, "--json")[1].splitlines()[0])
    assert first == {"name": "alice", "sid": sid, "groups": ["S-1-5-32-544"]}
    assert AccountFile(file).find("ALICE").nt_hash == nt_hash_of("first")  # type: ignore[union-attr]
    assert run("password", file, "alice", password="second")[0] == 0
    assert AccountFile(file).find("alice").nt_hash == nt_hash_of("second")  # type: ignore[union-attr]
    assert run("remove", file, "alice")[0] == 0
    assert [line.split()[0] for line in run("list", file)[1].splitlines()] == ["bob"]
    for path in (file, tmp_path / "users.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "password"),
    [
        (("add", "bob"), ""),
        (("add", "alice"), "again"),
        (("add", "a/b"), "x"),
        (("add", "bob", "--group", "nobody knows"), "x"),
        (("remove", "carol"), ""),
        (("password", "carol"), "x"),
        (("password", "alice"), ""),
    ],
    ids=["no password", "there already", "bad name", "bad group", "unknown", "unknown too", "empty"],
)
def test_what_is_refused(tmp_path: Path, arguments: tuple[str, ...], password: str) -> None:
    file = tmp_path / "users"
    run("add", file, "alice", password="first")
    before = file.read_bytes()
    command, *rest = arguments
    status, told = run(command, file, *rest, password=password)
    assert status == 1
    assert "msmq user:" in told
    assert file.read_bytes() == before


def test_files_that_others_can_read_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "users"
    run("add", file, "alice", password="first")
    file.chmod(0o644)
    status, told = run("list", file)
    assert status == 1
    assert "chmod 600" in told
