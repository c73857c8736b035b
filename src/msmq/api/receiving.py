"""Receive: messages out of queues, or a look at them, as long as there is credit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.packing import to_delivered
from msmq.api.status import to_message as error_message
from msmq.errors import (
    InvalidParameterError,
    IoTimeoutError,
    MQError,
    QueueNotAvailableError,
    TransactionSequenceError,
    error_for,
)
from msmq.manager.cursor import CursorState
from msmq.manager.model import QueueShareMode
from msmq.manager.positions import PositionState
from msmq.manager.queue import Queue, ReadResult
from msmq.manager.reading import INFINITE
from msmq.manager.stored import StoredMessage
from msmq.manager.transactions import Transaction
from msmq.security.access import Token

_TURN_MESSAGES: Final = 256
_TURN_BYTES: Final = 1 << 20
"""What is read in one turn of the loop, and goes out in one answer."""
_TAG: Final = 1
_NO_MORE: Final = frozenset({IoTimeoutError.code, TransactionSequenceError.code})
"""How a wait ends without harm: the time is up, or the transaction it was part of."""


class Receiver:
    """A queue that is open for receiving, and what its reader may still get."""

    def __init__(self, desk: Desk, request: pb.OpenToReceive, outbox: Outbox, caller: Token) -> None:
        self._desk = desk
        self._outbox = outbox
        self._caller = caller
        self._mode, self._form = request.mode, request.form
        manager = desk.manager
        self._reading = manager.reading
        self._bulk = manager.bulk_reading
        self._packets = request.packets and self._form == pb.PACKET and self._mode == pb.HOLD
        name = desk.names.format_name(request.queue)
        access = desk.reading_access(name, receive=self._mode != pb.PEEK)
        share = QueueShareMode.DENY_RECEIVE if request.exclusive else QueueShareMode.DENY_NONE
        self.descriptor = manager.queues.open(name, access, share, caller)
        self._cursor = self._reading.open_cursor(self.descriptor) if self._mode == pb.PEEK else None
        self._loop = asyncio.get_running_loop()
        self._credit = 0
        self._transaction: Transaction | None = None
        self._timeout_s = INFINITE
        self._waited_since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._under_way = False
        self._turn: list[pb.Delivered] = []
        self._turn_bytes = 0
        self._flush_planned = False
        self._held: dict[int, StoredMessage | None] = {}
        """What the reader has not settled; of plain messages nothing has to be remembered."""
        self._undurable = 0
        """Answers with messages that wait for the disk."""
        self._closed = False

    @property
    def opened(self) -> pb.Opened:
        queue = self.descriptor.queue
        return pb.Opened(
            format_name=self.descriptor.format_name, transactional=queue is not None and queue.transactional
        )

    def close(self) -> None:
        """What was not settled goes back to its place."""
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
        """Ask for messages until credit or turn are used up, or a read has to wait."""
        while (
            self._credit
            and not self._under_way
            and not self._closed
            and len(self._turn) < _TURN_MESSAGES
            and self._turn_bytes < _TURN_BYTES
        ):
            if self._packets and not self._turn and self._transaction is None and self._read_packets():
                break
            if self._cursor is not None or not self._read_many():
                self._under_way = True
                self._read()
        if self._turn and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _read_packets(self) -> bool:
        """Hold and ship a turn of plain messages, without a step for each; False when the first one is not plain."""
        found = self._bulk.hold(self.descriptor, min(self._credit, _TURN_MESSAGES), _TURN_BYTES)
        if found is None:
            return False
        ids = found.lookup_ids
        self._credit -= len(ids)
        self._held.update(dict.fromkeys(ids))
        packets = pb.Packets(lookup_ids=ids, arrived_times=found.arrival_times, packets=found.packets)
        reply = pb.ReceiveReply(packets=packets)
        self._waited_since = self._loop.time()
        if found.durable and not self._undurable:
            self._outbox.put(reply)  # whatever else the disk is busy with
        else:
            self._deliver_durably(reply)
        if self._credit and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)
        return True

    def _read_many(self) -> bool:
        """Take what is there, up to credit and turn; False when nothing is, or nothing can be had."""
        results = self._reading.dequeue_many(
            self.descriptor,
            min(self._credit, _TURN_MESSAGES - len(self._turn)),
            _TURN_BYTES - self._turn_bytes,
            transaction=self._transaction,
            two_phase_read=self._mode == pb.HOLD,
        )
        for result in results:
            if result.message is None:
                return False  # the read that waits is told the reason
            self._deliver(result)
        return bool(results)

    def _read(self) -> None:
        timeout_s = 0.0 if self._timeout_s == 0 else INFINITE
        cursor = self._cursor
        if cursor is not None:
            if cursor.state is CursorState.UNREAD:
                self._reading.peek(self.descriptor, self._done, timeout_s=timeout_s, cursor=cursor, tag=_TAG)
            else:
                self._reading.peek_next(self.descriptor, self._done, cursor, timeout_s=timeout_s, tag=_TAG)
        else:
            self._reading.dequeue(
                self.descriptor,
                self._done,
                timeout_s=timeout_s,
                transaction=self._transaction,
                tag=_TAG,
                two_phase_read=self._mode == pb.HOLD,
            )

    def _done(self, result: ReadResult) -> None:
        self._under_way = False
        if self._closed:
            return
        if result.message is None:
            self._ended(result.status)
            return
        self._deliver(result)
        self._read_on()

    def _deliver(self, result: ReadResult) -> None:
        message = result.message
        assert message is not None
        assert result.position is not None
        queue, lookup_id = result.position
        self._credit -= 1
        if self._mode == pb.HOLD and self._transaction is None:
            self._held[lookup_id] = message
        self._turn.append(to_delivered(message, self._form, queue.aborts.get(lookup_id, 0)))
        self._turn_bytes += message.size

    def _ended(self, status: int) -> None:
        """A read that brought nothing: the time is up, or there is no queue any more."""
        if status not in _NO_MORE:
            self._desk.host.when_durable(lambda: self._outbox.fail(error_for(status)))
            return
        self._credit = 0
        self._flush_now()
        self._put(pb.ReceiveReply(timed_out=pb.TimedOut()))

    def _flush(self) -> None:
        self._flush_planned = False
        self._flush_now()
        self._read_on()

    def _flush_now(self) -> None:
        if self._turn and not self._closed:
            self._deliver_durably(pb.ReceiveReply(deliveries=pb.Deliveries(messages=self._turn)))
            self._turn, self._turn_bytes = [], 0
            self._waited_since = self._loop.time()

    def _put(self, reply: pb.ReceiveReply) -> None:
        """Answer when everything done so far will survive."""
        self._desk.host.when_durable(lambda: self._outbox.put(reply))

    def _deliver_durably(self, reply: pb.ReceiveReply) -> None:
        """The same with messages, which keep their order."""

        def put() -> None:
            self._undurable -= 1
            self._outbox.put(reply)

        self._undurable += 1
        self._desk.host.when_durable(put)

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
        """End the wait, if one is under way."""
        self._reading.cancel(self.descriptor, _TAG, IoTimeoutError.code)

    # --- settling -----------------------------------------------------------------------------------------------

    def acknowledge(self, lookup_ids: Iterable[int]) -> None:
        """Held messages go, all of them in one event; if that fails they are still held."""
        ids = list(lookup_ids)
        if not self._keep(ids):
            self._end(ids)

    def _keep(self, ids: list[int]) -> bool:
        """The usual case: all of them are held and plain."""
        held = self._held
        named = set(ids)
        if len(named) != len(ids) or not held.keys() >= named:
            return False
        try:
            if not self._bulk.keep(self.descriptor, ids):
                return False
        except MQError:
            return False  # it fails again, and then the reader is told
        for lookup_id in ids:
            del held[lookup_id]
        reply = pb.ReceiveReply(settled=pb.Settled(messages=len(ids)))
        # The reader has other messages to go on with, as a rule, and wants the next ones.
        self._desk.host.when_durable(lambda: self._outbox.put(reply), patient=len(ids) > 1)
        return True

    def _end(self, ids: list[int]) -> None:
        queue = self._queue()
        found: dict[int, StoredMessage] = {}
        unknown, damaged = list[int](), list[int]()
        for lookup_id in ids:
            if lookup_id not in self._held:
                unknown.append(lookup_id)
            elif (message := self._held[lookup_id] or self._read_again(queue, lookup_id)) is not None:
                found[lookup_id] = message
            else:
                damaged.append(lookup_id)
        settled, failure = 0, None
        try:
            settled = self._reading.end_all(self.descriptor, found.values())
            for lookup_id in (*found, *damaged):
                del self._held[lookup_id]
            if damaged or settled < len(found):
                raise TransactionSequenceError("Some of these messages are no longer held by this reader.")
        except MQError as error:
            failure = error_message(error)
        self._put(pb.ReceiveReply(settled=pb.Settled(messages=settled, unknown=unknown, error=failure)))

    def _read_again(self, queue: Queue, lookup_id: int) -> StoredMessage | None:
        """A plain message that was shipped without a look into it, read before it leaves its queue, because somebody
        may have to be told of it; None when the disk has damaged it."""
        entry = queue.positions.get(lookup_id)
        return None if entry is None else self._desk.manager.placing.fetch(queue, entry)

    def reject(self, lookup_ids: Iterable[int], subqueue: str) -> None:
        queue = self._queue()
        if not subqueue:
            self._settle(
                list(lookup_ids),
                lambda lookup_id: self._give_back(queue, lookup_id),
            )
            return
        target = self._desk.manager.queues.subqueue(queue.root, subqueue)
        self._settle(list(lookup_ids), lambda lookup_id: self._move(queue, lookup_id, target))

    def _queue(self) -> Queue:
        queue = self.descriptor.queue
        if queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return queue

    def _give_back(self, queue: Queue, lookup_id: int) -> None:
        self._reading.dequeue_end(self.descriptor, queue.position(lookup_id), delete_message=False)

    def _move(self, queue: Queue, lookup_id: int, target: Queue) -> None:
        position = queue.position(lookup_id)
        if position.state is PositionState.PURGE_PENDING:
            self._reading.dequeue_end(self.descriptor, position, delete_message=False)
            return
        self._desk.manager.placing.relocate(queue, lookup_id, target)
        self.descriptor.begun.discard(lookup_id)

    def _settle(self, lookup_ids: list[int], act: Callable[[int], None]) -> None:
        settled, unknown = 0, []
        failure: pb.Error | None = None
        for lookup_id in lookup_ids:
            if lookup_id not in self._held:
                unknown.append(lookup_id)
                continue
            del self._held[lookup_id]
            try:
                act(lookup_id)
                settled += 1
            except MQError as error:
                failure = error_message(error)
        reply = pb.Settled(messages=settled, unknown=unknown, error=failure)
        self._put(pb.ReceiveReply(settled=reply))


class ReceiveCalls:
    """The call that receives and watches."""

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
