"""Every kind of traffic from a producer to a consumer: messages per second, and what a message costs each process.

Run: ``python bench/paths.py [--messages 20480] [--rounds 3] [--only plain,mix] [--alone] [--profile mix]`` (or ``make
bench``). Queue managers are ``msmq serve`` processes on fresh directories; producer and consumer are processes that
use the Python client over the unix socket, with at most 256 messages under way; two hosts are linked over loopback
TCP. Every message must arrive exactly once, or the kind is reported as failed and the program ends with status 1.

* **End to end**: from the first send until the last acknowledgement of the consumer is confirmed. Bodies have 1 KB,
  except those of ``mix``, where messages differ in everything an application may say of them. ``plain`` messages ask
  for nothing and are sent by one call (``batch``) or by 256 tasks; each ``transactional`` message is in a transaction
  of its own; each of ``asks`` wants an acknowledgment of its arrival and has a time to be received.
* **From the wire**: a raw socket client sends packets made beforehand; the clock stops when the queue manager has
  acknowledged that the last one is stored. Consumed and checked afterwards.
* **Large bodies** of 3.9 MB: MB per second sent, received and over two hosts, beside the bare disk, to which the same
  bytes are written with an fdatasync for each body.
* **RabbitMQ** (quorum queue) and **Redis** (streams, ``appendfsync always``) with raw clients do the same as the plain
  kind; see ``bench/peers.py``. They are unpacked from Debian's packages below ``build/`` when they are not there.
  ``--alone`` leaves them out.

All take turns, round after round; the figures are medians. Processor time is that of ``/proc``, in microseconds a
message. Only ratios of one run mean anything, since disks and neighbours change by the hour.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clients.actor import Actor, JobFailedError, hear, processor_s
from clients.applications import (
    ADMIN,
    LARGE_BYTES,
    QUEUE,
    Load,
    Place,
    await_settled,
    consume,
    create,
    produce,
)
from clients.session import TAIL, send_by_wire
from peers import (
    BROKERS,
    consume_rabbit,
    consume_redis,
    fetch_brokers,
    produce_rabbit,
    produce_redis,
    rabbit_server,
    redis_server,
)

ADDRESSES = ("127.0.0.2", "127.0.0.3")
WARM_SHARE = 10
LARGE_WINDOW = 8
LARGE_WARM = 2
START_S = 60.0
TIMEOUT_S = 180.0
PROFILE_LINES = 40
LOG_CHARACTERS = 2_000
PROFILED = """
import cProfile, sys, msmq.cli, msmq.server.daemon
profiler = cProfile.Profile()
file = sys.argv.pop(1)
try:
    profiler.runcall(msmq.cli.main)
finally:
    profiler.dump_stats(file)
