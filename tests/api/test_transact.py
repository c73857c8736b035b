"""Transactions through the channel: they live and die with their stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import MessageNotFoundError, TransactionSequenceError
from msmq.server.daemon import Daemon
from tests.api.support import QUEUE, Caller, address, calling, daemon
from tests.api.test_receive import count, credit, fill, opened, taken
from tests.server.support import eventually

OTHER = ".\\private$\\other"


async def begin(call: Caller) -> tuple[Any, bytes]:
    stream = call.stream("Transact")
    await stream.write(pb.TransactRequest(begin=pb.Begin()))
    return stream, (await stream.read()).transaction


async def queues(call: Caller) -> None:
    for path in (QUEUE, OTHER):
        await call("CreateQueue", pb.CreateQueueRequest(path=path, transactional=True))


async def work(call: Caller, transaction: bytes) -> None:
    """Receive from one queue and send to another."""
    reader = await opened(call)
    await credit(reader, 1, None, transaction)
    (message,) = await taken(reader, 1)
    await reader.done_writing()
    request = pb.SendRequest(queue=OTHER, messages=[message.message], transaction=transaction)
    assert not (await call("Send", request)).failures


async def counts(call: Caller) -> tuple[int, int]:
    other = await call("GetQueue", pb.QueueName(queue=OTHER))
    return await count(call), other.messages


async def readable(call: Caller) -> bool:
    """Whether the message is there for everybody again."""
    found = await call("Lookup", pb.LookupRequest(queue=QUEUE, seek=pb.SEEK_FIRST))
    return bool(found.lookup_id)


async def test_commit_and_abort(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await queues(call)
        await fill(call, 1)
        stream, transaction = await begin(call)
        await work(call, transaction)
        await stream.write(pb.TransactRequest(abort=pb.Abort()))
        assert (await stream.read()).HasField("aborted")
        assert await counts(call) == (1, 0)
        stream, transaction = await begin(call)
        await work(call, transaction)
        await stream.write(pb.TransactRequest(commit=pb.Commit()))
        assert (await stream.read()).HasField("committed")
        assert await counts(call) == (0, 1)
        with pytest.raises(TransactionSequenceError):
            await call("Send", pb.SendRequest(queue=OTHER, messages=[pb.Message()], transaction=transaction))


@pytest.mark.parametrize("how", ["cancel", "end"])
async def test_a_stream_that_ends_aborts(how: str, tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await queues(call)
        await fill(call, 1)
        stream, transaction = await begin(call)
        await work(call, transaction)
        if how == "cancel":
            stream.cancel()
        else:
            await stream.done_writing()
        await eventually(lambda: not running.manager.transactions.collection)
        assert await readable(call)
        assert await counts(call) == (1, 0)


async def test_a_connection_that_breaks_aborts(tmp_path: Path) -> None:
    async with (
        daemon(tmp_path, tokens={token_digest("stranger"): "S-1-5-21-1-2-3-4"}) as running,
        calling(address(running)) as call,
    ):
        await queues(call)
        await fill(call, 1)
        async with calling(address(running, "127"), "stranger") as stranger:
            _, foreign = await begin(stranger)
            with pytest.raises(TransactionSequenceError):  # it is not ours
                await call("Send", pb.SendRequest(queue=OTHER, messages=[pb.Message()], transaction=foreign))
        async with calling(address(running)) as second:
            _, transaction = await begin(second)
            await work(second, transaction)
        await eventually(lambda: not running.manager.transactions.collection)
        assert await readable(call)


async def test_a_commit_survives_and_an_open_transaction_does_not(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await queues(call)
        await fill(call, 2)
        stream, transaction = await begin(call)
        await work(call, transaction)
        await stream.write(pb.TransactRequest(commit=pb.Commit()))
        await stream.read()
        _, left_open = await begin(call)
        await work(call, left_open)
    again = Daemon(running.config)
    await again.start()
    try:
        async with calling(address(again)) as call:
            assert await counts(call) == (1, 1)
    finally:
        await again.stop()


async def test_a_batch_is_sent_as_its_messages_would_be_one_by_one(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await queues(call)
        stream, transaction = await begin(call)
        alike = [pb.Message(body=b"%d" % number, label="alike") for number in range(5)]
        for messages in (alike, [pb.Message(body=b"alone", delivery=pb.TRANSACTIONAL)]):
            request = pb.SendRequest(queue=OTHER, messages=messages, transaction=transaction)
            reply = await call("Send", request)
            assert not reply.failures
            assert all(reply.lookup_ids)
        with pytest.raises(MessageNotFoundError):
            await call("Lookup", pb.LookupRequest(queue=OTHER, seek=pb.SEEK_FIRST))
        await stream.write(pb.TransactRequest(commit=pb.Commit()))
        assert (await stream.read()).HasField("committed")
        request = pb.ReadSpanRequest(queue=OTHER, span=pb.Span(upto=(1 << 64) - 1))
        found = [each async for reply in call.stream("ReadSpan", request) for each in reply.messages]
        bodies = [each.message.body for each in found]
        assert bodies == [b"0", b"1", b"2", b"3", b"4", b"alone"]
        assert all(each.transactional for each in found)
        assert [each.first_in_transaction for each in found] == [True] + [False] * 5
        assert [each.last_in_transaction for each in found] == [False] * 5 + [True]


async def test_a_batch_in_a_transaction_to_a_queue_without_is_refused_message_by_message(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        _, transaction = await begin(call)
        messages = [pb.Message(body=b"1"), pb.Message(body=b"2")]
        request = pb.SendRequest(queue=QUEUE, messages=messages, transaction=transaction)
        assert [failure.index for failure in (await call("Send", request)).failures] == [0, 1]
