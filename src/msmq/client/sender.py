"""Sending to one queue: many messages under way at once, each confirmed when it is durable.

Whoever sends puts a parcel in; parcels that come together travel in one batch. A connection that breaks is opened
again, and batches that were not confirmed go again under the numbers they had: the queue manager knows which it has
taken. If it was restarted meanwhile it does not, and the sender is told so.

A queue that was deleted may have been made again under the same name. So batches that were refused for that reason go
once more, after the queue was opened anew; if there is none, that is what the sender is told.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from msmq.api import status
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.rpc import MAX_MESSAGE_BYTES
from msmq.client.message import Message, Receipt, kind_of
from msmq.client.problems import ClientError, ConnectionLostError, OutcomeUnknownError
from msmq.client.stream import Stream
from msmq.errors import (
    InsufficientResourcesError,
    MQError,
    MsmqError,
    QueueDeletedError,
    QueueNotAvailableError,
)

if TYPE_CHECKING:
    from msmq.client.connection import Connection

BATCH_MESSAGES: Final = 128
_BATCH_BYTES: Final = 512 << 10
_LARGEST_BYTES: Final = MAX_MESSAGE_BYTES // 2
"""No message that is larger fits the channel, whatever else travels with it; packets have a fraction of this."""
_BATCH_HEAD_BYTES: Final = 1024
"""What a batch has beside its columns, generously."""
_MOST_BATCHES: Final = 48
"""Batches under way; the queue manager remembers a few more."""
_DELETED: Final = (QueueDeletedError, QueueNotAvailableError)
"""What becomes of messages to a queue that was deleted after it was opened."""
_MOST_KINDS: Final = 256
_LENGTH_DELIMITED: Final = 2
_LARGEST: Final = 0xFFFFFFFF
_Row = tuple[bytes, int, str, bytes, int, bytes]


class Load:
    """Messages that are to travel together, with what each of them has of its own: no more than one batch takes."""

    __slots__ = ("messages", "rows", "size")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.rows: list[_Row] = []
        self.size = 0

    def add(self, message: Message) -> bool:
        """Add a message; tells whether there is enough for a batch now. Raises for one that cannot be written."""
        row = message.own()
        body, body_type, label, extension, tag, _ = row
        size = len(body) + len(extension) + len(label)
        _check_size(size)
        if not (label.isascii() and 0 <= tag <= _LARGEST and 0 <= body_type <= _LARGEST):
            message.to_proto()
        self.messages.append(message)
        self.rows.append(row)
        self.size += size
        return self.is_full

    @property
    def is_full(self) -> bool:
        """Whether it makes a batch by itself."""
        return len(self.rows) == BATCH_MESSAGES or self.size >= _BATCH_BYTES


def _check_size(size: int) -> None:
    if size > _LARGEST_BYTES:
        raise _too_large(size)


def _too_large(size: int) -> InsufficientResourcesError:
    return InsufficientResourcesError(f"{size} bytes are more than the channel takes at a time.")


@dataclass(slots=True, eq=False)
class _Parcel:
    messages: Sequence[Message]
    rows: list[_Row]
    """What each of them has of its own."""
    kinds: list[pb.Message]
    """What each of them has in common with others."""
    size: int
    transaction: bytes
    done: asyncio.Future[list[Receipt | MQError]]
    count: int
    columns: bytes = b""
    """Messages whose columns are written already. They travel in a batch of their own."""
    again: bool = False
    """Whether it goes for the second time, because its queue was deleted."""


@dataclass(slots=True, eq=False)
class _Batch:
    request: bytes
    """As it is written."""
    transaction: bytes
    parcels: list[_Parcel]


class Sender:
    """Sends to one queue."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self._token = os.urandom(16)
        self._incarnation = b""
        self._number = 0
        self._waiting: deque[_Parcel] = deque()
        self._under_way: dict[int, _Batch] = {}
        self._doubtful: set[int] = set()
        """Batches that were under way when the connection broke."""
        self._window = connection.window
        self._messages_under_way = 0
        self._returned: list[_Parcel] = []
        """What found its queue deleted; nothing overtakes it."""
        self._used = True
        self._stream: Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._reopened: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._kinds: dict[tuple[object, ...], pb.Message] = {}

    def send(self, load: Load, transaction: bytes) -> asyncio.Future[list[Receipt | MQError]]:
        """Put messages on their way; the future has the outcome of each. What cannot be written is refused before
        anything of the others is sent."""
        kinds = [self._kind(message) for message in load.messages]
        done, count = self._loop.create_future(), len(kinds)
        parcel = _Parcel(load.messages, load.rows, kinds, load.size, transaction, done, count)
        if load.is_full:  # it is written while others are still under way, and leaves as soon as it may
            parcel.columns = _columns([parcel])
        return self._send(parcel)

    def _kind(self, message: Message) -> pb.Message:
        key = kind_of(message)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[key] = message.to_kind()
        return kind

    def send_columns(
        self, columns: bytes, count: int, transaction: bytes
    ) -> asyncio.Future[list[Receipt | MQError]]:
        """Put ``count`` messages on their way whose columns are written already."""
        _check_size(len(columns))
        done = self._loop.create_future()
        return self._send(_Parcel((), [], [], len(columns), transaction, done, count, columns))

    def _send(self, parcel: _Parcel) -> asyncio.Future[list[Receipt | MQError]]:
        self._used = True
        self._waiting.append(parcel)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())
        return parcel.done

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._under_way and not self._returned

    def rest(self) -> bool:
        """Close the queue if nothing was sent since the last time this was asked; tells whether it is closed."""
        used, self._used = self._used, False
        if used or not self.idle:
            return False
        if self._task is not None:
            self._task.cancel()
        self._leave()
        self._stream = None
        return True

    def _leave(self) -> None:
        if self._stream is not None:
            if not self._under_way:
                self._stream.put(pb.SendStreamRequest(leave=pb.Leave()))
            self._stream.end()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._leave()
        try:
            if self._stream is not None:
                await self._stream.close()
        finally:
            self._fail_all(ConnectionLostError("The connection was closed."))

    # --- on the way ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Write batches as long as the window has room."""
        try:
            while True:
                if self._stream is None or self._stream.over:
                    await self._reopen()
                while self._waiting and self._has_room():
                    self._ship()
                self._changed.clear()
                if (self._stream is None or self._stream.over) and self.idle:
                    return
                await self._changed.wait()
        except MsmqError as error:
            self._fail_all(error)

    def _has_room(self) -> bool:
        return (
            self._messages_under_way < self._window
            and len(self._under_way) < _MOST_BATCHES
            and not self._returned
        )

    def _ship(self) -> None:
        assert self._stream is not None
        waiting = self._waiting
        while waiting and waiting[0].done.cancelled():  # nobody wants it sent any more
            waiting.popleft()
        if not waiting:
            return
        transaction = waiting[0].transaction
        parcels: list[_Parcel] = []
        count = size = 0
        while (
            waiting
            and waiting[0].transaction == transaction
            and (not parcels or _fits(count + waiting[0].count, size + waiting[0].size))
            and not (parcels and (parcels[0].columns or waiting[0].columns))
        ):
            parcel = waiting.popleft()
            if parcel.done.cancelled():
                continue
            parcels.append(parcel)
            count += parcel.count
            size += parcel.size
        columns = parcels[0].columns or _columns(parcels)
        if len(columns) > MAX_MESSAGE_BYTES - _BATCH_HEAD_BYTES:  # what their kinds say takes all that room
            for parcel in parcels:
                self._fail(parcel, _too_large(len(columns)))
            return
        self._number += 1
        request = _request(self._number, transaction, columns)
        self._under_way[self._number] = _Batch(request, transaction, parcels)
        self._messages_under_way += count
        self._stream.put(request)

    def _received(self, reply: pb.SendStreamReply) -> None:
        if reply.WhichOneof("reply") == "opened":
            self._opened(reply.opened)
            return
        batch = self._under_way.pop(reply.confirmed.number, None)
        if batch is None:
            return
        outcomes = _outcomes(reply.confirmed.result)
        given = iter(outcomes)
        deleted = all(isinstance(outcome, _DELETED) for outcome in outcomes)
        for parcel in batch.parcels:
            self._messages_under_way -= parcel.count
            mine = list(islice(given, parcel.count))
            if deleted and not parcel.again:
                parcel.again = True
                self._returned.append(parcel)
            elif not parcel.done.done():
                parcel.done.set_result(mine)
        if self._returned and not self._under_way:
            self._waiting.extendleft(reversed(self._returned))
            self._returned.clear()
            if self._stream is not None:
                self._stream.cancel()
        if self._waiting or self.idle:
            self._changed.set()

    # --- breaking and coming back -------------------------------------------------------------------------------

    async def _reopen(self) -> None:
        """Open the queue, however often it takes."""
        patience = self._connection.patience()
        while True:
            try:
                return await self._open()
            except ConnectionLostError as error:
                await patience.wait(error)

    async def _open(self) -> None:
        """Open the queue; batches that were under way go again once it is known that they may."""
        self._doubtful = set(self._under_way)
        self._stream = await self._connection.stream("SendStream", self._received, self._lost)
        request = pb.OpenToSend(queue=self._queue, resume_token=self._token)
        self._stream.put(pb.SendStreamRequest(open=request))
        # A write that meets a refusal on its way here would hide why the queue was refused: nothing follows the opening
        # before it is answered.
        self._reopened = self._loop.create_future()
        try:
            await self._reopened
        except asyncio.CancelledError:
            self._stream.cancel()
            raise
        for batch in self._under_way.values():
            self._stream.put(batch.request)

    def _opened(self, opened: pb.Opened) -> None:
        known = self._incarnation
        self._incarnation = opened.incarnation
        if known != opened.incarnation:
            self._give_up(self._doubtful)
        self._doubtful.clear()
        if self._reopened is not None and not self._reopened.done():
            self._reopened.set_result(None)

    def _give_up(self, numbers: Iterable[int]) -> None:
        """The queue manager was restarted: nobody knows what it has taken."""
        for number in list(numbers):
            for parcel in self._under_way.pop(number).parcels:
                self._messages_under_way -= parcel.count
                self._fail(
                    parcel,
                    OutcomeUnknownError(
                        "The queue manager was restarted before it confirmed these messages.", parcel.messages
                    ),
                )

    def _lost(self, error: MsmqError) -> None:
        if isinstance(error, ConnectionLostError):
            self._abandon_transactions(error)
            if not self._incarnation:
                self._give_up(self._under_way)
        else:
            self._fail_all(error)
        if self._reopened is not None and not self._reopened.done():
            self._reopened.set_exception(error)
        self._changed.set()

    def _abandon_transactions(self, error: ConnectionLostError) -> None:
        """What was sent in a transaction went with it."""
        for number, batch in list(self._under_way.items()):
            if batch.transaction:
                del self._under_way[number]
                for parcel in batch.parcels:
                    self._messages_under_way -= parcel.count
                    self._fail(parcel, error)

    def _fail_all(self, error: MsmqError) -> None:
        under_way = [parcel for batch in self._under_way.values() for parcel in batch.parcels]
        for parcel in under_way:
            unknown = isinstance(error, ClientError)
            self._fail(
                parcel,
                OutcomeUnknownError(f"{error} It may have been sent.", parcel.messages) if unknown else error,
            )
        for parcel in (*self._returned, *self._waiting):
            self._fail(parcel, error)
        self._returned.clear()
        self._waiting.clear()
        self._under_way.clear()
        self._messages_under_way = 0

    @staticmethod
    def _fail(parcel: _Parcel, error: MsmqError) -> None:
        if not parcel.done.done():
            parcel.done.set_exception(error)


