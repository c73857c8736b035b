"""A queue manager that is one of several instances: it waits, leads, and waits again.

The daemon is the ordinary one, made anew for each turn, with a disk whose log the instances share. A turn ends at once
when the lead is lost, and in an orderly way when somebody asks for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from msmq.errors import MsmqError
from msmq.server.allocator import give_back_freed_memory
from msmq.server.config import Config, ConfigError
from msmq.server.daemon import Daemon
from msmq.store import FarDisk, StoreError, StoreFullError

if TYPE_CHECKING:
    from msmq.ha.instance import Instance

_DIRECTORY: Final = "ha"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def new_instance(config: Config) -> Instance:
    """The instance that a configuration describes. Raises ConfigError if the extra that it needs is not installed."""
    try:
        from msmq.ha.instance import Instance
    except ImportError as error:
        raise ConfigError(
            f"{error}: a store on PostgreSQL needs the extra: pip install 'msmq[ha]'."
        ) from error
    return Instance(config.ha, config.name, config.data / _DIRECTORY)


class Availability:
    """Leads and waits in turn until :attr:`stopping` is set."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.stopping = asyncio.Event()
        self.daemon: Daemon | None = None
        """The queue manager, while this instance leads and serves."""
        self.waits: Callable[[], None] = lambda: None
        self.serves: Callable[[Daemon], None] = lambda daemon: None
        """Called when this instance begins to wait, and when its doors are open."""
        self.instance = new_instance(config)
        self._handover = asyncio.Event()

    async def run(self) -> bool:
        """Run until told to stop. Returns whether something failed that waiting does not mend."""
        from msmq.ha.health import Health

        instance = self.instance
        health = Health(self.config.ha.health, lambda: instance.state) if self.config.ha.health else None
        try:
            if health is not None:
                await health.start()  # before the database is looked for, which may not be there yet
            if not await self._unless_stopped(instance.start()):
                return False
            while not self.stopping.is_set():
                self.waits()
                await instance.tell("standby")
                disk = await self._unless_stopped(instance.lead())
                if disk is not None and not await self._take_turn(disk):
                    return True
            return False
        finally:
            if health is not None:
                await health.stop()
            instance.stop()

    async def _unless_stopped(self, work: Awaitable[_T]) -> _T | None:
        """The result of some work, or None if :attr:`stopping` was set before it ended."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            return task.result()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return None

    async def _take_turn(self, disk: FarDisk) -> bool:
        """Lead as long as possible. Returns whether there may be another turn."""
        instance = self.instance
        leadership = instance.leadership
        assert leadership is not None
        daemon = Daemon(self.config, far_disk=disk)
        self._handover.clear()
        await instance.tell("leader")  # which may move the address that the ports are opened at
        try:
            await daemon.start()
            give_back_freed_memory()  # of what the log was read with
        except (MsmqError, OSError) as error:
            lost = leadership.failure is not None or isinstance(error, (OSError, StoreFullError))
            await instance.resign()
            if not lost:
                raise
            _log.error("another instance may try, the doors could not be opened: %s", error)
            await self._unless_stopped(asyncio.sleep(self.config.ha.lease_ms / 1000))
            return True
        instance.watch(lambda failure: self._lost(daemon, failure), self._handover.set)
        if daemon.failure is None:
            await self._serve(daemon)
        instance.serves = False
        self.daemon = None
        lost = leadership.failure is not None
        await daemon.stop()
        await instance.resign()
        return lost or daemon.failure is None

    async def _serve(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.instance.serves = True
        self.serves(daemon)
        ends = [
            asyncio.ensure_future(each.wait()) for each in (daemon.stopping, self.stopping, self._handover)
        ]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in ends:
            each.cancel()

    def _lost(self, daemon: Daemon, failure: Exception) -> None:
        assert isinstance(failure, StoreError)
        self.instance.serves = False
        daemon.abandon(failure)
