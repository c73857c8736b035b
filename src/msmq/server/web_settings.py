"""The table ``[web]``: the address, the authentication and the limits of the console."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from msmq.errors import MsmqError

DEFAULT_ADDRESS: Final = "127.0.0.1:1811"
ROLES: Final = ("look", "operate", "administer")


class WebError(MsmqError):
    """The console cannot run as it is configured."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The table ``[web]``. Relative paths start at the working directory of the process."""

    listen: Annotated[
        str,
        "HOST:PORT of the console, or none. Off this computer it speaks TLS, if need be with its own certificate.",
    ] = DEFAULT_ADDRESS
    certificate: Annotated[str, "PEM chain of the console."] = ""
    private_key: Annotated[str, "Its key."] = ""
    client_authorities: Annotated[
        str, "PEM of those whose client certificates are believed; who they are api.certificates says."
    ] = ""
    roles: Annotated[
        dict[str, str],
        "What a SID may do here at most: look, operate or administer. Others operate as far as access lists let them, "
        "and administrators administer.",
    ] = field(default_factory=dict)
    oidc_issuer: Annotated[str, "Address of an issuer of OpenID Connect by whose word one can log in."] = ""
    oidc_client_id: Annotated[str, "How the issuer calls this console."] = ""
    oidc_client_secret_file: Annotated[
        str, "File with the secret that the issuer gave it, if it gave one."
    ] = ""
    oidc_scopes: Annotated[str, "What is asked of the issuer."] = "openid profile email"
    oidc_redirect: Annotated[
        str,
        "Where the issuer sends browsers back to: .../api/oidc/callback, where the request's own address is wrong.",
    ] = ""
    oidc_audience: Annotated[str, "For whom bearer tokens are issued; oidc_client_id when empty."] = ""
    oidc_name_claim: Annotated[str, "The claim that names somebody."] = "preferred_username"
    oidc_roles_claim: Annotated[str, "The claim with their groups; dots lead into nested ones."] = "groups"
    oidc_roles: Annotated[
        dict[str, str],
        "What members of a group may do here: look, operate or administer. Those in none of them are not let in.",
    ] = field(default_factory=dict)
    oidc_sids: Annotated[
        dict[str, str],
        "In the name of which SID the queue manager is asked, by the name of somebody or of a group. Without one "
        "administrators are BUILTIN_ADMINISTRATORS, and all others AUTHENTICATED_USERS.",
    ] = field(default_factory=dict)
    oidc_leeway_s: Annotated[int, "Seconds that the clocks of issuer and console may differ."] = 30
    hosts: Annotated[
        dict[str, str], "Other queue managers that the console looks at, by name: tls:HOST:PORT or HOST:PORT."
    ] = field(default_factory=dict)
    metrics_open: Annotated[bool, "Whether /metrics is told to everybody who asks."] = False
    requests_per_second: Annotated[int, "How many requests of one address are answered in the long run."] = 50
    requests_at_once: Annotated[int, "How many of them at once."] = 200
    smtp: Annotated[str, "HOST:PORT of the server that alarms are mailed by; empty for none."] = ""
    mail_from: Annotated[str, "The sender of these mails."] = "msmq@localhost"

    @property
    def wanted(self) -> bool:
        return self.listen not in ("", "none")

    @property
    def address(self) -> tuple[str, int]:
        """The address it listens on. Raises WebError if that is invalid."""
        host, separator, port = self.listen.rpartition(":")
        host = host.strip("[]")
        if not separator or not port.isdecimal() or int(port) > 0xFFFF:
            raise WebError(f"web: {self.listen} is no address; write HOST:PORT, or none.")
        return host, int(port)

    @property
    def exposed(self) -> bool:
        """Whether other computers can reach it; then it speaks only TLS."""
        host, _ = self.address
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"

    @property
    def tls(self) -> bool:
        return bool(self.certificate and self.private_key)

    @property
    def problem(self) -> str | None:
        """What is wrong with these settings, or None."""
        for option, roles in (("roles", self.roles), ("oidc_roles", self.oidc_roles)):
            wrong = sorted(set(roles.values()) - set(ROLES))
            if wrong:
                return f"web.{option}: {wrong[0]} is none of {', '.join(ROLES)}."
        if self.oidc_issuer and not self.oidc_client_id:
            return "web.oidc_issuer needs an oidc_client_id: how the issuer calls this console."
        if bool(self.certificate) != bool(self.private_key):
            return "web.certificate and web.private_key belong together."
        try:
            if self.wanted:
                _ = self.address
        except WebError as error:
            return str(error)
        return None

    def files(self) -> tuple[Path, Path, Path | None]:
        return (
            Path(self.certificate),
            Path(self.private_key),
            Path(self.client_authorities) if self.client_authorities else None,
        )
