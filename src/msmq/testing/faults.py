"""Inject internal errors where the queue manager and the store change something.

A :class:`Fault` stands for a failed assertion or a bug: an error that only the program itself can cause. Nothing may go
on after one as if it had not happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final
from unittest.mock import patch

from msmq.manager.mailbox.positions import PositionList
from msmq.store import Store

_WHERE: Final = (
    (PositionList, "add"),
    (PositionList, "remove"),
    (PositionList, "set_states"),
    (Store, "append"),
    (Store, "append_all"),
    (Store, "release"),
    (Store, "release_all"),
)


class Fault(Exception):  # noqa: N818 - the program's own, and no error of a caller's
    """A simulated internal error."""


class Faults:
    """Raises a fault at one of the next changes."""

    def __init__(self) -> None:
        self._left = 0
        self.raised = 0

    def arm(self, changes: int) -> None:
        """Raise the fault at the change with this number from now."""
        self._left = changes

    def disarm(self) -> None:
        self._left = 0

    @contextmanager
    def planted(self) -> Iterator[Faults]:
        """Replace the functions that change something by ones that can fail, for the length of the context."""
        patches = [patch.object(owner, name, self._failing(getattr(owner, name))) for owner, name in _WHERE]
        for each in patches:
            each.start()
        try:
            yield self
        finally:
            for each in patches:
                each.stop()

    def _failing(self, change: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(change)
        def perhaps(*arguments: Any, **options: Any) -> Any:
            if self._left:
                self._left -= 1
                if not self._left:
                    self.raised += 1
                    raise Fault(change.__qualname__)
            return change(*arguments, **options)

        return perhaps
