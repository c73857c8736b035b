"""Enqueue Message To An Open Queue (MS-MQDMPR 3.1.7.1.27): what an application's send becomes.

The queue manager completes the message: who sent it, when, under which number, in which transaction. A name with
several elements makes one copy for each, all of them listing every destination. A copy for a queue of this host
arrives at once; one for another host waits in its outgoing queue.
"""

from __future__ import annotations

from dataclasses import replace
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
from msmq.manager.core import Core
from msmq.manager.credentials import Credentials
from msmq.manager.message import DeliveryGuarantee, DestinationQueueType, Message, SenderIdentifierType
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S, QueueAccessType
from msmq.manager.outgoing_queues import queue_manager_of
from msmq.manager.placing import is_destination
from msmq.manager.queue import OpenQueueDescriptor, Queue
from msmq.manager.sending import Sending
from msmq.manager.serialize import serialize
from msmq.manager.stored import LocalAttributes, StoredMessage
from msmq.manager.template import Template, kind_of, suits
from msmq.manager.transactions import Transaction
from msmq.security.access import Token
from msmq.security.leaving import Signer
from msmq.security.rejections import MessageRejectedError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_SH
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.properties.queue import accepts_transaction

_MOST_TEMPLATES: Final = 256
_JOURNALED: Final = 0x300
"""Flags.JN and Flags.JP of a UserHeader."""
_REFUSED: dict[MessageClass, type[MQError]] = {
    MessageClass.NACK_Q_EXCEED_QUOTA: InsufficientResourcesError,
    MessageClass.NACK_ACCESS_DENIED: AccessDeniedError,
    MessageClass.NACK_BAD_SIGNATURE: MessageNotAuthenticatedError,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: MessageNotAuthenticatedError,
    MessageClass.NACK_BAD_ENCRYPTION: BadSecurityContextError,
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: TransactionUsageError,
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: TransactionUsageError,
}
"""What an application is told when a queue of this host refuses its message."""


