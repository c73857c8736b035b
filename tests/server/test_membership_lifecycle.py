"""From every state that a host in a domain can get into there is a way out: offline starts, lost objects, others."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import msmq
from msmq.directory.join import Joining
from msmq.errors import (
    DsError,
    IllegalOperationError,
    MachineNotFoundError,
    QueueNotFoundError,
)
from msmq.manager.differences import Choice, Kind
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from msmq.manager.messages.message import AcknowledgementsRequested, DeliveryGuarantee
from msmq.manager.model import QueuePrivacyLevel
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS, EVERYONE, Sid
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.variant import VT, Variant
from scripts.samba_dc import HOST, PASSWORD, REALM, DomainController
from tests.directory.relay import Mode, Relay, relay
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.server.members import Member, members, public_name
from tests.server.support import ALICE, BOB, CAROL, PATIENCE_S, eventually

LABEL = 108
RECOVERABLE = DeliveryGuarantee.RECOVERABLE
ROOT = Token.authenticated(Sid.parse("S-1-22-1-0"), [ADMINISTRATORS])
"""Whom the daemon takes root for."""


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


@pytest.fixture
def way(domain: Domain) -> Iterator[Relay]:
    """The controller, behind a door of the test's own."""
    with relay(domain.controller.address, domain.controller.ports["ldap"]) as door:
        yield door


def by_way_of(door: Relay) -> tuple[str, ...]:
    return (f"{HOST}@127.0.0.1:{door.port}",)


def joined(domain: Domain) -> tuple[str, str]:
    """A host that an administrator has joined; gives its name and the account it logs on with."""
    name = domain.computer()
    Joining(domain.directory, name).join(DEFAULT_SITE)
    account = f"{name[:15]}$"
    domain.controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
    return name, f"{account}@{REALM}"


async def label(node: Member, queue: Queue, text: str) -> None:
    administration = node.manager.administration
    await node.daemon.change(
        lambda: administration.set_properties(queue, [LABEL], [Variant(VT.LPWSTR, text)])
    )


def owner_of(domain: Domain, dn: str) -> Sid | None:
    with domain.hand.use():
        (found,) = domain.hand.search(dn, attributes=["nTSecurityDescriptor"])
    return SecurityDescriptor.decode(found.get("nTSecurityDescriptor")[0]).owner


async def test_the_computer_owns_the_objects_of_its_queues(domain: Domain, tmp_path: Path) -> None:
    """Active Directory takes no other owner from it; who owns the queue on this host is not changed by that."""
    name, principal = joined(domain)
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, name, principal=principal)
        queue = await alice.daemon.change(
            lambda: alice.manager.queues.create(QueueRequest(".\\orders"), ROOT)
        )
        path = domain.directory.objects.names.queue(queue.pathname)
        assert owner_of(domain, path) == domain.directory.computer_sid(name)
        given = SecurityDescriptor.decode(queue.security)
        assert given.owner == ROOT.user
        # A new list of rights, which does not name the account, does not shut it out.
        only = SecurityDescriptor(dacl=given.dacl).encode()
        await alice.daemon.change(
            lambda: alice.manager.administration.set_security(queue, SecurityInformation.DACL, only, ROOT)
        )
        await label(alice, queue, "still ours")
        assert domain.look(path)["mSMQLabelEx"] == [b"still ours"]
        await alice.daemon.change(lambda: alice.manager.queues.delete(queue))
        assert not domain.exists(path)


async def test_queues_made_after_an_offline_start_can_be_changed_and_deleted(
    domain: Domain, way: Relay, tmp_path: Path
) -> None:
    name, principal = joined(domain)
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, name, principal=principal, servers=by_way_of(way))
        way.become(Mode.CLOSED)
        await alice.restart()
        assert alice.core.directory_offline
        way.become(Mode.OPEN)
        await eventually(lambda: not alice.core.directory_offline)
        queue = await alice.publish("late")
        await label(alice, queue, "changed")
        path = domain.directory.objects.names.queue(queue.pathname)
        assert domain.look(path)["mSMQLabelEx"] == [b"changed"]
        await alice.daemon.change(lambda: alice.manager.queues.delete(queue))
        assert not domain.exists(path)


