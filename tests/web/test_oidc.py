"""The word of an issuer: what is believed, and every kind of token that is not."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey

from msmq.server.web_settings import WebSettings
from msmq.web import oidc as module
from msmq.web.oidc import Issuer as Believed
from msmq.web.oidc import check_url
from msmq.web.people import NotAllowedError, OidcError, Role
from tests.web.issuer import CLIENT, SECRET, Issuer, issuing

ROLES = {"queue-admins": "administer", "staff": "look", "readers": "look"}
BACK = "http://127.0.0.1:1811/api/oidc/callback"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


@pytest.fixture
def settings(issuer: Issuer, tmp_path: Path) -> WebSettings:
    (tmp_path / "secret").write_text(SECRET + "\n")
    return WebSettings(
        oidc_issuer=issuer.url,
        oidc_client_id=CLIENT,
        oidc_client_secret_file=str(tmp_path / "secret"),
        oidc_roles=ROLES,
    )


def ask(settings: WebSettings, question: Callable[[Believed], Awaitable[Any]]) -> Any:
    async def asked() -> Any:
        return await question(Believed(settings))

    return asyncio.run(asked())


def test_groups_say_roles_and_sids(issuer: Issuer, settings: WebSettings) -> None:
    alice = ask(settings, lambda it: it.bearer(issuer.token("alice")))
    assert (alice.name, alice.role, alice.sid) == ("alice", Role.ADMINISTER, "S-1-5-32-544")
    bob = ask(settings, lambda it: it.bearer(issuer.token("bob")))
    assert (bob.name, bob.role, bob.sid) == ("bob", Role.LOOK, "S-1-5-11")
    named = replace(settings, oidc_sids={"bob": "S-1-5-21-1", "readers": "S-1-5-21-2"})
    assert ask(named, lambda it: it.bearer(issuer.token("bob"))).sid == "S-1-5-21-1"
    with pytest.raises(NotAllowedError, match="eve"):
        ask(settings, lambda it: it.bearer(issuer.token("eve")))
    nested = replace(settings, oidc_roles_claim="realm_access.roles", oidc_name_claim="missing")
    token = issuer.token("eve", realm_access={"roles": ["readers", 7]})
    found = ask(nested, lambda it: it.bearer(token))
    assert (found.name, found.role) == ("id-eve", Role.LOOK)
    for groups in (None, 7, {"readers": 1}, [["readers"]], ""):
        with pytest.raises(NotAllowedError):
            ask(settings, lambda it, given=groups: it.bearer(issuer.token("bob", groups=given)))
    one = ask(settings, lambda it: it.bearer(issuer.token("bob", groups="readers")))
    assert one.role is Role.LOOK


WRONG: dict[str, Callable[[Issuer], str]] = {
    "another issuer": lambda it: it.token(iss="https://elsewhere.example"),
    "no issuer": lambda it: it.token(iss=None),
    "another audience": lambda it: it.token(aud="somebody-else"),
    "no audience": lambda it: it.token(aud=None),
    "over": lambda it: it.token(exp=int(time.time()) - 60),
    "without an end": lambda it: it.token(exp=None),
    "an end that is no time": lambda it: it.token(exp="tomorrow"),
    "not yet": lambda it: it.token(nbf=int(time.time()) + 600),
    "issued tomorrow": lambda it: it.token(iat=int(time.time()) + 86_400),
    "of nobody": lambda it: it.token(sub=None),
    "unsigned": lambda it: it.unsigned(),
    "the public key as a secret": lambda it: it.confused(),
    "a key of one's own": lambda it: it.signed(it.claims(), RSAKey.generate_key(2048, {"kid": "one"})),
    "an unknown key": lambda it: it.signed(it.claims(), RSAKey.generate_key(2048, {"kid": "other"})),
    "a changed payload": lambda it: ".".join(
        (*it.token("alice").split(".")[:2], it.token("bob").split(".")[2])
    ),
    "a key in the header": lambda it: it.signed(
        it.claims(),
        (key := RSAKey.generate_key(2048, {"kid": "mine"})),
        jwk=key.as_dict(private=False),
    ),
    "no JWT": lambda it: "a.b.c",
    "empty parts": lambda it: "..",
    "a header that is a list": lambda it: base64.urlsafe_b64encode(b"[]").decode().rstrip("=") + ".e30.e30",
    "a deep header": lambda it: base64.urlsafe_b64encode(b"[" * 9_000).decode() + ".e30.e30",
    "a payload that is no object": lambda it: (
        it.signed({}).split(".")[0] + ".W10." + it.signed({}).split(".")[2]
    ),
    "very long": lambda it: it.token(filler="x" * 20_000),
    "letters of elsewhere": lambda it: "\ud800.ä.\0",
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_token(issuer: Issuer, settings: WebSettings, kind: str) -> None:
    token = WRONG[kind](issuer)
    with pytest.raises(OidcError):
        ask(settings, lambda it: it.bearer(token))


def test_clocks_may_differ_a_little(issuer: Issuer, settings: WebSettings) -> None:
    now = int(time.time())
    late = issuer.token(exp=now - 10, iat=now - 400)
    assert ask(settings, lambda it: it.bearer(late)).name == "alice"
    with pytest.raises(OidcError):
        ask(replace(settings, oidc_leeway_s=0), lambda it: it.bearer(late))


def test_keys_are_changed_and_old_ones_forgotten(
    issuer: Issuer, settings: WebSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def question(it: Believed) -> None:
        old = issuer.token()
        await it.bearer(old)
        issuer.rotate()
        with pytest.raises(OidcError):
            await it.bearer(issuer.token())
        assert issuer.key_fetches == 1, "whoever names keys of their own does not have them fetched each time"
        monkeypatch.setattr(module, "_PAUSE_S", 0.0)
        assert (await it.bearer(issuer.token())).name == "alice"
        assert (await it.bearer(old)).name == "alice"
        issuer.rotate(keep=False)
        await it.bearer(issuer.token())
        with pytest.raises(OidcError):
            await it.bearer(old)

    ask(settings, question)


async def logged_in(issuer: Issuer, it: Believed, person: str = "alice", **wrong: str) -> Any:
    """As a browser does, with something wrong on the way."""
    url, binding = await it.begin(BACK)
    assert url.startswith(f"{issuer.url}/authorize?")
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    back = parse_qs(urlsplit(issuer.code(query, person)).query)
    given = {"state": back["state"][0], "code": back["code"][0], "binding": binding} | wrong
    return await it.finish(given["state"], given["code"], given["binding"])


def test_a_login_by_code(issuer: Issuer, settings: WebSettings) -> None:
    assert ask(settings, lambda it: logged_in(issuer, it)).name == "alice"
    for wrong in (
        {"state": "made up"},
        {"code": "made up"},
        {"binding": "another browser's"},
        {"binding": ""},
    ):
        with pytest.raises(OidcError):
            ask(settings, lambda it, given=wrong: logged_in(issuer, it, **given))
    issuer.nonce = "of another login"
    with pytest.raises(OidcError, match="not of this login"):
        ask(settings, lambda it: logged_in(issuer, it))


def test_a_login_counts_once_and_not_for_ever(
    issuer: Issuer, settings: WebSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def question(it: Believed) -> None:
        url, binding = await it.begin(BACK)
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = parse_qs(urlsplit(issuer.code(query, "alice")).query)["code"][0]
        await it.finish(query["state"], code, binding)
        with pytest.raises(OidcError, match="not begun here"):
            await it.finish(query["state"], code, binding)
        monkeypatch.setattr(module, "_LOGIN_S", -1.0)
        with pytest.raises(OidcError, match="too long ago"):
            await logged_in(issuer, it)
        monkeypatch.setattr(module, "_MOST_LOGINS", 3)
        for _ in range(10):
            await it.begin(BACK)
        assert len(it._logins) == 3

    ask(settings, question)


def test_an_issuer_that_is_not_to_be_believed(
    issuer: Issuer, settings: WebSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = issuer.discovery()
    for change in (
        {"issuer": "https://elsewhere.example"},
        {"jwks_uri": "http://10.0.0.1/keys"},
        {"jwks_uri": ""},
    ):
        monkeypatch.setattr(issuer, "discovery", lambda changed=change: told | changed)
        with pytest.raises(OidcError):
            ask(settings, lambda it: it.bearer(issuer.token()))
    monkeypatch.setattr(issuer, "discovery", lambda: [1])
    with pytest.raises(OidcError, match="something else"):
        ask(settings, lambda it: it.bearer("a.b.c"))
    gone = replace(settings, oidc_issuer="http://127.0.0.1:1/")
    with pytest.raises(OidcError, match="does not answer"):
        ask(gone, lambda it: it.begin(BACK))
    with pytest.raises(OidcError, match="no https"):
        check_url("http://issuer.example/")
    monkeypatch.undo()
    with pytest.raises(OidcError, match="cannot be read"):
        ask(replace(settings, oidc_client_secret_file="/nowhere"), lambda it: logged_in(issuer, it))


def test_settings_that_make_no_sense(settings: WebSettings) -> None:
    assert settings.problem is None
    assert "oidc_client_id" in str(replace(settings, oidc_client_id="").problem)
    assert "oidc_roles" in str(replace(settings, oidc_roles={"a": "rule"}).problem)
