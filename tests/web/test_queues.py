"""Queues over HTTP: everything the command line can do with them."""

from __future__ import annotations

from urllib.parse import quote

import httpx

from tests.web.support import Live


def test_a_queue_from_its_making_to_its_end(admin: httpx.Client) -> None:
    made = admin.post(
        "/api/queues",
        json={"path": r".\private$\whole", "transactional": True, "label": "All", "quota_kb": None},
    )
    assert made.status_code == 201, made.text
    assert made.json()["quota_kb"] is None
    path = "/api/queues/" + quote(r".\private$\whole", safe="")
    assert admin.post("/api/queues", json={"path": r".\private$\whole"}).status_code == 409
    changed = admin.patch(path, json={"label": "Some", "journaling": True, "quota_kb": 100}).json()
    assert (changed["label"], changed["journaling"], changed["quota_kb"]) == ("Some", True, 100)
    assert {"PROPID_Q_LABEL", "PROPID_Q_QUOTA"} <= {
        each["name"] for each in admin.get(f"{path}/properties?page_size=1000").json()["items"]
    }
    assert admin.post(f"{path}/purge").json() == {"messages": "0"}
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404
    assert admin.get(path).json()["name"] == "MQ_ERROR_QUEUE_NOT_FOUND"


def test_lists_are_searched_sorted_cut_and_paged(live: Live, admin: httpx.Client) -> None:
    for number in range(5):
        live.queue(f"listed-{number}", *["x"] * number)
    found = admin.get("/api/queues?search=LISTED-&sort=-messages&columns=path,messages&page_size=2").json()
    assert found["total"] == 5
    assert [each["messages"] for each in found["items"]] == ["4", "3"]
    assert set(found["items"][0]) == {"path", "messages"}
    last = admin.get("/api/queues?search=listed-?&sort=path&page_size=2&page=3").json()
    assert [each["path"][-1] for each in last["items"]] == ["4"]
    full = admin.get("/api/queues?search=listed-&hide_empty=true").json()
    assert full["total"] == 4
    assert admin.get("/api/queues?sort=nonsense").status_code == 400
    system = admin.get("/api/queues?system=true&page_size=1000").json()["items"]
    assert any(each["kind"] == "system" for each in system)


def test_access_lists(live: Live, admin: httpx.Client) -> None:
    path = f"/api/queues/{live.queue('guarded')}/security"
    before = admin.get(path).json()
    assert before["sddl"].startswith("O:")
    entries = [*before["entries"], {"sid": "S-1-5-7", "rights": 4, "allow": False}]
    after = admin.put(path, json={"entries": entries}).json()
    assert any(each["sid"] == "S-1-5-7" and not each["allow"] for each in after["entries"])
    access_list = before["sddl"][before["sddl"].index("D:") :]
    assert admin.put(path, json={"sddl": access_list}).json()["sddl"] == before["sddl"]
    refused = admin.put(path, json={"sddl": before["sddl"]}).json()
    assert refused["name"] == "MQ_ERROR_INVALID_OWNER", "nobody makes somebody else the owner"
    assert "entries" in admin.get("/api/manager/security").json()


def test_messages_on_their_way(live: Live, admin: httpx.Client) -> None:
    name = r"DIRECT=OS:nowhere.invalid\private$\orders"
    live.do(lambda mq: mq.queue(name).send("x"))
    found = admin.get("/api/outgoing?search=nowhere").json()["items"]
    assert [each["messages"] for each in found] == ["1"]
    path = "/api/outgoing/" + quote(found[0]["format_name"], safe="")
    assert admin.post(f"{path}/pause").json()["state"] == "OnHold"
    assert admin.post(f"{path}/resume").json()["state"] != "OnHold"
    seen = admin.get(f"/api/queues/{quote(found[0]['format_name'], safe='')}/messages").json()
    assert (len(seen["items"]), seen["total"]) == (1, "1")
    assert admin.post(f"{path}/purge").json() == {"messages": "1"}


def test_a_slash_in_a_name_is_no_slash_in_the_path(admin: httpx.Client) -> None:
    name = quote("DIRECT=HTTP://host/msmq/private$/orders", safe="")
    answer = admin.get(f"/api/queues/{name}")
    assert answer.status_code in (400, 404)
    assert answer.json()["title"] == "The queue manager refused it"
