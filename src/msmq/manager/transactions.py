"""Transactions (MS-MQDMPR 3.1.1.13, 3.1.1.14, 3.1.4.3 to 3.1.4.11).

Operations are written to the ledger when they are made and take effect when the transaction's outcome is written:
one record makes all of them true. An internal transaction that has no outcome after a restart is aborted; a prepared
one of a coordinator waits, with everything it touched locked, until the coordinator says how it ended.

The coordinator of this project lives in the same process (:class:`Coordinator`); any other one can drive the same
four calls of :class:`ResourceManager`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from msmq.errors import MessageStorageFailedError, TransactionSequenceError
from msmq.manager.core import Core
from msmq.manager.event import Event
from msmq.manager.ledger import TransactionOutcome
from msmq.manager.model import OperationType
from msmq.manager.placing import NUMBERS_BYTES, Placing, finish_wait, is_destination, purge_reason
from msmq.manager.positions import PositionMark, PositionState
from msmq.manager.queue import Queue, WaitingRead
from msmq.manager.recovered import NUMBER_MASK
from msmq.manager.stored import ENVELOPE_SIZE, StoredMessage, record_size
from msmq.wire.classes import MessageClass

_LARGEST_NUMBER: Final = (1 << 20) - 1


@dataclass(slots=True)
class TransactionalOperation:
    """One operation of a transaction; ``address`` is where the ledger keeps it."""

    operation_type: OperationType
    queue: Queue
    lookup_id: int
    address: int
    payload_size: int = 0
    target_queue: Queue | None = None
    dequeue_reason: int = MessageClass.ACK_RECEIVE
    message_bytes: int = 0
    """What a copy of the message that is taken would take."""
    tells: bool = True
    """Whether the message that is sent names an administration queue or wants a copy, as far as is known."""


@dataclass(eq=False, slots=True)
class Transaction:
    """Operations that happen together or not at all, in the order they were made."""

    identifier: bytes
    single_phase: bool = True
    number: int = 1
    """The twenty bits that its messages carry on the wire; never zero."""
    prepared_at: int | None = None
    """Where the ledger has the promise of a prepared two-phase transaction."""
    operations: list[TransactionalOperation] = field(default_factory=list)
    waiting: list[WaitingRead] = field(default_factory=list)
    """Reads in this transaction that wait for a message."""


class Transactions:
    """TransactionCollection and the events that end its members."""

    def __init__(self, core: Core, placing: Placing) -> None:
        self.core = core
        self.placing = placing
        self.collection: dict[bytes, Transaction] = {}
        self.journal: Callable[[StoredMessage], None] = lambda message: None
        """Keeps a copy of a message that was sent (positive source journaling)."""
        self._number = 0

    def create(self, identifier: bytes | None = None, *, single_phase: bool = True) -> Transaction:
        """Create Transaction. Without an identifier a fresh one is made: it is an internal transaction."""
        identifier = identifier or self.core.environment.random_bytes(16)
        self._number = self._number % _LARGEST_NUMBER + 1
        transaction = Transaction(identifier, single_phase, self._number)
        self.collection[identifier] = transaction
        return transaction

    def find(self, identifier: bytes) -> Transaction:
        transaction = self.collection.get(identifier)
        if transaction is None:
            raise TransactionSequenceError(f"No transaction {identifier.hex()} is open here.")
        return transaction

    def is_open(self, transaction: Transaction) -> bool:
        """Whether operations may still join: it has neither ended nor been promised to a coordinator."""
        return self.collection.get(transaction.identifier) is transaction and transaction.prepared_at is None

    def prepare(self, identifier: bytes, *, single_phase: bool = True) -> None:
        """Transaction Prepare. A two-phase one is promised to survive from here on, so it is written down."""
        transaction = self.find(identifier)
        transaction.single_phase = single_phase
        if not single_phase and transaction.prepared_at is None:
            with self.core.event(0, 1, freeing=True):
                ledger = self.core.ledger
                transaction.prepared_at = ledger.end_transaction(identifier, TransactionOutcome.PREPARED)
            self._end_waiting(transaction)

    def commit(self, identifier: bytes) -> None:
        """Transaction Commit: one record decides, then the operations are carried out in their order.

        Copies for journals are new records: their room must be certain before anything is decided. They take that of
        the messages that go, so even a full disk lets what was received go.
        """
        transaction = self.find(identifier)
        copies = sum(map(self._journal_bytes, transaction.operations))
        with self._ending(transaction, copies):
            sent = [
                member for member in transaction.operations if member.operation_type is OperationType.ENQUEUE
            ]
            first = min(sent, key=_order, default=None)
            last = max(sent, key=_order, default=None)
            self._end(
                transaction,
                TransactionOutcome.COMMITTED,
                first.lookup_id if first else 0,
                last.lookup_id if last else 0,
            )
            if first is not None and last is not None:
                first.queue.positions.mark(first.lookup_id, PositionMark.FIRST)
                last.queue.positions.mark(last.lookup_id, PositionMark.LAST)
            self._end_waiting(transaction)
            self._carry_out(transaction.operations)

    def _ending(self, transaction: Transaction, size: int = 0) -> Event:
        """The event that ends a transaction: a record for the outcome, a range of numbers, and for each operation what
        follows from it and from whoever waits for it."""
        records = 2 + 2 * len(transaction.operations)
        return self.core.event(size + NUMBERS_BYTES, records, freeing=True)

    def _end(
        self, transaction: Transaction, outcome: TransactionOutcome, first: int = 0, last: int = 0
    ) -> None:
        """Write the outcome; from here on the transaction is history."""
        if transaction.operations or transaction.prepared_at is not None:
            self.core.ledger.end_transaction(transaction.identifier, outcome, first, last)
        if transaction.prepared_at is not None:
            self.core.ledger.store.release(transaction.prepared_at, 0)
        del self.collection[transaction.identifier]

    @staticmethod
    def _end_waiting(transaction: Transaction) -> None:
        """Reads that still wait for a message can no longer take it in this transaction."""
        for reader in list(transaction.waiting):
            finish_wait(reader, TransactionSequenceError.code)

    @staticmethod
    def _journal_bytes(operation: TransactionalOperation) -> int:
        copied = operation.operation_type is OperationType.ENQUEUE or operation.queue.journaling
        return operation.message_bytes if copied else 0

    def _carry_out(self, operations: list[TransactionalOperation]) -> None:
        """Make operations true in their order; neighbours that nobody has to hear of together."""
        for queue, members in groupby(operations, self._quiet_queue):
            if queue is None:
                for operation in members:
                    self._commit(operation)
            else:
                ids = array("Q", (member.lookup_id for member in members))
                queue.positions.set_states(ids, PositionState.AVAILABLE)

    def _quiet_queue(self, operation: TransactionalOperation) -> Queue | None:
        """The queue that a message is sent to, if nothing comes of that but that it stands there."""
        queue = operation.queue
        if (
            operation.operation_type is not OperationType.ENQUEUE
            or operation.tells
            or queue.waiting
            or queue.overdue
            or self.core.told_of(queue)
        ):
            return None
        return queue

    def _commit(self, operation: TransactionalOperation) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        if operation.operation_type is OperationType.ENQUEUE:
            message = self._arriving(operation)
            self.placing.make_available(queue, lookup_id)
            if message is not None:
                for tell in self.core.told_arrived:
                    tell(queue, message, MessageClass.ACK_REACH_QUEUE)
                if message.packet.user.positive_journaling:
                    self.journal(message)
            return
        self.core.ledger.store.release(operation.address, operation.payload_size)
        if operation.operation_type is OperationType.DEQUEUE:
            self.placing.delete(queue, lookup_id, operation.dequeue_reason, recorded=True)
        else:
            assert operation.target_queue is not None
            self.placing.relocate(queue, lookup_id, operation.target_queue, recorded=True)

    def _arriving(self, operation: TransactionalOperation) -> StoredMessage | None:
        """The message that reaches its destination with the commit, if its sender may want to hear of that."""
        queue = operation.queue
        entry = queue.positions.get(operation.lookup_id)
        if entry is None or not operation.tells or not is_destination(queue):
            return None
        try:
            return self.core.load(queue, entry)
        except MessageStorageFailedError:
            return None  # whoever reads it is told

    def is_target(self, queue: Queue) -> bool:
        """Whether an open transaction moves a message there."""
        transactions = self.collection.values()
        return any(member.target_queue is queue for each in transactions for member in each.operations)

    def abort(self, identifier: bytes) -> None:
        """Transaction Abort: what was taken comes back to its place, what was sent was never there."""
        transaction = self.find(identifier)
        with self._ending(transaction):
            self._end(transaction, TransactionOutcome.ABORTED)
            self._end_waiting(transaction)
            for operation in reversed(transaction.operations):
                self._abort(operation)

    def _abort(self, operation: TransactionalOperation) -> None:
        queue, lookup_id = operation.queue, operation.lookup_id
        self.core.ledger.store.release(operation.address, operation.payload_size)
        if operation.operation_type is OperationType.ENQUEUE:
            self.placing.take_out(queue, lookup_id)
        elif queue.position(lookup_id).state is PositionState.PURGE_PENDING:
            self.placing.delete(queue, lookup_id, purge_reason(queue))
        else:
            self.placing.give_back(queue, lookup_id)

    def forget_queues(self, queues: Collection[Queue]) -> None:
        """Queues are being deleted with everything in them: operations on their messages have nothing left to do."""
        for transaction in self.collection.values():
            for operation in [member for member in transaction.operations if member.queue in queues]:
                transaction.operations.remove(operation)
                if (
                    operation.operation_type is not OperationType.ENQUEUE
                ):  # that one's record is the message's
                    self.core.ledger.store.release(operation.address, operation.payload_size)

    def forget_message(self, queue: Queue, lookup_id: int) -> None:
        """The disk has damaged a message: the operation on it has nothing left to do."""
        for transaction in self.collection.values():
            for operation in list(transaction.operations):
                if operation.lookup_id == lookup_id and operation.queue is queue:
                    transaction.operations.remove(operation)
                    if operation.operation_type is not OperationType.ENQUEUE:
                        self.core.ledger.store.release(operation.address, operation.payload_size)

    # --- operations ---------------------------------------------------------------------------------------------

    def record_enqueue(self, transaction: Transaction, queue: Queue, message: StoredMessage) -> None:
        """A message was inserted, locked; its own record is the operation's."""
        entry = queue.positions.get(message.lookup_id)
        assert entry is not None
        operation = TransactionalOperation(
            OperationType.ENQUEUE, queue, message.lookup_id, entry.address, record_size(message)
        )
        user = message.packet.user
        if user.positive_journaling and is_destination(queue):
            operation.message_bytes = operation.payload_size
        operation.tells = bool(user.admin_reference or user.positive_journaling)
        transaction.operations.append(operation)

    def record_enqueues(
        self,
        transaction: Transaction,
        queue: Queue,
        lookup_ids: Sequence[int],
        addresses: Sequence[int],
        sizes: Sequence[int],
    ) -> None:
        """The same for many plain messages, whose packets have these sizes."""
        transaction.operations += [
            TransactionalOperation(
                OperationType.ENQUEUE, queue, lookup_id, address, ENVELOPE_SIZE + size, tells=False
            )
            for lookup_id, address, size in zip(lookup_ids, addresses, sizes, strict=True)
        ]

    def record_dequeue(self, transaction: Transaction, queue: Queue, message: StoredMessage) -> None:
        """Lock a message until the transaction ends."""
        lookup_id, reason = message.lookup_id, MessageClass.ACK_RECEIVE
        with self.core.event(0, 1, freeing=True):
            address = self.core.ledger.delete_message(lookup_id, reason, transaction.identifier)
            queue.positions.set_state(lookup_id, PositionState.LOCKED)
        operation = TransactionalOperation(
            OperationType.DEQUEUE, queue, lookup_id, address, message_bytes=record_size(message)
        )
        transaction.operations.append(operation)

    def record_move(self, transaction: Transaction, queue: Queue, lookup_id: int, target: Queue) -> None:
        """The same, with another queue as the aim."""
        with self.core.event(0, 1, freeing=True):
            address = self.core.ledger.move_message(lookup_id, target.number, transaction.identifier)
            queue.positions.set_state(lookup_id, PositionState.LOCKED)
        operation = TransactionalOperation(OperationType.MOVE, queue, lookup_id, address, target_queue=target)
        transaction.operations.append(operation)


def _order(operation: TransactionalOperation) -> int:
    """When a message was sent: its arrival number. Operations found again after a restart need not be in order."""
    return operation.lookup_id & NUMBER_MASK
