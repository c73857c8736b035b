"""Messages by their identifiers, found by the queue manager."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import msmq
from msmq.errors import IoTimeoutError, MessageNotFoundError
from tests.client.support import QUEUE, connected
from tests.server.support import PATIENCE_S

ANSWER = bytes(range(20))


async def test_by_identifier_and_by_correlation_identifier(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        sent = await queue.send_many(msmq.Message(number) for number in range(1000))
        await queue.send("first answer", correlation_id=ANSWER)
        await queue.send("second answer", correlation_id=ANSWER, priority=7)
        assert (await queue.peek_by_id(sent[900].message_id)).value == 900
        assert (await queue.receive_by_id(sent[900].id)).value == 900
        assert (await queue.peek_by_correlation_id(ANSWER)).value == "second answer"
        assert (await queue.receive_by_correlation_id(ANSWER)).value == "second answer"
        assert (await queue.receive_by_correlation_id(ANSWER)).value == "first answer"
        for gone in (queue.receive_by_id(sent[900].id), queue.peek_by_correlation_id(ANSWER)):
            with pytest.raises(MessageNotFoundError):
                await gone
        with pytest.raises(IoTimeoutError):
            await queue.receive_by_id(sent[900].id, timeout=0.05)
        with pytest.raises(ValueError, match="identifier"):
            await queue.receive_by_id("900")
        assert (await mq.queue_info(queue)).messages == 999


async def test_waiting_for_a_message_of_one_s_own(tmp_path: Path) -> None:
    """Others come in between, also in front of those that were looked at."""

    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        waiting = asyncio.create_task(queue.receive_by_correlation_id(ANSWER, timeout=60))
        while not (await mq.queue_info(queue)).open_handles:
            await asyncio.sleep(0.01)
        await queue.send_many(["others", "more"])
        await queue.send("mine", correlation_id=ANSWER, priority=7)
        assert (await waiting).text == "mine"
        assert [message.text async for message in queue.browse()] == ["others", "more"]


async def test_a_cancelled_wait_takes_nothing_and_ends(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queue.receive_by_correlation_id(ANSWER, timeout=None), 0.05)
        while (await mq.queue_info(queue)).open_handles:
            await asyncio.sleep(0.01)
        await queue.send("mine", correlation_id=ANSWER)
        assert (await queue.receive_by_correlation_id(ANSWER)).text == "mine"


async def test_in_a_transaction(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, transactional=True)
        await queue.send_many(["other", "mine"])
        mine = (await queue.lookup(seek=msmq.Seek.LAST)).message_id
        undone = await mq.transaction().__aenter__()
        assert (await queue.receive_by_id(mine, transaction=undone)).text == "mine"
        await undone.abort()
        async with mq.transaction() as transaction:
            found = await queue.receive_by_id(mine, timeout=PATIENCE_S, transaction=transaction)
            assert found.text == "mine"
            with pytest.raises(MessageNotFoundError):
                await queue.receive_by_id(mine, transaction=transaction)
        assert [message.text async for message in queue.browse()] == ["other"]


async def test_without_an_event_loop(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        receipt = await queue.send("x", correlation_id=ANSWER)
        await queue.send("y", correlation_id=ANSWER)

        def synchronous() -> None:
            with msmq.connect_sync(mq.address) as other:
                same = other.queue(QUEUE)
                assert same.peek_by_id(receipt.id).text == "x"
                assert same.receive_by_id(receipt.id).text == "x"
                assert same.peek_by_correlation_id(ANSWER).text == "y"
                assert same.receive_by_correlation_id(ANSWER).text == "y"

        await asyncio.to_thread(synchronous)
