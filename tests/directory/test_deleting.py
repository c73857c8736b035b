"""Deleting objects (MS-MQDSSM 3.1.6.2), on a real domain controller."""

from __future__ import annotations

from uuid import uuid4

import pytest

from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass
from tests.directory.items import host_of, link, made, queue, queue_manager, site
from tests.directory.support import CONFIGURATION, DEFAULT_SITE, Domain

SUCCESS = DirectoryResult.SUCCESS
GENERIC = DirectoryResult.GENERIC_ERROR
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
EXISTS = DirectoryResult.OBJECT_ALREADY_EXISTS
RANDOM = uuid4().bytes_le


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            ObjectClass.QUEUE_MANAGER, marks=pytest.mark.spec("DSSM-3.1.6.2.1.1-a"), id="queue-manager"
        ),
        pytest.param(ObjectClass.QUEUE, marks=pytest.mark.spec("DSSM-3.1.6.2.2.1-a"), id="queue"),
        pytest.param(ObjectClass.SITE, marks=pytest.mark.spec("DSSM-3.1.6.2.3.1-a"), id="site"),
        pytest.param(ObjectClass.ROUTING_LINK, marks=pytest.mark.spec("DSSM-3.1.6.2.4.1-a"), id="link"),
        pytest.param(ObjectClass.USER, marks=pytest.mark.spec("DSSM-3.1.6.2-b"), id="user"),
    ],
)
def test_deleting_needs_a_key(domain: Domain, kind: ObjectClass) -> None:
    assert domain.directory.delete(DirectoryObject(kind, {}), None) is GENERIC
    assert domain.trace.messages == []


@pytest.mark.spec("DSSM-3.1.6.2-a", "DSSM-3.1.6.2.2-a", "DSSM-3.1.6.2.2.2-a", "DSSM-3.1.6.2.2.3-a")
@pytest.mark.parametrize("key", ["identifier", "full_path", "pathname"])
def test_deleting_a_queue(domain: Domain, key: str) -> None:
    item = domain.queue(host_of(domain))
    domain.trace.clear()
    assert domain.directory.delete(queue(**{key: item.attributes[key]}), None) is SUCCESS
    assert domain.trace.operations[-1] == "delRequest"
    assert domain.trace.operations.count("delRequest") == 1
    assert not domain.exists(item.attributes["full_path"])


@pytest.mark.spec("DSSM-3.1.6.2.2.2-c", "DSSM-3.1.6.13-c")
def test_deleting_what_is_not_there(domain: Domain) -> None:
    path = f"{host_of(domain)}\\missing"
    domain.trace.clear()
    assert domain.directory.delete(queue(pathname=path), None) is NOT_FOUND
    assert "delRequest" not in domain.trace.operations


@pytest.mark.spec("DSSM-3.1.6.2.1-a", "DSSM-3.1.6.2.1.2-c", "DSSM-3.1.6.13-d")
def test_deleting_a_queue_manager(domain: Domain) -> None:
    item = domain.queue_manager()
    inside = domain.queue(item.attributes["computer_name"])
    assert domain.directory.delete(item, None) is GENERIC
    assert domain.directory.delete(inside, None) is SUCCESS
    assert domain.directory.delete(item, None) is SUCCESS
    assert not domain.exists(item.attributes["full_path"])
    assert domain.exists(domain.directory.objects.names.computer(item.attributes["computer_name"]))


@pytest.mark.spec("DSSM-3.1.6.2.1.2-a")
def test_the_full_path_counts_more_than_the_name(domain: Domain) -> None:
    one, two = domain.queue_manager(), domain.queue_manager()
    mixed = queue_manager(
        full_path=one.attributes["full_path"], computer_name=two.attributes["computer_name"]
    )
    assert domain.directory.delete(mixed, None) is SUCCESS
    assert not domain.exists(one.attributes["full_path"])
    assert domain.exists(two.attributes["full_path"])


@pytest.mark.spec("DSSM-3.1.6.2.1.2-b", "DSSM-3.1.6.13-a")
def test_the_identifier_counts_most(domain: Domain) -> None:
    one, two = domain.queue_manager(), domain.queue_manager()
    mixed = queue_manager(identifier=one.identifier, full_path=two.attributes["full_path"])
    assert domain.directory.delete(mixed, None) is SUCCESS
    assert not domain.exists(one.attributes["full_path"])
    assert domain.exists(two.attributes["full_path"])


def _server(domain: Domain, *sites: bytes) -> tuple[DirectoryObject, str]:
    name, where = domain.site()
    computer = domain.computer()
    domain.server(computer, name)
    item = domain.queue_manager(
        computer_name=computer, site_identifier_list=(where, *sites), routing_server=True
    )
    return item, domain.directory.objects.names.settings(computer, name)


@pytest.mark.spec("DSSM-3.1.6.2.1.3-a")
def test_the_settings_of_a_server_go_with_it(domain: Domain) -> None:
    item, settings = _server(domain, RANDOM)
    assert domain.exists(settings)
    assert domain.directory.delete(item, None) is SUCCESS
    assert not domain.exists(settings)


@pytest.mark.spec("DSSM-3.1.6.2.1.3-d")
def test_the_settings_go_also_when_only_the_identifier_is_known(domain: Domain) -> None:
    item, settings = _server(domain)
    assert domain.directory.delete(queue_manager(identifier=item.identifier), None) is SUCCESS
    assert not domain.exists(settings)


@pytest.mark.spec("DSSM-3.1.6.2.1.3-c")
def test_settings_that_are_gone_already(domain: Domain) -> None:
    item, settings = _server(domain)
    domain.remove(settings)
    assert domain.directory.delete(item, None) is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.2.3-a", "DSSM-3.1.6.2.3.2-a", "DSSM-3.1.6.2.3.3-a")
def test_deleting_a_site(domain: Domain) -> None:
    name = domain.name("site")
    made(domain, site(name=name))
    domain.trace.clear()
    assert domain.directory.delete(site(name=name), None) is SUCCESS
    assert domain.trace.operations.count("delRequest") == 1
    assert domain.trace.operations[-1] == "delRequest"
    assert not domain.exists(f"CN={name},CN=Sites,{CONFIGURATION}")
    assert domain.directory.delete(site(name=name), None) is NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.2.3.2-b")
def test_a_site_with_servers_stays(domain: Domain) -> None:
    assert domain.directory.delete(site(name=DEFAULT_SITE), None) is GENERIC
    assert "(66)" in domain.directory.last_failure
    assert domain.exists(f"CN={DEFAULT_SITE},CN=Sites,{CONFIGURATION}")


@pytest.mark.spec("DSSM-3.1.6.2.4-a", "DSSM-3.1.6.2.4.2-a", "DSSM-3.1.6.2.4.3-a")
def test_deleting_a_link(domain: Domain) -> None:
    one, two = domain.site()[1], domain.site()[1]
    identifier = made(domain, link(site1_identifier=one, site2_identifier=two, actual_cost=1))
    path = domain.directory.objects.get("", identifier, [])["distinguishedName"][0].decode()
    domain.trace.clear()
    assert domain.directory.delete(link(identifier=identifier), None) is SUCCESS
    assert domain.trace.operations.count("delRequest") == 1
    assert domain.trace.operations[-1] == "delRequest"
    assert not domain.exists(path)
