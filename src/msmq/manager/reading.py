"""Reading: receive, peek, cursors, lookup identifiers and waiting (MS-MQDMPR 3.1.7.1.10 to .17, 3.1.7.3).

A read that finds its message answers at once; one that does not becomes a :class:`WaitingRead` and answers
when a message comes, the time is up or somebody ends the wait. Either way the answer is one call of ``done``,
made when the event it belongs to is over, so ``done`` may call any event itself. Choosing a message and
locking it is one step of this single-threaded machine, and so are looking for one and beginning to wait: no
two readers get the same message, and nobody waits beside one.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from msmq.manager.cursor import Cursor, CursorAnswer, Get, Outcome
from msmq.manager.model import MessageSeekAction, QueueAccessType
from msmq.manager.placing import MQ_OK, Placing, finish_wait, purge_reason
from msmq.manager.positions import START, Entry, PositionState
from msmq.manager.queue import (
    MessagePosition,
    OpenQueueDescriptor,
    Queue,
    ReadDone,
    ReadResult,
    WaitingRead,
    position_of,
)
from msmq.manager.seek import next_readable, previous_readable, seek_by_id
from msmq.manager.stored import StoredMessage
from msmq.manager.transactions import Transaction, Transactions
from msmq.wire.classes import MessageClass

STATUS_NOT_FOUND: Final = 0xC0000225
INFINITE: Final = float("inf")

_STATUS: Final = {
    Outcome.ALREADY_RECEIVED: MessageAlreadyReceivedError.code,
    Outcome.NOT_FOUND: MessageNotFoundError.code,
    Outcome.ILLEGAL_CURSOR_ACTION: IllegalCursorActionError.code,
}
_RECEIVING: Final = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN})
_AVAILABLE: Final = PositionState.AVAILABLE
_ACK_RECEIVE: Final = MessageClass.ACK_RECEIVE
_PEEKING: Final = _RECEIVING | {QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN}


class _Read(NamedTuple):
    """A read as it was asked for. A transaction wins over ``two_phase_read``."""

    descriptor: OpenQueueDescriptor
    done: ReadDone
    destructive: bool
    timeout_s: float = 0
    cursor: Cursor | None = None
    tag: int | None = None
    transaction: Transaction | None = None
    two_phase_read: bool = False


class Reading:
    """The read events."""

    def __init__(self, core: Core, placing: Placing, transactions: Transactions) -> None:
        self.core = core
        self.placing = placing
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
        """Close Cursor; a read that waits on it is cancelled, not forgotten."""
        descriptor = cursor.descriptor
        with self.core.answers.held():
            for reader in [reader for reader in descriptor.waiting if reader.cursor is cursor]:
                finish_wait(reader, OperationCancelledError.code)
            descriptor.cursors.pop(cursor.handle, None)

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        """What Close Queue ends: waits are cancelled, cursors go, messages of reads begun are given back."""
        with self.core.answers.held():
            for reader in list(descriptor.waiting):
                finish_wait(reader, OperationCancelledError.code)
            descriptor.cursors.clear()
            if descriptor.queue is not None:
                for lookup_id in sorted(descriptor.begun):
                    position = descriptor.queue.position(lookup_id)
                    if position.state is not PositionState.DELETED:  # by damage
                        self.dequeue_end(descriptor, position, delete_message=False)

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
        """Dequeue Message: the first one, or with a cursor the current or next one. In a transaction, or read
        in two phases, it stays locked in the queue until that ends."""
        read = _Read(descriptor, done, True, timeout_s, cursor, tag, real(transaction), two_phase_read)
        self._start(read, Get.DEQUEUE)

    def dequeue_many(
        self,
        descriptor: OpenQueueDescriptor,
        most: int,
        most_bytes: int,
        *,
        transaction: Transaction | None = None,
        two_phase_read: bool = False,
    ) -> list[ReadResult]:
        """Dequeue Message for the first messages that are there, in one event: up to ``most``, and no more when they
        have ``most_bytes``. None when there are none: this never waits. A refusal is the only result."""
        read = _Read(descriptor, _nobody, True, 0, None, None, real(transaction), two_phase_read)
        refusal = self._refusal(read)
        if refusal is not None:
            return [ReadResult(refusal.code)]
        queue = descriptor.queue
        assert queue is not None
        found: list[tuple[Entry, StoredMessage]] = []
        while not found and (entries := _first_available(queue, most, most_bytes)):
            try:
                found = self.placing.fetch_all(queue, entries)  # what is damaged leaves the queue
                self._take(read, queue, found)
            except MQError as error:
                return [ReadResult(error.code)]
        return [ReadResult(MQ_OK, message, position_of((queue, entry.lookup_id))) for entry, message in found]

    def _take(self, read: _Read, queue: Queue, found: list[tuple[Entry, StoredMessage]]) -> None:
        """Let a reader have messages: locked, or gone from the queue. If the store refuses, nothing has happened."""
        if read.transaction is not None:
            with self.core.event(0, len(found), freeing=True):
                for _, message in found:
                    self.transactions.record_dequeue(read.transaction, queue, message)
        elif read.two_phase_read:
            for entry, _ in found:
                queue.positions.set_state(entry.lookup_id, PositionState.LOCKED)
                read.descriptor.begun.add(entry.lookup_id)
        else:
            self.placing.delete_all(queue, found, MessageClass.ACK_RECEIVE)

    def dequeue_begin(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        *,
        timeout_s: float = INFINITE,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        tag: int | None = None,
    ) -> None:
        """Dequeue Message Begin: the first phase of a receive that :meth:`dequeue_end` decides."""
        read = _Read(descriptor, done, True, timeout_s, cursor, tag, real(transaction), two_phase_read=True)
        self._start(read, Get.DEQUEUE)

    def dequeue_end(
        self,
        descriptor: OpenQueueDescriptor,
        position: MessagePosition,
        *,
        delete_message: bool,
        transactional: bool = False,
        message: StoredMessage | None = None,
    ) -> None:
        """Dequeue Message End: the reader keeps the message or gives it back. A purge meanwhile has the last
        word, and a message read in a transaction waits for that to end. Only the descriptor that began a read
        can end it, and only once. Who still has the ``message`` saves reading it again."""
        if descriptor.queue is None:
            raise QueueNotAvailableError("The queue was deleted or closed while the message was being read.")
        queue, lookup_id = position
        state = position.state
        held = state in (PositionState.LOCKED, PositionState.PURGE_PENDING)
        if not held or not (transactional or lookup_id in descriptor.begun):
            raise TransactionSequenceError("This read was not begun here, or has ended already.")
        if transactional:
            return
        descriptor.begun.remove(lookup_id)
        try:
            if state is PositionState.PURGE_PENDING:
                self.placing.delete(queue, lookup_id, purge_reason(queue))
            elif delete_message:
                self.placing.delete(queue, lookup_id, MessageClass.ACK_RECEIVE, message)
            else:
                self.placing.give_back(queue, lookup_id)
        except MQError:
            descriptor.begun.add(lookup_id)  # nothing has happened
            raise

    def join_transaction(
        self, descriptor: OpenQueueDescriptor, position: MessagePosition, transaction: Transaction
    ) -> None:
        """Another end of a read in two phases: the message becomes one that a transaction has received, and is kept or
        given back with it. A purge meanwhile still has the last word."""
        queue, lookup_id = position
        entry = queue.positions.get(lookup_id)
        if entry is None or lookup_id not in descriptor.begun:
            raise TransactionSequenceError("This read was not begun here, or has ended already.")
        state = entry.state
        message = self.core.load(queue, entry)
        self.transactions.record_dequeue(transaction, queue, message)
        if state is PositionState.PURGE_PENDING:
            queue.positions.set_state(lookup_id, state)
        descriptor.begun.remove(lookup_id)

    def end_all(self, descriptor: OpenQueueDescriptor, messages: Iterable[StoredMessage]) -> int:
        """Dequeue Message End for many messages that the reader keeps, in one event; gives how many there were. Those
        that a purge was to take meanwhile go for that reason, and those that were not begun here stay."""
        queue = descriptor.queue
        if queue is None:
            raise QueueNotAvailableError(
                "The queue was deleted or closed while the messages were being read."
            )
        found: list[tuple[Entry, StoredMessage]] = []
        purged: list[tuple[Entry, StoredMessage]] = []
        for message in messages:
            entry = queue.positions.get(message.lookup_id)
            if entry is not None and entry.lookup_id in descriptor.begun:
                (purged if entry.state is PositionState.PURGE_PENDING else found).append((entry, message))
        with self.core.event(0, 2 * (len(found) + len(purged)), freeing=True):
            descriptor.begun.difference_update(entry.lookup_id for entry, _ in found + purged)
            self.placing.delete_all(queue, found, MessageClass.ACK_RECEIVE)
            self.placing.delete_all(queue, purged, purge_reason(queue))
        return len(found) + len(purged)

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
        """Read Message By Lookup Identifier; never waits. A peek takes no part in a transaction. With ``from_gone`` the
        neighbour of a message that is no more is looked for from the place where it was."""
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
        if from_gone and action is not MessageSeekAction.CURRENT and queue.positions.get(lookup_id) is None:
            find = next_readable if action is MessageSeekAction.NEXT else previous_readable
            found = find(queue, lookup_id, peek=peek)
            if found is None:
                return ReadResult(MessageNotFoundError.code)
            lookup_id, action = found, MessageSeekAction.CURRENT
        while (sought := seek_by_id(queue, lookup_id, action, peek=peek)).lookup_id is not None:
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
    ) -> None:
        """Peek Message: the first one, or the cursor's current one."""
        self._start(_Read(descriptor, done, False, timeout_s, cursor, tag), Get.PEEK)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        done: ReadDone,
        cursor: Cursor,
        *,
        timeout_s: float = INFINITE,
        tag: int | None = None,
    ) -> None:
        """Peek Next Message: the one behind the cursor's current one."""
        self._start(_Read(descriptor, done, False, timeout_s, cursor, tag), Get.PEEK_NEXT)

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
            if cursor is not None and stood is not None:  # the message was damaged: as if it had never been
                cursor.place, cursor.state = stood
        if answer.outcome is Outcome.WAITING:
            return self._wait(read, queue, self.core.environment.now() + read.timeout_s)
        return self._fail(read, _STATUS[answer.outcome])

    def _refusal(self, read: _Read) -> type[MQError] | None:
        """Why a read cannot even be tried."""
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
        """Answer a reader, if the message is sound."""
        with self.core.answers.held():
            result = self._read(read, position)
            if result is not None:
                self.core.answers.give(read.done, result)
        return result is not None

    def _read(self, read: _Read, position: MessagePosition) -> ReadResult | None:
        """Let a reader have a message: shown, locked, or gone from the queue. If the store refuses, nothing
        has happened and the reader is told; None when the disk has damaged the message, which is gone now."""
        queue, lookup_id = position
        entry = queue.positions.get(lookup_id)
        assert entry is not None
        try:
            if entry.state is _AVAILABLE:
                message = self.placing.fetch(queue, entry)
                if message is None:
                    return None
            else:
                message = self.core.load(queue, entry)  # somebody holds it, and it is theirs to lose
            if not read.destructive:
                pass
            elif read.transaction is not None:
                self.transactions.record_dequeue(read.transaction, queue, message)
            elif read.two_phase_read:
                queue.positions.set_state(lookup_id, PositionState.LOCKED)
                read.descriptor.begun.add(lookup_id)
            else:
                self.placing.delete(queue, lookup_id, _ACK_RECEIVE, message, entry=entry)
        except MQError as error:
            return ReadResult(error.code)
        return ReadResult(MQ_OK, message, position)

    # --- waiting --------------------------------------------------------------------------------------------

    def _wait(self, read: _Read, queue: Queue, deadline: float, *, again: bool = False) -> None:
        """Wait For New Message. A message that comes and is damaged is passed over as by all reads: the wait goes on,
        in front of those who came later."""
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

    def cancel(
        self, descriptor: OpenQueueDescriptor, tag: int, status: int = OperationCancelledError.code
    ) -> int:
        """Cancel Waiting Message Read Request, among the reads of one descriptor: clients choose the tags."""
        for reader in descriptor.waiting:
            if reader.tag is not None and reader.tag == tag:
                finish_wait(reader, status)
                return MQ_OK
        return STATUS_NOT_FOUND


