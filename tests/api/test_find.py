"""Find: messages by what they say, in queues of any size, with and without reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InvalidParameterError, QueueNotFoundError
from tests.api.support import QUEUE
from tests.client.support import connected


async def _found(mq: msmq.Connection, **given: Any) -> list[str]:
    request = pb.FindRequest(queue=QUEUE, **given)
    return [
        each.delivered.message.label
        async for reply in mq.server_stream("Find", request)
        for each in reply.messages
    ]


async def test_every_way_to_find_a_message(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        sent = await queue.send_many(
            msmq.Message(b"b%d" % at * (at + 1), label=f"Message {at}", correlation_id=bytes([at % 256]) * 20,
                         delivery=msmq.Delivery.EXPRESS if at % 100 == 7 else msmq.Delivery.RECOVERABLE)
            for at in range(3000)
        )  # fmt: skip
        assert len(await _found(mq)) == 3000
        assert await _found(mq, label="MESSAGE 2999") == ["Message 2999"]
        assert await _found(mq, label="message 107") == [
            "Message 107",
            *(f"Message 107{at}" for at in range(10)),
        ]
        assert await _found(mq, body_contains=[b"b2345b", b"nothing"]) == ["Message 2345"]
        assert await _found(mq, message_id=sent[42].message_id) == ["Message 42"]
        assert await _found(mq, correlation_id=bytes([5]) * 20, most_messages=2) == [
            "Message 5",
            "Message 261",
        ]
        assert await _found(mq, classes=[1]) == []
        assert len(await _found(mq, classes=[0, 1], greatest_bytes=300)) > 5
        assert await _found(mq, arrived_to=5) == []
        assert await _found(mq, skip=2999) == ["Message 2999"]
        assert await _found(mq, skip=5000) == []
        assert await _found(mq, after=sent[10].lookup_id, most_messages=1) == ["Message 11"]
        replies = [
            each
            async for each in mq.server_stream(
                "Find", pb.FindRequest(queue=QUEUE, label="no", most_looked_at=1500)
            )
        ]
        assert [(each.looked_at, each.last, each.end) for each in replies][-1] == (
            1500,
            sent[1499].lookup_id,
            False,
        )


async def test_letters_of_either_case_and_any_alphabet(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        labels = ["Straße", "STRAẞE", "\u212aelvin", "kelvin", "\u0130ki", "ΣΊΣΥΦΟ", "plain"]
        await queue.send_many(msmq.Message("x", label=label) for label in labels)
        assert await _found(mq, label="traße") == labels[:2]
        assert await _found(mq, label="KELVIN") == labels[2:4]
        assert await _found(mq, label="i\u0307K") == ["\u0130ki"]
        assert await _found(mq, label="σίσυφο") == ["ΣΊΣΥΦΟ"]


async def test_bodies_are_cut_and_sizes_told(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        await (await mq.create_queue(QUEUE)).send(b"x" * 5000)
        request = pb.FindRequest(queue=QUEUE, body_bytes=10)
        (found,) = [each async for reply in mq.server_stream("Find", request) for each in reply.messages]
        assert (len(found.delivered.message.body), found.body_size) == (10, 5000)
        assert found.size > 5000


async def test_what_cannot_be_searched(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        with pytest.raises(QueueNotFoundError):
            await _found(mq)
        await mq.create_queue(QUEUE, sddl="D:(D;;0x3f;;;WD)")
        with pytest.raises((InvalidParameterError, AccessDeniedError)):
            await _found(mq, label="x" * 2000)
