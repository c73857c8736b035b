"""How long nobody is answered: a queue manager killed, its database's primary killed, its host frozen.

Run: ``python bench/failover.py [--messages 100000] [--rounds 2]``. Three PostgreSQL servers under Patroni and two
instances of a queue manager with default settings, as in the tests; so many messages of 200 bytes are queued. An
application sends all the time and waits for each answer; what counts is its longest wait.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import msmq
from msmq.errors import MsmqError
from tests.ha.patroni import Cluster, new_patroni
from tests.ha.postgres import end_in_order
from tests.ha.processes import DEFAULTS, Process

QUEUE, PROBE = ".\\private$\\many", ".\\private$\\probe"
BODY = bytes(200)
GROUP = 10_000


class Scene:
    """The instances, and what happens to them."""

    def __init__(self, cluster: Cluster, managers: list[Process]) -> None:
        self.cluster = cluster
        self.managers = managers

    async def leader(self) -> Process:
        while True:
            for manager in self.managers:
                if await manager.probe("leader") == 200:
                    return manager
            await asyncio.sleep(0.1)

    async def kill_manager(self) -> None:
        leader = await self.leader()
        leader.signal(signal.SIGKILL)
        await leader.process.wait()

    async def kill_primary(self) -> None:
        primary = await asyncio.to_thread(self.cluster.wait)
        primary.signal_server(signal.SIGKILL)

    async def freeze_manager(self) -> None:
        (await self.leader()).signal(signal.SIGSTOP)

    async def mend(self) -> None:
        for manager in self.managers:
            manager.signal(signal.SIGCONT)
            if manager.process.returncode is not None:
                await manager.start()
        await asyncio.to_thread(self.cluster.wait)
        await self.leader()
        while not all([await manager.probe("ready") == 200 for manager in self.managers]):
            await asyncio.sleep(0.2)


async def longest_wait(address: str, trouble: Callable[[], Awaitable[None]]) -> float:
    """Of an application that sends all the time, from the trouble until it is answered again."""
    async with msmq.connect(address, timeout=300) as mq:
        queue = mq.queue(PROBE)
        await queue.send(msmq.Message(BODY))
        await trouble()
        began = time.monotonic()
        while True:
            with suppress(MsmqError):
                await queue.send(msmq.Message(BODY))
                return time.monotonic() - began


async def measure(cluster: Cluster, directory: Path, options: argparse.Namespace) -> None:
    managers = [Process(directory, name, cluster.address, "msmq", settings=DEFAULTS) for name in ("a", "b")]
    scene = Scene(cluster, managers)
    for manager in managers:
        await manager.start()
    address = ",".join(f"unix:{manager.socket}" for manager in managers)
    try:
        async with msmq.connect(address, timeout=300) as mq:
            await mq.create_queue(QUEUE)
            await mq.create_queue(PROBE)
            began = time.monotonic()
            for _ in range(options.messages // GROUP):
                await mq.queue(QUEUE).send_many([msmq.Message(BODY)] * GROUP)
            print(f"{options.messages:,} messages queued in {time.monotonic() - began:.0f} s")
        await scene.mend()
        for trouble in (scene.kill_manager, scene.kill_primary, scene.freeze_manager):
            waits = []
            for _ in range(options.rounds):
                waits.append(await longest_wait(address, trouble))
                await scene.mend()
            print(
                f"{trouble.__name__:15} median {statistics.median(waits):.1f} s, worst {max(waits):.1f} s",
                flush=True,
            )
    finally:
        for manager in managers:
            manager.signal(signal.SIGCONT)
            manager.signal(signal.SIGKILL)
            await manager.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as directory, new_patroni() as cluster:
        asyncio.run(measure(cluster, Path(directory), options))


if __name__ == "__main__":
    main()
