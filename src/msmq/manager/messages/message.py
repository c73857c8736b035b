"""Message (MS-MQDMPR 3.1.1.12): everything that is known of a message, by its names in the data model.

This is a message as applications write and read it. Queues keep the packet instead
(:mod:`msmq.manager.mailbox.stored`); :mod:`msmq.manager.messages.serialize` turns one into the other. Enumerations have
the numbers their header fields have, so that they travel as they are; a number that no table knows stays an int.

Format names are text. The form of a name in a packet, and the three-bit reference that tells its kind, follow from the
text and from the hosts a packet names; :func:`carried` and :meth:`Message.coded_names` compute them. The queue types
of the data model are those references under other names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msmq.errors import (
    IllegalFormatnameError,
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    LabelTooLongError,
)
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S
from msmq.security import providers
from msmq.security.sid import ANONYMOUS, EVERYONE, Sid
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass, is_application_class
from msmq.wire.declare import bytes_of
from msmq.wire.headers import (
    DEFAULT_PRIORITY,
    INFINITE,
    MAX_LABEL_LENGTH,
    NULL_GUID,
    PrivateQueueFormatName,
    QueueName,
    QueueReference,
    reference_for,
)
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from msmq.wire.multi_queue import DistributionListName, MQFElement
from msmq.wire.names import DistributionListName as DistributionListFormatName
from msmq.wire.names import MultipleElementName, PrivateName, PublicName, SuffixType, parse_format_name

if TYPE_CHECKING:
    from msmq.manager.queues.queue import MessagePosition

MAX_LABEL_CHARACTERS: Final = MAX_LABEL_LENGTH - 1
SYSTEM_PROVIDER_TYPE: Final = 1
SYSTEM_PROVIDER_NAME: Final = providers.BASE
"""The provider that signs for the messaging system. The section puts a comma before v1.0; the provider's name has
none."""


class SenderMessageClass(IntEnum):
    """Message classes for events on the sender's host, which MS-MQMQ 2.2.18.1.6 does not list.

    The numbers are those of the MQMSG_CLASS constants in the public Windows SDK (mq.h).
    """

    NACK_COULD_NOT_ENCRYPT = 0x8008
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003


class DeliveryGuarantee(IntEnum):
    """Whether a message outlives an interruption of the service; UserHeader.Flags.DM."""

    EXPRESS = 0
    RECOVERABLE = 1


class AuthenticationLevel(IntEnum):
    """How a message is to be signed, or which signature was verified; a packet's own claim never counts.

    No packet has an XML signature; its number is MQMSG_AUTHENTICATED_SIGXML of the public Windows SDK (mq.h).
    """

    NONE = 0
    SIG10 = 1
    SIG20 = 3
    SIG30 = 5
    XML_SIG = 9


class AcknowledgementsRequested(IntFlag):
    """Which acknowledgments the sender wants: the bits PA, PR, NA and NR of MessagePropertiesHeader.Flags."""

    NONE = 0
    ACK_POS_ARRIVAL = 0x1
    ACK_POS_RECEIVE = 0x2
    ACK_NEG_ARRIVAL = 0x4
    ACK_NEG_RECEIVE = 0x8
    ACK_NACK_REACH_QUEUE = ACK_NEG_ARRIVAL
    ACK_FULL_REACH_QUEUE = ACK_POS_ARRIVAL | ACK_NEG_ARRIVAL
    ACK_NACK_RECEIVE = ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE
    ACK_FULL_RECEIVE = ACK_POS_RECEIVE | ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE


class DestinationQueueType(IntEnum):
    """UserHeader.Flags.DQ."""

    PRIVATE_QUEUE = QueueReference.PRIVATE_ON_DESTINATION
    PUBLIC_QUEUE = QueueReference.PUBLIC
    DIRECT_QUEUE = QueueReference.DIRECT


class SenderIdentifierType(IntEnum):
    """What SenderIdentifier holds; SecurityHeader.Flags.ST."""

    NONE = 0
    SID = 1
    QUEUE_MANAGER_IDENTIFIER = 2


def sender_sid(kind: int, identifier: bytes) -> Sid:
    """The SID to check access for. A sender without an identifier is the anonymous user.

    Other queue managers count as Everyone (MS-MQQB 3.1.5.8.3).
    """
    if kind == SenderIdentifierType.SID and identifier:
        return Sid.decode(identifier)
    return EVERYONE if kind == SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER else ANONYMOUS


# --- names ------------------------------------------------------------------------------------------------


def carried(text: str) -> MQFElement:
    """The form of a format name in a packet. A direct name is unchanged, even if it is not valid."""
    prefix, _, rest = text.partition("=")
    if prefix.upper() == "DIRECT":
        return rest
    name = parse_format_name(text)
    if isinstance(name, DistributionListFormatName):
        return DistributionListName(name.guid)
    if isinstance(name, PublicName) and name.suffix is SuffixType.NONE:
        return name.queue
    if isinstance(name, PrivateName) and name.suffix is SuffixType.NONE:
        return PrivateQueueFormatName(name.computer, name.queue_id)
    raise IllegalFormatnameError(f"A message cannot carry {text}.")


class CodedName(NamedTuple):
    """A queue name as it is in a UserHeader."""

    reference: QueueReference
    name: QueueName


class CodedNames(NamedTuple):
    """The three names of a UserHeader and the QueueManagerAddress they are relative to."""

    queue_manager_address: bytes
    destination: CodedName
    administration: CodedName
    response: CodedName


_SingleName: TypeAlias = str | bytes | PrivateQueueFormatName | None


def _single(text: str) -> _SingleName:
    name = carried(text) if text else None
    if isinstance(name, DistributionListName):
        raise IllegalFormatnameError(f"{text} is a list; it can only be one of several names.")
    return name


def _coded(name: _SingleName, hosts: dict[bytes, QueueReference]) -> CodedName:
    """``hosts`` are those that the packet names already; a private queue of one of them is written as its number."""
    if isinstance(name, PrivateQueueFormatName) and name.source_queue_manager in hosts:
        return CodedName(hosts[name.source_queue_manager], name.private_queue_identifier)
    return CodedName(reference_for(name, QueueReference.NONE), name)


# --- the message ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Message:
    """One message. GUIDs are sixteen bytes, times are seconds since 1970 UTC, empty names are empty text.

    Attributes of the data model that are not fields here follow from others: SourceMachineIdentifier is the
    lineage of the identifier, the queue types follow from the names.
    """

    # What the application says
    body: bytes = b""
    body_type: int = 0
    label: str = ""
    extension: bytes = b""
    application_tag: int = 0
    correlation_identifier: bytes = bytes(20)
    """OBJECTID as its twenty bytes; it is the application's and not looked into."""
    message_class: int = MessageClass.NORMAL
    """Class: a :class:`MessageClass`, a :class:`SenderMessageClass`, or an application's own number."""
    priority: int = DEFAULT_PRIORITY
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXPRESS
    time_to_reach_queue_s: int = DEFAULT_TIME_TO_REACH_QUEUE_S
    time_to_be_received_s: int = INFINITE
    acknowledgements_requested: AcknowledgementsRequested = AcknowledgementsRequested.NONE
    positive_journaling_requested: bool = False
    negative_journaling_requested: bool = False
    application_deadletter_queue: str = ""
    tracing_requested: bool = False
    tracing_queue_identifier: bytes = NULL_GUID

    # Queues
    destination_queue_format_name: str = ""
    administration_queue_format_name: str = ""
    response_queue_format_name: str = ""
    destination_multi_queue_format_name: tuple[str, ...] = ()
    administration_multi_queue_format_name: tuple[str, ...] = ()
    response_multi_queue_format_name: tuple[str, ...] = ()
    destination_queue_manager_identifier: bytes = NULL_GUID
    """Needed for a public destination; a private name has its host, and a direct one has none."""

    # Security
    sender_identifier: bytes = b""
    sender_identifier_type: SenderIdentifierType = SenderIdentifierType.SID
    sender_certificate: bytes = b""
    authentication_level: AuthenticationLevel = AuthenticationLevel.NONE
    hash_algorithm: int = HashAlgorithm.SHA1
    signature: bytes = b""
    multiple_destination_signature: bytes = b""
    authentication_provider_type: int = SYSTEM_PROVIDER_TYPE
    authentication_provider_name: str = SYSTEM_PROVIDER_NAME
    privacy_level: int = PrivacyLevel.NONE
    encryption_algorithm: int = EncryptionAlgorithm.RC4
    symmetric_key: bytes = b""

    # Transactions
    transaction_identifier: int | None = None
    """The transaction number of twenty bits in the packet, None for a message that is not transactional. It tells
    which messages belong together and never names a transaction of this host."""
    transactional_message_sequence_identifier: TxSequenceID | None = None
    transaction_sequence_number: int = 1
    transaction_previous_sequence_number: int = 0
    first_in_transaction: bool = False
    last_in_transaction: bool = False
    final_ack_required: bool = False
    transaction_status_queue_format_name: str = ""
    connector_type_identifier: bytes = NULL_GUID
    connector_queue_manager_identifier: bytes = NULL_GUID

    # What SRMP transfer brought
    soap_envelope: str = ""
    soap_compound_message: bytes = b""
    """The whole HTTP body, including attachments, which need not be text."""
    soap_body: str = ""
    soap_header: str = ""

    # What queue managers say
    identifier: MessageIdentifier = field(default_factory=lambda: MessageIdentifier(NULL_GUID, 0))
    sent_time: int = 0
    arrival_time: int = 0
    lookup_identifier: int = 0
    allow_peek_when_locked: bool = False
    message_position_reference: MessagePosition | None = None

    @property
    def source_machine_identifier(self) -> bytes:
        """The queue manager that took the message from its application."""
        return self.identifier.queue_manager_guid

    @property
    def sender(self) -> Sid:
        """The SID to check access for; only as trustworthy as the authentication level."""
        return sender_sid(self.sender_identifier_type, self.sender_identifier)

    # --- names ---------------------------------------------------------------------------------------------

    def coded_names(self) -> CodedNames:
        """The names as a UserHeader has them, each in the shortest form there is for it."""
        destination = _single(self.destination_queue_format_name)
        administration = _single(self.administration_queue_format_name)
        response = _single(self.response_queue_format_name)
        address = self.destination_queue_manager_identifier
        hosts: dict[bytes, QueueReference] = {}
        if isinstance(destination, str):  # its host's GUID is not known
            address = NULL_GUID
        else:
            if isinstance(destination, PrivateQueueFormatName):
                address = destination.source_queue_manager
            hosts[address] = QueueReference.PRIVATE_ON_DESTINATION
        coded_destination = _coded(destination, hosts)
        hosts[self.source_machine_identifier] = QueueReference.PRIVATE_ON_SOURCE
        coded_administration = _coded(administration, hosts)
        if response is not None and response == administration:
            coded_response = CodedName(QueueReference.SAME_AS_ADMIN, None)
        else:
            if isinstance(administration, PrivateQueueFormatName):
                hosts.setdefault(administration.source_queue_manager, QueueReference.PRIVATE_ON_ADMIN_HOST)
            coded_response = _coded(response, hosts)
        return CodedNames(address, coded_destination, coded_administration, coded_response)

    @property
    def destination_queue_type(self) -> DestinationQueueType | None:
        """The type of the destination, or None if there is none yet."""
        reference = self.coded_names().destination.reference
        return DestinationQueueType(reference) if reference else None

    # --- what a sender may say -----------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse what no application may send, with the status that names the problem."""
        if len(bytes_of(self.label)) > 2 * MAX_LABEL_CHARACTERS:
            raise LabelTooLongError
        if "\0" in self.label:
            raise IllegalPropertyValueError("A label holds no null character.")
        if not is_application_class(self.message_class):
            raise IllegalPropertyValueError(f"The class {self.message_class:#06x} uses bits outside 0xe1ff.")
        for name, limit in _LIMITS.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise IllegalPropertyValueError(f"{name} is {value}; it goes from 0 to {limit}.")
        for name, size in _SIZES.items():
            if len(getattr(self, name)) != size:
                raise IllegalPropertySizeError(f"{name} is {size} bytes long.")
        for name, numbers in _TABLES.items():
            if getattr(self, name) not in numbers:
                raise IllegalPropertyValueError(f"{name} cannot be {getattr(self, name):#x}.")
        self._check_names()

    def _check_names(self) -> None:
        """Check that every name is a single valid name that a packet can carry."""
        singles = (
            self.destination_queue_format_name,
            self.administration_queue_format_name,
            self.response_queue_format_name,
        )
        lists = (
            *self.destination_multi_queue_format_name,
            *self.administration_multi_queue_format_name,
            *self.response_multi_queue_format_name,
        )
        for text in (*filter(None, singles), *lists):
            if isinstance(parse_format_name(text), MultipleElementName):
                raise IllegalFormatnameError(f"{text} is several names where one is wanted.")
            carried(text)
        self.coded_names()


_LIMITS: Final = {
    "priority": 7,
    "body_type": 0xFFFFFFFF,
    "application_tag": 0xFFFFFFFF,
    "time_to_reach_queue_s": INFINITE,
    "time_to_be_received_s": INFINITE,
    "acknowledgements_requested": 0xF,
    "authentication_provider_type": 0xFFFFFFFF,
}
_SIZES: Final = {
    "correlation_identifier": 20,
    "tracing_queue_identifier": 16,
    "destination_queue_manager_identifier": 16,
    "connector_type_identifier": 16,
    "connector_queue_manager_identifier": 16,
}
_TABLES: Final = {
    "privacy_level": frozenset(PrivacyLevel),
    "hash_algorithm": frozenset(HashAlgorithm),
    "encryption_algorithm": frozenset(EncryptionAlgorithm),
}
