"""Messages in bulk over HTTP: export, import, receive, tail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

import msmq
from tests.web.support import Live


def test_an_export_has_every_message_that_suits(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("exported", *[msmq.Message("x", label=f"Order {at}") for at in range(250)])
    lines = admin.get(f"/api/queues/{queue}/export?label=order 1").text.splitlines()
    wanted = [at for at in range(250) if str(at).startswith("1")]
    assert [json.loads(line)["label"] for line in lines] == [f"Order {at}" for at in wanted]
    assert admin.get("/api/queues/.%5Cprivate$%5Cno-such/export").status_code == 404


def test_packets_are_exported_as_decode_reads_them(live: Live, admin: httpx.Client, tmp_path: Path) -> None:
    queue = live.queue("packets", *[msmq.Message(b"x" * at, label=f"P {at}") for at in range(130)])
    answer = admin.get(f"/api/queues/{queue}/export?form=packets")
    assert answer.headers["content-type"] == "application/octet-stream"
    (tmp_path / "packets").write_bytes(answer.content)
    command = [sys.executable, "-m", "msmq", "decode", "--json", str(tmp_path / "packets")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = [json.loads(line) for line in told.splitlines()]
    assert len(found) == 130
    assert all(f"P {at}" in line for at, line in enumerate(told.splitlines()))


def test_what_was_exported_is_imported_once_however_often(live: Live, admin: httpx.Client) -> None:
    source = live.queue(
        "import-from", *[msmq.Message({"n": at}, label=f"I {at}", priority=at) for at in range(5)]
    )
    target = live.queue("import-to", transactional=True)
    lines = admin.get(f"/api/queues/{source}/export").content
    path, kind = f"/api/queues/{target}/import?row={'ab' * 16}", {"content-type": "application/x-ndjson"}
    assert admin.post(path, content=lines, headers=kind).json() == {"messages": 5, "skipped": 0}
    assert admin.post(path, content=lines, headers=kind).json() == {"messages": 0, "skipped": 5}
    found = admin.get(f"/api/queues/{target}/messages").json()["items"]
    assert sorted((each["label"], each["delivery"]) for each in found) == [
        (f"I {at}", "transactional") for at in range(5)
    ]
    records = [json.loads(line) for line in lines.splitlines()]
    plain = admin.post(f"/api/queues/{source}/import", json={"messages": records[:2]})
    assert plain.json() == {"messages": 2, "skipped": 0}
    for wrong in (b"{", b"[]", b'{"label": "no body"}', b'{"body": 1, "class_number": "x"}'):
        assert admin.post(path, content=wrong, headers=kind).status_code == 400, wrong


def test_messages_are_received(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("received", *[msmq.Message("x", label=f"R {at}") for at in range(3)])
    path = f"/api/queues/{queue}/receive"
    first = admin.post(path, json={}).json()["items"]
    assert [(each["label"], each["body"]) for each in first] == [("R 0", "x")]
    assert isinstance(first[0]["lookup_id"], str)
    rest = admin.post(path, json={"count": 10, "timeout": 1}).json()["items"]
    assert [each["label"] for each in rest] == ["R 1", "R 2"]
    assert admin.post(path, json={"count": 10}).json() == {"items": []}
    assert admin.get(f"/api/queues/{queue}").json()["messages"] == "0"


def test_a_tail_ends_at_its_limit(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("tail-limit", "before")
    with admin.stream("GET", f"/api/queues/{queue}/tail?limit=2") as answer:
        lines = answer.iter_lines()
        for line in lines:
            if line.startswith("data:"):
                break
        live.queue("tail-limit", *[msmq.Message("x", label=f"T {at}") for at in range(5)])
        rest = list(lines)
    assert rest.count("event: message") == 2
    assert json.loads(rest[-2].removeprefix("data: ")) == {"messages": 2}
    with admin.stream("GET", f"/api/queues/{queue}/tail?seconds=1") as answer:
        assert "event: end" in list(answer.iter_lines())


def test_a_tail_shows_what_comes(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("tailed", "before")
    with admin.stream("GET", f"/api/queues/{queue}/tail") as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        assert next(lines) == "event: start"
        live.queue("tailed", msmq.Message("now", label="came"))
        seen, label = next_message(lines)
        assert label == "came"
    live.queue("tailed", msmq.Message("x", label="meanwhile"))
    with admin.stream("GET", f"/api/queues/{queue}/tail", headers={"Last-Event-ID": seen}) as answer:
        assert next_message(answer.iter_lines())[1] == "meanwhile"


def next_message(lines: Iterator[str]) -> tuple[str, str]:
    """The identifier and the label of the next message that is tailed."""
    identifier = ""
    for line in lines:
        if line.startswith("id: "):
            identifier = line.removeprefix("id: ")
        elif line == "event: message":
            return identifier, json.loads(next(lines).removeprefix("data: "))["label"]
    raise AssertionError("the tail ended")
