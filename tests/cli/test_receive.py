"""``msmq receive``, ``peek``, ``follow``, ``move`` and ``message show`` against a live daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.client.records import hexadecimal
from msmq.wire.message import UserMessage
from tests import ready
from tests.cli.support import Live
from tests.server.support import CAROL, Peer, eventually

CONTRACT = {
    "queue": str, "lookup_id": int, "message_id": str, "label": str, "priority": int, "class": str, "delivery": str,
    "body": str, "sent_time": str, "arrived_time": str,
}  # fmt: skip
MORE = {
    "lookup_id_text": str, "body_type": int, "class_number": int, "dead_letter_reason": str, "destination": str,
    "response_queue": str, "headers": dict,
    "admin_queue": str, "acknowledgements": int, "correlation_id": str, "application_tag": int, "connector_type": str,
    "extension": str,
    "time_to_reach_queue": (int, type(None)), "time_to_be_received": (int, type(None)), "journal": bool,
    "dead_letter": bool, "returned_count": int, "sender": str, "authenticated": bool,
}  # fmt: skip


def program(live: Live, *arguments: str) -> subprocess.Popen[bytes]:
    """The command as a program of its own, which knows its server from the environment."""
    return subprocess.Popen(
        [ready.msmq(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "MSMQ_SERVER": live.socket},
    )


def test_the_contract_of_scripts(live: Live) -> None:
    """Nothing but programs, arguments and exit statuses."""
    queue = live.queue()
    sent = program(live, "send", queue, "--body", "hello", "--label", "L", "--count", "2")
    assert (sent.communicate(timeout=120)[1], sent.returncode) == (b"", 0)
    for command, count in (("peek", 1), ("receive", 2)):
        options = ["--count", str(count), "--timeout", "60", "--json"]
        process = program(live, command, queue, *options)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, b"")
        assert [json.loads(line)["label"] for line in out.splitlines()] == ["L"] * count
    empty = program(live, "receive", queue, "--timeout", "0.1", "--json")
    out, err = empty.communicate(timeout=120)
    assert (empty.returncode, out, err.count(b"\n")) == (3, b"", 1)
    absent = program(live, "receive", ".\\private$\\absent", "--json")
    out, err = absent.communicate(timeout=120)
    assert (absent.returncode, out, err.count(b"\n")) == (1, b"", 1)


def test_the_shape_of_json(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "text", "--label", "L")
    live.good("send", queue, "-", given=b"\x00\x01\xff")
    text, binary = live.objects("receive", queue, "--count", "2")
    assert set(text) == CONTRACT.keys() | MORE.keys()
    assert set(binary) == set(text) | {"body_encoding"}
    for name, kind in (CONTRACT | MORE).items():
        assert isinstance(text[name], kind), name
    assert (text["body"], text["class"], text["priority"]) == ("text", "NORMAL", 3)
    assert (binary["body"], binary["body_encoding"]) == ("AAH/", "base64")
    assert text["sent_time"].endswith("Z")


def test_receive_takes_and_peek_leaves(live: Live) -> None:
    queue = live.queue()
    for body in ("one", "two", "three"):
        live.good("send", queue, "--body", body, "--label", f"label of {body}")
    assert live.good("peek", queue).splitlines()[1] == "one"
    assert "label 'label of one'" in live.good("receive", queue)
    assert len(live.good("peek", queue, "--all").splitlines()) == 2
    assert [m["body"] for m in live.objects("receive", queue, "--count", "9")] == ["two", "three"]
    assert "no message came" in live.bad("receive", queue, code=3)
    assert "no message came" in live.bad("peek", queue, code=3)


def test_others_are_not_counted_as_given_back(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x", "--count", "20")
    live.good("receive", queue, "--count", "10")
    assert {m["returned_count"] for m in live.objects("peek", queue, "--all")} == {0}


def test_one_message_by_its_lookup_id(live: Live) -> None:
    queue = live.queue()
    _, second, _ = live.objects("send", queue, "--body", "x", "--count", "3")
    number = str(second["lookup_id"])
    assert live.object("peek", queue, "--id", number)["message_id"] == second["message_id"]
    assert live.object("message", "show", queue, number)["message_id"] == second["message_id"]
    assert "message id" in live.good("message", "show", queue, number)
    assert live.object("receive", queue, "--id", number)["message_id"] == second["message_id"]
    assert "MQ_ERROR_MESSAGE_NOT_FOUND" in live.bad("receive", queue, "--id", number)
    assert "MQ_ERROR_MESSAGE_NOT_FOUND" in live.bad("message", "show", queue, number)


def test_searching(live: Live) -> None:
    queue = live.queue()
    for label, body in (("table 1", "tea"), ("table 2", "Coffee"), ("bar", "coffee")):
        live.good("send", queue, "--label", label, "--body", body)
    found = live.objects("peek", queue, "--all", "--label", "TABLE *", "--contains", "coffee")
    assert [m["label"] for m in found] == ["table 2"]
    live.bad("peek", queue, "--all", "--contains", "milk", code=3)


def test_follow_shows_what_comes(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "first")
    process = program(live, "follow", queue, "--json")
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["body"] == "first"
        live.good("send", queue, "--body", "second")
        assert json.loads(process.stdout.readline())["body"] == "second"
    finally:
        process.terminate()
        process.communicate(timeout=120)
    assert live.bodies(queue) == ["first", "second"]


def test_a_broken_pipe_loses_nothing(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x" * 1000, "--count", "2000")
    process = program(live, "receive", queue, "--all", "--json")
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline())["lookup_id"] for _ in range(3)]
    process.stdout.close()
    process.wait(120)
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.returncode == 1
    left = {m["lookup_id"] for m in live.objects("peek", queue, "--all")}
    assert left
    assert not left & set(seen)


def test_move_within_a_queue_and_across(live: Live) -> None:
    queue, other = live.queue(), live.queue("--transactional")
    sent = live.objects("send", queue, "--body", "x", "--count", "3")
    live.good("send", queue, "--body", "late", "--label", "late")
    moved = live.object("move", queue, f"{queue};later", "--label", "late")
    assert moved == {"queue": queue, "target": f"{queue};later", "messages": 1}
    assert live.bodies(f"{queue};later") == ["late"]
    number = str(sent[0]["lookup_id"])
    assert live.good("move", queue, other, "--id", number) == f"moved 1 message from {queue} to {other}\n"
    assert live.object("peek", other)["delivery"] == "transactional"
    third = live.queue("--transactional")
    live.good("move", other, third, "--all")
    live.good("move", third, queue, "--all")
    assert live.bodies(queue) == ["x", "x", "x"]
    assert live.bodies(third) == []


@pytest.mark.parametrize("kinds", [("", ""), ("--transactional", ""), ("", "--transactional")])
def test_a_move_that_is_interrupted(live: Live, kinds: tuple[str, str]) -> None:
    """Killed at some moment or other: each message is in one of the two queues, and in one only."""
    source, target = (live.queue(*filter(None, (kind,))) for kind in kinds)
    live.good("send", source, "--body", "x", "--count", "300")
    for number, message in enumerate(live.objects("peek", source, "--all")):
        assert message["body"] == "x", number
    command = [sys.executable, "-m", "msmq", "--server", live.socket, "move", source, target, "--all"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not live.object("queue", "show", target)["messages"]:
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    counts = [live.object("queue", "show", queue)["messages"] for queue in (source, target)]
    assert sum(counts) == 300
    assert counts[1]
    live.good("move", source, target, "--all")
    assert live.object("queue", "show", target)["messages"] == 300


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("receive", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("peek", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("follow", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("move", ".\\private$\\absent", ".\\private$\\b", "--all"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("move", ".\\private$\\a", ".\\private$\\b"), 2, "say which messages"),
        (("move", ".\\journal$", ".\\private$\\b", "--id", "7"), 1, "1 of the messages"),
        (("message", "show", ".\\private$\\absent", "1"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_failures_are_one_line(live: Live, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in live.bad(*arguments, code=code)


def test_bodies_that_are_no_text(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "-", given=bytes(range(18)))
    out = live.good("receive", queue)
    assert "00000010  10 11" in out
    assert hexadecimal(b"AB\x00") == "00000000  41 42 00" + " " * 41 + "AB."


def test_half_a_surrogate_pair_stops_nobody(live: Live) -> None:
    """A stranger's label and names are any UTF-16; the message at the head can be seen and taken."""
    queue = live.queue()
    answers = "OS:host\\private$\\half \ud800 pair"

    async def send() -> None:
        peer = Peer()
        await peer.connect(live.address, live.port, source=CAROL)
        packet = peer.message(b"x", f"OS:host\\private$\\{queue.rpartition(chr(92))[2]}", recoverable=True)
        user = packet.user
        user.response_queue, user.response_reference = answers, 7
        peer.send(
            UserMessage.build(
                base=packet.base,
                user=user,
                properties=packet.properties,
                label="half \ud800 pair",
                body=b"x",
            )
        )
        await eventually(lambda: peer.acknowledged)
        await peer.close()

    asyncio.run(send())
    for command in ("peek", "receive"):
        found = live.object(command, queue)
        assert (found["label"], found["response_queue"]) == ("half \ud800 pair", f"DIRECT={answers}")


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_could_not_be_printed_stays(live: Live, by_id: bool, form: tuple[str, ...]) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "stay")
    found = live.object("peek", queue)
    chosen = ("--id", str(found["lookup_id"])) if by_id else ()
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [ready.msmq(), "--server", live.socket, "receive", queue, *chosen, *form],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr
    assert live.bodies(queue) == ["stay"]


