"""A cursor: a reader's own position in a queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from msmq.api import status
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.message import ReceivedMessage
from msmq.client.problems import ConnectionLostError
from msmq.client.stream import Stream
from msmq.client.timeouts import milliseconds
from msmq.errors import IoTimeoutError, MsmqError, QueueNotFoundError

if TYPE_CHECKING:
    from msmq.client.connection import Connection
    from msmq.client.transaction import Transaction


class Cursor:
    """Walks over the messages of a queue: ``async with queue.cursor() as cursor: async for message in cursor: ...``.
    The loop ends at the end of the queue. A cursor lives as long as its connection."""

    def __init__(self, connection: Connection, queue: str, *, receive: bool) -> None:
        self._connection = connection
        self.queue = queue
        self._receive = receive
        self._stream: Stream | None = None
        self._answers: deque[asyncio.Future[pb.BrowseReply]] = deque()

    async def __aenter__(self) -> Self:
        self._stream = await self._connection.stream("Browse", self._received, self._lost)
        try:
            await self._open()
        except QueueNotFoundError:
            elsewhere = await self._connection.elsewhere(self.queue)
            if elsewhere is None:
                raise
            from msmq.client.remote_browse import RemoteBrowse

            self._stream = self._connection.joined(RemoteBrowse(*elsewhere, self._received, self._lost))
            await self._open()
        return self

    async def _open(self) -> None:
        """Open the queue at the server or host that has it; raises the error that it reports."""
        assert self._stream is not None
        opening = pb.OpenToBrowse(queue=self.queue, receive=self._receive, form=pb.PACKET)
        try:
            await self._ask(pb.BrowseRequest(open=opening))
        except BaseException:
            self._stream.cancel()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        if self._stream is not None and kind is None:
            await self._stream.close()

    def leave(self) -> None:
        """Close without waiting."""
        if self._stream is not None:
            self._stream.end()

    def _received(self, reply: pb.BrowseReply) -> None:
        answer = self._answers.popleft()
        if not answer.done():
            answer.set_result(reply)

    def _lost(self, error: MsmqError) -> None:
        self._error = error
        while self._answers:
            answer = self._answers.popleft()
            if not answer.done():
                answer.set_exception(error)

    async def _ask(self, request: pb.BrowseRequest) -> pb.BrowseReply:
        if self._stream is None:
            raise RuntimeError("A cursor is opened by `async with`.")
        if self._stream.over:
            raise self._error
        answer: asyncio.Future[pb.BrowseReply] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._stream.put(request)
        return await answer

    async def _step(
        self, action: pb.Step.Action, timeout: float | None, count: int = 1, transaction: bytes = b""
    ) -> list[ReceivedMessage]:
        timeout_ms = milliseconds(timeout)
        return await self._asked(
            pb.Step(action=action, count=count, transaction=transaction, timeout_ms=timeout_ms)
        )

    async def _asked(self, step: pb.Step) -> list[ReceivedMessage]:
        reply = await self._ask(pb.BrowseRequest(step=step))
        if reply.HasField("error"):
            raise status.from_message(reply.error)
        return [ReceivedMessage.delivered(delivered, self.queue) for delivered in reply.deliveries.messages]

    async def next(self, timeout: float | None = 0) -> ReceivedMessage:
        """Go to the next message and return it; it becomes the current one. Raises IoTimeoutError when none comes in
        time; None waits for ever."""
        return (await self._step(pb.Step.NEXT, timeout))[0]

    async def next_many(self, count: int, timeout: float | None = 0) -> list[ReceivedMessage]:
        """Go on by up to ``count`` messages and return them. Only the first is waited for."""
        return await self._step(pb.Step.NEXT, timeout, count)

    async def current(self, timeout: float | None = 0) -> ReceivedMessage:
        """Return the current message again, if it is still there."""
        return (await self._step(pb.Step.CURRENT, timeout))[0]

    async def take(self, transaction: Transaction | None = None) -> ReceivedMessage:
        """Take the current message out of the queue. If the call is cancelled, the message stays there."""
        self._check_taking()
        if transaction is None:
            return (await self.hold()).keep()
        step = self._step(pb.Step.TAKE_CURRENT, 0, transaction=transaction.identifier)
        return self._took((await transaction.taking(step))[0], transaction)

    def _took(self, message: ReceivedMessage, transaction: Transaction) -> ReceivedMessage:
        self._connection.took(message, transaction)
        return message

    async def hold(self) -> HeldAtCursor:
        """Take the current message in two steps: hold it, then let the caller decide whether it leaves the queue."""
        return await self._hold(pb.Step(action=pb.Step.HOLD_CURRENT, timeout_ms=0))

    async def hold_by_id(self, lookup_id: int, seek: int) -> HeldAtCursor:
        """Hold the message with a lookup identifier, or one near it, as the first of two steps to take it."""
        return await self._hold(pb.Step(action=pb.Step.HOLD, lookup_id=lookup_id, seek=seek))  # type: ignore[arg-type]

    async def look_at(self, lookup_id: int, seek: int) -> ReceivedMessage:
        """Look at the message with a lookup identifier, or at one near it."""
        return (await self._asked(pb.Step(action=pb.Step.LOOK, lookup_id=lookup_id, seek=seek)))[0]  # type: ignore[arg-type]

    async def hold_wanted(self, wanted: Wanted, timeout: float | None) -> HeldAtCursor:
        """Hold the first message with a wanted identifier, as the first of two steps to take it."""
        with self._given_up():
            return await self._hold(wanted.step(pb.Step.HOLD, timeout))

    async def look_for(self, wanted: Wanted, timeout: float | None) -> ReceivedMessage:
        """Look at the first message with a wanted identifier."""
        with self._given_up():
            return (await self._asked(wanted.step(pb.Step.LOOK, timeout)))[0]

    @contextmanager
    def _given_up(self) -> Iterator[None]:
        """If the caller stops waiting, cancel the stream: the queue manager stops looking and gives back what it
        held."""
        try:
            yield
        except asyncio.CancelledError:
            if self._stream is not None:
                self._stream.cancel()
            raise

    async def take_wanted(self, wanted: Wanted, transaction: Transaction) -> ReceivedMessage:
        """Take the first message with a wanted identifier in a transaction, if it is there."""
        step = wanted.step(pb.Step.TAKE, 0)
        step.transaction = transaction.identifier
        return self._took((await transaction.taking(self._asked(step)))[0], transaction)

    def _check_taking(self) -> None:
        if not self._receive:
            raise RuntimeError("This cursor only looks; messages are taken at `queue.cursor(receive=True)`.")

    async def _hold(self, step: pb.Step) -> HeldAtCursor:
        self._check_taking()
        asked = asyncio.ensure_future(self._asked(step))
        try:
            return HeldAtCursor(self, (await asyncio.shield(asked))[0])
        except asyncio.CancelledError:
            asked.add_done_callback(self._give_back)  # a message on its way stays there
            raise

    def _give_back(self, asked: asyncio.Future[list[ReceivedMessage]]) -> None:
        if not asked.cancelled() and asked.exception() is None:
            self.release(asked.result()[0])

    def keep(self, message: ReceivedMessage) -> None:
        """Take a held message out of the queue."""
        if self._stream is None or self._stream.over:
            raise ConnectionLostError("The connection broke, and the message went back to its queue.")
        self._stream.put(pb.BrowseRequest(keep=pb.Keep(lookup_id=message.lookup_id)))
        self._connection.took(message)

    def release(self, message: ReceivedMessage) -> None:
        """Leave a held message in the queue."""
        if self._stream is not None:
            self._stream.put(pb.BrowseRequest(release=pb.Release(lookup_id=message.lookup_id)))

    async def restart(self) -> None:
        """Go back to the place before the first message."""
        await self._step(pb.Step.RESTART, 0)

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        while True:
            try:
                found = await self.next_many(100 if not self._receive else 1)
            except IoTimeoutError:
                return
            for message in found:
                yield message


class Wanted(NamedTuple):
    """The identifier, or correlation identifier, of a message that is looked for."""

    message_id: bytes = b""
    correlation_id: bytes = b""

    def step(self, action: pb.Step.Action, timeout: float | None) -> pb.Step:
        """Make the request that looks for the message. With a ``timeout`` of None it waits, with 0 the message must be
        there."""
        return pb.Step(
            action=action,
            message_id=self.message_id,
            correlation_id=self.correlation_id,
            timeout_ms=milliseconds(timeout),
        )


class HeldAtCursor:
    """A message that is held through a cursor; see :class:`msmq.client.receiver.Held`."""

    def __init__(self, cursor: Cursor, message: ReceivedMessage) -> None:
        self._cursor = cursor
        self._is_last = False
        self.message = message

    def last(self) -> Self:
        """Close the cursor together with the message: it was opened for this message only."""
        self._is_last = True
        return self

    def keep(self) -> ReceivedMessage:
        """Take the message out of the queue and return it."""
        self._cursor.keep(self.message)
        self._end()
        return self.message

    def give_back(self) -> None:
        """Leave the message in the queue."""
        self._cursor.release(self.message)
        self._end()

    def _end(self) -> None:
        if self._is_last:
            self._cursor.leave()
