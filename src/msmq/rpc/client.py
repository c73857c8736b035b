"""The RPC client on asyncio: many calls at once on one connection (MS-RPCE 3.3.2).

::

    async with await RpcClient.connect("server", 2103, ECHOES, Credentials("alice", "secret")) as client:
        reply = await client.call(ECHO, EchoRequest(...))

Calls may be made from many tasks; each waits for its own answer only. Cancelling the task of a call gives it up
(*orphaned*); ``cancel_calls`` asks the server for an early answer to all that wait. Time-outs are the caller's
(``asyncio.timeout``). When the connection breaks every waiting call raises `RpcConnectionError`, and so does every
later one: making a new connection is left to the caller, who knows what may be repeated.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast

from msmq.errors import DecodeError
from msmq.rpc.channel import READ_SIZE, Limits
from msmq.rpc.initiator import (
    BindRefused,
    Bound,
    ClientConnection,
    ConnectionClosed,
    Event,
    FaultArrived,
    ResponseArrived,
    ShutdownAsked,
    State,
)
from msmq.rpc.interface import Interface, Operation
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import Syntax
from msmq.rpc.security import AuthenticationError, Credentials, SecurityContext
from msmq.rpc.status import NotServedError, RpcBindError, RpcConnectionError, RpcError, RpcFault
from msmq.rpc.syntaxes import NDR, NDR64

Q = TypeVar("Q", bound=Parameters)
R = TypeVar("R", bound=Parameters)

CLIENT_LIMITS: Final = Limits(max_stub=16 << 20, max_partial=64 << 20)
"""Limits of a client: answers may hold whole messages of up to four megabytes."""
_SECURITY_CONTEXT_ID: Final = 1


class Awaiting(Protocol):
    """Receives the outcome of a call: a future, or an object that acts as soon as the answer has been read."""

    def done(self) -> bool:
        """Whether nobody waits for the outcome any more."""

    def set_result(self, stub: bytes, /) -> None: ...

    def set_exception(self, error: RpcError, /) -> None: ...


class RpcClient:
    """A connection to a server, made by `connect`."""

    def __init__(self, machine: ClientConnection) -> None:
        self._machine = machine
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, Awaiting] = {}
        self._binding: asyncio.Future[Bound] | None = None
        self._bound: dict[Syntax, Bound] = {}
        self._contexts: dict[Operation[Any, Any], Bound] = {}
        self._bind_lock = asyncio.Lock()
        self._broken: RpcConnectionError | None = None
        self._flushing = False
        self._loop = asyncio.get_running_loop()
        self._writable = asyncio.Event()
        self._writable.set()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection has closed."""
        self.shutdown_asked = False
        """Whether the server has asked us to close when we can."""

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        interface: Interface,
        credentials: Credentials | None = None,
        *,
        ndr64: bool = False,
        association_group_id: int = 0,
        limits: Limits = CLIENT_LIMITS,
        target_name: str | None = None,
        local_address: str | None = None,
    ) -> Self:
        """Connect, authenticate and bind ``interface``.

        ``ndr64`` offers NDR64 before NDR. ``target_name`` is the host as its Kerberos principal names it. Raises
        RpcBindError if the server refuses, RpcConnectionError if it cannot be reached.
        """
        try:
            security: SecurityContext | None = None
            if credentials is not None:
                security = credentials.initiate(target_name or host, _SECURITY_CONTEXT_ID)
            client = cls(ClientConnection(limits, security))
            local = (local_address, 0) if local_address is not None else None
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: _Socket(client), host, port, local_addr=local)
        except AuthenticationError as error:
            raise RpcBindError(str(error)) from error
        except OSError as error:
            raise RpcConnectionError(f"{host} port {port}: {error}") from error
        try:
            await client._bind(interface, ndr64, association_group_id)
        except BaseException:
            client.abort()
            raise
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def association_group_id(self) -> int:
        """The number of our association group, for another connection that is to share our context handles."""
        return self._machine.association_group_id

    async def bind(self, interface: Interface, *, ndr64: bool = False) -> None:
        """Bind another interface on the same connection."""
        async with self._bind_lock:
            if interface.syntax not in self._bound:
                await self._bind(interface, ndr64, 0)

    async def _bind(self, interface: Interface, ndr64: bool, group: int) -> None:
        transfers = (NDR64, NDR) if ndr64 else (NDR,)
        self._check()
        self._binding = asyncio.get_running_loop().create_future()
        try:
            if self._machine.state is State.UNBOUND:
                self._machine.bind(interface.syntax, transfers, group)
            else:
                self._machine.alter(interface.syntax, transfers)
            self._flush()
            bound = await self._binding
        except AuthenticationError as error:
            raise RpcBindError(str(error)) from error
        finally:
            self._binding = None
        if bound.context_id is None:
            raise NotServedError(
                f"{interface.name} is not served there (result {bound.result}, reason {bound.reason})"
            )
        self._bound[interface.syntax] = bound
        self._contexts.update(dict.fromkeys(interface.operations, bound))

    # --- calls ------------------------------------------------------------------------------------------

    async def call(
        self, operation: Operation[Q, R], request: Q, *, object_uuid: bytes | None = None
    ) -> R:  # fmt: skip
        """Make one call of a bound interface and wait for its answer; a fault raises RpcFault."""
        stub = request.encode(self._contexts[operation].ndr64)
        data = await self.call_stub(operation, stub, object_uuid=object_uuid)
        try:
            return operation.response.decode(data, self._contexts[operation].ndr64)[0]
        except DecodeError as error:
            raise self.nonsense(operation, error) from error

    async def call_stub(
        self, operation: Operation[Q, R], stub: bytes, *, object_uuid: bytes | None = None
    ) -> bytes:  # fmt: skip
        """Like :meth:`call`, for callers that have marshalled the stub already."""
        if not self._writable.is_set():
            await self._writable.wait()
        answer: asyncio.Future[bytes] = self._loop.create_future()
        call_id = self.begin(operation, stub, answer, object_uuid)
        try:
            return await answer
        except asyncio.CancelledError:
            self._calls.pop(call_id, None)
            self._machine.orphan(call_id)
            self._flush()
            raise

    def begin(
        self, operation: Operation[Q, R], stub: bytes, answer: Awaiting, object_uuid: bytes | None = None
    ) -> int:  # fmt: skip
        """Start a call whose outcome goes to ``answer``, and return its number. It costs no task and does not wait for
        the server to read, so the caller must bound the number of calls."""
        if self._broken is not None:
            raise RpcConnectionError(str(self._broken))
        bound = self._contexts[operation]
        assert bound.context_id is not None
        calls = self._calls
        call_id = self._machine.call(bound.context_id, operation.opnum, stub, object_uuid)
        calls[call_id] = answer
        if not self._flushing:
            if len(calls) == 1:  # the only call under way: others will hardly come in this turn
                self._flush()
            else:
                self._flush_soon()
        return call_id

    def ndr64(self, operation: Operation[Q, R]) -> bool:
        """Whether stubs of an operation are marshalled in NDR64 on this connection."""
        return self._contexts[operation].ndr64

    def nonsense(self, operation: Operation[Q, R], error: DecodeError) -> RpcConnectionError:
        """Close the connection because an answer cannot be read. Returns the error for the caller to raise."""
        self.abort()
        return RpcConnectionError(f"the answer of {operation.name} makes no sense: {error}")

    def cancel_calls(self) -> None:
        """Ask for an early answer to every call under way (co_cancel)."""
        for call_id in self._calls:
            self._machine.cancel(call_id)
        self._flush()

    # --- the socket -------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Send what is queued and close; calls still under way fail."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
        await self.closed

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _check(self) -> None:
        if self._broken is not None:
            raise RpcConnectionError(str(self._broken))

    def _flush_soon(self) -> None:
        """Write at the end of this turn of the loop, together with other calls made in it."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        data = self._machine.data_to_send()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if data:
            transport.write(data)
        if self._machine.state is State.CLOSED:
            transport.close()

    def received(self, data: bytes) -> None:
        calls = self._calls
        self._flushing = True  # writing is done below, also for calls made meanwhile
        for event in self._machine.receive_data(data):
            if type(event) is ResponseArrived:
                answer = calls.pop(event[0], None)
                if answer is not None and not answer.done():
                    answer.set_result(event[1])
            else:
                self._handle(event)
        self._flush()

    def _handle(self, event: Event) -> None:
        match event:
            case FaultArrived(call_id, status, did_not_execute):
                _fail(self._calls.pop(call_id, None), RpcFault(status, did_not_execute))
            case Bound():
                _settle(self._binding, event)
            case BindRefused(reason):
                _fail(self._binding, RpcBindError(f"the server refused to be bound, reason 0x{reason:X}"))
            case ShutdownAsked():
                self.shutdown_asked = True
            case ConnectionClosed(reason):
                self._break(reason)

    def _break(self, reason: str) -> None:
        if self._broken is None:
            self._broken = RpcConnectionError(reason)
        _fail(self._binding, RpcConnectionError(reason))
        answers = list(self._calls.values())
        self._calls.clear()
        for answer in answers:
            _fail(answer, RpcConnectionError(reason))

    def made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def lost(self, error: Exception | None) -> None:
        self._machine.close("the connection is gone")
        self._break(str(error) if error is not None else "the server closed the connection")
        self._writable.set()
        _settle(self.closed, None)

    def writable(self, yes: bool) -> None:
        if yes:
            self._writable.set()
        else:
            self._writable.clear()


T = TypeVar("T")


def _settle(future: asyncio.Future[T] | None, value: T) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[T] | Awaiting | None, error: RpcError) -> None:
    if future is not None and not future.done():
        future.set_exception(error)


class _Socket(asyncio.BufferedProtocol):
    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._buffer = bytearray(READ_SIZE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client.made(cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._client.received(bytes(memoryview(self._buffer)[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.lost(exc)

    def pause_writing(self) -> None:
        self._client.writable(False)

    def resume_writing(self) -> None:
        self._client.writable(True)
