"""The keys of a queue manager, made when it is provisioned (MS-MQDMPR 3.1.3).

There is one RSA key for encryption and one for signing for each of three cryptographic providers. Their
public halves are published as MQDSPUBLICKEYS; the private ones are kept in the ledger.

The lengths are those of the specification, and weak: 512 bits protect nothing, and the base provider's key
exists only because old senders ask for it. Libraries refuse to make a key that short, so its primes are found
here, in the way of FIPS 186 B.3.3; longer keys come from the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd, isqrt, lcm
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPrivateNumbers, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from msmq.errors import InsufficientResourcesError
from msmq.security.keys import export_public_key
from msmq.security.providers import BASE, ENHANCED, ENHANCED_RSA_AES, PRIVACY_PROVIDERS
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.keys import DSPublicKey, DSPublicKeys, KeyType, ProviderType

RandomBytes = Callable[[int], bytes]
KeyMaker = Callable[[int], RSAPrivateKey]

KEY_BITS: Final = {BASE: 512, ENHANCED: 1024, ENHANCED_RSA_AES: 1024}
"""The providers that have keys, and how long those are."""

PROVIDER_TYPES: Final = {
    BASE: ProviderType.RSA_FULL,
    ENHANCED: ProviderType.RSA_FULL,
    ENHANCED_RSA_AES: ProviderType.RSA_AES,
}

PUBLIC_EXPONENT: Final = 65_537
_LIBRARY_MINIMUM_BITS: Final = 1024
_SMALL_PRIMES: Final = tuple(n for n in range(3, 2000, 2) if all(n % d for d in range(3, isqrt(n) + 1, 2)))
_ROUNDS: Final = 40
_CANDIDATES_PER_BIT: Final = 50
"""The most candidates for each bit of a prime. About one odd number in 0.35 * bits is prime: if none of so many is,
the random generator is broken."""
_BAD_GENERATOR: Final = "No RSA key can be made: the random generator of this host repeats itself."


# --- making keys --------------------------------------------------------------------------------------------


def generate_key(bits: int, random_bytes: RandomBytes) -> RSAPrivateKey:
    """A new RSA key; ``random_bytes`` must be a secure generator."""
    if bits >= _LIBRARY_MINIMUM_BITS:
        return rsa.generate_private_key(PUBLIC_EXPONENT, bits)
    return _short_key(bits, random_bytes)


def _short_key(bits: int, random_bytes: RandomBytes) -> RSAPrivateKey:
    """A key the library would not make but uses; the two primes lie well apart (FIPS 186 B.3.1)."""
    p = generate_prime(bits // 2, random_bytes)
    q = generate_prime(bits // 2, random_bytes)
    if abs(p - q) <= 1 << bits // 2 - 100:
        raise InsufficientResourcesError(_BAD_GENERATOR)  # by chance once in 2**99 keys
    p, q = max(p, q), min(p, q)
    d = pow(PUBLIC_EXPONENT, -1, lcm(p - 1, q - 1))
    numbers = RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), RSAPublicNumbers(PUBLIC_EXPONENT, p * q)
    )
    return numbers.private_key()


def generate_prime(bits: int, random_bytes: RandomBytes) -> int:
    """A random prime with both top bits set, so that two of them make a modulus of full length; one less is
    coprime to the public exponent."""
    for _ in range(_CANDIDATES_PER_BIT * bits):
        candidate = int.from_bytes(random_bytes(bits // 8), "big") | 3 << bits - 2 | 1
        if gcd(candidate - 1, PUBLIC_EXPONENT) == 1 and is_probable_prime(candidate, random_bytes):
            return candidate
    raise InsufficientResourcesError(_BAD_GENERATOR)


def is_probable_prime(number: int, random_bytes: RandomBytes) -> bool:
    """Miller-Rabin with random bases; a composite passes with a chance below 2**-80."""
    if number < 2 or number % 2 == 0:
        return number == 2
    if any(number % prime == 0 for prime in _SMALL_PRIMES):
        return number in _SMALL_PRIMES
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    size = (number.bit_length() + 7) // 8
    for _ in range(_ROUNDS):
        base = 2 + int.from_bytes(random_bytes(size), "big") % (number - 3)
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


# --- the keys of this queue manager -------------------------------------------------------------------------


@dataclass(slots=True)
class KeyRing:
    """Private keys by provider: ``exchange`` opens what was encrypted for us, ``sign`` signs."""

    exchange: dict[str, RSAPrivateKey] = field(default_factory=dict, repr=False)
    sign: dict[str, RSAPrivateKey] = field(default_factory=dict, repr=False)

    @classmethod
    def generate(cls, make: KeyMaker) -> KeyRing:
        exchange = {provider: make(bits) for provider, bits in KEY_BITS.items()}
        return cls(exchange, {provider: make(bits) for provider, bits in KEY_BITS.items()})

    def public_encryption_key_list(self) -> bytes:
        """MQDSPUBLICKEYS to publish as PublicEncryptionKeyList."""
        return _public_list(self.exchange, KeyType.EXCHANGE)

    def public_signing_key_list(self) -> bytes:
        """MQDSPUBLICKEYS to publish as PublicSigningKeyList."""
        return _public_list(self.sign, KeyType.SIGN)

    def decryption_keys(self) -> dict[PrivacyLevel, RSAPrivateKey]:
        """The key that decrypts bodies of each privacy level."""
        return {
            level: self.exchange[provider]
            for level, provider in PRIVACY_PROVIDERS.items()
            if provider in self.exchange
        }

    def to_value(self) -> dict[str, dict[str, str]]:
        """The value for the ledger: PKCS #8 in hexadecimal. Whoever can read the store can read the keys."""
        return {"exchange": _to_text(self.exchange), "sign": _to_text(self.sign)}

    @classmethod
    def from_value(cls, value: dict[str, Any] | None) -> KeyRing:
        if value is None:
            return cls()
        return cls(_from_text(value["exchange"]), _from_text(value["sign"]))


def _public_list(keys: dict[str, RSAPrivateKey], key_type: KeyType) -> bytes:
    entries = (
        DSPublicKey(PROVIDER_TYPES[provider], provider, export_public_key(key, key_type).encode())
        for provider, key in keys.items()
    )
    return DSPublicKeys(tuple(entries)).encode()


def _to_text(keys: dict[str, RSAPrivateKey]) -> dict[str, str]:
    return {
        provider: key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()).hex()
        for provider, key in keys.items()
    }


def _from_text(texts: dict[str, str]) -> dict[str, RSAPrivateKey]:
    keys = {}
    for provider, text in texts.items():
        # We have written the key ourselves, and the store has just verified the checksum of its record, so a damaged
        # key does not get here, and whoever can write into the store has the key anyway. Checking its primes again
        # would cost some ten milliseconds for each key at each start.
        key = load_der_private_key(bytes.fromhex(text), None, unsafe_skip_rsa_key_validation=True)
        assert isinstance(key, RSAPrivateKey)
        keys[provider] = key
    return keys
