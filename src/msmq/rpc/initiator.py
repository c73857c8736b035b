"""The client's end of a connection, without I/O (C706 9.3, 12.6; MS-RPCE 3.3.2).

``bind`` begins; `Bound` or `BindRefused` ends it, after as many legs as the security provider needs. Then ``call``
sends a request and returns its number; `ResponseArrived` and `FaultArrived` come in any order. ``alter`` offers
another interface on the same connection and ends like ``bind``. `CLIENT_TABLE` says which PDUs belong where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from msmq.errors import DecodeError
from msmq.rpc.channel import Channel, Gathered, Limits
from msmq.rpc.pdu import (
    MIN_FRAGMENT,
    STUB_START,
    WHOLE,
    Bind,
    BindAck,
    BindNak,
    ContextElement,
    ContextResult,
    Fault,
    Fragment,
    PduFlags,
    PduType,
    SecTrailer,
    Syntax,
    build,
)
from msmq.rpc.security import AuthenticationError, SecurityContext
from msmq.rpc.syntaxes import NDR, NDR64, OUR_FEATURES, feature_syntax
from msmq.rpc.verification import append_trailer

_FIRST, _LAST = int(PduFlags.FIRST_FRAG), int(PduFlags.LAST_FRAG)


class State(IntEnum):
    """Where a connection is, seen from the client."""

    UNBOUND = 0
    BINDING = 1
    ALTERING = 2
    BOUND = 3
    CLOSED = 4


class Action(Enum):
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    ANSWER = "take an answer"
    FAULT = "take a fault"
    SHUT_DOWN = "note that the server wants to stop"


_ANSWERS: Final = {
    PduType.RESPONSE: Action.ANSWER,
    PduType.FAULT: Action.FAULT,
    PduType.SHUTDOWN: Action.SHUT_DOWN,
}

CLIENT_TABLE: Final[Mapping[tuple[State, PduType], Action]] = {
    (State.BINDING, PduType.BIND_ACK): Action.ACKNOWLEDGED,
    (State.BINDING, PduType.ALTER_CONTEXT_RESP): Action.ACKNOWLEDGED,
    (State.BINDING, PduType.BIND_NAK): Action.REFUSED,
    (State.BINDING, PduType.FAULT): Action.REFUSED,
    (State.ALTERING, PduType.ALTER_CONTEXT_RESP): Action.ACKNOWLEDGED,
    **{
        (state, ptype): action
        for state in (State.BOUND, State.ALTERING)
        for ptype, action in _ANSWERS.items()
    },
}
"""What a PDU of the server means; whatever is not here breaks the protocol and ends the connection."""
_ACTIONS: Final = tuple(
    {int(ptype): action for (where, ptype), action in CLIENT_TABLE.items() if where is state}
    for state in State
)
"""`CLIENT_TABLE`, split by state."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The answer to the last ``bind`` or ``alter``. ``context_id`` is None if the interface is not served there."""

    interface: Syntax
    context_id: int | None
    transfer: Syntax
    result: int
    reason: int
    ndr64: bool


@dataclass(frozen=True, slots=True)
class BindRefused:
    """The server refused the bind. ``reason`` is the number in its bind_nak or fault."""

    reason: int


class ResponseArrived(NamedTuple):
    call_id: int
    stub: bytes


