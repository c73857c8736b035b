"""Transactions from a Python program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import msmq
from msmq.errors import TransactionSequenceError
from tests.client.support import Restartable, connected, mail_to, messages_of
from tests.mail import check_properties, number_of
from tests.server.support import PATIENCE_S


async def counts(mq: msmq.Connection) -> list[int]:
    return [info.messages for info in await mq.queues()]


async def three(mq: msmq.Connection) -> list[msmq.Queue]:
    return [await mq.create_queue(f".\\private$\\{name}", transactional=True) for name in "abc"]


async def _fail_inside(tx: msmq.Transaction, queue: msmq.Queue) -> None:
    async with tx:
        await queue.receive(60, transaction=tx)
        await tx.send(".\\private$\\b", "never")
        raise ZeroDivisionError


async def _insist(tx: msmq.Transaction, queue: msmq.Queue) -> None:
    """Send until it fails: a cut is noticed sooner or later."""
    while True:
        await asyncio.sleep(0.01)
        await tx.send(queue, "y")


async def test_all_or_nothing(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        a, b, c = await three(mq)
        mail = mail_to(c.name)
        drafts = [mail.numbered(True) for _ in range(3)]
        await a.send_many(messages_of([mail.numbered(True) for _ in range(2)]))
        async with mq.transaction() as tx:
            message = await tx.receive(a, timeout=PATIENCE_S)
            await tx.send(b, message.body, label="copy")
            await c.send_many(messages_of(drafts), transaction=tx)
            assert await counts(mq) == [2, 1, 3]
        assert await counts(mq) == [1, 1, 3]
        tx = mq.transaction()
        with pytest.raises(ZeroDivisionError):
            await _fail_inside(tx, a)
        assert await counts(mq) == [1, 1, 3]
        found = [message async for message in c.browse()]
        for draft, sent in zip(drafts, found, strict=True):
            check_properties(draft, sent)
        assert [message.first_in_transaction for message in found] == [False, False, False]
        assert [message.last_in_transaction for message in found] == [False, False, True]
        with pytest.raises(TransactionSequenceError):
            await b.send("late", transaction=tx)


async def test_cursor_lookup_and_move_take_part(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        a, _, _ = await three(mq)
        mail = mail_to(a.name)
        drafts = [mail.numbered(True) for _ in range(3)]
        receipts = await a.send_many(messages_of(drafts))
        tx = mq.transaction()
        await tx.begin()
        async with a.cursor(receive=True) as cursor:
            await cursor.next()
            check_properties(drafts[0], await cursor.take(tx))
        found = await a.lookup(receipts[1].lookup_id, receive=True, transaction=tx)
        check_properties(drafts[1], found)
        assert await a.move([receipts[2].lookup_id], f"{a.name};sub", transaction=tx) == 1
        await tx.abort()
        await tx.abort()
        assert [number_of(message) async for message in a.browse()] == [0, 1, 2]
        with pytest.raises(TransactionSequenceError):
            await tx.commit()


async def test_a_block_may_end_its_transaction_itself(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        a, b, _ = await three(mq)
        async with mq.transaction() as tx:
            await tx.send(a, "one")
            await tx.commit()
            with pytest.raises(TransactionSequenceError, match="has ended"):
                await tx.commit()
            with pytest.raises(TransactionSequenceError, match="has ended"):
                await tx.send(a, "two")
        async with mq.transaction() as tx:
            await tx.send(b, "three")
            await tx.abort()
        with pytest.raises(TransactionSequenceError, match="not begun"):
            await mq.transaction().commit()
        assert await counts(mq) == [1, 0, 0]


async def test_a_broken_connection_aborts(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        a, b, _ = await three(mq)
        await a.send("one")
        tx = await mq.transaction().begin()
        await tx.receive(a, timeout=PATIENCE_S)
        await tx.send(b, "x")
        server.cut()
        with pytest.raises(msmq.ConnectionLostError):
            await _insist(tx, b)
        with pytest.raises(msmq.ConnectionLostError):
            await tx.commit()
        assert (await a.receive(60)).text == "one"
        assert await counts(mq) == [0, 0, 0]


@pytest.mark.parametrize("step", ["receive", "lookup", "send", "send_many", "take", "move"])
async def test_a_call_that_outlives_the_connection_says_so(tmp_path: Path, step: str) -> None:
    """It reaches the next queue manager, which does not know the transaction: the program hears what happened."""
    async with Restartable(tmp_path) as server, msmq.connect(server.address) as mq:
        a, b, _ = await three(mq)
        receipt = await a.send("one")
        async with a.cursor(receive=True) as cursor:
            tx = await mq.transaction().begin()
            steps: dict[str, Callable[[], Awaitable[object]]] = {
                "receive": lambda: tx.receive(a, timeout=PATIENCE_S),
                "lookup": lambda: a.lookup(receipt.lookup_id, receive=True, transaction=tx),
                "send": lambda: tx.send(b, "x"),
                "send_many": lambda: b.send_many(["x", "y"], transaction=tx),
                "take": lambda: cursor.take(tx),
                "move": lambda: a.move([receipt.lookup_id], f"{a.name};later", transaction=tx),
            }
            if step == "take":
                await cursor.next()
            server.cut()
            with pytest.raises(msmq.ConnectionLostError):
                await steps[step]()
            assert (await a.receive(PATIENCE_S)).text == "one"
            assert await counts(mq) == [0, 0, 0]
