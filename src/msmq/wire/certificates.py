"""The signing certificates a user has registered (MS-MQMQ 2.2.21, 2.2.22)."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from msmq.errors import DecodeError, EncodeError

_COUNT = struct.Struct("<I")
_HEAD = struct.Struct("<16s16sI")


def certificate_digest(certificate: bytes) -> bytes:
    """Return the MD5 by which a certificate is looked up. It identifies the certificate and proves nothing about it."""
    return hashlib.md5(certificate, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True)
class UserSignCert:
    """MQUSERSIGNCERT (MS-MQMQ 2.2.22): 36 bytes, then the X.509 certificate in DER."""

    digest: bytes
    identifier: bytes
    certificate: bytes

    @classmethod
    def of(cls, certificate: bytes, identifier: bytes) -> UserSignCert:
        """Make a new registration; ``identifier`` is a fresh GUID made by the caller who registers the certificate."""
        return cls(certificate_digest(certificate), identifier, certificate)

    def encode(self) -> bytes:
        if len(self.digest) != 16 or len(self.identifier) != 16:
            raise EncodeError("MQUSERSIGNCERT has a digest and an identifier of 16 bytes each")
        return _HEAD.pack(self.digest, self.identifier, len(self.certificate)) + self.certificate

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> UserSignCert:
        if len(data) - offset < _HEAD.size:
            raise DecodeError("MQUSERSIGNCERT ends inside its 36 fixed bytes", offset)
        digest, identifier, length = _HEAD.unpack_from(data, offset)
        start = offset + _HEAD.size
        if length > len(data) - start:
            raise DecodeError("MQUSERSIGNCERT.CertificateLength reaches past the end", start - 4)
        return cls(digest, identifier, bytes(data[start : start + length]))


@dataclass(frozen=True, slots=True)
class UserSignCerts:
    """MQUSERSIGNCERTS (MS-MQMQ 2.2.21): the content of the BLOB that holds a user's certificates."""

    certificates: tuple[UserSignCert, ...] = ()

    def register(self, certificate: bytes, identifier: bytes) -> UserSignCerts:
        """Return the list with one more certificate. An identifier may be used for one registration only."""
        if any(known.identifier == identifier for known in self.certificates):
            raise EncodeError("the identifier belongs to another registered certificate")
        return UserSignCerts((*self.certificates, UserSignCert.of(certificate, identifier)))

    def encode(self) -> bytes:
        return _COUNT.pack(len(self.certificates)) + b"".join(c.encode() for c in self.certificates)

    @classmethod
    def decode(cls, data: bytes) -> UserSignCerts:
        if len(data) < _COUNT.size:
            raise DecodeError("MQUSERSIGNCERTS ends inside its count", 0)
        (count,) = _COUNT.unpack_from(data)
        # Checked before the loop, so that a false count costs nothing.
        if count * _HEAD.size > len(data) - _COUNT.size:
            raise DecodeError("MQUSERSIGNCERTS.CertificateCount is more than the blob can hold", 0)
        certificates = []
        offset = _COUNT.size
        for _ in range(count):
            certificate = UserSignCert.decode(data, offset)
            certificates.append(certificate)
            offset += _HEAD.size + len(certificate.certificate)
        if offset != len(data):
            raise DecodeError("bytes follow the last certificate of MQUSERSIGNCERTS", offset)
        return cls(tuple(certificates))
