"""Starting a read: R_StartReceive and R_StartTransactionalReceive (MS-MQRR 3.1.4.7, 3.1.4.13)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msmq.errors import InvalidParameterError, MQError, OperationCancelledError
from msmq.manager.mailbox.cursor import Cursor
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.readers import INFINITE
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import MessageSeekAction
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue, ReadResult
from msmq.remote_read.actions import INFINITE_MS, SEQUENCE_MASK, Action, meaning_of
from msmq.remote_read.handles import Handles, OpenHandle, Request
from msmq.remote_read.interface import StartReceive, StartReceiveReply, StartTransactionalReceive
from msmq.remote_read.sections import sections_of
from msmq.rpc.interface import Call, Promise

MQ_OK: Final = 0
STATUS_INVALID_HANDLE: Final = 0xC0000008

SMALL: Final = 4_096
"""Packets up to this size are kept until the client has said what becomes of them."""
_log = logging.getLogger(__name__)
_TAKEN: Final = StartReceiveReply(0, 0, 0, None, OperationCancelledError.code)

Start = StartReceive | StartTransactionalReceive
Check = Callable[[Queue, bool], None]
"""Refuses a read of a queue that may not be done; the flag says whether it takes the message."""


class Receiving:
    """Reads that are under way."""

    def __init__(
        self, manager: QueueManager, handles: Handles, when_durable: Callable[[Callable[[], None]], None]
    ) -> None:
        self.manager = manager
        self.handles = handles
        self.when_durable = when_durable
        self.now = manager.core.environment.now

    def start(
        self,
        call: Call,
        request: Start,
        *,
        check: Check | None = None,
        transaction: Transaction | None = None,
    ) -> StartReceiveReply | Promise:
        """A read from its call to its answer, or as far as it gets now. With ``check`` it is one of a transaction."""
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
        read = _Read(self, request, handle, queue, meaning.receives)
        read.transactional = check is not None
        read.transaction = transaction
        self.handles.enter(handle, read)
        try:
            if meaning.seek is not None:
                read.found(self._look_up(request, meaning.seek, handle, receives=meaning.receives))
            else:
                self._seek(request, handle, cursor, read, receives=meaning.receives)
        except BaseException:
            self.handles.give_back(handle, read)
            raise
        return read.answer if read.answer is not None else read.promise()

    def _seek(
        self, request: Start, handle: OpenHandle, cursor: Cursor | None, read: _Read, *, receives: bool
    ) -> None:
        """The event of the queue manager that an action stands for. Only a receive that finds nothing waits."""
        reading, descriptor = self.manager.reading, handle.descriptor
        if receives and cursor is None:
            there = reading.take(descriptor, 1, 1, two_phase_read=True)
            if len(there):
                read.has(there.message(0))
                return
        timeout_s = INFINITE if request.ul_timeout == INFINITE_MS else request.ul_timeout / 1000
        if request.ul_action == Action.PEEK_NEXT:
            assert cursor is not None
            reading.peek_next(descriptor, read.found, cursor, timeout_s=timeout_s, tag=request.dw_request_id)
            return
        start = reading.dequeue_begin if receives else reading.peek
        start(descriptor, read.found, timeout_s=timeout_s, cursor=cursor, tag=request.dw_request_id)

    def _look_up(
        self, request: Start, seek: MessageSeekAction, handle: OpenHandle, *, receives: bool
    ) -> ReadResult:
        """By lookup identifier; never waits. The neighbour of a message that is gone is looked for from the place where
        it was, so that who walks a queue can go on (ruling RR4)."""
        return self.manager.reading.read_by_lookup_id(
            handle.descriptor,
            request.lookup_id,
            seek,
            peek=not receives,
            two_phase_read=receives,
            from_gone=True,
        )


class _Read(Request):
    """One read on its way: the queue manager answers, what the answer rests on becomes durable, the answer leaves. Each
    of these comes at once or later, and the client may have given up before."""

    __slots__ = (
        "_alarm",
        "_handle",
        "_promise",
        "_queue",
        "_receiving",
        "_reply",
        "_request",
        "_seen",
        "answer",
    )

    def __init__(
        self, receiving: Receiving, request: Start, handle: OpenHandle, queue: Queue, receives: bool
    ) -> None:
        super().__init__(request.dw_request_id, receiving.now(), receives)
        self._receiving = receiving
        self._request = request
        self._handle = handle
        self._queue = queue
        self._seen = False
        self._reply: StartReceiveReply | None = None
        self._promise: Promise | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.answer: StartReceiveReply | None = None

    def found(self, result: ReadResult) -> None:
        """The queue manager has answered."""
        if self._alarm is not None:
            self._alarm.cancel()
        if result.message is not None:
            self.has(result.message)
            return
        self._seen = True
        self._receiving.handles.give_back(self._handle, self)
        self._answer(_failed(result.status))

    def has(self, message: StoredMessage) -> None:
        """A message was found, and is locked if this is a receive."""
        self._seen = True
        if self.receives:
            self.lookup_id = message.lookup_id
            if message.packet.size <= SMALL:
                self.message = message
        promise, receiving, request = self._promise, self._receiving, self._request
        if promise is not None and promise.over:
            return  # who gave the read up gives the message back
        try:
            sections = sections_of(
                self._queue,
                message,
                receiving.manager.transactions,
                request.dw_max_body_size,
                request.dw_max_compound_message_size,
            )
        except Exception as error:
            if promise is None:
                raise
            receiving.handles.give_back(self._handle, self)
            promise.answer(_failed(error.code) if isinstance(error, MQError) else error)
            return
        sequence_id = message.lookup_id & SEQUENCE_MASK
        self._reply = StartReceiveReply.of(message.arrival_time, sequence_id, sections)
        receiving.when_durable(self._survives)

    def _survives(self) -> None:
        """Everything the answer rests on will survive: it may leave."""
        promise, requests = self._promise, self._handle.requests
        if promise is not None and promise.over:
            return
        answer = self._reply
        if requests.get(self.request_id) is not self:
            answer = _TAKEN  # closed meanwhile: what it had is somebody else's now
        elif self.receives:
            self._receiving.handles.start_cleanup(self._handle, self)
        else:
            del requests[self.request_id]
        assert answer is not None
        self._answer(answer)

    def _answer(self, answer: StartReceiveReply) -> None:
        if self._promise is None:
            self.answer = answer
        else:
            self._promise.answer(answer)

    # --- waiting ----------------------------------------------------------------------------------------

    def promise(self) -> Promise:
        """The answer did not come at once."""
        self._promise = Promise(self._abandoned, self._hurried)
        timeout_ms = self._request.ul_timeout
        if not self._seen and timeout_ms != INFINITE_MS:
            # The queue manager's own timers are looked at now and then; this one is to be on time.
            self._alarm = asyncio.get_running_loop().call_later(
                timeout_ms / 1000 + 0.001, self._receiving.manager.run_timers
            )
        return self._promise

    def _hurried(self) -> None:
        """A client that asks for an early answer ends the wait for a message."""
        if not self._seen:
            self._receiving.manager.reading.cancel(self._handle.descriptor, self.request_id)

    def _abandoned(self) -> None:
        """The client is gone, or wants no answer any more."""
        self._hurried()
        try:
            self._receiving.handles.give_back(self._handle, self)
        except MQError as error:  # it is tried again
            _log.warning("a message of a reader that is gone: %s", error)


def _failed(status: int) -> StartReceiveReply:
    return StartReceiveReply(0, 0, 0, None, status)