async def test_a_computer_without_a_dns_name_gets_one_when_it_joins(domain: Domain, tmp_path: Path) -> None:
    """Accounts that `samba-tool computer create` makes have none; the host could be started once and never again."""
    name = domain.name("qm")
    domain.controller.tool("computer", "create", name)
    joining = Joining(domain.directory, name)
    joining.join(DEFAULT_SITE)
    path = domain.directory.objects.names.computer(name)
    assert domain.look(path)["dNSHostName"] == [f"{name}.msmq.test".encode()]
    assert [line for line in joining.done if "dNSHostName" in line]
    joining.join(DEFAULT_SITE)
    assert joining.done == []
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, name)
        await alice.restart()
        published = domain.look(domain.directory.objects.names.queue_manager(name))["mSMQEncryptKey"]
        assert published == [alice.manager.keys.public_encryption_key_list()]
        # Keys that somebody else wrote, or an older copy of the host, are corrected by the next start.
        domain.change(domain.directory.objects.names.queue_manager(name), mSMQEncryptKey=b"others")
        await alice.restart()
        published = domain.look(domain.directory.objects.names.queue_manager(name))["mSMQEncryptKey"]
        assert published == [alice.manager.keys.public_encryption_key_list()]


async def test_a_first_start_without_a_dns_name_says_what_to_do(domain: Domain, tmp_path: Path) -> None:
    name = domain.computer(dNSHostName="")
    async with members(tmp_path, domain) as here:
        with pytest.raises(DsError, match="directory join"):
            await here.join(ALICE, name)


async def test_a_host_that_left_and_joined_again_goes_on(domain: Domain, tmp_path: Path) -> None:
    """Its object has a new identifier. What it was sending goes on, and so do its queues."""
    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        name, before = alice.config.name, alice.guid
        queue = await alice.publish("orders")
        await alice.post(public_name(queue), b"kept", delivery_guarantee=RECOVERABLE)
        target = await bob.publish("target")
        await bob.stop()
        await alice.post(public_name(target), b"under way", delivery_guarantee=RECOVERABLE)
        joining = Joining(domain.directory, name)
        joining.leave(with_queues=True)
        with pytest.raises(MachineNotFoundError, match="msmq directory join"):
            await alice.restart()
        joining.join(DEFAULT_SITE)
        await alice.start()
        assert alice.guid != before
        assert alice.core.former_identifiers == (before,)
        assert alice.bodies(alice.core.by_path[queue.pathname.lower()]) == [b"kept"]
        await bob.start()
        there = bob.core.by_path[target.pathname.lower()]
        await eventually(lambda: bob.bodies(there) == [b"under way"])
        (waiting,) = [each for each in alice.core.outgoing.values() if "PUBLIC" in each.pathname.upper()]
        await eventually(lambda: not len(waiting.positions))


async def test_a_routing_server_that_an_administrator_joined(domain: Domain, tmp_path: Path) -> None:
    """It starts and starts again as its own account, which has no rights in the sites, and routes between them."""
    (paris, _), (rome, _) = domain.site(), domain.site()
    router = domain.computer()
    Joining(domain.directory_as("Administrator"), router).join(paris, rome, routing_server=True)
    account = f"{router[:15]}$"
    domain.controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
    async with members(tmp_path, domain) as here:
        bob = await here.join(BOB, router, site=paris, principal=f"{account}@{REALM}")
        await bob.restart()
        assert bob.core.record.routing_server
        assert len(bob.core.record.site_identifier_list) == 2
        alice, carol = await here.join(ALICE, site=paris), await here.join(CAROL, site=rome)
        queue = await carol.publish()
        await alice.post(public_name(queue), b"by way of Bob")
        await eventually(lambda: carol.bodies(queue) == [b"by way of Bob"])
        peers = {connection.session.remote_guid for connection in carol.daemon._in_session}
        assert peers == {bob.guid}


def made_by_others(domain: Domain, host: str, name: str = "theirs", **values: Any) -> bytes:
    """A queue as Windows' console makes it, in the directory only; gives its identifier."""
    rights = Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20024, EVERYONE))
    security = SecurityDescriptor(dacl=rights).encode()
    return domain.queue(host, name, label="from the console", security=security, **values).identifier


async def test_a_queue_that_others_made_is_there_when_a_message_comes(domain: Domain, tmp_path: Path) -> None:
    """Nobody has to look first: the message itself makes the host ask. One of its own applications as well."""
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, watch_s=3600)
        bob = await here.join(BOB, watch_s=3600)
        for number, sender in enumerate((alice, bob)):
            name = f"theirs{number}"
            public = guid_text(made_by_others(domain, bob.config.name, name))
            await sender.post(f"PUBLIC={public}", b"not lost")
            path = f"{bob.config.name}\\{name}".lower()
            await eventually(lambda path=path: path in bob.core.by_path)  # type: ignore[misc]
            queue = bob.core.by_path[path]
            await eventually(lambda queue=queue: bob.bodies(queue) == [b"not lost"])  # type: ignore[misc]
            assert queue.label == "from the console"
        await bob.restart()
        assert bob.core.by_path[path].label == "from the console"


