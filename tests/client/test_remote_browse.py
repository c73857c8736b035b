"""Cursors and lookup identifiers in queues of another host: they do what they do in queues of this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

import msmq
from msmq.client.cursor import Cursor
from msmq.client.queue import Queue, Seek
from msmq.errors import (
    MessageNotFoundError,
    MQError,
    QueueNotFoundError,
    TransactionUsageError,
)
from msmq.remote_read.remote_queue import PendingMessage
from msmq.testing.traffic import Door, client_message
from tests.client.test_remote import two
from tests.mail import Mail, in_order
from tests.server.support import ALICE, Node, eventually
from tests.server.test_remote_read_door import NAME

RELATED = bytes(range(20))
BODIES = [b"one", b"two", b"three", b"four"]


@asynccontextmanager
async def both(directory: Path) -> AsyncIterator[tuple[Queue, Queue, Node]]:
    """A queue here and one on another host, with the same messages. Those of the usual priority come behind them."""
    mail = Mail(Door.CLIENT, NAME)
    drawn = [mail.draft(b"") for _ in BODIES]
    drawn = [draft.changed(priority=max(3, draft.priority)) for draft in drawn]
    bodies = {id(draft): body for draft, body in zip(in_order(drawn), BODIES, strict=True)}
    async with two(directory) as (mq, there):
        here = await mq.create_queue(".\\private$\\orders")
        for draft in drawn:
            sent = draft.changed(body=bodies[id(draft)])
            await here.send(client_message(sent))
            there.post(sent)
        yield here, mq.queue(NAME), there


async def told(call: Awaitable[msmq.ReceivedMessage]) -> bytes | str:
    """What a call gives: a body, or the name of an error."""
    try:
        return (await call).body
    except MQError as error:
        return type(error).__name__


STEPS: dict[str, Callable[[Cursor], Awaitable[msmq.ReceivedMessage]]] = {
    "next": lambda cursor: cursor.next(),
    "next in time": lambda cursor: cursor.next(0.01),
    "current": lambda cursor: cursor.current(),
    "take": lambda cursor: cursor.take(),
}
WALKS = [
    ["current", "current", "next", "take", "current", "next", "next", "next in time", "next"],
    ["take", "take", "next", "take", "take", "take"],
    ["next", "take", "next", "restart", "next", "next", "take", "restart", "take", "next", "next"],
]


@pytest.mark.parametrize("walk", WALKS, ids=[" ".join(walk[:2]) for walk in WALKS])
async def test_a_cursor_walks_as_it_does_here(tmp_path: Path, walk: list[str]) -> None:
    async with both(tmp_path) as (here, there, _):
        seen: list[list[bytes | str]] = []
        for queue in (here, there):
            seen.append([])
            async with queue.cursor(receive=True) as cursor:
                for step in walk:
                    if step == "restart":
                        await cursor.restart()
                    else:
                        seen[-1].append(await told(STEPS[step](cursor)))
        assert seen[0] == seen[1]
        assert {told for told in seen[1] if isinstance(told, bytes)} <= set(BODIES)
        left = [[message.body async for message in queue.browse()] for queue in (here, there)]
        assert left[0] == left[1]


@pytest.mark.parametrize("receive", [False, True], ids=["look", "take"])
@pytest.mark.parametrize("seek", Seek, ids=lambda seek: seek.name.lower())
async def test_lookup_identifiers_lead_where_they_do_here(tmp_path: Path, seek: Seek, receive: bool) -> None:
    """Except beside a message that is gone: only remote read looks there (ruling RR4)."""

    async with both(tmp_path) as (here, there, _):
        seen: list[list[bytes | str]] = []
        for queue in (here, there):
            ids = [message.lookup_id async for message in queue.browse()]
            gone = (await queue.lookup(ids.pop(1), receive=True)).lookup_id
            if seek not in (Seek.NEXT, Seek.PREVIOUS):
                ids.append(gone)
            elif receive:
                ids = ids[1:2]  # one after another would be beside what is gone
            seen.append([await told(queue.lookup(at, seek, receive=receive)) for at in (0, *ids)])
            seen[-1] += [message.body async for message in queue.browse()]
        assert seen[0] == seen[1]


async def test_an_empty_queue(tmp_path: Path) -> None:
    async with two(tmp_path) as (mq, _):
        queue = mq.queue(NAME)
        assert [message async for message in queue.browse()] == []
        for seek in (Seek.FIRST, Seek.LAST):
            for receive in (False, True):
                with pytest.raises(MessageNotFoundError):
                    await queue.lookup(seek=seek, receive=receive)
        with pytest.raises(QueueNotFoundError):
            await mq.queue(f"DIRECT=TCP:{ALICE}\\private$\\absent").lookup(1)
        with pytest.raises(QueueNotFoundError):
            await mq.queue(".\\private$\\absent").lookup(1)


async def test_what_was_received_is_gone_when_the_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last word to the other host, that it may forget the message, is waited for, however slowly it gets out."""
    acknowledge = PendingMessage.acknowledge

    async def slowly(pending: PendingMessage) -> None:
        await asyncio.sleep(0.2)
        await acknowledge(pending)

    monkeypatch.setattr(PendingMessage, "acknowledge", slowly)

    async with both(tmp_path) as (_, there, node):
        orders = node.find("orders")
        for number in range(2):
            async with msmq.connect(there._connection.address, remote=there._connection._remote) as mq:
                queue = mq.queue(NAME)
                taken = queue.receive(60) if number else queue.lookup(seek=Seek.FIRST, receive=True)
                assert (await taken).body == BODIES[number]
            assert len(orders.positions) == 3 - number


