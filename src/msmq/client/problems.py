"""Errors between a client and its server, in addition to the statuses of MSMQ itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msmq.errors import MQError, MsmqError

if TYPE_CHECKING:
    from msmq.client.message import Message, Receipt


class ClientError(MsmqError):
    """Something between this program and the queue manager."""


class ServerNotAvailableError(ClientError):
    """No queue manager answers at the address."""


class ConnectionLostError(ClientError):
    """The connection broke, and what was asked for has not happened: a transaction was aborted, a message that was
    not acknowledged went back to its queue."""


class OutcomeUnknownError(ClientError):
    """The connection broke after something was asked for and before it was answered, and the queue manager was
    restarted since: it may have happened or not. Look into the queue, or do it again if twice does no harm."""

    def __init__(self, detail: str, messages: Sequence[Message] = ()) -> None:
        super().__init__(detail)
        self.messages = list(messages)
        """Messages of which it is not known whether they were sent."""


class SendError(ClientError):
    """Some messages of :meth:`Queue.send_many` were refused; the others were sent."""

    def __init__(self, outcomes: Sequence[Receipt | MQError]) -> None:
        self.outcomes = list(outcomes)
        """One for each message, in order: its receipt, or why it was refused."""
        self.failures = [
            (index, outcome) for index, outcome in enumerate(self.outcomes) if isinstance(outcome, MQError)
        ]
        """Index and error of those that were refused."""
        first = self.failures[0][1] if self.failures else ""
        super().__init__(
            f"{len(self.failures)} of {len(self.outcomes)} messages were refused. The first: {first}"
        )


class RowError(ClientError):
    """A message of :meth:`Queue.send_once` was refused. Those before it were sent, those behind it were not tried."""

    def __init__(self, sent: int, error: MQError) -> None:
        self.sent = sent
        """How many messages of the row were sent."""
        self.error = error
        """Why the next one was refused."""
        super().__init__(f"Message {sent + 1} of the row was refused: {error}")
