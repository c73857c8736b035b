"""Starting a read: R_StartReceive and R_StartTransactionalReceive (MS-MQRR 3.1.4.7, 3.1.4.13)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msmq.errors import InvalidParameterError, MQError, OperationCancelledError
from msmq.manager.mailbox.cursor import Cursor
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.readers import INFINITE
from msmq.manager.messages.transactions import Transaction
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue, ReadResult
from msmq.remote_read.actions import INFINITE_MS, SEQUENCE_MASK, Action, Meaning, meaning_of
from msmq.remote_read.handles import Handles, OpenHandle, Request
from msmq.remote_read.interface import StartReceive, StartReceiveReply, StartTransactionalReceive
from msmq.remote_read.sections import sections_of
from msmq.rpc.interface import Answer, Call, Promise

MQ_OK: Final = 0
STATUS_INVALID_HANDLE: Final = 0xC0000008

SMALL: Final = 4_096
"""Packets up to this size are kept in memory until their request ends."""
_log = logging.getLogger(__name__)
_TAKEN: Final = StartReceiveReply(0, 0, 0, None, OperationCancelledError.code)

Start = StartReceive | StartTransactionalReceive
Check = Callable[[Queue, bool], None]
"""Raises if a read of a queue is not allowed; the flag says whether the read receives."""


class Receiving:
    """Begins reads and carries them to their answers."""

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
        requests: Sequence[Start],
        *,
        check: Check | None = None,
        transaction: Transaction | None = None,
    ) -> Sequence[Answer | Exception]:
        """Serve the first of these consecutive reads, and as many after it as can be done together with it. Returns
        their answers, or promises of them.

        Receives of the first messages of a queue take them in one event, as many as there are. Any other read is begun
        by itself, and so is one that has to wait. ``check`` is given for reads in a transaction.
        """
        first = requests[0]
        meaning = meaning_of(first.ul_action, first.lookup_id, first.h_cursor, first.ul_timeout)
        if meaning is None:
            raise InvalidParameterError("These parameters do not go together.")
        handle = self.handles.find(call, first.ph_context)
        cursor: Cursor | None = None
        if first.h_cursor:
            cursor = handle.descriptor.cursors.get(first.h_cursor)
            if cursor is None:
                return (_failed(STATUS_INVALID_HANDLE),)
        queue = handle.descriptor.queue
        assert queue is not None  # the handle was found
        if check is not None:
            check(queue, meaning.receives)
        self.handles.check_room(handle, first.dw_request_id)
        made = partial(_Read, self, handle, queue, cursor, meaning, check is not None, transaction)
        if _takes_the_first(first):
            wanted = self._alike(handle, requests)
            there = self.manager.reading.take(
                handle.descriptor, len(wanted), len(wanted) * SMALL, two_phase_read=True
            )  # fmt: skip
            if len(there):
                return [
                    self._begun(made(request), there.message(place))
                    for place, request in enumerate(wanted[: len(there)])
                ]
        return (self._begun(made(first)),)

    def _alike(self, handle: OpenHandle, requests: Sequence[Start]) -> Sequence[Start]:
        """The first request, and those behind it that want the next messages of the same queue."""
        context = requests[0].ph_context
        ids = {requests[0].dw_request_id}
        for request in requests[1:]:
            request_id = request.dw_request_id
            if (
                request.ph_context != context
                or not _takes_the_first(request)
                or request_id in ids
                or not self.handles.has_room(handle, request_id, len(ids))
            ):
                break
            ids.add(request_id)
        return requests[: len(ids)]

    def _begun(self, read: _Read, taken: StoredMessage | None = None) -> Answer | Exception:
        """Put a read on the table, with its message or to look for one. Returns its answer, or the promise of one."""
        self.handles.enter(read.handle, read)
        try:
            if taken is not None:
                read.has(taken.lookup_id, taken)
            else:
                read.seek()
        except BaseException as error:
            self.handles.give_back(read.handle, read)
            if isinstance(error, MQError):
                return _failed(error.answer_code)
            if isinstance(error, Exception):
                return error
            raise
        return read.answer if read.answer is not None else read.promise()


def _takes_the_first(request: Start) -> bool:
    """Whether the request receives the first available message."""
    return request.ul_action == Action.RECEIVE and not (request.h_cursor or request.lookup_id)


class _Read(Request):
    """One read under way: the queue manager finds a message, what the answer depends on becomes durable, the answer
    leaves. Each step may happen at once or later, and the client may give up before it.

    Until there is room for its answer a read keeps only the place of its message, unless the message is small: a
    client may have hundreds of reads wait for one large message and not read the answers.
    """

    __slots__ = (
        "_alarm",
        "_cursor",
        "_meaning",
        "_place",
        "_promise",
        "_queue",
        "_receiving",
        "_request",
        "_seen",
        "_shown",
        "answer",
        "handle",
    )

    def __init__(
        self,
        receiving: Receiving,
        handle: OpenHandle,
        queue: Queue,
        cursor: Cursor | None,
        meaning: Meaning,
        transactional: bool,
        transaction: Transaction | None,
        request: Start,
    ) -> None:
        super().__init__(request.dw_request_id, receiving.now(), meaning.receives, transactional, transaction)
        self._receiving = receiving
        self._request = request
        self.handle = handle
        self._queue = queue
        self._cursor = cursor
        self._meaning = meaning
        self._seen = False
        self._place = 0
        self._shown: StoredMessage | None = None
        self._promise: Promise | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.answer: StartReceiveReply | None = None

    # --- looking for a message --------------------------------------------------------------------------

    def seek(self) -> None:
        """Look for the message that the action asks for. Only receives and peeks that find nothing wait; reads by
        lookup identifier never do."""
        request, descriptor, cursor = self._request, self.handle.descriptor, self._cursor
        reading = self._receiving.manager.reading
        if self._meaning.seek is not None:
            # The neighbour of a missing message is looked for from the place where it was, so that a client that walks
            # through a queue can go on (ruling RR4).
            self.found(
                reading.read_by_lookup_id(
                    descriptor,
                    request.lookup_id,
                    self._meaning.seek,
                    peek=not self.receives,
                    two_phase_read=self.receives,
                    from_gone=True,
                )
            )
            return
        timeout_s, tag = self._left_s(), request.dw_request_id
        if request.ul_action == Action.PEEK_NEXT:
            assert cursor is not None
            reading.peek_next(descriptor, self.found, cursor, timeout_s=timeout_s, tag=tag, most_bytes=SMALL)
            return
        start = reading.dequeue_begin if self.receives else reading.peek
        start(descriptor, self.found, timeout_s=timeout_s, cursor=cursor, tag=tag, most_bytes=SMALL)

    def _left_s(self) -> float:
        """How long the client still wants to wait."""
        timeout_ms = self._request.ul_timeout
        if timeout_ms == INFINITE_MS:
            return INFINITE
        return max(0.0, timeout_ms / 1000 - (self._receiving.now() - self.began))

    def found(self, result: ReadResult) -> None:
        """Take the answer of the queue manager."""
        if self._alarm is not None:
            self._alarm.cancel()
        if result.position is not None:
            self.has(result.position.lookup_id, result.message)
            return
        self._seen = True
        self._receiving.handles.give_back(self.handle, self)
        self._answer(_failed(result.status))

    def has(self, lookup_id: int, message: StoredMessage | None) -> None:
        """Note the message that was found, which is locked if this is a receive."""
        self._seen = True
        self._place, self._shown = lookup_id, message
        if self.receives:
            self.lookup_id = lookup_id
            if message is not None and len(message.packet.data) <= SMALL:
                self.message = message
        if self._promise is None or not self._promise.over:  # otherwise the read was given up
            self._receiving.when_durable(self._survives)
            if message is not None and len(message.packet.data) > SMALL:
                self._shown = None

    # --- answering --------------------------------------------------------------------------------------

    def _survives(self) -> None:
        """Let the answer leave when there is room for it: everything it depends on is durable."""
        promise = self._promise
        if promise is not None and promise.over:
            return
        if self.receives and self._on_table:
            # The time-out also runs for a client that does not read its answers.
            self._receiving.handles.start_cleanup(self.handle, self)
        if promise is None:
            self._make()
        else:
            promise.when_room(self._make_promised)

    def _make_promised(self) -> None:
        try:
            self._make()
        except Exception as error:
            self._receiving.handles.give_back(self.handle, self)
            assert self._promise is not None
            self._promise.answer(_failed(error.answer_code) if isinstance(error, MQError) else error)

    def _make(self) -> None:
        """Make the answer."""
        receiving, request, handle = self._receiving, self._request, self.handle
        if not self._on_table:
            self._answer(_TAKEN)  # the handle was closed meanwhile: the message belongs to others now
            return
        message = self._shown or receiving.manager.reading.show(handle.descriptor, self._place)
        if message is None:
            self._seek_again()
            return
        sections = sections_of(
            self._queue,
            message,
            receiving.manager.transactions,
            request.dw_max_body_size,
            request.dw_max_compound_message_size,
        )
        if not self.receives:
            del handle.requests[self.request_id]
        sequence_id = message.lookup_id & SEQUENCE_MASK
        self._answer(StartReceiveReply.of(message.arrival_time, sequence_id, sections))

    @property
    def _on_table(self) -> bool:
        return self.handle.requests.get(self.request_id) is self

    def _seek_again(self) -> None:
        """Look for another message. The one found is gone before it could be shown: taken by another reader, if this
        read only peeks, or damaged."""
        self._receiving.handles.not_there(self.handle, self)
        self._seen = False
        self.seek()
        if self._promise is not None:
            self._watch()

    def _answer(self, answer: StartReceiveReply) -> None:
        if self._promise is None:
            self.answer = answer
        else:
            self._promise.answer(answer)

    # --- waiting ----------------------------------------------------------------------------------------

    def promise(self) -> Promise:
        """Return a promise, because the answer did not come at once."""
        self._promise = Promise(self._abandoned, self._hurried)
        self._watch()
        return self._promise

    def _watch(self) -> None:
        """Set an alarm for the end of the wait, because the queue manager's own timers are run only now and then."""
        if not self._seen and self._request.ul_timeout != INFINITE_MS:
            self._alarm = asyncio.get_running_loop().call_later(
                self._left_s() + 0.001, self._receiving.manager.run_timers
            )

    def _hurried(self) -> None:
        """End the wait for a message, because the client asks for an early answer."""
        if not self._seen:
            self._receiving.manager.reading.cancel(self.handle.descriptor, self.request_id)

    def _abandoned(self) -> None:
        """Give up the read, because the client is gone or no longer wants an answer."""
        self._hurried()
        try:
            self._receiving.handles.give_back(self.handle, self)
        except MQError as error:  # the cleanup timer tries again
            _log.warning("a message of a reader that is gone: %s", error)


def _failed(status: int) -> StartReceiveReply:
    return StartReceiveReply(0, 0, 0, None, status)
