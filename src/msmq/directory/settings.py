"""How to reach a domain controller, and with which account."""

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
    """How the connection is protected from being read and changed by others."""

    SEAL = "seal"
    """SPNEGO with Kerberos or NTLM; every message is signed and encrypted. Usual for members of a domain."""
    TLS = "tls"
    """TLS from the first byte (port 636), with a name and a password inside."""
    START_TLS = "start-tls"
    """TLS after a first unencrypted request (port 389), with a name and a password inside."""
    NONE = "none"
    """No protection; only for a server on this computer."""


@dataclass(frozen=True, slots=True)
class Password:
    """A user (``name@REALM``) with a password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keytab:
    """An account whose keys are in a file, so that a service can log on without a password."""

    principal: str
    path: Path


@dataclass(frozen=True, slots=True)
class CredentialCache:
    """Tickets that another program fetches and renews; None stands for the cache that Kerberos finds by itself."""

    path: Path | None = None


Credential = Password | Keytab | CredentialCache


@dataclass(frozen=True, slots=True)
class Server:
    """A domain controller: its DNS name, which is in its tickets and certificates, and its address."""

    name: str
    address: str | None = None
    port: int | None = None
    catalog_port: int | None = None
    """The port of its global catalog, if not the usual one."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a connection. Servers are tried in order; without any, those that the DNS has for ``domain``."""

    servers: tuple[Server, ...]
    credential: Credential
    protection: Protection = Protection.SEAL
    mechanism: str = "negotiate"
    """The mechanism inside SPNEGO: ``kerberos``, ``ntlm``, or ``negotiate`` for the better one that works."""
    certificate_authority: Path | None = None
    """The authority that must have signed the server's certificate; None for those that the system trusts."""
    connect_timeout_s: float = 5
    """The time limit for finding a controller that answers, looking up its name and logging on, all together."""
    receive_timeout_s: float = 5
    search_timeout_s: float = 130
    """The time limit for a search in a subtree, longer than the 120 seconds that the server gets for it."""
    page_size: int = 500
    """Objects per page; a domain controller returns at most 1,000 unless configured otherwise."""
    domain: str = ""
    """The DNS name of the domain in which controllers are looked for."""
    site: str = ""
    """The site whose controllers are asked first."""
    name_servers: tuple[tuple[str, int], ...] = ()
    """The DNS servers to ask; none for those of the system."""
    catalog: bool = False
    """Whether the connection is to the global catalog, which has part of the objects' attributes for all domains."""

    def port_of(self, server: Server) -> int:
        if self.catalog:
            usual = CATALOG_TLS_PORT if self.protection is Protection.TLS else CATALOG_PORT
            return server.catalog_port or usual
        return server.port or (LDAPS_PORT if self.protection is Protection.TLS else LDAP_PORT)

    def of_catalog(self, forest: str) -> Settings:
        """These settings for the global catalog; ``forest`` is the DNS name of the forest's root domain."""
        return replace(self, catalog=True, domain=forest if self.domain else "")
