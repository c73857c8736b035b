"""A network in memory that can fail in every way a real one can, in simulated time.

A connection is two pipes of bytes. What is written arrives after a while, in pieces of any size and in order, or never;
a connection may be cut between any two bytes, for both sides at once or for one of them first. Two hosts may be unable
to reach each other, in one direction or both: then bytes wait, as TCP retransmits them, until the network is healed or
the connection is given up. Datagrams get lost, overtake each other and come twice.

Everything is deterministic: all chance comes from the generator given to :class:`SimulatedNetwork`, and time moves only
when no process has anything left to do.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import os
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, cast

from msmq.testing.loop import SimulatedLoop

Address = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]
Dialled = tuple[asyncio.Transport, asyncio.BaseProtocol]

_SYN_RETRIES: Final = 5
_FIRST_PORT: Final = 49_152


class _Pipe:
    """One direction of a connection: bytes that have been written and not read."""

    def __init__(self, network: SimulatedNetwork, source: str, target: str) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.buffer = bytearray()
        self.eof = False
        self.reset = False
        self.writer: SimulatedTransport | None = None
        self.reader: SimulatedTransport | None = None
        self._scheduled = False

    def kick(self) -> None:
        """Schedule the next arrival, if there is something to deliver."""
        if not self._scheduled and (self.buffer or self.eof or self.reset):
            self._scheduled = True
            self.network.after(self.network.latency(), self._arrive)

    def _arrive(self) -> None:
        self._scheduled = False
        network = self.network
        if not network.reaches(self.source, self.target):
            return  # all pipes are kicked when the network is healed
        reader = self.reader
        if reader is None:
            return  # kicked when the other side knows of the connection
        if reader.gone:
            if self.buffer or self.eof:
                self._refused()
        elif self.reset and (reader.paused or not self.buffer):
            reader.outgoing.buffer.clear()
            reader.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        elif reader.paused:
            return
        elif self.buffer:
            size = network.piece(len(self.buffer))
            data = bytes(self.buffer[:size])
            del self.buffer[:size]
            reader.receive(data)
            if self.writer is not None:
                self.writer.drained()
            self.kick()
        elif self.eof:
            self.eof = False
            reader.receive_eof()

    def _refused(self) -> None:
        """Send a reset back: the reader's connection no longer exists."""
        self.buffer.clear()
        self.eof = False
        if self.writer is not None and not self.writer.gone:
            back = self.writer.incoming
            back.buffer.clear()
            back.reset = True
            back.kick()


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        pipes: tuple[_Pipe, _Pipe],
        own: Address,
        peer: Address,
    ) -> None:
        super().__init__({"sockname": own, "peername": peer})
        self.loop = loop
        self.network = network
        self.incoming, self.outgoing = pipes
        self.incoming.reader = self
        self.outgoing.writer = self
        self.peer = peer[0]
        self.paused = False
        self.gone = False
        """True once the protocol gets no more calls."""
        self.most_buffered = 0
        self._protocol = cast(asyncio.Protocol, None)
        self._closing = False
        self._high = network.write_buffer_bytes
        self._writing_paused = False

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)
        protocol.connection_made(self)

    # What protocols call.

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.gone or self._closing or not self.loop.has_power():
            return
        self.outgoing.buffer += data
        self.most_buffered = max(self.most_buffered, len(self.outgoing.buffer))
        if len(self.outgoing.buffer) > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        self.outgoing.kick()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high = min(high, self.network.write_buffer_bytes)

    def get_write_buffer_size(self) -> int:
        return len(self.outgoing.buffer)

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._closing or self.gone

    def is_reading(self) -> bool:
        return not self.paused

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        if self.paused:
            self.paused = False
            self.incoming.kick()

    def close(self) -> None:
        if self._closing or self.gone:
            return
        self._closing = True
        self.outgoing.eof = True
        self.outgoing.kick()
        if not self.outgoing.buffer:
            self.lose(None)

    def abort(self) -> None:
        if self.gone:
            return
        self._closing = True
        self.outgoing.buffer.clear()
        self.outgoing.reset = True
        self.outgoing.kick()
        self.lose(None)

    # What the network calls.

    def receive(self, data: bytes) -> None:
        self.loop.call_soon(self._received, data)

    def _received(self, data: bytes) -> None:
        if not self.gone and not self._closing:
            self._protocol.data_received(data)

    def receive_eof(self) -> None:
        self.loop.call_soon(self._eof_received)

    def _eof_received(self) -> None:
        if not self.gone and not self._closing and not self._protocol.eof_received():
            self.close()

    def drained(self) -> None:
        if self._writing_paused and len(self.outgoing.buffer) <= self._high // 4:
            self._writing_paused = False
            self.loop.call_soon(self._resume)
        if self._closing and not self.outgoing.buffer:
            self.lose(None)

    def _resume(self) -> None:
        if not self.gone:
            self._protocol.resume_writing()

    def lose(self, error: Exception | None) -> None:
        """End the connection for this side."""
        if not self.gone:
            self.gone = True
            self.network.connections.pop(self, None)
            if not self.loop.dead:
                self.loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)


