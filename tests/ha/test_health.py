"""Health over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from msmq.ha.health import Health

STATES: dict[str, dict[str, Any]] = {
    "leader": {"role": "leader", "serves": True, "current": True},
    "starting": {"role": "leader", "serves": False, "current": True},
    "standby": {"role": "standby", "serves": False, "current": True},
    "behind": {"role": "standby", "serves": False, "current": False},
}


@pytest.mark.parametrize(
    ("state", "statuses"),
    [
        ("leader", (200, 200, 200)),
        ("starting", (200, 503, 503)),
        ("standby", (200, 200, 503)),
        ("behind", (200, 503, 503)),
    ],
)
def test_who_is_live_ready_and_leader(state: str, statuses: tuple[int, int, int]) -> None:
    health = Health("127.0.0.1:0", lambda: STATES[state])
    assert tuple(health.answer(path)[0] for path in ("/live", "/ready", "/leader")) == statuses
    assert health.answer("/")[0] == 404


@pytest.mark.parametrize(
    ("request_bytes", "status", "has_body"),
    [
        (b"GET /leader HTTP/1.1\r\nHost: x\r\n\r\n", b"200", True),
        (b"GET /leader?from=probe HTTP/1.0\r\n\r\n", b"200", True),
        (b"HEAD /live HTTP/1.1\r\n\r\n", b"200", False),
        (b"POST /live HTTP/1.1\r\n\r\n", b"404", True),
        (b"\r\n\r\n", b"404", True),
    ],
)
def test_it_speaks_as_much_http_as_probes_do(request_bytes: bytes, status: bytes, has_body: bool) -> None:
    async def ask() -> bytes:
        health = Health("127.0.0.1:0", lambda: STATES["leader"])
        await health.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
        writer.write(request_bytes)
        answer = await reader.read()
        writer.close()
        await health.stop()
        return answer

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert (json.loads(body) == STATES["leader"]) if has_body else body == b""


def test_too_long_a_request_gets_no_answer() -> None:
    async def ask() -> bytes:
        health = Health("127.0.0.1:0", lambda: STATES["leader"])
        await health.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
        writer.write(b"GET /" + b"x" * 10_000)
        try:
            answer = await reader.read()
        except ConnectionError:
            answer = b""
        writer.close()
        await health.stop()
        return answer

    assert asyncio.run(ask()) == b""
