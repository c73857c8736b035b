"""Protecting messages that leave: signing them and encrypting their bodies (MS-MQQB 3.1.7.1.4, 3.1.7.1.5).

A message is signed once, when its application sends it, because only the application has the private key. Its body is
encrypted each time it leaves for another host: until then the outgoing queue keeps it unencrypted, and the encrypted
form depends on the destination's current keys.

Failures are statuses of MS-MQMQ 2.4; the caller decides what becomes of the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.errors import (
    ComputerDoesNotSupportEncryptionError,
    DecodeError,
    EncodeError,
    PublicKeyNotFoundError,
    UnsupportedFormatnameOperationError,
)
from msmq.security.caches import AgingCache, CachedPublicKeys, CachedSymmetricKey
from msmq.security.encryption import encrypt_body, new_session_key, wrap_session_key
from msmq.security.keys import import_public_key
from msmq.security.policy import CryptoPolicy
from msmq.security.providers import ENHANCED_RSA_AES, PRIVACY_PROVIDERS
from msmq.security.signatures import sign
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.guid import guid_text
from msmq.wire.headers import QueueReference
from msmq.wire.keys import DSPublicKeys, ProviderType
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import ProviderInfo, SecurityHeader
from msmq.wire.signature import SignatureType, signature_input

PublicKeys = Callable[[bytes], bytes | None]
"""Maps a queue manager's identifier to its PublicEncryptionKeyList; None if the directory does not tell."""

_PROVIDER_TYPES: Final = {ENHANCED_RSA_AES: ProviderType.RSA_AES}


@dataclass(frozen=True, slots=True)
class Signer:
    """The identity of a sender: a certificate (X.509 in DER) and its private key."""

    certificate: bytes
    key: RSAPrivateKey = field(repr=False)
    hash_algorithm: HashAlgorithm = HashAlgorithm.SHA512

    def sign(self, packet: UserMessage, kind: SignatureType) -> bytes:
        """Sign a message that is complete except for its signature."""
        return sign(signature_input(packet, kind), self.key, self.hash_algorithm)


class Sealer:
    """The sending side's caches and policy for encryption."""

    def __init__(self, policy: CryptoPolicy, random_bytes: Callable[[int], bytes]) -> None:
        self.policy = policy
        self._random_bytes = random_bytes
        self.symmetric_keys: AgingCache[tuple[str, int, bytes], CachedSymmetricKey] = AgingCache(
            policy.send_symmetric_key_cache_size, policy.symmetric_key_short_lifetime_ms
        )
        self.public_keys: AgingCache[bytes, CachedPublicKeys] = AgingCache(
            policy.send_symmetric_key_cache_size, policy.symmetric_key_short_lifetime_ms
        )

    def seal(self, packet: UserMessage, public_keys: PublicKeys, now_ms: int) -> UserMessage:
        """Encrypt the body of a message for the queue manager of its destination.

        That is not the next hop, which could not forward it. The provider follows from the privacy level, by which the
        receiver finds its key (MQQB-3.1.7.1.5-c and -h).
        """
        user = packet.user
        if user.destination_reference == QueueReference.DIRECT:
            raise UnsupportedFormatnameOperationError(
                "A body cannot be encrypted for a direct name: it does not say whose key to use."
            )
        level = PrivacyLevel(packet.properties.privacy_level)
        algorithm = self.policy.algorithm_for(level, packet.properties.message_size)
        try:
            cached = self._session_key(user.queue_manager_address, level, algorithm, public_keys, now_ms)
            return _sealed(packet, cached)
        except (DecodeError, EncodeError) as error:  # keys that are invalid, or a packet that grows too large
            raise ComputerDoesNotSupportEncryptionError(f"The body cannot be encrypted: {error}") from error

    def _session_key(
        self,
        destination: bytes,
        level: PrivacyLevel,
        algorithm: EncryptionAlgorithm,
        public_keys: PublicKeys,
        now_ms: int,
    ) -> CachedSymmetricKey:
        provider = PRIVACY_PROVIDERS[level]
        wanted = (provider, algorithm, destination)
        known = self.symmetric_keys.get(wanted)
        if known is not None:
            return known
        published = DSPublicKeys.decode(self._public_keys(destination, public_keys, now_ms)).find(provider)
        if published is None:
            raise ComputerDoesNotSupportEncryptionError(
                f"{guid_text(destination)} has published no key for privacy level {level.name}."
            )
        key = new_session_key(
            level, algorithm, self._random_bytes, weakened=self.policy.send_enhanced_rc2_using_40_bit_keys
        )
        blob = wrap_session_key(key, import_public_key(published.key))
        made = CachedSymmetricKey(destination, provider, algorithm, blob, key, now_ms)
        self.symmetric_keys.add(wanted, made)
        return made

    def _public_keys(self, destination: bytes, public_keys: PublicKeys, now_ms: int) -> bytes:
        """RemoteQMPublicKey, read from the directory when first needed."""
        known = self.public_keys.get(destination)
        if known is not None:
            return known.public_keys
        found = public_keys(destination)
        if not found:
            raise PublicKeyNotFoundError(
                f"The directory gives no encryption keys of {guid_text(destination)}."
            )
        self.public_keys.add(destination, CachedPublicKeys(found, now_ms))
        return found


def _sealed(packet: UserMessage, key: CachedSymmetricKey) -> UserMessage:
    """Build a new packet with its own headers; those of the message in the queue are not changed.

    ProviderInfo is the provider of the encryption unless the signature names one already. DE means that there is no
    ProviderInfo (MS-MQMQ 2.2.20.6), so it is cleared; all these providers sign alike.
    """
    fresh = UserMessage.decode(packet.data)
    properties = fresh.properties
    body = encrypt_body(fresh.body, key.symmetric_key)
    properties.allocation_body_size = len(body)
    properties.encryption_algorithm = key.crypto_algorithm
    security = fresh.security or SecurityHeader()
    security.body_encrypted = 1
    security.has_security_data = 1
    security.encryption_key = key.encrypted_symmetric_key
    if not security.provider_info:
        provider = key.crypto_service_provider
        kind = _PROVIDER_TYPES.get(provider, ProviderType.RSA_FULL)
        security.provider_info = ProviderInfo(kind, provider).encode()
        security.default_provider = 0
    return UserMessage.build(
        base=fresh.base,
        user=fresh.user,
        properties=properties,
        label=fresh.label,
        extension=fresh.extension,
        body=body,
        transaction=fresh.transaction,
        security=security,
        debug=fresh.debug,
        soap=fresh.soap,
        multi_queue=fresh.multi_queue,
    )
