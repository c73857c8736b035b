"""Ways to log in: the list of them, and the one through an issuer of OpenID Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import RedirectResponse, Response

from msmq.web.application import Call, ProblemError, address_of, known
from msmq.web.hosts import open_session
from msmq.web.operations import BOOLEAN, TEXT, Parameter, Table
from msmq.web.people import NotAllowedError, OidcError

if TYPE_CHECKING:
    from msmq.web.oidc import Issuer

TABLE: Final = Table()
_BINDING: Final = "msmq_login"
_CALLBACK: Final = "/api/oidc/callback"
_SECRET: Final = {"type": "string", "maxLength": 4096}


@TABLE.add(
    "GET", "/api/ways", "How one can log in here.", role=None,
    reply={"type": "object", "required": ["token", "oidc"], "properties": {"token": BOOLEAN, "oidc": BOOLEAN}},
)  # fmt: skip
async def list_ways(call: Call) -> Any:
    return {"token": True, "oidc": call.around.issuer is not None}


@TABLE.add(
    "GET", "/api/oidc/login", "Go to the issuer and log in there.", role=None, kind="text/plain", status=303
)
async def begin_oidc(call: Call) -> Any:
    issuer = _issuer(call)
    try:
        url, binding = await issuer.begin(
            call.around.oidc_redirect or str(call.request.base_url)[:-1] + _CALLBACK
        )
    except OidcError as error:
        raise ProblemError(503, "The issuer cannot be asked", str(error)) from error
    answer = RedirectResponse(url, 303, {"cache-control": "no-store"})
    # Lax, because the issuer sends the browser back.
    answer.set_cookie(
        _BINDING, binding, max_age=600, httponly=True, samesite="lax", secure=call.around.tls, path=_CALLBACK
    )
    return answer


@TABLE.add(
    "GET", _CALLBACK, "Come back from the issuer; the answer sets a cookie.", role=None, kind="text/plain",
    status=303, loose=True,
    parameters=(
        Parameter("state", _SECRET, "Which login this is."),
        Parameter("code", _SECRET, "What the issuer gave."),
        Parameter("error", TEXT, "Why it gave nothing."),
    ),
)  # fmt: skip
async def finish_oidc(call: Call) -> Any:
    issuer, address = _issuer(call), address_of(call.request)
    wait_s = call.around.guesses.wait_s("", address)
    if wait_s > 0:
        raise ProblemError(429, "Too many wrong logins", f"Try again in {wait_s:.0f} s.")
    try:
        if "error" in call.given or not call.given.get("code"):
            raise OidcError(f"The issuer said: {call.given.get('error', 'nothing')[:100]}.")
        binding = call.request.cookies.get(_BINDING, "")
        credential = await issuer.finish(call.given.get("state", ""), call.given["code"], binding)
    except NotAllowedError as error:
        call.around.audit.note("", address, "log_in", f"refused: {error}", name="")
        return _back("/login?refused=1")
    except OidcError as error:  # anybody can send this, so it costs time and leaves no record of its own
        call.around.guesses.failed("", address, f"a login by an issuer at the console: {error}")
        return _back("/login?refused=1")
    _, admit = open_session(call, await known(call.around, credential, address))
    answer = _back("/")
    admit(answer)
    return answer


def _back(path: str) -> Response:
    answer = RedirectResponse(path, 303, {"cache-control": "no-store"})
    answer.delete_cookie(_BINDING, path=_CALLBACK, httponly=True, samesite="lax")
    return answer


def _issuer(call: Call) -> Issuer:
    if call.around.issuer is None:
        raise ProblemError(404, "No issuer", "Nobody is configured by whose word one can log in here.")
    return call.around.issuer
