"""Churn: queues, connections, cursors, transactions and sessions come and go, and everything they took comes back.

``MSMQ_SOAK_SECONDS`` makes it longer (`make soak`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msmq
from msmq.errors import MsmqError
from msmq.remote_read.interface import R_GET_SERVER_PORT, REMOTE_READ, Nothing
from msmq.rpc.client import RpcClient
from tests.server.support import BOB, CAROL, Peer, free_port
from tests.server.test_daemon_processes import Process
from tests.server.test_hostile import memory_kb

SECONDS = float(os.environ.get("MSMQ_SOAK_SECONDS", "10"))
WARM_UP = 3
MEMORY_LIMIT_KB = 32 << 10
DISK_LIMIT_BYTES = 8 << 20
"""How much more there may be at the end: a segment of the store that is partly in use stays, and so does what the
collector of cycles has not come to yet."""
POOL = 4 + (os.cpu_count() or 1)
"""Threads that asyncio keeps once it has started them."""
CONFIG = """
incidental_queue_idle_s = 1
[timers]
session_retry_connect_ms = 100
order_ack_timeout_ms = 50
[rpc]
endpoint_mapper_port = 0
port = """


@dataclass(frozen=True)
class Measured:
    descriptors: int
    connections: int
    threads: int
    tasks: int
    memory_kb: int
    disk_bytes: int

    def back_to(self, before: Measured) -> bool:
        return (
            self.descriptors <= before.descriptors
            and self.connections <= before.connections
            and self.threads <= before.threads + POOL
            and self.tasks <= before.tasks
            and self.memory_kb <= before.memory_kb + MEMORY_LIMIT_KB
            and self.disk_bytes <= before.disk_bytes + DISK_LIMIT_BYTES
        )


class Churn:
    """Everybody who comes and goes."""

    def __init__(self, daemon: Process, rpc_port: int) -> None:
        self.daemon = daemon
        self.rpc_port = rpc_port
        self.rounds = 0

    @asynccontextmanager
    async def client(self) -> AsyncIterator[msmq.Connection]:
        async with msmq.connect(self.daemon.api, timeout=60) as mq:
            yield mq

    async def queues(self) -> None:
        async with self.client() as mq:
            for number in range(8):
                path = f".\\private$\\churn{self.rounds}-{number}"
                await mq.create_queue(path)
                await mq.queue(path).send_many([bytes(20_000)] * 4, delivery=msmq.Delivery.RECOVERABLE)
                await mq.queue(path).receive(timeout=60)
                await mq.delete_queue(path)

    async def cursors(self) -> None:
        async with self.client() as mq:
            for _ in range(8):
                async with mq.queue(".\\private$\\steady").cursor() as cursor:
                    await cursor.next_many(3)

    async def transactions(self) -> None:
        async with self.client() as mq:
            for number in range(8):
                with suppress(ZeroDivisionError):
                    async with mq.transaction() as transaction:
                        await transaction.send(".\\private$\\orders", b"x" * 1_000)
                        1 // (number % 2)  # every other one is aborted
            for _ in range(4):
                async with mq.transaction() as transaction:
                    await transaction.receive(".\\private$\\orders", timeout=60)

    async def broken_off(self) -> None:
        """Clients that go without a word, in the middle of a wait."""
        mq = msmq.connect(self.daemon.api, timeout=60)
        await mq.open()
        waiting = asyncio.create_task(mq.queue(".\\private$\\nothing").receive())
        await mq.manager()
        waiting.cancel()
        with suppress(asyncio.CancelledError, MsmqError):
            await waiting
        await mq.close()

    async def sessions(self) -> None:
        peer = Peer(os.urandom(16))
        await peer.connect(BOB, self.daemon.port, source=CAROL)
        for number in range(8):
            # Their acknowledgments go to hosts that are not there.
            admin = f"TCP:127.0.7.{number + 1}\\private$\\admin"
            peer.send(peer.message(b"x", "OS:bob\\private$\\arrivals", admin=admin, acknowledge=1))
        await peer.close()
        async with self.client() as mq:
            await mq.queue(".\\private$\\arrivals").purge()
            for outgoing in await mq.outgoing_queues():
                await mq.purge_outgoing(outgoing.format_name)

    async def silence(self) -> None:
        opened = [await asyncio.open_connection(BOB, self.daemon.port) for _ in range(20)]
        opened += [await asyncio.open_connection(BOB, self.rpc_port) for _ in range(20)]
        for _, writer in opened:
            writer.close()

    async def readers(self) -> None:
        async with await RpcClient.connect(BOB, self.rpc_port, REMOTE_READ) as client:
            await client.call(R_GET_SERVER_PORT, Nothing())

    @property
    def all(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.queues, self.cursors, self.transactions, self.broken_off, self.sessions, self.silence, self.readers,
        ]  # fmt: skip

    async def round(self) -> None:
        await asyncio.gather(*(churn() for churn in self.all))
        self.rounds += 1

    async def measure(self) -> Measured:
        async with self.client() as mq:
            found = (await mq.manager()).resources
        disk = sum(path.stat().st_size for path in (self.daemon.data / "store").iterdir())
        pid = self.daemon.process.pid
        return Measured(
            found.descriptors, found.connections, found.threads, found.tasks, memory_kb(pid), disk
        )


def test_everything_comes_back(tmp_path: Path) -> None:
    async def test() -> None:
        rpc_port = free_port()
        config = f"{CONFIG}{rpc_port}\n"
        bob = Process(tmp_path, "BOB", BOB, free_port(), config=config, api=f"unix:{tmp_path / 'api'}")
        for name in ("steady", "nothing", "arrivals"):
            bob.make_queue(name)
        bob.make_queue("orders", transactional=True)
        await bob.start()
        churn = Churn(bob, rpc_port)
        async with churn.client() as mq:
            await mq.queue(".\\private$\\steady").send_many([b"x"] * 10)
        for _ in range(WARM_UP):
            await churn.round()
        before = await churn.measure()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or churn.rounds < 3 * WARM_UP:
            await churn.round()
        async with asyncio.timeout(60):
            while not (after := await churn.measure()).back_to(before):
                await asyncio.sleep(0.2)
                print(f"still {after}, before {before}")
        print(f"{churn.rounds} rounds: {before}, then {after}")
        await bob.stop()
        assert "Traceback" not in (tmp_path / "BOB.log").read_text()

    asyncio.run(asyncio.wait_for(test(), SECONDS + 180))
