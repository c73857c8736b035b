"""The sockets that applications connect to.

gRPC accepts connections without asking anybody, so that one address could take all the room, and it does not tell
which process is at the other end of a unix socket. So these sockets are ours. The gate admits or refuses a connection,
and its first byte shows which protocol it speaks. The short line (:mod:`msmq.api.frames`) is answered here. For HTTP/2
we connect to gRPC's own socket from an address made up for this one connection, and copy bytes in both directions.
gRPC gives us that address with every call, and by the address we know the caller.

gRPC's socket is in a directory that only this user can enter, and a connection from an address that we did not make up
has no rights at all. On Linux the addresses are in the abstract name space, elsewhere in that directory: 128 random
bits each, and bound while the connection lives, so that nobody can take one over. Systems without unix sockets use a
port of the loopback address instead.

This module has what all these sockets have in common, and the unix socket; the TCP sockets are in
:mod:`msmq.api.tcp_relay`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

from msmq.admission.gate import Gate
from msmq.api import inherited, processes
from msmq.api.callers import Callers, Peer
from msmq.api.frames import GREETING
from msmq.api.line import Answer, Line, farewell
from msmq.errors import InsufficientResourcesError, MsmqError
from msmq.errors.tasks import closing

_log = logging.getLogger(__name__)


class SocketInUseError(MsmqError):
    """Another process listens on the socket already."""


def is_served(path: Path) -> bool:
    """Whether a process listens on a unix socket."""
    with processes.unix_socket() as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # it exists, but we may not connect
            return True
    return True


def _make_directory(directory: Path, mode: int) -> None:
    """Make the directory of a socket, if it does not exist, so that all who may connect to the socket can reach it."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        return
    connect = mode & 0o022
    directory.chmod(0o700 | connect << 1 | connect >> 1)


class _Half(asyncio.Protocol):
    """One side of a connection: whatever it receives is written to the other side."""

    def __init__(self, lost: Callable[[], None], other: _Half | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        self.other = other
        self.early = b""
        """What was received before there was another side."""
        self._ended = False
        self._lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.other is not None:  # both sides may have sent something already, and no byte may get lost
            self.other.other = self
            early, self.other.early = self.other.early, b""
            if early:
                self.transport.write(early)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)
        elif not self._ended:  # some loops read once although reading is paused
            self.early += data

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        other, self.other = self.other, None
        if other is not None and other.transport is not None:
            other.other = None
            other._ended = True
            other.transport.close()
        self._lost()


