"""Receiving through the channel."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packets import to_deliveries
from msmq.errors import AccessDeniedError, MQError, SharingViolationError
from msmq.wire.message import UserMessage
from tests.api.support import QUEUE, Caller, address, calling, daemon, from_metadata


async def fill(call: Caller, count: int, queue: str = QUEUE) -> None:
    messages = [pb.Message(body=b"%d" % number) for number in range(count)]
    await call("Send", pb.SendRequest(queue=queue, messages=messages))


async def opened(call: Caller, mode: pb.ReceiveMode = pb.HOLD, **options: Any) -> Any:
    stream = call.stream("Receive")
    request = pb.OpenToReceive(queue=QUEUE, mode=mode, **options)
    await stream.write(pb.ReceiveRequest(open=request))
    assert (await stream.read()).HasField("opened")
    return stream


async def credit(stream: Any, messages: int, timeout_ms: int | None = None, transaction: bytes = b"") -> None:
    given = pb.Credit(messages=messages, timeout_ms=timeout_ms, transaction=transaction)
    await stream.write(pb.ReceiveRequest(credit=given))


async def taken(stream: Any, count: int) -> list[pb.Delivered]:
    """So many messages, however they are grouped."""
    found: list[pb.Delivered] = []
    while len(found) < count:
        reply = await stream.read()
        assert reply.HasField("deliveries"), reply
        found += reply.deliveries.messages
    return found


async def error_of(stream: Any) -> MQError:
    with suppress(grpc.aio.AioRpcError):
        while (await stream.read()) is not grpc.aio.EOF:
            pass
    told = from_metadata(await stream.trailing_metadata())
    assert told is not None
    return told


async def count(call: Caller) -> int:
    found = await call("GetQueue", pb.QueueName(queue=QUEUE))
    return int(found.messages)


async def test_credit_holds_and_acknowledges(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 600)
        stream = await opened(call)
        await credit(stream, 400)
        first = await taken(stream, 400)
        assert [delivered.message.body for delivered in first] == [b"%d" % number for number in range(400)]
        ids = [delivered.lookup_id for delivered in first]
        await stream.write(pb.ReceiveRequest(acknowledge=pb.Acknowledge(lookup_ids=ids[:300])))
        assert (await stream.read()).settled.messages == 300
        await stream.write(pb.ReceiveRequest(reject=pb.Reject(lookup_ids=ids[300:350])))
        assert (await stream.read()).settled.messages == 50
        assert await count(call) == 300
        await stream.done_writing()  # the other fifty go back
        assert await stream.read() is grpc.aio.EOF
        again = await opened(call)
        await credit(again, 300)
        back = await taken(again, 300)
        assert [delivered.message.body for delivered in back] == [b"%d" % n for n in range(300, 600)]
        assert [delivered.returned_count for delivered in back[:101:50]] == [1, 1, 0]


async def test_a_reader_hears_of_an_internal_error_while_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop reads on for it, and no call is under way that would end with the error."""
    turns: list[None] = []

    def fail_later(*values: Any) -> pb.Deliveries:
        turns.append(None)
        if len(turns) > 1:
            raise ZeroDivisionError
        return to_deliveries(*values)

    monkeypatch.setattr("msmq.api.receive.to_deliveries", fail_later)
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 600)
        stream = await opened(call)
        await credit(stream, 600)
        assert "internal error" in str(await error_of(stream))
        assert await count(call) == 600, "what it had goes back"
        assert running.failure is None


async def test_what_is_not_held_cannot_be_settled(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 1)
        stream = await opened(call)
        await credit(stream, 1)
        (message,) = await taken(stream, 1)
        both = pb.Acknowledge(lookup_ids=[message.lookup_id, 12345])
        await stream.write(pb.ReceiveRequest(acknowledge=both))
        settled = (await stream.read()).settled
        assert (settled.messages, list(settled.unknown)) == (1, [12345])
        await stream.write(pb.ReceiveRequest(acknowledge=both))
        assert len((await stream.read()).settled.unknown) == 2


