"""UDP 3527: answering pings (MS-MQQB 3.1.7.8), and sending them (3.1.7.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from msmq.server.alarm import now_ms
from msmq.transfer.ping import PingCookies, PingRequest, PingResponder


class PingDoor(asyncio.DatagramProtocol):
    """The open port; each request is answered to the address that it came from."""

    def __init__(self, responder: PingResponder, open_sessions: Callable[[], int]) -> None:
        self._responder = responder
        self._open_sessions = open_sessions
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        answer = self._responder.answer(data, self._open_sessions())
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)


class _Asking(asyncio.DatagramProtocol):
    def __init__(self, request: PingRequest, answered: asyncio.Event) -> None:
        self._request = request
        self._answered = answered

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        self._request.receive(data)
        if self._request.status is not None:
            self._answered.set()

    def error_received(self, exc: Exception) -> None:
        """Ignore that nobody listens there, as if the datagram were lost."""


async def ping(
    address: str,
    port: int,
    cookies: PingCookies,
    own_guid: bytes,
    response_ms: int,
    source: str | None,
    server_class: bool,
) -> bool:
    """Whether a queue manager answers and would accept one more session from us, a server or a client."""
    loop = asyncio.get_running_loop()
    request = PingRequest(cookies, own_guid, now_ms(), server_class=server_class, response_ms=response_ms)
    answered = asyncio.Event()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Asking(request, answered),
        local_addr=None if source is None else (source, 0),
        remote_addr=(address, port),
    )
    try:
        transport.sendto(request.datagram)
        async with asyncio.timeout(response_ms / 1_000):
            await answered.wait()
    except TimeoutError:
        request.handle_timer(now_ms() + response_ms)
    finally:
        transport.close()
    return bool(request.status)
