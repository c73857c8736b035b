"""The way to one host: connecting, sending, connecting again (MS-MQQB 3.1.5.2, 3.1.6.1).

All outgoing queues with the same host share a link. It resolves the host, pings it where that is wanted, connects,
opens a session, and fills its window from its queues in turn. When the session closes and messages still wait, it
tries again after a while, with the next address of the host; it resolves anew when all were tried.

A session that the host has opened to us can be used as well. A queue manager that is known by its identifier is
reached as the directory and routing tell (:mod:`msmq.server.outbound.next_hop`), perhaps through other hosts, over any
session with one of them; without a directory only over one that it opens itself.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msmq.errors import NoDsError, RemoteMachineNotAvailableError
from msmq.errors.tasks import raise_again
from msmq.manager.model import ConnectionStatus, OutgoingState
from msmq.server import descriptors
from msmq.server.alarm import Alarm, now_ms
from msmq.server.config import Config
from msmq.server.inbound.connection import Backlog, Connection, TransferEvent, TransferSession
from msmq.server.inbound.reports import Tracing
from msmq.server.outbound.next_hop import Addressing, Destination, Hop, NoWayError
from msmq.server.outbound.runs import Run
from msmq.server.ping_responder import ping
from msmq.transfer.events import Answered, Closed, Established, RetryDue
from msmq.transfer.ping import PingCookies
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import CloseReason, Role, State

if TYPE_CHECKING:
    from msmq.server.outbound.drain import Drain
    from msmq.server.outbound.outgoing import Outgoing

_STAYS = (OutgoingState.ON_HOLD, OutgoingState.LOCKED)
_FAILURES = {
    CloseReason.NOT_ADMITTED: ConnectionStatus.CONNECTION_REFUSED,
    CloseReason.INITIALIZATION_EXPIRED: ConnectionStatus.CONNECTION_NOT_READY,
    CloseReason.DISCONNECTED: ConnectionStatus.SOCKET_SEND_FAILURE,
}


@dataclass(slots=True)
class Surroundings:
    """The parts of the daemon that a link needs. The configuration may be replaced."""

    config: Config
    session_config: SessionConfig
    handle: Callable[[Connection, list[TransferEvent]], None]
    accepted: Callable[[], Iterable[Connection]]
    """The connections that others have opened to us."""
    addressing: Addressing
    backlog: Backlog
    tracing: Tracing | None = None
    cookies: PingCookies = field(default_factory=PingCookies)


class Link:
    """The way to one host. ``key`` is its name or address, or identifies the queue manager."""

    def __init__(self, outgoing: Outgoing, surroundings: Surroundings, key: Destination) -> None:
        self.drains: list[Drain] = []
        self._outgoing = outgoing
        self._around = surroundings
        self._key = key
        self._hops: list[Hop] = []
        self._hop = Hop("")
        self._session: TransferSession = Session(Role.INITIATOR, surroundings.session_config, now_ms())
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._timer_expired)
        self._opened = False
        self._stopped = False

    def __repr__(self) -> str:
        return f"<Link {self._key!r} {self._session.state.name}>"

    @property
    def routed(self) -> bool:
        """Whether messages may go through other hosts."""
        return not isinstance(self._key, str)

    @property
    def idle(self) -> bool:
        """Whether nothing is connected, connecting, or to be sent."""
        return not self.drains and self._connection is None and self._connecting is None

    @property
    def open_connection(self) -> Connection | None:
        """The connection that this link has opened, if it is open."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

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
        """Whether messages of this link may use an existing connection."""
        if not connection.is_open:
            return False
        if isinstance(self._key, str):
            return connection.session.by_address and connection.peer == self._key
        return connection.session.remote_guid in self._around.addressing.carriers(self._key)

    def _usable(self) -> Connection | None:
        own = self.open_connection
        if own is not None:
            return own
        others = self._outgoing.connections if self.routed else ()
        return next(filter(self.leads_to, chain(self._around.accepted(), others)), None)

    def wake(self) -> None:
        """Send, or begin to connect, if there is something to send."""
        if self._stopped or not self._waiting:
            return
        # Messages that go over another session stay with it, or they would be sent out of order.
        carriers = dict.fromkeys(drain.connection for drain in self.drains if drain.connection is not None)
        connection = self._usable()
        if connection is not None or carriers:
            for carrier in carriers if connection is None else dict.fromkeys([connection, *carriers]):
                self._pump(carrier)
        elif self.routed and not self._around.addressing.has_directory:
            if any(drain.queue.state is not OutgoingState.NEED_VALIDATION for drain in self.drains):
                self._set_state(OutgoingState.NEED_VALIDATION)
                self._note(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, NoDsError.code)
        elif self._session.state is State.CLOSED and self._connecting is None:
            self._connect(retry=False)

    def _pump(self, connection: Connection) -> None:
        """Fill the window; chosen messages leave when they are durable."""
        chosen: list[Run] = []
        count = 0
        served: list[Drain] = []
        for drain in self.drains:
            if not drain.may_send or drain.connection not in (None, connection):
                continue
            room = connection.room - count
            if room <= 0:
                self._outgoing.starves(connection, self)
                break
            drain.receivers.meet(connection)
            runs = drain.take(room)
            if runs:
                self._outgoing.carries(connection, drain)
                served.append(drain)
                chosen += runs
                count += sum(map(len, runs))
        if chosen:
            if connection is not self._connection:
                self._set_state(OutgoingState.CONNECTED, served)
            self.drains = [drain for drain in self.drains if drain not in served] + served  # in turn
            connection.promised += count
            ship = partial(self._ship, connection, chosen, count, self._outgoing.deletions)
            mark = max(drain.durable_at for drain in served)
            for drain in served:  # messages that it chooses next must not overtake these
                drain.durable_at = mark
            self._outgoing.commit.when_durable(ship, mark)

    def _ship(self, connection: Connection, chosen: list[Run], count: int, deletions: int) -> None:
        """Give chosen messages to the session, except those that were deleted since."""
        connection.promised -= count
        if deletions != self._outgoing.deletions:
            chosen = [left for run in chosen for left in run.drain.left_of(run)]
        now = now_ms()
        drains = dict.fromkeys(run.drain for run in chosen)
        for run in chosen:
            if not connection.is_open:
                run.drain.put_back(run)
                continue
            for part in run.drain.with_packets(run):
                packets, joined = run.drain.packets(part)
                sent = connection.session.send_run(part, packets, part.express, now, joined)
                part.packets = None  # very many messages may wait for their acknowledgment
                run.drain.sent(part, sent, now)
                if self._around.tracing is not None:
                    for packet in packets[:sent]:
                        self._around.tracing.sent(packet, connection.peer)
                if sent < len(part):
                    run.drain.put_back(part.part(sent, len(part)))
        connection.flush()
        for drain in drains:
            self._outgoing.watch(drain)
        self._outgoing.wake(self)

    # Connecting

    def _connect(self, *, retry: bool) -> None:
        self._set_state(OutgoingState.WAITING)
        self._connecting = asyncio.get_running_loop().create_task(self._establish(retry))
        self._connecting.add_done_callback(raise_again)

    async def _establish(self, retry: bool) -> None:
        """Establish a Protocol Session (3.1.5.2): resolve, ping, connect."""
        try:
            if not self._hops:
                self._hops = await self._resolve()
            self._hop = self._hops.pop(0)
            if self.routed and self._outgoing.opening.setdefault(self._hop.queue_manager, self) is not self:
                self._hops.insert(0, self._hop)  # the session that another link opens there will be used
                self._retry_later()
                return
            pinged = self._around.config.ping_before_connecting and not retry
            if pinged and not await self._ping():
                self._failed(ConnectionStatus.PING_FAILURE)
                return
            connection = await self._open_transport()
        except (NoWayError, NoDsError):
            self._note(ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE, NoDsError.code)
            self._retry_later(OutgoingState.NEED_VALIDATION)
        except socket.gaierror:
            self._failed(ConnectionStatus.DNS_FAILURE)
        except (OSError, TimeoutError):
            self._failed(ConnectionStatus.SOCKET_CONNECT_FAILURE)
        else:
            self._connection = connection
            self._opened = False
            self._note(ConnectionStatus.IN_PROCESS)
            self._session.connected(now_ms(), self._hop.queue_manager if self.routed else None, pinged=pinged)
            connection.flush()
        finally:
            self._connecting = None

    async def _resolve(self) -> list[Hop]:
        hops = await self._around.addressing.hops(self._key)
        for drain in self.drains:
            drain.queue.next_hops = tuple(hop.address for hop in hops)
        return hops

    async def _ping(self) -> bool:
        config, session_config = self._around.config, self._around.session_config
        response_ms = config.timers.ping_response_ms
        address = self._hop.address
        source = config.source_for(address)
        cookies = self._around.cookies
        own_guid, server_class = session_config.own_guid, session_config.server_class
        return await ping(address, config.ping_port, cookies, own_guid, response_ms, source, server_class)

    async def _open_transport(self) -> Connection:
        config = self._around.config
        source = config.source_for(self._hop.address)
        if descriptors.scarce():
            raise OSError(errno.EMFILE, "hardly a file descriptor is left")
        async with asyncio.timeout(config.timers.opening_ms / 1_000):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(
                    self._session,
                    self._events,
                    max_opening_bytes=config.max_opening_bytes,
                    max_unstored_bytes=config.max_unstored_bytes,
                    backlog=self._around.backlog,
                    lost=self._lost,
                ),
                self._hop.address,
                config.port,
                local_addr=None if source is None else (source, 0),
            )
        return connection

    def _no_longer_opening(self) -> None:
        if self._outgoing.opening.get(self._hop.queue_manager) is self:
            del self._outgoing.opening[self._hop.queue_manager]

    def _failed(self, status: ConnectionStatus) -> None:
        self._no_longer_opening()
        self._note(status, RemoteMachineNotAvailableError.code)
        self._retry_later()

    # What the session says

    def _events(self, connection: Connection, events: list[TransferEvent]) -> None:
        for event in events:
            if isinstance(event, Answered):
                self._note(ConnectionStatus.ESTABLISH_PACKET_RECEIVED)
            elif isinstance(event, Established):
                self._opened = True
                self._no_longer_opening()
                if self.routed:
                    self._hops.clear()  # the best route is tried first the next time
                self._set_state(OutgoingState.CONNECTED)
                self._note(ConnectionStatus.ESTABLISHED)
                self._outgoing.wake(self)
        self._around.handle(connection, events)
        closing = next((event for event in events if isinstance(event, Closed)), None)
        if closing is not None:
            self._closed(closing)

    def _closed(self, closing: Closed[Run | None]) -> None:
        self._connection = None
        self._no_longer_opening()
        self._set_state(OutgoingState.DISCONNECTING)
        if not self._opened:
            status = _FAILURES.get(closing.reason, ConnectionStatus.UNKNOWN_FAILURE)
            self._note(status, RemoteMachineNotAvailableError.code)
        if self._waiting:
            self._retry_later()

    def _lost(self, connection: Connection) -> None:
        """Note that the transport is gone too; if no other one is wanted, the queue is disconnected."""
        for drain in self.drains:
            if drain.queue.state is OutgoingState.DISCONNECTING:
                drain.queue.state = OutgoingState.DISCONNECTED

    def _retry_later(self, state: OutgoingState = OutgoingState.WAITING) -> None:
        if not self._stopped:
            self._session.reconnect_later(now_ms())
            self._set_state(state)
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
            self._set_state(
                OutgoingState.INACTIVE, [drain for drain in self.drains if drain.connection is None]
            )
            self._outgoing.wake(self)

    # What management shows

    def carrier_lost(self, drain: Drain, connection: Connection) -> None:
        """Note that a session that messages went over is gone, perhaps one that another host had opened."""
        if connection is not self._connection and drain.queue.state is OutgoingState.CONNECTED:
            self._set_state(OutgoingState.INACTIVE, [drain])

    def _set_state(self, state: OutgoingState, drains: list[Drain] | None = None) -> None:
        for drain in self.drains if drains is None else drains:
            if drain.queue.state not in _STAYS:
                drain.queue.state = state

    def _note(self, status: ConnectionStatus, error: int = 0) -> None:
        addresses = (self._hop.address,) if self._hop.address else ()
        self._outgoing.attempts[status] += 1
        for drain in self.drains:
            self._outgoing.note(drain.queue, status, error, addresses)
