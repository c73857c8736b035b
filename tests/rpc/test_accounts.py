"""The account file: what is in it, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msmq.rpc.accounts import AccountFile, AccountsError
from msmq.rpc.ntlm import nt_hash_of
from msmq.security.sid import ADMINISTRATORS, AUTHENTICATED_USERS, EVERYONE


def filled(directory: Path) -> AccountFile:
    file = AccountFile(directory / "users")
    file.add("Alice", "same", [ADMINISTRATORS])
    file.add("bob", "same")
    return file


def test_an_account_gives_a_token(tmp_path: Path) -> None:
    file = filled(tmp_path)
    account = file.find("aLICE")
    assert account is not None
    assert account.name == "Alice"
    assert account.nt_hash == nt_hash_of("same")
    assert {ADMINISTRATORS, EVERYONE, AUTHENTICATED_USERS} <= account.token.groups
    assert file.find("carol") is None
    assert AccountFile(tmp_path / "none").find("alice") is None


def test_the_file_alone_tells_nothing(tmp_path: Path) -> None:
    file = filled(tmp_path)
    text = file.path.read_text()
    assert nt_hash_of("same").hex() not in text
    secrets = [entry["secret"] for entry in json.loads(text)["accounts"]]
    assert len(set(secrets)) == 2
    file.key_path.unlink()
    with pytest.raises(AccountsError, match="missing"):
        file.find("alice")


def test_a_secret_belongs_to_its_account(tmp_path: Path) -> None:
    file = filled(tmp_path)
    content = json.loads(file.path.read_text())
    one, two = content["accounts"]
    one["secret"], two["secret"] = two["secret"], one["secret"]
    file.path.write_text(json.dumps(content))
    with pytest.raises(AccountsError, match="does not open"):
        AccountFile(file.path).find("alice")


@pytest.mark.parametrize("which", ["users", "users.key"])
def test_both_files_are_for_their_owner_alone(tmp_path: Path, which: str) -> None:
    file = filled(tmp_path)
    (tmp_path / which).chmod(0o640)
    with pytest.raises(AccountsError, match="chmod 600"):
        AccountFile(file.path).find("alice")


def test_a_change_is_seen_by_those_who_have_the_file_open(tmp_path: Path) -> None:
    writer = filled(tmp_path)
    reader = AccountFile(writer.path)
    assert reader.find("bob") is not None
    writer.remove("bob")
    assert reader.find("bob") is None
    writer.set_password("alice", "new")
    assert reader.find("alice").nt_hash == nt_hash_of("new")  # type: ignore[union-attr]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["users", "users.key"]


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2}', '{"format": 1, "machine_sid": "x", "accounts": []}', "[1]"]
)
def test_a_broken_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    file = filled(tmp_path)
    file.path.write_text(text)
    with pytest.raises(AccountsError):
        AccountFile(file.path).find("alice")


@pytest.mark.parametrize("name", ["", " a", "a\\b", "a@b", "a" * 65, "a\n"])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(AccountsError):
        AccountFile(tmp_path / "users").add(name, "x")
