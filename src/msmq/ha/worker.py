"""A loop in a thread of its own: the loop of the queue manager may be busy for seconds while a lease has to be
renewed, and the store waits for its log in a thread that has no loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """A thread with a loop, which runs until :meth:`stop`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="msmq-ha", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start some work in the thread. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for some work in the loop of another thread. Cancelling the wait cancels the work."""
        return await asyncio.wrap_future(self.begin(work))

    def stop(self) -> None:
        """Cancel all work, then end the thread."""
        self.begin(self._end()).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # dropped connections close their sockets
