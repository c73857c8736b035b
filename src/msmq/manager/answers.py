"""Answers to readers, held back until the event that made them is over.

An event makes all of its changes before anybody is told. So the receiver of an answer may call back at once (read on,
send, close the queue) and finds the manager between two events, never inside one. New answers that come up while
answers are given are given after them, in order: a reader that reads on from its own callback does not nest calls,
however many messages there are.
"""

from __future__ import annotations

from collections import deque
from typing import Self

from msmq.manager.queues.queue import ReadDone, ReadResult


class Answers:
    """Gives every reader its answer, one call of ``done`` each."""

    def __init__(self) -> None:
        self._ready: deque[tuple[ReadDone, ReadResult]] = deque()
        self.holders = 0
        """The number of events under way."""

    def give(self, done: ReadDone, result: ReadResult) -> None:
        """Answer a reader now, or when the event that holds answers back has ended."""
        self._ready.append((done, result))
        if not self.holders:
            self._deliver()

    def held(self) -> Self:
        """Hold answers back during an event of several changes: ``with answers.held():``. Events nest; the outermost
        one counts."""
        return self

    def let_go(self) -> None:
        self.holders -= 1
        if self._ready and not self.holders:
            self._deliver()

    def __enter__(self) -> Self:
        self.holders += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def _deliver(self) -> None:
        self.holders += 1
        try:
            while self._ready:
                done, result = self._ready.popleft()
                done(result)
        finally:
            self.holders -= 1
            if self._ready:  # a callback raised, but the other answers are still given
                self._deliver()
