"""An event loop in a thread of its own, for programs that have none.

It is a thread of the operating system even where gevent or eventlet have replaced threads by greenlets: a greenlet
would share its thread with others that have event loops too. A greenlet that waits for the loop sleeps in short pauses,
so that the other greenlets run meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from msmq.client.problems import ConnectionLostError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02


def _greenlets() -> Callable[[str], Any] | None:
    """Return a function that finds a module as it was before greenlets replaced it; None where nothing was replaced."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return lambda name: gevent.get_original("_thread", name)
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return lambda name: getattr(eventlet.original("_thread"), name)
    return None


def _start(target: Callable[[], None]) -> None:
    """Run a function in a thread that ends with the process."""
    original = _greenlets()
    if original is not None:
        original("start_new_thread")(target, ())
        return
    threading.Thread(target=target, name="msmq", daemon=True).start()


class Signal:
    """An event that is set once by the loop's thread and that other threads wait for.

    It is a bare lock, held until then: an event of `threading` has a second lock inside, which an exception in the
    middle of a wait may leave in disorder.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock() if _greenlets() is None else None
        if self._lock is not None:
            self._lock.acquire()

    def set(self) -> None:
        self._is_set = True
        if self._lock is not None:
            self._lock.release()

    def wait(self) -> None:
        if self._lock is not None:
            with self._lock:
                return
        pause_s = _FIRST_PAUSE_S
        while not self._is_set:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class Loop:
    """An event loop in a thread. It belongs to one process: a forked child has no such thread."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop
        self._begun, self._ended = Signal(), Signal()
        self._handovers: list[_Handover[Any]] = []
        """Results that have left the loop while the program has not yet said whether it got them."""
        _start(self._main)
        self._begun.wait()

    def _main(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._begun.set()
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
            self._ended.set()

    @property
    def is_here(self) -> bool:
        """True in the process in which the loop runs."""
        return self._process == os.getpid()

    def run(self, coroutine: Coroutine[Any, Any, _T], handover: _Handover[_T] | None = None) -> _T:
        """Run a coroutine and wait for its result. If the wait is interrupted, for example by an exception that a
        signal raised, the coroutine is cancelled."""
        if not self.is_here or self._loop.is_closed():
            coroutine.close()
            raise ConnectionLostError(
                "The connection was closed."
                if self.is_here
                else "This was opened by another process, of which this one is a child."
            )
        call = _Call(coroutine, handover)
        try:
            self._loop.call_soon_threadsafe(self._begin, call)
            return call.result()
        except BaseException:
            self._loop.call_soon_threadsafe(call.abandon)
            raise

    def _begin(self, call: _Call[Any]) -> None:
        self._settle()  # the program makes another call, so it got what the last one returned
        call.start()

    def take(
        self,
        coroutine: Coroutine[Any, Any, _T],
        give_back: Callable[[_T], object],
        keep: Callable[[_T], object] | None = None,
        shown: Callable[[_T], Any] = lambda taken: taken,
    ) -> Any:
        """Run a coroutine that takes a message, and return what ``shown`` makes of it. The message is kept once it has
        reached the program; if an exception comes first, anywhere in here, it is given back.

        The decision to keep it is an assignment, and no signal is handled between an assignment and the return.
        """
        handover = _Handover(give_back, keep)
        try:
            found = shown(self.run(coroutine, handover))
            if keep is not None:
                self.tell(partial(self._settle, handover))
            handover.arrived = True
            return found
        except BaseException:
            handover.arrived = False
            if self.is_here and not self._loop.is_closed():
                self.tell(partial(self._settle, handover))
            raise

    def _settle(self, *more: _Handover[Any]) -> None:
        """Keep or give back what the program has decided on; look again in a moment at the rest."""
        self._handovers = [each for each in (*self._handovers, *more) if not each.settle()]
        if self._handovers:
            self._loop.call_later(_FIRST_PAUSE_S, self._settle)

    def tell(self, function: Callable[[], object]) -> None:
        """Call a function in the loop without waiting for it."""
        self._loop.call_soon_threadsafe(function)

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function in the loop and wait for its result."""

        async def called() -> _T:
            return function()

        return self.run(called())

    def finish(self, function: Callable[[], asyncio.Future[_T]]) -> _T:
        """Call a function in the loop and wait for the future that it returns."""

        async def finished() -> _T:
            return await function()

        return self.run(finished())

    def iterate(self, iterator: AsyncIterator[_T]) -> Iterator[_T]:
        try:
            while True:
                try:
                    yield self.run(_next(iterator))
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None and self.is_here:
                self.run(close())

    def close(self) -> None:
        if self.is_here and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._ended.wait()


class _Handover(Generic[_T]):
    """A result on its way from the loop to the program. The program says whether it has arrived; everything else
    happens in the loop."""

    def __init__(self, give_back: Callable[[_T], object], keep: Callable[[_T], object] | None = None) -> None:
        self.arrived: bool | None = None
        """None until the program has decided."""
        self._give_back = give_back
        self._keep = keep
        self._taken: list[_T] = []
        self._refused = False

    def offer(self, taken: _T) -> None:
        """Take the result of the coroutine, even if the program has left meanwhile."""
        self._taken.append(taken)
        if self._refused:
            self.settle()

    def settle(self) -> bool:
        """Keep or give back what was taken. Returns whether the program has decided yet."""
        if self.arrived is None:
            return False
        self._refused = not self.arrived
        while self._taken:
            settle = self._keep if self.arrived else self._give_back
            taken = self._taken.pop()
            if settle is not None:
                settle(taken)
        return True


class _Call(Generic[_T]):
    """A coroutine that a thread waits for. Everything but the wait happens in the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, _T], handover: _Handover[_T] | None) -> None:
        self._coroutine = coroutine
        self._ended = Signal()
        self._handover = handover
        self._task: asyncio.Task[_T] | None = None
        self._abandoned = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[_T]) -> None:
        if self._handover is not None and not task.cancelled() and task.exception() is None:
            self._handover.offer(task.result())
        self._ended.set()

    def result(self) -> _T:
        """Wait for the coroutine. Returns its result or raises its exception."""
        self._ended.wait()
        assert self._task is not None
        return self._task.result()

    def abandon(self) -> None:
        """Cancel the coroutine, as nobody waits for it any more."""
        if self._abandoned:
            return
        self._abandoned = True
        if self._task is None:
            self._coroutine.close()
        elif not self._task.done():
            self._task.cancel()


async def _next(iterator: AsyncIterator[_T]) -> _T:
    return await anext(iterator)


def awaited(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """Make the method of an object without await that runs this one of its ``inner`` object in its ``loop``."""

    @wraps(method)
    def wait(this: Any, /, *given: _P.args, **named: _P.kwargs) -> _T:
        result: _T = this.loop.run(getattr(this.inner, method.__name__)(*given, **named))
        return result

    return wait


def iterated(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_T]],
) -> Callable[Concatenate[Any, _P], Iterator[_T]]:
    """Like :func:`awaited`, for methods that yield several results."""

    @wraps(method)
    def iterate(this: Any, /, *given: _P.args, **named: _P.kwargs) -> Iterator[_T]:
        results: Iterator[_T] = this.loop.iterate(getattr(this.inner, method.__name__)(*given, **named))
        return results

    return iterate
