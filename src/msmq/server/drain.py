"""One outgoing queue on its way out: what to send next, what is on its way, what is done.

A message that was chosen is locked in its queue until the peer has it: an express or recoverable one until its
session acknowledges it, a transactional one until its OrderAck, and if its sender wants a FinalAck, until that. A
session that closes gives express and recoverable messages back to their queue; transactional ones keep their
places and go again in the order of their numbers.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from msmq.errors import MessageStorageFailedError, MQError
from msmq.manager.message import SenderMessageClass
from msmq.manager.model import ConnectionStatus, OutgoingState, OutgoingTransferInfo
from msmq.manager.positions import START, PositionState
from msmq.manager.queue import OutgoingQueue
from msmq.manager.stored import StoredMessage
from msmq.manager.transit import Waiting
from msmq.server.connection import Connection, Parcel
from msmq.server.expiries import Expiries
from msmq.server.places import PLACE_BYTES, RECORD_BYTES, Places
from msmq.transfer.final_ack import Fate
from msmq.transfer.order_sender import OrderSender, Place, Released, placed, transaction_offset
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE, USER_TH
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.server.link import Link
    from msmq.server.outgoing import Outgoing

_look = struct.Struct("<12xI32xIIII").unpack_from
"""TimeToReachQueue, TimeToBeReceived, SentTime, MessageID and UserHeader.Flags of a packet."""
_JOURNALED = 0x300
_JOURNALED_SENT = 0x200
_JOURNALED_SENT_TH = _JOURNALED_SENT | USER_TH
_FINAL_ACK = 0x02
_SOURCE = slice(16, 32)
_LOCKED = PositionState.LOCKED
_CHOSEN_BYTES = 256 << 10
_PLACED_AHEAD = 512
"""How much of a queue is looked at in one go, and how many messages get their places ahead of the window."""
_SENDING = (
    OutgoingState.INACTIVE,
    OutgoingState.WAITING,
    OutgoingState.CONNECTED,
    OutgoingState.DISCONNECTED,
    OutgoingState.DISCONNECTING,
    OutgoingState.NEED_VALIDATION,
)
_SLACK_BYTES = 8_192
_RECORDS = 8


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
        self._again: OrderedDict[int, Parcel] = OrderedDict()
        """By number, what has its place and is to be sent (again)."""
        self._expiries = Expiries(queue.positions)
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
        behind = START
        while waiting := outgoing.transit.waiting(self.queue, behind, _PLACED_AHEAD, _CHOSEN_BYTES):
            for lookup_id, packet, _, _ in waiting:
                self._watch(lookup_id, packet)
            behind = waiting[-1].lookup_id
        present = {entry.lookup_id for entry in positions} if values else set()
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
                self._again[number] = parcel

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
        """Choose up to ``most`` messages to send, and no more bytes than one write should have. They may leave once
        what was written here is durable."""
        chosen, size = self._take_placed(most)
        behind = START
        while len(chosen) < most and size < _CHOSEN_BYTES:
            found = self.outgoing.transit.waiting(
                self.queue, behind, most - len(chosen), _CHOSEN_BYTES - size
            )
            if not found:
                break
            behind = found[-1].lookup_id
            fresh, whole = self._choose(found)
            if fresh and fresh[-1].number and whole:
                self._look_ahead(behind)
            chosen += fresh
            if not whole:
                self.outgoing.stalled[self] = None
            if fresh or not whole:
                break
        return chosen

    def _take_placed(self, most: int) -> tuple[list[Parcel], int]:
        """What has its place already, and its size."""
        chosen: list[Parcel] = []
        size = 0
        while self._again and len(chosen) < most and size < _CHOSEN_BYTES:
            number, parcel = self._again.popitem(last=False)
            if self.numbers.get(parcel.lookup_id) == number:
                chosen.append(parcel)
                size += len(parcel.data) if parcel.data is not None else self._size(parcel.lookup_id)
        return chosen, size

    def _size(self, lookup_id: int) -> int:
        entry = self.queue.positions.get(lookup_id)
        return 0 if entry is None else entry.size

    def _look_ahead(self, behind: int) -> None:
        """Give places to what follows, so that one write serves several windows."""
        found = self.outgoing.transit.waiting(self.queue, behind, _PLACED_AHEAD, _CHOSEN_BYTES)
        ours = list(takewhile(lambda waiting: self._has_place(waiting.packet), found))
        for parcel in self._choose(ours)[0]:
            self._again[parcel.number] = parcel

    def _has_place(self, packet: bytes) -> bool:
        """Whether a message is part of a sequence of ours."""
        return bool(_look(packet)[4] & USER_TH) and packet[_SOURCE] == self._own_guid

    def _choose(self, found: list[Waiting]) -> tuple[list[Parcel], bool]:
        """Lock messages that are to be sent, and write the places of the transactional ones; gives whether that was all
        of them. It ends early where there is no place to give, and at a message that can neither be sent nor given up:
        nothing behind it may overtake it."""
        chosen: list[Parcel] = []
        whole = True
        fresh: list[int] = []
        first: Place | None = None
        set_state = self.queue.positions.set_state
        now_s = self.outgoing.core.now_s
        for lookup_id, packet, marks, plain in found:
            ttrq_s, ttbr_s, sent_time, _, flags = _look(packet)
            transactional = flags & USER_TH
            ours = packet[_SOURCE] == self._own_guid
            late = now_s - sent_time > min(ttrq_s, ttbr_s)  # INFINITE is more than any difference
            if late and (ours or not transactional):
                whole = self.expire(lookup_id, self.load(lookup_id))
                if whole:
                    continue
                break
            if not plain:
                message = self.load(lookup_id)
                if message.local.private:
                    if not self.outgoing.may_seal(message.packet, partial(self.outgoing.wake_drain, self)):
                        whole = False  # the keys come later, and nothing overtakes it
                        break
                    sealed = self._sealed(lookup_id, message)
                    if sealed is None:
                        whole = self.queue.positions.get(lookup_id) is None
                        if whole:
                            continue
                        break
                    packet, marks = sealed, 0
            # Whoever passes transactional messages on wants to hear when they have gone.
            simple = plain and flags & _JOURNALED_SENT_TH != _JOURNALED_SENT and (ours or not transactional)
            parcel = Parcel(self, lookup_id, 0, packet, marks, simple)
            if transactional and ours:
                room = first is not None or self._room_for_places(len(found))
                place = self._place(parcel, packet, flags) if room else None
                if place is None:
                    whole = False
                    break
                first = first or place
                fresh.append(lookup_id)
            set_state(lookup_id, _LOCKED)
            chosen.append(parcel)
        if first is not None:
            self.outgoing.write_last_sequence()
            self._places.write(first, fresh)
            self._changed = True
        return chosen, whole

    def _sealed(self, lookup_id: int, message: StoredMessage) -> bytes | None:
        """The bytes of a message with its body encrypted; None if that fails, and then the message is given up, unless
        it may have arrived already."""
        try:
            return self.outgoing.manager.credentials.seal(message.packet)
        except MQError as error:
            self.outgoing.note(self.queue, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE, error.code)
            number = self.numbers.get(lookup_id)
            if number is None or not self._sender.was_sent(number):
                self.give_up(lookup_id, message, SenderMessageClass.NACK_COULD_NOT_ENCRYPT)
            return None

    def _room_for_places(self, most: int) -> bool:
        """Whether places can be written; on a full disk transactional messages wait."""
        try:
            self.outgoing.core.ledger.reserve(2 * RECORD_BYTES + PLACE_BYTES * most)
        except MessageStorageFailedError:
            return False
        return True

    def _place(self, parcel: Parcel, packet: bytes, flags: int) -> Place | None:
        """Give a message its place; None when the sequence has to end first."""
        tracked = None
        if flags & _JOURNALED or packet[transaction_offset(packet)] & _FINAL_ACK:
            tracked = self.outgoing.final_acks.track(UserMessage.route(packet), parcel)
        place = self._sender.assign(parcel, tracked)
        if place is None:
            if tracked is not None:
                self.outgoing.final_acks.forget(tracked.message_id)
            return None
        parcel.number = self.numbers[parcel.lookup_id] = place.tx_sequence_number
        return place

    def put_back(self, parcel: Parcel) -> None:
        """A chosen message could not be sent after all."""
        if not parcel.number:
            self.returned(parcel.lookup_id)
        elif self.numbers.get(parcel.lookup_id) == parcel.number:
            self._send_again([parcel])

    def _send_again(self, parcels: list[Parcel]) -> None:
        self._again.update((parcel.number, parcel) for parcel in parcels)
        self._again = OrderedDict(sorted(self._again.items()))

    def packet(self, parcel: Parcel) -> bytes | None:
        """The bytes of a chosen message, None when it was taken away meanwhile."""
        entry = self.queue.positions.get(parcel.lookup_id)
        if entry is None or (parcel.number and self.numbers.get(parcel.lookup_id) != parcel.number):
            return None
        return self.bytes_of(parcel)

    def bytes_of(self, parcel: Parcel) -> bytes | None:
        """The bytes of a chosen message that is certainly there; None when it could not be encrypted. They are not
        kept: there may be very many messages that wait for their acknowledgment."""
        data, parcel.data = parcel.data, None
        if data is None:
            message = self.load(parcel.lookup_id)
            data = message.packet.data
            parcel.marks = 0
            if message.local.private and (data := self._sealed(parcel.lookup_id, message)) is None:
                return None
        return placed(data, self._sender.place(parcel.number), parcel.marks) if parcel.number else data

    def sent(self, parcel: Parcel, now_ms: int) -> None:
        if parcel.number:
            self._sender.sent(parcel.number, now_ms)
            self._changed = True

    # What becomes of them

    def acknowledged(self, parcels: list[Parcel]) -> None:
        """The next hop has these messages."""
        done: list[Parcel] = []
        for parcel in parcels:
            if not parcel.number:
                done.append(parcel)
            elif self.numbers.get(parcel.lookup_id) == parcel.number:
                self._release(self._sender.received_session_ack(parcel.number))
        self._all_delivered(done)

    def release(self, released: Released[Parcel]) -> None:
        """An OrderAck has come."""
        self._release(released)
        self._changed = True

    def _release(self, released: Released[Parcel]) -> None:
        for parcel in released.done:
            self.numbers.pop(parcel.lookup_id, None)
        for parcel in released.parked:
            self.numbers.pop(parcel.lookup_id, None)
            self.parked.add(parcel.lookup_id)
        if released.done:
            self.outgoing.deletions += 1  # one of them may be about to be sent once more
        self._all_delivered(released.done)

    def _all_delivered(self, parcels: list[Parcel]) -> None:
        simple = [parcel.lookup_id for parcel in parcels if parcel.simple]
        if simple:
            self.outgoing.transit.forget(self.queue, simple)
            self._places.done_all(simple)
        for parcel in parcels:
            if not parcel.simple:
                self._delivered(parcel.lookup_id)

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

    def settle(self, parcel: Parcel, fate: Fate, parked: bool, message_class: int) -> None:
        """A FinalAck of this class has decided."""
        lookup_id = parcel.lookup_id
        self.parked.discard(lookup_id)
        number = self.numbers.pop(lookup_id, None)
        if not parked and number is not None:
            self._sender.remove(number)
        if self.queue.positions.get(lookup_id) is None:
            return
        self.outgoing.deletions += 1
        if fate is Fate.JOURNAL:
            self._move_to_journal(lookup_id)
        elif fate is Fate.DEAD_LETTER:
            self.outgoing.sending.dead_letter(self.queue, lookup_id, message_class)
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
        self._again = OrderedDict((parcel.number, parcel) for parcel in again)
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
        self._send_again(resent)
        self._changed = True
        return True

    def watch(self, lookup_id: int) -> bool:
        """Remember when a message expires on its way; gives whether it is the first to do so."""
        entry = self.queue.positions.get(lookup_id)
        assert entry is not None
        return self._watch(lookup_id, self.outgoing.transit.packet(self.queue, entry))

    def _watch(self, lookup_id: int, packet: bytes) -> bool:
        ttrq_s, ttbr_s, sent_time, _, flags = _look(packet)
        self._changed = self._changed or bool(flags & USER_TH)
        limit_s = min(ttrq_s, ttbr_s)
        if limit_s == INFINITE or (flags & USER_TH and packet[_SOURCE] != self._own_guid):
            return (
                False  # a transactional message that passes through is refused by its receiver, who ends it
            )
        return self._expiries.add(sent_time + limit_s, lookup_id)

    @property
    def next_expiry_s(self) -> int | None:
        """The second after which a message is late."""
        return self._expiries.first

    def expire_late(self, now_s: int) -> None:
        """Give up what is late. What is on its way at this moment is left to its session, and a transactional message
        that may have left is not given up at all: it may have arrived, and its OrderAck or FinalAck will tell."""
        for lookup_id in self._expiries.pop_before(now_s):
            entry = self.queue.positions.get(lookup_id)
            if entry is None or lookup_id in self.parked:
                continue
            number = self.numbers.get(lookup_id)
            if number is not None and self._sender.was_sent(number):
                continue
            placed_and_idle = number is not None and (self.connection is None or number in self._again)
            if entry.state is PositionState.AVAILABLE or placed_and_idle:
                if not self.expire(lookup_id, self.load(lookup_id)):
                    self._expiries.add(now_s + 1, lookup_id)
            elif self.connection is not None:
                self._expiries.add(now_s + 1, lookup_id)

    def expire(self, lookup_id: int, message: StoredMessage) -> bool:
        """The message did not make it in time (MS-MQQB 3.1.7.1.2)."""
        return self.give_up(lookup_id, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)

    def give_up(
        self, lookup_id: int, message: StoredMessage, fate: MessageClass | SenderMessageClass
    ) -> bool:
        """The message will not be sent: who asked is told, and it may be kept. False when the disk has not even room
        for that; then nothing has changed."""
        packet = message.packet
        try:
            # One event: who is told of the end of a message is not told again.
            event = self.outgoing.core.event(2 * message.size + _SLACK_BYTES, _RECORDS, freeing=True)
        except MessageStorageFailedError:
            return False
        number = self.numbers.pop(lookup_id, None)
        with event:
            self.outgoing.acknowledging.acknowledge(packet, fate)
            if packet.user.negative_journaling and journaled(message):
                self.outgoing.sending.dead_letter(self.queue, lookup_id, fate)
            else:
                self.outgoing.placing.delete(self.queue, lookup_id, MessageClass.NORMAL, message)
        if number is not None:
            self._sender.remove(number)
            self._again.pop(number, None)
        self.outgoing.deletions += 1
        self._forget_final_ack(packet)
        self._places.done(lookup_id)
        self._changed = True
        return True

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
