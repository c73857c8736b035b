"""Examining messages that arrive: decrypt, verify, and identify the sender (MS-MQQB 3.1.5.8.3).

The sender signs the clear body and then encrypts it, so a body is decrypted before its signature is verified
(MQQB-3.1.5.8.3-g). The claimed sender is believed only if the signature is valid and the directory lists its
certificate among the sender's. The claims of a packet in AU and AS are ignored.

Every failure is a `MessageRejectedError`, whose class the sender may be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.errors import DecodeError
from msmq.security.caches import AgingCache, CachedSymmetricKey, CachedUserCert
from msmq.security.encryption import SessionKey, decrypt_body, require_privacy_level, unwrap_session_key
from msmq.security.keys import certificate_public_key, export_public_key
from msmq.security.policy import CryptoPolicy
from msmq.security.providers import PRIVACY_PROVIDERS, signature_provider
from msmq.security.rejections import AuthenticationError, DecryptionError
from msmq.security.signatures import authenticate
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.certificates import UserSignCert, UserSignCerts
from msmq.wire.guid import NULL_GUID
from msmq.wire.keys import DSPublicKeys, KeyType
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import ProviderInfo, SecurityHeader, SenderIdType
from msmq.wire.signature import SignatureType, signature_input


class Identities(Protocol):
    """What a directory knows about senders. Methods return None if it does not know, or cannot be asked."""

    def user_certificates(self, security_id: bytes) -> bytes | None:
        """The MQUSERSIGNCERTS of the user with this SID."""

    def signing_keys(self, queue_manager: bytes) -> bytes | None:
        """The MQDSPUBLICKEYS of the keys with which a queue manager signs."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The result of examining a message."""

    packet: UserMessage
    """The message with its decrypted body."""
    signature_type: SignatureType | None
    """The kind of signature that was verified, if any."""
    proven: bool
    """Whether the sender has been proved to be the one that SecurityID names."""
    encrypted: bool
    """Whether the body was encrypted."""


class Examiner:
    """The receiving side's caches, keys and policy."""

    def __init__(self, policy: CryptoPolicy, private_keys: Mapping[PrivacyLevel, RSAPrivateKey]) -> None:
        self.policy = policy
        self._private_keys = private_keys
        self.user_certs: AgingCache[tuple[bytes, bytes], CachedUserCert] = AgingCache(
            policy.user_cert_cache_size, policy.user_cert_lifetime_ms
        )
        self.symmetric_keys: AgingCache[tuple[int, int, bytes, bytes], CachedSymmetricKey] = AgingCache(
            policy.receive_symmetric_key_cache_size, policy.symmetric_key_short_lifetime_ms
        )

    def examine(self, packet: UserMessage, identities: Identities, now_ms: int) -> Credentials:
        """Examine a message that has a SecurityHeader. Raises `MessageRejectedError`."""
        security = packet.security
        assert security is not None
        encrypted = bool(security.body_encrypted)
        level = require_privacy_level(packet.properties.privacy_level, encrypted)
        if encrypted:
            packet = self._decrypt(packet, security, level, now_ms)
        signature_type = self._verify(packet, security)
        proven = False
        if signature_type is not None and security.sender_id_type != SenderIdType.NONE:
            self._identify(packet, security, identities, now_ms)
            proven = True
        return Credentials(packet, signature_type, proven, encrypted)

    # Encryption

    def _decrypt(
        self, packet: UserMessage, security: SecurityHeader, level: PrivacyLevel, now_ms: int
    ) -> UserMessage:
        body = packet.allocated_body
        self.policy.check_cipher(packet.properties.encryption_algorithm, len(body))
        key = self._session_key(packet, security.encryption_key, level, now_ms)
        if self.policy.reject_enhanced_rc2_using_40_bit_keys and key.is_weakened:
            raise DecryptionError
        return packet.decrypted(decrypt_body(body, key))

    def _session_key(self, packet: UserMessage, blob: bytes, level: PrivacyLevel, now_ms: int) -> SessionKey:
        algorithm = packet.properties.encryption_algorithm
        source = packet.user.source_queue_manager
        wanted = (level, algorithm, source, blob)
        known = self.symmetric_keys.get(wanted)
        if known is None:
            key = unwrap_session_key(blob, level, algorithm, self._private_keys)
            known = CachedSymmetricKey(source, PRIVACY_PROVIDERS[level], algorithm, blob, key, now_ms)
            self.symmetric_keys.add(wanted, known)
        return known.symmetric_key

    # Signatures

    def _verify(self, packet: UserMessage, security: SecurityHeader) -> SignatureType | None:
        lists = packet.multi_queue
        if security.signature:
            signature = security.signature
            kinds: tuple[SignatureType, ...] = (SignatureType.MSMQ_2_0, SignatureType.MSMQ_1_0)
        elif lists is not None and lists.signature.signature:
            signature = lists.signature.signature
            kinds = (SignatureType.MSMQ_3_0,)
        else:
            return None
        provider = security.provider_info
        name = ProviderInfo.decode(provider).provider_name if provider else None
        signature_provider(bool(security.default_provider), name)
        number = packet.properties.hash_algorithm
        self.policy.check_hash(number, packet.size)
        candidates = {kind: signature_input(packet, kind) for kind in kinds}
        return authenticate(signature, candidates, security.sender_cert, number, self.policy.hashes)

    # Senders

    def _identify(
        self, packet: UserMessage, security: SecurityHeader, identities: Identities, now_ms: int
    ) -> None:
        sender, certificate = security.security_id, security.sender_cert
        if self.user_certs.get((certificate, sender)) is not None:
            return
        if security.sender_id_type == SenderIdType.SID:
            found = _registered(identities.user_certificates(sender), certificate)
        else:
            found = None
            if sender == packet.user.source_queue_manager:
                found = _signing_certificate(identities.signing_keys(sender), certificate)
        if found is None:
            raise AuthenticationError("the directory does not have the certificate among those of the sender")
        self.user_certs.add((certificate, sender), CachedUserCert(found, sender, now_ms))


def _registered(certificates: bytes | None, certificate: bytes) -> UserSignCert | None:
    """The entry for a certificate among those of a user, or None."""
    if not certificates:
        return None
    try:
        listed = UserSignCerts.decode(certificates).certificates
    except DecodeError:
        return None
    return next((entry for entry in listed if entry.certificate == certificate), None)


def _signing_certificate(public_keys: bytes | None, certificate: bytes) -> UserSignCert | None:
    """The entry for a queue manager's certificate, if the queue manager has published its key, or None."""
    if not public_keys:
        return None
    try:
        own = export_public_key(certificate_public_key(certificate), KeyType.SIGN)
        published = [entry.key for entry in DSPublicKeys.decode(public_keys).keys]
    except DecodeError:
        return None
    return UserSignCert.of(certificate, NULL_GUID) if own in published else None
