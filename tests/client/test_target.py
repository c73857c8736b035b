"""Where a queue manager is, and what goes wrong on the way there."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.addresses import PORT
from msmq.client.target import Target, Tls
from msmq.errors import MsmqError
from tests.api.authority import Authority
from tests.api.support import address, daemon
from tests.server.support import free_port

ALICE = "S-1-5-21-1-2-3-1001"


@pytest.mark.parametrize(
    ("given", "place", "tls"),
    [
        ("host:7", ("host", "7"), False),
        ("host", ("host", str(PORT)), False),
        ("tls:host:7", ("host", "7"), True),
        ("tls:host", ("host", str(PORT)), True),
        ("[::1]:7", ("::1", "7"), False),
        ("[::1]", ("::1", str(PORT)), False),
        ("127.0.0.1:7", ("127.0.0.1", "7"), False),
    ],
)
def test_addresses(given: str, place: tuple[str, str], tls: bool) -> None:
    target = Target(given)
    assert (target._host, target._port) == place
    assert (target.tls is not None) is tls
    assert Target(given, Tls(server_name="x")).tls == Tls(server_name="x")
    assert not target.path


@pytest.mark.parametrize("given", ["unix:/a/b", "unix:///a/b", "/a/b"])
def test_unix_sockets_have_no_tls(given: str) -> None:
    target = Target(given, Tls())
    assert target.path == "/a/b"
    assert target.tls is None


async def test_the_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses, one that is silent, and then the one that answers."""

    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    silent.listen(0)
    waiting = []
    for _ in range(4):  # the kernel keeps the first ones, and answers no more
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(silent.getsockname())
    places = [("127.0.0.1", free_port()), silent.getsockname(), server.sockets[0].getsockname()]

    async def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]

    monkeypatch.setattr(loop, "getaddrinfo", found)
    monkeypatch.setattr("msmq.client.target._ATTEMPT_S", 0.2)
    with await Target("host:1").connect() as sock:
        assert sock.getpeername() == places[-1]
    places.pop()
    places.append(("127.0.0.1", free_port()))
    with pytest.raises(ConnectionRefusedError):
        await Target("host:1").connect()
    for each in (*waiting, silent):
        each.close()
    server.close()


async def refused(given: str, tls: Tls | None = None) -> str:
    """What a client is told that is not let in; at once, although it has much patience."""
    with pytest.raises(MsmqError) as told:
        async with asyncio.timeout(60):
            await msmq.connect(given, tls=tls, timeout=600).open()
    return str(told.value)


async def test_what_is_no_queue_manager(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "Somebody else" in await refused(f"127.0.0.1:{port}")
    assert "WRONG_VERSION_NUMBER" in await refused(f"tls:127.0.0.1:{port}")
    server.close()


async def test_certificates_of_both_sides(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    certificate, key = authority.issue("localhost")
    api: dict[str, Any] = {
        "listen": ("tls:localhost:0",),
        "certificate": str(certificate),
        "private_key": str(key),
        "client_authorities": str(authority.file),
        "certificates": {"alice": ALICE},
    }
    async with daemon(tmp_path / "a", **api) as running:
        place = address(running, "tls")
        for trusted, own in ((authority, authority.issue("alice")), (authority, authority.issue("bob"))):
            tls = Tls(trusted.file, *own)
            async with msmq.connect(place, tls=tls, timeout=60) as mq:
                if own[0].stem == "alice":
                    assert (await mq.manager()).caller == ALICE
                else:
                    with pytest.raises(msmq.errors.AccessDeniedError, match="client certificate"):
                        await mq.manager()
        assert "asks for a client certificate" in await refused(place, Tls(authority.file))
        assert "asks for a client certificate" in await refused(
            place, Tls(authority.file, *other.issue("alice"))
        )
        assert "not trusted" in await refused(place, Tls(other.file))
        assert "not trusted" in await refused(place)
        assert "not trusted" in await refused(place, Tls(authority.file, server_name="other"))
        assert "write tls:" in await refused(place.removeprefix("tls:"))
        missing = tmp_path / "missing.pem"
        assert str(missing) in await refused(place, Tls(missing))
