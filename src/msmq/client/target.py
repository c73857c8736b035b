"""The address of a queue manager, and how to connect a socket to it: a unix socket, TCP, or TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msmq.api import processes
from msmq.api.addresses import PORT, unix_path
from msmq.api.frames import LINE
from msmq.client.problems import ServerNotAvailableError
from msmq.errors import MsmqError

_ATTEMPT_S: Final = 3.0
"""The time for one address of a host that has several."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How the client verifies a server on another computer, and how it identifies itself. Files are PEM."""

    authorities: Path | str | None = None
    """The authorities that may sign the server's certificate; None for those the system trusts."""
    certificate: Path | str | None = None
    private_key: Path | str | None = None
    """The client's own certificate and key, for a server that asks for them."""
    server_name: str = ""
    """The name in the server's certificate, if it differs from the one in the address."""


class Target:
    """An address to connect to: ``unix:PATH``, ``HOST:PORT`` or ``tls:HOST:PORT``."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        self.address = address
        self.path = unix_path(address)
        place = address.removeprefix("tls:")
        self.tls = None if self.path else tls or (Tls() if place != address else None)
        host, colon, port = place.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = place, str(PORT)
        self._host = host.strip("[]")
        self._port = port
        self._context: ssl.SSLContext | None = None

    async def connect(self) -> socket.socket:
        """Return a connected socket. Raises OSError when nobody listens, and MsmqError when a file for TLS cannot be
        used."""
        self._context = None if self.tls is None else _context(self.tls)
        if self.path:
            return await _connected(processes.unix_socket(), self.path)
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, place in infos[:-1]:
            try:
                async with asyncio.timeout(_ATTEMPT_S):
                    return await _connected(socket.socket(family, kind, protocol), place)
            except (OSError, TimeoutError):
                continue
        family, kind, protocol, _, place = infos[-1]
        return await _connected(socket.socket(family, kind, protocol), place)

    async def join(self, protocol: Callable[[], asyncio.BaseProtocol], sock: socket.socket) -> None:
        """Connect a protocol to a socket of :meth:`connect`, with TLS if the target has it."""
        loop = asyncio.get_running_loop()
        if self.path:
            await loop.create_unix_connection(protocol, sock=sock)
        elif self.tls is None:
            await loop.create_connection(protocol, sock=sock)
        else:
            name = self.tls.server_name or self._host
            await loop.create_connection(protocol, sock=sock, ssl=self._context, server_hostname=name)

    # --- errors -------------------------------------------------------------------------------------------------

    def not_understood(self) -> ServerNotAvailableError:
        """The error for a server that is no queue manager."""
        return ServerNotAvailableError(
            f"Somebody else than a queue manager answers at {self.address}. A proxy in between has to hand on the "
            "bytes of TCP as they are."
        )

    def not_trusted(self, error: ssl.SSLError) -> ServerNotAvailableError:
        """Say in one sentence what is wrong with the certificates of either side."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return ServerNotAvailableError(
                f"The certificate of {self.address} is not trusted: {error.verify_message.rstrip('.')}. Name the "
                "authority that signed it (--tls-ca FILE, msmq.Tls(authorities=FILE))."
            )
        reason = error.reason or str(error)
        if "ALERT" in reason and any(each in reason for each in ("CERTIFICATE", "UNKNOWN_CA", "DECRYPT")):
            return ServerNotAvailableError(
                f"{self.address} asks for a client certificate that it trusts: give yours (--tls-certificate FILE "
                "--tls-key FILE, msmq.Tls(certificate=FILE, private_key=FILE))."
            )
        return ServerNotAvailableError(f"TLS with {self.address} fails: {reason}.")


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.authorities)
        if tls.certificate:
            context.load_cert_chain(tls.certificate, tls.private_key)
    except OSError as error:
        files = [str(each) for each in (tls.authorities, tls.certificate, tls.private_key) if each]
        raise MsmqError(f"TLS with {', '.join(files)}: {error}.") from error
    context.set_alpn_protocols([LINE])
    return context


async def _connected(sock: socket.socket, place: object) -> socket.socket:
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, place)  # type: ignore[arg-type]
    except BaseException:
        sock.close()
        raise
    return sock