async def test_messages_for_a_queue_nobody_can_be_asked_about_wait(
    domain: Domain, way: Relay, tmp_path: Path
) -> None:
    """Most ask for nothing, so nobody would hear of their loss. What the directory does not have is refused later."""
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE)
        bob = await here.join(BOB, servers=by_way_of(way), watch_s=3600)
        way.become(Mode.CLOSED)
        plain, ordered, refused = (
            made_by_others(domain, bob.config.name, name, transactional=name == "ordered")
            for name in ("plain", "ordered", "refused")
        )
        await alice.post(f"PUBLIC={guid_text(plain)}", b"not lost", delivery_guarantee=RECOVERABLE)
        await alice.post(f"PUBLIC={guid_text(ordered)}", b"not lost", alone=True)
        await alice.post(
            f"PUBLIC={guid_text(refused)}",
            b"kept",
            delivery_guarantee=RECOVERABLE,
            negative_journaling_requested=True,
        )
        waiting = [f"public={guid_text(guid)}".lower() for guid in (plain, refused)]
        await eventually(lambda: all(name in bob.core.outgoing for name in waiting))
        domain.remove(domain.directory.objects.names.queue(f"{bob.config.name}\\refused"))
        await bob.restart()
        assert bob.core.directory_offline
        way.become(Mode.OPEN)
        for guid in (plain, ordered):
            await eventually(lambda guid=guid: guid in bob.core.by_identifier)  # type: ignore[misc]
            queue = bob.core.by_identifier[guid]
            await eventually(lambda queue=queue: bob.bodies(queue) == [b"not lost"])  # type: ignore[misc]
        graves = bob.core.dead_letter_queue
        assert graves is not None
        await eventually(lambda: bob.bodies(graves) == [b"kept"])
        assert bob.reasons(graves) == [MessageClass.NACK_BAD_DST_Q]
        assert not any(len(queue.positions) for queue in bob.core.outgoing.values())


async def test_changes_by_others_are_noticed(domain: Domain, tmp_path: Path) -> None:
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, watch_s=1)
        queue = await alice.publish("orders", label="first")
        path = domain.directory.objects.names.queue(queue.pathname)
        domain.change(path, mSMQLabelEx="second", mSMQJournal="TRUE", mSMQQueueQuota="77")
        await eventually(lambda: queue.label == "second")
        assert (queue.journaling, queue.quota_kb) == (True, 77)
        manager = domain.directory.objects.names.queue_manager(alice.config.name)
        domain.change(manager, mSMQQuota="12345")
        await eventually(lambda: alice.core.record.queue_manager_quota_kb == 12345)
        made_by_others(domain, alice.config.name)
        theirs = f"{alice.config.name}\\theirs".lower()
        await eventually(lambda: theirs in alice.core.by_path)

        # Ways are worked out anew when the network between sites changes.
        assert alice.daemon.membership is not None
        forgotten, forget = [], alice.daemon.membership.forget_ways
        alice.daemon.membership.forget_ways = lambda: (forgotten.append(True), forget())[1]
        (_, first), (_, second) = domain.site(), domain.site()
        ends = {"site1_identifier": first, "site2_identifier": second, "actual_cost": 3}
        result, _ = domain.directory.create(DirectoryObject(ObjectClass.ROUTING_LINK, ends), None, None)
        assert result is DirectoryResult.SUCCESS
        await eventually(lambda: bool(forgotten))
        domain.change(manager, mSMQRoutingServices="TRUE")
        await eventually(lambda: alice.core.record.routing_server)
        domain.change(manager, mSMQRoutingServices="FALSE")
        await eventually(lambda: not alice.core.record.routing_server)

        # When it is asked to, by SIGHUP, and at the start it looks at once.
        await alice.stop()
        domain.change(path, mSMQLabelEx="while it was down")
        alice.config = replace(alice.config, directory=replace(alice.config.directory, watch_s=3600))
        await alice.start()
        queue = alice.core.by_path[queue.pathname.lower()]
        await eventually(lambda: queue.label == "while it was down")
        domain.change(path, mSMQLabelEx="after a reload")
        alice.daemon.reload(alice.config)
        await eventually(lambda: queue.label == "after a reload")


