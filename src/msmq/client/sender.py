"""Send to one queue: many messages are under way at once, and each is confirmed when it is durable.

Callers put in loads of messages; loads that come at the same time travel in one batch. A broken connection is opened
again, and batches that were not confirmed are sent again with the same numbers: the queue manager knows which of them
it has taken. If it was restarted meanwhile it does not know, and the caller gets OutcomeUnknownError.

A deleted queue may have been created again under the same name. So batches that are refused because their queue was
deleted are sent once more, after the queue is opened again; if it does not exist, the caller learns that.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any, Final

from msmq.api import status
from msmq.api.fields import lead, repeated, within
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.rpc import MAX_MESSAGE_BYTES
from msmq.client.message import Delivery, Message, Own, Receipt, blamed, kind_of
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
"""Larger messages do not fit the channel, whatever else travels with them; the packet of a message has a fraction of
this."""
_BATCH_HEAD_BYTES: Final = 1024
"""A generous estimate of what a batch holds besides its columns."""
_MOST_BATCHES: Final = 48
"""The most batches under way; the queue manager remembers a few more."""
_DELETED: Final = (QueueDeletedError, QueueNotAvailableError)
"""The errors for messages to a queue that was deleted after it was opened."""
_MOST_KINDS: Final = 256
_LARGEST: Final = 0xFFFFFFFF
_MOST_SAFE: Final = int(Delivery.TRANSACTIONAL)
_TRUTH: Final = (True, False)


class Kinds:
    """The kinds of messages: messages that have everything but their columns in common share one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], pb.Message] = {}

    def of(self, message: Message) -> pb.Message:
        key = kind_of(message)
        kind = self._known.get(key)
        if kind is None:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            kind = self._known[key] = message.to_kind()
        return kind


class Load:
    """Messages that travel together, at most one batch of them, and the future of their outcome."""

    __slots__ = (
        "_known",
        "again",
        "columns",
        "count",
        "done",
        "is_full",
        "kinds",
        "messages",
        "rows",
        "size",
        "transaction",
    )

    done: asyncio.Future[list[Receipt | MQError]]
    """Gets the outcome of each message; exists once they have been put in."""

    def __init__(self, known: Kinds) -> None:
        self._known = known
        self.messages: list[Message] = []
        self.rows: list[Own] = []
        """What each message has of its own."""
        self.kinds: list[pb.Message] = []
        """What each message has in common with others."""
        self.count = 0
        self.size = 0
        self.is_full = False
        """True if it fills a batch by itself."""
        self.transaction = b""
        self.columns: list[bytes] = []
        """Columns that the caller has written already, in parts; they travel in a batch of their own."""
        self.again = False
        """True when it is sent for the second time, because its queue was deleted."""

    def add(self, message: Message) -> bool:
        """Add a message. Returns whether the load is full. Raises if the message cannot be written."""
        try:
            return self._add(message)
        except (TypeError, ValueError, OverflowError) as error:
            raise blamed(message, error) from error

    def _add(self, message: Message) -> bool:
        row = message.own()
        (
            body, body_type, label, extension, tag, _, priority, delivery, reach_s, received_s, asked, journal, dead
        ) = row  # fmt: skip
        size = len(body) + len(extension) + len(label)
        if size > _LARGEST_BYTES:
            raise _too_large(size)
        if not (
            label.isascii()
            and 0 <= tag <= _LARGEST
            and 0 <= body_type <= _LARGEST
            and 0 <= priority <= _LARGEST
            and 0 <= delivery <= _MOST_SAFE
            and 0 <= reach_s <= _LARGEST
            and 0 <= received_s <= _LARGEST
            and 0 <= asked <= _LARGEST
            and journal in _TRUTH
            and dead in _TRUTH
        ):
            message.to_proto()  # one that no column can hold is refused here, and costs no others
        self.kinds.append(self._known.of(message))
        self.messages.append(message)
        self.rows.append(row)
        self.count += 1
        self.size += size
        self.is_full = self.count == BATCH_MESSAGES or self.size >= _BATCH_BYTES
        return self.is_full


def _too_large(size: int) -> InsufficientResourcesError:
    return InsufficientResourcesError(
        f"{size} bytes are more than the channel takes at a time.",
        advice="Send less at once, such as the place where a reader finds the rest.",
    )


@dataclass(slots=True, eq=False)
class _Batch:
    request: list[bytes]
    """The serialized request, in parts."""
    transaction: bytes
    loads: list[Load]


