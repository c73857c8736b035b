"""What a connection requires of the carrier of its calls: a line, or several of which one answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from msmq.errors import MsmqError


class Stream(Protocol):
    """A call with streams in both directions. Its maker is told of each reply, and of the end once."""

    over: bool

    def put(self, request: Any) -> None:
        """Send a request, as an object or serialized. After the end it is dropped."""

    def end(self) -> None:
        """End the client's side: what was put in is still sent, then the server ends the stream."""

    async def close(self, timeout_s: float = 5.0) -> None:
        """End the client's side, and wait for the server to end the stream."""

    def cancel(self) -> None:
        """End the stream at once."""


class Carrier(Protocol):
    """Makes calls, and connects again when the connection broke."""

    async def ready(self) -> None:
        """Wait for the connection; raises ServerNotAvailableError when it does not come in time."""

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> Stream:
        """Make a call with streams on both sides, once there is a connection."""

    async def call(self, name: str, request: Any) -> Any:
        """Make a call with one answer, once there is a connection."""

    def replies(self, name: str, request: Any) -> AsyncGenerator[Any, None]:
        """Make a call with many answers, once there is a connection."""

    async def close(self) -> None:
        """Wait for the streams that the client has ended, then hang up."""
