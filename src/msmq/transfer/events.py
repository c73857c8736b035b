"""What a session tells its owner, in the order in which it has to be dealt with; a closing is always the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from msmq.transfer.states import CloseReason
from msmq.wire.incoming import Incoming

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answered:
    """The acceptor let us in; the parameters are still to be agreed (ConnectionHistory: EstablishPacketReceived)."""

    remote_guid: bytes


@dataclass(frozen=True, slots=True)
class Established:
    """The session is open: messages may flow in both directions."""

    remote_guid: bytes
    window_size: int
    """The peer's."""
    ack_wait_timeout_ms: int
    recoverable_ack_timeout_ms: int


@dataclass(frozen=True, slots=True)
class MessagesReceived:
    """Messages in the order in which they arrived.

    Their recoverable ones have the numbers from ``first_recoverable`` on, ``recoverables`` of them: what
    :meth:`msmq.transfer.session.Session.stored` wants to hear once they are safe, or known to be duplicates
    or refused for good. The numbers go on growing when an initiator connects again.
    """

    messages: Incoming
    first_recoverable: int
    recoverables: int


@dataclass(frozen=True, slots=True)
class MessagesAcknowledged(Generic[T]):
    """The peer has received these express messages and stored these recoverable ones."""

    tokens: list[T]


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """More messages may be sent than before, though none was settled: the peer has received recoverable messages that
    it will store, or a window that was reduced has grown."""


@dataclass(frozen=True, slots=True)
class RetryDue:
    """Time for another attempt to connect."""


@dataclass(frozen=True, slots=True)
class Closed(Generic[T]):
    """The session is over: write what is still to be sent, then close the transport.

    ``returned`` is what the peer never acknowledged, in the order in which it was sent.
    """

    reason: CloseReason
    detail: str
    returned: list[T]


Event = (
    Answered | Established | MessagesReceived | MessagesAcknowledged[T] | WindowOpened | RetryDue | Closed[T]
)
