"""Certificates of users: registered, found again after a restart, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InvalidCertificateError
from tests.api.support import Caller, address, calling, daemon
from tests.api.test_door import Authority
from tests.server.support import run


async def listed(call: Caller) -> list[pb.Certificate]:
    return list((await call("ListCertificates", pb.ListCertificatesRequest())).certificates)


def test_register_restart_and_remove(tmp_path: Path) -> None:
    async def test() -> None:
        pem, _ = Authority(tmp_path).issue("alice")
        der = x509.load_pem_x509_certificate(pem.read_bytes()).public_bytes(Encoding.DER)
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            assert await listed(call) == []
            made = await call("RegisterCertificate", pb.RegisterCertificateRequest(certificate=der))
            assert made.subject == "CN=alice"
            await call("RegisterCertificate", pb.RegisterCertificateRequest(certificate=der))
            internal = await call("RenewInternalCertificate", pb.RenewInternalCertificateRequest())
            own = x509.load_der_x509_certificate(internal.certificate.certificate)
            key = load_der_private_key(internal.private_key, None)
            assert own.public_key() == key.public_key()
            before = await listed(call)
            assert [found.internal for found in before] == [False, True]
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            assert await listed(call) == before
            for found in before:
                await call("RemoveCertificate", pb.RemoveCertificateRequest(digest=found.digest))
            assert await listed(call) == []
            with pytest.raises(InvalidCertificateError):
                await call("RemoveCertificate", pb.RemoveCertificateRequest(digest=before[0].digest))
            with pytest.raises(InvalidCertificateError):
                await call("RegisterCertificate", pb.RegisterCertificateRequest(certificate=b"no"))
        async with daemon(tmp_path) as running, calling(address(running, "127")) as stranger:
            with pytest.raises(AccessDeniedError):
                await stranger("RenewInternalCertificate", pb.RenewInternalCertificateRequest())

    run(test)
