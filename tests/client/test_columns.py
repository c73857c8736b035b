"""Columns of the channel, for the other rooms of the package."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.columns import read_columns, send_columns
from tests.client.support import QUEUE, connected


async def test_columns_and_messages_keep_their_order(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        common = pb.Message(dead_letter=True)

        def columns(*bodies: bytes, **more: list[bytes]) -> bytes:
            return pb.Columns(kinds=[common], bodies=bodies, **more).SerializeToString()

        sends = [
            send_columns(mq, QUEUE, columns(b"0", b"1"), 2),
            queue.send(b"2"),
            send_columns(mq, QUEUE, columns(b"3", b"4", b"5", correlation_ids=[b"", b"short", b""]), 3),
            send_columns(mq, QUEUE, columns(b"6"), 1),
            queue.send(b"7"),
        ]
        first, _, second, _, _ = await asyncio.gather(*sends)
        assert first == []
        assert [index for index, _ in second] == [1]
        assert [message.body async for message in queue.browse()] == [b"%d" % n for n in range(8) if n != 4]


async def test_a_span_comes_in_columns(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        receipts = await queue.send_many([b"0", b"1", b"2"])
        ids = [receipt.lookup_id for receipt in receipts]
        replies = [reply async for reply in read_columns(mq, QUEUE, ids[0], ids[2])]
        assert [one for reply in replies for one in reply.packets.lookup_ids] == ids[1:]
