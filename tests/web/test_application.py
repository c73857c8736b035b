"""What holds for every request: who asks, what is asked, what a browser may do with the answer."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from msmq.admission.guesses import Guesses
from msmq.admission.pace import Pace
from msmq.web.application import HEADERS, MOST_BODY_BYTES, Call, Surroundings, build
from msmq.web.audit import Audit
from msmq.web.operations import Table
from msmq.web.people import Credential, People, Person, Role
from tests.web.support import LOOKER, Live


def test_nobody_gets_anything_without_a_token(live: Live, admin: httpx.Client) -> None:
    document = admin.get("/api/openapi.json").json()
    with live.client(None) as stranger:
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["security"]:
                    url = path.replace("{", "").replace("}", "")
                    answer = stranger.request(method.upper(), url, json={})
                    assert answer.status_code == 401, (method, path)
                    assert "messages" not in answer.text.replace("messages in", "")
        wrong = stranger.get("/api/queues", headers={"authorization": "Bearer nonsense"})
        assert wrong.status_code == 401


def test_who_may_only_look_changes_nothing(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("looked-at", "one")
    document = admin.get("/api/openapi.json").json()
    with live.client(LOOKER) as looker:
        assert looker.get("/api/me").json()["role"] == "look"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation.get("x-role") in ("operate", "administer"):
                    url = path.replace("{queue}", queue).replace("{", "").replace("}", "")
                    answer = looker.request(method.upper(), url, json={})
                    assert answer.status_code == 403, (method, path, answer.text)
    assert admin.get(f"/api/queues/{queue}").json()["messages"] == "1"


def test_every_answer_tells_the_browser_to_be_careful(live: Live) -> None:
    with live.client(None) as stranger:
        for path in ("/", "/api/me", "/no/such/page", "/api/openapi.json", "/assets/console.js"):
            answer = stranger.get(path)
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_a_session_changes_something_only_with_its_secret(live: Live) -> None:
    with live.client(None) as browser:
        answer = browser.post("/api/login", json={"token": live.token()})
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert live.token() not in answer.text + cookie
        new = {"path": r".\private$\by-session"}
        assert browser.post("/api/queues", json=new).status_code == 403
        wrong = browser.post("/api/queues", json=new, headers={"x-msmq-csrf": "guess"})
        assert wrong.status_code == 403
        right = {"x-msmq-csrf": answer.json()["csrf"]}
        assert browser.post("/api/queues", json=new, headers=right).status_code == 201
        assert browser.get("/api/me").json()["csrf"] == answer.json()["csrf"]
        assert browser.post("/api/logout", headers=right).status_code == 204
        browser.cookies.set("msmq_session", "made up")
        assert browser.get("/api/me").status_code == 401


def test_a_token_that_was_taken_back_is_worth_nothing(live: Live) -> None:
    sid = "S-1-5-21-7-7-7-1099"
    with live.client(sid) as somebody:
        assert somebody.get("/api/me").status_code == 200
        live.do(lambda mq: mq.remove_token(f"test {sid}"))
        assert somebody.get("/api/queues").status_code in (401, 403)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"path": 5}', "application/json", 400),
        (b'{"path": "x", "unknown": 1}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/plain", 415),
        (b'{"path": ".\\\\private$\\\\a", "label": "\\ud83d"}', "application/json", 400),
        (b" " * (MOST_BODY_BYTES + 1), "application/json", 413),
    ],
    ids=["cut", "list", "number", "unknown", "deep", "text", "half", "huge"],
)  # fmt: skip
def test_bodies_that_are_not_as_the_document_says(
    admin: httpx.Client, body: bytes, kind: str, status: int
) -> None:
    answer = admin.post("/api/queues", content=body, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


def test_a_token_of_half_a_character_is_no_token(live: Live) -> None:
    with live.client(None) as stranger:
        answer = stranger.post(
            "/api/login", content=b'{"token": "\\ud83d"}', headers={"content-type": "application/json"}
        )
    assert answer.status_code == 400
    assert "half of a character" in answer.json()["detail"]


def test_parameters_that_there_are_none_of(admin: httpx.Client) -> None:
    assert admin.get("/api/queues?nonsense=1").status_code == 400
    assert admin.get("/api/queues?page=none").status_code == 400
    assert admin.get("/api/queues?host=ELSEWHERE").status_code == 404
    assert admin.get("/api/nothing").status_code == 404
    assert admin.put("/api/queues").status_code == 405


def test_what_has_not_changed_is_not_sent_again(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("tagged")
    first = admin.get(f"/api/queues/{queue}")
    again = admin.get(f"/api/queues/{queue}", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    admin.patch(f"/api/queues/{queue}", json={"label": "changed"})
    changed = admin.get(f"/api/queues/{queue}", headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200
    assert changed.json()["label"] == "changed"


def test_a_change_to_what_has_changed_since_is_refused(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("matched")
    path, tag = f"/api/queues/{queue}", admin.get(f"/api/queues/{queue}").headers["etag"]
    assert admin.patch(path, json={"label": "first"}, headers={"if-match": tag}).status_code == 200
    late = admin.patch(path, json={"label": "second"}, headers={"if-match": tag})
    assert late.status_code == 412
    assert admin.delete(path, headers={"if-match": tag}).status_code == 412
    assert admin.get(path).json()["label"] == "first"
    assert admin.patch(path, json={"label": "third"}, headers={"if-match": "*"}).status_code == 200
    assert admin.post(f"{path}/purge", headers={"if-match": tag}).status_code == 412
    now = admin.get("/api/alarms").headers["etag"]
    assert admin.put("/api/alarms", json={"rules": []}, headers={"if-match": now}).status_code == 200
    assert admin.put("/api/alarms", json={"rules": []}, headers={"if-match": '"old"'}).status_code == 412


def test_every_change_is_written_down(live: Live, admin: httpx.Client) -> None:
    admin.post("/api/queues", json={"path": r".\private$\written"})
    admin.post("/api/queues", json={"path": r".\private$\written"})
    lines = admin.get("/api/audit?page_size=2").json()["items"]
    found = admin.get("/api/audit", params={"search": r"private$\written"}).json()["items"]
    assert found == lines, "whoever looks for a queue finds what was done with it"
    assert [line["what"] for line in lines] == ["create_queue", "create_queue"]
    assert lines[1]["outcome"] == "done"
    assert lines[0]["outcome"].startswith("409")
    assert lines[0]["given"]["path"] == r".\private$\written"
    assert (lines[0]["who"], lines[0]["whence"]) == ("S-1-5-32-544", "127.0.0.1")
    kept = (live.directory / "data" / "web" / "audit.jsonl").read_text().splitlines()
    assert json.loads(kept[-1])["what"] == "create_queue"


def test_a_refused_change_is_written_down_with_what_it_was_for(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("kept/from", "x")
    with live.client(LOOKER) as looker:
        assert looker.post(f"/api/queues/{queue}/purge").status_code == 403
    line = admin.get("/api/audit?page_size=1").json()["items"][0]
    assert (line["who"], line["what"], line["given"]) == (
        LOOKER,
        "purge_queue",
        {"queue": ".\\private$\\kept/from"},
    )
    assert line["outcome"].startswith("403")


async def test_a_change_that_breaks_is_written_down() -> None:
    async def broken(call: Call) -> None:
        raise ZeroDivisionError

    table = Table()
    table.add("POST", "/api/broken", "Break.", role=Role.OPERATE)(broken)
    somebody = Person(Credential("secret"), LOOKER, "somebody", Role.OPERATE)

    class Known(People):
        async def known(self, credential: Credential, name: str = "") -> Person:
            return somebody

    audit = Audit(None)
    people = Known(("HOST",), lambda host, credential: pytest.fail("nobody is asked"), {})
    around = Surroundings(people, audit, Guesses(time.monotonic, print), Pace(time.monotonic, 100, 100))
    transport = httpx.ASGITransport(build(around, table), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.post("/api/broken", headers={"authorization": "Bearer secret"})
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    (line,) = audit.newest_first()
    assert (line["what"], line["outcome"]) == ("broken", "500 ZeroDivisionError")
