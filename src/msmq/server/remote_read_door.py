"""Remote read in the daemon: the table ``[rpc]``, the ports that it describes, and the authentication of callers.

Local accounts are authenticated by NTLM. A host in a domain also accepts tickets for the keys of its keytab, and asks
the directory who their owners are. If the usual port cannot be opened the daemon runs without: a host with several
queue managers may have none left, and remote read is not all that they do.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from msmq.admission.gate import Gate
from msmq.manager.messages.coordinator import Coordinator
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.enlistment import LocalTransactionManager
from msmq.remote_read.policy import Policy
from msmq.remote_read.service import Host, RemoteReadService
from msmq.rpc.accounts import AccountFile
from msmq.rpc.kerberos import NoKeysError, acceptor_credential
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.ports import ENDPOINT_MAPPER_PORT, FIRST_PORT
from msmq.rpc.security import Authentication
from msmq.server.complaints import Complaints
from msmq.server.directory_settings import ConfigError, DirectorySettings

LEVELS: Final = {
    "none": AuthLevel.NONE,
    "connect": AuthLevel.CONNECT,
    "integrity": AuthLevel.INTEGRITY,
    "privacy": AuthLevel.PRIVACY,
}
ACCOUNTS: Final = "accounts"
"""The usual name of the account file, in the directory of the queue manager."""
_HINTS: Final = {
    "Clock skew too great": "the clocks of the two computers differ by more than five minutes",
    "Wrong principal in request": "the ticket is for another host than the keytab",
    "No key table entry found": "the ticket is for another host than the keytab, or its keys were renewed since",
    "Cannot find key": "the ticket is for another host than the keytab, or its keys were renewed since",
}
"""Explanations for operators of the Kerberos library's error texts."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RpcSettings:
    """The table ``[rpc]``."""

    port: Annotated[
        int,
        "TCP port of remote read, or the next free one in steps of 11. 0: no remote read. `msmq serve` uses 2103 by "
        "default.",
    ] = 0
    endpoint_mapper_port: Annotated[
        int,
        "Port where clients ask for that port; 0 for none. If it cannot be opened, clients have to know the port.",
    ] = ENDPOINT_MAPPER_PORT
    accounts: Annotated[
        str,
        "The file of `msmq user` with the accounts. A relative path starts at the configuration file. Empty: the file "
        "accounts in the directory of the queue manager, as soon as there is one.",
    ] = ""
    keytab: Annotated[
        str,
        "In a domain: the keys of this host, such as host/qm1.corp.example, for tickets of the callers. Any key in it "
        "will do. Empty: the keytab of [directory], else the one that Kerberos finds. Relative paths as above.",
    ] = ""
    realm: Annotated[str, "The realm of the callers; empty for that of the account in [directory]."] = ""
    minimum_level: Annotated[
        str, "How callers must be authenticated to open a queue: none, connect, integrity or privacy."
    ] = "privacy"
    allow_nonauthenticated: Annotated[
        bool, "Also admit callers without authentication (AllowNonauthenticatedRpc)."
    ] = False
    deny_workgroup: Annotated[
        bool,
        "Limit allow_nonauthenticated to callers that say they are in a workgroup (DenyWorkgroupClient).",
    ] = False
    allow_none_security: Annotated[
        bool,
        "Admit callers without authentication to queues that anonymous callers may open (AllowNoneSecurityClient).",
    ] = False
    cleanup_minutes: Annotated[
        int,
        "How long a message is kept for a reader that neither acknowledges nor returns it (RpcCancelTimeout).",
    ] = 5

    @property
    def problem(self) -> str | None:
        """What is wrong with these settings, or None."""
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
            server_config(policy),
        )

    def with_accounts_in(self, data: Path) -> RpcSettings:
        """These settings with the usual account file, if they name none."""
        return self if self.accounts else replace(self, accounts=str(data / ACCOUNTS))

    def relative_to(self, directory: Path) -> RpcSettings:
        """These settings with relative paths resolved against ``directory``."""
        paths: dict[str, Any] = {name: getattr(self, name) for name in ("accounts", "keytab")}
        for name, text in paths.items():
            paths[name] = str(directory / text) if text else ""
        return replace(self, **paths)


SERVED: Final = RpcSettings(port=FIRST_PORT)
"""The defaults of `msmq serve`."""


def authentication(settings: RpcSettings, directory: DirectorySettings, dns_domain: str) -> Authentication:
    """The authenticator for incoming calls; reads the keytab.

    Raises:
        ConfigError: the configured keytab has no keys, or the realm is unknown.
    """
    accounts = AccountFile(Path(settings.accounts)) if settings.accounts else None
    found = Authentication(accounts, tell=_Doorkeeper().hear)
    if directory.wanted != "ldap":
        return found
    named = settings.keytab or directory.keytab
    keytab = Path(named) if named else None
    try:
        acceptor_credential(keytab)
    except NoKeysError as error:
        if settings.keytab:
            raise ConfigError(f"rpc.keytab: {error}.") from error
        _log.warning("nobody can read remotely by Kerberos: %s; name a keytab in rpc.keytab", error)
        return found
    realm = settings.realm or directory.principal.partition("@")[2] or dns_domain
    if not realm:
        raise ConfigError('rpc.realm: the realm of the callers is not known; say realm = "CORP.EXAMPLE".')
    # Here, because a host without a domain has no LDAP library.
    from msmq.directory.principals import DirectoryPrincipals

    principals = DirectoryPrincipals(directory.connection(), realm.upper())
    return replace(found, principals=principals, keytab=keytab)


class _Doorkeeper(Complaints):
    """Logs each reason for refusing a caller once."""

    def __init__(self) -> None:
        super().__init__(_log, "somebody may not read remotely")

    def hear(self, reason: str) -> None:
        hint = next((hint for words, hint in _HINTS.items() if words in reason), None)
        super().hear(f"{reason} ({hint})" if hint is not None else reason)


def build_door(
    settings: RpcSettings,
    listen: tuple[str, ...],
    host: Host,
    coordinator: Coordinator,
    callers: Authentication,
    gate: Gate,
) -> RemoteReadDoor:
    """The door of a running queue manager, still closed."""
    door = settings.door(listen)
    service = RemoteReadService(host, door.policy, cleanup_s=door.cleanup_s)
    service.transaction_manager = LocalTransactionManager(
        coordinator, lambda: host.manager.core.environment.random_bytes(16), service.durable
    )
    return RemoteReadDoor(door, service, callers, gate)


async def open_door(door: RemoteReadDoor) -> bool:
    """Open the ports. Returns whether they are open.

    Raises:
        OSError: the configured port cannot be opened.
    """
    try:
        await door.open()
    except BaseException as error:
        await door.close()
        if not isinstance(error, OSError) or door.settings.port != FIRST_PORT:
            raise
        _log.warning(
            "nobody can read remotely: port %d and the next ones cannot be had: %s", FIRST_PORT, error
        )
        return False
    found = door.server.authentication
    accounts = found.accounts.path if isinstance(found.accounts, AccountFile) else None
    nobody = found.principals is None and (accounts is None or not accounts.exists())
    if nobody and door.settings.policy.minimum_level is not AuthLevel.NONE:
        _log.info(
            "nobody can read remotely yet: add somebody with `msmq user add %s NAME`", accounts or "FILE"
        )
    return True
