"""Receive from a queue of another host, by remote read (MS-MQRR).

The client does this, not its queue manager: only the program has the credentials of its user. A
:class:`RemoteConversation` behaves like the stream that the queue manager offers for its own queues, so a receiver or a
cursor need not know which of the two it talks to. A receiver uses :class:`RemoteReceive`, a cursor
:class:`msmq.client.remote_browse.RemoteBrowse`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.api.status import to_message
from msmq.client.connection import RemoteAccess
from msmq.client.problems import ConnectionLostError
from msmq.errors import (
    InvalidParameterError,
    IoTimeoutError,
    MessageNotFoundError,
    MQError,
    MsmqError,
    OperationCancelledError,
    RemoteMachineNotAvailableError,
    TransactionUsageError,
)
from msmq.remote_read.actions import Action
from msmq.remote_read.interface import R_GET_SERVER_PORT, Nothing
from msmq.remote_read.reader import browse
from msmq.remote_read.remote_message import RemoteMessage
from msmq.remote_read.remote_queue import PendingMessage, RemoteCursor, RemoteQueue
from msmq.remote_read.session import CALL_TIMEOUT_S, Access, RemoteHost, Share
from msmq.rpc.pdu import AuthType
from msmq.rpc.ports import FIRST_PORT
from msmq.rpc.security import Credentials
from msmq.rpc.status import RpcError

END: Final = None


@asynccontextmanager
async def _connected(access: RemoteAccess, name: str) -> AsyncIterator[RemoteHost]:
    """Connect to the queue manager of the host ``name`` until the block ends or the host stops answering.

    Raises:
        RemoteMachineNotAvailableError: it has been silent for as long as ``access`` lets it, or cannot be reached.
    """
    limit_s = access.timeout_s or CALL_TIMEOUT_S
    silent = RemoteMachineNotAvailableError(f"{name} has not answered for {limit_s:g} seconds.")
    try:
        async with asyncio.timeout(limit_s):
            host = await _connect(access, name)
    except TimeoutError:
        raise silent from None
    watch = asyncio.ensure_future(_watch(host, limit_s / 2))
    try:
        async with host:
            yield host
    except (MsmqError, RpcError, OSError) as error:
        if watch.done():  # the connection was given up, and that is why the rest failed
            raise silent from error
        raise
    finally:
        watch.cancel()


async def _watch(host: RemoteHost, pause_s: float) -> None:
    """Ping a host from time to time, and hang up when it does not answer: a read may wait for ever, and then looks just
    like a frozen host."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            async with asyncio.timeout(pause_s):
                await host.client.call(R_GET_SERVER_PORT, Nothing())
        except (TimeoutError, RpcError):
            host.client.abort()
            return


async def _connect(access: RemoteAccess, host: str) -> RemoteHost:
    """Connect to the queue manager of ``host``. If it has no endpoint mapper, the usual port is tried."""
    credentials = None
    if access.user or access.kerberos:
        kind = AuthType.KERBEROS if access.kerberos else AuthType.NEGOTIATE
        credentials = Credentials(access.user or None, access.password or None, auth_type=kind)
    try:
        return await RemoteHost.connect(host, access.port, credentials)
    except RemoteMachineNotAvailableError:
        if access.port is not None:
            raise
        return await RemoteHost.connect(host, FIRST_PORT, credentials)


async def purge(access: RemoteAccess, place: pb.QueuePlace) -> int:
    """Delete everything in a queue of another host. Returns how many messages there were, counted beforehand."""
    async with _connected(access, place.host) as host:
        queue = await host.open(place.format_name)
        count = 0
        async with aclosing(browse(queue, max_body=0)) as messages:
            async for _ in messages:
                count += 1
        await queue.purge()
    return count


async def move(access: RemoteAccess, place: pb.QueuePlace, target: str, lookup_ids: Iterable[int]) -> int:
    """Move messages between a queue of another host and its subqueues. Returns how many were still there."""
    moved = 0
    async with _connected(access, place.host) as host:
        queue, destination = await host.open(place.format_name), await host.open_for_move(target)
        for lookup_id in lookup_ids:
            with suppress(MessageNotFoundError):
                await queue.move(lookup_id, destination)
                moved += 1
        await destination.close()
    return moved


def no_transaction(host: str) -> TransactionUsageError:
    """The error for receiving from a queue of another host in a transaction."""
    return TransactionUsageError(
        f"A queue of {host} takes no part in a transaction of this computer: that would need a coordinator of "
        "distributed transactions. Receive from it without one, by a receiver, and acknowledge the message when the "
        "transaction has committed: it may come again then, and is never lost."
    )


