"""How to reach a domain controller, and as whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

LDAP_PORT: Final = 389
LDAPS_PORT: Final = 636
CATALOG_PORT: Final = 3268
CATALOG_TLS_PORT: Final = 3269


class Protection(Enum):
    """What keeps strangers from reading and changing what travels."""

    SEAL = "seal"
    """SPNEGO with Kerberos or NTLM; every message is signed and encrypted. What a member of a domain uses."""
    TLS = "tls"
    """TLS from the first byte (port 636), with a name and a password inside."""
    START_TLS = "start-tls"
    """TLS after a first request in the clear (port 389), with a name and a password inside."""
    NONE = "none"
    """Nothing; only for a server on this computer."""


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
    catalog_port: int | None = None
    """Where its global catalog is, if not where all others have theirs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a connection needs. Servers are tried in their order; without any, those that the DNS has for
    ``domain``."""

    servers: tuple[Server, ...]
    credential: Credential
    protection: Protection = Protection.SEAL
    mechanism: str = "negotiate"
    """Inside SPNEGO: ``kerberos``, ``ntlm``, or ``negotiate`` for the better of the two that works."""
    certificate_authority: Path | None = None
    """Who must have signed the server's certificate; None for those the system trusts."""
    connect_timeout_s: float = 5
    """For finding a controller that answers, looking up its name and logging on to it, all together."""
    receive_timeout_s: float = 5
    search_timeout_s: float = 130
    """For a search in a whole tree: longer than the 120 seconds the server is given for it."""
    page_size: int = 500
    """Objects per answer; a domain controller gives at most 1,000 unless told otherwise."""
    domain: str = ""
    """DNS name of the domain, to find its controllers by."""
    site: str = ""
    """Name of the site whose controllers are asked first."""
    name_servers: tuple[tuple[str, int], ...] = ()
    """Whom to ask; none for those of the system."""
    catalog: bool = False
    """The global catalog is meant: what all domains of a forest have, and not all of it."""

    def port_of(self, server: Server) -> int:
        if self.catalog:
            usual = CATALOG_TLS_PORT if self.protection is Protection.TLS else CATALOG_PORT
            return server.catalog_port or usual
        return server.port or (LDAPS_PORT if self.protection is Protection.TLS else LDAP_PORT)

    def of_catalog(self, forest: str) -> Settings:
        """These settings for the global catalog; ``forest`` is the DNS name of its first domain."""
        return replace(self, catalog=True, domain=forest if self.domain else "")
