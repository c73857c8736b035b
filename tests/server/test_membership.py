"""Queue managers in a real domain: published, found by public names, signed and sealed, routed, and in an outage."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import msmq
from msmq.api.certificates import CertificateCalls
from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.directory.join import Joining
from msmq.errors import NoDsError
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, by_identifier
from msmq.manager.messages.message import AuthenticationLevel, DeliveryGuarantee
from msmq.manager.model import QueuePrivacyLevel
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.security.sid import Sid
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.certificates import UserSignCert, UserSignCerts
from msmq.wire.variant import VT, Variant
from scripts.samba_dc import HOST, PASSWORD, REALM, DomainController
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.security.correspondent import BITS
from tests.security.samples import certificate, private_key
from tests.server.members import Member, Members, members, public_name, run
from tests.server.support import ALICE, BOB, CAROL, PATIENCE_S, eventually, free_port

LABEL = 108
USER_DN = "CN=alice,CN=Users,DC=msmq,DC=test"


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


def register(domain: Domain) -> tuple[Signer, Token]:
    """A certificate of the domain's user alice, and who she is."""
    sid = domain.look(USER_DN, "objectSid")["objectSid"][0]
    blob = UserSignCerts().register(certificate(BITS), bytes(16))
    values = {
        "security_identifier": sid,
        "certificates": blob.encode(),
        "certificate_digest_list": tuple(entry.digest for entry in blob.certificates),
    }
    result = domain.directory.write(DirectoryObject(ObjectClass.USER, values), None, None)
    assert result is DirectoryResult.SUCCESS, domain.directory.last_failure
    return Signer(certificate(BITS), private_key(BITS)), Token.authenticated(Sid.decode(sid))


async def test_the_first_start_publishes_the_queue_manager_with_its_keys(
    domain: Domain, tmp_path: Path
) -> None:
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE)
        seen = domain.look(domain.directory.objects.names.queue_manager(alice.config.name))
        assert seen["objectGUID"] == [alice.guid]
        assert seen["mSMQEncryptKey"] == [alice.manager.keys.public_encryption_key_list()]
        computer = domain.look(domain.directory.objects.names.computer(alice.config.name))
        assert computer["mSMQSignCertificates"] == [alice.manager.keys.public_signing_key_list()]
        before = alice.guid
        await alice.restart()
        assert alice.guid == before


async def test_once_joined_the_account_of_the_computer_is_enough(domain: Domain, tmp_path: Path) -> None:
    name = domain.computer()
    Joining(domain.directory, name).join(DEFAULT_SITE)
    domain.controller.tool("user", "setpassword", f"{name[:15]}$", f"--newpassword={PASSWORD}")
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, name, principal=f"{name[:15]}$@{REALM}")
        seen = domain.look(domain.directory.objects.names.queue_manager(name))
        assert seen["mSMQEncryptKey"] == [alice.manager.keys.public_encryption_key_list()]
        queue = await alice.publish()
        path = domain.directory.objects.names.queue(queue.pathname)
        assert domain.exists(path)
        administration = alice.manager.administration
        await alice.daemon.change(
            lambda: administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "second")])
        )
        await alice.daemon.change(lambda: alice.manager.queues.delete(queue))
        assert not domain.exists(path)


async def test_an_object_from_before_gets_the_new_keys_and_keeps_its_site(
    domain: Domain, tmp_path: Path
) -> None:
    _, identifier = domain.site()
    old = domain.queue_manager(site_identifier_list=(identifier,), public_encryption_key_list=b"old")
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, old.attributes["computer_name"], site="")
        assert alice.guid == old.identifier
        assert alice.core.record.site_identifier_list == (identifier,)
        seen = domain.look(old.attributes["full_path"])
        assert seen["mSMQEncryptKey"] == [alice.manager.keys.public_encryption_key_list()]
        assert seen["mSMQSites"] == [identifier]


@pytest.mark.spec("DSSM-3.1.6.1.2.2-g")
async def test_public_queues_are_created_written_and_deleted(domain: Domain, tmp_path: Path) -> None:
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE)
        queue = await alice.publish("Q&A=(*)", label="first", multicast_address="234.1.1.1:8001")
        path = domain.directory.objects.names.queue(queue.pathname)
        assert domain.look(path)["objectGUID"] == [queue.identifier]
        assert domain.look(path)["mSMQLabelEx"] == [b"first"]
        assert domain.look(path)["MSMQ-MulticastAddress"] == [b"234.1.1.1:8001"]
        administration = alice.manager.administration
        await alice.daemon.change(
            lambda: administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, "second")])
        )
        assert domain.look(path)["mSMQLabelEx"] == [b"second"]
        assert queue.label == "second"
        await alice.daemon.change(lambda: alice.manager.queues.delete(queue))
        assert not domain.exists(path)
        assert queue.pathname.lower() not in alice.core.by_path


