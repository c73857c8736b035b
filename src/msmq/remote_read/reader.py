"""Streams of messages from a remote queue: many calls at once on one connection.

With one call at a time each message costs a round trip. `receive` keeps several receives waiting, so that the next
message is here when it is needed; `browse` reads a span of a queue in several chains at a time, and `remove` keeps
many receives under way. All of them are also correct with one call at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, suppress
from itertools import pairwise
from typing import Final

from msmq.errors import (
    DecodeError,
    IoTimeoutError,
    MessageNotFoundError,
    MessageStorageFailedError,
    MQError,
    TransactionUsageError,
)
from msmq.remote_read.actions import Action
from msmq.remote_read.failures import error_of
from msmq.remote_read.interface import R_START_RECEIVE
from msmq.remote_read.remote_message import WHOLE, RemoteMessage
from msmq.remote_read.remote_queue import PendingMessage, RemoteQueue
from msmq.rpc.status import RpcError

_LARGEST: Final = (1 << 64) - 1
_FAR_AHEAD: Final = 1 << 20
"""The most bytes of messages that one chain of `browse` reads ahead of the caller."""


async def receive(
    queue: RemoteQueue, *, prefetch: int = 16, timeout_s: float | None = None, max_body: int = WHOLE
) -> AsyncIterator[PendingMessage]:
    """Receive messages in order; the caller acknowledges or gives back each of them.

    Up to ``prefetch`` messages are locked ahead of the caller. The iteration ends when no message comes within
    ``timeout_s``; None waits for ever. Messages that the caller has not taken go back to their places.
    """
    under_way: deque[tuple[asyncio.Task[PendingMessage], list[int]]] = deque()
    try:
        while True:
            while len(under_way) < prefetch:
                ids: list[int] = []
                begin = queue.begin_receive(timeout_s=timeout_s, max_body=max_body, started=ids.append)
                under_way.append((asyncio.ensure_future(begin), ids))
            task, _ = under_way[0]
            try:
                message = await task
            except IoTimeoutError:
                return
            under_way.popleft()
            yield message
    finally:
        await _give_up(queue, under_way)


async def _give_up(
    queue: RemoteQueue, under_way: deque[tuple[asyncio.Task[PendingMessage], list[int]]]
) -> None:
    """Cancel what waits and give back what came, the last message first so that no reader gets them out of order."""
    await asyncio.sleep(0)  # let tasks that were just made send their calls
    for task, ids in under_way:
        if not task.done() and ids:
            await queue.cancel_quietly(ids[0])
    for task, _ in reversed(under_way):
        try:
            pending = await task
        except MQError:
            continue
        with suppress(MQError):
            await pending.give_back()


async def browse(
    queue: RemoteQueue,
    after: int = 0,
    upto: int = _LARGEST,
    *,
    chains: int = 32,
    max_body: int = WHOLE,
) -> AsyncGenerator[RemoteMessage, None]:
    """Peek at the messages with lookup identifiers behind ``after`` up to and including ``upto``, in their order.

    The span is cut into ``chains`` of equal width that are read at the same time, each from one message to the next. A
    chain that is far ahead of the caller stops, and its rest is browsed when its turn comes, so memory stays bounded
    however long the queue. Some servers find no neighbour of an identifier they do not know: then the chain is read
    from the last message that was seen, which is slower but leaves nothing out.
    """
    first = await _next(queue, after, max_body)
    if first is None or first.lookup_id > upto:
        return
    last = await _last(queue, first.lookup_id, upto)
    yield first
    seen = first.lookup_id
    width = max(-(-(last - seen) // max(chains, 1)), 1)
    bounds = [*range(seen, last, width), last]
    following = [_Chain(queue, start, end, max_body) for start, end in pairwise(bounds)]
    for chain in following:
        chain.follow()
    try:
        for chain in following:
            whole = await chain.over
            found, chain.found = chain.found, []
            for message in found:
                seen = message.lookup_id
                yield message
            if chain.far_ahead:
                async with aclosing(
                    browse(queue, seen, chain.end, chains=chains, max_body=max_body)
                ) as rest:  # fmt: skip
                    async for message in rest:
                        seen = message.lookup_id
                        yield message
            while not whole and seen < chain.end:
                behind = await _next(queue, seen, max_body)
                if behind is None or behind.lookup_id > chain.end:
                    break
                seen = behind.lookup_id
                yield behind
    finally:
        for chain in following:
            chain.stop()


class _Chain:
    """The messages of one part of a span. Each is asked for when the one before it has come; the chain itself takes
    the answers."""

    def __init__(self, queue: RemoteQueue, start: int, end: int, max_body: int) -> None:
        self._queue = queue
        self._place = start
        self._max_body = max_body
        self.end = end
        self.found: list[RemoteMessage] = []
        self.far_ahead = False
        """Whether it has stopped because enough messages wait for the caller."""
        self._kept = 0
        self.over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Its result: whether certainly all messages of the part were found."""

    def follow(self) -> None:
        self._queue.begin_peek(self._place, Action.LOOKUP_PEEK_NEXT, self, self._max_body)

    def stop(self) -> None:
        """Ask for no more; the answer that is under way is ignored."""
        self.over.cancel()
        if self.over.done() and not self.over.cancelled():
            self.over.exception()  # mark the exception as seen, or asyncio logs it

    # --- an answer --------------------------------------------------------------------------------------

    def done(self) -> bool:
        return self.over.done()

    def set_result(self, stub: bytes) -> None:
        try:
            message = self._queue.message_in(stub, self._max_body)
        except MessageNotFoundError:
            self.over.set_result(False)
        except DecodeError as error:
            self.over.set_exception(
                MessageStorageFailedError(f"The message cannot be put together: {error}")
            )  # fmt: skip
        except MQError as error:
            self.over.set_exception(error)
        else:
            self._came(message)

    def set_exception(self, error: RpcError) -> None:
        self.over.set_exception(error_of(error, R_START_RECEIVE.name))

    def _came(self, message: RemoteMessage) -> None:
        place = message.lookup_id
        if place <= self.end:
            self.found.append(message)
            self._place = place
            self._kept += len(message.data)
            self.far_ahead = self._kept >= _FAR_AHEAD and place < self.end
            if place < self.end and not self.far_ahead:
                self.follow()
                return
        self.over.set_result(True)