class Inner:
    """gRPC's own socket: in a directory that only this user can enter, or on a loopback port."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.port = 0

    @property
    def address(self) -> str:
        """The address that gRPC shall listen at."""
        return f"unix:{self.path}" if self.path is not None else "127.0.0.1:0"

    async def connect(self) -> tuple[socket.socket, str, str]:
        """Connect to gRPC. Returns the socket, the name it is bound to, and what gRPC calls it."""
        loop = asyncio.get_running_loop()
        name = peer = ""
        ours = socket.socket() if self.path is None else processes.unix_socket()
        try:
            ours.setblocking(False)
            if self.path is None:
                await loop.sock_connect(ours, ("127.0.0.1", self.port))
                peer = f"ipv4:127.0.0.1:{ours.getsockname()[1]}"
            else:
                name, peer = processes.unique_name(self.path.parent, f"msmq-{secrets.token_hex(16)}")
                ours.bind(name)
                await loop.sock_connect(ours, str(self.path))
        except BaseException:
            ours.close()
            processes.release_name(name)
            raise
        return ours, name, peer

    async def join(self, half: _Half, ours: socket.socket) -> None:
        """Let ``half`` read and write a connection of :meth:`connect`."""
        loop = asyncio.get_running_loop()
        if self.path is None:
            await loop.create_connection(lambda: half, sock=ours)
        else:
            await loop.create_unix_connection(lambda: half, sock=ours)


class Relay:
    """Accepts connections that the gate admits, answers short lines, and passes all others on to gRPC at ``inner``."""

    def __init__(self, inner: Inner, callers: Callers, answer: Answer, gate: Gate) -> None:
        self.gate = gate
        self._inner = inner
        self._callers = callers
        self._answer = answer
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[Outer] = set()

    async def start(self) -> None:
        """Listen."""
        raise NotImplementedError

    def _address(self, transport: asyncio.Transport) -> str:
        """The address by which the gate counts a connection."""
        raise NotImplementedError

    def _peer(self, transport: asyncio.Transport) -> Peer:
        """Identify the other end of a connection, before it has sent anything."""
        raise NotImplementedError

    def came(self, outer: Outer) -> None:
        """Let a connection in if the gate admits it."""
        transport = outer.transport
        assert transport is not None
        self._open.add(outer)
        handle: socket.socket = transport.get_extra_info("socket")
        address = self._address(transport)
        if not self.gate.enter(outer, address, handle.fileno()):
            outer.show_out(f"{address} has too many, or all together have")

    def answer(self, outer: Outer, data: bytes) -> None:
        """Answer a connection as a short line that begins with ``data``."""
        transport = outer.transport
        assert transport is not None
        try:
            peer = self._peer(transport)
        except OSError as error:
            _log.warning("a connection of an application failed: %s", error)
            transport.abort()
            return
        outer.line = Line(
            transport,
            lambda said: self._callers.of(peer, said),
            self._answer,
            lambda: self.gate.opened(outer),
            lambda: self.gone(outer),
        )
        transport.set_protocol(outer.line)
        outer.line.data_received(data)

    def take(self, outer: Outer) -> None:
        """Join a connection that speaks HTTP/2 with gRPC; nothing more is read from it until that is done."""
        assert outer.transport is not None
        self.gate.opened(outer)
        outer.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._join(outer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(closing(outer.transport.abort))

    async def _join(self, outer: _Half) -> None:
        transport = outer.transport
        assert transport is not None
        try:
            peer = self._peer(transport)
            ours, name, called = await self._inner.connect()
        except OSError as error:
            _log.warning("a connection of an application failed: %s", error)
            transport.close()
            return
        self._callers.register(called, peer)
        half = _Half(lambda: self._forget(name, called), outer)
        try:
            await self._inner.join(half, ours)
        except BaseException as error:
            ours.close()
            self._forget(name, called)
            transport.close()
            if not isinstance(error, OSError):
                raise
            return
        if transport.is_closing():
            assert half.transport is not None
            half.transport.close()
            return
        transport.resume_reading()

    def _forget(self, name: str, called: str) -> None:
        self._callers.forget(called)
        processes.release_name(name)

    def gone(self, outer: Outer) -> None:
        self._open.discard(outer)
        self.gate.leave(outer)

    def _serving(self) -> set[asyncio.Task[None]]:
        """The tasks of open calls on short lines."""
        return {task for outer in self._open if outer.line is not None for task in outer.line.tasks}

    def stop_accepting(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def finish(self, grace_s: float) -> None:
        """Give calls on short lines a moment to end, then cancel them."""
        self.stop_accepting()
        if serving := self._serving():
            await asyncio.wait(serving, timeout=grace_s)
        serving = self._serving()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def close(self) -> None:
        """Break all connections."""
        for task in self._tasks:
            task.cancel()
        for outer in list(self._open):
            if outer.transport is not None:
                outer.transport.close()
        await self.finish(0)


class UnixRelay(Relay):
    """The unix socket at ``path``; the kernel identifies its callers."""

    def __init__(
        self, path: Path, inner: Inner, callers: Callers, answer: Answer, mode: int, gate: Gate
    ) -> None:
        super().__init__(inner, callers, answer, gate)
        self.path = path
        self._mode = mode
        self._owned = False
        """Whether we made the socket's file."""

    async def start(self) -> None:
        """Listen, unless the service manager does so already; a socket left behind by a dead process is replaced."""
        if opened := inherited.unix_sockets(self.path):
            await self._serve(opened[0])
            return
        _make_directory(self.path.parent, self._mode)
        listening = processes.unix_socket()
        try:
            self._remove_dead()
            # Nobody may connect before the mode is right, so the umask sets it.
            old = os.umask(0o777 & ~self._mode)
            try:
                listening.bind(str(self.path))
            finally:
                os.umask(old)
        except OSError as error:
            listening.close()
            raise SocketInUseError(f"The socket {self.path} cannot be opened: {error}.") from error
        except BaseException:
            listening.close()
            raise
        self._owned = True
        await self._serve(listening)

    async def _serve(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(
            lambda: Outer(self), sock=listening, backlog=self.gate.crowding.at_once
        )
        self._servers = [server]

    def _remove_dead(self) -> None:
        if is_served(self.path):
            raise SocketInUseError(
                f"Another queue manager serves {self.path}; give this one a socket of its own with --api unix:PATH."
            )
        if self.path.is_socket():
            self.path.unlink(missing_ok=True)

    def came(self, outer: Outer) -> None:
        assert outer.transport is not None
        processes.widen(outer.transport.get_extra_info("socket"))
        super().came(outer)

    def _address(self, transport: asyncio.Transport) -> str:
        user, _ = processes.credentials(transport.get_extra_info("socket"))
        return f"user {user}"

    def _peer(self, transport: asyncio.Transport) -> Peer:
        """Identify the process at the other end, by the credentials that the kernel gives."""
        credentials = processes.credentials(transport.get_extra_info("socket"))
        return Peer(process=self._callers.of_process(*credentials))

    def stop_accepting(self) -> None:
        if self._servers:
            super().stop_accepting()
            if self._owned:
                with contextlib.suppress(OSError):
                    self.path.unlink(missing_ok=True)


class Outer(_Half):
    """The application's side of a connection."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(lambda: relay.gone(self))
        self._relay = relay
        self.line: Line | None = None
        self._spoken = False
        self._loop = asyncio.get_running_loop()
        self._heard_s = 0.0

    @property
    def idle_since_s(self) -> float | None:
        """The time since which nothing was received; only gRPC knows whether calls of HTTP/2 are open."""
        if self.line is not None:
            return self.line.idle_since_s
        return self._heard_s

    def show_out(self, reason: str) -> None:
        """Hang up, and tell the reason to clients of the short line, which would otherwise try again."""
        if self.transport is not None and not self.transport.is_closing():
            if self.other is None:
                told = InsufficientResourcesError(
                    f"The queue manager has no room for this connection: {reason}.",
                    advice="Close connections that nobody needs, and connect again later.",
                )
                self.transport.write(farewell(told, greet=self.line is None))
            self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._relay.came(self)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        if self._spoken:
            super().data_received(data)
            return
        self._spoken = True
        if data[0] == GREETING[0]:
            self._relay.answer(self, data)
        else:
            super().data_received(data)
            self._relay.take(self)
