"""A transport connection and the session on it: bytes in, events out, and the session's timer.

The session is a pure machine; this is the asyncio around it, which enforces three limits that the machine cannot: a
peer that does not read what we send is not read beyond its window, a peer that sends faster than the disk writes is
not read until the disk has caught up, and a peer has to finish a packet in a time that depends on its size.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, cast

from msmq.admission.gate import Gate
from msmq.api.intake import Intake
from msmq.server.alarm import Alarm, now_ms
from msmq.server.outbound.runs import Run
from msmq.transfer.events import Closed, Event
from msmq.transfer.session import Session
from msmq.transfer.states import State
from msmq.transfer.timers import earliest
from msmq.wire.landing import Landing
from msmq.wire.trailers import host_address

_WRITE_BUFFER_BYTES: Final = 1 << 20
_LINGER_S: Final = 5.0
PACKET_MS: Final = 30_000
SLOWEST_BYTES_PER_MS: Final = 4
"""The time limit for a packet: a fixed time, and its size at the rate of a telephone line."""
_log = logging.getLogger(__name__)


class Backlog:
    """Counts the received bytes of all connections that wait for the disk.

    Above ``limit`` a connection that receives more is not read any further; all go on when half of the limit is left.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.size = 0
        self._waiting: set[Connection] = set()

    def add(self, connection: Connection, size: int) -> None:
        self.size += size
        if self.size > self._limit:
            self._waiting.add(connection)

    def remove(self, size: int) -> None:
        self.size -= size
        if self._waiting and 2 * self.size <= self._limit:
            waiting, self._waiting = self._waiting, set()
            for connection in waiting:
                connection.regulate_reading()

    def holds(self, connection: Connection) -> bool:
        return connection in self._waiting

    def forget(self, connection: Connection) -> None:
        self._waiting.discard(connection)


TransferSession = Session[Run | None]
TransferEvent = Event[Run | None]