def _look(read: _Read, event: Get, queue: Queue) -> CursorAnswer:
    """What a read finds, with its cursor or from the front. Two reads cannot use one cursor at a time
    (3.2.7.4-e): the second one is told so."""
    cursor = read.cursor
    if cursor is None:
        found = next_readable(queue, START, peek=not read.destructive)
        if found is None:
            return CursorAnswer(Outcome.WAITING)
        return CursorAnswer(Outcome.SUCCEEDED, queue.position(found))
    if cursor.waits:
        return CursorAnswer(Outcome.ILLEGAL_CURSOR_ACTION)
    return cursor.get(event, queue, no_wait=read.timeout_s <= 0)


def _first_available(queue: Queue, most: int, most_bytes: int) -> list[Entry]:
    """Places from the front whose messages have about so many bytes together; one in any case."""
    entries = queue.positions.available_run(START, most)
    size = 0
    for count, entry in enumerate(entries, 1):
        size += entry.size
        if size >= most_bytes:
            return entries[:count]
    return entries


def may_receive(descriptor: OpenQueueDescriptor) -> bool:
    """Whether a queue was opened for taking messages out of it."""
    return descriptor.access_type in _RECEIVING


def real(transaction: Transaction | None) -> Transaction | None:
    """A transaction without identifier is none (3.1.7.1.11-c)."""
    return transaction if transaction is not None and any(transaction.identifier) else None


def _nobody(_: ReadResult) -> None:
    """For reads whose result is returned."""
