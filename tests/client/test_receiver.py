"""Receiving many messages, and what a broken connection does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import msmq
from msmq.errors import MessageNotFoundError, QueueNotAvailableError
from msmq.testing.traffic import Delivery, client_message
from tests.client.support import QUEUE, Restartable, connected, mail_to, messages_of
from tests.mail import check_properties, in_order, number_of


async def test_acknowledge_many_together(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        mail = mail_to()
        drafts = [mail.numbered() for _ in range(500)]
        await queue.send_many(messages_of(drafts))
        async with queue.receiver(prefetch=50) as receiver:
            messages = [await receiver.receive(60) for _ in range(500)]
            for draft, message in zip(in_order(drafts), messages, strict=True):
                check_properties(draft, message)
            await asyncio.gather(*(message.acknowledge() for message in messages[:100]))
            await receiver.acknowledge(*messages[100:490])
            await receiver.reject(*messages[490:495])
            with pytest.raises(msmq.ConnectionLostError, match="settled already"):
                await messages[0].acknowledge()
        assert (await mq.queue_info(queue)).messages == 10


async def test_taking_and_an_exclusive_reader(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        await queue.send_many(range(3))
        async with queue.receiver(mode=msmq.Mode.TAKE, prefetch=2, exclusive=True) as receiver:
            assert [(await receiver.receive(60)).value for _ in range(3)] == [0, 1, 2]
        assert (await mq.queue_info(queue)).messages == 0


async def test_a_queue_that_is_deleted(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        async with queue.receiver() as receiver:
            waiting = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            await mq.manager()  # now the call that waits is under way as well
            await mq.delete_queue(queue)
            with pytest.raises(QueueNotAvailableError):
                await waiting


async def test_a_connection_that_breaks_gives_messages_back_and_goes_on(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        mail = mail_to()
        drafts = [mail.numbered() for _ in range(5)]
        await queue.send_many(messages_of(drafts))
        _, *rest = (draft.body for draft in in_order(drafts))
        async with queue.receiver() as receiver:
            done = await receiver.receive(60)
            await done.acknowledge()
            held = await receiver.receive(60)
            server.cut()
            with pytest.raises((msmq.ConnectionLostError, msmq.OutcomeUnknownError)):
                await _insist(lambda: receiver.acknowledge(held))
            seen = []
            async for message in receiver:
                seen.append(message.body)
                await message.acknowledge()
                if message.body == rest[-1]:
                    break
            assert seen in (rest, rest[1:])  # the first came again unless its acknowledgment had arrived


async def test_a_receiver_outlives_a_restart(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        queue = await mq.create_queue(QUEUE)
        mail = mail_to()
        kept = {"delivery": Delivery.RECOVERABLE}
        await queue.send_many(messages_of([mail.numbered(**kept).changed(priority=3) for _ in range(3)]))
        last = client_message(mail.numbered(**kept).changed(priority=0))
        async with queue.receiver() as receiver:
            first = await receiver.receive(60)
            await first.acknowledge()
            waiting = asyncio.ensure_future(_numbers(receiver, 3))
            await server.stop()
            await server.start()
            try:
                await queue.send(last)
            except msmq.OutcomeUnknownError:  # it went into the connection that was breaking
                await queue.send(last)
            assert sorted(set(await waiting)) == [1, 2, 3]


async def _insist(act: Callable[[], Awaitable[object]]) -> None:
    """Do something until it fails: a cut is noticed sooner or later."""
    while True:
        await asyncio.sleep(0.01)
        await act()


async def _numbers(receiver: msmq.Receiver, last: int) -> list[int]:
    """Everything up to a number, acknowledged as far as that goes."""
    seen = []
    async for message in receiver:
        seen.append(number_of(message))
        try:
            await message.acknowledge()
        except (msmq.ClientError, MessageNotFoundError):
            continue  # it comes again
        if number_of(message) == last:
            break
    return seen


async def test_what_is_rejected_too_often_is_poison(tmp_path: Path) -> None:
    """By the queue's policy, and by that of a receiver; a delay does not keep others waiting."""

    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, max_deliveries=2, poison_subqueue="poison", retry_delay_ms=20)
        await queue.send_many(["bad", "good"])
        seen = []
        async with queue.receiver() as receiver:
            while len(seen) < 3:
                message = await receiver.receive(60)
                seen.append(message.text)
                await (message.reject() if message.text == "bad" else message.acknowledge())
        assert seen == ["bad", "good", "bad"]
        assert (await queue.subqueue("poison").receive(0)).text == "bad"
        await queue.send("dead")
        async with queue.receiver(max_deliveries=1, poison_subqueue="") as receiver:
            await (await receiver.receive(60)).reject()
        letter = await mq.dead_letters.receive(60)
        assert (letter.text, letter.dead_letter_reason) == (
            "dead",
            "the receiving application rejected the message",
        )
        await mq.set_queue(queue, retry_delay_ms=3_600_000)
        await queue.send("later")
        await (await anext(aiter(queue))).reject()
        info = await mq.queue_info(queue)
        assert (info.messages, info.paused_messages, info.poisoned_total) == (1, 1, 2)
        assert (info.retry_delay_ms, info.max_deliveries, info.poison_subqueue) == (
            3_600_000,
            2,
            "poison",
        )
