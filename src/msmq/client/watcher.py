"""Who is told what a connection does with messages; :mod:`msmq.telemetry` makes spans of it.

A connection without a watcher asks once whether it has one, and does nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msmq.client.message import Message, QueuedMessage, Receipt


class Sending(Protocol):
    """Messages that are being sent together, or one by itself."""

    def leave(self, message: Message) -> Message:
        """A message is about to leave; gives it with what is to travel in it."""

    def sent(self, receipts: Sequence[Receipt]) -> None:
        """They are safe."""


class Settlement(Protocol):
    """Messages that are being settled."""

    def end(self, error: BaseException | None = None) -> None:
        """They are, or they are not because of ``error``."""


class Watcher(Protocol):
    """Is told what one connection does."""

    def sending(self, queue: str) -> AbstractContextManager[Sending]:
        """A message is being sent."""

    def sending_many(self, queue: str) -> AbstractContextManager[Sending]:
        """Messages are being sent together."""

    def now(self) -> int:
        """The time, for :meth:`received`."""

    def received(self, message: QueuedMessage, since: int) -> None:
        """The program gets a message that it has waited for since then."""

    def settling(self, how: str, queue: str, messages: Sequence[QueuedMessage]) -> Settlement:
        """Messages are settled by ``how``: ack, reject, commit or abort. Those of a transaction may be of many queues,
        and then ``queue`` is empty."""

    def processing(self, message: QueuedMessage) -> AbstractContextManager[object]:
        """The program works on a message."""


class Watching(Protocol):
    """Makes watchers."""

    def watcher(self, server: str) -> Watcher:
        """The watcher of a connection to this address."""
