"""Signing messages and verifying their signatures (MS-MQMQ 2.2.19.3, 2.5; MS-MQQB 3.1.5.8.3, 3.1.7.1.4).

The signed bytes are built from the packet by `msmq.wire.signature`. The signature is RSASSA-PKCS1-v1_5 over its hash,
least significant byte first as CryptoAPI writes it. Neither the padding nor the byte order is in the specification
(MQQB-3.1.5.8.3-h): only this module knows them.

Six hash algorithms exist on the wire, and four of them no longer protect anything. All can be verified, because old
peers use them, but a `HashPolicy` decides which are accepted, by default only SHA-512.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import NoDigestInfo

from msmq.errors import CannotSignDataExError, DecodeError
from msmq.security.keys import certificate_public_key
from msmq.security.legacy import md2, md4
from msmq.security.rejections import AuthenticationError
from msmq.wire.algorithms import HashAlgorithm
from msmq.wire.signature import SignatureType


@dataclass(frozen=True, slots=True)
class HashPolicy:
    """The hash algorithms that are accepted.

    Windows 8 and later accept only SHA-512 unless more is configured; so do we (MQQB-1.3.2.2-b).
    """

    accepted: frozenset[HashAlgorithm] = frozenset({HashAlgorithm.SHA512})

    def require(self, number: int) -> HashAlgorithm:
        """The algorithm with this number on the wire. Raises AuthenticationError if there is none or it is not
        accepted."""
        try:
            algorithm = HashAlgorithm(number)
        except ValueError:
            raise AuthenticationError(f"0x{number:08X} is no hash algorithm") from None
        if algorithm not in self.accepted:
            raise AuthenticationError(f"signatures with {algorithm.name} are not accepted here")
        return algorithm


@dataclass(frozen=True, slots=True)
class _Hash:
    """A hash function, and the DER prefix that names it in front of a digest (RFC 8017 9.2, note 1)."""

    digest: Callable[[bytes], bytes]
    prefix: bytes


_HASHES: Mapping[HashAlgorithm, _Hash] = MappingProxyType(
    {
        HashAlgorithm.MD2: _Hash(md2, bytes.fromhex("3020300c06082a864886f70d020205000410")),
        HashAlgorithm.MD4: _Hash(md4, bytes.fromhex("3020300c06082a864886f70d020405000410")),
        HashAlgorithm.MD5: _Hash(
            lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
            bytes.fromhex("3020300c06082a864886f70d020505000410"),
        ),
        HashAlgorithm.SHA1: _Hash(
            lambda data: hashlib.sha1(data, usedforsecurity=False).digest(),
            bytes.fromhex("3021300906052b0e03021a05000414"),
        ),
        HashAlgorithm.SHA256: _Hash(
            lambda data: hashlib.sha256(data).digest(),
            bytes.fromhex("3031300d060960864801650304020105000420"),
        ),
        HashAlgorithm.SHA512: _Hash(
            lambda data: hashlib.sha512(data).digest(),
            bytes.fromhex("3051300d060960864801650304020305000440"),
        ),
    }
)


def digest(data: bytes, hash_algorithm: HashAlgorithm) -> bytes:
    """The hash of ``data``."""
    return _HASHES[hash_algorithm].digest(data)


def _digest_info(data: bytes, hash_algorithm: HashAlgorithm) -> bytes:
    return _HASHES[hash_algorithm].prefix + digest(data, hash_algorithm)


def sign(data: bytes, key: RSAPrivateKey, hash_algorithm: HashAlgorithm = HashAlgorithm.SHA512) -> bytes:
    """Sign ``data``; returns the signature in the byte order of the packet."""
    try:
        signature = key.sign(_digest_info(data, hash_algorithm), PKCS1v15(), NoDigestInfo())
    except ValueError:
        raise CannotSignDataExError(
            f"An RSA key of {key.key_size} bits is too short for {hash_algorithm.name}."
        ) from None
    return signature[::-1]


def verify(data: bytes, signature: bytes, key: RSAPublicKey, hash_algorithm: HashAlgorithm) -> bool:
    """Whether ``signature`` is one of ``data`` under ``key``, whatever the policy."""
    return _recover(signature, key) == _digest_info(data, hash_algorithm)


def _recover(signature: bytes, key: RSAPublicKey) -> bytes | None:
    """The signed data, or None if the padding is not exactly that of RFC 8017 8.2."""
    try:
        return key.recover_data_from_signature(signature[::-1], PKCS1v15(), None)
    except (InvalidSignature, ValueError):
        return None


def authenticate(
    signature: bytes,
    candidates: Mapping[SignatureType, bytes],
    certificate: bytes,
    hash_algorithm: int,
    policy: HashPolicy,
) -> SignatureType | None:
    """Verify a received signature and return its type, or raise `AuthenticationError` (MS-MQQB 3.1.5.8.3).

    ``candidates`` are the byte sequences that may have been signed, in the order to try them: MSMQ 2.0 before 1.0 for
    SecurityData.Signature, 3.0 for MultiQueueFormatHeader.Signature. Returns None without a signature, whatever the
    other arguments are.
    """
    if not signature:
        return None
    algorithm = policy.require(hash_algorithm)
    try:
        key = certificate_public_key(certificate)
    except DecodeError as error:
        raise AuthenticationError(error.reason) from None
    recovered = _recover(signature, key)
    for signature_type, data in candidates.items():
        if recovered == _digest_info(data, algorithm):
            return signature_type
    raise AuthenticationError("the signature does not match the message")
