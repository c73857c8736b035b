"""Encrypting message bodies (MS-MQMQ 2.2.19.3; MS-MQQB 2.4.2, 3.1.5.8.3, 3.1.7.1.5).

A body is encrypted with a session key, and the session key with the RSA key of the destination queue
manager. The privacy level chooses the provider whose RSA key is used, the algorithms allowed and the length
of the session key. Block ciphers run in CBC mode with a zero initialisation vector and PKCS #5 padding.

The sender makes a `SessionKey` with `new_session_key`, which it may use for many messages, and encrypts it with
`wrap_session_key`; the receiver decrypts it with `unwrap_session_key`, which raises the same `DecryptionError`
whatever goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from msmq.errors import DecodeError, EncodeError
from msmq.security.legacy import RC2
from msmq.security.rejections import AuthenticationError, DecryptionError
from msmq.wire.algorithms import ALLOWED_ALGORITHMS, EncryptionAlgorithm, PrivacyLevel
from msmq.wire.keys import SimpleBlob
from msmq.wire.names.common import MsmqVersion

DEFAULT_ALGORITHMS: Mapping[PrivacyLevel, EncryptionAlgorithm] = MappingProxyType(
    {
        PrivacyLevel.BASE: EncryptionAlgorithm.RC4,
        PrivacyLevel.ENHANCED: EncryptionAlgorithm.RC4,
        PrivacyLevel.ADVANCED: EncryptionAlgorithm.AES256,
    }
)

_AES_KEY_SIZES = {
    EncryptionAlgorithm.AES128: 16,
    EncryptionAlgorithm.AES192: 24,
    EncryptionAlgorithm.AES256: 32,
}
_FORTY_BITS = 5
_ENHANCED_KEY_SIZE = 16


def session_key_size(level: PrivacyLevel, algorithm: EncryptionAlgorithm) -> int:
    """The size of a session key: 40 bits at the base level, 128 at the enhanced one, and that of the AES variant."""
    if algorithm in _AES_KEY_SIZES:
        return _AES_KEY_SIZES[algorithm]
    return _FORTY_BITS if level is PrivacyLevel.BASE else _ENHANCED_KEY_SIZE


def privacy_levels(version: MsmqVersion) -> frozenset[PrivacyLevel]:
    """The levels a queue manager of ``version`` knows (MS-MQMQ 6, note 6; MS-MQQB 6, note 58)."""
    if version <= MsmqVersion.V1:
        return frozenset({PrivacyLevel.NONE})
    if version <= MsmqVersion.V3:
        return frozenset({PrivacyLevel.NONE, PrivacyLevel.BASE, PrivacyLevel.ENHANCED})
    return frozenset(PrivacyLevel)


def require_privacy_level(
    number: int, encrypted: bool, version: MsmqVersion = MsmqVersion.V6
) -> PrivacyLevel:
    """The privacy level of a received message, whose EB bit is ``encrypted``.

    For a number outside the table MS-MQMQ 2.2.19.3 demands an authentication failure, and MS-MQQB 3.1.5.8.3 a bad
    encryption once the body has to be decrypted. Each is followed where it applies.
    """
    if number in privacy_levels(version) and not (encrypted and number == PrivacyLevel.NONE):
        return PrivacyLevel(number)
    if encrypted:
        raise DecryptionError
    raise AuthenticationError(f"{number} is no privacy level")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A symmetric key with its privacy level and algorithm."""

    level: PrivacyLevel
    algorithm: EncryptionAlgorithm
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.algorithm not in ALLOWED_ALGORITHMS[self.level]:
            raise EncodeError(f"privacy level {self.level.name} does not allow {self.algorithm.name}")
        if len(self.key) != session_key_size(self.level, self.algorithm):
            raise EncodeError(f"a session key of {len(self.key)} bytes does not fit {self.algorithm.name}")

    @property
    def is_weakened(self) -> bool:
        """Whether an RC2 key of 128 bits has only 40 effective ones: its last 88 bits are zero."""
        return (
            self.level is PrivacyLevel.ENHANCED
            and self.algorithm is EncryptionAlgorithm.RC2
            and not any(self.key[_FORTY_BITS:])
        )


