"""The unix socket that applications connect to.

gRPC for Python does not tell who is at the other end of a unix socket. So this socket is ours: for each connection we
ask the kernel for the peer's credentials, connect to gRPC's own socket from an address made up for this one
connection, and hand bytes to and fro. gRPC tells us that address with every call, and the address tells the caller.

What does not speak HTTP/2 but the short line (:mod:`msmq.api.frames`) is answered right here: the first byte tells.

gRPC's socket lies in a directory that only this user can enter, and a connection from an address that we did not make
up has no rights at all. The addresses are in the abstract name space, 128 random bits each, and bound as long as the
connection lives: nobody can take one over.
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
from msmq.api import processes
from msmq.api.callers import Callers
from msmq.api.frames import GREETING
from msmq.api.line import Answer, Line, farewell
from msmq.errors import MsmqError
from msmq.security.access import Token

_log = logging.getLogger(__name__)


class SocketInUseError(MsmqError):
    """Somebody listens on the socket already."""


def is_served(path: Path) -> bool:
    """Whether somebody listens on a unix socket."""
    with processes.unix_socket() as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # it is there and not for us to look at
            return True
    return True


def _make_directory(directory: Path, mode: int) -> None:
    """Make the directory of a socket, if it is not there, so that whoever may connect to the socket can reach it."""
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        return
    connect = mode & 0o022
    directory.chmod(0o700 | connect << 1 | connect >> 1)


class _Half(asyncio.Protocol):
    """One side of a connection: what it receives goes out on the other."""

    def __init__(self, lost: Callable[[], None], other: _Half | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        self.other = other
        self.early = b""
        """What came before there was another half."""
        self._ended = False
        self._lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.other is not None:  # both sides may have spoken already, and not a byte may get lost
            self.other.other = self
            early, self.other.early = self.other.early, b""
            if early:
                self.transport.write(early)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)
        elif not self._ended:  # some loops read once although they were told not to
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


class Relay:
    """Accepts connections on ``path`` and hands them to gRPC at ``inner``, each with its caller's name on it."""

    def __init__(
        self, path: Path, inner: Path, callers: Callers, answer: Answer, mode: int, gate: Gate
    ) -> None:
        self.path = path
        self.gate = gate
        self._inner = inner
        self._callers = callers
        self._answer = answer
        self._mode = mode
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[_Outer] = set()

    async def start(self) -> None:
        """Listen; a socket that a dead process left behind is replaced."""
        _make_directory(self.path.parent, self._mode)
        listening = processes.unix_socket()
        try:
            self._remove_dead()
            # Nobody may connect before the mode is right, which the umask sees to.
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
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            self._accept, sock=listening, backlog=self.gate.crowding.at_once
        )

    def _remove_dead(self) -> None:
        if is_served(self.path):
            raise SocketInUseError(
                f"Another queue manager serves {self.path}; give this one a socket of its own with --api unix:PATH."
            )
        if self.path.is_socket():
            self.path.unlink(missing_ok=True)

    def _accept(self) -> asyncio.Protocol:
        return _Outer(self)

    def came(self, outer: _Outer) -> None:
        """A connection was accepted."""
        transport = outer.transport
        assert transport is not None
        self._open.add(outer)
        handle: socket.socket = transport.get_extra_info("socket")
        user, _ = processes.credentials(handle)
        if not self.gate.enter(outer, f"user {user}", handle.fileno()):
            outer.show_out("this user has too many, or all together have")

    def take(self, outer: _Outer) -> None:
        """A connection speaks HTTP/2: nothing more of it is read until it has its other half."""
        assert outer.transport is not None
        self.gate.opened(outer)
        outer.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._join(outer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def answer(self, outer: _Outer, data: bytes) -> None:
        """A connection is a line, and begins with this."""
        transport = outer.transport
        assert transport is not None
        try:
            caller = self._caller(transport)
        except OSError as error:
            _log.warning("a connection to %s failed: %s", self.path, error)
            transport.abort()
            return
        outer.line = Line(
            transport, caller, self._answer, lambda: self.gate.opened(outer), lambda: self.gone(outer)
        )
        transport.set_protocol(outer.line)
        outer.line.data_received(data)

    def _caller(self, transport: asyncio.Transport) -> Token:
        """Whose process is at the other end, as the kernel says."""
        return self._callers.of_process(*processes.credentials(transport.get_extra_info("socket")))

    async def _join(self, outer: _Half) -> None:
        transport = outer.transport
        assert transport is not None
        name, peer = processes.unique_name(self._inner.parent, f"msmq-{secrets.token_hex(16)}")
        try:
            self._callers.register(peer, self._caller(transport))
            inner = await self._connect(name, outer, lambda: self._forget(name, peer))
        except OSError as error:
            _log.warning("a connection to %s failed: %s", self.path, error)
            self._forget(name, peer)
            transport.close()
            return
        if transport.is_closing():
            assert inner.transport is not None
            inner.transport.close()
            return
        transport.resume_reading()

    def _forget(self, name: str, peer: str) -> None:
        self._callers.forget(peer)
        processes.release_name(name)

    async def _connect(self, name: str, outer: _Half, lost: Callable[[], None]) -> _Half:
        loop = asyncio.get_running_loop()
        ours = processes.unix_socket()
        try:
            ours.setblocking(False)
            ours.bind(name)
            await loop.sock_connect(ours, str(self._inner))
            _, half = await loop.create_unix_connection(lambda: _Half(lost, outer), sock=ours)
        except BaseException:
            ours.close()
            raise
        return half

    def _serving(self) -> set[asyncio.Task[None]]:
        """Calls of the short line that are under way."""
        return {task for outer in self._open if outer.line is not None for task in outer.line.tasks}

    def gone(self, outer: _Outer) -> None:
        self._open.discard(outer)
        self.gate.leave(outer)

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    async def close(self, grace_s: float) -> None:
        """Let calls of the short line come to their end for a moment, then break all connections."""
        self.stop_accepting()
        if serving := self._serving():
            await asyncio.wait(serving, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        serving = self._serving()
        for outer in list(self._open):
            if outer.transport is not None:
                outer.transport.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


class _Outer(_Half):
    """The side of the application."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(lambda: relay.gone(self))
        self._relay = relay
        self.line: Line | None = None
        self._spoken = False
        self._loop = asyncio.get_running_loop()
        self._heard_s = 0.0

    @property
    def idle_since_s(self) -> float | None:
        """Since when nothing has been said; whether HTTP/2 has calls under way is only known to gRPC."""
        if self.line is not None:
            return self.line.idle_since_s
        return self._heard_s

    def show_out(self, reason: str) -> None:
        """Hang up, and say why to whoever understands it: a client of ours would go on asking."""
        if self.transport is not None and not self.transport.is_closing():
            if self.other is None:
                self.transport.write(farewell(reason, greet=self.line is None))
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
