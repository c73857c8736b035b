"""What a connection needs of whatever carries its calls: a line, or several of which one answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from msmq.errors import MsmqError


class Stream(Protocol):
    """A call with streams on both sides. Whoever makes one is told each reply, and once that it is over."""

    over: bool

    def put(self, request: Any) -> None:
        """Send a request, which may be written already; after the end nobody hears it."""

    def end(self) -> None:
        """Take leave: what was put in goes out, and the other side ends the stream."""

    async def close(self, timeout_s: float = 5.0) -> None:
        """Take leave, and wait for the other side to end the stream."""

    def cancel(self) -> None:
        """End it at once."""


class Carrier(Protocol):
    """Makes calls, and finds its server again when the connection broke."""

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
        """Let the streams that have taken leave come to their end, then hang up."""
