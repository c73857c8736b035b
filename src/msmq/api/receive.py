"""The call Receive: take messages from queues, or peek at them, while the reader has credit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.packets import to_deliveries, write_packets
from msmq.api.retry import retry_of
from msmq.api.status import to_message as error_message
from msmq.errors import (
    GenericError,
    InvalidParameterError,
    IoTimeoutError,
    MQError,
    QueueNotAvailableError,
    TransactionSequenceError,
    error_for,
)
from msmq.errors.tasks import carried_through
from msmq.manager.mailbox.contents import Found
from msmq.manager.messages.readers import INFINITE
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueShareMode
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.security.access import Token

_TURN_MESSAGES: Final = 256
_TURN_BYTES: Final = 1 << 20
"""The limits of one turn of reading, whose messages are one answer."""
_TAG: Final = 1
_NO_MORE: Final = frozenset({IoTimeoutError.code, TransactionSequenceError.code})
"""The errors with which a wait ends normally: the time is up, or its transaction has ended."""


class Receiver:
    """A queue that is open for receiving, and the credit of its reader."""

    def __init__(self, desk: Desk, request: pb.OpenToReceive, outbox: Outbox, caller: Token) -> None:
        self._desk = desk
        self._outbox = outbox
        self._caller = caller
        self._mode, self._form = request.mode, request.form
        manager = desk.manager
        self._reading = manager.reading
        name = desk.names.format_name(request.queue)
        access = desk.own_access(name, receive=self._mode != pb.PEEK)
        share = QueueShareMode.DENY_RECEIVE if request.exclusive else QueueShareMode.DENY_NONE
        self.descriptor = manager.queues.open(name, access, share, caller)
        self._set_retry(request)
        self._cursor = self._reading.open_cursor(self.descriptor) if self._mode == pb.PEEK else None
        self._loop = asyncio.get_running_loop()
        self._credit = 0
        self._transaction: Transaction | None = None
        self._timeout_s = INFINITE
        self._waited_since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._under_way = False
        """Whether a read waits for a message."""
        self._planned = False
        """Whether reading goes on in a later turn of the loop."""
        self._held: set[int] = set()
        """The messages that the reader has not settled."""
        self._undurable = 0
        """How many answers with messages wait for the disk."""
        self._closed = False

    def _set_retry(self, request: pb.OpenToReceive) -> None:
        queue = self.descriptor.queue
        if queue is None or (retry := retry_of(request, queue.retry)) == queue.retry:
            return
        try:
            self._desk.manager.administration.set_reader_retry(self.descriptor, retry)
        except MQError:
            self._desk.manager.queues.close(self.descriptor)
            raise

    @property
    def opened(self) -> pb.Opened:
        queue = self.descriptor.queue
        return pb.Opened(
            format_name=self.descriptor.format_name, transactional=queue is not None and queue.transactional
        )

    def close(self) -> None:
        """Close the queue; messages that were not settled return to their places."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        self._desk.manager.queues.close(self.descriptor)

    # --- reading ------------------------------------------------------------------------------------------------

    def credit(self, request: pb.Credit) -> None:
        self._transaction = self._desk.transaction(request.transaction, self._caller)
        if self._transaction is not None and self._mode == pb.PEEK:
            raise InvalidParameterError("Looking at messages takes no part in a transaction.")
        self._credit += request.messages
        self._timeout_s = request.timeout_ms / 1000 if request.HasField("timeout_ms") else INFINITE
        self._waited_since = self._loop.time()
        self._set_alarm()
        if self._under_way and self._timeout_s == 0:
            self._time_is_up()
        else:
            self._read_on()

    def _read_on(self) -> None:
        """Read the messages of one turn, or wait for a message if there are none."""
        self._planned = False
        if not self._credit or self._under_way or self._closed:
            return
        try:
            if not self._take(self._credit):
                self._wait()
        except MQError as error:
            self._fail(error)

    def _read_more(self) -> None:
        try:
            self._read_on()
        except Exception:
            # No call is under way that would end with it, and the reader waits.
            self._outbox.fail(GenericError("The queue manager met an internal error, which its log tells."))
            raise

    def _take(self, most: int) -> bool:
        """Ship available messages, up to ``most`` or the limits of one turn. Returns whether there were any."""
        queue = self._queue()
        found = self._look(queue, min(most, _TURN_MESSAGES))
        if not len(found):
            return False
        self._credit -= len(found)
        self._waited_since = self._loop.time()
        if self._mode == pb.HOLD and self._transaction is None:
            self._held.update(found.ids)
        if self._mode == pb.TAKE:
            carried_through(lambda: self._ship(self._written(queue, found), found))
        else:  # who looks or holds can do so again
            self._ship(self._written(queue, found), found)
        if self._credit and not self._planned:
            self._planned = True
            self._loop.call_soon(self._read_more)
        return True

    def _written(self, queue: Queue, found: Found) -> pb.ReceiveReply | list[bytes]:
        if self._form == pb.PACKET:
            return write_packets(pb.ReceiveReply.PACKETS_FIELD_NUMBER, queue, found)
        return pb.ReceiveReply(deliveries=to_deliveries(queue, found))

    def _look(self, queue: Queue, most: int) -> Found:
        """Take the next available messages, or only peek at them."""
        cursor = self._cursor
        if cursor is None:
            return self._reading.take(
                self.descriptor,
                most,
                _TURN_BYTES,
                transaction=self._transaction,
                two_phase_read=self._mode == pb.HOLD,
            )
        return self._reading.look_on(self.descriptor, cursor, most, _TURN_BYTES)

    def _ship(self, reply: pb.ReceiveReply | list[bytes], found: Found) -> None:
        """Answer with messages, in their order, when everything they rest on will survive. Those that are only held may
        leave at once if they are durable themselves, whatever else the disk is busy with."""
        addresses = found.positions.addresses
        store = self._desk.manager.core.ledger.store
        settled = self._mode == pb.HOLD and self._transaction is None and all(addresses)
        if settled and not self._undurable and store.is_durable(min(addresses), max(addresses)):
            self._outbox.put(reply)
            return

        def put() -> None:
            self._undurable -= 1
            self._outbox.put(reply)

        self._undurable += 1
        self._desk.host.when_durable(put)

    def _wait(self) -> None:
        if self._timeout_s == 0:
            self._ended(IoTimeoutError.code)
            return
        self._under_way = True
        self._reading.wait(self.descriptor, _TAG, self._ready, self._transaction, self._cursor)

    def _ready(self, status: int, position: MessagePosition | None) -> None:
        """A message has come, or the wait has ended. Messages are taken within the event that brings them, and no more
        than a fair share if other readers wait too."""
        self._under_way = False
        if self._closed:
            return
        if position is None:
            self._ended(status)
            return
        share = self._credit
        if self._cursor is None:  # a reader that only peeks takes nothing from others
            others = sum(reader.destructive_read for reader in position.queue.waiting)
            share = max(position.queue.positions.free // (others + 1), 1) if others else share
        try:
            if not self._take(min(share, self._credit)):
                self._wait()
        except MQError as error:
            self._fail(error)

    def _ended(self, status: int) -> None:
        """End a read without messages: the time is up, or the queue is gone."""
        if status not in _NO_MORE:
            gone = "The queue was deleted." if self.descriptor.queue is None else None
            self._fail(error_for(status, gone))
            return
        self._credit = 0
        self._put(pb.ReceiveReply(timed_out=pb.TimedOut()))

    def _fail(self, error: MQError) -> None:
        self._desk.host.when_durable(lambda: self._outbox.fail(error))

    def _put(self, reply: pb.ReceiveReply) -> None:
        """Answer once everything done so far is durable."""
        self._desk.host.when_durable(lambda: self._outbox.put(reply))

    # --- time ---------------------------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if 0 < self._timeout_s < INFINITE:
            self._alarm = self._loop.call_at(self._waited_since + self._timeout_s, self._alarm_rings)

    def _alarm_rings(self) -> None:
        self._alarm = None
        if self._loop.time() < self._waited_since + self._timeout_s:  # messages came meanwhile
            self._set_alarm()
        elif self._credit:
            self._time_is_up()

    def _time_is_up(self) -> None:
        """Cancel the wait, if there is one."""
        self._reading.cancel(self.descriptor, _TAG, IoTimeoutError.code)

    # --- settling -----------------------------------------------------------------------------------------------

    def acknowledge(self, lookup_ids: Sequence[int]) -> None:
        """Remove held messages, all in one event; if that fails they are still held."""
        reading, descriptor = self._reading, self.descriptor
        self._settle(lookup_ids, lambda ids: reading.keep(descriptor, ids))

    def reject(self, lookup_ids: Sequence[int], subqueue: str) -> None:
        """Return held messages to their places, or move them to a subqueue."""
        reading, descriptor = self._reading, self.descriptor
        if not subqueue:
            self._settle(lookup_ids, lambda ids: reading.reject(descriptor, ids))
            return
        target = self._desk.manager.queues.subqueue(self._queue().root, subqueue)
        self._settle(lookup_ids, lambda ids: reading.hand_over(descriptor, ids, target))

    def _settle(self, lookup_ids: Sequence[int], act: Callable[[list[int]], int]) -> None:
        """Settle several held messages together, and answer with the result."""
        self._queue()
        held = [lookup_id for lookup_id in lookup_ids if lookup_id in self._held]
        settled, failure = 0, None
        # Messages that are given back may come to this reader again in the same event.
        self._held.difference_update(held)
        try:
            settled = act(held)
        except MQError as error:
            self._held.update(held)
            failure = error_message(error)
        else:
            if settled < len(set(held)):
                lost = TransactionSequenceError("Some of these messages are no longer held by this reader.")
                failure = error_message(lost)
        unknown = []
        if len(held) < len(lookup_ids):
            unknown = [lookup_id for lookup_id in lookup_ids if lookup_id not in set(held)]
        reply = pb.ReceiveReply(settled=pb.Settled(messages=settled, unknown=unknown, error=failure))
        self._desk.host.when_durable(lambda: self._outbox.put(reply))

    def _queue(self) -> Queue:
        queue = self.descriptor.queue
        if queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return queue


class ReceiveCalls:
    """The call Receive."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def receive(self, context: Conversation, outbox: Outbox, caller: Token) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        if first.WhichOneof("request") != "open":
            raise InvalidParameterError("The first message of a stream opens the queue.")
        receiver = await self._desk.host.ask(lambda: Receiver(self._desk, first.open, outbox, caller))
        try:
            outbox.put(pb.ReceiveReply(opened=receiver.opened))
            while (request := await context.read()) is not grpc.aio.EOF:
                kind = request.WhichOneof("request")
                if kind == "credit":
                    receiver.credit(request.credit)
                elif kind == "acknowledge":
                    receiver.acknowledge(request.acknowledge.lookup_ids)
                elif kind == "reject":
                    receiver.reject(request.reject.lookup_ids, request.reject.subqueue)
                await outbox.room()
            await self._desk.durable()
        finally:
            receiver.close()
