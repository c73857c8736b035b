"""Who calls: from a process, a token or a certificate to the token of the access check.

* A process on the unix socket is known by its credentials, which the kernel gives (:mod:`msmq.api.relay`). Its user
  is the SID that the configuration maps it to, or ``S-1-22-1-UID``; its groups are ``S-1-22-2-GID``, the way Samba
  writes both. Root and the user that runs the queue manager are administrators.
* Somebody with a bearer token is the SID that the token's SHA-256 is mapped to, by the configuration or by
  ``msmq token``.
* Somebody with a certificate that TLS has verified is the SID that one of its names is mapped to.
* Everybody else is turned away, unless the operator lets anonymous callers in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from msmq.admission.guesses import Guesses
from msmq.api import processes
from msmq.errors import AccessDeniedError
from msmq.security.access import Privilege, Token
from msmq.security.sid import ADMINISTRATORS, Sid

UNIX_USER: Final = Sid.parse("S-1-22-1")
UNIX_GROUP: Final = Sid.parse("S-1-22-2")
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator decided about identities."""

    users: Mapping[str, str] = field(default_factory=dict)
    """Users of this computer, by name or number, to SIDs."""
    administrators: tuple[str, ...] = ()
    """Users, groups (``@name``) and SIDs that are administrators of the queue manager."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of bearer tokens, in hexadecimal, to SIDs."""
    certificates: Mapping[str, str] = field(default_factory=dict)
    """Names in verified client certificates to SIDs."""
    allow_anonymous: bool = False
    """Whether callers on TCP may come without a token and without a certificate that is known."""


class Context(Protocol):
    """What is asked of a gRPC context."""

    def peer(self) -> str: ...

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...

    def auth_context(self) -> Mapping[str, Iterable[bytes]]: ...


def token_digest(token: str) -> str:
    """How the configuration knows a bearer token: it keeps no token, so it can tell none."""
    return hashlib.sha256(token.encode()).hexdigest()


class Callers:
    """Finds the caller of each call."""

    def __init__(self, rules: Rules, own_uid: int | None = None, guesses: Guesses | None = None) -> None:
        self._guesses = guesses
        self.own_uid = processes.own_uid() if own_uid is None else own_uid
        self._connections: dict[str, Token] = {}
        self.own_tokens: dict[str, str] = {}
        """Digests of the tokens that the queue manager has made (:mod:`msmq.api.tokens`), to SIDs."""
        self.follow(rules)

    def follow(self, rules: Rules) -> None:
        """Go by these rules from now on; a process that is connected already stays who it was."""
        self.rules = rules
        self._tokens = {digest.lower(): sid for digest, sid in rules.tokens.items()}

    # --- connections of the relay -------------------------------------------------------------------------------

    def register(self, peer: str, token: Token) -> None:
        """A connection whose other end is known; ``peer`` is how gRPC will call it."""
        self._connections[peer] = token

    def forget(self, peer: str) -> None:
        self._connections.pop(peer, None)

    # --- calls --------------------------------------------------------------------------------------------------

    def caller(self, context: Context) -> Token:
        """Whose rights count for a call."""
        peer = context.peer()
        if peer.startswith("unix"):
            known = self._connections.get(peer)
            if known is None:  # nobody but the relay has business at the inner socket
                raise AccessDeniedError("This connection did not come through the door.")
            return known
        for key, value in context.invocation_metadata() or ():
            if key == "authorization" and isinstance(value, str):
                return self._of_bearer(value, peer.rpartition(":")[0])
        return self._of_certificate(context.auth_context()) or self._anonymous()

    def _anonymous(self) -> Token:
        if not self.rules.allow_anonymous:
            raise AccessDeniedError(
                "Nobody comes in here without a token or a client certificate that the queue manager knows; "
                "`msmq token create` on its computer makes a token."
            )
        return Token.anonymous()

    def _of_bearer(self, value: str, address: str) -> Token:
        wait_s = 0.0 if self._guesses is None else self._guesses.wait_s("", address)
        if wait_s > 0:
            raise AccessDeniedError(
                f"Unknown tokens came from here again and again; try again in {wait_s:.0f} s."
            )
        digest = token_digest(value[len(_BEARER) :].strip()) if value.lower().startswith(_BEARER) else ""
        sid = self._tokens.get(digest) or self.own_tokens.get(digest)
        if sid is None:
            if self._guesses is not None:
                self._guesses.failed("", address, "an unknown bearer token")
            raise AccessDeniedError("The bearer token is not known here; `msmq token create` makes one.")
        return self._with_rights(Sid.parse(sid), ())

    def _of_certificate(self, properties: Mapping[str, Iterable[bytes]]) -> Token | None:
        for kind in ("x509_subject_alternative_name", "x509_common_name"):
            for name in properties.get(kind, ()):
                sid = self.rules.certificates.get(name.decode("utf-8", "replace"))
                if sid is not None:
                    return self._with_rights(Sid.parse(sid), ())
        return None

    def of_process(self, uid: int, gid: int) -> Token:
        """The user behind a process of this computer."""
        name = processes.user_name(uid)
        mapped = self.rules.users.get(str(uid)) or (self.rules.users.get(name) if name else None)
        user = Sid.parse(mapped) if mapped else UNIX_USER.child(uid)
        gids = {gid, *(processes.groups_of(name, gid) if name else ())}
        named = {
            str(uid),
            *([name] if name else []),
            *(f"@{group}" for group in map(processes.group_name, gids) if group),
        }
        administrator = uid in (0, self.own_uid) or bool(named & set(self.rules.administrators))
        return self._with_rights(user, map(UNIX_GROUP.child, gids), administrator=administrator)

    def _with_rights(self, user: Sid, groups: Iterable[Sid], *, administrator: bool = False) -> Token:
        token = Token.authenticated(user, groups)
        if not administrator and str(user) not in self.rules.administrators and user != ADMINISTRATORS:
            return token
        privileges = frozenset({Privilege.SECURITY, Privilege.TAKE_OWNERSHIP})
        return Token(user, token.groups | {ADMINISTRATORS}, privileges)
