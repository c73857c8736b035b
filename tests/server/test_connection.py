"""The asyncio side of a session: flow control and hanging up."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msmq.transfer.states import State
from tests.server.support import ALICE, Peer, eventually, neighbourhood, run


def test_a_peer_that_is_faster_than_the_disk_is_read_no_further(tmp_path: Path) -> None:
    async def test() -> None:
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
            assert 1 <= len(orders.positions) < 30
            (connection,) = alice.daemon.listener.connections
            assert connection._transport is not None
            assert not connection._transport.is_reading()
            alice.daemon.commit._begin = begin  # type: ignore[method-assign]
            begin()
            await eventually(lambda: len(peer.acknowledged) == 30)
            assert len(orders.positions) == 30
            assert connection._transport.is_reading()
            await peer.close()

    run(test)


def test_a_peer_that_does_not_read_is_not_read(tmp_path: Path) -> None:
    async def test() -> None:
        async with neighbourhood(tmp_path) as here:
            alice = await here.node(ALICE)
            alice.queue()
            peer = Peer()
            await peer.connect(ALICE, here.port)
            (connection,) = alice.daemon.listener.connections
            assert connection._transport is not None
            connection.pause_writing()
            assert not connection._transport.is_reading()
            assert connection.room == 0
            connection.resume_writing()
            assert connection._transport.is_reading()
            assert connection.room == 64
            await peer.close()

    run(test)


def test_closing_acknowledges_what_is_stored(tmp_path: Path) -> None:
    async def test() -> None:
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

    run(test)
