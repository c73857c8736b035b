"""The door of the channel: it opens and closes the addresses at which applications connect.

Relays (:mod:`msmq.api.relay`) admit connections through the gate, answer clients that use the short line, and pass all
others on to one gRPC server. TCP without TLS is only for this host; beyond it a certificate is needed. Callers on TCP
bring a token or a certificate of their own.

Rules and certificates may change while the door is open: each handshake uses the current ones.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import socket
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
from msmq.api.addresses import unix_path
from msmq.api.callers import Callers, Rules
from msmq.api.desk import Host
from msmq.api.frames import LINE
from msmq.api.relay import Inner, Relay, UnixRelay
from msmq.api.service import Service
from msmq.api.tcp_relay import TcpRelay
from msmq.errors import MsmqError

_GRACE_S: Final = 1.0


class DoorError(MsmqError):
    """The channel cannot be opened as configured."""


@dataclass(frozen=True, slots=True)
class Doorplate:
    """The settings of the channel: its addresses, certificates and rules."""

    listen: tuple[str, ...] = ()
    """``unix:PATH``, ``HOST:PORT`` on a loopback address, or ``tls:HOST:PORT``."""
    socket_mode: int = 0o666
    certificate: Path | None = None
    """PEM files with the certificate chain and the key of this server, for ``tls:``."""
    private_key: Path | None = None
    client_authorities: Path | None = None
    """A PEM file of the authorities that issue client certificates; with it, clients must have a certificate."""
    rules: Rules = field(default_factory=Rules)


class Door:
    """The gRPC server and its sockets."""

    def __init__(self, plate: Doorplate, host: Host, gate: Gate, guesses: Guesses) -> None:
        self.plate = plate
        self._gate = gate
        self._host = host
        self._relays: list[Relay] = []
        self._private: Path | None = None
        """The directory of gRPC's own socket."""
        self._server: grpc.aio.Server | None = None
        self._callers = Callers(plate.rules, guesses=guesses)
        self._context: ssl.SSLContext | None = None
        self.addresses: list[str] = []
        """The addresses it listens at, with the ports that the system chose."""

    async def open(self) -> None:
        callers = self._callers
        service = Service(self._host, callers)
        self._server = server = grpc.aio.server(
            options=[
                *rpc.CHANNEL_OPTIONS,
                ("grpc.so_reuseport", 0),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ]
        )
        server.add_generic_rpc_handlers(tuple(service.handlers()))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (*rpc.service_names(), health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, Default())
        try:
            inner = self._bind_inner(server)
            self._relays = [self._relay(address, inner, service) for address in self.plate.listen]
            await server.start()
            for address, relay in zip(self.plate.listen, self._relays, strict=True):
                await _start(address, relay)
                self.addresses.append(_address(address, relay))
        except BaseException:
            await self.close()
            raise
        for name in ("", *rpc.service_names()):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _bind_inner(self, server: grpc.aio.Server) -> Inner:
        """Let gRPC listen on a socket that only the relays connect to."""
        if hasattr(socket, "AF_UNIX"):
            self._private = Path(tempfile.mkdtemp(prefix="msmq-"))  # nobody else may enter it
        inner = Inner(self._private / "grpc" if self._private is not None else None)
        inner.port = server.add_insecure_port(inner.address)
        return inner

    def _relay(self, address: str, inner: Inner, service: Service) -> Relay:
        callers, answer, gate = self._callers, service.answer, self._gate
        if path := unix_path(address):
            return UnixRelay(Path(path), inner, callers, answer, self.plate.socket_mode, gate)
        kind, _, rest = address.partition(":")
        host, _, port = (rest if kind == "tls" else address).rpartition(":")
        if kind != "tls" and not _is_loopback(host):
            raise DoorError(
                f"api: {address} can be reached from outside; write tls:{address} and give a certificate, "
                "or listen on 127.0.0.1."
            )
        if not port.isdecimal():
            raise DoorError(f"api: {address} says no port.")
        if kind == "tls" and self._context is None:
            self._context = _context(self.plate)
        context = self._shown if kind == "tls" else None
        return TcpRelay(host, int(port), inner, callers, answer, gate, context)

    def _shown(self) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    def follow(self, plate: Doorplate) -> None:
        """Use other rules and certificates from now on; their files are read again.

        Raises:
            DoorError: the certificates cannot be used; nothing has changed.
        """
        if self._context is not None:
            self._context = _context(plate)
        self._callers.follow(plate.rules)
        self.plate = plate

    def stop_accepting(self) -> None:
        for relay in self._relays:
            relay.stop_accepting()

    async def close(self) -> None:
        """Give calls a moment to end, then cancel them: transactions are aborted, messages given back."""
        self.stop_accepting()
        server, self._server = self._server, None
        ends = [relay.finish(_GRACE_S) for relay in self._relays]
        if server is not None:
            ends.append(server.stop(_GRACE_S))
        await asyncio.gather(*ends)
        # Only now, since the last words of gRPC go through the relays.
        await asyncio.gather(*(relay.close() for relay in self._relays))
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
            self._private = None


def _context(plate: Doorplate) -> ssl.SSLContext:
    """The context for TLS: our certificate and the trusted authorities, read from their files."""
    if plate.certificate is None or plate.private_key is None:
        raise DoorError("api: tls: needs a certificate and a private_key.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols([LINE, "h2"])
    try:
        context.load_cert_chain(plate.certificate, plate.private_key)
        if plate.client_authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(plate.client_authorities)
    except (OSError, ssl.SSLError) as error:
        raise DoorError(f"api: {plate.certificate} with {plate.private_key}: {error}.") from error
    return context


async def _start(address: str, relay: Relay) -> None:
    try:
        await relay.start()
    except OSError as error:
        raise DoorError(f"api: {address} cannot be opened: {error}.") from error


def _address(given: str, relay: Relay) -> str:
    """The address of a relay, with its port."""
    return f"{given.rpartition(':')[0]}:{relay.port}" if isinstance(relay, TcpRelay) else given


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
