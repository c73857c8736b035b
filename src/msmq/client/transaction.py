"""Transactions: all or nothing, over any number of queues."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.message import Message, Receipt, ReceivedMessage
from msmq.client.problems import ConnectionLostError, OutcomeUnknownError
from msmq.client.properties import MessageProperties
from msmq.client.receiver import Receiver
from msmq.client.stream import Stream
from msmq.errors import MsmqError, OperationCancelledError, TransactionSequenceError
from msmq.wire.bodies import Body

if TYPE_CHECKING:
    from msmq.client.connection import Connection
    from msmq.client.queue import Queue

_T = TypeVar("_T")
_NOT_OPEN: Final = "The transaction has ended, or was not begun."


class Transaction:
    """``async with mq.transaction() as tx:`` commits at the end of the block, and aborts if the block raises.

    A broken connection aborts it. If the connection breaks between the request to commit and the answer, the outcome is
    unknown and :class:`~msmq.client.problems.OutcomeUnknownError` is raised.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream: Stream | None = None
        self._answer: asyncio.Future[pb.TransactReply] | None = None
        self._error: MsmqError | None = None
        self._ended = False
        self._identifier = b""
        self._receivers: dict[str, Receiver] = {}
        self._loose: list[asyncio.Future[Any]] = []
        """Calls that take messages and were cancelled before their answer."""
        self._doomed = False
        self._taken: list[ReceivedMessage] = []
        """The messages that were received in it, if there is a watcher."""

    @property
    def identifier(self) -> bytes:
        """Its identifier on the channel, while it is open."""
        self.check_open()
        return self._identifier

    def check_open(self) -> None:
        """Raise the reason why it is no longer open, if it is not. A call that names it may reach a queue manager that
        was restarted meanwhile and does not know it; then this is what to tell the program."""
        if self._stream is None or self._stream.over:
            if isinstance(self._error, ConnectionLostError) and not self._ended:
                raise ConnectionLostError("The connection broke, and the transaction with it.")
            raise TransactionSequenceError(_NOT_OPEN)

    async def begin(self) -> Self:
        self._stream = await self._connection.stream("Transact", self._received, self._lost)
        try:
            reply = await self._ask(pb.TransactRequest(begin=pb.Begin()))
        except BaseException:
            self._stream.cancel()
            raise
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
        """Commit. Returns when that is durable."""
        if self._ended or self._stream is None:
            raise TransactionSequenceError(_NOT_OPEN)
        if self._stream.over:
            raise self._error or ConnectionLostError("The transaction has ended.")
        with self._settling("commit"):
            await self._commit(self._stream)

    async def _commit(self, stream: Stream) -> None:
        try:
            await self._collect()
        except BaseException:
            stream.cancel()  # this aborts the transaction
            raise
        try:
            await self._ask(pb.TransactRequest(commit=pb.Commit()))
        except ConnectionLostError as error:
            raise OutcomeUnknownError("The connection broke while the transaction was committed.") from error
        self._ended = True
        await stream.close()

    async def _collect(self) -> None:
        """Make sure that the program got each message that was taken in the transaction. If a receive was cancelled
        while its message was on the way, a commit would lose that message."""
        lost = self._doomed
        for receiver in self._receivers.values():
            lost = await receiver.left_over() or lost
        for call in self._loose:
            await asyncio.wait({call})
            lost = lost or (not call.cancelled() and call.exception() is None)
        if lost:
            raise OperationCancelledError(
                "A receive in this transaction was cancelled when its message was under way already, so the "
                "transaction was aborted and everything is as it was before."
            )

    async def abort(self) -> None:
        """Undo everything that was done in the transaction."""
        if self._stream is None or self._stream.over:
            return
        with self._settling("abort"):
            await self._abort(self._stream)

    async def _abort(self, stream: Stream) -> None:
        try:
            await self._ask(pb.TransactRequest(abort=pb.Abort()))
            self._ended = True
            await stream.close()
        finally:
            stream.cancel()  # this aborts the transaction too, if it is still open
            for receiver in self._receivers.values():
                receiver.leave()

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if not self._ended:  # otherwise the block has committed or aborted itself
                await self.commit()
            return
        with suppress(MsmqError):
            await self.abort()

    @contextmanager
    def _settling(self, how: str) -> Iterator[None]:
        """Report the end of the transaction as the settlement of the messages received in it."""
        watcher = self._connection.watcher
        if watcher is None or not self._taken:
            yield
            return
        settlement = watcher.settling(how, "", self._taken)
        try:
            yield
        except BaseException as error:
            settlement.end(error)
            raise
        settlement.end()

    def took(self, message: ReceivedMessage) -> None:
        """Note a message that was received in the transaction, for the watcher."""
        self._taken.append(message)

    async def taking(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Make a call that takes a message. If it is cancelled, the commit will find out whether it took one."""
        made = asyncio.ensure_future(call)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            self._loose.append(made)
            raise
        except TransactionSequenceError:
            self.check_open()
            raise

    # --- operations in the transaction --------------------------------------------------------------------------

    async def send(
        self, queue: Queue | str, message: Message | Body, **properties: Unpack[MessageProperties]
    ) -> Receipt:
        """Send in this transaction."""
        return await self._queue(queue).send(message, transaction=self, **properties)

    async def receive(self, queue: Queue | str, timeout: float | None = None) -> ReceivedMessage:
        """Receive in this transaction: the message leaves the queue with the commit, and is back after an abort. If a
        call is cancelled when its message is on the way, the next call returns it."""
        name, identifier = self._queue(queue).name, self.identifier
        receiver = self._receivers.get(name)
        if receiver is None:
            receiver = Receiver(self._connection, name, prefetch=1, transaction=identifier)
            self._receivers[name] = receiver
        try:
            message = await receiver.receive(timeout)
        except TransactionSequenceError:
            self.check_open()
            raise
        if self._connection.watcher is not None:
            self.took(message)
        return message

    def doom(self) -> None:
        """Forbid the commit: a message that was taken did not reach the program, and no other call can return it."""
        self._doomed = True

    def take_back(self, message: ReceivedMessage) -> None:
        """Let the next call return a message again that was received and did not reach the program."""
        self._receivers[message.queue].take_back(message)
        if message in self._taken:
            self._taken.remove(message)

    def _queue(self, queue: Queue | str) -> Queue:
        return self._connection.queue(queue) if isinstance(queue, str) else queue
