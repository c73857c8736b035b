"""Instances without a queue manager, for tests of what they do with the database."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from msmq.ha.cache import Cache
from msmq.ha.database import Database
from msmq.ha.disk import ReplicatedDisk
from msmq.ha.leadership import Leadership
from msmq.ha.log import Row, SharedLog
from msmq.ha.settings import HaSettings
from msmq.ha.standby import Standby
from msmq.ha.worker import Worker
from msmq.store import Answered, RealDisk, StoreError
from tests.ha.postgres import DATABASE, Server

T = TypeVar("T")
QUICK = {"lease_ms": 60_000, "renew_ms": 100, "poll_ms": 20}
"""A busy computer does not lose a lease by being slow; :func:`expire` ends one."""
PATIENT_S = 60.0


class Log:
    """A shared log that is only a list."""

    where = "a list"

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.dropped: list[int] = []
        self.failure: StoreError | None = None
        self.held: list[Answered] | None = None
        """Who waits for an answer, if it is left to the test to give them."""

    def send(self, rows: list[Row], answered: Answered) -> None:
        if self.failure is None:
            self.batches.append(list(rows))
        if self.held is None:
            answered(self.failure)
        else:
            self.held.append(answered)

    def wait(self) -> None:
        """Everything is answered at once."""

    def drop(self, segment: int) -> None:
        self.dropped.append(segment)


def append(log: SharedLog, rows: list[Row]) -> None:
    """Send rows and wait for the answer."""
    answers: list[StoreError | None] = []
    log.send(rows, answers.append)
    log.wait()
    (error,) = answers
    if error is not None:
        raise error


class Member:
    """One instance."""

    def __init__(self, server: Server | str, directory: Path, schema: str, name: str) -> None:
        address = server if isinstance(server, str) else server.address()
        self.settings = HaSettings(address, name, schema, **QUICK)  # type: ignore[arg-type]
        self.directory = directory / name
        self.directory.mkdir(exist_ok=True)
        self.worker = Worker()
        self.database = Database(address, schema, PATIENT_S)
        self.local = RealDisk(self.directory / "cache")
        self.cache = Cache(self.local)
        self.standby = Standby(self.worker, self.database, self.settings, self.cache, self.directory)
        self.leadership: Leadership | None = None

    def with_lease(self, lease_ms: int) -> None:
        """Wait so long for whoever leads, or lead without a renewal. Instances begin with a lease that lasts however
        busy the computer is."""
        self.settings = self.standby._settings = replace(self.settings, lease_ms=lease_ms)
        if self.leadership is not None:
            self.leadership._settings = self.settings
            self.leadership._writer._lease_s = lease_ms / 1000

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.worker.begin(work).result(PATIENT_S)

    def prepare(self) -> Member:
        self.do(self.database.prepare("ORDERS"))
        return self

    def lead(self) -> ReplicatedDisk:
        if self.leadership is not None:
            self.leadership.close()
        self.leadership = self.do(self.standby.lead())
        return ReplicatedDisk(self.local, self.leadership)

    def follow(self) -> None:
        """Until it has everything, without leading."""

        async def catch_up() -> None:
            connection = await self.database.connect()
            try:
                self.standby.is_current = False
                while not self.standby.is_current:
                    await self.standby._follow(connection)
            finally:
                connection.terminate()

        self.do(catch_up())
        self.cache.close()

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.local.path.iterdir() if path.name != "LOCK"}

    def stop(self) -> None:
        self.worker.loop.call_soon_threadsafe(self.standby.leave)
        if self.leadership is not None:
            self.leadership.lose("the test ends")
        self.worker.stop()
        if self.leadership is not None:
            self.leadership.close()


@contextmanager
def members(server: Server | str, directory: Path, *names: str) -> Iterator[list[Member]]:
    """Instances of one queue manager with tables of its own."""
    schema = f"t{uuid.uuid4().hex[:12]}"
    made = [Member(server, directory, schema, name) for name in names]
    try:
        yield [member.prepare() for member in made]
    finally:
        for member in made:
            member.stop()


def expire(server: Server, schema: str) -> None:
    """Let the lease run out now, for everybody."""
    server.sql(f"UPDATE {schema}.lease SET until = clock_timestamp(), handover = ''", database=DATABASE)


async def until(condition: Any, seconds: float = PATIENT_S) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)
