"""Identify users by tokens of an OpenID Connect issuer.

The issuer is found by discovery. A browser logs in by the authorization code flow with PKCE; programs bring a JWT as a
bearer. Signatures are verified with the keys that the issuer publishes, which are fetched again when a token names an
unknown one; only asymmetric algorithms are accepted, so that neither "none" nor a public key used as a shared secret
works.

The issuer gives a user's name and groups. The operator configures what these may do here (``web.oidc_roles``), and in
whose name the queue manager is called (``web.oidc_sids``), where access lists decide, as for everybody else.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import json
import secrets
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from msmq.security.sid import ADMINISTRATORS
from msmq.server.web_settings import WebSettings
from msmq.web.people import Credential, NotAllowedError, OidcError, Role, same

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
_AUTHENTICATED_USERS: Final = "S-1-5-11"
_ANSWER_S: Final = 10.0
_MOST_BYTES: Final = 1 << 20
_MOST_TOKEN_CHARACTERS: Final = 16 << 10
_LOGIN_S: Final = 600.0
_MOST_LOGINS: Final = 1_000
_FRESH_S: Final = 3_600.0
"""How long the published data of an issuer are used before they are fetched again."""
_PAUSE_S: Final = 5.0
"""The shortest time between two fetches of an issuer's keys, whatever tokens name."""


@dataclass(frozen=True, slots=True)
class _Login:
    """A login that has begun, until the browser comes back."""

    binding: str
    nonce: str
    verifier: str
    redirect: str
    until_s: float


@dataclass(frozen=True, slots=True)
class _Published:
    """The published data of an issuer."""

    authorize: str
    token: str
    keys: str
    basic: bool
    """True if a client sends its secret in a header."""
    read_s: float