class _Door:
    """A listening socket."""

    def __init__(
        self, network: SimulatedNetwork, loop: SimulatedLoop, address: Address, factory: Factory
    ) -> None:
        self.loop = loop
        self.factory = factory
        self._network = network
        self._address = address

    def close(self) -> None:
        if self._network.doors.get(self._address) is self:
            del self._network.doors[self._address]


class SimulatedDatagrams(asyncio.DatagramTransport):
    """A bound datagram socket."""

    def __init__(
        self,
        network: SimulatedNetwork,
        loop: SimulatedLoop,
        protocol: asyncio.DatagramProtocol,
        own: Address,
        remote: Address | None,
    ) -> None:
        super().__init__({"sockname": own})
        self.loop = loop
        self.protocol = protocol
        self.own = own
        self._remote = remote
        self._network = network

    def sendto(self, data: Any, addr: Any = None) -> None:
        target: Address | None = addr or self._remote
        if target is not None and self.loop.has_power():
            self._network.datagram(self.own, target, bytes(data))

    def received(self, data: bytes, source: Address) -> None:
        if self._remote in (None, source) and self._network.sockets.get(self.own) is self:
            self.protocol.datagram_received(data, source)

    def is_closing(self) -> bool:
        return self._network.sockets.get(self.own) is not self

    def close(self) -> None:
        if self._network.sockets.get(self.own) is self:
            del self._network.sockets[self.own]

    def abort(self) -> None:
        self.close()


