"""An event loop that runs asyncio programs step by step in simulated time.

One :class:`SimulatedLoop` is one process. It has no selector and no threads: its network gives it the time, delivers
what arrives, and runs its callbacks one by one, between those of other processes. When a process dies, everything that
it would still have done is dropped.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from msmq.testing.network import SimulatedNetwork


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop of a process on the host with ``address``.

    ``failures`` are the exceptions that nobody caught; ``has_power`` tells whether its machine still runs.
    """

    def __init__(
        self, network: SimulatedNetwork, address: str, has_power: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__()
        self.address = address
        self.has_power = has_power
        self.failures: list[BaseException] = []
        self.dead = False
        self._network = network
        self._turn: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_number = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_exception_handler(self._remember)

    # Callbacks and time

    def time(self) -> float:
        return self._network.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._turn.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._tasks = [other for other in self._tasks if not other.done()]
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Report the error of a task when it ends, not when the task is forgotten."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.call_exception_handler({"message": "a task failed", "exception": error, "task": task})

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: cancelled timers are skipped when their time comes."""

    @property
    def next_time(self) -> float | None:
        """When there is something to do; None for never."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if self._turn:
            return self._network.now
        return timers[0][0] if timers else None

    def run_one(self) -> bool:
        """Run one callback. Returns False if none is due."""
        timers, now = self._timers, self._network.now
        while timers and timers[0][0] <= now:
            handle: asyncio.Handle = heapq.heappop(timers)[2]
            self._turn.append(handle)
        while self._turn:
            handle = self._turn.popleft()
            if not handle.cancelled():
                with self.running():
                    handle._run()
                return True
        return False

    @contextmanager
    def running(self) -> Iterator[None]:
        """A context in which everything is done by this process."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def die(self) -> None:
        """End the process without warning."""
        self.dead = True
        self._turn.clear()
        self._timers.clear()
        for task in self._tasks:
            coroutine = task.get_coro()
            if not task.done() and coroutine is not None:
                with suppress(RuntimeError):  # the coroutine insists on waiting
                    cast(Coroutine[Any, Any, Any], coroutine).close()
        self.close()

    def close(self) -> None:
        self.dead = True
        super().close()

    def __del__(self) -> None:
        """Do nothing: the loop holds no resources of the system, so nobody need close it."""

    def _remember(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context["message"])
        if not self.dead and self.has_power():
            self.failures.append(error)

    # Threads, names, sockets

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work later and in one piece: there are no threads."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._network.working_time(), work)
        return future

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> asyncio.Server:
        return cast(asyncio.Server, self._network.listen(self, (host, port), protocol_factory))

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        dialled = self._network.dial(self, (host, port), protocol_factory)
        try:
            return await dialled
        except asyncio.CancelledError:
            if dialled.done() and not dialled.cancelled() and dialled.exception() is None:
                dialled.result()[0].abort()
            raise

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        local_addr: tuple[str, int] | None = None,
        remote_addr: tuple[str, int] | None = None,
        **options: Any,
    ) -> tuple[asyncio.DatagramTransport, asyncio.BaseProtocol]:
        protocol = cast(asyncio.DatagramProtocol, protocol_factory())
        return self._network.bind(self, protocol, local_addr, remote_addr), protocol
