"""A queue from a Python program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import msmq
from msmq.errors import IllegalPropertySizeError, IoTimeoutError, MessageNotFoundError, QueueNotFoundError
from tests.client.support import ADMIN, QUEUE, connected, mail_to, messages_of
from tests.mail import check_properties, in_order


async def test_send_and_receive(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send("hello", label="greeting")
        assert (await queue.peek()).text == "hello"
        message = await queue.receive(60)
        assert (message.value, message.label, message.queue) == ("hello", "greeting", QUEUE)
        for timeout in (0, 0.05):
            with pytest.raises(IoTimeoutError):
                await queue.receive(timeout)
        with pytest.raises(IoTimeoutError):
            await queue.peek()
        late = asyncio.ensure_future(queue.receive())
        await asyncio.sleep(0)
        await queue.send(1)
        assert (await late).value == 1
        with pytest.raises(QueueNotFoundError):
            await mq.queue(".\\private$\\none").send("x")
        with pytest.raises(QueueNotFoundError):
            await mq.queue(".\\private$\\none").receive(0)
        assert repr(queue) == f"<Queue {QUEUE}>"


async def test_many_at_once_keep_their_order(tmp_path: Path) -> None:
    """Each among those of its priority, with everything that was said with it."""
    async with connected(tmp_path, window=300) as mq:
        queue = await mq.create_queue(QUEUE)
        await mq.create_queue(ADMIN)
        mail = mail_to()
        drafts = [mail.numbered() for _ in range(1500)]
        messages = messages_of(drafts)
        receipts = await queue.send_many(messages[:1000])
        assert len({receipt.id for receipt in receipts}) == 1000

        async def more() -> AsyncIterator[msmq.Message]:
            for message in messages[1000:1300]:
                yield message

        await queue.send_many(more())
        await asyncio.gather(*(queue.send(message) for message in messages[1300:]))
        found = [message async for message in queue.browse()]
        for draft, message in zip(in_order(drafts), found, strict=True):
            check_properties(draft, message)


async def test_some_of_many_are_refused(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        bad = msmq.Message("bad", correlation_id=b"x")
        with pytest.raises(msmq.SendError, match="1 of 3") as caught:
            await queue.send_many(["a", bad, "b"])
        ((index, error),) = caught.value.failures
        assert index == 1
        assert isinstance(error, IllegalPropertySizeError)
        assert [type(outcome).__name__ for outcome in caught.value.outcomes][::2] == [
            "Receipt",
            "Receipt",
        ]
        with pytest.raises(IllegalPropertySizeError):
            await queue.send(bad)


async def test_a_loop_over_a_queue(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(range(5))
        seen = []
        async for message in queue:
            seen.append(message.value)
            if message.value == 1:
                await message.reject("odd")
            elif message.value < 3:
                await message.acknowledge()
            else:
                break
        assert seen == [0, 1, 2, 3]
        left = [message.value async for message in queue.browse()]
        assert left == [3, 4]
        assert (await queue.subqueue("odd").receive(60)).value == 1


async def test_lookup_move_purge_and_watch(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, journaling=True)
        receipts = await queue.send_many(range(6))
        assert (await queue.lookup(receipts[2].lookup_id)).value == 2
        assert (await queue.lookup(receipts[2].lookup_id, msmq.Seek.NEXT)).value == 3
        assert (await queue.lookup(receipts[2].lookup_id, msmq.Seek.PREVIOUS)).value == 1
        assert (await queue.lookup(seek=msmq.Seek.LAST, receive=True)).value == 5
        assert (await queue.lookup(seek=msmq.Seek.FIRST)).value == 0
        with pytest.raises(MessageNotFoundError):
            await queue.lookup(receipts[5].lookup_id)
        first = await queue.peek()
        assert await queue.move([first, receipts[1].lookup_id], f"{QUEUE};aside") == 2
        watched = []
        async for message in queue.watch():
            watched.append(message.value)
            if len(watched) == 3:
                await queue.send("new")
            if len(watched) == 4:
                break
        assert watched == [2, 3, 4, "new"]
        assert await queue.purge() == 4
        assert (await queue.journal.peek()).value == 5


async def test_messages_to_other_hosts_wait_here(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        far = mq.queue("DIRECT=TCP:127.0.0.9\\private$\\far")
        await far.send("x")
        (outgoing,) = await mq.outgoing_queues()
        assert outgoing.messages == 1
