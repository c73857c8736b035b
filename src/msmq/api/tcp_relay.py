"""The TCP addresses that applications connect to: in the clear for this host, within TLS for others.

A token or a certificate identifies the caller; all that is known here is the address, and the names in a certificate
that TLS has verified.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from msmq.admission.gate import Gate
from msmq.api.callers import Callers, Peer
from msmq.api.line import Answer
from msmq.api.relay import Inner, Outer, Relay
from msmq.api.sealed import Seal


class TcpRelay(Relay):
    """Accepts connections on ``host`` and ``port``. ``context`` gives the settings of TLS for each handshake; without
    it connections are in the clear."""

    def __init__(
        self,
        host: str,
        port: int,
        inner: Inner,
        callers: Callers,
        answer: Answer,
        gate: Gate,
        context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        super().__init__(inner, callers, answer, gate)
        self.host = host
        self.port = port
        """The configured port; while it listens, its real port."""
        self._context = context

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(self._accept, sock=listening, backlog=self.gate.crowding.at_once)
            for listening in await self._listening()
        ]

    async def _listening(self) -> list[socket.socket]:
        """A socket for each address of the host, all with the same port."""
        found: list[socket.socket] = []
        try:
            infos = await asyncio.get_running_loop().getaddrinfo(
                self.host.strip("[]"), self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, address in dict.fromkeys(infos):
                listening = socket.socket(family, kind, protocol)
                found.append(listening)
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if (
                    family == socket.AF_INET6
                ):  # for all addresses means IPv4 too, unless that has a socket of its own
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(len(infos) > 1))
                listening.bind((address[0], self.port, *address[2:]))
                self.port = listening.getsockname()[1]
        except OSError:
            for listening in found:
                listening.close()
            raise
        return found

    def _accept(self) -> asyncio.Protocol:
        outer = Outer(self)
        return outer if self._context is None else Seal(self._context(), outer)

    def _address(self, transport: asyncio.Transport) -> str:
        """The client's address without the port; a connection that has closed already has none."""
        peer = transport.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"

    def _peer(self, transport: asyncio.Transport) -> Peer:
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        names = _names(tls.getpeercert() or {}) if tls is not None else ()
        return Peer(address=self._address(transport), names=names)


def _names(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a certificate: its alternative names, then its common names."""
    alternative = [value for _, value in certificate.get("subjectAltName", ())]
    parts = [each for part in certificate.get("subject", ()) for each in part]
    return (*alternative, *(value for kind, value in parts if kind == "commonName"))
