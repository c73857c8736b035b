"""The door for sessions: who gets in, and what strangers can do."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from msmq.server.config import Config
from msmq.transfer.states import State
from msmq.wire.packets import EstablishConnection
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    DORA,
    PATIENCE_S,
    QUICK,
    Node,
    Peer,
    eventually,
    name_of,
    neighbourhood,
)

# An address of its own, because the well-known port is one for the whole machine.
WELL_KNOWN, OTHER_WELL_KNOWN = "127.18.1.1", "127.18.1.2"


def connectable(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


@pytest.mark.spec("MQQB-1.9-a", "MQQB-2.1.1-a", "MQQB-2.1.1-b", "MQQB-3.1.4.2-a")
async def test_the_well_known_port(tmp_path: Path) -> None:
    alice = Node(Config(data=tmp_path / "a", name="ALICE", listen=(WELL_KNOWN,)))
    bob = Node(Config(data=tmp_path / "b", name="BOB", listen=(OTHER_WELL_KNOWN,)))
    assert not connectable(OTHER_WELL_KNOWN, 1801)
    await alice.start()
    await bob.start()
    assert connectable(OTHER_WELL_KNOWN, 1801)
    orders = bob.queue()
    alice.send(name_of(OTHER_WELL_KNOWN), b"hello")
    await eventually(lambda: len(orders.positions))
    accepted = next(c for c in bob.daemon.listener.connections if c.is_open)
    assert accepted._transport is not None
    assert accepted._transport.get_extra_info("sockname")[1] == 1801
    assert accepted._transport.get_extra_info("peername")[1] not in (0, 1801)
    (own,) = alice.own_connections
    await bob.stop()
    assert not connectable(OTHER_WELL_KNOWN, 1801)
    await eventually(lambda: not own.is_open)
    assert not bob.daemon.listener.connections
    await alice.stop()


async def test_a_port_of_zero_opens_no_door(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE, port=0)
        assert not connectable(ALICE, here.port)
        assert alice.daemon.listener._servers == []


async def test_both_families(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        await here.node(ALICE, listen=(ALICE, "::1"))
        peer = Peer()
        await peer.connect("::1", here.port, source="::1")
        assert peer.session.state is State.OPEN
        await peer.close()


async def test_no_more_sessions_than_allowed(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        await here.node(ALICE, max_in_sessions=1)
        first, second = Peer(), Peer()
        await first.connect(ALICE, here.port)
        assert first.session.state is State.OPEN
        await second.connect(ALICE, here.port)
        assert second.session.state is not State.OPEN
        await first.close()
        third = Peer()
        await third.connect(ALICE, here.port)
        assert third.session.state is State.OPEN
        await third.close()
        await second.close()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def silent(address: str, port: int, count: int, source: str) -> list[Stream]:
    """Connections that say nothing."""
    return [await asyncio.open_connection(address, port, local_addr=(source, 0)) for _ in range(count)]


async def test_silent_connections_keep_nobody_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However many of them one address has: newcomers get in, and the log says what happens, once, and the rest
    in the end."""
    with caplog.at_level(logging.WARNING, "msmq.server.daemon"):
        async with neighbourhood(tmp_path, max_opening_connections=30) as here:
            alice = await here.node(ALICE)
            greedy = await silent(ALICE, here.port, 60, CAROL)
            await eventually(lambda: len(alice.daemon.listener.connections) == 30)
            peer = Peer()
            await peer.connect(ALICE, here.port, source=BOB)
            assert peer.session.state is State.OPEN
            for reader, _ in greedy[:30]:
                assert await reader.read() == b""
            await eventually(lambda: "turned away" in caplog.text)
            assert peer.session.state is State.OPEN
            await peer.close()
            for _, writer in greedy:
                writer.close()
    told, rest = [record.getMessage() for record in caplog.records if "turned away" in record.getMessage()]
    for line in (told, rest):
        assert "more than 30 that do nothing yet" in line
        assert f"from {CAROL}" in line


