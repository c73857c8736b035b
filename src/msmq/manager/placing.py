"""Putting messages into queues and taking them out (MS-MQDMPR 3.1.7.1.9, 3.1.7.1.16, 3.1.7.2.1, 3.1.7.2.2).

These are the only functions that change a queue's places. They keep four things in step: the places, the
bytes that quotas count, the records of the ledger and the timers; and they tell subscribers.
"""

from __future__ import annotations

from msmq.manager.core import Core
from msmq.manager.ledger import NO_TRANSACTION
from msmq.manager.model import EnqueueStatus, QueueType
from msmq.manager.positions import Entry, PositionState
from msmq.manager.queue import MessagePosition, OutgoingQueue, Queue, WaitingRead
from msmq.manager.stored import StoredMessage, record_size
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import late_for_queue
from msmq.wire.headers import BASE_SH
from msmq.wire.properties.queue import within_quota

MQ_OK = 0


class Placing:
    """Inserts, releases, moves and deletes messages."""

    def __init__(self, core: Core) -> None:
        self.core = core

    # --- into a queue ---------------------------------------------------------------------------------------

    def admit(self, queue: Queue, message: StoredMessage) -> EnqueueStatus:
        """Whether a message may go into a queue now: flow control, machine quota, queue quota, time."""
        core = self.core
        size = message.size
        if core.throttled or not within_quota(core.record.queue_manager_quota_kb, core.total_bytes, size):
            return EnqueueStatus.QUEUE_MANAGER_QUOTA
        if not within_quota(queue.quota_kb, queue.total_bytes, size):
            return EnqueueStatus.QUEUE_QUOTA
        if late_for_queue(message.packet, core.now_s):
            return EnqueueStatus.TIMED_OUT
        return EnqueueStatus.OK

    def insert(
        self, queue: Queue, message: StoredMessage, transaction: bytes | None = None, *, freeing: bool = False
    ) -> MessagePosition:
        """Give a message its place. In a transaction it stays locked until the commit; otherwise it is
        available.

        What a transaction sends is always written, because its record is the operation's. ``freeing`` says
        that the message takes the room of one that is going, so that it finds some even on a full disk.
        """
        core = self.core
        recoverable = message.recoverable or transaction is not None
        if message.packet.base.flags & BASE_SH:
            message.packet = message.packet.with_session(
                None
            )  # it belonged to the session, not to the message
        if recoverable:
            core.ledger.reserve(record_size(message), freeing=freeing)
        else:
            core.check_express_room(message.size)
        message.lookup_id = lookup_identifier(message, core.next_sequential_id(), queue.transactional)
        message.arrival_time = core.now_s
        message.transaction = transaction
        address = 0
        if recoverable:
            address = core.ledger.put_message(queue.number, message, transaction or NO_TRANSACTION)
        self.place(queue, message, address, PositionState.LOCKED)
        position = queue.position(message.lookup_id)
        if transaction is None:
            self.make_available(queue, message.lookup_id)
        return position

    def place(self, queue: Queue, message: StoredMessage, address: int, state: PositionState) -> None:
        """Enter a message whose record is written, or that needs none, into the places of a queue."""
        lookup_id, size = message.lookup_id, message.size
        queue.positions.add(lookup_id, address, size, state)
        if not address:
            queue.volatile[lookup_id] = message
            self.core.express_bytes += size
        self.core.total_bytes += size
        if message.local.allow_peek_when_locked:
            queue.peekable_when_locked.add(lookup_id)
        expiry = message.expiry
        if expiry is not None and expiry <= self.core.now_s and is_destination(queue):
            queue.overdue.add(lookup_id)  # it never becomes available
        else:
            self.watch_expiry(queue, lookup_id, expiry)

    def watch_expiry(self, queue: Queue, lookup_id: int, expiry: int | None) -> None:
        """Start the Time To Be Received timer; only messages at their destination expire unread."""
        if expiry is not None and is_destination(queue):
            self.core.timers.start(expiry, lambda: self.expire(queue, lookup_id))

    def make_available(self, queue: Queue, lookup_id: int) -> None:
        """Message Position Available: everybody who waits is served in order, then protocols are told."""
        queue.positions.set_state(lookup_id, PositionState.AVAILABLE)
        if lookup_id in queue.overdue:
            self.delete(queue, lookup_id, MessageClass.NACK_RECEIVE_TIMEOUT)
            return
        position = queue.position(lookup_id)
        self._serve_waiting(queue, position)
        if position.state is PositionState.AVAILABLE:
            for subscriber in self.core.subscribers:
                subscriber.message_position_available(queue, position)

    def _serve_waiting(self, queue: Queue, position: MessagePosition) -> None:
        """Readers that blocked first are served first; one that takes the message ends the round."""
        if queue.waiting:
            with self.core.answers.held():
                while queue.waiting and position.state is PositionState.AVAILABLE:
                    finish_wait(queue.waiting[0], MQ_OK, position)

    # --- out of a queue -------------------------------------------------------------------------------------

    def take_out(self, queue: Queue, lookup_id: int) -> Entry:
        """Remove a place and everything kept beside it; the ledger and the subscribers are the caller's
        business."""
        entry = queue.positions.remove(lookup_id)
        self.core.total_bytes -= entry.size
        if not entry.address:
            del queue.volatile[lookup_id]
            self.core.express_bytes -= entry.size
        queue.peekable_when_locked.discard(lookup_id)
        queue.overdue.discard(lookup_id)
        queue.aborts.pop(lookup_id, None)
        queue.moves.pop(lookup_id, None)
        return entry

    def delete(
        self,
        queue: Queue,
        lookup_id: int,
        reason: int,
        message: StoredMessage | None = None,
        *,
        recorded: bool = False,
    ) -> None:
        """Message Position Deleted. ``recorded`` says that the ledger has the deletion already, by a commit.

        A message received from a queue with journaling goes to that queue's journal instead, if it fits.
        """
        core = self.core
        entry = queue.positions.get(lookup_id)
        assert entry is not None
        if message is None:
            message = core.load(queue, entry)
        journal = self._journal_for(queue, message) if reason == MessageClass.ACK_RECEIVE else None
        if journal is not None and not recorded:
            self.relocate(queue, lookup_id, journal)
        else:
            core.ledger.reserve(0, freeing=True)
            self.take_out(queue, lookup_id)
            if entry.address:
                if not recorded:
                    core.ledger.delete_message(lookup_id, reason)
                core.ledger.store.release(entry.address, record_size(message))
            if journal is not None:
                self.insert(journal, message.same_place(0), freeing=True)
        for subscriber in core.subscribers:
            subscriber.message_position_deleted(queue, message, reason)

    def _journal_for(self, queue: Queue, message: StoredMessage) -> Queue | None:
        """The journal of a queue that journals, unless it is full: then the copy is not made."""
        journal = queue.journal
        if not queue.journaling or journal is None:
            return None
        return journal if within_quota(queue.journal_quota_kb, journal.total_bytes, message.size) else None

    def relocate(self, source: Queue, lookup_id: int, target: Queue, *, recorded: bool = False) -> None:
        """Move a message as it is: same identifiers, same record, same past, another queue."""
        entry = source.positions.get(lookup_id)
        assert entry is not None
        message = self.core.load(source, entry)
        if not recorded:
            self.core.ledger.reserve(0, freeing=True)
        aborts = source.aborts.get(lookup_id, 0)
        moves, _ = source.moves.get(lookup_id, (0, 0))
        self.take_out(source, lookup_id)
        if entry.address and not recorded:
            self.core.ledger.move_message(lookup_id, target.number)
        self.core.moved[lookup_id] = target.number  # its record says another queue
        self.place(target, message, entry.address, PositionState.LOCKED)
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


def is_destination(queue: Queue) -> bool:
    """Messages wait for readers in public and private queues; journals, dead letters and outgoing ones are
    kept."""
    return queue.queue_type in (QueueType.PRIVATE, QueueType.PUBLIC) and not isinstance(queue, OutgoingQueue)


def lookup_identifier(message: StoredMessage, number: int, transactional_queue: bool) -> int:
    """Ascends along the queue: priority first, arrival second; a transactional queue knows only arrival."""
    if transactional_queue or message.packet.transactional:
        return number
    return (7 - message.packet.priority) << 56 | number


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