async def test_time_outs(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream = await opened(call)
        await credit(stream, 5, 0)
        assert (await stream.read()).HasField("timed_out")
        await credit(stream, 5, 30)
        assert (await stream.read()).HasField("timed_out")
        await fill(call, 2)  # there is no credit any more
        await credit(stream, 1)
        assert len(await taken(stream, 1)) == 1
        await credit(stream, 5, 50)
        assert len(await taken(stream, 1)) == 1
        assert (await stream.read()).HasField("timed_out")
        await credit(stream, 5)  # for ever, until somebody thinks better of it
        await credit(stream, 0, 0)
        assert (await stream.read()).HasField("timed_out")


async def test_a_reader_that_waits_gets_what_comes(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream = await opened(call, pb.TAKE)
        await credit(stream, 1000)
        for _ in range(3):
            await fill(call, 10)
            assert len(await taken(stream, 10)) == 10
        assert await count(call) == 0


async def test_watching_leaves_everything_where_it_is(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 3)
        stream = await opened(call, pb.PEEK, form=pb.PACKET)
        await credit(stream, 100, 30)
        shown = await stream.read()
        assert [UserMessage.decode(packet).body for packet in shown.packets] == [b"0", b"1", b"2"]
        assert (await stream.read()).HasField("timed_out")
        await fill(call, 2)
        await credit(stream, 100)
        more = await stream.read()
        assert [UserMessage.decode(packet).body for packet in more.packets] == [b"0", b"1"]
        assert min(more.lookup_ids) > max(shown.lookup_ids)
        assert await count(call) == 5


async def test_a_rejected_message_can_go_to_a_subqueue(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 2)
        stream = await opened(call)
        await credit(stream, 1)
        (message,) = await taken(stream, 1)
        poison = pb.Reject(lookup_ids=[message.lookup_id], subqueue="poison")
        await stream.write(pb.ReceiveRequest(reject=poison))
        assert (await stream.read()).settled.messages == 1
        info = await call("GetQueue", pb.QueueName(queue=f"{QUEUE};poison"))
        assert (info.messages, info.kind) == (1, pb.SUBQUEUE)
        assert await count(call) == 1


async def test_a_purge_has_the_last_word(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await fill(call, 3)
        stream = await opened(call)
        await credit(stream, 2)
        held = [delivered.lookup_id for delivered in await taken(stream, 2)]
        await call("Purge", pb.QueueName(queue=QUEUE))
        await stream.write(pb.ReceiveRequest(reject=pb.Reject(lookup_ids=held[:1], subqueue="s")))
        assert (await stream.read()).settled.messages == 1
        await stream.write(pb.ReceiveRequest(reject=pb.Reject(lookup_ids=held[1:])))
        assert (await stream.read()).settled.messages == 1
        assert await count(call) == 0


async def test_exclusive_readers_rights_and_deleted_queues(tmp_path: Path) -> None:
    tokens = {token_digest("bob"): "S-1-5-21-1-2-3-1002"}
    async with (
        daemon(tmp_path, tokens=tokens) as running,
        calling(address(running)) as call,
        calling(address(running, "127"), "bob") as bob,
    ):
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream = await opened(call, exclusive=True)
        for caller, expected in ((call, SharingViolationError), (bob, AccessDeniedError)):
            second = caller.stream("Receive")
            await second.write(pb.ReceiveRequest(open=pb.OpenToReceive(queue=QUEUE)))
            assert isinstance(await error_of(second), expected)
        await credit(stream, 1)
        await call("DeleteQueue", pb.QueueName(queue=QUEUE))
        assert (await error_of(stream)).name == "MQ_ERROR_QUEUE_NOT_AVAILABLE"


async def test_a_stream_begins_with_open(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        for name, request in (
            ("Receive", pb.ReceiveRequest(credit=pb.Credit(messages=1))),
            ("SendStream", pb.SendStreamRequest(batch=pb.SendBatch())),
            ("Browse", pb.BrowseRequest(step=pb.Step())),
            ("Transact", pb.TransactRequest(commit=pb.Commit())),
        ):
            stream = call.stream(name)
            await stream.write(request)
            assert (await error_of(stream)).name == "MQ_ERROR_INVALID_PARAMETER"
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        watching = await opened(call, pb.PEEK)
        transaction = call.stream("Transact")
        await transaction.write(pb.TransactRequest(begin=pb.Begin()))
        identifier = (await transaction.read()).transaction
        await credit(watching, 1, None, identifier)
        assert "takes no part" in str(await error_of(watching))
