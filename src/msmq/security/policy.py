"""An administrator's decisions about signatures and encryption: algorithms, limits, caches (MS-MQQB 3.1.1.3).

Old algorithms no longer protect anything. They are off unless they are named: by default signatures are accepted with
SHA-512 only, and bodies are encrypted and decrypted with AES only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msmq.errors import EncryptionProviderNotSupportedError
from msmq.security.encryption import DEFAULT_ALGORITHMS
from msmq.security.rejections import AuthenticationError, CipherRefusedError
from msmq.security.signatures import HashPolicy
from msmq.wire.algorithms import ALLOWED_ALGORITHMS, EncryptionAlgorithm, HashAlgorithm, PrivacyLevel

STRONG_CIPHERS: Final = ALLOWED_ALGORITHMS[PrivacyLevel.ADVANCED]
SLOW_HASHES: Final = frozenset({HashAlgorithm.MD2, HashAlgorithm.MD4})
SLOW_CIPHERS: Final = frozenset({EncryptionAlgorithm.RC2})
"""Ciphers that are written in Python here and, like the slow hashes, process less than a megabyte in a second."""


@dataclass(frozen=True, slots=True)
class CryptoPolicy:
    """The decisions, with the defaults of MS-MQQB 3.1.3.1 where there are any."""

    hashes: HashPolicy = field(default_factory=HashPolicy)
    ciphers: frozenset[EncryptionAlgorithm] = STRONG_CIPHERS
    preferred: Mapping[PrivacyLevel, EncryptionAlgorithm] = field(default_factory=lambda: DEFAULT_ALGORITHMS)
    """PreferredAdvancedAlgorithm, PreferredEnhancedAlgorithm and PreferredBaseAlgorithm."""
    send_enhanced_rc2_using_40_bit_keys: bool = False
    reject_enhanced_rc2_using_40_bit_keys: bool = False
    slow_limit_bytes: int = 16_384
    """The largest body for which a slow algorithm is used."""
    believe_unsigned_senders: bool = False
    """Whether an unproven SecurityID counts in the access check."""
    user_cert_cache_size: int = 53
    user_cert_lifetime_ms: int = 1_200_000
    receive_symmetric_key_cache_size: int = 127
    send_symmetric_key_cache_size: int = 53
    symmetric_key_short_lifetime_ms: int = 600_000

    def __post_init__(self) -> None:
        for level, algorithm in self.preferred.items():
            if algorithm not in ALLOWED_ALGORITHMS[level]:
                raise ValueError(f"privacy level {level.name} does not allow {algorithm.name}")

    def algorithm_for(self, level: PrivacyLevel, size: int) -> EncryptionAlgorithm:
        """The algorithm for a body of ``size`` bytes at a level. Raises an MQError if there is none."""
        algorithm = self.preferred[level]
        if algorithm not in self.ciphers:
            raise EncryptionProviderNotSupportedError(
                f"Privacy level {level.name} uses {algorithm.name}, which accepted_ciphers does not name."
            )
        if algorithm in SLOW_CIPHERS and size > self.slow_limit_bytes:
            raise EncryptionProviderNotSupportedError(
                f"{algorithm.name} is used for bodies of up to {self.slow_limit_bytes} bytes here; "
                f"this one has {size}."
            )
        return algorithm

    def check_cipher(self, number: int, size: int) -> None:
        """Refuse a received body because of its headers, before anything is computed."""
        if number not in self.ciphers:
            raise CipherRefusedError(f"bodies encrypted with 0x{number:08X} are not accepted here")
        if number in SLOW_CIPHERS and size > self.slow_limit_bytes:
            raise CipherRefusedError(f"a body of {size} bytes is too large for RC2")

    def check_hash(self, number: int, size: int) -> None:
        """Refuse a received signature over ``size`` bytes that would take too long to verify."""
        if number in SLOW_HASHES and size > self.slow_limit_bytes:
            raise AuthenticationError(
                f"a message of {size} bytes is too large for {HashAlgorithm(number).name}"
            )
