from __future__ import annotations

import pytest

from msmq.security.providers import PRIVACY_PROVIDERS, RSA_PROVIDERS, default_provider, signature_provider
from msmq.security.rejections import AuthenticationError, UnsupportedProviderError
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.names.common import MsmqVersion


@pytest.mark.spec("MQMQ-6-l")
@pytest.mark.parametrize(
    ("version", "name"),
    [
        (MsmqVersion.V3, "Microsoft Base Cryptographic Provider v1.0"),
        (MsmqVersion.V4, "Microsoft AES Cryptographic Provider"),
        (MsmqVersion.V5, "Microsoft AES Cryptographic Provider"),
        (MsmqVersion.V6, "Microsoft AES Cryptographic Provider"),
    ],
)
def test_the_default_bit_implies_the_default_of_the_version(version: MsmqVersion, name: str) -> None:
    assert default_provider(version) == name
    assert signature_provider(True, None, version) == name


@pytest.mark.spec("MQMQ-2.2.20.6-h")
def test_another_provider_must_be_named() -> None:
    with pytest.raises(AuthenticationError):
        signature_provider(False, None)
    name = "Microsoft Enhanced Cryptographic Provider v1.0"
    assert signature_provider(False, name) == name


@pytest.mark.spec("MQMQ-6-n")
def test_any_known_provider_may_be_named_and_no_other() -> None:
    for name in RSA_PROVIDERS:
        assert signature_provider(False, name) == name
    for name in ("", "Contoso Provider", "microsoft strong cryptographic provider"):
        with pytest.raises(UnsupportedProviderError) as refused:
            signature_provider(False, name)
        assert refused.value.message_class == 0x800B


def test_the_provider_of_each_privacy_level() -> None:
    assert PRIVACY_PROVIDERS == {
        PrivacyLevel.BASE: "Microsoft Base Cryptographic Provider v1.0",
        PrivacyLevel.ENHANCED: "Microsoft Enhanced Cryptographic Provider v1.0",
        PrivacyLevel.ADVANCED: "Microsoft Enhanced RSA and AES Cryptographic Provider",
    }
