"""Everything that arrives: judging messages, storing them, and telling their senders (MS-MQQB 3.1.5.8).

The messages of one read are taken together: acknowledgments of orders go to the sending half, the others are compared
with what came before, delivered to their queue or refused, those that go the same way as one batch. All of it is
appended to the store at once and made durable together with what others append; only then does the session hear that
they are stored.

A transactional message and the new place of its stream are one event, so that both survive or neither.
One that cannot be taken for want of room costs the session: the sender comes back with it later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from ipaddress import ip_address
from itertools import groupby
from typing import Any, Final

from msmq.errors import (
    DecodeError,
    InsufficientResourcesError,
    MessageStorageFailedError,
    MQError,
    MsmqError,
)
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.batch import (
    FINAL_ACK,
    NEGATIVE_JOURNALING,
    POSITIVE_JOURNALING,
    RECOVERABLE,
    Batch,
    marks_of,
    second_after,
)
from msmq.manager.mailbox.mailbox import is_destination
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes, StoredMessage
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import Purpose
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.security.access import Token
from msmq.security.rejections import MessageRejectedError
from msmq.server.alarm import Alarm, now_ms
from msmq.server.group_commit import GroupCommit
from msmq.server.inbound.connection import Connection
from msmq.server.inbound.forwarding import Forwarding, NoRoomError
from msmq.server.inbound.remembered import RememberedIds
from msmq.server.inbound.reports import Tracing
from msmq.server.inbound.streams import RememberedStreams, stream_of
from msmq.server.outbound.next_hop import Addressing
from msmq.server.outbound.outgoing import Outgoing
from msmq.server.outbound.settlement import Voice
from msmq.transfer.events import MessagesReceived
from msmq.transfer.final_ack import wants_final_ack
from msmq.transfer.order_receiver import (
    OrderAckDue,
    OrderReceiver,
    Progress,
    Stream,
    order_acknowledgment,
)
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name as name_in_packet
from msmq.wire.headers import BASE_TR, NULL_GUID, USER_SH, USER_TH
from msmq.wire.incoming import Incoming
from msmq.wire.message import UserMessage
from msmq.wire.names import DirectName, FormatName, Protocol, is_read_only, parse_format_name
from msmq.wire.names.direct import DIRECT_PREFIX
from msmq.wire.packets import (
    FinalAckBody,
    OrderAckBody,
    build_order_message,
    build_order_messages,
    is_for_order_queue,
)
from msmq.wire.trailers import host_in

_SLACK_BYTES: Final = 8_192
_RECORDS: Final = 16
_REFUSED_BYTES: Final = 1_024
_TAKEN_BYTES: Final = 96
"""What to reserve for a message beside its packet: when it may be refused, and when nothing can follow from it."""
_JOURNALED: Final = NEGATIVE_JOURNALING | POSITIVE_JOURNALING
_DESTINATION: Final = USER_TH | 7 << 10
"""What of UserHeader.Flags decides where a message goes: Flags.TH and Flags.DQ."""
_KEPT_HERE: Final = (MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
"""Refusals of plain messages that make dead letters on the host that refuses (3.1.5.8.8, 3.1.7.1.2); its sender has
done with them. A transactional message is kept by its sender, who is told by a FinalAck."""
STRANGER: Final = Token.anonymous()
_log = logging.getLogger(__name__)


def _room_for(messages: Incoming) -> tuple[int, int]:
    """Bytes and records to reserve: the messages, acknowledgments of them (which may bring the body back) and the
    places of their streams."""
    size, records = _SLACK_BYTES + messages.size, _RECORDS + 3 * len(messages)
    for index, (flags, asks) in enumerate(zip(messages.user_flags, messages.asks, strict=True)):
        if asks or flags & _JOURNALED:
            size += 2 * len(messages.packets[index]) + _SLACK_BYTES
            records += _RECORDS
        else:
            size += _REFUSED_BYTES if flags & USER_TH else _TAKEN_BYTES
    return size, records


@dataclass(eq=False, slots=True)
class Way:
    """What is the same for messages of one host that go to one queue."""

    queue: Queue | None
    name: str
    """What the sender calls the queue."""
    order_queue: bool
    """Whether it is the one for acknowledgments of orders."""
    source: bytes
    """The queue manager that sends."""
    host: bytes
    """The address of the host they come from, see :func:`msmq.wire.trailers.host_address`."""
    direct: bool
    """Whether their sender itself opened the session without saying whom it calls, so that FinalAcks go to its
    address."""

    def refused(self, packet: UserMessage) -> StoredMessage:
        """A message of theirs that is not kept, for its FinalAck."""
        return StoredMessage(packet, LocalAttributes(direct_session=self.direct), source=self.host)


class Reading:
    """What one read of a connection has brought, and how far it was taken."""

    __slots__ = ("connection", "now_ms", "now_s", "progress", "taken", "touched", "unwritten", "ways")

    def __init__(self, connection: Connection, now_s: int) -> None:
        self.connection = connection
        self.now_ms = now_ms()
        self.now_s = now_s
        self.taken = 0
        self.ways: dict[tuple[object, ...], Way] = {}
        self.touched: dict[Stream, Way] = {}
        self.unwritten: dict[Stream, Progress] = {}
        self.progress: dict[Stream, Progress] = {}
        """Streams that came further, and those of them whose new place is still to be written."""


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
        self.forwarding = Forwarding(
            manager,
            addressing,
            self._history,
            tracing,
            lambda message, fate: self._send_final_acks((message,), fate),
        )
        self._streams = RememberedStreams(manager.core)
        self._receiver: OrderReceiver[Connection] = OrderReceiver(
            timers, self._streams.restore(values), now_ms()
        )
        self._asked_again_s = timers.resend_timeouts_final_s
        """A sender that has heard nothing for so long has sent its message again, and gets another OrderAck."""
        self._unsent: dict[Stream, OrderAckDue[Connection]] = {}
        self._routed: dict[Stream, tuple[MessagePosition, int]] = {}
        """OrderAcks that wait for their way back, the last one of each stream, and since when."""
        self._alarm = Alarm(self._timer_expired)

    def stop(self) -> None:
        self._alarm.stop()

    # Messages from a session

    def receive(self, connection: Connection, event: MessagesReceived) -> None:
        """Take what a session has brought: as one event if there is room for all of it, else one by one."""
        reading = Reading(connection, self._core.now_s)
        size = event.messages.size
        try:
            messages, ways = self._acknowledgments(reading, event.messages)
            with self._manager.queues.outgoing.on_behalf_of(connection.peer):
                try:
                    self._take(reading, messages, ways)
                except MessageStorageFailedError:
                    for index in range(reading.taken, len(messages)):
                        self._take(reading, messages.only((index,)), ways[index : index + 1])
        except DecodeError as error:
            connection.dispatch(connection.session.close(now_ms(), malformed=str(error)))
        except (NoRoomError, MessageStorageFailedError, InsufficientResourcesError) as error:
            connection.refuse(str(error))
        self._history.write(reading.now_s)
        for stream, way in reading.touched.items():
            assert way.queue is not None
            self._streams.show(stream[0], way.queue, way.name, self._receiver.progress(stream))
        connection.hold(size)
        self._commit.when_durable(partial(self._stored, connection, event, reading.progress, size))
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

    def _acknowledgments(self, reading: Reading, messages: Incoming) -> tuple[Incoming, list[Way | None]]:
        """Take what queue managers tell each other about orders; gives the rest, and where each of it goes."""
        ways = [self._way(reading, messages, index) for index in range(len(messages))]
        orders = [index for index, way in enumerate(ways) if way is not None and way.order_queue]
        if not orders:
            return messages, ways
        taken = set()
        final_acks: list[tuple[FinalAckBody, int, Voice]] = []
        connection = reading.connection
        for index in orders:
            message = messages.message(index)
            acknowledgment = order_acknowledgment(message)
            if acknowledgment is None:
                continue
            taken.add(index)
            voice = Voice(connection.peer, connection.session.remote_guid, messages.sources[index])
            if isinstance(acknowledgment, OrderAckBody):
                self._outgoing.order_ack(acknowledgment, voice)
            else:
                final_acks.append((acknowledgment, message.properties.message_class, voice))
        self._outgoing.final_acks_heard(final_acks)
        rest = [index for index in range(len(messages)) if index not in taken]
        return messages.only(rest), [ways[index] for index in rest]

    def _take(self, reading: Reading, messages: Incoming, ways: list[Way | None]) -> None:
        """Take messages within one event, which also has the new places of their streams. Neighbours that go the same
        way are taken together."""
        if not len(messages):
            return
        with self._core.event(*_room_for(messages)):
            try:
                start = 0
                for way, group in groupby(ways):
                    stop = start + sum(1 for _ in group)
                    if way is None:
                        self.forwarding.take(messages, range(start, stop))
                    elif messages.sequels[start] is not None:
                        self._take_in_order(reading, messages, range(start, stop), way)
                    else:
                        self._take_plain(reading, messages, range(start, stop), way)
                    reading.taken += stop - start
                    start = stop
            finally:
                for stream, reached in reading.unwritten.items():
                    way = reading.touched[stream]
                    assert way.queue is not None
                    self._streams.write(stream[0], way.queue, way.name, reached)
                reading.progress.update(reading.unwritten)
                reading.unwritten.clear()

    def _take_plain(self, reading: Reading, messages: Incoming, indices: range, way: Way) -> None:
        """Messages without a transaction: those that came before are dropped."""
        history, now_s = self._history, reading.now_s
        fresh = history.fresh(way.source, messages.message_ids, indices, now_s)
        if not fresh:
            return
        taken = self._deliver(way, messages, fresh)
        for recoverable in (True, False):
            kept = [
                messages.message_ids[index]
                for index in fresh[:taken]
                if bool(messages.user_flags[index] & RECOVERABLE) is recoverable
            ]
            if kept:
                history.record_all(way.source, kept, now_s, recoverable=recoverable)
        self._check_room(taken, fresh)

    def _take_in_order(self, reading: Reading, messages: Incoming, indices: range, way: Way) -> None:
        """Transactional messages: those that follow what came before."""
        queue, connection, receiver = way.queue, reading.connection, self._receiver
        if queue is None:
            # Nothing is remembered for a queue that is not there: whatever its number, the message is refused.
            self._deliver(way, messages, indices)
            for index in indices:
                sequel = messages.sequels[index]
                assert sequel is not None
                body = OrderAckBody.of(sequel.tx_sequence_id, sequel.tx_sequence_number)
                self._send_order_ack(OrderAckDue((way.source, 0), connection, body))
            return
        stream = stream_of(way.source, queue, way.name)
        reading.touched[stream] = way
        accepted = receiver.judge_all(
            stream,
            [sequel for sequel in messages.sequels[indices.start : indices.stop] if sequel is not None],
            connection,
            reading.now_ms,
            reading.now_s,
        )
        chosen = [indices[index] for index in accepted]
        if not chosen:
            return
        taken = self._deliver(way, messages, chosen)
        if taken:
            last = messages.sequels[chosen[taken - 1]]
            assert last is not None
            reading.unwritten[stream] = receiver.advance(
                stream, last, connection, reading.now_ms, reading.now_s, messages=taken
            )
        self._check_room(taken, chosen)

    @staticmethod
    def _check_room(taken: int, wanted: Sequence[int]) -> None:
        if taken < len(wanted):
            raise NoRoomError("the quota of the queue manager is used up")

    # Delivery

    def _way(self, reading: Reading, messages: Incoming, index: int) -> Way | None:
        """Where a message goes, None when it is for somebody else; messages of a read that name the same queue in the
        same way share one."""
        address, source = messages.addresses[index], messages.sources[index]
        if self.forwarding.concerns(address):
            return None
        destination = messages.user_flags[index] & _DESTINATION
        key: tuple[object, ...] = (destination, messages.names[index], address, source)
        way = reading.ways.get(key)
        if way is None:
            message, connection = messages.message(index), reading.connection
            direct = connection.session.direct and connection.session.remote_guid == source
            queue, name = self._destination(message)
            # The names of other queues may differ, and most of those messages still go the same way.
            way = reading.ways.setdefault(
                (destination, name, address, source),
                Way(queue, name, is_for_order_queue(message), source, connection.source, direct),
            )
            reading.ways[key] = way
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

    def _deliver(self, way: Way, messages: Incoming, chosen: Sequence[int]) -> int:
        """Put messages into their queue, or refuse them for good; gives how many. The rest can be neither, because this
        host is full."""
        batch = self._batch(way, messages, chosen)
        if way.queue is None:
            fate = MessageClass.NACK_BAD_DST_Q
            packets = [messages.message(index) for index in chosen]
            self._manager.acknowledging.acknowledge(packets, fate)
            self._send_final_acks([way.refused(each) for each in packets if each.transactional], fate)
            return len(chosen)
        senders, refused = self._examine(way.queue, messages, chosen, batch)
        delivery = self._manager.sending.deliver(
            way.queue, batch, STRANGER, senders=senders, refused=refused, waits_for_room=True
        )
        for index, fate in enumerate(delivery.fates):
            if fate is not MessageClass.ACK_REACH_QUEUE:
                self._refused(way, batch, index, fate)
            elif self._tracing is not None and batch.base_flags[index] & BASE_TR:
                self._tracing.received(UserMessage.route(batch.packets[index]))
        return len(delivery.fates)

    def _batch(self, way: Way, messages: Incoming, chosen: Sequence[int]) -> Batch:
        """The messages as their queue is to keep them."""
        if len(chosen) < len(messages):
            messages = messages.only(chosen)
        own, flags = way.source == self._own_guid, messages.user_flags
        final_acks = [0 if sequel is None else sequel.flags & FINAL_ACK for sequel in messages.sequels]
        local = {}
        if way.direct and not own:
            kept = LocalAttributes(direct_session=True)
            local = {
                index: kept
                for index, final_ack in enumerate(final_acks)
                if flags[index] & USER_TH and (final_ack or flags[index] & _JOURNALED)
            }
        return Batch(
            list(messages.packets),
            flags,
            messages.base_flags,
            list(map(second_after, messages.sent_times, messages.times_to_be_received_s)),
            list(map(second_after, messages.sent_times, messages.times_to_reach_queue_s)),
            messages.asks,
            bytes(
                marks_of(each, asks, ours=own, final_ack=final_ack, sourced=bool(way.host))
                for each, asks, final_ack in zip(flags, messages.asks, final_acks, strict=True)
            ),
            local,
            [way.host] * len(messages),
        )

    def _examine(
        self, queue: Queue, messages: Incoming, chosen: Sequence[int], batch: Batch
    ) -> tuple[dict[int, Token], dict[int, MessageClass]]:
        """Verify and decrypt what asks for it: who sent some of the messages, and why some are refused."""
        senders: dict[int, Token] = {}
        refused: dict[int, MessageClass] = {}
        credentials = self._manager.credentials
        believes = credentials.policy.believe_unsigned_senders
        for place, index in enumerate(chosen):
            flags = messages.user_flags[index]
            if not (messages.proofs[index] or (believes and flags & USER_SH)):
                continue  # nothing but a name, and nothing to prove it
            if queue.transactional != bool(flags & USER_TH):
                continue
            local = batch.local.get(
                place, NO_ATTRIBUTES
            ).changed()  # what is found out is about this message alone
            stored = StoredMessage(messages.message(index), local)
            try:
                senders[place] = credentials.examine(stored)
            except MessageRejectedError as error:
                refused[place] = error.message_class
                continue
            batch.replace(place, stored)
        return senders, refused

    def _refused(self, way: Way, batch: Batch, index: int, fate: MessageClass) -> None:
        """A message is not taken: its sender's queue manager is told, or the message is kept here."""
        flags = batch.user_flags[index]
        if flags & USER_TH:
            self._send_final_acks((way.refused(UserMessage.route(batch.packets[index])),), fate)
        elif fate in _KEPT_HERE and flags & NEGATIVE_JOURNALING:
            kept = StoredMessage(
                UserMessage.route(batch.packets[index]),
                batch.local.get(index, NO_ATTRIBUTES),
                source=way.host,
            )
            self._manager.sending.dead_letter_copies((kept,), fate)

    # Acknowledging transactional messages

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        """Messages left their destination queue: their senders may be waiting to hear of it (3.1.7.2.2)."""
        if not is_destination(queue) or reason < MessageClass.ACK_RECEIVE:
            return
        wanting = [message for message in messages if wants_final_ack(message.packet)]
        self._send_final_acks(wanting, MessageClass(reason))

    def _send_final_acks(self, messages: Iterable[StoredMessage], message_class: MessageClass) -> None:
        """Tell the hosts that sent transactional messages what became of them, each of all of its messages together."""
        by_sender: dict[tuple[bytes, bytes], list[StoredMessage]] = {}
        for message in messages:
            address = message.source if message.local.direct_session else b""
            by_sender.setdefault((message.packet.user.source_queue_manager, address), []).append(message)
        for (source, address), told in by_sender.items():
            if source == self._own_guid or (source == NULL_GUID and not address):
                continue  # nobody to tell
            first, packets = build_order_messages(
                [FinalAckBody.of(message.packet) for message in told],
                message_class,
                source=self._own_guid,
                destination=host_in(address) if address else source,
                message_ids=[self._core.next_message_ordinal() for _ in told],
                sent_time=self._core.now_s,
            )
            # What was taken owes its sender a FinalAck; strangers whose messages were refused may have to do without.
            taken = any(message.lookup_id for message in told)
            self._post(first, packets, Purpose.DUTY if taken else Purpose.COURTESY)

    def _post(self, first: UserMessage, packets: Sequence[bytes], purpose: Purpose) -> MessagePosition | None:
        """Let acknowledgments for one host, which are all like the ``first``, go the way of other messages; gives the
        place of the last one."""
        user = first.user
        name = name_in_packet(user, user.destination_reference, user.destination_queue)
        assert name is not None
        queues = self._manager.queues
        try:
            descriptor = queues.open(name, QueueAccessType.SEND, purpose=purpose)
            assert descriptor.queue is not None
            try:
                batch = Batch.of((StoredMessage(first),), self._own_guid).like(packets)
                # It is part of a message's end, which a full disk does not put off: no other will ever tell the sender.
                lookup_ids = self._manager.mailbox.put(descriptor.queue, batch, freeing=True)
                return descriptor.queue.position(lookup_ids[-1])
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
        has_way = self._addressing.knows_way(source)
        if due.link.is_open and (session.remote_guid == source or not has_way):
            self._commit.when_durable(partial(self._ship_order_ack, due, packet.data))
        elif direct or has_way:
            self._route_order_ack(due.stream, packet)

    def _route_order_ack(self, stream: Stream, packet: UserMessage) -> None:
        """The message came by way of others, or its session is closed: the OrderAck finds its own way to the sender.
        One that still waits is out of date."""
        self._drop_routed(stream)
        position = self._post(packet, (packet.data,), Purpose.COURTESY)
        if position is not None:
            self._routed[stream] = position, self._core.now_s
        self._commit.request()

    def _drop_routed(self, stream: Stream) -> None:
        position, _ = self._routed.pop(stream, (None, 0))
        if position is not None and position.state is PositionState.AVAILABLE:
            self._manager.mailbox.remove(position.queue, (position.lookup_id,), MessageClass.NORMAL)

    def keep_house(self, now_s: int) -> None:
        """Give up OrderAcks that have waited for so long that their senders have asked for others."""
        for stream, (_, since_s) in list(self._routed.items()):
            if now_s - since_s >= self._asked_again_s:
                self._drop_routed(stream)

    def _ship_order_ack(self, due: OrderAckDue[Connection], packet: bytes) -> None:
        if not due.link.is_open:
            self._send_order_ack(due)
        elif due.link.session.send(packet, None, now_ms()):
            due.link.flush()
        else:
            self._unsent[due.stream] = due  # the window is closed; the next acknowledgment opens it

    def room_again(self, connection: Connection) -> None:
        """The window of a session has opened."""
        for stream in [stream for stream, due in self._unsent.items() if due.link is connection]:
            self._send_order_ack(self._unsent.pop(stream))

    def closed(self, connection: Connection) -> None:
        """What waited for the window of a session goes without it."""
        self.room_again(connection)

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
