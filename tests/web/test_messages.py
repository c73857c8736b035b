"""Messages over HTTP: finding, reading, sending, removing, exporting."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

import msmq
from msmq import direct
from msmq.wire.bodies import HeaderDialect, write_headers
from msmq.wire.message import UserMessage
from tests.web.support import Live

NO_NUMBER = f"{'0' * 8}-0000-0000-0000-{'0' * 12}%5C9999999999"
"""As the document wants an identifier, with a number that no message has."""


@pytest.fixture(scope="session")
def box(live: Live) -> str:
    """Filled once for each process, which may come back to this module."""
    messages = [
        msmq.Message(
            {"order": number, "lines": [{"sku": f"A{number}"}]},
            label=f"Order {number:03}",
            priority=number % 2,
        )
        for number in range(300)
    ]
    messages.append(
        msmq.Message('<order xmlns="urn:x"><line sku="B7">tea</line></order>', label="Xml STRASSE")
    )
    messages.append(msmq.Message(b"\x00\xff" * 3000, label="Größe"))
    return live.queue("box", *messages)


def test_pages_by_number_and_by_place(admin: httpx.Client, box: str) -> None:
    path = f"/api/queues/{box}/messages"
    first = admin.get(f"{path}?limit=100").json()
    assert (len(first["items"]), first["total"], first["end"]) == (100, "302", False)
    by_number = admin.get(f"{path}?limit=100&skip=100").json()
    by_place = admin.get(f"{path}?limit=100&after={first['last']}").json()
    assert by_number["items"] == by_place["items"]
    everything = (
        first["items"] + by_number["items"] + admin.get(f"{path}?limit=1000&skip=200").json()["items"]
    )
    places = [int(each["lookup_id"]) for each in everything]
    assert len(places) == 302
    assert places == sorted(set(places))
    assert set(admin.get(f"{path}?limit=1&columns=label,size").json()["items"][0]) == {"label", "size"}


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ("label=order 0071", []),
        ("label=ORDER 007", ["Order 007"]),
        ("label=xml strasse", ["Xml STRASSE"]),
        ("label=GRÖßE", ["Größe"]),
        ("body=%22order%22:299", ["Order 299"]),
        ("body_path=lines[0].sku=A42", ["Order 042"]),
        ("body_path=/order/line/@sku=B7", ["Xml STRASSE"]),
        ("body_path=/order/line=tea", ["Xml STRASSE"]),
        ("least_bytes=6000", ["Größe"]),
        ("arrived_to=1999-01-01T00:00:00Z", []),
        ("class=0x8001", []),
        ("class=0&label=Order 100", ["Order 100"]),
    ],
)
def test_messages_are_found_by_what_they_say(
    admin: httpx.Client, box: str, given: str, labels: list[str]
) -> None:
    found = admin.get(f"/api/queues/{box}/messages?{given}").json()
    assert [each["label"] for each in found["items"]] == labels
    assert found["end"] is True


def test_identifiers_find_one(admin: httpx.Client, box: str) -> None:
    path = f"/api/queues/{box}/messages"
    wanted = admin.get(f"{path}?skip=17&limit=1").json()["items"][0]
    found = admin.get(path, params={"message_id": wanted["message_id"]}).json()["items"]
    assert found == [wanted]


@pytest.mark.parametrize(
    "given",
    [
        "class=none",
        "arrived_from=2026-99-99",
        "message_id=1",
        f"message_id={NO_NUMBER}",
        "body_path=..",
        "after=-1",
    ],
)
def test_searches_that_cannot_be(admin: httpx.Client, box: str, given: str) -> None:
    assert admin.get(f"/api/queues/{box}/messages?{given}").status_code == 400


def test_everything_a_message_says(live: Live, admin: httpx.Client) -> None:
    headers = write_headers({"NServiceBus.MessageId": "7"}, HeaderDialect.NSERVICEBUS)
    queue = live.queue("said", msmq.Message({"a": [1]}, label="L", extension=headers, application_tag=9))
    row = admin.get(f"/api/queues/{queue}/messages").json()["items"][0]
    path = f"/api/queues/{queue}/messages/{row['lookup_id']}"
    message = admin.get(path).json()
    assert json.loads(message["views"]["json"]) == {"a": [1]}
    assert message["headers"] == {"NServiceBus.MessageId": "7"}
    assert message["application_tag"] == 9
    assert {"BaseHeader", "UserHeader"} <= {each["name"] for each in message["structure"]}
    body, packet = admin.get(f"{path}/body"), admin.get(f"{path}/packet")
    assert UserMessage.decode(packet.content).body == body.content
    for answer in (body, packet):
        assert answer.headers["content-disposition"] == "attachment"
        assert answer.headers["content-type"] == "application/octet-stream"
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404
    assert admin.delete(path).status_code == 404


def test_sent_messages_arrive_and_chosen_ones_go(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("sent-to", transactional=True)
    path = f"/api/queues/{queue}"
    sent = admin.post(
        f"{path}/messages", json={"messages": [{"body": "x", "label": str(at)} for at in range(5)]}
    )
    assert sent.status_code == 201, sent.text
    places = [each["lookup_id"] for each in sent.json()["items"]]
    removed = admin.post(f"{path}/remove", json={"lookup_ids": [*places[:3], "12345"]}).json()
    assert removed == {"messages": 3, "not_found": ["12345"]}
    assert [each["label"] for each in admin.get(f"{path}/messages").json()["items"]] == ["3", "4"]
    assert (
        admin.post(f"{path}/messages", json={"messages": [{"body": "x", "extension": "?"}]}).status_code
        == 400
    )


@pytest.mark.parametrize("given", ["class=NORMAL&label=Order 100", "class=normal&label=Order 100"])
def test_classes_have_names(admin: httpx.Client, box: str, given: str) -> None:
    found = admin.get(f"/api/queues/{box}/messages?{given}").json()
    assert [each["label"] for each in found["items"]] == ["Order 100"]


def test_messages_in_another_order(admin: httpx.Client, box: str) -> None:
    path = f"/api/queues/{box}/messages"
    found = admin.get(f"{path}?label=order&sort=-label&limit=3&columns=label").json()
    assert [each["label"] for each in found["items"]] == ["Order 299", "Order 298", "Order 297"]
    assert found["end"] is True
    next_page = admin.get(f"{path}?label=order&sort=-label&limit=2&skip=3").json()
    assert [each["label"] for each in next_page["items"]] == ["Order 296", "Order 295"]
    assert admin.get(f"{path}?sort=colour").status_code == 400


def test_halves_of_characters_hide_no_message(live: Live, admin: httpx.Client) -> None:
    """A stranger may send text that no text of Protocol Buffers can be."""
    queue = live.queue("halves", "before")
    sent = direct.send(
        "DIRECT=TCP:127.0.0.1\\private$\\halves",
        "half \ud83d".encode("utf-16-le", "surrogatepass"),
        body_type=8,
        label="half \ud83d, whole \U0001f600",
        response_queue_format_name="DIRECT=OS:a\ud83d\\private$\\b",
        port=live.port,
    )
    assert asyncio.run(sent) is direct.Outcome.DELIVERED
    found = admin.get(f"/api/queues/{queue}/messages").json()["items"]
    assert [each["label"] for each in found] == ["", "half \ufffd, whole \U0001f600"]
    searched = admin.get(f"/api/queues/{queue}/messages?label=WHOLE").json()["items"]
    assert searched == found[1:]
    path = f"/api/queues/{queue}/messages/{found[1]['lookup_id']}"
    assert admin.get(path).json()["label"] == "half \ud83d, whole \U0001f600"