class Connection(Intake):
    """One TCP connection. Events go to ``handle`` in the order in which they happen."""

    def __init__(
        self,
        session: TransferSession,
        handle: Callable[[Connection, list[TransferEvent]], None],
        *,
        max_opening_bytes: int,
        max_unstored_bytes: int,
        backlog: Backlog,
        lost: Callable[[Connection], None] = lambda connection: None,
        gate: Gate | None = None,
    ) -> None:
        self.session = session
        self.peer = ""
        self.source = b""
        """The IP address of the peer, and the same in the form that its messages are stored with."""
        self.promised = 0
        """The number of messages that wait for the disk before they enter the window."""
        self.was_open = False
        self._handle = handle
        self._lost = lost
        self._gate = gate
        self._heard_ms = 0
        self._max_opening_bytes = max_opening_bytes
        self._max_unstored_bytes = max_unstored_bytes
        self._backlog = backlog
        self._opening_bytes = 0
        self._unstored_bytes = 0
        self._congested = False
        self._reading = True
        self._received_before = 0
        self._packet_began_ms: int | None = None  # of the incomplete packet
        self._packets = 0
        self._over = False  # an initiator's session continues with another connection
        self._transport: asyncio.Transport | None = None
        self._alarm = Alarm(self._timer_expired)

    def __repr__(self) -> str:
        return f"<Connection {self.session.role.value} {self.peer} {self.session.state.name}>"

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            host, scope = ip_address(peer[0].partition("%")[0]), peer[3] if len(peer) > 3 else 0
            self.peer = str(host)
            self.source = host_address(ip_address(f"{host}%{scope}") if scope else host)
        self._transport.set_write_buffer_limits(_WRITE_BUFFER_BYTES)
        if self._gate is not None:
            handle = transport.get_extra_info("socket")
            if not self._gate.enter(self, self.peer, 0 if handle is None else handle.fileno()):
                self._transport.abort()
                return
        self.flush()

    @property
    def landing(self) -> Landing | None:
        return self.session.reader.landing

    def heard(self) -> None:
        self._heard_ms = now_ms()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        session = self.session
        opening = session.state is not State.OPEN
        now = self._heard_ms = now_ms()
        events = session.receive_data(data, now)
        self._follow_packet(now)
        if opening:
            self._opening_bytes += len(data)
            if session.state is State.OPEN:
                if self._gate is not None:
                    self._gate.opened(self)
            elif self._opening_bytes > self._max_opening_bytes:
                events += session.close(now, malformed="too many bytes before the session is open")
        self.dispatch(events)
        if self._congested:
            self.regulate_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._backlog.forget(self)
        if not self._over:
            self.dispatch(self.session.disconnected(now_ms()))
        self._alarm.stop()
        if self._gate is not None:
            self._gate.leave(self)
        self._lost(self)

    def pause_writing(self) -> None:
        """Note that the peer does not read what we send."""
        self._congested = True
        self._received_before = self.session.receipts.received

    def resume_writing(self) -> None:
        self._congested = False
        self.regulate_reading()
        if not self._over:
            self._handle(self, [])

    # Calls of the owner

    @property
    def room(self) -> int:
        """The number of further messages that may be sent now."""
        return 0 if self._congested else max(self.session.room - self.promised, 0)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._over and self.session.state is State.OPEN

    def dispatch(self, events: list[TransferEvent]) -> None:
        """Handle events, then write the session's output; a closing comes last."""
        closing = bool(events) and isinstance(events[-1], Closed)
        if closing:
            self.flush()
            self._over = True
            self._hang_up()
        if events:
            self._handle(self, events)
        self.flush()

    def flush(self) -> None:
        """Write the session's output."""
        if self._over:
            return
        output = self.session.data_to_send()
        transport = self._transport
        if output and transport is not None and not transport.is_closing():
            transport.write(output[0] if len(output) == 1 else b"".join(output))
        self._alarm.set(earliest(self.session.next_deadline_ms, self._packet_deadline_ms))

    def _hang_up(self) -> None:
        """Close the transport when its output has left, or after a while."""
        self._alarm.stop()
        transport = self._transport
        if transport is not None:
            transport.close()
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(_LINGER_S, transport.abort)

    def close(self) -> None:
        """End the session, after acknowledging everything that was received and stored."""
        if self._over:
            return
        if self.session.receipts.pending:
            self.session.pause(now_ms())
        self.dispatch(self.session.close(now_ms()))

    @property
    def idle_since_s(self) -> float | None:
        """Since when neither side has had anything to send or to store, or None."""
        busy = self._unstored_bytes or self.promised or self.session.outbox.awaiting
        return None if busy else self._heard_ms / 1_000

    def show_out(self, reason: str) -> None:
        """Close because there is no room for the connection."""
        _log.debug("connection of %s closed: %s", self.peer, reason)
        self.close()

    def refuse(self, reason: str) -> None:
        """Close without acknowledging what has come since the last write, because it could not be taken."""
        if not self._over:
            self.session.data_to_send()
            _log.warning("session with %s closed: %s", self.peer, reason)
            self.dispatch(self.session.close(now_ms()))

    def hold(self, size: int) -> None:
        """Count received bytes that wait for the disk."""
        self._unstored_bytes += size
        self._backlog.add(self, size)
        self.regulate_reading()

    def let_go(self, size: int) -> None:
        self._unstored_bytes -= size
        self._backlog.remove(size)
        self.regulate_reading()

    @property
    def _ignored(self) -> bool:
        """Whether the peer goes on sending without reading our acknowledgments, which take memory here.

        A peer that keeps to its window stops by itself. It has to be read that far: if both sides stopped reading
        because the other does not read, neither would ever go on.
        """
        session = self.session
        return self._congested and session.receipts.received - self._received_before > 2 * session.window_size

    def regulate_reading(self) -> None:
        """Resume or pause reading."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        wanted = not (
            self._ignored or self._unstored_bytes > self._max_unstored_bytes or self._backlog.holds(self)
        )
        if wanted != self._reading:
            self._reading = wanted
            if self._packet_began_ms is not None:
                self._packet_began_ms = now_ms()  # because the pause was ours
            transport.resume_reading() if wanted else transport.pause_reading()
            self.flush()

    def _follow_packet(self, now: int) -> None:
        reader = self.session.reader
        if not reader.buffered:
            self._packet_began_ms = None
        elif self._packet_began_ms is None or self._packets != reader.finished:
            self._packet_began_ms = now
        self._packets = reader.finished

    @property
    def _packet_deadline_ms(self) -> int | None:
        if self._packet_began_ms is None or not self._reading:
            return None
        reader = self.session.reader
        size = reader.buffered + reader.missing
        return self._packet_began_ms + PACKET_MS + size // SLOWEST_BYTES_PER_MS

    def _timer_expired(self) -> None:
        now, deadline = now_ms(), self._packet_deadline_ms
        if deadline is not None and deadline <= now:
            self.dispatch(self.session.close(now, malformed="a packet takes too long"))
        else:
            self.dispatch(self.session.handle_timer(now))
