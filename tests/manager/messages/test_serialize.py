"""Messages into packets and back: every field of the tables, and nothing that travels is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from msmq.errors import EncodeError, IllegalFormatnameError
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import (
    AcknowledgementsRequested,
    AuthenticationLevel,
    DeliveryGuarantee,
    DestinationQueueType,
    Message,
    SenderIdentifierType,
    SenderMessageClass,
)
from msmq.manager.messages.serialize import deserialize, received, serialize
from msmq.security.encryption import (
    require_privacy_level,
)
from msmq.security.rejections import AuthenticationError
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import (
    NULL_GUID,
    USER_MP,
    BaseHeader,
    MessagePropertiesHeader,
    PrivateQueueFormatName,
    QueueReference,
)
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName, MultiQueueFormatHeader
from msmq.wire.optional_headers import DebugHeader, ProviderInfo, SecurityHeader, TransactionHeader
from msmq.wire.packets import FinalAckBody, build_order_message
from tests.manager.message_strategies import canonical_parts, messages, private
from tests.wire.builders import (
    DESTINATION,
    FRAME_7,
    OTHER,
    QUEUE,
    SID,
    SOURCE,
    USER_FLAGS,
    accept_message,
    bits,
    build,
    message_parts,
    patched_u32,
    refuse,
    user_header,
)

DIRECT = "DIRECT=OS:Host\\PRIVATE$\\Orders"
PUBLIC = f"PUBLIC={guid_text(QUEUE)}"
NAMES = ("OS:Host\\PRIVATE$\\Orders", QUEUE, PrivateQueueFormatName(OTHER, 9), DistributionListName(QUEUE))
NAME_TEXTS = (DIRECT, PUBLIC, f"PRIVATE={guid_text(OTHER)}\\00000009", f"DL={guid_text(QUEUE)}")


def sent(**attributes: Any) -> Message:
    attributes.setdefault("destination_queue_format_name", private(DESTINATION, 7))
    attributes.setdefault("destination_queue_manager_identifier", DESTINATION)
    return Message(identifier=MessageIdentifier(SOURCE, 0x8EE), **attributes)


def transactional(**attributes: Any) -> Message:
    attributes.setdefault("transaction_identifier", 5)
    attributes.setdefault("delivery_guarantee", DeliveryGuarantee.RECOVERABLE)
    return sent(**attributes)


def arrived(message: Message) -> Message:
    """What a receiver makes of a message, its bytes having passed a session's reader."""
    return deserialize(accept_message(serialize(message).data))


# --- which headers there are (Construct a UserMessage Packet) ---------------------------------------------

HEADERS = ("transaction", "security", "debug", "envelope", "compound", "soap", "multi_queue", "session")


def present(packet: UserMessage) -> list[str]:
    return [name for name in HEADERS if getattr(packet, name) is not None]


@pytest.mark.spec("DMPR-3.1.7.1.30-a")
def test_headers_follow_from_the_attributes() -> None:
    everything: dict[str, dict[str, Any]] = {
        "security": {"sender_identifier": SID},
        "debug": {"tracing_requested": True, "tracing_queue_identifier": QUEUE},
        "soap": {"soap_header": "head"},
        "multi_queue": {"destination_multi_queue_format_name": (DIRECT, PUBLIC)},
    }
    assert present(accept_message(serialize(sent()).data)) == []
    for header, attributes in everything.items():
        assert present(accept_message(serialize(sent(**attributes)).data)) == [header]
    attributes = {name: value for part in everything.values() for name, value in part.items()}
    packet = accept_message(serialize(transactional(**attributes)).data)
    assert present(packet) == ["transaction", *everything]


@pytest.mark.spec("DMPR-3.1.7.1.30-b")
def test_a_transactional_message_has_a_transaction_header() -> None:
    packet = serialize(transactional())
    assert packet.user.has_transaction_header
    assert packet.transaction is not None
    assert packet.transaction.transaction_id == 5
    plain = serialize(sent(transaction_sequence_number=9))
    assert not plain.user.has_transaction_header
    assert plain.transaction is None


def test_an_express_message_cannot_be_transactional() -> None:
    with pytest.raises(EncodeError, match="recoverable"):
        serialize(sent(transaction_identifier=1))


