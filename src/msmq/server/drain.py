"""One outgoing queue on its way out: what to send next, what is on its way, what is done.

A message that was chosen is locked in its queue until the peer has it: an express or recoverable one until its
session acknowledges it, a transactional one until its OrderAck, and if its sender wants a FinalAck, until that. A
session that closes gives express and recoverable messages back to their queue; transactional ones keep their
places and go again in the order of their numbers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msmq.errors import MessageStorageFailedError, MQError
from msmq.manager.message import SenderMessageClass
from msmq.manager.model import ConnectionStatus, OutgoingState, OutgoingTransferInfo
from msmq.manager.positions import START, PositionState
from msmq.manager.queue import OutgoingQueue
from msmq.manager.stored import StoredMessage
from msmq.server.connection import Connection, Parcel
from msmq.server.places import PLACE_BYTES, RECORD_BYTES, Places
from msmq.transfer.final_ack import Fate
from msmq.transfer.order_sender import OrderSender, Place, Released, placed
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import late_for_queue, late_for_reader
from msmq.wire.headers import INFINITE
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.server.link import Link
    from msmq.server.outgoing import Outgoing

_SENDING = (
    OutgoingState.INACTIVE,
    OutgoingState.WAITING,
    OutgoingState.CONNECTED,
    OutgoingState.DISCONNECTED,
    OutgoingState.DISCONNECTING,
    OutgoingState.NEED_VALIDATION,
)


class Drain:
    """The messages of one outgoing queue and how far each of them has come."""

    def __init__(self, outgoing: Outgoing, queue: OutgoingQueue, now_ms: int) -> None:
        self.outgoing = outgoing
        self.queue = queue
        self.link: Link | None = None
        self.connection: Connection | None = None
        """Where its messages go at present."""
        self.parked: set[int] = set()
        """Messages that only wait for their FinalAck."""
        self.numbers: dict[int, int] = {}
        """TxSequenceNumber by lookup identifier, of what the sequence still holds."""
        self._again: dict[int, int] = {}
        """Lookup identifier by number, of what has its place and is to be sent (again)."""
        self._expiries: list[tuple[int, int]] = []
        self._changed = False
        self._places = Places(outgoing.core.ledger, queue.number)
        self._own_guid = outgoing.core.record.identifier
        self._sender = self._new_sender(now_ms, (0, 0))

    def _new_sender(self, now_ms: int, last_place: tuple[int, int]) -> OrderSender[Parcel]:
        outgoing = self.outgoing
        sender = OrderSender(outgoing.sequences, outgoing.timers.resend_timer_table_s, now_ms, last_place)
        outgoing.drain_of[sender] = self
        return sender

    def close(self) -> None:
        """The queue is no more; it was empty."""
        self.outgoing.sequences.release(self._sender)
        self.outgoing.drain_of.pop(self._sender, None)

    def _is_ours(self, packet: UserMessage) -> bool:
        """Whether this host sends a message; if not it passes it on, and sequence, journal and FinalAck are those of
        its sender."""
        return packet.user.source_queue_manager == self._own_guid

    # After a restart

    def restore(self, values: list[tuple[int, int, list[int]]], now_ms: int) -> None:
        """Find the messages again that wait here, and the places that some of them have."""
        outgoing, positions = self.outgoing, self.queue.positions
        present = {entry.lookup_id for entry in positions}
        found = self._places.restore(values, present)
        self._sender = self._new_sender(now_ms, self._places.last)
        for sequence_id, number, lookup_id in found:
            positions.set_state(lookup_id, PositionState.LOCKED)
            parcel = Parcel(self, lookup_id, number)
            tracked = outgoing.final_acks.track(self.load(lookup_id).packet, parcel)
            self.numbers[lookup_id] = number
            released = self._sender.readmit(parcel, (sequence_id, number), tracked)
            if released is not None:
                self._release(released)
            else:
                self._again[number] = lookup_id
        for lookup_id in present:
            self.watch(lookup_id)

    # Choosing

    @property
    def may_send(self) -> bool:
        """Whether the operator lets messages leave."""
        return self.queue.state in _SENDING and self.outgoing.core.connection_active

    @property
    def waiting(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._again) or self.queue.positions.next_available(START) is not None

    def load(self, lookup_id: int) -> StoredMessage:
        entry = self.queue.positions.get(lookup_id)
        assert entry is not None
        return self.outgoing.core.load(self.queue, entry)

    def take(self, most: int) -> list[Parcel]:
        """Choose up to ``most`` messages to send. They may leave once what was written here is durable."""
        chosen: list[Parcel] = []
        while self._again and len(chosen) < most:
            number = next(iter(self._again))
            lookup_id = self._again.pop(number)
            if self.numbers.get(lookup_id) == number:
                chosen.append(Parcel(self, lookup_id, number))
        fresh: list[int] = []
        first: Place | None = None
        positions = self.queue.positions
        while len(chosen) < most and (entry := positions.next_available(START)) is not None:
            message = self.outgoing.core.load(self.queue, entry)
            if self._is_late(message):
                self.expire(entry.lookup_id, message)
                continue
            data: bytes | None = message.packet.data
            if message.local.private and (data := self._sealed(entry.lookup_id, message)) is None:
                continue
            parcel = Parcel(self, entry.lookup_id, data=data)
            if message.packet.transactional and self._is_ours(message.packet):
                if first is None and not self._room_for_places(most):
                    break
                place = self._place(parcel, message)
                if place is None:
                    break
                first = first or place
                fresh.append(entry.lookup_id)
            positions.set_state(entry.lookup_id, PositionState.LOCKED)
            chosen.append(parcel)
        if first is not None:
            self.outgoing.write_last_sequence()
            self._places.write(first, fresh)
            self._changed = True
        return chosen

    def _sealed(self, lookup_id: int, message: StoredMessage) -> bytes | None:
        """The bytes of a message with its body encrypted; None, and the message is gone, if that fails."""
        try:
            return self.outgoing.manager.credentials.seal(message.packet)
        except MQError as error:
            self.outgoing.note(self.queue, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE, error.code)
            self.give_up(lookup_id, message, SenderMessageClass.NACK_COULD_NOT_ENCRYPT)
            return None

    def _room_for_places(self, most: int) -> bool:
        """Whether places can be written; on a full disk transactional messages wait."""
        try:
            self.outgoing.core.ledger.reserve(2 * RECORD_BYTES + PLACE_BYTES * most)
        except MessageStorageFailedError:
            return False
        return True

    def _place(self, parcel: Parcel, message: StoredMessage) -> Place | None:
        """Give a message its place; None when the sequence has to end first."""
        tracked = self.outgoing.final_acks.track(message.packet, parcel)
        place = self._sender.assign(parcel, tracked)
        if place is None:
            self.outgoing.final_acks.forget(message.packet.user.message_id)
            return None
        parcel.number = self.numbers[parcel.lookup_id] = place.tx_sequence_number
        return place

    def put_back(self, parcel: Parcel) -> None:
        """A chosen message could not be sent after all."""
        if not parcel.number:
            self.returned(parcel.lookup_id)
        elif self.numbers.get(parcel.lookup_id) == parcel.number:
            self._send_again({parcel.number: parcel.lookup_id})

    def _send_again(self, numbers: dict[int, int]) -> None:
        self._again = dict(sorted((self._again | numbers).items()))

    def packet(self, parcel: Parcel) -> bytes | None:
        """The bytes of a chosen message, None when it was taken away meanwhile."""
        entry = self.queue.positions.get(parcel.lookup_id)
        if entry is None or (parcel.number and self.numbers.get(parcel.lookup_id) != parcel.number):
            return None
        data, parcel.data = parcel.data, None
        if data is None:
            message = self.outgoing.core.load(self.queue, entry)
            data = message.packet.data
            if message.local.private and (data := self._sealed(parcel.lookup_id, message)) is None:
                return None
        return placed(data, self._sender.place(parcel.number)) if parcel.number else data

    def sent(self, parcel: Parcel, now_ms: int) -> None:
        if parcel.number:
            self._sender.sent(parcel.number, now_ms)
            self._changed = True

    # What becomes of them

    def acknowledged(self, parcel: Parcel) -> None:
        """The next hop has the message."""
        if parcel.number:
            if self.numbers.get(parcel.lookup_id) == parcel.number:
                self._release(self._sender.received_session_ack(parcel.number))
        else:
            self._delivered(parcel.lookup_id)

    def release(self, released: Released[Parcel]) -> None:
        """An OrderAck has come."""
        self._release(released)
        self._changed = True

    def _release(self, released: Released[Parcel]) -> None:
        for parcel in released.done:
            self.numbers.pop(parcel.lookup_id, None)
            self._delivered(parcel.lookup_id)
        for parcel in released.parked:
            self.numbers.pop(parcel.lookup_id, None)
            self.parked.add(parcel.lookup_id)

    def _delivered(self, lookup_id: int) -> None:
        """The message is where it belongs; a transactional one is journaled by its FinalAck only."""
        entry = self.queue.positions.get(lookup_id)
        if entry is None:
            return
        message = self.load(lookup_id)
        packet = message.packet
        wanted = packet.user.positive_journaling and not packet.transactional and self._is_ours(packet)
        if wanted and journaled(message):
            self._move_to_journal(lookup_id)
        else:
            self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NORMAL, message)
        self._places.done(lookup_id)

    def _move_to_journal(self, lookup_id: int) -> None:
        journal = self.outgoing.core.journal_queue
        assert journal is not None
        self.outgoing.sending.move_to_system_queue(self.queue, lookup_id, journal)

    def settle(self, parcel: Parcel, fate: Fate, parked: bool) -> None:
        """A FinalAck has decided."""
        lookup_id = parcel.lookup_id
        self.parked.discard(lookup_id)
        number = self.numbers.pop(lookup_id, None)
        if not parked and number is not None:
            self._sender.remove(number)
        if self.queue.positions.get(lookup_id) is None:
            return
        if fate is Fate.JOURNAL:
            self._move_to_journal(lookup_id)
        elif fate is Fate.DEAD_LETTER:
            self.outgoing.sending.dead_letter(self.queue, lookup_id)
        else:
            self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NORMAL)
        self._places.done(lookup_id)
        self._changed = True

    def returned(self, lookup_id: int) -> None:
        """A message without a transaction comes back from a session that closed."""
        entry = self.queue.positions.get(lookup_id)
        if entry is None:
            return
        if entry.state is PositionState.PURGE_PENDING:
            self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NACK_Q_PURGED)
        elif entry.state is PositionState.LOCKED:
            self.queue.positions.set_state(lookup_id, PositionState.AVAILABLE)

    def session_lost(self) -> None:
        """The connection is gone: everything that has a place goes again over the next one."""
        self.connection = None
        released, again = self._sender.session_lost()
        self._release(released)
        self._again = {parcel.number: parcel.lookup_id for parcel in again}
        self._changed = True

    def gone(self, lookup_id: int, message: StoredMessage) -> None:
        """The message was deleted by someone else."""
        number = self.numbers.pop(lookup_id, None)
        if number is not None:
            self._sender.remove(number)
        self.parked.discard(lookup_id)
        self._forget_final_ack(message.packet)
        self._places.done(lookup_id)

    def _forget_final_ack(self, packet: UserMessage) -> None:
        if self._is_ours(packet):
            self.outgoing.final_acks.forget(packet.user.message_id)

    # Time

    @property
    def deadline_ms(self) -> int | None:
        """When the Transactional Ack Wait Timer goes off."""
        return self._sender.deadline_ms

    def handle_timer(self, now_ms: int) -> bool:
        """Whether messages have to be sent again because no OrderAck came."""
        resent = self._sender.handle_timer(now_ms)
        if not resent:
            return False
        if self.link is not None and self.link.routed:
            resent = [parcel for parcel in resent if not self._expire_on_its_way(parcel)]
        self._send_again({parcel.number: parcel.lookup_id for parcel in resent})
        self._changed = True
        return True

    def _expire_on_its_way(self, parcel: Parcel) -> bool:
        """Whether a message is too late to be sent again. Somebody on the way has it, and drops it silently."""
        message = self.load(parcel.lookup_id)
        late = self._is_late(message)
        if late:
            self.expire(parcel.lookup_id, message)
        return late

    def watch(self, lookup_id: int) -> None:
        """Remember when a message expires on its way."""
        message = self.load(lookup_id)
        self._changed |= message.packet.transactional
        expiry = expiry_s(message)
        if expiry is not None:
            if len(self._expiries) > 1_024 and len(self._expiries) > 2 * len(self.queue.positions):
                get = self.queue.positions.get
                self._expiries = [item for item in self._expiries if get(item[1]) is not None]
                heapq.heapify(self._expiries)
            heapq.heappush(self._expiries, (expiry, lookup_id))

    @property
    def next_expiry_s(self) -> int | None:
        """The second after which a message is late."""
        return self._expiries[0][0] if self._expiries else None

    def expire_late(self, now_s: int) -> None:
        """Give up what is late. What is on its way at this moment is left to its session."""
        on_its_way = []
        while self._expiries and self._expiries[0][0] < now_s:
            item = heapq.heappop(self._expiries)
            entry = self.queue.positions.get(item[1])
            if entry is None or item[1] in self.parked:
                continue
            placed_and_idle = item[1] in self.numbers and self.connection is None
            if entry.state is PositionState.AVAILABLE or placed_and_idle:
                self.expire(item[1], self.load(item[1]))
            elif self.connection is not None:
                on_its_way.append((now_s + 1, item[1]))
        for item in on_its_way:
            heapq.heappush(self._expiries, item)

    def _is_late(self, message: StoredMessage) -> bool:
        now_s = self.outgoing.core.now_s
        return late_for_queue(message.packet, now_s) or late_for_reader(message.packet, now_s)

    def expire(self, lookup_id: int, message: StoredMessage) -> None:
        """The message did not make it in time (MS-MQQB 3.1.7.1.2)."""
        self.give_up(lookup_id, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)

    def give_up(
        self, lookup_id: int, message: StoredMessage, fate: MessageClass | SenderMessageClass
    ) -> None:
        """The message will not be sent: who asked is told, and it may be kept."""
        number = self.numbers.pop(lookup_id, None)
        if number is not None:
            self._sender.remove(number)
            self._again.pop(number, None)
        packet = message.packet
        self._forget_final_ack(packet)
        if packet.transactional and not self._is_ours(packet):
            # Its sender has it too, in a sequence that only the sender can mend, and tells whoever is to be told.
            self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NORMAL, message)
            return
        self.outgoing.acknowledging.acknowledge(packet, fate)
        if packet.user.negative_journaling and journaled(message):
            self.outgoing.sending.dead_letter(self.queue, lookup_id)
        else:
            self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NORMAL, message)
        self._places.done(lookup_id)
        self._changed = True

    # What management shows

    def refresh(self) -> None:
        """Bring OutgoingTransferInfo up to date, if anything has changed. It looks at every message of the
        sequence, so it is done now and then and not with each of them."""
        if not self._changed:
            return
        self._changed = False
        info: OutgoingTransferInfo = self.queue.transfer_info
        statistics = self._sender.statistics(self.outgoing.epoch_ms)
        for name in statistics._fields:
            setattr(info, name, getattr(statistics, name))
        info.eod_no_read_count = len(self.parked)


def journaled(message: StoredMessage) -> bool:
    """Whether source journaling applies: not to what queue managers tell each other (MS-MQMQ note 3)."""
    number = message.packet.properties.message_class
    return number == MessageClass.NORMAL or number not in _FATES


_FATES: frozenset[int] = frozenset(int(number) for number in (*MessageClass, *SenderMessageClass))


def expiry_s(message: StoredMessage) -> int | None:
    """The last second at which a message may still leave."""
    packet = message.packet
    limits: Iterable[int] = (packet.base.time_to_reach_queue_s, packet.user.time_to_be_received_s)
    finite = [limit for limit in limits if limit != INFINITE]
    return packet.user.sent_time + min(finite) if finite else None
