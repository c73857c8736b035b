"""Columns of the channel, for the other rooms of the package."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.columns import read_columns, send_columns
from msmq.client.message import Receipt
from msmq.errors import MQError
from tests.client.support import QUEUE, connected


async def test_columns_and_messages_keep_their_order(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        common = pb.Message(dead_letter=True)

        def columns(*bodies: bytes, **more: list[bytes]) -> bytes:
            return pb.Columns(kinds=[common], bodies=bodies, **more).SerializeToString()

        first = send_columns(mq, QUEUE, columns(b"0", b"1"), 2)
        alone = asyncio.create_task(queue.send(b"2"))
        await asyncio.sleep(0)  # it is under way
        second = send_columns(mq, QUEUE, columns(b"3", b"4", b"5", correlation_ids=[b"", b"short", b""]), 3)
        third = send_columns(mq, QUEUE, columns(b"6"), 1)
        await queue.send(b"7")
        await asyncio.gather(alone, third)
        assert [type(outcome) for outcome in await first] == [Receipt, Receipt]
        assert [isinstance(outcome, MQError) for outcome in await second] == [False, True, False]
        assert [message.body async for message in queue.browse()] == [b"%d" % n for n in range(8) if n != 4]


async def test_a_span_comes_in_columns(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        receipts = await queue.send_many([b"0", b"1", b"2"])
        ids = [receipt.lookup_id for receipt in receipts]
        replies = [reply async for reply in read_columns(mq, QUEUE, ids[0], ids[2])]
        assert [one for reply in replies for one in reply.lookup_ids] == ids[1:]
