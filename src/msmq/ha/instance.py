"""One instance of a queue manager: it waits as a standby, leads, and is a standby again after it has lost the lead."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msmq.ha.cache import Cache
from msmq.ha.database import Database
from msmq.ha.disk import ReplicatedDisk
from msmq.ha.errors import DatabaseError, HaError, NewerSchemaError
from msmq.ha.leadership import Leadership
from msmq.ha.settings import HaSettings
from msmq.ha.standby import Standby
from msmq.ha.worker import Worker
from msmq.store import RealDisk
from msmq.store.layout import LOCK_FILE

_CACHE: Final = "cache"
_AGAIN_S: Final = 0.5
_HOOK_S: Final = 20.0
"""How long the operator's command may take before the instance goes on without it."""
_log = logging.getLogger(__name__)


class Instance:
    """The high availability of a ``msmq serve``. Its methods run in the loop of the queue manager."""

    def __init__(self, settings: HaSettings, manager: str, directory: Path) -> None:
        """``manager`` is the name of the queue manager, the same for all instances; ``directory`` is this instance's
        own and holds the cache."""
        self.settings = settings
        self._manager = manager
        self._directory = directory
        self._database = Database(settings.store, settings.schema)
        self._worker: Worker | None = None
        self._local: RealDisk | None = None
        self._standby: Standby | None = None
        self._disk: ReplicatedDisk | None = None
        self.leadership: Leadership | None = None
        self.serves = False
        """Whether its ports are open."""
        self._complaint = ""
        """What keeps it from starting; empty if nothing does."""

    async def start(self) -> bool:
        """Create the tables if there are none, lock the cache, and return True.

        Raises:
            DatabaseError, NewerSchemaError: the database cannot be used.
            StoreLockedError: another process uses this directory.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._local = RealDisk(self._directory / _CACHE)
        self._local.lock(LOCK_FILE)
        self._worker = Worker()
        try:
            await self._worker.do(self._prepare())
        except BaseException:
            self.stop()
            raise
        if not self._database.synchronous:
            _log.warning(
                "%s has no synchronous standby: what is confirmed survives a crash, but not the loss of its disk",
                self._database.where,
            )
        cache = Cache(self._local)
        cache.clear()
        self._standby = Standby(self._worker, self._database, self.settings, cache, self._directory)
        return True

    async def _prepare(self) -> None:
        """Prepare the database. One that cannot be used is an error; one that does not answer is waited for."""
        while True:
            try:
                await self._database.prepare(self._manager)
                self._complaint = ""
                return
            except (DatabaseError, NewerSchemaError):
                raise
            except HaError as error:
                if str(error) != self._complaint:
                    _log.warning("waiting for the database: %s", error)
                self._complaint = str(error)
                await asyncio.sleep(_AGAIN_S)

    async def lead(self) -> ReplicatedDisk:
        """Wait until this instance leads. Returns the disk for its store."""
        assert self._worker is not None
        assert self._standby is not None
        assert self._local is not None
        _log.info("%s waits as a standby of %s", self.settings.instance, self._database.where)
        leading = self._worker.begin(self._standby.lead())
        try:
            self.leadership = await asyncio.shield(asyncio.wrap_future(leading))
        except asyncio.CancelledError:
            # Raising the epoch may be under way, and must not be cancelled.
            self._worker.loop.call_soon_threadsafe(self._standby.leave)
            raise
        _log.info("%s leads, epoch %d", self.settings.instance, self.leadership.epoch)
        self.leadership.attach(asyncio.get_running_loop())
        self._disk = ReplicatedDisk(self._local, self.leadership)
        return self._disk

    async def resign(self) -> None:
        """Give the lease back, if it is still held, and be a standby again. The store must be closed."""
        leadership, disk = self.leadership, self._disk
        if leadership is None or disk is None:
            return
        assert self._worker is not None
        assert self._standby is not None
        await self._worker.do(leadership.resign())
        leadership.close()
        self._standby.give_back(leadership, disk.unsettled)
        self.leadership = self._disk = None

    async def tell(self, role: str) -> None:
        """Run the operator's command for a change of role. Its output and exit status change nothing."""
        if not self.settings.on_change:
            return
        command = [*shlex.split(self.settings.on_change), role]
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
            async with asyncio.timeout(_HOOK_S):
                status = await process.wait()
            if status:
                _log.error("%s ended with status %s", shlex.join(command), status)
        except TimeoutError:
            _log.error("%s still runs after %s s and is not waited for", shlex.join(command), _HOOK_S)
        except OSError as error:
            _log.error("%s cannot be run: %s", shlex.join(command), error)

    def watch(self, lost: Callable[[Exception], None], handover: Callable[[], None]) -> None:
        """Have the callbacks called in this loop when the lead is lost, or an operator asks for another leader."""
        leadership = self.leadership
        assert leadership is not None
        loop = asyncio.get_running_loop()
        leadership.lost = lambda failure: _post(loop, lost, failure)
        leadership.handover = lambda: _post(loop, handover)
        if leadership.failure is not None:
            lost(leadership.failure)

    def stop(self) -> None:
        """End everything. A lease that was not given back runs out."""
        if self._worker is not None:
            if self.leadership is not None:
                self.leadership.lose("the process ends")
                self.leadership.close()
            if self._standby is not None:
                self._worker.loop.call_soon_threadsafe(self._standby.leave)
            self._worker.stop()
            self._worker = None
        if self._local is not None:
            self._local.unlock()

    @property
    def state(self) -> dict[str, object]:
        """The state for the health checks."""
        leadership, standby = self.leadership, self._standby
        leads = leadership is not None and leadership.is_valid
        view = standby.view if standby is not None else None
        return {
            "instance": self.settings.instance,
            "role": "leader" if leads else "standby",
            "epoch": leadership.epoch if leadership is not None else view.epoch if view is not None else 0,
            "leader": self.settings.instance
            if leads
            else view.holder
            if view is not None and view.left_ms > 0
            else "",
            "serves": leads and self.serves,
            "current": leads or (standby is not None and standby.is_current),
            "complaint": "" if leads else self._complaint if standby is None else standby.complaint,
        }


def _post(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(call, *arguments)
