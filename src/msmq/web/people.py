"""The users of the console: from a request to connections with the user's rights.

A user sends a token with each request, or has logged in with one and has a session, or has a certificate that TLS has
verified, or a token of an OpenID Connect issuer. The queue manager says to whom its tokens belong, and every call is
made with the user's token, so that a removed token is useless at once. For certificates and issuers the console acts
for a SID (``act_as``), which the queue manager allows to administrators only.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from msmq.client.connection import Connection
from msmq.errors import MsmqError
from msmq.security.sid import ADMINISTRATORS, WELL_KNOWN

_NAMES: Final = {str(sid): name for name, sid in WELL_KNOWN.items()}
_MOST_CONNECTIONS: Final = 64
_MOST_SESSIONS: Final = 10_000
_SESSION_S: Final = 12 * 3600.0
_IDLE_S: Final = 3600.0
_BELIEVED_S: Final = 5.0
"""How long the owner of a token is remembered; the token itself is checked with every call."""


class OidcError(Exception):
    """An issuer, or a token that claims to be from it, cannot be trusted."""


class NotAllowedError(OidcError):
    """The issuer knows the user, but no role here was given to them."""


class Role(IntEnum):
    """The most that a user may do here; the queue manager's access lists decide within that."""

    LOOK = 1
    OPERATE = 2
    ADMINISTER = 3


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a user: a token, or a SID that was proved otherwise."""

    token: str = field(default="", repr=False)
    sid: str = ""
    name: str = ""
    """The name that an issuer gives; many users may share a SID."""
    role: Role | None = None
    """The role by a token of an issuer; None otherwise."""


@dataclass(frozen=True, slots=True)
class Person:
    """A user who was identified."""

    credential: Credential
    sid: str
    name: str
    role: Role


@dataclass(slots=True)
class Session:
    """A user who has logged in with a browser."""

    person: Person
    csrf: str
    until_s: float
    seen_s: float


Connect = Callable[[str, Credential], Connection]
"""Makes a connection to a host in a user's name."""


class People:
    """Identifies users, and keeps their connections."""

    def __init__(self, hosts: tuple[str, ...], connect: Connect, roles: Mapping[str, str]) -> None:
        self.hosts = hosts
        self._connect = connect
        self._roles = {sid: Role[name.upper()] for sid, name in roles.items()}
        self._connections: OrderedDict[tuple[str, Credential], Connection] = OrderedDict()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._believed: OrderedDict[Credential, tuple[float, Person]] = OrderedDict()
        self._opening: dict[tuple[str, Credential], asyncio.Task[Connection]] = {}

    async def connection(self, host: str, credential: Credential) -> Connection:
        """Return the connection to a host in a user's name."""
        key = host, credential
        found = self._connections.get(key)
        if found is not None:
            self._connections.move_to_end(key)
            return found
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._open(key))
            opening.add_done_callback(lambda done: self._opened(key, done))
        return await asyncio.shield(opening)

    async def _open(self, key: tuple[str, Credential]) -> Connection:
        """Connect, once for all requests that need it meanwhile. Nobody waits for a host that somebody else needs."""
        made = self._connect(*key)
        await made.open()
        self._connections[key] = made
        while len(self._connections) > _MOST_CONNECTIONS:
            _, oldest = self._connections.popitem(last=False)
            await oldest.close()
        return made

    def _opened(self, key: tuple[str, Credential], done: asyncio.Task[Connection]) -> None:
        self._opening.pop(key, None)
        if not done.cancelled():
            done.exception()  # those who still wait get the error; perhaps there are none

    async def known(self, credential: Credential, name: str = "") -> Person:
        """Identify a user. Raises AccessDeniedError if the queue manager does not know the token."""
        believed = self._believed.get(credential)
        now_s = time.monotonic()
        if believed is not None and now_s - believed[0] < _BELIEVED_S:
            return believed[1]
        try:
            manager = await (await self.connection(self.hosts[0], credential)).manager()
        except MsmqError:
            self._believed.pop(credential, None)
            await self.forget(credential)
            raise
        person = Person(
            credential,
            manager.caller,
            name or credential.name or _NAMES.get(manager.caller, manager.caller),
            credential.role or self._role(manager.caller, manager.caller_groups),
        )
        self._believed[credential] = now_s, person
        self._believed.move_to_end(credential)
        while len(self._believed) > _MOST_SESSIONS:
            self._believed.popitem(last=False)
        return person

    def _role(self, sid: str, groups: tuple[str, ...]) -> Role:
        """Return the role that the operator gave to a user or a group; otherwise administrators administer, and others
        operate as far as access lists allow."""
        given = [self._roles[each] for each in (sid, *groups) if each in self._roles]
        if given:
            return max(given)
        return Role.ADMINISTER if str(ADMINISTRATORS) in groups else Role.OPERATE

    # --- sessions -----------------------------------------------------------------------------------------------

    def log_in(self, person: Person) -> tuple[str, Session]:
        """Begin a session. Returns its secret and the session."""
        secret, now_s = secrets.token_urlsafe(32), time.monotonic()
        session = Session(person, secrets.token_urlsafe(24), now_s + _SESSION_S, now_s)
        self._sessions[secret] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return secret, session

    def session(self, secret: str) -> Session | None:
        """Return the session with this secret, unless it has ended."""
        session, now_s = self._sessions.get(secret), time.monotonic()
        if session is None:
            return None
        if now_s > session.until_s or now_s - session.seen_s > _IDLE_S:
            del self._sessions[secret]
            return None
        session.seen_s = now_s
        return session

    def log_out(self, secret: str) -> None:
        self._sessions.pop(secret, None)

    async def forget(self, credential: Credential) -> None:
        """Close a user's connections."""
        for key in [key for key in self._connections if key[1] == credential]:
            with suppress(MsmqError, OSError):
                await self._connections.pop(key).close()

    async def close(self) -> None:
        opening = list(self._opening.values())
        for each in opening:
            each.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        while self._connections:
            _, connection = self._connections.popitem()
            with suppress(MsmqError, OSError):
                await connection.close()


def same(given: str, wanted: str) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(given.encode(), wanted.encode())
