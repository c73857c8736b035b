"""``msmq send`` and ``msmq message new`` against a live daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msmq.cli.send import ACKNOWLEDGE
from tests.cli.support import Live


def test_bodies_from_everywhere(live: Live, tmp_path: Path) -> None:
    queue = live.queue()
    (tmp_path / "body").write_bytes(b"from a file")
    live.good("send", queue, "--body", "from the line")
    live.good("send", queue, "--file", str(tmp_path / "body"))
    live.good("send", queue, "-", given="from a pipe")
    live.good("send", queue, "-", "--lines", given="one\ntwo\n")
    live.good("send", queue)
    assert live.bodies(queue) == ["from the line", "from a file", "from a pipe", "one", "two", ""]


def test_the_receipts(live: Live) -> None:
    queue = live.queue()
    receipts = live.objects("send", queue, "--body", "x", "--count", "3")
    assert [set(receipt) for receipt in receipts] == [
        {"queue", "message_id", "lookup_id", "lookup_id_text"}
    ] * 3
    found = live.objects("peek", queue, "--all")
    assert [(m["message_id"], m["lookup_id"]) for m in found] == [
        (receipt["message_id"], receipt["lookup_id"]) for receipt in receipts
    ]
    assert live.good("send", queue, "--body", "x") == f"sent 1 message to {queue}\n"


@pytest.mark.parametrize("delivery", ["express", "recoverable", "transactional"])
def test_how_safe_it_is(live: Live, delivery: str) -> None:
    queue = live.queue(*(["--transactional"] if delivery == "transactional" else []))
    live.good("send", queue, "--body", "x", f"--{delivery}")
    assert live.object("peek", queue)["delivery"] == delivery


def test_every_property(live: Live) -> None:
    queue, other = live.queue(), live.queue()
    asked = live.object("send", other, "--body", "question")["message_id"]
    live.good(
        "send", queue, "--body", "x", "--label", "L", "--priority", "6", "--correlation-id", asked,
        "--response-queue", other, "--admin-queue", other, "--acknowledge", "full-receive",
        "--time-to-reach-queue", "60", "--time-to-be-received", "600", "--journal", "--no-dead-letter",
        "--application-tag", "42", "--body-type", "8",
    )  # fmt: skip
    found = live.object("peek", queue)
    path = other.rpartition("\\")[2]
    assert found["response_queue"].lower().endswith(path)
    assert found["admin_queue"].lower().endswith(path)
    wanted = {
        "label": "L", "priority": 6, "correlation_id": asked, "acknowledgements": 14, "time_to_reach_queue": 60,
        "time_to_be_received": 600, "journal": True, "dead_letter": False, "application_tag": 42, "body_type": 8,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


def test_the_eight_acknowledge_types() -> None:
    assert len(ACKNOWLEDGE) == 8
    assert len(set(ACKNOWLEDGE.values())) == 8


def test_a_message_is_made_first_and_sent_later(live: Live, tmp_path: Path) -> None:
    queue = live.queue()
    made = live.good("message", "new", "--body", "two coffees", "--label", "table 7", "--priority", "5")
    assert json.loads(made)["label"] == "table 7"
    (tmp_path / "order.json").write_text(made)
    live.good("send", queue, "--message", str(tmp_path / "order.json"))
    live.good("send", queue, "--message", "-", given=live.good("message", "new", "-", given=b"\x00\xff"))
    first, second = live.objects("receive", queue, "--all")
    assert (first["body"], first["label"], first["priority"]) == ("two coffees", "table 7", 5)
    assert (second["body"], second["body_encoding"]) == ("AP8=", "base64")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((".\\private$\\absent", "--body", "x"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("nonsense", "--body", "x"), 1, "MQ_ERROR_ILLEGAL"),
        ((".\\private$\\sent", "--body", "x", "--transactional"), 1, "MQ_ERROR_TRANSACTION_USAGE"),
        ((".\\private$\\sent", "--body", "x", "-"), 2, "exclude each other"),
        ((".\\private$\\sent", "text"), 2, "is no body"),
        ((".\\private$\\sent", "--body", "x", "--express", "--recoverable"), 2, "exclude each other"),
        ((".\\private$\\sent", "--body", "x", "--lines"), 2, "--lines"),
        ((".\\private$\\sent", "--file", "/nonexistent"), 1, "No such file"),
        ((".\\private$\\sent", "--message", "/nonexistent"), 1, "No such file"),
        ((".\\private$\\sent", "--message", "/nonexistent", "--body", "x"), 2, "whole message"),
        ((".\\private$\\sent", "--body", "x", "--correlation-id", "y"), 1, "no message identifier"),
        ((".\\private$\\sent", "--body", "x", "--label", "x" * 300), 1, "MQ_ERROR_LABEL_TOO_LONG"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_failures_are_one_line(live: Live, arguments: tuple[str, ...], code: int, says: str) -> None:
    live.run("queue", "create", ".\\private$\\sent")
    assert says in live.bad("send", *arguments, code=code)


def test_a_public_admin_queue_costs_its_acknowledgments_only(live: Live) -> None:
    """Without a directory nobody knows where such a queue is."""
    queue = live.queue()
    nowhere = "PUBLIC=00000000-0000-0000-0000-000000000001"
    live.good("send", queue, "--body", "x", "--admin-queue", nowhere, "--acknowledge", "full-receive")
    assert live.object("receive", queue)["body"] == "x"
    live.good("send", queue, "--body", "x", "--admin-queue", nowhere, "--acknowledge", "full-reach-queue")
    live.good("queue", "purge", queue, "--yes")
