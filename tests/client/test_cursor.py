"""Cursors from a Python program."""

from __future__ import annotations

from pathlib import Path

import pytest

import msmq
from msmq.errors import IoTimeoutError, MessageAlreadyReceivedError, QueueNotFoundError
from tests.client.support import QUEUE, Restartable, connected


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
