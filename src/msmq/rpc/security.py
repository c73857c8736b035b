"""Security contexts of a connection: who the peer is, and what protects the fragments (MS-RPCE 2.2.2.11, 3.3.1.5.2).

A `SecurityContext` wraps a context of pyspnego for both sides. ``step`` does the handshake; then its ``seal``
(`msmq.rpc.seals`) protects fragments and opens them.

On the server an `Authentication` makes the contexts: NTLM over local accounts, Kerberos by keytab where pyspnego's
extra is installed, SPNEGO over either. On the client `Credentials` do.

A local account is known when the handshake ends. A ticket proves only a principal, which may have to be looked up in a
directory: the handshake does not wait for that, `SecurityContext.look_up` does when the first call comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

import spnego
from spnego import ContextProxy, ContextReq
from spnego._context import GSSMech
from spnego._negotiate import NegotiateProxy
from spnego._ntlm import NTLMProxy

from msmq.admission.guesses import Guesses
from msmq.errors import MsmqError
from msmq.rpc.kerberos import KerberosAcceptor
from msmq.rpc.ntlm import Account, AccountSource, NtlmAcceptor
from msmq.rpc.pdu import AuthLevel, AuthType, SecTrailer
from msmq.rpc.seals import GssSeal, NtlmSeal, Seal
from msmq.security.access import Token

# At its debug level pyspnego logs whole tokens, and a token of NTLM is enough to guess a password offline.
logging.getLogger("spnego").setLevel(logging.INFO)

MAX_LEGS: Final = 8
ACCEPTED_LEVELS: Final = (AuthLevel.CONNECT, AuthLevel.PKT, AuthLevel.INTEGRITY, AuthLevel.PRIVACY)
"""The levels we accept. CALL is for connectionless RPC only."""

PROTOCOLS: Final = {AuthType.NTLM: "ntlm", AuthType.NEGOTIATE: "negotiate", AuthType.KERBEROS: "kerberos"}


class AuthenticationError(MsmqError):
    """Authentication of the peer failed, or the protection of a message."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller: the name the provider gave, and the token for access checks."""

    principal: str
    token: Token


class SecurityContext:
    """One security context of one connection (security context multiplexing allows several)."""

    def __init__(
        self,
        context: ContextProxy,
        auth_type: int,
        level: int,
        context_id: int,
        authentication: Authentication | None = None,
    ) -> None:
        """``authentication`` is for servers, where it identifies callers."""
        self._context = context
        self._authentication = authentication
        self._legs = 0
        self.auth_type = auth_type
        self.level = AuthLevel(level)
        self.effective_level = (
            AuthLevel.INTEGRITY if AuthLevel.CALL <= level < AuthLevel.PRIVACY else self.level
        )  # fmt: skip
        """The level that is applied: CALL and PKT are raised to INTEGRITY."""
        self.signs = level >= AuthLevel.CALL
        """Whether requests and responses carry a signature."""
        self.context_id = context_id
        self.trailers = tuple(
            SecTrailer(auth_type, level, padding, 0, context_id).encode() for padding in range(16)
        )
        """The encoded `SecTrailer` of a signature, for each size of the padding before it."""
        self.header_signing = False
        self.established = False
        self.failed = False
        self.seal: Seal | None = None
        """Protects requests and responses if they are signed; None until the handshake is over."""
        self.identity: Identity | None = None
        """The authenticated caller, once it is known."""
        self.principal: str | None = None
        """The Kerberos principal that was proven, for `look_up`."""

    def step(self, token: bytes | None) -> bytes:
        """Process one token of the handshake and return ours. Raises AuthenticationError, whatever goes wrong."""
        self._legs += 1
        try:
            if self._legs > MAX_LEGS:
                raise AuthenticationError("the handshake does not come to an end")
            answer = self._context.step(token) or b""
            if self._context.complete:
                self._finish()
                self.established = True
        except Exception as error:  # the parsers of tokens raise all sorts of errors
            raise self._failed(error) from error
        return answer

    def _failed(self, error: Exception) -> AuthenticationError:
        self.failed, self.established = True, False
        reason = f"{type(error).__name__}: {error}"
        if self._authentication is not None:
            self._authentication.refuse(self._claimed, reason, guessed=not isinstance(error, TooSoonError))
        return AuthenticationError(reason)

    @property
    def _inner(self) -> ContextProxy | None:
        """The provider, once SPNEGO has agreed on one."""
        context = self._context
        if not isinstance(context, NegotiateProxy):
            return context
        if not context._context_list:
            return None
        # SPNEGO takes a token that is not its own for one of Kerberos, even if Kerberos is not available.
        found: ContextProxy | None = context._context_list.get(context._chosen_mech, (None, None))[0]
        return found

    @property
    def _claimed(self) -> str:
        """The name that the peer claims, proven or not."""
        inner = self._inner
        return inner.claimed if isinstance(inner, NtlmAcceptor) else self.principal or ""

    def _finish(self) -> None:
        attributes = self._context.context_attr
        seals = self.level is AuthLevel.PRIVACY
        if self.signs and not attributes & ContextReq.integrity:
            raise AuthenticationError("the peer asked for signatures and cannot make them")
        if seals and not attributes & ContextReq.confidentiality:
            raise AuthenticationError("the peer asked for secrecy and cannot keep it")
        inner = self._inner
        if self.signs and isinstance(inner, NTLMProxy):
            self.seal = NtlmSeal(inner, secret=seals)
        elif self.signs:
            self.seal = GssSeal(self._context, secret=seals, header_signing=self.header_signing)
        if self._authentication is None:
            return
        if isinstance(inner, NtlmAcceptor):
            assert inner.account is not None
            self.identity = Identity(inner.account.name, inner.account.token)
            if self._authentication.guesses is not None:
                self._authentication.guesses.succeeded(inner.account.name, self._authentication.address)
        else:
            self.principal = self._context.client_principal or ""

    def look_up(self) -> None:
        """Look up the principal. This may wait for a directory, so it must not run in the event loop.

        Raises:
            AuthenticationError: the principal is unknown, and stays so on this connection.
        """
        assert self._authentication is not None
        principals = self._authentication.principals
        token = principals.identify(self.principal or "") if principals is not None else None
        if token is None:
            raise self._failed(LookupError(f"{self.principal} is not known here"))
        self.identity = Identity(self.principal or "", token)


