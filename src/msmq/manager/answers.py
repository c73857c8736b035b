"""Answers to readers, held back until the event that made them is over.

An event changes everything it has to change and only then lets anybody know. Whoever gets an answer may
therefore call back at once (read on, send, close the queue) and finds the manager between two events, never
inside one. What is answered while answers are being given out is given out after them, in order: a reader
that reads on from its own callback piles up no calls, however many messages there are.
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
        """Events under way."""

    def give(self, done: ReadDone, result: ReadResult) -> None:
        """Answer a reader: now, or when the event that holds answers back is over."""
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
            if self._ready:  # a callback raised; the others are not to suffer for it
                self._deliver()
