"""How to reach a domain controller, and as whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

LDAP_PORT: Final = 389
LDAPS_PORT: Final = 636


class Protection(Enum):
    """What keeps strangers from reading and changing what travels."""

    SEAL = "seal"
    """SPNEGO with Kerberos or NTLM; every message is signed and encrypted. What a member of a domain uses."""
    TLS = "tls"
    """TLS from the first byte (port 636), with a name and a password inside."""
    START_TLS = "start-tls"
    """TLS after a first request in the clear (port 389), with a name and a password inside."""
    NONE = "none"
    """Nothing; only for a server on this computer or behind a tunnel."""


@dataclass(frozen=True, slots=True)
class Password:
    """A user (``name@REALM``) and its password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keytab:
    """An account whose keys are in a file: how a service logs on without a password."""

    principal: str
    path: Path


@dataclass(frozen=True, slots=True)
class CredentialCache:
    """Tickets that somebody else gets and renews; None is the cache Kerberos finds by itself."""

    path: Path | None = None


Credential = Password | Keytab | CredentialCache


@dataclass(frozen=True, slots=True)
class Server:
    """A domain controller: its DNS name, which tickets and certificates are made out to, and where it is."""

    name: str
    address: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a connection needs. Servers are tried in their order."""

    servers: tuple[Server, ...]
    credential: Credential
    protection: Protection = Protection.SEAL
    mechanism: str = "negotiate"
    """Inside SPNEGO: ``kerberos``, ``ntlm``, or ``negotiate`` for the better of the two that works."""
    certificate_authority: Path | None = None
    """Who must have signed the server's certificate; None for those the system trusts."""
    connect_timeout_s: float = 10
    receive_timeout_s: float = 130
    """Longer than the 120 seconds the server is given for a search."""
    page_size: int = 500
    """Objects per answer; a domain controller gives at most 1,000 unless told otherwise."""

    def port_of(self, server: Server) -> int:
        return server.port or (LDAPS_PORT if self.protection is Protection.TLS else LDAP_PORT)
