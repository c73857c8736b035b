"""Sending through the channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from msmq.api.callers import token_digest
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.send import MOST_BATCHES, Resumed
from msmq.errors import AccessDeniedError, InvalidParameterError, QueueNotFoundError
from msmq.security.access import Token
from tests.api.support import QUEUE, Caller, address, calling, daemon

ALICE = "S-1-5-21-1-2-3-1001"


async def bodies(call: Caller, queue: str = QUEUE) -> list[bytes]:
    """What is in a queue, in order."""
    stream = call.stream("Browse")
    await stream.write(pb.BrowseRequest(open=pb.OpenToBrowse(queue=queue)))
    await stream.read()
    step = pb.Step(action=pb.Step.NEXT, count=1000, timeout_ms=0)
    await stream.write(pb.BrowseRequest(step=step))
    reply = await stream.read()
    await stream.done_writing()
    return [delivered.message.body for delivered in reply.deliveries.messages]


async def test_a_batch_and_its_failures(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        batch = [
            pb.Message(body=b"one"),
            pb.Message(body=b"bad", correlation_id=b"x"),
            pb.Message(body=b"two", delivery=pb.TRANSACTIONAL),
            pb.Message(body=b"three", delivery=pb.EXPRESS),
        ]
        reply = await call("Send", pb.SendRequest(queue=QUEUE, messages=batch))
        assert [failure.index for failure in reply.failures] == [1, 2]
        assert reply.failures[0].error.name == "MQ_ERROR_ILLEGAL_PROPERTY_SIZE"
        assert reply.failures[1].error.name == "MQ_ERROR_TRANSACTION_USAGE"
        assert [bool(ordinal) for ordinal in reply.ordinals] == [True, False, False, True]
        assert reply.queue_manager == running.manager.core.record.identifier
        assert await bodies(call) == [b"one", b"three"]
        with pytest.raises(QueueNotFoundError):
            await call("Send", pb.SendRequest(queue=".\\private$\\none", messages=batch))


async def test_a_transactional_queue_takes_what_does_not_say_otherwise(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE, transactional=True))
        batch = [pb.Message(body=b"a"), pb.Message(body=b"b", delivery=pb.TRANSACTIONAL)]
        reply = await call("Send", pb.SendRequest(queue=QUEUE, messages=batch))
        assert not reply.failures
        refused = await call(
            "Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(delivery=pb.RECOVERABLE)])
        )
        assert refused.failures[0].error.name == "MQ_ERROR_TRANSACTION_USAGE"
        assert await bodies(call) == [b"a", b"b"]
        assert not running.manager.transactions.collection


async def opened(call: Caller, token: bytes = b"") -> tuple[Any, pb.Opened]:
    stream = call.stream("SendStream")
    await stream.write(pb.SendStreamRequest(open=pb.OpenToSend(queue=QUEUE, resume_token=token)))
    return stream, (await stream.read()).opened


async def ship(stream: Any, number: int, *given: bytes) -> None:
    batch = pb.SendBatch(number=number, messages=[pb.Message(body=body) for body in given])
    await stream.write(pb.SendStreamRequest(batch=batch))


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
async def test_columns_leave_to_their_kind_what_they_do_not_say(tmp_path: Path, transactional: bool) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE, transactional=transactional))
        common = pb.Message(body_type=8, label="usual", application_tag=5, dead_letter=True)
        bodies_sent = [b"a", b"", b"c" * 70_000]
        own = pb.Columns(
            kinds=[common], bodies=bodies_sent, labels=["x", "", "z"], extensions=[b"e", b"", b""]
        )
        large = pb.Columns(kinds=[common], bodies=[bytes(600_000)] * 2)
        one = pb.Columns(kinds=[common], bodies=[b"one"])
        for columns in (own, large, one):
            reply = await call("Send", pb.SendRequest(queue=QUEUE, columns=columns))
            assert not reply.failures
            assert len(set(reply.lookup_ids)) == len(columns.bodies)
        span = pb.Span(upto=(1 << 64) - 1)
        replies = call.stream("ReadSpan", pb.ReadSpanRequest(queue=QUEUE, span=span))
        found = [each.message async for reply in replies for each in reply.messages]
        assert [each.body for each in found] == [*bodies_sent, *large.bodies, b"one"]
        assert [each.label for each in found] == ["x", "", "z", "usual", "usual", "usual"]
        assert [each.extension for each in found][:2] == [b"e", b""]
        assert {(each.body_type, each.application_tag) for each in found} == {(8, 5)}


async def test_columns_say_what_is_different_about_delivery(tmp_path: Path) -> None:
    """Each message has what its column says, or the one entry that holds for all; what no column can be is told."""
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        columns = pb.Columns(
            kinds=[pb.Message(priority=6, journal=True), pb.Message(dead_letter_queue=".\\private$\\dead")],
            kind=[0, 1, 0, 0, 0],
            bodies=[b"a", b"b", b"c", b"d", b"e"],
            priorities=[1, 7, 8, 7, 3],
            deliveries=[pb.EXPRESS, pb.RECOVERABLE, pb.EXPRESS, pb.DELIVERY_DEFAULT, pb.TRANSACTIONAL],
            times_to_reach_queue_s=[60],
            times_to_be_received_s=[(1 << 32) - 1, 600, 600, 700, 700],
            acknowledgements=[0, 1, 2, 0xF, 0],
            dead_letters=[True, False, True, False, True],
        )
        reply = await call("Send", pb.SendRequest(queue=QUEUE, columns=columns))
        assert [(each.index, each.error.name) for each in reply.failures] == [
            (2, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
            (4, "MQ_ERROR_TRANSACTION_USAGE"),
        ]
        assert [bool(each) for each in reply.ordinals] == [True, True, False, True, False]
        span = pb.Span(upto=(1 << 64) - 1)
        replies = call.stream("ReadSpan", pb.ReadSpanRequest(queue=QUEUE, span=span))
        found = [each.message async for reply in replies for each in reply.messages]
        assert [each.body for each in found] == [b"b", b"d", b"a"]
        assert [each.priority for each in found] == [7, 7, 1]
        assert [each.delivery for each in found] == [pb.RECOVERABLE, pb.RECOVERABLE, pb.EXPRESS]
        assert [each.time_to_reach_queue_s for each in found] == [60, 60, 60]
        assert [each.time_to_be_received_s for each in found] == [600, 700, (1 << 32) - 1]
        assert [each.acknowledgements for each in found] == [1, 0xF, 0]
        assert [(each.dead_letter, each.journal) for each in found] == [
            (False, False),
            (False, True),
            (True, True),
        ]
        assert [each.dead_letter_queue for each in found] == ["HOST\\private$\\dead", "", ""]


async def test_columns_that_are_wrong(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        kinds = [pb.Message()]
        uneven = pb.Columns(kinds=kinds, bodies=[b"a", b"b", b"c"], labels=["only", "two"])
        unkind = pb.Columns(kinds=kinds, bodies=[b"a", b"b"], kind=[0, 1])
        for wrong in (uneven, unkind):
            with pytest.raises(InvalidParameterError):
                await call("Send", pb.SendRequest(queue=QUEUE, columns=wrong))
        correlations = [b"", b"short", b""]
        bad = pb.Columns(kinds=kinds, bodies=[b"a", b"b", b"c"], correlation_ids=correlations)
        reply = await call("Send", pb.SendRequest(queue=QUEUE, columns=bad))
        assert [failure.index for failure in reply.failures] == [1]
        assert await bodies(call) == [b"a", b"c"]
        stream, _ = await opened(call)
        for number, wrong in enumerate((uneven, unkind), 1):
            batch = pb.SendBatch(number=number, columns=wrong)
            await stream.write(pb.SendStreamRequest(batch=batch))
            failures = (await stream.read()).confirmed.result.failures
            assert {failure.error.name for failure in failures} == {"MQ_ERROR_INVALID_PARAMETER"}


async def test_batches_are_confirmed_in_order(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream, info = await opened(call)
        assert info.format_name == "DIRECT=OS:HOST\\PRIVATE$\\q"
        for number in range(1, 6):
            await ship(stream, number, b"%d" % number, b"+")
        confirmed = [(await stream.read()).confirmed for _ in range(5)]
        assert [reply.number for reply in confirmed] == [1, 2, 3, 4, 5]
        assert all(len(reply.result.ordinals) == 2 for reply in confirmed)
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF
        assert len(await bodies(call)) == 10


async def test_a_batch_that_comes_again_is_not_sent_again(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream, info = await opened(call, b"token")
        await ship(stream, 1, b"one")
        first = (await stream.read()).confirmed
        stream.cancel()  # the connection breaks
        again, info_again = await opened(call, b"token")
        assert info_again.last_batch == 1
        assert info_again.incarnation == info.incarnation
        await ship(again, 1, b"one")
        await ship(again, 2, b"two")
        assert (await again.read()).confirmed == first
        assert (await again.read()).confirmed.number == 2
        await again.write(pb.SendStreamRequest(leave=pb.Leave()))  # the token is forgotten
        await again.done_writing()
        assert await again.read() is grpc.aio.EOF
        _, fresh = await opened(call, b"token")
        assert fresh.last_batch == 0
        assert await bodies(call) == [b"one", b"two"]


async def test_another_life_of_the_queue_manager_has_another_incarnation(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            if not seen:
                await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
            _, info = await opened(call, b"token")
            seen.append(info.incarnation)
    assert seen[0] != seen[1]


async def test_rights_are_looked_at_for_every_message(tmp_path: Path) -> None:
    tokens = {token_digest("alice"): ALICE}
    async with (
        daemon(tmp_path, tokens=tokens) as running,
        calling(address(running)) as administrator,
        calling(address(running, "127"), "alice") as alice,
    ):
        await administrator("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream, _ = await opened(alice)
        await ship(stream, 1, b"fine")
        assert not (await stream.read()).confirmed.result.failures
        only_admins = pb.AccessList(entries=[pb.AccessEntry(allow=True, sid="S-1-5-32-544", rights=0xF003F)])
        await administrator("SetSecurity", pb.SetSecurityRequest(queue=QUEUE, entries=only_admins))
        await ship(stream, 2, b"too late")
        failures = (await stream.read()).confirmed.result.failures
        assert failures[0].error.name == "MQ_ERROR_ACCESS_DENIED"
        with pytest.raises(AccessDeniedError):
            await alice("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message()]))
        assert await bodies(administrator) == [b"fine"]


async def test_messages_to_other_hosts_and_to_several_queues(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        several = "DIRECT=OS:HOST\\private$\\q,DIRECT=TCP:127.0.0.9\\private$\\far"
        reply = await call("Send", pb.SendRequest(queue=several, messages=[pb.Message(body=b"x")]))
        assert not reply.failures
        assert await bodies(call) == [b"x"]
        listed = await call("ListOutgoing", pb.ListOutgoingRequest())
        assert [(queue.format_name, queue.messages) for queue in listed.queues] == [
            ("DIRECT=TCP:127.0.0.9\\PRIVATE$\\far", 1)
        ]


async def test_a_queue_that_is_deleted_under_a_stream(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        stream, _ = await opened(call)
        await call("DeleteQueue", pb.QueueName(queue=QUEUE))
        await ship(stream, 1, b"x")
        failures = (await stream.read()).confirmed.result.failures
        assert failures[0].error.name == "MQ_ERROR_QUEUE_NOT_AVAILABLE"


def test_what_is_remembered_is_bounded() -> None:
    resumed, caller = Resumed(), Token.anonymous()
    assert resumed.of(caller, b"") is not resumed.of(caller, b"")
    with pytest.raises(InvalidParameterError):
        resumed.of(caller, bytes(65))
    for number in range(1200):
        resumed.of(caller, number.to_bytes(2, "big"))[1] = pb.SendReply()
    assert len(resumed._tokens) == 1000
    assert not resumed.of(caller, b"\0\0")
    assert MOST_BATCHES == 64
