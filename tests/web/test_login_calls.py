"""Ways into the console over real HTTP: an issuer of OpenID Connect, and client certificates."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.api.authority import Authority
from tests.web.issuer import CLIENT, SECRET, Issuer, issuing
from tests.web.support import LOOKER, Live, living


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as running:
        yield running


def oidc(issuer: Issuer, secret: Path) -> str:
    """The table ``[web]`` of a console that believes an issuer."""
    secret.write_text(SECRET)
    return f"""
[web]
requests_per_second = 100000
requests_at_once = 100000
oidc_issuer = "{issuer.url}"
oidc_client_id = "{CLIENT}"
oidc_client_secret_file = "{secret}"
oidc_roles = {{queue-admins = "administer", readers = "look"}}
oidc_sids = {{bob = "{LOOKER}"}}
"""


@pytest.fixture(scope="module")
def believing(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A console behind TLS that believes an issuer and the certificates of an authority."""
    directory = tmp_path_factory.mktemp("believing")
    authority = Authority(directory / "authority")
    certificate, key = authority.issue("localhost")
    authority.issue("carol")
    authority.issue("mallory")
    files = f'certificate = "{certificate}"\nprivate_key = "{key}"\nclient_authorities = "{authority.file}"\n'
    names = f'[api]\ncertificates = {{carol = "{LOOKER}"}}\n'
    with living(directory, config=oidc(issuer, directory / "secret") + files + names) as running:
        yield running


def client(live: Live, person: str = "", **headers: str) -> httpx.Client:
    """Somebody, with a certificate if they have one."""
    directory = live.directory / "authority"
    tls = ssl.create_default_context(cafile=directory / "authority.pem")
    if person:
        tls.load_cert_chain(directory / f"{person}.pem", directory / f"{person}.key")
    url = live.url.replace("127.0.0.1", "localhost")
    return httpx.Client(base_url=url, headers=headers, timeout=120, trust_env=False, verify=tls)


def test_ways(live: Live, believing: Live) -> None:
    with live.client(None) as plain, client(believing) as other:
        assert plain.get("/api/ways").json() == {"token": True, "oidc": False}
        assert plain.get("/api/oidc/login").status_code == 404
        assert plain.get("/api/oidc/callback?state=x&code=y&other=z").status_code == 404
        assert other.get("/api/ways").json() == {"token": True, "oidc": True}


def test_a_login_by_the_issuer(believing: Live, issuer: Issuer) -> None:
    with client(believing) as browser:
        begun = browser.get("/api/oidc/login")
        assert begun.status_code == 303
        cookie = begun.headers["set-cookie"].lower()
        assert all(
            word in cookie for word in ("httponly", "secure", "samesite=lax", "path=/api/oidc/callback")
        )
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()
        }
        back = urlsplit(issuer.code(query, "alice"))
        done = browser.get(f"{back.path}?{back.query}")
        assert (done.status_code, done.headers["location"]) == (303, "/")
        me = browser.get("/api/me").json()
        assert (me["name"], me["role"], me["sid"]) == ("alice", "administer", "S-1-5-32-544")
        path = "/api/queues"
        made = {"path": ".\\private$\\hers"}
        assert browser.post(path, json=made).status_code == 403, "without the secret of the session"
        assert browser.post(path, json=made, headers={"x-msmq-csrf": me["csrf"]}).status_code == 201
        lines = browser.get("/api/audit").json()["items"]
        assert {(line["what"], line["name"]) for line in lines} >= {
            ("create_queue", "alice"),
            ("log_in", "alice"),
        }
        again = browser.get(f"{back.path}?{back.query}")
        assert again.headers["location"] == "/login?refused=1"


def test_who_has_no_role_is_not_let_in(believing: Live, issuer: Issuer) -> None:
    with client(believing) as browser:
        query = parse_qs(urlsplit(browser.get("/api/oidc/login").headers["location"]).query)
        back = urlsplit(issuer.code({name: values[0] for name, values in query.items()}, "eve"))
        assert browser.get(f"{back.path}?{back.query}").headers["location"] == "/login?refused=1"
        assert browser.get("/api/me").status_code == 401
        assert browser.get("/api/oidc/callback?error=access_denied&state=x").status_code == 303


def test_programs_bring_tokens_of_the_issuer(believing: Live, issuer: Issuer) -> None:
    with client(believing, authorization=f"Bearer {issuer.token('bob')}") as bob:
        me = bob.get("/api/me").json()
        assert (me["name"], me["role"], me["sid"]) == ("bob", "look", LOOKER)
        assert bob.get("/api/queues").status_code == 200
        assert bob.post("/api/queues", json={"path": ".\\private$\\no"}).status_code == 403
    with client(believing, authorization=f"Bearer {issuer.token('eve')}") as eve:
        assert eve.get("/api/me").status_code == 403


def test_a_certificate_opens_the_door(believing: Live) -> None:
    with client(believing, "carol") as carol:
        me = carol.get("/api/me").json()
        assert (me["sid"], me["role"]) == (LOOKER, "operate")
        assert carol.get("/api/queues").status_code == 200
    with client(believing, "mallory") as mallory:
        assert mallory.get("/api/me").status_code == 401, "somebody signed it, and nobody knows who that is"
    with client(believing) as nobody:
        assert nobody.get("/api/me").status_code == 401


@pytest.mark.parametrize(
    "says",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "["},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=["another site", "nobody", "nonsense", "so says the browser"],
)
def test_another_site_cannot_use_the_certificate_of_a_browser(believing: Live, says: dict[str, str]) -> None:
    queue = believing.queue("hers-to-purge", "x")
    with client(believing, "carol") as carol:
        refused = carol.post(f"/api/queues/{queue}/purge", headers=says)
        assert (refused.status_code, refused.json()["title"]) == (403, "Not from the console")
        assert carol.get(f"/api/queues/{queue}", headers=says).json()["messages"] != "0"
        own = {"origin": str(carol.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
        assert carol.post("/api/certificates/renew", headers=own).status_code == 201


def test_a_certificate_of_another_authority_is_refused(believing: Live, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "other").issue("carol")
    tls = ssl.create_default_context(cafile=believing.directory / "authority" / "authority.pem")
    tls.load_cert_chain(certificate, key)
    url = believing.url.replace("127.0.0.1", "localhost")
    with (
        httpx.Client(base_url=url, trust_env=False, verify=tls, timeout=60) as forged,
        pytest.raises(httpx.TransportError),
    ):
        forged.get("/api/me")


def test_wrong_tokens_cost_time(believing: Live, issuer: Issuer) -> None:
    """The last of this module: whoever comes from here has to wait afterwards."""
    with client(believing, authorization=f"Bearer {issuer.unsigned()}") as stranger:
        assert stranger.get("/api/me").status_code == 401
        answers = {stranger.get("/api/me").status_code for _ in range(50)}
        assert answers == {401, 429}
