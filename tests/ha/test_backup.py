"""The database's own backups are the backups: the page on high availability, walked."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msmq
from msmq.errors import IoTimeoutError
from tests.ha.postgres import HOST, Server, free_port, give_away, new_server, programs, run, scratch
from tests.ha.processes import LASTING, Process
from tests.ha.support import expire, until

QUEUE = ".\\private$\\orders"
_PATIENT_S = 120.0


async def _send(manager: Process, numbers: Sequence[int]) -> None:
    async with msmq.connect(f"unix:{manager.socket}", timeout=_PATIENT_S) as mq:
        await mq.queue(QUEUE).send_many([msmq.Message(str(number).encode()) for number in numbers])


def _restored(backup: Path, archive: Path, moment: str) -> Server:
    """A server that is as the one before was at a moment."""
    server = Server(backup, free_port())
    server.configure(
        restore_command=f"cp {archive}/%f %p",
        recovery_target_time=moment,
        recovery_target_action="promote",
        archive_mode="off",
    )
    (backup / "recovery.signal").touch()
    give_away(backup / "recovery.signal")
    server.start()
    end = time.monotonic() + _PATIENT_S
    while server.sql("SELECT pg_is_in_recovery()") != "f":
        assert time.monotonic() < end, "the restored server is not promoted"
        time.sleep(0.1)
    return server


@asynccontextmanager
async def _running(manager: Process) -> AsyncIterator[None]:
    """Stopped in the end, whatever happens."""
    await manager.start()
    try:
        yield
        await manager.stop()
    finally:
        manager.signal(signal.SIGKILL)
        await manager.process.wait()


async def test_a_moment_comes_back_from_a_backup_and_archived_log(tmp_path: Path) -> None:
    with scratch() as directory:
        archive, backup = directory / "archive", directory / "backup"
        archive.mkdir()
        give_away(archive)
        with new_server(archive_mode="on", archive_command=f"cp %p {archive}/%f") as server:
            manager = Process(tmp_path, "a", server.address(), "msmq", settings=LASTING)
            async with _running(manager):
                await manager.says("ready")
                async with msmq.connect(f"unix:{manager.socket}", timeout=_PATIENT_S) as mq:
                    await mq.create_queue(QUEUE)
                await _send(manager, range(40))
                where = ("-h", HOST, "-p", server.port, "-U", "postgres")
                run(programs() / "pg_basebackup", "-c", "fast", *where, "-D", backup)
                await _send(manager, range(40, 80))
                moment = server.sql("SELECT clock_timestamp()")
                await _send(manager, range(80, 100))  # what somebody regrets
                server.sql("SELECT pg_switch_wal()")
        # The server is gone with its disk.
        restored = _restored(backup, archive, moment)
        try:
            manager = Process(tmp_path, "a", restored.address(), "msmq", settings=LASTING)
            known, log = tmp_path / "a" / "ha" / "known.json", tmp_path / "a.log"
            assert json.loads(known.read_text())["acknowledged"]
            # It has seen more confirmed than this database has, and does not go on as if nothing were missing.
            async with _running(manager):
                await until(lambda: "a replica that was behind was promoted" in log.read_text(), _PATIENT_S)
            known.unlink()
            expire(restored, "msmq")  # at that moment somebody led
            async with _running(manager):
                await manager.says("ready")
                assert await _received(manager) == list(range(80))
        finally:
            restored.stop()


async def _received(manager: Process) -> list[int]:
    """The numbers of all messages that are there."""
    found = []
    async with msmq.connect(f"unix:{manager.socket}", timeout=_PATIENT_S) as mq:
        with suppress(IoTimeoutError):
            while True:
                found.append(int((await mq.queue(QUEUE).receive(timeout=0)).body))
    return found
