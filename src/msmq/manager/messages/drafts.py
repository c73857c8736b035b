"""Enqueue Message To An Open Queue (MS-MQDMPR 3.1.7.1.27): turning an application's message into packets.

The queue manager completes the message with its sender, time, number and transaction. A name with several elements
makes one copy for each, all of them listing every destination. A copy for a queue of this host arrives at once; one
for another host waits in its outgoing queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Final

from msmq.errors import (
    AccessDeniedError,
    BadSecurityContextError,
    InsufficientResourcesError,
    InvalidHandleError,
    MessageNotAuthenticatedError,
    MQError,
    QueueNotAvailableError,
    TransactionUsageError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.access.credentials import Credentials
from msmq.manager.core import Core
from msmq.manager.mailbox.batch import (
    NEGATIVE_JOURNALING,
    POSITIVE_JOURNALING,
    Batch,
    our_marks_of,
    seconds_after,
)
from msmq.manager.mailbox.mailbox import full, is_destination
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.delivery import REACHED, Sending, messages_of
from msmq.manager.messages.message import (
    DeliveryGuarantee,
    DestinationQueueType,
    Message,
    SenderIdentifierType,
)
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.template import Kind, Template, kind_of, suits
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S, QueueAccessType
from msmq.manager.queues.outgoing_queues import queue_manager_of
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.security.access import QueueOperation, Token
from msmq.security.outbound import Signer
from msmq.security.rejections import MessageRejectedError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_SH
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage

_MOST_TEMPLATES: Final = 256
_JOURNALED: Final = NEGATIVE_JOURNALING | POSITIVE_JOURNALING
_REFUSED: dict[MessageClass, type[MQError]] = {
    MessageClass.NACK_Q_EXCEED_QUOTA: InsufficientResourcesError,
    MessageClass.NACK_ACCESS_DENIED: AccessDeniedError,
    MessageClass.NACK_BAD_SIGNATURE: MessageNotAuthenticatedError,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: MessageNotAuthenticatedError,
    MessageClass.NACK_BAD_ENCRYPTION: BadSecurityContextError,
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: TransactionUsageError,
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: TransactionUsageError,
}
"""The errors that applications get when a queue of this host refuses their message."""


@dataclass(eq=False, slots=True)
class Drafts:
    """Messages of an application for one queue, in columns, ready to be sent."""

    packets: list[bytes]
    kinds: list[Kind]
    asks: list[int]
    """The acknowledgments that each message asks for."""
    signed: dict[int, StoredMessage]
    """Messages that have to be examined like those from other hosts, by index."""

    def add(self, packet: bytes, kind: Kind, asks: int) -> None:
        self.packets.append(packet)
        self.kinds.append(kind)
        self.asks.append(asks)


@dataclass(eq=False, slots=True)
class Posted:
    """The results of sending drafts: lookup identifiers, 0 where there is an error, and the errors by index."""

    lookup_ids: list[int]
    errors: dict[int, MQError]


def batch_of(packets: Sequence[bytes], kinds: Sequence[Kind], asks: Sequence[int], now_s: int) -> Batch:
    """Make a batch of packets of this host."""
    user_flags, base_flags, to_be_received_s, to_reach_queue_s, local = zip(*kinds, strict=True)
    return Batch(
        packets,
        user_flags,
        base_flags,
        seconds_after(now_s, to_be_received_s),
        seconds_after(now_s, to_reach_queue_s),
        asks,
        bytes(map(our_marks_of, user_flags, asks)),
        {index: kept for index, kept in enumerate(local) if kept is not None},
    )


class Posting:
    """Sends the messages of applications."""

    def __init__(self, core: Core, sending: Sending, credentials: Credentials) -> None:
        self.core = core
        self.sending = sending
        self.credentials = credentials
        self._templates: dict[tuple[object, ...], Template] = {}

    def send(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None = None,
        caller: Token | None = None,
        signer: Signer | None = None,
        *,
        alone: bool = False,
    ) -> list[StoredMessage]:
        """Send a message to all queues of a descriptor. Returns the copies that were made.

        ``signer`` signs it if its authentication level asks for that; the queue manager does so for itself. ``alone``
        makes each copy a transaction of its own.

        The first destination that refuses ends the send with the reason; copies made before stay, unless a
        transaction covers them.
        """
        if descriptor.access_type is not QueueAccessType.SEND:
            raise AccessDeniedError("This queue was not opened for sending.")
        children = [descriptor]
        if descriptor.multiple:
            children = descriptor.children
            names = tuple(child.format_name for child in children)
            message.check()
            message = replace(message, destination_multi_queue_format_name=names)
        copies = []
        for child in children:
            drafts = Drafts([], [], [], {})
            self.draft(drafts, child, message, transaction, caller, signer, alone=alone)
            posted = self.post(child, drafts, transaction, caller)
            if posted.errors:
                raise posted.errors[0]
            packet, local = UserMessage.route(drafts.packets[0]), drafts.kinds[0].local
            copies.append(
                StoredMessage(packet, local or LocalAttributes(), posted.lookup_ids[0], self.core.now_s)
            )
        return copies

    # --- packets --------------------------------------------------------------------------------------------

    def draft(
        self,
        drafts: Drafts,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
        caller: Token | None,
        signer: Signer | None,
        *,
        alone: bool = False,
    ) -> int:
        """Add a message to drafts for the queue of a descriptor. Returns the message's number. Raises if the message
        is invalid."""
        queue, name = self._queue(descriptor), descriptor.format_name
        address, core = queue_manager_of(self.core, queue), self.core
        covered = transaction is not None or alone
        key = (
            name,
            address,
            core.record.identifier,
            self._time_to_reach_queue_s(message),
            covered,
            alone,
            None if caller is None else caller.user,
            kind_of(message),
        )
        template = self._templates.get(key)
        number = self.sending.transactions.number_of(transaction) if covered else 0
        if template is None or (not covered and message.transaction_identifier is not None):
            message.check()
            complete = self.complete(message, name, address, number, caller, alone=alone)
            if not suits(complete):
                return self._draft_special(drafts, queue, complete, caller, signer)
            template = self._remember(key, complete)
        ordinal = core.next_message_ordinal()
        packet = template.packet(
            ordinal,
            core.now_s,
            message.body,
            message.body_type,
            message.label,
            message.extension,
            message.application_tag,
            message.correlation_identifier,
            message.message_class,
            message.acknowledgements_requested,
            number,
        )
        drafts.add(packet, template.kind, message.acknowledgements_requested)
        return ordinal

    def _draft_special(
        self,
        drafts: Drafts,
        queue: Queue,
        complete: Message,
        caller: Token | None,
        signer: Signer | None,
    ) -> int:
        """Draft a message that has no template, because its packet depends on its body or has unusual headers."""
        complete = self.credentials.sign(complete, signer, as_manager=caller is None)
        stored = StoredMessage(serialize(complete), self.local(complete))
        if is_destination(queue):
            if stored.packet.user.flags & USER_SH:
                drafts.signed[len(drafts.packets)] = stored
        elif stored.local.private:
            self._check_privacy(complete)
        drafts.add(
            stored.packet.data, Kind.of(stored.packet, stored.local), complete.acknowledgements_requested
        )
        return complete.identifier.ordinal

    def template(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        caller: Token | None,
        *,
        covered: bool,
        alone: bool = False,
    ) -> Template | None:
        """The template of a message, for callers that fill in and keep templates themselves. ``covered`` means that
        its messages are in a transaction. None if the packet depends on more than a template holds."""
        queue = self._queue(descriptor)
        address = queue_manager_of(self.core, queue)
        message.check()
        number = 1 if covered else 0
        complete = self.complete(message, descriptor.format_name, address, number, caller, alone=alone)
        return Template.of(complete, self.local(complete)) if suits(complete) else None

    @staticmethod
    def _queue(descriptor: OpenQueueDescriptor) -> Queue:
        if descriptor.queue is None:
            raise QueueNotAvailableError(f"{descriptor.format_name} was deleted.")
        return descriptor.queue

    def _remember(self, key: tuple[object, ...], complete: Message) -> Template:
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        template = self._templates[key] = Template.of(complete, self.local(complete))
        return template

    # --- sending --------------------------------------------------------------------------------------------

    def post(
        self,
        descriptor: OpenQueueDescriptor,
        drafts: Drafts,
        transaction: Transaction | None = None,
        caller: Token | None = None,
    ) -> Posted:
        """Put messages into the queue of a descriptor. Returns the errors of those that are refused."""
        queue, name, now_s = self._queue(descriptor), descriptor.format_name, self.core.now_s
        batch = batch_of(drafts.packets, drafts.kinds, drafts.asks, now_s)
        if not is_destination(queue):
            statuses, lookup_ids = self.sending.enqueue(queue, batch, transaction)
            errors: dict[int, MQError] = {
                index: InsufficientResourcesError(
                    full(self.core, queue, batch.sizes[index])
                    or f"{name} takes no more messages: {status.name}."
                )
                for index, status in compress(enumerate(statuses), statuses)
            }
            return Posted(lookup_ids, errors)
        refused = self._examine(drafts, batch)
        delivery = self.sending.deliver(queue, batch, caller, transaction, refused=refused)
        self._journal(batch, delivery.fates, transaction)
        errors = {
            index: self._refusal(queue, name, fate, batch.sizes[index], caller)
            for index, fate in enumerate(delivery.fates)
            if fate is not REACHED
        }
        return Posted(delivery.lookup_ids, errors)

    def _refusal(
        self, queue: Queue, name: str, fate: MessageClass, size: int, caller: Token | None
    ) -> MQError:
        """The error for a message that a queue of this host refuses, with what can be done about it."""
        told = ""
        if fate is MessageClass.NACK_Q_EXCEED_QUOTA:
            told = full(self.core, queue, size)
        elif fate is MessageClass.NACK_ACCESS_DENIED:
            try:
                self.sending.guard.check_queue(caller, queue, QueueOperation.WRITE_MESSAGE)
            except AccessDeniedError as error:
                return error
        return _REFUSED.get(fate, InvalidHandleError)(told or f"{name} refuses this message: {fate.name}.")

    def _examine(self, drafts: Drafts, batch: Batch) -> dict[int, MessageClass]:
        """Examine signed messages of this host like arriving ones; the rights of their caller were checked before."""
        refused: dict[int, MessageClass] = {}
        for index, stored in drafts.signed.items():
            try:
                self.credentials.examine(stored)
            except MessageRejectedError as error:
                refused[index] = error.message_class
            batch.replace(index, stored)
        return refused

    def _journal(self, batch: Batch, fates: Sequence[MessageClass], transaction: Transaction | None) -> None:
        """Source journaling for messages to queues of this host: make the copies that senders asked for, here or with
        the commit of their transaction."""
        copied = []
        for index, flags in enumerate(batch.user_flags):
            if not flags & _JOURNALED:
                continue
            if fates[index] is REACHED:
                if flags & POSITIVE_JOURNALING and transaction is None:
                    copied.append(index)
            elif flags & NEGATIVE_JOURNALING:
                refused = messages_of(batch, [0] * len(batch), (index,), self.core.now_s)
                self.sending.dead_letter_copies(refused, fates[index])
        if copied:
            self.sending.journal_sent(batch.only(copied))

    def _check_privacy(self, message: Message) -> None:
        if message.destination_queue_type is DestinationQueueType.DIRECT_QUEUE:
            raise UnsupportedFormatnameOperationError(
                f"{message.destination_queue_format_name} is a direct name, which does not say whose key a body is to "
                "be encrypted with."
            )
        self.credentials.check_privacy(message)

    def complete(
        self,
        message: Message,
        destination: str,
        address: bytes,
        transaction: int,
        caller: Token | None,
        *,
        alone: bool = False,
    ) -> Message:
        """Complete a message with what only the queue manager knows. ``transaction`` is the number of its transaction,
        or 0; a message that is ``alone`` in it is its first and its last."""
        core = self.core
        complete = replace(
            message,
            destination_queue_format_name=destination,
            destination_queue_manager_identifier=address,
            identifier=MessageIdentifier(core.record.identifier, core.next_message_ordinal()),
            sent_time=core.now_s,
            time_to_reach_queue_s=self._time_to_reach_queue_s(message),
        )
        if caller is not None and not complete.sender_identifier:
            complete.sender_identifier = caller.user.encode()
            complete.sender_identifier_type = SenderIdentifierType.SID
        if transaction:
            complete.transaction_identifier = transaction
            complete.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            complete.priority = 0
        if alone:
            complete.first_in_transaction = complete.last_in_transaction = True
        return complete

    def _time_to_reach_queue_s(self, message: Message) -> int:
        return self.time_to_reach_queue_s(message.time_to_reach_queue_s)

    def time_to_reach_queue_s(self, asked_s: int) -> int:
        """The time limit of a message; one with the general default gets the enterprise's."""
        return self.core.time_to_reach_queue_s(None if asked_s == DEFAULT_TIME_TO_REACH_QUEUE_S else asked_s)

    @staticmethod
    def local(message: Message) -> LocalAttributes:
        """The local attributes of a message, which no header carries."""
        return LocalAttributes(
            allow_peek_when_locked=message.allow_peek_when_locked,
            private=message.privacy_level != PrivacyLevel.NONE,
            application_deadletter_queue=message.application_deadletter_queue,
        )
