"""Exchange: one message goes, another one is sent, or nothing happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import MessageAlreadyReceivedError, MessageNotFoundError, MQError, QueueNotFoundError
from msmq.manager.mailbox.positions import PositionState
from tests.api.support import QUEUE, Caller, address, calling, daemon

OTHER = ".\\private$\\other"
FAR = "DIRECT=TCP:127.0.0.99\\private$\\far"


async def prepared(call: Caller, *, source: bool = False, target: bool = False) -> int:
    """Two queues, and the place of a message in the first."""
    await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE, transactional=source))
    await call("CreateQueue", pb.CreateQueueRequest(path=OTHER, transactional=target))
    sent = await call("Send", pb.SendRequest(queue=QUEUE, messages=[pb.Message(body=b"old")]))
    return int(sent.lookup_ids[0])


async def counts(call: Caller) -> list[int]:
    return [(await call("GetQueue", pb.QueueName(queue=queue))).messages for queue in (QUEUE, OTHER)]


def request(lookup_id: int, target: str = OTHER, body: bytes = b"new") -> pb.ExchangeRequest:
    message = pb.Message(body=body)
    return pb.ExchangeRequest(queue=QUEUE, lookup_id=lookup_id, target=target, message=message)


@pytest.mark.parametrize("source", [False, True], ids=["from plain", "from transactional"])
@pytest.mark.parametrize("target", [False, True], ids=["to plain", "to transactional"])
async def test_one_for_the_other(tmp_path: Path, source: bool, target: bool) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        place = await prepared(call, source=source, target=target)
        before = running.store.appended
        reply = await call("Exchange", request(place))
        assert running.store.durable == running.store.appended > before
        assert await counts(call) == [0, 1]
        looked = pb.LookupRequest(queue=OTHER, lookup_id=reply.lookup_ids[0])
        assert (await call("Lookup", looked)).message.body == b"new"
        with pytest.raises(MessageNotFoundError):
            await call("Exchange", request(place))
        assert await counts(call) == [0, 1], "asking again does no harm"


async def test_both_are_in_one_batch_of_the_store(tmp_path: Path) -> None:
    """Nothing that is written between the two could be lost with one of them."""

    async with daemon(tmp_path) as running, calling(address(running)) as call:
        place = await prepared(call)
        reserved: list[int] = []
        reserve = running.store.reserve

        def watched(size: int, records: int = 1, *, freeing: bool = False) -> None:
            reserved.append(records)
            reserve(size, records, freeing=freeing)

        running.store.reserve = watched  # type: ignore[method-assign]
        await call("Exchange", request(place))
        assert len(reserved) == 1, "an event reserves once, and is one batch then"


async def test_to_another_host(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        place = await prepared(call)
        await call("Exchange", request(place, FAR))
        assert await counts(call) == [0, 0]
        listed = await call("ListOutgoing", pb.ListOutgoingRequest())
        assert [queue.messages for queue in listed.queues] == [1]


async def test_what_cannot_be_sent_leaves_the_message_there(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        place = await prepared(call)
        with pytest.raises(QueueNotFoundError):
            await call("Exchange", request(place, ".\\private$\\absent"))
        reply = await call("Exchange", request(place, body=bytes(5 << 20)))
        assert len(reply.failures) == 1
        assert await counts(call) == [1, 0]


async def test_a_message_that_somebody_holds_is_not_exchanged(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        place = await prepared(call)
        queue = running.manager.core.by_path["host\\private$\\q"]
        queue.positions.set_state(place, PositionState.LOCKED)
        with pytest.raises(MessageAlreadyReceivedError) as held:
            await call("Exchange", request(place))
        assert isinstance(held.value, MQError)
        assert await counts(call) == [1, 0]
