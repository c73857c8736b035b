"""The table ``[directory]``: which directory this host uses, and how to reach it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from msmq.directory.settings import (
    Credential,
    CredentialCache,
    Keytab,
    Password,
    Protection,
    Server,
    Settings,
)
from msmq.errors import MsmqError

KINDS: Final = ("none", "file", "ldap")
_MECHANISMS: Final = ("negotiate", "kerberos", "ntlm")
_LONGEST_PASSWORD: Final = 1_024


class ConfigError(MsmqError):
    """The configuration contains something invalid."""


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """The table ``[directory]``. Relative paths start at the configuration file."""

    file: Annotated[str, "The directory of a workgroup, for kind file."] = ""
    kind: Annotated[
        str,
        "none, file or ldap (Active Directory). Empty: file if one is given, else ldap if there are servers or a "
        "domain.",
    ] = ""
    servers: Annotated[
        tuple[str, ...],
        "Domain controllers in the order they are tried: NAME, NAME:PORT, or NAME@ADDRESS:PORT where the name cannot "
        "be resolved. The name is the one that tickets and certificates are made out to.",
    ] = ()
    domain: Annotated[
        str,
        "DNS name of the domain, instead of servers: its controllers are asked of the DNS, those of site first.",
    ] = ""
    principal: Annotated[
        str,
        "Who this host is in the domain: an account like QM1$@CORP.EXAMPLE, whose keys are in the keytab.",
    ] = ""
    keytab: Annotated[str, "Keytab with the keys of the account."] = ""
    password_file: Annotated[
        str, "File whose first line is the password of the account, instead of a keytab."
    ] = ""
    ticket_cache: Annotated[
        str,
        "Tickets that somebody else renews, instead of both; default is the one that Kerberos finds by itself.",
    ] = ""
    protection: Annotated[
        str, "seal (Kerberos or NTLM), or tls or start-tls, which need a password_file."
    ] = "seal"
    mechanism: Annotated[str, "For seal: negotiate, kerberos or ntlm."] = "negotiate"
    certificate_authority: Annotated[
        str, "PEM file with who signs the certificates of the servers; empty for those the system trusts."
    ] = ""
    site: Annotated[
        str, "Name of the site this host is in; empty for the first one that the directory has."
    ] = ""
    recheck_s: Annotated[int, "How often it is tried again when no domain controller answers."] = 60

    watch_s: Annotated[int, "How often it is asked what others have changed in the directory."] = 30

    def __post_init__(self) -> None:
        if self.kind and self.kind not in KINDS:
            raise ConfigError(f"directory.kind is {self.kind}; it is one of {', '.join(KINDS)}.")
        if self.protection not in (Protection.SEAL.value, Protection.TLS.value, Protection.START_TLS.value):
            raise ConfigError(
                f"directory.protection is {self.protection}; it is seal, tls or start-tls. A password is not sent "
                "without encryption."
            )
        if self.mechanism not in _MECHANISMS:
            raise ConfigError(
                f"directory.mechanism is {self.mechanism}; it is one of {', '.join(_MECHANISMS)}."
            )
        if self.wanted == "file" and not self.file:
            raise ConfigError('directory: kind file needs file = "PATH".')
        if self.wanted == "ldap":
            self._check_domain()

    def _check_domain(self) -> None:
        if not self.servers and not self.domain:
            raise ConfigError(
                'directory: kind ldap needs servers = ["dc1.corp.example"] or domain = "corp.example".'
            )
        for text in self.servers:
            _server(text)
        given = [name for name in ("keytab", "password_file", "ticket_cache") if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(f"directory: {' and '.join(given)} are given; one way to log on is enough.")
        if given[:1] in (["keytab"], ["password_file"]) and not self.principal:
            raise ConfigError(f'directory: {given[0]} needs principal = "QM1$@CORP.EXAMPLE".')
        if self.protection != Protection.SEAL.value and given != ["password_file"]:
            raise ConfigError(f"directory: protection {self.protection} needs a password_file.")

    @property
    def wanted(self) -> str:
        """The kind of the directory."""
        return self.kind or ("file" if self.file else "ldap" if self.servers or self.domain else "none")

    def relative_to(self, directory: Path) -> DirectorySettings:
        """These settings with relative paths resolved against ``directory``."""
        paths = ("file", "keytab", "password_file", "certificate_authority")
        given: dict[str, Any] = {name: getattr(self, name) for name in paths}
        return replace(self, **{name: _below(directory, text) for name, text in given.items() if text})

    def connection(self) -> Settings:
        """The settings for connections to the domain. Reads the password.

        Raises:
            ConfigError: the password cannot be read.
        """
        return Settings(
            servers=tuple(map(_server, self.servers)),
            credential=self._credential(),
            protection=Protection(self.protection),
            mechanism=self.mechanism,
            certificate_authority=Path(self.certificate_authority) if self.certificate_authority else None,
            domain=self.domain,
            site=self.site,
        )

    def _credential(self) -> Credential:
        if self.keytab:
            return Keytab(self.principal, Path(self.keytab))
        if self.password_file:
            return Password(self.principal, _first_line(Path(self.password_file)))
        return CredentialCache(Path(self.ticket_cache) if self.ticket_cache else None)


def _below(directory: Path, text: str) -> Any:
    return str(directory / text)


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(_LONGEST_PASSWORD).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"directory.password_file: {error}") from error


def _server(text: str) -> Server:
    """Parse ``NAME``, ``NAME:PORT`` or ``NAME@ADDRESS:PORT``; an IPv6 address is in brackets."""
    name, _, address = text.partition("@")
    where = address or name
    host, colon, port = where.rpartition(":")
    if not colon or where.endswith("]"):
        host, port = where, ""
    number = int(port) if port.isdecimal() and port.isascii() else 0
    if not name or not host or (port and not 1 <= number <= 0xFFFF):
        raise ConfigError(
            f"directory.servers: {text!r} is not like dc1.corp.example or dc1.corp.example:389."
        )
    host = host.removeprefix("[").removesuffix("]")
    return Server(name if address else host, host if address else None, number or None)
