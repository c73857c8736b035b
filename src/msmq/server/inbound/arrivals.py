"""Receiving messages: judging them, storing them, and telling their senders (MS-MQQB 3.1.5.8).

The messages of one read are processed together: order and final acknowledgments go to the sending half, duplicates are
dropped, and the others are delivered to their queue or refused, those with the same destination as one batch. The
records are appended to the store at once and made durable with those of others; only then is the session told that the
messages are stored.

A transactional message and the new place of its stream are one event, so that both survive or neither. If there is no
room for a message the session is closed, and the sender sends it again later.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Final

from msmq.errors import (
    DecodeError,
    InsufficientResourcesError,
    MessageStorageFailedError,
    MQError,
)
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.batch import (
    FINAL_ACK,
    MARKING,
    NEGATIVE_JOURNALING,
    POSITIVE_JOURNALING,
    RECOVERABLE,
    Batch,
    marks_of,
    second_after,
)
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.mailbox import is_destination
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes, StoredMessage
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.rejections import MessageRejectedError
from msmq.server.alarm import Alarm, now_ms
from msmq.server.group_commit import GroupCommit
from msmq.server.inbound.connection import Connection
from msmq.server.inbound.forwarding import Forwarding, NoRoomError
from msmq.server.inbound.order_answers import OrderAnswers
from msmq.server.inbound.remembered import RememberedIds
from msmq.server.inbound.reports import Tracing
from msmq.server.inbound.streams import RememberedStreams, stream_of
from msmq.server.inbound.unclaimed import Unclaimed
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
)
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import MOST_TOLD, largest_answers
from msmq.wire.delivery import format_name as name_in_packet
from msmq.wire.headers import BASE_TR, USER_MQ, USER_SH, USER_TH
from msmq.wire.incoming import Incoming
from msmq.wire.message import UserMessage
from msmq.wire.names import DirectName, FormatName, Protocol, is_read_only, parse_format_name
from msmq.wire.names.direct import DIRECT_PREFIX
from msmq.wire.packets import (
    FinalAckBody,
    OrderAckBody,
    is_for_order_queue,
    order_acknowledgment_in,
)

_SLACK_BYTES: Final = 8_192
_RECORDS: Final = 16
_REFUSED_BYTES: Final = 1_024
_TAKEN_BYTES: Final = 96
"""The room to reserve for a message beside its packet: if it may be refused, and if nothing can follow from it."""
_JOURNALED: Final = NEGATIVE_JOURNALING | POSITIVE_JOURNALING
_DIRECT: Final = 7 << 10
"""Flags.DQ of a direct name, all bits set."""
_DESTINATION: Final = USER_TH | _DIRECT
"""The bits of UserHeader.Flags that decide where a message goes: Flags.TH and Flags.DQ."""
_KEPT_HERE: Final = (MessageClass.NACK_Q_EXCEED_QUOTA, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
"""Refusals of plain messages that make dead letters here (3.1.5.8.8, 3.1.7.1.2), because their sender has forgotten
them. A transactional message is kept by its sender, who is told by a FinalAck."""
_LOOKED_OVER: Final = 64
STRANGER: Final = Token.anonymous()
_log = logging.getLogger(__name__)


def _room_for(messages: Incoming) -> tuple[int, int]:
    """The bytes and records to reserve for messages, their acknowledgments (which may contain the body) and the places
    of their streams."""
    size, records = _SLACK_BYTES + messages.size, _RECORDS + 3 * len(messages)
    for index, (flags, asks) in enumerate(zip(messages.user_flags, messages.asks, strict=True)):
        if asks or flags & _JOURNALED:
            size += 2 * len(messages.packets[index]) + _SLACK_BYTES
            records += _RECORDS
            if flags & USER_MQ:
                size += largest_answers(len(messages.packets[index])) + MOST_TOLD * _REFUSED_BYTES
                records += 2 * MOST_TOLD
        else:
            size += _REFUSED_BYTES if flags & USER_TH else _TAKEN_BYTES
    return size, records


@dataclass(eq=False, slots=True)
class Way:
    """What messages of one host for one queue have in common; ``name`` is the sender's name of the queue."""

    queue: Queue | None
    name: str
    order_queue: bool
    """Whether it is the queue for order acknowledgments."""
    source: bytes
    """The queue manager that sends the messages."""
    host: bytes
    """The address of the host that they come from, see :func:`msmq.wire.trailers.host_address`."""
    direct: bool
    """Whether FinalAcks go to the address that they come from, see :meth:`Session.is_answered_by_address`."""

    def refused(self, packet: UserMessage) -> StoredMessage:
        """A refused message, for its FinalAck."""
        return StoredMessage(packet, LocalAttributes(direct_session=self.direct), source=self.host)


