"""Batches whose messages are of every kind: each arrives, or is refused, as it would by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.rpc import MAX_MESSAGE_BYTES
from msmq.client.columns import send_columns
from msmq.errors import InsufficientResourcesError, LabelTooLongError, TransactionUsageError
from msmq.wire.classes import MessageClass
from tests.client.support import QUEUE, Restartable, connected

ADMIN = ".\\private$\\admin"
ALL_FLAGS = [msmq.Acknowledge(flags) for flags in range(16)]
CLASSES = {
    "arrived": (msmq.Acknowledge.ARRIVAL, MessageClass.ACK_REACH_QUEUE),
    "received": (msmq.Acknowledge.RECEIVE, MessageClass.ACK_RECEIVE),
    "purged": (msmq.Acknowledge.NO_RECEIVE, MessageClass.NACK_Q_PURGED),
    "late": (msmq.Acknowledge.NO_RECEIVE, MessageClass.NACK_RECEIVE_TIMEOUT),
}
"""Who hears of what becomes of a message, and how."""


def asked(ending: str, **properties: Any) -> list[msmq.Message]:
    """A message for every combination of acknowledgments. Its label says how it is to end."""
    return [
        msmq.Message(int(flags), ending, admin_queue=ADMIN, acknowledgements=flags, **properties)
        for flags in ALL_FLAGS
    ]


def due_for(messages: Iterable[tuple[msmq.Message, msmq.Receipt]]) -> Counter[tuple[bytes, int]]:
    """The acknowledgments that are due for messages: what each is about, and its class."""
    due = Counter[tuple[bytes, int]]()
    for message, receipt in messages:
        for what in ("arrived", message.label):
            flag, told = CLASSES[what]
            if message.acknowledgements & flag:
                due[receipt.message_id, int(told)] += 1
    return due


def interleaved(*lists: list[msmq.Message]) -> list[msmq.Message]:
    return [message for group in zip(*lists, strict=True) for message in group]


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
async def test_every_acknowledgment_that_is_asked_for_comes(tmp_path: Path, transactional: bool) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, transactional=transactional)
        admin = await mq.create_queue(ADMIN)
        batch = interleaved(
            asked("received"),
            asked("purged", peekable_when_locked=True),
            asked("late", time_to_be_received=0),
            asked("received", journal=True, time_to_be_received=3600, time_to_reach_queue=600),
        )
        receipts = await queue.send_many(batch)
        assert len({receipt.message_id for receipt in receipts}) == len(batch)
        async with queue.receiver(prefetch=100) as receiver:
            found = [await receiver.receive(60) for _ in range(48)]
            waits = [message for message in batch if message.label != "late"]
            assert [message.label for message in found] == [message.label for message in waits]
            await receiver.acknowledge(*(message for message in found if message.label == "received"))
            await receiver.reject(*(message for message in found if message.label == "purged"))
        assert await queue.purge() == 16
        due, told = due_for(zip(batch, receipts, strict=True)), Counter[tuple[bytes, int]]()
        async with admin.receiver(mode=msmq.Mode.TAKE) as receiver:
            while told.total() < due.total():
                acknowledgment = await receiver.receive(60)
                told[acknowledgment.correlation_id, acknowledgment.message_class] += 1
        assert told == due
        assert (await mq.queue_info(admin)).messages == 0
        journaled = [message.value async for message in mq.journal.browse()]
        assert journaled == list(range(16))
        dead = [message async for message in mq.transactional_dead_letters.browse()]
        assert Counter(message.label for message in dead) == (
            {"late": 16, "purged": 16} if transactional else {}
        )
        assert [message async for message in mq.dead_letters.browse()] == []


async def test_each_message_is_refused_by_itself(tmp_path: Path) -> None:
    """Those that are wrong in the middle of a batch are told by their index, and the others are in the queue."""
    plain = [
        msmq.Message(b"0"),
        msmq.Message(b"1", "x" * 250),
        msmq.Message(b"2", delivery=msmq.Delivery.TRANSACTIONAL),
        msmq.Message(b"3", delivery=msmq.Delivery.EXPRESS, priority=7),
        msmq.Message(b"4", authenticate=True),
        msmq.Message(b"5", authenticate=True, delivery=msmq.Delivery.TRANSACTIONAL),
        msmq.Message(b"6", priority=0, peekable_when_locked=True),
        msmq.Message(bytes(4 << 20), priority=7),
        msmq.Message(b"8", "y" * 250, trace=True),
        msmq.Message(b"9", priority=5, trace=True, extension=b"e", application_tag=9),
    ]
    strict = [
        msmq.Message(b"0"),
        msmq.Message(b"1", delivery=msmq.Delivery.EXPRESS),
        msmq.Message(b"2", priority=7),
        msmq.Message(b"3", "x" * 250),
        msmq.Message(b"4", authenticate=True),
        msmq.Message(b"5", delivery=msmq.Delivery.RECOVERABLE, admin_queue=ADMIN),
        msmq.Message(b"6", delivery=msmq.Delivery.TRANSACTIONAL, peekable_when_locked=True),
        msmq.Message(b"7", authenticate=True, delivery=msmq.Delivery.EXPRESS),
        msmq.Message(b"8", time_to_be_received=3600),
    ]

    async def refused(queue: msmq.Queue, batch: list[msmq.Message]) -> list[tuple[int, type]]:
        with pytest.raises(msmq.SendError) as caught:
            await queue.send_many(batch)
        receipts = [outcome for outcome in caught.value.outcomes if isinstance(outcome, msmq.Receipt)]
        assert len({receipt.lookup_id for receipt in receipts}) == len(receipts)
        assert len(receipts) + len(caught.value.failures) == len(batch)
        return [(index, type(error)) for index, error in caught.value.failures]

    async with Restartable(tmp_path) as server:
        async with msmq.connect(server.address) as mq:
            await mq.renew_internal_certificate()
            queue = await mq.create_queue(QUEUE)
            books = await mq.create_queue(".\\private$\\books", transactional=True)
            assert await refused(queue, plain) == [
                (1, LabelTooLongError),
                (2, TransactionUsageError),
                (5, TransactionUsageError),
                (7, InsufficientResourcesError),
                (8, LabelTooLongError),
            ]
            assert await refused(books, strict) == [
                (1, TransactionUsageError),
                (3, LabelTooLongError),
                (5, TransactionUsageError),
                (7, TransactionUsageError),
            ]
            found = [message async for message in queue.browse()]
            assert [message.body for message in found] == [b"3", b"9", b"0", b"4", b"6"]
            assert [message.authenticated for message in found] == [False, False, False, True, False]
            assert (found[1].extension, found[1].application_tag) == (b"e", 9)
        await server.stop()
        await server.start()
        async with msmq.connect(server.address) as mq:
            left = [message.body async for message in mq.queue(QUEUE).browse()]
            assert left == [b"9", b"0", b"4", b"6"]  # all but the express one
            kept = [message async for message in mq.queue(".\\private$\\books").browse()]
            assert [message.body for message in kept] == [b"0", b"2", b"4", b"6", b"8"]
            assert all(message.first_in_transaction and message.last_in_transaction for message in kept)
            assert {message.priority for message in kept} == {0}
            assert [message.authenticated for message in kept] == [False, False, True, False, False]
            async with mq.queue(".\\private$\\books").receiver(prefetch=10) as receiver:
                held = [await receiver.receive(60) for _ in kept]
                seen = [message.body async for message in mq.queue(".\\private$\\books").browse()]
                assert seen == [b"6"]
                await receiver.acknowledge(*held)


async def test_large_bodies_are_no_more_than_the_channel_takes_at_a_time(tmp_path: Path) -> None:
    """Together they are more than one frame may have, which ends the line."""

    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        size, number = 3_900_000, count()
        bodies = [bytes([next(number)]) * size for _ in range(MAX_MESSAGE_BYTES // size + 3)]
        await queue.send_many(bodies)
        async with queue.receiver(mode=msmq.Mode.TAKE) as receiver:
            for body in bodies:
                assert (await receiver.receive(10)).body == body


async def test_what_no_frame_holds_is_refused_at_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        huge = bytes(MAX_MESSAGE_BYTES + 1)
        with pytest.raises(InsufficientResourcesError):
            await queue.send(huge)
        with pytest.raises(InsufficientResourcesError):
            await queue.send_many([b"0", huge])
        with pytest.raises(InsufficientResourcesError):
            await send_columns(mq, QUEUE, huge, 1)
        with pytest.raises(InsufficientResourcesError):
            await queue.exchange(1, QUEUE, msmq.Message(huge))
        with pytest.raises(InsufficientResourcesError):
            await queue.send(b"1", sender_certificate=huge)
        await queue.send(b"2")
        assert [message.body async for message in queue.browse()] == [b"2"]
