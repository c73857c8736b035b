"""Cursors, lookup, purge and move through the channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import IllegalOperationError, MessageNotFoundError
from tests.api.support import QUEUE, Caller, address, calling, daemon
from tests.api.test_receive import count, fill


async def cursor(call: Caller, *, receive: bool = False) -> Any:
    stream = call.stream("Browse")
    await stream.write(pb.BrowseRequest(open=pb.OpenToBrowse(queue=QUEUE, receive=receive)))
    await stream.read()
    return stream


async def step(
    stream: Any, action: pb.Step.Action, timeout_ms: int = 0, number: int = 0
) -> list[bytes] | str:
    """Bodies that a step shows, or the name of its error."""
    await stream.write(pb.BrowseRequest(step=pb.Step(action=action, timeout_ms=timeout_ms, count=number)))
    reply = await stream.read()
    if reply.HasField("error"):
        return str(reply.error.name)
    return [delivered.message.body for delivered in reply.deliveries.messages]


async def test_a_cursor_walks_and_takes(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 5)
        stream = await cursor(call, receive=True)
        assert await step(stream, pb.Step.NEXT) == [b"0"]
        assert await step(stream, pb.Step.NEXT) == [b"1"]
        assert await step(stream, pb.Step.CURRENT) == [b"1"]
        assert await step(stream, pb.Step.TAKE_CURRENT) == [b"1"]
        assert await step(stream, pb.Step.NEXT, 0, 10) == [b"2", b"3", b"4"]
        assert await step(stream, pb.Step.NEXT) == "MQ_ERROR_IO_TIMEOUT"
        assert await step(stream, pb.Step.NEXT, 20) == "MQ_ERROR_IO_TIMEOUT"
        assert await step(stream, pb.Step.RESTART) == []
        assert await step(stream, pb.Step.NEXT, 0, 2) == [b"0", b"2"]
        await call("Purge", pb.QueueName(queue=QUEUE))
        assert await step(stream, pb.Step.CURRENT) == "MQ_ERROR_MESSAGE_ALREADY_RECEIVED"


async def test_a_cursor_that_may_only_look(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 1)
        stream = await cursor(call)
        assert await step(stream, pb.Step.NEXT) == [b"0"]
        assert await step(stream, pb.Step.TAKE_CURRENT) == "MQ_ERROR_ACCESS_DENIED"
        assert await count(call) == 1


async def test_lookup_in_all_its_actions(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 5)

        async def look(seek: pb.Seek, lookup_id: int = 0, *, receive: bool = False) -> pb.Delivered:
            request = pb.LookupRequest(queue=QUEUE, seek=seek, lookup_id=lookup_id, receive=receive)
            found: pb.Delivered = await call("Lookup", request)
            return found

        first, last = await look(pb.SEEK_FIRST), await look(pb.SEEK_LAST)
        assert (first.message.body, last.message.body) == (b"0", b"4")
        second = await look(pb.SEEK_NEXT, first.lookup_id)
        assert second.message.body == b"1"
        assert (await look(pb.SEEK_PREVIOUS, second.lookup_id)).message.body == b"0"
        assert (await look(pb.SEEK_CURRENT, second.lookup_id)).message.body == b"1"
        with pytest.raises(MessageNotFoundError):
            await look(pb.SEEK_PREVIOUS, first.lookup_id)
        assert (await look(pb.SEEK_CURRENT, second.lookup_id, receive=True)).message.body == b"1"
        assert (await look(pb.SEEK_NEXT, first.lookup_id, receive=True)).message.body == b"2"
        assert (await look(pb.SEEK_PREVIOUS, last.lookup_id, receive=True)).message.body == b"3"
        with pytest.raises(MessageNotFoundError):
            await look(pb.SEEK_CURRENT, second.lookup_id)
        assert await count(call) == 2


async def test_purge_and_move(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await call("CreateQueue", pb.CreateQueueRequest(path=".\\private$\\other"))
        messages = [pb.Message(body=b"%d" % number) for number in range(4)]
        sent = await call("Send", pb.SendRequest(queue=QUEUE, messages=messages))
        ids = list(sent.lookup_ids)
        moved = await call(
            "Move", pb.MoveRequest(queue=QUEUE, target=f"{QUEUE};aside", lookup_ids=[*ids[:2], 99])
        )
        assert (moved.messages, list(moved.not_found)) == (2, [99])
        assert await count(call) == 2
        back = pb.MoveRequest(queue=f"{QUEUE};aside", target=QUEUE, lookup_ids=ids[:1])
        assert (await call("Move", back)).messages == 1
        with pytest.raises(IllegalOperationError):
            await call("Move", pb.MoveRequest(queue=QUEUE, target=".\\private$\\other", lookup_ids=ids[2:3]))
        assert (await call("Purge", pb.QueueName(queue=QUEUE))).messages == 3
        assert await count(call) == 0
