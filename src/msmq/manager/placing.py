"""Putting messages into queues and taking them out (MS-MQDMPR 3.1.7.1.9, 3.1.7.1.16, 3.1.7.2.1, 3.1.7.2.2).

These are the only functions that change a queue's places. They keep four things in step: the places, the
bytes that quotas count, the records of the ledger and the timers; and they tell subscribers.

Each is one event, or part of the one that calls it (see :mod:`msmq.manager.event`): room for all of its records is
reserved before the first one is written, nothing that follows from it reserves again, and a record is written before
the places change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.expiries import Expiries
from msmq.manager.ledger import NO_TRANSACTION, Kind, LostRecord, deletion_bytes
from msmq.manager.model import UNLIMITED, EnqueueStatus, QueueType
from msmq.manager.positions import Entry, PositionMark, PositionState
from msmq.manager.queue import MessagePosition, OutgoingQueue, Queue, WaitingRead, position_of
from msmq.manager.stored import (
    ENVELOPE_SIZE,
    LocalAttributes,
    StoredMessage,
    UnreadMessage,
    envelope,
    record_size,
)
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import late_for_queue
from msmq.wire.headers import BASE_SH, INFINITE, USER_TH
from msmq.wire.properties.queue import within_quota

MQ_OK = 0
ADMITTED: Final = EnqueueStatus.OK
_AVAILABLE, _LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
OWES_NOTHING: Final = int(PositionMark.OWES_NOTHING)
_KEPT_UNREAD: Final = int(PositionMark.KEPT_UNREAD)
_MAY_OWE: Final = USER_TH | 7 << 13
"""Flags of a UserHeader: the message is transactional, or names an administration queue."""
_NEGATIVE_JOURNALING: Final = 1 << 8
UNREAD: Final = (
    MessageClass.NACK_RECEIVE_TIMEOUT,
    MessageClass.NACK_Q_PURGED,
    MessageClass.NACK_DELETED,
)
"""Why a message leaves its destination that nobody received, or an outgoing queue without being sent."""
RECOVERABLE = 1 << 5
NUMBERS_BYTES = 64
"""A new message may begin a new range of numbers, which is written too."""


class Placing:
    """Inserts, releases, moves and deletes messages."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.expiries = Expiries(core.timers, self.expire)
        self.grave_for: Callable[[Queue, StoredMessage, bool], Queue | None] = lambda queue, message, whole: (
            None
        )
        """Where a message goes that leaves its destination unread, None for nowhere; without the last the reason cannot
        be written beside it."""

    # --- into a queue ---------------------------------------------------------------------------------------

    def admit(self, queue: Queue, message: StoredMessage) -> EnqueueStatus:
        """Whether a message may go into a queue now: flow control, machine quota, queue quota, time."""
        core, base = self.core, message.packet.base
        size = base.packet_size
        machine_kb, queue_kb = core.record.queue_manager_quota_kb, queue.quota_kb
        if core.throttled or (
            machine_kb != UNLIMITED and not within_quota(machine_kb, core.total_bytes, size)
        ):
            return EnqueueStatus.QUEUE_MANAGER_QUOTA
        if queue_kb != UNLIMITED and not within_quota(queue_kb, queue.positions.total_bytes, size):
            return EnqueueStatus.QUEUE_QUOTA
        if base.time_to_reach_queue_s != INFINITE and late_for_queue(message.packet, core.now_s):
            return EnqueueStatus.TIMED_OUT
        return ADMITTED

    def insert(
        self, queue: Queue, message: StoredMessage, transaction: bytes | None = None, *, freeing: bool = False
    ) -> MessagePosition:
        """Give a message its place. In a transaction it stays locked until the commit; otherwise it is
        available.

        What a transaction sends is always written, because its record is the operation's. ``freeing`` says
        that the message takes the room of one that is going, so that it finds some even on a full disk.
        """
        core, packet = self.core, message.packet
        if packet.base.flags & BASE_SH:  # it belonged to the session, not to the message
            packet = message.packet = packet.with_session(None)
        if (
            transaction is None
            and packet.user.time_to_be_received_s == INFINITE
            and not queue.waiting
            and not core.told_of(queue)
        ):
            return self._insert_plain(queue, message, freeing)
        message.arrival_time = core.now_s
        message.transaction = transaction
        if transaction is not None or packet.user.flags & RECOVERABLE:
            front = envelope(message)
            size = len(front) + len(packet.data) + NUMBERS_BYTES
        else:
            front, size = b"", 0
            core.check_express_room(message.size)
        expiry = message.expiry
        with core.event(size, 3 if size else 0, freeing=freeing):
            position = self._insert(queue, message, front, expiry, transaction or NO_TRANSACTION)
            if transaction is None:
                if message.lookup_id in queue.overdue:
                    self.make_available(queue, message.lookup_id)
                else:
                    self._announce(queue, position)
        return position

    def _insert_plain(self, queue: Queue, message: StoredMessage, freeing: bool) -> MessagePosition:
        """Nothing can come of it: it never expires, no reader waits, nobody asked to be told."""
        core, packet = self.core, message.packet
        base, user_flags, size = packet.base, packet.user.flags, packet.base.packet_size
        message.arrival_time = core.now_s
        message.transaction = None
        if user_flags & RECOVERABLE:
            front = envelope(message)
            core.reserve(len(front) + len(packet.data) + NUMBERS_BYTES, 2, freeing)
        else:
            core.check_express_room(size)
        number = core.next_sequential_id()
        if not queue.transactional and not user_flags & USER_TH:
            number |= (7 - (base.flags & 7)) << 56
        message.lookup_id = number
        marks = 0 if message.local.has_any else marks_of(user_flags)
        if user_flags & RECOVERABLE:
            address = core.ledger.put_message(queue.number, message, front, None, NO_TRANSACTION, marks)
        else:
            address = 0
            queue.volatile[number] = message
            core.express_bytes += size
        queue.positions.add(number, address, size, _AVAILABLE, marks)
        core.total_bytes += size
        if message.local.allow_peek_when_locked:
            queue.peekable_when_locked.add(number)
        return position_of((queue, number))

    def _insert(
        self, queue: Queue, message: StoredMessage, front: bytes, expiry: int | None, transaction: bytes
    ) -> MessagePosition:
        """Write a message and give it its place."""
        core, packet = self.core, message.packet
        number = core.next_sequential_id()
        # Ascends along the queue: priority first, arrival second; a transactional queue knows only arrival.
        if not queue.transactional and not packet.user.flags & USER_TH:
            number |= (7 - (packet.base.flags & 7)) << 56
        message.lookup_id = number
        plain = len(front) <= ENVELOPE_SIZE  # one with local attributes must be read for its size
        marks = marks_of(packet.user.flags) if plain else 0
        address = 0
        if front:
            address = core.ledger.put_message(queue.number, message, front, expiry, transaction, marks)
        state = _AVAILABLE if transaction is NO_TRANSACTION else _LOCKED
        self.place(queue, message, address, expiry, state, marks)
        return position_of((queue, number))

    def place(
        self,
        queue: Queue,
        message: StoredMessage,
        address: int,
        expiry: int | None,
        state: PositionState,
        marks: int = 0,
    ) -> None:
        """Enter a message whose record is written, or that needs none, into the places of a queue. One that is overdue
        already never becomes available."""
        core, lookup_id, size = self.core, message.lookup_id, message.packet.base.packet_size
        if expiry is not None and is_destination(queue):
            if expiry <= core.now_s:
                queue.overdue.add(lookup_id)
                state = _LOCKED
            else:
                self.watch_expiry(queue, lookup_id, expiry)
        queue.positions.add(lookup_id, address, size, state, marks)
        if not address:
            queue.volatile[lookup_id] = message
            core.express_bytes += size
        core.total_bytes += size
        if message.local.allow_peek_when_locked:
            queue.peekable_when_locked.add(lookup_id)

    def watch_expiry(self, queue: Queue, lookup_id: int, expiry: int | None) -> None:
        """Start the Time To Be Received timer; only messages at their destination expire unread."""
        if expiry is not None and is_destination(queue):
            self.expiries.watch(queue, lookup_id, expiry)

    def make_available(self, queue: Queue, lookup_id: int) -> None:
        """Message Position Available: everybody who waits is served in order, then protocols are told."""
        if lookup_id in queue.overdue:
            self.delete(queue, lookup_id, MessageClass.NACK_RECEIVE_TIMEOUT)
            return
        queue.positions.set_state(lookup_id, _AVAILABLE)
        self._announce(queue, MessagePosition(queue, lookup_id))

    def give_back(self, queue: Queue, lookup_id: int) -> None:
        """A reader or a transaction does not keep the message after all."""
        before = queue.aborts.get(lookup_id, 0)
        queue.aborts[lookup_id] = before + 1
        try:
            self.make_available(queue, lookup_id)
        except MessageStorageFailedError:
            queue.aborts[lookup_id] = before
            raise

    def _announce(self, queue: Queue, position: MessagePosition) -> None:
        """Readers that blocked first are served first; one that takes the message ends the round."""
        core = self.core
        if queue.waiting:
            with core.event():
                while queue.waiting and position.state is _AVAILABLE:
                    finish_wait(queue.waiting[0], MQ_OK, position)
            if position.state is not _AVAILABLE:
                return
        for told in core.told_of(queue):
            told(queue, position)

    # --- out of a queue -------------------------------------------------------------------------------------

    def take_out(self, queue: Queue, lookup_id: int) -> Entry:
        """Remove a place and everything kept beside it; the ledger and the subscribers are the caller's
        business."""
        core = self.core
        entry = queue.positions.remove(lookup_id)
        core.total_bytes -= entry.size
        if not entry.address:
            del queue.volatile[lookup_id]
            core.express_bytes -= entry.size
        self._forget_beside(queue, lookup_id)
        return entry

    def take_out_all(self, queue: Queue, lookup_ids: array[int], *, volatile: bool) -> None:
        """The same for many, of which all or none are in memory only."""
        core = self.core
        size = queue.positions.remove_all(lookup_ids)
        core.total_bytes -= size
        if volatile:
            for lookup_id in lookup_ids:
                del queue.volatile[lookup_id]
            core.express_bytes -= size
        beside = (core.moved, queue.peekable_when_locked, queue.overdue, queue.aborts, queue.moves)
        if any(beside):
            for lookup_id in lookup_ids:
                self._forget_beside(queue, lookup_id)

    def _forget_beside(self, queue: Queue, lookup_id: int) -> None:
        """What is kept beside the place of a message."""
        if self.core.moved:
            self.core.moved.pop(lookup_id, None)
        if queue.peekable_when_locked:
            queue.peekable_when_locked.discard(lookup_id)
        if queue.overdue:
            queue.overdue.discard(lookup_id)
        if queue.aborts:
            queue.aborts.pop(lookup_id, None)
        if queue.moves:
            queue.moves.pop(lookup_id, None)

    def delete(
        self,
        queue: Queue,
        lookup_id: int,
        reason: int,
        message: StoredMessage | None = None,
        *,
        recorded: bool = False,
        entry: Entry | None = None,
    ) -> None:
        """Message Position Deleted. ``recorded`` says that the ledger has the deletion already, by a commit. Who has
        just looked the ``entry`` up saves looking again.

        A message received from a queue with journaling goes to that queue's journal instead, if it fits.
        """
        core = self.core
        entry = entry or queue.positions.get(lookup_id)
        assert entry is not None
        if reason in UNREAD and not recorded and _may_be_kept(entry) and _waits_in(queue):
            message = message or self.fetch(queue, entry)
            if message is None or self._bury(queue, entry, message, reason):
                return
        with core.event(0, 2 if entry.address else 0, freeing=True):
            if message is None:
                message = self.fetch(queue, entry, recorded=recorded)
                if message is None:
                    return
            journal = None
            if queue.journaling and reason == MessageClass.ACK_RECEIVE:
                journal = self._journal_for(queue, message)
            if journal is not None and not recorded:
                self._transfer(queue, entry, message, journal)
            else:
                if entry.address and not recorded:
                    core.ledger.delete_message(lookup_id, reason)
                self.take_out(queue, lookup_id)
                if entry.address:
                    core.ledger.store.release(entry.address, record_size(message))
                if journal is not None:
                    self.insert(journal, message.same_place(0), freeing=True)
            for tell in core.told_deleted:
                tell(queue, message, reason)

    def _bury(self, queue: Queue, entry: Entry, message: StoredMessage, reason: int) -> bool:
        """Make a dead letter of a message that nobody read, if its sender wants that; gives whether it is done."""
        grave = self.grave_for(queue, message, True)
        if grave is None:
            return False
        core = self.core
        size = record_size(message) + NUMBERS_BYTES if entry.address else 0
        event = core.event_alone(size, 6)
        with event or core.event(0, 4, freeing=True):
            if event is None or not self._move_marked(queue, entry.lookup_id, grave, reason):
                grave = self.grave_for(queue, message, False)
                if grave is None:
                    return False
                self._transfer(queue, entry, message, grave)
            for tell in core.told_deleted:
                tell(queue, message, reason)
        return True

    def _move_marked(self, queue: Queue, lookup_id: int, grave: Queue, reason: int) -> bool:
        """Move a message with the reason beside it; gives whether there was room."""
        try:
            self.move_changed(queue, lookup_id, grave, lambda local: local.changed(dead_letter_class=reason))
        except MessageStorageFailedError:
            return False
        return True

    def delete_all(self, queue: Queue, read: Sequence[tuple[Entry, StoredMessage]], reason: int) -> None:
        """The same for many messages that were read, in one event."""
        core, store = self.core, self.core.ledger.store
        size, records = deletion_bytes(len(read))
        with core.event(size, records + 2 * len(read), freeing=True):
            if queue.journaling or reason in UNREAD:
                for entry, message in read:
                    self.delete(queue, entry.lookup_id, reason, message, entry=entry)
                return
            core.ledger.delete_messages(
                array("Q", [entry.lookup_id for entry, _ in read if entry.address]), reason
            )
            for entry, message in read:
                self.take_out(queue, entry.lookup_id)
                if entry.address:
                    store.release(entry.address, record_size(message))
            for tell in core.told_deleted:
                for _, message in read:
                    tell(queue, message, reason)

    def discard(self, queue: Queue, entry: Entry, reason: int, *, recorded: bool = False) -> None:
        """Delete a message that nobody received. One of which nobody waits to hear is not even read."""
        core, lookup_id = self.core, entry.lookup_id
        if not entry.address or not entry.marks & OWES_NOTHING or (reason in UNREAD and _may_be_kept(entry)):
            self.delete(queue, lookup_id, reason, recorded=recorded)
            return
        with core.event(0, 1, freeing=True):
            if not recorded:
                core.ledger.delete_message(lookup_id, reason)
            self.take_out(queue, lookup_id)
            core.ledger.store.release(entry.address, ENVELOPE_SIZE + entry.size)
            message = UnreadMessage(lookup_id, lambda: core.load(queue, entry))
            try:
                for tell in core.told_deleted:
                    tell(queue, message, reason)
            except MessageStorageFailedError as error:  # somebody looked, and it is damaged
                self._report_lost(queue, lookup_id, error)

    def fetch(self, queue: Queue, entry: Entry, *, recorded: bool = False) -> StoredMessage | None:
        """The message at a place that the caller may empty; None when the disk has damaged it. Then it leaves its
        queue and operators are told: it costs itself, and nothing waits behind it."""
        try:
            return self.core.load(queue, entry)
        except MessageStorageFailedError as error:
            self._set_aside(queue, entry, error, recorded=recorded)
            return None

    def fetch_all(self, queue: Queue, entries: Sequence[Entry]) -> list[tuple[Entry, StoredMessage]]:
        """The messages at several places that the caller may empty, read together; those that the disk has damaged are
        left out, as in :meth:`fetch`."""
        core = self.core
        stored = [(entry.address, ENVELOPE_SIZE + entry.size) for entry in entries if entry.address]
        try:
            payloads = iter(core.ledger.store.read_many(stored))
            return [
                (
                    entry,
                    core.unpack(entry, next(payloads)) if entry.address else queue.express(entry.lookup_id),
                )
                for entry in entries
            ]
        except MessageStorageFailedError:  # damaged, or with local attributes in front of the packet
            read = [(entry, self.fetch(queue, entry)) for entry in entries]
            return [(entry, message) for entry, message in read if message is not None]

    def _set_aside(self, queue: Queue, entry: Entry, error: Exception, *, recorded: bool) -> None:
        core = self.core
        with core.event(0, 1, freeing=True):
            if not recorded:
                core.ledger.delete_message(entry.lookup_id, MessageClass.NORMAL)
            self.take_out(queue, entry.lookup_id)
            core.ledger.store.release(entry.address, ENVELOPE_SIZE + entry.size)
            self._report_lost(queue, entry.lookup_id, error)

    def _report_lost(self, queue: Queue, lookup_id: int, error: Exception) -> None:
        self.core.lost_records.append(LostRecord(Kind.MESSAGE, lookup_id, queue.pathname, str(error)))

    def _journal_for(self, queue: Queue, message: StoredMessage) -> Queue | None:
        """The journal of a queue, unless it is full: then the copy is not made."""
        journal = queue.journal
        if journal is None:
            return None
        return journal if within_quota(queue.journal_quota_kb, journal.total_bytes, message.size) else None

    def relocate(self, source: Queue, lookup_id: int, target: Queue, *, recorded: bool = False) -> bool:
        """Move a message as it is: same identifiers, same record, same past, another queue. False says that the disk
        has damaged it and it is nowhere now."""
        entry = source.positions.get(lookup_id)
        assert entry is not None
        with self.core.event(0, 2 if entry.address else 0, freeing=True):
            message = self.fetch(source, entry)
            if message is not None:
                self._transfer(source, entry, message, target, recorded=recorded)
        return message is not None

    def move_changed(
        self,
        source: Queue,
        lookup_id: int,
        target: Queue,
        change: Callable[[LocalAttributes], LocalAttributes],
    ) -> bool:
        """Move a message with other local attributes: it is written anew and gets a new place. False is that of
        :meth:`relocate`. Raises when there is no room for a second record, and then nothing has changed."""
        entry = source.positions.get(lookup_id)
        assert entry is not None
        message = self.fetch(source, entry)
        if message is None:
            return False
        core = self.core
        changed = StoredMessage(message.packet, change(message.local), 0, message.arrival_time)
        with core.event(record_size(changed) + NUMBERS_BYTES, 4):
            self.insert(target, changed)
            if entry.address:
                core.ledger.delete_message(lookup_id, MessageClass.NORMAL)
            self.take_out(source, lookup_id)
            if entry.address:
                core.ledger.store.release(entry.address, record_size(message))
        return True

    def _transfer(
        self,
        source: Queue,
        entry: Entry,
        message: StoredMessage,
        target: Queue,
        *,
        recorded: bool = False,
    ) -> None:
        lookup_id = entry.lookup_id
        if entry.address and not recorded:
            self.core.ledger.move_message(lookup_id, target.number)
        aborts = source.aborts.get(lookup_id, 0)
        moves, _ = source.moves.get(lookup_id, (0, 0))
        self.take_out(source, lookup_id)
        if entry.address:
            self.core.moved[lookup_id] = target.number  # its record says another queue
        self.place(target, message, entry.address, message.expiry, _LOCKED, entry.marks)
        if aborts:
            target.aborts[lookup_id] = aborts
        if target.queue_type is not QueueType.SYSTEM:
            target.moves[lookup_id] = (moves + 1, self.core.now_s)
        self.make_available(target, lookup_id)

    def expire(self, queue: Queue, lookup_id: int) -> None:
        """Time To Be Received ran out. Whoever holds the message keeps it; it expires if it ever comes
        back, and one that a transaction is still sending expires at the commit."""
        entry = queue.positions.get(lookup_id)
        if entry is None:
            return
        if entry.state is PositionState.AVAILABLE:
            self.delete(queue, lookup_id, MessageClass.NACK_RECEIVE_TIMEOUT)
        else:
            queue.overdue.add(lookup_id)


