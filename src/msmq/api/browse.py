"""The calls Browse, Lookup, Purge and Move, which read and change messages by their place in a queue."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.packets import to_delivered
from msmq.api.search import Search, wanted_message
from msmq.api.status import to_message
from msmq.errors import (
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    MQError,
    QueueNotAvailableError,
    error_for,
)
from msmq.errors.tasks import carried_through
from msmq.manager.mailbox.cursor import Cursor, CursorState
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.readers import INFINITE
from msmq.manager.model import MessageSeekAction, QueueAccessType
from msmq.manager.queues.queue import OpenQueueDescriptor, ReadResult
from msmq.security.access import Token

_TAG: Final = 1
_MOST_PER_STEP: Final = 1_000
_MOST_BYTES_PER_STEP: Final = 16 << 20
_PLACED: Final = (pb.Step.HOLD, pb.Step.LOOK, pb.Step.TAKE)
_SEEK: Final = {
    pb.SEEK_CURRENT: MessageSeekAction.CURRENT,
    pb.SEEK_NEXT: MessageSeekAction.NEXT,
    pb.SEEK_PREVIOUS: MessageSeekAction.PREVIOUS,
    pb.SEEK_FIRST: MessageSeekAction.FIRST,
    pb.SEEK_LAST: MessageSeekAction.LAST,
}


class Browser:
    """A queue opened for browsing, with its cursor."""

    def __init__(self, desk: Desk, request: pb.OpenToBrowse, caller: Token) -> None:
        self._desk = desk
        self._caller = caller
        self._form = request.form
        self._reading = desk.manager.reading
        name = desk.names.format_name(request.queue)
        access = desk.own_access(name, receive=request.receive)
        self.descriptor = desk.manager.queues.open(name, access, caller=caller)
        self._cursor = self._new_cursor()

    def _new_cursor(self) -> Cursor:
        cursor = self._reading.open_cursor(self.descriptor)
        if cursor is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return cursor

    def close(self) -> None:
        self._desk.manager.queues.close(self.descriptor)

    async def step(self, step: pb.Step) -> list[pb.Delivered]:
        """Take a step. Returns the messages it shows, and raises the error it ends with."""
        if step.action == pb.Step.RESTART:
            self._reading.close_cursor(self._cursor)
            self._cursor = self._new_cursor()
            return []
        timeout_s = step.timeout_ms / 1000 if step.HasField("timeout_ms") else INFINITE
        if step.action in _PLACED:
            return [self._delivered(await self._placed(step, timeout_s))]
        found = [self._delivered(await self._one(step, timeout_s))]
        size = found[0].ByteSize()
        most = min(step.count, _MOST_PER_STEP) if step.action == pb.Step.NEXT else 1
        while len(found) < most and size < _MOST_BYTES_PER_STEP:
            result = await self._one(step, 0)
            if result.message is None:
                break
            found.append(self._delivered(result))
            size += result.message.size
        return found

    async def _one(self, step: pb.Step, timeout_s: float) -> ReadResult:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ReadResult] = loop.create_future()
        wait_s = timeout_s if timeout_s in (0, INFINITE) else INFINITE
        done = answer.set_result
        if step.action in (pb.Step.TAKE_CURRENT, pb.Step.HOLD_CURRENT):
            self._reading.dequeue(
                self.descriptor,
                done,
                timeout_s=wait_s,
                cursor=self._cursor,
                tag=_TAG,
                transaction=self._desk.transaction(step.transaction, self._caller),
                two_phase_read=step.action == pb.Step.HOLD_CURRENT,
            )
        elif step.action == pb.Step.CURRENT or not self._cursor_has_read:
            self._reading.peek(self.descriptor, done, timeout_s=wait_s, cursor=self._cursor, tag=_TAG)
        else:
            self._reading.peek_next(self.descriptor, done, self._cursor, timeout_s=wait_s, tag=_TAG)
        if not answer.done() and timeout_s != INFINITE:
            await asyncio.wait({answer}, timeout=timeout_s)
            if not answer.done():
                self._reading.cancel(self.descriptor, _TAG, IoTimeoutError.code)
        return await answer

    async def _placed(self, step: pb.Step, timeout_s: float) -> ReadResult:
        """Read a message by its place, or search for a message identifier or correlation identifier."""
        if not step.message_id and not step.correlation_id:
            return self._read(step, step.lookup_id, _SEEK[step.seek])
        wanted = wanted_message(step.message_id, step.correlation_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            left_s = max(deadline - loop.time(), 0)
            lookup_id = await Search(self._reading, self.descriptor, wanted).find(left_s)
            result = self._read(step, lookup_id, MessageSeekAction.CURRENT)
            if result.status != MessageNotFoundError.code:  # otherwise another reader took it first
                return result

    def _read(self, step: pb.Step, lookup_id: int, seek: MessageSeekAction) -> ReadResult:
        taking = step.action == pb.Step.TAKE
        return self._reading.read_by_lookup_id(
            self.descriptor,
            lookup_id,
            seek,
            peek=step.action == pb.Step.LOOK,
            two_phase_read=step.action == pb.Step.HOLD,
            transaction=self._desk.transaction(step.transaction, self._caller) if taking else None,
        )

    def settle(self, lookup_id: int, *, keep: bool) -> None:
        """Settle a held message: the reader takes it (``keep``) or gives it back."""
        queue = self.descriptor.queue
        if queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        self._reading.dequeue_end(self.descriptor, queue.position(lookup_id), delete_message=keep)

    @property
    def _cursor_has_read(self) -> bool:
        """Whether the cursor has a current message. Without one, the next message is the first of the queue."""
        return self._cursor.state is CursorState.READ

    def _delivered(self, result: ReadResult) -> pb.Delivered:
        if result.message is None or result.position is None:
            raise error_for(
                result.status, "The queue was deleted." if self.descriptor.queue is None else None
            )
        queue, lookup_id = result.position
        message, returned = result.message, queue.aborts.get(lookup_id, 0)
        return carried_through(lambda: to_delivered(message, self._form, returned))


class BrowseCalls:
    """The calls that name messages by their place."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def browse(self, context: Conversation, outbox: Outbox, caller: Token) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        if first.WhichOneof("request") != "open":
            raise InvalidParameterError("The first message of a stream opens the queue.")
        browser = await self._desk.host.ask(lambda: Browser(self._desk, first.open, caller))
        try:
            outbox.put(pb.BrowseReply(opened=pb.Opened(format_name=browser.descriptor.format_name)))
            while (request := await context.read()) is not grpc.aio.EOF:
                kind = request.WhichOneof("request")
                if kind == "keep":
                    browser.settle(request.keep.lookup_id, keep=True)
                    continue
                if kind == "release":
                    browser.settle(request.release.lookup_id, keep=False)
                    continue
                try:
                    reply = pb.BrowseReply(
                        deliveries=pb.Deliveries(messages=await browser.step(request.step))
                    )
                except MQError as error:
                    reply = pb.BrowseReply(error=to_message(error))
                await self._desk.durable()
                outbox.put(reply)
                await outbox.room()
            await self._desk.durable()
        finally:
            browser.close()

    async def lookup(self, request: pb.LookupRequest, caller: Token) -> pb.Delivered:
        descriptor = await self._open(request.queue, receive=request.receive, caller=caller)
        try:
            result = self._desk.manager.reading.read_by_lookup_id(
                descriptor,
                request.lookup_id,
                _SEEK[request.seek],
                peek=not request.receive,
                transaction=self._desk.transaction(request.transaction, caller) if request.receive else None,
            )
            if result.message is None or result.position is None:
                raise error_for(result.status)
            queue, lookup_id = result.position
            found = to_delivered(result.message, request.form, queue.aborts.get(lookup_id, 0))
        finally:
            self._desk.manager.queues.close(descriptor)
        await self._desk.durable()
        return found

    async def purge(self, request: pb.QueueName, caller: Token) -> pb.PurgeReply:
        queue = self._desk.names.local(request.queue)
        held = len(queue.positions)
        chore = self._desk.manager.queues.purge(queue, caller)
        await self._desk.finished(chore)
        return pb.PurgeReply(messages=held)

    async def move(self, request: pb.MoveRequest, caller: Token) -> pb.MoveReply:
        desk, manager = self._desk, self._desk.manager
        source = await self._open(request.queue, receive=True, caller=caller)
        target: OpenQueueDescriptor | None = None
        moved, not_found = 0, []
        try:
            transaction = desk.transaction(request.transaction, caller)
            name = desk.names.format_name(request.target)
            target = manager.queues.open(name, QueueAccessType.MOVE, caller=caller)
            assert source.queue is not None
            assert target.queue is not None
            for lookup_id in request.lookup_ids:
                position = source.queue.position(lookup_id)
                if position.state is not PositionState.AVAILABLE:
                    not_found.append(lookup_id)
                    continue
                manager.move_message(position, target.queue, transaction)
                moved += 1
        finally:
            manager.queues.close(source)
            if target is not None:
                manager.queues.close(target)
        await desk.durable()
        return pb.MoveReply(messages=moved, not_found=not_found)

    async def _open(self, queue: str, *, receive: bool, caller: Token) -> OpenQueueDescriptor:
        name = self._desk.names.format_name(queue)
        access = self._desk.reading_access(name, receive=receive)
        queues = self._desk.manager.queues
        return await self._desk.host.ask(lambda: queues.open(name, access, caller=caller))