async def test_a_step_that_is_given_up_leaves_everything_where_it_is(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, there, node):
        async with there.cursor(receive=True) as cursor:
            assert len(await cursor.next_many(10)) == len(BODIES)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(cursor.next(None), 0.05)
        async with there.cursor(receive=True) as cursor:
            await cursor.next()
            await cursor.hold()
        async with aclosing(there.browse()) as messages:
            assert (await anext(messages)).body == b"one"
        await eventually(lambda: not node.find("orders").open_descriptors)
        assert [message.body async for message in there.browse()] == BODIES


async def ids_of(queue: Queue) -> list[tuple[str, bytes]]:
    return [(message.id, message.correlation_id) async for message in queue.browse()]


async def test_messages_are_found_by_their_identifiers_as_they_are_here(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, there, node):
        for number in range(2):
            await here.send(b"%d" % number, correlation_id=RELATED)
        node.send(NAME, b"0", correlation_identifier=RELATED)
        node.send(NAME, b"1", correlation_identifier=RELATED)
        seen: list[list[bytes | str]] = []
        for queue in (here, there):
            (_, (second, _), *_, (last, related)) = await ids_of(queue)
            seen.append(
                [
                    await told(queue.peek_by_id(second)),
                    await told(queue.receive_by_id(second)),
                    await told(queue.receive_by_id(second)),
                    await told(queue.receive_by_id(second, 0.01)),
                    await told(queue.peek_by_correlation_id(related)),
                    await told(queue.receive_by_correlation_id(related)),
                    await told(queue.receive_by_correlation_id(related)),
                    await told(queue.receive_by_correlation_id(related)),
                    await told(queue.peek_by_id(last)),
                ]
            )
            seen[-1] += [message.body async for message in queue.browse()]
        assert seen[0] == seen[1]
        assert seen[1][:4] == [b"two", b"two", "MessageNotFoundError", "IoTimeoutError"]


async def test_a_message_is_waited_for_by_its_identifier(tmp_path: Path) -> None:
    """One that somebody else holds too: it is the waiter's when it comes back."""

    async with both(tmp_path) as (_, there, node):
        wanted = (await there.peek()).id
        held = await there.hold(5)
        waiting = asyncio.create_task(there.receive_by_id(wanted, 30))
        related = asyncio.create_task(there.receive_by_correlation_id(RELATED, None))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        held.give_back()
        node.send(NAME, b"related", correlation_identifier=RELATED)
        assert (await waiting).body == BODIES[0]
        assert (await related).body == b"related"
        given_up = asyncio.create_task(there.receive_by_id(wanted, None))
        await asyncio.sleep(0.1)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await eventually(lambda: not node.find("orders").open_descriptors)
        assert [message.body async for message in there.browse()] == BODIES[1:]


async def test_messages_move_within_another_host(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, there, _):
        first, second = [message async for message in there.browse()][:2]
        later = f"{NAME};later"
        assert await there.move([first, second, 1], later) == 2
        assert [message.body async for message in there.subqueue("later").browse()] == BODIES[:2]
        assert await there.subqueue("later").move([first.lookup_id, second.lookup_id], NAME) == 2
        assert sorted([message.body async for message in there.browse()]) == sorted(BODIES)
        with pytest.raises(MQError):
            await there.move([first], ".\\private$\\orders")


async def test_another_host_takes_no_part_in_a_transaction(tmp_path: Path) -> None:
    """All calls say why not, and what to do."""

    async with both(tmp_path) as (_, there, _):
        first = await there.peek()
        calls: list[Callable[[msmq.Transaction], Awaitable[object]]] = [
            lambda tx: there.receive(0, transaction=tx),
            lambda tx: tx.receive(there, 0),
            lambda tx: there.receive_by_id(first.id, transaction=tx),
            lambda tx: there.receive_by_correlation_id(first.correlation_id, transaction=tx),
            lambda tx: there.lookup(first.lookup_id, receive=True, transaction=tx),
            lambda tx: there.move([first], f"{NAME};later", transaction=tx),
        ]
        for call in calls:
            tx = await there._connection.transaction().begin()
            with pytest.raises(TransactionUsageError, match="acknowledge the message when the transaction"):
                await call(tx)
            await tx.abort()
        async with there._connection.transaction() as tx, there.cursor(receive=True) as cursor:
            await cursor.next()
            with pytest.raises(TransactionUsageError, match="acknowledge the message when"):
                await cursor.take(tx)
        assert [message.body async for message in there.browse()] == BODIES
