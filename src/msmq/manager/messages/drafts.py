"""Enqueue Message To An Open Queue (MS-MQDMPR 3.1.7.1.27): turning an application's message into packets.

The queue manager completes the message with its sender, time, number and transaction. A name with several elements
makes one copy for each, all of them listing every destination. A copy for a queue of this host arrives at once; one
for another host waits in its outgoing queue.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, Final

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
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes, StoredMessage
from msmq.manager.messages.delivery import REACHED, Sending, messages_of
from msmq.manager.messages.message import (
    DeliveryGuarantee,
    DestinationQueueType,
    Message,
    SenderIdentifierType,
)
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.template import (
    HIGHEST_PRIORITY,
    Template,
    kind_of,
    options,
    refuse,
    suits,
    write_packets,
)
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueAccessType
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

    packets: list[bytes] = field(default_factory=list)
    user_flags: list[int] = field(default_factory=list)
    base_flags: list[int] = field(default_factory=list)
    to_reach_s: list[int] = field(default_factory=list)
    """The seconds each may take to its queue, and below, in which it may be received."""
    to_be_received_s: list[int] = field(default_factory=list)
    asks: list[int] = field(default_factory=list)
    """The acknowledgments that each asks for."""
    local: dict[int, LocalAttributes] = field(default_factory=dict)
    """By index, the attributes of those that have any."""
    signed: dict[int, StoredMessage] = field(default_factory=dict)
    """By index, messages that have to be examined as those of strangers are."""

    def add(
        self,
        packet: bytes,
        user_flags: int,
        base_flags: int,
        to_reach_s: int,
        to_be_received_s: int,
        asks: int,
        local: LocalAttributes,
    ) -> None:
        if local.has_any:
            self.local[len(self.packets)] = local
        self.packets.append(packet)
        self.user_flags.append(user_flags)
        self.base_flags.append(base_flags)
        self.to_reach_s.append(to_reach_s)
        self.to_be_received_s.append(to_be_received_s)
        self.asks.append(asks)

    def replace(self, index: int, other: Drafts) -> None:
        """Put the one message of other drafts in the place of one of these."""
        for own, others in zip(self._columns, other._columns, strict=True):
            own[index] = others[0]
        self.local.pop(index, None)
        if other.local:
            self.local[index] = other.local[0]
        if other.signed:
            self.signed[index] = other.signed[0]

    def without(self, indices: Collection[int]) -> Drafts:
        """The messages that are left without those with these indices."""
        left = [index for index in range(len(self.packets)) if index not in indices]
        places = {old: new for new, old in enumerate(left)}
        drafts = Drafts()
        for own, others in zip(drafts._columns, self._columns, strict=True):
            own += [others[index] for index in left]
        drafts.local = {places[index]: kept for index, kept in self.local.items() if index in places}
        drafts.signed = {places[index]: kept for index, kept in self.signed.items() if index in places}
        return drafts

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return (
            self.packets, self.user_flags, self.base_flags, self.to_reach_s, self.to_be_received_s, self.asks
        )  # fmt: skip

    def batch(self, now_s: int) -> Batch:
        """As packets of this host that are sent now."""
        return Batch(
            self.packets,
            self.user_flags,
            self.base_flags,
            seconds_after(now_s, self.to_be_received_s),
            seconds_after(now_s, self.to_reach_s),
            self.asks,
            bytes(map(our_marks_of, self.user_flags, self.asks)),
            self.local,
        )


@dataclass(eq=False, slots=True)
class Posted:
    """The results of sending drafts: lookup identifiers, 0 where there is an error, and the errors by index."""

    lookup_ids: list[int]
    errors: dict[int, MQError]


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
            drafts = Drafts()
            self.draft(drafts, child, message, transaction, caller, signer, alone=alone)
            posted = self.post(child, drafts, transaction, caller)
            if posted.errors:
                raise posted.errors[0]
            packet, local = UserMessage.route(drafts.packets[0]), drafts.local.get(0, LocalAttributes())
            copies.append(StoredMessage(packet, local, posted.lookup_ids[0], self.core.now_s))
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
            covered,
            alone,
            None if caller is None else caller.user,
            message.transaction_identifier is None,
            kind_of(message),
        )
        template = self._templates.get(key)
        number = self.sending.transactions.number_of(transaction) if covered else 0
        if template is None or not 0 <= message.priority <= HIGHEST_PRIORITY:
            message.check()
            complete = self.complete(message, name, address, number, caller, alone=alone)
            if not suits(complete):
                return self._draft_special(drafts, queue, complete, caller, signer)
            template = self._remember(key, complete)
        ordinal = core.next_message_ordinal()
        user_flags = template.user_flags | options(
            recoverable=covered or bool(message.delivery_guarantee),
            negative_journaling=message.negative_journaling_requested,
            positive_journaling=message.positive_journaling_requested,
        )
        base_flags = template.base_flags | (0 if covered else message.priority)
        (reach_s,) = core.times_to_reach_queue_s((message.time_to_reach_queue_s,))
        receive_s, asks = message.time_to_be_received_s, message.acknowledgements_requested
        row = (
            template.form, ordinal, number, user_flags, base_flags, reach_s, receive_s, asks, message.body,
            message.body_type, message.label, message.extension, message.application_tag,
            message.correlation_identifier, message.message_class,
        )  # fmt: skip
        (packet,) = write_packets((row,), core.now_s, refuse)
        drafts.add(packet, user_flags, base_flags, reach_s, receive_s, asks, self.local(message))
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
        base, user = stored.packet.base, stored.packet.user
        drafts.add(
            stored.packet.data,
            user.flags,
            base.flags,
            base.time_to_reach_queue_s,
            user.time_to_be_received_s,
            complete.acknowledgements_requested,
            stored.local,
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
        return Template.of(complete) if suits(complete) else None

    @staticmethod
    def _queue(descriptor: OpenQueueDescriptor) -> Queue:
        if descriptor.queue is None:
            raise QueueNotAvailableError(f"{descriptor.format_name} was deleted.")
        return descriptor.queue

    def _remember(self, key: tuple[object, ...], complete: Message) -> Template:
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        template = self._templates[key] = Template.of(complete)
        return template

    # --- sending --------------------------------------------------------------------------------------------

    def post(
        self,
        descriptor: OpenQueueDescriptor,
        drafts: Drafts,
        transaction: Transaction | None = None,
        caller: Token | None = None,
    ) -> Posted:
        """Put messages into the queue that a descriptor stands for, or tell why they are refused."""
        queue, name = self._queue(descriptor), descriptor.format_name
        batch = drafts.batch(self.core.now_s)
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
        (reach_s,) = core.times_to_reach_queue_s((message.time_to_reach_queue_s,))
        complete = replace(
            message,
            destination_queue_format_name=destination,
            destination_queue_manager_identifier=address,
            identifier=MessageIdentifier(core.record.identifier, core.next_message_ordinal()),
            sent_time=core.now_s,
            time_to_reach_queue_s=reach_s,
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

    @staticmethod
    def local(message: Message) -> LocalAttributes:
        """What no header carries."""
        if not (
            message.allow_peek_when_locked or message.privacy_level or message.application_deadletter_queue
        ):
            return NO_ATTRIBUTES
        return LocalAttributes(
            allow_peek_when_locked=message.allow_peek_when_locked,
            private=message.privacy_level != PrivacyLevel.NONE,
            application_deadletter_queue=message.application_deadletter_queue,
        )
