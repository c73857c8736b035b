"""Draining one outgoing queue: what to send next, what is under way, what is done.

A message that was chosen is locked in its queue until the peer has it: an express or recoverable one until its
session acknowledges it, a transactional one until its OrderAck, and if its sender wants a FinalAck, until that. A
session that closes returns express and recoverable messages to their queue; transactional ones go again in their order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, islice, repeat
from typing import TYPE_CHECKING

from msmq.errors import MessageStorageFailedError, MQError
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.expiries import Buckets
from msmq.manager.mailbox.positions import START, Positions, PositionState
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import SenderMessageClass
from msmq.manager.model import ConnectionStatus, OutgoingState, OutgoingTransferInfo
from msmq.manager.queues.queue import OutgoingQueue
from msmq.server.inbound.connection import Connection
from msmq.server.inbound.places import PLACE_BYTES, RECORD_BYTES, Places
from msmq.server.outbound.runs import (
    LATE,
    PASSING_TH,
    PRIVATE,
    Awaited,
    Ending,
    Run,
    awaited,
    journaled,
    limits_of,
    runs_in,
    runs_of,
    together,
)
from msmq.server.outbound.settlement import Receivers
from msmq.transfer.final_ack import Fate, Tracked
from msmq.transfer.order_sender import OrderSender, Place, Released, placed_run
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_TH
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.server.outbound.link import Link
    from msmq.server.outbound.outgoing import Outgoing

_LOCKED = PositionState.LOCKED
_CHOSEN_BYTES = 256 << 10
"""How many bytes of a queue are looked at in one step."""
_PLACED_AHEAD = 1_024
_AHEAD_BYTES = 1 << 20
"""How many messages get their places ahead of the window, when less than half as many have them."""
_SENDING = frozenset(OutgoingState) - {OutgoingState.ON_HOLD, OutgoingState.LOCKED}
_SLACK_BYTES = 8_192
_RECORDS = 8


class Drain:
    """The messages of one outgoing queue and the progress of each."""

    def __init__(self, outgoing: Outgoing, queue: OutgoingQueue, now_ms: int) -> None:
        self.outgoing = outgoing
        self.queue = queue
        self.link: Link | None = None
        self.connection: Connection | None = None
        """The connection that its messages are sent over at present."""
        self.receivers = Receivers(queue.receiver)
        """The hosts that may tell what became of its transactional messages."""
        self.parked: set[int] = set()
        """Messages that only wait for their FinalAck."""
        self.numbers: dict[int, int] = {}
        """TxSequenceNumber by lookup identifier, of the messages in the sequence."""
        self.durable_at = 0
        """The mark of the store up to which everything must be durable before the messages chosen last may leave."""
        self._again: deque[Run] = deque()
        """Messages with places that are to be sent (again), in the order of their numbers. Some may be gone."""
        self._journaled: set[int] = set()
        """Messages under way that are moved to the journal when they arrive."""
        self._told: set[int] = set()
        """Messages under way of whose arrival subscribers are told: transactional ones in transit, or possibly so."""
        self._available_at = self._appended
        self._expiries = Buckets(queue.positions)
        """Messages by their last second."""
        self._unwatched = array("Q")
        """Messages that came lately and whose expiry has not been read yet."""
        self._changed = False
        self._places = Places(outgoing.core.ledger, queue.number)
        self._own_guids = outgoing.core.own_identifiers
        self._sender = self._new_sender(now_ms, (0, 0))

    @property
    def _appended(self) -> int:
        return self.outgoing.core.ledger.store.appended

    def _new_sender(self, now_ms: int, last_place: tuple[int, int]) -> OrderSender[int]:
        outgoing = self.outgoing
        sender = OrderSender(outgoing.sequences, outgoing.timers.resend_timer_table_s, now_ms, last_place)
        outgoing.drain_of[sender] = self
        return sender

    def close(self) -> None:
        """Release the sequence of a queue that is removed; it is empty."""
        self.outgoing.sequences.release(self._sender)
        self.outgoing.drain_of.pop(self._sender, None)

    def _is_ours(self, packet: UserMessage) -> bool:
        """Whether this host is the sender of a message; otherwise the message is in transit, and sequence, journal and
        FinalAck are those of its sender."""
        return packet.user.source_queue_manager in self._own_guids

    # After a restart

    def restore(self, values: list[tuple[int, int, list[int]]], now_ms: int) -> None:
        """Restore the messages that wait here, and the places that some of them have."""
        outgoing, positions = self.outgoing, self.queue.positions
        behind = START
        while len(waiting := outgoing.mailbox.look(self.queue, behind, _PLACED_AHEAD, _CHOSEN_BYTES)):
            self._watch(zip(waiting.ids, waiting.packets, strict=True))
            behind = waiting.ids[-1]
        present = {entry.lookup_id for entry in positions} if values else set()
        found = self._places.restore(values, present)
        self._sender = self._new_sender(now_ms, self._places.last)
        again = []
        for sequence_id, number, lookup_id in found:
            if (message := outgoing.read(self.queue, lookup_id)) is None:
                continue
            positions.set_state(lookup_id, PositionState.LOCKED)
            tracked = outgoing.final_acks.track(message.packet, Awaited(self, lookup_id))
            self.numbers[lookup_id] = number
            self._told.add(lookup_id)
            released = self._sender.readmit(lookup_id, (sequence_id, number), tracked)
            if released is not None:
                self._release(released)
            else:
                again.append((number, lookup_id))
        self._again.extend(runs_of(self, again, self._appended))

    # Choosing

    @property
    def may_send(self) -> bool:
        """Whether the operator allows messages to leave."""
        return self.queue.state in _SENDING and self.outgoing.core.connection_active

    @property
    def waiting(self) -> bool:
        """Whether there is anything to send."""
        return bool(self._again) or self.queue.positions.next_available(START) is not None

    def take(self, most: int) -> list[Run]:
        """Choose up to ``most`` messages to send, with no more bytes than one write should have. They may leave once
        ``durable_at`` is durable."""
        chosen, size = self._take_placed(most)
        count = sum(map(len, chosen))
        behind, whole = START, True
        while whole and count < most and size < _CHOSEN_BYTES:
            found = self.outgoing.mailbox.look(self.queue, behind, most - count, _CHOSEN_BYTES - size)
            if not len(found):
                break
            behind = found.ids[-1]
            fresh, whole = self._choose(found)
            chosen += fresh
            count += sum(map(len, fresh))
            size += sum(map(len, found.packets))
        if not whole:
            self.outgoing.stalled[self] = None
        elif chosen and chosen[-1].number:
            self._look_ahead()
        for run in chosen:
            self.durable_at = max(self.durable_at, run.durable_at)
        return chosen

    def _take_placed(self, most: int) -> tuple[list[Run], int]:
        """Choose messages that have their places already. Returns them and their size."""
        chosen: list[Run] = []
        count = size = 0
        while self._again and count < most and size < _CHOSEN_BYTES:
            run = self._again.popleft()
            sizes = map(self._size, run.lookup_ids) if run.packets is None else map(len, run.packets)
            upto = list(accumulate(islice(sizes, most - count)))
            fitting = min(bisect_left(upto, _CHOSEN_BYTES - size) + 1, len(upto))
            if fitting < len(run):
                self._again.appendleft(run.part(fitting, len(run)))
                run = run.part(0, fitting)
            size += upto[fitting - 1]
            left = self.left_of(run)
            count += sum(map(len, left))
            chosen += left
        return chosen, size

    def _size(self, lookup_id: int) -> int:
        entry = self.queue.positions.get(lookup_id)
        return 0 if entry is None else entry.size

    def left_of(self, run: Run) -> list[Run]:
        """The parts of a run that are still to be sent."""
        if run.number:
            wanted = self._sender.standing(run.number, run.lookup_ids)
        else:
            standing = set(self.queue.positions.find(run.lookup_ids).ids)
            wanted = bytearray(lookup_id in standing for lookup_id in run.lookup_ids)
        return list(run.parts(wanted)) if 0 in wanted else [run]

    def _look_ahead(self) -> None:
        """Give places to the following messages, so that they are durable before the window reaches them, and one
        write serves several windows."""
        count, size = sum(map(len, self._again)), 0
        if 2 * count > _PLACED_AHEAD:
            return
        whole = True
        while whole and count < _PLACED_AHEAD and size < _AHEAD_BYTES:
            # No more at a time than are sent at a time.
            found = self.outgoing.mailbox.look(self.queue, START, _PLACED_AHEAD - count, _CHOSEN_BYTES)
            if not len(found):
                break
            runs, whole = self._choose(found, only_placed=True)
            self._again.extend(runs)
            count += sum(map(len, runs))
            size += sum(map(len, found.packets))
        self.outgoing.commit.request()

    def _choose(self, found: Found, *, only_placed: bool = False) -> tuple[list[Run], bool]:
        """Lock messages to be sent, and store the places of transactional ones. Returns whether these are all of them.
        It ends early if there is no place to give, and at a message that can neither be sent nor given up, because
        nothing behind it may overtake it; with ``only_placed`` also at one that gets no place."""
        chosen: list[Run] = []
        placed: list[Run] = []
        whole = True
        for run, kind, kept in runs_in(self, found, self._own_guids, self.outgoing.core.now_s):
            if only_placed and kind & PASSING_TH != USER_TH:
                whole = False
                break
            run.durable_at = self._available_at
            if kind & (LATE | PRIVATE):
                ready = self._prepare(run, kind)
                if ready is None:
                    continue
                if not ready:
                    whole = False
                    break
            if kind & PASSING_TH == USER_TH:
                wanted = len(run)
                run = self._place(run, 0 if placed else len(found.packets))
                placed.append(run)
                whole = len(run) == wanted
            if len(run):
                self.queue.positions.set_states(run.lookup_ids, _LOCKED)
                self._journaled.update(kept)
                if kind & PASSING_TH == PASSING_TH:
                    self._told.update(run.lookup_ids)
                chosen.append(run)
            if not whole:
                break
        self._write_places(placed)
        return chosen, whole

    def _prepare(self, run: Run, kind: int) -> bool | None:
        """Whether a message that is late or to be encrypted can be sent; None if it was given up."""
        (lookup_id,) = run.lookup_ids
        if (message := self.outgoing.read(self.queue, lookup_id)) is None:
            return None
        if kind & LATE:
            return None if self.expire(lookup_id, message) else False
        if not self.outgoing.may_seal(message.packet, partial(self.outgoing.wake_drain, self)):
            return False  # the keys come later, and nothing may overtake it
        sealed = self._sealed(lookup_id, message)
        if sealed is None:
            return None if self.queue.positions.get(lookup_id) is None else False
        run.packets = [sealed]
        return True

    def _sealed(self, lookup_id: int, message: StoredMessage) -> bytes | None:
        """The bytes of a message with its body encrypted; None if that fails. Then the message is given up, unless it
        may have arrived already."""
        try:
            return self.outgoing.manager.credentials.seal(message.packet)
        except MQError as error:
            self.outgoing.note(self.queue, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE, error.code)
            number = self.numbers.get(lookup_id)
            if number is None or not self._sender.was_sent(number):
                self.give_up(lookup_id, message, SenderMessageClass.NACK_COULD_NOT_ENCRYPT)
            return None

    def _room_for_places(self, most: int) -> bool:
        """Whether places can be stored, after the receiver of the messages; on a full disk transactional messages
        wait."""
        try:
            if self.queue.receiver != self.receivers.last:
                self.outgoing.manager.queues.change(self.queue, receiver=self.receivers.last)
            self.outgoing.core.ledger.reserve(2 * RECORD_BYTES + PLACE_BYTES * most)
        except MessageStorageFailedError:
            return False
        return True

    def _place(self, run: Run, reserved: int) -> Run:
        """Give messages their places, and return those for which there were any. With ``reserved``, room for that many
        is reserved first."""
        room = self._sender.room
        if not room or (reserved and not self._room_for_places(reserved)):
            return run.part(0, 0)
        run = run.part(0, min(room, len(run)))
        assert run.packets is not None
        tracked: dict[int, Tracked[Awaited]] = {}
        for index, message_id, flags in awaited(run.packets):
            token = Awaited(self, run.lookup_ids[index])
            tracked[index] = self.outgoing.final_acks.follow(message_id, flags, token)
        run.number = self._sender.assign_run(run.lookup_ids, tracked).tx_sequence_number
        self.numbers.update(zip(run.lookup_ids, run.numbers, strict=True))
        return run

    def _write_places(self, placed: list[Run]) -> None:
        """Store consecutive places of messages."""
        lookup_ids = [lookup_id for run in placed for lookup_id in run.lookup_ids]
        if not lookup_ids:
            return
        self.outgoing.write_last_sequence()
        self._places.write(Place(self._sender.sequence_id, placed[0].number, 0), lookup_ids)
        for run in placed:
            run.durable_at = self._appended
        self._changed = True

    def put_back(self, run: Run) -> None:
        """Return chosen messages that could not be sent."""
        if run.number:
            for left in self.left_of(run):
                self._send_again(zip(left.numbers, left.lookup_ids, strict=True))
        else:
            for lookup_id in run.lookup_ids:
                self.returned(lookup_id)

    def _send_again(self, places: Iterable[tuple[int, int]]) -> None:
        """Queue messages with places, given as (number, lookup identifier), to be sent before all later ones."""
        merged = dict(places)
        for run in self._again:
            merged.update(zip(run.numbers, run.lookup_ids, strict=True))
        self._again = deque(runs_of(self, sorted(merged.items()), self._appended))

    def with_packets(self, run: Run) -> list[Run]:
        """The messages of a run with their packets, except those that are damaged or could not be encrypted."""
        if run.packets is not None:
            return [run]
        packets = []
        for lookup_id in run.lookup_ids:
            message = self.outgoing.read(self.queue, lookup_id)
            if message is not None and message.local.private:
                packets.append(self._sealed(lookup_id, message))
            else:
                packets.append(None if message is None else message.packet.data)
        run.packets = [packet or b"" for packet in packets]
        return [run] if all(packets) else list(run.parts(packets))

    def packets(self, run: Run) -> tuple[list[bytes], bytearray | None]:
        """The packets of a run, and, if they have places, the bytes to send, joined."""
        assert run.packets is not None
        if not run.number:
            return run.packets, None
        return run.packets, placed_run(run.packets, self._sender.place(run.number))

    def sent(self, run: Run, count: int, now_ms: int) -> None:
        """Note that some messages of a run were sent."""
        if run.number and count:
            self._sender.sent_run(run.number, count, now_ms)
            self._changed = True

    # What becomes of them

    def acknowledged(self, runs: list[Run]) -> None:
        """Note that the next hop has these messages."""
        done: list[int] = []
        for run in runs:
            if not run.number:
                done += run.lookup_ids
        numbers = [
            left.numbers for run in together(run for run in runs if run.number) for left in self.left_of(run)
        ]
        if numbers:
            self._release(self._sender.received_session_acks(numbers))
        self._delivered(done)

    def release(self, released: Released[int]) -> None:
        """Process an OrderAck."""
        self._release(released)
        self._changed = True

    def _release(self, released: Released[int]) -> None:
        done, parked = released
        for lookup_id in done:
            self.numbers.pop(lookup_id, None)
        for lookup_id in parked:
            self.numbers.pop(lookup_id, None)
            self.parked.add(lookup_id)
        if done:
            self.outgoing.deletions += 1  # one of them may be about to be sent again
        self._delivered(done)

    def _forget(self, messages: Sequence[int] | Positions) -> None:
        """Remove delivered messages that need nothing else."""
        self.outgoing.mailbox.remove(self.queue, messages, MessageClass.NORMAL, quiet=True)

    def _delivered(self, lookup_ids: list[int]) -> None:
        """Remove delivered messages; a transactional one is journaled only with its FinalAck."""
        positions = self.queue.positions.find(lookup_ids)
        if self._journaled and not self._journaled.isdisjoint(lookup_ids):
            kept, positions = positions.divided(self._journaled)
            self._journaled.difference_update(lookup_ids)
            self._move_to_journal(kept)
        if self._told and not self._told.isdisjoint(lookup_ids):
            told, positions = positions.divided(self._told)
            self._told.difference_update(lookup_ids)
            self.outgoing.mailbox.remove(self.queue, told, MessageClass.NORMAL)
        self._forget(positions)
        self._places.done_all(lookup_ids)

    def _move_to_journal(self, messages: Sequence[int] | Positions) -> None:
        journal = self.outgoing.core.journal_queue
        assert journal is not None
        self.outgoing.sending.move_to_system_queue(self.queue, messages, journal)

    def settle(self, endings: Sequence[Ending]) -> None:
        """Process the results of FinalAcks."""
        ids = [ending.lookup_id for ending in endings]
        self.parked.difference_update(ids)
        self._told.difference_update(ids)
        here = set(self.queue.positions.find(ids).ids)
        forgotten, kept, dead, unparked = [], [], [], []
        for lookup_id, fate, parked, message_class in endings:
            number = self.numbers.pop(lookup_id, None)
            if not parked and number is not None:
                unparked.append(number)
            if lookup_id not in here:
                continue
            if fate is Fate.FORGET:
                forgotten.append(lookup_id)
            elif fate is Fate.JOURNAL:
                kept.append(lookup_id)
            else:
                dead.append((lookup_id, message_class))
        self._sender.remove_all(unparked)
        self.outgoing.deletions += 1
        for lookup_id, message_class in dead:
            self.outgoing.sending.dead_letter(self.queue, lookup_id, message_class)
            self._places.done(lookup_id)
        self._move_to_journal(kept)
        self._forget(forgotten)
        self._places.done_all(kept + forgotten)
        self._changed = True

    def returned(self, lookup_id: int) -> None:
        """Return a message without a transaction from a session that has closed."""
        self._journaled.discard(lookup_id)
        entry = self.queue.positions.get(lookup_id)
        if entry is None:
            return
        if entry.state is PositionState.PURGE_PENDING:
            self.outgoing.mailbox.remove(self.queue, (lookup_id,), MessageClass.NACK_DELETED)
        elif entry.state is PositionState.LOCKED:
            self.queue.positions.set_state(lookup_id, PositionState.AVAILABLE)

    def session_lost(self) -> None:
        """Note that the connection is gone: all messages with places are sent again over the next one."""
        self.connection = None
        released, again = self._sender.session_lost()
        self._release(released)
        places = [(self.numbers[lookup_id], lookup_id) for lookup_id in again]
        self._again = deque(runs_of(self, places, self._appended))
        self._changed = True

    def gone(self, lookup_id: int, message: StoredMessage) -> None:
        """Forget a message that somebody else has deleted."""
        self.lost(lookup_id)
        self._forget_final_ack(message.packet)

    def lost(self, lookup_id: int) -> None:
        """Forget a message that is gone and that nobody could read."""
        number = self.numbers.pop(lookup_id, None)
        if number is not None:
            self._sender.remove(number)
        self.parked.discard(lookup_id)
        self._journaled.discard(lookup_id)
        self._told.discard(lookup_id)
        self._places.done(lookup_id)

    def _forget_final_ack(self, packet: UserMessage) -> None:
        if self._is_ours(packet):
            self.outgoing.final_acks.forget(packet.user.message_id)

    # Time

    @property
    def deadline_ms(self) -> int | None:
        """The time of the Transactional Ack Wait Timer."""
        return self._sender.deadline_ms

    def handle_timer(self, now_ms: int) -> bool:
        """Process the timer. Returns whether messages have to be sent again because no OrderAck came."""
        resent = self._sender.handle_timer(now_ms)
        if not resent:
            return False
        self._send_again([(self.numbers[lookup_id], lookup_id) for lookup_id in resent])
        self._changed = True
        return True

    def arrived(self, lookup_ids: Sequence[int]) -> None:
        """Note messages that are ready to be sent. Most leave before their expiry matters, so it is not read yet."""
        self._available_at = self._appended
        self._changed = True
        self._unwatched.extend(lookup_ids)

    def watch(self, most: int) -> bool:
        """Read the expiry of messages that came lately and are still there. Returns whether there are more of them."""
        lately, self._unwatched = self._unwatched[:most], self._unwatched[most:]
        self._watch(self.outgoing.mailbox.headers(self.queue, lately))
        return bool(self._unwatched)

    def _watch(self, messages: Iterable[tuple[int, bytes]]) -> None:
        ids, last_seconds, transactional = limits_of(messages, self._own_guids)
        self._changed = self._changed or transactional
        self._expiries.add(ids, last_seconds)

    @property
    def next_expiry_s(self) -> int | None:
        """The second after which the next message is late."""
        return self._expiries.first

    def expire_late(self, now_s: int) -> None:
        """Give up late messages. A message that is being sent is left to its session, and a transactional message that
        may have left is not given up: it may have arrived, and its OrderAck or FinalAck will tell."""
        while self._expiries.first is not None and self._expiries.first < now_s:
            _, late = self._expiries.pop()
            put_off = [lookup_id for lookup_id in late if not self._expire_late(lookup_id)]
            self._expiries.add(put_off, repeat(now_s + 1, len(put_off)))

    def _expire_late(self, lookup_id: int) -> bool:
        """Give up a late message if it may be given up now. Returns False if it has to be looked at again."""
        entry = self.queue.positions.get(lookup_id)
        if entry is None or lookup_id in self.parked:
            return True
        number = self.numbers.get(lookup_id)
        if number is not None and self._sender.was_sent(number):
            return True
        placed_and_idle = number is not None and (
            self.connection is None or any(number in run.numbers for run in self._again)
        )
        if entry.state is PositionState.AVAILABLE or placed_and_idle:
            message = self.outgoing.read(self.queue, lookup_id)
            return message is not None and self.expire(lookup_id, message)
        return self.connection is None

    def expire(self, lookup_id: int, message: StoredMessage) -> bool:
        """Give up a message that did not reach its queue in time (MS-MQQB 3.1.7.1.2)."""
        return self.give_up(lookup_id, message, MessageClass.NACK_REACH_QUEUE_TIMEOUT)

    def give_up(
        self, lookup_id: int, message: StoredMessage, fate: MessageClass | SenderMessageClass
    ) -> bool:
        """Give up a message: tell the sender if asked, and keep the message if wanted. Returns False if the disk has
        no room even for that; then nothing has changed."""
        packet = message.packet
        try:
            # One event, so that nobody is told twice of the end of a message.
            event = self.outgoing.core.event(2 * message.size + _SLACK_BYTES, _RECORDS, freeing=True)
        except MessageStorageFailedError:
            return False
        number = self.numbers.pop(lookup_id, None)
        with event:
            self.outgoing.acknowledging.acknowledge((packet,), fate)
            if packet.user.negative_journaling and journaled(packet.data):
                self.outgoing.sending.dead_letter(self.queue, lookup_id, fate)
            else:
                known = {lookup_id: message}
                self.outgoing.mailbox.remove(self.queue, (lookup_id,), MessageClass.NORMAL, known=known)
        if number is not None:
            self._sender.remove(number)
        self._journaled.discard(lookup_id)
        self._told.discard(lookup_id)
        self.outgoing.deletions += 1
        self._forget_final_ack(packet)
        self._places.done(lookup_id)
        self._changed = True
        return True

    # What management shows

    def refresh(self) -> None:
        """Update OutgoingTransferInfo if anything has changed. It looks at every message of the sequence, so it is
        done periodically and not for each change."""
        if not self._changed:
            return
        self._changed = False
        info: OutgoingTransferInfo = self.queue.transfer_info
        for name, value in self._sender.statistics(self.outgoing.epoch_ms)._asdict().items():
            setattr(info, name, value)
        info.eod_no_read_count = len(self.parked)
