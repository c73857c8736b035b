"""Long work, done a slice at a time so that nobody else waits: purging or deleting a queue with millions of messages.

A chore is an iterator; each step of it is a slice of the work, one event, and gives how many messages it was. The first
slice is done at once, which for most queues is all of it. The owner of the queue manager calls :meth:`Chores.step` for
the rest, when what was done so far is durable and others have had their turn. What has to go on after a restart is
written down by whoever starts the chore.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

SLICE: Final = 1024
"""How many messages one slice takes."""


class Chore:
    """One piece of long work."""

    __slots__ = ("_slices", "_then", "done", "error", "messages")

    def __init__(self, slices: Iterator[int]) -> None:
        self._slices = slices
        self._then: list[Callable[[], None]] = []
        self.messages = 0
        """How many messages it was so far."""
        self.done = False
        self.error: Exception | None = None
        """What ended the work before its time: a full disk, as a rule."""

    def step(self) -> None:
        try:
            self.messages += next(self._slices)
        except StopIteration:
            self._end()

    def fail(self, error: Exception) -> None:
        self.error = error
        self._end()

    def _end(self) -> None:
        self.done = True
        for action in self._then:
            action()
        self._then.clear()

    def when_done(self, action: Callable[[], None]) -> None:
        """Call ``action`` when all of it is done, now or later."""
        if self.done:
            action()
        else:
            self._then.append(action)


class Chores:
    """The long work that is under way."""

    def __init__(self) -> None:
        self._under_way: deque[Chore] = deque()
        self.wake: Callable[[], None] = lambda: None
        """Tells the owner that there is something to do; given by the server."""

    @property
    def pending(self) -> bool:
        return bool(self._under_way)

    def start(self, slices: Iterator[int]) -> Chore:
        """Begin a chore; raises what its first slice raises. Work that one slice finishes is done when this returns."""
        chore = Chore(slices)
        chore.step()
        if not chore.done:
            chore.step()
        if not chore.done:
            self._under_way.append(chore)
            self.wake()
        return chore

    def step(self) -> bool:
        """Do one slice of one chore, in turns; gives whether there is more to do."""
        if self._under_way:
            chore = self._under_way.popleft()
            try:
                chore.step()
            except Exception as error:
                chore.fail(error)
                raise
            if not chore.done:
                self._under_way.append(chore)
        return bool(self._under_way)

    def finish(self) -> None:
        """Do all of it now."""
        while self.step():
            pass
