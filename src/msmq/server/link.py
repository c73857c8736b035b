"""The way to one host: connecting, sending, connecting again (MS-MQQB 3.1.5.2, 3.1.6.1).

All outgoing queues with the same host share a link. It resolves the host, pings it where that is wanted, connects,
opens a session, and fills its window from its queues in turn. When the session closes and messages still wait, it
tries again after a while, with the next address of the host; it resolves anew when all were tried.

A session that the host opened to us serves as well: then there is nothing to connect. A link to a queue manager that
is known by its identifier only has no other way, as long as there is no directory to ask for an address.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msmq.errors import NoDsError, RemoteMachineNotAvailableError
from msmq.manager.model import ConnectionStatus, OutgoingState
from msmq.server.alarm import Alarm, now_ms
from msmq.server.config import Config
from msmq.server.connection import Connection, Parcel, TransferEvent, TransferSession
from msmq.server.ping_responder import ping
from msmq.transfer.events import Answered, Closed, Established, RetryDue
from msmq.transfer.ping import PingCookies
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import CloseReason, Role, State

if TYPE_CHECKING:
    from msmq.server.drain import Drain
    from msmq.server.outgoing import Outgoing

_log = logging.getLogger(__name__)
_STAYS = (OutgoingState.ON_HOLD, OutgoingState.LOCKED)
_FAILURES = {
    CloseReason.NOT_ADMITTED: ConnectionStatus.CONNECTION_REFUSED,
    CloseReason.INITIALIZATION_EXPIRED: ConnectionStatus.CONNECTION_NOT_READY,
    CloseReason.DISCONNECTED: ConnectionStatus.SOCKET_SEND_FAILURE,
}


Resolve = Callable[[str], Awaitable[list[str]]]
"""From the name of a host to its addresses; a name without any is an OSError."""


async def resolve(host: str) -> list[str]:
    """Ask the system for the addresses of a host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # no such name can exist
        raise socket.gaierror(str(error)) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(slots=True)
class Surroundings:
    """What a link needs of the daemon. The configuration may be exchanged for another one."""

    config: Config
    session_config: SessionConfig
    handle: Callable[[Connection, list[TransferEvent]], None]
    accepted: Callable[[], Iterable[Connection]]
    """The connections that others have opened to us."""
    resolve: Resolve
    cookies: PingCookies = field(default_factory=PingCookies)


