"""A leader's work with the database: sending rows, renewing the lease, dropping segments.

A leader leads until something is unclear: the lease cannot be renewed in time, a row is not answered in time, the
answer comes with a warning, or the epoch has changed. Then the leadership is *lost* for good: connections are dropped
without a cancel request, since a commit that is cancelled while it waits for other nodes is on one node only and
visible all the same. The next leader finds out what is in the log.

The :class:`~msmq.ha.writer.Writer` sends rows in the thread of the queue manager. The lease is renewed in another
thread, because that one may be busy for seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final

import asyncpg

from msmq.errors.tasks import raise_again
from msmq.ha import schema
from msmq.ha.database import Connection, Database, Lost, goodbye, patience, translated
from msmq.ha.errors import HaError, NotLeaderError
from msmq.ha.log import Row
from msmq.ha.settings import HaSettings
from msmq.ha.worker import Worker
from msmq.ha.writer import Writer
from msmq.store import Answered, StoreFullError

_WATCH_S: Final = 0.05
_DROP_LOCK_MS: Final = 500
_DROP_AGAIN_S: Final = 1.0
_log = logging.getLogger(__name__)


class Leadership:
    """The lead of this instance during one epoch. Its ``async`` methods run in the loop of the worker, those of the
    log in the thread of the queue manager, the others anywhere.

    ``lost`` is called, in the thread that finds out, when the lead ends without :meth:`resign`; ``handover`` is called
    in the worker's thread when an operator asks for another leader.
    """

    def __init__(
        self,
        worker: Worker,
        database: Database,
        settings: HaSettings,
        connection: Connection,
        writer: Writer,
        epoch: int,
    ) -> None:
        """``connection`` is the one on which the epoch was raised; ``writer`` sends under this epoch."""
        self._worker = worker
        self._database = database
        self._settings = settings
        self._writer = writer
        self._renewing: Connection | None = connection
        self._dropping: Connection | None = None
        self.epoch = epoch
        self.failure: NotLeaderError | None = None
        self._failing = Lock()
        self.lost: Callable[[NotLeaderError], None] = lambda failure: None
        self.handover: Callable[[], None] = lambda: None
        self._deadline = time.monotonic() + settings.lease_ms / 1000
        self._turn = asyncio.Lock()
        """Held while the renewing connection is used."""
        self._warning = ""
        self._drops: asyncio.Queue[int | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        connection.add_log_listener(self._warned)
        writer.lose, writer.drop = self.lose, self._drop_soon

    @property
    def where(self) -> str:
        return self._database.where

    @property
    def end(self) -> int:
        """The number of the last confirmed row."""
        return self._writer.end

    @property
    def is_valid(self) -> bool:
        """Whether this instance certainly leads at this moment."""
        return self.failure is None and time.monotonic() < self._deadline

    async def begin(self, sent: float) -> None:
        """Start renewing. The statement that took the lease was sent at ``sent`` of the monotonic clock."""
        self._deadline = sent + self._settings.lease_ms / 1000
        self._tasks = [
            asyncio.create_task(work()) for work in (self._renew, self._watch, self._drop_segments)
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Lose the lead with an internal error: nobody renews the lease any more, or sees that it has run out."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.lose(f"an internal error ({error!r})")
        raise_again(task)

    # --- the log ------------------------------------------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take answers in this loop from now on, without being waited for."""
        self._writer.attach(loop)

    def send(self, rows: list[Row], answered: Answered) -> None:
        """Implement :class:`~msmq.ha.log.SharedLog`."""
        self._writer.send(rows, answered)

    def wait(self) -> None:
        """Implement :class:`~msmq.ha.log.SharedLog`."""
        self._writer.wait()

    def drop(self, segment: int) -> None:
        """Implement :class:`~msmq.ha.log.SharedLog`."""
        self._writer.drop_later(segment)

    def _drop_soon(self, segment: int) -> None:
        if self.failure is None:
            self._worker.loop.call_soon_threadsafe(self._drops.put_nowait, segment)

    def _warned(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Note a warning: with one, PostgreSQL reports success for a commit that no longer waits for other nodes."""
        self._warning = self._warning or str(message)

    # --- segments -----------------------------------------------------------------------------------------------

    async def _drop_segments(self) -> None:
        while (segment := await self._drops.get()) is not None:
            while self.failure is None:
                try:
                    if self._dropping is None:
                        self._dropping = await self._connect()
                    with translated(self.where):
                        await self._drop(self._dropping, segment)
                    break
                except (HaError, StoreFullError) as error:
                    # Somebody reads the table, or the connection broke. Dropping it later does no harm.
                    _log.debug("segment %d is dropped later: %s", segment, error)
                    if self._dropping is not None:
                        self._dropping.terminate()
                    self._dropping = None
                    await asyncio.sleep(_DROP_AGAIN_S)
        if self._dropping is not None:
            self._dropping.terminate()

    async def _drop(self, connection: Connection, segment: int) -> None:
        async with connection.transaction():
            if not await connection.fetchval(self._database.sql(schema.STILL_LEADS), self.epoch):
                raise HaError("another instance leads")
            await connection.execute(f"SET LOCAL lock_timeout = {_DROP_LOCK_MS}")
            await connection.execute(self._database.sql(schema.DROP_SEGMENT, segment=segment))

    async def _connect(self) -> Connection:
        """Connect to the primary, which may be another one by now. If it lacks confirmed rows the lead is lost: a
        lease renewed there would claim that nothing is missing."""
        end = self.end
        connection = await self._database.connect()
        try:
            with translated(self.where):
                async with patience(connection, self._settings.lease_ms / 1000):
                    found = await connection.fetchrow(self._database.sql(schema.VIEW))
            if found["epoch"] != self.epoch:
                self.lose("another instance leads")
            elif found["log_end"] < end:
                self.lose(f"the log there ends with row {found['log_end']}, and row {end} was confirmed")
            if self.failure is not None:
                raise self.failure
        except BaseException:
            connection.terminate()
            raise
        return connection

    # --- the lease ----------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        while self.failure is None:
            sent = time.monotonic()
            try:
                if self._renewing is None:
                    self._renewing = await self._connect()
                    self._renewing.add_log_listener(self._warned)
                async with self._turn:
                    asked = await self._renewing.fetchrow(
                        self._database.sql(schema.RENEW), self.epoch, self._settings.lease_ms, self.end
                    )
            except (asyncpg.PostgresError, HaError, *Lost) as error:
                if self.failure is None:
                    _log.warning("the lease was not renewed, trying again: %s", error)
                if self._renewing is not None:
                    self._renewing.terminate()
                self._renewing = None
                await asyncio.sleep(_WATCH_S)
                continue
            if asked is None:
                self.lose("another instance leads")
                return
            self._deadline = sent + self._settings.lease_ms / 1000
            if asked["handover"]:
                self.handover()
            await asyncio.sleep(max(0.0, sent + self._settings.renew_ms / 1000 - time.monotonic()))

    async def _watch(self) -> None:
        """Lose the lead when the database has not answered in time: nothing may wait longer than the lease lasts."""
        while self.failure is None:
            if self._warning:
                self.lose(f"the database answered with a warning: {self._warning}")
            elif time.monotonic() > self._deadline:
                self.lose(f"the lease could not be renewed for {self._settings.lease_ms} ms")
            elif self._writer.is_overdue:
                self.lose("rows stayed unanswered for too long")
            await asyncio.sleep(_WATCH_S)

    def lose(self, reason: str) -> NotLeaderError:
        """End the lead, from any thread. Returns the reason, which may be an earlier one."""
        with self._failing:
            if self.failure is not None:
                return self.failure
            failure = NotLeaderError(f"{self.where}: this instance no longer leads: {reason}.")
            self.failure = failure
        self._writer.hang_up(failure)
        with suppress(RuntimeError):  # the worker has ended, and its connections with it
            self._worker.loop.call_soon_threadsafe(self._hang_up)
        self.lost(failure)
        return failure

    def _hang_up(self) -> None:
        # Without a cancel request, which would make the server show what only one node has.
        for connection in (self._renewing, self._dropping):
            if connection is not None:
                connection.terminate()
        self._drops.put_nowait(None)

    async def resign(self) -> None:
        """Give the lease back after the last row, so that others may take over at once."""
        if self.failure is not None:
            return
        self.lost = lambda failure: None
        async with self._turn:
            renewing = self._renewing
            try:
                if renewing is None:
                    raise HaError("there is no connection at the moment")
                await renewing.execute(self._database.sql(schema.RELEASE), self.epoch, self.end)
                await goodbye(renewing)
            except (asyncpg.PostgresError, HaError, *Lost) as error:
                _log.warning("the lease was not given back and has to run out: %s", error)
            self.lose("it has resigned")

    def close(self) -> None:
        """Free the connection after the lead has ended, in the thread of the queue manager."""
        self._writer.close()