async def test_idle_sessions_of_one_address_keep_nobody_out(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, max_connections=6, max_connections_per_address=5) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        modest = Peer()
        await modest.connect(ALICE, here.port, source=BOB)
        greedy = [Peer() for _ in range(7)]
        for peer in greedy:
            await peer.connect(ALICE, here.port, source=CAROL)
            assert peer.session.state is State.OPEN
        for peer in greedy[:2]:
            await peer.closed.wait()
        new = Peer(bytes(range(0xB0, 0xC0)))
        await new.connect(ALICE, here.port, source=DORA)
        assert new.session.state is State.OPEN
        await greedy[2].closed.wait()
        for peer in (modest, new):
            peer.send(peer.message(b"x"))
        await eventually(lambda: len(orders.positions) == 2)
        for peer in (modest, new, *greedy):
            await peer.close()


@pytest.mark.parametrize(
    "junk",
    [b"GET / HTTP/1.1\r\nHost: alice\r\n\r\n", bytes(4096), b"\x10\0\x01\0LIOR" + b"\xff" * 12, b"\x10" * 30],
    ids=["http", "zeros", "huge", "tens"],
)
async def test_a_stranger_is_shown_out(tmp_path: Path, junk: bytes) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        reader, writer = await asyncio.open_connection(ALICE, here.port)
        writer.write(junk)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        await eventually(lambda: not alice.daemon.listener.connections)


async def test_before_the_session_is_open_few_bytes_are_enough(tmp_path: Path) -> None:
    """A legal beginning of a large message, sent where only an opening belongs, is not buffered."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        large = Peer().message(bytes(1 << 20)).data
        reader, writer = await asyncio.open_connection(ALICE, here.port)
        writer.write(large[: 1 << 19])
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
        await eventually(lambda: not alice.daemon.listener.connections)


async def test_who_says_nothing_is_shown_out_in_time(tmp_path: Path) -> None:
    patient, quick = replace(QUICK, session_initialization_ms=100), replace(QUICK)
    for timers, timeout_s in ((patient, 60), (quick, 0)):
        async with neighbourhood(tmp_path, timers=timers, opening_timeout_s=timeout_s) as here:
            await here.node(ALICE)
            reader, writer = await asyncio.open_connection(ALICE, here.port)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            writer.close()


@pytest.mark.spec("MQQB-3.1.5.3.1-c")
async def test_the_answer_to_each_kind_of_request(tmp_path: Path) -> None:
    """Zero becomes our GUID, any other comes back as it was; whoever asked for another is refused."""
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        ours, theirs, foreign = alice.core.record.identifier, b"t" * 16, b"f" * 16
        for asked, answered, refused in ((None, ours, 0), (ours, ours, 0), (foreign, foreign, 1)):
            reader, writer = await asyncio.open_connection(ALICE, here.port)
            request = EstablishConnection.request(theirs, asked, 0x01020304)
            writer.write(request.encode())
            data = await reader.readexactly(EstablishConnection.SIZE)
            expected = bytearray(request.encode())
            expected[18] |= refused << 4  # InternalHeader.Flags.CS
            expected[36:52] = answered
            assert data == expected
            writer.close()


@pytest.mark.spec("MQQB-1.3.5.1-b")
async def test_each_session_acknowledges_its_own(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        one, two = Peer(), Peer(bytes(range(0xB0, 0xC0)))
        await one.connect(ALICE, here.port)
        await two.connect(ALICE, here.port, source=BOB)
        one.send(one.message(b"1", recoverable=True), "one")
        for number in range(3):
            two.send(two.message(b"%d" % number, recoverable=True), f"two {number}")
        await eventually(lambda: len(one.acknowledged) == 1 and len(two.acknowledged) == 3)
        assert one.acknowledged == ["one"]
        assert two.acknowledged == ["two 0", "two 1", "two 2"]
        assert (one.session.outbox.acked, two.session.outbox.acked) == (1, 3)
        assert len(orders.positions) == 4
        await one.close()
        await two.close()