"""
"""The command line under a profiler, which does not see the imports."""


@dataclass(frozen=True)
class Figures:
    """One measurement."""

    per_second: float
    """Messages; megabytes for large bodies."""
    hosts_us: tuple[float, ...] = ()
    producer_us: float = 0.0
    consumer_us: float = 0.0


# --- queue managers ---------------------------------------------------------------------------------------------------


class Host:
    """A queue manager in a process of its own."""

    def __init__(self, directory: Path, address: str, port: int, profile: Path | None) -> None:
        self.address = address
        self.port = port
        name = f"HOST{address.rpartition('.')[2]}"
        self.api = f"unix:{directory / name}.api"
        self._log = directory / f"{name}.log"
        self._profile = profile
        program = ["-c", PROFILED, str(profile)] if profile else ["-m", "msmq"]
        command = [sys.executable, *program, "serve", "--data", str(directory / name)]
        command += ["--name", name, "--listen", address, "--port", str(port), "--ping-port", "0"]
        command += ["--rpc-port", "0", "--api", self.api]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.pid = self._process.pid
        self.descriptor = os.pidfd_open(self.pid)

    @property
    def names(self) -> str:
        """What stands in front of the path of one of its queues in a format name."""
        return f"DIRECT=TCP:{self.address}\\"

    def ready(self) -> None:
        assert self._process.stdout is not None
        told = select.select([self._process.stdout], [], [], START_S)[0]
        if not told or not self._process.stdout.readline().startswith(b"ready"):
            raise JobFailedError("a queue manager did not start")

    @property
    def last_words(self) -> str:
        return f"\nlog of the queue manager at {self.address}:\n{self._log.read_text()[-LOG_CHARACTERS:]}"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.descriptor)
        if self._profile and self._profile.exists():
            tell_profile(self._profile, self.address)


def free_port() -> int:
    """A port that is free at all our addresses: a queue manager expects the others at its own port."""
    while True:
        with ExitStack() as stack:
            probes = [stack.enter_context(socket.socket()) for _ in ADDRESSES]
            probes[0].bind((ADDRESSES[0], 0))
            port: int = probes[0].getsockname()[1]
            try:
                for probe, address in zip(probes[1:], ADDRESSES[1:], strict=True):
                    probe.bind((address, port))
            except OSError:
                continue
            return port


def tell_profile(file: Path, name: str) -> None:
    import pstats

    print(f"\nprofile of the queue manager at {name}")
    pstats.Stats(str(file)).sort_stats("tottime").print_stats(PROFILE_LINES)


# --- one measurement --------------------------------------------------------------------------------------------------


class Bench:
    """Where and with whom it is measured."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.messages: int = options.messages
        self.window: int = options.window
        self.large: int = options.large
        self.directory = directory
        self._profile = bool(options.profile)
        self._running: list[Host] = []
        self.producer = Actor("producer")
        self.consumer = Actor("consumer")

    def load(self, kind: str, transactional: bool = False, tasks: bool = False) -> Load:
        if kind == "large":
            return Load(kind, self.large, LARGE_WARM, LARGE_WINDOW, tasks=True)
        return Load(kind, self.messages, self.messages // WARM_SHARE, self.window, transactional, tasks)

    def do(self, actor: Actor, job: Callable[..., object], *arguments: object) -> None:
        actor.begin(job, *arguments)
        self.hear(actor)

    def hear(self, *actors: Actor) -> list[Any]:
        return hear(*actors, timeout_s=TIMEOUT_S, servers=[host.descriptor for host in self._running])

    @contextmanager
    def hosts(self, count: int) -> Iterator[list[Host]]:
        """So many queue managers that know each other, on directories that go afterwards."""
        home = Path(tempfile.mkdtemp(dir=self.directory))
        port = free_port()
        try:
            for address in ADDRESSES[:count]:
                profile = home / f"{address}.profile" if self._profile else None
                self._running.append(Host(home, address, port, profile))
            for host in self._running:
                host.ready()
            yield self._running
        except JobFailedError as error:
            raise JobFailedError(f"{error}{''.join(host.last_words for host in self._running)}") from error
        finally:
            for host in self._running:
                host.stop()
            self._running.clear()
            shutil.rmtree(home)

    def used(self, pids: list[int]) -> list[float]:
        """Processor seconds of producer, consumer and the processes between them."""
        return [processor_s(pid) for pid in (self.producer.pid, self.consumer.pid, *pids)]

    def stop(self) -> None:
        self.producer.kill()
        self.consumer.kill()


def figures(amount: float, messages: int, seconds: float, before: list[float], after: list[float]) -> Figures:
    costs = [(end - start) / messages * 1e6 for start, end in zip(before, after, strict=True)]
    return Figures(amount / seconds, tuple(costs[2:]), costs[0], costs[1])


def through(
    bench: Bench, kind: str, count: int, transactional: bool = False, tasks: bool = False
) -> dict[str, Figures]:
    """From a producer through one or two queue managers to a consumer."""
    load = bench.load(kind, transactional, tasks)
    producer, consumer = bench.producer, bench.consumer
    with bench.hosts(count) as running:
        first, last = running[0], running[-1]
        for host in running:
            bench.do(consumer, create, Place(host.api), transactional)
        consumer.begin(consume, Place(last.api), load)
        bench.hear(consumer)  # open
        place = Place(first.api, first.names) if count > 1 else Place(first.api)
        producer.begin(produce, place, last.names if count > 1 else ".\\", load)
        bench.hear(producer, consumer)  # warm
        before = bench.used([host.pid for host in running])
        producer.say("go")
        (began, _), (_, ended) = bench.hear(producer, consumer)
        bench.hear(producer)  # settled
        after = bench.used([host.pid for host in running])
    amount = load.count * LARGE_BYTES / 1e6 if kind == "large" else load.count
    return {"": figures(amount, load.count, ended - began, before, after)}


def from_the_wire(bench: Bench, security: bool = False, asks: bool = False) -> dict[str, Figures]:
    """From a raw socket into a queue; consumed afterwards."""
    load = bench.load("plain")
    producer, consumer = bench.producer, bench.consumer
    with bench.hosts(1) as (host,):
        place, names = Place(host.api), host.names.removeprefix("DIRECT=")
        bench.do(consumer, create, place, False)
        admin = f"{names}{ADMIN}" if asks else ""
        producer.begin(send_by_wire, host.address, host.port, f"{names}{QUEUE}", load, security, admin)
        bench.hear(producer)  # warm
        bench.do(consumer, await_settled, place, load.warm if asks else 0)
        before = bench.used([host.pid])
        producer.say("go")
        ((began, ended),) = bench.hear(producer)
        bench.do(consumer, await_settled, place, load.total + TAIL if asks else 0)
        after = bench.used([host.pid])
        consumer.begin(consume, place, Load("plain", load.total + TAIL, 0, load.window))
        for _ in ("open", "warm", "checked"):
            bench.hear(consumer)
    measured = figures(load.count, load.count + TAIL, ended - began, before, after)
    return {"": Figures(measured.per_second, measured.hosts_us, measured.producer_us)}


def large_bodies(bench: Bench) -> dict[str, Figures]:
    """Large bodies sent by one client and then received by another."""
    load = bench.load("large")
    megabytes = load.count * LARGE_BYTES / 1e6
    producer, consumer = bench.producer, bench.consumer
    with bench.hosts(1) as running:
        place = Place(running[0].api)
        bench.do(consumer, create, place, False)
        producer.begin(produce, place, ".\\", load)
        bench.hear(producer)  # warm
        before = bench.used([host.pid for host in running])
        producer.say("go")
        ((began, ended),) = bench.hear(producer)
        bench.hear(producer)  # settled
        after = bench.used([host.pid for host in running])
        sent = figures(megabytes, load.count, ended - began, before, after)
        # Not warmed: what is fetched ahead must not be there when the clock starts.
        consumer.begin(consume, place, Load("large", load.total, 0, LARGE_WINDOW))
        bench.hear(consumer)  # open
        bench.hear(consumer)  # warm
        ((began, ended),) = bench.hear(consumer)
        megabytes *= load.total / load.count
        received = figures(
            megabytes, load.total, ended - began, after, bench.used([host.pid for host in running])
        )
    return {" sent": sent, " received": received}


def bare_disk(bench: Bench) -> dict[str, Figures]:
    """The bytes of the large bodies, appended to a file and synced one by one."""
    body = os.urandom(LARGE_BYTES)
    file = os.open(bench.directory / "bare", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        began = time.monotonic()
        for _ in range(bench.large):
            written = 0
            while written < len(body):
                written += os.write(file, body[written:] if written else body)
            os.fdatasync(file)
        seconds = time.monotonic() - began
    finally:
        os.close(file)
        (bench.directory / "bare").unlink()
    return {"": Figures(bench.large * LARGE_BYTES / 1e6 / seconds)}


def through_broker(
    bench: Bench, pid: int, produce: Callable[..., object], consume: Callable[..., object]
) -> dict[str, Figures]:
    """From a raw producer through another broker, whose process has this number, to a raw consumer."""
    load = bench.load("plain")
    queue = b"paths-%d" % time.monotonic_ns()
    producer, consumer = bench.producer, bench.consumer
    consumer.begin(consume, queue, load)
    bench.hear(consumer)  # open
    producer.begin(produce, queue, load)
    bench.hear(producer, consumer)  # warm
    before = bench.used([pid])
    producer.say("go")
    (began, _), (_, ended) = bench.hear(producer, consumer)
    after = bench.used([pid])
    return {"": figures(load.count, load.count, ended - began, before, after)}


# --- all of them ------------------------------------------------------------------------------------------------------

PLAIN, PLAIN_TWO, PLAIN_WIRE = "plain batch", "two hosts plain", "wire plain"
RABBITMQ, REDIS, DISK = "RabbitMQ quorum", "Redis always", "bare disk"
LARGE = "large"

Case = Callable[[Bench], dict[str, Figures]]
"""Measures once; gives what it found by what is to be put behind the name of the case."""
Found = dict[str, list[Figures]]
"""The rounds of each row of the table."""

CASES: dict[str, Case] = {
    PLAIN: lambda bench: through(bench, "plain", 1),
    "plain tasks": lambda bench: through(bench, "plain", 1, tasks=True),
    "transactional": lambda bench: through(bench, "plain", 1, transactional=True),
    "asks": lambda bench: through(bench, "asks", 1),
    "asks transactional": lambda bench: through(bench, "asks", 1, transactional=True),
    "mix": lambda bench: through(bench, "mix", 1),
    PLAIN_TWO: lambda bench: through(bench, "plain", 2),
    "two hosts transactional": lambda bench: through(bench, "plain", 2, transactional=True),
    "two hosts asks": lambda bench: through(bench, "asks", 2),
    "two hosts mix": lambda bench: through(bench, "mix", 2),
    PLAIN_WIRE: from_the_wire,
    "wire security": lambda bench: from_the_wire(bench, security=True),
    "wire security asks": lambda bench: from_the_wire(bench, security=True, asks=True),
    DISK: bare_disk,
    LARGE: large_bodies,
    f"{LARGE} two hosts": lambda bench: through(bench, "large", 2),
}
RATE_GOALS = {
    PLAIN: 1.3,
    "plain tasks": 1.3,
    "transactional": 0.8,
    "asks": 0.6,
    PLAIN_TWO: 0.7,
    "two hosts transactional": 0.5,
}
"""End to end, as a multiple of RabbitMQ's."""
COST_GOALS = {"transactional": 2.0, "mix": 2.0, "two hosts transactional": 2.0, "two hosts mix": 2.0}
COST_GOALS["wire security"] = 2.0
COST_GOAL = 3.0
"""Processor time of the queue managers, as a multiple of that of plain messages on the same way."""
LARGE_GOAL = 0.25
"""As a multiple of the bare disk's rate."""


def measure(bench: Bench, cases: dict[str, Case], rounds: int) -> tuple[Found, dict[str, str]]:
    """All cases in turns; gives what was measured, and why some failed."""
    found: Found = {}
    failed: dict[str, str] = {}
    for round_ in range(rounds):
        for name, case in cases.items():
            if name in failed:
                continue
            progress(f"round {round_ + 1} of {rounds}: {name}")
            try:
                for suffix, measured in case(bench).items():
                    found.setdefault(name + suffix, []).append(measured)
            except JobFailedError as error:
                failed[name] = str(error)
                bench.stop()
    progress("")
    return found, failed


def progress(text: str) -> None:
    """Say what is measured now, to somebody who looks on."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def middle(measured: list[Figures]) -> Figures:
    return Figures(
        statistics.median(each.per_second for each in measured),
        tuple(statistics.median(costs) for costs in zip(*(each.hosts_us for each in measured), strict=True)),
        statistics.median(each.producer_us for each in measured),
        statistics.median(each.consumer_us for each in measured),
    )


def baseline_of(row: str) -> str:
    """The plain row on the same way."""
    return PLAIN_TWO if row.startswith("two hosts") else PLAIN_WIRE if row.startswith("wire") else PLAIN


def ratio(value: float, row: str, found: Found) -> str:
    """A rate as a multiple of that of another row, if that was measured."""
    return f"{value / middle(found[row]).per_second:.2f}" if row in found else ""


def tell(found: Found) -> None:
    messages = {row: measured for row, measured in found.items() if not row.startswith((LARGE, DISK))}
    if messages:
        print(
            f"\n{'messages':28}{'/s':>9}{'of RabbitMQ':>13}{'of Redis':>10}{'hosts µs':>13}{'of plain':>10}"
            f"{'producer':>10}{'consumer':>10}   rounds, /s"
        )
    for row, measured in messages.items():
        each = middle(measured)
        costs = " + ".join(f"{cost:.0f}" for cost in each.hosts_us)
        wire = row.startswith("wire")  # it is not end to end
        cost = cost_ratio(row, found)
        multiple = "" if cost is None else f"{cost:.2f}"
        print(
            f"{row:28}{each.per_second:>9,.0f}{'' if wire else ratio(each.per_second, RABBITMQ, found):>13}"
            f"{'' if wire else ratio(each.per_second, REDIS, found):>10}{costs:>13}{multiple:>10}"
            f"{each.producer_us:>10.0f}{each.consumer_us:>10.0f}   "
            + " ".join(f"{one.per_second:,.0f}" for one in measured)
        )
    large = {row: measured for row, measured in found.items() if row not in messages}
    if large:
        print(f"\n{'bodies of 3.9 MB':28}{'MB/s':>9}{'of the disk':>13}{'hosts ms':>13}   rounds, MB/s")
    for row, measured in large.items():
        each = middle(measured)
        costs = " + ".join(f"{cost / 1000:.1f}" for cost in each.hosts_us)
        print(
            f"{row:28}{each.per_second:>9,.0f}{ratio(each.per_second, DISK, found):>13}{costs:>13}   "
            + " ".join(f"{one.per_second:,.0f}" for one in measured)
        )


def cost_ratio(row: str, found: Found) -> float | None:
    """What a message costs the queue managers as a multiple of a plain one on the same way."""
    plain = sum(middle(found[baseline_of(row)]).hosts_us) if baseline_of(row) in found else 0.0
    measured = row in CASES and not row.startswith((LARGE, DISK))
    return sum(middle(found[row]).hosts_us) / plain if measured and plain else None


def tell_goals(found: Found) -> None:
    """Which goals the medians reach, as far as both sides were measured."""
    lines: list[tuple[str, str, bool]] = []
    for row, measured in found.items():
        rate = middle(measured).per_second
        if row in RATE_GOALS and RABBITMQ in found:
            value, least = rate / middle(found[RABBITMQ]).per_second, RATE_GOALS[row]
            lines.append((row, f"{value:6.2f} of RabbitMQ's rate      >= {least}", value >= least))
        if row.startswith(LARGE) and DISK in found:
            value = rate / middle(found[DISK]).per_second
            lines.append((row, f"{value:6.2f} of the disk's rate      >= {LARGE_GOAL}", value >= LARGE_GOAL))
        cost, most = cost_ratio(row, found), COST_GOALS.get(row, COST_GOAL)
        if cost is not None and row != baseline_of(row):
            lines.append((row, f"{cost:6.2f} of what plain costs     <= {most}", cost <= most))
    if lines:
        print("\ngoals")
    for row, text, reached in lines:
        print(f"{row:28}{text:36}  {'reached' if reached else 'MISSED'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_480, help="per round")
    parser.add_argument("--large", type=int, default=48, help="large bodies per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument(
        "--only", default="", metavar="NAME,...", help="kinds whose names contain one of these"
    )
    parser.add_argument("--alone", action="store_true", help="without RabbitMQ and Redis")
    parser.add_argument(
        "--profile", metavar="NAME", help="one round of this kind with the queue managers profiled"
    )
    parser.add_argument("--directory", type=Path, help="where to write; a temporary directory otherwise")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    cases = dict(CASES)
    if options.profile:
        if options.profile not in cases:
            parser.error(f"there is no kind {options.profile!r}; there are: {'; '.join(cases)}")
        cases, options.rounds, options.alone = {options.profile: cases[options.profile]}, 1, True
    wanted = options.only.split(",")
    cases = {name: case for name, case in cases.items() if any(part in name for part in wanted)}
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="bench-paths-", dir=options.directory))
        stack.callback(shutil.rmtree, directory)
        bench = Bench(options, directory)
        stack.callback(bench.stop)
        if not options.alone:
            fetch_brokers()
            rabbit = stack.enter_context(rabbit_server(BROKERS, directory))
            redis = stack.enter_context(redis_server(BROKERS, directory))
            cases |= {
                RABBITMQ: lambda bench: through_broker(bench, rabbit, produce_rabbit, consume_rabbit),
                REDIS: lambda bench: through_broker(bench, redis, produce_redis, consume_redis),
            }
        print(f"{os.cpu_count()} cores, {options.messages:,} messages a round, window {options.window}")
        print(f"load average {os.getloadavg()[0]:.1f} at the beginning", flush=True)
        found, failed = measure(bench, cases, options.rounds)
        print(f"load average {os.getloadavg()[0]:.1f} at the end")
    tell(found)
    tell_goals(found)
    for name, why in failed.items():
        print(f"\nFAILED: {name}: {why}")
    if options.json:
        rounds = {row: [asdict(each) for each in measured] for row, measured in found.items()}
        options.json.write_text(json.dumps({"rounds": rounds, "failed": failed}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
