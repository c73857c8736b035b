"""Long work, done a slice at a time so that nobody else waits: purging or deleting a queue with millions of messages.

A chore is an iterator; each step is a slice of the work, one event, and yields the number of its messages. The first
slice is done at once, which for most queues is all of it. The owner of the queue manager calls :meth:`Chores.step` for
the rest, when what was done so far is durable and others have had their turn. Work that must go on after a restart is
recorded by the code that starts the chore.
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
        """The number of messages processed so far."""
        self.done = False
        self.error: Exception | None = None
        """The error that ended the work early, usually a full disk."""

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
        """Called when there is work to do; set by the server."""

    @property
    def pending(self) -> bool:
        return bool(self._under_way)

    def start(self, slices: Iterator[int]) -> Chore:
        """Begin a chore with its first slice, whose errors are raised. Work of one slice is done when this returns."""
        chore = Chore(slices)
        chore.step()
        if not chore.done:
            chore.step()
        if not chore.done:
            self._under_way.append(chore)
            self.wake()
        return chore

    def step(self) -> bool:
        """Do one slice of one chore, in turns. Returns whether there is more to do."""
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
        """Do all work now."""
        while self.step():
            pass
