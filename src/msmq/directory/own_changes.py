"""The objects of the directory that we have changed, and when.

A question that is under way while we change something may be answered with the old state: a list that was begun before
a queue was deleted still has the queue, and using it would bring the queue back. So each answer records how many
changes there had been when it was asked for, and this class tells which objects have changed since.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from msmq.manager.directory import ObjectClass

_MOST: Final = 10_000
"""The most changes that are remembered."""

Changed = tuple[ObjectClass, bytes]


class OwnChanges:
    """Records the last change of each object."""

    def __init__(self, most: int = _MOST) -> None:
        self.moment = 0
        """The number of changes so far."""
        self._most = most
        self._last: dict[Changed, int] = {}
        self._forgotten = 0

    def note(self, object_class: ObjectClass, identifier: bytes) -> None:
        """Record that an object has just been changed, or may have been."""
        self.moment += 1
        self._last.pop((object_class, identifier), None)  # keep the newest changes at the end
        self._last[object_class, identifier] = self.moment
        if len(self._last) > self._most:
            self._forgotten = self._last.pop(next(iter(self._last)))

    def since(self, moment: int) -> list[Changed] | None:
        """The objects changed after a moment, the newest first; None if not all of them are remembered."""
        if moment < self._forgotten:
            return None
        return [
            changed for changed, _ in takewhile(lambda each: each[1] > moment, reversed(self._last.items()))
        ]
