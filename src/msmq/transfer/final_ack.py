"""FinalAck (MS-MQQB 3.1.5.7): what happens to a transactional message after it has reached its queue.

A sender that asked for source journaling keeps a message until it knows whether an application has read it. Such a
message is *tracked* from the time it is numbered; once its OrderAck has come it is *parked* (AwaitingFinalACKTable)
until the FinalAck decides: it goes to the journal, to the dead-letter queue, or is simply forgotten. A FinalAck may
overtake the OrderAck; for a refused message it usually does. It says all that the OrderAck would, so the message is
settled at once, and there is nothing to remember that a crash could lose.

The caller stores durably, beside the messages, which are tracked and which of these are parked; after a restart it
tracks them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_JN, USER_JP, USER_TH
from msmq.wire.layout import transaction_at, user_end, user_flags
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody

T = TypeVar("T")

_FA: Final = 0x02


class Fate(Enum):
    """Where a message goes when its FinalAck has come."""

    JOURNAL = "the system journal"
    DEAD_LETTER = "the transactional dead-letter queue, or the one the application named"
    FORGET = "nowhere"


@dataclass(slots=True)
class Tracked(Generic[T]):
    """A message whose FinalAck is awaited."""

    message_id: int
    token: T
    positive_journaling: bool
    negative_journaling: bool
    parked: bool = False
    """True if the OrderAck has come and only the FinalAck is missing."""

    def fate(self, message_class: int) -> Fate:
        if message_class == MessageClass.ACK_RECEIVE:
            return Fate.JOURNAL if self.positive_journaling else Fate.FORGET
        return Fate.DEAD_LETTER if self.negative_journaling else Fate.FORGET


class Settled(NamedTuple, Generic[T]):
    """The decision of a FinalAck about a message.

    Move the message and forget it; if it was not ``parked``, its sequence still holds it
    (:meth:`msmq.transfer.order_sender.OrderSender.remove`).
    """

    token: T
    fate: Fate
    parked: bool


def wants_final_ack(message: UserMessage) -> bool:
    """True if the sender keeps a transactional message until its FinalAck, and the receiver must send one."""
    (flags,) = user_flags(message.data)
    if not flags & USER_TH:
        return False
    return bool(flags & (USER_JN | USER_JP) or transaction_at(message.data, user_end(message.data))[0] & _FA)


class FinalAcks(Generic[T]):
    """The tracked messages of a queue manager, by MessageID."""

    __slots__ = ("_own_guids", "_tracked")

    def __init__(self, *own_guids: bytes) -> None:
        self._own_guids = own_guids
        self._tracked: dict[int, Tracked[T]] = {}

    def __len__(self) -> int:
        return len(self._tracked)

    def track(self, message: UserMessage, token: T, *, parked: bool = False) -> Tracked[T] | None:
        """Track one of our own messages if it asks for a FinalAck; returns None for others."""
        if not wants_final_ack(message):
            return None
        return self.follow(message.user.message_id, message.user.flags, token, parked=parked)

    def follow(self, message_id: int, user_flags: int, token: T, *, parked: bool = False) -> Tracked[T]:
        """Track one of our own messages that has these flags in its UserHeader."""
        tracked = Tracked(message_id, token, bool(user_flags & USER_JP), bool(user_flags & USER_JN), parked)
        self._tracked[message_id] = tracked
        return tracked

    def forget(self, message_id: int) -> None:
        """Stop tracking a message that ended otherwise: it expired, or an administrator deleted it."""
        self._tracked.pop(message_id, None)

    def forget_token(self, token: T) -> None:
        """Stop tracking a message that nobody can read any more, so that its identifier is unknown."""
        self._tracked = {number: each for number, each in self._tracked.items() if each.token != token}

    def find(self, body: FinalAckBody) -> T | None:
        """Return the message that a FinalAck is about; None if it is not ours or no longer tracked."""
        tracked = self._tracked.get(body.message_id) if body.source_guid in self._own_guids else None
        return None if tracked is None else tracked.token

    def receive(self, body: FinalAckBody, message_class: int) -> Settled[T] | None:
        """Handle a FinalAck; returns None if its message is not ours or no longer tracked."""
        tracked = self._tracked.pop(body.message_id, None) if body.source_guid in self._own_guids else None
        if tracked is None:
            return None
        return Settled(tracked.token, tracked.fate(message_class), tracked.parked)
