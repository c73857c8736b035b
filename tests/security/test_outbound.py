"""Signing and encrypting one message."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import (
    ComputerDoesNotSupportEncryptionError,
    EncodeError,
    PublicKeyNotFoundError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.access.keys import KEY_BITS, KeyRing
from msmq.manager.messages.message import AuthenticationLevel, Message
from msmq.manager.messages.serialize import serialize
from msmq.security.encryption import decrypt_body, unwrap_session_key
from msmq.security.outbound import Sealer, Signer
from msmq.security.providers import ENHANCED_RSA_AES
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.headers import MAX_PACKET_SIZE
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.security.correspondent import BITS, SID, lenient
from tests.security.samples import certificate, private_key

QUEUE = "PRIVATE=11111111-2222-3333-4444-555555555555\\00000001"
RING = KeyRing({provider: private_key(bits) for provider, bits in KEY_BITS.items()})
PUBLIC = RING.public_encryption_key_list()


def packet(body: bytes = b"body", destination: str = QUEUE, **attributes: object) -> UserMessage:
    attributes = {"privacy_level": PrivacyLevel.ADVANCED, **attributes}
    message = Message(body=body, destination_queue_format_name=destination, **attributes)  # type: ignore[arg-type]
    return serialize(message)


def test_the_message_in_the_queue_stays_as_it_is() -> None:
    original = packet(sender_identifier=SID)
    before = original.data, original.user.flags, original.properties.allocation_body_size
    sealed = Sealer(lenient(), os.urandom).seal(original, lambda guid: PUBLIC, 0)
    assert sealed.data != original.data
    assert (original.data, original.user.flags, original.properties.allocation_body_size) == before
    assert original.security is not None
    assert not original.security.body_encrypted


@given(
    st.binary(max_size=200), st.sampled_from(sorted(set(PrivacyLevel) - {PrivacyLevel.NONE})), st.booleans()
)
def test_everything_but_the_body_stays_what_a_signature_counts(
    body: bytes, level: PrivacyLevel, several: bool
) -> None:
    lists = (QUEUE, QUEUE[:-1] + "2") if several else ()
    original = packet(
        body,
        privacy_level=level,
        label="label",
        extension=b"abc",
        destination_multi_queue_format_name=lists,
        response_queue_format_name="DIRECT=OS:host\\private$\\answers",
    )
    sealed = Sealer(lenient(), os.urandom).seal(original, lambda guid: PUBLIC, 0)
    sealed = UserMessage.decode(sealed.data)
    assert sealed.security is not None
    algorithm = sealed.properties.encryption_algorithm
    key = unwrap_session_key(sealed.security.encryption_key, level, algorithm, RING.decryption_keys())
    clear = sealed.decrypted(decrypt_body(sealed.allocated_body, key))
    for kind in SignatureType:
        assert signature_input(clear, kind) == signature_input(original, kind)


def test_keys_that_are_not_there_and_packets_that_grow_too_large() -> None:
    sealer = Sealer(lenient(), os.urandom)
    with pytest.raises(PublicKeyNotFoundError, match="55555555"):
        sealer.seal(packet(), lambda guid: None, 0)
    with pytest.raises(UnsupportedFormatnameOperationError):
        sealer.seal(packet(destination="DIRECT=OS:host\\private$\\q"), lambda guid: PUBLIC, 0)
    with pytest.raises(ComputerDoesNotSupportEncryptionError):
        sealer.seal(packet(), lambda guid: b"keys", 0)
    assert not len(sealer.symmetric_keys)
    sealer = Sealer(lenient(), os.urandom)
    largest = bytes(MAX_PACKET_SIZE - 300)
    with pytest.raises(ComputerDoesNotSupportEncryptionError, match="limit"):
        sealer.seal(packet(largest), lambda guid: PUBLIC, 0)
    with pytest.raises(EncodeError):
        packet(bytes(MAX_PACKET_SIZE))


@pytest.mark.spec("DMPR-6-e")
def test_a_host_without_an_aes_key_leaves_rc2_and_rc4() -> None:
    keys = {provider: key for provider, key in RING.exchange.items() if provider != ENHANCED_RSA_AES}
    old = KeyRing(keys).public_encryption_key_list()
    sealer = Sealer(lenient(), os.urandom)
    for level in (PrivacyLevel.BASE, PrivacyLevel.ENHANCED):
        sealed = sealer.seal(packet(privacy_level=level), lambda guid: old, 0)
        assert sealed.security is not None
        assert sealed.security.body_encrypted
        assert sealed.properties.encryption_algorithm in (EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4)
    aes = packet(privacy_level=PrivacyLevel.ADVANCED, encryption_algorithm=EncryptionAlgorithm.AES256)
    with pytest.raises(ComputerDoesNotSupportEncryptionError, match="ADVANCED"):
        sealer.seal(aes, lambda guid: old, 0)


def test_a_signer_keeps_its_key_to_itself() -> None:
    signer = Signer(certificate(BITS), private_key(BITS), HashAlgorithm.SHA256)
    assert "key" not in repr(signer)
    signed = signer.sign(
        packet(authentication_level=AuthenticationLevel.SIG10, sender_identifier=SID), SignatureType.MSMQ_1_0
    )
    assert len(signed) == BITS // 8
