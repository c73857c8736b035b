"""Cryptographic service providers: the names by which Windows finds its algorithms.

A name on the wire only says which set of algorithms was used; the same code here serves all of them.
"""

from __future__ import annotations

from msmq.security.rejections import AuthenticationError, UnsupportedProviderError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.names.common import MsmqVersion

BASE = "Microsoft Base Cryptographic Provider v1.0"
ENHANCED = "Microsoft Enhanced Cryptographic Provider v1.0"
ENHANCED_RSA_AES = "Microsoft Enhanced RSA and AES Cryptographic Provider"
AES = "Microsoft AES Cryptographic Provider"

PRIVACY_PROVIDERS = {
    PrivacyLevel.BASE: BASE,
    PrivacyLevel.ENHANCED: ENHANCED,
    PrivacyLevel.ADVANCED: ENHANCED_RSA_AES,
}
"""The provider whose key encrypts a body of each privacy level (MS-MQQB 3.1.5.8.3)."""

RSA_PROVIDERS = frozenset(
    {
        BASE,
        ENHANCED,
        ENHANCED_RSA_AES,
        AES,
        "Microsoft Enhanced RSA and AES Cryptographic Provider (Prototype)",
        "Microsoft RSA SChannel Cryptographic Provider",
        "Microsoft RSA Signature Cryptographic Provider",
        "Microsoft Strong Cryptographic Provider",
    }
)
"""The Microsoft providers that sign with RSA, the only signatures that MSMQ verifies."""


def default_provider(version: MsmqVersion) -> str:
    """The provider that SecurityHeader.Flags.DE stands for on a sender of ``version`` (MS-MQMQ 6, note 19).

    The note begins with Windows XP; before it there was only the base provider.
    """
    return BASE if version <= MsmqVersion.V3 else AES


def signature_provider(default: bool, name: str | None, version: MsmqVersion = MsmqVersion.V6) -> str:
    """The provider that a signed message names by its DE bit (``default``) or its ProviderInfo (``name``).

    A signature by another than the default provider must name it (MS-MQMQ 2.2.20.6).
    """
    if default:
        return default_provider(version)
    if name is None:
        raise AuthenticationError("a signature of another than the default provider does not name it")
    if name not in RSA_PROVIDERS:
        raise UnsupportedProviderError("the signature names an unknown cryptographic provider")
    return name