class Posting:
    """Sends what applications hand over."""

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
    ) -> list[StoredMessage]:
        """Send a message to everything a descriptor stands for; gives the copies that were made.

        ``signer`` signs it if its authentication level asks for that; the queue manager does so for itself.

        The first destination that refuses ends the send with the reason; copies made before stay, unless a
        transaction covers them.
        """
        if descriptor.access_type is not QueueAccessType.SEND:
            raise AccessDeniedError("This queue was not opened for sending.")
        if not descriptor.multiple:
            return [self._send_one(descriptor, message, transaction, caller, signer)]
        message.check()
        listed = replace(
            message,
            destination_multi_queue_format_name=tuple(child.format_name for child in descriptor.children),
        )
        return [self._send_one(child, listed, transaction, caller, signer) for child in descriptor.children]

    def _send_one(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
        caller: Token | None,
        signer: Signer | None,
    ) -> StoredMessage:
        queue = descriptor.queue
        if queue is None:
            raise QueueNotAvailableError(f"{descriptor.format_name} was deleted.")
        name, address = descriptor.format_name, queue_manager_of(self.core, queue)
        kind = self._kind(name, address, message, transaction, caller)
        template = self._templates.get(kind)
        if template is not None and (transaction is not None or message.transaction_identifier is None):
            stored = self._fill(template, message, transaction)
            self.place(name, queue, stored, transaction, caller, unsigned=True)
            return stored
        message.check()
        complete = self.complete(message, name, address, transaction, caller)
        if suits(complete):
            self._remember(kind, complete)
        complete = self.credentials.sign(complete, signer, as_manager=caller is None)
        stored = StoredMessage(serialize(complete), self.local(complete))
        if stored.local.private and not is_destination(queue):
            self._check_privacy(complete)
        self.place(name, queue, stored, transaction, caller)
        return stored

    # Messages that say the same as others before them share a template.

    def _kind(
        self,
        name: str,
        address: bytes,
        message: Message,
        transaction: Transaction | None,
        caller: Token | None,
    ) -> tuple[object, ...]:
        """Everything that the beginning of a packet depends on."""
        return (
            name,
            address,
            self.core.record.identifier,
            self._time_to_reach_queue_s(message),
            transaction is None,
            None if caller is None else caller.user,
            kind_of(message),
        )

    def _remember(self, kind: tuple[object, ...], complete: Message) -> None:
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        self._templates[kind] = Template(complete, self.local(complete))

    def _fill(self, template: Template, message: Message, transaction: Transaction | None) -> StoredMessage:
        core = self.core
        return template.fill(
            core.next_message_ordinal(),
            core.now_s,
            message.body,
            message.body_type,
            message.label,
            message.extension,
            message.application_tag,
            message.correlation_identifier,
            message.message_class,
            message.acknowledgements_requested,
            0 if transaction is None else transaction.number,
        )

    def place(
        self,
        name: str,
        queue: Queue,
        stored: StoredMessage,
        transaction: Transaction | None = None,
        caller: Token | None = None,
        *,
        unsigned: bool = False,
    ) -> None:
        """Put a completed message into the queue that ``name`` stands for here, or tell why it is refused.
        ``unsigned`` says that it certainly has no signature, so that nobody need look for one."""
        if not is_destination(queue):
            status, _ = self.sending.enqueue(queue, stored, transaction)
            if status:
                raise InsufficientResourcesError(f"{name} takes no more messages: {status.name}.")
            return
        deliver = self.sending.deliver if unsigned else self._deliver
        fate = deliver(queue, stored, caller, transaction)
        self._journal(queue, stored, fate, transaction)
        if fate is not MessageClass.ACK_REACH_QUEUE:
            refused = _REFUSED.get(fate, InvalidHandleError)
            raise refused(f"{name} refuses this message: {fate.name}.")

    def _deliver(
        self, queue: Queue, stored: StoredMessage, caller: Token | None, transaction: Transaction | None
    ) -> MessageClass:
        """A signed message of this host is examined like one that arrives; who its caller is was checked before."""
        packet = stored.packet
        if packet.user.flags & USER_SH and accepts_transaction(queue.transactional, packet.transactional):
            try:
                self.credentials.examine(stored)
            except MessageRejectedError as error:
                return self.sending.refuse(queue, stored, error.message_class)
        return self.sending.deliver(queue, stored, caller, transaction)

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
        transaction: Transaction | None,
        caller: Token | None,
    ) -> Message:
        """What only the queue manager knows."""
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
        if transaction is not None:
            complete.transaction_identifier = transaction.number
            complete.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            complete.priority = 0
        return complete

    def _time_to_reach_queue_s(self, message: Message) -> int:
        """A message that was left at the general default takes the enterprise's."""
        asked_s = message.time_to_reach_queue_s
        return self.core.time_to_reach_queue_s(None if asked_s == DEFAULT_TIME_TO_REACH_QUEUE_S else asked_s)

    @staticmethod
    def local(message: Message) -> LocalAttributes:
        """What no header carries."""
        return LocalAttributes(
            allow_peek_when_locked=message.allow_peek_when_locked,
            private=message.privacy_level != PrivacyLevel.NONE,
            application_deadletter_queue=message.application_deadletter_queue,
        )

    def _journal(
        self, queue: Queue, stored: StoredMessage, fate: MessageClass, transaction: Transaction | None
    ) -> None:
        """Source journaling of a message that had no way to go: the copy the sender asked for is made here, or with the
        commit of its transaction."""
        user = stored.packet.user
        if not user.flags & _JOURNALED:
            return
        arrived = fate is MessageClass.ACK_REACH_QUEUE
        if arrived and user.positive_journaling and transaction is None:
            self.sending.journal_sent(stored)
        elif not arrived and user.negative_journaling:
            self.sending.dead_letter_copy(stored, fate)
