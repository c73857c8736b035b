"""Transactions: everything or nothing, over any number of queues."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.bodies import Body
from msmq.client.message import Message, Receipt, ReceivedMessage
from msmq.client.problems import ConnectionLostError, OutcomeUnknownError
from msmq.client.stream import Stream
from msmq.errors import MsmqError, TransactionSequenceError

if TYPE_CHECKING:
    from msmq.client.connection import Connection
    from msmq.client.queue import Queue


class Transaction:
    """``async with mq.transaction() as tx:`` commits at the end of the block, and aborts if the block raises.

    A connection that breaks aborts it. If it breaks between the wish to commit and the answer, the outcome is unknown,
    and :class:`~msmq.client.problems.OutcomeUnknownError` says so.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream: Stream | None = None
        self._answer: asyncio.Future[pb.TransactReply] | None = None
        self._error: MsmqError | None = None
        self._ended = False
        self._identifier = b""

    @property
    def identifier(self) -> bytes:
        """Its name on the channel, while it is open."""
        if self._stream is None or self._stream.over:
            if isinstance(self._error, ConnectionLostError) and not self._ended:
                raise ConnectionLostError("The connection broke, and the transaction with it.")
            raise TransactionSequenceError("The transaction has ended, or was not begun.")
        return self._identifier

    async def begin(self) -> Self:
        self._stream = await self._connection.stream("Transact", self._received, self._lost)
        reply = await self._ask(pb.TransactRequest(begin=pb.Begin()))
        self._identifier = reply.transaction
        return self

    def _received(self, reply: pb.TransactReply) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    def _lost(self, error: MsmqError) -> None:
        self._error = error
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    async def _ask(self, request: pb.TransactRequest) -> pb.TransactReply:
        if self._stream is None or self._stream.over:
            raise self._error or ConnectionLostError("The transaction has ended.")
        self._answer = asyncio.get_running_loop().create_future()
        self._stream.put(request)
        return await self._answer

    async def commit(self) -> None:
        """Make everything true; returns when that is durable."""
        if self._stream is None or self._stream.over:
            raise self._error or ConnectionLostError("The transaction has ended.")
        try:
            await self._ask(pb.TransactRequest(commit=pb.Commit()))
        except ConnectionLostError as error:
            raise OutcomeUnknownError("The connection broke while the transaction was committed.") from error
        self._ended = True
        await self._stream.close()

    async def abort(self) -> None:
        """Undo everything."""
        if self._stream is None or self._stream.over:
            return
        await self._ask(pb.TransactRequest(abort=pb.Abort()))
        self._ended = True
        await self._stream.close()

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
            return
        try:
            await self.abort()
        except MsmqError:
            if self._stream is not None:
                self._stream.cancel()  # which aborts it too

    # --- the same as on the queue, in here ----------------------------------------------------------------------

    async def send(self, queue: Queue | str, message: Message | Body, **properties: Any) -> Receipt:
        """Send in this transaction."""
        return await self._queue(queue).send(message, transaction=self, **properties)

    async def receive(self, queue: Queue | str, timeout: float | None = None) -> ReceivedMessage:
        """Receive in this transaction: the message is gone with the commit, and back with an abort."""
        return await self._queue(queue).receive(timeout, transaction=self)

    def _queue(self, queue: Queue | str) -> Queue:
        return self._connection.queue(queue) if isinstance(queue, str) else queue
