"""One connection that a server has accepted, on asyncio: its socket, its calls and their answers (MS-RPCE 3.3.3).

A call whose handler knows the answer is answered while the read that brought it is being taken apart, and several
answers leave in one write. Consecutive calls of one operation in a read go to their handler together if it takes
several (`msmq.rpc.interface.Together`), and one by one to any other. A call that waits is a `Promise` of its handler
or a task, and keeps neither its connection nor another call waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from msmq.errors import DecodeError, MQError
from msmq.errors.tasks import closing
from msmq.rpc.acceptor import (
    CallArrived,
    CallCancelled,
    CallOrphaned,
    ConnectionClosed,
    Event,
    ServerConnection,
    State,
)
from msmq.rpc.association import AssociationGroup
from msmq.rpc.interface import Answer, Call, Handler, Operation, Promise, Together
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.security import AuthenticationError, SecurityContext
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.security.access import Token

if TYPE_CHECKING:
    from msmq.rpc.server import RpcServer

_log = logging.getLogger(__name__)
_NOBODY: Final = Token.anonymous()
_PDUS_TOGETHER: Final = 8
"""PDUs that share one write: few enough that the client can begin its work while we go on."""
_SLOW_BYTES: Final = 1 << 16
"""A client that has left more than this unread counts as slow, and its unread bytes are counted."""
_IDLE_STEP_S: Final = 0.05
"""The shortest time between two checks of whether a connection is idle."""


class _Method(NamedTuple):
    """How to serve calls of an operation by one caller: the operation, its handler, how many calls the handler takes
    at a time, and what it is told about the caller."""

    operation: Operation[Any, Any]
    handler: Callable[[Call, Sequence[Any]], Sequence[Answer | Exception]]
    most: int
    call: Call


class _Waiting(NamedTuple):
    """A call that has no answer yet."""

    promise: Promise | None
    task: asyncio.Task[Parameters] | None

    def give_up(self) -> None:
        if self.promise is not None:
            self.promise.abandon()
        if self.task is not None:
            self.task.cancel()


class Connection(asyncio.BufferedProtocol):
    """One accepted connection: the machine, its socket, its calls. All connections of a server read into one buffer
    (see `msmq.rpc.channel.READ_SIZE`) and keep nothing there."""

    def __init__(self, server: RpcServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._machine: ServerConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.calls: dict[int, _Waiting] = {}
        """Calls that have no answer yet."""
        self._held: dict[SecurityContext, list[CallArrived]] = {}
        """Calls that wait until their principal has been looked up."""
        self._looking: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._last_call_s = 0.0
        self._flushing = False
        self._slow = self._full = False
        self._later: list[Event] = []
        """Events that wait until the client has read enough of its answers."""
        self._ready: deque[tuple[Promise, Callable[[], None]]] = deque()
        """Promises whose answers wait until the client has read enough of those before."""
        self.tasks: set[asyncio.Task[Parameters]] = set()
        """Tasks of calls whose handlers are coroutines."""
        self.methods: dict[tuple[int, int, SecurityContext | None], _Method] = {}
        """Methods found so far, by presentation context, opnum and caller."""
        self.group: AssociationGroup | None = None
        self.peer = self.local = ""

    @property
    def idle_since_s(self) -> float | None:
        """The time of the last call, or None while calls or handles are open, which keep the connection from being
        idle."""
        idle = not self.calls and not (self.group is not None and len(self.group.handles))
        return self._last_call_s if idle else None

    def interfaces_changed(self) -> None:
        """Forget the methods found so far, because the served interfaces have changed."""
        self.methods.clear()
        if self._machine is not None:
            self._machine.interfaces_changed()

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
        """Process events until enough answers wait to be read; the rest is kept for later."""
        machine, read_s, done = self._machine, self._loop.time(), 0
        assert machine is not None
        while done < len(events):
            event = events[done]
            if type(event) is CallArrived:
                done += self._begin(event, events, done)
                self._last_call_s = read_s
            else:
                self._handle(event)
                done += 1
            if machine.pdus_waiting >= _PDUS_TOGETHER:
                self._flush()
                if self._full or machine.state is State.CLOSED:
                    self._later = events[done:]
                    return
        self._flush()

    def _when_room(self, promise: Promise, action: Callable[[], None]) -> None:
        """Call ``action``, which makes the answer of a promise, as soon as the client has read enough."""
        self._ready.append((promise, action))
        if len(self._ready) == 1:
            self._make_ready()

    def _make_ready(self) -> None:
        """Make the promised answers that waited for room, the oldest first, as long as there is room."""
        machine, ready = self._machine, self._ready
        assert machine is not None
        while ready and not self._full and machine.state is not State.CLOSED:
            promise, action = ready[0]  # it stays in front of what becomes ready meanwhile
            try:
                if not promise.over:
                    action()
            finally:
                ready.popleft()
            if machine.pdus_waiting >= _PDUS_TOGETHER:
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
        self._ready.clear()
        for task in self._looking:
            task.cancel()
        self._server.unread.owe(self, self.peer, 0)
        self._server.left(self)

    def pause_writing(self) -> None:
        self._slow = True

    def resume_writing(self) -> None:
        """Go on after the client has read what waited for it."""
        self._slow = False
        self._server.unread.owe(self, self.peer, 0)
        transport = self._transport
        if self._full and transport is not None and not transport.is_closing():
            self._full = False
            self._make_ready()
            if not self._full:
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

    def _failed(self) -> None:
        self.abort("an internal error")

    def _apart(self, work: Callable[[], None]) -> None:
        """Do what the loop calls by itself. An error closes the connection, as it does while something is read."""
        try:
            work()
        except Exception:
            self._failed()
            raise

    def _flush(self) -> None:
        machine, transport = self._machine, self._transport
        assert machine is not None
        assert transport is not None
        self._flushing = False
        for data in machine.writes():
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
        """Write at the end of this turn of the loop, together with the answers of other calls that end in it."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._apart, self._flush)

    def _watch_idle(self) -> None:
        """Close a connection that has been idle for too long."""
        timeout_s, since_s = self._server.config.idle_timeout_s, self.idle_since_s
        left_s = timeout_s if since_s is None else since_s + timeout_s - self._loop.time()
        if left_s <= 0:
            self.abort("idle")
            return
        self._timer = self._loop.call_later(max(left_s, _IDLE_STEP_S), self._apart, self._watch_idle)

    def _opened(self, security: SecurityContext | None) -> None:
        """Note the first call: from now on it is known who calls, and idle time is watched."""
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

    def _begin(self, first: CallArrived, events: Sequence[Event], place: int) -> int:
        """Serve the call at ``place`` in ``events``, perhaps together with calls of the same operation behind it.
        Returns how many calls were begun."""
        security = first.security
        if security is not None and security.identity is None and not security.failed:
            self._hold(security, first)
            return 1
        if self._timer is None:
            self._opened(security)
        try:
            known = self.methods.get((first.context.context_id, first.opnum, security))
            operation, handler, most, call = known or self._find_method(first)
            requests = [self._request_of(first, operation, call.ndr64)]
        except Exception as error:
            self._server.statistics.calls_in += 1
            self._fail(first, error)
            return 1
        calls = [first]
        if most > 1:
            self._gather_more(calls, requests, events[place + 1 : place + most], operation, call.ndr64)
        return self._serve(handler, call, calls, requests)

    def _serve(
        self,
        handler: Callable[[Call, Sequence[Any]], Sequence[Answer | Exception]],
        call: Call,
        calls: list[CallArrived],
        requests: list[Any],
    ) -> int:
        """Pass calls to a handler until it has answered all of them, or until enough waits to be written. Returns how
        many were answered."""
        machine, done = self._machine, 0
        assert machine is not None
        while done < len(calls) and machine.pdus_waiting < _PDUS_TOGETHER:
            try:
                answers = handler(call, requests[done:] if done else requests)
            except Exception as error:
                answers = (error,)
            assert answers, "a handler answers at least the first"
            for arrived, answer in zip(calls[done:] if done else calls, answers, strict=False):
                if isinstance(answer, Parameters | Exception):
                    self._answer(arrived, answer)
                else:
                    self._wait(arrived, answer)
            done += len(answers)
        self._server.statistics.calls_in += done
        return done

    def _request_of(self, arrived: CallArrived, operation: Operation[Any, Any], ndr64: bool) -> Any:
        """Decode the arguments of a call."""
        stub = arrived.stub
        try:
            request, end = operation.request.decode(stub, ndr64)
        except DecodeError as error:
            _log.debug("%s of %s: %s", operation.name, self.peer, error)
            raise RpcFault(FaultStatus.BAD_STUB_DATA, did_not_execute=True) from error
        if end < len(stub):
            self._check_trailer(arrived, end)
        return request

    def _gather_more(
        self,
        calls: list[CallArrived],
        requests: list[Any],
        events: Sequence[Event],
        operation: Operation[Any, Any],
        ndr64: bool,
    ) -> None:
        """Add the calls behind the first that are of the same operation under the same contexts. Stops at one whose
        arguments cannot be read."""
        first = calls[0]
        for event in events:
            if (
                type(event) is not CallArrived
                or event.opnum != first.opnum
                or event.context is not first.context
                or event.security is not first.security
            ):
                return
            try:
                requests.append(self._request_of(event, operation, ndr64))
            except RpcFault:
                return
            calls.append(event)

    def _find_method(self, arrived: CallArrived) -> _Method:
        """Find the operation that a request names, and keep it for the next call."""
        context, security = arrived.context, arrived.security
        found = self._server.registration(context.interface)
        operation = found.interface.find(arrived.opnum) if found is not None else None
        if found is None or operation is None or arrived.opnum not in found.handlers:
            raise RpcFault(FaultStatus.NCA_OP_RANGE_ERROR, did_not_execute=True)
        token, principal, level = _NOBODY, None, AuthLevel.NONE
        if security is not None:
            identity = security.identity
            if identity is None:  # a principal that could not be looked up
                raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True)
            token, principal, level = identity.token, identity.principal, security.effective_level
        assert self.group is not None
        call = Call(
            found.interface, operation, context.ndr64, token, principal, level, self.group, self.peer, self.local, self
        )  # fmt: skip
        handler = found.handlers[arrived.opnum]
        if isinstance(handler, Together):
            method = _Method(operation, handler.answer, _PDUS_TOGETHER, call)
        else:
            method = _Method(operation, partial(_one, handler), 1, call)
        self.methods[context.context_id, arrived.opnum, security] = method
        return method

    def _hold(self, security: SecurityContext, arrived: CallArrived) -> None:
        """Keep a call until its principal has been looked up."""
        held = self._held.setdefault(security, [])
        held.append(arrived)
        if len(held) == 1:
            task: asyncio.Task[None] = self._server.spawn(self._look_up(security))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
            task.add_done_callback(closing(self._failed))

    async def _look_up(self, security: SecurityContext) -> None:
        try:
            await self._loop.run_in_executor(self._server.waiting_room, security.look_up)
        except AuthenticationError as error:
            _log.debug("RPC caller at %s: %s", self.peer, error)
        held: list[Event] = [*self._held.pop(security, ())]
        if self._full:
            self._later[:0] = held
        else:
            self._work(held)

    def _wait(self, arrived: CallArrived, answer: Answer) -> None:
        call_id = arrived.call_id
        if isinstance(answer, Promise):
            waiting = self.calls[call_id] = _Waiting(answer, None)
            answer.deliver_to(partial(self._answer_later, arrived, waiting), partial(self._when_room, answer))
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
        if self.calls.get(arrived.call_id) is waiting:  # otherwise the call was given up
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
        """Answer with the fault of an exception that a handler raised, or that kept its answer from being sent."""
        machine, call_id = self._machine, arrived.call_id
        assert machine is not None
        if isinstance(error, RpcFault):
            machine.fault(call_id, error.status, executed=not error.did_not_execute)
        elif isinstance(error, MQError):
            machine.fault(call_id, error.code)
        elif isinstance(error, AuthenticationError):
            machine.close(f"an answer cannot be protected: {error}")
        else:
            told = f"operation {arrived.opnum} of {arrived.context.interface} failed"
            # The owner of the loop decides whether the queue manager can go on.
            self._loop.call_exception_handler({"message": told, "exception": error})
            machine.fault(call_id, FaultStatus.NCA_FAULT_UNSPECIFIED)

    def _check_trailer(self, arrived: CallArrived, end: int) -> None:
        assert self._machine is not None
        try:
            self._machine.check_trailer(arrived, end)
        except DecodeError as error:
            raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True) from error


def _one(handler: Handler, call: Call, requests: Sequence[Any]) -> Sequence[Answer]:
    """Call a handler of single calls with the first of several requests."""
    return (handler(call, requests[0]),)
