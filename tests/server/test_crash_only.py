"""An internal error ends the queue manager, and it comes back clean from its log."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

import msmq
from msmq.client import ClientError
from msmq.errors import MQError
from msmq.testing.faults import Fault, Faults
from tests.client.support import QUEUE, Restartable
from tests.server.support import ALICE, PATIENCE_S, free_port
from tests.server.test_daemon_processes import Process


@pytest.mark.parametrize("changes", range(1, 9))
async def test_nothing_goes_on_after_an_internal_error(
    tmp_path: Path, changes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever change it is that fails, of a message that is sent or of one that is received."""
    with caplog.at_level(logging.CRITICAL):
        faults = Faults()
        with faults.planted():
            async with Restartable(tmp_path) as host:
                told: set[bytes] = set()
                gone: set[bytes] = set()
                async with msmq.connect(host.address, timeout=10) as mq:
                    await mq.create_queue(QUEUE)
                    queue = mq.queue(QUEUE)
                    for number in range(20):
                        await queue.send(b"%d" % number)
                        told.add(b"%d" % number)
                    faults.arm(changes)
                    assert host.daemon is not None

                    async def work() -> None:
                        for number in range(20, 40):
                            await queue.send(b"%d" % number)
                            told.add(b"%d" % number)
                            gone.add((await queue.receive(timeout=PATIENCE_S)).body)

                    working = asyncio.create_task(work())
                    async with asyncio.timeout(PATIENCE_S):
                        await host.daemon.stopping.wait()
                    # The answers that are under way come; the one that failed gets none.
                    await asyncio.wait([working], timeout=1)
                    working.cancel()
                    with pytest.raises((ClientError, MQError, asyncio.CancelledError)):
                        await working
                    assert faults.raised == 1
                    assert host.daemon.failure is not None
                faults.disarm()
                await host.stop()
                await host.start()
                async with msmq.connect(host.address) as mq:
                    left = [message.body async for message in mq.queue(QUEUE).browse()]
                    assert len(set(left)) == len(left)
                    assert told - gone <= set(left) <= told, (
                        "nothing is lost, and no half of an event is there"
                    )
                    assert len(gone & set(left)) <= 1, "the last one may come again"
    assert "an internal error" in caplog.text


@pytest.mark.parametrize("where", ["a value that is written alone", "the cleaning of the store"])
async def test_an_internal_error_outside_of_the_events_of_messages_ends_it_too(
    tmp_path: Path, where: str
) -> None:
    faults = Faults()
    with faults.planted():
        async with Restartable(tmp_path) as host:
            daemon = host.daemon
            assert daemon is not None
            if where == "the cleaning of the store":

                def fail(*_: object) -> bool:
                    raise Fault(where)

                daemon.store.clean_step = fail  # type: ignore[assignment,method-assign]
                asyncio.get_running_loop().call_soon(daemon._clean)
            else:
                faults.arm(1)
                with pytest.raises(Fault):
                    daemon.manager.core.ledger.put_value("alone", 1)
            async with asyncio.timeout(PATIENCE_S):
                await daemon.stopping.wait()
            assert daemon.failure is not None
            faults.disarm()


@pytest.mark.parametrize("changes", [1, 2, 5])
async def test_a_process_ends_with_an_internal_error_and_comes_back_clean(
    tmp_path: Path, changes: int
) -> None:
    """A reader with a prefetch acknowledges while another application sends; then the process is started again."""
    api = f"unix:{tmp_path}/api.sock"
    faulty = ("tests.server.faulty_daemon", str(changes))
    host = Process(tmp_path, "ALICE", ALICE, free_port(), api=api, program=faulty)
    await host.start()
    told: set[bytes] = set()
    gone: set[bytes] = set()
    asked: set[bytes] = set()
    async with msmq.connect(api) as mq:
        queue = await mq.create_queue(QUEUE)

        async def send(numbers: Iterable[int]) -> None:
            for number in numbers:
                await queue.send(b"%d" % number)
                told.add(b"%d" % number)

        async def read() -> None:
            async with queue.receiver(prefetch=8) as messages:
                async for message in messages:
                    asked.add(message.body)
                    await message.acknowledge()
                    gone.add(message.body)

        await send(range(20))
        host.process.send_signal(signal.SIGUSR1)
        work = [asyncio.create_task(send(count(20))), asyncio.create_task(read())]
        async with asyncio.timeout(60):
            assert await host.process.wait() != 0
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    host.program = ("msmq",)
    await host.start()
    async with msmq.connect(api) as mq:
        left = [message.body async for message in mq.queue(QUEUE).browse()]
    await host.stop()
    assert len(set(left)) == len(left)
    assert told - asked <= set(left), "what was acknowledged to its sender is there"
    assert not gone & set(left), "what its reader has acknowledged does not come again"
