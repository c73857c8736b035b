"""Cursors from a Python program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import msmq
from msmq.errors import IoTimeoutError, MessageAlreadyReceivedError, MQError, QueueNotFoundError
from tests.client.support import QUEUE, Restartable, connected
from tests.server.support import PATIENCE_S, eventually


async def test_a_walk(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(range(250))
        async with queue.cursor(receive=True) as cursor:
            assert (await cursor.next()).value == 0
            assert (await cursor.current()).value == 0
            assert (await cursor.take()).value == 0
            async with queue.cursor() as at_end:
                await at_end.next_many(250)
                with pytest.raises(IoTimeoutError):
                    await at_end.next(0.02)
            assert [message.value for message in await cursor.next_many(3)] == [1, 2, 3]
            await queue.lookup(seek=msmq.Seek.FIRST, receive=True)
            await cursor.restart()
            assert (await cursor.next()).value == 2
        assert len([message async for message in queue.browse()]) == 248
        with pytest.raises(QueueNotFoundError):
            async with mq.queue(".\\private$\\none").cursor():
                pass
        with pytest.raises(RuntimeError):
            await queue.cursor().next()


async def test_what_happens_under_a_cursor(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("x")
        async with queue.cursor() as cursor:
            await cursor.next()
            await queue.purge()
            with pytest.raises(MessageAlreadyReceivedError):
                await cursor.current()
            server.cut()
            with pytest.raises(msmq.ConnectionLostError):
                await cursor.next(None)


async def test_a_cursor_that_only_looks_says_how_to_take(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("x")
        async with queue.cursor() as cursor:
            await cursor.next()
            for take in (cursor.take, cursor.hold):
                with pytest.raises(RuntimeError, match=r"cursor\(receive=True\)"):
                    await take()
            assert (await cursor.current()).text == "x"


async def test_who_waits_for_a_message_hears_that_the_queue_was_deleted(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        assert server.daemon is not None
        (there,) = [each for path, each in server.daemon.manager.core.by_path.items() if path.endswith("q")]
        async with queue.cursor() as cursor:
            waiting = [asyncio.ensure_future(each) for each in (queue.receive(), cursor.next(timeout=None))]
            await eventually(lambda: len(there.waiting) == 2)
            await mq.delete_queue(QUEUE)
            for each in waiting:
                with pytest.raises(MQError, match="The queue was deleted"):
                    await asyncio.wait_for(each, PATIENCE_S)
