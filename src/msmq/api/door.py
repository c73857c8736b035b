"""The door: where the channel listens, and how it opens and closes.

One gRPC server serves all addresses. Unix sockets go through a :class:`~msmq.api.relay.Relay`, which says who is
there. TCP without TLS is for this computer only; beyond it a certificate is needed. Callers on TCP bring a token or a
certificate of their own.

Rules and certificates may change while the door is open: gRPC asks for the certificates at each handshake.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
from google.protobuf.descriptor_pool import Default
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from msmq.admission.gate import Gate
from msmq.admission.guesses import Guesses
from msmq.api import rpc
from msmq.api.callers import Callers, Rules
from msmq.api.desk import Host
from msmq.api.relay import Relay
from msmq.api.service import Service
from msmq.errors import MsmqError

_GRACE_S: Final = 1.0


class DoorError(MsmqError):
    """The channel cannot be opened as it is configured."""


@dataclass(frozen=True, slots=True)
class Doorplate:
    """Where the channel listens and what it believes."""

    listen: tuple[str, ...] = ()
    """``unix:PATH``, ``HOST:PORT`` of this computer, or ``tls:HOST:PORT``."""
    socket_mode: int = 0o666
    certificate: Path | None = None
    """PEM chain and key of this server, for ``tls:``."""
    private_key: Path | None = None
    client_authorities: Path | None = None
    """PEM of those whose client certificates are believed; clients must have one then."""
    rules: Rules = field(default_factory=Rules)


class Door:
    """The gRPC server and its sockets."""

    def __init__(self, plate: Doorplate, host: Host, gate: Gate, guesses: Guesses) -> None:
        self.plate = plate
        self._gate = gate
        self._host = host
        self._relays: list[Relay] = []
        self._inner: Path | None = None
        self._server: grpc.aio.Server | None = None
        self._callers = Callers(plate.rules, guesses=guesses)
        self._certificates: grpc.ServerCertificateConfiguration | None = None
        self.addresses: list[str] = []
        """Where it listens, with the ports it was given."""

    async def open(self) -> None:
        callers = self._callers
        service = Service(self._host, callers)
        self._server = server = grpc.aio.server(
            options=[
                *rpc.CHANNEL_OPTIONS,
                ("grpc.so_reuseport", 0),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
                # gRPC accepts TCP by itself, so the gate does not see those connections.
                ("grpc.server_handshake_timeout_ms", int(1_000 * self._gate.crowding.opening_s)),
                ("grpc.max_allowed_incoming_connections", self._gate.crowding.connections),
            ]
        )
        server.add_generic_rpc_handlers(tuple(service.handlers()))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (*rpc.service_names(), health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, Default())
        try:
            for address in self.plate.listen:
                self._listen(server, address, callers, service)
            await server.start()
            for relay in self._relays:
                await relay.start()
        except BaseException:
            await self.close()
            raise
        for name in ("", *rpc.service_names()):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _listen(self, server: grpc.aio.Server, address: str, callers: Callers, service: Service) -> None:
        kind, _, rest = address.partition(":")
        if kind == "unix":
            if self._inner is None:
                self._inner = Path(tempfile.mkdtemp(prefix="msmq-"))  # nobody else may enter it
                _bind(server.add_insecure_port, f"unix:{self._inner / 'grpc'}")
            inner, mode = self._inner / "grpc", self.plate.socket_mode
            self._relays.append(Relay(Path(rest), inner, callers, service.answer, mode, self._gate))
            self.addresses.append(address)
        elif kind == "tls":
            port = _bind(lambda name: server.add_secure_port(name, self._credentials()), rest)
            self.addresses.append(f"tls:{rest.rpartition(':')[0]}:{port}")
        else:
            host = address.rpartition(":")[0]
            if not _is_loopback(host):
                raise DoorError(
                    f"api: {address} can be reached from outside; write tls:{address} and give a certificate, "
                    "or listen on 127.0.0.1."
                )
            port = _bind(server.add_insecure_port, address)
            self.addresses.append(f"{host}:{port}")

    def _credentials(self) -> grpc.ServerCredentials:
        self._certificates = first = _certificates(self.plate)
        return grpc.dynamic_ssl_server_credentials(
            first,
            self._shown_certificates,
            require_client_authentication=self.plate.client_authorities is not None,
        )

    def _shown_certificates(self) -> grpc.ServerCertificateConfiguration:
        assert self._certificates is not None
        return self._certificates

    def follow(self, plate: Doorplate) -> None:
        """Go by other rules and certificates from now on; the files are read again.

        Raises:
            DoorError: the certificates cannot be used; nothing has changed.
        """
        if self._certificates is not None:
            self._certificates = _certificates(plate)
        self._callers.follow(plate.rules)
        self.plate = plate

    def stop_accepting(self) -> None:
        for relay in self._relays:
            relay.stop_accepting()

    async def close(self) -> None:
        """Let calls come to their end for a moment, then end them: transactions are aborted, messages given back."""
        self.stop_accepting()
        server, self._server = self._server, None
        ends = [relay.close(_GRACE_S) for relay in self._relays]
        if server is not None:
            ends.append(server.stop(_GRACE_S))
        await asyncio.gather(*ends)
        if self._inner is not None:
            shutil.rmtree(self._inner, ignore_errors=True)
            self._inner = None


def _certificates(plate: Doorplate) -> grpc.ServerCertificateConfiguration:
    """What the server shows and whom it believes, as the files say now."""
    if plate.certificate is None or plate.private_key is None:
        raise DoorError("api: tls: needs a certificate and a private_key.")
    try:
        pair = plate.private_key.read_bytes(), plate.certificate.read_bytes()
        authorities = plate.client_authorities.read_bytes() if plate.client_authorities else None
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(plate.certificate, plate.private_key)
    except (OSError, ssl.SSLError) as error:
        raise DoorError(f"api: {plate.certificate} with {plate.private_key}: {error}.") from error
    return grpc.ssl_server_certificate_configuration([pair], authorities)


def _bind(add: object, address: str) -> int:
    assert callable(add)
    try:
        port: int = add(address)
    except RuntimeError as error:
        raise DoorError(
            f"api: {address} cannot be opened: it is in use, or no address of this computer."
        ) from error
    return port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
