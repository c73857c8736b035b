"""Receive from one queue: messages are fetched ahead, and are held until they are settled.

When the connection breaks, everything that was held goes back to the queue. The receiver opens the queue again and goes
on; it drops what it had fetched and not yet handed out, since that will come again.

Every call may be cancelled at any time. A message leaves the receiver in the same step in which the call returns it, so
a cancelled call has left it where the next call finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from msmq.api import status
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.client.message import ReceivedMessage
from msmq.client.problems import ConnectionLostError, OutcomeUnknownError, ServerNotAvailableError
from msmq.client.stream import Stream
from msmq.client.timeouts import milliseconds
from msmq.errors import (
    IoTimeoutError,
    MessageNotFoundError,
    MQError,
    MsmqError,
    QueueNotFoundError,
    RemoteMachineNotAvailableError,
)

if TYPE_CHECKING:
    from msmq.client.connection import Connection, RemoteAccess
    from msmq.client.watcher import Settlement

_LONG_S: Final = 86_400.0
_log = logging.getLogger(__name__)


class Mode(IntEnum):
    """What receiving does to the messages of the queue."""

    HOLD = 0
    """A message is held until it is acknowledged or rejected."""
    TAKE = 1
    """A message leaves the queue when it is read; if it is lost on its way to this program, it is gone."""
    PEEK = 2
    """Messages are shown and stay in the queue."""


class Receiver:
    """Receives the messages of one queue: ``async with queue.receiver() as receiver: async for message in receiver:
    ...``."""

    def __init__(
        self,
        connection: Connection,
        queue: str,
        *,
        mode: Mode = Mode.HOLD,
        prefetch: int = 256,
        exclusive: bool = False,
        transaction: bytes = b"",
        retry_delay_ms: int | None = None,
        max_deliveries: int | None = None,
        poison_subqueue: str | None = None,
    ) -> None:
        self._connection = connection
        self.queue = queue
        self._watcher = connection.watcher if mode is not Mode.PEEK else None
        self._mode = mode
        self._prefetch = prefetch
        self._exclusive = exclusive
        self._retry = (retry_delay_ms, max_deliveries, poison_subqueue)
        self._transaction = transaction
        self._stream: Stream | None = None
        self._elsewhere: tuple[RemoteAccess, pb.QueuePlace] | None = None
        """The place of the queue, if it is on another computer."""
        self._opened: asyncio.Future[None] | None = None
        self._ready: deque[ReceivedMessage] = deque()
        self._arrived = asyncio.Event()
        self._credit = 0
        self._timed_out = False
        self._error: MsmqError | None = None
        self._life = 0
        self._in_use = False
        """True once the queue has been open."""
        self._shown = 0
        self._settling: deque[tuple[int, list[asyncio.Future[None]]]] = deque()
        """Requests without a reply yet: how many messages each settles, and who waits for it."""
        self._to_acknowledge: list[int] = []
        self._acknowledging: list[asyncio.Future[None]] = []
        self._lives: dict[int, int] = {}
        """The life of the stream in which each held message came."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:  # a task that was cancelled waits for nobody
            self.leave()

    async def close(self) -> None:
        """Close the receiver. Messages that were not settled go back to their positions."""
        self.leave()
        if self._stream is not None:
            await self._stream.close()

    def leave(self) -> None:
        """Close without waiting."""
        self._flush()
        if self._stream is not None:
            self._stream.end()

    async def _open(self) -> None:
        """Open the queue, and wait for the connection if necessary; raises the error that the queue manager reports."""
        if self._stream is not None and not self._stream.over:
            return
        patience = self._connection.patience()
        delay_ms, deliveries, poison = self._retry
        while True:
            self._error = None
            self._life += 1
            self._credit = 0
            self._opened = asyncio.get_running_loop().create_future()
            self._stream = await self._converse()
            self._stream.put(
                pb.ReceiveRequest(
                    open=pb.OpenToReceive(
                        queue=self.queue,
                        mode=int(self._mode),  # type: ignore[arg-type]  # the numbers are the same
                        form=pb.PACKET,
                        exclusive=self._exclusive,
                        retry_delay_ms=delay_ms,
                        max_deliveries=deliveries,
                        poison_subqueue=poison,
                    )
                )
            )
            try:
                await self._opened
            except ConnectionLostError as error:
                await patience.wait(error)
            except RemoteMachineNotAvailableError as error:
                if not self._in_use:
                    raise
                await patience.wait(error)
            except QueueNotFoundError:
                if self._elsewhere is not None:
                    raise
                self._elsewhere = await self._connection.elsewhere(self.queue)
                if self._elsewhere is None:
                    raise
            except asyncio.CancelledError:
                self._stream.cancel()
                raise
            else:
                self._in_use = True
                return

    async def _converse(self) -> Stream:
        """Open a stream to the server, or to the host that has the queue."""
        if self._elsewhere is None:
            return await self._connection.stream("Receive", self._received, self._lost)
        from msmq.client.remote import RemoteReceive

        return self._connection.joined(RemoteReceive(*self._elsewhere, self._received, self._lost))

    # --- replies ------------------------------------------------------------------------------------------------

    def _received(self, reply: pb.ReceiveReply | PacketColumns) -> None:
        if isinstance(reply, PacketColumns):
            self._take_packets(reply)
            return
        kind = reply.WhichOneof("reply")
        if kind == "settled":
            self._settled(reply.settled)
        elif kind == "timed_out":
            self._credit = 0
            self._timed_out = True
            self._arrived.set()
        elif self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def _take_packets(self, given: PacketColumns) -> None:
        holder = self if self._mode is Mode.HOLD and not self._transaction else None
        messages = ReceivedMessage.all_of(given, self.queue, holder)
        self._credit -= len(messages)
        if holder is not None:
            self._lives.update(dict.fromkeys(given.lookup_ids, self._life))
        elif self._mode is Mode.PEEK:
            messages = [message for message in messages if message.lookup_id > self._shown]
            self._shown = max(
                given.lookup_ids
            )  # what was shown before the connection broke is not shown again
        self._ready.extend(messages)
        self._arrived.set()

    def _settled(self, settled: pb.Settled) -> None:
        _, waiting = self._settling.popleft()
        if settled.HasField("error"):
            _fail(waiting, status.from_message(settled.error))
        elif settled.unknown:
            _fail(waiting, MessageNotFoundError("The message is not held by this receiver any more."))
        else:
            for done in waiting:
                if not done.done():
                    done.set_result(None)

    def _lost(self, error: MsmqError) -> None:
        self._error = error
        if self._mode is Mode.HOLD and not self._transaction:
            self._ready.clear()
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()
        while self._settling:
            count, waiting = self._settling.popleft()
            _fail(
                waiting,
                OutcomeUnknownError(
                    f"The connection broke before {count} acknowledgments were confirmed; these messages may be "
                    "delivered again."
                ),
            )
        self._arrived.set()

    # --- receiving ----------------------------------------------------------------------------------------------

    async def receive(self, timeout: float | None = None) -> ReceivedMessage:
        """Return the next message. Raises :class:`~msmq.errors.IoTimeoutError` when none comes in ``timeout`` seconds;
        with 0 only a message that is there already is returned."""
        since = 0 if self._watcher is None else self._watcher.now()
        while True:
            if self._ready:
                return self._pop(since)
            await self._reopen_if_lost()
            self._timed_out = False
            self._give_credit(timeout)
            await self._wait()
            if self._timed_out and not self._ready:
                raise IoTimeoutError(f"No message came to {self.queue}.")
            if isinstance(self._error, ServerNotAvailableError) and not self._ready:
                raise self._error

    def _pop(self, since: int = 0) -> ReceivedMessage:
        message = self._ready.popleft()
        if self._watcher is not None:
            self._watcher.received(message, since or self._watcher.now())
        if len(self._ready) + self._credit <= self._prefetch // 2 and self._prefetch > 1:
            self._give_credit(None)
        return message

    def take_back(self, message: ReceivedMessage) -> None:
        """Put back a message that was handed out and did not reach the program: it is the next one again."""
        self._ready.appendleft(message)
        self._arrived.set()

    async def _reopen_if_lost(self) -> None:
        if self._stream is None or self._stream.over:
            if isinstance(self._error, MQError):
                raise self._error
            if self._transaction and self._in_use:
                raise ConnectionLostError("The connection broke, and the transaction with it.")
            await self._open()

    def _give_credit(self, timeout: float | None) -> None:
        """Allow messages to come until the prefetch is full; at least one if somebody waits for one."""
        if self._stream is None or self._stream.over:
            return
        wanted, timeout_ms = max(self._prefetch - len(self._ready) - self._credit, 0), milliseconds(timeout)
        if not wanted and timeout_ms is None:
            return
        credit = pb.Credit(messages=wanted, transaction=self._transaction, timeout_ms=timeout_ms)
        self._credit += wanted
        self._stream.put(pb.ReceiveRequest(credit=credit))

    async def _wait(self) -> None:
        while not self._ready and not self._timed_out and self._error is None:
            self._arrived.clear()
            await self._arrived.wait()

    def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        return self

    async def __anext__(self) -> ReceivedMessage:
        if self._ready:
            return self._pop()
        return await self.receive()

    # --- settling -----------------------------------------------------------------------------------------------

    def acknowledge(self, *messages: ReceivedMessage) -> asyncio.Future[None]:
        """Report messages as handled: they leave the queue. Await the result to know that this is durable. The request
        is sent at once, together with those of other tasks at the same moment."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        ids = [message.lookup_id for message in messages]
        try:
            self._check_held(ids)
        except ConnectionLostError as error:
            done.set_exception(error)
            return done
        self._to_acknowledge += ids
        if not self._acknowledging:
            loop.call_soon(self._flush)
        self._acknowledging.append(done)
        if self._watcher is not None:
            _watched(self._watcher.settling("ack", self.queue, messages), done)
        return done

    def _flush(self) -> None:
        waiting, self._acknowledging = self._acknowledging, []
        ids, self._to_acknowledge = self._to_acknowledge, []
        if not waiting:  # they were sent by a call that did not wait for this one
            return
        if self._stream is None or self._stream.over:
            _fail(waiting, _gone())
            return
        self._settling.append((len(ids), waiting))
        self._stream.put(pb.ReceiveRequest(acknowledge=pb.Acknowledge(lookup_ids=ids)))

    async def reject(self, *messages: ReceivedMessage, subqueue: str = "") -> None:
        """Report messages as not handled: they go back to their positions, or to a subqueue."""
        ids = [message.lookup_id for message in messages]
        self._check_held(ids)
        assert self._stream is not None
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settling.append((len(ids), [done]))
        if self._watcher is not None:
            _watched(self._watcher.settling("reject", self.queue, messages), done)
        self._stream.put(pb.ReceiveRequest(reject=pb.Reject(lookup_ids=ids, subqueue=subqueue)))
        await done

    async def left_over(self) -> bool:
        """Close. Returns whether messages came that were not handed out. Takes as long as the server needs; the line
        notices if that is dead."""
        self.leave()
        if self._credit and self._stream is not None:
            await self._stream.close(timeout_s=_LONG_S)
        return bool(self._ready)

    def _check_held(self, ids: list[int]) -> None:
        for lookup_id in ids:
            if self._lives.pop(lookup_id, None) != self._life or self._stream is None or self._stream.over:
                raise _gone()


class Held:
    """A message that is held for one reader. Keeping it takes no time, so nothing can come between the decision and the
    return of the call that received it."""

    def __init__(self, receiver: Receiver, message: ReceivedMessage) -> None:
        self._receiver = receiver
        self.message = message

    def keep(self) -> ReceivedMessage:
        """The message is the reader's, and leaves the queue."""
        self._receiver.acknowledge(self.message).add_done_callback(_noted)
        self._receiver.leave()
        return self.message

    def give_back(self) -> None:
        """The message stays in the queue."""
        self._receiver.leave()


def _noted(done: asyncio.Future[None]) -> None:
    """Log that an acknowledgment failed for which nobody waits. At worst the message comes once more."""
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.warning("A message that was received may be delivered again: %s", error)


def _watched(settlement: Settlement, done: asyncio.Future[None]) -> None:
    """Tell the watcher when messages are settled."""

    def settled(done: asyncio.Future[None]) -> None:
        settlement.end(asyncio.CancelledError() if done.cancelled() else done.exception())

    done.add_done_callback(settled)


def _fail(waiting: list[asyncio.Future[None]], error: MsmqError) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)


def _gone() -> ConnectionLostError:
    return ConnectionLostError(
        "The connection broke since this message was received, or it is settled already: if not, it went back to its "
        "queue and will be delivered again."
    )
