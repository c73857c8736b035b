"""The short line: a call with streams on both sides, on a connection of its own and without HTTP/2.

gRPC for Python takes longer for its own part of a round trip than the queue manager for all of its, and more time for a
batch of messages than it takes to read them from the disk. So on the unix socket a call whose both sides are streams
can be made in another way too, with the same messages of ``msmq.proto``. The client's first line names the method, and
the server answers with its own::

    msmq-line/1 Receive\\n                     msmq-line/1\\n

Then both sides send frames: four bytes of length, little-endian, one byte that says what the frame is, and as many
bytes as the length says. A MESSAGE is a request or a reply. END is the last frame of a side: that of the client is
empty, that of the server has an ``Error`` in it if the call failed. The end of the connection is the end of the call.

Nothing that begins like this is HTTP/2, whose clients begin with ``PRI``; :mod:`msmq.api.relay` tells them apart.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import google.protobuf.message
import grpc

from msmq.api import rpc
from msmq.api.status import to_message, to_mq_error
from msmq.errors import DecodeError, InvalidParameterError, MsmqError
from msmq.security.access import Token

GREETING: Final = b"msmq-line/1"
MESSAGE: Final = 0
END: Final = 1
_HEAD: Final = struct.Struct("<IB")
_LONGEST_OPENING: Final = 64
_MOST_UNREAD_BYTES: Final = 1 << 20
_MOST_UNREAD: Final = 64
"""What may have come and not been read before no more is taken from the socket."""
METHODS: Final = {method.name: method for method in rpc.methods() if method.kind == "stream_stream"}
"""The calls that can be made like this."""
_log = logging.getLogger(__name__)


def frame(kind: int, payload: bytes = b"") -> tuple[bytes, bytes]:
    """A frame in the two parts that are written one after the other."""
    return _HEAD.pack(len(payload), kind), payload


class Frames:
    """Cuts what arrives into frames. Memory follows what has come, not what a length claims."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._wanted = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that are whole now, as kind and payload."""
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._wanted:
                return []
            data = bytes(rest)
            rest.clear()
        frames = []
        start, end, head = 0, len(data), _HEAD.size
        self._wanted = head
        while end - start >= head:
            size, kind = _HEAD.unpack_from(data, start)
            if size > rpc.MAX_MESSAGE_BYTES or kind > END:
                raise DecodeError(f"no frame of the line: kind {kind}, {size} bytes", start)
            following = start + head + size
            if following > end:
                self._wanted = head + size
                break
            frames.append((kind, data[start + head : following]))
            start = following
        rest += data[start:]
        return frames


class Conversation(Protocol):
    """A call with streams on both sides, as its handler sees it: that of gRPC, or a line."""

    async def read(self) -> Any:
        """The next request; ``grpc.aio.EOF`` when there will be none."""

    async def write(self, reply: Any) -> None:
        """Send a reply; waits while the reader does not keep up."""


Answer = Callable[[str, Conversation, Token], Awaitable[None]]
"""Carries a call through: its method's name, its two streams, its caller."""


class Line(asyncio.Protocol):
    """One call on one connection."""

    def __init__(
        self, transport: asyncio.Transport, caller: Token, answer: Answer, lost: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._caller = caller
        self._answer = answer
        self._lost = lost
        self._opening = b""
        self._method: rpc.Method | None = None
        self._frames = Frames()
        self._requests: deque[bytes] = deque()
        self._unread_bytes = 0
        self._full = False
        self._ended = False
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.task: asyncio.Task[None] | None = None

    # --- what comes ---------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        try:
            if self._method is None:
                self._opening += data
                opening, newline, data = self._opening.partition(b"\n")
                if not newline and len(opening) <= _LONGEST_OPENING:
                    return
                self._begin(opening)
            for kind, payload in self._frames.feed(data):
                self._take(kind, payload)
        except DecodeError as error:
            _log.warning("a line was cut: %s", error)
            self._transport.abort()

    def _begin(self, opening: bytes) -> None:
        greeting, _, name = opening.partition(b" ")
        method = METHODS.get(name.decode("ascii", "replace"))
        if greeting != GREETING or method is None:
            raise DecodeError(f"a line cannot begin with {opening[:_LONGEST_OPENING]!r}")
        self._opening = b""
        self._method = method
        self._transport.write(GREETING + b"\n")
        self.task = asyncio.get_running_loop().create_task(self._serve(method))

    def _take(self, kind: int, payload: bytes) -> None:
        if self._ended:
            raise DecodeError("a frame behind the end")
        if kind == END:
            self._ended = True
        else:
            self._requests.append(payload)
            self._unread_bytes += len(payload)
            if not self._full and self._too_much():
                self._full = True
                self._transport.pause_reading()
        self._something.set()

    def _too_much(self) -> bool:
        return self._unread_bytes > _MOST_UNREAD_BYTES or len(self._requests) > _MOST_UNREAD

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()
        self._lost()

    # --- the call -----------------------------------------------------------------------------------------------

    async def _serve(self, method: rpc.Method) -> None:
        try:
            await self._answer(method.name, self, self._caller)
        except MsmqError as error:
            self._hang_up(to_message(to_mq_error(error)).SerializeToString())
        except Exception:
            _log.exception("%s failed", method.name)
            self._transport.abort()
        else:
            self._hang_up(b"")

    def _hang_up(self, error: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(frame(END, error))
            self._transport.close()

    async def read(self) -> Any:
        while not self._requests:
            if self._ended:
                return grpc.aio.EOF
            self._something.clear()
            await self._something.wait()
        payload = self._requests.popleft()
        self._unread_bytes -= len(payload)
        if self._full and not self._too_much():
            self._full = False
            self._transport.resume_reading()
        assert self._method is not None
        try:
            return self._method.deserialize_request(payload)
        except google.protobuf.message.DecodeError as error:
            raise InvalidParameterError("A request could not be read.") from error

    async def write(self, reply: Any) -> None:
        assert self._method is not None
        self._transport.writelines(frame(MESSAGE, self._method.serialize_reply(reply)))
        if not self._room.is_set():
            await self._room.wait()
