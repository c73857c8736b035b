"""Pings on UDP: answered where that is wanted, asked where that is wanted."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.ledger.attributes import change
from msmq.manager.model import ConnectionStatus
from msmq.server.alarm import now_ms
from msmq.server.config import Config
from msmq.wire.packets import EstablishConnection, Ping
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    QUICK,
    Node,
    eventually,
    free_port,
    name_of,
    neighbourhood,
)

GUID = bytes(range(16))
WELL_KNOWN = "127.18.2.1"


class Socket(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[bytes] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append(data)


async def udp(address: str, port: int = 0) -> tuple[asyncio.DatagramTransport, Socket]:
    loop = asyncio.get_running_loop()
    return await loop.create_datagram_endpoint(Socket, local_addr=(address, port))


def bound(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return True
        return False


@pytest.mark.spec("MQQB-2.1.2-a", "MQQB-2.1.2-b", "MQQB-2.1.2-c")
async def test_the_well_known_port(tmp_path: Path) -> None:
    silent = Node(Config(data=tmp_path / "a", name="A", listen=(WELL_KNOWN,), port=0))
    await silent.start()
    assert not bound(WELL_KNOWN, 3527)
    await silent.stop()
    config = Config(data=tmp_path / "a", name="A", listen=(WELL_KNOWN,), port=0, enable_ping_service=True)
    answering = Node(config)
    await answering.start()
    assert bound(WELL_KNOWN, 3527)
    first, first_socket = await udp(CAROL)
    second, second_socket = await udp(CAROL)
    requests = [Ping.request(7, GUID), Ping.request(8, GUID)]
    for transport, request in zip((first, second), requests, strict=True):
        transport.sendto(request.encode(), (WELL_KNOWN, 3527))
    await eventually(lambda: first_socket.received and second_socket.received)
    await asyncio.sleep(0.05)
    for received, request in zip((first_socket, second_socket), requests, strict=True):
        (datagram,) = received.received
        assert len(datagram) == 24
        assert Ping.parse(datagram).answers(request)
    first.close()
    second.close()
    await answering.stop()


@pytest.mark.spec("MQQB-2.2.7-b", "MQQB-2.2.3.1-h")
@pytest.mark.parametrize("system", ["Foreign", "WinClient", "WinServer", "WinEnt"])
async def test_a_host_says_whether_it_is_a_server(tmp_path: Path, system: str) -> None:
    """In its Ping and when it opens a session, by the system that its record names."""
    port, opened = free_port(), list[EstablishConnection]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(EstablishConnection.decode(await reader.readexactly(EstablishConnection.SIZE)))
        writer.close()

    async with neighbourhood(tmp_path, ping_before_connecting=True, ping_port=port) as here:
        alice = await here.node(ALICE)
        change(alice.core, operating_system_type=system)
        await alice.restart()
        server = await asyncio.start_server(accept, BOB, here.port)
        door, asked = await udp(BOB, port)
        alice.send("DIRECT=TCP:" + BOB + "\\private$\\orders", b"x", recoverable=True)
        await eventually(lambda: asked.received and opened)
        assert Ping.parse(asked.received[0]).client == (system not in ("WinServer", "WinEnt"))
        assert opened[0].header.server_class == (system in ("WinServer", "WinEnt"))
        server.close()
        door.close()


async def test_junk_is_not_answered(tmp_path: Path) -> None:
    port = free_port()
    async with neighbourhood(tmp_path, ping_port=port, enable_ping_service=True) as here:
        await here.node(ALICE)
        transport, received = await udp(CAROL)
        for junk in (b"", b"x", bytes(24), bytes(1_000)):
            transport.sendto(junk, (ALICE, port))
        transport.sendto(Ping.request(1, GUID).encode(), (ALICE, port))
        await eventually(lambda: received.received)
        await asyncio.sleep(0.05)
        assert len(received.received) == 1
        transport.close()


@pytest.mark.spec("MQQB-2.1-a", "MQQB-3.1.5.2.2-b")
@pytest.mark.parametrize("pinging", [False, True])
async def test_with_and_without(tmp_path: Path, pinging: bool) -> None:
    options = {
        "enable_ping_service": pinging,
        "ping_before_connecting": pinging,
        "ping_port": free_port(),
    }
    async with neighbourhood(tmp_path, **options) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"hello")
        await eventually(lambda: len(orders.positions))
        assert alice.daemon.outgoing._surroundings.cookies.last == int(pinging)


@pytest.mark.spec("MQQB-2.1-b")
async def test_by_default_nobody_is_pinged(tmp_path: Path) -> None:
    port = free_port()
    transport, received = await udp(BOB, port)
    async with neighbourhood(tmp_path, ping_port=port) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"hello")
        await eventually(lambda: len(orders.positions))
        assert received.received == []
    transport.close()


@pytest.mark.spec("MQQB-3.1.5.2.2-a", "MQQB-3.1.3.2-k")
async def test_a_ping_that_is_not_answered(tmp_path: Path) -> None:
    """No connection is made; the next attempt comes without a ping."""
    port = free_port()
    transport, received = await udp(BOB, port)
    async with neighbourhood(tmp_path, ping_port=port, ping_before_connecting=True) as here:
        timers = replace(QUICK, ping_response_ms=100, session_retry_connect_ms=400)
        alice, bob = await here.node(ALICE, timers=timers), await here.node(BOB)
        guid = alice.core.record.identifier
        asked: list[tuple[int, list[ConnectionStatus]]] = []

        def admit(request: EstablishConnection) -> bool:
            asked.append((request.header.no_ping_sent, [entry.status for entry in queue.connection_history]))
            return True

        bob.daemon.listener._admit = admit  # type: ignore[method-assign]
        orders = bob.queue()
        alice.send(name_of(BOB), b"hello")
        queue = alice.outgoing(BOB)
        await eventually(lambda: len(orders.positions))
        assert len(received.received) == 1
        assert Ping.parse(received.received[0]).cookie == 1
        attempts = [ConnectionStatus.PING_FAILURE, ConnectionStatus.IN_PROCESS]
        assert asked == [(1, attempts)]
        # A further session does not begin to count anew, and restarts do not change who we are.
        alice.send(name_of(CAROL), b"nobody there")
        await eventually(lambda: alice.daemon.outgoing._surroundings.cookies.last == 2)
        await alice.restart()
        assert alice.core.record.identifier == guid
    transport.close()


@pytest.mark.spec("MQQB-3.1.5.2.2-c")
async def test_a_ping_that_is_refused(tmp_path: Path) -> None:
    options = {"ping_port": free_port(), "ping_before_connecting": True, "enable_ping_service": True}
    async with neighbourhood(tmp_path, **options) as here:
        timers = replace(QUICK, session_retry_connect_ms=60_000)
        alice, bob = await here.node(ALICE, timers=timers), await here.node(BOB, max_in_sessions=0)
        alice.send(name_of(BOB), b"hello")
        queue = alice.outgoing(BOB)
        await eventually(lambda: queue.connection_history)
        assert [entry.status for entry in queue.connection_history] == [ConnectionStatus.PING_FAILURE]
        assert not bob.daemon.listener.connections
        (link,) = alice.daemon.outgoing.links.values()
        deadline_ms = link._session.next_deadline_ms
        assert deadline_ms is not None
        assert 59_000 < deadline_ms - now_ms() <= 60_000
