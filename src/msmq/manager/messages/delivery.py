"""Sending: Enqueue Message, delivery to a local queue, and the fate of messages (MS-MQDMPR 3.1.7.1.9,
3.1.7.1.27).

A sender and a receiver on one host use no session, so the rules for arriving messages (MS-MQQB 3.1.5.8) are applied
here, to local messages and to those from a session alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import compress, groupby
from typing import Final

from msmq.errors import AccessDeniedError, InsufficientResourcesError, MessageStorageFailedError
from msmq.manager.access.guard import Guard
from msmq.manager.core import Core
from msmq.manager.mailbox.batch import ADMIN_QUEUE, ASKS_ARRIVAL, Batch
from msmq.manager.mailbox.mailbox import Mailbox, is_destination
from msmq.manager.mailbox.positions import Positions
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes, StoredMessage
from msmq.manager.messages.transactions import Transaction, Transactions
from msmq.manager.model import EnqueueStatus
from msmq.manager.queues.queue import Queue
from msmq.security.access import QueueOperation, Token
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_TH
from msmq.wire.message import UserMessage
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


REACHED: Final = MessageClass.ACK_REACH_QUEUE


@dataclass(slots=True)
class Delivery:
    """The results of delivering a batch, in columns."""

    fates: list[MessageClass]
    """AckReachQueue, or the reason why a message was refused."""
    lookup_ids: list[int]
    """The lookup identifiers, 0 for refused messages."""


class Sending:
    """Puts messages into queues, and does what follows from that."""

    def __init__(self, core: Core, mailbox: Mailbox, transactions: Transactions, guard: Guard) -> None:
        self.core = core
        self.mailbox = mailbox
        self.transactions = transactions
        self.guard = guard
        mailbox.grave_for = self._grave_for
        transactions.journal = partial(self.journal_sent, freeing=True)

    def enqueue(
        self, queue: Queue, batch: Batch, transaction: Transaction | None = None
    ) -> tuple[list[EnqueueStatus], list[int]]:
        """Enqueue Message: returns a status for each message, and the lookup identifiers, 0 for messages that were not
        taken."""
        statuses = self.mailbox.admit(queue, batch)
        if statuses is None:
            return [EnqueueStatus.OK] * len(batch), list(self._put(queue, batch, transaction))
        lookup_ids = [0] * len(batch)
        admitted = [index for index, status in enumerate(statuses) if status is EnqueueStatus.OK]
        if admitted:
            taken = self._put(queue, batch.only(admitted), transaction)
            for index, lookup_id in zip(admitted, taken, strict=True):
                lookup_ids[index] = lookup_id
        return statuses, lookup_ids

    def _put(self, queue: Queue, batch: Batch, transaction: Transaction | None) -> Sequence[int]:
        if transaction is None:
            return self.mailbox.put(queue, batch)
        return self.transactions.enqueue(transaction, queue, batch)

    # --- arrival --------------------------------------------------------------------------------------------

    def deliver(
        self,
        queue: Queue,
        batch: Batch,
        sender: Token | None = None,
        transaction: Transaction | None = None,
        *,
        senders: Mapping[int, Token] = {},
        refused: Mapping[int, MessageClass] = {},
        waits_for_room: bool = False,
    ) -> Delivery:
        """Deliver messages to their destination queue, or refuse them.

        ``sender`` is the sender, None if the right to send was checked already; ``senders`` has the senders of some
        messages by index, and ``refused`` the reasons for refusing some. In a transaction messages arrive with the
        commit, and senders are told of the arrival only then. If this host is full, messages of a sender that
        ``waits_for_room`` are not refused: the first that has no room and all after it are left undelivered.
        """
        fates: dict[int, MessageClass] = dict(refused)
        self._judge(queue, batch, sender, senders, fates)
        chosen: Sequence[int] = range(len(batch))
        if fates:
            chosen = [index for index in chosen if index not in fates]
        if waits_for_room and chosen and (full := self._full_at(queue, batch.only(chosen))) is not None:
            end = chosen[full]
            batch, chosen = batch.only(range(end)), chosen[:full]
            fates = {index: fate for index, fate in fates.items() if index < end}
        lookup_ids = [0] * len(batch)
        if chosen:
            statuses, taken = self.enqueue(queue, batch.only(chosen), transaction)
            for index, lookup_id in zip(chosen, taken, strict=True):
                lookup_ids[index] = lookup_id
            if any(statuses):
                fates.update(
                    (index, REFUSAL[status])
                    for index, status in zip(chosen, statuses, strict=True)
                    if status is not EnqueueStatus.OK
                )
        delivery = Delivery([REACHED] * len(batch), lookup_ids)
        for index, fate in fates.items():
            delivery.fates[index] = fate
        self._tell_arrived(queue, batch, delivery, committed=transaction is None)
        return delivery

    def _full_at(self, queue: Queue, batch: Batch) -> int | None:
        """The index of the first message for which this host has no room, or None."""
        statuses = self.mailbox.admit(queue, batch)
        if statuses is None or EnqueueStatus.QUEUE_MANAGER_QUOTA not in statuses:
            return None
        return statuses.index(EnqueueStatus.QUEUE_MANAGER_QUOTA)

    def _judge(
        self,
        queue: Queue,
        batch: Batch,
        sender: Token | None,
        senders: Mapping[int, Token],
        fates: dict[int, MessageClass],
    ) -> None:
        """Find the messages that a destination queue refuses, by kind, signature, encryption and sender. These are the
        same for nearly all messages of a batch."""
        verdicts: dict[tuple[int, bool, bool, bool], MessageClass | None] = {}

        def verdict(token: Token | None, user_flags: int, local: LocalAttributes) -> MessageClass | None:
            transactional, signed = bool(user_flags & USER_TH), bool(local.authentication_level)
            key = id(token), transactional, signed, local.private
            if key not in verdicts:
                verdicts[key] = self.judge(
                    queue, token, transactional=transactional, authenticated=signed, private=local.private
                )
            return verdicts[key]

        proven = (at for at, local in batch.local.items() if local.authentication_level or local.private)
        special = {*senders, *proven} - {*fates}
        usual = {
            flag: verdict(sender, flag, NO_ATTRIBUTES)
            for flag in {flags & USER_TH for flags in batch.user_flags}
        }
        if any(usual.values()):
            for index, flags in enumerate(batch.user_flags):
                fate = usual[flags & USER_TH]
                if fate is not None and index not in special:
                    fates.setdefault(index, fate)
        for index in special:
            local = batch.local.get(index, NO_ATTRIBUTES)
            fate = verdict(senders.get(index, sender), batch.user_flags[index], local)
            if fate is not None:
                fates[index] = fate

    def judge(
        self,
        queue: Queue,
        sender: Token | None = None,
        *,
        transactional: bool,
        authenticated: bool = False,
        private: bool = False,
    ) -> MessageClass | None:
        """The reason for which a destination queue refuses a message, or None."""
        if not accepts_transaction(queue.transactional, transactional):
            return (
                MessageClass.NACK_NOT_TRANSACTIONAL_MSG
                if queue.transactional
                else MessageClass.NACK_NOT_TRANSACTIONAL_Q
            )
        if not accepts_authentication(queue.authentication, authenticated):
            return MessageClass.NACK_BAD_SIGNATURE
        if not accepts_privacy(queue.privacy_level, private):
            return MessageClass.NACK_BAD_ENCRYPTION
        try:
            self.guard.check_queue(sender, queue, QueueOperation.WRITE_MESSAGE)
        except AccessDeniedError:
            return MessageClass.NACK_ACCESS_DENIED
        return None

    def _tell_arrived(self, queue: Queue, batch: Batch, delivery: Delivery, *, committed: bool) -> None:
        """Tell subscribers of messages whose senders asked for acknowledgments, or of all if a subscriber wants
        that."""
        told = self.core.told_arrived
        if not told or not (self.core.tells_each or any(batch.asks)):
            return
        concerned, every = [], range(len(batch))
        for index in every if self.core.tells_each else compress(every, batch.asks):
            reached, asks = delivery.fates[index] is REACHED, batch.asks[index]
            asked = batch.user_flags[index] & ADMIN_QUEUE and (asks & ASKS_ARRIVAL if reached else asks)
            if (asked or self.core.tells_each) and (committed or not reached):
                concerned.append(index)
        for fate, group in groupby(concerned, delivery.fates.__getitem__):
            messages = messages_of(batch, delivery.lookup_ids, group, self.core.now_s)
            for tell in told:
                tell(queue, messages, fate)

    # --- system queues --------------------------------------------------------------------------------------

    def dead_letter(self, queue: Queue, lookup_id: int, fate: int) -> None:
        """Move a message that could not be delivered to the dead-letter queue of its kind, or delete it if that is
        full. ``fate``, the class with the reason, is stored with it."""
        message = self.mailbox.fetch(queue, lookup_id)
        if message is None:
            return
        target = self._dead_letter_queue_for(message)
        if self.mailbox.fits_system_queue(target, message.size):
            try:
                self.mailbox.move_changed(
                    queue, lookup_id, target, lambda local: local.changed(dead_letter_class=int(fate))
                )
            except MessageStorageFailedError:  # a full disk costs the reason, not the message
                self.mailbox.move(queue, (lookup_id,), target)
        else:
            self.mailbox.remove(queue, (lookup_id,), MessageClass.NORMAL)

    def dead_letter_copies(self, messages: Iterable[StoredMessage], fate: int) -> None:
        """Keep copies of messages that were never put into a queue, as many as the dead-letter queue takes."""
        for message in messages:
            target = self._dead_letter_queue_for(message)
            if self.mailbox.fits_system_queue(target, message.size):
                copy = message.same_place(0)
                copy.local = message.local.changed(dead_letter_class=int(fate))
                with suppress(MessageStorageFailedError, InsufficientResourcesError):
                    self.mailbox.put(target, Batch.of((copy,), *self.core.own_identifiers))

    def _grave_for(self, queue: Queue, message: StoredMessage, own: bool) -> Queue | None:
        """The dead-letter queue for a message of ours that leaves an outgoing queue unsent, or its destination unread,
        if its sender wants it kept, or None. Without a transaction it counts as delivered when it reached its queue."""
        user = message.packet.user
        if not user.negative_journaling or user.source_queue_manager not in self.core.own_identifiers:
            return None
        if is_destination(queue) and not message.packet.transactional:
            return None
        target = self._dead_letter_queue_for(message, own_too=own)
        return target if target is not queue and not message.local.dead_letter_class else None

    def _dead_letter_queue_for(self, message: StoredMessage, *, own_too: bool = True) -> Queue:
        """The application's own dead-letter queue if it exists and is suitable, else the system's."""
        core = self.core
        own = core.by_path.get(message.local.application_deadletter_queue.lower()) if own_too else None
        if own is not None and own.transactional == message.packet.transactional and is_destination(own):
            return own
        system = (
            core.transactional_dead_letter_queue if message.packet.transactional else core.dead_letter_queue
        )
        assert system is not None
        return system

    def move_to_system_queue(self, queue: Queue, messages: Sequence[int] | Positions, target: Queue) -> None:
        """Move messages to a journal or a dead-letter queue. Those for which it has no room are deleted."""
        found = messages if isinstance(messages, Positions) else queue.positions.find(messages)
        if self.mailbox.fits_system_queue(target, sum(found.sizes)):
            self.mailbox.move(queue, found, target)
            return
        kept, lost, used = [], [], 0
        for index, size in enumerate(found.sizes):
            if self.mailbox.fits_system_queue(target, used + size):
                kept.append(index)
                used += size
            else:
                lost.append(index)
        self.mailbox.move(queue, found.only(kept), target)
        self.mailbox.remove(queue, found.only(lost), MessageClass.NORMAL)

    def journal_sent(self, batch: Batch, *, freeing: bool = False) -> None:
        """Positive source journaling: keep copies of delivered messages, as many as the journal and the host have room
        for. ``freeing`` means that room for them is reserved."""
        core, journal = self.core, self.core.journal_queue
        assert journal is not None
        quota_kb, total = core.record.queue_manager_quota_kb, core.total_bytes

        def fits(size: int) -> bool:
            return self.mailbox.fits_system_queue(journal, size) and within_quota(quota_kb, total, size)

        chosen: Sequence[int] = range(len(batch))
        if not fits(sum(batch.sizes)):
            few, used = [], 0
            for index, size in enumerate(batch.sizes):
                if fits(used + size):
                    few.append(index)
                    used += size
            chosen = few
        if chosen:
            # The messages themselves are delivered, even if there is no room for copies.
            with suppress(MessageStorageFailedError, InsufficientResourcesError):
                self.mailbox.put(journal, batch.only(chosen), freeing=freeing)


def messages_of(
    batch: Batch, lookup_ids: Sequence[int], indices: Iterable[int], arrival_time: int
) -> list[StoredMessage]:
    """The messages of a batch with these indices, for code that looks into them."""
    return [
        StoredMessage(
            UserMessage.kept(batch.packets[index]),
            batch.local.get(index, NO_ATTRIBUTES),
            lookup_ids[index],
            arrival_time,
            source=batch.sources[index],
        )
        for index in indices
    ]
