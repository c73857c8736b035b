"""The certificate that the console makes if none is configured: off this computer it always uses TLS.

Browsers do not trust it, and say so; its fingerprint is in the log, for comparison. A certificate of a real authority
is named in the configuration.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from msmq.server.web_settings import WebSettings

_LIFETIME: Final = timedelta(days=397)
_EARLY: Final = timedelta(days=30)
"""How long before its end it is replaced when the console starts."""
_log = logging.getLogger("msmq.web")


def with_own_certificate(web: WebSettings, directory: Path, name: str) -> WebSettings:
    """Return the settings with a certificate in ``directory``; a new one is made unless there is a good one."""
    certificate, private_key = directory / "console.pem", directory / "console.key"
    found = _good(certificate, private_key)
    if found is None:
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        found = _certificate(key, _names(web.address[0], name))
        _write(private_key, _pem(key))
        _write(certificate, found.public_bytes(serialization.Encoding.PEM))
    fingerprint = found.fingerprint(hashes.SHA256()).hex(":").upper()
    _log.warning(
        "the console has a certificate of its own, %s, with the SHA-256 %s", certificate, fingerprint
    )
    return replace(web, certificate=str(certificate), private_key=str(private_key))


def _good(certificate: Path, private_key: Path) -> x509.Certificate | None:
    """Return the certificate that is there, unless it ends soon."""
    with suppress(OSError, ValueError):
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        if private_key.is_file() and found.not_valid_after_utc > datetime.now(UTC) + _EARLY:
            return found
    return None


def _names(host: str, name: str) -> list[x509.GeneralName]:
    """Return the names by which a browser may call this console."""
    names = dict.fromkeys((name.lower(), socket.gethostname().lower(), socket.getfqdn().lower(), "localhost"))
    found: list[x509.GeneralName] = [x509.DNSName(each) for each in names if each and each.isascii()]
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if not address.is_unspecified:
            found.append(x509.IPAddress(address))
    return found


def _certificate(key: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName]) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "OpenMSMQ console")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    aside = path.with_name(path.name + ".new")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    aside.replace(path)