@pytest.mark.spec("DMPR-3.1.7.1.30-c")
@pytest.mark.parametrize(
    ("attributes", "encrypted"),
    [
        ({"authentication_level": AuthenticationLevel.SIG20, "signature": b"signed"}, 0),
        ({"privacy_level": PrivacyLevel.ENHANCED, "symmetric_key": b"key"}, 1),
        ({"sender_identifier": SID}, 0),
        ({"sender_certificate": b"certificate"}, 0),
    ],
    ids=["signed", "encrypted", "with its sender", "with a certificate"],
)
def test_messages_with_something_to_secure_have_a_security_header(
    attributes: dict[str, Any], encrypted: int
) -> None:
    packet = accept_message(serialize(sent(**attributes)).data)
    assert packet.user.has_security_header
    assert packet.security is not None
    assert packet.security.body_encrypted == encrypted
    assert serialize(sent()).security is None


def test_a_message_to_be_signed_must_bring_something_for_it() -> None:
    with pytest.raises(EncodeError, match="at least one item"):
        serialize(sent(authentication_level=AuthenticationLevel.SIG10))


def test_a_message_that_is_yet_to_be_encrypted_is_clear() -> None:
    packet = accept_message(serialize(sent(body=b"secret", privacy_level=PrivacyLevel.ADVANCED)).data)
    assert packet.security is None
    assert (packet.body, packet.properties.privacy_level) == (b"secret", PrivacyLevel.ADVANCED)


@pytest.mark.spec("DMPR-3.1.7.1.30-d")
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"correlation_identifier": bytes(range(20))},
        {"body_type": 8},
        {"application_tag": 1},
        {"body": b"body"},
        {"hash_algorithm": HashAlgorithm.MD5},
        {"encryption_algorithm": EncryptionAlgorithm.AES256},
        {"extension": b"extension"},
        {"label": "label"},
        {"privacy_level": PrivacyLevel.BASE, "symmetric_key": b"key"},
    ],
)
def test_every_message_has_a_properties_header(attributes: dict[str, Any]) -> None:
    packet = accept_message(serialize(sent(**attributes)).data)
    assert packet.user.has_message_properties_header
    for name, value in attributes.items():
        assert getattr(deserialize(packet), name) == value


@pytest.mark.spec("DMPR-3.1.7.1.30-e", "DMPR-3.1.7.1.32-c")
def test_a_traced_message_has_a_debug_header() -> None:
    packet = serialize(sent(tracing_requested=True, tracing_queue_identifier=QUEUE))
    assert (packet.base.traced, packet.base.has_debug_header) == (1, 1)
    assert packet.debug is not None
    assert (packet.debug.queue_type, packet.debug.queue_identifier) == (1, QUEUE)
    nowhere = serialize(sent(tracing_requested=True))
    assert (nowhere.base.traced, nowhere.base.has_debug_header) == (1, 1)
    assert nowhere.debug is not None
    assert nowhere.debug.queue_type == 0
    plain = serialize(sent())
    assert (plain.base.traced, plain.base.has_debug_header, plain.debug) == (0, 0, None)


@pytest.mark.spec("DMPR-3.1.7.1.30-f")
def test_a_message_to_several_queues_has_a_multi_queue_header() -> None:
    packet = serialize(sent(destination_multi_queue_format_name=(DIRECT, PUBLIC)))
    assert packet.user.has_multi_queue_format_header
    assert packet.multi_queue is not None
    assert packet.multi_queue.destination.elements == [DIRECT.removeprefix("DIRECT="), QUEUE]
    assert not serialize(sent()).user.has_multi_queue_format_header


# --- fields of the packet (Serialize Message to Buffer) ---------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.32-b")
def test_a_transactional_packet_has_no_priority() -> None:
    assert serialize(transactional(priority=5)).base.priority == 0
    assert serialize(sent(priority=5)).base.priority == 5


def test_a_number_that_fits_no_field_is_refused() -> None:
    with pytest.raises(EncodeError, match="PR"):
        serialize(sent(priority=8))
    with pytest.raises(EncodeError, match="ID"):
        serialize(transactional(transaction_identifier=1 << 20))


def test_a_name_that_no_packet_can_carry_is_refused() -> None:
    for name in (f"{PUBLIC};JOURNAL", f"MACHINE={guid_text(OTHER)};DEADXACT", "MULTICAST=234.1.1.1:8001"):
        with pytest.raises(IllegalFormatnameError):
            serialize(sent(response_queue_format_name=name))


