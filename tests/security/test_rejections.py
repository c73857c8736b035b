"""Each security reason has its acknowledgment class, and only that reason leads to it."""

from __future__ import annotations

import pytest

from msmq.errors import MsmqError
from msmq.security.encryption import SessionKey, unwrap_session_key, wrap_session_key
from msmq.security.providers import signature_provider
from msmq.security.rejections import (
    AuthenticationError,
    DecryptionError,
    MessageRejectedError,
    UnsupportedProviderError,
)
from msmq.security.signatures import HashPolicy, authenticate, sign
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.signature import SignatureType
from tests.security.samples import certificate, private_key


def test_each_reason_has_a_class_of_its_own() -> None:
    kinds = MessageRejectedError.__subclasses__()
    assert len({kind.message_class for kind in kinds}) == len(kinds)
    assert all(issubclass(kind, MsmqError) for kind in kinds)


@pytest.mark.spec("MQMQ-2.2.18.1.6-m")
def test_an_invalid_signature_and_nothing_else_is_a_bad_signature() -> None:
    good = sign(b"signed", private_key(1024))
    hash_number = HashAlgorithm.SHA512
    candidates = {SignatureType.MSMQ_2_0: b"signed"}
    assert authenticate(good, candidates, certificate(1024), hash_number, HashPolicy())
    with pytest.raises(AuthenticationError) as refused:
        authenticate(bytes(128), candidates, certificate(1024), hash_number, HashPolicy())
    assert refused.value.message_class == MessageClass.NACK_BAD_SIGNATURE == 0x8006


@pytest.mark.spec("MQMQ-2.2.18.1.6-n")
def test_a_body_that_cannot_be_decrypted_and_nothing_else_is_bad_encryption() -> None:
    session_key = SessionKey(PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES128, bytes(16))
    blob = wrap_session_key(session_key, private_key(1024).public_key())
    keys = {PrivacyLevel.ADVANCED: private_key(1024)}
    level, algorithm = PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES128
    assert unwrap_session_key(blob, level, algorithm, keys) == session_key
    with pytest.raises(DecryptionError) as refused:
        unwrap_session_key(blob[:-1] + b"?", level, EncryptionAlgorithm.AES256, keys)
    assert refused.value.message_class == MessageClass.NACK_BAD_ENCRYPTION == 0x8007


@pytest.mark.spec("MQMQ-2.2.18.1.6-q")
def test_an_unknown_provider_and_nothing_else_is_an_unsupported_one() -> None:
    assert signature_provider(True, None)
    with pytest.raises(UnsupportedProviderError) as refused:
        signature_provider(False, "Somebody's own provider")
    assert refused.value.message_class == MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER == 0x800B


def test_a_failed_decryption_gives_no_reason() -> None:
    assert str(DecryptionError()) == "the message body cannot be decrypted"
