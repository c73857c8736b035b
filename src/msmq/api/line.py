"""The server's side of the short line (:mod:`msmq.api.frames`): a connection and its calls."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import google.protobuf.message
import grpc

from msmq.api import rpc
from msmq.api.frames import (
    CANCEL,
    END,
    GREETING,
    MESSAGE,
    METHODS,
    OPEN,
    PING,
    PONG,
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
from msmq.api.intake import Intake
from msmq.api.status import to_message, to_mq_error
from msmq.errors import DecodeError, InsufficientResourcesError, InvalidParameterError, MQError, MsmqError
from msmq.errors.tasks import closing
from msmq.security.access import Token
from msmq.wire.landing import Landing

_MOST_CALLS: Final = 4_096
"""How many calls of one connection may be open."""
_log = logging.getLogger(__name__)


class Conversation(Protocol):
    """A call as its handler sees it, made by gRPC or on a short line."""

    async def read(self) -> Any:
        """The next request; ``grpc.aio.EOF`` after the last one."""

    async def write(self, reply: Any) -> None:
        """Send a reply; waits while the reader falls behind."""


Answer = Callable[[rpc.Method, Conversation, Token], Awaitable[None]]
"""Carries out a call, given its method, its two streams and its caller."""


class Call:
    """A call on a short line; a :class:`Conversation`."""

    def __init__(self, line: Line, number: int, method: rpc.Method) -> None:
        self._line = line
        self._number = number
        self._method = method
        self._requests: deque[bytes] = deque()
        self._inflow = Inflow()
        self._may_send = WINDOW_BYTES
        self._ended = False
        self._something = asyncio.Event()
        self._room = asyncio.Event()

    def take(self, payload: bytes) -> None:
        """Add a request that was received."""
        if self._ended:
            raise DecodeError("a request behind the end")
        self._inflow.take(cost(payload))
        self._requests.append(payload)
        self._something.set()

    def take_end(self) -> None:
        """Note that there will be no more requests."""
        self._ended = True
        self._something.set()

    def take_window(self, size: int) -> None:
        """Let the call send ``size`` more bytes of replies."""
        self._may_send += size
        self.look_again()

    def look_again(self) -> None:
        """Wake a writer that waits for room."""
        self._room.set()

    async def read(self) -> Any:
        while not self._requests:
            if self._ended:
                return grpc.aio.EOF
            self._something.clear()
            await self._something.wait()
        payload = self._requests.popleft()
        granted = self._inflow.use(cost(payload))
        if granted and not self._ended:
            self._line.write(window(self._number, granted))
        try:
            return self._method.deserialize_request(payload)
        except google.protobuf.message.DecodeError as error:
            raise InvalidParameterError("A request could not be read.") from error

    async def write(self, reply: Any) -> None:
        written = reply.__class__ is list
        parts: list[bytes] = reply if written else [self._method.serialize_reply(reply)]
        self._may_send -= cost(*parts)
        self._line.write(*frame(MESSAGE, self._number, *parts))
        while self._may_send <= 0 or self._line.is_full:
            self._room.clear()
            await self._room.wait()


class Line(Intake):
    """A connection of a client. ``caller`` identifies it by what it says about itself. It is asked for each call,
    since tokens may be revoked."""

    def __init__(
        self,
        transport: asyncio.Transport,
        caller: Callable[[str], Token],
        answer: Answer,
        greeted: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._was_greeted = greeted
        self._caller = caller
        self._said = ""
        self._answer = answer
        self._lost = lost
        self._opening: bytes | None = b""
        self._frames = Frames()
        self._calls: dict[int, tuple[Call, asyncio.Task[None]]] = {}
        self._last = 0
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._loop.time()
        self.is_full = False
        """Whether the client falls behind in reading."""

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """The tasks of the open calls."""
        return {task for _, task in self._calls.values()}

    # --- what comes ---------------------------------------------------------------------------------------------

    @property
    def idle_since_s(self) -> float | None:
        """The time since which the connection is idle; None while a call is open."""
        return None if self._calls else self._heard_s

    @property
    def landing(self) -> Landing | None:
        return self._frames.landing

    def heard(self) -> None:
        self._heard_s = self._loop.time()

    def data_received(self, data: bytes) -> None:
        self.heard()
        try:
            if self._opening is not None:
                data = self._opening + data
                if not self._greeted(data):
                    return
                data = data[len(GREETING) :]
            for kind, number, payload in self._frames.feed(data):
                self._take(kind, number, payload)
        except DecodeError as error:
            _log.warning("a line was cut: %s", error)
            self._transport.abort()

    def _greeted(self, data: bytes) -> bool:
        """Whether the greeting, which may come in pieces, is complete."""
        if not GREETING.startswith(data[: len(GREETING)]):
            raise DecodeError(f"a line cannot begin with {data[: len(GREETING)]!r}")
        if len(data) < len(GREETING):
            self._opening = data
            return False
        self._opening = None
        self._was_greeted()
        self._transport.write(GREETING)
        return True

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == OPEN:
            self._open(number, payload)
        elif kind == PING:
            self.write(*frame(PONG, 0))
        elif kind == SPEAK:
            self._said = payload.decode("utf-8", "replace")
        elif number > self._last:
            raise DecodeError(f"call {number} was not opened")
        elif (found := self._calls.get(number)) is None:
            return  # the call ended while the frame was on its way
        elif kind == MESSAGE:
            found[0].take(payload)
        elif kind == END:
            found[0].take_end()
        elif kind == WINDOW:
            found[0].take_window(window_size(payload))
        elif kind == CANCEL:
            found[1].cancel()

    def _open(self, number: int, name: bytes) -> None:
        method = METHODS.get(name.decode("ascii", "replace"))
        if method is None or number <= self._last:
            raise DecodeError(f"call {number} cannot be {name!r}")
        self._last = number
        if len(self._calls) >= _MOST_CALLS:
            told = InsufficientResourcesError(
                f"{_MOST_CALLS} calls of this connection are under way.",
                advice="Wait until some of them have ended, or make another connection.",
            )
            self._end(number, told)
            return
        call = Call(self, number, method)
        task = self._loop.create_task(self._serve(call, number, method, self._said))
        self._calls[number] = call, task
        task.add_done_callback(lambda _: self._calls.pop(number))
        task.add_done_callback(closing(self._transport.abort))

    def pause_writing(self) -> None:
        # A client that does not read is not read from either, since its requests may need answers.
        self.is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self.is_full = False
        self._transport.resume_reading()
        for call, _ in self._calls.values():
            call.look_again()

    def connection_lost(self, error: Exception | None) -> None:
        for _, task in self._calls.values():
            task.cancel()
        self._lost()

    # --- calls --------------------------------------------------------------------------------------------------

    def write(self, *parts: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.writelines(parts)

    async def _serve(self, call: Call, number: int, method: rpc.Method, said: str) -> None:
        try:
            await self._answer(method, call, self._caller(said))
        except MsmqError as error:
            self._end(number, to_mq_error(error))
        except Exception as error:
            # The owner of the loop decides whether the queue manager can go on.
            self._loop.call_exception_handler({"message": f"{method.name} failed", "exception": error})
            self.write(*frame(CANCEL, number))
        else:
            self._end(number, None)

    def _end(self, number: int, error: MQError | None) -> None:
        self.write(*frame(END, number, b"" if error is None else to_message(error).SerializeToString()))


def farewell(error: MQError, *, greet: bool) -> bytes:
    """The last frame to a client that is refused."""
    return (GREETING if greet else b"") + b"".join(frame(END, 0, to_message(error).SerializeToString()))