@pytest.mark.spec("DMPR-3.1.7.1.32-d")
def test_lengths_are_counted() -> None:
    properties = serialize(sent(label="ab", body=b"12345", extension=b"123")).properties
    assert (properties.label_length, properties.message_size, properties.extension_size) == (3, 5, 3)
    properties = serialize(sent()).properties
    assert (properties.label_length, properties.message_size, properties.extension_size) == (0, 0, 0)


@pytest.mark.spec("DMPR-3.1.7.1.32-e")
@pytest.mark.parametrize("level", PrivacyLevel)
def test_a_signed_packet_claims_nothing(level: PrivacyLevel) -> None:
    message = sent(
        authentication_level=AuthenticationLevel.SIG30,
        signature=b"signed",
        privacy_level=level,
        symmetric_key=b"key" if level else b"",
    )
    security = accept_message(serialize(message).data).security
    assert security is not None
    assert (security.authenticated, security.authentication_signature_type) == (0, 0)
    assert security.body_encrypted == (level is not PrivacyLevel.NONE)


@pytest.mark.spec("DMPR-3.1.7.1.32-f")
def test_the_default_provider_is_a_bit_and_another_one_is_named() -> None:
    own = serialize(sent(signature=b"signed", sender_certificate=b"certificate")).security
    assert own is not None
    assert (own.default_provider, own.provider_info_size) == (1, 0)
    assert own.sender_cert_size == len(b"certificate")
    message = sent(
        sender_identifier=SID,
        signature=b"signed",
        authentication_provider_type=24,
        authentication_provider_name="Other",
    )
    other = serialize(message).security
    assert other is not None
    assert (other.default_provider, other.sender_cert_size) == (0, 0)
    assert other.provider_info_size == 4 + len("Other\0".encode("utf-16-le"))
    assert arrived(message) == message


# --- fields of the message (Deserialize Message From Buffer) ----------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.31-a")
def test_attributes_of_absent_headers_keep_their_defaults() -> None:
    message = deserialize(build())
    assert message.sender_certificate == message.signature == message.symmetric_key == b""
    assert message.authentication_level is AuthenticationLevel.NONE
    assert message.privacy_level is PrivacyLevel.NONE
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert message.transaction_identifier is None
    assert message.tracing_queue_identifier == NULL_GUID
    assert message.destination_multi_queue_format_name == ()
    assert message == Message(
        destination_queue_format_name="DIRECT=OS:host\\q",
        identifier=MessageIdentifier(SOURCE, 0x8EE),
        sent_time=0x44110000,
        time_to_reach_queue_s=0xFFFFFFFF,
        hash_algorithm=0,
        encryption_algorithm=0,
    ), "what the three headers of every packet say, and nothing else"


@pytest.mark.spec("DMPR-3.1.7.1.31-b")
def test_base_header() -> None:
    base = BaseHeader(flags=6, time_to_reach_queue_s=77)
    base.traced = 1
    message = deserialize(build(base=base, debug=DebugHeader()))
    assert (message.priority, message.tracing_requested, message.time_to_reach_queue_s) == (6, True, 77)


@pytest.mark.spec("DMPR-3.1.7.1.31-c")
def test_message_properties_header() -> None:
    properties = MessagePropertiesHeader(
        flags=0x0E,
        message_class=0x4000,
        correlation_id=bytes(range(20)),
        body_type=8,
        application_tag=0xDEADBEEF,
        privacy_level=3,
        hash_algorithm=0x800E,
        encryption_algorithm=0x6610,
    )
    message = deserialize(build(properties=properties, label="label", extension=b"ext", body=b"body"))
    assert message.body_type == 8
    assert message.encryption_algorithm is EncryptionAlgorithm.AES256
    assert message.hash_algorithm is HashAlgorithm.SHA512
    assert message.application_tag == 0xDEADBEEF
    assert message.correlation_identifier == bytes(range(20))
    assert message.acknowledgements_requested is AcknowledgementsRequested.ACK_FULL_RECEIVE
    assert message.message_class is MessageClass.ACK_RECEIVE
    assert (message.extension, message.label, message.body) == (b"ext", "label", b"body")
    assert message.privacy_level is PrivacyLevel.ENHANCED


