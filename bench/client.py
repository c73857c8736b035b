"""The application channel from a Python program: durable sends and receives of 1 KB messages, and their latency.

Run: ``python bench/client.py [--messages 20480] [--rounds 3] [--window 256] [--alone]`` (or ``make bench``). The queue
manager is a process of its own on a directory of its own, this program its client over the unix socket.

* **Send** with a window: never more than so many messages without their confirmation; from one call that sends many,
  and from as many tasks as the window is wide.
* **Receive** with acknowledgement: prefetch of the same size, acknowledged in groups or each by itself, every
  acknowledgement awaited.
* **One at a time**: a send that is confirmed before the next one begins; p50 and p99.
* **Bound**: the same bytes in the same batches through a bare gRPC stream that echoes a few bytes for each, in a
  process of its own: what gRPC for Python alone allows.
* **RabbitMQ** on the same disk in the same run, with the Python clients aio-pika and pika (``SelectConnection``), doing
  the same with durable classic and quorum queues; the faster kind counts. Rounds are interleaved, and the ratios are
  those of medians. The broker comes from Debian's packages (``scripts/peers.sh``), the clients are installed from PyPI,
  all of it below ``build/``. ``--alone`` leaves RabbitMQ out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import grpc
from peers import BROKERS, RABBIT, fetch_brokers, rabbit_server

import msmq

QUEUE = ".\\private$\\bench"
BODY = bytes(range(256)) * 4
BATCH = 64
ROOT = Path(__file__).parent.parent
CLIENTS = ROOT / "build" / "clients"
CLIENT_PACKAGES = ("aio-pika==10.2.1", "pika==1.4.4", "uvloop")
KINDS = ("classic", "quorum")
THEIRS = ("aio-pika", "pika")
GOALS = {"aio-pika": 5.0, "pika": 1.5}
LATENCIES = 500
PEER_TIMEOUT_S = 600

T = TypeVar("T")
Found = dict[str, list[float]]
"""What was measured, by what it is."""


class Server:
    """A queue manager in a process of its own."""

    def __init__(self, directory: Path) -> None:
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
                pending.append(receiver.acknowledge(*group))
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
            assert len(message.body) == len(BODY)
            pending.append(message.acknowledge())
        await asyncio.gather(*pending)
    return count / (time.perf_counter() - began)


async def latencies(queue: msmq.Queue, count: int) -> list[float]:
    """How many seconds each of so many confirmed sends took."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await queue.send(BODY)
        times.append(time.perf_counter() - began)
    return times


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


async def measure(address: str, messages: int, window: int) -> Found:
    """One round of ours."""
    async with msmq.connect(address, window=window) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(BODY for _ in range(1000))  # warm
        await queue.purge()
        found = {"send": [await send(queue, messages)]}
        found["receive grouped"] = [await receive(queue, messages, window)]
        found["send from tasks"] = [await send_from_tasks(queue, messages, window)]
        found["receive each"] = [await receive_one_by_one(queue, messages, window)]
        found["latencies"] = await latencies(queue, LATENCIES)
        await mq.delete_queue(QUEUE)
    return found


def run_measure(address: str, messages: int, window: int) -> Found:
    found: Found = run(measure(address, messages, window))
    return found


def run_echo(address: str, messages: int, window: int) -> float:
    rate: float = run(echo(address, messages, window))
    return rate


