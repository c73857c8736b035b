"""A driver that is killed at every phase of a batch, and the queue manager too: every message arrives exactly once,
and none is removed before its batch is committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.spark.support import LEDGER, ORDERS, Server, environment, eventually

EVERYTHING = [f"order {number}" for number in range(100)]
PHASES = {"claimed": "msmq-claims/*", "committed": "commits/1"}
"""The file that tells that a driver got there."""


@contextmanager
def driving(server: Server, checkpoint: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver that is killed at the end of the block, with its JVM, which is why it has a process group of its own."""
    command = [sys.executable, "-m", "tests.spark.driver", server.address, str(checkpoint)]
    driver = subprocess.Popen(command, env=environment(), start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
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
        with driving(server, checkpoint) as driver:
            eventually(lambda p=pattern, d=driver: d.poll() is not None or any(checkpoint.glob(p)), 240)  # type: ignore[misc]
        nothing_is_lost(server)
    with driving(server, checkpoint) as driver:
        eventually(lambda: driver.poll() is not None or len(server.bodies(LEDGER)) >= 75, 240)
        server.kill()  # in the midst of it: the driver waits for it, or fails
        server.start()
        failed = driver.wait(timeout=240)
    if failed:
        nothing_is_lost(server)
        with driving(server, checkpoint) as driver:
            assert driver.wait(timeout=240) == 0
    eventually(lambda: not server.bodies(ORDERS))
    nothing_is_lost(server)
    assert not list(checkpoint.glob("msmq-claims/*"))
