"""An interface for tests: echoes, waits, context handles, a few shapes of NDR."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msmq.errors import QueueNotFoundError
from msmq.rpc.interface import Call, Interface, Operation, Promise
from msmq.rpc.mgmt import Nothing
from msmq.rpc.ndr import Octets, Parameters, Range, context_handle, declare, u32, wstring
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.rpc.server import RpcServer
from msmq.wire.guid import guid_from_text


@declare
class Data(Parameters):
    length: Annotated[int, Range(u32, 0, 1 << 20)]
    data: Annotated[bytes, Octets(size_is="length")]


@declare
class Whoami(Parameters):
    sid: wstring
    principal: wstring
    level: u32


@declare
class Number(Parameters):
    number: u32


@declare
class Handle(Parameters):
    handle: context_handle


@declare
class HandleAndStatus(Parameters):
    handle: context_handle
    status: u32


ECHO = Operation(0, "Echo", Data, Data)
WHOAMI = Operation(1, "Whoami", Nothing, Whoami)
WAIT = Operation(2, "Wait", Number, Number)
RELEASE = Operation(3, "Release", Number, Number)
OPEN = Operation(4, "Open", Number, Handle)
USE = Operation(5, "Use", Handle, Number)
CLOSE = Operation(6, "Close", Handle, HandleAndStatus)
FAIL = Operation(7, "Fail", Nothing, Nothing)
UNSERVED = Operation(8, "Unserved", Nothing, Nothing)
CRASH = Operation(9, "Crash", Nothing, Nothing)

ECHOES = Interface(
    "echoes",
    Syntax(guid_from_text("5c2f77a1-3c4e-4d0b-9d63-2b1c5a3e7f10"), 1, 2),
    (ECHO, WHOAMI, WAIT, RELEASE, OPEN, USE, CLOSE, FAIL, UNSERVED, CRASH),
)
OTHER = Interface(
    "other",
    Syntax(guid_from_text("5c2f77a1-3c4e-4d0b-9d63-2b1c5a3e7f11"), 1, 0),
    (Operation(0, "UseElsewhere", Handle, Number),),
)


class Echoes:
    """The handlers, and what happened to them."""

    def __init__(self) -> None:
        self.gates: dict[int, asyncio.Event] = {}
        self.waiting: set[int] = set()
        self.cancelled: list[int] = []
        self.dropped: list[int] = []
        self.run_down: list[int] = []

    def gate(self, number: int) -> asyncio.Event:
        return self.gates.setdefault(number, asyncio.Event())

    async def echo(self, call: Call, request: Data) -> Data:
        return request

    async def whoami(self, call: Call, request: Nothing) -> Whoami:
        return Whoami(str(call.token.user), call.principal or "", call.auth_level)

    def wait(self, call: Call, request: Number) -> Promise:
        """Answers when `release` comes, with one more when the client's cancel comes first."""
        number = request.number

        def answer(value: int) -> None:
            self.waiting.discard(number)
            released.cancel()
            promise.answer(Number(value))

        def hurried() -> None:
            self.cancelled.append(number)
            answer(number + 1)

        def abandoned() -> None:
            self.waiting.discard(number)
            released.cancel()
            self.dropped.append(number)

        async def release() -> None:
            await self.gate(number).wait()
            answer(number)

        promise = Promise(abandoned, hurried)
        released = asyncio.create_task(release())
        self.waiting.add(number)
        return promise

    async def release(self, call: Call, request: Number) -> Number:
        self.gate(request.number).set()
        return request

    async def open(self, call: Call, request: Number) -> Handle:
        return Handle(call.open_handle(request.number, self.run_down.append))

    async def use(self, call: Call, request: Handle) -> Number:
        return Number(call.find_handle(request.handle))

    async def close(self, call: Call, request: Handle) -> HandleAndStatus:
        call.close_handle(request.handle)
        return HandleAndStatus(bytes(20), 0)

    async def fail(self, call: Call, request: Nothing) -> Nothing:
        raise QueueNotFoundError

    async def crash(self, call: Call, request: Nothing) -> Nothing:
        raise ZeroDivisionError

    def register(self, server: RpcServer, minimum: AuthLevel = AuthLevel.NONE) -> None:
        handlers = {
            0: self.echo,
            1: self.whoami,
            2: self.wait,
            3: self.release,
            4: self.open,
            5: self.use,
            6: self.close,
            7: self.fail,
            9: self.crash,
        }
        server.register(ECHOES, handlers, minimum)
        server.register(OTHER, {0: self.use}, minimum)
