"""The first of several attempts that succeeds, within a time limit, however long each of them takes.

Looking up a name, fetching a ticket and connecting all wait in libraries with time limits of their own, tens of
seconds if nobody answers. So each attempt runs in its own thread, the next one starts when the last has not succeeded
within a moment, and the results of those that come too late are disposed of.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

HEAD_START_S: Final = 1.0
"""How long an attempt runs before the next one starts too; one that fails gives way at once."""


class AllFailedError(Exception):
    """No attempt succeeded in time. ``reasons`` has an error for each, None for those still running."""

    def __init__(self, reasons: Sequence[Exception | None]) -> None:
        super().__init__("; ".join(str(reason or "no answer in time") for reason in reasons))
        self.reasons = reasons


def first(
    attempts: Sequence[Callable[[], _T]],
    limit_s: float,
    dispose: Callable[[_T], None] = lambda left_behind: None,
    head_start_s: float = HEAD_START_S,
) -> tuple[int, _T]:
    """The number and the result of the first attempt that succeeds.

    Raises:
        AllFailedError: none has, within ``limit_s``.
    """
    ends: queue.SimpleQueue[tuple[int, Any, Exception | None]] = queue.SimpleQueue()
    lock, over = threading.Lock(), False
    reasons: list[Exception | None] = [None] * len(attempts)
    deadline = time.monotonic() + limit_s

    def run(number: int) -> None:
        try:
            result = attempts[number]()
        except Exception as error:
            ends.put((number, None, error))
            return
        with lock:
            late = over
            if not late:
                ends.put((number, result, None))
        if late:
            dispose(result)

    started = running = 0
    try:
        while True:
            left_s = deadline - time.monotonic()
            more = started < len(attempts)
            if left_s <= 0 or not (more or running):
                raise AllFailedError(reasons)
            if more:
                threading.Thread(target=run, args=(started,), name="directory-race", daemon=True).start()
                started, running = started + 1, running + 1
            try:
                number, result, error = ends.get(
                    timeout=min(left_s, head_start_s) if started < len(attempts) else left_s
                )
            except queue.Empty:
                continue
            running -= 1
            if error is None:
                return number, result
            reasons[number] = error
    finally:
        with lock:
            over = True
        while not ends.empty():
            _, result, error = ends.get()
            if error is None:
                dispose(result)
