"""Remote read over loopback: what a message costs that is received with acknowledgment, and one that is peeked at.

Run: ``python bench/remote_read.py [--messages 4000] [--window 32]`` (or ``make bench``). Server and client are in one
process and on one loop, and so is the baseline, so that a busy neighbour costs both the same. What counts is the ratio.

* **One at a time**: R_StartReceive and R_EndReceive, each waits for its answer.
* **Pipelined**: the same with a window of messages under way, as `msmq.direct.receive` does it.
* **Peeked**: `msmq.direct.browse` with as many chains.
* **Echo**: the same PDUs, byte for byte as long, between two bare asyncio protocols that do nothing but find the end of
  each; with the same number of calls under way. Two calls are one message.

Messages are 1 KB, express, in a queue on a simulated disk: what a disk costs is measured by ``bench/manager.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random

from msmq import direct
from msmq.manager.core import Environment
from msmq.manager.initialization import Identity
from msmq.manager.queue import Queue
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues import QueueRequest
from msmq.manager.stored import LocalAttributes, StoredMessage
from msmq.remote_read import interface as idl
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.policy import Policy
from msmq.remote_read.service import RemoteReadService
from msmq.rpc.pdu import AuthLevel
from msmq.security.sddl import parse_sddl
from msmq.store import Store
from msmq.testing.disk import SimulatedDisk
from msmq.testing.manager_host import packet

HOST = "127.0.0.1"
NAME = "DIRECT=OS:HOST\\private$\\bench"
BODY = bytes(range(256)) * 4
GOAL = 0.4
ROUNDS = 3


class Bench:
    """A queue manager that is served."""

    def __init__(self) -> None:
        store = Store.open(SimulatedDisk())
        environment = Environment(time.time, Random(1).randbytes)
        self.manager = QueueManager(store, environment, lambda: Identity("HOST"))
        self.manager.start()
        everybody = parse_sddl("D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)").encode()
        self.queue: Queue = self.manager.queues.create(QueueRequest(".\\private$\\bench", security=everybody))
        policy = Policy(AuthLevel.NONE)
        settings = DoorSettings((HOST,), 0, 0, policy, server=server_config(policy, 100, 100))
        self.door = RemoteReadDoor(settings, RemoteReadService(self, policy))
        self._made = packet(BODY, 3, recoverable=False, transactional=False, sent=int(time.time()))

    def when_durable(self, action: Callable[[], None]) -> None:
        action()

    def fill(self, count: int) -> None:
        for _ in range(count):
            self.manager.sending.enqueue(self.queue, StoredMessage(self._made, LocalAttributes()), None)


class EchoServer(asyncio.Protocol):
    """Answers each PDU with one of the size that the first byte of its body asks for."""

    answers: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:10], "little")
            if len(self._buffer) < size:
                return
            kind = self._buffer[16]
            del self._buffer[:size]
            self._transport.write(self.answers[kind])  # type: ignore[attr-defined]


class EchoClient(asyncio.Protocol):
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 16:
            size = int.from_bytes(self._buffer[8:10], "little")
            if len(self._buffer) < size:
                return
            answer = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._waiting.popleft().set_result(answer)

    async def call(self, request: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(request)  # type: ignore[attr-defined]
        return await answer


def pdu(size: int, kind: int) -> bytes:
    """Bytes that look like a PDU as far as its length goes."""
    return bytes(8) + (24 + size).to_bytes(2, "little") + bytes(6) + bytes((kind,)) + bytes(7 + size)


async def timed(count: int, work: Callable[[], Awaitable[None]]) -> float:
    """Messages a second."""
    before = time.perf_counter()
    await work()
    return count / (time.perf_counter() - before)


async def in_window(count: int, window: int, one: Callable[[], Awaitable[object]]) -> None:
    left = count

    async def work() -> None:
        nonlocal left
        while left:
            left -= 1
            await one()

    await asyncio.gather(*[work() for _ in range(window)])


async def measure(messages: int, window: int) -> dict[str, float]:
    bench = Bench()
    await bench.door.open()
    found: dict[str, float] = {}
    async with direct.reading(NAME, host=HOST, port=bench.door.service.port) as queue:
        bench.fill(messages)

        async def one_by_one() -> None:
            for _ in range(messages // 4):
                await queue.receive()

        found["received, one at a time"] = await timed(messages // 4, one_by_one)
        bench.fill(messages // 4)

        async def browsed() -> None:
            assert len([message async for message in direct.browse(queue, chains=window)]) == messages

        found["peeked"] = await timed(messages, browsed)

        async def pipelined() -> None:
            await in_window(messages, window, queue.receive)

        found["received, pipelined"] = await timed(messages, pipelined)
        assert not len(bench.queue.positions)
        bench.fill(1)
        start = idl.StartReceive(queue.handle, 0, 0, direct.Action.PEEK_CURRENT, 0, 1, 1 << 30, 1 << 30)
        reply = await queue.host.client.call(idl.R_START_RECEIVE, start)
        sizes = (len(start.encode()), len(reply.encode()), 28, 4)
    await bench.door.close()

    loop = asyncio.get_running_loop()
    requests = (pdu(sizes[0], 0), pdu(sizes[2], 1))
    EchoServer.answers = (pdu(sizes[1], 0), pdu(sizes[3], 1))
    server = await loop.create_server(EchoServer, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    transport, client = await loop.create_connection(EchoClient, HOST, port)

    async def message() -> None:
        await client.call(requests[0])
        await client.call(requests[1])

    async def echo_one_by_one() -> None:
        await in_window(messages, 1, message)

    async def echo_pipelined() -> None:
        await in_window(messages, window, message)

    async def echo_peeked() -> None:
        await in_window(messages, window, lambda: client.call(requests[0]))

    found["echo, one at a time"] = await timed(messages, echo_one_by_one)
    found["echo, peeked"] = await timed(messages, echo_peeked)
    found["echo, pipelined"] = await timed(messages, echo_pipelined)
    transport.close()
    server.close()
    await server.wait_closed()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--messages", type=int, default=4_000)
    parser.add_argument("--window", type=int, default=32)
    options = parser.parse_args()
    runs = [asyncio.run(measure(options.messages, options.window)) for _ in range(ROUNDS)]
    best = {name: max(run[name] for run in runs) for name in runs[0]}
    print(f"{options.messages} messages of {len(BODY)} bytes, {options.window} under way, best of {ROUNDS}")
    for ours, echo in (
        ("received, one at a time", "echo, one at a time"),
        ("received, pipelined", "echo, pipelined"),
        ("peeked", "echo, peeked"),
    ):
        ratio = best[ours] / best[echo]
        print(
            f"  {ours:<24} {best[ours]:>8,.0f} /s   echo {best[echo]:>8,.0f} /s   ratio {ratio:.2f}   (goal {GOAL})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
