"""Reading: receive, peek, cursors, lookup identifiers and waiting (MS-MQDMPR 3.1.7.1.10 to .17, 3.1.7.3).

A read that finds its message answers at once; one that does not becomes a :class:`WaitingRead` and answers when a
message comes, the time is up or somebody ends the wait. Either way the answer is one call of ``done``, made when the
event it belongs to is over, so ``done`` may call any event itself. Choosing and locking a message is one step of this
single-threaded machine, and so are looking for one and beginning to wait: no two readers get the same message, and
nobody waits although there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msmq.errors import (
    AccessDeniedError,
    IllegalCursorActionError,
    InvalidHandleError,
    IoTimeoutError,
    MessageAlreadyReceivedError,
    MessageNotFoundError,
    MQError,
    OperationCancelledError,
    QueueNotAvailableError,
    TransactionSequenceError,
)
from msmq.manager.core import Core
from msmq.manager.event import Event
from msmq.manager.mailbox.contents import Found, Known
from msmq.manager.mailbox.cursor import Cursor, CursorAnswer, CursorState, Get, Outcome
from msmq.manager.mailbox.mailbox import MQ_OK, Mailbox, purge_reason
from msmq.manager.mailbox.positions import START, Positions, PositionState
from msmq.manager.mailbox.seek import next_readable, seek_by_id, seek_neighbour
from msmq.manager.mailbox.stored import StoredMessage, allows_peek_when_locked
from msmq.manager.messages.transactions import Transaction, Transactions
from msmq.manager.model import MessageSeekAction, QueueAccessType
from msmq.manager.queues.queue import (
    MessagePosition,
    OpenQueueDescriptor,
    Queue,
    ReadDone,
    ReadResult,
    WaitingRead,
    finish_wait,
)
from msmq.wire.classes import MessageClass

STATUS_NOT_FOUND: Final = 0xC0000225
INFINITE: Final = float("inf")

_STATUS: Final = {
    Outcome.ALREADY_RECEIVED: MessageAlreadyReceivedError.code,
    Outcome.NOT_FOUND: MessageNotFoundError.code,
    Outcome.ILLEGAL_CURSOR_ACTION: IllegalCursorActionError.code,
}
_NEIGHBOURS: Final = (MessageSeekAction.NEXT, MessageSeekAction.PREVIOUS)
_RECEIVING: Final = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN})
_AVAILABLE: Final = PositionState.AVAILABLE
_PURGE_PENDING: Final = int(PositionState.PURGE_PENDING)
_ACK_RECEIVE: Final = MessageClass.ACK_RECEIVE
_PEEKING: Final = _RECEIVING | {QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN}


class _Read(NamedTuple):
    """A read with its parameters. A transaction takes precedence over ``two_phase_read``."""

    descriptor: OpenQueueDescriptor
    done: ReadDone
    destructive: bool
    timeout_s: float = 0
    cursor: Cursor | None = None
    tag: int | None = None
    transaction: Transaction | None = None
    two_phase_read: bool = False
    most_bytes: int | None = None
    """A larger message is not read: the caller reads it with :meth:`Reading.show` when there is room for it."""


class Reading:
    """The read events."""

    def __init__(self, core: Core, mailbox: Mailbox, transactions: Transactions) -> None:
        self.core = core
        self.mailbox = mailbox
        self.transactions = transactions

    # --- cursors and handles --------------------------------------------------------------------------------

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor | None:
        """Open Cursor; None when the queue is gone."""
        if descriptor.queue is None:
            return None
        cursor = Cursor(self.core.next_handle(), descriptor)
        descriptor.cursors[cursor.handle] = cursor
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor; a read that waits with it is cancelled."""
        descriptor = cursor.descriptor
        with self.core.answers.held():
            for reader in [reader for reader in descriptor.waiting if reader.cursor is cursor]:
                finish_wait(reader, OperationCancelledError.code)
            descriptor.cursors.pop(cursor.handle, None)

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        """Close Queue: cancel waits, close cursors, give back the messages of reads in two phases."""
        with self.core.answers.held():
            for reader in list(descriptor.waiting):
                finish_wait(reader, OperationCancelledError.code)
            descriptor.cursors.clear()
            queue = descriptor.queue
            if queue is not None and descriptor.begun:
                begun = queue.positions.find(sorted(descriptor.begun)).ids
                self._give_back(descriptor, queue, begun)

    # --- receive --------------------------------------------------------------------------------------------

    def dequeue(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        *,
        timeout_s: float = INFINITE,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        tag: int | None = None,
        two_phase_read: bool = False,
    ) -> None:
        """Dequeue Message: the first message, or with a cursor its current or next one. In a transaction, or read in
        two phases, it stays locked in the queue until that ends."""
        read = _Read(descriptor, done, True, timeout_s, cursor, tag, real(transaction), two_phase_read)
        self._start(read, Get.DEQUEUE)

    def take(
        self,
        descriptor: OpenQueueDescriptor,
        most: int,
        most_bytes: int,
        *,
        transaction: Transaction | None = None,
        two_phase_read: bool = False,
    ) -> Found:
        """Dequeue Message for the first available messages, in one event: up to ``most``, stopping when they have
        ``most_bytes``. Never waits; finds nothing if there are none.

        Raises:
            MQError: the read is refused, or the store has no room for it; then nothing has happened.
        """
        read = _Read(descriptor, _nobody, True, 0, None, None, real(transaction), two_phase_read)
        refusal = self._refusal(read)
        if refusal is not None:
            raise refusal
        queue = descriptor.queue
        assert queue is not None
        found = self.mailbox.look(queue, START, most, most_bytes)
        if len(found):
            self._take(read, queue, found)
        return found

    def _take(self, read: _Read, queue: Queue, found: Found) -> None:
        """Give messages to a reader: locked, or removed from the queue. If the store refuses, nothing has changed."""
        if read.transaction is not None:
            self.transactions.dequeue(read.transaction, queue, found.positions, read.descriptor.retry)
        elif read.two_phase_read:
            with self.core.event():
                queue.positions.set_states(found.ids, PositionState.LOCKED)
                read.descriptor.begun.update(found.ids)
        else:
            self.mailbox.remove(queue, found.ids, _ACK_RECEIVE, known=_Shown(found))

    def dequeue_begin(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        *,
        timeout_s: float = INFINITE,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        tag: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Dequeue Message Begin: the first phase of a receive that :meth:`dequeue_end` ends. Of a message of more than
        ``most_bytes`` the result has only the place; :meth:`show` reads it."""
        read = _Read(descriptor, done, True, timeout_s, cursor, tag, real(transaction), True, most_bytes)
        self._start(read, Get.DEQUEUE)

    def show(self, descriptor: OpenQueueDescriptor, lookup_id: int) -> StoredMessage | None:
        """A message at a place that a read has returned: one that this descriptor holds, or that anybody may peek at.
        None if that is no longer so, or if the message is damaged, which removes it unless somebody else holds it."""
        queue = self._queue_of(descriptor)
        entry = queue.positions.get(lookup_id)
        if entry is None:
            return None
        if lookup_id in descriptor.begun:
            return self.mailbox.fetch(queue, lookup_id)
        if entry.state is not _AVAILABLE and not allows_peek_when_locked(queue, entry):
            return None
        found = self.mailbox.peek(queue, queue.positions.find((lookup_id,)))
        return found.message(0) if len(found) else None

    def dequeue_end(
        self,
        descriptor: OpenQueueDescriptor,
        position: MessagePosition,
        *,
        delete_message: bool,
        transactional: bool = False,
        message: StoredMessage | None = None,
        reason: int = _ACK_RECEIVE,
    ) -> None:
        """Dequeue Message End: the reader keeps the message, or rejects it with a ``reason``, or gives it back. A
        purge meanwhile takes precedence, and a message read in a transaction waits for the transaction's end. Only the
        descriptor that began a read can end it, and only once. With ``message`` it need not be read again."""
        if descriptor.queue is None:
            raise QueueNotAvailableError("The queue was deleted or closed while the message was being read.")
        _, lookup_id = position
        held = position.state in (PositionState.LOCKED, PositionState.PURGE_PENDING)
        if not held or not (transactional or lookup_id in descriptor.begun):
            raise TransactionSequenceError("This read was not begun here, or has ended already.")
        if transactional:
            return
        known = {} if message is None else {lookup_id: message}
        if delete_message:
            self.keep(descriptor, (lookup_id,), known, reason)
        else:
            self.give_back(descriptor, (lookup_id,), known)

    def keep(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_ids: Sequence[int],
        known: Known | None = None,
        reason: int = _ACK_RECEIVE,
    ) -> int:
        """Dequeue Message End for messages that the reader keeps, in one event. Returns how many there were. Messages
        that were purged meanwhile leave with that reason, and those that were not begun here stay. The ``known``
        messages need not be read again."""
        queue = self._queue_of(descriptor)
        held, purged = self._begun(descriptor, queue, lookup_ids)
        with self._ending(queue, held.ids, purged):
            self.mailbox.remove(queue, held, reason, known=known or {})
            if purged:
                self.mailbox.remove(queue, purged, purge_reason(queue), known=known or {})
            descriptor.begun.difference_update(held.ids, purged)
        return len(held.ids) + len(purged)

    def _ending(self, queue: Queue, ids: Sequence[int], purged: Sequence[int]) -> Event:
        """The event that ends reads of two phases."""
        letters = 0
        if purged:
            gone = queue.positions.find(purged)
            letters = self.mailbox.letters_bytes(gone.sizes, gone.marks)
        return self.core.event(letters, 1 + 2 * (len(ids) + len(purged)), freeing=True)

    def give_back(
        self, descriptor: OpenQueueDescriptor, lookup_ids: Sequence[int], known: Known | None = None
    ) -> int:
        """Dequeue Message End for messages that did not reach the reader."""
        return self._give_back(descriptor, self._queue_of(descriptor), lookup_ids, known)

    def reject(self, descriptor: OpenQueueDescriptor, lookup_ids: Sequence[int]) -> int:
        """Dequeue Message End for messages that the reader has seen and rejects: a policy may move them away."""
        return self._give_back(descriptor, self._queue_of(descriptor), lookup_ids, rejected=True)

    def _give_back(
        self,
        descriptor: OpenQueueDescriptor,
        queue: Queue,
        lookup_ids: Sequence[int],
        known: Known | None = None,
        *,
        rejected: bool = False,
    ) -> int:
        held, purged = self._begun(descriptor, queue, lookup_ids)
        ids = held.ids
        with self.core.answers.held():
            self.mailbox.remove(queue, purged, purge_reason(queue), known=known or {})
            descriptor.begun.difference_update(purged)
            if ids:
                descriptor.begun.difference_update(
                    ids
                )  # a wait of the same reader may get them in this event
                try:
                    if rejected:
                        self.mailbox.retries.reject(queue, ids, descriptor.retry)
                    else:
                        self.mailbox.give_back(queue, ids)
                except MQError:
                    descriptor.begun.update(ids)
                    raise
        return len(ids) + len(purged)

    def hand_over(self, descriptor: OpenQueueDescriptor, lookup_ids: Sequence[int], target: Queue) -> int:
        """End reads in two phases by moving the messages to a subqueue. A purge meanwhile takes precedence."""
        queue = self._queue_of(descriptor)
        held, purged = self._begun(descriptor, queue, lookup_ids)
        with self._ending(queue, held.ids, purged):
            self.mailbox.remove(queue, purged, purge_reason(queue))
            moved = self.mailbox.move(queue, held.ids, target)
            descriptor.begun.difference_update(held.ids, purged)
        return moved + len(purged)

    @staticmethod
    def _queue_of(descriptor: OpenQueueDescriptor) -> Queue:
        if descriptor.queue is None:
            raise QueueNotAvailableError(
                "The queue was deleted or closed while the messages were being read."
            )
        return descriptor.queue

    @staticmethod
    def _begun(
        descriptor: OpenQueueDescriptor, queue: Queue, lookup_ids: Sequence[int]
    ) -> tuple[Positions, list[int]]:
        """The messages that this descriptor still holds: the places of those not purged, and the purged ones."""
        named = dict.fromkeys(lookup_ids) if len(lookup_ids) > 1 else lookup_ids
        positions = queue.positions.find([one for one in named if one in descriptor.begun])
        states = positions.states
        if _PURGE_PENDING not in states:
            return positions, []
        purged = [one for one, state in zip(positions.ids, states, strict=True) if state == _PURGE_PENDING]
        return positions.only([at for at, state in enumerate(states) if state != _PURGE_PENDING]), purged

    def join_transaction(
        self, descriptor: OpenQueueDescriptor, position: MessagePosition, transaction: Transaction
    ) -> None:
        """End a read in two phases by making the message one that a transaction has received. A purge meanwhile takes
        precedence."""
        queue, lookup_id = position
        positions = queue.positions.find((lookup_id,))
        if not positions.ids or lookup_id not in descriptor.begun:
            raise TransactionSequenceError("This read was not begun here, or has ended already.")
        self.transactions.dequeue(transaction, queue, positions, descriptor.retry)
        if positions.states[0] == PositionState.PURGE_PENDING:
            queue.positions.set_state(lookup_id, PositionState.PURGE_PENDING)
        descriptor.begun.remove(lookup_id)

    def read_by_lookup_id(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        action: MessageSeekAction,
        *,
        peek: bool,
        transaction: Transaction | None = None,
        two_phase_read: bool = False,
        from_gone: bool = False,
    ) -> ReadResult:
        """Read Message By Lookup Identifier; never waits. A peek cannot be in a transaction. With ``from_gone`` the
        neighbour of a missing message is looked for from the place where it was."""
        assert transaction is None or not peek
        read = _Read(
            descriptor,
            _nobody,
            not peek,
            transaction=real(transaction),
            two_phase_read=two_phase_read,
        )
        refusal = self._refusal(read)
        if refusal is not None:
            return ReadResult(refusal.code)
        queue = descriptor.queue
        assert queue is not None
        seek = seek_neighbour if from_gone and action in _NEIGHBOURS else seek_by_id
        while (sought := seek(queue, lookup_id, action, peek=peek)).lookup_id is not None:
            result = self._read(read, queue.position(sought.lookup_id))
            if result is not None:
                return result
        return ReadResult(sought.status)

    # --- peek -----------------------------------------------------------------------------------------------

    def peek(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        *,
        timeout_s: float = INFINITE,
        cursor: Cursor | None = None,
        tag: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Peek Message: the first, or the cursor's current one; if larger than ``most_bytes``, only its place."""
        self._start(_Read(descriptor, done, False, timeout_s, cursor, tag, most_bytes=most_bytes), Get.PEEK)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        cursor: Cursor,
        *,
        timeout_s: float = INFINITE,
        tag: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Peek Next Message: the one behind the cursor's current; if larger than ``most_bytes``, only its place."""
        read = _Read(descriptor, done, False, timeout_s, cursor, tag, most_bytes=most_bytes)
        self._start(read, Get.PEEK_NEXT)

    def look_on(self, descriptor: OpenQueueDescriptor, cursor: Cursor, most: int, most_bytes: int) -> Found:
        """Peek Next Message for the messages behind a cursor: up to ``most``, stopping when they have ``most_bytes``.
        The cursor moves to the last of them. Never waits."""
        refusal = self._refusal(_Read(descriptor, _nobody, False, 0, cursor))
        if refusal is not None:
            raise refusal
        queue = self._queue_of(descriptor)
        found = self.mailbox.look(queue, cursor.place, most, most_bytes, peek=True)
        if len(found):
            cursor.place, cursor.state = found.ids[-1], CursorState.READ
        return found

    # --- what all reads do ----------------------------------------------------------------------------------

    def _start(self, read: _Read, event: Get) -> None:
        refusal = self._refusal(read)
        if refusal is not None:
            return self._fail(read, refusal.code)
        queue, cursor = read.descriptor.queue, read.cursor
        assert queue is not None
        stood = None if cursor is None else (cursor.place, cursor.state)
        while (answer := _look(read, event, queue)).position is not None:
            if self._give(read, answer.position):
                return None
            if cursor is not None and stood is not None:  # the message was damaged
                cursor.place, cursor.state = stood
        if answer.outcome is Outcome.WAITING:
            return self._wait(read, queue, self.core.environment.now() + read.timeout_s)
        return self._fail(read, _STATUS[answer.outcome])

    def _refusal(self, read: _Read) -> type[MQError] | None:
        """The error for a read that cannot even be tried, or None."""
        descriptor, cursor, transaction = read.descriptor, read.cursor, read.transaction
        if descriptor.queue is None:
            return QueueNotAvailableError
        if descriptor.access_type not in (_RECEIVING if read.destructive else _PEEKING):
            return AccessDeniedError
        if cursor is not None and descriptor.cursors.get(cursor.handle) is not cursor:
            return InvalidHandleError
        if transaction is not None and not self.transactions.is_open(transaction):
            return TransactionSequenceError
        return None

    def _fail(self, read: _Read, status: int) -> None:
        self.core.answers.give(read.done, ReadResult(status))

    def _give(self, read: _Read, position: MessagePosition) -> bool:
        """Answer a reader, if the message is sound. Returns whether it was."""
        with self.core.answers.held():
            result = self._read(read, position)
            if result is not None:
                self.core.answers.give(read.done, result)
        return result is not None

    def _read(self, read: _Read, position: MessagePosition) -> ReadResult | None:
        """Give a message to a reader: shown, locked, or removed from the queue. If the store refuses, nothing has
        changed and the reader is told. Returns None if the message is damaged, which removes it."""
        queue, lookup_id = position
        positions = queue.positions.find((lookup_id,))
        large = read.most_bytes is not None and positions.sizes[0] > read.most_bytes
        try:
            if large:
                if read.destructive:
                    assert read.two_phase_read
                    self._take(read, queue, Found(positions))
                return ReadResult(MQ_OK, None, position)
            found = self.mailbox.peek(queue, positions)  # somebody else may hold the message
            if not len(found):
                return None
            message = found.message(0)
            if read.destructive:
                self._take(read, queue, found)
        except MQError as error:
            return ReadResult(error.code)
        return ReadResult(MQ_OK, message, position)

    # --- waiting --------------------------------------------------------------------------------------------

    def _wait(self, read: _Read, queue: Queue, deadline: float, *, again: bool = False) -> None:
        """Wait For New Message. A damaged message is passed over as in all reads: the wait goes on, in front of those
        that came later."""
        cursor, transaction = read.cursor, read.transaction

        def finish(status: int, position: MessagePosition | None) -> None:
            if transaction is not None and reader in transaction.waiting:
                transaction.waiting.remove(reader)
            if position is not None:
                stood = None if cursor is None else (cursor.place, cursor.state)
                if cursor is not None:
                    cursor.message_available(position)
                if not self._give(read, position):
                    if cursor is not None and stood is not None:
                        cursor.place, cursor.state = stood
                    self._wait(read, queue, deadline, again=True)
            else:
                if cursor is not None:
                    cursor.wait_time_expired()
                self._fail(read, status)

        reader = WaitingRead(read.descriptor, read.destructive, read.tag, cursor, finish)
        if read.timeout_s <= 0:
            reader.over = True
            finish(IoTimeoutError.code, None)
            return
        queue.waiting.insert(0 if again else len(queue.waiting), reader)
        read.descriptor.waiting.append(reader)
        if transaction is not None:
            transaction.waiting.append(reader)
        if read.timeout_s != INFINITE:
            reader.timer = self.core.timers.start(deadline, lambda: finish_wait(reader, IoTimeoutError.code))

    def wait(
        self,
        descriptor: OpenQueueDescriptor,
        tag: int,
        ready: Callable[[int, MessagePosition | None], None],
        transaction: Transaction | None = None,
        cursor: Cursor | None = None,
    ) -> None:
        """Wait For New Message, for a reader that takes the messages itself. ``ready`` is called within the event that
        makes a message available, or with the status that ends the wait."""
        queue = self._queue_of(descriptor)

        def finish(status: int, position: MessagePosition | None) -> None:
            if transaction is not None and reader in transaction.waiting:
                transaction.waiting.remove(reader)
            ready(status, position)

        reader = WaitingRead(descriptor, cursor is None, tag, cursor, finish)
        queue.waiting.append(reader)
        descriptor.waiting.append(reader)
        if transaction is not None:
            transaction.waiting.append(reader)

    def cancel(
        self, descriptor: OpenQueueDescriptor, tag: int, status: int = OperationCancelledError.code
    ) -> int:
        """Cancel Waiting Message Read Request, among the reads of one descriptor, since clients choose the tags."""
        for reader in descriptor.waiting:
            if reader.tag is not None and reader.tag == tag:
                finish_wait(reader, status)
                return MQ_OK
        return STATUS_NOT_FOUND


def _look(read: _Read, event: Get, queue: Queue) -> CursorAnswer:
    """What a read finds, with its cursor or from the front. Only one read at a time may use a cursor (3.2.7.4-e): a
    second one fails."""
    cursor = read.cursor
    if cursor is None:
        found = next_readable(queue, START, peek=not read.destructive)
        if found is None:
            return CursorAnswer(Outcome.WAITING)
        return CursorAnswer(Outcome.SUCCEEDED, queue.position(found))
    if cursor.waits:
        return CursorAnswer(Outcome.ILLEGAL_CURSOR_ACTION)
    return cursor.get(event, queue, no_wait=read.timeout_s <= 0)


def real(transaction: Transaction | None) -> Transaction | None:
    """A transaction without an identifier is none (3.1.7.1.11-c)."""
    return transaction if transaction is not None and any(transaction.identifier) else None


def _nobody(_: ReadResult) -> None:
    """Ignore the result, which is returned."""


class _Shown(Mapping[int, StoredMessage]):
    """Messages that were just found, made only for those that subscribers ask for."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._index: dict[int, int] | None = None

    def _places(self) -> dict[int, int]:
        if self._index is None:
            self._index = {lookup_id: index for index, lookup_id in enumerate(self._found.ids)}
        return self._index

    def __getitem__(self, lookup_id: int) -> StoredMessage:
        return self._found.message(self._places()[lookup_id])

    def __contains__(self, lookup_id: object) -> bool:
        return lookup_id in self._places()

    def __iter__(self) -> Iterator[int]:
        return iter(self._places())

    def __len__(self) -> int:
        return len(self._found)
