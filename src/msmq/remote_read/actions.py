"""The actions that a read may ask for: the table of ulAction and the parameters of each (MS-MQRR 3.1.4.7)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from msmq.manager.model import MessageSeekAction

INFINITE_MS: Final = 0xFFFFFFFF
SEQUENCE_MASK: Final = (1 << 56) - 1
"""pSequenceId is the low seven bytes of a lookup identifier; the eighth follows from the message's priority."""


class Action(IntEnum):
    """ulAction."""

    RECEIVE = 0x00000000
    PEEK_CURRENT = 0x80000000
    PEEK_NEXT = 0x80000001
    LOOKUP_PEEK_CURRENT = 0x40000010
    LOOKUP_PEEK_NEXT = 0x40000011
    LOOKUP_PEEK_PREV = 0x40000012
    LOOKUP_RECEIVE_CURRENT = 0x40000020
    LOOKUP_RECEIVE_NEXT = 0x40000021
    LOOKUP_RECEIVE_PREV = 0x40000022


class Meaning(NamedTuple):
    """One row of the table."""

    receives: bool
    seek: MessageSeekAction | None = None
    """The direction from the given message, for actions by lookup identifier."""
    needs_cursor: bool = False


_CURRENT, _NEXT, _PREVIOUS = (
    MessageSeekAction.CURRENT,
    MessageSeekAction.NEXT,
    MessageSeekAction.PREVIOUS,
)

ACTIONS: Final[dict[int, Meaning]] = {
    Action.RECEIVE: Meaning(True),
    Action.PEEK_CURRENT: Meaning(False),
    Action.PEEK_NEXT: Meaning(False, needs_cursor=True),
    Action.LOOKUP_PEEK_CURRENT: Meaning(False, _CURRENT),
    Action.LOOKUP_PEEK_NEXT: Meaning(False, _NEXT),
    Action.LOOKUP_PEEK_PREV: Meaning(False, _PREVIOUS),
    Action.LOOKUP_RECEIVE_CURRENT: Meaning(True, _CURRENT),
    Action.LOOKUP_RECEIVE_NEXT: Meaning(True, _NEXT),
    Action.LOOKUP_RECEIVE_PREV: Meaning(True, _PREVIOUS),
}


def meaning_of(action: int, lookup_id: int, cursor: int, timeout_ms: int) -> Meaning | None:
    """The meaning of a read, or None if its parameters do not go together."""
    meaning = ACTIONS.get(action)
    if meaning is None or (meaning.seek is not None) != (lookup_id != 0):
        return None
    if meaning.seek is not None and (cursor or timeout_ms):
        return None
    if meaning.needs_cursor and not cursor:
        return None
    return meaning
