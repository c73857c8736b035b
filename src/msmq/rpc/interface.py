"""Interfaces, declared once and used by server and client.

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
    """One method of an interface: its opnum, its request and its response. Equal only to itself."""

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
    """An answer that is not there yet. A handler returns it instead of an answer, and calls `answer` later.

    When the client gives the call up or its connection is lost, ``abandoned`` is called once, and any later answer is
    dropped. ``hurried`` is called when the client asks for an early answer (co_cancel).

    Many promises may become ready at the same moment. Large answers should be made in :meth:`when_room`, so that a
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
        """Give the answer; an exception has the effect that raising it in a handler has."""
        assert self._deliver is not None, "who has the answer already returns it"
        if not self.over:
            self.over = True
            self._deliver(answer)

    def when_room(self, action: Callable[[], None]) -> None:
        """Call ``action``, which makes the answer, once the client has read enough of its earlier answers. It is not
        called if the promise is over by then."""
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
    """What a handler is told about a call. All calls of an operation by one caller on a connection share it."""

    interface: Interface
    operation: Operation[Any, Any]
    ndr64: bool
    token: Token
    """The caller; anonymous if the connection is not authenticated."""
    principal: str | None
    """The name under which the caller was authenticated."""
    auth_level: AuthLevel
    group: AssociationGroup
    peer: str
    """The address of the client."""
    local: str
    """Our address that the client connected to."""
    connection: Hashable
    """Equal for all calls of one connection, different for those of any other."""

    def open_handle(self, target: Any, rundown: Callable[[Any], None] | None = None) -> bytes:
        """Open a context handle for ``target``. ``rundown(target)`` is called if the client goes away with it open."""
        return self.group.handles.open(target, self.interface.syntax, self.token, rundown)

    def find_handle(self, handle: bytes) -> Any:
        """Return what a handle of this client, interface and user stands for. Raises a fault of context mismatch if
        there is none."""
        return self.group.handles.find(handle, self.interface.syntax, self.token)

    def close_handle(self, handle: bytes) -> Any:
        """Like :meth:`find_handle`, but also removes the handle, without running it down."""
        return self.group.handles.close(handle, self.interface.syntax, self.token)


Answer = Parameters | Promise | Awaitable[Parameters]
Handler = Callable[[Call, Any], Answer]


class Together:
    """A handler that takes several consecutive calls of an operation by one client.

    ``answer(call, requests)`` answers the first of the requests and as many after it as it likes, and is called again
    for the others. An exception among the answers has the effect that raising it in a handler has; an exception that
    is raised answers the first call.
    """

    __slots__ = ("answer",)

    def __init__(self, answer: Callable[[Call, Sequence[Any]], Sequence[Answer | Exception]]) -> None:
        self.answer = answer
