"""A stream of the channel on the short line (:mod:`msmq.api.line`): no task, no thread and no HTTP/2 in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import google.protobuf.message

from msmq.api import status
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import END, GREETING, MESSAGE, METHODS, Frames, frame
from msmq.client.problems import ConnectionLostError
from msmq.errors import DecodeError, MsmqError

_ANSWER: Final = GREETING + b"\n"


async def open_line(
    path: str,
    name: str,
    received: Callable[[Any], None],
    lost: Callable[[MsmqError], None],
    not_spoken: Callable[[], None],
) -> LineStream:
    """Call a method at a unix socket; raises OSError when nobody listens. ``not_spoken`` is called when somebody else
    than a queue manager answers, one of gRPC's proxies for example."""
    loop = asyncio.get_running_loop()
    _, line = await loop.create_unix_connection(lambda: LineStream(name, received, lost, not_spoken), path)
    return line


class LineStream(asyncio.Protocol):
    """A call with streams on both sides, as :class:`msmq.client.stream.Stream` is one."""

    def __init__(
        self,
        name: str,
        received: Callable[[Any], None],
        lost: Callable[[MsmqError], None],
        not_spoken: Callable[[], None],
    ) -> None:
        self._method = METHODS[name]
        self._received = received
        self._lost = lost
        self._not_spoken = not_spoken
        self._greeting = b""
        self._greeted = False
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = False
        self.over = False

    # --- the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(GREETING + b" " + self._method.name.encode() + b"\n")

    def data_received(self, data: bytes) -> None:
        try:
            if not self._greeted:
                self._greeting += data
                if not self._check_greeting():
                    return
                data = self._greeting[len(_ANSWER) :]
            for kind, payload in self._frames.feed(data):
                if self.over:
                    return
                if kind == MESSAGE:
                    self._received(self._method.deserialize_reply(payload))
                else:
                    self._finish(status.from_message(pb.Error.FromString(payload)) if payload else None)
        except (DecodeError, google.protobuf.message.DecodeError) as error:
            self._finish(ConnectionLostError(f"The queue manager cannot be understood: {error}"))

    def _check_greeting(self) -> bool:
        """Whether the answer is there; it may come in pieces."""
        start = self._greeting[: len(_ANSWER)]
        self._greeted = start == _ANSWER
        if not self._greeted and not _ANSWER.startswith(start):
            self._not_spoken()
            self._finish(ConnectionLostError("Somebody else than a queue manager answers at this socket."))
        return self._greeted

    def connection_lost(self, error: Exception | None) -> None:
        self._finish(ConnectionLostError("The connection to the queue manager broke."))
        if not self._gone.done():
            self._gone.set_result(None)

    def _finish(self, error: MsmqError | None) -> None:
        if not self.over:
            self.over = True
            self._lost(error or ConnectionLostError("The stream has ended."))
        self.cancel()

    # --- what the stream's user does ----------------------------------------------------------------------------

    def put(self, request: Any) -> None:
        """Send a request; after the end nobody hears it."""
        if not self.over and not self._closing:
            assert self._transport is not None
            self._transport.writelines(frame(MESSAGE, self._method.serialize_request(request)))

    async def close(self, timeout_s: float = 5.0) -> None:
        """Take leave: what was put in goes out, the other side ends the stream."""
        if not self.over and not self._closing:
            self._closing = True
            assert self._transport is not None
            self._transport.writelines(frame(END))
        if not self.over:
            await asyncio.wait({self._gone}, timeout=timeout_s)
        self.cancel()

    def cancel(self) -> None:
        """Break the connection, if it is still there."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
