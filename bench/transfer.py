"""Two queue managers: how fast messages of 1 KB go from one to the other, and what a queued one costs.

Run: ``python bench/transfer.py [--messages 100000] [--depths 1000,10000,100000] [--peers]`` (or ``make bench``). Both
are whole daemons in processes of their own, on loopback addresses and uvloop; this process only tells them what to do.
Messages are fed and counted inside them, since what is measured is the way between queue managers and not the way of
applications to theirs.

* **Throughput**: so many express, recoverable or transactional messages wait in an outgoing queue; the clock runs from
  the moment they may leave until all of them stand in the queue of the other host, durable where they have to be.
* **The bound**: the same bytes over the same kind of connection between two bare protocols, which cut the stream into
  packets, keep them and acknowledge half windows; where durable, everything that a read brought is appended to a
  preallocated file and synced before it is acknowledged. Rounds of both are interleaved and the ratio is that of the
  medians. Disks and neighbours change by the hour, so only ratios of one run mean anything.
* **Live**: the same, but the messages are sent by an application inside the sending queue manager while they travel.
* **Latency**: one message every few milliseconds, from before it is sent until it is durable in the other queue.
* **Depth**: processor time of both sides per message, and memory per queued message, when few or many are queued.
* ``--peers``: brokers on this machine in the same run, see ``bench/peers.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import resource
import shutil
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import uvloop

from msmq.manager.core import Subscriber
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.model import UNLIMITED, QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.server.config import Config
from msmq.server.daemon import Daemon, tune_process

SENDER, RECEIVER = "127.0.0.2", "127.0.0.3"
KINDS = ("express", "recoverable", "transactional")
GOALS = {"express": 0.5, "recoverable": 0.4, "transactional": 0.4}
BODY = bytes(range(256)) * 4
IN_TRANSACTION = 100
LIVE_AHEAD = 2_000
POLL_S = 0.001
SLOW_POLL_S = 0.05
LATENCY_PAUSE_S = 0.005
HEADER = struct.Struct("<BBHIII")  # of the bound, as large as BaseHeader
READ_BYTES = 1 << 18
FILE_BYTES = 1 << 28
TIMEOUT_S = 600.0


# --- processes that are told what to do -------------------------------------------------------------------------------


class Worker:
    """A process that runs one coroutine per command. Methods named ``do_...`` are the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    async def open(self) -> None:
        """Get ready, on the loop."""

    async def close(self) -> None:
        """Leave nothing behind."""

    async def serve(self) -> None:
        commands: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def command() -> None:
            try:
                commands.put_nowait(self.pipe.recv())
            except EOFError:  # whoever measures was killed
                loop.remove_reader(self.pipe.fileno())
                commands.put_nowait(None)

        loop.add_reader(self.pipe.fileno(), command)
        await self.open()
        self.pipe.send(None)
        while (command := await commands.get()) is not None:
            name, arguments = command
            self.pipe.send(await getattr(self, f"do_{name}")(*arguments))
        await self.close()

    async def do_usage(self) -> tuple[float, int]:
        """Processor time and resident bytes of this process."""
        gc.collect()
        used = resource.getrusage(resource.RUSAGE_SELF)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return used.ru_utime + used.ru_stime, pages * os.sysconf("SC_PAGE_SIZE")


