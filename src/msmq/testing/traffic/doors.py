"""Convert a draft for each door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msmq.client.message import Acknowledge
from msmq.client.message import Delivery as ClientDelivery
from msmq.client.message import Message as ClientMessage
from msmq.manager.messages.message import (
    AcknowledgementsRequested,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
)
from msmq.manager.messages.serialize import serialize
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S
from msmq.testing.traffic.draft import Delivery, Draft, Surroundings
from msmq.wire.headers import INFINITE, NULL_GUID, PrivateQueueFormatName, QueueReference, UserHeader
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType

_CLIENT_DELIVERY = {
    Delivery.EXPRESS: ClientDelivery.EXPRESS,
    Delivery.RECOVERABLE: ClientDelivery.RECOVERABLE,
    Delivery.TRANSACTIONAL: ClientDelivery.TRANSACTIONAL,
}


def properties_of(draft: Draft) -> Message:
    """Make the properties for ``manager.posting.send``, which adds the identifier, the time and the transaction."""
    reach_s, receive_s = draft.time_to_reach_queue_s, draft.time_to_be_received_s
    security = draft.security
    message = Message(
        body=draft.body,
        body_type=draft.body_type,
        label=draft.label,
        extension=draft.extension,
        application_tag=draft.application_tag,
        correlation_identifier=draft.correlation_id,
        message_class=draft.message_class,
        priority=draft.priority,
        delivery_guarantee=DeliveryGuarantee(draft.delivery is not Delivery.EXPRESS),
        time_to_reach_queue_s=DEFAULT_TIME_TO_REACH_QUEUE_S if reach_s is None else reach_s,
        time_to_be_received_s=INFINITE if receive_s is None else receive_s,
        acknowledgements_requested=AcknowledgementsRequested(draft.acknowledgements),
        positive_journaling_requested=draft.journal,
        negative_journaling_requested=draft.dead_letter,
        application_deadletter_queue=draft.dead_letter_queue,
        tracing_requested=draft.trace,
        tracing_queue_identifier=draft.tracing_queue,
        administration_queue_format_name=draft.admin_queue,
        response_queue_format_name=draft.response_queue,
        destination_multi_queue_format_name=draft.destination_list,
        administration_multi_queue_format_name=draft.admin_list,
        response_multi_queue_format_name=draft.response_list,
        sender_identifier=security.sender,
        sender_identifier_type=SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER
        if security.sender_is_queue_manager
        else SenderIdentifierType.SID,
        sender_certificate=security.certificate,
        connector_type_identifier=draft.connector_type,
        allow_peek_when_locked=draft.peekable_when_locked,
        soap_header=draft.soap[0],
        soap_body=draft.soap[1],
    )
    if draft.algorithms is not None:
        message.hash_algorithm, message.encryption_algorithm = draft.algorithms
    return message


def client_message(draft: Draft) -> ClientMessage:
    """Make a message for a sender of the Python client, which is opened for ``draft.destination``."""
    return ClientMessage(
        body=draft.body,
        body_type=draft.body_type,
        label=draft.label,
        delivery=_CLIENT_DELIVERY[draft.delivery],
        priority=draft.priority,
        correlation_id=draft.correlation_id,
        response_queue=draft.response_queue,
        admin_queue=draft.admin_queue,
        acknowledgements=Acknowledge(draft.acknowledgements),
        time_to_reach_queue=draft.time_to_reach_queue_s,
        time_to_be_received=draft.time_to_be_received_s,
        journal=draft.journal,
        dead_letter=draft.dead_letter,
        dead_letter_queue=draft.dead_letter_queue,
        extension=draft.extension,
        application_tag=draft.application_tag,
        message_class=draft.message_class,
        trace=draft.trace,
        peekable_when_locked=draft.peekable_when_locked,
        sender_certificate=draft.security.certificate,
        connector_type=b"" if draft.connector_type == NULL_GUID else draft.connector_type,
    )


class WireSender:
    """A host that writes drafts as packets, with its own numbers and its own sequence of transactional messages."""

    def __init__(self, surroundings: Surroundings, now: Callable[[], int], sequence: TxSequenceID) -> None:
        """``sequence`` is the TxSequenceID that its messages carry; ``now`` returns SentTime."""
        self.surroundings = surroundings
        self._now = now
        self._sequence = sequence
        self._ordinal = 0
        self._number = 0
        self._transaction = 0

    def packet(self, draft: Draft) -> UserMessage:
        """Make the packet of one message; a transactional one is a whole transaction."""
        return self.packets([draft])[0]

    def packets(self, drafts: Sequence[Draft]) -> list[UserMessage]:
        """Make the packets of several messages. The transactional ones belong to one transaction."""
        transactional = [draft for draft in drafts if draft.transactional]
        self._transaction = self._transaction + 1 & 0xFFFFF
        return [
            self._packet(
                draft,
                first=bool(transactional) and draft is transactional[0],
                last=bool(transactional) and draft is transactional[-1],
            )
            for draft in drafts
        ]

    def _packet(self, draft: Draft, *, first: bool, last: bool) -> UserMessage:
        self._ordinal += 1
        message = replace(
            properties_of(draft),
            destination_queue_format_name=draft.destination,
            destination_queue_manager_identifier=self.surroundings.host,
            identifier=MessageIdentifier(self.surroundings.source, self._ordinal),
            sent_time=self._now(),
        )
        if draft.transactional:
            message.transaction_identifier = self._transaction
            message.transactional_message_sequence_identifier = self._sequence
            message.transaction_previous_sequence_number = self._number
            self._number += 1
            message.transaction_sequence_number = self._number
            message.first_in_transaction, message.last_in_transaction = first, last
            message.final_ack_required = draft.final_ack_required
            message.connector_queue_manager_identifier = draft.connector_queue_manager
        if draft.security.signed:
            self._sign(message)
        return _in_its_own_words(serialize(message), draft)

    def _sign(self, message: Message) -> None:
        signer = self.surroundings.signer
        assert signer is not None
        message.sender_certificate = signer.certificate
        message.hash_algorithm = signer.hash_algorithm
        if message.destination_multi_queue_format_name:
            message.multiple_destination_signature = signer.sign(serialize(message), SignatureType.MSMQ_3_0)
        else:
            message.signature = signer.sign(serialize(message), SignatureType.MSMQ_2_0)


def _in_its_own_words(packet: UserMessage, draft: Draft) -> UserMessage:
    """Rewrite the packet as other programs may write it, and with the hops that it has made."""
    if not (draft.hops or draft.spelled_out or draft.spare_room or any(draft.numbers)):
        return packet
    user, properties = packet.user, packet.properties
    user.hop_count = draft.hops
    if draft.spelled_out:
        _spell_out(user)
    admin, response = draft.numbers
    if admin:
        user.admin_reference, user.admin_queue = QueueReference.PRIVATE_ON_DESTINATION, admin
    if response:
        user.response_reference, user.response_queue = QueueReference.PRIVATE_ON_DESTINATION, response
    properties.allocation_body_size = len(packet.body) + draft.spare_room
    rare = packet.rare
    return UserMessage.build(
        base=packet.base,
        user=user,
        properties=properties,
        label=packet.label,
        extension=packet.extension,
        body=packet.body,
        transaction=packet.transaction,
        security=packet.security,
        debug=rare.debug,
        soap=rare.soap,
        multi_queue=rare.multi_queue,
    )


def _spell_out(user: UserHeader) -> None:
    """Name the hosts of private queues, which most senders omit where the packet names them anyway."""
    response_host = user.host_of(user.response_reference, user.response_queue)
    if isinstance(user.response_queue, int) and response_host is not None:
        user.response_queue = PrivateQueueFormatName(response_host, user.response_queue)
        user.response_reference = QueueReference.PRIVATE_ELSEWHERE
    admin_host = user.host_of(user.admin_reference, user.admin_queue)
    if isinstance(user.admin_queue, int) and admin_host is not None:
        user.admin_queue = PrivateQueueFormatName(admin_host, user.admin_queue)
        user.admin_reference = QueueReference.PRIVATE_ELSEWHERE
