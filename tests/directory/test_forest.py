"""Computers that are not in CN=Computers, and forests of several domains with their global catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.join import Joining
from msmq.directory.query import find_all
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    by_identifier,
)
from scripts.samba_dc import ROOT_DN
from tests.directory.fake_ldap import FakeServer, fake_ldap
from tests.directory.support import DEFAULT_SITE, Domain

QUEUE, QUEUE_MANAGER = ObjectClass.QUEUE, ObjectClass.QUEUE_MANAGER
SUCCESS = DirectoryResult.SUCCESS


def named(attribute: str, value: object) -> Filter:
    return (Expression(attribute, Relation.EQUALS, value),)


def use(directory: ActiveDirectory, computer: str) -> DirectoryObject:
    """Everything a queue manager does with its own objects, by their names; gives its queue."""
    assert directory.computer_sid(computer) is not None
    result, manager = directory.read(QUEUE_MANAGER, named("computer_name", computer), None)
    assert manager is not None, (result, directory.last_failure)
    assert manager.attributes["computer_name"] == computer
    path = f"{computer}\\{uuid4().hex}"
    result, identifier = directory.create(DirectoryObject(QUEUE, {"pathname": path}), None, None)
    assert identifier is not None, directory.last_failure
    by_name = DirectoryObject(QUEUE, {"pathname": path, "label": "here"})
    assert directory.write(by_name, ("label",), None) is SUCCESS, directory.last_failure
    result, queue = directory.read(QUEUE, named("pathname", path), None)
    assert queue is not None, (result, directory.last_failure)
    assert (queue.identifier, queue.attributes["label"]) == (identifier, "here")
    result, queues = directory.queues_of(computer)
    assert identifier in [item.identifier for item in queues]
    return queue


def unit(domain: Domain) -> str:
    return domain.add(f"OU={domain.name('hosts')},{ROOT_DN}", "organizationalUnit")


def test_a_computer_in_a_unit_of_its_own(domain: Domain) -> None:
    name, place = domain.name("unit"), unit(domain)
    account = {"sAMAccountName": f"{name}$", "userAccountControl": "4096", "dNSHostName": f"{name}.msmq.test"}
    domain.add(f"CN={name},{place}", "computer", **account)
    Joining(domain.directory, name).join(DEFAULT_SITE)
    assert domain.exists(f"CN=msmq,CN={name},{place}")
    queue = use(domain.directory, name)
    assert queue.attributes["full_path"].endswith(f",CN=msmq,CN={name},{place}")
    by_name = DirectoryObject(QUEUE, {"pathname": queue.attributes["pathname"]})
    fresh = domain.directory_as("Administrator")  # which does not know where it is
    assert fresh.delete(by_name, None) is SUCCESS, fresh.last_failure
    assert not domain.exists(queue.attributes["full_path"])
    assert Joining(fresh, name).leave() == 0
    assert not domain.exists(f"CN=msmq,CN={name},{place}")


def test_a_computer_that_is_moved_while_we_look(domain: Domain) -> None:
    manager = domain.queue_manager()
    name = manager.attributes["computer_name"]
    use(domain.directory, name)
    for place in (unit(domain), unit(domain)):
        before = domain.directory.objects.names.computer(name)
        with domain.hand.use():
            handle = domain.hand.handle
            assert handle is not None
            assert handle.modify_dn(before, f"CN={name}", new_superior=place), handle.result
        queue = use(domain.directory, name)
        assert queue.attributes["full_path"].endswith(f",CN=msmq,CN={name},{place}")


def test_names_that_would_be_filters_find_nobody(domain: Domain) -> None:
    for name in ("*", "qm*", "x)(objectClass=*", "x\\2a", "(|(cn=*))"):
        assert domain.directory.computer_sid(name) is None


def test_a_name_that_nobody_has_is_looked_for_once(domain: Domain) -> None:
    result, found = domain.directory.read(QUEUE_MANAGER, named("computer_name", domain.name()), None)
    assert (result, found) == (DirectoryResult.OBJECT_NOT_FOUND, None)
    assert domain.trace.operations == ["searchRequest"] * 3


# --- several domains ----------------------------------------------------------------------------------------

CHILD, FOREST = "DC=child,DC=fake", "DC=fake"
OURS, THEIRS = f"CN=qm1,OU=Hosts,{CHILD}", f"CN=qm2,OU=Hosts,{FOREST}"


def entry(number: int, ldap_class: bytes, **attributes: bytes) -> dict[str, list[bytes]]:
    made = {"objectGUID": [number.to_bytes(16, "big")], "objectClass": [ldap_class]}
    return made | {name: [value] for name, value in attributes.items()}


@pytest.fixture
def forest() -> Iterator[tuple[FakeServer, FakeServer, ActiveDirectory]]:
    """A controller of a child domain, the global catalog, and our directory; each domain has a host with a queue."""
    with fake_ldap() as child, fake_ldap() as catalog:
        child.objects[""]["defaultNamingContext"] = [CHILD.encode()]
        child.objects[CHILD] = entry(1, b"domain")
        for number, context in enumerate((CHILD, FOREST), start=20):
            partition = f"CN={number},CN=Partitions,CN=Configuration,{FOREST}"
            child.objects[partition] = entry(number, b"crossRef", nCName=context.encode(), systemFlags=b"3")
        for number, (computer, name) in enumerate(((OURS, b"qm1"), (THEIRS, b"qm2")), start=1):
            objects = {
                computer: entry(number * 100, b"computer", sAMAccountName=name + b"$", cn=name),
                f"CN=msmq,{computer}": entry(number * 100 + 1, b"mSMQConfiguration"),
                f"CN=q,CN=msmq,{computer}": entry(number * 100 + 2, b"mSMQQueue", mSMQLabelEx=b"same"),
            }
            catalog.objects |= objects
            if computer is OURS:
                child.objects |= objects
        server = replace(child.settings.servers[0], catalog_port=catalog.port)
        directory = ActiveDirectory(replace(child.settings, servers=(server,)))
        with directory.held():
            assert directory.initialize()
            yield child, catalog, directory


Forest = tuple[FakeServer, FakeServer, ActiveDirectory]
WANTED = ("pathname", "label", "identifier")


def test_queues_of_all_domains_are_found(forest: Forest) -> None:
    _, _, directory = forest
    result, found = find_all(directory, QUEUE, named("label", "same"), WANTED)
    assert result is SUCCESS
    assert sorted(item.attributes["pathname"] for item in found) == ["qm1\\q", "qm2\\q"]


def test_an_object_of_another_domain_is_read_from_the_catalog(forest: Forest) -> None:
    _, catalog, directory = forest
    for number, path in ((102, "qm1\\q"), (202, "qm2\\q")):
        catalog.searches.clear()
        _, item = directory.read(QUEUE, by_identifier(number.to_bytes(16, "big")), WANTED)
        assert item is not None, directory.last_failure
        assert item.attributes["pathname"] == path
        assert bool(catalog.searches) == (number == 202)  # our own domain knows better
    gone = directory.read(QUEUE, by_identifier(bytes(16)), WANTED)
    assert gone == (DirectoryResult.OBJECT_NOT_FOUND, None)


def test_a_host_of_a_child_domain_uses_its_own_objects(forest: Forest) -> None:
    child, catalog, directory = forest
    _, item = directory.read(QUEUE, named("pathname", "qm2\\q"), WANTED)
    assert item is not None, directory.last_failure
    result, identifier = directory.create(DirectoryObject(QUEUE, {"pathname": "qm1\\new"}), None, None)
    assert identifier is not None, (result, directory.last_failure)
    assert f"CN=new,CN=msmq,{OURS}" in child.objects
    assert f"CN=new,CN=msmq,{OURS}" not in catalog.objects


def test_without_the_catalog_nothing_is_half_found(forest: Forest) -> None:
    child, _, _ = forest
    with fake_ldap() as gone:
        port = gone.port
    server = replace(child.settings.servers[0], catalog_port=port)
    # The scripted server serves one connection after the other, and the fixture holds one: ask by a second one.
    with fake_ldap() as other:
        other.objects = child.objects
        directory = ActiveDirectory(replace(child.settings, servers=(replace(server, port=other.port),)))
        with directory.held():
            assert directory.initialize()
            result, found = find_all(directory, QUEUE, named("label", "same"), WANTED)
            assert (result, found) == (DirectoryResult.GENERIC_ERROR, [])
            assert "no global catalog answers" in directory.last_failure
            _, item = directory.read(QUEUE, by_identifier((102).to_bytes(16, "big")), WANTED)
            assert item is not None