class Link:
    """The way to one host. ``key`` is its name or address, or the identifier of its queue manager."""

    def __init__(self, outgoing: Outgoing, surroundings: Surroundings, key: str | bytes) -> None:
        self.drains: list[Drain] = []
        self._outgoing = outgoing
        self._around = surroundings
        self._key = key
        self._hops: list[str] = []
        self._address = ""
        self._session: TransferSession = Session(Role.INITIATOR, surroundings.session_config, now_ms())
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._timer_expired)
        self._opened = False
        self._stopped = False

    def __repr__(self) -> str:
        return f"<Link {self._key!r} {self._session.state.name}>"

    @property
    def _waiting(self) -> bool:
        return any(drain.may_send and drain.waiting for drain in self.drains)

    def stop(self) -> None:
        self._stopped = True
        self._alarm.stop()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    # Sending

    def leads_to(self, connection: Connection) -> bool:
        """Whether messages of this link may go over a connection that is there anyway."""
        if not connection.is_open:
            return False
        if isinstance(self._key, bytes):
            return connection.session.remote_guid == self._key
        return connection.session.direct and connection.peer == self._key

    def _usable(self) -> Connection | None:
        own = self._connection
        if own is not None and own.is_open:
            return own
        return next(filter(self.leads_to, self._around.accepted()), None)

    def wake(self) -> None:
        """There may be something to send."""
        if self._stopped or not self._waiting:
            return
        connection = self._usable()
        if connection is not None:
            self._pump(connection)
        elif isinstance(self._key, bytes):
            if any(drain.queue.state is not OutgoingState.NEED_VALIDATION for drain in self.drains):
                self._set_state(OutgoingState.NEED_VALIDATION)
                self._note(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, NoDsError.code)
        elif self._session.state is State.CLOSED and self._connecting is None:
            self._connect(retry=False)

    def _pump(self, connection: Connection) -> None:
        """Fill the window; what was chosen leaves when it is durable."""
        chosen: list[Parcel] = []
        served: list[Drain] = []
        for drain in self.drains:
            if not drain.may_send or drain.connection not in (None, connection):
                continue
            room = connection.room - len(chosen)
            if room <= 0:
                break
            parcels = drain.take(room)
            if parcels:
                self._outgoing.carries(connection, drain)
                served.append(drain)
                chosen += parcels
        if chosen:
            self.drains = [drain for drain in self.drains if drain not in served] + served  # in turn
            connection.promised += len(chosen)
            self._outgoing.commit.when_durable(partial(self._ship, connection, chosen))

    def _ship(self, connection: Connection, chosen: list[Parcel]) -> None:
        connection.promised -= len(chosen)
        now = now_ms()
        for parcel in chosen:
            packet = parcel.drain.packet(parcel)
            if packet is None:
                continue
            if connection.is_open and connection.session.send(packet, parcel, now):
                parcel.drain.sent(parcel, now)
            else:
                parcel.drain.put_back(parcel)
        connection.flush()
        for drain in {parcel.drain for parcel in chosen}:
            self._outgoing.watch(drain)
        self._outgoing.wake(self)

    # Connecting

    def _connect(self, *, retry: bool) -> None:
        self._set_state(OutgoingState.WAITING)
        self._connecting = asyncio.get_running_loop().create_task(self._establish(retry))

    async def _establish(self, retry: bool) -> None:
        """Establish a Protocol Session (3.1.5.2): resolve, ping, connect."""
        try:
            if not self._hops:
                self._hops = await self._resolve()
            self._address = self._hops.pop(0)
            pinged = self._around.config.ping_before_connecting and not retry
            if pinged and not await self._ping():
                self._failed(ConnectionStatus.PING_FAILURE)
                return
            connection = await self._open_transport()
        except socket.gaierror:
            self._failed(ConnectionStatus.DNS_FAILURE)
        except (OSError, TimeoutError):
            self._failed(ConnectionStatus.SOCKET_CONNECT_FAILURE)
        else:
            self._connection = connection
            self._opened = False
            self._note(ConnectionStatus.IN_PROCESS)
            self._session.connected(now_ms(), pinged=pinged)
            connection.flush()
        finally:
            self._connecting = None

    async def _resolve(self) -> list[str]:
        assert isinstance(self._key, str)
        try:
            addresses = [str(ip_address(self._key))]
        except ValueError:
            addresses = await self._around.resolve(self._key)
        for drain in self.drains:
            drain.queue.next_hops = tuple(addresses)
        return addresses

    async def _ping(self) -> bool:
        config, session_config = self._around.config, self._around.session_config
        response_ms = config.timers.ping_response_ms
        source = config.source_for(self._address)
        cookies = self._around.cookies
        return await ping(
            self._address, config.ping_port, cookies, session_config.own_guid, response_ms, source
        )

    async def _open_transport(self) -> Connection:
        config = self._around.config
        source = config.source_for(self._address)
        async with asyncio.timeout(config.timers.opening_ms / 1_000):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(
                    self._session,
                    self._events,
                    max_opening_bytes=config.max_opening_bytes,
                    max_unstored_bytes=config.max_unstored_bytes,
                    lost=self._lost,
                ),
                self._address,
                config.port,
                local_addr=None if source is None else (source, 0),
            )
        return connection

    def _failed(self, status: ConnectionStatus) -> None:
        self._note(status, RemoteMachineNotAvailableError.code)
        self._retry_later()

    # What the session says

    def _events(self, connection: Connection, events: list[TransferEvent]) -> None:
        for event in events:
            if isinstance(event, Answered):
                self._note(ConnectionStatus.ESTABLISH_PACKET_RECEIVED)
            elif isinstance(event, Established):
                self._opened = True
                self._set_state(OutgoingState.CONNECTED)
                self._note(ConnectionStatus.ESTABLISHED)
                self._outgoing.wake(self)
        self._around.handle(connection, events)
        closing = next((event for event in events if isinstance(event, Closed)), None)
        if closing is not None:
            self._closed(closing)

    def _closed(self, closing: Closed[Parcel | None]) -> None:
        self._connection = None
        self._set_state(OutgoingState.DISCONNECTING)
        if not self._opened:
            status = _FAILURES.get(closing.reason, ConnectionStatus.UNKNOWN_FAILURE)
            self._note(status, RemoteMachineNotAvailableError.code)
        if self._waiting:
            self._retry_later()

    def _lost(self, connection: Connection) -> None:
        """The transport is gone too; unless another one is wanted, that is the end of it."""
        for drain in self.drains:
            if drain.queue.state is OutgoingState.DISCONNECTING:
                drain.queue.state = OutgoingState.DISCONNECTED

    def _retry_later(self) -> None:
        if not self._stopped:
            self._session.reconnect_later(now_ms())
            self._set_state(OutgoingState.WAITING)
            self._alarm.set(self._session.next_deadline_ms)

    def _timer_expired(self) -> None:
        """The Session Retry Connect Timer, while there is no connection."""
        if self._connection is not None or self._connecting is not None:
            return
        due = any(isinstance(event, RetryDue) for event in self._session.handle_timer(now_ms()))
        if not due:
            self._alarm.set(self._session.next_deadline_ms)
        elif self._waiting and self._usable() is None:
            self._connect(retry=True)
        else:
            self._session.close(now_ms())
            self._set_state(OutgoingState.INACTIVE)
            self._outgoing.wake(self)

    # What management shows

    def _set_state(self, state: OutgoingState) -> None:
        for drain in self.drains:
            if drain.queue.state not in _STAYS:
                drain.queue.state = state

    def _note(self, status: ConnectionStatus, error: int = 0) -> None:
        addresses = (self._address,) if self._address else ()
        for drain in self.drains:
            self._outgoing.note(drain.queue, status, error, addresses)
