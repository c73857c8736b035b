"""The application: it handles requests by the table of operations.

Everything that applies to all requests is here: authentication, limits on rate and size, headers for browsers, and the
record of changes. The operations themselves are in modules of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from msmq.admission.guesses import Guesses
from msmq.admission.pace import Pace
from msmq.client.connection import Connection
from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.errors import (
    AccessDeniedError,
    MessageNotFoundError,
    MQError,
    MsmqError,
    QueueExistsError,
    QueueNotFoundError,
)
from msmq.web.audit import Audit
from msmq.web.operations import MisuseError, Operation, Table, check, document, from_text
from msmq.web.pages import page_routes
from msmq.web.people import (
    Credential,
    NotAllowedError,
    OidcError,
    People,
    Person,
    Role,
    Session,
    same,
)

if TYPE_CHECKING:
    from msmq.web.oidc import Issuer

COOKIE: Final = "msmq_session"
CSRF: Final = "x-msmq-csrf"
_SLASH: Final = "\x1f"
"""Stands for a slash inside a segment of a path while it is routed."""
MOST_BODY_BYTES: Final = 8 << 20
_DEEPEST: Final = 64
_LONGEST_NOTED: Final = 1_000
_BODY_S: Final = 30.0
_log = logging.getLogger(__name__)

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class ProblemError(Exception):
    """A request that fails, with the answer for it."""

    def __init__(self, status: int, title: str, detail: str = "", **more: str) -> None:
        super().__init__(detail or title)
        self.status = status
        self.told = {"status": status, "title": title, "detail": detail, **more}


@dataclass(slots=True)
class Surroundings:
    """What the operations share."""

    people: People
    audit: Audit
    guesses: Guesses
    pace: Pace
    tls: bool = False
    metrics_open: bool = False
    state: Path | None = None
    certificates: Mapping[str, str] = field(default_factory=dict)
    issuer: Issuer | None = None
    """The issuer that users can log in with, if there is one."""
    oidc_redirect: str = ""
    parts: dict[str, Any] = field(default_factory=dict)
    """The state of single operations, by their names."""


@dataclass(slots=True)
class Call:
    """One request, checked."""

    request: Request
    around: Surroundings
    given: dict[str, Any]
    body: Any
    person: Person | None = None
    session: Session | None = None
    session_secret: str = ""

    @property
    def who(self) -> Person:
        assert self.person is not None, "this operation is for those who are known"
        return self.person

    @property
    def host(self) -> str:
        wanted, hosts = self.given.get("host"), self.around.people.hosts
        if wanted is None:
            return hosts[0]
        if wanted not in hosts:
            raise ProblemError(
                404, "No such host", f"{wanted} is none of the hosts that this console looks at."
            )
        return str(wanted)

    async def mq(self) -> Connection:
        """Return a connection to the queue manager in the name of the caller."""
        return await self.around.people.connection(self.host, self.who.credential)

    @property
    def whence(self) -> str:
        return address_of(self.request)


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else "unix"


def build(around: Surroundings, table: Table) -> ASGIApp:
    """Build the application with all operations of a table, and the pages."""
    told = document(table, version("msmq"))

    async def openapi(request: Request) -> Response:
        return JSONResponse(told)

    by_path: dict[str, dict[str, Operation]] = {}
    for operation in table.operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes = [
        Route(path, _endpoint(around, methods), methods=sorted(methods)) for path, methods in by_path.items()
    ]
    routes.append(Route("/api/openapi.json", openapi, methods=["GET"]))
    app = Starlette(routes=[*routes, *page_routes()], exception_handlers={404: _not_found, 405: _no_method})
    app.router.redirect_slashes = False
    return _Rim(app, around)


def _endpoint(
    around: Surroundings, methods: Mapping[str, Operation]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        try:
            return await _answer(around, operation, request, methods.get("GET"))
        except ProblemError as error:
            return problem(error)

    return endpoint


async def _answer(
    around: Surroundings, operation: Operation, request: Request, reading: Operation | None
) -> Response:
    call = Call(request, around, {}, None)
    changing = operation.method not in ("GET", "HEAD")
    try:
        await _identify(call, operation)
        call.given = _parameters(operation, request)
        if operation.body is not None:
            call.body = await _body(request, operation)
            check(call.body, operation.body, "body")
        if changing and "if-match" in request.headers:
            await _unchanged(call, reading)
        found = await operation.handler(call)
    except (MisuseError, MsmqError, ProblemError) as error:
        told = _told(error)
        if changing and call.person is not None:
            _note(call, operation, f"{told.status} {told}")
        raise told from error
    except Exception as error:
        if changing and call.person is not None:  # nobody knows how much of it was done
            _note(call, operation, f"500 {type(error).__name__}")
        raise
    if changing and call.person is not None:
        _note(call, operation, "done")
    return _with_tag(request, found, operation)


async def _unchanged(call: Call, reading: Operation | None) -> None:
    """Refuse a change of something that has changed since the caller saw it (If-Match)."""
    if reading is None:
        raise ProblemError(412, "It has changed", "This cannot be read, and so has no tag.")
    wanted = {each.name for each in reading.parameters}
    there = Call(
        call.request,
        call.around,
        {name: value for name, value in call.given.items() if name in wanted},
        None,
        call.person,
    )
    tag = _tag(_encoded(await reading.handler(there)))
    given = call.request.headers["if-match"]
    if given.strip() != "*" and tag not in given:
        raise ProblemError(412, "It has changed", "Read it again: it is no longer what If-Match says.")


def _note(call: Call, operation: Operation, outcome: str) -> None:
    secret = {"token", "password", "secret", "body", "messages", "edit"}
    body = call.body if isinstance(call.body, dict) else {}
    # A caller without the right is refused before the request is read.
    given = call.given or {name: _unslashed(value) for name, value in call.request.path_params.items()}
    details = {name: _short(value) for name, value in (given | body).items() if name not in secret}
    call.around.audit.note(
        call.who.sid, call.whence, operation.name, outcome, name=call.who.name, given=details
    )


def _unslashed(segment: str) -> str:
    """Return a segment of a path with its own slashes restored."""
    return segment.replace(_SLASH, "/")


def _short(value: Any) -> Any:
    """Shorten a value for the record: whole documents and long lists are left out."""
    text = json.dumps(value, default=str)
    return value if len(text) <= _LONGEST_NOTED else f"{text[:_LONGEST_NOTED]}\u2026"


def _encoded(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=True, separators=(",", ":")).encode()


def _tag(content: bytes) -> str:
    return f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'


def _with_tag(request: Request, found: Any, operation: Operation) -> Response:
    """Answer with JSON and a tag, so that a client that has it already can be told so."""
    if isinstance(found, Response):
        return found
    if operation.status == 204:
        return Response(status_code=204)
    content = _encoded(found)
    headers = {"cache-control": "no-store"}
    if operation.method == "GET":
        tag = _tag(content)
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    return Response(content, operation.status, headers, "application/json")


# --- who ----------------------------------------------------------------------------------------------------------


async def _identify(call: Call, operation: Operation) -> None:
    """Identify the caller, and check that the caller's role suffices."""
    request, around = call.request, call.around
    given = request.headers.get("authorization", "")
    secret = request.cookies.get(COOKIE, "")
    if given.lower().startswith("bearer "):
        shown = await _shown(around, given[7:].strip(), address_of(request))
        call.person = await known(around, shown, address_of(request))
    elif secret and (session := around.people.session(secret)) is not None:
        call.session, call.session_secret = session, secret
        if request.method not in ("GET", "HEAD") and not same(request.headers.get(CSRF, ""), session.csrf):
            raise ProblemError(
                403, "Not from the console", f"A change by a session needs its secret in {CSRF}."
            )
        call.person = await known(around, session.person.credential, address_of(request), session.person.name)
    elif (sid := _certified(around, request)) is not None:
        if request.method not in ("GET", "HEAD") and _from_elsewhere(request):
            raise ProblemError(403, "Not from the console", "A page of another site may change nothing here.")
        call.person = await known(around, Credential(sid=sid), address_of(request))
    if operation.role is None:
        return
    if call.person is None:
        raise ProblemError(
            401, "Nobody is logged in", "Bring a token, or log in; `msmq token create` makes one."
        )
    if call.person.role < operation.role:
        raise ProblemError(403, "Not allowed", f"This is for those who may {operation.role.name.lower()}.")


