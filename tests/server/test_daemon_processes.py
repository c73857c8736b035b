"""Real processes: ``msmq serve``, stopped and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import msmq
from msmq.manager.core import Environment
from msmq.manager.initialization import Identity, Settings
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.store import RealDisk, Store
from tests import ready
from tests.ready import AwaitedFork
from tests.server.support import (
    ALICE,
    BOB,
    CAROL,
    PATIENCE_S,
    Node,
    Peer,
    eventually,
    free_port,
    name_of,
    neighbourhood,
)


class Process:
    """A queue manager in a process of its own; while it does not run, its store can be looked into."""

    def __init__(
        self,
        directory: Path,
        name: str,
        address: str,
        port: int,
        *,
        config: str = "[timers]\nsession_retry_connect_ms = 100\norder_ack_timeout_ms = 50\n",
        ping_port: int = 0,
        api: str = "none",
        descriptors: int = 0,
        program: Sequence[str] = ("msmq",),
    ) -> None:
        self.program = program
        self.config = config
        self.api = api
        self.descriptors = descriptors
        self.ping_port = ping_port
        self.data = directory / name
        self.name = name
        self.address = address
        self.port = port

    async def start(self) -> None:
        timers = self.data.parent / "quick.toml"
        timers.write_text(self.config)
        command = ["serve", "--data", str(self.data), "--name", self.name, "--api", self.api]
        command += ["--listen", self.address, "--port", str(self.port), "--config", str(timers)]
        command += ["--ping-port", str(self.ping_port)]
        with (self.data.parent / f"{self.name}.log").open("ab") as log:
            self.process = AwaitedFork(
                ready.start(*self.program, *command, stderr=log, descriptors=self.descriptors)
            )
        async with asyncio.timeout(PATIENCE_S):
            line = await self.process.readline()
        assert line.startswith(b"ready"), line

    async def kill(self) -> None:
        self.process.kill()
        assert await self.process.wait() == -signal.SIGKILL

    async def stop(self) -> None:
        self.process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            assert await self.process.wait() == 0

    @contextmanager
    def opened(self) -> Iterator[Node]:
        """Its queue manager, without the doors."""
        self.data.mkdir(parents=True, exist_ok=True)
        store = Store.open(RealDisk(self.data / "store"))
        settings = Settings(local_addresses=frozenset({self.address}))
        manager = QueueManager(
            store, Environment(time.time, os.urandom), lambda: Identity(self.name), settings
        )
        manager.naming.loopback_is_local = False
        manager.start()
        node = object.__new__(Node)
        node.manager, node.core = manager, manager.core
        try:
            yield node
        finally:
            manager.stop()
            store.close()

    def make_queue(self, name: str, **attributes: object) -> None:
        with self.opened() as node:
            node.manager.queues.create(QueueRequest(f".\\private$\\{name}", **attributes))  # type: ignore[arg-type]

    def bodies(self, name: str) -> list[bytes]:
        with self.opened() as node:
            queue: Queue = node.core.by_path[f"{self.name}\\private$\\{name}".lower()]
            return node.bodies(queue)


@pytest.mark.spec("MQQB-1.3.2.1.2-a")
async def test_recoverable_messages_outlive_both_processes(tmp_path: Path) -> None:
    """The sender is killed with its messages unsent, the receiver after it acknowledged them."""
    port = free_port()
    alice = Process(tmp_path, "ALICE", ALICE, port, api=f"unix:{tmp_path / 'api'}")
    bob = Process(tmp_path, "BOB", BOB, port)
    bob.make_queue("orders")
    with alice.opened() as node:
        for number in range(50):
            node.send(name_of(BOB), b"%d" % number, recoverable=True)
    await alice.start()
    await alice.kill()
    await alice.start()
    await bob.start()
    peer = Peer()
    await peer.connect(BOB, port)
    peer.send(peer.message(b"from a peer", recoverable=True), "stored")
    await eventually(lambda: peer.acknowledged == ["stored"])
    async with msmq.connect(alice.api, timeout=PATIENCE_S) as mq, asyncio.timeout(PATIENCE_S):
        while any(queue.messages for queue in await mq.outgoing_queues()):
            await asyncio.sleep(0.01)
    await bob.kill()
    await alice.stop()
    await peer.close()
    with alice.opened() as node:
        assert node.bodies(node.core.outgoing[f"direct=tcp:{BOB}\\private$\\orders"]) == []
    bodies = bob.bodies("orders")
    assert set(bodies) == {b"from a peer", *(b"%d" % number for number in range(50))}
    await bob.start()
    await bob.stop()
    assert bob.bodies("orders") == bodies


async def test_transactional_messages_through_kills(tmp_path: Path) -> None:
    """Each of two processes is killed several times while messages flow; an observer hears of each arrival."""
    async with neighbourhood(tmp_path) as here:
        carol = await here.node(CAROL)
        arrived = carol.queue("arrived")
        alice, bob = (
            Process(tmp_path, "ALICE", ALICE, here.port),
            Process(tmp_path, "BOB", BOB, here.port),
        )
        bob.make_queue("orders", transactional=True)
        options = {"admin": name_of(CAROL, "arrived"), "acknowledge": 1}
        with alice.opened() as node:
            for number in range(200):
                node.send_together(name_of(BOB), b"%d" % number, **options)
        await alice.start()
        await bob.start()
        for victim, seen in ((bob, 1), (alice, 40), (bob, 80), (alice, 120), (bob, 160)):
            await eventually(lambda seen=seen: len(arrived.positions) >= seen)
            await victim.kill()
            await victim.start()
        await eventually(lambda: len(arrived.positions) >= 200)
        await alice.stop()
        await bob.stop()
        assert bob.bodies("orders") == [b"%d" % number for number in range(200)]


async def test_a_store_in_use(tmp_path: Path) -> None:
    port = free_port()
    first, second = Process(tmp_path, "ALICE", ALICE, port), Process(tmp_path, "ALICE", BOB, port)
    await first.start()
    with pytest.raises(AssertionError):
        await second.start()
    assert await second.process.wait() == 2
    assert "in use" in (tmp_path / "ALICE.log").read_text()
    await first.stop()