class SimulatedNetwork:
    """Hosts, their processes, and the network between them.

    ``latency_s`` is the shortest and the longest time that a delivery takes; ``write_buffer_bytes`` is how much a
    transport buffers before it asks its protocol to wait.
    """

    def __init__(
        self,
        rng: Random,
        *,
        latency_s: tuple[float, float] = (0.0005, 0.02),
        write_buffer_bytes: int = 1 << 16,
    ) -> None:
        self.rng = rng
        self.now = 0.0
        self.latency_s = latency_s
        self.working_s = (0.0, 0.005)
        """How long work in a thread takes."""
        self.write_buffer_bytes = write_buffer_bytes
        self.whole_pieces = 0.7
        """How often everything that was written arrives at once."""
        self.datagram_loss = 0.0
        self.loops: dict[str, SimulatedLoop] = {}
        """The running processes, by the address of their host."""
        self.down: set[str] = set()
        """Hosts without power, which are silent."""
        self.blocked: set[tuple[str, str]] = set()
        """Directions in which nothing gets through."""
        self.doors: dict[Address, _Door] = {}
        self.sockets: dict[Address, SimulatedDatagrams] = {}
        self.connections: dict[SimulatedTransport, None] = {}
        self.steps = 0
        self._pipes: list[_Pipe] = []
        self._ports = count(_FIRST_PORT)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    # Time

    def after(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), action))

    def step(self, until: float) -> SimulatedLoop | None:
        """Let one thing happen, at ``until`` at the latest. Returns the process that did something.

        If several processes have something to do at the same moment, any of them may be first.
        """
        while True:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            times = [(time, loop) for loop in self.loops.values() if (time := loop.next_time) is not None]
            due = [loop for time, loop in times if time <= self.now]
            if due:
                loop = due[self.rng.randrange(len(due)) if len(due) > 1 else 0]
                if loop.run_one():
                    self.steps += 1
                    return loop
                continue  # what it had to do was cancelled
            moments = [time for time, _ in times]
            if self._events:
                moments.append(self._events[0][0])
            moment = min(moments, default=until)
            if moment >= until:
                self.now = max(self.now, until)
                return None
            self.now = moment

    def latency(self) -> float:
        return self.rng.uniform(*self.latency_s)

    def working_time(self) -> float:
        return self.rng.uniform(*self.working_s)

    def piece(self, size: int) -> int:
        """Choose how much of what was written arrives together."""
        return size if self.rng.random() < self.whole_pieces else self.rng.randint(1, size)

    # Hosts

    def boot(self, address: str, has_power: Callable[[], bool] = lambda: True) -> SimulatedLoop:
        """Start a process on a host; everything that was sent to the previous one is refused now."""
        assert address not in self.loops
        self.down.discard(address)
        loop = self.loops[address] = SimulatedLoop(self, address, has_power)
        self.kick()
        return loop

    def end(self, address: str, *, silently: bool) -> None:
        """End the process of a host: with ``silently`` its machine goes too, otherwise the system closes its
        connections."""
        loop = self.loops.pop(address)
        loop.die()
        for door in [key for key in self.doors if key[0] == address]:
            del self.doors[door]
        for socket in [key for key in self.sockets if key[0] == address]:
            del self.sockets[socket]
        for transport in [transport for transport in self.connections if transport.loop is loop]:
            transport.gone = True
            del self.connections[transport]
            del transport.outgoing.buffer[self.rng.randint(0, len(transport.outgoing.buffer)) :]
            if not silently:
                transport.outgoing.reset = True
                transport.outgoing.kick()
        if silently:
            self.down.add(address)

    def close(self) -> None:
        """End all processes."""
        for loop in self.loops.values():
            loop.die()
        self.loops.clear()

    # Lines

    def reaches(self, source: str, target: str) -> bool:
        return (source, target) not in self.blocked and target not in self.down

    def block(self, source: str, target: str) -> None:
        self.blocked.add((source, target))

    def heal(self) -> None:
        """Let every host reach every other."""
        self.blocked.clear()
        self.kick()

    def kick(self) -> None:
        """Let bytes go on that waited for the network."""
        self._pipes = [pipe for pipe in self._pipes if not self._is_done(pipe)]
        for pipe in self._pipes:
            pipe.kick()

    @staticmethod
    def _is_done(pipe: _Pipe) -> bool:
        ends = (pipe.reader, pipe.writer)
        return all(end is not None and end.gone for end in ends)

    def cut(self, transport: SimulatedTransport, *, both: bool) -> None:
        """Break a connection between any two bytes; the other side may find out later."""
        for pipe in (transport.incoming, transport.outgoing):
            del pipe.buffer[self.rng.randint(0, len(pipe.buffer)) :]
        transport.outgoing.reset = both
        transport.outgoing.kick()
        transport.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    # Connections

    def listen(self, loop: SimulatedLoop, address: Address, factory: Factory) -> _Door:
        if address in self.doors:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        door = self.doors[address] = _Door(self, loop, address, factory)
        return door

    def dial(self, loop: SimulatedLoop, address: Address, factory: Factory) -> asyncio.Future[Dialled]:
        dialled: asyncio.Future[Dialled] = loop.create_future()
        self.after(self.latency(), partial(self._syn, loop, address, factory, dialled, _SYN_RETRIES))
        return dialled

    def _syn(
        self,
        loop: SimulatedLoop,
        address: Address,
        factory: Factory,
        dialled: asyncio.Future[Dialled],
        retries: int,
    ) -> None:
        if dialled.done() or loop.dead:
            return
        here, there = loop.address, address[0]
        if not (self.reaches(here, there) and self.reaches(there, here)):
            if retries:
                self.after(1.0, partial(self._syn, loop, address, factory, dialled, retries - 1))
            else:
                self._fail(loop, dialled, TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))
            return
        door = self.doors.get(address)
        if door is None:
            error = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            self.after(self.latency(), partial(self._fail, loop, dialled, error))
            return
        own = (here, next(self._ports))
        forth, back = _Pipe(self, here, there), _Pipe(self, there, here)
        self._pipes += [forth, back]
        accepted = SimulatedTransport(door.loop, self, (forth, back), address, own)
        self.connections[accepted] = None
        door.loop.call_soon(lambda: accepted.attach(door.factory()))
        self.after(
            self.latency(), partial(self._connected, loop, (back, forth), address, own, factory, dialled)
        )

    def _connected(
        self,
        loop: SimulatedLoop,
        pipes: tuple[_Pipe, _Pipe],
        address: Address,
        own: Address,
        factory: Factory,
        dialled: asyncio.Future[Dialled],
    ) -> None:
        transport = SimulatedTransport(loop, self, pipes, own, address)
        if loop.dead or dialled.done():
            transport.gone = True
            transport.outgoing.reset = True
            transport.outgoing.kick()
            return
        self.connections[transport] = None

        def made() -> None:
            if dialled.done():
                transport.set_protocol(asyncio.Protocol())
                transport.abort()
                return
            protocol = factory()
            transport.attach(protocol)
            dialled.set_result((transport, protocol))
            transport.incoming.kick()

        loop.call_soon(made)

    @staticmethod
    def _fail(loop: SimulatedLoop, dialled: asyncio.Future[Dialled], error: Exception) -> None:
        if not loop.dead and not dialled.done():
            dialled.set_exception(error)

    # Datagrams

    def bind(
        self,
        loop: SimulatedLoop,
        protocol: asyncio.DatagramProtocol,
        local: Address | None,
        remote: Address | None,
    ) -> SimulatedDatagrams:
        host, port = local or (loop.address, 0)
        own = (host, port or next(self._ports))
        if own in self.sockets:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        socket = self.sockets[own] = SimulatedDatagrams(self, loop, protocol, own, remote)
        protocol.connection_made(socket)
        return socket

    def datagram(self, source: Address, target: Address, data: bytes) -> None:
        copies = 0 if self.rng.random() < self.datagram_loss else 1 + (self.rng.random() < self.datagram_loss)
        for _ in range(copies):
            self.after(self.latency(), partial(self._datagram_arrives, source, target, data))

    def _datagram_arrives(self, source: Address, target: Address, data: bytes) -> None:
        socket = self.sockets.get(target)
        if socket is not None and self.reaches(source[0], target[0]):
            socket.loop.call_soon(socket.received, data, source)
