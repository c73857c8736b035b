"""Real processes, real sockets, real disks, and somebody who breaks them.

``python -m tests.server.chaos --minutes 10`` (``make soak MINUTES=10``) goes on for as long as it is told. Three
queue managers send transactional messages to each other through lines that are cut, go silent or are left half open;
processes are killed at random. While one is down, its applications send more and receive what has come.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from msmq.manager.queues.queue import Queue
from tests.relay import End, Relay, until_one_ends
from tests.server.support import ALICE, BOB, CAROL, Node, free_port
from tests.server.test_daemon_processes import Process

_PATIENT_S = 0.8
"""So long nothing moves on any line before somebody looks whether all is done."""


_CONFIG = """
[timers]
session_retry_connect_ms = 100
order_ack_timeout_ms = 50
ack_wait_timeout_ms = 1000
session_initialization_ms = 3000
resend_timeouts_short_s = 1
resend_timeouts_medium_s = 2
"""
"""A dead line is noticed early."""


class Line(Relay):
    """A TCP proxy that stands for a host, and breaks connections after some bytes while it is ``unruly``."""

    def __init__(self, address: str, target: str, port: int, rng: Random) -> None:
        super().__init__()
        self.address = address
        self.unruly = True
        self.cuts = 0
        self.bytes = 0
        self._target = target
        self._to = port
        self._rng = rng

    async def open(self) -> None:
        await self.start(self.address, self._to)

    async def connect(self) -> End:
        return await asyncio.open_connection(self._target, self._to, local_addr=(self.address, 0))

    async def carry(self, here: End, there: End) -> None:
        """Until one side closes, or chance cuts the line: at once, after a silence, or for one side first."""
        left = self._rng.randint(0, 400_000)

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal left
            while data := await reader.read(1 << 16):
                if self.unruly and left < len(data):
                    writer.write(data[:left])
                    return
                left -= len(data)
                self.bytes += len(data)
                writer.write(data)
                await writer.drain()

        await until_one_ends(copy(here[0], there[1]), copy(there[0], here[1]))
        if self.unruly:
            self.cuts += 1
            how = self._rng.choice(("cut", "silence", "half open"))
            if how == "half open":
                self._rng.choice((here, there))[1].transport.abort()
            if how != "cut":
                await asyncio.sleep(self._rng.uniform(0.2, 2))


@dataclass
class Stream:
    """Numbered messages from one queue manager to a queue of another."""

    source: Process
    target: Process
    line: Line
    queue: str
    sent: int = 0
    received: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"DIRECT=TCP:{self.line.address}\\private$\\{self.queue}"

    def send(self, node: Node, count: int, rng: Random) -> None:
        """Send so many more, in transactions of one or several messages."""
        end = self.sent + count
        while self.sent < end:
            size = min(rng.choice((1, 1, 3, 10)), end - self.sent)
            node.send_together(self.name, *(b"%d" % number for number in range(self.sent, self.sent + size)))
            self.sent += size

    def receive(self, node: Node, most: int) -> None:
        queue: Queue = node.core.by_path[f"{self.target.name}\\private$\\{self.queue}".lower()]
        for _ in range(min(most, len(queue.positions))):
            self.received.append(int(node.receive(queue)))
        assert self.received == list(range(len(self.received))), self.queue


class Chaos:
    """Some processes, the streams between them and what happens to both."""

    def __init__(self, directory: Path, seed: int, addresses: Iterable[str] = (ALICE, BOB)) -> None:
        self.rng = Random(seed)
        port = free_port()
        names = {ALICE: "ALICE", BOB: "BOB", CAROL: "CAROL"}
        self.processes = [
            Process(directory, names[address], address, port, config=_CONFIG) for address in addresses
        ]
        self.lines: list[Line] = []
        self.streams: list[Stream] = []
        self.kills = 0
        for source in self.processes:
            for target in self.processes:
                if target is not source:
                    line = Line(f"127.0.1.{len(self.lines) + 1}", target.address, port, self.rng)
                    queue = f"from-{source.name}".lower()
                    self.lines.append(line)
                    self.streams.append(Stream(source, target, line, queue))
                    target.make_queue(queue, transactional=True)

    async def __aenter__(self) -> Chaos:
        for line in self.lines:
            await line.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self.lines:
            await line.stop()
        for process in self.processes:
            running = getattr(process, "process", None)
            if running is not None and running.returncode is None:
                await process.kill()

    def use(self, process: Process, streams: list[Stream], count: int, most: int) -> None:
        """What its applications do while it does not run: its store is theirs."""
        with process.opened() as node:
            for stream in streams:
                if stream.source is process:
                    stream.send(node, count, self.rng)
                if stream.target is process:
                    stream.receive(node, most)

    async def kill_one(self, streams: list[Stream], count: int) -> None:
        victim = self.rng.choice(self.processes)
        await victim.kill()
        self.kills += 1
        self.use(victim, streams, count, self.rng.choice((0, 200)))
        await victim.start()

    async def settle(self, streams: list[Stream], timeout_s: float = 120) -> None:
        """No more trouble: everything arrives and is received."""
        for line in self.lines:
            line.unruly = False
        async with asyncio.timeout(timeout_s):
            while True:
                await self._quiet()
                for process in self.processes:
                    await process.stop()
                left = 0
                for process in self.processes:
                    self.use(process, streams, 0, sys.maxsize)
                    with process.opened() as node:
                        left += sum(len(queue.positions) for queue in node.core.outgoing.values())
                if not left:
                    return
                for process in self.processes:
                    await process.start()

    async def _quiet(self) -> None:
        while True:
            before = sum(line.bytes for line in self.lines)
            await asyncio.sleep(_PATIENT_S)
            if sum(line.bytes for line in self.lines) == before:
                return


async def campaign(directory: Path, seconds: float, seed: int) -> Chaos:
    """Three processes, six streams, for so long."""
    async with Chaos(directory, seed, (ALICE, BOB, CAROL)) as chaos:
        for process in chaos.processes:
            chaos.use(process, chaos.streams, 500, 0)
            await process.start()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            await asyncio.sleep(chaos.rng.uniform(0.2, 3))
            await chaos.kill_one(chaos.streams, chaos.rng.choice((0, 200, 1_000)))
            sent = sum(stream.sent for stream in chaos.streams)
            received = sum(len(stream.received) for stream in chaos.streams)
            cuts = sum(line.cuts for line in chaos.lines)
            sys.stderr.write(
                f"\r{time.monotonic() - began:.0f} s: {sent} sent, {received} received, "
                f"{chaos.kills} kills, {cuts} lines cut "
            )
        await chaos.settle(chaos.streams, 600)
        for stream in chaos.streams:
            assert stream.received == list(range(stream.sent)), stream.name
        sent = sum(stream.sent for stream in chaos.streams)
        sys.stderr.write(f"\n{sent} transactional messages, each exactly once and in order\n")
        return chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what chance starts from")
    options = parser.parse_args()
    sys.stderr.write(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory() as directory, suppress(KeyboardInterrupt):
        asyncio.run(campaign(Path(directory), options.minutes * 60, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
