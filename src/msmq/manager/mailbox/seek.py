"""Seeking messages in a queue (MS-MQDMPR 3.1.7.3.2, 3.1.7.3.3).

Receiving sees available messages only; peeking also sees locked ones that allow it. Hardly any message does; without
such messages both look for available ones, which the places find without going through locked ones.
"""

from __future__ import annotations

from typing import NamedTuple

from msmq.errors import MessageNotFoundError, TransactionUsageError
from msmq.manager.mailbox.positions import END, START, Entry, PositionState
from msmq.manager.mailbox.stored import allows_peek_when_locked
from msmq.manager.model import MessageSeekAction
from msmq.manager.queues.queue import Queue

MQ_OK = 0


def _readable(queue: Queue, entry: Entry, peek: bool) -> bool:
    if entry.state is PositionState.AVAILABLE:
        return True
    return peek and entry.state is PositionState.LOCKED and allows_peek_when_locked(queue, entry)


def next_readable(queue: Queue, place: int, *, peek: bool) -> int | None:
    """Seek forward: the first readable message behind ``place``, or None for End. Nothing is behind END."""
    if not peek or not queue.peekable_when_locked:
        entry = queue.positions.next_available(place)
    else:
        behind = queue.positions.after(place)
        entry = next((entry for entry in behind if _readable(queue, entry, peek)), None)
    return None if entry is None else entry.lookup_id


def previous_readable(queue: Queue, place: int, *, peek: bool) -> int | None:
    """Seek backward: the nearest readable message in front of ``place``, or None for Start."""
    if not peek or not queue.peekable_when_locked:
        entry = queue.positions.previous_available(place)
    else:
        in_front = queue.positions.before(place)
        entry = next((entry for entry in in_front if _readable(queue, entry, peek)), None)
    return None if entry is None else entry.lookup_id


class Sought(NamedTuple):
    """A status and, when it is MQ_OK, the message that was sought."""

    status: int
    lookup_id: int | None = None


def seek_by_id(queue: Queue, lookup_id: int, action: MessageSeekAction, *, peek: bool) -> Sought:
    """Seek Available Message Position With Id. First and last need no identifier; the others start from one
    that is in the queue."""
    not_found = Sought(MessageNotFoundError.code)
    if action is MessageSeekAction.FIRST:
        found = next_readable(queue, START, peek=peek)
    elif action is MessageSeekAction.LAST:
        found = previous_readable(queue, END, peek=peek)
    else:
        entry = queue.positions.get(lookup_id)
        if entry is None:
            return not_found
        if action is MessageSeekAction.CURRENT:
            return _current(queue, entry, peek)
        return seek_neighbour(queue, lookup_id, action, peek=peek)
    return not_found if found is None else Sought(MQ_OK, found)


def seek_neighbour(queue: Queue, place: int, action: MessageSeekAction, *, peek: bool) -> Sought:
    """The next or previous message of a place, which may be empty."""
    seek = next_readable if action is MessageSeekAction.NEXT else previous_readable
    found = seek(queue, place, peek=peek)
    return Sought(MessageNotFoundError.code) if found is None else Sought(MQ_OK, found)


def _current(queue: Queue, entry: Entry, peek: bool) -> Sought:
    """Seek the message at this place itself. One that was received is no longer in the list, hence not found
    (3.1.7.3.3-g)."""
    if _readable(queue, entry, peek):
        return Sought(MQ_OK, entry.lookup_id)
    if peek and entry.state is PositionState.LOCKED:
        return Sought(TransactionUsageError.code)
    return Sought(MessageNotFoundError.code)
