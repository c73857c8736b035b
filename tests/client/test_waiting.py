"""Readers that wait: for what comes, beside each other, in transactions, and only to look."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import msmq
from msmq.errors import IoTimeoutError, TransactionSequenceError
from msmq.wire.classes import MessageClass
from tests.client.support import QUEUE, connected, mail_to, messages_of
from tests.mail import in_order, number_of

BOOKS = ".\\private$\\books"


async def first(receiver: msmq.Receiver) -> list[int]:
    """What a receiver gets first: the numbers of everything that came with the first message."""
    numbers = [number_of(await receiver.receive(60))]
    while receiver._ready:
        numbers.append(number_of(await receiver.receive(0)))
    return numbers


async def under_way(*connections: msmq.Connection) -> None:
    """What was asked on the connections has reached the queue manager, which answers a later question too."""
    await asyncio.sleep(0)
    for mq in connections:
        await mq.manager()


@pytest.mark.parametrize("mode", [msmq.Mode.HOLD, msmq.Mode.TAKE], ids=["hold", "take"])
@pytest.mark.parametrize("held", [0, 300], ids=["empty", "others held"])
async def test_receivers_that_wait_share_what_comes(tmp_path: Path, mode: msmq.Mode, held: int) -> None:
    async with connected(tmp_path) as mq, msmq.connect(mq.address) as other:
        queue = await mq.create_queue(QUEUE)
        mail = mail_to()
        await queue.send_many(messages_of([mail.numbered() for _ in range(held)]))
        coming = [mail.numbered() for _ in range(60)]
        async with (
            other.queue(QUEUE).receiver(prefetch=1) as holder,
            queue.receiver(mode=mode, prefetch=100) as one,
            other.queue(QUEUE).receiver(mode=mode, prefetch=100) as two,
        ):
            kept = [await holder.receive(60) for _ in range(held)]
            getting = [asyncio.ensure_future(first(one)), asyncio.ensure_future(first(two))]
            await under_way(mq, other)
            await queue.send_many(messages_of(coming))
            shares = await asyncio.gather(*getting)
            assert [len(share) for share in shares] == [30, 30]
            assert sorted(shares[0] + shares[1]) == list(range(held, held + 60))
            await holder.acknowledge(*kept)
        left = [message.body async for message in queue.browse()]
        assert left == ([draft.body for draft in in_order(coming)] if mode is msmq.Mode.HOLD else [])


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
async def test_what_comes_to_one_who_waits_is_journaled_and_acknowledged(
    tmp_path: Path, transactional: bool
) -> None:
    """It is taken in the event that brings it, with everything that follows from that."""

    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, transactional=transactional, journaling=True)
        admin = await mq.create_queue(".\\private$\\admin")
        async with queue.receiver(mode=msmq.Mode.TAKE, prefetch=100) as receiver:
            getting = asyncio.ensure_future(first(receiver))
            await under_way(mq)
            asked = {"admin_queue": admin.name, "acknowledgements": 15, "time_to_be_received": 600}
            mail = mail_to()
            drafts = [mail.numbered(transactional).changed(priority=3) for _ in range(60)]
            await queue.send_many([message.with_(**asked) for message in messages_of(drafts)])
            assert await getting == list(range(60))
        assert [number_of(message) async for message in queue.journal.browse()] == list(range(60))
        classes = []
        async with admin.receiver(mode=msmq.Mode.TAKE) as receiver:
            for _ in range(120):
                classes.append((await receiver.receive(60)).message_class)
        assert sorted(classes) == [MessageClass.ACK_REACH_QUEUE] * 60 + [MessageClass.ACK_RECEIVE] * 60
        assert [info.messages for info in await mq.queues()] == [0, 0]


async def test_a_receive_in_a_transaction_waits(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(BOOKS, transactional=True)
        plain = await mq.create_queue(QUEUE)
        async with mq.transaction() as tx:
            with pytest.raises(IoTimeoutError):
                await tx.receive(queue, timeout=0.05)
            waiting = asyncio.ensure_future(tx.receive(queue, timeout=60))
            await under_way(mq)
            await queue.send_many([1, 2])
            assert (await waiting).value == 1
            assert [message.value async for message in queue.browse()] == [2]
            await plain.send("beside it")  # no part of the transaction
            await tx.send(queue, 3)
        assert [message.value async for message in queue.browse()] == [2, 3]
        tx = await mq.transaction().begin()
        assert [(await tx.receive(queue, 60)).value for _ in range(2)] == [2, 3]
        waiting = asyncio.ensure_future(tx.receive(queue, timeout=60))
        await under_way(mq)
        await queue.send(4)
        assert (await waiting).value == 4
        await tx.abort()
        found = [message async for message in queue.browse()]
        assert [message.value for message in found] == [2, 3, 4]
        assert [message.returned_count for message in found] == [1, 1, 1]


async def test_the_end_of_a_transaction_ends_its_waits(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(BOOKS, transactional=True)
        tx = await mq.transaction().begin()
        waiting = asyncio.ensure_future(tx.receive(queue, timeout=60))
        await under_way(mq)
        await tx.abort()
        with pytest.raises((IoTimeoutError, TransactionSequenceError, msmq.ClientError)):
            await waiting
        await queue.send("free")
        assert (await queue.receive(60)).text == "free"


async def test_watching_many_messages(tmp_path: Path) -> None:
    """Everything is shown once and in order, and what others hold only if it allows that."""

    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        batch = [
            msmq.Message(number, priority=number % 8, peekable_when_locked=number % 10 == 0)
            for number in range(2_000)
        ]
        await queue.send_many(batch)
        order = sorted(range(2_000), key=lambda number: (-(number % 8), number))
        watch = queue.watch()
        assert [(await anext(watch)).value for _ in order] == order
        coming = asyncio.ensure_future(anext(watch))
        await queue.send("passed by", priority=7)  # it stands in front of what was shown last
        await queue.send_many([msmq.Message(number, priority=0) for number in range(2_000, 2_300)])
        shown = [(await coming).value] + [(await anext(watch)).value for _ in range(299)]
        assert shown == list(range(2_000, 2_300))
        await watch.aclose()
        assert (await mq.queue_info(queue)).messages == 2_301
        whole = [*order[:250], "passed by", *order[250:], *shown]
        async with queue.receiver(prefetch=1) as receiver:
            held = [(await receiver.receive(60)).value for _ in range(300)]
            assert held == whole[:300]
            wanted = [each for each in held if each != "passed by" and each % 10 == 0] + whole[300:]
            watch = queue.watch()
            assert [(await anext(watch)).value for _ in wanted] == wanted
            await watch.aclose()


async def test_whoever_looks_keeps_no_message_from_whoever_takes_it(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        async with queue.receiver(mode=msmq.Mode.PEEK) as watcher, queue.receiver() as receiver:
            looking = asyncio.ensure_future(watcher.receive(60))
            await under_way(mq)
            taking = asyncio.ensure_future(receiver.receive(60))
            await under_way(mq)
            await queue.send_many(range(100))
            assert (await looking).value == (await taking).value == 0
            assert [(await watcher.receive(60)).value for _ in range(99)] == list(range(1, 100))
            assert [(await receiver.receive(60)).value for _ in range(99)] == list(range(1, 100))