class Handle:
    """The other end of a worker."""

    def __init__(self, make: Callable[..., Worker], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_run, args=(make, theirs, arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.answer()

    def answer(self) -> Any:
        if not self.pipe.poll(TIMEOUT_S):
            raise TimeoutError("a process of the bench does not answer")
        return self.pipe.recv()

    def ask(self, name: str, *arguments: Any) -> None:
        self.pipe.send((name, arguments))

    def call(self, name: str, *arguments: Any) -> Any:
        self.ask(name, *arguments)
        return self.answer()

    def stop(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(30)
        if self.process.is_alive():
            self.process.kill()


def _run(make: Callable[..., Worker], pipe: Pipe, arguments: tuple[Any, ...]) -> None:
    profile = os.environ.get("BENCH_PROFILE")
    if profile is None:
        uvloop.run(make(pipe, *arguments).serve())
        return
    import cProfile

    profiler = cProfile.Profile()
    profiler.runcall(uvloop.run, make(pipe, *arguments).serve())
    profiler.dump_stats(f"{profile}.{make.__name__}")


# --- queue managers ---------------------------------------------------------------------------------------------------


class Host(Worker):
    """A daemon with its doors open."""

    def __init__(self, pipe: Pipe, directory: Path, address: str, port: int, window: int) -> None:
        super().__init__(pipe)
        self.config = Config(
            data=directory / address,
            name="RECEIVER" if address == RECEIVER else "SENDER",
            listen=(address,),
            port=port,
            ping_port=0,
            express_limit_bytes=1 << 33,
            window_size=window,
        )

    async def open(self) -> None:
        tune_process()
        self.daemon = Daemon(self.config)
        await self.daemon.start()
        self.manager = self.daemon.manager
        self.core = self.manager.core
        self.core.record.queue_manager_quota_kb = UNLIMITED

    async def close(self) -> None:
        await self.daemon.stop()


class Sender(Host):
    """Where the messages come from."""

    async def do_load(self, kind: str, count: int) -> None:
        """Queue messages that may not leave yet."""
        self.manager.take_offline()
        descriptor = self.manager.queues.open(destination(kind), QueueAccessType.SEND)
        sent = 0
        while sent < count:
            group = min(IN_TRANSACTION, count - sent)
            transaction = self.manager.transactions.create() if kind == "transactional" else None
            for _ in range(group):
                self.manager.posting.send(descriptor, message(kind, BODY), transaction)
            if transaction is not None:
                self.manager.transactions.commit(transaction.identifier)
            sent += group
            await self.daemon.commit.drain()
        self.queue = descriptor.queue
        self.manager.queues.close(descriptor)

    async def do_go(self) -> float:
        """Let them leave; gives the time of day of the machine at which they did."""
        began = time.monotonic()
        self.manager.bring_online()
        return began

    async def do_emptied(self) -> None:
        """Wait until the last acknowledgment has come."""
        assert self.queue is not None
        while len(self.queue.positions):
            await asyncio.sleep(SLOW_POLL_S)

    async def do_live(self, kind: str, count: int) -> float:
        """Send messages one after another, with a limit to how many wait here."""
        began = time.monotonic()
        descriptor = self.manager.queues.open(destination(kind), QueueAccessType.SEND)
        queue = self.queue = descriptor.queue
        assert queue is not None
        sent = 0
        while sent < count:
            room = LIVE_AHEAD - len(queue.positions)
            transaction = self.manager.transactions.create() if kind == "transactional" else None
            group = max(min(IN_TRANSACTION, count - sent, room), 0)
            for _ in range(group):
                self.manager.posting.send(descriptor, message(kind, BODY), transaction)
            if transaction is not None:
                self.manager.transactions.commit(transaction.identifier)
            self.daemon.commit.request()
            sent += group
            await asyncio.sleep(0 if group else POLL_S)
        self.manager.queues.close(descriptor)
        return began

    async def do_trickle(self, kind: str, count: int) -> None:
        """Send now and then a message that says when it was sent."""
        descriptor = self.manager.queues.open(destination(kind), QueueAccessType.SEND)
        self.queue = descriptor.queue
        for _ in range(count):
            stamp = str(time.monotonic_ns()).encode().ljust(len(BODY))
            transaction = self.manager.transactions.create() if kind == "transactional" else None
            self.manager.posting.send(descriptor, message(kind, stamp), transaction)
            if transaction is not None:
                self.manager.transactions.commit(transaction.identifier)
            self.daemon.commit.request()
            await asyncio.sleep(LATENCY_PAUSE_S)
        self.manager.queues.close(descriptor)


class Receiver(Host, Subscriber):
    """Where they go."""

    async def open(self) -> None:
        await super().open()
        for kind in KINDS:
            self.manager.queues.create(
                QueueRequest(f".\\private$\\{kind}", transactional=kind == "transactional")
            )
        await self.daemon.commit.drain()
        self.delays: list[float] = []
        self.watching = False

    def _queue(self, kind: str) -> Queue:
        return self.core.by_path[f"receiver\\private$\\{kind}"]

    async def do_expect(self, kind: str, count: int) -> float:
        """Wait until so many messages stand in a queue, durable; gives the time at which they did."""
        positions = self._queue(kind).positions
        while len(positions) < count:
            await asyncio.sleep(POLL_S)
        await self.daemon.commit.drain()
        return time.monotonic()

    async def do_purge(self, kind: str) -> int:
        """Empty a queue; gives how many messages were in it."""
        queue = self._queue(kind)
        found = len(queue.positions)
        self.manager.mailbox.remove(queue, [entry.lookup_id for entry in queue.positions], 0)
        await self.daemon.commit.drain()
        return found

    async def do_watch(self) -> None:
        self.delays.clear()
        if self not in self.core.subscribers:
            self.manager.subscribe(self)
        self.watching = True

    async def do_delays(self) -> list[float]:
        self.watching = False
        return self.delays

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        for lookup_id in lookup_ids if self.watching else ():
            sent = int(self.manager.mailbox.load(queue, lookup_id).packet.body)
            self.daemon.commit.when_durable(partial(self._arrived, sent))

    def _arrived(self, sent: int) -> None:
        self.delays.append((time.monotonic_ns() - sent) / 1e6)


def destination(kind: str) -> str:
    return f"DIRECT=TCP:{RECEIVER}\\private$\\{kind}"


def message(kind: str, body: bytes) -> Message:
    return Message(body=body, delivery_guarantee=DeliveryGuarantee(kind != "express"))


# --- the bound --------------------------------------------------------------------------------------------------------


class BareSender(Worker, asyncio.Protocol):
    """Writes framed packets, a window at a time."""

    def __init__(self, pipe: Pipe, port: int, window: int, packet: bytes) -> None:
        super().__init__(pipe)
        self.port = port
        self.window = window
        self.packet = packet

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(lambda: self, RECEIVER, self.port)

    async def do_go(self, count: int) -> float:
        self.waiting = [self.packet] * count
        self.sent = self.acknowledged = 0
        self.done = asyncio.Event()
        began = time.monotonic()
        self._fill()
        await self.done.wait()
        return began

    def _fill(self) -> None:
        """Frame what the window has room for: a header of 16 bytes in front of each message."""
        upto = min(self.acknowledged + self.window, len(self.waiting))
        parts = []
        for message in self.waiting[self.sent : upto]:
            parts += (HEADER.pack(0x10, 0, 3, 0, 16 + len(message), 0), message)
        self.transport.write(b"".join(parts))
        self.sent = upto

    def data_received(self, data: bytes) -> None:
        self.acknowledged += sum(data)
        if self.acknowledged == len(self.waiting):
            self.done.set()
        else:
            self._fill()


class BareReceiver(Worker, asyncio.BufferedProtocol):
    """Cuts packets out of the stream, keeps them, acknowledges; durable ones after a sync."""

    def __init__(self, pipe: Pipe, directory: Path, port: int, window: int) -> None:
        super().__init__(pipe)
        self.port = port
        self.half = max(window // 2, 1)
        self.file = os.open(directory / "bare", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(self.file, 0, FILE_BYTES)
        self.offset = 0
        self.buffer = bytearray(READ_BYTES)
        self.filled = 0

    async def open(self) -> None:
        self.server = await asyncio.get_running_loop().create_server(lambda: self, RECEIVER, self.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    async def do_expect(self, durable: bool, count: int) -> float:
        self.kept: list[bytes] = []
        self.durable, self.count, self.unacknowledged = durable, count, 0
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.pipe.send(None)  # ready
        return await self.done

    def get_buffer(self, hint: int) -> memoryview:
        return memoryview(self.buffer)[self.filled :]

    def buffer_updated(self, size: int) -> None:
        filled = self.filled + size
        buffer, kept, start = self.buffer, self.kept, 0
        before = len(kept)
        while filled - start >= 16:
            end = start + HEADER.unpack_from(buffer, start)[4]
            if end > filled:
                break
            kept.append(bytes(buffer[start:end]))
            start = end
        buffer[: filled - start] = buffer[start:filled]
        self.filled = filled - start
        if len(kept) == before:
            return
        if self.durable:
            data = b"".join(kept[before:])
            if self.offset + len(data) > FILE_BYTES:
                self.offset = 0
            os.pwrite(self.file, data, self.offset)
            os.fdatasync(self.file)
            self.offset += len(data)
        self._acknowledge(len(kept) - before, last=len(kept) == self.count)

    def _acknowledge(self, count: int, *, last: bool) -> None:
        self.unacknowledged += count
        while self.unacknowledged >= self.half or (last and self.unacknowledged):
            told = min(self.unacknowledged, self.half, 255)
            self.transport.write(bytes((told,)))
            self.unacknowledged -= told
        if last:
            self.done.set_result(time.monotonic())


# --- what is measured -------------------------------------------------------------------------------------------------


class Pair:
    """Two queue managers, or what stands for them in the bound."""

    def __init__(self, sender: Handle, receiver: Handle) -> None:
        self.sender, self.receiver = sender, receiver

    def stop(self) -> None:
        for handle in (self.sender, self.receiver):
            handle.stop()

    def both(self, name: str) -> list[Any]:
        return [handle.call(name) for handle in (self.sender, self.receiver)]


def backlog(pair: Pair, kind: str, count: int) -> float:
    """Messages per second out of a loaded outgoing queue."""
    pair.sender.call("load", kind, count)
    pair.receiver.ask("expect", kind, count)
    began = pair.sender.call("go")
    ended = pair.receiver.answer()
    pair.sender.call("emptied")
    pair.receiver.call("purge", kind)
    return count / (ended - began)


def live(pair: Pair, kind: str, count: int) -> float:
    pair.receiver.ask("expect", kind, count)
    began = pair.sender.call("live", kind, count)
    ended = pair.receiver.answer()
    pair.sender.call("emptied")
    pair.receiver.call("purge", kind)
    return count / (ended - began)


def bare(pair: Pair, kind: str, count: int) -> float:
    pair.receiver.call("expect", kind != "express", count)
    began = pair.sender.call("go", count)
    return count / (pair.receiver.answer() - began)


def latency(pair: Pair, kind: str, count: int) -> tuple[float, float]:
    """Median and slowest of a hundred, in milliseconds."""
    pair.receiver.call("watch")
    pair.sender.call("trickle", kind, count)
    pair.sender.call("emptied")
    pair.receiver.ask("expect", kind, count)
    pair.receiver.answer()
    delays = sorted(pair.receiver.call("delays"))
    pair.receiver.call("purge", kind)
    return statistics.median(delays), delays[int(len(delays) * 0.99)]


def depth(pair: Pair, kind: str, count: int) -> tuple[float, float, float, float]:
    """Microseconds of each processor per message that travels, bytes of memory per message that waits at each end."""
    empty = pair.both("usage")
    pair.sender.call("load", kind, count)
    loaded = pair.both("usage")
    pair.receiver.ask("expect", kind, count)
    pair.sender.call("go")
    pair.receiver.answer()
    pair.sender.call("emptied")
    arrived = pair.both("usage")
    pair.receiver.call("purge", kind)
    return (
        (arrived[0][0] - loaded[0][0]) / count * 1e6,
        (arrived[1][0] - loaded[1][0]) / count * 1e6,
        (loaded[0][1] - empty[0][1]) / count,
        (arrived[1][1] - loaded[1][1]) / count,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((RECEIVER, 0))
        port: int = probe.getsockname()[1]
        return port


def queue_managers(directory: Path, window: int) -> Pair:
    port = free_port()
    return Pair(
        Handle(Sender, directory, SENDER, port, window), Handle(Receiver, directory, RECEIVER, port, window)
    )


def bare_pair(directory: Path, window: int, size: int) -> Pair:
    port = free_port()
    packet = bytes(size - HEADER.size)
    receiver = Handle(BareReceiver, directory, port, window)
    return Pair(Handle(BareSender, port, window, packet), receiver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=100_000, help="per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--window", type=int, default=Config().window_size)
    parser.add_argument("--depths", default="1000,10000,100000", help="1000000 takes minutes; '' for none")
    parser.add_argument("--latencies", type=int, default=300)
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory otherwise")
    parser.add_argument("--peers", action="store_true", help="measure other brokers, too")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bench-transfer-", dir=options.directory))
    try:
        figures = measure(options, directory)
    finally:
        shutil.rmtree(directory)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def measure(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    kinds = [kind for kind in options.kinds.split(",") if kind]
    figures: dict[str, Any] = {"window": options.window}
    pair = queue_managers(directory, options.window)
    bound = bare_pair(directory, options.window, wire_size())
    try:
        print(
            f"{options.messages} messages of 1 KB a round, window {options.window}, load {os.getloadavg()[0]:.1f}"
        )
        print(
            f"{'':14}{'bound/s':>10}{'backlog/s':>11}{'ratio':>7}{'goal':>6}{'live/s':>10}{'p50 ms':>9}{'p99 ms':>9}"
        )
        for kind in kinds:
            figures[kind] = throughput(pair, bound, kind, options)
        for count in map(int, filter(None, options.depths.split(","))):
            print(
                f"{count} queued: microseconds of processor (sender, receiver) and bytes of memory (the same)"
            )
            for kind in kinds:
                found = depth(pair, kind, count)
                figures[kind][f"depth {count}"] = found
                print(f"{kind:14}" + "".join(f"{value:>10.1f}" for value in found))
        if options.peers:
            from peers import measure_peers

            print("durable messages per second, and ours as a multiple; rounds")
            figures["peers"] = measure_peers(
                options.messages,
                options.rounds,
                options.window,
                directory,
                lambda: backlog(pair, "recoverable", options.messages),
            )
    finally:
        pair.stop()
        bound.stop()
    return figures


def throughput(pair: Pair, bound: Pair, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    backlog(pair, kind, options.messages // 10)  # the connection stands, everything is warm
    bare(bound, kind, options.messages // 10)
    ours, bounds, lives = [], [], []
    for _ in range(options.rounds):
        bounds.append(bare(bound, kind, options.messages))
        ours.append(backlog(pair, kind, options.messages))
        lives.append(live(pair, kind, options.messages))
    middle, limit = statistics.median(ours), statistics.median(bounds)
    p50, p99 = latency(pair, kind, options.latencies)
    print(
        f"{kind:14}{limit:>10,.0f}{middle:>11,.0f}{middle / limit:>7.2f}{GOALS[kind]:>6}"
        f"{statistics.median(lives):>10,.0f}{p50:>9.2f}{p99:>9.2f}"
        f"   rounds {' '.join(f'{one / other:.2f}' for one, other in zip(ours, bounds, strict=True))}"
    )
    sys.stdout.flush()
    return {"bound": bounds, "backlog": ours, "live": lives, "ratio": middle / limit, "p50": p50, "p99": p99}


def wire_size() -> int:
    """What one message of the bench takes on the wire."""
    from msmq.manager.messages.serialize import serialize

    probe = message("recoverable", BODY)
    probe.destination_queue_format_name = destination("recoverable")
    return serialize(probe).size


if __name__ == "__main__":
    main()
