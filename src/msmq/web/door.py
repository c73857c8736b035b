"""The door of the console: HTTP by uvicorn, with the gate of the other doors in front of it.

A connection enters the gate like one of a session or an application. It is opening until a first request is complete,
idle between requests, and at work while one is answered; so a client that opens many connections and sends nothing, or
sends slowly, uses up only its own share.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from msmq.admission.gate import Gate

_IDLE_S: Final = 30
_GRACE_S: Final = 1.0
_HEADER_BYTES: Final = 32 << 10


def protocol(gate: Gate) -> type[H11Protocol]:
    """Make the protocol of connections that go through a gate."""

    class GuardedProtocol(H11Protocol):
        """A connection, for uvicorn and for the gate."""

        idle_since_s: float | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            loop = asyncio.get_running_loop()
            self.idle_since_s = loop.time()
            self.app_state = {**self.app_state, "certificate_names": tuple(_names(transport))}
            address = str(self.client[0]) if self.client else "unix"
            made = transport.get_extra_info("socket")
            if not gate.enter(self, address, made.fileno() if made is not None else 0):
                transport.abort()

        def show_out(self, reason: str) -> None:
            self.transport.abort()

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before and self.cycle is not None:
                gate.opened(self)
                self.idle_since_s = None

        def on_response_complete(self) -> None:
            self.idle_since_s = asyncio.get_running_loop().time()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            gate.leave(self)
            super().connection_lost(exc)

    return GuardedProtocol


def _names(transport: Any) -> Iterator[str]:
    """Yield the names in the client certificate that TLS has verified."""
    shown = transport.get_extra_info("peercert") or {}
    for _, name in shown.get("subjectAltName", ()):
        yield str(name)
    for parts in shown.get("subject", ()):
        for kind, name in parts:
            if kind == "commonName":
                yield str(name)


class Door:
    """Serves sockets that are bound already."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_IDLE_S,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        self._protocol = protocol(gate)
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    async def open(self, sockets: Iterable[socket.socket], tls: ssl.SSLContext | None) -> None:
        self._config.load()
        loop = asyncio.get_running_loop()
        for each in sockets:
            self._servers.append(await loop.create_server(self._connection, sock=each, ssl=tls))

    def _connection(self) -> H11Protocol:
        return self._protocol(config=self._config, server_state=self._state, app_state={})

    async def close(self) -> None:
        """Let answers that are nearly finished be completed."""
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=_GRACE_S)
        for task in list(self._state.tasks):
            task.cancel()
        await asyncio.gather(*self._state.tasks, return_exceptions=True)


def context(certificate: Path, private_key: Path, authorities: Path | None) -> ssl.SSLContext:
    """Make the TLS context of the console; clients may show a certificate if authorities for it are configured."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.load_cert_chain(certificate, private_key)
    made.set_alpn_protocols(["http/1.1"])
    if authorities is not None:
        made.load_verify_locations(authorities)
        made.verify_mode = ssl.CERT_OPTIONAL
    return made
