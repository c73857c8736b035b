"""One event: everything it writes is kept or lost together, and nobody is answered before it has ended.

Room is reserved once, by the outermost event, for all records that may follow from it; only there may the store begin
a new batch. Whatever happens inside (a reader that waited takes the message, a sender is told) is part of the event
and reserves nothing. It writes its record before it changes anything, so that a full disk undoes nothing.

Inside an event only two things can go wrong: the caller's fault, which is found before anything has changed, and our
own. After the second, memory and the open batch cannot be trusted; the owner is told and ends the process, which
recovers from the log.

Events that free room still work when the disk is full, with space that the store keeps back for them. That space is
for nothing else: inside such an event a message that takes room is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from msmq.errors import MessageStorageFailedError, MsmqError
from msmq.manager.answers import Answers
from msmq.manager.ledger.ledger import RecordStore


class CallAgain(Exception):  # noqa: N818 - it is not an error but a call that waits
    """A call needs information that is not available yet. It has not changed anything, and is made again."""


class Event:
    """The event under way; ``Core.event`` is its :meth:`begin`."""

    __slots__ = ("_answers", "_begun_at", "_depth", "_refusal", "_reserved", "_room", "_store", "failed")

    def __init__(self, store: RecordStore, answers: Answers) -> None:
        self._store = store
        self._answers = answers
        self._depth = 0
        self._reserved = False
        self._room = 0
        """Bytes that the outermost event has reserved and that no part of it has taken yet."""
        self._refusal: MessageStorageFailedError | None = None
        self._begun_at = 0
        self.failed: Callable[[BaseException], None] = lambda error: None
        """Called with an error that left half an event behind; set by the server, which then ends the process."""

    def begin(self, size: int = 0, records: int = 0, *, freeing: bool = False) -> Event:
        """``with core.event(...):`` is one event that writes up to ``records`` records with ``size`` bytes of payload
        together; raises if there is no room, and then nothing has changed. Inside another event it is a part of that
        one. ``freeing`` is for events that take messages away."""
        if records:
            self.reserve(size, records, freeing)
            self._reserved = True
        return self

    def begin_with_room(self, size: int, records: int) -> Event | None:
        """Begin an event that is not strictly needed. Returns None if there is no room for it. Inside another event it
        uses what that one has reserved."""
        if self._reserved:
            if size > self._room:
                return None
            self._room -= size
        try:
            self.reserve(size, records)
        except MessageStorageFailedError:
            return None
        self._reserved = True
        return self

    def reserve(self, size: int, records: int, freeing: bool = False) -> None:
        """Make room for records that are written at once, before anybody is told: such an event needs no ``with``.
        Inside another event this is a part of it."""
        if not self._reserved:
            self._refusal = None
            self._room = size
            try:
                self._store.reserve(size, records)
            except MessageStorageFailedError as error:
                if not freeing:
                    raise
                self._store.reserve(size, records, freeing=True)
                self._refusal = error
        elif self._refusal is not None and not freeing:
            raise self._refusal

    def __enter__(self) -> None:
        if not self._depth:
            self._begun_at = self._store.appended
        self._depth += 1
        self._answers.holders += 1

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self._depth = depth = self._depth - 1
        if not depth:
            self._reserved = False
            if error is not None and self._is_internal(error):
                self.failed(error)
        self._answers.let_go()

    def _is_internal(self, error: BaseException) -> bool:
        """Whether an error is ours: callers' errors are raised before anything is written."""
        if isinstance(error, MessageStorageFailedError):
            return self._store.appended != self._begun_at
        return not isinstance(error, MsmqError | CallAgain)
