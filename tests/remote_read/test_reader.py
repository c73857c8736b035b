"""Streams of messages: prefetching, browsing, removing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from msmq.errors import (
    AccessDeniedError,
    InvalidHandleError,
    MessageStorageFailedError,
    MQError,
    RemoteMachineNotAvailableError,
)
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import deserialize
from msmq.remote_read import interface as idl
from msmq.remote_read import reader
from msmq.remote_read.actions import ACTIONS, Action
from msmq.remote_read.reader import browse, receive, remove
from msmq.remote_read.remote_queue import RemoteQueue
from msmq.remote_read.session import Access, RemoteHost
from msmq.rpc.interface import Call, Handler
from msmq.rpc.ndr import Parameters
from msmq.rpc.status import RpcFault
from msmq.wire.message import UserMessage
from msmq.wire.sections import Section, SectionType
from tests.mail import in_order
from tests.remote_read.support import (
    ACCESS_DENIED,
    MISMATCH,
    NOT_FOUND,
    Loose,
    Served,
    direct,
    eventually,
    on_loop,
    one_by_one,
    serving,
)
from tests.rpc.support import HOST


@asynccontextmanager
async def opened(
    access: Access = Access.RECEIVE, *, strict: bool = False
) -> AsyncIterator[tuple[Served, RemoteQueue]]:
    """``strict``: the server does not look for neighbours of identifiers that it does not know."""
    async with serving() as served:
        if strict:
            methods = served.service.methods
            served.door.server.register(
                idl.REMOTE_READ, methods | {7: _strict(served, one_by_one(methods[7]))}
            )
        served.queue("orders")
        async with await RemoteHost.connect(HOST, served.port) as host:
            yield served, await host.open(direct(), access)


def _strict(served: Served, lenient: Handler) -> Handler:
    def start(call: Call, request: Any) -> Any:
        meaning = ACTIONS[request.ul_action]
        if meaning.seek is not None and served.host.find().positions.get(request.lookup_id) is None:
            return idl.StartReceiveReply(0, 0, 0, None, NOT_FOUND)
        return lenient(call, request)

    return start


def mixed(served: Served, count: int) -> list[bytes]:
    """Fill the queue with messages that have nothing in common; gives their bodies as they stand there."""
    drafts = [served.mail.numbered() for _ in range(count)]
    served.post(served.host.find(), *drafts)
    return [draft.body for draft in in_order(drafts)]


def said(packet: UserMessage) -> Message:
    """What a message says, but for the time that becomes a date when it is read (MS-MQRR 3.1.4.7)."""
    return replace(deserialize(packet), time_to_reach_queue_s=0)


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


@pytest.mark.parametrize("prefetch", [1, 4, 64])
@on_loop
async def test_receiving_in_order(prefetch: int) -> None:
    """Each with everything that was said with it."""
    async with opened() as (served, queue):
        made = served.host.find()
        bodies = mixed(served, 50)
        sent = [served.manager.mailbox.load(made, entry.lookup_id).packet for entry in made.positions]
        got = []
        stream = receive(queue, prefetch=prefetch, timeout_s=0)
        async for pending in stream:
            assert said(pending.message.packet) == said(sent[len(got)])
            got.append(pending.message.body)
            await pending.acknowledge()
        assert got == bodies
        assert not len(served.host.find().positions)


@on_loop
async def test_who_leaves_early_leaves_the_rest() -> None:
    async with opened() as (served, queue):
        made = served.host.find()
        served.fill(made, *numbered(20))
        stream = receive(queue, prefetch=8)
        async for pending in stream:
            await pending.acknowledge()
            if pending.message.body == b"4":
                break
        await stream.aclose()
        assert served.host.contents(made) == numbered(20)[5:]
        assert {entry.state for entry in made.positions} == {PositionState.AVAILABLE}
        assert not served.handle.requests
        assert (await queue.receive()).body == b"5"


@on_loop
async def test_messages_that_come_later() -> None:
    async with opened() as (served, queue):
        made = served.host.find()
        stream = receive(queue, prefetch=3)
        first = anext(stream)
        import asyncio

        task = asyncio.ensure_future(first)
        await eventually(lambda: len(made.waiting) == 3)
        served.fill(made, b"a", b"b")
        pending = await task
        assert pending.message.body == b"a"
        await pending.acknowledge()
        await (await anext(stream)).acknowledge()
        await stream.aclose()
        assert not made.waiting
        assert not len(made.positions)


@pytest.mark.parametrize("strict", [False, True], ids=["ours", "strict server"])
@pytest.mark.parametrize("chains", [1, 4, 32, 100])
@pytest.mark.parametrize("holes", [False, True], ids=["dense", "holes"])
@on_loop
async def test_browsing_a_span(chains: int, strict: bool, holes: bool) -> None:
    async with opened(Access.PEEK, strict=strict) as (served, queue):
        made = served.host.find()
        bodies = mixed(served, 60)
        ids = [entry.lookup_id for entry in made.positions]
        gone = {index for index in range(60) if holes and index % 7 in (0, 3, 4)}
        reader = served.host.reader(made)
        for index in gone:
            result = reader.lookup(ids[index], ACTIONS[0x40000020].seek, peek=False)  # type: ignore[arg-type]
            assert result.message is not None
        kept = [index for index in range(60) if index not in gone]
        spans = [
            (0, ids[-1]),
            (ids[9], ids[40]),
            (ids[10], ids[11]),
            (ids[7], ids[58]),
            (ids[-1], ids[-1] + 5),
        ]
        for after, upto in [*spans, (0, ids[0] - 1), (0, (1 << 64) - 1)]:
            found = [each.body async for each in browse(queue, after, upto, chains=chains)]
            expected = [bodies[index] for index in kept if after < ids[index] <= upto]
            assert found == expected
        assert all(entry.state is PositionState.AVAILABLE for entry in made.positions)


@on_loop
async def test_browsing_nothing() -> None:
    async with opened(Access.PEEK) as (_, queue):
        assert [each async for each in browse(queue)] == []


@on_loop
async def test_browsing_and_leaving() -> None:
    async with opened(Access.PEEK) as (served, queue):
        served.fill(served.host.find(), *numbered(40))
        stream = browse(queue, chains=8)
        assert (await anext(stream)).body == b"0"
        await stream.aclose()
        assert (await queue.peek()).body == b"0"


@pytest.mark.parametrize("strict", [False, True], ids=["ours", "strict"])
@on_loop
async def test_browsing_keeps_little_of_a_long_queue(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FAR_AHEAD", 3_000)
    async with opened(strict=strict) as (served, queue):
        served.fill(served.host.find(), *numbered(300))
        statistics = served.door.server.statistics
        before, got = statistics.calls_in, []
        async for message in browse(queue, chains=4):
            got.append(message.body)
            # a packet of these has more than 300 bytes, so that 4 chains on 4 levels are ahead by less than 16 * 10
            assert statistics.calls_in - before < 2 * len(got) + 200
        assert got == numbered(300)
        assert statistics.calls_in - before > 300


NONSENSE = idl.StartReceiveReply.of(1, 2, [Section(SectionType.FULL_PACKET, 8, bytes(8))])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(Loose(b"\1\2\3"), RemoteMachineNotAvailableError, id="no stub"),
        pytest.param(NONSENSE, MessageStorageFailedError, id="no packet"),
        pytest.param(idl.StartReceiveReply(0, 0, 0, None, ACCESS_DENIED), AccessDeniedError, id="refused"),
        pytest.param(RpcFault(MISMATCH), InvalidHandleError, id="a fault"),
    ],
)
@on_loop
async def test_browsing_where_an_answer_is_no_message(
    answer: Parameters | RpcFault, error: type[MQError]
) -> None:  # fmt: skip
    async with opened() as (served, queue):
        served.fill(served.host.find(), *numbered(40))
        methods = served.service.methods

        def start(call: Call, request: Any) -> Any:
            if request.ul_action != Action.LOOKUP_PEEK_NEXT:
                return one_by_one(methods[7])(call, request)
            if isinstance(answer, RpcFault):
                raise answer
            return answer

        served.door.server.register(idl.REMOTE_READ, methods | {7: start})
        with pytest.raises(error):
            [message async for message in browse(queue)]
        if error is RemoteMachineNotAvailableError:  # who talks nonsense is not talked to
            await queue.host.client.closed
            with pytest.raises(RemoteMachineNotAvailableError):
                [message async for message in browse(queue)]


@pytest.mark.parametrize("window", [1, 64])
@on_loop
async def test_removing(window: int) -> None:
    async with opened() as (served, queue):
        made = served.host.find()
        bodies = mixed(served, 100)
        ids = [entry.lookup_id for entry in made.positions]
        wanted = ids[10:90]
        removed = await remove(queue, [*wanted, 12345, ids[-1] + 1], window=window)
        assert removed == set(wanted)
        assert served.host.contents(made) == bodies[:10] + bodies[90:]
        assert await remove(queue, wanted) == set()
