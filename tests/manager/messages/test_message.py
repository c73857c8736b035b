"""The Message element: defaults, enumerations, what a sender may say, kinds of names, what arrives of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import (
    AccessDeniedError,
    IllegalFormatnameError,
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    LabelTooLongError,
    MQError,
)
from msmq.manager.messages.message import (
    AcknowledgementsRequested,
    AuthenticationLevel,
    DeliveryGuarantee,
    DestinationQueueType,
    Message,
    SenderIdentifierType,
    SenderMessageClass,
    carried,
    sender_sid,
)
from msmq.manager.messages.serialize import deserialize, serialize
from msmq.security import providers
from msmq.security.access import QueueOperation, Token, check_access
from msmq.security.encryption import (
    decrypt_body,
    encrypt_body,
    new_session_key,
    unwrap_session_key,
    wrap_session_key,
)
from msmq.security.sid import ANONYMOUS, EVERYONE, Sid
from msmq.security.signatures import HashPolicy, authenticate, sign
from msmq.wire.access_masks import QueueAccessMask
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import NULL_GUID, QueueReference
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.manager.message_strategies import private
from tests.security.samples import allow, certificate, deny, granting, private_key
from tests.wire.builders import (
    DESTINATION,
    OTHER,
    QUEUE,
    SID,
    SOURCE,
    accept_message,
    acknowledgment,
    build,
    compound_headers,
    envelope_headers,
    real_guids,
    texts,
    u32s,
)

WRITE = QueueAccessMask.WRITE_MESSAGE
DIRECT = "DIRECT=OS:Host\\PRIVATE$\\Orders"
PUBLIC = f"PUBLIC={guid_text(QUEUE)}"
NAMES = (DIRECT, PUBLIC, f"PRIVATE={guid_text(OTHER)}\\00000009", f"DL={guid_text(QUEUE)}")


def sent(**attributes: Any) -> Message:
    """A message from SOURCE to a queue at DESTINATION."""
    attributes.setdefault("destination_queue_format_name", private(DESTINATION, 7))
    attributes.setdefault("destination_queue_manager_identifier", DESTINATION)
    return Message(identifier=MessageIdentifier(SOURCE, 1), **attributes)


def arrived(message: Message) -> Message:
    """What a receiver makes of a message, its bytes having passed a session's reader."""
    return deserialize(accept_message(serialize(message).data))


# --- defaults --------------------------------------------------------------------------------------------


def test_a_new_message_has_the_defaults_of_the_data_model() -> None:
    message = Message()
    assert message.allow_peek_when_locked is False
    assert message.application_deadletter_queue == ""
    assert message.message_class is MessageClass.NORMAL
    assert message.privacy_level is PrivacyLevel.NONE
    assert message.authentication_level is AuthenticationLevel.NONE
    assert message.delivery_guarantee is DeliveryGuarantee.EXPRESS
    assert message.tracing_requested is False
    assert message.tracing_queue_identifier == NULL_GUID
    assert message.positive_journaling_requested is message.negative_journaling_requested is False
    assert message.multiple_destination_signature == b""
    assert message.acknowledgements_requested == AcknowledgementsRequested.NONE
    assert message.time_to_reach_queue_s == 0x54600
    assert message.time_to_be_received_s == 0xFFFFFFFF
    assert message.hash_algorithm is HashAlgorithm.SHA1
    assert message.encryption_algorithm is EncryptionAlgorithm.RC4
    assert message.destination_queue_type is None
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert message.sender_certificate == b""
    assert message.connector_type_identifier == NULL_GUID
    assert message.transactional_message_sequence_identifier is None
    assert message.transaction_identifier is None
    assert message.message_position_reference is None
    message.check()


# --- what a sender may say -------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-o")
def test_priorities_go_from_zero_to_seven_and_three_is_the_default() -> None:
    assert Message().priority == 3
    for priority in range(8):
        Message(priority=priority).check()
    for priority in (8, -1):
        with pytest.raises(IllegalPropertyValueError, match="priority"):
            Message(priority=priority).check()


@pytest.mark.spec("DMPR-3.1.1.12-ac")
def test_a_label_has_249_characters_at_most() -> None:
    assert Message().label == ""
    message = Message(label="x" * 249)
    message.check()
    assert serialize(message).label == message.label
    with pytest.raises(LabelTooLongError) as refused:
        Message(label="x" * 250).check()
    assert refused.value.name == "MQ_ERROR_LABEL_TOO_LONG"
    with pytest.raises(LabelTooLongError):
        serialize(Message(label="x" * 250))


