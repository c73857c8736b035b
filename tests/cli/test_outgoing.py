"""``msmq outgoing`` against a live daemon whose messages have nowhere to go."""

from __future__ import annotations

from msmq.client.info import ERRORS
from msmq.manager.model import ConnectionStatus
from tests.cli.support import Live

SHAPE = {
    "format_name", "state", "explanation", "next_hops", "messages", "bytes", "unacknowledged", "unreceived",
    "attempts", "last_error", "last_error_words",
}  # fmt: skip


def waiting(live: Live, queue: str) -> dict[str, object]:
    """An outgoing queue once its first attempt has failed."""
    while True:
        found = [
            entry
            for entry in live.objects("outgoing", "list")
            if entry["format_name"].lower() == queue.lower()
        ]
        if found and found[0]["last_error"]:
            return found[0]


def test_a_destination_that_cannot_be_reached(live: Live) -> None:
    queue = "DIRECT=TCP:127.0.0.99\\private$\\far"
    live.good("send", queue, "--body", "x", "--count", "2")
    shown = waiting(live, queue)
    assert set(shown) == SHAPE
    assert (shown["messages"], shown["last_error"]) == (2, "SocketConnectFailure")
    assert shown["last_error_words"] == "nobody accepts connections there, or a firewall is between"
    assert shown["next_hops"] == ["127.0.0.99"]
    text = live.good("outgoing", "list")
    assert "nobody accepts connections there" in text
    assert "Waiting: The host could not be reached" in text

    (sent,) = [
        given
        for given in live.objects("outgoing", "properties", queue)
        if given["name"] == "PROPID_MGMT_QUEUE_MESSAGE_COUNT"
    ]
    assert sent == {"id": 7, "name": sent["name"], "type": "VT_UI4", "values": ["2"]}
    assert "PROPID_MGMT_QUEUE_NEXTHOPS" in live.good("outgoing", "properties", queue)
    assert live.object("outgoing", "pause", queue)["state"] == "OnHold"
    assert "OnHold" in live.good("outgoing", "list")
    assert live.object("outgoing", "resume", queue)["state"] != "OnHold"
    assert live.object("outgoing", "purge", queue) == {"queue": queue, "messages": 2}
    assert live.good("outgoing", "purge", queue, "--yes") == f"removed 0 messages for {queue}\n"


def test_failures_are_one_line(live: Live) -> None:
    for command in ("pause", "resume", "purge"):
        said = live.bad("outgoing", command, "DIRECT=TCP:127.0.0.98\\private$\\never")
        assert "MQ_ERROR_QUEUE_NOT_FOUND" in said


def test_every_status_has_words() -> None:
    fine = {
        ConnectionStatus.IN_PROCESS,
        ConnectionStatus.ESTABLISH_PACKET_RECEIVED,
        ConnectionStatus.ESTABLISHED,
    }
    assert set(ERRORS) == {status.value for status in set(ConnectionStatus) - fine}


def test_what_is_purged_is_kept_as_a_dead_letter(live: Live) -> None:
    queue = "DIRECT=TCP:127.0.0.99\\private$\\purged"
    live.good("send", queue, "--body", "purged", "--recoverable")
    live.good("outgoing", "purge", queue, "--yes")
    assert "purged" in [letter["body"] for letter in live.objects("dead-letter", "list")]
