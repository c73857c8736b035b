"""The RPC server on asyncio: connections, calls, limits (MS-RPCE 3.3.3).

Connections serve the calls that arrive on them (`msmq.rpc.connection`). When a connection is lost or a call is
orphaned, promises are abandoned and tasks cancelled. When all of its calls have ended the connection leaves its
association group, and the last one to leave runs the group's context handles down. So a handler cleans up before its
handles are run down.

What a stranger can cost is bounded: connections (`msmq.admission.gate`), fragments, stubs, calls
(`msmq.rpc.channel.Limits`), and answers that nobody reads: while more than ``max_unread`` bytes wait to be sent on a
connection, nothing is read from it and no further answer is made, not even one that was promised
(`Promise.when_room`). `msmq.admission.unread` bounds them for one address and for all together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from msmq.admission.gate import Crowding, Gate
from msmq.admission.unread import Unread
from msmq.errors.tasks import raise_again
from msmq.rpc.association import AssociationGroups
from msmq.rpc.channel import READ_SIZE
from msmq.rpc.channel import ServerConfig as ServerConfig
from msmq.rpc.connection import Connection
from msmq.rpc.interface import Handler, Interface, Together
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.rpc.security import Authentication

_log = logging.getLogger(__name__)
_LOOK_UPS: Final = 2
"""The most questions to a directory at a time."""


@dataclass(slots=True)
class Statistics:
    """The counts of the management interface (C706 appendix Q, inq_stats). Each read or write of a socket counts as a
    packet."""

    calls_in: int = 0
    calls_out: int = 0
    packets_in: int = 0
    packets_out: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """An interface that is served, with its handlers."""

    interface: Interface
    handlers: Mapping[int, Handler | Together]
    minimum: AuthLevel


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
        """The addresses and ports that the server listens on."""
        self._registered: dict[Syntax, Registration] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._left = asyncio.Event()
        """Set whenever a connection has left."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting_room = ThreadPoolExecutor(_LOOK_UPS, "msmq-principals")
        """Threads in which principals are looked up, so that a slow directory keeps nobody else waiting."""

    # --- interfaces -------------------------------------------------------------------------------------

    def register(
        self,
        interface: Interface,
        handlers: Mapping[int, Handler | Together],
        minimum: AuthLevel = AuthLevel.NONE,
    ) -> None:
        """Serve ``interface``. Calls below the ``minimum`` level are denied; an operation without a handler is out of
        range for the client."""
        self._registered[interface.syntax] = Registration(interface, dict(handlers), minimum)
        for connection in self._connections:
            connection.interfaces_changed()

    @property
    def interfaces(self) -> list[Interface]:
        return [registration.interface for registration in self._registered.values()]

    def registration(self, syntax: Syntax) -> Registration | None:
        """The interface that serves ``syntax``: of the same major version and at least its minor one."""
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
        """Listen on a port and return it; 0 lets the system choose."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: self._accept(), address, port, backlog=self.gate.crowding.at_once
        )
        bound: int = server.sockets[0].getsockname()[1]
        self._servers.append(server)
        self.ports.append((address, bound))
        return bound

    async def close(self) -> None:
        """Close all ports and connections, and wait until every call has ended and every handle is run down."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._connections):
            connection.abort("the server stops")
        while self._connections:  # the loop reports them as lost a moment later
            self._left.clear()
            await self._left.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self.waiting_room.shutdown(wait=False, cancel_futures=True)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> asyncio.BaseProtocol:
        return Connection(self)

    def entered(self, connection: Connection) -> None:
        self._connections.add(connection)

    def left(self, connection: Connection) -> None:
        """Remove a lost connection. It leaves its group when its calls have ended."""
        self._connections.discard(connection)
        self._left.set()
        self.gate.leave(connection)
        if connection.group is not None or connection.tasks:
            self.spawn(self._settle(connection)).add_done_callback(raise_again)

    async def _settle(self, connection: Connection) -> None:
        if connection.tasks:
            await asyncio.wait(list(connection.tasks))
        if connection.group is not None:
            self.groups.leave(connection, connection.group)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
