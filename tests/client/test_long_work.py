"""Purging and deleting queues with many messages: others are served meanwhile, and nothing is left half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.errors import MessageStorageFailedError, QueueNotFoundError
from msmq.manager.chores import SLICE
from msmq.server.daemon import Daemon
from tests.client.support import QUEUE, Restartable
from tests.server.support import eventually

OTHER = ".\\private$\\other"
MESSAGES = 5_000
MANY = 16 * SLICE
DEAF = msmq.Message(b"x", dead_letter=False)


def slices(running: Daemon, log: list[str]) -> None:
    """Note each slice of long work in a log."""
    chores = running.manager.core.chores
    step = chores.step

    def noted() -> bool:
        log.append("slice")
        return step()

    chores.step = noted  # type: ignore[method-assign]


async def live(mq: msmq.Connection, log: list[str], begin: Callable[[], Awaitable[Any]]) -> Any:
    """Send and receive, one after the other, until something that begins meanwhile is over; gives what it gives."""
    other, number = mq.queue(OTHER), 0
    async with other.receiver(mode=msmq.Mode.TAKE, prefetch=1) as receiver:
        await other.send(-1)
        assert (await receiver.receive(60)).value == -1
        work = asyncio.ensure_future(begin())
        while not work.done():
            await other.send(number)
            log.append("sent")
            assert (await receiver.receive(60)).value == number
            log.append("received")
            number += 1
        return await work


def between(log: list[str], what: str) -> bool:
    """Whether something happened after the first slice and before the last."""
    first = log.index("slice")
    last = len(log) - 1 - log[::-1].index("slice")
    return what in log[first:last]


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
async def test_a_purge_lets_others_go_on(tmp_path: Path, transactional: bool) -> None:
    async with (
        Restartable(tmp_path) as server,
        msmq.connect(server.address) as mq,
        msmq.connect(server.address) as busy,
    ):
        assert server.daemon is not None
        queue = await mq.create_queue(QUEUE, transactional=transactional)
        await mq.create_queue(OTHER)
        await queue.send_many([DEAF] * MANY)
        log: list[str] = []
        slices(server.daemon, log)
        assert await live(busy, log, queue.purge) == MANY
        assert between(log, "received")
        assert (await mq.queue_info(queue)).messages == 0
        await queue.send(b"after")
        await server.stop()
        await server.start()
        assert [message.body async for message in queue.browse()] == [b"after"]


async def test_a_purge_leaves_what_comes_meanwhile(tmp_path: Path) -> None:
    async with (
        Restartable(tmp_path) as server,
        msmq.connect(server.address) as mq,
        msmq.connect(server.address) as busy,
    ):
        queue = await mq.create_queue(QUEUE)
        await queue.send_many([DEAF] * MESSAGES)
        purge = asyncio.ensure_future(queue.purge())
        sent = []
        while not purge.done():
            receipt = await busy.queue(QUEUE).send(b"%d" % len(sent), priority=7)
            sent.append(receipt.lookup_id)
        # The first of them may have come before the purge.
        assert MESSAGES <= await purge <= MESSAGES + len(sent)
        left = [message.lookup_id async for message in queue.browse()]
        assert left == sent[len(sent) - len(left) :]
        assert await purge == MESSAGES + len(sent) - len(left)


async def test_a_deletion_lets_others_go_on(tmp_path: Path) -> None:
    async with (
        Restartable(tmp_path) as server,
        msmq.connect(server.address) as mq,
        msmq.connect(server.address) as busy,
    ):
        assert server.daemon is not None
        queue = await mq.create_queue(QUEUE)
        await mq.create_queue(OTHER)
        await queue.send_many([DEAF] * MANY)
        log: list[str] = []
        slices(server.daemon, log)
        await live(busy, log, lambda: mq.delete_queue(queue))
        assert between(log, "received")
        with pytest.raises(QueueNotFoundError):
            await mq.queue_info(queue)
        await mq.create_queue(QUEUE)
        assert [info.messages for info in await mq.queues()] == [0, 0]
        assert server.daemon.manager.core.total_bytes == 0


async def test_a_deletion_that_is_interrupted_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server:
        assert server.daemon is not None
        async with msmq.connect(server.address) as mq:
            queue = await mq.create_queue(QUEUE)
            await queue.send_many([DEAF] * MESSAGES)
        manager = server.daemon.manager
        chore = manager.queues.delete(manager.core.by_path["host\\private$\\q"])
        assert not chore.done
        await server.stop()
        assert not chore.done
        await server.start()
        async with msmq.connect(server.address) as mq:
            assert not await mq.queue_exists(QUEUE)
            await (await mq.create_queue(QUEUE)).send(b"new")
            core = server.daemon.manager.core
            await eventually(lambda: not core.chores.pending)
            assert len([each for each in core.queues.values() if each.pathname.endswith("\\q")]) == 1
            assert [message.body async for message in mq.queue(QUEUE).browse()] == [b"new"]
        await server.stop()
        await server.start()
        assert not server.daemon.manager.core.chores.pending
        async with msmq.connect(server.address) as mq:
            assert [message.body async for message in mq.queue(QUEUE).browse()] == [b"new"]


def failing(running: Daemon, error: Exception) -> None:
    """Let the next slice but one fail in the middle of its work."""
    mailbox = running.manager.mailbox
    remove, calls = mailbox.remove, []

    def fails(*args: Any, **options: Any) -> int:
        calls.append(args)
        if len(calls) == 3:
            raise error
        return remove(*args, **options)

    mailbox.remove = fails  # type: ignore[method-assign]


async def test_a_purge_that_finds_no_room_is_told_and_the_queue_manager_goes_on(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        assert server.daemon is not None
        queue = await mq.create_queue(QUEUE)
        await queue.send_many([DEAF] * MESSAGES)
        failing(server.daemon, MessageStorageFailedError("There is no room."))
        with pytest.raises(MessageStorageFailedError):
            await queue.purge()
        assert not server.daemon.stopping.is_set()
        left = (await mq.queue_info(queue)).messages
        assert 0 < left < MESSAGES
        assert await queue.purge() == left


async def test_an_internal_error_stops_the_queue_manager_and_a_restart_finds_it_sound(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server:
        assert server.daemon is not None
        async with msmq.connect(server.address) as mq:
            queue = await mq.create_queue(QUEUE)
            await queue.send_many([DEAF] * MESSAGES)
        failing(server.daemon, ZeroDivisionError("something nobody thought of"))
        manager = server.daemon.manager
        manager.queues.purge(manager.core.by_path["host\\private$\\q"])
        await server.daemon.stopping.wait()
        assert server.daemon.failure is not None
        assert isinstance(server.daemon.failure.__cause__, ZeroDivisionError)
        await server.stop()
        await server.start()
        async with msmq.connect(server.address) as mq:
            left = (await mq.queue_info(QUEUE)).messages
            assert 0 < left < MESSAGES
            assert await mq.queue(QUEUE).purge() == left
