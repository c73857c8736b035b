"""Which algorithms are used and believed, and how large a message may be for the slow ones."""

from __future__ import annotations

import pytest

from msmq.errors import EncryptionProviderNotSupportedError
from msmq.security.policy import CryptoPolicy
from msmq.security.rejections import AuthenticationError, CipherRefusedError, DecryptionError
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from tests.security.correspondent import lenient

RC2, RC4, AES128, AES256 = (
    EncryptionAlgorithm.RC2,
    EncryptionAlgorithm.RC4,
    EncryptionAlgorithm.AES128,
    EncryptionAlgorithm.AES256,
)


def test_by_default_only_what_is_strong_is_taken() -> None:
    policy = CryptoPolicy()
    assert policy.hashes.accepted == {HashAlgorithm.SHA512}
    policy.check_cipher(AES256, 1 << 22)
    for number in (RC2, RC4, 0x6603, 0):
        with pytest.raises(CipherRefusedError) as refused:
            policy.check_cipher(number, 1)
        assert refused.value.message_class is MessageClass.NACK_BAD_ENCRYPTION
        assert isinstance(refused.value, DecryptionError)
    assert policy.algorithm_for(PrivacyLevel.ADVANCED, 1 << 22) is AES256
    for level in (PrivacyLevel.BASE, PrivacyLevel.ENHANCED):
        with pytest.raises(EncryptionProviderNotSupportedError, match="accepted_ciphers"):
            policy.algorithm_for(level, 1)


@pytest.mark.spec("MQQB-3.1.1.3-j", "MQQB-3.1.1.3-k")
def test_short_rc2_keys_are_not_sent_and_not_refused_unless_somebody_says_so() -> None:
    policy = CryptoPolicy()
    assert not policy.send_enhanced_rc2_using_40_bit_keys
    assert not policy.reject_enhanced_rc2_using_40_bit_keys


def test_slow_algorithms_have_a_limit() -> None:
    policy = lenient(slow_limit_bytes=100, preferred={PrivacyLevel.BASE: RC2})
    assert policy.algorithm_for(PrivacyLevel.BASE, 100) is RC2
    with pytest.raises(EncryptionProviderNotSupportedError, match="100 bytes"):
        policy.algorithm_for(PrivacyLevel.BASE, 101)
    policy.check_cipher(RC2, 100)
    policy.check_cipher(RC4, 1 << 22)
    with pytest.raises(CipherRefusedError, match="101"):
        policy.check_cipher(RC2, 101)
    for algorithm in HashAlgorithm:
        policy.check_hash(algorithm, 100)
        if algorithm in (HashAlgorithm.MD2, HashAlgorithm.MD4):
            with pytest.raises(AuthenticationError, match="101"):
                policy.check_hash(algorithm, 101)
        else:
            policy.check_hash(algorithm, 1 << 22)


def test_a_level_has_its_own_algorithms() -> None:
    with pytest.raises(ValueError, match="BASE does not allow AES128"):
        CryptoPolicy(preferred={PrivacyLevel.BASE: AES128})
