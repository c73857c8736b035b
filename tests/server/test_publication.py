"""What a host has in the directory: every attribute that MS-MQDSSM 3.1.6.1.1.2 and 3.1.6.1.1.3 name, and its values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from msmq.directory.join import Joining
from msmq.security.descriptor import SecurityDescriptor
from scripts.samba_dc import PASSWORD, REALM, DomainController
from tests.directory.support import DEFAULT_SITE, Domain, domain_of
from tests.server.members import Member, members
from tests.server.support import ALICE, BOB, eventually

TRUTH = {True: [b"TRUE"], False: [b"FALSE"]}
NOT_WINDOWS, ROUTING = 0x100, 0x1


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


def seen_of(domain: Domain, node: Member) -> dict[str, list[bytes]]:
    """What ldapsearch shows of a host, but for what all objects have."""
    names = domain.directory.objects.names
    manager = domain.look(names.queue_manager(node.config.name), "*", "nTSecurityDescriptor")
    computer = domain.look(names.computer(node.config.name))
    found = {
        name: values for name, values in manager.items() if name.startswith(("mSMQ", "nTSec", "objectGUID"))
    }
    return found | {name: values for name, values in computer.items() if name.startswith("mSMQ")}


def check(domain: Domain, node: Member, **special: list[bytes]) -> None:
    """Everything that the tables name is there with the value that the host has, and nothing else."""
    record = node.core.record
    seen = seen_of(domain, node)
    descriptor = SecurityDescriptor.decode(seen.pop("nTSecurityDescriptor")[0])
    account = domain.directory.computer_sid(node.config.name)
    assert descriptor.dacl is not None
    assert account in {ace.sid for ace in descriptor.dacl.aces}
    assert (
        seen
        == {
            "objectGUID": [record.identifier],
            "mSMQComputerTypeEx": [record.queue_manager_version.encode()],
            "mSMQOSType": [b"%d" % NOT_WINDOWS],
            "mSMQServiceType": [b"%d" % (ROUTING if record.routing_server else 0)],
            "mSMQQuota": [b"%d" % record.queue_manager_quota_kb],
            "mSMQJournalQuota": [b"-1"],
            "mSMQForeign": TRUTH[False],
            "mSMQSites": list(record.site_identifier_list),
            "mSMQRoutingServices": TRUTH[record.routing_server],
            "mSMQDsServices": TRUTH[False],
            "mSMQDependentClientServices": TRUTH[False],
            "mSMQEncryptKey": [node.manager.keys.public_encryption_key_list()],
            "mSMQSignCertificates": [node.manager.keys.public_signing_key_list()],
        }
        | special
    )
    assert record.queue_manager_version
    assert len(record.site_identifier_list) == 1


def joined(domain: Domain, *sites: str, routing_server: bool = False) -> tuple[str, str]:
    """A host that an administrator has joined; gives its name and the account it logs on with."""
    name = domain.computer()
    Joining(domain.directory_as("Administrator"), name).join(*sites, routing_server=routing_server)
    account = f"{name[:15]}$"
    domain.controller.tool("user", "setpassword", account, f"--newpassword={PASSWORD}")
    return name, f"{account}@{REALM}"


async def test_every_attribute_of_a_host(domain: Domain, tmp_path: Path) -> None:
    """Whether its first start made the object or an administrator joined it, and after another start."""

    name, principal = joined(domain, DEFAULT_SITE)
    async with members(tmp_path, domain) as here:
        alice = await here.join(ALICE)
        bob = await here.join(BOB, name, principal=principal)
        for node in (alice, bob):
            check(domain, node)
            await node.restart()
            check(domain, node)


async def test_every_attribute_of_a_routing_server_and_of_who_uses_it(domain: Domain, tmp_path: Path) -> None:
    site, _ = domain.site()
    name, principal = joined(domain, site, routing_server=True)
    async with members(tmp_path, domain) as here:
        router = await here.join(BOB, name, principal=principal, site=site)
        check(domain, router)
        alice = await here.join(ALICE, site=site, watch_s=1)
        names = domain.directory.objects.names
        by_way_of = [names.queue_manager(name).encode()]
        lists = {"mSMQOutRoutingServers": by_way_of, "mSMQInRoutingServers": by_way_of}
        domain.change(names.queue_manager(alice.config.name), **lists)
        # Others have done that, and nobody has to tell the host.
        await eventually(
            lambda: [each.identifier for each in alice.core.in_routing_servers] == [router.guid], 30
        )
        assert alice.core.record.out_routing_server_identifier_list == (router.guid,)
        check(domain, alice, **lists)
        settings = domain.look(names.settings(name, site))
        assert settings["mSMQQMID"] == [router.guid]
        assert settings["mSMQServices"] == [b"%d" % ROUTING]
        assert settings["mSMQRoutingService"] == TRUTH[True]
        assert settings["mSMQDsService"] == settings["mSMQDependentClientService"] == TRUTH[False]
