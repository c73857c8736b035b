"""Receiving from one queue: messages come ahead of being asked for, and are held until they are settled.

A connection that breaks gives everything that was held back to the queue. The receiver opens the queue again and goes
on; what it had fetched and not handed out is forgotten, for it will come again.

Every call may be cancelled at any time. A message leaves the receiver in the same step in which the call returns it, so
that a call that was cancelled has left it where the next call finds it.
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
from msmq.client.message import ReceivedMessage
from msmq.client.problems import ConnectionLostError, OutcomeUnknownError, ServerNotAvailableError
from msmq.client.stream import Stream
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
    """What receiving does to the queue."""

    HOLD = 0
    """A message is held until it is acknowledged or rejected."""
    TAKE = 1
    """A message leaves the queue when it is read; one that gets lost on its way to this program is lost."""
    PEEK = 2
    """Messages are shown and stay."""


class Receiver:
    """Messages of one queue: ``async with queue.receiver() as receiver: async for message in receiver: ...``."""

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
        """Where the queue is, if on another computer."""
        self._opened: asyncio.Future[None] | None = None
        self._ready: deque[ReceivedMessage] = deque()
        self._arrived = asyncio.Event()
        self._credit = 0
        self._timed_out = False
        self._error: MsmqError | None = None
        self._life = 0
        self._in_use = False
        """Whether the queue was open before."""
        self._shown = 0
        self._settling: deque[tuple[int, list[asyncio.Future[None]]]] = deque()
        """What was asked and not answered yet: how many messages, and who waits for it."""
        self._to_acknowledge: list[int] = []
        self._acknowledging: list[asyncio.Future[None]] = []
        self._lives: dict[int, int] = {}
        """In which life of the stream a held message came."""

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:  # whoever was cancelled does not wait for anybody
            self.leave()

    async def close(self) -> None:
        """Messages that were not settled go back to their places."""
        self.leave()
        if self._stream is not None:
            await self._stream.close()

    def leave(self) -> None:
        """Close, and do not wait for it."""
        self._flush()
        if self._stream is not None:
            self._stream.end()

    async def _open(self) -> None:
        """Open the queue, waiting for the connection if need be; raises what the queue manager says."""
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
        """A conversation with whoever has the queue."""
        if self._elsewhere is None:
            return await self._connection.stream("Receive", self._received, self._lost)
        from msmq.client.remote import RemoteReceive

        return self._connection.joined(RemoteReceive(*self._elsewhere, self._received, self._lost))

    # --- what comes ---------------------------------------------------------------------------------------------

    def _received(self, reply: pb.ReceiveReply) -> None:
        kind = reply.WhichOneof("reply")
        if kind == "packets":
            self._take_packets(reply.packets)
        elif kind == "settled":
            self._settled(reply.settled)
        elif kind == "timed_out":
            self._credit = 0
            self._timed_out = True
            self._arrived.set()
        elif self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    def _take_packets(self, given: pb.Packets) -> None:
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

    # --- asking -------------------------------------------------------------------------------------------------

    async def receive(self, timeout: float | None = None) -> ReceivedMessage:
        """The next message. Raises :class:`~msmq.errors.IoTimeoutError` when none comes in ``timeout`` seconds; with 0
        only what is there already."""
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
        """A message that was handed out did not reach the program: it is the next one again."""
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
        """Let messages come until the prefetch is full; at least one if somebody waits for one."""
        if self._stream is None or self._stream.over:
            return
        wanted = max(self._prefetch - len(self._ready) - self._credit, 0)
        if not wanted and timeout is None:
            return
        credit = pb.Credit(messages=wanted, transaction=self._transaction)
        if timeout is not None:
            credit.timeout_ms = int(timeout * 1000)
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
        """These are done and leave the queue: await it to know that this is durable. They are on their way at once, and
        those of one moment go together."""
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
        if not waiting:  # they went with somebody who did not wait for this
            return
        if self._stream is None or self._stream.over:
            _fail(waiting, _gone())
            return
        self._settling.append((len(ids), waiting))
        self._stream.put(pb.ReceiveRequest(acknowledge=pb.Acknowledge(lookup_ids=ids)))

    async def reject(self, *messages: ReceivedMessage, subqueue: str = "") -> None:
        """These are not done: they go back to their places, or to a subqueue."""
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
        """Close, and tell whether messages came that were not handed out. The line has patience enough for the end."""
        self.leave()
        if self._credit and self._stream is not None:
            await self._stream.close(timeout_s=_LONG_S)
        return bool(self._ready)

    def _check_held(self, ids: list[int]) -> None:
        for lookup_id in ids:
            if self._lives.pop(lookup_id, None) != self._life or self._stream is None or self._stream.over:
                raise _gone()


class Held:
    """A message that is held for one reader. Keeping it takes no time, so that nothing can come between the decision
    and the return of the call that received it."""

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
    """Nobody waits for this acknowledgment. At worst the message comes once more."""
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
