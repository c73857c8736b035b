"""Consumers: several messages at a time, an orderly end on a signal, and a queue manager that goes and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import msmq
from tests.client.support import QUEUE, Restartable, connected


async def test_several_at_a_time_until_it_is_stopped(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(range(20))
        consumer = queue.consumer(concurrency=4)
        together = asyncio.Barrier(4)
        done: list[int] = []

        async def work(message: msmq.ReceivedMessage) -> None:
            await together.wait()  # nobody goes on before four are at work
            done.append(message.value)
            if len(done) == 20:
                consumer.stop()

        await consumer.run(work)
        assert sorted(done) == list(range(20))
        assert (await mq.queue_info(queue)).messages == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_work_that_has_begun_come_to_its_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(range(10))
        ended: list[int] = []
        begun = 0
        draining = asyncio.Event()

        async def work(message: msmq.ReceivedMessage) -> None:
            nonlocal begun
            begun += 1
            if begun == 3:
                os.kill(os.getpid(), number)
                asyncio.get_running_loop().call_later(0.2, draining.set)
            await draining.wait()
            ended.append(message.value)

        await queue.consumer(concurrency=3).run(work)
        assert sorted(ended) == [0, 1, 2]
        assert [message.value async for message in queue.browse()] == list(range(3, 10))


async def test_work_that_does_not_end_is_given_up_and_its_message_is_kept(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("stubborn")
        consumer = queue.consumer(drain=0.1)

        async def work(message: msmq.ReceivedMessage) -> None:
            consumer.stop()
            await asyncio.Event().wait()

        await consumer.run(work)
        assert (await queue.receive(60)).text == "stubborn"


async def test_a_message_whose_work_fails_comes_again(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("difficult")
        consumer = queue.consumer()
        tries = 0

        async def work(message: msmq.ReceivedMessage) -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise ValueError("not yet")
            consumer.stop()

        await consumer.run(work)
        assert tries == 3
        assert (await mq.queue_info(queue)).messages == 0


async def test_a_loop_ends_with_a_signal(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(["one", "two"])
        async for message in queue.consumer():
            await message.acknowledge()
            os.kill(os.getpid(), signal.SIGTERM)
        assert (await queue.receive(0)).text == "two"


async def test_it_outlives_the_queue_manager(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address, timeout=2) as mq:
        queue = await mq.create_queue(QUEUE)
        consumer = queue.consumer()
        found: asyncio.Queue[str] = asyncio.Queue()

        async def work(message: msmq.ReceivedMessage) -> None:
            await found.put(message.text)

        running = asyncio.ensure_future(consumer.run(work))
        await queue.send("before")
        assert await found.get() == "before"
        await server.stop()
        await asyncio.sleep(3)  # longer than its patience
        await server.start()
        async with msmq.connect(server.address) as other:
            await other.queue(QUEUE).send("after")
        while "after" not in await found.get():
            continue
        consumer.stop()
        await running


async def test_less_than_one_at_a_time(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        with pytest.raises(ValueError, match="one message"):
            mq.queue(QUEUE).consumer(concurrency=0)
