"""Identification of callers: from a process, a bearer token or a certificate to the token of the access check.

* A process on the unix socket is identified by its credentials, which the kernel gives (:mod:`msmq.api.relay`). Its
  user is the SID that the configuration maps it to, or ``S-1-22-1-UID``; its groups are ``S-1-22-2-GID``, the way
  Samba writes both. Root and the user that runs the queue manager are administrators.
* Such a process may act for somebody else: for the owner of a bearer token that it brings, and, if it is an
  administrator, for any SID that it names. So the console has the rights of its user, and none of its own.
* A caller with a bearer token is the SID that the token's SHA-256 is mapped to, by the configuration or ``msmq token``.
* A caller with a certificate that TLS has verified is the SID that one of its names is mapped to.
* All others are refused, unless the operator allows anonymous callers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from msmq.admission.guesses import Guesses
from msmq.api import processes
from msmq.errors import AccessDeniedError, DecodeError, EncodeError
from msmq.security.access import Privilege, Token
from msmq.security.sid import ADMINISTRATORS, Sid

UNIX_USER: Final = Sid.parse("S-1-22-1")
UNIX_GROUP: Final = Sid.parse("S-1-22-2")
_BEARER: Final = "bearer "
ACT_AS: Final = "msmq-act-as"
"""The gRPC metadata in which a process names the one it acts for: ``Bearer TOKEN``, or, from an administrator, a
SID."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's settings for identifying callers."""

    users: Mapping[str, str] = field(default_factory=dict)
    """Users of this computer, by name or number, to SIDs."""
    administrators: tuple[str, ...] = ()
    """Users, groups (``@name``) and SIDs that are administrators of the queue manager."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of bearer tokens, in hexadecimal, to SIDs."""
    certificates: Mapping[str, str] = field(default_factory=dict)
    """Names in verified client certificates to SIDs."""
    allow_anonymous: bool = False
    """Whether callers on TCP may come without a token and without a known certificate."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known about the other end of a connection before it sends anything."""

    process: Token | None = None
    """The user of a process of this computer, as the kernel says."""
    address: str = ""
    """The address of a connection without such a process; wrong tokens are counted by address."""
    names: tuple[str, ...] = ()
    """The names in the verified certificate: the alternative names, then the common names."""


class Context(Protocol):
    """The part of a gRPC context that is used here."""

    def peer(self) -> str: ...

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


def token_digest(token: str) -> str:
    """The form in which the configuration has a bearer token: as it does not contain the token, it cannot reveal it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Callers:
    """Identifies the caller of each call."""

    def __init__(self, rules: Rules, own_uid: int | None = None, guesses: Guesses | None = None) -> None:
        self._guesses = guesses
        self.own_uid = processes.own_uid() if own_uid is None else own_uid
        self._connections: dict[str, Peer] = {}
        self.own_tokens: dict[str, str] = {}
        """Digests of the tokens that the queue manager has made (:mod:`msmq.api.tokens`), to SIDs."""
        self.follow(rules)

    def follow(self, rules: Rules) -> None:
        """Use other rules from now on. A process that is connected already keeps its identity."""
        self.rules = rules
        self._tokens = {digest.lower(): sid for digest, sid in rules.tokens.items()}

    # --- connections of the relay -------------------------------------------------------------------------------

    def register(self, name: str, peer: Peer) -> None:
        """Remember the other end of a connection that gRPC will call ``name``."""
        self._connections[name] = peer

    def forget(self, name: str) -> None:
        self._connections.pop(name, None)

    # --- calls --------------------------------------------------------------------------------------------------

    def caller(self, context: Context) -> Token:
        """The token of the caller of a gRPC call."""
        peer = self._connections.get(context.peer())
        if peer is None:  # only the relay may connect to the inner socket
            raise AccessDeniedError("This connection did not come through the door.")
        key = "authorization" if peer.process is None else ACT_AS
        for name, value in context.invocation_metadata() or ():
            if name == key and isinstance(value, str):
                return self.of(peer, value)
        return self.of(peer, "")

    def of(self, peer: Peer, said: str) -> Token:
        """The token of a caller that says whom it acts for: ``Bearer TOKEN``, a SID, or nothing."""
        process = peer.process
        if process is None:
            if said:
                return self._of_bearer(said, peer.address)
            return self._of_certificate(peer.names) or self._anonymous()
        if not said:
            return process
        trusted = ADMINISTRATORS in process.groups
        if said.lower().startswith(_BEARER):
            return self._of_bearer(said, "" if trusted else str(process.user))
        if not trusted:
            raise AccessDeniedError("Only administrators speak for others.")
        return self._with_rights(_sid(said), ())

    def _anonymous(self) -> Token:
        if not self.rules.allow_anonymous:
            raise AccessDeniedError(
                "Nobody comes in here without a token or a client certificate that the queue manager knows; "
                "`msmq token create` on its computer makes a token."
            )
        return Token.anonymous()

    def _of_bearer(self, value: str, address: str) -> Token:
        """The owner of a bearer token. Wrong tokens are not counted if ``address`` is empty, as for an administrator
        who acts for somebody."""
        guesses = self._guesses if address else None
        wait_s = 0.0 if guesses is None else guesses.wait_s("", address)
        if wait_s > 0:
            raise AccessDeniedError(
                f"Unknown tokens came from here again and again; try again in {wait_s:.0f} s."
            )
        digest = token_digest(value[len(_BEARER) :].strip()) if value.lower().startswith(_BEARER) else ""
        sid = self._tokens.get(digest) or self.own_tokens.get(digest)
        if sid is None:
            if guesses is not None:
                guesses.failed("", address, "an unknown bearer token")
            raise AccessDeniedError("The bearer token is not known here; `msmq token create` makes one.")
        return self._with_rights(Sid.parse(sid), ())

    def _of_certificate(self, names: Iterable[str]) -> Token | None:
        for name in names:
            sid = self.rules.certificates.get(name)
            if sid is not None:
                return self._with_rights(Sid.parse(sid), ())
        return None

    def of_process(self, uid: int, gid: int) -> Token:
        """The token of the user of a process on this host."""
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


def _sid(text: str) -> Sid:
    try:
        return Sid.parse(text)
    except (DecodeError, EncodeError, ValueError):
        raise AccessDeniedError(f"{text!r} is no SID.") from None