def test_a_label_is_counted_as_it_travels() -> None:
    """A character outside the first plane takes two of the 249."""
    Message(label="\N{BEER MUG}" * 124).check()
    with pytest.raises(LabelTooLongError):
        Message(label="\N{BEER MUG}" * 125).check()


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"label": "a\0b"}, IllegalPropertyValueError),
        ({"message_class": 0x0200}, IllegalPropertyValueError),
        ({"message_class": 0x1E00}, IllegalPropertyValueError),
        ({"message_class": 0x10000}, IllegalPropertyValueError),
        ({"message_class": -1}, IllegalPropertyValueError),
        ({"body_type": 1 << 32}, IllegalPropertyValueError),
        ({"application_tag": -1}, IllegalPropertyValueError),
        ({"time_to_reach_queue_s": 1 << 32}, IllegalPropertyValueError),
        ({"time_to_be_received_s": -1}, IllegalPropertyValueError),
        ({"acknowledgements_requested": 0x10}, IllegalPropertyValueError),
        ({"privacy_level": 2}, IllegalPropertyValueError),
        ({"hash_algorithm": 0x8005}, IllegalPropertyValueError),
        ({"encryption_algorithm": 0x6601}, IllegalPropertyValueError),
        ({"correlation_identifier": bytes(19)}, IllegalPropertySizeError),
        ({"connector_type_identifier": bytes(15)}, IllegalPropertySizeError),
        ({"destination_queue_format_name": "OS:host\\q"}, IllegalFormatnameError),
        ({"destination_queue_format_name": "DIRECT=OS:"}, IllegalFormatnameError),
        ({"destination_queue_format_name": f"{DIRECT},{PUBLIC}"}, IllegalFormatnameError),
        ({"destination_queue_format_name": f"DL={guid_text(QUEUE)}"}, IllegalFormatnameError),
        ({"response_queue_format_name": f"{PUBLIC};JOURNAL"}, IllegalFormatnameError),
        (
            {"administration_queue_format_name": f"MACHINE={guid_text(QUEUE)};DEADLETTER"},
            IllegalFormatnameError,
        ),
        ({"destination_multi_queue_format_name": (DIRECT, f"{DIRECT},{PUBLIC}")}, IllegalFormatnameError),
        ({"destination_multi_queue_format_name": (DIRECT, "")}, IllegalFormatnameError),
    ],
)
def test_what_a_sender_may_not_say(attributes: dict[str, Any], error: type[MQError]) -> None:
    with pytest.raises(error):
        sent(**attributes).check()


def test_what_a_sender_may_say() -> None:
    sent(
        message_class=0x0123,
        destination_queue_format_name=DIRECT,
        administration_queue_format_name=private(OTHER, 5),
        response_queue_format_name=PUBLIC,
        destination_multi_queue_format_name=(DIRECT, PUBLIC, f"DL={guid_text(QUEUE)}@corp.example"),
    ).check()


# --- enumerations ----------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-x")
@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("NONE", ""),
        ("ACK_POS_ARRIVAL", "PA"),
        ("ACK_POS_RECEIVE", "PR"),
        ("ACK_NEG_ARRIVAL", "NA"),
        ("ACK_NEG_RECEIVE", "NR"),
        ("ACK_NACK_REACH_QUEUE", "NA"),
        ("ACK_FULL_REACH_QUEUE", "PA NA"),
        ("ACK_NACK_RECEIVE", "NA NR"),
        ("ACK_FULL_RECEIVE", "PR NA NR"),
    ],
)
def test_each_request_for_acknowledgments_is_a_set_of_bits(name: str, bits: str) -> None:
    message = Message(acknowledgements_requested=AcknowledgementsRequested[name])
    header = serialize(message).properties
    flags = {
        "PA": header.positive_arrival_ack,
        "PR": header.positive_receive_ack,
        "NA": header.negative_arrival_ack,
        "NR": header.negative_receive_ack,
    }
    assert [bit for bit, value in flags.items() if value] == bits.split()


def test_classes_of_the_senders_own_host_have_numbers_beside_the_table() -> None:
    assert not {*MessageClass} & {*SenderMessageClass}
    for number in SenderMessageClass:
        Message(message_class=number).check()
    nacks_on_arrival = (
        SenderMessageClass.NACK_COULD_NOT_ENCRYPT,
        SenderMessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED,
    )
    assert all(number & 0xC000 == 0x8000 for number in nacks_on_arrival)
    assert SenderMessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER & 0xC000 == 0xC000


