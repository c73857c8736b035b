"""Calls about certificates of users: they are registered with the queue manager and kept in its ledger, and each user
has one internal certificate."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, DecodeError, InvalidCertificateError, InvalidParameterError
from msmq.manager.access.certificates import (
    INTERNAL_KEY_BITS,
    make_internal_certificate,
    register_certificate,
)
from msmq.manager.directory import DirectoryObject, DirectoryResult, Expression, ObjectClass, Relation
from msmq.manager.model import InternalCertificate, User
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.security.sid import ADMINISTRATORS, ANONYMOUS, Sid
from msmq.wire.certificates import UserSignCerts, certificate_digest

_log = logging.getLogger(__name__)
_KEY: Final = "user/"
_MOST_CERTIFICATES: Final = 64


class CertificateCalls:
    """The calls about certificates."""

    def __init__(self, desk: Desk, recovered: Mapping[str, Any]) -> None:
        self._desk = desk
        self._core = desk.manager.core
        self._users: dict[str, User] = {}
        for key, value in recovered.items():
            if key.startswith(_KEY):
                self._restore(key.removeprefix(_KEY), value)

    def _restore(self, sid: str, value: dict[str, Any]) -> None:
        user = User(
            identifier=bytes.fromhex(value["identifier"]),
            security_identifier=Sid.parse(sid).encode(),
            certificate_digest_list=tuple(map(bytes.fromhex, value["digests"])),
            certificates=bytes.fromhex(value["certificates"]),
        )
        self._users[sid] = user
        if value["internal"]:
            internal = InternalCertificate(bytes.fromhex(value["internal"]), user)
            self._core.internal_certificates[user.security_identifier] = internal
            if value.get("key"):  # early versions did not keep the key
                key = load_der_private_key(bytes.fromhex(value["key"]), None)
                assert isinstance(key, rsa.RSAPrivateKey)
                self._desk.signers[Sid.parse(sid)] = Signer(internal.certificate, key)

    def _write(self, user: User) -> None:
        internal = self._core.internal_certificates.get(user.security_identifier)
        signer = self._desk.signers.get(Sid.decode(user.security_identifier))
        value = {
            "identifier": user.identifier.hex(),
            "digests": [digest.hex() for digest in user.certificate_digest_list],
            "certificates": user.certificates.hex(),
            "internal": internal.certificate.hex() if internal else "",
            "key": _private_bytes(signer.key).hex() if signer else "",
        }
        self._core.ledger.put_value(f"{_KEY}{Sid.decode(user.security_identifier)}", value)

    def _user_of(self, caller: Token) -> User:
        if caller.user == ANONYMOUS:
            raise AccessDeniedError("Certificates belong to a user; this connection is anonymous.")
        sid = str(caller.user)
        if sid not in self._users:
            identifier = self._core.environment.random_bytes(16)
            self._users[sid] = User(identifier, caller.user.encode())
        return self._users[sid]

    # --- calls --------------------------------------------------------------------------------------------------

    async def list_certificates(
        self, request: pb.ListCertificatesRequest, caller: Token
    ) -> pb.ListCertificatesReply:
        sid = request.sid or str(caller.user)
        if sid != str(caller.user) and not caller.has(ADMINISTRATORS):
            raise AccessDeniedError("The certificates of others are for administrators.")
        user = self._users.get(sid)
        if user is None:
            return pb.ListCertificatesReply()
        found = [_describe(entry.certificate, sid) for entry in _registered(user).certificates]
        internal = self._core.internal_certificates.get(user.security_identifier)
        if internal is not None:
            found.append(_describe(internal.certificate, sid, internal=True))
        return pb.ListCertificatesReply(certificates=found)

    async def register_certificate(
        self, request: pb.RegisterCertificateRequest, caller: Token
    ) -> pb.Certificate:
        described = _describe(request.certificate, str(caller.user))
        user = self._user_of(caller)
        if described.digest in user.certificate_digest_list:
            return described
        if len(user.certificate_digest_list) >= _MOST_CERTIFICATES:
            raise InvalidParameterError(f"A user has {_MOST_CERTIFICATES} certificates at most; remove one.")
        register_certificate(user, request.certificate, self._core.environment.random_bytes(16))
        self._write(user)
        await self._publish(user, caller, request.certificate)
        await self._desk.durable()
        return described

    async def remove_certificate(self, request: pb.RemoveCertificateRequest, caller: Token) -> pb.Done:
        user = self._user_of(caller)
        kept = tuple(entry for entry in _registered(user).certificates if entry.digest != request.digest)
        internal = self._core.internal_certificates.get(user.security_identifier)
        if internal is not None and certificate_digest(internal.certificate) == request.digest:
            del self._core.internal_certificates[user.security_identifier]
            self._desk.signers.pop(caller.user, None)
        elif len(kept) == len(_registered(user).certificates):
            raise InvalidCertificateError("No certificate with this digest is registered for the caller.")
        user.certificates = UserSignCerts(kept).encode()
        user.certificate_digest_list = tuple(entry.digest for entry in kept)
        self._write(user)
        await self._publish(user, caller, without=request.digest)
        await self._desk.durable()
        return pb.Done()

    async def renew_internal_certificate(
        self, request: pb.RenewInternalCertificateRequest, caller: Token
    ) -> pb.InternalCertificate:
        user = self._user_of(caller)
        old = self._core.internal_certificates.get(user.security_identifier)
        key = rsa.generate_private_key(65_537, INTERNAL_KEY_BITS)
        made = make_internal_certificate(self._core, user, key)
        self._desk.signers[caller.user] = Signer(made.certificate, key)
        self._write(user)
        without = certificate_digest(old.certificate) if old is not None else b""
        await self._publish(user, caller, made.certificate, without=without)
        await self._desk.durable()
        return pb.InternalCertificate(
            certificate=_describe(made.certificate, str(caller.user), internal=True),
            private_key=_private_bytes(key),
        )

    async def _publish(
        self, user: User, caller: Token, certificate: bytes = b"", *, without: bytes = b""
    ) -> None:
        """Add a certificate to those that the directory has of a user, or remove the one with the digest ``without``.
        Without a directory, or if it does not know the user, the certificates are valid on this host only."""
        directory = self._desk.manager.directory
        wanted = (Expression("security_identifier", Relation.EQUALS, user.security_identifier),)

        def publish() -> bool:
            result, found = directory.read(ObjectClass.USER, wanted, None)
            if result is not DirectoryResult.SUCCESS or found is None:
                return False
            try:
                published = UserSignCerts.decode(found.attributes["certificates"] or UserSignCerts().encode())
            except DecodeError:  # what others have put there must not be overwritten
                return False
            kept = UserSignCerts(tuple(entry for entry in published.certificates if entry.digest != without))
            if certificate:
                kept = kept.register(certificate, self._core.environment.random_bytes(16))
            digests = tuple(entry.digest for entry in kept.certificates)
            changed = {"certificates": kept.encode(), "certificate_digest_list": digests}
            item = DirectoryObject(ObjectClass.USER, {**found.attributes, **changed})
            return directory.write(item, tuple(changed), caller=caller) is DirectoryResult.SUCCESS

        # Others may have added certificates since we last read the entry.
        if not await self._desk.host.change(publish, anew=True) and self._core.directory_integrated:
            _log.warning(
                "The directory did not take the certificates of %s; other hosts will not know what they sign. The "
                "account of this host needs the right to write mSMQSignCertificates and mSMQDigests of the user.",
                caller.user,
            )


def _private_bytes(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _registered(user: User) -> UserSignCerts:
    return UserSignCerts.decode(user.certificates) if user.certificates else UserSignCerts()


def _describe(certificate: bytes, sid: str, *, internal: bool = False) -> pb.Certificate:
    try:
        read = x509.load_der_x509_certificate(certificate)
        return pb.Certificate(
            certificate=certificate,
            digest=certificate_digest(certificate),
            sid=sid,
            subject=read.subject.rfc4514_string(),
            issuer=read.issuer.rfc4514_string(),
            expires_time=int(read.not_valid_after_utc.timestamp()),
            internal=internal,
        )
    except ValueError as error:
        raise InvalidCertificateError(f"This is no X.509 certificate in DER: {error}") from None
