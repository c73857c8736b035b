"""The numbers of hash and encryption algorithms and of privacy levels (MS-MQMQ 2.2.19.3).

They are the ALG_ID values of CryptoAPI. The header fields stay plain integers when a packet is decoded;
what an unknown number means depends on whether the message is signed or encrypted, which `msmq.security`
decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class HashAlgorithm(IntEnum):
    """MessagePropertiesHeader.HashAlgorithm."""

    MD2 = 0x00008001
    MD4 = 0x00008002
    MD5 = 0x00008003
    SHA1 = 0x00008004
    SHA256 = 0x0000800C
    SHA512 = 0x0000800E


class EncryptionAlgorithm(IntEnum):
    """MessagePropertiesHeader.EncryptionAlgorithm, and SIMPLEBLOB.sessionKeyAlgorithm (MS-MQQB 2.4.2)."""

    RC2 = 0x00006602
    AES128 = 0x0000660E
    AES192 = 0x0000660F
    AES256 = 0x00006610
    RC4 = 0x00006801


class PrivacyLevel(IntEnum):
    """MessagePropertiesHeader.PrivacyLevel; the names are those of MS-MQDMPR 3.1.1.12."""

    NONE = 0x00000000
    BASE = 0x00000001
    ENHANCED = 0x00000003
    ADVANCED = 0x00000005


_BEFORE_AES = frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4})

ALLOWED_ALGORITHMS: Mapping[PrivacyLevel, frozenset[EncryptionAlgorithm]] = MappingProxyType(
    {
        PrivacyLevel.NONE: frozenset(),
        PrivacyLevel.BASE: _BEFORE_AES,
        PrivacyLevel.ENHANCED: _BEFORE_AES,
        PrivacyLevel.ADVANCED: frozenset(
            {EncryptionAlgorithm.AES128, EncryptionAlgorithm.AES192, EncryptionAlgorithm.AES256}
        ),
    }
)
"""The algorithms that may encrypt a body at each privacy level."""
