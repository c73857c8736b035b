"""What all calls share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from msmq.api.desk import Desk, Outbox
from msmq.errors import IoTimeoutError, TransactionSequenceError
from msmq.manager.model import QueueAccessType
from msmq.security.access import Token
from msmq.security.sid import Sid
from tests.api.support import daemon

ALICE = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1001"))
BOB = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1002"))


async def test_transactions_belong_to_who_began_them(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        desk = Desk(running)
        transaction = desk.begin(ALICE)
        assert desk.transaction(transaction.identifier, ALICE) is transaction
        assert desk.transaction(b"", ALICE) is None
        with pytest.raises(TransactionSequenceError):
            desk.transaction(transaction.identifier, BOB)
        desk.abort(transaction)
        desk.abort(transaction)
        with pytest.raises(TransactionSequenceError):
            desk.transaction(transaction.identifier, ALICE)


async def test_outgoing_queues_are_read_as_an_administrator(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running:
        desk = Desk(running)
        far = "DIRECT=OS:FAR\\private$\\q"
        running.manager.queues.close(running.manager.queues.open(far, QueueAccessType.SEND))
        assert desk.reading_access(far, receive=True) is QueueAccessType.RECEIVE_ADMIN
        assert desk.reading_access(far, receive=False) is QueueAccessType.PEEK_ADMIN
        near = "DIRECT=OS:HOST\\SYSTEM$;JOURNAL"
        assert desk.reading_access(near, receive=False) is QueueAccessType.PEEK


class Reader:
    """A context whose reader takes its time."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.may_go_on = asyncio.Event()

    async def write(self, reply: Any) -> None:
        await self.may_go_on.wait()
        self.got.append(reply)


async def test_a_slow_reader_gets_everything_and_holds_up_who_asks_for_more() -> None:
    reader = Reader()
    outbox = Outbox(reader)  # type: ignore[arg-type]  # all that is used of a context
    writing = asyncio.ensure_future(outbox.run())
    for number in range(100):
        outbox.put(number)
    waiting = asyncio.ensure_future(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    reader.may_go_on.set()
    await waiting
    outbox.fail(IoTimeoutError("over"))
    with pytest.raises(IoTimeoutError):
        await writing
    assert reader.got == list(range(100))
