"""Between the key blobs of the wire and RSA keys that can be used."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import InvalidVersion, load_der_x509_certificate

from msmq.errors import DecodeError
from msmq.wire.keys import KeyType, PublicKeyBlob

# What the library raises for bad certificates. The warning is about some that a later release refuses; Python
# can be told to raise it.
_UNREADABLE = (ValueError, UnsupportedAlgorithm, InvalidVersion, CryptographyDeprecationWarning)


def export_public_key(
    key: RSAPublicKey | RSAPrivateKey, key_type: KeyType = KeyType.EXCHANGE
) -> PublicKeyBlob:
    """The public half of a key as the blob that others are given."""
    numbers = (key.public_key() if isinstance(key, RSAPrivateKey) else key).public_numbers()
    return PublicKeyBlob(numbers.e, numbers.n, key_type)


def import_public_key(blob: PublicKeyBlob) -> RSAPublicKey:
    """The key in a blob; numbers that are no RSA key raise `DecodeError`."""
    try:
        return RSAPublicNumbers(blob.public_exponent, blob.modulus).public_key()
    except ValueError:
        raise DecodeError("PUBLICKEYBLOB holds numbers that are no RSA key") from None


def certificate_public_key(certificate: bytes) -> RSAPublicKey:
    """The RSA key of an X.509 certificate in DER; anything else raises `DecodeError`."""
    try:
        key = load_der_x509_certificate(certificate).public_key()
    except _UNREADABLE:
        raise DecodeError("the sender's certificate is no readable X.509 certificate") from None
    if not isinstance(key, RSAPublicKey):
        raise DecodeError("the sender's certificate holds no RSA key")
    return key
