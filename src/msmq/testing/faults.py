"""Inject internal errors into any function of the queue manager and the store.

A :class:`Fault` stands for a failed assertion or a bug: an error that only the program itself can cause. Nothing may go
on after one as if it had not happened.

The interpreter calls a profile function whenever a function is entered; while a fault is armed, ours counts the calls
into the two rooms and raises the fault in the one that was chosen, before its first line. Generators are left out:
they may be entered only to be closed, and the interpreter keeps what is raised then to itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, Final

ROOMS: Final = ("msmq.manager.", "msmq.store.")


class Fault(Exception):  # noqa: N818 - the program's own, and no error of a caller's
    """A simulated internal error."""


class Faults:
    """Raises a fault in one of the next calls into the queue manager or the store."""

    def __init__(self, runs: Callable[[], object] = lambda: True) -> None:
        """``runs`` says whether it is the program that is running now, and not those who look at it."""
        self._runs = runs
        self._left = 0
        self._known: dict[CodeType, bool] = {}
        """Whether a function belongs to one of the rooms and may fail."""
        self.raised = 0
        self.place = ""
        """The function in which the last fault was raised."""

    def arm(self, calls: int) -> None:
        """Raise the fault in the call with this number from now, of this thread or of one that begins later.

        Functions that remember their results forget them, or it would depend on earlier runs which call that is.
        """
        self._left = calls
        for cache in _caches():
            cache.cache_clear()
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def disarm(self) -> None:
        self._left = 0
        threading.setprofile(None)
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        inside = self._known.get(code)
        if inside is None:
            room = str(frame.f_globals.get("__name__"))
            inside = self._known[code] = room.startswith(ROOMS) and not code.co_flags & CO_GENERATOR
        if inside and self._left and self._runs():
            self._left -= 1
            if not self._left:
                self.raised += 1
                self.place = f"{frame.f_globals['__name__']}.{code.co_qualname}"
                self.disarm()
                raise Fault(self.place)


def _caches() -> Iterator[Any]:
    """Yield the functions of the program that remember results."""
    for name, module in list(sys.modules.items()):
        if name.startswith("msmq.") and not name.startswith("msmq.testing."):
            yield from (each for each in vars(module).values() if hasattr(each, "cache_clear"))
