"""Starting a read: R_StartReceive and R_StartTransactionalReceive (MS-MQRR 3.1.4.7, 3.1.4.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msmq.errors import InvalidParameterError, OperationCancelledError
from msmq.manager.cursor import Cursor
from msmq.manager.queue import Queue, ReadDone, ReadResult
from msmq.manager.queue_manager import QueueManager
from msmq.manager.reading import INFINITE
from msmq.manager.transactions import Transaction
from msmq.remote_read.actions import INFINITE_MS, SEQUENCE_MASK, Action, Meaning, meaning_of
from msmq.remote_read.handles import Handles, OpenHandle, Request
from msmq.remote_read.interface import StartReceive, StartReceiveReply, StartTransactionalReceive
from msmq.remote_read.packing import sections_of
from msmq.rpc.interface import Call

MQ_OK: Final = 0
STATUS_INVALID_HANDLE: Final = 0xC0000008

Start = StartReceive | StartTransactionalReceive
Check = Callable[[Queue, bool], None]
"""Refuses a read of a queue that may not be done; the flag says whether it takes the message."""


class Receiving:
    """Reads that are under way."""

    def __init__(
        self, manager: QueueManager, handles: Handles, durable: Callable[[], Awaitable[None]]
    ) -> None:
        self.manager = manager
        self.handles = handles
        self.durable = durable

    async def start(
        self,
        call: Call,
        request: Start,
        *,
        check: Check | None = None,
        transaction: Transaction | None = None,
    ) -> StartReceiveReply:
        """A read from its call to its answer. With ``check`` it is one of a transaction."""
        meaning = meaning_of(request.ul_action, request.lookup_id, request.h_cursor, request.ul_timeout)
        if meaning is None:
            raise InvalidParameterError("These parameters do not go together.")
        handle = self.handles.find(call, request.ph_context)
        cursor: Cursor | None = None
        if request.h_cursor:
            cursor = handle.descriptor.cursors.get(request.h_cursor)
            if cursor is None:
                return _failed(STATUS_INVALID_HANDLE)
        queue = handle.descriptor.queue
        assert queue is not None  # the handle was found
        if check is not None:
            check(queue, meaning.receives)
        entry = self.handles.begin(handle, request.dw_request_id, receives=meaning.receives)
        entry.transactional = check is not None
        entry.transaction = transaction
        answered = False
        try:
            result = await self._read(call, request, meaning, handle, cursor, entry)
            if result.message is None:
                return _failed(result.status)
            reply = self._reply(request, queue, result)
            await self.durable()
            answered = handle.requests.get(entry.request_id) is entry
            # Closed meanwhile: what it had is somebody else's now.
            return reply if answered else _failed(OperationCancelledError.code)
        finally:
            if meaning.receives and answered:
                self.handles.start_cleanup(handle, entry)
            else:
                self.handles.give_back(handle, entry)

    def _reply(self, request: Start, queue: Queue, result: ReadResult) -> StartReceiveReply:
        message = result.message
        assert message is not None
        sections = sections_of(
            queue,
            message,
            self.manager.transactions,
            request.dw_max_body_size,
            request.dw_max_compound_message_size,
        )
        return StartReceiveReply(
            message.arrival_time, message.lookup_id & SEQUENCE_MASK, len(sections), sections, MQ_OK
        )

    async def _read(
        self,
        call: Call,
        request: Start,
        meaning: Meaning,
        handle: OpenHandle,
        cursor: Cursor | None,
        entry: Request,
    ) -> ReadResult:
        """The event of the queue manager that an action stands for, and its result."""
        if meaning.seek is not None:
            return self._look_up(request, meaning, handle, entry)
        reading = self.manager.reading
        timeout_s = INFINITE if request.ul_timeout == INFINITE_MS else request.ul_timeout / 1000

        def begin(done: ReadDone) -> None:
            if request.ul_action == Action.PEEK_NEXT:
                assert cursor is not None
                reading.peek_next(handle.descriptor, done, cursor, timeout_s=timeout_s, tag=entry.request_id)
                return
            start = reading.dequeue_begin if meaning.receives else reading.peek
            start(handle.descriptor, done, timeout_s=timeout_s, cursor=cursor, tag=entry.request_id)

        return await self._wait_for(call, handle, entry, begin, timeout_s)

    def _look_up(self, request: Start, meaning: Meaning, handle: OpenHandle, entry: Request) -> ReadResult:
        """By lookup identifier; never waits. The neighbour of a message that is gone is looked for from the place where
        it was, so that who walks a queue can go on (ruling RR4)."""
        seek = meaning.seek
        assert seek is not None
        result = self.manager.reading.read_by_lookup_id(
            handle.descriptor,
            request.lookup_id,
            seek,
            peek=not meaning.receives,
            two_phase_read=meaning.receives,
            from_gone=True,
        )
        _learn(entry, result)
        return result

    async def _wait_for(
        self,
        call: Call,
        handle: OpenHandle,
        entry: Request,
        begin: Callable[[ReadDone], None],
        timeout_s: float,
    ) -> ReadResult:
        """The result of a read that may wait. A client that asks for an early answer or is gone ends the wait."""
        results: list[ReadResult] = []
        waiting: asyncio.Future[None] | None = None

        def done(result: ReadResult) -> None:
            results.append(result)
            _learn(entry, result)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

        begin(done)
        if results:
            return results[0]
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        # The queue manager's own timers are looked at now and then; this one is to be on time.
        alarm = loop.call_later(timeout_s + 0.001, self.manager.run_timers) if timeout_s != INFINITE else None
        early = loop.create_task(call.cancelled.wait())
        try:
            await asyncio.wait((waiting, early), return_when=asyncio.FIRST_COMPLETED)
        finally:
            early.cancel()
            if alarm is not None:
                alarm.cancel()
            if not results:
                self.manager.reading.cancel(handle.descriptor, entry.request_id)
        return results[0]


def _learn(entry: Request, result: ReadResult) -> None:
    """Which message a receive has locked, from the very moment it is."""
    if entry.receives and result.message is not None:
        entry.lookup_id = result.message.lookup_id


def _failed(status: int) -> StartReceiveReply:
    return StartReceiveReply(0, 0, 0, None, status)
