"""A consumer: it processes the messages of a queue until it is told to stop, then shuts down cleanly.

It outlives its connection: while no queue manager answers it tries again. When it is stopped, or the process gets
SIGTERM or SIGINT, it takes no new messages; those in work are finished, and those that were fetched ahead go back to
the queue when the receiver is closed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msmq.client.message import ReceivedMessage
from msmq.client.problems import ClientError
from msmq.client.receiver import Receiver
from msmq.errors import MsmqError

if TYPE_CHECKING:
    from msmq.client.queue import Queue

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PAUSE_S: Final = 0.5
_log = logging.getLogger(__name__)


class Consumer:
    """Processes the messages of one queue: one after another with ``async for``, or several at a time with
    :meth:`run`."""

    def __init__(
        self, queue: Queue, *, concurrency: int, drain: float | None, signals: tuple[signal.Signals, ...]
    ) -> None:
        if concurrency < 1:
            raise ValueError("A consumer works on one message at a time at least.")
        self._queue = queue
        self._concurrency = concurrency
        self._drain_s = drain
        self._signals = signals
        self._stopped = asyncio.Event()
        self._at_work: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Take no more messages."""
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        """Yield messages as they come until the consumer is stopped. Each must be acknowledged or rejected."""
        with self._heeding_signals():
            while not self._stopped.is_set():
                try:
                    async with self._queue.receiver(prefetch=self._concurrency) as receiver:
                        while (message := await self._next(receiver)) is not None:
                            yield message
                        await self._finish()
                except ClientError as error:
                    _log.warning("%s is not being consumed: %s", self._queue.name, error)
                    await self._pause()

    async def run(self, work: Callable[[ReceivedMessage], Awaitable[None]]) -> None:
        """Call ``work`` for each message, for up to ``concurrency`` messages at a time, until the consumer is stopped.
        A message is acknowledged when ``work`` returns, and rejected when it raises an exception."""
        try:
            async for message in self:
                task = asyncio.ensure_future(self._work(work, message))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)
                await self._room()
        finally:
            for task in self._at_work:
                task.cancel()

    async def _room(self) -> None:
        """Wait until there is room for one more message, or the consumer is stopped."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while len(self._at_work) >= self._concurrency and not self._stopped.is_set():
                await asyncio.wait({*self._at_work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def _work(
        self, work: Callable[[ReceivedMessage], Awaitable[None]], message: ReceivedMessage
    ) -> None:
        try:
            try:
                with self._queue.processing(message):
                    await work(message)
            except Exception:
                _log.exception("The work on %r failed; the message goes back to its queue.", message)
                await message.reject()
            else:
                await message.acknowledge()
        except MsmqError as error:  # the connection broke: the message comes again
            _log.warning("%r may be delivered again: %s", message, error)

    async def _next(self, receiver: Receiver) -> ReceivedMessage | None:
        """Wait for the next message; None as soon as the consumer is stopped."""
        if self._stopped.is_set():
            return None
        coming = asyncio.ensure_future(receiver.receive())
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if coming.done() and not self._stopped.is_set():
                return coming.result()
            if coming.done() and not coming.cancelled() and coming.exception() is None:
                receiver.take_back(coming.result())
            return None
        finally:
            stopped.cancel()
            coming.cancel()

    async def _finish(self) -> None:
        """Wait for the work that has begun, while the receiver still holds its messages."""
        if self._at_work:
            await asyncio.wait(set(self._at_work), timeout=self._drain_s)

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._stopped.wait(), _PAUSE_S)
        except TimeoutError:
            return

    @contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        """Stop at the first signal and restore its ordinary effect, so that a second one ends the process. Works in the
        main thread only, where signals are handled."""
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, self._heed, loop)
        try:
            yield
        finally:
            for number in self._signals:
                loop.remove_signal_handler(number)

    def _heed(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stop()
        for number in self._signals:
            loop.remove_signal_handler(number)
