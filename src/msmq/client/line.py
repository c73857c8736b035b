"""The client's end of the line (:mod:`msmq.api.frames`): calls without a task, a thread or HTTP/2 in between.

A line is one connection that carries all calls of a client. It is broken for good when its connection breaks, or when
the queue manager stays silent for as long as the client is willing to wait; the carrier makes a new one for the next
call. A forked child does not use the lines of its parent: it closes its copies of their sockets, so that no server
hears two processes on one line, and a line ends when the parent ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final, cast

import google.protobuf.message

from msmq.api import rpc, status
from msmq.api.fields import LARGE_BYTES
from msmq.api.frames import (
    CANCEL,
    END,
    GREETING,
    MESSAGE,
    METHODS,
    OPEN,
    PING,
    SPEAK,
    WINDOW,
    WINDOW_BYTES,
    Frames,
    Inflow,
    cost,
    frame,
    window,
    window_size,
)
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.intake import Intake
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.client.target import Target
from msmq.errors import DecodeError, InsufficientResourcesError, MQError, MsmqError
from msmq.wire.landing import Landing

_PAUSE_S: Final = 0.05
_BELIEVED_BYTES: Final = 4 << 20
_FURTHER_BYTES: Final = 3 << 20
"""How much more the queue manager may send of a paced call: with one window alone it would wait after each reply until
that is read."""
_LOOKS: Final = 4
"""How often the line looks for a sign of life within the time that it waits."""


class _OrderlyEndError(ConnectionLostError):
    """The server ended the stream, without an error."""


class LineStream:
    """A call on a line; implements :class:`msmq.client.stream.Stream`. With ``paced`` the window is opened again when a
    reply is :meth:`read`, not when it arrives."""

    def __init__(
        self,
        line: Line,
        number: int,
        method: rpc.Method,
        received: Callable[[Any], None],
        lost: Callable[[MsmqError], None],
        *,
        paced: bool,
    ) -> None:
        self._line = line
        self._number = number
        self._method = method
        self._received = received
        self._lost = lost
        self._paced = paced
        self._inflow = Inflow()
        if paced:
            self._inflow.widen(_FURTHER_BYTES)
        self._may_send = WINDOW_BYTES
        self._unsent: deque[list[bytes]] = deque()
        self._unread: deque[int] = deque()
        self._gone: asyncio.Future[None] | None = None
        self.leaving = False
        """True once the client has ended its side."""
        self.over = False

    # --- incoming frames ----------------------------------------------------------------------------------------

    def take(self, kind: int, payload: bytes) -> None:
        """Handle a frame of this call."""
        if kind == MESSAGE:
            self._inflow.take(cost(payload))
            self._unread.append(cost(payload))
            self._received(self._method.deserialize_reply(payload))
            if not self._paced:
                self.read()
        elif kind == END:
            self.finish(status.from_message(pb.Error.FromString(payload)) if payload else _ended())
        elif kind == CANCEL:
            self.finish(
                ConnectionLostError("The queue manager could not carry the call through; see its log.")
            )
        elif kind == WINDOW:
            self._may_send += window_size(payload)
            self._send_on()

    def _send_on(self) -> None:
        """Send what waited for the window, then the end of the stream if that waited too."""
        if self._unsent:
            while self._unsent and self._may_send > 0:
                self._send(self._unsent.popleft())
            if self.leaving and not self._unsent:
                self._line.write(*frame(END, self._number))

    def read(self) -> None:
        """Note that the oldest unread reply was read, and open the window again for it."""
        granted = self._inflow.use(self._unread.popleft())
        if granted and not self.over:
            self._line.write(window(self._number, granted))

    def finish(self, error: MsmqError) -> None:
        """End the call and report why."""
        if not self.over:
            self.over = True
            self._line.forget(self._number)
            if self._gone is not None and not self._gone.done():
                self._gone.set_result(None)
            self._lost(error)

    # --- calls by the stream's user -----------------------------------------------------------------------------

    def put(self, request: Any) -> None:
        """Send a request as soon as the window has room. After the end it is dropped."""
        if self.over or self.leaving:
            return
        written = request.__class__ is list
        payload: list[bytes] = request if written else [self._method.serialize_request(request)]
        size = sum(map(len, payload))
        if size > rpc.MAX_MESSAGE_BYTES:  # the queue manager would hang up, however often this is sent
            self._line.write(*frame(CANCEL, self._number))
            self.finish(
                InsufficientResourcesError(
                    f"{size} bytes are more than the channel takes at a time.",
                    advice="Ask for less at a time, or send smaller messages.",
                )
            )
        elif self._unsent or self._may_send <= 0:
            self._unsent.append(payload)
        else:
            self._send(payload)

    def _send(self, payload: list[bytes]) -> None:
        self._may_send -= cost(*payload)
        self._line.write(*frame(MESSAGE, self._number, *payload))

    def end(self) -> None:
        """End the client's side: what was put in is still sent, then the server ends the stream."""
        if not self.over and not self.leaving:
            self.leaving = True
            if not self._unsent:
                self._line.write(*frame(END, self._number))

    async def close(self, timeout_s: float = 5.0) -> None:
        """End the client's side, and wait for the server to end the stream."""
        self.end()
        try:
            if not self.over:
                self._gone = self._gone or asyncio.get_running_loop().create_future()
                await asyncio.wait({self._gone}, timeout=timeout_s)
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the call, if it is not over."""
        if not self.over:
            self._line.write(*frame(CANCEL, self._number))
            self.finish(_ended())

    def forked(self) -> None:
        """Mark the call as over in a forked child: it belongs to the parent."""
        self.over = True


def _ended() -> ConnectionLostError:
    return _OrderlyEndError("The stream has ended.")


class Line(Intake):
    """A connection to a queue manager."""

    def __init__(self, target: Target, sock: socket.socket, patience_s: float) -> None:
        self._target = target
        self._sock = sock
        self._patience_s = patience_s
        self._transport: asyncio.Transport | None = None
        self._greeting = b""
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._greeted: asyncio.Future[None] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._frames = Frames(_BELIEVED_BYTES)
        self._streams: dict[int, LineStream] = {}
        self._last = 0
        self._refusal: MQError | None = None
        self._silent = 0
        self._alarm: asyncio.TimerHandle | None = None
        self.broken = False
        _LINES.add(self)

    @classmethod
    async def connect(cls, target: Target, said: str, patience_s: float) -> Line:
        """Connect, and identify the caller if ``said`` is not empty. Raises OSError when nobody listens, and
        ServerNotAvailableError when trying again would not help."""
        sock = await target.connect()
        line = cls(target, sock, patience_s)
        try:
            opening = GREETING + b"".join(frame(SPEAK, 0, said.encode())) if said else GREETING
            if target.tls is None:
                with suppress(ConnectionError):  # a server without room has hung up already, after saying why
                    sock.send(opening)
            await target.join(lambda: line, sock)
            if target.tls is not None and line._transport is not None:
                line._transport.write(opening)
            await line._greeted
            if isinstance(line._refusal, InsufficientResourcesError):  # there may be room in a moment
                raise ConnectionRefusedError(line._refusal)
            if line._refusal is not None:
                raise ServerNotAvailableError(f"{target.address}: {line._refusal}")
        except ssl.SSLError as error:
            line.hang_up(_ended())
            sock.close()
            raise target.not_trusted(error) from error
        except BaseException:
            line.hang_up(_ended())
            sock.close()
            raise
        return line

    # --- the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def landing(self) -> Landing | None:
        return self._frames.landing

    def heard(self) -> None:
        self._silent = 0

    def data_received(self, data: bytes) -> None:
        self.heard()
        try:
            if not self._greeted.done():
                data = self._greet(data)
            for kind, number, payload in self._frames.feed(data):
                stream = self._streams.get(number)
                if stream is not None:
                    stream.take(kind, payload)
                elif number == 0 and kind == END:
                    self._refusal = status.from_message(pb.Error.FromString(payload))
                    self.hang_up(ConnectionLostError(str(self._refusal)))
        except (DecodeError, google.protobuf.message.DecodeError) as error:
            self.hang_up(ConnectionLostError(f"The queue manager cannot be understood: {error}"))

    def _greet(self, data: bytes) -> bytes:
        """Check the greeting, which may come in pieces. Returns the bytes behind it."""
        self._greeting += data
        start = self._greeting[: len(GREETING)]
        if not GREETING.startswith(start):
            self._greeted.set_exception(self._target.not_understood())
            self.hang_up(_ended())
        elif start == GREETING:
            self._greeted.set_result(None)
            return self._greeting[len(GREETING) :]
        return b""

    def connection_lost(self, error: Exception | None) -> None:
        if isinstance(error, ssl.SSLError) and not self._greeted.done():
            self._greeted.set_exception(error)
        self.hang_up(ConnectionLostError("The connection to the queue manager broke."))
        if not self._gone.done():
            self._gone.set_result(None)

    def hang_up(self, error: MsmqError) -> None:
        """Break the line, and tell its calls why."""
        if self.broken:
            return
        self.broken = True
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._greeted.done():
            self._greeted.set_exception(ConnectionRefusedError("it hung up"))
            self._greeted.exception()
        if self._transport is not None:
            self._transport.abort()
        for stream in list(self._streams.values()):
            stream.finish(error)

    async def close(self, timeout_s: float) -> None:
        """Wait for the streams that the client has ended, then hang up."""
        leaving = [stream.close(timeout_s) for stream in self._streams.values() if stream.leaving]
        try:
            await asyncio.gather(*leaving)
        finally:
            self.hang_up(ConnectionLostError("The connection was closed."))
        if self._transport is not None:
            await asyncio.wait({self._gone}, timeout=timeout_s)

    def forked(self) -> None:
        """Give the line up in a forked child: it belongs to the parent."""
        self.broken = True
        self._transport = None  # the parent uses its event loop, which must not notice this
        for stream in self._streams.values():
            stream.forked()
        self._sock.close()

    # --- calls --------------------------------------------------------------------------------------------------

    def open(
        self,
        name: str,
        received: Callable[[Any], None],
        lost: Callable[[MsmqError], None],
        *,
        paced: bool = False,
    ) -> LineStream:
        """Begin a call."""
        self._last += 1
        stream = LineStream(self, self._last, METHODS[name], received, lost, paced=paced)
        if self.broken:
            stream.over = True
            self._loop.call_soon(lost, ConnectionLostError("The connection to the queue manager broke."))
            return stream
        self._streams[self._last] = stream
        self.write(*frame(OPEN, self._last, name.encode()))
        if paced:
            self.write(window(self._last, _FURTHER_BYTES))
        if self._alarm is None:
            self._silent = 0
            self._look_later()
        return stream

    def forget(self, number: int) -> None:
        """Drop a call that is over."""
        self._streams.pop(number, None)

    def write(self, *parts: bytes) -> None:
        if self._transport is None or self.broken:
            return
        if max(map(len, parts)) < LARGE_BYTES:
            self._transport.writelines(parts)
        else:  # asyncio joins what it gets together, and copies the bytes that it could not send
            for part in parts:
                self._transport.write(memoryview(part))

    # --- signs of life ------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        self._alarm = self._loop.call_later(self._patience_s / _LOOKS, self._look)

    def _look(self) -> None:
        """Ping while a call waits for an answer, and hang up after too many looks without one."""
        self._alarm = None
        if not self._streams:
            return
        self._silent += 1
        if self._silent >= _LOOKS:
            self.hang_up(
                ServerNotAvailableError(
                    f"The queue manager has not answered for {self._patience_s:g} seconds."
                )
            )
            return
        self.write(*frame(PING, 0))
        self._look_later()


_LINES: Final[weakref.WeakSet[Line]] = weakref.WeakSet()
"""All lines of this process."""


def _forked() -> None:
    for line in list(_LINES):
        line.forked()
    _LINES.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forked)


class LineCarrier:
    """Makes calls on a line, and replaces the line when it is broken: a :class:`msmq.client.stream.Carrier`."""

    def __init__(
        self, target: Target, said: str, timeout_s: float, no_answer: Callable[[Exception | None], MsmqError]
    ) -> None:
        self._target = target
        self._said = said
        self._timeout_s = timeout_s
        self._no_answer = no_answer
        self._line: Line | None = None
        self._connecting = asyncio.Lock()

    async def ready(self) -> None:
        await self._ready()

    async def _ready(self) -> Line:
        if self._line is not None and not self._line.broken:
            return self._line
        last: OSError | None = None
        try:
            async with asyncio.timeout(self._timeout_s), self._connecting:
                while self._line is None or self._line.broken:
                    try:
                        self._line = await Line.connect(self._target, self._said, self._timeout_s)
                    except OSError as error:
                        last = error
                        await asyncio.sleep(_PAUSE_S)
                return self._line
        except TimeoutError:
            raise self._no_answer(last) from None

    async def stream(
        self, name: str, received: Callable[[Any], None], lost: Callable[[MsmqError], None]
    ) -> LineStream:
        return (await self._ready()).open(name, received, lost)

    async def call(self, name: str, request: Any) -> Any:
        line = await self._ready()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def received(reply: Any) -> None:
            if not answer.done():
                answer.set_result(reply)

        def lost(error: MsmqError) -> None:
            if not answer.done():
                answer.set_exception(error)

        stream = line.open(name, received, lost)
        stream.put(request)
        stream.end()
        try:
            return await answer
        except asyncio.CancelledError:
            stream.cancel()
            raise

    async def replies(self, name: str, request: Any) -> AsyncGenerator[Any, None]:
        line = await self._ready()
        came: deque[Any] = deque()
        something = asyncio.Event()
        errors: list[MsmqError] = []

        def received(reply: Any) -> None:
            came.append(reply)
            something.set()

        def lost(error: MsmqError) -> None:
            errors.append(error)
            something.set()

        stream = line.open(name, received, lost, paced=True)
        stream.put(request)
        stream.end()
        try:
            while True:
                while came:
                    stream.read()
                    yield came.popleft()
                if errors:
                    if isinstance(errors[0], _OrderlyEndError):
                        return
                    raise errors[0]
                something.clear()
                await something.wait()
        finally:
            stream.cancel()

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close(self._timeout_s)
            self._line = None
