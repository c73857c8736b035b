"""The ports that remote read is served on (MS-MQRR 2.1, 3.1.3, 3.1.4.1).

The port is 2103 by default, or the next free one in steps of 11. The endpoint mapper tells it, if this process may
open port 135. The service learns its port before anybody can ask the endpoint mapper for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from msmq.admission.gate import Gate
from msmq.remote_read.interface import REMOTE_READ
from msmq.remote_read.policy import Policy
from msmq.remote_read.service import CLEANUP_S, RemoteReadService
from msmq.rpc.channel import Limits
from msmq.rpc.epm import Endpoint, EndpointMap, register_endpoint_mapper, serve_endpoint_mapper
from msmq.rpc.mgmt import register_management
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.ports import ENDPOINT_MAPPER_PORT, FIRST_PORT, listen_on_fixed_port
from msmq.rpc.security import Authentication
from msmq.rpc.server import RpcServer, ServerConfig

ANNOTATION: Final = "Message Queuing - RemoteRead V1"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """The settings of remote read."""

    listen: tuple[str, ...] = ("0.0.0.0",)
    port: int = FIRST_PORT
    """The first port to try; 0 for any."""
    endpoint_mapper_port: int = ENDPOINT_MAPPER_PORT
    """0 for no endpoint mapper."""
    policy: Policy = field(default_factory=Policy)
    cleanup_s: float = CLEANUP_S
    server: ServerConfig = field(default_factory=ServerConfig)


def server_config(policy: Policy) -> ServerConfig:
    """Limits of the RPC server. If the policy admits callers without identity, they get the same limits as others."""
    limits = Limits()
    if policy.allow_nonauthenticated or policy.minimum_level is AuthLevel.NONE:
        limits = Limits(max_unknown_calls=limits.max_calls, max_unknown_stub=limits.max_stub)
    return ServerConfig(limits=limits)


class RemoteReadDoor:
    """Remote read with its open ports."""

    def __init__(
        self,
        settings: DoorSettings,
        service: RemoteReadService,
        authentication: Authentication | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.settings = settings
        self.service = service
        self.server = RpcServer(settings.server, authentication, gate)
        self.endpoints = EndpointMap()
        self._mappers: list[RpcServer] = []

    async def open(self) -> None:
        """Open the ports: the interface first, then the endpoint mappers that tell its port."""
        self.service.register(self.server)
        register_endpoint_mapper(self.server, self.endpoints)
        register_management(self.server)
        port = self.settings.port
        for number, address in enumerate(self.settings.listen):
            if number == 0:
                port = await self._first(address)
            else:
                await self.server.listen(address, port)
        self.service.port = port
        for address in self.settings.listen:
            self.endpoints.add(Endpoint(REMOTE_READ.syntax, port, address, ANNOTATION))
        if self.settings.endpoint_mapper_port:
            for address in self.settings.listen:
                mapper = await serve_endpoint_mapper(
                    address,
                    self.endpoints,
                    self.settings.server,
                    self.settings.endpoint_mapper_port,
                    self.server.gate,
                )
                if mapper is not None:
                    self._mappers.append(mapper)
        _log.info("remote read on port %d", port)

    async def _first(self, address: str) -> int:
        if not self.settings.port:
            return await self.server.listen(address, 0)
        return await listen_on_fixed_port(self.server, address, self.settings.port)

    async def close(self) -> None:
        """Close all ports; what clients had locked goes back to its queues."""
        for mapper in self._mappers:
            await mapper.close()
        self._mappers.clear()
        self.endpoints.endpoints.clear()
        self.service.port = 0
        await self.server.close()
        self.service.close()