@pytest.mark.spec("DMPR-3.1.7.1.31-d")
def test_security_header() -> None:
    header = SecurityHeader(
        flags=0x21,
        security_id=SID,
        encryption_key=b"key",
        signature=b"signature",
        sender_cert=b"certificate",
        provider_info=ProviderInfo(24, "Other").encode(),
    )
    message = deserialize(build(security=header))
    assert (message.authentication_provider_type, message.authentication_provider_name) == (24, "Other")
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert (message.sender_identifier, message.symmetric_key) == (SID, b"key")
    assert (message.sender_certificate, message.signature) == (b"certificate", b"signature")


@pytest.mark.spec("DMPR-3.1.7.1.31-e")
@pytest.mark.parametrize("flag", ["final_ack_required", "first_message", "last_message"])
def test_transaction_header(flag: str) -> None:
    header = TransactionHeader(
        tx_sequence_id=0x1122334455667788,
        tx_sequence_number=9,
        previous_tx_sequence_number=7,
        connector_qm_guid=OTHER,
    )
    header.has_connector_qm_guid = 1
    header.transaction_id = 0xABCDE
    setattr(header, flag, 1)
    message = deserialize(build(transaction=header))
    assert message.transaction_identifier == 0xABCDE
    assert message.transactional_message_sequence_identifier == TxSequenceID(0x11223344, 0x55667788)
    assert (message.transaction_sequence_number, message.transaction_previous_sequence_number) == (9, 7)
    assert message.connector_queue_manager_identifier == OTHER
    assert message.final_ack_required == (flag == "final_ack_required")
    assert message.first_in_transaction == (flag == "first_message")
    assert message.last_in_transaction == (flag == "last_message")


@pytest.mark.spec("DMPR-3.1.7.1.31-f")
def test_user_header() -> None:
    user = user_header(QUEUE, 5, 6, aq=2, rq=3, recoverable=True, connector_type=OTHER)
    user.time_to_be_received_s = 60
    user.positive_journaling = 1
    message = deserialize(build(user=user))
    assert message.destination_queue_manager_identifier == DESTINATION
    assert message.sent_time == 0x44110000
    assert message.destination_queue_type is DestinationQueueType.PUBLIC_QUEUE
    names = message.coded_names()
    assert names.administration.reference is QueueReference.PRIVATE_ON_SOURCE
    assert names.response.reference is QueueReference.PRIVATE_ON_DESTINATION
    assert message.time_to_be_received_s == 60
    assert message.identifier == MessageIdentifier(SOURCE, 0x8EE)
    assert message.source_machine_identifier == SOURCE
    assert message.destination_queue_format_name == PUBLIC
    assert message.administration_queue_format_name == private(SOURCE, 5)
    assert message.response_queue_format_name == private(DESTINATION, 6)
    assert message.delivery_guarantee is DeliveryGuarantee.RECOVERABLE
    assert (message.positive_journaling_requested, message.negative_journaling_requested) == (True, False)
    assert message.connector_type_identifier == OTHER


@pytest.mark.spec("DMPR-3.1.7.1.31-g")
def test_multi_queue_and_debug_headers() -> None:
    lists = MultiQueueFormatHeader.of(list(NAMES), list(NAMES[:2]), [NAMES[2]], b"signed")
    debug = DebugHeader(flags=1, queue_identifier=QUEUE)
    message = deserialize(build(multi_queue=lists, debug=debug))
    assert message.destination_multi_queue_format_name == NAME_TEXTS
    assert message.administration_multi_queue_format_name == NAME_TEXTS[:2]
    assert message.response_multi_queue_format_name == (NAME_TEXTS[2],)
    assert message.multiple_destination_signature == b"signed"
    assert message.tracing_queue_identifier == QUEUE


# --- constants --------------------------------------------------------------------------------------------

CLASSES = {
    "NORMAL": 0x0000,
    "REPORT": 0x0001,
    "ACK_REACH_QUEUE": 0x0002,
    "ORDER_ACK": 0x00FF,
    "ACK_RECEIVE": 0x4000,
    "NACK_BAD_DST_Q": 0x8000,
    "NACK_DELETED": 0x8001,
    "NACK_REACH_QUEUE_TIMEOUT": 0x8002,
    "NACK_Q_EXCEED_QUOTA": 0x8003,
    "NACK_ACCESS_DENIED": 0x8004,
    "NACK_HOP_COUNT_EXCEEDED": 0x8005,
    "NACK_BAD_SIGNATURE": 0x8006,
    "NACK_BAD_ENCRYPTION": 0x8007,
    "NACK_NOT_TRANSACTIONAL_Q": 0x8009,
    "NACK_NOT_TRANSACTIONAL_MSG": 0x800A,
    "NACK_UNSUPPORTED_CRYPTO_PROVIDER": 0x800B,
    "NACK_Q_DELETED": 0xC000,
    "NACK_Q_PURGED": 0xC001,
    "NACK_RECEIVE_TIMEOUT": 0xC002,
    "NACK_RECEIVE_REJECTED": 0xC004,
}


