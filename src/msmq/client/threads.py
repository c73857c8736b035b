"""Threads of the operating system, also where gevent or eventlet have put greenlets in the place of threads.

A loop needs a thread of its own, for a greenlet would share its thread with others that have loops too. And whoever
waits for it in a greenlet must let the other greenlets run: then the wait is a sleep of theirs, again and again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Event
from typing import Any, Final

_FIRST_PAUSE_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02


def _greenlets() -> Callable[[str], Any] | None:
    """How to get at a module as it was before greenlets replaced it; None where nothing was replaced."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return lambda name: gevent.get_original("_thread", name)
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return lambda name: getattr(eventlet.original("_thread"), name)
    return None


def start(target: Callable[[], None]) -> None:
    """Run something in a thread that ends with the process."""
    original = _greenlets()
    if original is not None:
        original("start_new_thread")(target, ())
        return
    from threading import Thread

    Thread(target=target, name="msmq", daemon=True).start()


class Signal:
    """Something that is waited for once, and set by a thread that :func:`start` started."""

    def __init__(self) -> None:
        self._is_set = False
        self._event = Event() if _greenlets() is None else None

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def wait(self) -> None:
        if self._event is not None:
            self._event.wait()
            return
        pause_s = _FIRST_PAUSE_S
        while not self._is_set:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