async def test_a_queue_that_is_deleted_during_a_look_stays_deleted(domain: Domain, tmp_path: Path) -> None:
    """The list was asked for before and comes after, with a queue in it that is no more, and an old label."""
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, watch_s=3600)
        gone, kept = await alice.publish("gone"), await alice.publish("kept", label="old")
        assert alice.daemon.membership is not None
        active = alice.daemon.membership._active
        assert active is not None
        has_looked, may_tell, looks = threading.Event(), threading.Event(), []
        queues_of = active.queues_of

        def late(computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
            looks.append(computer)
            found = queues_of(computer)
            assert {gone.identifier, kept.identifier} <= {item.identifier for item in found[1]}
            has_looked.set()
            assert may_tell.wait(PATIENCE_S)
            return found

        active.queues_of = late  # type: ignore[method-assign]
        alice.daemon.reload(alice.config)
        assert await asyncio.to_thread(has_looked.wait, PATIENCE_S)
        await alice.daemon.change(lambda: alice.manager.queues.delete(gone))
        await label(alice, kept, "new")
        active.queues_of = queues_of  # type: ignore[method-assign]
        before = alice.daemon.membership._mark
        may_tell.set()
        await eventually(lambda: alice.daemon.membership._mark != before)  # type: ignore[union-attr]
        assert gone.identifier not in alice.core.by_identifier
        assert kept.label == "new"
        assert await alice.ask(alice.manager.mending.differences) == []
        assert len(looks) == 1


async def test_who_asks_during_a_look_gets_a_whole_one_after_it(domain: Domain, tmp_path: Path) -> None:
    """The look that is under way must not leave its mark, or the next would only take up what came since."""
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, watch_s=3600)
        membership = alice.daemon.membership
        assert membership is not None
        assert membership._active is not None
        active = membership._active
        await eventually(lambda: membership._mark is not None)
        has_looked, may_tell, looks = threading.Event(), threading.Event(), []
        queues_of = active.queues_of

        def late(computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
            looks.append(computer)
            has_looked.set()
            assert may_tell.wait(PATIENCE_S)
            return queues_of(computer)

        active.queues_of = late  # type: ignore[method-assign]
        alice.daemon.reload(alice.config)
        assert await asyncio.to_thread(has_looked.wait, PATIENCE_S)
        alice.daemon.reload(alice.config)
        may_tell.set()
        await eventually(lambda: len(looks) == 2)
        await eventually(lambda: membership._mark is not None)


async def test_rights_that_others_give_and_take_count(domain: Domain, tmp_path: Path) -> None:
    """From the list in the directory to what becomes of a message."""
    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE, watch_s=1), await here.join(BOB)
        queue = await alice.publish("orders")

        async def may_send(who: Sid) -> None:
            before = queue.security
            rights = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, 0x20024, who)))
            given = {"identifier": queue.identifier, "security": rights.encode()}
            item = DirectoryObject(ObjectClass.QUEUE, given)
            assert domain.directory.write(item, ("security",), None) is DirectoryResult.SUCCESS
            await eventually(lambda: queue.security != before)

        await may_send(ADMINISTRATORS)
        await bob.post(public_name(queue), b"refused")
        outgoing = bob.core.outgoing[public_name(queue).lower()]
        await eventually(lambda: not len(outgoing.positions))
        await may_send(EVERYONE)
        await bob.post(public_name(queue), b"taken")
        await eventually(lambda: alice.bodies(queue) == [b"taken"])


async def test_the_first_acknowledgment_to_a_public_queue_is_sent(domain: Domain, tmp_path: Path) -> None:
    """Nobody on the host of the destination has asked where the administration queue is."""
    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        orders, answers = await alice.publish("orders"), await bob.publish("answers")
        await bob.post(
            public_name(orders),
            b"asks",
            administration_queue_format_name=public_name(answers),
            acknowledgements_requested=AcknowledgementsRequested.ACK_FULL_REACH_QUEUE,
        )
        await eventually(lambda: len(answers.positions) == 1)
        (acknowledgment,) = bob.packets(answers)
        assert acknowledgment.message_class == MessageClass.ACK_REACH_QUEUE
        assert alice.manager.acknowledging.unsent == 0


