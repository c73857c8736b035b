"""Users and their certificates (MS-MQDMPR 3.1.1.15, 3.1.1.19).

A user signs with certificates of their own, which are registered here and published with the user, or with an
internal certificate that the queue manager makes for them. There is at most one internal certificate for each
user: a new one takes the place of the old.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from msmq.manager.core import Core
from msmq.manager.model import InternalCertificate, User
from msmq.security.sid import Sid
from msmq.wire.certificates import UserSignCerts, certificate_digest

INTERNAL_KEY_BITS: Final = 2048
_LIFETIME: Final = timedelta(days=8 * 365)


def register_certificate(user: User, certificate: bytes, identifier: bytes) -> None:
    """Add a certificate (X.509 in DER) to a user's; ``identifier`` is a fresh GUID for it."""
    registered = UserSignCerts.decode(user.certificates) if user.certificates else UserSignCerts()
    user.certificates = registered.register(certificate, identifier).encode()
    user.certificate_digest_list += (certificate_digest(certificate),)


def make_internal_certificate(core: Core, user: User, key: RSAPrivateKey) -> InternalCertificate:
    """Make the internal certificate of a user for ``key``, whose private half signs for the user."""
    subject = str(Sid.decode(user.security_identifier))
    internal = InternalCertificate(make_certificate(core, subject, key), user)
    core.internal_certificates[user.security_identifier] = internal
    return internal


def make_certificate(core: Core, subject: str, key: RSAPrivateKey) -> bytes:
    """A certificate in DER that this queue manager issues for the owner of ``key``, signed with that key."""
    host = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, core.record.computer_name)])
    owner = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    made = datetime.fromtimestamp(core.now_s, UTC)
    # twenty bytes are the most a serial number may have, and it is positive
    serial = int.from_bytes(core.environment.random_bytes(20), "big") >> 1 | 1
    certificate = (
        x509.CertificateBuilder(host, owner, key.public_key(), serial, made, made + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    return certificate.public_bytes(Encoding.DER)
