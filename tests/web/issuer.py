"""A small issuer of OpenID Connect: real HTTP, real keys, and whatever wrong token a test wants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT, SECRET = "msmq-console", "s3cret/with:signs"
PEOPLE = {
    "alice": {"preferred_username": "alice", "groups": ["queue-admins", "staff"]},
    "bob": {"preferred_username": "bob", "groups": ["readers"]},
    "eve": {"preferred_username": "eve", "groups": ["strangers"]},
}


class Issuer:
    """Issues tokens to those who say a name of :data:`PEOPLE`."""

    def __init__(self) -> None:
        self.key: Any = _first_key()
        self.published: list[Any] = [self.key]
        self.codes: dict[str, dict[str, str]] = {}
        self.key_fetches = 0
        self.nonce: str | None = None
        """What is said instead of the nonce of a login."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def rotate(self, *, keep: bool = True) -> None:
        """Sign with another key from now on."""
        self.key = ECKey.generate_key("P-256", {"kid": f"next{len(self.published)}", "use": "sig"})
        self.published = [*(self.published if keep else ()), self.key]

    def claims(self, person: str = "alice", **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        made = {"iss": self.url, "aud": CLIENT, "sub": f"id-{person}", "iat": now, "exp": now + 300}
        made |= PEOPLE[person] | changes
        return {name: value for name, value in made.items() if value is not None}

    def token(self, person: str = "alice", **changes: Any) -> str:
        return self.signed(self.claims(person, **changes))

    def signed(self, claims: dict[str, Any], key: Any = None, **header: Any) -> str:
        key = key or self.key
        usual = {"alg": "ES256" if isinstance(key, ECKey) else "RS256", "kid": key.kid}
        return jwt.encode(usual | header, claims, key)

    def confused(self) -> str:
        """Signed with the text of the public key as if it were a shared secret."""
        text = self._written("HS256")
        return (
            f"{text}.{_base64(hmac.digest(self.published[0].as_pem(private=False), text.encode(), 'sha256'))}"
        )

    def unsigned(self) -> str:
        return self._written("none") + "."

    def _written(self, algorithm: str) -> str:
        parts = [{"alg": algorithm, "kid": "one"}, self.claims()]
        return ".".join(_base64(json.dumps(part).encode()) for part in parts)

    # --- over HTTP ----------------------------------------------------------------------------------------------

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def code(self, query: dict[str, str], person: str) -> str:
        """Where a browser is sent whose user has said who they are."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query | {"person": person}
        more = {"code": code, "state": query["state"], "session_state": "x", "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(more)}"

    def exchange(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        said = base64.b64decode(authorization.removeprefix("Basic ")).decode().split(":")
        query = self.codes.pop(form.get("code", ""), None)
        if [unquote(part) for part in said] != [CLIENT, SECRET] or query is None:
            return None
        challenge = _base64(hashlib.sha256(form["code_verifier"].encode()).digest())
        if challenge != query["code_challenge"] or form["redirect_uri"] != query["redirect_uri"]:
            return None
        nonce = query["nonce"] if self.nonce is None else self.nonce
        return {
            "access_token": "x",
            "token_type": "Bearer",
            "id_token": self.token(query["person"], nonce=nonce),
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/.well-known/openid-configuration":
                    self._json(issuer.discovery())
                elif path == "/keys":
                    issuer.key_fetches += 1
                    self._json({"keys": [key.as_dict(private=False) for key in issuer.published]})
                elif path == "/authorize":
                    page = (
                        "<!doctype html><title>Issuer</title>"
                        f'<form method=post action="{escape(self.path)}">'
                        "<label>Name <input name=person></label><button>Sign in</button></form>"
                    )
                    self._answer(200, page.encode(), "text/html")
                else:
                    self._answer(404, b"", "text/plain")

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                form = _flat(self.rfile.read(length).decode())
                parts = urlsplit(self.path)
                if parts.path == "/authorize":
                    self.send_response(303)
                    self.send_header("location", issuer.code(_flat(parts.query), form["person"]))
                    self.end_headers()
                    return
                made = issuer.exchange(form, self.headers.get("authorization", ""))
                if made is None:
                    self._answer(400, b'{"error": "invalid_grant"}', "application/json")
                else:
                    self._json(made)

            def _json(self, value: Any) -> None:
                self._answer(200, json.dumps(value).encode(), "application/json")

            def _answer(self, status: int, content: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@cache
def _first_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _flat(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


@contextmanager
def issuing() -> Iterator[Issuer]:
    made = Issuer()
    made.start()
    try:
        yield made
    finally:
        made.stop()
