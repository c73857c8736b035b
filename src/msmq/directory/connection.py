"""One LDAP connection that all operations share (MS-MQDSSM 3.1.1.6, 3.1.6.18, 3.1.6.21).

An operation prepares the connection and shuts it down again; it is made by the first and closed by the last of those
that overlap. Whoever expects many holds it (:meth:`CachedConnection.hold`), and then a connection that the server has
ended meanwhile is made anew. Operations may come from several threads: requests take turns.

Failures are results (:class:`msmq.directory.results.DirectoryFailure`); nothing of ldap3 gets out of here.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import ldap3
import spnego
from ldap3.core.exceptions import LDAPException
from ldap3.protocol.microsoft import security_descriptor_control
from ldap3.protocol.sasl.sasl import send_sasl_negotiation
from spnego.exceptions import SpnegoError

from msmq.directory import discovery
from msmq.directory.results import NO_SUCH_OBJECT, REFERRAL, SUCCESS, DirectoryFailure, generic, result_of
from msmq.directory.sealed_stream import Channel, Observer
from msmq.directory.settings import CredentialCache, Keytab, Password, Protection, Server, Settings
from msmq.manager.directory import DirectoryResult

OWNER_GROUP_DACL: Final = 7
"""Which parts of a descriptor are read: all but the SACL, for which an ordinary user has no privilege."""
SEARCH_TIME_LIMIT_S: Final = 120
_SASL_BIND_IN_PROGRESS: Final = 14
_START_TLS: Final = "1.3.6.1.4.1.1466.20037"
_PAGED_RESULTS: Final = "1.2.840.113556.1.4.319"
_CONTEXT: Final = (
    spnego.ContextReq.mutual_auth
    | spnego.ContextReq.replay_detect
    | spnego.ContextReq.sequence_detect
    | spnego.ContextReq.confidentiality
    | spnego.ContextReq.integrity
)

# The stubs of ldap3 say nothing about this one.
_negotiate: Final[Callable[..., Mapping[str, Any]]] = send_sasl_negotiation


class Entry(NamedTuple):
    """An object a search found; names of attributes are in lower case."""

    dn: str
    attributes: Mapping[str, Sequence[bytes]]

    def get(self, name: str) -> list[bytes]:
        return list(self.attributes.get(name.lower(), ()))


class CachedConnection:
    """CachedLDAPConnection: ``handle`` and ``ref_count`` as the specification has them."""

    def __init__(self, settings: Settings, observe: Observer | None = None) -> None:
        self.settings = settings
        self.handle: ldap3.Connection | None = None
        self.ref_count = 0
        self.last_trouble = ""
        """Why the last attempt to connect failed, for people."""
        self._observe = observe
        self._lock = threading.RLock()

    # --- the connection -------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Prepare an LDAP Connection."""
        with self._lock:
            if self.handle is not None and not self._channel.is_alive():
                self._drop()
            if self.handle is None:
                self.handle = self._connect()
            self.ref_count += 1

    def shut_down(self) -> None:
        """Shut Down an LDAP Connection: the last one closes it."""
        with self._lock:
            self.ref_count -= 1
            if self.ref_count == 0:
                self._drop()

    @contextmanager
    def use(self) -> Iterator[None]:
        """The connection for one operation; without one the operation's result is DirectoryNotConnected."""
        try:
            self.prepare()
        except DirectoryFailure as failure:
            raise DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, failure.reason) from failure
        try:
            yield
        finally:
            self.shut_down()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the connection open over many operations, and do not mind if there is none at the moment."""
        with self._lock:
            self.ref_count += 1
        try:
            yield
        finally:
            self.shut_down()

    @property
    def _channel(self) -> Channel:
        assert self.handle is not None
        channel: Channel = self.handle.socket
        return channel

    def _drop(self) -> None:
        """Unbind and close; what went wrong on the way makes no difference any more."""
        handle, self.handle = self.handle, None
        if handle is not None:
            with suppress(LDAPException, OSError):
                handle.unbind()

    def _connect(self) -> ldap3.Connection:
        troubles = []
        for server in self.settings.servers or self._discover():
            try:
                return self._connect_to(server)
            except (LDAPException, SpnegoError, OSError) as error:
                troubles.append(f"{server.name}: {error}")
        self.last_trouble = "; ".join(troubles) or "no domain controller is configured"
        raise generic(self.last_trouble)

    def _discover(self) -> Sequence[Server]:
        if not self.settings.domain:
            return ()
        try:
            return discovery.servers_of(self.settings)
        except OSError as error:
            self.last_trouble = str(error)
            raise generic(self.last_trouble) from error

    def _connect_to(self, server: Server) -> ldap3.Connection:
        settings = self.settings
        target = ldap3.Server(
            server.address or server.name,
            port=settings.port_of(server),
            get_info=ldap3.NONE,
            connect_timeout=settings.connect_timeout_s,
        )
        simple = settings.protection is not Protection.SEAL
        user = settings.credential if isinstance(settings.credential, Password) else None
        if simple and user is None:
            raise OSError("a bind without SPNEGO needs a user and a password")
        connection = ldap3.Connection(
            target,
            user=user.user if simple and user else None,
            password=user.password if simple and user else None,
            authentication=ldap3.SIMPLE if simple else ldap3.ANONYMOUS,
            version=3,
            check_names=False,
            auto_referrals=False,
            auto_encode=False,
            auto_escape=False,
            raise_exceptions=False,
            receive_timeout=settings.receive_timeout_s,
        )
        try:
            connection.open(read_server_info=False)
            if settings.protection in (Protection.TLS, Protection.START_TLS):
                self._encrypt(connection, server)
            connection.socket = Channel(connection.socket, self._observe)
            if simple:
                self._bind_simple(connection)
            else:
                self._bind_sealed(connection, server)
        except BaseException:
            if connection.socket is not None:
                connection.socket.close()
            raise
        return connection

    def _encrypt(self, connection: Any, server: Server) -> None:
        """TLS, with a certificate that is the server's and that somebody vouches for. ldap3 would do it too, with
        functions that Python gives up."""
        if self.settings.protection is Protection.START_TLS and not connection.extended(_START_TLS):
            raise OSError(f"the server refuses TLS: {_reason(connection.result)}")
        authority = self.settings.certificate_authority
        context = ssl.create_default_context(cafile=str(authority) if authority else None)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=server.name)

    def _bind_simple(self, connection: ldap3.Connection) -> None:
        if not connection.bind(read_server_info=False):
            raise OSError(f"the server refuses us: {_reason(connection.result)}")

    def _bind_sealed(self, connection: ldap3.Connection, server: Server) -> None:
        """GSS-SPNEGO; the server is not believed before it has proved itself, nor without encryption."""
        credential = self.settings.credential
        identity: Any = None
        if isinstance(credential, Password):
            identity = spnego.Password(credential.user, credential.password)
        elif isinstance(credential, Keytab):
            identity = spnego.KerberosKeytab(str(credential.path), principal=credential.principal)
        elif isinstance(credential, CredentialCache) and credential.path is not None:
            identity = spnego.KerberosCCache(str(credential.path))
        context = spnego.client(
            identity,
            hostname=server.name,
            service="ldap",
            protocol=self.settings.mechanism,
            context_req=_CONTEXT,
        )
        connection.sasl_mechanism = "GSS-SPNEGO"
        token = context.step()
        while True:
            result = _negotiate(connection, None, token)
            if result["result"] not in (SUCCESS, _SASL_BIND_IN_PROGRESS):
                raise OSError(f"the server refuses us: {_reason(result)}")
            answer = result["saslCreds"]
            token = context.step(answer) if answer and not context.complete else None
            if result["result"] == SUCCESS:
                break
        wanted = spnego.ContextReq.confidentiality | spnego.ContextReq.integrity
        if not context.complete or context.context_attr & wanted != wanted:
            raise OSError("the server agreed to no encryption")
        connection.bound = True
        connection.socket.seal(context)

    # --- requests -------------------------------------------------------------------------------------------

    def search(
        self,
        base: str,
        *,
        attributes: Sequence[str],
        subtree: bool = False,
        conditions: str = "(objectClass=*)",
        time_limit_s: int = 0,
    ) -> list[Entry]:
        """Everything a search finds, page by page if it looks at a subtree; references elsewhere are left alone."""
        wanted = {name.lower() for name in attributes}
        controls = (
            security_descriptor_control(sdflags=OWNER_GROUP_DACL) if "ntsecuritydescriptor" in wanted else []
        )
        found: list[Entry] = []
        cookie: bytes | None = None
        while True:

            def request(handle: Any, cookie: bytes | None = cookie) -> Mapping[str, Any]:
                handle.search(
                    base,
                    conditions,
                    search_scope=ldap3.SUBTREE if subtree else ldap3.BASE,
                    dereference_aliases=ldap3.DEREF_NEVER,
                    attributes=list(attributes),
                    time_limit=time_limit_s,
                    controls=list(controls) or None,
                    paged_size=self.settings.page_size if subtree else None,
                    paged_cookie=cookie,
                )
                found.extend(
                    Entry(
                        answer["dn"],
                        {name.lower(): values for name, values in answer["raw_attributes"].items()},
                    )
                    for answer in handle.response or ()
                    if answer["type"] == "searchResEntry"
                )
                return dict(handle.result)

            result = self._request(request)
            paging = result.get("controls", {}).get(_PAGED_RESULTS, {}).get("value", {})
            cookie = paging.get("cookie")
            if not cookie:
                return found

    def add(self, dn: str, ldap_class: str, attributes: Mapping[str, Sequence[bytes]]) -> None:
        values = {name: list(given) for name, given in attributes.items() if given}

        def request(handle: Any) -> Mapping[str, Any]:
            handle.add(dn, ldap_class, values)
            return dict(handle.result)

        self._request(request)

    def delete(self, dn: str) -> None:
        def request(handle: Any) -> Mapping[str, Any]:
            handle.delete(dn)
            return dict(handle.result)

        self._request(request)

    def replace(
        self, dn: str, attributes: Mapping[str, Sequence[bytes]], *, descriptor_parts: int | None = None
    ) -> None:
        """Give attributes new values, all or none of them; no value removes an attribute."""
        changes = {name: [(ldap3.MODIFY_REPLACE, list(values))] for name, values in attributes.items()}
        controls = None
        if descriptor_parts is not None:
            controls = security_descriptor_control(sdflags=descriptor_parts)

        def request(handle: Any) -> Mapping[str, Any]:
            handle.modify(dn, changes, controls)
            return dict(handle.result)

        self._request(request)

    def _request(self, request: Callable[[Any], Mapping[str, Any]]) -> Mapping[str, Any]:
        with self._lock:
            if self.handle is None:
                raise DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, "the connection was lost")
            try:
                result = request(self.handle)
            except (LDAPException, OSError) as error:
                self._drop()
                self.last_trouble = str(error)
                raise DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, str(error)) from error
        if result["result"] != SUCCESS:
            code = result["result"]
            raise DirectoryFailure(result_of(code), _reason(result), referred=code == REFERRAL)
        return result


def _reason(result: Mapping[str, Any]) -> str:
    return f"{result['description']} ({result['result']}) {result.get('message') or ''}".strip()


def is_missing(failure: DirectoryFailure) -> bool:
    return failure.result is result_of(NO_SUCH_OBJECT)
