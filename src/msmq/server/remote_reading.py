"""Remote read as the daemon serves it: the table ``[rpc]``, and the door that it describes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msmq.manager.coordinator import Coordinator
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.enlisting import LocalTransactionManager
from msmq.remote_read.policy import Policy
from msmq.remote_read.service import Host, RemoteReadService
from msmq.rpc.accounts import AccountFile
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.ports import ENDPOINT_MAPPER_PORT
from msmq.rpc.security import Authentication

LEVELS: Final = {
    "none": AuthLevel.NONE,
    "connect": AuthLevel.CONNECT,
    "integrity": AuthLevel.INTEGRITY,
    "privacy": AuthLevel.PRIVACY,
}


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """The table ``[rpc]``."""

    port: int = 0
    """Port of remote read, 2103 as a rule, and the next free one in steps of 11. 0: nobody reads remotely."""
    endpoint_mapper_port: int = ENDPOINT_MAPPER_PORT
    """Where clients ask for that port; 0 for nowhere. Without the right to open it, they have to know."""
    accounts: str = ""
    """The file of ``msmq user``: who may log in. A relative path starts at the configuration file."""
    minimum_level: str = "privacy"
    """How a caller must be authenticated to open a queue: none, connect, integrity or privacy."""
    allow_nonauthenticated: bool = False
    """Callers without authentication too (AllowNonauthenticatedRpc)."""
    deny_workgroup: bool = False
    """But only those that say they are in a workgroup (DenyWorkgroupClient)."""
    allow_none_security: bool = False
    """Callers without authentication where a queue lets anonymous ones in (AllowNoneSecurityClient)."""
    cleanup_minutes: int = 5
    """How long a message is kept for a reader that got it and says nothing (RpcCancelTimeout)."""
    internal_transactions: bool = False
    """Whether a transaction nobody enlisted us in counts as one of a single message."""
    max_connections: int = 2_000
    max_connections_per_address: int = 500

    @property
    def problem(self) -> str | None:
        """What cannot be, if anything."""
        for name in ("port", "endpoint_mapper_port"):
            if not 0 <= getattr(self, name) <= 0xFFFF:
                return f"rpc.{name} is {getattr(self, name)}; ports go from 0 to 65535."
        if self.minimum_level not in LEVELS:
            return f"rpc.minimum_level is {self.minimum_level}; it is one of {', '.join(LEVELS)}."
        if self.cleanup_minutes < 1:
            return "rpc.cleanup_minutes is at least 1."
        return None

    def door(self, listen: tuple[str, ...]) -> DoorSettings:
        policy = Policy(
            LEVELS[self.minimum_level],
            allow_nonauthenticated=self.allow_nonauthenticated,
            deny_workgroup=self.deny_workgroup,
            allow_none_security=self.allow_none_security,
        )
        return DoorSettings(
            listen,
            self.port,
            self.endpoint_mapper_port,
            policy,
            self.cleanup_minutes * 60.0,
            self.internal_transactions,
            server_config(policy, self.max_connections, self.max_connections_per_address),
        )


def build_door(
    settings: RpcSettings, listen: tuple[str, ...], host: Host, coordinator: Coordinator, name: str
) -> RemoteReadDoor:
    """The door of a running queue manager, still closed."""
    door = settings.door(listen)
    service = RemoteReadService(
        host,
        door.policy,
        cleanup_s=door.cleanup_s,
        internal_transactions=door.internal_transactions,
    )
    service.transaction_manager = LocalTransactionManager(
        coordinator, lambda: host.manager.core.environment.random_bytes(16), service.durable
    )
    accounts = AccountFile(Path(settings.accounts)) if settings.accounts else None
    return RemoteReadDoor(door, service, Authentication(accounts=accounts, hostname=name))
