"""What a shared log costs: the embedded log, one PostgreSQL, and three with a quorum, in one run on one machine.

Run: ``python bench/ha.py [--messages 20480] [--rounds 3] [--window 256] [--alone] [--before PYTHON]``. The queue
manager is a process of its own, this program its client over the unix socket; the databases are those of the tests, on
the same disk. Rounds are interleaved, and the ratios are those of medians. RabbitMQ, three nodes with a quorum queue,
takes part in the plain kind with a raw client that costs almost nothing (``bench/peers.py``); it is unpacked below
``build/`` when it is not there, and ``--alone`` leaves it out. ``--before`` names the interpreter of another
environment: the embedded log of the version that is installed there takes part too.

* **Plain**: recoverable messages of 1 KB, never more than the window without their confirmation.
* **Transactional**: the same in transactions of 64, four at a time.
* **Mixed**: half of the window sends, while a receiver takes and acknowledges groups.
* **One at a time**: a send that is confirmed before the next one begins; p50 and p99. Three nodes should not take
  longer than the embedded log by more than a round trip to the database and two syncs, measured beside it: a
  ``SELECT 1`` on the primary, and an fdatasync after 1 KB appended to a file. What PostgreSQL itself takes for an
  insert of 1 KB is told beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import asyncpg
from peers import BROKERS, fetch_brokers, rabbit, rabbit_cluster

import msmq
from tests.ha.postgres import end_in_order, new_cluster, new_server

PLAIN, ORDERS = ".\\private$\\plain", ".\\private$\\orders"
BODY = bytes(range(256)) * 4
GROUP = 64
LATENCIES = 300
RABBIT = "RabbitMQ, three nodes"
THREE = "three, quorum"
BEFORE = "embedded before"
GOAL_OF_EMBEDDED = 0.5


class Manager:
    """A queue manager, and a connection to it."""

    def __init__(self, directory: Path, name: str, store: str, python: str = sys.executable) -> None:
        directory = directory / name
        directory.mkdir()
        self.address = f"unix:{directory / 'api'}"
        command = [
            python,
            "-m",
            "msmq",
            "serve",
            "--data",
            str(directory / "data"),
            "--name",
            "BENCH",
        ]
        command += ["--listen", "127.0.0.1", "--port", "0", "--ping-port", "0", "--rpc-port", "0"]
        command += ["--api", self.address, *(["--store", store] if store else [])]
        self._log = (directory / "log").open("wb")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, cwd=directory)
        assert self._process.stdout is not None
        while not self._process.stdout.readline().startswith(b"ready"):
            assert self._process.poll() is None, (directory / "log").read_text()

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()


async def plain(mq: msmq.Connection, messages: int, window: int) -> float:
    queue = mq.queue(PLAIN)

    async def some(count: int) -> None:
        for _ in range(count):
            await queue.send(msmq.Message(BODY))

    began = time.perf_counter()
    await asyncio.gather(*(some(messages // window) for _ in range(window)))
    rate = messages // window * window / (time.perf_counter() - began)
    await queue.purge()
    return rate


async def transactional(mq: msmq.Connection, messages: int, window: int) -> float:
    queue = mq.queue(ORDERS)

    async def some(count: int) -> None:
        for _ in range(count):
            async with mq.transaction() as transaction:
                await queue.send_many([BODY] * GROUP, transaction=transaction)

    streams = max(1, window // GROUP)
    began = time.perf_counter()
    await asyncio.gather(*(some(messages // GROUP // streams) for _ in range(streams)))
    rate = messages // GROUP // streams * streams * GROUP / (time.perf_counter() - began)
    await queue.purge()
    return rate


async def mixed(mq: msmq.Connection, messages: int, window: int) -> float:
    queue = mq.queue(PLAIN)
    senders = window // 2
    total = messages // senders * senders

    async def send() -> None:
        for _ in range(total // senders):
            await queue.send(msmq.Message(BODY))

    async def receive() -> None:
        async with queue.receiver(prefetch=window) as receiver:
            confirmed, group = [], []
            for left in range(total - 1, -1, -1):
                group.append(await receiver.receive(60))
                if len(group) == GROUP or not left:
                    confirmed.append(receiver.acknowledge(*group))
                    group = []
            await asyncio.gather(*confirmed)

    began = time.perf_counter()
    await asyncio.gather(receive(), *(send() for _ in range(senders)))
    return total / (time.perf_counter() - began)


async def one_at_a_time(mq: msmq.Connection) -> tuple[float, float]:
    queue = mq.queue(PLAIN)
    times = []
    for _ in range(LATENCIES):
        began = time.perf_counter()
        await queue.send(msmq.Message(BODY))
        times.append((time.perf_counter() - began) * 1000)
    await queue.purge()
    return statistics.median(times), sorted(times)[-max(1, LATENCIES // 100)]


async def round_trip(address: str) -> float:
    """Of a statement that does nothing, in milliseconds."""
    connection = await asyncpg.connect(address)
    times = []
    for _ in range(LATENCIES):
        began = time.perf_counter()
        await connection.execute("SELECT 1")
        times.append((time.perf_counter() - began) * 1000)
    await connection.close()
    return statistics.median(times)


async def bare_insert(address: str) -> float:
    """Of 1 KB, committed by the database and nobody else concerned, in milliseconds: no log there can be quicker."""
    connection = await asyncpg.connect(address)
    await connection.execute("CREATE TABLE bare (number integer PRIMARY KEY, bytes bytea)")
    times = []
    for number in range(LATENCIES):
        began = time.perf_counter()
        await connection.execute("INSERT INTO bare VALUES ($1, $2)", number, BODY)
        times.append((time.perf_counter() - began) * 1000)
    await connection.execute("DROP TABLE bare")
    await connection.close()
    return statistics.median(times)


def sync(directory: Path) -> float:
    """Of 1 KB at the end of a file, in milliseconds."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        for _ in range(LATENCIES):
            began = time.perf_counter()
            file.write(BODY)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def measure(
    managers: dict[str, Manager], primary: str, directory: Path, options: argparse.Namespace
) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for manager in managers.values():
        async with msmq.connect(manager.address, window=options.window) as mq:
            await mq.create_queue(PLAIN)
            await mq.create_queue(ORDERS, transactional=True)
    for _ in range(options.rounds):
        for kind, work in (("plain", plain), ("transactional", transactional), ("mixed", mixed)):
            for name, manager in managers.items():
                async with msmq.connect(manager.address, window=options.window) as mq:
                    found[kind][name].append(await work(mq, options.messages, options.window))
        if not options.alone:
            found["plain"][RABBIT].append(
                await asyncio.to_thread(rabbit, b"quorum", options.messages, options.window)
            )
        for name, manager in managers.items():
            async with msmq.connect(manager.address) as mq:
                p50, p99 = await one_at_a_time(mq)
            found["p50 ms"][name].append(p50)
            found["p99 ms"][name].append(p99)
        found["allowed ms"]["round trip"].append(await round_trip(primary))
        found["allowed ms"]["bare insert"].append(await bare_insert(primary))
        found["allowed ms"]["sync"].append(sync(directory))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=20_480)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--alone", action="store_true", help="without RabbitMQ")
    parser.add_argument("--before", help="the interpreter of an environment with another version")
    options = parser.parse_args()
    end_in_order()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not options.alone:
            fetch_brokers()
            stack.enter_context(rabbit_cluster(BROKERS, directory))
        one = stack.enter_context(new_server())
        three = stack.enter_context(new_cluster())
        stores = {"embedded": "", "one PostgreSQL": one.address(), THREE: three[0].address()}
        managers = {
            name: stack.enter_context(Manager(directory, f"m{index}", store))
            for index, (name, store) in enumerate(stores.items())
        }
        if options.before:
            managers[BEFORE] = stack.enter_context(Manager(directory, "before", "", options.before))
        found = asyncio.run(measure(managers, three[0].address(), directory, options))
    allowed = {name: statistics.median(figures) for name, figures in found.pop("allowed ms").items()}
    for kind, values in found.items():
        base = statistics.median(values["embedded"])
        cells = []
        for name, figures in values.items():
            median = statistics.median(figures)
            shown = f"{median:,.2f}" if "ms" in kind else f"{median:,.0f}"
            cells.append(f"{name} {shown} ({median / base:.2f})")
        print(f"{kind:14} {'; '.join(cells)}")
    for kind in ("plain", "transactional", "mixed"):
        middle = {name: statistics.median(figures) for name, figures in found[kind].items()}
        _judge(
            f"{kind}: three nodes of the embedded log", middle[THREE] / middle["embedded"], GOAL_OF_EMBEDDED
        )
        if RABBIT in middle:
            _judge(f"{kind}: three nodes of RabbitMQ's three", middle[THREE] / middle[RABBIT], 1.0)
    latency = {name: statistics.median(figures) for name, figures in found["p50 ms"].items()}
    more, most = latency[THREE] - latency["embedded"], allowed["round trip"] + 2 * allowed["sync"]
    print(
        f"p50 above the embedded log: {more:.2f} ms; a round trip takes {allowed['round trip']:.2f} ms and a sync "
        f"{allowed['sync']:.2f} ms (goal {most:.2f}: {'reached' if more <= most else 'MISSED'}); a bare insert "
        f"of 1 KB on the three nodes takes {allowed['bare insert']:.2f} ms"
    )


def _judge(what: str, ratio: float, goal: float) -> None:
    print(f"{what}: {ratio:.2f} (goal {goal}: {'reached' if ratio >= goal else 'MISSED'})")


if __name__ == "__main__":
    main()
