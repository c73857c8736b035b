"""Transactions (MS-MQDMPR 3.1.1.13, 3.1.1.14, 3.1.4.3 to 3.1.4.11).

Operations are written to the ledger when they are made, and one record, the transaction's outcome, makes all of them
take effect. An internal transaction that has no outcome after a restart is aborted; a prepared one of a coordinator
waits, with everything it touched locked, until the coordinator says how it ended.

The coordinator of this project lives in the same process (:class:`Coordinator`); any other one can drive the same
four calls of :class:`ResourceManager`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from msmq.errors import TransactionSequenceError
from msmq.manager.core import Core
from msmq.manager.event import Event
from msmq.manager.ledger.ledger import TransactionOutcome
from msmq.manager.ledger.recovered import NUMBER_MASK
from msmq.manager.mailbox.batch import ADMIN_QUEUE, ASKS_ARRIVAL, POSITIVE_JOURNALING, Batch
from msmq.manager.mailbox.mailbox import NUMBERS_BYTES, Mailbox, is_destination, purge_reason
from msmq.manager.mailbox.positions import PositionMark, Positions, PositionState
from msmq.manager.mailbox.retries import Retry
from msmq.manager.mailbox.stored import LARGEST_ENVELOPE, LARGEST_FRONT, StoredMessage
from msmq.manager.model import OperationType
from msmq.manager.queues.queue import Queue, WaitingRead, finish_wait
from msmq.wire.classes import MessageClass

_LARGEST_NUMBER: Final = (1 << 20) - 1


@dataclass(eq=False, slots=True)
class TransactionalOperation:
    """A transaction's operation on messages of one queue, in columns: it sends, receives or moves them."""

    operation_type: OperationType
    queue: Queue
    ids: array[int]
    addresses: array[int]
    """The addresses of the operation's records; for messages that are sent, those of the messages."""
    payload_sizes: Sequence[int]
    """The sizes of these records' payloads."""
    target_queue: Queue | None = None
    copied_bytes: int = 0
    """The bytes that copies for journals may need at the commit."""
    asking: list[int] = field(default_factory=list)
    """Sent messages whose senders asked for an acknowledgment of the arrival, or for a copy."""
    reasons: dict[int, int] = field(default_factory=dict)
    """The reasons for removing messages other than that they were received."""
    retry: Retry | None = None
    """The reader's policy for messages that are returned."""

    def drop(self, index: int) -> None:
        """Remove one of the messages from the operation."""
        self.asking = [lookup_id for lookup_id in self.asking if lookup_id != self.ids[index]]
        self.payload_sizes = [*self.payload_sizes[:index], *self.payload_sizes[index + 1 :]]
        del self.ids[index], self.addresses[index]


@dataclass(eq=False, slots=True)
class Transaction:
    """Operations that take effect together or not at all, in order."""

    identifier: bytes
    single_phase: bool = True
    number: int = 1
    """The twenty bits that its messages carry on the wire; never zero."""
    prepared_at: int | None = None
    """The address of the record that the transaction was prepared, or None."""
    operations: list[TransactionalOperation] = field(default_factory=list)
    waiting: list[WaitingRead] = field(default_factory=list)
    """Reads in this transaction that wait for a message."""


