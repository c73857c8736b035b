"""An open queue on another host and its operations (MS-MQRR 3.2.4.3 to 3.2.4.13).

A receive has two halves. ``begin_receive`` returns a message that stays locked on the server until it is ended:
``acknowledge`` removes it, ``give_back`` returns it to its place, and so does the server when we are gone. ``receive``
is both halves at once: it acknowledges as soon as the message has been reassembled here.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msmq.errors import (
    BufferOverflowError,
    DecodeError,
    MessageStorageFailedError,
    MQError,
    TransactionUsageError,
)
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import INFINITE_MS, Action
from msmq.remote_read.failures import call, check_status, error_of
from msmq.remote_read.remote_message import WHOLE, RemoteMessage, read_message
from msmq.rpc.client import Awaiting
from msmq.rpc.interface import Operation
from msmq.rpc.status import RpcConnectionError, RpcFault
from msmq.wire.queue_format import QueueFormat

if TYPE_CHECKING:
    from msmq.remote_read.session import Access, RemoteHost

_START: Final = idl.R_START_RECEIVE
_log = logging.getLogger(__name__)


class BodyTooLargeError(BufferOverflowError):
    """The body is longer than the caller has room for. ``partial`` has what fits; the message stays in its queue."""

    def __init__(self, partial: RemoteMessage) -> None:
        super().__init__(f"The body has {partial.body_size} bytes.")
        self.partial = partial


@dataclass(eq=False, slots=True)
class PendingMessage:
    """A message that was received and is not yet acknowledged."""

    message: RemoteMessage
    queue: RemoteQueue
    request_id: int
    transaction: bytes | None = None
    _ended: bool = False

    async def acknowledge(self) -> None:
        """Keep the message: the server removes it, in a transaction when that is committed."""
        await self._end(idl.RR_ACK)

    async def give_back(self) -> None:
        """Return the message: the server puts it back in its place."""
        await self._end(idl.RR_NACK)

    async def reject(self) -> None:
        """Acknowledge the message and have its sender told that it was rejected; only in a transaction."""
        if self.transaction is None:
            raise TransactionUsageError("Only a message that was received in a transaction can be rejected.")
        await self.acknowledge()
        await self.queue.reject(self.message.lookup_id)

    async def _end(self, ack: int) -> None:
        if not self._ended:
            self._ended = True
            await self.queue.end(self.request_id, ack, transactional=self.transaction is not None)


@dataclass(eq=False, slots=True)
class RemoteCursor:
    """A cursor of a remote queue."""

    queue: RemoteQueue
    handle: int
    requests: set[int] = field(default_factory=set)
    """Reads with this cursor that wait."""

    async def peek(self, *, timeout_s: float | None = 0, max_body: int = WHOLE) -> RemoteMessage:
        """Read the message at the cursor."""
        return await self.queue.read(Action.PEEK_CURRENT, cursor=self, timeout_s=timeout_s, max_body=max_body)

    async def peek_next(self, *, timeout_s: float | None = 0, max_body: int = WHOLE) -> RemoteMessage:
        """Move to the next message and read it."""
        return await self.queue.read(Action.PEEK_NEXT, cursor=self, timeout_s=timeout_s, max_body=max_body)

    async def receive(
        self, *, timeout_s: float | None = 0, transaction: bytes | None = None
    ) -> RemoteMessage:  # fmt: skip
        """Receive the message at the cursor."""
        return await self.queue.receive(cursor=self, timeout_s=timeout_s, transaction=transaction)

    async def close(self) -> None:
        """Cancel the reads that wait with it, and close it."""
        await self.queue.close_cursor(self)


@dataclass(eq=False, slots=True)
class MoveTarget:
    """A queue opened as the destination of moves."""

    host: RemoteHost
    handle: bytes
    context: int

    async def close(self) -> None:
        reply = await call(self.host.client, idl.R_CLOSE_QUEUE, idl.OnHandle(self.handle))
        check_status(reply.status)


class RemoteQueue:
    """A queue opened by `RemoteHost.open`. Many tasks may call it at once."""

    def __init__(self, host: RemoteHost, handle: bytes, form: QueueFormat, access: Access) -> None:
        self.host = host
        self.handle = handle
        self.form = form
        self.access = access
        self.cursors: dict[int, RemoteCursor] = {}
        self.waiting: set[int] = set()
        """Reads that wait for their answer on the server."""
        self.enlisted: set[bytes] = set()
        self._request_id = 0

    # --- peek and receive -------------------------------------------------------------------------------

    def peek(
        self,
        lookup_id: int = 0,
        action: Action = Action.PEEK_CURRENT,
        *,
        timeout_s: float | None = 0,
        max_body: int = WHOLE,
    ) -> Coroutine[Any, Any, RemoteMessage]:
        """Peek at the first message, or with ``lookup_id`` at the one that ``action`` finds from there. A
        ``timeout_s`` of None waits without limit."""
        return self.read(action, lookup_id=lookup_id, timeout_s=timeout_s, max_body=max_body)

    async def receive(
        self,
        lookup_id: int = 0,
        action: Action = Action.RECEIVE,
        *,
        cursor: RemoteCursor | None = None,
        timeout_s: float | None = 0,
        max_body: int = WHOLE,
        transaction: bytes | None = None,
    ) -> RemoteMessage:
        """Receive a message and acknowledge it.

        If the body is larger than ``max_body``, the message goes back to its place and BodyTooLargeError is raised. If
        the acknowledgment fails, that is logged and the message returned, as in Windows; the message may come again.
        In a transaction that failure is raised.
        """
        request_id = self._next_request()
        message = await self._locked(action, lookup_id, cursor, timeout_s, request_id, max_body, transaction)
        if message.body_read < message.body_size:
            await self.end(request_id, idl.RR_NACK, transactional=transaction is not None)
            raise BodyTooLargeError(message)
        try:
            await self.end(request_id, idl.RR_ACK, transactional=transaction is not None)
        except MQError as error:
            if transaction is not None:
                raise
            _log.warning("a message was received and its acknowledgment failed: %s", error)
        return message

    async def begin_receive(
        self,
        lookup_id: int = 0,
        action: Action = Action.RECEIVE,
        *,
        cursor: RemoteCursor | None = None,
        timeout_s: float | None = 0,
        max_body: int = WHOLE,
        transaction: bytes | None = None,
        started: Callable[[int], None] | None = None,
    ) -> PendingMessage:
        """Receive without acknowledging. ``started`` is called with the request id, for `cancel`."""
        request_id = self._next_request()
        if started is not None:
            started(request_id)
        message = await self._locked(action, lookup_id, cursor, timeout_s, request_id, max_body, transaction)
        return PendingMessage(message, self, request_id, transaction)

    async def _locked(
        self,
        action: Action,
        lookup_id: int,
        cursor: RemoteCursor | None,
        timeout_s: float | None,
        request_id: int,
        max_body: int,
        transaction: bytes | None,
    ) -> RemoteMessage:
        """Receive without acknowledging. A message that cannot be decoded is given back."""
        stub = await self._begin(action, lookup_id, cursor, timeout_s, request_id, max_body, transaction)
        try:
            return self.message_in(stub, max_body)
        except DecodeError as error:
            await self.end(request_id, idl.RR_NACK, transactional=transaction is not None)
            raise MessageStorageFailedError(f"The message cannot be put together: {error}") from error

    async def read(
        self,
        action: Action,
        *,
        lookup_id: int = 0,
        cursor: RemoteCursor | None = None,
        timeout_s: float | None = 0,
        max_body: int = WHOLE,
        started: Callable[[int], None] | None = None,
    ) -> RemoteMessage:
        """Peek with any action. A peek needs no acknowledgment."""
        request_id = self._next_request()
        if started is not None:
            started(request_id)
        stub = await self._begin(action, lookup_id, cursor, timeout_s, request_id, max_body, None)
        try:
            return self.message_in(stub, max_body)
        except DecodeError as error:
            raise MessageStorageFailedError(f"The message cannot be put together: {error}") from error

    def begin_peek(self, lookup_id: int, action: Action, answer: Awaiting, max_body: int = WHOLE) -> None:
        """Begin a peek by lookup identifier whose answer goes to ``answer``, for `message_in` to decode; see
        `RpcClient.begin`."""
        stub = self._start_stub(action, lookup_id, 0, 0, self._next_request(), max_body)
        try:
            self.host.client.begin(_START, stub, answer)
        except RpcConnectionError as error:
            answer.set_exception(error)

    def message_in(self, stub: bytes, max_body: int) -> RemoteMessage:
        """The message in the answer to a start. Raises DecodeError if it cannot be reassembled."""
        client = self.host.client
        try:
            reply, _ = idl.StartReceiveReply.decode(stub, client.ndr64(_START))
        except DecodeError as error:
            raise error_of(client.nonsense(_START, error), _START.name) from error
        if reply.status:
            check_status(reply.status)
        return read_message(reply, max_body)

    def _next_request(self) -> int:
        self._request_id = self._request_id % 0xFFFFFFFF + 1
        return self._request_id

    def _start_stub(
        self, action: Action, lookup_id: int, cursor: int, timeout_ms: int, request_id: int, max_body: int
    ) -> bytes:
        return idl.StartReceive(
            self.handle, lookup_id, cursor, action, timeout_ms, request_id, max_body, WHOLE
        ).encode()  # fmt: skip

    async def _begin(
        self,
        action: Action,
        lookup_id: int,
        cursor: RemoteCursor | None,
        timeout_s: float | None,
        request_id: int,
        max_body: int,
        transaction: bytes | None,
    ) -> bytes:
        """Call R_StartReceive, or R_StartTransactionalReceive in a transaction. Returns the stub of the answer."""
        timeout_ms = INFINITE_MS if timeout_s is None else min(int(timeout_s * 1000), INFINITE_MS - 1)
        cursor_handle = cursor.handle if cursor is not None else 0
        operation: Operation[Any, idl.StartReceiveReply] = _START
        if transaction is None:
            stub = self._start_stub(action, lookup_id, cursor_handle, timeout_ms, request_id, max_body)
        else:
            operation = idl.R_START_TRANSACTIONAL_RECEIVE
            stub = idl.StartTransactionalReceive(
                self.handle, lookup_id, cursor_handle, action, timeout_ms, request_id, max_body, WHOLE, transaction
            ).encode()  # fmt: skip
        if timeout_ms:
            self.waiting.add(request_id)
            if cursor is not None:
                cursor.requests.add(request_id)
        try:
            return await self.host.client.call_stub(operation, stub)
        except (RpcFault, RpcConnectionError) as error:
            raise error_of(error, operation.name) from error
        finally:
            if timeout_ms:
                self.waiting.discard(request_id)
                if cursor is not None:
                    cursor.requests.discard(request_id)

    async def end(self, request_id: int, ack: int, *, transactional: bool = False) -> None:
        """Call R_EndReceive, or R_EndTransactionalReceive."""
        operation = idl.R_END_TRANSACTIONAL_RECEIVE if transactional else idl.R_END_RECEIVE
        reply = await call(self.host.client, operation, idl.EndReceive(self.handle, ack, request_id))
        check_status(reply.status)

    async def cancel(self, request_id: int) -> None:
        """Cancel a read that waits (3.2.4.11); it fails with MQ_ERROR_OPERATION_CANCELLED."""
        reply = await call(
            self.host.client, idl.R_CANCEL_RECEIVE, idl.CancelReceive(self.handle, request_id)
        )  # fmt: skip
        check_status(reply.status)

    # --- transactions -----------------------------------------------------------------------------------

    @staticmethod
    def internal_transaction() -> bytes:
        """A new identifier for a transaction of one message, which needs no coordinator."""
        return uuid.uuid4().bytes_le

    async def enlist(self, uow: bytes, token: bytes, name: str) -> None:
        """Enlist the server in a transaction, before receiving or moving in it (3.2.4.2)."""
        await self.host.enlist(uow, token, name)
        self.enlisted.add(uow)

    async def reject(self, lookup_id: int) -> None:
        """Mark a message of an open transaction as rejected (3.2.4.5)."""
        request = idl.SetUserAcknowledgementClass(self.handle, lookup_id, idl.REJECTED_CLASS)
        reply = await call(self.host.client, idl.R_SET_USER_ACKNOWLEDGEMENT_CLASS, request)
        check_status(reply.status)

    async def move(self, lookup_id: int, target: MoveTarget, transaction: bytes | None = None) -> None:
        """Move a message between a queue and its subqueue, or between two subqueues (3.2.4.6)."""
        if transaction is not None and transaction not in self.enlisted:
            raise TransactionUsageError("Enlist the server in the transaction first.")
        request = idl.MoveMessage(
            self.handle, target.context, lookup_id, transaction or idl.NO_TRANSACTION
        )  # fmt: skip
        reply = await call(self.host.client, idl.R_MOVE_MESSAGE, request)
        check_status(reply.status)

    # --- the rest ---------------------------------------------------------------------------------------

    async def purge(self) -> None:
        """Delete all messages of the queue."""
        reply = await call(self.host.client, idl.R_PURGE_QUEUE, idl.OnHandle(self.handle))
        check_status(reply.status)

    async def create_cursor(self) -> RemoteCursor:
        reply = await call(self.host.client, idl.R_CREATE_CURSOR, idl.OnHandle(self.handle))
        check_status(reply.status)
        cursor = self.cursors[reply.ph_cursor] = RemoteCursor(self, reply.ph_cursor)
        return cursor

    async def close_cursor(self, cursor: RemoteCursor) -> None:
        for request_id in list(cursor.requests):
            await self.cancel_quietly(request_id)
        self.cursors.pop(cursor.handle, None)
        request = idl.CloseCursor(self.handle, cursor.handle)
        reply = await call(self.host.client, idl.R_CLOSE_CURSOR, request)
        check_status(reply.status)

    async def cancel_quietly(self, request_id: int) -> None:
        """Cancel a read that may have been answered meanwhile; errors are ignored."""
        try:
            await self.cancel(request_id)
        except MQError as error:
            _log.debug("nothing to cancel: %s", error)

    async def close(self) -> None:
        """Cancel waiting reads, close the cursors and the queue (3.2.4.13). Does nothing the second time."""
        if self not in self.host.queues:
            return
        self.host.queues.discard(self)
        for request_id in list(self.waiting):
            await self.cancel_quietly(request_id)
        for cursor in list(self.cursors.values()):
            await self.close_cursor(cursor)
        reply = await call(self.host.client, idl.R_CLOSE_QUEUE, idl.OnHandle(self.handle))
        check_status(reply.status)
