"""An interface as it is declared once and used on both sides.

::

    ECHO = Operation(0, "Echo", EchoRequest, EchoResponse)
    ECHOES = Interface("echoes", Syntax(guid_from_text("..."), 1, 0), (ECHO, ...))

A server registers it with a handler for each operation, `async def handler(call: Call, request) -> response`; a
client calls ``await client.call(ECHO, EchoRequest(...))``. A handler that raises `RpcFault` or an `MQError` has
its caller told the status in a fault PDU.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from msmq.rpc.association import AssociationGroup
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.security.access import Token

Q = TypeVar("Q", bound=Parameters)
R = TypeVar("R", bound=Parameters)


@dataclass(frozen=True)
class Operation(Generic[Q, R]):
    """One method: its opnum, and what goes in and out."""

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


@dataclass(eq=False, slots=True)
class Call:
    """What a handler knows about the call it serves."""

    interface: Interface
    operation: Operation[Any, Any]
    object_uuid: bytes | None
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
    """The same for all calls of one connection, and for nothing else."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client asks for an early answer (co_cancel). When it gives the call up, or its connection is
    gone, the handler's task is cancelled instead."""

    def open_handle(self, target: Any, rundown: Callable[[Any], None] | None = None) -> bytes:
        """A context handle for ``target``; ``rundown(target)`` is called if the client goes away with it open."""
        return self.group.handles.open(target, self.interface.syntax, self.token, rundown)

    def find_handle(self, handle: bytes) -> Any:
        """What a handle of this client, interface and user stands for, or a fault of context mismatch."""
        return self.group.handles.find(handle, self.interface.syntax, self.token)

    def close_handle(self, handle: bytes) -> Any:
        """The same, and the handle is gone; nothing is run down."""
        return self.group.handles.close(handle, self.interface.syntax, self.token)


Handler = Callable[[Call, Any], Awaitable[Parameters]]