def test_names_as_dotnet_writes_them(live: Live) -> None:
    queue = live.queue()
    name = queue.rpartition("\\")[2]
    live.good("send", f"FormatName:DIRECT=OS:.\\private$\\{name}", "--body", "one")
    assert live.object("receive", f"formatname:direct=os:.\\private$\\{name}")["body"] == "one"
    assert "cannot be the name of a computer" in live.bad(
        "send", "Format:DIRECT=OS:.\\private$\\q", "--body", "x"
    )


def test_a_place_as_text_is_the_place(live: Live) -> None:
    queue = live.queue()
    (sent,) = live.objects("send", queue, "--body", "x")
    assert int(sent["lookup_id_text"]) == sent["lookup_id"]
    assert (
        live.object("receive", queue, "--id", sent["lookup_id_text"])["lookup_id_text"]
        == sent["lookup_id_text"]
    )


@pytest.mark.parametrize("command", ["receive", "peek"])
def test_all_and_a_count_are_two_things(live: Live, command: str) -> None:
    assert "not both" in live.bad(command, live.queue(), "--all", "--count", "2", code=2)


def test_the_server_may_stand_behind_the_command(live: Live) -> None:
    queue = live.queue()
    for options in (["--server", live.socket], [f"--server={live.socket}"]):
        done = CliRunner().invoke(app, ["send", queue, "--body", "x", *options], prog_name="msmq")
        assert done.exit_code == 0, done.output
    assert live.bodies(queue) == ["x", "x"]
    assert "--server" in live.bad("send", queue, "--body", "x", "--server", code=2)


def test_bodies_are_shown_as_their_formatter_wrote_them(live: Live) -> None:
    queue = live.queue()
    for formatter in ("binary", "xml", "native"):
        live.good("send", queue, "--body", "5 < 6", "--body-as", formatter)
    records = live.objects("peek", queue, "--all", "--body-as", "value")
    assert [record["value"] for record in records] == ["5 < 6"] * 3
    assert [record["body_type"] for record in records] == [768, 0, 31]
    assert [record["value"] for record in live.objects("peek", queue, "--all", "--body-as", "xml")] == [
        None,
        "5 < 6",
        None,
    ]
    live.good("receive", queue)
    assert live.good("receive", queue, "--body-as", "xml").endswith("\n5 < 6\n")
    assert "35 00 20 00 3c 00" in live.good("receive", queue, "--body-as", "hex")
