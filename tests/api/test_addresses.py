"""Where the channel is when nobody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from msmq.api import addresses


def test_the_socket_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert addresses.usual_address() == f"unix:{tmp_path}/msmq/api.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert addresses.usual_address() == f"unix:{tmp_path}/.msmq/api.sock"
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert addresses.usual_address() == f"unix:{tmp_path}/api.sock"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert addresses.own_socket() == addresses.SYSTEM_SOCKET


def test_what_a_client_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    system = tmp_path / "system"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(addresses, "SYSTEM_SOCKET", system)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("MSMQ_SERVER", "127.0.0.1:9")
    assert addresses.server_address("unix:/x") == "unix:/x"
    assert addresses.server_address() == "127.0.0.1:9"
    monkeypatch.delenv("MSMQ_SERVER")
    own = tmp_path / "msmq" / "api.sock"
    assert addresses.server_address() == f"unix:{own}"
    system.touch()
    assert addresses.server_address() == f"unix:{system}"
    own.parent.mkdir()
    own.touch()
    assert addresses.server_address() == f"unix:{own}"