def apart(function: Callable[[str, int, int], T], address: str, messages: int, window: int) -> T:
    """Call a function in a fresh process, as the other clients have one each: gRPC keeps to the first loop it sees."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, address, messages, window).result()


# --- RabbitMQ and its clients -----------------------------------------------------------------------------------------


def fetch_peers() -> None:
    """Have the broker and an environment with its clients."""
    fetch_brokers()
    stamp = CLIENTS / ".stamp"
    if not stamp.exists() or stamp.read_text() != " ".join(CLIENT_PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(CLIENTS)], check=True)
        install = [str(CLIENTS / "bin" / "python"), "-m", "pip", "install", "-q", *CLIENT_PACKAGES]
        subprocess.run(install, check=True)
        stamp.write_text(" ".join(CLIENT_PACKAGES))


def measure_peer(client: str, kind: str, messages: int, window: int) -> Found:
    """One round of a client of RabbitMQ, in a process of its own."""
    program = str(ROOT / "bench" / "clients" / "rabbitmq.py")
    numbers = (RABBIT, messages, window, LATENCIES)
    command = [str(CLIENTS / "bin" / "python"), program, client, kind, *map(str, numbers)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=PEER_TIMEOUT_S).stdout
    found: Found = json.loads(output)
    return found


# --- telling ----------------------------------------------------------------------------------------------------------


def percentile_ms(times: list[float], percent: int) -> float:
    return sorted(times)[len(times) * percent // 100] * 1000


def tell_rates(found: dict[str, Found]) -> None:
    names = ("send", "send from tasks", "receive grouped", "receive each")
    print(f"\n{'messages per second, medians':30}" + "".join(f"{name:>18}" for name in names))
    for who, rates in found.items():
        cells = (f"{statistics.median(rates[name]):,.0f}" if name in rates else "" for name in names)
        print(f"{who:30}" + "".join(f"{cell:>18}" for cell in cells))


def tell_latencies(found: dict[str, Found]) -> None:
    print("\none at a time, milliseconds            p50       p99")
    for who, rates in found.items():
        p50, p99 = (percentile_ms(rates["latencies"], percent) for percent in (50, 99))
        print(f"{who:30}{p50:12.2f}{p99:10.2f}")


def tell_ratios(found: dict[str, Found]) -> None:
    """Ours against the faster kind of queue of each client."""

    def fastest(client: str, name: str) -> float:
        return max(statistics.median(found[f"{client} {kind}"][name]) for kind in KINDS)

    print("\nours against the faster kind      ratio      goal")
    for client, goal in GOALS.items():
        for mine, theirs in (
            ("send", "send"),
            ("send from tasks", "send"),
            ("receive grouped", "receive grouped"),
            ("receive each", "receive each"),
        ):
            ratio = statistics.median(found["msmq"][mine]) / fastest(client, theirs)
            verdict = "reached" if ratio >= goal else "missed"
            print(f"{mine:16} / {client:12}{ratio:8.2f}x{goal:9.1f}x  {verdict}")
    for percent in (50, 99):
        mine_ms = percentile_ms(found["msmq"]["latencies"], percent)
        for client in THEIRS:
            best = min(percentile_ms(found[f"{client} {kind}"]["latencies"], percent) for kind in KINDS)
            verdict = "reached" if mine_ms <= best else "missed"
            print(f"p{percent} {mine_ms:.2f} ms, {client} {best:.2f} ms; goal: not above  {verdict}")


def bare(directory: str, messages: int, window: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    bound = context.Process(target=_serve_echo, args=(f"unix:{directory}/echo", ready), daemon=True)
    bound.start()
    ready.wait(30)
    try:
        return apart(run_echo, f"unix:{directory}/echo", messages, window)
    finally:
        bound.kill()
        bound.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_480)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument(
        "--directory", type=Path, default=None, help="where the queues are, for example another disk"
    )
    parser.add_argument("--alone", action="store_true", help="without RabbitMQ")
    arguments = parser.parse_args()
    window = arguments.window
    messages = arguments.messages // window * window
    found: dict[str, Found] = {}

    def keep(who: str, round_: Found) -> None:
        mine = found.setdefault(who, defaultdict(list))
        for name, values in round_.items():
            mine[name] += values

    if not arguments.alone:
        fetch_peers()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="msmq-", dir=arguments.directory))
        if not arguments.alone:
            stack.enter_context(rabbit_server(BROKERS, Path(directory)))
        print(f"{os.cpu_count()} cores, 1 KB durable messages, {messages:,} at a time, window {window}")
        print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())} at the beginning")
        for _ in range(arguments.rounds):
            keep("bare gRPC, batches of 64", {"send": [bare(directory, messages, window)]})
            with Server(Path(directory)) as server:
                keep("msmq", apart(run_measure, server.address, messages, window))
            if not arguments.alone:
                for client in THEIRS:
                    for kind in KINDS:
                        keep(f"{client} {kind}", measure_peer(client, kind, messages, window))
        print(f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())} at the end")
    tell_rates(found)
    found.pop("bare gRPC, batches of 64")
    tell_latencies(found)
    if not arguments.alone:
        tell_ratios(found)


if __name__ == "__main__":
    main()