_Named = tuple[int, bytes, bytes, bytes]
"""The flags of the destination, the names in the packet, and the hosts that they are to be understood by."""


class Reading:
    """The messages of one read of a connection, and the progress of taking them."""

    __slots__ = (
        "connection", "destinations", "now_ms", "now_s", "progress", "taken", "touched", "unwritten", "ways",
    )  # fmt: skip

    def __init__(self, connection: Connection, now_s: int) -> None:
        self.connection = connection
        self.now_ms = now_ms()
        self.now_s = now_s
        self.taken = 0
        self.ways: dict[_Named, Way | None] = {}
        """The destinations by the names that packets have for them."""
        self.destinations: dict[tuple[int, str, bytes, bytes], Way] = {}
        """The same by their own names."""
        self.touched: dict[Stream, Way] = {}
        self.unwritten: dict[Stream, Progress] = {}
        self.progress: dict[Stream, Progress] = {}
        """Streams that have advanced, and in ``unwritten`` those whose new place is not written yet."""


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
        self._tracing = tracing
        self._manager = manager
        self._core = manager.core
        self._commit = commit
        self._outgoing = outgoing
        self._history = RememberedIds(
            self._core.ledger, values, timers.message_id_history_cleanup_ms, self._core.now_s
        )
        self.answers = OrderAnswers(manager, commit, addressing, timers.resend_timeouts_final_s)
        self.forwarding = Forwarding(
            manager,
            addressing,
            self._history,
            tracing,
            lambda message, fate: self.answers.final_acks((message,), fate),
        )
        self.unclaimed = Unclaimed(manager, self._deliver_kept)
        self._streams = RememberedStreams(manager.core)
        self._receiver: OrderReceiver[Connection] = OrderReceiver(
            timers, self._streams.restore(values), now_ms()
        )
        self._looked_over: list[Stream] = []
        """Streams to check for queues that are gone, some at each periodic run."""
        self._alarm = Alarm(self._timer_expired)

    def stop(self) -> None:
        self._alarm.stop()

    # Messages from a session

    def receive(self, connection: Connection, event: MessagesReceived) -> None:
        """Take the messages of a session, in one event if there is room for all of them, else one by one."""
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
                self.answers.order_ack(due)
        connection.let_go(size)
        if event.recoverables and connection.is_open:
            connection.session.stored(event.first_recoverable, event.recoverables, now_ms())
            connection.flush()
        self._set_alarm()

    def _acknowledgments(self, reading: Reading, messages: Incoming) -> tuple[Incoming, list[Way | None]]:
        """Process order and final acknowledgments. Returns the other messages and their destinations."""
        ways = self._ways(reading, messages)
        orders = [index for index, way in enumerate(ways) if way is not None and way.order_queue]
        if not orders:
            return messages, ways
        taken = set()
        final_acks: list[tuple[FinalAckBody, int, Voice]] = []
        connection = reading.connection
        for index in orders:
            found = order_acknowledgment_in(messages.packets[index])
            if found is None:
                continue
            taken.add(index)
            message_class, body = found
            voice = Voice(connection.peer, connection.session.remote_guid, messages.sources[index])
            if isinstance(body, OrderAckBody):
                self._outgoing.order_ack(body, voice)
            else:
                final_acks.append((body, message_class, voice))
        self._outgoing.final_acks_heard(final_acks)
        rest = [index for index in range(len(messages)) if index not in taken]
        return messages.only(rest), [ways[index] for index in rest]

    def _take(self, reading: Reading, messages: Incoming, ways: list[Way | None]) -> None:
        """Take messages in one event, together with the new places of their streams. Neighbours with the same
        destination are taken together."""
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
        """Take messages without a transaction, except duplicates."""
        history, now_s = self._history, reading.now_s
        fresh = history.fresh(way.source, messages.message_ids, indices, now_s)
        if not fresh:
            return
        name = _local_name(way.name) if way.queue is None else None
        if name is not None and self.unclaimed.concerns(name):
            kept = [StoredMessage(messages.message(index), source=way.host) for index in fresh]
            taken = self.unclaimed.keep(name, kept)
        else:
            taken = self._deliver(way, messages, fresh)
        for recoverable in (True, False):
            identifiers = [
                messages.message_ids[index]
                for index in fresh[:taken]
                if bool(messages.user_flags[index] & RECOVERABLE) is recoverable
            ]
            if identifiers:
                history.record_all(way.source, identifiers, now_s, recoverable=recoverable)
        self._check_room(taken, fresh)

    def _take_in_order(self, reading: Reading, messages: Incoming, indices: range, way: Way) -> None:
        """Take transactional messages that follow those that came before."""
        queue, connection, receiver = way.queue, reading.connection, self._receiver
        if queue is None and self.unclaimed.concerns(_local_name(way.name)):
            return  # its sender keeps it and sends it again
        if queue is None:
            # Nothing is remembered for a missing queue: the message is refused, whatever its number.
            self._deliver(way, messages, indices)
            for index in indices:
                sequel = messages.sequels[index]
                assert sequel is not None
                body = OrderAckBody.of(sequel.tx_sequence_id, sequel.tx_sequence_number)
                self.answers.order_ack(OrderAckDue((way.source, 0), connection, body))
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
            behind = indices[-1] - chosen[-1] if taken == len(chosen) else 0
            reading.unwritten[stream] = receiver.advance(
                stream, last, connection, reading.now_ms, reading.now_s, messages=taken, rejected=behind
            )
        self._check_room(taken, chosen)

    @staticmethod
    def _check_room(taken: int, wanted: Sequence[int]) -> None:
        if taken < len(wanted):
            raise NoRoomError("the quota of the queue manager is used up")

    # Delivery

    def _ways(self, reading: Reading, messages: Incoming) -> list[Way | None]:
        """The destinations of messages; None for those that are for another host. Messages of a read that name the same
        queue in the same way share one."""
        destinations = [flags & _DESTINATION for flags in messages.user_flags]
        keys = list(zip(destinations, messages.names, messages.addresses, messages.sources, strict=True))
        known = reading.ways
        for key in dict.fromkeys(keys):
            if key not in known:
                known[key] = self._find_way(reading, key, messages.message(keys.index(key)))
        return [known[key] for key in keys]

    def _find_way(self, reading: Reading, key: _Named, message: UserMessage) -> Way | None:
        destination, _, address, source = key
        if self.forwarding.concerns(address):
            return None
        connection = reading.connection
        if destination & _DIRECT == _DIRECT:
            connection.session.direct_format = True
        direct = connection.session.is_answered_by_address(source)
        queue, name = self._destination(message)
        # Names of other queues may differ, although those messages have the same destination.
        return reading.destinations.setdefault(
            (destination, name, address, source),
            Way(queue, name, is_for_order_queue(message), source, connection.source, direct),
        )

    def _destination(self, message: UserMessage) -> tuple[Queue | None, str]:
        """The queue of this host that a message is for, and its sender's name of the queue."""
        user = message.user
        text = name_in_packet(user, user.destination_reference, user.destination_queue) or ""
        name = None if is_for_order_queue(message) else _local_name(text)
        queue = None if name is None else self._manager.naming.find(name)
        if queue is None or not is_destination(queue) or queue.parent is not None:
            return None, text
        return queue, text

    def _deliver(self, way: Way, messages: Incoming, chosen: Sequence[int]) -> int:
        """Put messages into their queue, or refuse them for good. Returns how many; for the rest this host has no
        room."""
        if way.queue is None:
            fate = MessageClass.NACK_BAD_DST_Q
            packets = [messages.message(index) for index in chosen]
            self._manager.acknowledging.acknowledge(packets, fate)
            self.answers.final_acks([way.refused(each) for each in packets if each.transactional], fate)
            return len(chosen)
        batch = self._batch(way, messages, chosen)
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

    def _deliver_kept(self, name: str, found: Found) -> int:
        """Deliver messages that have waited for the directory, or refuse them. Returns how many."""
        messages = Incoming.of(found.packets)
        start, queue = 0, self._destination(messages.message(0))[0]
        for (source, host), group in groupby(zip(messages.sources, found.sources, strict=True)):
            stop = start + sum(1 for _ in group)
            way = Way(queue, name, order_queue=False, source=source, host=host, direct=False)
            taken = self._deliver(way, messages, range(start, stop))
            if start + taken < stop:
                return start + taken
            start = stop
        if queue is None:
            # Their senders have forgotten them, so those that are to be kept are kept here.
            wanted = (message for message in found.messages if message.packet.user.negative_journaling)
            self._manager.sending.dead_letter_copies(wanted, MessageClass.NACK_BAD_DST_Q)
            _log.warning(
                "%d messages for %s are refused: the directory has no such queue of ours", start, name
            )
        self._commit.request()
        return start

    def _batch(self, way: Way, messages: Incoming, chosen: Sequence[int]) -> Batch:
        """Make a batch of messages for their queue."""
        if len(chosen) < len(messages):
            messages = messages.only(chosen)
        own, flags = way.source in self._core.own_identifiers, messages.user_flags
        final_acks = [0 if sequel is None else sequel.flags & FINAL_ACK for sequel in messages.sequels]
        # Most messages have the same values here.
        said = list(zip(map(MARKING.__and__, flags), messages.asks, final_acks, strict=True))
        sourced, direct = bool(way.host), way.direct
        marks = {
            each: marks_of(*each[:2], ours=own, final_ack=each[2], sourced=sourced, direct=direct)
            for each in set(said)
        }
        return Batch(
            list(messages.packets),
            flags,
            messages.base_flags,
            list(map(second_after, messages.sent_times, messages.times_to_be_received_s)),
            list(map(second_after, messages.sent_times, messages.times_to_reach_queue_s)),
            messages.asks,
            bytes(map(marks.__getitem__, said)),
            sources=[way.host] * len(messages),
        )

    def _examine(
        self, queue: Queue, messages: Incoming, chosen: Sequence[int], batch: Batch
    ) -> tuple[dict[int, Token], dict[int, MessageClass]]:
        """Verify and decrypt messages as necessary. Returns the senders of some and the refusals of others."""
        senders: dict[int, Token] = {}
        refused: dict[int, MessageClass] = {}
        credentials = self._manager.credentials
        believes = credentials.policy.believe_unsigned_senders
        for place, index in enumerate(chosen):
            flags = messages.user_flags[index]
            if not (messages.proofs[index] or (believes and flags & USER_SH)):
                continue  # there is only a name, and nothing to prove it
            if queue.transactional != bool(flags & USER_TH):
                continue
            local = batch.local.get(
                place, NO_ATTRIBUTES
            ).changed()  # the results are about this message alone
            stored = StoredMessage(messages.message(index), local)
            try:
                senders[place] = credentials.examine(stored)
            except MessageRejectedError as error:
                refused[place] = error.message_class
                continue
            batch.replace(place, stored)
        return senders, refused

    def _refused(self, way: Way, batch: Batch, index: int, fate: MessageClass) -> None:
        """Tell the sender's queue manager that a message is refused, or keep the message here."""
        flags = batch.user_flags[index]
        if flags & USER_TH:
            self.answers.final_acks((way.refused(UserMessage.route(batch.packets[index])),), fate)
        elif fate in _KEPT_HERE and flags & NEGATIVE_JOURNALING:
            kept = StoredMessage(
                UserMessage.route(batch.packets[index]),
                batch.local.get(index, NO_ATTRIBUTES),
                source=way.host,
            )
            self._manager.sending.dead_letter_copies((kept,), fate)

    # Acknowledging transactional messages

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        """Tell senders that wait for it that messages have left their destination queue (3.1.7.2.2)."""
        if not is_destination(queue) or reason < MessageClass.ACK_RECEIVE:
            return
        wanting = [message for message in messages if wants_final_ack(message.packet)]
        self.answers.final_acks(wanting, MessageClass(reason))

    # Time

    def _set_alarm(self) -> None:
        deadline_s = self._history.deadline_s
        history_ms = None if deadline_s is None else deadline_s * 1_000 - self._outgoing.epoch_ms
        self._alarm.set(earliest(self._receiver.next_deadline_ms, history_ms))

    def _timer_expired(self) -> None:
        self._history.handle_timer(self._core.now_s)
        for due in self._receiver.handle_timer(now_ms()):
            rejected = self._receiver.take_rejected(due.stream)
            if rejected is not None:
                self._streams.write_rejected(due.stream, rejected)
            self.answers.order_ack(due)
        self._set_alarm()

    def keep_house(self, now_s: int) -> None:
        """Forget state that nobody needs any more."""
        self.answers.keep_house(now_s)
        if not self._looked_over:
            self._looked_over = self._receiver.streams()
        for stream in self._looked_over[-_LOOKED_OVER:]:
            if self._streams.drop_if_gone(stream):
                self._receiver.forget(stream)
        del self._looked_over[-_LOOKED_OVER:]


@lru_cache(maxsize=1_024)
def _local_name(text: str) -> FormatName | None:
    """The name in a message, as a name of this host; None if nobody can send to it.

    A direct name means this host, whatever address or name it contains.
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
