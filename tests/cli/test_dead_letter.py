"""``msmq dead-letter`` against a daemon of its own: what could not be delivered, and why."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import Live, serving
from tests.server.support import BOB


def letters(live: Live, count: int) -> list[dict[str, object]]:
    while len(found := live.objects("dead-letter", "list")) < count:
        pass
    return found


def test_the_reason_in_words(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as live:
        full = live.queue("--quota", "1")
        assert live.run("send", full, "--body", "x" * 5000, "--label", "too large").code == 1
        far = "DIRECT=TCP:127.0.0.97\\private$\\far"
        live.good("send", far, "--body", "x", "--label", "too late", "--time-to-reach-queue", "1")
        found = {str(letter["label"]): letter for letter in letters(live, 2)}
        assert found["too large"]["dead_letter_reason"] == "the destination queue is full"
        assert found["too large"]["class"] == "NACK_Q_EXCEED_QUOTA"
        assert found["too late"]["dead_letter_reason"] == "the message did not reach its queue in time"
        assert found["too late"]["class"] == "NACK_REACH_QUEUE_TIMEOUT"
        assert "the destination queue is full" in live.good("dead-letter", "list")

        live.good("queue", "set", full, "--quota", "none")
        number = str(found["too large"]["lookup_id"])
        assert live.object("dead-letter", "resend", "--id", number) == {"messages": 1}
        assert live.bodies(full) == ["x" * 5000]
        assert "no dead letters" in live.bad("dead-letter", "resend", "--id", number)
        assert "say which" in live.bad("dead-letter", "resend", code=2)
        assert live.object("dead-letter", "purge") == {"messages": 1}
        assert live.good("dead-letter", "list") == "0 dead letters\n"


def test_what_another_host_said(tmp_path: Path) -> None:
    """The reason comes from the other side, in the class of its final acknowledgment, and survives a restart."""
    with serving(tmp_path / "a") as live:
        port = live.port
        with serving(tmp_path / "b", BOB, "BOB", port) as bob:
            bob.good("queue", "create", ".\\private$\\plain")
            for queue in ("absent", "plain"):
                name = f"DIRECT=TCP:{BOB}\\private$\\{queue}"
                live.good("send", name, "--body", "x", "--label", queue, "--transactional")
            letters(live, 2)
    with serving(tmp_path / "a") as live:
        found = {letter["label"]: letter["dead_letter_reason"] for letter in letters(live, 2)}
    assert found == {
        "absent": "the destination queue does not exist",
        "plain": "a transactional message was sent to a queue that is not",
    }