class TooSoonError(AuthenticationError):
    """Wrong passwords came before, and the caller must wait before the next attempt."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """Local accounts, protected against guessing: after wrong passwords callers have to wait."""

    accounts: AccountSource
    guesses: Guesses
    address: str

    def find(self, name: str) -> Account | None:
        wait_s = self.guesses.wait_s(name, self.address)
        if wait_s > 0:
            raise TooSoonError(f"wrong passwords came before; {wait_s:.0f} s are left to wait")
        return self.accounts.find(name)


class PrincipalSource(Protocol):
    """Finds the user of a Kerberos principal."""

    def identify(self, principal: str) -> Token | None:
        """Return the token of ``name@REALM``, or None if it is unknown. May block, and is called from any thread."""


def _say_nothing(reason: str) -> None:
    """Ignore why a caller was refused."""


@dataclass(frozen=True)
class Authentication:
    """What a server accepts. NTLM needs accounts, Kerberos needs principals."""

    accounts: AccountSource | None = None
    principals: PrincipalSource | None = None
    """Finds the users of Kerberos principals; without it Kerberos is not offered."""
    keytab: Path | None = None
    """None stands for the keytab that Kerberos finds by itself (KRB5_KTNAME)."""
    tell: Callable[[str], None] = _say_nothing
    """Is told why a caller was refused. Anybody can cause that, as often as they like."""
    guesses: Guesses | None = None
    """Makes callers wait after repeated wrong passwords."""
    address: str = ""
    """The address of the client, set for each connection."""

    def at(self, address: str) -> Authentication:
        """A copy for a connection from this address."""
        return replace(self, address=address)

    def refuse(self, who: str, reason: str, *, guessed: bool) -> None:
        """Report a refused caller, and count the attempt if a password was wrong."""
        self.tell(reason)
        if guessed and self.guesses is not None:
            self.guesses.failed(who, self.address, reason)

    @property
    def _watched(self) -> AccountSource:
        assert self.accounts is not None
        return self.accounts if self.guesses is None else _Watched(self.accounts, self.guesses, self.address)

    @property
    def auth_types(self) -> frozenset[AuthType]:
        found = {AuthType.NTLM} if self.accounts is not None else set()
        if self.principals is not None and "kerberos" in NegotiateProxy.available_protocols():
            found.add(AuthType.KERBEROS)
        return frozenset(found | {AuthType.NEGOTIATE}) if found else frozenset()

    def accept(self, auth_type: int, level: int, context_id: int) -> SecurityContext:
        """Make the context for a bind. Raises AuthenticationError if this provider or level is not available."""
        if level not in ACCEPTED_LEVELS:
            raise AuthenticationError(f"authentication level {level} cannot be had")
        if auth_type not in self.auth_types:
            raise AuthenticationError(f"security provider {auth_type} is not available")
        try:
            context = self._context(AuthType(auth_type))
        except MsmqError as error:  # no keys
            self.tell(str(error))
            raise AuthenticationError(str(error)) from error
        return SecurityContext(context, auth_type, level, context_id, self)

    def _context(self, auth_type: AuthType) -> ContextProxy:
        if auth_type is AuthType.NTLM:
            return NtlmAcceptor(self._watched)
        if auth_type is AuthType.KERBEROS:
            return KerberosAcceptor(self.keytab)
        inner: dict[GSSMech, ContextProxy] = {}
        if AuthType.KERBEROS in self.auth_types:
            inner[GSSMech.kerberos] = KerberosAcceptor(self.keytab)
        if self.accounts is not None:
            inner[GSSMech.ntlm] = NtlmAcceptor(self._watched)
        for context in inner.values():
            context._is_wrapped = True
        return NegotiateProxy(usage="accept", _negotiate_contexts=inner)


@dataclass(frozen=True)
class Credentials:
    """The credentials of a client; ``username`` may be ``DOMAIN\\name`` or ``name@REALM``."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    auth_type: AuthType = AuthType.NEGOTIATE
    level: AuthLevel = AuthLevel.PRIVACY
    service: str = "host"

    def initiate(self, hostname: str, context_id: int) -> SecurityContext:
        """A context towards ``hostname``. Kerberos takes the user's ticket cache when no password is given."""
        wanted = ContextReq.dce_style | ContextReq.mutual_auth
        wanted |= ContextReq.replay_detect | ContextReq.sequence_detect
        if self.level >= AuthLevel.CALL:
            wanted |= ContextReq.integrity
        if self.level is AuthLevel.PRIVACY:
            wanted |= ContextReq.confidentiality
        try:
            context = spnego.client(
                self.username,
                self.password,
                hostname=hostname,
                service=self.service,
                protocol=PROTOCOLS[self.auth_type],
                context_req=wanted,
            )
        except Exception as error:  # as in step
            raise AuthenticationError(f"{type(error).__name__}: {error}") from error
        return SecurityContext(context, self.auth_type, self.level, context_id)
