"""The service manager hears how far the daemon is."""

from __future__ import annotations

import asyncio
import configparser
import os
import signal
import socket
from pathlib import Path
from uuid import uuid4

import pytest

from msmq.server.readiness import notify, patience
from tests.server.support import ALICE, PATIENCE_S, free_port
from tests.server.test_daemon_processes import Process

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "msmq.service"


def test_without_a_service_manager_nothing_is_said(tmp_path: Path) -> None:
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": "somewhere"})
    assert not notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "gone")})


@pytest.mark.parametrize("abstract", [False, True])
def test_a_datagram_for_each_state(tmp_path: Path, abstract: bool) -> None:
    name = f"@msmq-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        assert notify("READY=1", {"NOTIFY_SOCKET": name})
        assert manager.recv(100) == b"READY=1"


async def test_who_waits_asks_for_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        async with patience(0.001):
            for _ in range(2):
                said = await asyncio.to_thread(manager.recv, 100)
                assert said == b"EXTEND_TIMEOUT_USEC=60000000"


async def test_a_daemon_says_ready_reloads_and_says_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon = Process(tmp_path, "ALICE", ALICE, free_port())
        await daemon.start()
        assert manager.recv(100) == b"READY=1"
        log = tmp_path / "ALICE.log"
        configuration = tmp_path / "quick.toml"
        configuration.write_text('log_level = "debug"\nlog_format = "json"\nwindow_size = 7\n')
        daemon.process.send_signal(signal.SIGHUP)
        await written(
            log, b'"message": "configuration read again; only a restart changes window_size, timers"'
        )
        configuration.write_text("log_level = 5\n")
        daemon.process.send_signal(signal.SIGHUP)
        await written(log, b"the configuration stays as it was")
        await daemon.stop()
        assert manager.recv(100) == b"STOPPING=1"


async def test_the_directory_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "enterprise.toml"
    host = '[[hosts]]\nname = "ALICE"\n'
    file.write_text(host)

    directory = '[directory]\nfile = "enterprise.toml"\n'
    daemon = Process(tmp_path, "ALICE", ALICE, free_port(), config=directory)
    await daemon.start()
    log = tmp_path / "ALICE.log"
    file.write_text(host + "sites = 5\n")
    daemon.process.send_signal(signal.SIGHUP)
    await written(log, b"the configuration stays as it was: " + str(file).encode())
    file.write_text(host + f'guid = "{uuid4()}"\n')
    daemon.process.send_signal(signal.SIGHUP)
    await written(log, b"gives ALICE another GUID")
    file.write_text(host + '[[hosts]]\nname = "BOB"\n')
    daemon.process.send_signal(signal.SIGHUP)
    await written(log, b"configuration read again")
    await daemon.stop()


async def written(log: Path, text: bytes) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while text not in log.read_bytes():
            await asyncio.sleep(0.05)


def test_the_unit_starts_what_there_is() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert service["Type"] == "notify"
    command = service["ExecStart"].split()
    assert command[1:3] == ["serve", "--data"]
    assert command[3] == f"/var/lib/{service['StateDirectory']}"
    assert "kill -HUP $$MAINPID" in service["ExecReload"], "the shell's own, which every system has"
    assert service["Restart"] == "on-failure"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0", "it tries again for as long as it takes"
