"""One LDAP connection that all operations share (MS-MQDSSM 3.1.1.6, 3.1.6.18, 3.1.6.21).

An operation prepares the connection and shuts it down again; of operations that overlap, the first opens it and the
last closes it. Callers that expect many operations hold it (:meth:`CachedConnection.hold`); then a connection that the
server has closed meanwhile is opened again. Several threads may use it: requests take turns.

No wait is longer than the limits of the settings. The controller that last answered is asked first; one that does not
answer in time is left for another, where a search is repeated. One that answers slowly is left too if another accepts
us at once, because the waits of an operation's requests add up. A search for many objects may take longer, as long as
its controller accepts other connections.

Failures are results (:class:`msmq.directory.results.DirectoryFailure`); no exception of ldap3 or Kerberos leaves this
module.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

import ldap3
import spnego
from ldap3.core.exceptions import LDAPException
from ldap3.protocol.microsoft import security_descriptor_control
from ldap3.protocol.sasl.sasl import send_sasl_negotiation
from spnego.exceptions import SpnegoError

from msmq.directory import discovery, exchange, patience, race
from msmq.directory.exchange import Entry
from msmq.directory.results import NO_SUCH_OBJECT, REFERRAL, SUCCESS, DirectoryFailure, generic, result_of
from msmq.directory.sealed_stream import Channel, Observer
from msmq.directory.settings import CredentialCache, Keytab, Password, Protection, Server, Settings
from msmq.manager.directory import DirectoryResult

OWNER_GROUP_DACL: Final = 7
"""The parts of a descriptor that are read: all but the SACL, for which an ordinary user lacks the privilege."""
SEARCH_TIME_LIMIT_S: Final = 120
_SASL_BIND_IN_PROGRESS: Final = 14
_GIVE_UP_S: Final = 2.0
"""After a slow failure to connect, operations fail at once for this long, instead of each waiting by itself."""
_SLOW_S: Final = 0.5
"""A controller that takes longer for one object is slow: an operation of ten requests would take too long."""
_START_TLS: Final = "1.3.6.1.4.1.1466.20037"
_WAVE: Final = 64
"""The most requests sent before an answer is awaited."""
_CONTEXT: Final = (
    spnego.ContextReq.mutual_auth
    | spnego.ContextReq.replay_detect
    | spnego.ContextReq.sequence_detect
    | spnego.ContextReq.confidentiality
    | spnego.ContextReq.integrity
)

# The stubs of ldap3 do not declare this one.
_negotiate: Final[Callable[..., Mapping[str, Any]]] = send_sasl_negotiation


@dataclass(slots=True, eq=False)
class _Job:
    """A request that a thread waits for."""

    request: exchange.Request
    repeatable: bool
    limit_s: float | None
    """How long it may take while its server works; None for a request that is answered at once."""
    answer: exchange.Answer | None = None
    failure: DirectoryFailure | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.failure is not None


class CachedConnection:
    """CachedLDAPConnection, with ``handle`` and ``ref_count`` as in the specification."""

    def __init__(self, settings: Settings, observe: Observer | None = None) -> None:
        self.settings = settings
        self.handle: ldap3.Connection | None = None
        self.ref_count = 0
        self.last_trouble = ""
        """Why the last attempt to connect failed, in words."""
        self._observe = observe
        self._lock = threading.RLock()
        self._line = threading.Lock()
        self._jobs: list[_Job] = []
        """Requests that wait for their turn."""
        self._answered = ""
        """Name of the server that last accepted us."""
        self._silent: set[str] = set()
        """Names of servers that did not answer; they are asked last."""
        self._discovered: Sequence[Server] = ()
        self._failed_at: float | None = None
        self._heard_at = 0.0
        self._is_slow = False
        self._open_lists = 0
        """The number of open searches, whose next pages only this connection can get."""
        self._server: Server | None = None
        """The server at the other end."""

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
        """Shut Down an LDAP Connection: the last user closes it."""
        with self._lock:
            self.ref_count -= 1
            if self.ref_count == 0:
                self._drop()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Use the connection for one operation, which fails with DirectoryNotConnected if there is none."""
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
        """Keep the connection open over many operations, even if it cannot be opened at the moment."""
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
        handle, self.handle = self.handle, None
        self._is_slow = False
        if handle is not None:
            _discard(handle)

    def _connect(self, limit_s: float | None = None) -> ldap3.Connection:
        if self._failed_at is not None and time.monotonic() - self._failed_at < _GIVE_UP_S:
            raise generic(self.last_trouble)
        began = time.monotonic()
        deadline = began + (self.settings.connect_timeout_s if limit_s is None else limit_s)
        try:
            servers = self._in_order(self.settings.servers or self._discover())
            connection = self._connect_to_one(servers, deadline - time.monotonic())
        except DirectoryFailure as failure:
            now = time.monotonic()
            self.last_trouble = failure.reason
            self._failed_at = now if now - began > race.HEAD_START_S else None
            raise
        self._failed_at = None
        return connection

    def _in_order(self, servers: Sequence[Server]) -> list[Server]:
        """The servers to try: the one that last answered first, those that did not answer last."""
        return sorted(
            servers, key=lambda server: (server.name in self._silent, server.name != self._answered)
        )

    def _connect_to_one(self, servers: Sequence[Server], limit_s: float) -> ldap3.Connection:
        if not servers:
            raise generic("no domain controller is configured")
        try:
            number, connection = race.first(
                [partial(self._connect_to, server) for server in servers], limit_s, _discard
            )
        except race.AllFailedError as failed:
            self._silent.clear()  # none is better than the others
            troubles = [
                f"{server.name}: {error or f'timed out: no answer within {limit_s:.0f} s'}"
                for server, error in zip(servers, failed.reasons, strict=True)
            ]
            raise generic("; ".join(troubles)) from failed
        self._server = servers[number]
        self._answered = self._server.name
        self._silent.update(server.name for server in servers[:number])
        self._silent.discard(self._answered)
        return connection

    def _look_for_a_quicker_one(self) -> None:
        """Change to another controller, if one that is not known to be slow or silent accepts us within a moment."""
        self._is_slow = False
        others = [
            server
            for server in self.settings.servers or self._discovered
            if server.name != self._answered and server.name not in self._silent
        ]
        if not others:
            return
        try:
            number, quicker = race.first(
                [partial(self._connect_to, server) for server in others], race.HEAD_START_S, _discard
            )
        except race.AllFailedError:
            self._silent.update(server.name for server in others)  # no better, so not tried again
            return
        self._drop()
        self._silent.add(self._answered)
        self.handle, self._server = quicker, others[number]
        self._answered = self._server.name

    def _discover(self) -> Sequence[Server]:
        """Look up the controllers in the DNS; while it does not answer, the last result is used."""
        if not self.settings.domain:
            return ()
        limit_s = self.settings.connect_timeout_s
        try:
            _, self._discovered = race.first(
                [partial(discovery.servers_of, self.settings)], limit_s / 2 if self._discovered else limit_s
            )
        except race.AllFailedError as failed:
            if not self._discovered:
                reason = (
                    failed.reasons[0] or f"the DNS has no controllers of {self.settings.domain}: timed out"
                )
                raise generic(str(reason)) from failed
        return self._discovered

    def _connect_to(self, server: Server) -> ldap3.Connection:
        """Connect and bind. Raises OSError with an explanation, whatever goes wrong."""
        try:
            return self._bound_to(server)
        except (LDAPException, SpnegoError) as error:
            raise OSError(str(error)) from error
        except OSError:
            raise
        except Exception as error:
            # There are several Kerberos libraries, each with its own exceptions.
            raise OSError(f"{type(error).__name__}: {error}") from error

    def _bound_to(self, server: Server) -> ldap3.Connection:
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
        if settings.protection is Protection.NONE and not _is_here(server):
            raise OSError("a password is not sent without encryption: protection is seal, tls or start-tls")
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
            # Do not hold small requests back until the one before has been acknowledged.
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
        """Start TLS and check the server's certificate. Not left to ldap3, which uses functions that Python has
        deprecated."""
        if self.settings.protection is Protection.START_TLS and not connection.extended(_START_TLS):
            raise OSError(f"the server refuses TLS: {_reason(connection.result)}")
        authority = self.settings.certificate_authority
        context = ssl.create_default_context(cafile=str(authority) if authority else None)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=server.name)

    def _bind_simple(self, connection: ldap3.Connection) -> None:
        if not connection.bind(read_server_info=False):
            raise OSError(f"the server refuses us: {_reason(connection.result)}")

    def _bind_sealed(self, connection: ldap3.Connection, server: Server) -> None:
        """Bind by GSS-SPNEGO. Fails unless the server has proved its identity and agrees to encryption."""
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
        """Everything that a search finds, page by page if it covers a subtree; referrals are ignored."""
        found: list[Entry] = []
        for page in self.pages(
            base, attributes=attributes, subtree=subtree, conditions=conditions, time_limit_s=time_limit_s
        ):
            found += page
        return found

    def pages(
        self,
        base: str,
        *,
        attributes: Sequence[str],
        subtree: bool = True,
        conditions: str = "(objectClass=*)",
        time_limit_s: int = 0,
    ) -> Iterator[list[Entry]]:
        """Like :meth:`search`, page by page. The caller keeps the connection open meanwhile."""
        wanted = {name.lower() for name in attributes}
        controls = (
            security_descriptor_control(sdflags=OWNER_GROUP_DACL) if "ntsecuritydescriptor" in wanted else []
        )
        page = exchange.Page(self.settings.page_size) if subtree else None
        with self._list_open() if subtree else nullcontext():
            while True:
                try:
                    request = exchange.search(
                        base,
                        conditions,
                        attributes,
                        subtree=subtree,
                        time_limit_s=time_limit_s,
                        controls=controls,
                        page=page,
                    )
                except LDAPException as error:
                    raise generic(f"the search cannot be made: {error}") from error
                answer = self._request(
                    request,
                    repeatable=page is None or not page.cookie,
                    limit_s=self.settings.search_timeout_s if subtree else None,
                )
                yield answer.found
                if page is None or not answer.cookie:
                    return
                page = page._replace(cookie=answer.cookie)

    @contextmanager
    def _list_open(self) -> Iterator[None]:
        """Stay with this controller until all pages of a search are read."""
        with self._line:
            self._open_lists += 1
        try:
            yield
        finally:
            with self._line:
                self._open_lists -= 1

    def add(self, dn: str, ldap_class: str, attributes: Mapping[str, Sequence[bytes]]) -> None:
        self._request(exchange.add(dn, ldap_class, attributes))

    def delete(self, dn: str) -> None:
        self._request(exchange.delete(dn))

    def replace(
        self, dn: str, attributes: Mapping[str, Sequence[bytes]], *, descriptor_parts: int | None = None
    ) -> None:
        """Set attributes, all or none; an attribute without values is removed."""
        controls = []
        if descriptor_parts is not None:
            controls = security_descriptor_control(sdflags=descriptor_parts)
        self._request(exchange.replace(dn, attributes, controls))

    def _request(
        self, request: exchange.Request, *, repeatable: bool = False, limit_s: float | None = None
    ) -> exchange.Answer:
        """Send a request and return its answer. A server that does not answer is given up, one that is busy with the
        request after ``limit_s``; a request that can be repeated without harm is sent to another server.

        Requests of several threads are sent together: the thread that finds the connection free sends all that have
        queued up, so no request waits for the answers to others.
        """
        if patience.is_over():
            raise generic(patience.TOO_SLOW)
        if request.question is None:
            patience.finish()
        job = _Job(request, repeatable, limit_s)
        with self._line:
            self._jobs.append(job)
        with self._lock:
            while not job.done:
                wave = self._next_wave()
                try:
                    self._serve(wave)
                finally:
                    for each in wave:
                        if not each.done:
                            each.failure = generic("the request could not be sent")
        if job.failure is not None:
            raise job.failure
        assert job.answer is not None
        code = job.answer.result["result"]
        if code != SUCCESS:
            raise DirectoryFailure(result_of(code), _reason(job.answer.result), referred=code == REFERRAL)
        return job.answer

    def _next_wave(self) -> list[_Job]:
        """The next requests to send: small ones together, one that may take long by itself."""
        with self._line:
            first, *others = self._jobs
            wave = [first]
            if first.limit_s is None:
                wave += [job for job in others if job.limit_s is None][: _WAVE - 1]
            self._jobs = [job for job in self._jobs if job not in wave]
        return wave

    def _serve(self, wave: list[_Job]) -> None:
        if self._is_slow and not self._open_lists:
            self._look_for_a_quicker_one()
        failure = self._exchange(wave)
        again = [job for job in wave if not job.done and job.repeatable]
        if again:
            try:
                self.handle = self._connect(self._short_s)
            except DirectoryFailure as refused:
                failure = DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, refused.reason)
            else:
                failure = self._exchange(again)
        for job in wave:
            if not job.done:
                job.failure = failure

    def _exchange(self, wave: Sequence[_Job]) -> DirectoryFailure | None:
        """Send requests and take their answers. Returns why some have none, or None."""
        handle = self.handle
        if handle is None:
            return DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, "the connection was lost")
        channel = self._channel
        channel.settimeout(self._short_s)
        channel.still_there = partial(self._is_worth_waiting, wave, time.monotonic())
        self._heard_at = time.monotonic()
        asked: dict[Hashable, list[_Job]] = {}
        for job in wave:
            asked.setdefault(job.request.question or id(job), []).append(job)
        together = list(asked.values())

        def done(number: int, answer: exchange.Answer) -> None:
            now = time.monotonic()
            for job in together[number]:
                job.answer = answer
            self._is_slow |= wave[0].limit_s is None and now - self._heard_at > _SLOW_S
            self._heard_at = now

        try:
            exchange.exchange(handle, [jobs[0].request for jobs in together], done)
        except (LDAPException, OSError) as error:
            self._drop()
            self._silent.add(self._answered)
            self.last_trouble = f"{self._answered}: {error}"
            return DirectoryFailure(DirectoryResult.DIRECTORY_NOT_CONNECTED, self.last_trouble)
        return None

    def _is_worth_waiting(self, wave: Sequence[_Job], since: float) -> bool:
        """Whether a server that has been silent for half of the limit gets more time. It does for a search that may
        take long, if the server works, and for a change, which cannot be sent to another server."""
        limit_s = wave[0].limit_s
        if limit_s is not None:
            return self._works(since + limit_s)
        left = [job for job in wave if not job.done]
        silent_s = time.monotonic() - self._heard_at
        return silent_s < self.settings.receive_timeout_s and not all(job.repeatable for job in left)

    def _works(self, until: float) -> bool:
        """Whether a server that is silent, because it was asked something big, still accepts connections. One that
        hangs does not."""
        server = self._server
        if server is None or time.monotonic() > until:
            return False
        try:
            _, other = race.first([partial(self._connect_to, server)], self._short_s, _discard)
        except race.AllFailedError:
            return False
        _discard(other)
        return True

    @property
    def _short_s(self) -> float:
        """Half of the time limit: one half for waiting in silence, the other for trying to reach the server in another
        way."""
        return self.settings.receive_timeout_s / 2


def _discard(connection: ldap3.Connection) -> None:
    """Unbind and close, ignoring errors."""
    socket = connection.socket
    with suppress(LDAPException, OSError):
        connection.unbind()
    if socket is not None:
        socket.close()  # ldap3 leaves it open if the unbind failed


def _is_here(server: Server) -> bool:
    """Whether a server is on this computer, so that nobody can listen in between."""
    try:
        return ip_address(server.address or server.name).is_loopback
    except ValueError:
        return False


def _reason(result: Mapping[str, Any]) -> str:
    return f"{result['description']} ({result['result']}) {result.get('message') or ''}".strip()


def is_missing(failure: DirectoryFailure) -> bool:
    return failure.result is result_of(NO_SUCH_OBJECT)
