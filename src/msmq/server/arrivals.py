"""Everything that arrives: judging messages, storing them, and telling their senders (MS-MQQB 3.1.5.8).

The messages of one read are taken one after another: acknowledgments of orders go to the sending half, the others
are compared with what came before, delivered to their queue or refused. All of it is appended to the store at once
and made durable together with what others append; only then does the session hear that they are stored.

A transactional message and the new place of its stream are one event, so that both survive or neither.
One that cannot be taken for want of room costs the session: the sender comes back with it later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from ipaddress import ip_address
from typing import Any, Final

from msmq.errors import (
    DecodeError,
    InsufficientResourcesError,
    MessageStorageFailedError,
    MQError,
    MsmqError,
)
from msmq.manager.core import Subscriber
from msmq.manager.model import EnqueueStatus, QueueAccessType
from msmq.manager.outgoing_queues import Purpose
from msmq.manager.placing import is_destination
from msmq.manager.positions import PositionState
from msmq.manager.queue import MessagePosition, Queue
from msmq.manager.queue_manager import QueueManager
from msmq.manager.sending import REFUSAL
from msmq.manager.stored import LocalAttributes, StoredMessage
from msmq.manager.transit import INTAKE_BYTES
from msmq.security.rejections import MessageRejectedError
from msmq.server.addressing import Addressing
from msmq.server.alarm import Alarm, now_ms
from msmq.server.connection import Connection
from msmq.server.forwarding import Forwarding, NoRoomError
from msmq.server.group_commit import GroupCommit
from msmq.server.outgoing import Outgoing
from msmq.server.remembered import RememberedIds
from msmq.server.runs import JOURNALED, STRANGER, Batch, RunTaking, Way
from msmq.server.settling import Voice
from msmq.server.streams import RememberedStreams, stream_of
from msmq.server.tracing import Tracing
from msmq.transfer.events import MessagesReceived
from msmq.transfer.final_ack import wants_final_ack
from msmq.transfer.history import message_identifier
from msmq.transfer.order_receiver import (
    OrderAckDue,
    OrderReceiver,
    Progress,
    Stream,
    Verdict,
    order_acknowledgment,
)
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name as name_in_packet
from msmq.wire.headers import NULL_GUID, USER_SH, USER_TH
from msmq.wire.message import UserMessage
from msmq.wire.names import DirectName, FormatName, Protocol, is_read_only, parse_format_name
from msmq.wire.names.direct import DIRECT_PREFIX
from msmq.wire.packets import (
    FinalAckBody,
    OrderAckBody,
    build_order_message,
    is_for_order_queue,
)
from msmq.wire.runs import Run

_SLACK_BYTES: Final = 8_192
_RECORDS: Final = 16
_REFUSED_BYTES: Final = 1_024
_WAY_FLAGS: Final = USER_TH | 7 << 10
"""What of UserHeader.Flags decides where a message goes: Flags.TH and Flags.DQ."""
_OWN_ATTRIBUTES: Final = USER_TH | USER_SH
"""Messages with either of these headers may get local attributes here."""
_log = logging.getLogger(__name__)


_Arrival = tuple[Run, Way]


def _room_for(arrivals: list[_Arrival]) -> tuple[int, int]:
    """Bytes and records to reserve: the messages, acknowledgments of them (which may bring the body back) and the
    places of their streams."""
    size, records = _SLACK_BYTES, _RECORDS
    for run, _ in arrivals:
        sample, count = run.sample, len(run)
        if sample.properties.flags or sample.user.flags & JOURNALED:
            size += 3 * run.size + count * _SLACK_BYTES
            records += count * _RECORDS
        else:
            size += run.size + count * (_REFUSED_BYTES if sample.transactional else INTAKE_BYTES)
            records += 3 * count
    return size, records


def _one_by_one(arrivals: list[_Arrival]) -> list[_Arrival]:
    return [(Run.of(message), way) for run, way in arrivals for message in run.messages]


class Arrivals(Subscriber):
    """The receiving half of the daemon."""

    def __init__(
        self,
        manager: QueueManager,
        commit: GroupCommit,
        outgoing: Outgoing,
        timers: TimerSettings,
        values: Mapping[str, Any],
        addressing: Addressing,
        tracing: Tracing | None = None,
    ) -> None:
        """``values`` are those of the ledger, as recovery found them."""
        self._addressing = addressing
        self._tracing = tracing
        self._manager = manager
        self._core = manager.core
        self._commit = commit
        self._outgoing = outgoing
        self._own_guid = manager.core.record.identifier
        self._history = RememberedIds(
            self._core.ledger, values, timers.message_id_history_cleanup_ms, self._core.now_s
        )
        self.forwarding = Forwarding(manager, addressing, self._history, tracing, self._send_final_ack)
        self._streams = RememberedStreams(manager.core)
        self._receiver: OrderReceiver[Connection] = OrderReceiver(
            timers, self._streams.restore(values), now_ms()
        )
        self._runs = RunTaking(manager, self._history, self._receiver)
        self._unsent: dict[Stream, OrderAckDue[Connection]] = {}
        self._routed: dict[Stream, MessagePosition] = {}
        """OrderAcks that wait for their way back, the last one of each stream."""
        self._alarm = Alarm(self._timer_expired)

    def stop(self) -> None:
        self._alarm.stop()

    # Messages from a session

    def receive(self, connection: Connection, event: MessagesReceived) -> None:
        """Take what a session has brought: as one event if there is room for all of it, else one by one."""
        batch = Batch(connection, self._core.now_s)
        size = event.size
        try:
            ordinary = self._acknowledgments(batch, event.runs)
            try:
                with self._core.event(*_room_for(ordinary)):
                    self._take_all(batch, ordinary)
            except MessageStorageFailedError:
                for arrival in _one_by_one(ordinary)[batch.taken :]:
                    with self._core.event(*_room_for([arrival])):
                        self._take_all(batch, [arrival])
        except DecodeError as error:
            connection.dispatch(connection.session.close(now_ms(), malformed=str(error)))
        except (NoRoomError, MessageStorageFailedError, InsufficientResourcesError) as error:
            connection.refuse(str(error))
        self._history.write(batch.now_s)
        for stream, way in batch.touched.items():
            assert way.queue is not None
            self._streams.show(stream[0], way.queue, way.name, self._receiver.progress(stream))
        connection.hold(size)
        self._commit.when_durable(partial(self._stored, connection, event, batch.progress, size))
        self._set_alarm()

    def _stored(
        self, connection: Connection, event: MessagesReceived, progress: dict[Stream, Progress], size: int
    ) -> None:
        for stream, reached in progress.items():
            self._receiver.durable(stream, reached)
            due = self._receiver.many_taken(stream, now_ms())
            if due is not None:
                self._send_order_ack(due)
        connection.let_go(size)
        if event.recoverables and connection.is_open:
            connection.session.stored(event.first_recoverable, event.recoverables, now_ms())
            connection.flush()
        self._set_alarm()

    def _acknowledgments(self, batch: Batch, runs: Sequence[Run]) -> list[_Arrival]:
        """Take what is for other hosts and what queue managers tell each other about orders; gives the rest, with
        where they go."""
        ordinary: list[_Arrival] = []
        for run in runs:
            if self.forwarding.concerns(run.sample):
                for message in run.messages:
                    self.forwarding.take(message)
                continue
            way = self._way(batch, run.sample)
            if not way.order_queue:
                ordinary.append((run, way))
                continue
            connection = batch.connection
            for message in run.messages:
                acknowledgment = order_acknowledgment(message)
                voice = Voice(
                    connection.peer, connection.session.remote_guid, message.user.source_queue_manager
                )
                if acknowledgment is None:
                    ordinary.append((Run.of(message), way))
                elif isinstance(acknowledgment, OrderAckBody):
                    self._outgoing.order_ack(acknowledgment, voice)
                else:
                    self._outgoing.final_ack(acknowledgment, message.properties.message_class, voice)
        return ordinary

    def _take_all(self, batch: Batch, arrivals: list[_Arrival]) -> None:
        """Take messages within one event, which also has the new places of their streams."""
        try:
            for run, way in arrivals:
                rest = run
                if way.queue is not None and 0 < (readers := len(way.queue.waiting)) < len(run):
                    first, rest = run.split(readers)  # of which each reader gets one
                    self._take_each(batch, first, way)
                if self._runs.take(batch, rest, way):
                    batch.taken += len(rest)
                else:
                    self._take_each(batch, rest, way)
        finally:
            for stream, reached in batch.unwritten.items():
                way = batch.touched[stream]
                assert way.queue is not None
                self._streams.write(stream[0], way.queue, way.name, reached)
            batch.progress.update(batch.unwritten)
            batch.unwritten.clear()

    def _take_each(self, batch: Batch, run: Run, way: Way) -> None:
        for message in run.messages:
            if message.transactional:
                self._take_transactional(batch, message, way)
            else:
                self._take_plain(batch, message, way)
            batch.taken += 1

    def _take_plain(self, batch: Batch, message: UserMessage, way: Way) -> None:
        identifier = message_identifier(message)
        if not self._history.seen(identifier, batch.now_s):
            self._deliver(way, self._arrived(way, message))
            self._history.record(identifier, batch.now_s, recoverable=message.recoverable)

    def _take_transactional(self, batch: Batch, message: UserMessage, way: Way) -> None:
        header = message.transaction
        assert header is not None
        connection, queue = batch.connection, way.queue
        arrived = self._arrived(way, message)
        source = message.user.source_queue_manager
        if queue is None:
            # Nothing is remembered for a queue that is not there: whatever its number, the message is refused.
            self._deliver(way, arrived)
            body = OrderAckBody.of(header.tx_sequence_id, max(header.tx_sequence_number, 1))
            self._send_order_ack(OrderAckDue((source, 0), connection, body))
            return
        stream = stream_of(source, queue, way.name)
        batch.touched[stream] = way
        if self._receiver.judge(stream, header, connection, batch.now_ms, batch.now_s) is Verdict.ACCEPTED:
            self._deliver(way, arrived)
            batch.unwritten[stream] = self._receiver.advance(
                stream, header, connection, batch.now_ms, batch.now_s
            )

    # Delivery

    def _arrived(self, way: Way, message: UserMessage) -> StoredMessage:
        """Where it came from matters only for a FinalAck."""
        if not message.user.flags & _OWN_ATTRIBUTES:
            return StoredMessage(message)
        local = LocalAttributes()
        if message.transactional and wants_final_ack(message):
            local.source_address = way.source_address
        return StoredMessage(message, local)

    def _way(self, batch: Batch, message: UserMessage) -> Way:
        """Where a message goes; the messages of a batch that name the same queue in the same way share one."""
        user = message.user
        session = batch.connection.session
        own = session.remote_guid == user.source_queue_manager  # else it came by way of others
        key = (user.flags & _WAY_FLAGS, user.destination_queue, user.queue_manager_address, own)
        way = batch.ways.get(key)
        if way is None:
            from_where = batch.connection.peer if session.direct and own else ""
            queue, name = self._destination(message)
            way = Way(queue, name, is_for_order_queue(message), from_where)
            batch.ways[key] = way
            if way.queue is not None:
                way.insert = self._manager.transit.intake(way.queue)
                way.tell = self._core.told_arrived
        return way

    def _destination(self, message: UserMessage) -> tuple[Queue | None, str]:
        """The queue of this host that a message is for, and what its sender calls it."""
        user = message.user
        text = name_in_packet(user, user.destination_reference, user.destination_queue) or ""
        name = None if is_for_order_queue(message) else _local_name(text)
        queue = None if name is None else self._manager.naming.find(name)
        if queue is None or not is_destination(queue) or queue.parent is not None:
            return None, text
        return queue, text

    def _deliver(self, way: Way, message: StoredMessage) -> None:
        """Put a message into its queue, or refuse it for good.

        Raises:
            NoRoomError: it is neither, because this host is full.
        """
        fate = self._fate(way, message)
        if fate is MessageClass.ACK_REACH_QUEUE:
            if self._tracing is not None:
                self._tracing.received(message.packet)
            return
        if message.packet.transactional:
            message.local.source_address = way.source_address
            self._send_final_ack(message, fate)
        elif fate is MessageClass.NACK_Q_EXCEED_QUOTA and message.packet.user.negative_journaling:
            dead_letters = self._core.dead_letter_queue
            assert dead_letters is not None
            message.local = message.local.changed(dead_letter_class=int(fate))
            self._manager.placing.insert(dead_letters, message)

    def _fate(self, way: Way, message: StoredMessage) -> MessageClass:
        packet = message.packet
        queue = way.queue
        refusal = None
        sender = STRANGER
        if queue is None:
            refusal = MessageClass.NACK_BAD_DST_Q
        elif packet.user.flags & USER_SH and queue.transactional == packet.transactional:
            try:
                sender = self._manager.credentials.examine(message)
            except MessageRejectedError as error:
                refusal = error.message_class
        if queue is None or refusal is not None:
            assert refusal is not None
            self._manager.acknowledging.acknowledge(packet, refusal)
            return refusal
        status = self._manager.placing.admit(queue, message)
        if status is EnqueueStatus.QUEUE_MANAGER_QUOTA:
            raise NoRoomError("the quota of the queue manager is used up")
        if packet.user.flags & USER_SH:
            fate = self._manager.sending.judge(queue, message, sender)
        else:
            fate = self._runs.verdict(queue, way, message)
        if fate is None:
            if status is EnqueueStatus.OK:
                way.insert(message)
                fate = MessageClass.ACK_REACH_QUEUE
            else:
                fate = REFUSAL[status]
        for tell in way.tell:
            tell(queue, message, fate)
        return fate

    # Acknowledging transactional messages

    only_owing = True

    def message_position_deleted(self, queue: Queue, message: StoredMessage, reason: int) -> None:
        """A message left its destination queue: its sender may be waiting to hear of it (3.1.7.2.2)."""
        if not is_destination(queue) or reason < MessageClass.ACK_RECEIVE or message.owes_nothing:
            return
        if wants_final_ack(message.packet):
            self._send_final_ack(message, MessageClass(reason))

    def _send_final_ack(self, message: StoredMessage, message_class: MessageClass) -> None:
        source, address = message.packet.user.source_queue_manager, message.local.source_address
        if source == self._own_guid or (source == NULL_GUID and not address):
            return  # nobody to tell
        packet = build_order_message(
            FinalAckBody.of(message.packet),
            message_class,
            source=self._own_guid,
            destination=ip_address(address) if address else source,
            message_id=self._core.next_message_ordinal(),
            sent_time=self._core.now_s,
        )
        # What was taken owes its sender a FinalAck; strangers whose messages were refused may have to do without.
        self._post(packet, Purpose.DUTY if message.lookup_id else Purpose.COURTESY)

    def _post(self, packet: UserMessage, purpose: Purpose) -> MessagePosition | None:
        """Let an acknowledgment go the way of other messages."""
        user = packet.user
        name = name_in_packet(user, user.destination_reference, user.destination_queue)
        assert name is not None
        queues = self._manager.queues
        try:
            descriptor = queues.open(name, QueueAccessType.SEND, purpose=purpose)
            assert descriptor.queue is not None
            try:
                # It is part of a message's end, which a full disk does not put off: no other will ever tell the sender.
                return self._manager.placing.insert(
                    descriptor.queue, StoredMessage(packet, LocalAttributes()), freeing=True
                )
            finally:
                queues.close(descriptor)
        except MsmqError as error:
            _log.debug("no acknowledgment to %s: %s", name, error)
            return None

    def _send_order_ack(self, due: OrderAckDue[Connection]) -> None:
        session = due.link.session
        source = due.stream[0]
        direct = session.direct and session.remote_guid == source
        if source == NULL_GUID and not direct:
            return  # nobody to tell
        packet = build_order_message(
            due.body,
            MessageClass.ORDER_ACK,
            source=self._own_guid,
            destination=ip_address(due.link.peer) if direct else source,
            message_id=self._core.next_message_ordinal(),
            sent_time=self._core.now_s,
        )
        if session.remote_guid != source and self._addressing.knows_way(source):
            self._route_order_ack(due.stream, packet)
        else:
            self._commit.when_durable(partial(self._ship_order_ack, due, packet.data))

    def _route_order_ack(self, stream: Stream, packet: UserMessage) -> None:
        """The message came by way of others: its OrderAck finds its own way to the sender. One that still waits is
        out of date."""
        old = self._routed.pop(stream, None)
        if old is not None and old.state is PositionState.AVAILABLE:
            self._manager.placing.delete(old.queue, old.lookup_id, MessageClass.NORMAL)
        position = self._post(packet, Purpose.COURTESY)
        if position is not None:
            self._routed[stream] = position
        self._commit.request()

    def _ship_order_ack(self, due: OrderAckDue[Connection], packet: bytes) -> None:
        if not due.link.is_open:
            return
        if due.link.session.send(packet, None, now_ms()):
            due.link.flush()
        else:
            self._unsent[due.stream] = due  # the window is closed; the next acknowledgment opens it

    def room_again(self, connection: Connection) -> None:
        """The window of a session has opened."""
        if self._unsent:
            unsent, self._unsent = self._unsent, {}
            for stream, due in unsent.items():
                if due.link is connection:
                    self._send_order_ack(due)
                elif due.link.is_open:
                    self._unsent[stream] = due

    def closed(self, connection: Connection) -> None:
        self._receiver.link_closed(connection)

    # Time

    def _set_alarm(self) -> None:
        deadline_s = self._history.deadline_s
        history_ms = None if deadline_s is None else deadline_s * 1_000 - self._outgoing.epoch_ms
        self._alarm.set(earliest(self._receiver.next_deadline_ms, history_ms))

    def _timer_expired(self) -> None:
        self._history.handle_timer(self._core.now_s)
        for due in self._receiver.handle_timer(now_ms()):
            self._send_order_ack(due)
        self._set_alarm()


@lru_cache(maxsize=1_024)
def _local_name(text: str) -> FormatName | None:
    """The name a message carries, as this host knows it; None when nobody can send to it.

    A direct name ends where it arrives, whatever this host is called there.
    """
    try:
        if text.startswith(DIRECT_PREFIX):
            direct = DirectName.from_wire_text(text[len(DIRECT_PREFIX) :])
            name: FormatName = replace(direct, protocol=Protocol.OS, address=".", port=None)
        else:
            name = parse_format_name(text)
    except (DecodeError, MQError):
        return None
    return None if is_read_only(name) else name