async def _next(queue: RemoteQueue, after: int, max_body: int) -> RemoteMessage | None:
    """The first message behind ``after``, on any server."""
    with suppress(MessageNotFoundError, IoTimeoutError):
        if not after:
            return await queue.peek(max_body=max_body)
        return await queue.peek(after, Action.LOOKUP_PEEK_NEXT, max_body=max_body)
    if not after or await _is_there(queue, after):
        return None
    # It is gone, and this server may find no neighbour of a missing message: walk there from the front.
    with suppress(MessageNotFoundError, IoTimeoutError):
        message = await queue.peek(max_body=max_body)
        while message.lookup_id <= after:
            message = await queue.peek(message.lookup_id, Action.LOOKUP_PEEK_NEXT, max_body=max_body)
        return message
    return None


async def _is_there(queue: RemoteQueue, lookup_id: int) -> bool:
    try:
        await queue.peek(lookup_id, Action.LOOKUP_PEEK_CURRENT, max_body=0)
    except TransactionUsageError:
        return True  # another reader holds it
    except MessageNotFoundError:
        return False
    return True


async def _last(queue: RemoteQueue, first: int, upto: int) -> int:
    """The identifier of the last message of the span, or ``upto`` if the server does not find it."""
    if await _is_there(queue, upto):
        return upto
    with suppress(MessageNotFoundError):
        return max((await queue.peek(upto, Action.LOOKUP_PEEK_PREV, max_body=0)).lookup_id, first)
    return upto


async def remove(queue: RemoteQueue, lookup_ids: Iterable[int], *, window: int = 64) -> set[int]:
    """Take these messages out of the queue, ``window`` at a time, without transferring their bodies. Returns the
    identifiers of those that were there."""
    room = asyncio.Semaphore(window)
    removed: set[int] = set()

    async def take(lookup_id: int) -> None:
        try:
            pending = await queue.begin_receive(lookup_id, Action.LOOKUP_RECEIVE_CURRENT, max_body=0)
            await pending.acknowledge()
            removed.add(lookup_id)
        except MessageNotFoundError:
            pass
        finally:
            room.release()

    async with asyncio.TaskGroup() as group:
        for lookup_id in lookup_ids:
            await room.acquire()
            group.create_task(take(lookup_id))
    return removed
