"""A driver that is killed at every phase of a batch, and the queue manager too: every message arrives exactly once,
and none is removed before its batch is committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.spark.support import LEDGER, ORDERS, Server, environment, eventually

EVERYTHING = [f"order {number}" for number in range(200)]
PHASES = {"claimed": "msmq-claims/*", "committed": "commits/1", "settled": "commits/3"}
"""The file that tells that a driver got there."""


def start(server: Server, checkpoint: Path) -> subprocess.Popen[bytes]:
    """A driver with its own process group, so that its JVM can be killed with it."""
    command = [sys.executable, "-m", "tests.spark.driver", server.address, str(checkpoint)]
    return subprocess.Popen(command, env=environment(), start_new_session=True, stderr=subprocess.DEVNULL)


def kill(driver: subprocess.Popen[bytes]) -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def nothing_is_lost(server: Server) -> None:
    assert sorted({*server.bodies(ORDERS), *server.bodies(LEDGER)}) == sorted(EVERYTHING)
    moved = server.bodies(LEDGER)
    assert len(moved) == len(set(moved)), "twice"


def test_every_message_arrives_exactly_once(server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    for priority in range(8):
        server.send(EVERYTHING[priority::8], priority=priority)
    checkpoint = tmp_path / "checkpoint"
    for pattern in PHASES.values():
        driver = start(server, checkpoint)
        eventually(lambda p=pattern, d=driver: d.poll() is not None or any(checkpoint.glob(p)), 120)  # type: ignore[misc]
        kill(driver)
        nothing_is_lost(server)
    driver = start(server, checkpoint)
    eventually(lambda: driver.poll() is not None or len(server.bodies(LEDGER)) > 120, 120)
    server.kill()  # in the midst of it; the driver waits for it, or fails
    time.sleep(0.5)
    server.start()
    if driver.wait(timeout=120):
        driver = start(server, checkpoint)
        assert driver.wait(timeout=120) == 0
    eventually(lambda: not server.bodies(ORDERS))
    nothing_is_lost(server)
    assert not list(checkpoint.glob("msmq-claims/*"))
