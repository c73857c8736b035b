"""One commit for many: whatever is appended while a batch is being written shares the next one.

Nothing leaves this process before the records of its cause are durable. Whoever wants to send something says so
with :meth:`GroupCommit.when_durable` and is called when everything appended until then will survive, in the order
in which they asked. With nothing to wait for the call is immediate, so that express messages cost no commit.

While the disk is quick the loop writes batches itself, unless there is much to write: a thread has to get the
interpreter from the loop twice for each batch, which takes longer. A slow disk, or a large batch, is left to a thread,
and the loop goes on gathering. To a disk on other computers a batch is sent in place and answered later, and the next
one is on its way before that.
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

from msmq.store import Batch, FarDisk, Store, StoreError, StoreFullError

_RETRY_FULL_S: Final = 1.0
_LAZY_S: Final = 0.02
_SMALL_BYTES: Final = 1 << 20
"""What a quick disk takes in about the time of a sync."""
_MOST_UNDER_WAY: Final = 2
"""How many batches are on their way to a far disk: while it is busy with one, the next one lies there already. More of
them would only be smaller."""
_log = logging.getLogger(__name__)

Action = Callable[[], None]


class GroupCommit:
    """Commits a store on behalf of everybody who waits for it.

    ``failed`` is called once when the disk fails for good: then nothing more may leave, and nothing will. ``full`` is
    told True when the disk has no room for a batch, and False when the batch is written after all. ``committed`` hears
    of each batch how many bytes it had and how long it took. ``far`` is the store's disk when that is on other
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
        """A heap: what has to be durable, in which order they asked, what to do then."""
        self._asked = count()
        self._scheduled = False
        self._writing: asyncio.Task[None] | None = None
        self._under_way: deque[tuple[list[Batch], float]] = deque()
        """What a far disk was sent and has not answered yet, and since when."""
        self._refused: list[Batch] = []
        """What it had no room for, and what was sent behind that, or what the files here have no room for."""
        self._refusal: StoreFullError | None = None
        """Why."""
        self._is_full = False
        self._loop = asyncio.get_running_loop()
        self._broken = False
        self._finishing = False
        self._lazy: asyncio.TimerHandle | None = None

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

        A caller that needs only what was appended up to some moment gives the ``mark`` of that moment, which is what
        ``Store.appended`` was then, and is called without waiting for what was appended later. Callers with the same
        mark are called in the order in which they asked.
        """
        if mark is None:
            mark = self._store.appended
        durable, waiting = self._store.durable, self._waiting
        # Somebody who waits for no more may be about to be called: who asks later is called later.
        if mark <= durable and not (waiting and waiting[0][0] <= durable) and not self._broken:
            action()
            return
        heappush(waiting, (mark, next(self._asked), action))
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
        while self._under_way and not self._broken:  # what nobody waits for, or came meanwhile
            await asyncio.sleep(0.005)

    async def finish(self) -> None:
        """Make durable what is left, for the last time. A full disk is not waited for then: it is a failure like
        others, and nobody was told that what found no room is safe."""
        self._finishing = True
        await self.drain()

    def _schedule(self) -> None:
        if not self._scheduled and self._has_room and not self._broken:
            self._scheduled = True
            # The others of this turn of the loop have something to append too.
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        # Since it was scheduled a batch may have been refused, which has to go first.
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
            self._writing = self._loop.create_task(self._write_in_thread(batch))

    def _write_here(self, batch: Batch) -> None:
        taken_s = self._loop.time()
        try:
            self._store.write(batch)
        except StoreFullError:
            self._writing = self._loop.create_task(self._write_in_thread(batch))
        except StoreError as error:
            self.give_up(error)
        else:
            self._complete(batch, taken_s)

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
        """There was no room for these. What the files here refuse is newer than what is under way."""
        self._refused = sorted([*self._refused, *batches], key=lambda batch: batch.lsn)
        self._refusal = error
        self._find_room(far)

    def _find_room(self, far: FarDisk) -> None:
        """Try again in a moment, with everything that was refused, when nothing is under way before it."""
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
        self._loop.call_later(_RETRY_FULL_S, self._send_again, far)

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
        """Write nothing more, and answer nobody: what the store was given last may be half of something."""
        if self._broken:
            return
        self._broken = True
        self._waiting.clear()
        self._failed(error)
