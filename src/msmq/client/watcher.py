"""The interface through which a connection reports what it does with messages; :mod:`msmq.telemetry` makes spans of it.

A connection without a watcher only checks that it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msmq.client.message import Message, QueuedMessage, Receipt


class Sending(Protocol):
    """A call that sends one message, or several together."""

    def leave(self, message: Message) -> Message:
        """Called before a message is sent; returns it with what is to travel in it."""

    def sent(self, receipts: Sequence[Receipt]) -> None:
        """Called when the messages are safe."""


class Settlement(Protocol):
    """A call that settles messages."""

    def end(self, error: BaseException | None = None) -> None:
        """Called when the messages are settled, or failed to be with ``error``."""


class Watcher(Protocol):
    """Receives the reports of one connection."""

    def sending(self, queue: str) -> AbstractContextManager[Sending]:
        """A context in which a message is sent."""

    def sending_many(self, queue: str) -> AbstractContextManager[Sending]:
        """A context in which several messages are sent together."""

    def now(self) -> int:
        """Return the time, in the unit of :meth:`received`."""

    def received(self, message: QueuedMessage, since: int) -> None:
        """Called when the program gets a message for which it has waited since the time ``since``."""

    def settling(self, how: str, queue: str, messages: Sequence[QueuedMessage]) -> Settlement:
        """Called when messages are being settled. ``how`` is ack, reject, commit or abort. The messages of a
        transaction may be of several queues; then ``queue`` is empty."""

    def processing(self, message: QueuedMessage) -> AbstractContextManager[object]:
        """A context in which the program works on a message."""


class Watching(Protocol):
    """Makes watchers."""

    def watcher(self, server: str) -> Watcher:
        """Return the watcher for a connection to this address."""