@pytest.mark.spec("DMPR-3.1.7.1.31-i")
def test_classes_travel_as_their_numbers() -> None:
    for name, number in CLASSES.items():
        packet = serialize(sent(message_class=MessageClass[name]))
        assert packet.properties.message_class == number
        assert deserialize(packet).message_class is MessageClass[name]
    for number in SenderMessageClass:
        assert arrived(sent(message_class=number)).message_class is number
    for number in (0x0123, 0xE1FF):
        unknown = arrived(sent(message_class=number)).message_class
        assert (type(unknown), unknown) == (int, number)


@pytest.mark.spec("DMPR-3.1.7.1.31-j")
def test_privacy_levels() -> None:
    for name, number in {"NONE": 0, "BASE": 1, "ENHANCED": 3, "ADVANCED": 5}.items():
        level = PrivacyLevel[name]
        message = sent(privacy_level=level, symmetric_key=b"key" if level else b"")
        assert serialize(message).properties.privacy_level == number
        assert arrived(message).privacy_level is level
        assert require_privacy_level(arrived(message).privacy_level, encrypted=bool(level)) is level
    for number in (2, 4, 6, 0xFFFFFFFF):
        received = deserialize(build(properties=MessagePropertiesHeader(privacy_level=number)))
        assert received.privacy_level == number
        with pytest.raises(AuthenticationError):
            require_privacy_level(received.privacy_level, encrypted=False)


@pytest.mark.spec("DMPR-3.1.7.1.31-k")
def test_encryption_algorithms() -> None:
    codes = {"RC2": 0x6602, "RC4": 0x6801, "AES256": 0x6610, "AES128": 0x660E, "AES192": 0x660F}
    for name, number in codes.items():
        packet = serialize(sent(encryption_algorithm=EncryptionAlgorithm[name]))
        assert packet.properties.encryption_algorithm == number
        assert deserialize(packet).encryption_algorithm is EncryptionAlgorithm[name]


@pytest.mark.spec("DMPR-3.1.7.1.31-l")
def test_hash_algorithms() -> None:
    codes = {"MD2": 0x8001, "MD4": 0x8002, "MD5": 0x8003, "SHA1": 0x8004, "SHA256": 0x800C, "SHA512": 0x800E}
    for name, number in codes.items():
        packet = serialize(sent(hash_algorithm=HashAlgorithm[name]))
        assert packet.properties.hash_algorithm == number
        assert deserialize(packet).hash_algorithm is HashAlgorithm[name]
    received = deserialize(build(properties=MessagePropertiesHeader(hash_algorithm=0x8003)))
    assert received.hash_algorithm is HashAlgorithm.MD5


def referring(dq: int, aq: int, rq: int) -> bytes:
    """A packet with these references, right or wrong, and room for any name behind them."""
    data = build(body=bytes(100)).data
    flags = USER_MP | dq << 10 | aq << 13 | rq << 16
    return patched_u32(data, USER_FLAGS, flags)


@pytest.mark.spec("DMPR-3.1.7.1.31-m")
def test_queue_types_travel_as_references() -> None:
    names = {3: private(DESTINATION, 10), 5: PUBLIC, 7: DIRECT}
    for number, name in names.items():
        message = sent(destination_queue_format_name=name)
        if number == 7:
            message.destination_queue_manager_identifier = NULL_GUID
        assert serialize(message).user.destination_reference == number
        assert arrived(message) == message
        assert arrived(message).destination_queue_type == number
    names |= {0: "", 2: private(SOURCE, 10), 6: private(OTHER, 10)}
    for number, name in names.items():
        message = sent(administration_queue_format_name=name)
        assert serialize(message).user.admin_reference == number
        assert arrived(message) == message
        assert arrived(message).coded_names().administration.reference == number
    admin = private(QUEUE, 11)
    for number, name in (names | {1: admin, 4: private(QUEUE, 12)}).items():
        message = sent(administration_queue_format_name=admin, response_queue_format_name=name)
        assert serialize(message).user.response_reference == number
        assert arrived(message) == message
        assert arrived(message).coded_names().response.reference == number
    for number in {*range(8)} - {0, 3, 5, 7}:
        refuse(referring(number, 0, 0), "DQ")
    for number in {*range(8)} - {0, 2, 3, 5, 6, 7}:
        refuse(referring(7, number, 0), "AQ")


