"""Cursor (MS-MQDMPR 3.2): a reader's place in a queue and what it has seen there.

The machine is a table. Each get event looks where the cursor stands, and the table says for (state, finding)
what the event answers and which state follows. ``None`` as the next state means "stays as it is"; a key that
is not there is a call that may not be made in that state: nobody asks a cursor that waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from msmq.manager.mailbox.positions import END, START, PositionState
from msmq.manager.mailbox.seek import next_readable
from msmq.manager.queues.queue import MessagePosition, OpenQueueDescriptor, Queue


class CursorState(Enum):
    """Whether the current message was retrieved, or which retrieval waits for one."""

    UNREAD = "Unread"
    WAIT_RECEIVE = "WaitReceive"
    WAIT_PEEK = "WaitPeek"
    READ = "Read"


class Outcome(Enum):
    """The outcome of a get event."""

    SUCCEEDED = "Succeeded"
    ALREADY_RECEIVED = "AlreadyReceived"
    NOT_FOUND = "NotFound"
    ILLEGAL_CURSOR_ACTION = "IllegalCursorAction"
    WAITING = "Waiting"


class Get(Enum):
    """The events that ask a cursor for a message."""

    PEEK = "Get Message For Peek"
    PEEK_NEXT = "Get Next Message For Peek"
    DEQUEUE = "Get Next Message For Dequeue"


class Finding(Enum):
    """What a cursor finds: at its own place if it has read there, otherwise behind it."""

    AVAILABLE_HERE = auto()
    GONE_HERE = auto()
    FOUND_BEHIND = auto()
    NOTHING_BEHIND = auto()
    NOT_LOOKED = auto()


_UNREAD, _READ = CursorState.UNREAD, CursorState.READ
_WAIT_RECEIVE, _WAIT_PEEK = CursorState.WAIT_RECEIVE, CursorState.WAIT_PEEK

TRANSITIONS: Final[dict[tuple[Get, CursorState, Finding], tuple[Outcome, CursorState | None]]] = {
    (Get.PEEK, _UNREAD, Finding.FOUND_BEHIND): (Outcome.SUCCEEDED, _READ),
    (Get.PEEK, _UNREAD, Finding.NOTHING_BEHIND): (Outcome.WAITING, _WAIT_PEEK),
    (Get.PEEK, _READ, Finding.AVAILABLE_HERE): (Outcome.SUCCEEDED, None),
    (Get.PEEK, _READ, Finding.GONE_HERE): (Outcome.ALREADY_RECEIVED, None),
    (Get.PEEK_NEXT, _UNREAD, Finding.NOT_LOOKED): (Outcome.ILLEGAL_CURSOR_ACTION, None),
    (Get.PEEK_NEXT, _READ, Finding.FOUND_BEHIND): (Outcome.SUCCEEDED, _READ),
    (Get.PEEK_NEXT, _READ, Finding.NOTHING_BEHIND): (Outcome.WAITING, _WAIT_PEEK),
    (Get.DEQUEUE, _UNREAD, Finding.FOUND_BEHIND): (Outcome.SUCCEEDED, _UNREAD),
    (Get.DEQUEUE, _UNREAD, Finding.NOTHING_BEHIND): (Outcome.WAITING, _WAIT_RECEIVE),
    (Get.DEQUEUE, _READ, Finding.AVAILABLE_HERE): (Outcome.SUCCEEDED, _UNREAD),
    (Get.DEQUEUE, _READ, Finding.GONE_HERE): (Outcome.ALREADY_RECEIVED, None),
}

WAIT_ENDS: Final = {_WAIT_PEEK: _READ, _WAIT_RECEIVE: _UNREAD}
"""The state after the awaited message has come; a wait that times out always leaves UNREAD."""


class CursorAnswer(NamedTuple):
    outcome: Outcome
    position: MessagePosition | None = None


@dataclass(eq=False, slots=True)
class Cursor:
    """Iterates over the messages of one open queue. ``place`` is a lookup identifier, START or END."""

    handle: int
    descriptor: OpenQueueDescriptor
    place: int = START
    state: CursorState = CursorState.UNREAD

    @property
    def waits(self) -> bool:
        return self.state in WAIT_ENDS

    def get(self, event: Get, queue: Queue, *, no_wait: bool = False) -> CursorAnswer:
        """Process one get event. ``no_wait`` turns a dequeue that would wait into NotFound and no change."""
        finding, found = self._look(event, queue)
        outcome, state = TRANSITIONS[event, self.state, finding]
        if outcome is Outcome.WAITING and event is Get.DEQUEUE and no_wait:
            return CursorAnswer(Outcome.NOT_FOUND)
        if state is not None:
            self.state = state
        if outcome is Outcome.SUCCEEDED:
            self.place = found
            return CursorAnswer(outcome, queue.position(found))
        return CursorAnswer(outcome)

    def _look(self, event: Get, queue: Queue) -> tuple[Finding, int]:
        if event is Get.PEEK_NEXT and self.state is _UNREAD:
            return Finding.NOT_LOOKED, self.place
        if self.state is _READ and event is not Get.PEEK_NEXT:
            entry = queue.positions.get(self.place)
            here = entry is not None and entry.state is PositionState.AVAILABLE
            return (Finding.AVAILABLE_HERE if here else Finding.GONE_HERE), self.place
        found = next_readable(queue, self.place, peek=event is not Get.DEQUEUE)
        return (Finding.NOTHING_BEHIND, self.place) if found is None else (Finding.FOUND_BEHIND, found)

    def message_available(self, position: MessagePosition) -> None:
        """Message Available (3.2.7.5): the wait is over and ``position`` is the current one."""
        self.state = WAIT_ENDS[self.state]
        self.place = position.lookup_id

    def wait_time_expired(self) -> None:
        """Wait Time Expired (3.2.7.6): the cursor of a receive that waited in vain moves behind the tail, that of a
        peek stays."""
        if self.state is _WAIT_RECEIVE:
            self.place = END
        self.state = _UNREAD