def test_verified_signature_types_are_authentication_levels() -> None:
    assert {level.name: AuthenticationLevel(level).name for level in SignatureType} == {
        "MSMQ_1_0": "SIG10",
        "MSMQ_2_0": "SIG20",
        "MSMQ_3_0": "SIG30",
    }


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-aj")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (private(DESTINATION, 10), DestinationQueueType.PRIVATE_QUEUE),
        (private(SOURCE, 10), DestinationQueueType.PRIVATE_QUEUE),
        (PUBLIC, DestinationQueueType.PUBLIC_QUEUE),
        (DIRECT, DestinationQueueType.DIRECT_QUEUE),
    ],
)
def test_the_destination_queue_type_follows_the_name(name: str, kind: DestinationQueueType) -> None:
    message = sent(destination_queue_format_name=name)
    assert message.destination_queue_type is kind
    assert serialize(message).user.destination_reference == kind


@pytest.mark.spec("DMPR-3.1.1.12-ak")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", QueueReference.NONE),
        (private(SOURCE, 10), QueueReference.PRIVATE_ON_SOURCE),
        (private(DESTINATION, 10), QueueReference.PRIVATE_ON_DESTINATION),
        (private(OTHER, 10), QueueReference.PRIVATE_ELSEWHERE),
        (PUBLIC, QueueReference.PUBLIC),
        (DIRECT, QueueReference.DIRECT),
    ],
)
def test_the_administration_queue_type_follows_the_name(name: str, kind: QueueReference) -> None:
    message = sent(destination_queue_format_name=PUBLIC, administration_queue_format_name=name)
    assert serialize(message).user.admin_reference == kind


@pytest.mark.parametrize(
    ("admin", "response", "kind"),
    [
        (DIRECT, "", QueueReference.NONE),
        (DIRECT, DIRECT, QueueReference.SAME_AS_ADMIN),
        (DIRECT, DIRECT.lower(), QueueReference.DIRECT),
        (PUBLIC, PUBLIC.lower(), QueueReference.SAME_AS_ADMIN),
        (private(OTHER, 1), private(OTHER, 1), QueueReference.SAME_AS_ADMIN),
        (private(OTHER, 1), private(OTHER, 2), QueueReference.PRIVATE_ON_ADMIN_HOST),
        (private(SOURCE, 1), private(SOURCE, 2), QueueReference.PRIVATE_ON_SOURCE),
        (private(OTHER, 1), private(DESTINATION, 2), QueueReference.PRIVATE_ON_DESTINATION),
        ("", private(OTHER, 2), QueueReference.PRIVATE_ELSEWHERE),
        (DIRECT, PUBLIC, QueueReference.PUBLIC),
    ],
)
def test_the_response_queue_type_follows_both_names(admin: str, response: str, kind: QueueReference) -> None:
    message = sent(
        destination_queue_format_name=private(DESTINATION, 7),
        administration_queue_format_name=admin,
        response_queue_format_name=response,
    )
    assert serialize(message).user.response_reference == kind


@pytest.mark.spec("DMPR-3.1.1.12-ai")
@pytest.mark.parametrize(
    ("name", "address"),
    [(DIRECT, NULL_GUID), (PUBLIC, DESTINATION), (private(DESTINATION, 7), DESTINATION)],
)
def test_only_direct_names_leave_the_destination_host_open(name: str, address: bytes) -> None:
    assert serialize(sent(destination_queue_format_name=name)).user.queue_manager_address == address


def test_a_private_name_says_its_host_itself() -> None:
    message = Message(destination_queue_format_name=private(OTHER, 7))
    assert serialize(message).user.queue_manager_address == OTHER


def test_a_direct_name_is_carried_to_the_letter() -> None:
    assert carried("direct=os:HOST\\Q ?") == "os:HOST\\Q ?"


# --- the sender ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-am")
def test_a_sender_without_a_name_is_checked_as_the_anonymous_user() -> None:
    assert Message().sender_identifier_type is SenderIdentifierType.SID
    named = Message(sender_identifier=SID)
    nameless = Message(sender_identifier_type=SenderIdentifierType.NONE)
    assert named.sender == Sid.decode(SID)
    assert str(nameless.sender) == "S-1-5-7"
    closed_to_strangers = granting(deny(WRITE, ANONYMOUS), allow(WRITE, EVERYONE))
    with pytest.raises(AccessDeniedError):
        check_access(closed_to_strangers, _token(nameless), QueueOperation.WRITE_MESSAGE)
    check_access(closed_to_strangers, _token(named), QueueOperation.WRITE_MESSAGE)