def new_session_key(
    level: PrivacyLevel,
    algorithm: EncryptionAlgorithm,
    random_bytes: Callable[[int], bytes],
    *,
    weakened: bool = False,
) -> SessionKey:
    """Make a key. ``weakened`` is the setting SendEnhancedRC2Using40BitKeys, for old peers."""
    size = session_key_size(level, algorithm)
    if weakened and level is PrivacyLevel.ENHANCED and algorithm is EncryptionAlgorithm.RC2:
        return SessionKey(level, algorithm, random_bytes(_FORTY_BITS).ljust(size, b"\0"))
    return SessionKey(level, algorithm, random_bytes(size))


def wrap_session_key(session_key: SessionKey, key: RSAPublicKey) -> bytes:
    """The SIMPLEBLOB with a session key for the owner of ``key``; its padding is random."""
    try:
        encrypted = key.encrypt(session_key.key, PKCS1v15())
    except ValueError:
        raise EncodeError(f"an RSA key of {key.key_size} bits is too short for the session key") from None
    return SimpleBlob(session_key.algorithm, encrypted[::-1]).encode()


def unwrap_session_key(
    blob: bytes,
    privacy_level: int,
    encryption_algorithm: int,
    private_keys: Mapping[PrivacyLevel, RSAPrivateKey],
    *,
    version: MsmqVersion = MsmqVersion.V6,
    reject_weakened: bool = False,
) -> SessionKey:
    """The session key of a message whose EB bit is set, from its SIMPLEBLOB and the numbers in its header.

    ``private_keys`` has the key of each level's provider. ``reject_weakened`` is the setting
    RejectEnhancedRC2Using40BitKeys.
    """
    level = require_privacy_level(privacy_level, True, version)
    private_key = private_keys.get(level)
    try:
        simple = SimpleBlob.decode(blob)
    except DecodeError:
        raise DecryptionError from None
    if private_key is None or simple.session_key_algorithm != encryption_algorithm:
        raise DecryptionError
    try:
        # On bad padding newer libraries return random bytes instead of failing, so the length is checked as well.
        key = private_key.decrypt(simple.encrypted_key[::-1], PKCS1v15())
        session_key = SessionKey(level, simple.session_key_algorithm, key)
    except ValueError:
        raise DecryptionError from None
    if reject_weakened and session_key.is_weakened:
        raise DecryptionError
    return session_key


def encrypt_body(body: bytes, session_key: SessionKey) -> bytes:
    """Encrypt a body for the packet; AllocationBodySize is its new length."""
    if session_key.algorithm is EncryptionAlgorithm.RC4:
        return _rc4(body, session_key)
    padder = PKCS7(8 * _block_size(session_key)).padder()
    padded = padder.update(body) + padder.finalize()
    if session_key.algorithm is EncryptionAlgorithm.RC2:
        return _rc2(session_key).encrypt(padded)
    encryptor = _aes(session_key).encryptor()
    return encryptor.update(padded) + encryptor.finalize()


def decrypt_body(body: bytes, session_key: SessionKey) -> bytes:
    """Decrypt the body of a received message. Raises `DecryptionError`."""
    if session_key.algorithm is EncryptionAlgorithm.RC4:
        return _rc4(body, session_key)
    block_size = _block_size(session_key)
    if not body or len(body) % block_size:
        raise DecryptionError
    if session_key.algorithm is EncryptionAlgorithm.RC2:
        padded = _rc2(session_key).decrypt(body)
    else:
        decryptor = _aes(session_key).decryptor()
        padded = decryptor.update(body) + decryptor.finalize()
    unpadder = PKCS7(8 * block_size).unpadder()
    try:
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError:
        raise DecryptionError from None


def _block_size(session_key: SessionKey) -> int:
    return RC2.BLOCK_SIZE if session_key.algorithm is EncryptionAlgorithm.RC2 else AES.block_size // 8


def _rc2(session_key: SessionKey) -> RC2:
    # The specification gives no effective length; this is the one place that chooses it, by the level's name.
    return RC2(session_key.key, 40 if session_key.level is PrivacyLevel.BASE else 128)


def _rc4(data: bytes, session_key: SessionKey) -> bytes:
    """Encrypt or decrypt with RC4, which is its own inverse."""
    stream = Cipher(ARC4(session_key.key), None).encryptor()
    return stream.update(data) + stream.finalize()


def _aes(session_key: SessionKey) -> Cipher[CBC]:
    return Cipher(AES(session_key.key), CBC(bytes(AES.block_size // 8)))
