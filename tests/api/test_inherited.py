"""Sockets of the service manager, from a real one that opens them: ``systemd-socket-activate``."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import msmq
from msmq.api import inherited
from tests.server.support import ALICE, BOB, Peer, free_port, name_of

PATIENCE_S = 60.0


def environment(**more: object) -> dict[str, str]:
    return {name: str(value) for name, value in more.items()}


def test_they_are_for_the_process_that_is_named() -> None:
    assert not inherited.are_there(environment(LISTEN_FDS=1))
    assert not inherited.are_there(environment(LISTEN_FDS=1, LISTEN_PID=os.getpid() + 1))
    assert not inherited.are_there(environment(LISTEN_FDS="many", LISTEN_PID=os.getpid()))
    assert inherited.are_there(environment(LISTEN_FDS=1, LISTEN_PID=os.getpid()))


def test_a_door_takes_those_with_its_address(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    program = """
import os, sys
from pathlib import Path
from msmq.api import inherited
os.environ["LISTEN_PID"] = str(os.getpid())
port, path = int(sys.argv[1]), Path(sys.argv[2])
print(*(len(inherited.tcp_sockets(each)) for each in (port, port + 1)))
print(*(inherited.is_at(each) for each in (path, path.parent)))
"""
    with closing(socket.socket()) as tcp, closing(socket.socket(socket.AF_UNIX)) as unix:
        tcp.bind((ALICE, 0))
        unix.bind(str(path))
        for each in (tcp, unix):
            each.listen()
        port = tcp.getsockname()[1]
        command = f'exec 3<&{tcp.fileno()} 4<&{unix.fileno()}; exec "$@"'
        told = subprocess.run(
            ["bash", "-c", command, "sh", sys.executable, "-c", program, str(port), str(path)],
            pass_fds=(tcp.fileno(), unix.fileno()),
            env={**os.environ, "LISTEN_FDS": "2"},
            check=True,
            capture_output=True,
            text=True,
        )
    assert told.stdout.split() == ["1", "0", "True", "False"]


@contextmanager
def activated(tmp_path: Path, port: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """``msmq serve`` behind sockets that somebody else opened; it starts when the first connection comes."""
    path = tmp_path / "api.sock"
    command = ["systemd-socket-activate", "-l", f"{BOB}:{port}", "-l", str(path)]
    command += [f"--setenv={name}" for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ]
    serve = ["-m", "msmq", "serve", "--data", str(tmp_path / "data"), "--name", "BOB", "--ping-port", "0"]
    serve += ["--rpc-port", "0", "--listen", BOB, "--port", str(port), "--api", f"unix:{path}", *more]
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen([*command, sys.executable, *serve], stdout=subprocess.PIPE, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def _knock(path: Path) -> socket.socket:
    """The first connection; the socket has a name before anybody listens on it."""
    knock = socket.socket(socket.AF_UNIX)
    async with asyncio.timeout(PATIENCE_S):
        while knock.connect_ex(str(path)):
            await asyncio.sleep(0.02)
    return knock


async def test_a_queue_manager_takes_them(tmp_path: Path) -> None:
    """Applications and other hosts are served by sockets that were there before it, and that stay when it stops."""
    port, path = free_port(), tmp_path / "api.sock"
    with activated(tmp_path, port) as process:
        (await _knock(path)).close()
        async with msmq.connect(f"unix:{path}", timeout=PATIENCE_S) as mq:
            await mq.create_queue(".\\private$\\orders")
            peer = Peer(bytes(range(16)))
            await peer.connect(BOB, port, source=ALICE)
            peer.send(peer.message(b"one", name_of(BOB, "orders").removeprefix("DIRECT=")))
            assert (await mq.queue(".\\private$\\orders").receive(timeout=PATIENCE_S)).body == b"one"
            await peer.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
        assert path.exists()  # it was not ours to remove


async def test_an_instance_that_may_wait_refuses_them(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "api.sock"
    store = "postgresql://nobody@127.0.0.1:1/none"
    with activated(tmp_path, port, "--store", store) as process, closing(await _knock(path)):
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 2
    assert "without a socket unit" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("unit", ["msmq.service", "msmq.socket"])
def test_the_units_are_well_formed(unit: str) -> None:
    file = Path(__file__).resolve().parents[2] / "packaging" / "systemd" / unit
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], check=False, capture_output=True, text=True
    )
    complaints = [line for line in done.stderr.splitlines() if unit in line and "/usr/bin/msmq" not in line]
    assert complaints == []
