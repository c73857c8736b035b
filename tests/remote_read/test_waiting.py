"""Reads that wait: beside each other, for so long, until somebody ends them."""

from __future__ import annotations

import asyncio
import time

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import INFINITE_MS, Action
from tests.manager.support import NOON
from tests.remote_read.support import (
    BOTH,
    CANCELLED,
    INVALID_PARAMETER,
    OK,
    SEVERITY,
    TIMEOUT,
    eventually,
    on_loop,
    serving,
    state_of,
)

A = Action


@pytest.mark.spec(
    "MQRR-3.1.4.7-e", "MQRR-3.1.4.7-ap", "MQRR-3.1.4.7-as", "MQRR-3.1.1.2-a", "MQRR-3.1.1.2-b", "MQRR-2.2.4.1-a",
)  # fmt: skip
@on_loop
async def test_reads_wait_beside_each_other() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            reads = [
                asyncio.create_task(peer.start(handle, request_id=number, timeout_ms=10**6))
                for number in (1, 2, 3)
            ]
            await eventually(lambda: len(queue.waiting) == 3)
            waiting = served.handle.requests[2]
            assert (waiting.request_id, waiting.lookup_id) == (2, 0)
            assert waiting.time_stamp_ms == NOON * 1000 % 2**32
            assert await peer.cancel(handle, 2) == OK  # answered at once, behind three that wait
            position = served.host.send(queue, b"late")
            first = await reads[0]
            assert served.handle.requests[1].lookup_id == position.lookup_id
            assert first.p_sequence_id == position.lookup_id & (1 << 56) - 1
            assert (await reads[1]).status == CANCELLED
            assert await peer.cancel(handle, 3) == OK
            assert (await reads[2]).status == CANCELLED
            assert await peer.end(handle, 1) == OK


@pytest.mark.spec("MQRR-3.1.2.1-b", "MQRR-3.1.4.7-g", "MQRR-3.1.4.7-ai", "DMPR-3.1.7.1.10-j")
@pytest.mark.parametrize("timeout_ms", [300, 500, 1500])
@pytest.mark.parametrize("action", [A.RECEIVE, A.PEEK_CURRENT], ids=lambda each: each.name)
@on_loop
async def test_a_time_out_is_in_milliseconds(timeout_ms: int, action: Action) -> None:
    async with serving(punctual=True) as served:
        served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            before = time.time()
            assert await peer.read(handle, action, timeout_ms=timeout_ms) == TIMEOUT
            took_ms = (time.time() - before) * 1000
            assert took_ms >= timeout_ms - 1
            assert took_ms < timeout_ms + 30_000  # milliseconds, not seconds; machines may be busy


@pytest.mark.spec("MQRR-3.1.4.7-g", "MQRR-3.1.4.7-f", "MQRR-3.1.4.7-at")
@on_loop
async def test_no_time_and_all_the_time() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, request_id=5) == TIMEOUT
            read = asyncio.create_task(peer.read(handle, request_id=5, timeout_ms=INFINITE_MS))
            await eventually(lambda: queue.waiting)
            served.host.advance(10 * 365 * 86_400)
            assert queue.waiting
            served.host.send(queue, b"at last")
            assert await read == b"at last"
            assert await peer.end(handle, 5) == OK


@pytest.mark.spec("MQRR-3.1.4.7-v", "MQRR-3.1.4.13-i")
@BOTH
@on_loop
async def test_a_request_id_is_used_once_at_a_time(uow: bytes | None) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", b"two")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, request_id=9, uow=uow) == b"one"
            assert await peer.read(handle, request_id=9, uow=uow) == INVALID_PARAMETER
            assert await peer.end_transactional(handle, 9) == OK
            assert served.host.contents(queue) == [b"two"]


@pytest.mark.spec("MQRR-3.1.1.3-a")
@on_loop
async def test_two_handles_may_use_the_same_request_id() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", b"two")
        async with await served.connect() as peer:
            first, second = await peer.open(), await peer.open()
            assert await peer.read(first, request_id=5) == b"one"
            assert await peer.read(second, request_id=5) == b"two"
            assert await peer.end(second, 5) == OK
            assert served.host.contents(queue) == [b"one"]
            assert await peer.end(first, 5, idl.RR_NACK) == OK
            assert served.host.contents(queue) == [b"one"]


@pytest.mark.spec(
    "MQRR-3.1.4.8-b", "MQRR-3.1.4.8-f", "MQRR-3.1.4.8-g", "MQRR-3.1.4.8-h", "MQRR-3.1.4.7-al", "MQRR-3.1.4.13-h",
)  # fmt: skip
@pytest.mark.parametrize("action", [A.RECEIVE, A.PEEK_CURRENT], ids=lambda each: each.name)
@BOTH
@on_loop
async def test_a_read_that_waits_is_cancelled(action: Action, uow: bytes | None) -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            read = asyncio.create_task(peer.start(handle, action, request_id=5, timeout_ms=10**6, uow=uow))
            await eventually(lambda: queue.waiting)
            assert await peer.cancel(handle, 5) == OK
            assert await read == idl.StartReceiveReply(0, 0, 0, None, CANCELLED)
            assert await peer.end(handle, 5) & SEVERITY
            assert not served.handle.requests


@pytest.mark.spec("MQRR-3.1.4.13-h")
@on_loop
async def test_a_read_of_a_transaction_that_waits_is_cancelled() -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        uow, token = served.transactions.begin()
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.enlist(uow, token) == OK
            read = asyncio.create_task(peer.start(handle, request_id=5, timeout_ms=10**6, uow=uow))
            await eventually(lambda: queue.waiting)
            assert await peer.cancel(handle, 5) == OK
            assert (await read).status == CANCELLED


@pytest.mark.spec("MQRR-3.1.4.8-d")
@on_loop
async def test_a_cancel_is_for_its_own_handle() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            mine = asyncio.create_task(peer.read(handle, request_id=5, timeout_ms=10**6))
            others = asyncio.create_task(other.read(theirs, request_id=5, timeout_ms=10**6))
            await eventually(lambda: len(queue.waiting) == 2)
            assert await peer.cancel(handle, 5) == OK
            assert await mine == CANCELLED
            assert len(queue.waiting) == 1
            served.host.send(queue, b"for them")
            assert await others == b"for them"


@pytest.mark.spec("MQRR-3.1.4.8-e")
@on_loop
async def test_what_was_delivered_cannot_be_cancelled() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.cancel(handle, 1) & SEVERITY
            assert await peer.read(handle) == b"one"
            assert await peer.cancel(handle, 1) & SEVERITY
            assert state_of(served) is PositionState.LOCKED
            assert await peer.end(handle) == OK
            assert served.host.contents(queue) == []


@on_loop
async def test_a_client_that_asks_for_an_early_answer_gets_one() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            read = asyncio.create_task(peer.read(handle, timeout_ms=10**6))
            await eventually(lambda: queue.waiting)
            peer.client.cancel_calls()
            assert await read == CANCELLED
            assert not queue.waiting


@on_loop
async def test_a_client_that_gives_a_call_up_gets_nothing_and_loses_nothing() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            read = asyncio.create_task(peer.read(handle, timeout_ms=10**6))
            await eventually(lambda: queue.waiting)
            read.cancel()
            await eventually(lambda: not queue.waiting and not served.handle.requests)
            served.host.send(queue, b"one")
            assert await peer.read(handle, request_id=2) == b"one"
