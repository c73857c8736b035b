"""Tokens, local accounts and certificates over HTTP."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from tests.web.support import LOOKER, Live


def test_tokens_are_made_told_once_and_taken_back(admin: httpx.Client) -> None:
    made = admin.post("/api/tokens", json={"name": "robot/1", "sid": "S-1-5-21-1-2-3-55"}).json()
    assert len(made["secret"]) == 64
    listed = admin.get("/api/tokens?search=robot").json()
    assert [each["name"] for each in listed["items"]] == ["robot/1"]
    assert made["secret"] not in json.dumps(listed)
    assert made["secret"] not in admin.get("/api/audit").text
    assert admin.delete("/api/tokens/robot%2F1").status_code == 204
    assert admin.get("/api/tokens?search=robot").json()["total"] == 0
    assert admin.get("/api/certificates").json()["items"] == []


def test_users_are_added_changed_and_removed(live: Live, admin: httpx.Client) -> None:
    made = admin.post("/api/users", json={"name": "alice", "groups": ["S-1-5-32-544"]})
    assert made.status_code == 201, made.text
    assert len(made.json()["password"]) >= 20
    given = admin.post("/api/users", json={"name": "bob", "password": "a good one"}).json()
    assert given["password"] == ""
    listed = admin.get("/api/users?sort=name&where=name~b").json()["items"]
    assert listed == [{"name": "bob", "sid": given["sid"], "groups": []}]
    assert admin.post("/api/users", json={"name": "ALICE"}).status_code == 400
    assert admin.post("/api/users", json={"name": "eve", "groups": ["nobody"]}).status_code == 400
    assert admin.put("/api/users/bob/password", json={"password": "a better one"}).status_code == 204
    assert admin.put("/api/users/carol/password", json={"password": "x"}).status_code == 400
    with live.client(LOOKER) as looker:
        assert looker.get("/api/users").status_code == 403
    record = admin.get("/api/audit").text
    assert "a better one" not in record
    assert "a good one" not in record
    for name in ("alice", "bob"):
        assert admin.delete(f"/api/users/{name}").status_code == 204
    assert admin.get("/api/users").json()["total"] == 0


def test_certificates_are_renewed_registered_and_taken_back(admin: httpx.Client) -> None:
    made = admin.post("/api/certificates/renew")
    assert made.status_code == 201, made.text
    certificate = made.json()["certificate"]
    assert base64.b64decode(made.json()["private_key"])
    assert [each["digest"] for each in admin.get("/api/certificates").json()["items"]] == [
        certificate["digest"]
    ]
    assert admin.delete(f"/api/certificates/{certificate['digest']}").status_code == 204
    encoded = base64.b64encode(bytes.fromhex(certificate["certificate"])).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n"
    again = admin.post("/api/certificates", json={"certificate": pem})
    assert again.status_code == 201, again.text
    assert again.json()["digest"] == certificate["digest"]
    assert admin.delete(f"/api/certificates/{certificate['digest']}").status_code == 204


@pytest.mark.parametrize("text", ["", "nonsense!", "AAAA"])
def test_what_is_no_certificate(admin: httpx.Client, text: str) -> None:
    assert admin.post("/api/certificates", json={"certificate": text}).status_code == 400