@pytest.mark.spec("MQQB-2.3-a")
async def test_signed_and_encrypted_messages_by_public_names(domain: Domain, tmp_path: Path) -> None:
    signer, user = register(domain)
    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        queue = await bob.publish(authentication=True, privacy_level=QueuePrivacyLevel.BODY)
        for number in range(3):
            await alice.post(
                public_name(queue),
                b"order %d" % number,
                signer=signer,
                caller=user,
                sender_identifier=user.user.encode(),
                authentication_level=AuthenticationLevel.SIG20,
                privacy_level=PrivacyLevel.ADVANCED,
            )
        await eventually(lambda: len(queue.positions) == 3)
        assert bob.bodies(queue) == [b"order 0", b"order 1", b"order 2"]
        for entry in queue.positions:
            stored = bob.manager.mailbox.load(queue, entry.lookup_id)
            assert stored.local.authentication_level
            assert stored.local.private


@pytest.mark.spec("DSSM-3.1.6.7.6.4-a")
async def test_a_certificate_that_an_application_registers_is_believed_elsewhere(
    domain: Domain, tmp_path: Path
) -> None:
    """What ``msmq certificate register`` calls: it is published, and another host authenticates what it signs."""
    dn = "CN=bob,CN=Users,DC=msmq,DC=test"
    sid = Sid.decode(domain.look(dn, "objectSid")["objectSid"][0])
    caller, der = Token.authenticated(sid), certificate(BITS)
    signer = Signer(der, private_key(BITS))

    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        queue = await bob.publish(authentication=True)
        name = public_name(queue)

        async def send(body: bytes, by: Signer | None) -> None:
            await alice.post(
                name,
                body,
                signer=by,
                caller=caller,
                sender_identifier=sid.encode(),
                authentication_level=AuthenticationLevel.SIG20,
            )

        pairs: list[set[str]] = []
        for node in (alice, bob):
            watch(node, pairs)
        calls = CertificateCalls(Desk(alice.daemon), {})
        made = await calls.register_certificate(pb.RegisterCertificateRequest(certificate=der), caller)
        seen = domain.look(dn)
        assert made.digest in seen["mSMQDigests"]
        assert [each.certificate for each in published(seen)] == [der]
        await send(b"signed", signer)
        await eventually(lambda: bob.bodies(queue) == [b"signed"])
        (entry,) = queue.positions
        assert bob.manager.mailbox.load(queue, entry.lookup_id).local.authentication_level

        # A second host adds one, and neither overwrites what the other did.
        others = CertificateCalls(Desk(bob.daemon), {})
        own = await others.renew_internal_certificate(pb.RenewInternalCertificateRequest(), caller)
        assert {each.certificate for each in published(domain.look(dn))} == {
            der,
            own.certificate.certificate,
        }
        await calls.remove_certificate(pb.RemoveCertificateRequest(digest=made.digest), caller)
        assert [each.certificate for each in published(domain.look(dn))] == [own.certificate.certificate]
        await others.remove_certificate(pb.RemoveCertificateRequest(digest=own.certificate.digest), caller)
        assert published(domain.look(dn)) == ()
        assert pairs == [{"certificates", "certificate_digest_list"}] * 4


