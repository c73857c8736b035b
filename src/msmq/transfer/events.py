"""The events that a session reports to its owner, in the order in which they must be handled; a closing is always
last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from msmq.transfer.states import CloseReason
from msmq.wire.incoming import Incoming

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answered:
    """The acceptor has accepted us; the parameters are still to be agreed (ConnectionHistory:
    EstablishPacketReceived).
    """

    remote_guid: bytes


@dataclass(frozen=True, slots=True)
class Established:
    """The session is open: messages may flow in both directions."""

    remote_guid: bytes
    window_size: int
    """The window of the peer."""
    ack_wait_timeout_ms: int
    recoverable_ack_timeout_ms: int


@dataclass(frozen=True, slots=True)
class MessagesReceived:
    """Messages in the order in which they arrived.

    ``recoverables`` of them are recoverable and are numbered from ``first_recoverable`` on. Report these numbers to
    :meth:`msmq.transfer.session.Session.stored` once the messages are safe, or known to be duplicates, or refused for
    good. The numbers keep growing when an initiator reconnects.
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
    it has not stored yet, or a window that was reduced has grown."""


@dataclass(frozen=True, slots=True)
class RetryDue:
    """It is time for another attempt to connect."""


@dataclass(frozen=True, slots=True)
class Closed(Generic[T]):
    """The session has closed: write the rest of its data, then close the transport.

    ``returned`` holds the tokens that the peer never acknowledged, in the order in which they were sent.
    """

    reason: CloseReason
    detail: str
    returned: list[T]


Event = (
    Answered | Established | MessagesReceived | MessagesAcknowledged[T] | WindowOpened | RetryDue | Closed[T]
)
