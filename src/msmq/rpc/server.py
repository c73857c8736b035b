"""The RPC server on asyncio: connections, calls, limits (MS-RPCE 3.3.3).

A call whose handler knows the answer is answered while the read that brought it is being taken apart, and several
answers leave in one write. A call that waits is a `Promise` of its handler or a task, and keeps neither its
connection nor another call waiting. A connection that is lost, or a call that is orphaned, abandons the promise or
cancels the task; when all have ended the connection leaves its association group, and the last one to leave runs the
group's context handles down. So a handler cleans up before its handles are run down.

What a stranger can cost is bounded: connections (`msmq.admission.gate`), fragments, stubs, calls
(`msmq.rpc.channel.Limits`), and answers that nobody reads: while more than ``max_unread`` bytes wait to be sent, no
further answer is made for a connection and nothing is read from it; for one address and in all there may be so much
(`msmq.admission.unread`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, cast

from msmq.admission.gate import Crowding, Gate
from msmq.admission.unread import Unread
from msmq.errors import DecodeError, MQError
from msmq.rpc.acceptor import (
    CallArrived,
    CallCancelled,
    CallOrphaned,
    ConnectionClosed,
    Event,
    ServerConnection,
    State,
)
from msmq.rpc.association import AssociationGroup, AssociationGroups
from msmq.rpc.channel import READ_SIZE
from msmq.rpc.channel import ServerConfig as ServerConfig
from msmq.rpc.interface import Answer, Call, Handler, Interface, Operation, Promise
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.rpc.security import Authentication, AuthenticationError, SecurityContext
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.rpc.verification import Meant, check_trailer
from msmq.security.access import Token

_log = logging.getLogger(__name__)
_NOBODY: Final = Token.anonymous()
_LOOK_UPS: Final = 2
"""Questions to a directory at a time."""
_PARTS_TOGETHER: Final = 32
_SLOW_BYTES: Final = 1 << 16
"""A client that has left more than this unread is a slow one, and watched."""
_IDLE_STEP_S: Final = 0.05
"""Who is watched is not looked at more often than this."""
_TOGETHER: Final = 8
"""So many answers share a write: its price is divided, and the client is at work on them while we go on."""


@dataclass(slots=True)
class Statistics:
    """What the management interface tells (C706 appendix Q, inq_stats); a read or write of a socket is a packet."""

    calls_in: int = 0
    calls_out: int = 0
    packets_in: int = 0
    packets_out: int = 0


@dataclass(frozen=True, slots=True)
class _Registration:
    interface: Interface
    handlers: Mapping[int, Handler]
    minimum: AuthLevel


class _Method(NamedTuple):
    """What a request means: an operation that is served, and what its handler is to know about who calls."""

    operation: Operation[Any, Any]
    handler: Handler
    call: Call


class RpcServer:
    """A server of any number of interfaces on any number of addresses."""

    def __init__(
        self,
        config: ServerConfig | None = None,
        authentication: Authentication | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.config = config or ServerConfig()
        self.gate = gate or Gate(Crowding(), asyncio.get_running_loop, _log.warning)
        self.authentication = authentication or Authentication()
        self.groups = AssociationGroups()
        self.statistics = Statistics()
        self.buffer = bytearray(READ_SIZE)
        self.unread = Unread(self.config.max_unread_per_address, self.config.max_unread_in_all)
        self.ports: list[tuple[str, int]] = []
        """The addresses that are listened on."""
        self._registered: dict[Syntax, _Registration] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._left = asyncio.Event()
        """Set whenever a connection has left."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting_room = ThreadPoolExecutor(_LOOK_UPS, "msmq-principals")
        """Where a directory is asked who somebody is: one that is slow keeps nobody else waiting."""

    # --- interfaces -------------------------------------------------------------------------------------

    def register(
        self,
        interface: Interface,
        handlers: Mapping[int, Handler],
        minimum: AuthLevel = AuthLevel.NONE,
    ) -> None:
        """Serve ``interface``; calls below the ``minimum`` level are denied. An operation that is declared and has
        no handler is out of range for the client."""
        self._registered[interface.syntax] = _Registration(interface, dict(handlers), minimum)
        for connection in self._connections:
            connection.methods.clear()

    @property
    def interfaces(self) -> list[Interface]:
        return [registration.interface for registration in self._registered.values()]

    def registration(self, syntax: Syntax) -> _Registration | None:
        """The interface a client may mean by ``syntax``: the same major version, no higher minor one."""
        exact = self._registered.get(syntax)
        if exact is not None:
            return exact
        for known, registration in self._registered.items():
            if known[:2] == syntax[:2] and known.minor >= syntax.minor:
                return registration
        return None

    def minimum(self, syntax: Syntax) -> AuthLevel | None:
        found = self.registration(syntax)
        return found.minimum if found is not None else None

    # --- life -------------------------------------------------------------------------------------------

    async def listen(self, address: str, port: int) -> int:
        """Open a door; gives the port, which is another one than asked for only if that was 0."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: self._accept(), address, port, backlog=self.gate.crowding.at_once
        )
        bound: int = server.sockets[0].getsockname()[1]
        self._servers.append(server)
        self.ports.append((address, bound))
        return bound

    async def close(self) -> None:
        """Close all doors and connections, and wait until every call has ended and every handle is run down."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._connections):
            connection.abort("the server stops")
        while self._connections:  # the loop tells us a moment later that they are lost
            self._left.clear()
            await self._left.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.waiting_room.shutdown(wait=False, cancel_futures=True)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> asyncio.BaseProtocol:
        return _Connection(self)

    def entered(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def left(self, connection: _Connection) -> None:
        """A connection is lost: when its calls have ended, it leaves its group."""
        self._connections.discard(connection)
        self._left.set()
        self.gate.leave(connection)
        if connection.group is not None or connection.tasks:
            self.spawn(self._settle(connection))

    async def _settle(self, connection: _Connection) -> None:
        if connection.tasks:
            await asyncio.wait(list(connection.tasks))
        if connection.group is not None:
            self.groups.leave(connection, connection.group)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Waiting(NamedTuple):
    """A call that has no answer yet."""

    promise: Promise | None
    task: asyncio.Task[Parameters] | None

    def give_up(self) -> None:
        if self.promise is not None:
            self.promise.abandon()
        if self.task is not None:
            self.task.cancel()


class _Connection(asyncio.BufferedProtocol):
    """One accepted connection: the machine, its socket, its calls. All of a server read into one buffer (see
    `msmq.rpc.channel.READ_SIZE`), one after the other, and keep nothing there."""

    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._machine: ServerConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.calls: dict[int, _Waiting] = {}
        """Calls that have no answer yet."""
        self._held: dict[SecurityContext, list[CallArrived]] = {}
        """Calls of a principal of whom it is not known yet who it is."""
        self._looking: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._last_call_s = 0.0
        self._flushing = False
        self._slow = self._full = False
        self._later: list[Event] = []
        """What came while more than enough answers wait to be read."""
        self.tasks: set[asyncio.Task[Parameters]] = set()
        """Calls that wait as tasks."""
        self.methods: dict[tuple[int, int, SecurityContext | None], _Method] = {}
        """Operations that were called already, by presentation context, opnum and caller."""
        self.group: AssociationGroup | None = None
        self.peer = self.local = ""

    @property
    def idle_since_s(self) -> float | None:
        """Since when there has been no call; open calls and handles keep it from being idle."""
        idle = not self.calls and not (self.group is not None and len(self.group.handles))
        return self._last_call_s if idle else None

    def show_out(self, reason: str) -> None:
        _log.debug("RPC connection of %s closed: %s", self.peer, reason)
        self.abort(reason)

    # --- the socket -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        handle = transport.get_extra_info("socket")
        if not self._server.gate.enter(self, self.peer, 0 if handle is None else handle.fileno()):
            self._transport.abort()
            return
        config = self._server.config
        self.local, port = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self._machine = ServerConnection(
            config.limits,
            self._server.minimum,
            self._join,
            self._server.authentication.at(self.peer),
            str(config.announced_port or port).encode(),
        )
        self._transport.set_write_buffer_limits(_SLOW_BYTES)
        self._server.entered(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(bytes(memoryview(self._server.buffer)[:nbytes]))

    def received(self, data: bytes) -> None:
        if self._machine is None:
            return
        self._server.statistics.packets_in += 1
        events = self._machine.receive_data(data)
        if self._full:
            self._later += events
        else:
            self._work(events)

    def _work(self, events: list[Event]) -> None:
        """Deal with what has come, as far as there is room for answers."""
        machine, begin, read_s = self._machine, self._begin, self._loop.time()
        assert machine is not None
        for number, event in enumerate(events, 1):
            if type(event) is CallArrived:
                begin(event)
                self._last_call_s = read_s
            else:
                self._handle(event)
            if not number % _TOGETHER or machine.parts_waiting >= _PARTS_TOGETHER:
                self._flush()
                if self._full or machine.state is State.CLOSED:
                    self._later = events[number:]
                    return
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._machine is None:
            return
        self._machine.close("the connection is gone")
        waiting, self.calls = self.calls, {}
        for call in waiting.values():
            call.give_up()
        self._held.clear()
        self._later.clear()
        for task in self._looking:
            task.cancel()
        self._server.unread.owe(self, self.peer, 0)
        self._server.left(self)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        """The client has read what there was for it."""
        self._slow = False
        self._server.unread.owe(self, self.peer, 0)
        transport = self._transport
        if self._full and transport is not None and not transport.is_closing():
            self._full = False
            later, self._later = self._later, []
            self._work(later)
            if not self._full:
                transport.resume_reading()

    def abort(self, reason: str) -> None:
        """Close at once."""
        if self._machine is not None:
            self._machine.close(reason)
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        machine, transport = self._machine, self._transport
        assert machine is not None
        assert transport is not None
        self._flushing = False
        data = machine.data_to_send()
        if data and not transport.is_closing():
            self._server.statistics.packets_out += 1
            transport.write(data)
        if self._slow:
            self._count_unread(transport)
        if machine.state is State.CLOSED and not transport.is_closing():
            transport.close()

    def _count_unread(self, transport: asyncio.Transport) -> None:
        size = transport.get_write_buffer_size()
        if size >= self._server.config.max_unread and not self._full:
            self._full = True
            transport.pause_reading()
        self._server.unread.owe(self, self.peer, size)

    def _flush_soon(self) -> None:
        """Write when this turn of the loop is over: other calls that end in it share the writing."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _watch_idle(self) -> None:
        """Close a connection that has been idle for too long."""
        timeout_s, since_s = self._server.config.idle_timeout_s, self.idle_since_s
        left_s = timeout_s if since_s is None else since_s + timeout_s - self._loop.time()
        if left_s <= 0:
            self.abort("idle")
            return
        self._timer = self._loop.call_later(max(left_s, _IDLE_STEP_S), self._watch_idle)

    def _opened(self, security: SecurityContext | None) -> None:
        """The first call: it is known who calls, and that somebody does."""
        identity = security.identity if security is not None else None
        self._server.gate.opened(self, f"account {identity.principal}" if identity is not None else "")
        self._watch_idle()

    def _join(self, group_id: int) -> int | None:
        self._last_call_s = self._loop.time()
        self.group = self._server.groups.join(self, group_id)
        return self.group.group_id if self.group is not None else None

    # --- calls ------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        match event:
            case CallCancelled(call_id):
                waiting = self.calls.get(call_id)
                if waiting is not None and waiting.promise is not None:
                    waiting.promise.hurry()
            case CallOrphaned(call_id):
                if call_id in self.calls:
                    self.calls.pop(call_id).give_up()
                for held in self._held.values():
                    held[:] = [arrived for arrived in held if arrived.call_id != call_id]
            case ConnectionClosed(reason):
                _log.debug("RPC connection of %s closes: %s", self.peer, reason)

    def _begin(self, arrived: CallArrived) -> None:
        """Have a call served, and answer it if its handler can."""
        call_id, context, opnum, _, stub, security = arrived
        if security is not None and security.identity is None and not security.failed:
            self._hold(security, arrived)
            return
        self._server.statistics.calls_in += 1
        if self._timer is None:
            self._opened(security)
        try:
            known = self.methods.get((context.context_id, opnum, security))
            operation, handler, call = known or self._find_method(arrived)
            try:
                request, end = operation.request.decode(stub, call.ndr64)
            except DecodeError as error:
                _log.debug("%s.%s of %s: %s", call.interface.name, operation.name, self.peer, error)
                raise RpcFault(FaultStatus.BAD_STUB_DATA, did_not_execute=True) from error
            if end < len(stub):
                self._check_trailer(arrived, end)
            answer = handler(call, request)
            if isinstance(answer, Parameters):
                assert self._machine is not None
                self._machine.respond(call_id, answer.encode(call.ndr64))
            else:
                self._wait(arrived, answer)
        except Exception as error:
            self._fail(arrived, error)

    def _find_method(self, arrived: CallArrived) -> _Method:
        """The operation that a request names, if it is served; the next call finds it at once."""
        context, security = arrived.context, arrived.security
        found = self._server.registration(context.interface)
        operation = found.interface.find(arrived.opnum) if found is not None else None
        if found is None or operation is None or arrived.opnum not in found.handlers:
            raise RpcFault(FaultStatus.NCA_OP_RANGE_ERROR, did_not_execute=True)
        token, principal, level = _NOBODY, None, AuthLevel.NONE
        if security is not None:
            identity = security.identity
            if identity is None:  # a principal that nobody knows
                raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True)
            token, principal, level = identity.token, identity.principal, security.effective_level
        assert self.group is not None
        call = Call(
            found.interface, operation, context.ndr64, token, principal, level, self.group, self.peer, self.local, self
        )  # fmt: skip
        method = _Method(operation, found.handlers[arrived.opnum], call)
        self.methods[context.context_id, arrived.opnum, security] = method
        return method

    def _hold(self, security: SecurityContext, arrived: CallArrived) -> None:
        """Have a call wait until it is known who calls."""
        held = self._held.setdefault(security, [])
        held.append(arrived)
        if len(held) == 1:
            task: asyncio.Task[None] = self._server.spawn(self._look_up(security))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _look_up(self, security: SecurityContext) -> None:
        try:
            await self._loop.run_in_executor(self._server.waiting_room, security.look_up)
        except AuthenticationError as error:
            _log.debug("RPC caller at %s: %s", self.peer, error)
        for arrived in self._held.pop(security, ()):
            self._begin(arrived)
        self._flush_soon()

    def _wait(self, arrived: CallArrived, answer: Answer) -> None:
        call_id = arrived.call_id
        if isinstance(answer, Promise):
            waiting = self.calls[call_id] = _Waiting(answer, None)
            answer.deliver_to(partial(self._answer_later, arrived, waiting))
            return
        task: asyncio.Task[Parameters] = self._server.spawn(answer)
        waiting = self.calls[call_id] = _Waiting(None, task)
        self.tasks.add(task)
        task.add_done_callback(partial(self._ended, arrived, waiting))

    def _ended(self, arrived: CallArrived, waiting: _Waiting, task: asyncio.Task[Parameters]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            self._answer_later(arrived, waiting, RpcFault(FaultStatus.NCA_FAULT_CANCEL))
        else:
            error = task.exception()
            assert error is None or isinstance(error, Exception)
            self._answer_later(arrived, waiting, error or task.result())

    def _answer_later(self, arrived: CallArrived, waiting: _Waiting, answer: Parameters | Exception) -> None:
        if self.calls.get(arrived.call_id) is waiting:  # otherwise nobody waits for it any more
            del self.calls[arrived.call_id]
            self._answer(arrived, answer)
            self._flush_soon()

    def _answer(self, arrived: CallArrived, answer: Parameters | Exception) -> None:
        machine = self._machine
        assert machine is not None
        try:
            if isinstance(answer, Exception):
                raise answer
            machine.respond(arrived.call_id, answer.encode(arrived.context.ndr64))
        except Exception as error:
            self._fail(arrived, error)

    def _fail(self, arrived: CallArrived, error: Exception) -> None:
        """Tell the caller what a handler raised, or why its answer cannot be sent."""
        machine, call_id = self._machine, arrived.call_id
        assert machine is not None
        if isinstance(error, RpcFault):
            machine.fault(call_id, error.status, executed=not error.did_not_execute)
        elif isinstance(error, MQError):
            machine.fault(call_id, error.code)
        elif isinstance(error, AuthenticationError):
            machine.close(f"an answer cannot be protected: {error}")
        else:
            _log.error("operation %d of %s failed", arrived.opnum, arrived.context.interface, exc_info=error)
            machine.fault(call_id, FaultStatus.NCA_FAULT_UNSPECIFIED)

    def _check_trailer(self, arrived: CallArrived, end: int) -> None:
        context, machine = arrived.context, self._machine
        assert machine is not None
        meant = Meant(
            context.interface,
            context.transfer,
            arrived.call_id,
            context.context_id,
            arrived.opnum,
            machine.header_signing,
        )
        try:
            check_trailer(arrived.stub, end, meant)
        except DecodeError as error:
            raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True) from error