def marks_of(user_flags: int) -> int:
    """The marks of a message without local attributes, by the flags of its UserHeader."""
    if user_flags & _MAY_OWE:
        return 0
    return OWES_NOTHING | _KEPT_UNREAD if user_flags & _NEGATIVE_JOURNALING else OWES_NOTHING


def _may_be_kept(entry: Entry) -> bool:
    return not entry.marks & OWES_NOTHING or bool(entry.marks & _KEPT_UNREAD)


def is_destination(queue: Queue) -> bool:
    """Messages wait for readers in public and private queues; journals, dead letters and outgoing ones are
    kept."""
    return queue.queue_type in (QueueType.PRIVATE, QueueType.PUBLIC) and not isinstance(queue, OutgoingQueue)


def _waits_in(queue: Queue) -> bool:
    """Whether messages of a queue are still on their way to a reader: then they may become dead letters."""
    return is_destination(queue) or isinstance(queue, OutgoingQueue)


def purge_reason(queue: Queue) -> MessageClass:
    """Why messages leave a queue that is purged. In an outgoing queue they have not reached their destination yet."""
    return MessageClass.NACK_DELETED if isinstance(queue, OutgoingQueue) else MessageClass.NACK_Q_PURGED


def finish_wait(reader: WaitingRead, status: int, position: MessagePosition | None = None) -> None:
    """End a wait exactly once and forget it everywhere."""
    assert not reader.over
    reader.over = True
    if reader.timer is not None:
        reader.timer.cancelled = True
    queue = reader.descriptor.queue
    if queue is not None:
        queue.waiting.remove(reader)
    reader.descriptor.waiting.remove(reader)
    reader.finish(status, position)
