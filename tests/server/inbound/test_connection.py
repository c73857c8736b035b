"""The asyncio side of a session: flow control and hanging up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from msmq.server.inbound import connection
from msmq.transfer.states import State
from tests.server.support import ALICE, BOB, Peer, eventually, name_of, neighbourhood


async def test_a_peer_that_is_faster_than_the_disk_is_read_no_further(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, max_unstored_bytes=1_000) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        await alice.daemon.commit.drain()
        begin = alice.daemon.commit._begin
        alice.daemon.commit._begin = lambda: None  # type: ignore[method-assign]  # a very slow disk
        peer = Peer()
        await peer.connect(ALICE, here.port)
        for _ in range(30):
            peer.send(peer.message(bytes(500), recoverable=True))
            await asyncio.sleep(0.005)
        (connection,) = alice.daemon.listener.connections
        await eventually(lambda: connection._transport and not connection._transport.is_reading())
        assert 1 <= len(orders.positions) < 30
        assert connection._transport is not None
        alice.daemon.commit._begin = begin  # type: ignore[method-assign]
        begin()
        await eventually(lambda: len(peer.acknowledged) == 30)
        assert len(orders.positions) == 30
        assert connection._transport.is_reading()
        await peer.close()


async def test_a_peer_that_does_not_read_is_not_read_beyond_its_window(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path, window_size=64) as here:
        alice = await here.node(ALICE)
        alice.queue()
        peer = Peer()
        await peer.connect(ALICE, here.port)
        (connection,) = alice.daemon.listener.connections
        assert connection._transport is not None
        connection.pause_writing()
        assert connection.room == 0
        # It is read as long as it keeps to its window, or two that both wait would wait for ever.
        for number in range(1, 2 * connection.session.window_size + 2):
            assert connection._transport.is_reading()
            peer.send(peer.message())
            await eventually(lambda number=number: connection.session.receipts.received == number)
        await eventually(lambda: connection._transport and not connection._transport.is_reading())
        connection.resume_writing()
        assert connection._transport.is_reading()
        assert connection.room == 64
        await peer.close()


async def test_a_packet_has_to_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two peers that write a byte now and then inside an open session, one of them a packet after the other; and one
    that we do not read for as long."""
    monkeypatch.setattr(connection, "PACKET_MS", 400)

    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        slow, diligent, held = [Peer(bytes([number]) * 16) for number in (1, 2, 3)]
        for peer in (slow, diligent, held):
            await peer.connect(ALICE, here.port)
        ends = {each.session.remote_guid: each for each in alice.daemon.listener.connections}
        packet = held.message(b"x").data
        held._writer.write(packet[:-1])
        end = ends[held.guid]
        await eventually(lambda: end._packet_began_ms is not None)
        end.hold(1 << 30)  # the disk is behind
        sent = 0
        slow._task.add_done_callback(lambda task: task.cancelled() or task.exception())  # reset
        while ends[slow.guid] in alice.daemon.listener.connections:
            slow._writer.write(packet[sent : sent + 1])
            diligent.send(diligent.message(b"y"))
            sent += 1
            await asyncio.sleep(0.05)
        assert sent < len(packet)
        end.let_go(1 << 30)
        held._writer.write(packet[-1:])
        await eventually(lambda: b"x" in alice.bodies(orders))
        assert not diligent.closed.is_set()
        for peer in (slow, diligent, held):
            await peer.close()


async def test_closing_acknowledges_what_is_stored(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        peer = Peer()
        await peer.connect(ALICE, here.port)
        peer.send(peer.message(b"x", recoverable=True), "x")
        await eventually(lambda: len(orders.positions))
        await alice.stop()
        await eventually(peer.closed.is_set)
        assert peer.acknowledged == ["x"]
        assert peer.session.state is State.OPEN, "nobody said goodbye"
        await peer.close()


async def test_all_connections_together_have_a_limit(tmp_path: Path) -> None:
    """Each may send much more than it does; what they have sent together is too much for a slow disk."""
    async with neighbourhood(tmp_path, max_unstored_total_bytes=2_000) as here:
        alice = await here.node(ALICE)
        orders = alice.queue()
        await alice.daemon.commit.drain()
        begin = alice.daemon.commit._begin
        alice.daemon.commit._begin = lambda: None  # type: ignore[method-assign]  # a very slow disk
        peers = [Peer(bytes((number,)) * 16) for number in range(4)]
        for peer in peers:
            await peer.connect(ALICE, here.port)
            for _ in range(3):
                peer.send(peer.message(bytes(500), recoverable=True))
        connections = alice.daemon.listener.connections
        await eventually(lambda: any(not each._reading for each in connections))
        await eventually(lambda: len(orders.positions) >= 3)
        for peer in peers:
            for _ in range(9):
                peer.send(peer.message(bytes(500), recoverable=True))
        await asyncio.sleep(0.05)
        assert len(orders.positions) < 48
        alice.daemon.commit._begin = begin  # type: ignore[method-assign]
        begin()
        await eventually(lambda: all(len(peer.acknowledged) == 12 for peer in peers))
        assert len(orders.positions) == 48
        assert all(each._reading for each in connections)
        for peer in peers:
            await peer.close()


async def test_a_peer_that_does_not_read_is_not_buried(tmp_path: Path) -> None:
    """What waits for it stays in its outgoing queue, on the disk; memory holds a bounded part of it."""
    async with neighbourhood(tmp_path, window_size=1_000) as here:
        alice, bob = await here.node(ALICE), await here.node(BOB)
        orders = bob.queue()
        alice.send(name_of(BOB), b"the first", recoverable=True)
        await eventually(lambda: len(orders.positions) == 1)
        (theirs,) = bob.daemon.listener.connections
        (ours,) = alice.own_connections
        assert theirs._transport is not None
        assert ours._transport is not None
        theirs._transport.pause_reading()
        for _ in range(200):
            alice.send(name_of(BOB), bytes(100_000), recoverable=True)
        await eventually(lambda: ours._congested)
        await asyncio.sleep(0.1)
        assert ours._transport.get_write_buffer_size() < 2 << 20
        assert ours.session.outbox.unacked < 150
        theirs._transport.resume_reading()
        await eventually(lambda: len(orders.positions) == 201)
