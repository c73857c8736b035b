"""One commit for many waiters: everything appended while a batch is being written shares the next batch.

Nothing leaves this process before the records that it depends on are durable. To send something, callers use
:meth:`GroupCommit.when_durable`, and are called when everything appended until then is durable, in the order in which
they asked. If nothing is pending the call is immediate, so that express messages need no commit.

On a quick disk the loop writes small batches itself: a thread would need the interpreter twice for each batch, which
takes longer. With a slow disk, or for a large batch, a thread writes while the loop goes on gathering. For a disk on
other computers the loop sends a batch, and the next one before the answer comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from msmq.errors.tasks import raise_again
from msmq.store import Batch, FarDisk, Store, StoreError, StoreFullError

_RETRY_FULL_S: Final = 1.0
_LAZY_S: Final = 0.02
_SMALL_BYTES: Final = 1 << 20
"""The most bytes that a quick disk writes in about the time of a sync."""
_MOST_UNDER_WAY: Final = 2
"""The most batches that are sent to a far disk without an answer, so that it has the next one when it is done with the
last. More would only make batches smaller."""
_log = logging.getLogger(__name__)

Action = Callable[[], None]


class GroupCommit:
    """Commits a store for all that wait for it.

    ``failed`` is called once when the disk fails for good, after which nothing more leaves. ``full`` is called with
    True when the disk has no room for a batch, and with False when the batch has been written after all. ``committed``
    is called with the size of each batch and the time it took. ``far`` is the store's disk when that is on other
    computers: a sync takes the time of a round trip and perhaps of an election, and the loop never waits for it.
    """

    def __init__(
        self,
        store: Store,
        failed: Callable[[Exception], None],
        full: Callable[[bool], None] = lambda full: None,
        committed: Callable[[int, float], None] = lambda size, seconds: None,
        *,
        far: FarDisk | None = None,
    ) -> None:
        self._store = store
        self._far = far
        self._failed = failed
        self._full = full
        self._committed = committed
        self._waiting: list[tuple[int, int, Action]] = []
        """A heap of what has to be durable, the order of asking, and the action to call."""
        self._asked = count()
        self._scheduled = False
        self._writing: asyncio.Task[None] | None = None
        self._under_way: deque[tuple[list[Batch], float]] = deque()
        """Batches that were sent to a far disk and not answered yet, with their times."""
        self._refused: list[Batch] = []
        """Batches that a far disk had no room for, with those sent after them, and batches that the local files have
        no room for."""
        self._refusal: StoreFullError | None = None
        """The reason for that."""
        self._is_full = False
        self._loop = asyncio.get_running_loop()
        self._broken = False
        self._finishing = False
        self._lazy: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a batch is being written or about to be."""
        return self._scheduled or self._writing is not None or bool(self._under_way or self._refused)

    @property
    def _has_room(self) -> bool:
        """True if another batch may be written now."""
        if self._far is None:
            return self._writing is None
        if not self._under_way:
            return not self._refused
        if len(self._under_way) >= _MOST_UNDER_WAY or self._refused or self._is_full:
            return False
        return self._store.pending_bytes >= self._far.ahead_bytes

    def when_durable(self, action: Action, mark: int | None = None) -> None:
        """Call ``action`` once everything appended so far is durable.

        A caller that needs only what was appended up to some moment gives the value of ``Store.appended`` at that
        moment as ``mark``, and does not wait for what was appended later. Callers with the same mark are called in the
        order in which they asked.
        """
        if mark is None:
            mark = self._store.appended
        durable, waiting = self._store.durable, self._waiting
        # If others with a mark that is durable are still to be called, this caller must wait for its turn.
        if mark <= durable and not (waiting and waiting[0][0] <= durable) and not self._broken:
            action()
            return
        heappush(waiting, (mark, next(self._asked), action))
        self._schedule()

    def request(self) -> None:
        """Commit what is pending, without a caller that waits."""
        if self._store.pending:
            self._schedule()

    def request_lazily(self) -> None:
        """Commit what is pending soon, or with the next commit that somebody asks for. For facts that can be found out
        again if they are lost, such as that messages have arrived elsewhere."""
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
        while self.busy and not self._broken:  # with batches without a waiter, or begun meanwhile
            await asyncio.sleep(0.005)

    async def finish(self) -> None:
        """Commit what is left, for the last time. A full disk is not waited for, but is a failure like others: nobody
        was told that what it has no room for is safe."""
        self._finishing = True
        await self.drain()

    async def stop(self) -> None:
        """End what would still be done: no timer is set and no thread writes any more."""
        for timer in (self._lazy, self._again):
            if timer is not None:
                timer.cancel()
        if self._writing is not None:
            await asyncio.wait({self._writing})

    def _schedule(self) -> None:
        if not self._scheduled and self._has_room and not self._broken:
            self._scheduled = True
            # Others may append something too in this turn of the loop.
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        # A batch may have been refused since this was scheduled; it has to go first.
        if self._broken or not self._has_room:
            return
        try:
            batch = self._store.take()
        except StoreError as error:
            self.give_up(error)
            return
        if batch is None:
            if not self._under_way:
                self._call_back()
        elif self._far is not None:
            self._send(self._far, [batch])
        elif self._store.is_quick and batch.size <= _SMALL_BYTES:
            self._write_here(batch)
        else:
            self._begin_in_thread(batch)

    def _write_here(self, batch: Batch) -> None:
        taken_s = self._loop.time()
        try:
            self._store.write(batch)
        except StoreFullError:
            self._begin_in_thread(batch)
        except StoreError as error:
            self.give_up(error)
        else:
            self._complete(batch, taken_s)

    def _begin_in_thread(self, batch: Batch) -> None:
        self._writing = self._loop.create_task(self._write_in_thread(batch))
        self._writing.add_done_callback(raise_again)

    async def _write_in_thread(self, batch: Batch) -> None:
        taken_s = self._loop.time()
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
        self._complete(batch, taken_s)

    # --- a disk on other computers --------------------------------------------------------------------------

    def _send(self, far: FarDisk, batches: list[Batch]) -> None:
        try:
            for batch in batches:
                self._store.put(batch)
        except StoreFullError as error:
            self._refuse(far, batches, error)
            return
        except StoreError as error:
            self.give_up(error)
            return
        sent = (batches, self._loop.time())
        self._under_way.append(sent)
        far.send(partial(self._answered, far, sent))
        if self._waiting and self._store.pending:
            self._schedule()

    def _answered(self, far: FarDisk, sent: tuple[list[Batch], float], error: StoreError | None) -> None:
        if self._broken:
            return
        oldest = self._under_way.popleft()
        assert oldest is sent, "answers come in order"
        batches, taken_s = sent
        if isinstance(error, StoreFullError) and not self._finishing:
            self._refuse(far, batches, error)
        elif error is not None:
            self._store.abandon(error)
            self.give_up(error)
        else:
            if self._is_full:
                self._is_full = False
                self._full(False)
            for batch in batches:
                self._complete(batch, taken_s)
            self._find_room(far)

    def _refuse(self, far: FarDisk, batches: list[Batch], error: StoreFullError) -> None:
        """Keep batches for which there was no room. Those that the local files refuse are newer than those under
        way."""
        self._refused = sorted([*self._refused, *batches], key=lambda batch: batch.lsn)
        self._refusal = error
        self._find_room(far)

    def _find_room(self, far: FarDisk) -> None:
        """Schedule another attempt with all refused batches, once nothing before them is under way."""
        error = self._refusal
        if error is None or self._under_way or self._broken:
            return
        self._refusal = None
        if self._finishing:
            self._store.abandon(error)
            self.give_up(error)
            return
        if not self._is_full:
            self._is_full = True
            self._full(True)
        _log.error("%s Trying again.", error)
        self._again = self._loop.call_later(_RETRY_FULL_S, self._send_again, far)

    def _send_again(self, far: FarDisk) -> None:
        if self._broken:
            return
        batches, self._refused = self._refused, []
        self._send(far, batches)

    # --- afterwards -----------------------------------------------------------------------------------------

    def _complete(self, batch: Batch, taken_s: float) -> None:
        if self._broken:
            return
        try:
            if self._far is not None:
                self._store.seal(batch)
            self._store.completed(batch)
        except StoreError as error:
            self.give_up(error)
            return
        self._committed(batch.size, self._loop.time() - taken_s)
        self._call_back()

    def _call_back(self) -> None:
        durable = self._store.durable
        waiting = self._waiting
        try:
            while waiting and waiting[0][0] <= durable:
                heappop(waiting)[2]()
        finally:
            if self._store.pending or (waiting and not self._under_way):
                self._schedule()

    def give_up(self, error: Exception) -> None:
        """Write nothing more and answer nobody: the last records may be incomplete."""
        if self._broken:
            return
        self._broken = True
        self._waiting.clear()
        self._failed(error)