def test_a_message_that_says_nothing_of_its_sender_has_an_anonymous_one() -> None:
    assert Message().sender == ANONYMOUS
    assert sender_sid(SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER, OTHER) == EVERYONE


def _token(message: Message) -> Token:
    return Token(message.sender, frozenset({EVERYONE}))


# --- what a message keeps on its way ----------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.1.12-f")
def test_a_custom_class_arrives_unchanged() -> None:
    message = sent(message_class=0x0123)
    message.check()
    assert arrived(message).message_class == 0x0123


@pytest.mark.spec("DMPR-3.1.1.12-ag")
def test_the_hash_algorithm_of_a_signed_message() -> None:
    assert serialize(sent(signature=b"signed")).properties.hash_algorithm == 0x00008004
    strong = sent(signature=b"signed", hash_algorithm=HashAlgorithm.SHA512)
    assert serialize(strong).properties.hash_algorithm == 0x0000800E


@pytest.mark.spec("DMPR-3.1.1.12-ah")
def test_the_encryption_algorithm_of_an_encrypted_message() -> None:
    packet = serialize(sent(privacy_level=PrivacyLevel.BASE, symmetric_key=b"key"))
    assert packet.properties.encryption_algorithm == 0x00006801
    assert {algorithm.name for algorithm in EncryptionAlgorithm} == {
        "RC2",
        "RC4",
        "AES128",
        "AES192",
        "AES256",
    }


@pytest.mark.spec("DMPR-3.1.1.12-al")
@pytest.mark.parametrize("name", [DIRECT, PUBLIC, private(OTHER, 3), private(SOURCE, 3)])
def test_a_response_to_the_admin_queue_is_not_written_twice(name: str) -> None:
    message = sent(administration_queue_format_name=name, response_queue_format_name=name)
    packet = serialize(message)
    assert (packet.user.response_reference, packet.user.response_queue) == (1, None)
    assert arrived(message).response_queue_format_name == name


@pytest.mark.spec("DMPR-3.1.1.12-w")
def test_a_relayed_message_keeps_its_source() -> None:
    packet = serialize(sent())
    for _ in range(3):
        forwarded = packet.forwarded()
        assert forwarded is not None
        packet = accept_message(forwarded.data)
    assert packet.user.hop_count == 3
    assert deserialize(packet).source_machine_identifier == SOURCE


@pytest.mark.spec("DMPR-3.1.1.12-ad")
@given(u32s)
def test_the_receiver_sees_when_the_sender_sent(sent_time: int) -> None:
    assert arrived(sent(sent_time=sent_time)).sent_time == sent_time


@pytest.mark.spec("DMPR-3.1.1.12-v")
@given(
    st.fixed_dictionaries(
        {
            "application_tag": u32s,
            "body": st.binary(max_size=300),
            "body_type": u32s,
            "correlation_identifier": st.binary(min_size=20, max_size=20),
            "label": texts(124),
            "extension": st.binary(max_size=300),
            "connector_type_identifier": st.binary(min_size=16, max_size=16),
        }
    )
)
def test_what_applications_say_is_not_touched(attributes: dict[str, Any]) -> None:
    received = arrived(sent(**attributes))
    assert {name: getattr(received, name) for name in attributes} == attributes


@pytest.mark.spec("DMPR-3.1.1.12-r")
@pytest.mark.parametrize("name", ["", *NAMES[:3], "DIRECT=TCP:10.0.0.1\\q", "DIRECT=any text \ud800 at all"])
def test_response_names_come_back(name: str) -> None:
    assert Message().response_queue_format_name == ""
    assert Message().response_multi_queue_format_name == ()
    message = sent(response_queue_format_name=name, response_multi_queue_format_name=NAMES)
    received = arrived(message)
    assert received.response_queue_format_name == name
    assert received.response_multi_queue_format_name == NAMES


