"""The application channel from a Python program: durable sends and receives of 1 KB messages, and their latency.

Run: ``python bench/client.py [--messages 50000] [--window 256]`` (or ``make bench``). The queue manager is a process of
its own on a directory of its own, this program its client over the unix socket.

* **Send** with a window: never more than so many messages without their confirmation.
* **Receive** with acknowledgement: prefetch of the same size, each message acknowledged, every acknowledgement awaited.
* **One at a time**: a send that is confirmed before the next one begins; p50 and p99.
* **Bound**: the same bytes in the same batches through a bare gRPC stream that echoes a few bytes for each, in a
  process of its own: what gRPC for Python alone allows.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

import msmq

QUEUE = ".\\private$\\bench"
BODY = bytes(range(256)) * 4
BATCH = 64


class Server:
    """A queue manager in a process of its own."""

    def __init__(self, directory: Path, *addresses: str) -> None:
        self.address = f"unix:{directory / 'api'}"
        self.command = [
            sys.executable,
            "-m",
            "msmq",
            "serve",
            "--data",
            str(directory / "data"),
            "--name",
            "BENCH",
        ]
        self.command += ["--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--api", self.address]

    def __enter__(self) -> Server:
        self._process = subprocess.Popen(self.command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(b"ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


async def send(queue: msmq.Queue, count: int) -> float:
    """Messages per second, all confirmed."""
    began = time.perf_counter()
    await queue.send_many(BODY for _ in range(count))
    return count / (time.perf_counter() - began)


async def send_from_tasks(queue: msmq.Queue, count: int, window: int) -> float:
    """The same from as many tasks as the window is wide, each of which sends one message after the other."""

    async def sender() -> None:
        for _ in range(count // window):
            await queue.send(BODY)

    began = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(window)))
    return count // window * window / (time.perf_counter() - began)


async def receive(queue: msmq.Queue, count: int, window: int) -> float:
    """Messages per second, all acknowledged and that confirmed."""
    began = time.perf_counter()
    pending: list[asyncio.Future[None]] = []
    async with queue.receiver(prefetch=window) as receiver:
        group: list[msmq.ReceivedMessage] = []
        for number in range(1, count + 1):
            message = await receiver.receive()
            assert len(message.body) == len(BODY)
            group.append(message)
            if len(group) == BATCH or number == count:
                pending.append(asyncio.ensure_future(receiver.acknowledge(*group)))
                group = []
        await asyncio.gather(*pending)
    return count / (time.perf_counter() - began)


async def receive_one_by_one(queue: msmq.Queue, count: int, window: int) -> float:
    """The same with an acknowledgement for each message by itself."""
    began = time.perf_counter()
    pending = []
    async with queue.receiver(prefetch=window) as receiver:
        for _ in range(count):
            message = await receiver.receive()
            pending.append(asyncio.ensure_future(message.acknowledge()))
        await asyncio.gather(*pending)
    return count / (time.perf_counter() - began)


async def latency(queue: msmq.Queue, count: int) -> tuple[float, float]:
    """p50 and p99 of a confirmed send, in milliseconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await queue.send(BODY)
        times.append(time.perf_counter() - began)
    times.sort()
    return times[count // 2] * 1000, times[count * 99 // 100] * 1000


# --- the bound ----------------------------------------------------------------------------------------------------


def _serve_echo(address: str, ready: Any) -> None:
    async def main() -> None:
        async def echo(_: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
            while (await context.read()) is not grpc.aio.EOF:
                await context.write(b"12345678")

        handler = grpc.stream_stream_rpc_method_handler(echo)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", {"Echo": handler}),))
        server.add_insecure_port(address)
        await server.start()
        ready.set()
        await server.wait_for_termination()

    run(main())


async def echo(address: str, count: int, window: int) -> float:
    """Messages per second through gRPC alone."""
    batch = BODY * BATCH
    batches = count // BATCH
    room = asyncio.Semaphore(max(window // BATCH, 1))
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream("/bench/Echo")()

        async def write() -> None:
            for _ in range(batches):
                await room.acquire()
                await call.write(batch)
            await call.done_writing()

        began = time.perf_counter()
        writing = asyncio.ensure_future(write())
        for _ in range(batches):
            await call.read()
            room.release()
        await writing
        return batches * BATCH / (time.perf_counter() - began)


def run(main: Any) -> Any:
    try:
        import uvloop

        return uvloop.run(main)
    except ImportError:
        return asyncio.run(main)


async def measure(address: str, messages: int, window: int) -> None:
    async with msmq.connect(address, window=window) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(BODY for _ in range(1000))  # warm
        await queue.purge()
        print(f"send_many, window {window:4}      {await send(queue, messages):9,.0f} msg/s")
        print(f"receive, acknowledged by {BATCH:3}  {await receive(queue, messages, window):9,.0f} msg/s")
        print(
            f"send from {window:4} tasks        {await send_from_tasks(queue, messages, window):9,.0f} msg/s"
        )
        each = await receive_one_by_one(queue, messages // window * window, window)
        print(f"receive, each acknowledged    {each:9,.0f} msg/s")
        p50, p99 = await latency(queue, 1000)
        print(f"one at a time                 p50 {p50:.2f} ms, p99 {p99:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="msmq-", dir=arguments.directory) as directory:
        print(f"{os.cpu_count()} cores, 1 KB recoverable messages, batches of up to 128")
        context = multiprocessing.get_context("spawn")
        ready = context.Event()
        bound = context.Process(target=_serve_echo, args=(f"unix:{directory}/echo", ready), daemon=True)
        bound.start()
        ready.wait(30)
        bare = run(echo(f"unix:{directory}/echo", arguments.messages, arguments.window))
        bound.kill()
        bound.join()
        print(f"bare gRPC, batches of {BATCH}       {bare:9,.0f} msg/s")
        with Server(Path(directory)) as server:
            run(measure(server.address, arguments.messages, arguments.window))


if __name__ == "__main__":
    main()
