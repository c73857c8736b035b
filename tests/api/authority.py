"""An authority that signs certificates for a test."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Certificates for a test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.file = directory / "authority.pem"
        self.file.write_bytes(self._issue(self.name, self.key.public_key(), "authority", True))

    def _issue(self, subject: x509.Name, key: Any, name: str, authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        serial = x509.random_serial_number()
        made = (
            x509.CertificateBuilder(self.name, subject, key, serial, now - day, now + day)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.key, SHA256())
        )
        return made.public_bytes(Encoding.PEM)

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of somebody, as files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, private = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        certificate.write_bytes(self._issue(subject, key.public_key(), name, False))
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, private