async def _shown(around: Surroundings, bearer: str, address: str) -> Credential:
    """Return the credential in a bearer: a token of the queue manager, or one of an issuer, which has two dots."""
    if around.issuer is None or bearer.count(".") != 2:
        return Credential(bearer)
    wait_s = around.guesses.wait_s("", address)
    if wait_s > 0:
        raise ProblemError(429, "Too many wrong tokens", f"Try again in {wait_s:.0f} s.")
    try:
        return await around.issuer.bearer(bearer)
    except NotAllowedError as error:
        raise ProblemError(403, "Not allowed", str(error)) from error
    except OidcError as error:
        around.guesses.failed("", address, "a wrong token of an issuer at the console")
        raise ProblemError(401, "Not known here", str(error)) from error


async def known(around: Surroundings, credential: Credential, address: str, name: str = "") -> Person:
    """Return the person with a credential. Wrong ones cost time, as at every other door."""
    wait_s = around.guesses.wait_s("", address)
    if wait_s > 0:
        raise ProblemError(429, "Too many wrong tokens", f"Try again in {wait_s:.0f} s.")
    try:
        return await around.people.known(credential, name)
    except AccessDeniedError as error:
        around.guesses.failed("", address, "an unknown token at the console")
        raise ProblemError(401, "Not known here", str(error)) from error
    except MsmqError as error:
        raise _told(error) from error


