"""What signatures are made over, shown with real ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from msmq.security.encryption import SessionKey, decrypt_body, encrypt_body
from msmq.security.rejections import AuthenticationError
from msmq.security.signatures import HashPolicy, authenticate, sign, verify
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, PrivateQueueFormatName
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MultiQueueFormatHeader
from msmq.wire.signature import SignatureType, queue_bytes, signature_input
from tests.security.samples import certificate, private_key
from tests.wire.builders import OTHER, QUEUE, SOURCE, build, user_header


@cache
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 1024)


class Draft:
    """A message by its parts, so that a test can change exactly one."""

    def __init__(self) -> None:
        self.base = BaseHeader(flags=4)
        self.user = user_header(
            "OS:host\\q", "OS:host\\admin", PrivateQueueFormatName(OTHER, 9), connector_type=QUEUE
        )
        self.user.positive_journaling = 1
        self.properties = MessagePropertiesHeader(
            flags=0x05, correlation_id=bytes(range(20)), application_tag=77, body_type=8
        )
        self.label = "label"
        self.extension = b"extension"
        self.body = b"body"
        self.lists = ["OS:host\\q", "OS:other\\q"]

    def message(self) -> UserMessage:
        return build(
            base=self.base,
            user=self.user,
            properties=self.properties,
            label=self.label,
            extension=self.extension,
            body=self.body,
            multi_queue=MultiQueueFormatHeader.of(list(self.lists)),
        )


def still_valid(kind: SignatureType, change: Callable[[Draft], object]) -> bool:
    """Sign a message, change one thing about it, and verify the signature over what it is now."""
    draft = Draft()
    signature = sign(signature_input(draft.message(), kind), key(), HashAlgorithm.SHA1)
    change(draft)
    changed = UserMessage.decode(draft.message().data)
    return verify(signature_input(changed, kind), signature, key().public_key(), HashAlgorithm.SHA1)


def assign(part: str, name: str, value: object) -> Callable[[Draft], object]:
    return lambda draft: setattr(getattr(draft, part), name, value)


def nothing(draft: Draft) -> None:
    pass


SIX = {
    "CorrelationID": assign("properties", "correlation_id", bytes(20)),
    "ApplicationTag": assign("properties", "application_tag", 78),
    "MessageBody": lambda draft: setattr(draft, "body", b"BODY"),
    "Label": lambda draft: setattr(draft, "label", "Label"),
    "ResponseQueue": assign("user", "response_queue", PrivateQueueFormatName(OTHER, 10)),
    "AdminQueue": assign("user", "admin_queue", "OS:host\\Admin"),
}
TRAVEL = {
    "SourceQueueManager": assign("user", "source_queue_manager", OTHER),
    "DM": assign("user", "delivery_mode", 1),
    "PR": assign("base", "priority", 5),
    "JP": assign("user", "positive_journaling", 0),
    "JN": assign("user", "negative_journaling", 1),
    "Flags": assign("properties", "flags", 0x04),
    "MessageClass": assign("properties", "message_class", 0x0100),
    "BodyType": assign("properties", "body_type", 31),
    "ConnectorType": assign("user", "connector_type", OTHER),
}
UNUSED_FLAG = assign("properties", "flags", 0x15)
EXTENSION = {"ExtensionData": lambda draft: setattr(draft, "extension", b"Extension")}
FORMAT_NAME_LIST = {"FormatNameList": lambda draft: setattr(draft, "lists", ["OS:host\\q"])}
DESTINATION = {"DestinationQueue": assign("user", "destination_queue", "OS:host\\Q")}


@pytest.mark.spec("MQMQ-2.5.1-a")
def test_msmq_1_0_covers_six_fields_and_no_more() -> None:
    kind = SignatureType.MSMQ_1_0
    assert still_valid(kind, nothing)
    for name, change in SIX.items():
        assert not still_valid(kind, change), name
    for name, change in (TRAVEL | EXTENSION | FORMAT_NAME_LIST | DESTINATION).items():
        assert still_valid(kind, change), name


@pytest.mark.spec("MQMQ-2.5.2-a")
def test_msmq_2_0_adds_the_travel_fields_and_the_destination() -> None:
    kind = SignatureType.MSMQ_2_0
    for name, change in (SIX | TRAVEL | DESTINATION).items():
        assert not still_valid(kind, change), name
    for name, change in (EXTENSION | FORMAT_NAME_LIST | {"unused flag bit": UNUSED_FLAG}).items():
        assert still_valid(kind, change), name


@pytest.mark.spec("MQMQ-2.5.3-a", "MQMQ-2.2.20.3-e", "MQQB-3.1.7.1.4-a")
def test_msmq_3_0_adds_extension_and_lists_but_not_the_destination() -> None:
    kind = SignatureType.MSMQ_3_0
    for name, change in (SIX | TRAVEL | EXTENSION | FORMAT_NAME_LIST).items():
        assert not still_valid(kind, change), name
    for name, change in (DESTINATION | {"unused flag bit": UNUSED_FLAG}).items():
        assert still_valid(kind, change), name


@pytest.mark.spec("MQMQ-2.2.20.3-e")
def test_the_signature_of_the_multi_queue_header_verifies_over_the_3_0_list() -> None:
    draft = Draft()
    unsigned = draft.message()
    signature = sign(signature_input(unsigned, SignatureType.MSMQ_3_0), key(), HashAlgorithm.SHA512)
    lists = MultiQueueFormatHeader.of(list(draft.lists), signature=signature)
    signed = build(
        base=draft.base,
        user=draft.user,
        properties=draft.properties,
        label=draft.label,
        extension=draft.extension,
        body=draft.body,
        multi_queue=lists,
    )
    received = UserMessage.decode(signed.data)
    assert received.multi_queue is not None
    assert verify(
        signature_input(received, SignatureType.MSMQ_3_0),
        received.multi_queue.signature.signature,
        key().public_key(),
        HashAlgorithm.SHA512,
    )


def test_the_bytes_stand_in_the_order_of_the_list() -> None:
    message = Draft().message()
    six = b"".join(
        (
            bytes(range(20)),  # CorrelationID
            struct.pack("<I", 77),  # ApplicationTag
            b"body",  # MessageBody
            "label\0".encode("utf-16-le"),  # Label
            OTHER + struct.pack("<I", 9),  # ResponseQueue
            "OS:host\\admin\0".encode("utf-16-le"),  # AdminQueue
        )
    )
    travel = b"".join(
        (
            SOURCE,  # SourceQueueManager
            b"\x00",  # DM
            b"\x04",  # PR
            b"\x02",  # JP << 1 | JN
            b"\x05",  # Flags & 0x0F
            struct.pack("<H", 0),  # MessageClass
            struct.pack("<I", 8),  # BodyType
            QUEUE,  # ConnectorType
        )
    )
    lists = message.multi_queue
    assert lists is not None
    assert signature_input(message, SignatureType.MSMQ_1_0) == six
    assert signature_input(message, SignatureType.MSMQ_2_0) == six + travel + "OS:host\\q\0".encode(
        "utf-16-le"
    )
    assert (
        signature_input(message, SignatureType.MSMQ_3_0)
        == six + b"extension" + lists.destination.format_name_list + travel
    )


def test_fields_that_are_not_there_add_nothing() -> None:
    message = build(body=b"body")
    assert signature_input(message, SignatureType.MSMQ_1_0) == bytes(24) + b"body"
    assert signature_input(message, SignatureType.MSMQ_3_0) == bytes(24) + b"body" + SOURCE + b"\0\3" + bytes(
        8
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, b""),
        ("OS:x\\q", "OS:x\\q\0".encode("utf-16-le")),
        (QUEUE, QUEUE),
        (7, b"\7\0\0\0"),
        (PrivateQueueFormatName(OTHER, 7), OTHER + b"\7\0\0\0"),
    ],
)
def test_a_queue_counts_as_what_it_names(name: object, expected: bytes) -> None:
    assert queue_bytes(name) == expected  # type: ignore[arg-type]


@pytest.mark.spec("MQMQ-2.2.20.6-w")
@pytest.mark.parametrize("kind", list(SignatureType))
def test_a_receiver_tries_2_0_then_1_0_for_one_field_and_3_0_for_the_other(kind: SignatureType) -> None:
    draft = Draft()
    signature = sign(signature_input(draft.message(), kind), private_key(1024), HashAlgorithm.SHA1)
    received = UserMessage.decode(draft.message().data)
    policy = HashPolicy(accepted=frozenset({HashAlgorithm.SHA1}))

    def verified(*tried: SignatureType) -> SignatureType | None:
        candidates = {one: signature_input(received, one) for one in tried}
        return authenticate(signature, candidates, certificate(1024), HashAlgorithm.SHA1, policy)

    field = (SignatureType.MSMQ_2_0, SignatureType.MSMQ_1_0)
    other = (SignatureType.MSMQ_3_0,)
    mine, theirs = (other, field) if kind is SignatureType.MSMQ_3_0 else (field, other)
    assert verified(*mine) is kind
    assert int(kind) in (1, 3, 5)
    with pytest.raises(AuthenticationError):
        verified(*theirs)


@pytest.mark.spec("MQMQ-2.5.2-b")
def test_an_encrypted_body_is_signed_in_the_clear() -> None:
    symmetric = SessionKey(PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256, bytes(range(32)))
    clear = build(body=b"in the clear")
    signature = sign(signature_input(clear, SignatureType.MSMQ_2_0), key(), HashAlgorithm.SHA512)
    secret = build(body=encrypt_body(b"in the clear", symmetric))
    received = UserMessage.decode(secret.data)
    public = key().public_key()
    as_received = signature_input(received, SignatureType.MSMQ_2_0)
    assert not verify(as_received, signature, public, HashAlgorithm.SHA512)
    body = decrypt_body(received.body, symmetric)
    decrypted = signature_input(received, SignatureType.MSMQ_2_0, body)
    assert verify(decrypted, signature, public, HashAlgorithm.SHA512)