class Transactions:
    """TransactionCollection and the events that end its members."""

    def __init__(self, core: Core, mailbox: Mailbox) -> None:
        self.core = core
        self.mailbox = mailbox
        self.collection: dict[bytes, Transaction] = {}
        self.journal: Callable[[Batch], None] = lambda batch: None
        """Keeps copies of sent messages (positive source journaling)."""
        self._number = 0

    def create(self, identifier: bytes | None = None, *, single_phase: bool = True) -> Transaction:
        """Create Transaction. Without an identifier it gets a new one and is an internal transaction."""
        identifier = identifier or self.core.environment.random_bytes(16)
        transaction = Transaction(identifier, single_phase, self.number_of(None))
        self.collection[identifier] = transaction
        return transaction

    def number_of(self, transaction: Transaction | None) -> int:
        """The number that the messages of a transaction carry on the wire. None stands for a transaction that ends as
        soon as it has begun, and needs no record of its own."""
        if transaction is not None:
            return transaction.number
        self._number = self._number % _LARGEST_NUMBER + 1
        return self._number

    def find(self, identifier: bytes) -> Transaction:
        transaction = self.collection.get(identifier)
        if transaction is None:
            raise TransactionSequenceError(f"No transaction {identifier.hex()} is open here.")
        return transaction

    def is_open(self, transaction: Transaction) -> bool:
        """Whether operations may still be added: it has neither ended nor been prepared."""
        return self.collection.get(transaction.identifier) is transaction and transaction.prepared_at is None

    def prepare(self, identifier: bytes, *, single_phase: bool = True) -> None:
        """Transaction Prepare. In two phases this is a promise that must survive, so it is recorded."""
        transaction = self.find(identifier)
        transaction.single_phase = single_phase
        if not single_phase and transaction.prepared_at is None:
            with self.core.event(0, 1, freeing=True):
                ledger = self.core.ledger
                transaction.prepared_at = ledger.end_transaction(identifier, TransactionOutcome.PREPARED)
            self._end_waiting(transaction)

    def commit(self, identifier: bytes) -> None:
        """Transaction Commit: one record decides, then the operations are carried out in order.

        Copies for journals are new records, whose room must be certain before anything is decided. They replace
        received messages, so that these can be removed even on a full disk.
        """
        transaction = self.find(identifier)
        copies = sum(map(self._copied_bytes, transaction.operations))
        with self._ending(transaction, copies):
            sent = [
                (lookup_id & NUMBER_MASK, lookup_id, member.queue)
                for member in transaction.operations
                if member.operation_type is OperationType.ENQUEUE
                for lookup_id in (min(member.ids, key=_number), max(member.ids, key=_number))
            ]
            # Operations that were recovered after a restart need not be in order.
            first = min(sent, key=itemgetter(0), default=(0, 0, None))
            last = max(sent, key=itemgetter(0), default=(0, 0, None))
            self._end(transaction, TransactionOutcome.COMMITTED, first[1], last[1])
            for (_, lookup_id, queue), mark in ((first, PositionMark.FIRST), (last, PositionMark.LAST)):
                if queue is not None:
                    queue.positions.mark(lookup_id, mark)
            self._end_waiting(transaction)
            for operation in transaction.operations:
                self._commit(operation)

    def _ending(self, transaction: Transaction, size: int = 0) -> Event:
        """The event that ends a transaction: a record for the outcome, one for a range of numbers, and for each
        message what is said again, what follows from it, and from a reader that waits for it."""
        messages = sum(len(member.ids) for member in transaction.operations)
        return self.core.event(size + NUMBERS_BYTES, 2 + 3 * messages, freeing=True)

    def _end(
        self, transaction: Transaction, outcome: TransactionOutcome, first: int = 0, last: int = 0
    ) -> None:
        """Write the outcome and forget the transaction."""
        if transaction.operations or transaction.prepared_at is not None:
            self.core.ledger.end_transaction(transaction.identifier, outcome, first, last)
        if transaction.prepared_at is not None:
            self.core.ledger.store.release(transaction.prepared_at, 0)
        del self.collection[transaction.identifier]

    @staticmethod
    def _end_waiting(transaction: Transaction) -> None:
        """End the reads in this transaction that still wait for a message."""
        for reader in list(transaction.waiting):
            finish_wait(reader, TransactionSequenceError.code)

    def _copied_bytes(self, operation: TransactionalOperation) -> int:
        """The bytes of journal copies, and of dead letters of messages that are overdue already."""
        size, queue = operation.copied_bytes, operation.queue
        if operation.operation_type is OperationType.ENQUEUE:
            if queue.overdue and not queue.overdue.isdisjoint(operation.ids):
                size += self._letters_bytes(operation)
            return size
        return size if queue.journaling else 0

    def _letters_bytes(self, operation: TransactionalOperation) -> int:
        """The bytes of messages that may become dead letters because they were purged or are overdue."""
        positions = operation.queue.positions.find(operation.ids)
        return self.mailbox.letters_bytes(positions.sizes, positions.marks)

    def _commit(self, operation: TransactionalOperation) -> None:
        queue, ids = operation.queue, operation.ids
        if operation.operation_type is OperationType.ENQUEUE:
            messages = self._asking(operation)
            self.mailbox.release(queue, ids)
            if messages:
                for tell in self.core.told_arrived:
                    tell(queue, messages, MessageClass.ACK_REACH_QUEUE)
                journaled = [message for message in messages if message.packet.user.positive_journaling]
                if journaled:
                    self.journal(Batch.of(journaled, *self.core.own_identifiers))
            return
        self._say_again(operation)
        self.core.ledger.store.release_all(operation.addresses, operation.payload_sizes)
        if operation.operation_type is OperationType.DEQUEUE:
            for reason in {*operation.reasons.values()}:
                others = [one for one, given in operation.reasons.items() if given == reason]
                self.mailbox.remove(queue, others, reason, recorded=True)
            self.mailbox.remove(queue, ids, MessageClass.ACK_RECEIVE, recorded=True)
        else:
            assert operation.target_queue is not None
            self.mailbox.move(queue, ids, operation.target_queue, recorded=True)

    def _say_again(self, operation: TransactionalOperation) -> None:
        """Write once more what happened to messages that the store has copied since the operation was recorded: they
        come after that record now, and it may be deleted before them."""
        ledger, target = self.core.ledger, operation.target_queue
        places = operation.queue.positions.find(operation.ids)
        if max(places.addresses, default=0) < min(operation.addresses, default=0):  # as nearly always
            return
        now_at = dict(zip(places.ids, places.addresses, strict=True))
        for lookup_id, recorded_at in zip(operation.ids, operation.addresses, strict=True):
            if now_at.get(lookup_id, 0) > recorded_at:
                if target is None:
                    ledger.delete_message(
                        lookup_id, operation.reasons.get(lookup_id, MessageClass.ACK_RECEIVE)
                    )
                else:
                    ledger.move_message(lookup_id, target.number)

    def _asking(self, operation: TransactionalOperation) -> list[StoredMessage]:
        """The messages that arrive with the commit and whose senders asked to be told. Damaged ones are left out."""
        queue = operation.queue
        asking: Sequence[int] = operation.ids if self.core.tells_each else operation.asking
        if not asking or not is_destination(queue):
            return []
        return list(self.mailbox.read(queue, queue.positions.find(asking), ours=False).messages)

    def is_target(self, queue: Queue) -> bool:
        """Whether an open transaction moves a message to this queue."""
        transactions = self.collection.values()
        return any(member.target_queue is queue for each in transactions for member in each.operations)

    def abort(self, identifier: bytes) -> None:
        """Transaction Abort: received messages return to their places, and sent ones are removed as if they had never
        been there."""
        transaction = self.find(identifier)
        taken = [each for each in transaction.operations if each.operation_type is not OperationType.ENQUEUE]
        with self._ending(transaction, sum(map(self._letters_bytes, taken))):
            self._end(transaction, TransactionOutcome.ABORTED)
            self._end_waiting(transaction)
            for operation in reversed(transaction.operations):
                self._abort(operation)

    def _abort(self, operation: TransactionalOperation) -> None:
        queue, ids = operation.queue, operation.ids
        if operation.operation_type is OperationType.ENQUEUE:
            self.mailbox.forget(queue, ids)  # the message's record is also the operation's
            return
        self.core.ledger.store.release_all(operation.addresses, operation.payload_sizes)
        positions = queue.positions.find(ids)
        purged = [
            lookup_id
            for lookup_id, state in zip(positions.ids, positions.states, strict=True)
            if state == PositionState.PURGE_PENDING
        ]
        self.mailbox.remove(queue, purged, purge_reason(queue))
        there = queue.positions.find(ids).ids
        if operation.operation_type is OperationType.DEQUEUE:
            self.mailbox.retries.reject(queue, there, operation.retry)
        else:
            self.mailbox.give_back(queue, there)

    def forget_queues(self, queues: Collection[Queue]) -> None:
        """Forget the operations on messages of queues that are being deleted; messages that were to be sent there are
        dropped."""
        for transaction in self.collection.values():
            for operation in [member for member in transaction.operations if member.queue in queues]:
                transaction.operations.remove(operation)
                if operation.operation_type is OperationType.ENQUEUE:
                    self.mailbox.remove(operation.queue, operation.ids, MessageClass.NORMAL, quiet=True)
                else:
                    self.core.ledger.store.release_all(operation.addresses, operation.payload_sizes)

    def forget_message(self, queue: Queue, lookup_id: int) -> None:
        """Forget the operation on a message that is damaged."""
        for transaction in self.collection.values():
            for operation in list(transaction.operations):
                if operation.queue is not queue or lookup_id not in operation.ids:
                    continue
                index = operation.ids.index(lookup_id)
                if operation.operation_type is not OperationType.ENQUEUE:
                    store = self.core.ledger.store
                    store.release(operation.addresses[index], operation.payload_sizes[index])
                operation.drop(index)
                if not operation.ids:
                    transaction.operations.remove(operation)

    # --- operations ---------------------------------------------------------------------------------------------

    def enqueue(self, transaction: Transaction, queue: Queue, batch: Batch) -> Sequence[int]:
        """Put messages into a queue, locked until the transaction ends. Their records are also those of the
        operation."""
        ids = self.mailbox.put(queue, batch, transaction.identifier)
        positions = queue.positions.find(ids)
        local = any(map(PositionMark.HAS_LOCAL.__and__, positions.marks))
        sizes = [LARGEST_FRONT + size + (LARGEST_ENVELOPE if local else 0) for size in batch.sizes]
        operation = TransactionalOperation(
            OperationType.ENQUEUE, queue, positions.ids, positions.addresses, sizes
        )
        if is_destination(queue):
            for lookup_id, flags, asks, size in zip(ids, batch.user_flags, batch.asks, sizes, strict=True):
                journaled = flags & POSITIVE_JOURNALING
                if journaled or (asks & ASKS_ARRIVAL and flags & ADMIN_QUEUE):
                    operation.asking.append(lookup_id)
                    operation.copied_bytes += size if journaled else 0
        transaction.operations.append(operation)
        return ids

    def dequeue(
        self, transaction: Transaction, queue: Queue, positions: Positions, retry: Retry | None = None
    ) -> None:
        """Lock messages until the end of the transaction, which removes them, or rejects them by the policy
        ``retry``."""
        self._lock(transaction, queue, positions, OperationType.DEQUEUE, None, retry)

    def move(self, transaction: Transaction, queue: Queue, lookup_id: int, target: Queue) -> None:
        """Lock a message until the end of the transaction, which moves it to another queue."""
        self._lock(transaction, queue, queue.positions.find((lookup_id,)), OperationType.MOVE, target)

    def _lock(
        self,
        transaction: Transaction,
        queue: Queue,
        positions: Positions,
        kind: OperationType,
        target: Queue | None,
        retry: Retry | None = None,
    ) -> None:
        ledger, ids, name = self.core.ledger, positions.ids, transaction.identifier
        with self.core.event(0, len(ids), freeing=True):
            if target is None:
                addresses = [ledger.delete_message(one, MessageClass.ACK_RECEIVE, name) for one in ids]
            else:
                addresses = [ledger.move_message(one, target.number, name) for one in ids]
            queue.positions.set_states(ids, PositionState.LOCKED)
        copied = sum(positions.sizes) + LARGEST_ENVELOPE * len(ids) if target is None else 0
        operation = TransactionalOperation(
            kind, queue, ids, array("Q", addresses), [0] * len(ids), target, copied, retry=retry
        )
        transaction.operations.append(operation)


def _number(lookup_id: int) -> int:
    """The arrival number of a message, which tells when it was sent."""
    return lookup_id & NUMBER_MASK