class Sender:
    """Sends messages to one queue."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self._connection = connection
        self._queue = queue
        self._token = os.urandom(16)
        self._incarnation = b""
        self._number = 0
        self._waiting: deque[Load] = deque()
        self._under_way: dict[int, _Batch] = {}
        self._doubtful: set[int] = set()
        """Batches that were under way when the connection broke."""
        self._window = connection.window
        self._messages_under_way = 0
        self._returned: list[Load] = []
        """Loads that found their queue deleted; no other load overtakes them."""
        self._used = True
        self._stream: Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._reopened: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def send(self, load: Load, transaction: bytes) -> asyncio.Future[list[Receipt | MQError]]:
        """Send a load. The future gets the outcome of each message."""
        if load.is_full:  # it is written while others are still under way, and is sent as soon as it may
            load.columns = _columns([load])
        return self._send(load, transaction)

    def send_columns(
        self, columns: bytes, count: int, transaction: bytes
    ) -> asyncio.Future[list[Receipt | MQError]]:
        """Send ``count`` messages whose columns are written already."""
        if len(columns) > _LARGEST_BYTES:
            raise _too_large(len(columns))
        load = Load(self._connection.kinds)
        load.columns, load.count, load.size = [columns], count, len(columns)
        return self._send(load, transaction)

    def _send(self, load: Load, transaction: bytes) -> asyncio.Future[list[Receipt | MQError]]:
        load.transaction, load.done = transaction, self._loop.create_future()
        self._used = True
        self._waiting.append(load)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())
        return load.done

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._under_way and not self._returned

    def rest(self) -> bool:
        """Close the queue if nothing was sent since the last call. Returns whether it is closed now."""
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

    # --- under way ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Send batches as long as the window has room."""
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
        except Exception as error:  # a mistake of ours, which nobody shall wait for
            self._fail_all(error)
            raise

    def _has_room(self) -> bool:
        return (
            self._messages_under_way < self._window
            and len(self._under_way) < _MOST_BATCHES
            and not self._returned
        )

    def _ship(self) -> None:
        """Send the next batch: as many loads of the same transaction as fit together."""
        assert self._stream is not None
        waiting = self._waiting
        loads: list[Load] = []
        transaction = b""
        count = size = 0
        while waiting:
            load = waiting[0]
            if not load.done.cancelled():
                if loads and (
                    load.transaction != transaction
                    or load.columns
                    or loads[0].columns
                    or count + load.count > BATCH_MESSAGES
                    or size + load.size > _BATCH_BYTES
                ):
                    break
                transaction = load.transaction
                loads.append(load)
                count += load.count
                size += load.size
            waiting.popleft()  # a cancelled load is not sent
        if not loads:
            return
        try:
            columns = loads[0].columns or _columns(loads)
        except (TypeError, ValueError, OverflowError):
            self._sort_out(loads)
            return
        if (whole := sum(map(len, columns))) > MAX_MESSAGE_BYTES - _BATCH_HEAD_BYTES:
            for load in loads:  # their kinds take too much room
                self._fail(load, _too_large(whole))
            return
        self._number += 1
        request = _request(self._number, transaction, columns)
        self._under_way[self._number] = _Batch(request, transaction, loads)
        self._messages_under_way += count
        self._stream.put(request)

    def _sort_out(self, loads: list[Load]) -> None:
        """Fail the loads that cannot be written, as no column can hold a value in them; the others wait again."""
        fine: list[Load] = []
        for load in loads:
            try:
                load.columns = _columns([load])
            except (TypeError, ValueError, OverflowError) as error:
                told = (blamed(message, error) for message in load.messages)
                self._fail(load, next((each for each in told if each is not error), error))
            else:
                fine.append(load)
        self._waiting.extendleft(reversed(fine))

    def _received(self, reply: pb.SendStreamReply) -> None:
        if reply.WhichOneof("reply") == "opened":
            self._opened(reply.opened)
            return
        batch = self._under_way.pop(reply.confirmed.number, None)
        if batch is None:
            return
        outcomes = _outcomes(reply.confirmed.result)
        deleted = all(isinstance(outcome, _DELETED) for outcome in outcomes)
        start = 0
        for load in batch.loads:
            end = start + load.count
            if deleted and not load.again:
                load.again = True
                self._returned.append(load)
            elif not load.done.done():
                load.done.set_result(outcomes[start:end])
            start = end
        self._messages_under_way -= start
        if self._returned and not self._under_way:
            self._waiting.extendleft(reversed(self._returned))
            self._returned.clear()
            if self._stream is not None:
                self._stream.cancel()
        if self._waiting or self.idle:
            self._changed.set()

    # --- when the connection breaks -----------------------------------------------------------------------------

    async def _reopen(self) -> None:
        """Open the queue, with as many tries as the patience of the connection allows."""
        patience = self._connection.patience()
        while True:
            try:
                return await self._open()
            except ConnectionLostError as error:
                await patience.wait(error)

    async def _open(self) -> None:
        """Open the queue, then send the batches again that were under way, if that is still possible."""
        self._doubtful = set(self._under_way)
        self._stream = await self._connection.stream("SendStream", self._received, self._lost)
        request = pb.OpenToSend(queue=self._queue, resume_token=self._token)
        self._stream.put(pb.SendStreamRequest(open=request))
        # Nothing follows the opening before it is answered: if the queue is refused, a write that is still on its way
        # would fail and hide the reason.
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
        """Fail batches with an unknown outcome: the queue manager was restarted, and nobody knows what it has taken."""
        for number in list(numbers):
            for load in self._under_way.pop(number).loads:
                self._messages_under_way -= load.count
                self._fail(
                    load,
                    OutcomeUnknownError(
                        "The queue manager was restarted before it confirmed these messages.", load.messages
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
        """Fail the batches of transactions, which were aborted with the connection."""
        for number, batch in list(self._under_way.items()):
            if batch.transaction:
                del self._under_way[number]
                for load in batch.loads:
                    self._messages_under_way -= load.count
                    self._fail(load, error)

    def _fail_all(self, error: Exception) -> None:
        under_way = [load for batch in self._under_way.values() for load in batch.loads]
        for load in under_way:
            unknown = isinstance(error, ClientError) or not isinstance(error, MsmqError)
            self._fail(
                load,
                OutcomeUnknownError(f"{error} It may have been sent.", load.messages) if unknown else error,
            )
        for load in (*self._returned, *self._waiting):
            self._fail(load, error)
        self._returned.clear()
        self._waiting.clear()
        self._under_way.clear()
        self._messages_under_way = 0

    @staticmethod
    def _fail(load: Load, error: Exception) -> None:
        if not load.done.done():
            load.done.set_exception(error)


def _outcomes(result: pb.SendReply) -> list[Receipt | MQError]:
    host = result.queue_manager
    rows = zip(repeat(host, len(result.ordinals)), result.ordinals, result.lookup_ids, strict=True)
    outcomes: list[Receipt | MQError] = list(map(Receipt._make, rows))
    for failure in result.failures:
        outcomes[failure.index] = status.from_message(failure.error)
    return outcomes


def _request(number: int, transaction: bytes, columns: list[bytes]) -> list[bytes]:
    """Serialize a SendStreamRequest with one batch. Returns its parts. The columns are serialized already and may have
    megabytes: they are neither parsed and written again nor copied."""
    head = pb.SendBatch(number=number, transaction=transaction).SerializeToString()
    led = lead(pb.SendBatch.COLUMNS_FIELD_NUMBER, sum(map(len, columns)))
    return within(pb.SendStreamRequest.BATCH_FIELD_NUMBER, (head, led, *columns))


def _columns(loads: list[Load]) -> list[bytes]:
    """Serialize the messages of loads in columns, each of their kinds once. Returns the parts. The bodies come first,
    as the queue manager looks for large ones: it need not pass over all labels to find out that there are none."""
    every = list(chain.from_iterable(load.kinds for load in loads))
    numbers = list(map(id, every))
    kinds = dict(zip(numbers, every, strict=True))
    places = dict(zip(kinds, count(), strict=False))
    rows = chain.from_iterable(load.rows for load in loads)
    bodies, body_types, labels, extensions, tags, correlations, *others = zip(*rows, strict=True)
    priorities, deliveries, reach_s, received_s, asked, journals, dead = map(_said, others)
    columns = pb.Columns(
        kinds=kinds.values(),
        body_types=_said(body_types),
        labels=labels if any(labels) else (),
        extensions=extensions if any(extensions) else (),
        application_tags=_said(tags),
        correlation_ids=correlations if any(correlations) else (),
        kind=map(places.__getitem__, numbers) if len(kinds) > 1 else (),
        priorities=priorities,
        deliveries=deliveries,
        times_to_reach_queue_s=reach_s,
        times_to_be_received_s=received_s,
        acknowledgements=asked,
        journals=journals,
        dead_letters=dead,
    )
    return [*repeated(pb.Columns.BODIES_FIELD_NUMBER, bodies), columns.SerializeToString()]


def _said(column: tuple[Any, ...]) -> tuple[Any, ...]:
    """A column as it is written: one value for all when they are the same."""
    return column[:1] if column.count(column[0]) == len(column) else column