class Issuer:
    """One issuer."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._issuer = settings.oidc_issuer
        self._published: _Published | None = None
        self._keys: KeySet | None = None
        self._keys_read_s = 0.0
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._asking = asyncio.Lock()

    # --- logging in with a browser ------------------------------------------------------------------------------

    async def begin(self, redirect: str) -> tuple[str, str]:
        """Begin a login. Returns where the browser must go, and what it must show when it comes back."""
        published = await self._discovered()
        state, binding, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        self._logins[state] = _Login(binding, nonce, verifier, redirect, time.monotonic() + _LOGIN_S)
        while len(self._logins) > _MOST_LOGINS:
            self._logins.popitem(last=False)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect,
            "scope": self._settings.oidc_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(published.authorize).query else "?"
        return published.authorize + separator + urlencode(asked), binding

    async def finish(self, state: str, code: str, binding: str) -> Credential:
        """Finish a login: the browser has come back with a code. Returns the user's credential."""
        login = self._logins.pop(state, None)
        if login is None or time.monotonic() > login.until_s:
            raise OidcError("This login was not begun here, or too long ago.")
        if not same(binding, login.binding):
            raise OidcError("This login was begun by another browser.")
        published = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": login.redirect,
            "code_verifier": login.verifier,
        }
        headers = {}
        client, secret = self._settings.oidc_client_id, self._secret()
        if secret and published.basic:
            said = f"{quote(client, safe='')}:{quote(secret, safe='')}".encode()
            headers["authorization"] = "Basic " + base64.b64encode(said).decode()
        else:
            form |= {"client_id": client, **({"client_secret": secret} if secret else {})}
        answer = await _asked(published.token, urlencode(form).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcError("The issuer gave no identity for this code.")
        claims = await self._verified(token, client)
        if not same(str(claims.get("nonce", "")), login.nonce):
            raise OidcError("The identity is not of this login.")
        if claims.get("azp", client) != client:
            raise OidcError("The identity was issued to another client.")
        return self._credential(claims)

    def _secret(self) -> str:
        file = self._settings.oidc_client_secret_file
        try:
            return Path(file).read_text(encoding="utf-8").strip() if file else ""
        except OSError as error:
            raise OidcError(f"web.oidc_client_secret_file cannot be read: {error.strerror}.") from error

    # --- tokens -------------------------------------------------------------------------------------------------

    async def bearer(self, token: str) -> Credential:
        """Return the credential of the bearer of a JWT."""
        settings = self._settings
        return self._credential(
            await self._verified(token, settings.oidc_audience or settings.oidc_client_id)
        )

    async def _verified(self, token: str, audience: str) -> dict[str, Any]:
        if len(token) > _MOST_TOKEN_CHARACTERS:
            raise OidcError("The token is too long.")
        try:
            found = await self._opened(token)
            jwt.JWTClaimsRegistry(
                leeway=self._settings.oidc_leeway_s,
                iss={"essential": True, "value": self._issuer},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
                sub={"essential": True},
            ).validate(found.claims)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OidcError(f"The token is not to be believed: {error}.") from error
        return found.claims

    async def _opened(self, token: str) -> jwt.Token:
        """Verify the signature of a token; keys are fetched again if it names an unknown one."""
        keys = await self._current_keys()
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            fresh = await self._current_keys(anew=True)
            if fresh is keys:
                raise
            return jwt.decode(token, fresh, algorithms=ALGORITHMS)

    def _credential(self, claims: Mapping[str, Any]) -> Credential:
        """Return what a user may do here, and in whose name."""
        settings = self._settings
        name = str(claims.get(settings.oidc_name_claim) or claims["sub"])[:200]
        given = _claim(claims, settings.oidc_roles_claim)
        groups = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        said = [group for group in groups if isinstance(group, str)]
        roles = [Role[settings.oidc_roles[group].upper()] for group in said if group in settings.oidc_roles]
        if not roles:
            raise NotAllowedError(f"{name} is in no group that has a role here.")
        role = max(roles)
        usual = str(ADMINISTRATORS) if role is Role.ADMINISTER else _AUTHENTICATED_USERS
        sid = next((settings.oidc_sids[each] for each in (name, *said) if each in settings.oidc_sids), usual)
        return Credential(sid=sid, name=name, role=role)

    # --- what the issuer publishes ------------------------------------------------------------------------------

    async def _discovered(self) -> _Published:
        async with self._asking:
            found, now_s = self._published, time.monotonic()
            if found is None or now_s - found.read_s > _FRESH_S:
                told = await _asked(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
                if told.get("issuer") != self._issuer:
                    raise OidcError("Whoever answers at web.oidc_issuer is another issuer.")
                ways = told.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
                authorize, token, keys = (
                    str(told.get(name, ""))
                    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
                )
                for place in (authorize, token, keys):
                    check_url(place)
                basic = "client_secret_basic" in ways
                found = self._published = _Published(authorize, token, keys, basic, now_s)
            return found

    async def _current_keys(self, *, anew: bool = False) -> KeySet:
        published = await self._discovered()
        async with self._asking:
            age_s = time.monotonic() - self._keys_read_s
            if self._keys is None or age_s > _FRESH_S or (anew and age_s > _PAUSE_S):
                told = await _asked(published.keys)
                given = told.get("keys")
                keys = [each for each in given if _signs(each)] if isinstance(given, list) else []
                try:
                    self._keys = KeySet.import_key_set({"keys": keys})
                except (JoseError, ValueError, KeyError) as error:
                    raise OidcError(f"The issuer publishes no keys: {error}.") from error
                self._keys_read_s = time.monotonic()
            return self._keys


def _signs(key: Any) -> bool:
    """True if a key can verify signatures. A shared secret cannot, as everybody could know it."""
    return isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig"


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by a path with dots where the issuer nests them (``realm_access.roles``)."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def check_url(url: str) -> None:
    """Check that an issuer is called by TLS, or is on this computer."""
    parts = urlsplit(url)
    try:
        inside = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        inside = False
    if parts.scheme != "https" and not (parts.scheme == "http" and inside):
        raise OidcError(f"{url[:200]} is no https address.")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the published data of an issuer are where it says."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


async def _asked(
    url: str, form: bytes | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Fetch JSON from an issuer."""
    check_url(url)
    request = urllib.request.Request(url, form, {"accept": "application/json", **(headers or {})})

    def ask() -> bytes:
        with _opener.open(request, timeout=_ANSWER_S) as answer:
            content: bytes = answer.read(_MOST_BYTES + 1)
            return content

    try:
        content = await asyncio.to_thread(ask)
        told = json.loads(content) if len(content) <= _MOST_BYTES else None
    except urllib.error.HTTPError as error:
        error.close()
        raise OidcError(f"The issuer refused it: {error.code}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise OidcError(f"The issuer does not answer: {error}.") from error
    if not isinstance(told, dict):
        raise OidcError("The issuer answers something else than was asked.")
    return told
