"""Conversion between the key blobs of the wire and usable RSA keys."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import InvalidVersion, load_der_x509_certificate

from msmq.errors import DecodeError
from msmq.wire.keys import KeyType, PublicKeyBlob

# Raised by the library for bad certificates. The warning is for certificates that a later release refuses; Python can
# be configured to raise it.
_UNREADABLE = (ValueError, UnsupportedAlgorithm, InvalidVersion, CryptographyDeprecationWarning)


def export_public_key(
    key: RSAPublicKey | RSAPrivateKey, key_type: KeyType = KeyType.EXCHANGE
) -> PublicKeyBlob:
    """The blob of the public half of a key."""
    numbers = (key.public_key() if isinstance(key, RSAPrivateKey) else key).public_numbers()
    return PublicKeyBlob(numbers.e, numbers.n, key_type)


def import_public_key(blob: PublicKeyBlob) -> RSAPublicKey:
    """The key in a blob. Raises `DecodeError` for numbers that are no RSA key."""
    try:
        return RSAPublicNumbers(blob.public_exponent, blob.modulus).public_key()
    except ValueError:
        raise DecodeError("PUBLICKEYBLOB holds numbers that are no RSA key") from None


def certificate_public_key(certificate: bytes) -> RSAPublicKey:
    """The RSA key of an X.509 certificate in DER. Raises `DecodeError` for anything else."""
    try:
        key = load_der_x509_certificate(certificate).public_key()
    except _UNREADABLE:
        raise DecodeError("the sender's certificate is no readable X.509 certificate") from None
    if not isinstance(key, RSAPublicKey):
        raise DecodeError("the sender's certificate holds no RSA key")
    return key
