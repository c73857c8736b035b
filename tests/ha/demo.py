"""``make ha-demo``: a queue manager that survives the loss of its machine, to look at.

Three PostgreSQL servers under Patroni, two instances of a queue manager. Orders are sent and received all the time,
while the instance that leads is killed, and then the primary of the database.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msmq
from msmq.errors import MsmqError
from tests.ha.patroni import Cluster, new_patroni
from tests.ha.postgres import end_in_order
from tests.ha.processes import DEFAULTS, Process

ORDERS = ".\\private$\\orders"
_CALM_S = 5.0


class Demonstration:
    """Somebody who orders, somebody who serves, and the clock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began = time.monotonic()
        self.sent = 0
        self.received: list[int] = []
        self.ended = False

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)

    async def order(self) -> None:
        async with msmq.connect(self._address, timeout=120) as mq:
            queue = mq.queue(ORDERS)
            while not self.ended:
                began = time.monotonic()
                # One at a time, and only the next one when this one is safe. A message that was sent twice because its
                # answer was lost would show in the end.
                with suppress(MsmqError):
                    await queue.send(msmq.Message(b"%d" % self.sent))
                    self.sent += 1
                if time.monotonic() - began > 1:
                    self.say(f"order {self.sent} waited {time.monotonic() - began:.1f} s for its answer")
                await asyncio.sleep(0.02)

    async def serve(self) -> None:
        async with msmq.connect(self._address, timeout=120) as mq:
            queue = mq.queue(ORDERS)
            while not self.ended or len(set(self.received)) < self.sent:
                with suppress(MsmqError):
                    self.received.append(int((await queue.receive(timeout=1)).body))


async def show(cluster: Cluster, directory: Path) -> bool:
    managers = [
        Process(directory, name, cluster.address, "msmq", settings=DEFAULTS) for name in ("node1", "node2")
    ]
    for manager in managers:
        await manager.start()
    address = ",".join(f"unix:{manager.socket}" for manager in managers)
    demonstration = Demonstration(address)
    try:
        async with msmq.connect(address, timeout=120) as mq:
            await mq.create_queue(ORDERS)
        tasks = [asyncio.create_task(work()) for work in (demonstration.order, demonstration.serve)]
        demonstration.say("three databases, two queue managers, orders flow")
        await asyncio.sleep(_CALM_S)
        for manager in managers:
            if await manager.probe("leader") == 200:
                demonstration.say(f"{demonstration.sent} orders so far; {manager.name} leads, and is killed")
                manager.signal(signal.SIGKILL)
                await manager.process.wait()
                break
        await asyncio.sleep(2 * _CALM_S)
        primary = await asyncio.to_thread(cluster.wait)
        demonstration.say(
            f"{demonstration.sent} orders so far; the primary of the database is killed: {primary.name}"
        )
        primary.signal_server(signal.SIGKILL)
        await asyncio.sleep(3 * _CALM_S)
        demonstration.ended = True
        await asyncio.gather(*tasks)
        missing = set(range(demonstration.sent)) - set(demonstration.received)
        demonstration.say(f"{demonstration.sent} orders were confirmed, {len(missing)} of them are missing")
        return not missing
    finally:
        for manager in managers:
            manager.signal(signal.SIGKILL)
            await manager.process.wait()


def main() -> int:
    end_in_order()
    print("starting three PostgreSQL servers, Patroni and etcd", flush=True)
    with tempfile.TemporaryDirectory() as directory, new_patroni() as cluster:
        return 0 if asyncio.run(show(cluster, Path(directory))) else 1


if __name__ == "__main__":
    sys.exit(main())
