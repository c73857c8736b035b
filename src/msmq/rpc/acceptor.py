"""The server's end of a connection, without I/O (C706 9.3, 12.6; MS-RPCE 3.3.3).

How it works. ``receive_data(data)`` returns events: `CallArrived` when a request is whole, `CallCancelled` and
`CallOrphaned` about calls that are being executed, `ConnectionClosed` at the end. ``respond`` and ``fault`` answer
calls in any order, `data_to_send` gives what to write. A peer that breaks the protocol is told so once, if there is a
PDU to tell it with, and the connection is over.

`SERVER_TABLE` says which PDUs belong where. A connection that is bound with a security provider waits in
AUTHENTICATING for the remaining legs of the handshake, an auth3 or alter_contexts; requests have to wait that long.
Further security contexts may be added by alter_context while calls go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from msmq.errors import DecodeError
from msmq.rpc.channel import Channel, Gathered, Limits
from msmq.rpc.pdu import (
    SMALLEST_AGREED,
    WHOLE,
    AuthLevel,
    BadFragmentError,
    Bind,
    BindAck,
    BindNak,
    ContextAnswer,
    ContextReason,
    ContextResult,
    Fault,
    Fragment,
    NakReason,
    PduFlags,
    PduType,
    SecTrailer,
    Syntax,
    build,
    read_request,
)
from msmq.rpc.security import ACCEPTED_LEVELS, Authentication, AuthenticationError, SecurityContext
from msmq.rpc.status import FaultStatus
from msmq.rpc.syntaxes import NDR64, answer_context, is_feature_offer
from msmq.rpc.verification import check_trailer

_FIRST, _LAST = int(PduFlags.FIRST_FRAG), int(PduFlags.LAST_FRAG)


class State(IntEnum):
    """Where a connection is, seen from the server."""

    OPENING = 0
    AUTHENTICATING = 1
    BOUND = 2
    CLOSED = 3


class Action(Enum):
    BIND = "bind"
    ALTER = "alter"
    FINISH = "finish the handshake"
    TAKE = "take a request"
    CANCEL = "cancel"
    ORPHAN = "orphan"


SERVER_TABLE: Final[Mapping[tuple[State, PduType], Action]] = {
    (State.OPENING, PduType.BIND): Action.BIND,
    (State.AUTHENTICATING, PduType.AUTH3): Action.FINISH,
    (State.AUTHENTICATING, PduType.ALTER_CONTEXT): Action.ALTER,
    (State.BOUND, PduType.ALTER_CONTEXT): Action.ALTER,
    (State.BOUND, PduType.AUTH3): Action.FINISH,
    (State.BOUND, PduType.REQUEST): Action.TAKE,
    (State.BOUND, PduType.CO_CANCEL): Action.CANCEL,
    (State.BOUND, PduType.ORPHANED): Action.ORPHAN,
}
"""What a PDU of the client means; whatever is not here breaks the protocol and ends the connection."""
_ACTIONS: Final = tuple(
    {int(ptype): action for (where, ptype), action in SERVER_TABLE.items() if where is state}
    for state in State
)
"""`SERVER_TABLE`, split by state."""


class PresentationContext(NamedTuple):
    """An interface and a transfer syntax that requests name by a number."""

    context_id: int
    interface: Syntax
    transfer: Syntax
    ndr64: bool


class CallArrived(NamedTuple):
    call_id: int
    context: PresentationContext
    opnum: int
    object: bytes | None
    stub: bytes
    security: SecurityContext | None


@dataclass(frozen=True, slots=True)
class CallCancelled:
    """The client asks for an early answer; it still waits for one."""

    call_id: int


@dataclass(frozen=True, slots=True)
class CallOrphaned:
    """The client has given the call up: stop it and do not answer."""

    call_id: int


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    reason: str


Event = CallArrived | CallCancelled | CallOrphaned | ConnectionClosed


class _Incoming(Gathered):
    """A request whose fragments are still coming. The rest of a refused one is read and dropped."""

    __slots__ = ("context_id", "object", "opnum", "refused", "security")

    def __init__(
        self, context_id: int, opnum: int, target: bytes | None, security: SecurityContext | None
    ) -> None:
        super().__init__()
        self.context_id = context_id
        self.opnum = opnum
        self.object = target
        self.security = security
        self.refused = False


class _BrokenError(Exception):
    """The connection is closed once what is queued has been sent."""


class ServerConnection(Channel):
    """One accepted connection.

    ``minimum`` gives the authentication level an interface asks for, None for an interface that is not served.
    ``join`` puts the connection into an association group: 0 asks for a new one, None says that there is none.
    """

    def __init__(
        self,
        limits: Limits,
        minimum: Callable[[Syntax], AuthLevel | None],
        join: Callable[[int], int | None],
        authentication: Authentication | None = None,
        secondary_address: bytes = b"",
    ) -> None:
        super().__init__(limits)
        self._minimum = minimum
        self._join = join
        self._authentication = authentication or Authentication()
        self._secondary_address = secondary_address
        self._contexts: dict[int, PresentationContext] = {}
        self._incoming: dict[int, _Incoming] = {}
        self._partial_bytes = 0
        self._executing: dict[int, CallArrived] = {}
        """Calls that have not been answered yet."""
        self._cancels: dict[int, int] = {}
        """For each call number, how often the client has asked for an early answer."""
        self._admitted: set[tuple[int, SecurityContext | None]] = set()
        """Pairs of presentation and security context under which calls are known to be allowed."""
        self._opening_id: int | None = None
        self._events: list[Event] = []
        self.association_group_id = 0
        self.state = State.OPENING

    # --- input ------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Return the events that the bytes bring about. Never raises."""
        if self.state is State.CLOSED:
            return []
        try:
            self._take(data)
        except BadFragmentError as error:
            self._refuse_malformed(error.ptype, error.call_id)
            self.close(str(error))
        except (DecodeError, AuthenticationError, _BrokenError) as error:
            self.close(str(error))
        events, self._events = self._events, []
        return events

    def close(self, reason: str) -> None:
        """Close the connection; what is queued may still be sent."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self._buffer = b""
        self._incoming.clear()
        self._executing.clear()
        self._cancels.clear()
        self._partial_bytes = 0
        self._events.append(ConnectionClosed(reason))

    def _receive(self, fragment: Fragment) -> None:
        action = _ACTIONS[self.state].get(fragment.ptype)
        if action is Action.TAKE:
            self._request(fragment)
            return
        self._admitted.clear()  # any other PDU may change who is let in
        match action:
            case Action.BIND:
                self._bind(fragment)
            case Action.ALTER:
                self._alter(fragment)
            case Action.FINISH:
                self._finish(fragment)
            case Action.CANCEL:
                self._cancel(fragment)
            case Action.ORPHAN:
                self._orphan(fragment)
            case _:
                self._refuse_misplaced(fragment)

    def _refuse_misplaced(self, fragment: Fragment) -> None:
        call_id = fragment.call_id
        if fragment.ptype == PduType.BIND:
            self._nak(call_id, NakReason.NOT_SPECIFIED)
        elif self.state is not State.OPENING:
            self._fault(call_id, 0, FaultStatus.NCA_PROTOCOL_ERROR)
        raise _BrokenError(f"PDU type {fragment.ptype} does not belong into {self.state.name.lower()}")

    def _refuse_malformed(self, ptype: int, call_id: int) -> None:
        """Answer a malformed PDU with a bind_nak or a fault, as its type allows."""
        if ptype == PduType.BIND and self.state is State.OPENING:
            self._nak(call_id, NakReason.PROTOCOL_VERSION_NOT_SUPPORTED)
        elif self.state is not State.OPENING:
            self._fault(call_id, 0, FaultStatus.NCA_PROTOCOL_ERROR)

    # --- binding ----------------------------------------------------------------------------------------

    def _bind(self, fragment: Fragment) -> None:
        call_id = fragment.call_id
        # Padding before a verifier is not taken off: some clients count the contexts into it.
        try:
            bind = Bind.read_body(fragment.body)
            self._check_offer(bind)
        except DecodeError:
            self._nak(call_id, NakReason.NOT_SPECIFIED)
            raise
        self._max_xmit = self._agreed(bind)
        answers = self._answers(bind)
        group = self._join(bind.assoc_group_id)
        if group is None:
            self._nak(call_id, NakReason.NOT_SPECIFIED)
            raise _BrokenError("the association group is not there")
        self.association_group_id = group
        trailer, token = self._handshake(fragment)
        self._acknowledge(PduType.BIND_ACK, fragment, answers, trailer, token)
        opening = self._security.get(trailer.auth_context_id) if trailer is not None else None
        self.state = State.BOUND
        if opening is not None and not opening.established:
            self._opening_id = opening.context_id
            self.state = State.AUTHENTICATING

    def _agreed(self, bind: Bind) -> int:
        """The fragment size for both directions: the smaller of the client's two, rounded down and kept within our
        limits."""
        wished = min(bind.max_xmit_frag, bind.max_recv_frag) & ~7
        return min(max(wished, SMALLEST_AGREED), self._limits.max_fragment)

    @staticmethod
    def _check_offer(bind: Bind) -> None:
        if not bind.contexts or not all(element.transfers for element in bind.contexts):
            raise DecodeError("nothing is offered")
        if sum(is_feature_offer(element) for element in bind.contexts) > 1:
            raise DecodeError("features are offered twice")

    def _alter(self, fragment: Fragment) -> None:
        call_id = fragment.call_id
        try:
            bind = Bind.read_body(fragment.body)
            self._check_offer(bind)
            for element in bind.contexts:
                known = self._contexts.get(element.context_id)
                if known is not None and known.interface != element.abstract:
                    raise DecodeError("a presentation context is to become another one")
        except DecodeError:
            self._fault(call_id, 0, FaultStatus.NCA_PROTOCOL_ERROR, executed=False)
            raise
        answers = self._answers(bind)
        trailer, token = self._handshake(fragment)
        self._acknowledge(PduType.ALTER_CONTEXT_RESP, fragment, answers, trailer, token)
        self._leave_authenticating()

    def _acknowledge(
        self,
        ptype: PduType,
        fragment: Fragment,
        answers: tuple[ContextAnswer, ...],
        trailer: SecTrailer | None,
        token: bytes,
    ) -> None:
        first = ptype is PduType.BIND_ACK
        ack = BindAck(
            self._max_xmit,
            self._max_xmit,
            self.association_group_id,
            self._secondary_address if first else b"",
            answers,
        )
        flags = int(WHOLE) | (fragment.flags & PduFlags.SUPPORT_HEADER_SIGN)
        if first:
            flags |= fragment.flags & PduFlags.CONC_MPX
        self._out.append(
            build(ptype, fragment.call_id, ack.write_body(), flags=flags, trailer=trailer, token=token)
        )

    def _answers(self, bind: Bind) -> tuple[ContextAnswer, ...]:
        answers = []
        for element in bind.contexts:
            answer = answer_context(element, lambda syntax: self._minimum(syntax) is not None)
            if answer.result == ContextResult.ACCEPTANCE:
                known = self._contexts.get(element.context_id)
                wanted = PresentationContext(
                    element.context_id, element.abstract, answer.transfer, answer.transfer == NDR64
                )
                if known is not None and known != wanted:
                    answer = ContextAnswer(
                        ContextResult.PROVIDER_REJECTION,
                        ContextReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED,
                    )
                elif known is None and len(self._contexts) >= self._limits.max_contexts:
                    answer = ContextAnswer(
                        ContextResult.PROVIDER_REJECTION, ContextReason.LOCAL_LIMIT_EXCEEDED
                    )
                else:
                    self._contexts[element.context_id] = wanted
            answers.append(answer)
        return tuple(answers)

    def _handshake(self, fragment: Fragment) -> tuple[SecTrailer | None, bytes]:
        """Process the token of a bind or alter_context. Returns the verifier and the token for our answer."""
        trailer = fragment.trailer
        if trailer is None:
            return None, b""
        security = self._security.get(trailer.auth_context_id)
        answer = SecTrailer(trailer.auth_type, trailer.auth_level, 0, 0, trailer.auth_context_id)
        try:
            if security is None:
                if len(self._security) >= self._limits.max_security_contexts:
                    raise AuthenticationError("too many security contexts")
                security = self._authentication.accept(
                    trailer.auth_type, trailer.auth_level, trailer.auth_context_id
                )
                if fragment.flags & PduFlags.SUPPORT_HEADER_SIGN:
                    self.header_signing = True
                security.header_signing = self.header_signing
                self._security[trailer.auth_context_id] = security
            elif security.established:
                # Some clients repeat the last token of a finished handshake with every alter_context.
                return None, b""
            elif (trailer.auth_type, trailer.auth_level) != (security.auth_type, security.level):
                raise AuthenticationError("another provider or level than the handshake began with")
            return answer, security.step(fragment.auth_value)
        except AuthenticationError:
            if fragment.ptype == PduType.BIND:
                self._nak(fragment.call_id, self._why(trailer))
            else:
                self._fault(fragment.call_id, 0, FaultStatus.ACCESS_DENIED, executed=False)
            raise

    def _why(self, trailer: SecTrailer) -> NakReason:
        if trailer.auth_level not in ACCEPTED_LEVELS:
            return NakReason.NOT_SPECIFIED
        if trailer.auth_type not in self._authentication.auth_types:
            return NakReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED
        return NakReason.INVALID_CHECKSUM

    def _finish(self, fragment: Fragment) -> None:
        """Process an auth3. It has no answer; a client whose handshake failed learns of it from its first request."""
        trailer = fragment.trailer
        security = self._security.get(trailer.auth_context_id) if trailer is not None else None
        if trailer is None or security is None:
            raise _BrokenError("an auth3 without a handshake")
        if (trailer.auth_type, trailer.auth_level) != (security.auth_type, security.level):
            raise _BrokenError("an auth3 of another provider or level than the handshake began with")
        if not security.established and not security.failed:
            try:
                security.step(fragment.auth_value)
                if not security.established:
                    security.failed = True
            except AuthenticationError:
                pass  # `step` has marked the context as failed
        self._leave_authenticating()

    def _leave_authenticating(self) -> None:
        if self.state is not State.AUTHENTICATING:
            return
        opening = self._security[self._opening_id] if self._opening_id is not None else None
        if opening is None or opening.established or opening.failed:
            self.state = State.BOUND

    # --- calls ------------------------------------------------------------------------------------------

    def _request(self, fragment: Fragment) -> None:
        call_id = fragment.call_id
        flags = fragment.flags
        context_id, opnum, target, start = read_request(fragment)
        try:
            security, stub = self._opened(fragment, start)
        except AuthenticationError:
            begun_under = context_id if flags & _FIRST else self._begun_under(call_id)
            self._fault(call_id, begun_under, FaultStatus.ACCESS_DENIED)
            raise
        incoming = self._incoming.get(call_id)
        if flags & _FIRST:
            if incoming is not None or call_id in self._executing:
                self._fault(call_id, context_id, FaultStatus.NCA_PROTOCOL_ERROR)
                raise _BrokenError(f"call {call_id} begins twice")
            status = self._objection(context_id, security) or self._too_long(0, len(stub), security)
            if flags & _LAST and status is None:  # a request of one fragment
                self._execute(call_id, context_id, opnum, target, stub, security)
                return
            incoming = self._incoming[call_id] = _Incoming(context_id, opnum, target, security)
            if status is not None:
                self._refuse(call_id, incoming, status)
        elif incoming is None or incoming.opnum != opnum or incoming.security is not security:
            self._fault(call_id, self._begun_under(call_id), FaultStatus.NCA_PROTOCOL_ERROR)
            raise _BrokenError(f"a fragment that belongs to no call {call_id}")
        self._gather(call_id, incoming, stub)
        if flags & _LAST:
            self._complete(call_id)

    def _begun_under(self, call_id: int) -> int:
        """The presentation context of the call's first fragment. The header of a fragment that failed verification
        does not count."""
        known = self._incoming.get(call_id)
        return known.context_id if known is not None else 0

    def _objection(self, context_id: int, security: SecurityContext | None) -> FaultStatus | None:
        if (context_id, security) not in self._admitted:
            status = self._not_admitted(context_id, security)
            if status is not None:
                return status
            self._admitted.add((context_id, security))
        limits = self._limits
        if len(self._incoming) + len(self._executing) >= (
            limits.max_unknown_calls if security is None else limits.max_calls
        ):
            return FaultStatus.NCA_SERVER_TOO_BUSY
        return None

    def _not_admitted(self, context_id: int, security: SecurityContext | None) -> FaultStatus | None:
        """The status with which calls under these contexts are refused, or None."""
        context = self._contexts.get(context_id)
        if context is None:
            return FaultStatus.NCA_UNKNOWN_INTERFACE
        wanted = self._minimum(context.interface)
        level = security.effective_level if security is not None else AuthLevel.NONE
        if security is None and any(known.failed for known in self._security.values()):
            return FaultStatus.ACCESS_DENIED
        return FaultStatus.ACCESS_DENIED if wanted is None or level < wanted else None

    def interfaces_changed(self) -> None:
        """Forget who was let in, because the served interfaces or their levels have changed."""
        self._admitted.clear()

    def _too_long(self, gathered: int, more: int, security: SecurityContext | None) -> FaultStatus | None:
        limits = self._limits
        longest = limits.max_unknown_stub if security is None else limits.max_stub
        if gathered + more > longest or self._partial_bytes + more > limits.max_partial:
            return FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY
        return None

    def _gather(self, call_id: int, incoming: _Incoming, stub: bytes) -> None:
        if incoming.refused:
            return
        status = self._too_long(incoming.size, len(stub), incoming.security)
        if status is not None:
            self._refuse(call_id, incoming, status)
            return
        incoming.add(stub)
        self._partial_bytes += len(stub)

    def _refuse(self, call_id: int, incoming: _Incoming, status: FaultStatus) -> None:
        self._fault(call_id, incoming.context_id, status, executed=False)
        incoming.refused = True
        self._partial_bytes -= incoming.size
        incoming.clear()
        if len(self._incoming) > 2 * self._limits.max_calls:
            raise _BrokenError("too many calls are begun and none is finished")

    def _complete(self, call_id: int) -> None:
        incoming = self._incoming.pop(call_id)
        if not incoming.refused:
            self._partial_bytes -= incoming.size
            self._execute(
                call_id,
                incoming.context_id,
                incoming.opnum,
                incoming.object,
                incoming.whole(),
                incoming.security,
            )

    def _execute(
        self,
        call_id: int,
        context_id: int,
        opnum: int,
        target: bytes | None,
        stub: bytes,
        security: SecurityContext | None,
    ) -> None:
        if self._events:  # another call came in the same read
            self.takes_many = True
        arrived = CallArrived(call_id, self._contexts[context_id], opnum, target, stub, security)
        self._executing[call_id] = arrived
        self._events.append(arrived)

    def _cancel(self, fragment: Fragment) -> None:
        call_id = fragment.call_id
        if call_id in self._executing:
            self._cancels[call_id] = min(self._cancels.get(call_id, 0) + 1, 255)
            self._events.append(CallCancelled(call_id))

    def _orphan(self, fragment: Fragment) -> None:
        """Drop a call that is being executed. An orphaned call that is still coming is read to its end."""
        call_id = fragment.call_id
        if self._executing.pop(call_id, None) is not None:
            self._cancels.pop(call_id, None)
            self._events.append(CallOrphaned(call_id))

    # --- answers ----------------------------------------------------------------------------------------

    def respond(self, call_id: int, stub: bytes) -> None:
        """Answer a call. Does nothing if the call was orphaned or the connection has closed."""
        arrived = self._executing.pop(call_id, None)
        if arrived is None:
            return
        cancels = self._cancels.pop(call_id, 0) if self._cancels else 0
        # Windows answers with the low byte of the context's number alone, so every client copes with that.
        context_id = arrived.context.context_id & 0xFF
        self._send_stub(PduType.RESPONSE, call_id, context_id, cancels, stub, arrived.security)

    def fault(self, call_id: int, status: int, *, executed: bool = True) -> None:
        """Answer a call with a fault."""
        arrived = self._executing.pop(call_id, None)
        if arrived is not None:
            cancels = self._cancels.pop(call_id, 0)
            self._fault(call_id, arrived.context.context_id, status, executed=executed, cancels=cancels)

    def check_trailer(self, arrived: CallArrived, end: int) -> None:
        """Check the verification trailer behind the arguments of a call, which end at ``end``.

        Raises DecodeError if the trailer describes another call.
        """
        meant = self._meant(arrived.context.context_id, arrived.opnum)
        check_trailer(arrived.stub, end, meant, arrived.call_id)

    def _syntaxes(self, context_id: int) -> tuple[Syntax, Syntax]:
        context = self._contexts[context_id]
        return context.interface, context.transfer

    def _fault(
        self, call_id: int, context_id: int, status: int, *, executed: bool = True, cancels: int = 0
    ) -> None:
        flags = int(WHOLE) | (0 if executed else PduFlags.DID_NOT_EXECUTE)
        body = Fault(32, context_id, cancels, 0, status).encode()
        self._out.append(build(PduType.FAULT, call_id, body, flags=flags))

    def _nak(self, call_id: int, reason: NakReason) -> None:
        self._out.append(build(PduType.BIND_NAK, call_id, BindNak(reason).write_body()))
