"""Reads that could be answered and whose client does not read: they wait for room, and cost their places only."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.remote_read.actions import Action
from tests.manager.mailbox.test_contents import damage
from tests.remote_read.support import CANCELLED, INVALID_HANDLE, Peer, Served, eventually, on_loop, serving

LARGE = 512 << 10
READS = 200


def body(letter: str) -> bytes:
    return letter.encode() * LARGE


def short(answer: bytes | int) -> str | int:
    """An answer as it is compared: the letter of a large body, which a failing test would print for minutes."""
    if isinstance(answer, int):
        return answer
    letter = answer[:1].decode()
    return letter if answer == letter.encode() * LARGE else f"{len(answer)} bytes"


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Whatever happens inside takes no more memory than so many bytes at a time."""
    tracemalloc.start(1)
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def deaf(peer: Peer, reading: bool = False) -> None:
    """Have a client not read its answers any more, or read them again."""
    transport = peer.client._transport
    assert transport is not None
    if reading:
        transport.resume_reading()
    else:
        transport.pause_reading()


async def waiting(
    served: Served, peer: Peer, handle: bytes, action: Action, reads: int = READS
) -> list[asyncio.Task[bytes | int]]:
    tasks = [
        asyncio.create_task(peer.read(handle, action, request_id=number, timeout_ms=10**6))
        for number in range(1, reads + 1)
    ]
    await eventually(lambda: len(served.host.find().waiting) == reads)
    deaf(peer)
    return tasks


async def full(served: Served) -> None:
    """The client has more to read than the server lets wait."""
    await eventually(lambda: served.door.server.unread.total >= served.door.server.config.max_unread)


@pytest.mark.parametrize("recoverable", [False, True], ids=["express", "recoverable"])
@on_loop
async def test_one_large_message_for_many_that_wait_to_see_it(recoverable: bool) -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            reads = await waiting(served, peer, handle, Action.PEEK_CURRENT)
            with at_most(32 << 20):
                served.host.send(queue, body("a"), recoverable=recoverable)
                await full(served)
            deaf(peer, reading=True)
            assert {short(answer) for answer in await asyncio.gather(*reads)} == {"a"}
            assert short(await peer.read(handle)) == "a"


@on_loop
async def test_a_large_message_for_each_that_waits() -> None:
    """All are found in one moment, and may be answered when the disk has caught up."""
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            reads = await waiting(served, peer, handle, Action.RECEIVE, 100)
            served.slow = True
            letters = [chr(number) for number in range(100)]
            for letter in letters:
                served.host.send(queue, body(letter))
            with at_most(16 << 20):
                served.settle()
                await full(served)
            assert {place.state for place in queue.positions} == {PositionState.LOCKED}
            deaf(peer, reading=True)
            assert [short(answer) for answer in await asyncio.gather(*reads)] == letters


@on_loop
async def test_what_a_deaf_client_has_locked_comes_back_after_its_time() -> None:
    async with serving(cleanup_s=300) as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            reads = await waiting(served, peer, handle, Action.RECEIVE, 40)
            for _ in range(40):
                served.host.send(queue, body("a"))
            await full(served)
            served.host.advance(301)
            assert {place.state for place in queue.positions} == {PositionState.AVAILABLE}
            deaf(peer, reading=True)
            answers = {short(answer) for answer in await asyncio.gather(*reads)}
            assert answers == {"a", CANCELLED}  # made before there was no more room, and after
            assert {await peer.end(handle, number) for number in (1, 40)} == {INVALID_HANDLE}
            assert len(queue.positions) == 40


@on_loop
async def test_a_look_at_what_is_gone_goes_on() -> None:
    """What another reader took before there was room is not shown; the next one is, or the wait goes on to its end."""
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer, await served.connect() as other:
            handle, others = await peer.open(), await other.open()
            reads = await waiting(served, peer, handle, Action.PEEK_CURRENT)
            served.host.send(queue, body("a"))
            await full(served)
            assert short(await other.read(others)) == "a"
            assert await other.end(others) == 0
            deaf(peer, reading=True)
            await eventually(
                lambda: queue.waiting and len(queue.waiting) == sum(not read.done() for read in reads)
            )
            shown = READS - len(queue.waiting)
            assert 0 < shown < READS
            assert await peer.cancel(handle, READS) == 0
            served.host.send(queue, body("b"))
            answers = [short(answer) for answer in await asyncio.gather(*reads)]
            assert answers == ["a"] * shown + ["b"] * (READS - shown - 1) + [CANCELLED]


@on_loop
async def test_a_message_that_the_disk_has_damaged_meanwhile() -> None:
    """A receive that has locked it looks for another one, and operators are told of the loss."""
    async with serving() as served:
        queue, besides = served.queue("orders"), served.queue("besides")
        async with await served.connect() as peer:
            handle = await peer.open()
            reads = await waiting(served, peer, handle, Action.RECEIVE, 40)
            letters = [chr(number) for number in range(40)]
            places = [served.host.send(queue, body(letter), recoverable=True) for letter in letters]
            for _ in range(9):  # so much that the store has to read the last of the others from the disk
                served.host.send(besides, bytes(4_000_000), recoverable=True)
            await full(served)
            damage(served.host, places[-1])
            deaf(peer, reading=True)
            assert [short(answer) for answer in await asyncio.gather(*reads[:-1])] == letters[:-1]
            await eventually(lambda: len(queue.waiting) == 1)
            assert [lost.name for lost in served.manager.core.lost_records] == [queue.pathname]
            served.host.send(queue, b"another")
            assert await reads[-1] == b"another"
            assert await peer.end(handle, 40) == 0