@pytest.mark.spec("DMPR-3.1.1.12-t")
def test_acknowledgments_go_to_the_administration_queue_if_there_is_one() -> None:
    wanted = AcknowledgementsRequested.ACK_FULL_RECEIVE
    assert Message().administration_queue_format_name == ""
    assert Message().administration_multi_queue_format_name == ()
    homeless = serialize(sent(acknowledgements_requested=wanted))
    assert acknowledgment(homeless, MessageClass.ACK_RECEIVE) is None
    name = private(SOURCE, 5)
    packet = serialize(sent(acknowledgements_requested=wanted, administration_queue_format_name=name))
    due = acknowledgment(packet, MessageClass.ACK_RECEIVE)
    assert due is not None
    assert due.destinations == (name,)


@pytest.mark.spec("DMPR-3.1.1.12-ao")
@given(real_guids, real_guids)
def test_connector_identifiers_are_carried_and_not_looked_at(kind: bytes, host: bytes) -> None:
    message = sent(
        transaction_identifier=1,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        connector_type_identifier=kind,
        connector_queue_manager_identifier=host,
    )
    assert serialize(message).user.connector_type == kind
    received = arrived(message)
    assert (received.connector_type_identifier, received.connector_queue_manager_identifier) == (kind, host)
    assert serialize(sent()).user.has_connector_type == 0


@pytest.mark.spec("DMPR-3.1.1.12-aw")
@given(envelope_headers, compound_headers())
def test_what_srmp_brought_is_given_to_readers(envelope: Any, compound: Any) -> None:
    binary = deserialize(serialize(sent()))
    assert (binary.soap_envelope, binary.soap_header, binary.soap_body) == ("", "", "")
    assert binary.soap_compound_message == b""
    packet = UserMessage.decode(build(envelope=envelope, compound=compound).data)
    received = deserialize(packet)
    assert (received.soap_envelope, received.soap_compound_message) == (envelope.data, compound.data)


# --- signatures and keys ----------------------------------------------------------------------------------

EVERY_HASH = HashPolicy(frozenset(HashAlgorithm))


def proven(
    packet: UserMessage, message: Message, kind: SignatureType, signature: bytes
) -> SignatureType | None:
    candidates = {kind: signature_input(packet, kind, message.body)}
    return authenticate(signature, candidates, message.sender_certificate, message.hash_algorithm, EVERY_HASH)


@pytest.mark.spec("DMPR-3.1.1.12-u")
def test_a_message_to_several_queues_is_signed_in_their_header() -> None:
    message = sent(
        body=b"body",
        destination_multi_queue_format_name=(DIRECT, private(DESTINATION, 7)),
        authentication_level=AuthenticationLevel.SIG30,
        sender_certificate=certificate(1024),
    )
    assert message.multiple_destination_signature == b""
    text = signature_input(serialize(message), SignatureType.MSMQ_3_0)
    message.multiple_destination_signature = sign(text, private_key(1024), HashAlgorithm.SHA1)
    packet = accept_message(serialize(message).data)
    received = deserialize(packet)
    assert packet.multi_queue is not None
    assert packet.multi_queue.signature.signature == message.multiple_destination_signature
    assert received.signature == b""
    signature = received.multiple_destination_signature
    assert proven(packet, received, SignatureType.MSMQ_3_0, signature) is SignatureType.MSMQ_3_0


@pytest.mark.spec("DMPR-3.1.1.12-aq", "DMPR-3.1.1.12-ar")
def test_key_and_signature_serve_their_receiver() -> None:
    message = sent(
        authentication_level=AuthenticationLevel.SIG20,
        sender_certificate=certificate(1024),
        privacy_level=PrivacyLevel.ENHANCED,
        sender_identifier=SID,
        body=b"the body",
    )
    text = signature_input(serialize(message), SignatureType.MSMQ_2_0)
    message.signature = sign(text, private_key(1024), HashAlgorithm.SHA1)
    key = new_session_key(PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC4, lambda size: bytes(range(size)))
    message.symmetric_key = wrap_session_key(key, private_key(2048).public_key())
    message.body = encrypt_body(message.body, key)

    packet = accept_message(serialize(message).data)
    received = deserialize(packet)
    opened = unwrap_session_key(
        received.symmetric_key,
        received.privacy_level,
        received.encryption_algorithm,
        {PrivacyLevel.ENHANCED: private_key(2048)},
    )
    received.body = decrypt_body(received.body, opened)
    assert received.body == b"the body"
    assert proven(packet, received, SignatureType.MSMQ_2_0, received.signature) is SignatureType.MSMQ_2_0
    assert received.authentication_level is AuthenticationLevel.NONE, "nobody has verified it yet"
    assert received.authentication_provider_type == 0x1
    assert received.authentication_provider_name in (providers.BASE, providers.ENHANCED)
