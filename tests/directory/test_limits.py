"""Where Active Directory is stricter than Samba: a scripted server, and very many queues on the real one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.connection import CachedConnection
from msmq.directory.query import find_all
from msmq.directory.results import DirectoryFailure
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
)
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from scripts.samba_dc import Copy
from tests.directory.fake_ldap import MOST_RESULTS, MOST_VALUES, REQUESTER, FakeServer, fake_ldap
from tests.directory.support import Domain

MANY = 1_200
SUCCESS = DirectoryResult.SUCCESS


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with fake_ldap() as server:
        yield server


@pytest.fixture
def directory(fake: FakeServer) -> Iterator[ActiveDirectory]:
    found = ActiveDirectory(fake.settings)
    with found.held():
        assert found.initialize()
        yield found


def labelled(label: str) -> Filter:
    return (Expression("label", Relation.EQUALS, label),)


def queue(number: int, label: str) -> dict[str, list[bytes]]:
    return {
        "objectGUID": [number.to_bytes(16, "big")],
        "cn": [b"q%d" % number],
        "mSMQLabelEx": [label.encode()],
    }


@pytest.mark.spec("DSSM-3.1.6.15-j")
def test_more_queues_than_a_server_gives_at_once(
    domain: Domain, fake: FakeServer, directory: ActiveDirectory
) -> None:
    label = domain.name("many")
    host = domain.queue_manager().attributes
    pattern = domain.queue(host["computer_name"], "q0", label=label).attributes["full_path"]
    domain.controller.multiply(
        pattern, [Copy(f"q{number}", uuid4().bytes_le, {}) for number in range(1, MANY)]
    )
    domain.trace.clear()
    result, found = find_all(domain.directory, ObjectClass.QUEUE, labelled(label), ("pathname", "label"))
    assert result is SUCCESS
    computer = host["computer_name"].lower()
    assert sorted(item.attributes["pathname"] for item in found) == sorted(
        f"{computer}\\q{number}" for number in range(MANY)
    )
    # One search to see the base, then pages, and nothing for each queue.
    assert len(domain.trace.sent("searchRequest")) == 1 + -(
        -MANY // domain.directory.connection.settings.page_size
    )
    domain.trace.clear()
    result, listed = domain.directory.queues_of(host["computer_name"])
    assert (result, len(listed)) == (SUCCESS, MANY)
    assert len(domain.trace.sent("searchRequest")) < 10
    # The same from a server that gives a thousand at most.
    for number in range(MANY):
        fake.objects[f"CN=q{number},CN=msmq,CN=qm,CN=Computers,DC=fake"] = queue(number, label)
    result, found = find_all(directory, ObjectClass.QUEUE, labelled(label), ("label", "identifier"))
    assert result is SUCCESS
    assert {item.identifier for item in found} == {number.to_bytes(16, "big") for number in range(MANY)}
    assert max(count for _, count in fake.searches) <= MOST_RESULTS


def test_the_scripted_server_refuses_what_is_not_paged(fake: FakeServer) -> None:
    """Or the test before would show nothing."""
    for number in range(MANY):
        fake.objects[f"CN=q{number},DC=fake"] = queue(number, "x")
    connection = CachedConnection(fake.settings)
    with connection.use():
        handle = connection.handle
        assert handle is not None
        handle.search("DC=fake", "(objectClass=*)", attributes=["cn"])
        assert handle.result["description"] == "sizeLimitExceeded"
        assert len(connection.search("DC=fake", attributes=["cn"], subtree=True)) == MANY


def test_values_that_come_in_ranges(fake: FakeServer, directory: ActiveDirectory) -> None:
    members = [b"CN=m%d,DC=fake" % number for number in range(2 * MOST_VALUES + 7)]
    fake.objects["CN=list,DC=fake"] = {"objectGUID": [b"l" * 16], "member": members}
    found = directory.objects.get("CN=list,DC=fake", b"", ["member"])
    assert found["member"] == members
    assert len([dn for dn, _ in fake.searches if dn == "CN=list,DC=fake"]) == 3


@pytest.mark.parametrize("length", [1, 63, 64, 65, 124])
def test_names_of_every_length_fit(fake: FakeServer, directory: ActiveDirectory, length: int) -> None:
    fake.objects["CN=msmq,CN=qm,CN=Computers,DC=fake"] = {"objectGUID": [b"m" * 16]}
    name = "x" * length
    item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"qm\\{name}"})
    result, identifier = directory.create(item, None, None)
    assert result is SUCCESS, directory.last_failure
    (made,) = (values for values in fake.objects.values() if values.get("objectGUID") == [identifier])
    assert ("mSMQQueueNameExt" in made) == (length >= 64)


def test_the_scripted_server_refuses_long_names(fake: FakeServer) -> None:
    connection = CachedConnection(fake.settings)
    with connection.use(), pytest.raises(DirectoryFailure, match="constraintViolation"):
        connection.add(f"CN={'x' * 65},DC=fake", "mSMQQueue", {})


def test_nobody_owns_what_we_write_but_we(fake: FakeServer, directory: ActiveDirectory) -> None:
    """The daemon writes as its computer's account, whoever asked for the queue."""
    host = "CN=msmq,CN=qm,CN=Computers,DC=fake"
    fake.objects[host] = {"objectGUID": [b"m" * 16]}
    look = Ace(AceType.ACCESS_ALLOWED, 0x20020, EVERYONE)
    for number, owner in enumerate((None, REQUESTER, *map(Sid.parse, ("S-1-22-1-0", "S-1-5-32-544")))):
        security = SecurityDescriptor(owner, owner, Acl.of(look)).encode()
        item = DirectoryObject(ObjectClass.QUEUE, {"pathname": f"qm\\q{number}", "security": security})
        result, identifier = directory.create(item, None, None)
        assert result is SUCCESS, directory.last_failure
        item.attributes["identifier"] = identifier
        assert directory.write(item, ("security",), None) is SUCCESS, directory.last_failure
        (stored,) = fake.objects[f"CN=q{number},{host}"]["nTSecurityDescriptor"]
        written = SecurityDescriptor.decode(stored)
        assert written.owner in (None, REQUESTER)
        assert written.dacl is not None
        assert REQUESTER in [ace.sid for ace in written.dacl.aces]  # or nobody could change it again


def test_the_scripted_server_refuses_other_owners(fake: FakeServer) -> None:
    connection = CachedConnection(fake.settings)
    other = SecurityDescriptor(owner=Sid.parse("S-1-22-1-0")).encode()
    with connection.use(), pytest.raises(DirectoryFailure, match="constraintViolation"):
        connection.add("CN=q,DC=fake", "mSMQQueue", {"nTSecurityDescriptor": [other]})
