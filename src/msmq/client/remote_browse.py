"""Browse a queue of another host with a cursor, by remote read (MS-MQRR).

Remote read has cursors and lookup identifiers, but no call that looks for a message by its own identifier: the queue is
walked through, without the bodies, again and again while such a message is awaited. Nor can remote read name the two
ends of a queue: the first message is the one that is read without a cursor, and the last is the one before the highest
possible lookup identifier.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import Any, Final

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.status import to_message
from msmq.client.remote import END, RemoteConversation, no_transaction
from msmq.errors import (
    IoTimeoutError,
    MessageNotFoundError,
    MQError,
    OperationCancelledError,
    TransactionUsageError,
)
from msmq.remote_read.actions import Action
from msmq.remote_read.reader import browse
from msmq.remote_read.remote_message import RemoteMessage
from msmq.remote_read.remote_queue import PendingMessage, RemoteCursor, RemoteQueue
from msmq.remote_read.session import Access, RemoteHost

_HIGHEST: Final = (1 << 64) - 1
_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
"""Limits of the pause between two searches for a message that has not come yet."""
_LOOK: Final = {
    pb.SEEK_CURRENT: Action.LOOKUP_PEEK_CURRENT,
    pb.SEEK_NEXT: Action.LOOKUP_PEEK_NEXT,
    pb.SEEK_PREVIOUS: Action.LOOKUP_PEEK_PREV,
}
_HOLD: Final = {
    pb.SEEK_CURRENT: Action.LOOKUP_RECEIVE_CURRENT,
    pb.SEEK_NEXT: Action.LOOKUP_RECEIVE_NEXT,
    pb.SEEK_PREVIOUS: Action.LOOKUP_RECEIVE_PREV,
}


class RemoteBrowse(RemoteConversation):
    """The stream of a cursor."""

    _queue: RemoteQueue
    _cursor: RemoteCursor

    def __init__(self, *given: Any) -> None:
        self._has_read = False
        """True if the cursor stands on a message that it has shown."""
        self._leaving = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        super().__init__(*given)

    def end(self) -> None:
        """End the stream; steps that wait, or would, return at once."""
        super().end()
        self._leaving.set()
        if self._request_id is not None and self._ending is None:
            self._ending = asyncio.ensure_future(self._queue.cancel_quietly(self._request_id))

    async def _converse(self, host: RemoteHost, opening: pb.OpenToBrowse) -> None:
        access = Access.RECEIVE if opening.receive else Access.PEEK
        self._queue = await host.open(self._place.format_name, access)
        self._cursor = await self._queue.create_cursor()
        self._received(pb.BrowseReply(opened=pb.Opened(format_name=self._place.format_name)))
        while (request := await self._requests.get()) is not END:
            kind = request.WhichOneof("request")
            if kind == "keep":
                await self._held.pop(request.keep.lookup_id).acknowledge()
            elif kind == "release":
                await self._held.pop(request.release.lookup_id).give_back()
            else:
                self._received(await self._answer(request.step))

    async def _answer(self, step: pb.Step) -> pb.BrowseReply:
        try:
            found = await self._step(step)
        except MQError as error:
            return pb.BrowseReply(error=to_message(error))
        finally:
            self._request_id = None
        messages = [
            pb.Delivered(
                lookup_id=one.lookup_id, arrived_time=one.arrival_time, packet=bytes(one.packet.data)
            )
            for one in found
        ]
        return pb.BrowseReply(deliveries=pb.Deliveries(messages=messages))

    async def _step(self, step: pb.Step) -> list[RemoteMessage]:
        timeout_s = step.timeout_ms / 1000 if step.HasField("timeout_ms") else None
        match step.action:
            case pb.Step.RESTART:
                await self._cursor.close()
                self._cursor = await self._queue.create_cursor()
                self._has_read = False
                return []
            case pb.Step.CURRENT:
                return [await self._peek(Action.PEEK_CURRENT, timeout_s)]
            case pb.Step.NEXT:
                return await self._next(step.count, timeout_s)
            case pb.Step.HOLD_CURRENT:
                pending = await self._queue.begin_receive(cursor=self._cursor)
                self._has_read = False
                return [self._hold(pending)]
            case pb.Step.HOLD | pb.Step.LOOK:
                if step.message_id or step.correlation_id:
                    return [await self._wanted(step, timeout_s)]
                return [await self._placed(step)]
        raise no_transaction(self._place.host)

    async def _next(self, count: int, timeout_s: float | None) -> list[RemoteMessage]:
        """Return the next messages; only the first is waited for."""
        found = [await self._peek_next(timeout_s)]
        while len(found) < count:
            try:
                found.append(await self._peek_next(0))
            except IoTimeoutError:
                break
        return found

    async def _peek_next(self, timeout_s: float | None) -> RemoteMessage:
        """Return the next message. Before its first read a cursor has nothing to go on from: its next message is the
        one where it stands."""
        return await self._peek(Action.PEEK_NEXT if self._has_read else Action.PEEK_CURRENT, timeout_s)

    async def _peek(self, action: Action, timeout_s: float | None) -> RemoteMessage:
        try:
            message = await self._queue.read(
                action,
                cursor=self._cursor,
                timeout_s=0 if self._leaving.is_set() else timeout_s,
                started=self._started,
            )
        except (IoTimeoutError, OperationCancelledError):
            self._has_read = False  # the cursor has moved on, and stands where the next message will be
            raise
        self._has_read = True
        return message

    async def _placed(self, step: pb.Step) -> RemoteMessage:
        """Find a message by its lookup identifier, or at an end of the queue. It is never waited for."""
        queue, lookup_id, seek = self._queue, step.lookup_id, step.seek
        if seek == pb.SEEK_FIRST:
            try:
                if step.action == pb.Step.LOOK:
                    return await queue.peek()
                return self._hold(await queue.begin_receive())
            except IoTimeoutError:
                raise MessageNotFoundError("The queue is empty.") from None
        if seek == pb.SEEK_LAST:
            lookup_id, seek = await self._last(), pb.SEEK_CURRENT
        if not lookup_id:
            raise MessageNotFoundError("No message has this lookup identifier.")
        if step.action == pb.Step.LOOK:
            return await queue.peek(lookup_id, _LOOK[seek])
        return self._hold(await queue.begin_receive(lookup_id, _HOLD[seek]))

    async def _wanted(self, step: pb.Step, timeout_s: float | None) -> RemoteMessage:
        """Return the first message with a wanted identifier. The pause between two searches grows with the time that a
        search takes, so that a long queue is not searched all the time."""
        loop = asyncio.get_running_loop()
        end_s = None if timeout_s is None else loop.time() + timeout_s
        pause_s = _PAUSE_S
        while True:
            began_s = loop.time()
            found = await self._look_for(step)
            if found is not None:
                return found
            if timeout_s == 0:
                raise MessageNotFoundError("No message with this identifier is in the queue.")
            now_s = loop.time()
            if self._leaving.is_set() or (end_s is not None and now_s >= end_s):
                raise IoTimeoutError("No message with this identifier came in time.")
            pause_s = max(min(2 * pause_s, _LONGEST_PAUSE_S), now_s - began_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s if end_s is None else min(pause_s, end_s - now_s)):
                    await self._leaving.wait()

    async def _look_for(self, step: pb.Step) -> RemoteMessage | None:
        """Search the queue once; None if no such message can be read."""
        queue, message_id, correlation_id = self._queue, step.message_id, step.correlation_id
        async with aclosing(browse(queue, max_body=0)) as messages:
            async for message in messages:
                packet = message.packet
                if message_id and packet.identifier.encode() != message_id:
                    continue
                if correlation_id and packet.properties.correlation_id != correlation_id:
                    continue
                with suppress(MessageNotFoundError, TransactionUsageError):  # somebody else was quicker
                    if step.action == pb.Step.LOOK:
                        return await queue.peek(message.lookup_id, Action.LOOKUP_PEEK_CURRENT)
                    return self._hold(
                        await queue.begin_receive(message.lookup_id, Action.LOOKUP_RECEIVE_CURRENT)
                    )
        return None

    async def _last(self) -> int:
        """Return the lookup identifier of the last message, 0 if there is none. If the server finds no neighbour of an
        identifier that it does not know, the queue is walked through."""
        try:
            return (await self._queue.peek(_HIGHEST, Action.LOOKUP_PEEK_PREV, max_body=0)).lookup_id
        except MessageNotFoundError:
            last = 0
            async for message in browse(self._queue, max_body=0):
                last = message.lookup_id
            return last

    def _hold(self, pending: PendingMessage) -> RemoteMessage:
        self._held[pending.message.lookup_id] = pending
        return pending.message
