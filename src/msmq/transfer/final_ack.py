"""FinalAck (MS-MQQB 3.1.5.7): what becomes of a transactional message after it has reached its queue.

A sender that asked for source journaling keeps a message until it knows whether an application has read it. From
its numbering on such a message is *tracked*; once its OrderAck has come it is *parked* (AwaitingFinalACKTable)
until the FinalAck decides: into the journal, into the dead-letter queue, or simply forgotten. A FinalAck may
overtake the OrderAck, for a refused message it usually does. It says all that the OrderAck would: the message is
settled at once, so that there is nothing to remember that a crash could make us forget.

Which messages are tracked and which of them are parked is durable state of the caller, who stores it beside the
messages; after a restart it tracks them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_JN, USER_JP, USER_TH
from msmq.wire.layout import transaction_at, user_end, user_flags
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody

T = TypeVar("T")

_FA: Final = 0x02


class Fate(Enum):
    """Where a message goes whose FinalAck has come."""

    JOURNAL = "the system journal"
    DEAD_LETTER = "the transactional dead-letter queue, or the one the application named"
    FORGET = "nowhere"


@dataclass(slots=True)
class Tracked(Generic[T]):
    """One message whose end is awaited."""

    message_id: int
    token: T
    positive_journaling: bool
    negative_journaling: bool
    parked: bool = False
    """OrderAck has come; only the FinalAck is missing."""

    def fate(self, message_class: int) -> Fate:
        if message_class == MessageClass.ACK_RECEIVE:
            return Fate.JOURNAL if self.positive_journaling else Fate.FORGET
        return Fate.DEAD_LETTER if self.negative_journaling else Fate.FORGET


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """A FinalAck has decided.

    Move the message and forget it; where it was not ``parked`` its sequence still holds it
    (:meth:`msmq.transfer.order_sender.OrderSender.remove`).
    """

    token: T
    fate: Fate
    parked: bool


def wants_final_ack(message: UserMessage) -> bool:
    """Whether the sender keeps a transactional message until its FinalAck, and the receiver has to send one."""
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
        """Follow a message of our own that asks for it; None for the others."""
        if not wants_final_ack(message):
            return None
        return self.follow(message.user.message_id, message.user.flags, token, parked=parked)

    def follow(self, message_id: int, user_flags: int, token: T, *, parked: bool = False) -> Tracked[T]:
        """Follow a message of our own that has these flags in its UserHeader."""
        tracked = Tracked(message_id, token, bool(user_flags & USER_JP), bool(user_flags & USER_JN), parked)
        self._tracked[message_id] = tracked
        return tracked

    def forget(self, message_id: int) -> None:
        """The message ended otherwise: expired, or deleted by an administrator."""
        self._tracked.pop(message_id, None)

    def find(self, body: FinalAckBody) -> T | None:
        """The message that a FinalAck is about, None when it is none of ours that is still here."""
        tracked = self._tracked.get(body.message_id) if body.source_guid in self._own_guids else None
        return None if tracked is None else tracked.token

    def receive(self, body: FinalAckBody, message_class: int) -> Settled[T] | None:
        """Take a FinalAck; None when it is about no message of ours that is still here."""
        tracked = self._tracked.pop(body.message_id, None) if body.source_guid in self._own_guids else None
        if tracked is None:
            return None
        return Settled(tracked.token, tracked.fate(message_class), tracked.parked)
