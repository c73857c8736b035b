"""Which objects of the directory we have changed, and in which order.

A question that is on its way while we change something may be answered with what was before: a list that was begun
before a queue was deleted still has it, and whoever believed that would bring it back. So each answer knows how many
changes there had been when it was asked for, and this tells which objects have changed since.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from msmq.manager.directory import ObjectClass

_MOST: Final = 10_000
"""Of more changes than that while a question was on its way it is not told which they were."""

Changed = tuple[ObjectClass, bytes]


class OwnChanges:
    """The last change of each object."""

    def __init__(self, most: int = _MOST) -> None:
        self.moment = 0
        """How many changes there have been."""
        self._most = most
        self._last: dict[Changed, int] = {}
        self._forgotten = 0

    def note(self, object_class: ObjectClass, identifier: bytes) -> None:
        """An object has just been changed, or may have been."""
        self.moment += 1
        self._last.pop((object_class, identifier), None)  # the newest ones are the last ones
        self._last[object_class, identifier] = self.moment
        if len(self._last) > self._most:
            self._forgotten = self._last.pop(next(iter(self._last)))

    def since(self, moment: int) -> list[Changed] | None:
        """What has changed after a moment, the newest first; None if that was too much to be kept."""
        if moment < self._forgotten:
            return None
        return [
            changed for changed, _ in takewhile(lambda each: each[1] > moment, reversed(self._last.items()))
        ]
