"""File descriptors: a process that has few of them serves whom it can, and tells the others."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import msmq
from msmq.client.problems import ServerNotAvailableError
from msmq.server import descriptors
from tests.server.support import BOB, CAROL, PATIENCE_S, free_port
from tests.server.test_daemon_processes import Process

FEW = 256
ORDERS = ".\\private$\\orders"


@asynccontextmanager
async def daemon_with_few(directory: Path) -> AsyncIterator[Process]:
    address = f"unix:{directory / 'api'}"
    bob = Process(directory, "BOB", BOB, free_port(), api=address, descriptors=FEW)
    await bob.start()
    try:
        yield bob
    finally:
        await bob.stop()


def log_of(bob: Process) -> str:
    return (bob.data.parent / "BOB.log").read_text()


def test_the_limit_is_raised_as_far_as_may_be() -> None:
    """In a process of its own, for this one has to keep its limits."""
    code = (
        "import resource; from msmq.server import descriptors as d\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 900)); d.raise_limit()\n"
        "print(d.limit(), d.reserve(), d.for_connections(), d.at_once(), d.scarce())\n"
        "kept = [open('/dev/null') for _ in range(800)]\n"
        "print(d.scarce())\n"
        "try:\n    while True: kept.append(open('/dev/null'))\nexcept OSError: pass\n"
        "print(d.in_use(), d.scarce())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["900", "225", "675", "28", "False", "True", "900", "True"]
    assert descriptors.limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    before = descriptors.in_use()
    with Path(__file__).open():
        assert descriptors.in_use() == before + 1


async def test_silent_connections_do_not_use_them_up(tmp_path: Path) -> None:
    async with daemon_with_few(tmp_path) as bob, AsyncExitStack() as stack:
        mq = await stack.enter_async_context(msmq.connect(bob.api, timeout=PATIENCE_S))
        await mq.create_queue(ORDERS)
        for _ in range(FEW + FEW // 4):
            _, writer = await asyncio.open_connection(BOB, bob.port, local_addr=(CAROL, 0))
            stack.callback(writer.close)
        await mq.queue(ORDERS).send("old friend")
        async with msmq.connect(bob.api, timeout=PATIENCE_S) as other:
            await other.queue(ORDERS).send("newcomer")
            async with asyncio.timeout(PATIENCE_S):  # for a moment those who are told to go are still there
                while (found := (await other.manager()).resources).descriptors >= FEW:
                    await asyncio.sleep(0.01)
        assert FEW // 2 < found.descriptors < FEW
        assert found.descriptor_limit == FEW
        assert "hardly a file descriptor is left" in log_of(bob)


async def test_a_client_has_one_connection_however_many_queues_it_uses(tmp_path: Path) -> None:
    """A server that answers into the queues of those who ask uses many, and most of them do not last."""
    async with daemon_with_few(tmp_path) as bob, msmq.connect(bob.api, timeout=PATIENCE_S) as mq:
        before, own = (await mq.manager()).resources, descriptors.in_use()
        for number in range(40):
            path = f".\\private$\\answers{number}"
            await mq.create_queue(path)
            await mq.queue(path).send("answer")
            if number % 2:
                await mq.delete_queue(path)
        after = (await mq.manager()).resources
        assert after.connections == before.connections
        assert after.descriptors <= before.descriptors + 2, "a segment or two of the store"
        assert descriptors.in_use() <= own


async def test_whoever_finds_none_left_is_told(tmp_path: Path) -> None:
    """Applications that wait for messages are at work: they keep their connections, and a newcomer learns why it
    gets none."""
    async with daemon_with_few(tmp_path) as bob, AsyncExitStack() as stack:
        mq = await stack.enter_async_context(msmq.connect(bob.api, timeout=PATIENCE_S))
        await mq.create_queue(ORDERS)
        waiting = [asyncio.create_task(mq.queue(ORDERS).receive())]

        async def one_more() -> None:
            other = await stack.enter_async_context(msmq.connect(bob.api, timeout=10))
            waiting.append(asyncio.create_task(other.queue(ORDERS).receive()))
            await other.manager()  # now the call that waits is under way as well

        async def as_many_as_may_be() -> None:
            while True:
                await one_more()

        with pytest.raises(ServerNotAvailableError, match="no room for this connection"):
            await as_many_as_may_be()
        assert FEW // 2 < len(waiting) < FEW
        assert "hardly a file descriptor is left" in log_of(bob)
        assert "Traceback" not in log_of(bob)
        for number in range(len(waiting)):
            await mq.queue(ORDERS).send(f"{number}".encode())
        async with asyncio.timeout(PATIENCE_S):  # in any order: the first two do not know who asked first
            received = [int(message.body) for message in await asyncio.gather(*waiting)]
        assert sorted(received) == list(range(len(waiting))), "all of them are still connected"
        async with msmq.connect(bob.api, timeout=PATIENCE_S) as newcomer:
            await newcomer.queue(ORDERS).send("there is room again")