@pytest.mark.spec("DMPR-3.1.7.1.31-n")
@pytest.mark.parametrize(
    ("kind", "number", "identifier"),
    [
        (SenderIdentifierType.NONE, 0, b""),
        (SenderIdentifierType.SID, 1, SID),
        (SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER, 2, OTHER),
    ],
)
def test_sender_types(kind: SenderIdentifierType, number: int, identifier: bytes) -> None:
    message = sent(sender_identifier_type=kind, sender_identifier=identifier, signature=b"signed")
    security = serialize(message).security
    assert security is not None
    assert security.sender_id_type == number
    assert arrived(message) == message


@pytest.mark.spec("DMPR-3.1.7.1.31-o")
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("negative", [False, True])
def test_journaling_flags(positive: bool, negative: bool) -> None:
    message = sent(positive_journaling_requested=positive, negative_journaling_requested=negative)
    user = serialize(message).user
    assert (user.positive_journaling, user.negative_journaling) == (positive, negative)
    assert arrived(message) == message


@pytest.mark.spec("DMPR-3.1.7.1.32-h")
def test_a_final_ack_can_say_that_a_message_was_rejected() -> None:
    rejected = transactional(
        transactional_message_sequence_identifier=TxSequenceID(1, 2), transaction_sequence_number=3
    )
    packet = build_order_message(
        FinalAckBody.of(serialize(rejected)),
        MessageClass.NACK_RECEIVE_REJECTED,
        source=DESTINATION,
        destination=SOURCE,
        message_id=1,
        sent_time=2,
    )
    final_ack = deserialize(accept_message(packet.data))
    assert final_ack.message_class is MessageClass.NACK_RECEIVE_REJECTED
    assert serialize(final_ack).properties.message_class == 0xC004


def test_an_application_reads_what_this_host_knows_too() -> None:
    local = LocalAttributes(
        allow_peek_when_locked=True,
        application_deadletter_queue="HOST\\private$\\dead",
        authentication_level=AuthenticationLevel.SIG30,
        transaction_status_queue="HOST\\private$\\status",
    )
    packet = serialize(sent(body=b"body"))
    message = received(StoredMessage(packet, local, lookup_id=7, arrival_time=9))
    assert message.authentication_level is AuthenticationLevel.SIG30
    assert message.allow_peek_when_locked
    assert message.application_deadletter_queue == local.application_deadletter_queue
    assert message.transaction_status_queue_format_name == local.transaction_status_queue
    assert (message.lookup_identifier, message.arrival_time) == (7, 9)
    plain = received(StoredMessage(packet, LocalAttributes()))
    assert plain == deserialize(packet)


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.32-a", "DMPR-3.1.7.1.32-g")
@given(messages())
def test_what_travels_comes_back(message: Message) -> None:
    packet = serialize(message)
    assert packet.base.packet_size == len(packet.data)
    assert arrived(message) == message


@given(canonical_parts())
def test_a_packet_read_and_written_again_is_the_same_bytes(parts: dict[str, Any]) -> None:
    packet = UserMessage.build(**parts)
    assert serialize(deserialize(packet)).data == packet.data


@given(message_parts(), bits)
def test_any_packet_settles_after_one_reading(parts: dict[str, Any], encrypted: int) -> None:
    """Whatever way a peer chose to say it, once written in ours it stays so."""
    security, properties = parts["security"], parts["properties"]
    if security is not None and (encrypted or security.encryption_key):
        properties.privacy_level |= 1
    else:
        properties.privacy_level = 0
    message = deserialize(UserMessage.build(**parts))
    assert arrived(message) == message


def test_the_published_frame_is_written_as_windows_wrote_it() -> None:
    message = deserialize(UserMessage.decode(FRAME_7))
    assert message.destination_queue_format_name == "DIRECT=OS:a04bm02\\q"
    assert serialize(message).data == FRAME_7
