"""``msmq ping`` against a live daemon, and against silence."""

from __future__ import annotations

import json
import socket
import threading

from msmq.transfer.ping import PingResponder
from tests.cli.support import Live


def test_a_session(live: Live) -> None:
    identifier = live.object("manager", "show")["identifier"]
    options = ["--port", str(live.port), "--timeout", "10", "--ping-port", "1"]
    found = live.object("ping", live.address, *options)
    assert set(found) == {"host", "ping", "session"}
    assert set(found["session"]) == {"answered", "detail", "milliseconds"}
    assert found["session"]["answered"] is True
    assert identifier in found["session"]["detail"]
    assert found["ping"]["answered"] is False


def test_a_ping_by_datagram(live: Live) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.bind(("127.0.0.1", 0))
        responder = PingResponder(bytes(16), enabled=True)

        def answer() -> None:
            datagram, address = door.recvfrom(2048)
            given = responder.answer(datagram, 0)
            assert given is not None
            door.sendto(given, address)

        thread = threading.Thread(target=answer)
        thread.start()
        result = live.run(
            "ping", "127.0.0.1", "--port", "1", "--ping-port", str(door.getsockname()[1]), "--timeout", "10",
            "--json",
        )  # fmt: skip
        thread.join()
    assert result.code == 1
    found = json.loads(result.out)
    assert (found["ping"]["answered"], found["session"]["answered"]) == (True, False)
    assert found["session"]["detail"] == "connection refused"
    assert result.err.count("\n") == 1
    assert "TCP 1" in result.err


def test_somebody_else_is_there(live: Live) -> None:
    """A server that is no queue manager: it never answers, or says something else."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = str(door.getsockname()[1])
        result = live.run("ping", "127.0.0.1", "--port", port, "--timeout", "0.2", "--ping-port", "1")
    assert result.code == 1
    assert "no answer in 0.2 seconds" in result.err


def test_a_host_without_a_name(live: Live) -> None:
    result = live.run("ping", "no-such-host.invalid", "--timeout", "5")
    assert result.code == 1
    assert result.err.count("\n") == 1
