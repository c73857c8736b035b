"""Sending: Enqueue Message, delivery to a local queue, and the fate of messages (MS-MQDMPR 3.1.7.1.9,
3.1.7.1.27).

A sender and a receiver on one host never meet on the network, so the rules an arriving message is judged by
(MS-MQQB 3.1.5.8) are applied here, to local messages and to those that come over a session alike.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

from msmq.errors import AccessDeniedError, InsufficientResourcesError, MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.guard import Guard
from msmq.manager.model import EnqueueStatus
from msmq.manager.placing import ADMITTED, Placing, is_destination
from msmq.manager.queue import MessagePosition, Queue
from msmq.manager.stored import StoredMessage
from msmq.manager.transactions import Transaction, Transactions
from msmq.security.access import QueueOperation, Token
from msmq.wire.classes import MessageClass
from msmq.wire.properties.queue import (
    accepts_authentication,
    accepts_privacy,
    accepts_transaction,
    within_quota,
)

REFUSAL: Final = {
    EnqueueStatus.QUEUE_QUOTA: MessageClass.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.QUEUE_MANAGER_QUOTA: MessageClass.NACK_Q_EXCEED_QUOTA,
    EnqueueStatus.TIMED_OUT: MessageClass.NACK_REACH_QUEUE_TIMEOUT,
}


class Sending:
    """Puts messages where they belong and sees to what follows."""

    def __init__(self, core: Core, placing: Placing, transactions: Transactions, guard: Guard) -> None:
        self.core = core
        self.placing = placing
        self.transactions = transactions
        self.guard = guard
        placing.grave_for = self._grave_for
        transactions.journal = partial(self.journal_sent, freeing=True)

    def enqueue(
        self, queue: Queue, message: StoredMessage, transaction: Transaction | None = None
    ) -> tuple[EnqueueStatus, MessagePosition | None]:
        """Enqueue Message."""
        status = self.placing.admit(queue, message)
        if status is not ADMITTED:
            return status, None
        if transaction is None:
            return status, self.placing.insert(queue, message)
        position = self.placing.insert(queue, message, transaction.identifier)
        self.transactions.record_enqueue(transaction, queue, message)
        return status, position

    # --- arrival --------------------------------------------------------------------------------------------

    def deliver(
        self,
        queue: Queue,
        message: StoredMessage,
        sender: Token | None = None,
        transaction: Transaction | None = None,
    ) -> MessageClass:
        """Let a message arrive at its destination queue: AckReachQueue, or why it is refused.

        ``sender`` is who sends, None when that was checked already. In a transaction the message arrives
        with the commit, and who asked to be told of the arrival is told nothing yet.
        """
        fate = self.judge(queue, message, sender)
        if fate is None:
            status, _ = self.enqueue(queue, message, transaction)
            fate = REFUSAL.get(status, MessageClass.ACK_REACH_QUEUE)
        if fate is not MessageClass.ACK_REACH_QUEUE or transaction is None:
            for tell in self.core.told_arrived:
                tell(queue, message, fate)
        return fate

    def refuse(self, queue: Queue, message: StoredMessage, fate: MessageClass) -> MessageClass:
        """A message does not get into its destination queue; subscribers are told, and with them its sender."""
        for tell in self.core.told_arrived:
            tell(queue, message, fate)
        return fate

    def judge(self, queue: Queue, message: StoredMessage, sender: Token | None = None) -> MessageClass | None:
        """Why a destination queue refuses a message, or None: kind, signature, encryption and sender must
        fit."""
        packet = message.packet
        if not accepts_transaction(queue.transactional, packet.transactional):
            return (
                MessageClass.NACK_NOT_TRANSACTIONAL_MSG
                if queue.transactional
                else MessageClass.NACK_NOT_TRANSACTIONAL_Q
            )
        if not accepts_authentication(queue.authentication, bool(message.local.authentication_level)):
            return MessageClass.NACK_BAD_SIGNATURE
        if not accepts_privacy(queue.privacy_level, message.local.private):
            return MessageClass.NACK_BAD_ENCRYPTION
        try:
            self.guard.check_queue(sender, queue, QueueOperation.WRITE_MESSAGE)
        except AccessDeniedError:
            return MessageClass.NACK_ACCESS_DENIED
        return None

    # --- system queues --------------------------------------------------------------------------------------

    def dead_letter(self, queue: Queue, lookup_id: int, fate: int) -> None:
        """Move a message that could not be delivered to the dead-letter queue of its kind, or drop it if
        full. ``fate`` is the class that says why; it is written beside the message."""
        entry = queue.positions.get(lookup_id)
        assert entry is not None
        message = self.placing.fetch(queue, entry)
        if message is None:
            return
        target = self._dead_letter_queue_for(message)
        if within_quota(self._quota_kb(target), target.total_bytes, entry.size):
            try:
                self.placing.move_changed(
                    queue, lookup_id, target, lambda local: local.changed(dead_letter_class=int(fate))
                )
            except MessageStorageFailedError:  # a full disk costs the reason, not the message
                self.placing.relocate(queue, lookup_id, target)
        else:
            self.placing.delete(queue, lookup_id, MessageClass.NORMAL)

    def dead_letter_copy(self, message: StoredMessage, fate: int) -> None:
        """Keep a copy of a message that never got into a queue, unless the dead-letter queue is full."""
        target = self._dead_letter_queue_for(message)
        if within_quota(self._quota_kb(target), target.total_bytes, message.size):
            copy = message.same_place(0)
            copy.local = message.local.changed(dead_letter_class=int(fate))
            with suppress(MessageStorageFailedError, InsufficientResourcesError):
                self.placing.insert(target, copy)

    def _grave_for(self, queue: Queue, message: StoredMessage, whole: bool) -> Queue | None:
        """Where a message of ours goes that waited for its reader in vain, if its sender wants it kept and there is
        room. What the system's queues get needs no reason beside it."""
        user = message.packet.user
        if not user.negative_journaling or user.source_queue_manager != self.core.record.identifier:
            return None
        target = self._dead_letter_queue_for(message, own_too=whole)
        fits = within_quota(self._quota_kb(target), target.total_bytes, message.size)
        return target if fits and target is not queue and not message.local.dead_letter_class else None

    def _dead_letter_queue_for(self, message: StoredMessage, *, own_too: bool = True) -> Queue:
        """The application's own one if it is there and fits, else the system's."""
        core = self.core
        own = core.by_path.get(message.local.application_deadletter_queue.lower()) if own_too else None
        if own is not None and own.transactional == message.packet.transactional and is_destination(own):
            return own
        system = (
            core.transactional_dead_letter_queue if message.packet.transactional else core.dead_letter_queue
        )
        assert system is not None
        return system

    def move_to_system_queue(self, queue: Queue, lookup_id: int, target: Queue) -> None:
        """Move a message to a journal or a dead-letter queue; one that is full gets nothing, and the
        message goes."""
        entry = queue.positions.get(lookup_id)
        assert entry is not None
        if within_quota(self._quota_kb(target), target.total_bytes, entry.size):
            self.placing.relocate(queue, lookup_id, target)
        else:
            self.placing.delete(queue, lookup_id, MessageClass.NORMAL)

    def journal_sent(self, message: StoredMessage, *, freeing: bool = False) -> None:
        """Positive source journaling: keep a copy of a delivered message, unless the journal or the host is
        full. ``freeing`` says that its room is reserved."""
        core = self.core
        journal = core.journal_queue
        assert journal is not None
        if within_quota(self._quota_kb(journal), journal.total_bytes, message.size) and within_quota(
            core.record.queue_manager_quota_kb, core.total_bytes, message.size
        ):
            with suppress(
                MessageStorageFailedError, InsufficientResourcesError
            ):  # the message itself is delivered
                self.placing.insert(journal, message.same_place(0), freeing=freeing)

    def _quota_kb(self, target: Queue) -> int:
        """A journal has its queue's limit, a destination its own, the system queues that of the host."""
        if target is target.root.journal:
            return target.root.journal_quota_kb
        return target.quota_kb if is_destination(target) else self.core.record.journal_quota_kb
