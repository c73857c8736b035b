"""One commit for many: whatever is appended while a batch is being written shares the next one.

Nothing leaves this process before the records of its cause are durable. Whoever wants to send something says so
with :meth:`GroupCommit.when_durable` and is called when everything appended until then will survive, in the order
in which they asked. With nothing to wait for the call is immediate, so that express messages cost no commit.

A small batch with one waiter is written in place, which is the quickest for it. When others wait too, or nobody, or the
one has patience, or much is to be written, writing is left to a thread, and the loop goes on gathering.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from msmq.store import Batch, Store, StoreError, StoreFullError

_RETRY_FULL_S: Final = 1.0
_LAZY_S: Final = 0.02
_SMALL_BYTES: Final = 1 << 15
"""What the disk takes so quickly that a thread would cost more than it saves."""
_log = logging.getLogger(__name__)

Action = Callable[[], None]


class GroupCommit:
    """Commits a store on behalf of everybody who waits for it.

    ``failed`` is called once when the disk fails for good: then nothing more may leave, and nothing will. ``full`` is
    told True when the disk has no room for a batch, and False when the batch is written after all.
    """

    def __init__(
        self,
        store: Store,
        failed: Callable[[Exception], None],
        full: Callable[[bool], None] = lambda full: None,
    ) -> None:
        self._store = store
        self._failed = failed
        self._full = full
        self._waiting: list[tuple[int, int, Action]] = []
        """A heap: what has to be durable, in which order they asked, what to do then."""
        self._asked = count()
        self._patient = False
        """True if the newest waiter does not need its commit at once."""
        self._scheduled = False
        self._writing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._broken = False
        self._finishing = False
        self._lazy: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a batch is being written or about to be."""
        return self._scheduled or self._writing is not None

    def when_durable(self, action: Action, mark: int | None = None, *, patient: bool = False) -> None:
        """Call ``action`` once everything appended so far is durable.

        A caller that needs only what was appended up to some moment gives the ``mark`` of that moment, which is what
        ``Store.appended`` was then, and is called without waiting for what was appended later. Callers with the same
        mark are called in the order in which they asked. A ``patient`` caller would rather let the loop do other things
        meanwhile than be called as soon as possible.
        """
        if mark is None:
            mark = self._store.appended
        durable, waiting = self._store.durable, self._waiting
        # Somebody who waits for no more may be about to be called: who asks later is called later.
        if mark <= durable and not (waiting and waiting[0][0] <= durable) and not self._broken:
            action()
            return
        heappush(waiting, (mark, next(self._asked), action))
        self._patient = patient
        self._schedule()

    def request(self) -> None:
        """Make durable what is pending; nobody waits for it."""
        if self._store.pending:
            self._schedule()

    def request_lazily(self) -> None:
        """Make durable what is pending, with what others will ask for or else in a moment: that messages have arrived
        elsewhere, which at worst is forgotten and found out again."""
        if self._lazy is None and self._store.pending:
            self._lazy = self._loop.call_later(_LAZY_S, self._lazily)

    def _lazily(self) -> None:
        self._lazy = None
        self.request()

    async def drain(self) -> None:
        """Wait until everything appended so far is durable, or never will be."""
        done: asyncio.Future[None] = self._loop.create_future()
        self.when_durable(partial(done.set_result, None))
        while not done.done() and not self._broken:
            await asyncio.wait({done}, timeout=0.05)

    async def finish(self) -> None:
        """Make durable what is left, for the last time. A full disk is not waited for then: it is a failure like
        others, and nobody was told that what found no room is safe."""
        self._finishing = True
        await self.drain()

    def _schedule(self) -> None:
        if not self._scheduled and self._writing is None and not self._broken:
            self._scheduled = True
            # The others of this turn of the loop have something to append too.
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if self._broken:
            return
        try:
            batch = self._store.take()
        except StoreError as error:
            self.give_up(error)
            return
        if batch is None:
            self._call_back()
        elif len(self._waiting) == 1 and not self._patient and batch.size <= _SMALL_BYTES:
            self._write_here(batch)
        else:
            self._writing = self._loop.create_task(self._write_in_thread(batch))

    def _write_here(self, batch: Batch) -> None:
        try:
            self._store.write(batch)
        except StoreFullError:
            self._writing = self._loop.create_task(self._write_in_thread(batch))
        except StoreError as error:
            self.give_up(error)
        else:
            self._complete(batch)

    async def _write_in_thread(self, batch: Batch) -> None:
        full = False
        try:
            while True:
                try:
                    await self._loop.run_in_executor(None, self._store.write, batch)
                    break
                except StoreFullError as error:
                    if self._finishing:
                        self._store.abandon(error)
                        raise
                    if not full:
                        full = True
                        self._full(True)
                    _log.error("%s Trying again.", error)
                    await asyncio.sleep(_RETRY_FULL_S)
        except StoreError as error:
            self.give_up(error)
            return
        finally:
            self._writing = None
            if full:
                self._full(False)
        self._complete(batch)

    def _complete(self, batch: Batch) -> None:
        if self._broken:
            return
        try:
            self._store.completed(batch)
        except StoreError as error:
            self.give_up(error)
            return
        self._call_back()

    def _call_back(self) -> None:
        durable = self._store.durable
        waiting = self._waiting
        try:
            while waiting and waiting[0][0] <= durable:
                heappop(waiting)[2]()
        finally:
            if waiting or self._store.pending:
                self._schedule()

    def give_up(self, error: Exception) -> None:
        """Write nothing more, and answer nobody: what the store was given last may be half of something."""
        if self._broken:
            return
        self._broken = True
        self._waiting.clear()
        self._failed(error)