async def test_a_queue_that_the_directory_lost_is_published_again_or_deleted(
    domain: Domain, tmp_path: Path
) -> None:
    async with members(tmp_path, domain) as here:
        alice, bob = await here.join(ALICE), await here.join(BOB)
        mending = alice.manager.mending

        async def found() -> list[tuple[Kind, str]]:
            checked = await alice.daemon.ask(mending.differences, anew=True)
            return [(each.kind, each.queue.partition("\\")[2]) for each in checked]

        queues = [await alice.publish(name) for name in ("kept", "gone", "changed")]
        old = public_name(queues[0])
        await bob.post(old, b"before")
        await eventually(lambda: alice.bodies(queues[0]) == [b"before"])
        assert await found() == []
        for queue in queues[:2]:
            domain.remove(domain.directory.objects.names.queue(queue.pathname))
        domain.change(domain.directory.objects.names.queue(queues[2].pathname), mSMQLabelEx="theirs")
        assert await found() == [
            (Kind.OTHER_VALUES, "changed"), (Kind.ONLY_HERE, "gone"), (Kind.ONLY_HERE, "kept")
        ]  # fmt: skip
        with pytest.raises(DsError, match="msmq directory repair"):
            await label(alice, queues[1], "nobody sees it")

        async def mend(name: str, choice: Choice, *, discard: bool = False) -> None:
            await alice.daemon.change(lambda: mending.mend(f".\\{name}", choice, discard=discard), anew=True)

        await mend("kept", Choice.PUBLISH)
        assert public_name(queues[0]) != old
        assert alice.bodies(queues[0]) == [b"before"]
        await bob.post(public_name(queues[0]), b"after")
        await bob.post(old, b"by its old name")  # which Bob still knows
        await eventually(lambda: len(queues[0].positions) == 3)
        await mend("changed", Choice.WRITE_OURS)
        await alice.post(public_name(queues[1]), b"somebody's")
        with pytest.raises(IllegalOperationError, match="discard-messages"):
            await mend("gone", Choice.DELETE_HERE)
        await mend("gone", Choice.DELETE_HERE, discard=True)
        assert await found() == []
        await alice.restart()
        assert alice.core.by_identifier[queues[0].identifier].former_identifiers


async def test_a_lost_data_directory(domain: Domain, tmp_path: Path) -> None:
    """The host starts anew under its name: it becomes what the directory has, with its queues."""
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE)
        queue = await alice.publish("orders", label="mine", transactional=True)
        guid, identifier = alice.guid, queue.identifier
        await alice.stop()
        shutil.rmtree(alice.config.data)
        await alice.start()
        assert alice.guid == guid
        await eventually(lambda: identifier in alice.core.by_identifier)
        again = alice.core.by_identifier[identifier]
        assert (again.label, again.transactional) == ("mine", True)
        await label(alice, again, "mine again")
        published = domain.look(domain.directory.objects.names.queue_manager(alice.config.name))
        assert published["mSMQEncryptKey"] == [alice.manager.keys.public_encryption_key_list()]


async def test_a_path_of_another_host_means_its_public_queue(domain: Domain, tmp_path: Path) -> None:
    """As on Windows: it is routed and encrypted like one, and can be looked at, changed and made from here."""
    door = f"unix:{tmp_path}/door"

    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE, door=door)
        bob = await here.join(BOB, watch_s=1)
        queue = await bob.publish("orders", privacy_level=QueuePrivacyLevel.BODY)
        path = f"{bob.config.name}\\orders"
        async with msmq.connect(door) as mq:
            place = await mq.locate(path)
            assert (place.here, place.format_name) == (False, public_name(queue))
            assert (await mq.locate(".\\private$\\order_queue$")).here
            await mq.queue(path).send(b"sealed", privacy=msmq.Privacy.AES)
            await eventually(lambda: bob.bodies(queue) == [b"sealed"])
            assert public_name(queue).lower() in alice.core.outgoing
            assert (await mq.queue_info(path)).format_name == public_name(queue)
            changed = await mq.set_queue(path, label="from afar", quota_kb=99)
            assert (changed.label, changed.quota_kb) == ("from afar", 99)
            await eventually(lambda: (queue.label, queue.quota_kb) == ("from afar", 99))
            made = f"{bob.config.name}\\made"
            await mq.create_queue(made, label="new")
            await eventually(lambda: made.lower() in bob.core.by_path)
            with pytest.raises(QueueNotFoundError):
                await mq.queue_info(f"{bob.config.name}\\none")
