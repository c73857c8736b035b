"""A way to a domain controller that a test can close, freeze and slow down, while others go on using the controller."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum


class Mode(Enum):
    OPEN = "open"
    CLOSED = "closed"
    """Connections are refused, as by a controller that does not run."""
    FROZEN = "frozen"
    """Connections are taken and nothing is answered, as by a controller that hangs."""
    SLOW = "slow"
    """Everything arrives, each piece late."""


_DELAY_S = 0.5
_LOOK_S = 0.05


class Relay:
    """One door in front of one service. ``connections`` counts who came in."""

    def __init__(self, address: str, port: int) -> None:
        self._target = (address, port)
        self._mode = Mode.OPEN
        self._ended = False
        self._lock = threading.Lock()
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._links: set[socket.socket] = set()
        self._held: dict[socket.socket, int] = {}
        """Servers whose answers wait, and how many had come in when that began."""
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def mode(self) -> Mode:
        return self._mode

    def become(self, mode: Mode) -> None:
        """Change what the door does; a closed one ends what goes through it."""
        with self._lock:
            self._mode = mode
            if mode is Mode.CLOSED:
                self._close()
            elif self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", self.port))
                threading.Thread(target=self._serve, daemon=True).start()

    def hold_back(self) -> None:
        """Have answers to those who are connected wait until somebody else comes in, who is served at once."""
        with self._lock:
            self._held = dict.fromkeys(self._links, self.connections)

    def end(self) -> None:
        with self._lock:
            self._ended = True
            self._close()

    def _close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for link in list(self._links):
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        listener = self._listener
        while listener is not None and not self._ended:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._link, args=(client,), daemon=True).start()

    def _link(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._target) as server:
            self._links |= {client, server}
            try:
                self._pass_on(client, server)
            finally:
                self._links -= {client, server}

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        while not self._ended:
            if self._mode is Mode.FROZEN:
                time.sleep(_LOOK_S)
                continue
            for source in select.select([client, server], [], [], _LOOK_S)[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                if self._mode is Mode.SLOW:
                    time.sleep(_DELAY_S)
                while self._mode is Mode.FROZEN and not self._ended:
                    time.sleep(_LOOK_S)
                while self._held.get(source, -1) == self.connections and source is server:
                    time.sleep(_LOOK_S)
                other[source].sendall(data)


@contextmanager
def relay(address: str, port: int) -> Iterator[Relay]:
    door = Relay(address, port)
    try:
        yield door
    finally:
        door.end()
