"""TCP 1801: accepting sessions (MS-MQQB 2.1.1), as many as the gate lets in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msmq.admission.gate import Gate
from msmq.api import inherited
from msmq.errors.tasks import raise_again
from msmq.manager.core import Subscriber
from msmq.server.alarm import now_ms
from msmq.server.config import Config
from msmq.server.inbound.connection import Backlog, Connection, TransferEvent, TransferSession
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role, State
from msmq.wire.packets import EstablishConnection, session_quota_reached

_log = logging.getLogger(__name__)


class Listener(Subscriber):
    """Accepts the sessions of others, except while the queue manager is offline."""

    def __init__(
        self,
        config: Config,
        session_config: SessionConfig,
        handle: Callable[[Connection, list[TransferEvent]], None],
        backlog: Backlog,
        gate: Gate,
    ) -> None:
        self.config = config
        self._session_config = session_config
        self._handle = handle
        self._backlog = backlog
        self._gate = gate
        self._servers: list[asyncio.Server] = []
        self._opening: asyncio.Task[None] | None = None
        self.connections: dict[Connection, None] = {}
        """A set that keeps its order."""

    @property
    def open_sessions(self) -> int:
        return sum(connection.session.state is State.OPEN for connection in self.connections)

    async def start(self) -> None:
        loop, at_once = asyncio.get_running_loop(), self._gate.crowding.at_once
        if opened := inherited.tcp_sockets(self.config.port):
            for each in opened:
                self._servers.append(await loop.create_server(self._accept, sock=each, backlog=at_once))
            return
        for address in self.config.listen:
            server = await loop.create_server(self._accept, address, self.config.port, backlog=at_once)
            self._servers.append(server)

    def connection_active(self, active: bool) -> None:
        """Close all sessions when the queue manager is taken offline (MS-MQDMPR 3.1.4.12), and listen again when it is
        online."""
        self.stop_accepting()
        if active and self.config.port:
            self._opening = asyncio.get_running_loop().create_task(self._open_again())
            self._opening.add_done_callback(raise_again)
        else:
            for connection in list(self.connections):
                connection.close()

    async def _open_again(self) -> None:
        try:
            await self.start()
        except OSError as error:
            _log.error(
                "online again, but nobody can connect: %s; take it offline and online once more", error
            )

    def stop_accepting(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _accept(self) -> asyncio.BaseProtocol:
        config = self.config
        session: TransferSession = Session(Role.ACCEPTOR, self._session_config, now_ms(), admit=self._admit)
        connection = Connection(
            session,
            self._handle,
            max_opening_bytes=config.max_opening_bytes,
            max_unstored_bytes=config.max_unstored_bytes,
            backlog=self._backlog,
            lost=self._lost,
            gate=self._gate,
        )
        self.connections[connection] = None
        return connection

    def _lost(self, connection: Connection) -> None:
        self.connections.pop(connection, None)

    def _admit(self, request: EstablishConnection) -> bool:
        return not session_quota_reached(self.open_sessions, self.config.max_in_sessions)
