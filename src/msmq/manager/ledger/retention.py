"""Which records are still needed: the queue manager's answers to the store while it frees space.

A copy comes after all records about its original, so it must contain what they say: the queue that the message is in
now, and that its transaction has been committed. Records that an open transaction still needs are copied unchanged.
What such a transaction does with a message that was copied meanwhile, its commit writes once more, after the copy.
"""

from __future__ import annotations

from typing import Final

from msmq.manager.core import Core
from msmq.manager.ledger.ledger import (
    NO_TRANSACTION,
    Kind,
    LostRecord,
    TransactionOutcome,
    pack_head,
    unpack_head,
)
from msmq.manager.ledger.recovered import MARKS_MASK, MARKS_SHIFT
from msmq.manager.mailbox.mailbox import Mailbox
from msmq.manager.messages.transactions import TransactionalOperation, Transactions
from msmq.manager.queues.queue import Queue

# Members of an enumeration are slow, and most records are asked for.
_VALUE: Final = int(Kind.VALUE)
_MESSAGE: Final = int(Kind.MESSAGE)
_OUTCOME: Final = int(Kind.OUTCOME)


class Cleaning:
    """The owner of the store's records."""

    def __init__(self, core: Core, mailbox: Mailbox, transactions: Transactions) -> None:
        self.core = core
        self.mailbox = mailbox
        self.transactions = transactions

    @property
    def lost_records(self) -> list[LostRecord]:
        return self.core.lost_records

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        if kind == _VALUE:
            return self.core.ledger.value_is_live(head, address)
        number, lookup_id, _, _, _, transaction_id = unpack_head(head)
        if kind == _MESSAGE:
            queue = self._standing_in(lookup_id, number)
            if queue is None:
                return self.core.orphans.get(lookup_id, (0, 0))[1] == address
            return queue.positions.address_of(lookup_id) == address
        if kind == _OUTCOME:
            transaction = self.transactions.collection.get(transaction_id)
            return transaction is not None and transaction.prepared_at == address
        return self._operation(transaction_id, address) is not None

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        if kind != _MESSAGE:
            return head
        number, lookup_id, arrival_time, expiry, flags, transaction = unpack_head(head)
        queue = self._standing_in(lookup_id, number)
        if transaction != NO_TRANSACTION and transaction not in self.transactions.collection:
            transaction = NO_TRANSACTION
        if queue is None:
            number, _ = self.core.orphans[lookup_id]
        else:
            marks = queue.positions.marks_of(lookup_id) & MARKS_MASK
            number, flags = queue.number, flags & ~(MARKS_MASK << MARKS_SHIFT) | marks << MARKS_SHIFT
        return pack_head(number, lookup_id, arrival_time, expiry, flags, transaction)

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        if kind == _VALUE:
            self.core.ledger.value_moved(head, new)
            return
        number, lookup_id, _, _, flags, transaction = unpack_head(head)
        operation = self._operation(transaction, old)
        if operation is not None:
            operation.addresses[operation.addresses.index(old)] = new
        if kind == _MESSAGE:
            queue = self._standing_in(lookup_id, number)
            if queue is None:
                number, _ = self.core.orphans[lookup_id]
                self.core.orphans[lookup_id] = (number, new)
            else:
                queue.positions.set_address(lookup_id, new)
            if operation is None:
                self.core.moved.pop(lookup_id, None)  # the copy's head has the queue
        elif kind == _OUTCOME and flags == TransactionOutcome.PREPARED:
            self.transactions.collection[transaction].prepared_at = new

    def lost(self, kind: int, head: bytes, address: int, error: Exception) -> None:
        """Write a damaged value once more, drop a damaged message, which harms nothing else, and tell operators. Other
        records have nothing but their heads, and cannot be lost."""
        if kind == _VALUE:
            key = self.core.ledger.value_lost(head)
            self.lost_records.append(LostRecord(Kind.VALUE, 0, key, f"{error} It was written again."))
            return
        number, lookup_id, *_ = unpack_head(head)
        queue = self._standing_in(lookup_id, number)
        if queue is not None:
            self.transactions.forget_message(queue, lookup_id)
            self.mailbox.forget_damaged(queue, lookup_id)
        where = queue.pathname if queue else ""
        self.lost_records.append(LostRecord(Kind.MESSAGE, lookup_id, where, str(error)))

    def _standing_in(self, lookup_id: int, written_for: int) -> Queue | None:
        return self.core.queues.get(self.core.moved.get(lookup_id, written_for))

    def _operation(self, transaction_id: bytes, address: int) -> TransactionalOperation | None:
        if transaction_id == NO_TRANSACTION:
            return None
        transaction = self.transactions.collection.get(transaction_id)
        if transaction is None:
            return None
        return next((member for member in transaction.operations if address in member.addresses), None)