def watch(node: Member, pairs: list[set[str]]) -> None:
    """Note which attributes of users are written."""
    assert node.daemon.membership is not None
    directory = node.daemon.membership.directory.directory
    write = directory.write

    def noted(
        item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        if item.object_class is ObjectClass.USER:
            pairs.append(set(attributes or ()))
        return write(item, attributes, caller)

    directory.write = noted  # type: ignore[method-assign]


def published(seen: dict[str, list[bytes]]) -> tuple[UserSignCert, ...]:
    """The certificates in a user's object."""
    return sum(
        (UserSignCerts.decode(value).certificates for value in seen.get("mSMQSignCertificates", ())), ()
    )


@pytest.mark.spec("MQQB-3.1.7.1.4-c", "MQQB-3.1.7.1.5-c")
async def test_a_third_host_routes_between_sites(domain: Domain, tmp_path: Path) -> None:
    """It neither signs nor seals: the signature is the origin's, the key the one of the destination."""
    signer, user = register(domain)

    (paris, paris_guid), (rome, rome_guid) = domain.site(), domain.site()
    router = domain.computer()
    for site in (paris, rome):
        domain.server(router, site)
    domain.queue_manager(
        computer_name=router,
        site_identifier_list=(paris_guid, rome_guid),
        routing_server=True,
        directory_server=False,
        supporting_server=False,
    )
    async with members(tmp_path, domain) as here:
        bob = await here.join(BOB, router, site="")
        alice, carol = await here.join(ALICE, site=paris), await here.join(CAROL, site=rome)
        assert bob.core.record.routing_server
        queue = await carol.publish(authentication=True, privacy_level=QueuePrivacyLevel.BODY)
        await alice.post(
            public_name(queue),
            b"by way of Bob",
            signer=signer,
            caller=user,
            sender_identifier=user.user.encode(),
            authentication_level=AuthenticationLevel.SIG20,
            privacy_level=PrivacyLevel.ADVANCED,
        )
        await eventually(lambda: carol.bodies(queue) == [b"by way of Bob"])
        (entry,) = queue.positions
        arrived = carol.manager.mailbox.load(queue, entry.lookup_id)
        assert arrived.local.authentication_level
        assert arrived.local.private
        assert arrived.packet.security is not None
        assert arrived.packet.security.sender_cert == signer.certificate
        peers = {connection.session.remote_guid for connection in carol.daemon._in_session}
        assert peers == {bob.guid}


async def test_a_process_that_logs_on_with_its_keytab(domain: Domain, tmp_path: Path) -> None:
    """``msmq serve`` as the computer itself, by Kerberos; an application creates a public queue and sends to it."""
    name = domain.computer()
    account = f"{name[:15]}$"
    Joining(domain.directory, name).join(DEFAULT_SITE)
    domain.controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
    keytab = domain.controller.export_keytab(account, tmp_path / "qm.keytab")
    server = f"{HOST}@{domain.controller.address}:{domain.controller.ports['ldap']}"
    config = tmp_path / "qm.toml"
    config.write_text(
        f'name = "{name}"\ndns_domain = "msmq.test"\n[directory]\nkind = "ldap"\nservers = ["{server}"]\n'
        f'principal = "{account}@{REALM}"\nkeytab = "{keytab.name}"\nmechanism = "kerberos"\n',
        encoding="utf-8",
    )
    door = f"unix:{tmp_path}/door"

    command = [sys.executable, "-m", "msmq", "serve", "--data", str(tmp_path / "data"), "--listen", ALICE]
    command += ["--port", str(free_port()), "--ping-port", "0", "--api", door, "--config", str(config)]
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=log, env=domain.controller.environment
        )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line.startswith(b"ready"), (tmp_path / "log").read_text(encoding="utf-8")
        async with msmq.connect(door) as here:
            await here.create_queue(".\\orders", label="by an application")
            path = domain.directory.objects.names.queue(f"{name}\\orders")
            assert domain.look(path)["mSMQLabelEx"] == [b"by an application"]
            (public,) = [info.format_name for info in await here.queues() if "PUBLIC=" in info.format_name]
            await here.queue(public).send(b"hello")
            assert (await here.queue(public).receive(timeout=PATIENCE_S)).body == b"hello"
            await here.delete_queue(public)
            assert not domain.exists(path)
    finally:
        process.terminate()
        assert await process.wait() == 0


def test_a_domain_controller_that_stops_and_starts_again(
    own_domain_controller: DomainController, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = own_domain_controller
    caplog.set_level(logging.INFO, "msmq.server.membership")

    async def test(here: Members) -> None:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        queue = await bob.publish(privacy_level=QueuePrivacyLevel.BODY)
        name = public_name(queue)

        async def exchange(body: bytes) -> None:
            await alice.post(
                name,
                body,
                privacy_level=PrivacyLevel.ADVANCED,
                delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            )
            await eventually(lambda: body in bob.bodies(queue))

        await exchange(b"before")
        controller.stop()
        for node in (alice, bob):  # also with new sessions
            node.cut()
        await exchange(b"during")
        with pytest.raises(NoDsError):
            await bob.publish("late")
        assert bob.core.directory_offline
        assert "the directory does not answer; what is known goes on meanwhile" in caplog.text
        await exchange(b"offline")
        # What is ours is still answered.
        result, own = await bob.ask(
            lambda: bob.manager.directory.read(ObjectClass.QUEUE, by_identifier(queue.identifier))
        )
        assert result is DirectoryResult.SUCCESS
        assert own is not None
        # A host that starts meanwhile goes on with what it kept.
        await bob.restart()
        assert bob.core.directory_offline
        found = bob.core.by_identifier[queue.identifier]
        assert b"during" in bob.bodies(found)
        controller.start()
        await eventually(lambda: not bob.core.directory_offline)
        await eventually(lambda: "the directory is back" in caplog.text)
        await bob.publish("late")
        await alice.post(name, b"after", privacy_level=PrivacyLevel.ADVANCED)
        await eventually(lambda: b"after" in bob.bodies(found))

    async def life() -> None:
        async with members(tmp_path, Domain(controller)) as here:
            await test(here)

    run(life)


async def test_a_first_start_without_a_controller_says_what_to_do(
    own_domain_controller: DomainController, tmp_path: Path
) -> None:
    domain = Domain(own_domain_controller)
    name = domain.computer()
    own_domain_controller.stop()
    async with members(tmp_path, domain) as here:
        with pytest.raises(NoDsError, match=r"directory\.servers"):
            await here.join(ALICE, name)
