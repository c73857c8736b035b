"""Certificates of users: registered, found again after a restart, taken back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key
from typer.testing import CliRunner

import msmq
from msmq.api.generated import msmq_pb2 as pb
from msmq.cli import app
from msmq.errors import (
    AccessDeniedError,
    CertificateNotProvidedError,
    InvalidCertificateError,
    MessageNotAuthenticatedError,
)
from msmq.manager.directory import Expression, ObjectClass, Relation
from msmq.manager.messages.serialize import received
from msmq.manager.model import QueuePrivacyLevel
from msmq.security.sid import Sid
from msmq.server.config import ApiConfig
from msmq.wire.certificates import UserSignCerts
from tests.api.authority import Authority
from tests.api.support import QUEUE, Caller, address, calling, daemon
from tests.security.correspondent import SID
from tests.server.domain import domain, introduce
from tests.server.support import ALICE, BOB, eventually


async def listed(call: Caller) -> list[pb.Certificate]:
    return list((await call("ListCertificates", pb.ListCertificatesRequest())).certificates)


async def test_register_restart_and_remove(tmp_path: Path) -> None:
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
    async with (
        daemon(tmp_path, allow_anonymous=True) as running,
        calling(address(running, "127")) as stranger,
    ):
        with pytest.raises(AccessDeniedError):
            await stranger("RenewInternalCertificate", pb.RenewInternalCertificateRequest())


async def test_the_key_that_is_kept_is_the_owners_and_can_be_taken_back(tmp_path: Path) -> None:
    """Nobody else can read the store, and after a removal and a compaction the key is not in it any more."""
    data = tmp_path / "data"

    def files_with(key: bytes) -> list[Path]:
        return [
            path for path in data.rglob("*") if path.is_file() and key.hex().encode() in path.read_bytes()
        ]

    before = os.umask(0o022)  # the usual one, which would let everybody read
    try:
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            internal = await call("RenewInternalCertificate", pb.RenewInternalCertificateRequest())
            kept = files_with(internal.private_key)
            assert kept
            store = kept[0].parent
            for path in (store, *store.rglob("*")):
                wanted = 0o700 if path.is_dir() else 0o600
                assert stat.S_IMODE(path.stat().st_mode) == wanted, path
            digest = internal.certificate.digest
            await call("RemoveCertificate", pb.RemoveCertificateRequest(digest=digest))
        result = CliRunner().invoke(app, ["store", "compact", str(store)])
        assert result.exit_code == 0, result.output
        assert not files_with(internal.private_key)
        async with daemon(tmp_path) as running, calling(address(running)) as call:
            assert await listed(call) == []
    finally:
        os.umask(before)


async def test_the_queue_manager_signs_for_whom_it_made_a_certificate(tmp_path: Path) -> None:
    signed = msmq.Message("ten apples", authenticate=True)
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        queue = await mq.create_queue(QUEUE, authenticated_only=True)
        with pytest.raises(CertificateNotProvidedError):
            await queue.send(signed)
        await mq.renew_internal_certificate()
        await queue.send(signed)
        with pytest.raises(MessageNotAuthenticatedError):
            await queue.send("anybody could say so")
        await queue.send_many([signed, signed.with_(body="two pears")])
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        queue = mq.queue(QUEUE)
        await queue.send(signed.with_(body="after a restart"))
        found = [message async for message in queue.browse()]
        assert [message.text for message in found] == [
            "ten apples",
            "ten apples",
            "two pears",
            "after a restart",
        ]
        assert all(message.authenticated for message in found)
        assert {message.sender for message in found} == {(await mq.manager()).caller}
        (certificate,) = await mq.certificates()
        await mq.remove_certificate(certificate.digest)
        with pytest.raises(CertificateNotProvidedError):
            await queue.send(signed)


async def test_a_signed_and_encrypted_message_to_another_host(tmp_path: Path) -> None:
    """Its certificate is published with the user, beside those that were there before."""

    door = ApiConfig(listen=(f"unix:{tmp_path / 'api'}",), users={str(os.geteuid()): str(Sid.decode(SID))})
    async with domain(tmp_path) as here:
        alice, bob = await here.member(ALICE, api=door), await here.member(BOB)
        hello = alice.queue("hello")
        introduce(bob, ALICE)
        await eventually(lambda: len(hello.positions) == 1)
        orders = bob.queue("orders", authentication=True, privacy_level=QueuePrivacyLevel.BODY)
        async with msmq.connect(door.listen[0]) as mq:
            await mq.renew_internal_certificate()
            queue = mq.queue(bob.private_name(orders))
            message = msmq.Message(b"ten apples", authenticate=True, privacy=msmq.Privacy.AES)
            await queue.send(message)
            await eventually(lambda: len(orders.positions) == 1)
            (stored,) = bob.stored(orders)
            assert stored.packet.body == b"ten apples"
            assert stored.local.authentication_level
            assert received(stored).sender_identifier == SID
            wanted = (Expression("security_identifier", Relation.EQUALS, SID),)
            _, found = here.shared.read(ObjectClass.USER, wanted, None)
            assert found is not None
            published = UserSignCerts.decode(found.attributes["certificates"]).certificates
            (own,) = await mq.certificates()
            assert len(published) == 2
            assert own.digest in found.attributes["certificate_digest_list"]
            await mq.renew_internal_certificate()
            _, found = here.shared.read(ObjectClass.USER, wanted, None)
            assert found is not None
            assert own.digest not in found.attributes["certificate_digest_list"]
            assert len(found.attributes["certificate_digest_list"]) == 2
            await queue.send(message)
            await eventually(lambda: len(orders.positions) == 2)
        assert alice.core.internal_certificates
