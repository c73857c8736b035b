"""The door: connections that say nothing or say it slowly pay with themselves, and nobody else does."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import httpx

from msmq.admission.gate import Crowding, Gate
from msmq.web.door import Door, context
from msmq.web.plan import bound
from tests.api.authority import Authority


async def _app(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
    names = ",".join(scope["state"]["certificate_names"])
    await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": f"hello {names}".encode()})  # type: ignore[operator]


async def test_silent_connections_make_room_for_those_who_ask() -> None:
    gate = Gate(Crowding(connections=100, per_address=5, opening=5), asyncio.get_running_loop)
    door = Door(_app, gate)  # type: ignore[arg-type]
    listening = bound("127.0.0.1", 0)
    port = listening.getsockname()[1]
    await door.open([listening], None)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    for _, writer in silent[::2]:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(3):
            answer = await client.get(f"http://127.0.0.1:{port}/", headers={"connection": "close"})
            assert answer.text == "hello "
    assert gate.inside <= 5
    await door.close()
    for _, writer in silent:
        writer.close()


async def test_headers_have_an_end() -> None:
    door = Door(_app, Gate(Crowding(), asyncio.get_running_loop))  # type: ignore[arg-type]
    listening = bound("127.0.0.1", 0)
    await door.open([listening], None)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000)
    answer = await reader.read(1000)
    assert answer == b"" or b" 400 " in answer.splitlines()[0]
    writer.close()
    await door.close()


def _trusting(authority: Authority, own: tuple[Path, Path] | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=authority.file)
    if own is not None:
        made.load_cert_chain(*own)
    return made


async def test_tls_shows_who_has_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client_files = authority.issue("alice")
    tls = context(*authority.issue("localhost"), authority.file)

    door = Door(_app, Gate(Crowding(), asyncio.get_running_loop))  # type: ignore[arg-type]
    listening = bound("127.0.0.1", 0)
    await door.open([listening], tls)
    url = f"https://localhost:{listening.getsockname()[1]}/"
    async with httpx.AsyncClient(verify=_trusting(authority, client_files), trust_env=False) as client:
        assert "alice" in (await client.get(url)).text
    async with httpx.AsyncClient(verify=_trusting(authority, None), trust_env=False) as client:
        assert (await client.get(url)).text == "hello "
    await door.close()
