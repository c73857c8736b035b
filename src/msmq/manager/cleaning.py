"""Which records still matter: the queue manager's answers to the store while it gives space back.

A copy stands behind everything that was said about its original, so it has to say those things itself: the queue a
message stands in now, and that its transaction has been committed. What an open transaction still needs is copied as
it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from msmq.manager.core import Core
from msmq.manager.ledger import NO_TRANSACTION, Head, Kind, TransactionOutcome
from msmq.manager.placing import Placing
from msmq.manager.queue import Queue
from msmq.manager.transactions import TransactionalOperation, Transactions


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record the disk damaged; ``queue`` is where its message stood, if it was a message."""

    kind: Kind
    lookup_id: int
    queue: str
    reason: str


class Cleaning:
    """Owner of the store's records."""

    def __init__(self, core: Core, placing: Placing, transactions: Transactions) -> None:
        self.core = core
        self.placing = placing
        self.transactions = transactions
        self.lost_records: list[LostRecord] = []

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        if kind == Kind.VALUE:
            return self.core.ledger.value_is_live(head, address)
        fields = Head.decode(head)
        if kind == Kind.MESSAGE:
            queue = self._standing_in(fields)
            entry = queue.positions.get(fields.lookup_id) if queue else None
            return entry is not None and entry.address == address
        if kind == Kind.OUTCOME:
            transaction = self.transactions.collection.get(fields.transaction)
            return transaction is not None and transaction.prepared_at == address
        return self._operation(fields, address) is not None

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        if kind != Kind.MESSAGE:
            return head
        fields = Head.decode(head)
        queue = self._standing_in(fields)
        assert queue is not None
        still_open = fields.transaction in self.transactions.collection
        transaction = fields.transaction if still_open else NO_TRANSACTION
        return fields._replace(queue=queue.number, transaction=transaction).encode()

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        if kind == Kind.VALUE:
            self.core.ledger.value_moved(head, new)
            return
        fields = Head.decode(head)
        operation = self._operation(fields, old)
        if operation is not None:
            operation.address = new
        if kind == Kind.MESSAGE:
            queue = self._standing_in(fields)
            assert queue is not None
            queue.positions.set_address(fields.lookup_id, new)
            if operation is None:
                self.core.moved.pop(fields.lookup_id, None)  # the copy's head says where it stands
        elif kind == Kind.OUTCOME and fields.flags == TransactionOutcome.PREPARED:
            self.transactions.collection[fields.transaction].prepared_at = new

    def lost(self, kind: int, head: bytes, address: int, error: Exception) -> None:
        """A damaged record costs itself and nothing else; operators are told."""
        fields = Head.decode(head)
        queue = self._standing_in(fields) if kind == Kind.MESSAGE else None
        if queue is not None:
            self.placing.take_out(queue, fields.lookup_id)
        where = queue.pathname if queue else ""
        self.lost_records.append(LostRecord(Kind(kind), fields.lookup_id, where, str(error)))

    def _standing_in(self, head: Head) -> Queue | None:
        number = self.core.moved.get(head.lookup_id, head.queue)
        return self.core.queues.get(number)

    def _operation(self, head: Head, address: int) -> TransactionalOperation | None:
        if head.transaction == NO_TRANSACTION:
            return None
        transaction = self.transactions.collection.get(head.transaction)
        if transaction is None:
            return None
        return next((member for member in transaction.operations if member.address == address), None)