class RemoteConversation(ABC):
    """A stream to a host that has a queue; see :class:`msmq.client.stream.Stream`."""

    def __init__(
        self,
        access: RemoteAccess,
        place: pb.QueuePlace,
        received: Callable[[Any], None],
        lost: Callable[[MsmqError], None],
    ) -> None:
        self.over = False
        self._access = access
        self._place = place
        self._received = received
        self._lost = lost
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._held: dict[int, PendingMessage] = {}
        self._request_id: int | None = None
        """The read that is waiting at the host."""
        self._was_open = False
        self._task = asyncio.ensure_future(self._run())

    def put(self, request: Any) -> None:
        self._requests.put_nowait(request)

    def end(self) -> None:
        self._requests.put_nowait(END)

    async def close(self, timeout_s: float = 5.0) -> None:
        self.end()
        await asyncio.wait({self._task}, timeout=timeout_s)

    def cancel(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        over: MsmqError = ConnectionLostError(f"The conversation with {self._place.host} has ended.")
        try:
            first = await self._requests.get()
            if first is not END:
                async with _connected(self._access, self._place.host) as host:
                    await self._converse(host, first.open)
        except RemoteMachineNotAvailableError as error:
            over = self._broken(error) if self._was_open else error
        except MsmqError as error:
            over = error
        except (RpcError, OSError) as error:
            over = self._broken(error)
        finally:
            self.over = True
            self._lost(over)

    def _broken(self, error: Exception) -> ConnectionLostError:
        """The error for a broken connection after the queue was open: it can be opened again when the host is back."""
        return ConnectionLostError(f"The connection to {self._place.host} broke: {error}")

    @abstractmethod
    async def _converse(self, host: RemoteHost, opening: Any) -> None:
        """Answer requests until the reader ends the stream. Messages that are still held go back with the queue."""

    def _started(self, request_id: int) -> None:
        self._request_id = request_id


class RemoteReceive(RemoteConversation):
    """The stream of a receiver."""

    def __init__(self, *given: Any) -> None:
        self._credit = 0
        self._timeout_s: float | None = None
        self._asked_anew = False
        """True if credit came since the waiting read began, and with it a new time to wait."""
        self._shown = False
        """True if the cursor stands on a message that it has shown."""
        self._reader: asyncio.Task[None] | None = None
        super().__init__(*given)

    async def _converse(self, host: RemoteHost, opening: pb.OpenToReceive) -> None:
        access = Access.PEEK if opening.mode == pb.PEEK else Access.RECEIVE
        share = Share.DENY_SHARE if opening.exclusive else Share.DENY_NONE
        queue = await host.open(self._place.format_name, access, share)
        cursor = await queue.create_cursor() if opening.mode == pb.PEEK else None
        self._was_open = True
        self._received(pb.ReceiveReply(opened=pb.Opened(format_name=self._place.format_name)))
        try:
            while (request := await self._requests.get()) is not END:
                if isinstance(request, MsmqError):
                    raise request
                await self._answer(request, queue, cursor, opening.mode)
        finally:
            await self._stop(queue)

    async def _stop(self, queue: RemoteQueue) -> None:
        """End the waiting read. If it still brings a message, that goes back with the queue, like everything that is
        held."""
        self._credit = 0
        if self._reader is not None and not self._reader.done():
            if self._request_id is not None:
                await queue.cancel_quietly(self._request_id)
            await asyncio.wait({self._reader}, timeout=5)

    async def _answer(
        self, request: pb.ReceiveRequest, queue: RemoteQueue, cursor: RemoteCursor | None, mode: int
    ) -> None:
        kind = request.WhichOneof("request")
        if kind == "acknowledge":
            await self._settle(request.acknowledge.lookup_ids, PendingMessage.acknowledge)
        elif kind == "reject":
            if request.reject.subqueue:
                error = InvalidParameterError(
                    "Messages of another host are not moved to a subqueue by rejecting them."
                )
                self._received(pb.ReceiveReply(settled=pb.Settled(error=to_message(error))))
            else:
                await self._settle(request.reject.lookup_ids, PendingMessage.give_back)
        elif kind == "credit":
            if request.credit.transaction:
                raise no_transaction(self._place.host)
            self._credit += request.credit.messages
            self._timeout_s = (
                request.credit.timeout_ms / 1000 if request.credit.HasField("timeout_ms") else None
            )
            if self._reader is None or self._reader.done():
                self._reader = asyncio.ensure_future(self._read(queue, cursor, mode))
            elif self._request_id is not None:
                self._asked_anew = True
                await queue.cancel_quietly(self._request_id)

    async def _settle(self, lookup_ids: Any, act: Callable[[PendingMessage], Any]) -> None:
        settled = pb.Settled()
        for lookup_id in lookup_ids:
            pending = self._held.pop(lookup_id, None)
            if pending is None:
                settled.unknown.append(lookup_id)
                continue
            try:
                await act(pending)
                settled.messages += 1
            except MQError as error:
                settled.error.CopyFrom(to_message(error))
        self._received(pb.ReceiveReply(settled=settled))

    async def _read(self, queue: RemoteQueue, cursor: RemoteCursor | None, mode: int) -> None:
        """Read as long as there is credit."""
        try:
            while self._credit:
                self._asked_anew = False
                try:
                    message = await self._next(queue, cursor, mode)
                except (IoTimeoutError, OperationCancelledError):
                    if self._asked_anew:
                        continue
                    self._credit = 0
                    self._received(pb.ReceiveReply(timed_out=pb.TimedOut()))
                    return
                finally:
                    self._request_id = None
                self._credit = max(self._credit - 1, 0)
                data = bytes(message.packet.data)
                self._received(PacketColumns.of((message.lookup_id,), (message.arrival_time,), (data,)))
        except MsmqError as error:
            self._requests.put_nowait(error)
        except (RpcError, OSError) as error:
            self._requests.put_nowait(self._broken(error))

    async def _next(self, queue: RemoteQueue, cursor: RemoteCursor | None, mode: int) -> RemoteMessage:
        if cursor is not None:
            action = Action.PEEK_NEXT if self._shown else Action.PEEK_CURRENT
            self._shown = (
                False  # a cursor that finds nothing has moved on, and stands where the next message will be
            )
            message = await queue.read(
                action, cursor=cursor, timeout_s=self._timeout_s, started=self._started
            )
            self._shown = True
            return message
        pending = await queue.begin_receive(timeout_s=self._timeout_s, started=self._started)
        if mode == pb.TAKE:
            await pending.acknowledge()
        else:
            self._held[pending.message.lookup_id] = pending
        return pending.message