@dataclass(frozen=True, slots=True)
class FaultArrived:
    call_id: int
    status: int
    did_not_execute: bool


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The server asks us to close when we can."""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    reason: str


Event = Bound | BindRefused | ResponseArrived | FaultArrived | ShutdownAsked | ConnectionClosed


class ClientConnection(Channel):
    """One connection to a server, with at most one security context."""

    def __init__(self, limits: Limits, security: SecurityContext | None = None) -> None:
        super().__init__(limits)
        self._mine = security
        self._waiting: dict[int, Gathered | None] = {}
        """Calls under way, with the fragments of their answers so far, or None before the first."""
        self._received = 0
        self._offered: ContextElement | None = None
        self._next_context_id = 0
        self._last_call_id = 0
        self._interfaces: dict[int, tuple[Syntax, Syntax]] = {}
        self._events: list[Event] = []
        self.association_group_id = 0
        self.state = State.UNBOUND

    # --- binding ----------------------------------------------------------------------------------------

    def bind(
        self, interface: Syntax, transfers: tuple[Syntax, ...] = (NDR,), association_group_id: int = 0
    ) -> None:
        """Send the bind. The ``association_group_id`` of another connection lets both share context handles."""
        assert self.state is State.UNBOUND
        token = self._mine.step(None) if self._mine is not None else b""
        self._offered = ContextElement(0, interface, transfers)
        self._next_context_id = 2
        features = ContextElement(1, interface, (feature_syntax(int(OUR_FEATURES)),))
        offer = Bind(
            self._limits.max_fragment,
            self._limits.max_fragment,
            association_group_id,
            contexts=(self._offered, features),
        )
        self.state = State.BINDING
        self._send_leg(PduType.BIND, offer.write_body(), token)

    def alter(self, interface: Syntax, transfers: tuple[Syntax, ...] = (NDR,)) -> None:
        """Offer another interface."""
        assert self.state is State.BOUND
        self._offered = ContextElement(self._next_context_id, interface, transfers)
        self._next_context_id += 1
        self.state = State.ALTERING
        self._out.append(build(PduType.ALTER_CONTEXT, self._take_call_id(), self._alteration()))

    def _alteration(self) -> bytes:
        assert self._offered is not None
        size = self._limits.max_fragment
        return Bind(size, size, self.association_group_id, contexts=(self._offered,)).write_body()

    def _send_leg(self, ptype: PduType, body: bytes, token: bytes) -> None:
        flags = int(WHOLE)
        trailer = None
        if self._mine is not None:
            trailer = SecTrailer(self._mine.auth_type, self._mine.level, 0, 0, self._mine.context_id)
        if ptype is not PduType.AUTH3:
            flags |= PduFlags.CONC_MPX | (PduFlags.SUPPORT_HEADER_SIGN if self._mine is not None else 0)
        if ptype is PduType.BIND:
            self._take_call_id()
        self._out.append(build(ptype, self._last_call_id, body, flags=flags, trailer=trailer, token=token))

    def _take_call_id(self) -> int:
        self._last_call_id = self._last_call_id + 1 & 0xFFFFFFFF
        return self._last_call_id

    # --- calls ------------------------------------------------------------------------------------------

    def call(self, context_id: int, opnum: int, stub: bytes, object_uuid: bytes | None = None) -> int:
        """Send a request. Returns its number, which its answer will carry."""
        assert self.state is State.BOUND or self.state is State.ALTERING
        self._last_call_id = call_id = self._last_call_id + 1 & 0xFFFFFFFF
        self._waiting[call_id] = None
        security = self._mine
        if security is not None and security.signs:
            stub = append_trailer(stub, self._meant(context_id, opnum), call_id)
        self._send_stub(PduType.REQUEST, call_id, context_id, opnum, stub, security, object_uuid or b"")
        return call_id

    def cancel(self, call_id: int) -> None:
        """Ask for an early answer to a call, which is still to be waited for."""
        if call_id in self._waiting:
            self._out.append(build(PduType.CO_CANCEL, call_id, b""))

    def orphan(self, call_id: int) -> None:
        """Give a call up; an answer that comes nevertheless is dropped."""
        if self._forget(call_id):
            self._out.append(build(PduType.ORPHANED, call_id, b""))

    def _forget(self, call_id: int) -> bool:
        if call_id not in self._waiting:
            return False
        gathered = self._waiting.pop(call_id)
        if gathered is not None:
            self._received -= gathered.size
        return True

    def _syntaxes(self, context_id: int) -> tuple[Syntax, Syntax]:
        return self._interfaces[context_id]

    # --- input ------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Return the events that the bytes bring about. Never raises."""
        if self.state is State.CLOSED:
            return []
        try:
            self._take(data)
        except (DecodeError, AuthenticationError) as error:
            self.close(str(error))
        events, self._events = self._events, []
        return events

    def close(self, reason: str) -> None:
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self._buffer = b""
        self._waiting.clear()
        self._events.append(ConnectionClosed(reason))

    def _receive(self, fragment: Fragment) -> None:
        action = _ACTIONS[self.state].get(fragment.ptype)
        if action is Action.ANSWER:
            self._answer(fragment)
            return
        match action:
            case Action.ACKNOWLEDGED:
                self._acknowledged(fragment)
            case Action.REFUSED:
                self._refused(fragment)
            case Action.FAULT:
                self._fault(fragment)
            case Action.SHUT_DOWN:
                self._events.append(ShutdownAsked())
            case _:
                raise DecodeError(f"PDU type {fragment.ptype} does not belong here")

    def _acknowledged(self, fragment: Fragment) -> None:
        ack = BindAck.read_body(fragment.body)
        offered = self._offered
        assert offered is not None
        if not ack.answers:
            raise DecodeError("an answer to a bind that answers nothing")
        if fragment.ptype == PduType.BIND_ACK:
            if ack.max_recv_frag < MIN_FRAGMENT:
                raise DecodeError("the server can take too little at a time")
            self._max_xmit = min(ack.max_recv_frag, self._limits.max_fragment)
            self.association_group_id = ack.assoc_group_id
            if self._mine is not None:
                self.header_signing = bool(fragment.flags & PduFlags.SUPPORT_HEADER_SIGN)
                self._mine.header_signing = self.header_signing
        if self.state is State.BINDING and self._mine is not None and self._next_leg(fragment):
            return
        answer = ack.answers[0]
        accepted = answer.result == ContextResult.ACCEPTANCE
        if accepted and answer.transfer not in offered.transfers:
            raise DecodeError("a transfer syntax that was not offered")
        if accepted:
            self._interfaces[offered.context_id] = offered.abstract, answer.transfer
        self.state = State.BOUND
        self._events.append(
            Bound(
                offered.abstract,
                offered.context_id if accepted else None,
                answer.transfer,
                answer.result,
                answer.reason,
                answer.transfer == NDR64,
            )
        )

    def _next_leg(self, fragment: Fragment) -> bool:
        """Answer the server's token. Returns whether the server has to answer once more."""
        security = self._mine
        assert security is not None
        if not security.established:
            token = security.step(fragment.auth_value)
            if not security.established:
                self._send_leg(PduType.ALTER_CONTEXT, self._alteration(), token)
                return True
            if token:
                self._send_leg(PduType.AUTH3, bytes(4), token)
        self._security[security.context_id] = security
        return False

    def _refused(self, fragment: Fragment) -> None:
        if fragment.ptype == PduType.BIND_NAK:
            reason = BindNak.decode(fragment.body).provider_reject_reason
        else:
            reason = Fault.decode(fragment.body).status
        self._events.append(BindRefused(reason))
        self.close("the server refused to be bound")

    def _answer(self, fragment: Fragment) -> None:
        if fragment.verifier < STUB_START:
            raise DecodeError("the head of an answer is cut off", fragment.verifier)
        security, stub = self._opened(fragment, STUB_START)
        if security is None and self._mine is not None and self._mine.signs:
            raise AuthenticationError("an answer that nobody signed")
        call_id, flags = fragment.call_id, fragment.flags
        if call_id not in self._waiting:
            return  # given up meanwhile
        gathered = self._waiting[call_id]
        if bool(flags & _FIRST) is (gathered is not None):
            raise DecodeError(f"the fragments of call {call_id} are out of order")
        if gathered is None:
            if flags & _LAST:  # an answer of one fragment
                del self._waiting[call_id]
                self._events.append(ResponseArrived(call_id, stub))
                return
            gathered = self._waiting[call_id] = Gathered()
        gathered.add(stub)
        self._received += len(stub)
        if self._received > self._limits.max_partial or gathered.size > self._limits.max_stub:
            raise DecodeError("the server's answers are longer than we take")
        if flags & _LAST:
            self._forget(call_id)
            self._events.append(ResponseArrived(call_id, gathered.whole()))

    def _fault(self, fragment: Fragment) -> None:
        fault = Fault.decode(fragment.body)
        call_id = fragment.call_id
        if self.state is State.ALTERING and call_id not in self._waiting:
            self._refused(fragment)
        elif self._forget(call_id):
            self._events.append(
                FaultArrived(call_id, fault.status, bool(fragment.flags & PduFlags.DID_NOT_EXECUTE))
            )
