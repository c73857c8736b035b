"""An interface as it is declared once and used on both sides.

::

    ECHO = Operation(0, "Echo", EchoRequest, EchoResponse)
    ECHOES = Interface("echoes", Syntax(guid_from_text("..."), 1, 0), (ECHO, ...))

A server registers it with a handler for each operation, ``handler(call: Call, request)``; a client calls
``await client.call(ECHO, EchoRequest(...))``. A handler that raises `RpcFault` or an `MQError` has its caller told the
status in a fault PDU.

A handler that knows its answer returns it, and it is sent with the others of the same read: that costs no task. One
that has to wait returns a `Promise`, or is a coroutine, which then becomes a task. Where several calls cost less
together than each by itself, their handler is a `Together`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from msmq.rpc.association import AssociationGroup
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.security.access import Token

Q = TypeVar("Q", bound=Parameters)
R = TypeVar("R", bound=Parameters)


@dataclass(frozen=True, eq=False)
class Operation(Generic[Q, R]):
    """One method: its opnum, and what goes in and out. It is equal to itself only."""

    opnum: int
    name: str
    request: type[Q]
    response: type[R]


@dataclass(frozen=True)
class Interface:
    """Methods under one identifier and version."""

    name: str
    syntax: Syntax
    operations: tuple[Operation[Any, Any], ...]
    _by_name: Mapping[str, Operation[Any, Any]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    _by_opnum: Mapping[int, Operation[Any, Any]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {operation.name: operation for operation in self.operations})
        object.__setattr__(self, "_by_opnum", {operation.opnum: operation for operation in self.operations})
        assert len(self._by_name) == len(self._by_opnum) == len(self.operations), "an operation twice"

    def __getitem__(self, name: str) -> Operation[Any, Any]:
        return self._by_name[name]

    def find(self, opnum: int) -> Operation[Any, Any] | None:
        return self._by_opnum.get(opnum)


class Promise:
    """An answer that is not there yet. A handler returns it instead of an answer, and gives the answer when it has it.

    When the client gives the call up, or is gone, ``abandoned`` is called instead, once and at once; whatever is
    answered after that is dropped. ``hurried`` is called when the client asks for an early answer (co_cancel).

    Many promises may be kept in one moment. Whoever has a large answer to give makes it in :meth:`when_room`, so that a
    client which does not read costs no more than what waits for it already.
    """

    __slots__ = ("_abandoned", "_deliver", "_hurried", "_when_room", "over")

    def __init__(
        self, abandoned: Callable[[], None] | None = None, hurried: Callable[[], None] | None = None
    ) -> None:
        self._abandoned = abandoned
        self._hurried = hurried
        self._deliver: Callable[[Parameters | Exception], None] | None = None
        self._when_room: Callable[[Callable[[], None]], None] | None = None
        self.over = False

    def answer(self, answer: Parameters | Exception) -> None:
        """Give the answer; an exception means what it means when a handler raises it."""
        assert self._deliver is not None, "who has the answer already returns it"
        if not self.over:
            self.over = True
            self._deliver(answer)

    def when_room(self, action: Callable[[], None]) -> None:
        """Call ``action``, which is to make the answer, once the client has read enough of what it was answered before;
        never if the promise is over then."""
        assert self._when_room is not None, "who has the answer already returns it"
        if not self.over:
            self._when_room(action)

    # --- for the runtime --------------------------------------------------------------------------------

    def deliver_to(
        self,
        deliver: Callable[[Parameters | Exception], None],
        when_room: Callable[[Callable[[], None]], None],
    ) -> None:
        self._deliver, self._when_room = deliver, when_room

    def abandon(self) -> None:
        if not self.over:
            self.over = True
            if self._abandoned is not None:
                self._abandoned()

    def hurry(self) -> None:
        if not self.over and self._hurried is not None:
            self._hurried()


@dataclass(eq=False, frozen=True, slots=True)
class Call:
    """What a handler knows about the call it serves; all calls of an operation by one caller share it."""

    interface: Interface
    operation: Operation[Any, Any]
    ndr64: bool
    token: Token
    """Who calls; anonymous when nobody proved anything."""
    principal: str | None
    """The name under which the caller was authenticated."""
    auth_level: AuthLevel
    group: AssociationGroup
    peer: str
    """The address the connection comes from."""
    local: str
    """The address of ours that it came to."""
    connection: Hashable
    """Equal for all calls of one connection, and different for those of any other."""

    def open_handle(self, target: Any, rundown: Callable[[Any], None] | None = None) -> bytes:
        """A context handle for ``target``; ``rundown(target)`` is called if the client goes away with it open."""
        return self.group.handles.open(target, self.interface.syntax, self.token, rundown)

    def find_handle(self, handle: bytes) -> Any:
        """What a handle of this client, interface and user stands for, or a fault of context mismatch."""
        return self.group.handles.find(handle, self.interface.syntax, self.token)

    def close_handle(self, handle: bytes) -> Any:
        """Like :meth:`find_handle`, and the handle is gone; nothing is run down."""
        return self.group.handles.close(handle, self.interface.syntax, self.token)


Answer = Parameters | Promise | Awaitable[Parameters]
Handler = Callable[[Call, Any], Answer]


class Together:
    """A handler of several calls of an operation that one client made one behind the other.

    ``answer(call, requests)`` answers as many as it likes, from the first on and at least that one, and is called again
    for the others. An exception among the answers means what it means when a handler raises it; one that is raised
    answers the first call.
    """

    __slots__ = ("answer",)

    def __init__(self, answer: Callable[[Call, Sequence[Any]], Sequence[Answer | Exception]]) -> None:
        self.answer = answer