def _outcomes(result: pb.SendReply) -> list[Receipt | MQError]:
    host = result.queue_manager
    outcomes: list[Receipt | MQError] = [
        Receipt(host, ordinal, lookup_id)
        for ordinal, lookup_id in zip(result.ordinals, result.lookup_ids, strict=True)
    ]
    for failure in result.failures:
        outcomes[failure.index] = status.from_message(failure.error)
    return outcomes


def _fits(count: int, size: int) -> bool:
    """True if ``count`` messages of ``size`` bytes fit into one batch."""
    return count <= BATCH_MESSAGES and size <= _BATCH_BYTES


def _request(number: int, transaction: bytes, columns: bytes) -> bytes:
    """A SendStreamRequest with one batch. Its columns are written already, and they may be megabytes: they are copied
    to where they belong, and are not read and written again for it."""
    head = pb.SendBatch(number=number, transaction=transaction).SerializeToString()
    head += _lead(pb.SendBatch.COLUMNS_FIELD_NUMBER, len(columns))
    return b"".join((_lead(pb.SendStreamRequest.BATCH_FIELD_NUMBER, len(head) + len(columns)), head, columns))


def _lead(field: int, size: int) -> bytes:
    """What protocol buffers have in front of a message within a message: the number of its field and its size."""
    lead = bytearray((field << 3 | _LENGTH_DELIMITED,))
    while size > 0x7F:
        lead.append(size & 0x7F | 0x80)
        size >>= 7
    lead.append(size)
    return bytes(lead)


def _columns(parcels: list[_Parcel]) -> bytes:
    """The messages of parcels in columns, each kind of them once."""
    places: dict[int, int] = {}
    kinds: list[pb.Message] = []
    column: list[int] = []
    for parcel in parcels:
        for kind in parcel.kinds:
            place = places.setdefault(id(kind), len(kinds))
            if place == len(kinds):
                kinds.append(kind)
            column.append(place)
    rows = (row for parcel in parcels for row in parcel.rows)
    bodies, body_types, labels, extensions, tags, correlations = zip(*rows, strict=True)
    return pb.Columns(
        kinds=kinds,
        bodies=bodies,
        body_types=body_types if any(body_types) else (),
        labels=labels if any(labels) else (),
        extensions=extensions if any(extensions) else (),
        application_tags=tags if any(tags) else (),
        correlation_ids=correlations if any(correlations) else (),
        kind=column if len(kinds) > 1 else (),
    ).SerializeToString()