def _certified(around: Surroundings, request: Request) -> str | None:
    """Return the SID for a certificate that TLS has verified."""
    for name in getattr(request.state, "certificate_names", ()):
        if name in around.certificates:
            return around.certificates[name]
    return None


def _from_elsewhere(request: Request) -> bool:
    """True if a page of another site made the browser send the request. A browser shows its certificate whoever asks
    for it, and names the asking site with every change."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        return True
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


# --- what ---------------------------------------------------------------------------------------------------------


def _parameters(operation: Operation, request: Request) -> dict[str, Any]:
    known_names = {each.name for each in operation.parameters if each.place == "query"}
    for name in () if operation.loose else request.query_params:
        if name not in known_names:
            raise MisuseError(f"There is no parameter {name[:80]}.")
    given: dict[str, Any] = {}
    for each in operation.parameters:
        if each.place == "path":
            text = _unslashed(request.path_params[each.name])
        elif each.name in request.query_params:
            text = request.query_params[each.name]
        elif each.required:
            raise MisuseError(f"The parameter {each.name} is missing.")
        else:
            continue
        given[each.name] = from_text(text, each.schema, each.name)
    return given


async def _body(request: Request, operation: Operation) -> Any:
    """Read the body of a request as JSON, if it is small enough and comes in time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and kind not in operation.other_forms:
        raise ProblemError(415, "No JSON", "A body is JSON, and its Content-Type says so.")
    content = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                content += part
                if len(content) > MOST_BODY_BYTES:
                    raise ProblemError(413, "Too large", f"A body has {MOST_BODY_BYTES} bytes at most.")
    except (TimeoutError, ClientDisconnect):
        raise ProblemError(400, "Too slow", f"A body comes within {_BODY_S:.0f} s.") from None
    try:
        value = operation.other_forms.get(kind, json.loads)(bytes(content))
    except (ValueError, RecursionError) as error:
        raise MisuseError(f"The body is no {kind.rpartition('/')[2].upper()}.") from error
    _examine(value, _DEEPEST)
    return value


def _examine(value: Any, left: int) -> None:
    """Refuse bodies that are nested too deeply, and texts with half a character."""
    if left == 0:
        raise MisuseError("The body is nested too deeply.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MisuseError("A text has half of a character in it (a lone surrogate).") from None
    elif isinstance(value, dict | list):
        for member in (*value, *value.values()) if isinstance(value, dict) else value:
            _examine(member, left - 1)


# --- problems -----------------------------------------------------------------------------------------------------


def _told(error: Exception) -> ProblemError:
    """Turn an error into its HTTP form."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, MisuseError):
        return ProblemError(400, "Not as the document says", str(error))
    if isinstance(error, ServerNotAvailableError | ConnectionLostError):
        return ProblemError(503, "The queue manager does not answer", str(error))
    if isinstance(error, MQError):
        status = next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 400)
        more = {"code": f"{error.code:#010x}", "name": error.name}
        return ProblemError(status, "The queue manager refused it", str(error), **more)
    return ProblemError(400, "It could not be done", str(error))


_STATUSES: Final[dict[type[MQError], int]] = {
    QueueNotFoundError: 404,
    MessageNotFoundError: 404,
    AccessDeniedError: 403,
    QueueExistsError: 409,
}


def problem(error: ProblemError) -> Response:
    headers = {"cache-control": "no-store"}
    if error.status == 401:
        headers["www-authenticate"] = 'Bearer realm="msmq"'
    return JSONResponse(error.told, error.status, headers, "application/problem+json")


async def _not_found(request: Request, error: Exception) -> Response:
    return problem(ProblemError(404, "There is nothing here"))


async def _no_method(request: Request, error: Exception) -> Response:
    answer = problem(ProblemError(405, "Not in this way"))
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


class _Rim:
    """Wraps the application: limits the rate of requests, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, around: Surroundings) -> None:
        self._app = app
        self._around = around

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["path"] = "/".join(
            unquote(each).replace("/", _SLASH)
            for each in scope["raw_path"].decode("ascii", "replace").split("/")
        )
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        if self._around.tls:
            headers.append((b"strict-transport-security", b"max-age=31536000"))

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                date = (b"date", formatdate(usegmt=True).encode())
                message["headers"] = [*message.get("headers", ()), *headers, date]
            await send(message)

        address = scope["client"][0] if scope.get("client") else "unix"
        wait_s = self._around.pace.wait_s(address)
        started = time.monotonic()
        try:
            if wait_s > 0:
                answer = problem(ProblemError(429, "Too many requests", f"Try again in {wait_s:.1f} s."))
                answer.headers["retry-after"] = str(int(wait_s) + 1)
                await answer(scope, receive, sending)
                return
            await self._app(scope, receive, sending)
        except Exception:
            _log.exception("a request failed: %s %s", scope["method"], scope["path"])
            raise
        finally:
            _log.debug("%s %s %.3f s", scope["method"], scope["path"], time.monotonic() - started)


__all__ = ["Call", "ProblemError", "Role", "Surroundings", "build", "known"]
