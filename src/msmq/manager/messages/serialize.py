"""Conversion between messages and packets (MS-MQDMPR 3.1.7.1.30 to 3.1.7.1.32).

:func:`serialize` is Construct a UserMessage Packet and Serialize Message to Buffer in one: which headers there are
follows from the attributes. :func:`deserialize` is the other way. Attributes that are in the packet come back
unchanged. Others (lookup identifier, arrival time, verified authentication level, dead-letter queue) keep their
defaults; :func:`received` sets them from what is stored beside the packet. The two headers of SRMP are read and not
written: only the transfer that received them could make them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import (
    SYSTEM_PROVIDER_NAME,
    SYSTEM_PROVIDER_TYPE,
    AcknowledgementsRequested,
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
    SenderMessageClass,
    carried,
)
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import element_name, format_name
from msmq.wire.headers import (
    NULL_GUID,
    USER_MP,
    BaseHeader,
    MessagePropertiesHeader,
    QueueName,
    UserHeader,
)
from msmq.wire.identifiers import TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MQFElement, MultiQueueFormatHeader
from msmq.wire.optional_headers import (
    DebugHeader,
    ProviderInfo,
    SecurityHeader,
    SoapHeader,
    TransactionHeader,
)

_CLASSES: Final[dict[int, int]] = {number: number for number in (*MessageClass, *SenderMessageClass)}
_PRIVACY_LEVELS: Final[dict[int, int]] = {level: level for level in PrivacyLevel}
_HASH_ALGORITHMS: Final[dict[int, int]] = {algorithm: algorithm for algorithm in HashAlgorithm}
_ENCRYPTION_ALGORITHMS: Final[dict[int, int]] = {algorithm: algorithm for algorithm in EncryptionAlgorithm}
"""The members of enumerations by number; other numbers stay as they are."""


# --- to a packet ------------------------------------------------------------------------------------------


def serialize(message: Message) -> UserMessage:
    """The packet a message travels in."""
    base = BaseHeader(time_to_reach_queue_s=message.time_to_reach_queue_s)
    base.priority = message.priority
    base.traced = int(message.tracing_requested)
    soap = SoapHeader(message.soap_header, message.soap_body)
    return UserMessage.build(
        base=base,
        user=_user_header(message),
        properties=MessagePropertiesHeader(
            flags=message.acknowledgements_requested,
            message_class=message.message_class,
            correlation_id=message.correlation_identifier,
            body_type=message.body_type,
            application_tag=message.application_tag,
            privacy_level=message.privacy_level,
            hash_algorithm=message.hash_algorithm,
            encryption_algorithm=message.encryption_algorithm,
        ),
        label=message.label,
        extension=message.extension,
        body=message.body,
        transaction=_transaction_header(message),
        security=_security_header(message),
        debug=_debug_header(message),
        soap=soap if soap.header or soap.body else None,
        multi_queue=_multi_queue_header(message),
    )


def _user_header(message: Message) -> UserHeader:
    names = message.coded_names()
    connector_type = message.connector_type_identifier
    return UserHeader(
        source_queue_manager=message.source_machine_identifier,
        queue_manager_address=names.queue_manager_address,
        time_to_be_received_s=message.time_to_be_received_s,
        sent_time=message.sent_time,
        message_id=message.identifier.ordinal,
        flags=USER_MP
        | message.delivery_guarantee << 5
        | message.negative_journaling_requested << 8
        | message.positive_journaling_requested << 9
        | names.destination.reference << 10
        | names.administration.reference << 13
        | names.response.reference << 16,
        destination_queue=names.destination.name,
        admin_queue=names.administration.name,
        response_queue=names.response.name,
        connector_type=connector_type if connector_type != NULL_GUID else None,
    )


def _transaction_header(message: Message) -> TransactionHeader | None:
    if message.transaction_identifier is None:
        return None
    sequence = message.transactional_message_sequence_identifier
    connector = message.connector_queue_manager_identifier
    header = TransactionHeader(
        tx_sequence_id=0 if sequence is None else sequence.number,
        tx_sequence_number=message.transaction_sequence_number,
        previous_tx_sequence_number=message.transaction_previous_sequence_number,
        connector_qm_guid=connector if connector != NULL_GUID else None,
    )
    header.has_connector_qm_guid = int(connector != NULL_GUID)
    header.final_ack_required = int(message.final_ack_required)
    header.first_message = int(message.first_in_transaction)
    header.last_message = int(message.last_in_transaction)
    header.transaction_id = message.transaction_identifier
    return header


def _security_header(message: Message) -> SecurityHeader | None:
    """The SecurityHeader, if there is anything to put into it, such as the sender.

    EB is set if the body is encrypted, which means that there is a key: a body that is still to be encrypted has none.
    AI is set where there is more than the sender, as in the published frame. AU and AS are the receiver's.
    """
    system = (SYSTEM_PROVIDER_TYPE, SYSTEM_PROVIDER_NAME)
    provider = ProviderInfo(message.authentication_provider_type, message.authentication_provider_name)
    header = SecurityHeader(
        security_id=message.sender_identifier,
        encryption_key=message.symmetric_key,
        signature=message.signature,
        sender_cert=message.sender_certificate,
        provider_info=b"" if provider == system else provider.encode(),
    )
    credentials = any((header.encryption_key, header.signature, header.sender_cert, header.provider_info))
    encrypted = bool(message.symmetric_key)
    wanted = encrypted or message.authentication_level is not AuthenticationLevel.NONE
    if not (wanted or credentials or message.sender_identifier):
        return None
    signed = bool(message.signature or message.multiple_destination_signature)
    header.sender_id_type = int(message.sender_identifier_type) if message.sender_identifier else 0
    header.body_encrypted = int(encrypted)
    header.default_provider = int(signed and not header.provider_info)
    header.has_security_data = int(credentials)
    return header


def _debug_header(message: Message) -> DebugHeader | None:
    if message.tracing_queue_identifier != NULL_GUID:
        return DebugHeader(flags=1, queue_identifier=message.tracing_queue_identifier)
    return DebugHeader() if message.tracing_requested else None


def _multi_queue_header(message: Message) -> MultiQueueFormatHeader | None:
    """The header for any of the lists, which no other header can carry."""
    lists = (
        message.destination_multi_queue_format_name,
        message.administration_multi_queue_format_name,
        message.response_multi_queue_format_name,
    )
    if not any(lists) and not message.multiple_destination_signature:
        return None
    destination, administration, response = ([carried(text) for text in names] for names in lists)
    return MultiQueueFormatHeader.of(
        destination, administration, response, message.multiple_destination_signature
    )


# --- from a packet ----------------------------------------------------------------------------------------


def deserialize(packet: UserMessage) -> Message:
    """The message in a packet. Attributes whose header is not there keep their defaults.

    The authentication level is left at None whatever the packet says: only a verified signature sets it.
    """
    base, user, properties = packet.base, packet.user, packet.properties
    message = Message(
        body=packet.body,
        body_type=properties.body_type,
        label=packet.label,
        extension=packet.extension,
        application_tag=properties.application_tag,
        correlation_identifier=properties.correlation_id,
        message_class=_CLASSES.get(properties.message_class, properties.message_class),
        priority=packet.priority,
        delivery_guarantee=DeliveryGuarantee(user.delivery_mode),
        time_to_reach_queue_s=base.time_to_reach_queue_s,
        time_to_be_received_s=user.time_to_be_received_s,
        acknowledgements_requested=AcknowledgementsRequested(properties.flags & 0xF),
        positive_journaling_requested=bool(user.positive_journaling),
        negative_journaling_requested=bool(user.negative_journaling),
        tracing_requested=bool(base.traced),
        destination_queue_format_name=_name(user, user.destination_reference, user.destination_queue),
        administration_queue_format_name=_name(user, user.admin_reference, user.admin_queue),
        response_queue_format_name=_name(user, user.response_reference, user.response_queue),
        destination_queue_manager_identifier=user.queue_manager_address,
        hash_algorithm=_HASH_ALGORITHMS.get(properties.hash_algorithm, properties.hash_algorithm),
        privacy_level=_PRIVACY_LEVELS.get(properties.privacy_level, properties.privacy_level),
        encryption_algorithm=_ENCRYPTION_ALGORITHMS.get(
            properties.encryption_algorithm, properties.encryption_algorithm
        ),
        connector_type_identifier=user.connector_type or NULL_GUID,
        identifier=packet.identifier,
        sent_time=user.sent_time,
    )
    if packet.transaction is not None:
        _read_transaction(message, packet.transaction)
    if packet.security is not None:
        _read_security(message, packet.security)
    _read_rare(message, packet)
    return message


def received(stored: StoredMessage) -> Message:
    """The message as an application reads it: the packet, and what this host knows beside it."""
    message = deserialize(stored.packet)
    message.authentication_level = AuthenticationLevel(stored.local.authentication_level)
    message.allow_peek_when_locked = stored.local.allow_peek_when_locked
    message.application_deadletter_queue = stored.local.application_deadletter_queue
    message.transaction_status_queue_format_name = stored.local.transaction_status_queue
    message.arrival_time = stored.arrival_time
    message.lookup_identifier = stored.lookup_id
    return message


def _name(user: UserHeader, reference: int, name: QueueName) -> str:
    return format_name(user, reference, name) or ""


def _read_transaction(message: Message, header: TransactionHeader) -> None:
    message.transaction_identifier = header.transaction_id
    message.transactional_message_sequence_identifier = TxSequenceID.from_number(header.tx_sequence_id)
    message.transaction_sequence_number = header.tx_sequence_number
    message.transaction_previous_sequence_number = header.previous_tx_sequence_number
    message.first_in_transaction = bool(header.first_message)
    message.last_in_transaction = bool(header.last_message)
    message.final_ack_required = bool(header.final_ack_required)
    message.connector_queue_manager_identifier = header.connector_qm_guid or NULL_GUID


def _read_security(message: Message, header: SecurityHeader) -> None:
    message.sender_identifier = header.security_id
    message.sender_identifier_type = SenderIdentifierType(header.sender_id_type)
    message.symmetric_key = header.encryption_key
    message.signature = header.signature
    message.sender_certificate = header.sender_cert
    if header.provider_info:
        provider = ProviderInfo.decode(header.provider_info)
        message.authentication_provider_type, message.authentication_provider_name = provider


def _read_rare(message: Message, packet: UserMessage) -> None:
    debug, envelope, compound, soap, multi_queue = packet.rare
    if debug is not None:
        message.tracing_queue_identifier = debug.queue_identifier or NULL_GUID
    if envelope is not None:
        message.soap_envelope = envelope.data
    if compound is not None:
        message.soap_compound_message = compound.data
    if soap is not None:
        message.soap_header, message.soap_body = soap.header, soap.body
    if multi_queue is not None:
        message.destination_multi_queue_format_name = _texts(multi_queue.destination.elements)
        message.administration_multi_queue_format_name = _texts(multi_queue.administration.elements)
        message.response_multi_queue_format_name = _texts(multi_queue.response.elements)
        message.multiple_destination_signature = multi_queue.signature.signature


def _texts(elements: Iterable[MQFElement]) -> tuple[str, ...]:
    return tuple(map(element_name, elements))
