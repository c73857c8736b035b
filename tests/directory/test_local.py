"""The directory of a workgroup, from its file (the interface is that of MS-MQDSSM 3.1.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.directory.local import DirectoryFileError, LocalDirectory
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    SortKey,
    by_identifier,
)
from msmq.wire.guid import guid_from_text

GUID = "557358D1-9150-9595-4997-B6E611EA26C6"
FILE = f"""
[enterprise]
name = "example"
default_time_to_live_s = 3600

[[sites]]
name = "Paris"

[[sites]]
name = "Rome"

[[links]]
sites = ["Paris", "rome"]
cost = 7
gates = ["BOB", "Rita"]

[[hosts]]
name = "ALICE"
guid = "{GUID}"
dns_name = "alice.example.com"
addresses = ["10.0.0.1", "10.0.0.2"]
sites = ["Paris"]
out_routing_servers = ["bob"]

[[hosts]]
name = "BOB"
sites = ["Paris"]
routing_server = true

[[hosts]]
name = "RITA"
sites = ["Rome"]
routing_server = true
in_routing_servers = ["BOB"]

[[queues]]
path = "alice\\\\orders"
base_priority = 3

[[lists]]
name = "everybody"
members = ["DIRECT=OS:bob\\\\private$\\\\news"]
"""


@pytest.fixture
def directory(tmp_path: Path) -> LocalDirectory:
    file = tmp_path / "enterprise.toml"
    file.write_text(FILE, encoding="utf-8")
    return LocalDirectory.load(file)


def named(directory: LocalDirectory, name: str) -> DirectoryObject:
    result, item = directory.read(
        ObjectClass.QUEUE_MANAGER, (Expression("computer_name", Relation.EQUALS, name),), None
    )
    assert result is DirectoryResult.SUCCESS
    assert item is not None
    return item


def test_hosts(directory: LocalDirectory) -> None:
    alice, bob, rita = (named(directory, name) for name in ("ALICE", "BOB", "RITA"))
    assert alice.identifier == guid_from_text(GUID)
    assert alice.attributes["qualified_computer_name"] == "alice.example.com"
    assert alice.attributes["out_routing_server_identifier_list"] == (bob.identifier,)
    assert rita.attributes["in_routing_server_identifier_list"] == (bob.identifier,)
    assert bob.attributes["routing_server"] is True
    assert "queue_manager_quota_kb" not in alice.attributes, "the file says nothing about it"
    assert directory.addresses == {
        "alice": ["10.0.0.1", "10.0.0.2"],
        "alice.example.com": ["10.0.0.1", "10.0.0.2"],
    }


def test_identifiers_follow_from_names_on_every_host(directory: LocalDirectory, tmp_path: Path) -> None:
    again = LocalDirectory.load(tmp_path / "enterprise.toml")
    assert [item.identifier for item in again.objects] == [item.identifier for item in directory.objects]
    assert again.lists == directory.lists


def test_sites_and_links(directory: LocalDirectory) -> None:
    result, query = directory.read_begin(
        ObjectClass.SITE, None, ("identifier", "name"), {"name": SortKey(1, False)}
    )
    assert result is DirectoryResult.SUCCESS
    assert query is not None
    sites = {}
    while (found := directory.read_next(query))[0] is DirectoryResult.SUCCESS:
        assert found[1] is not None
        sites[found[1].attributes["name"]] = found[1].identifier
    assert found == (DirectoryResult.END_OF_DATA, None)
    assert list(sites) == ["Rome", "Paris"]
    assert directory.read_end(query) is DirectoryResult.SUCCESS
    assert directory.read_end(query) is DirectoryResult.GENERIC_ERROR
    assert directory.read_next(query) == (DirectoryResult.GENERIC_ERROR, None)
    _, link = directory.read(ObjectClass.ROUTING_LINK, None, None)
    assert link is not None
    assert link.attributes["actual_cost"] == 7
    ends = link.attributes["site1_identifier"], link.attributes["site2_identifier"]
    assert ends == (sites["Paris"], sites["Rome"])
    gates = tuple(named(directory, name).identifier for name in ("BOB", "RITA"))
    assert link.attributes["site_gate_identifier_list"] == gates
    _, enterprise = directory.read(ObjectClass.ENTERPRISE, None, None)
    assert enterprise is not None
    assert (enterprise.attributes["name"], enterprise.attributes["default_time_to_live_s"]) == (
        "example",
        3600,
    )


def test_what_is_not_there(directory: LocalDirectory) -> None:
    assert directory.read(ObjectClass.SITE, by_identifier(bytes(16)), None) == (
        DirectoryResult.OBJECT_NOT_FOUND,
        None,
    )
    assert directory.read(ObjectClass.SITE, None, ("colour",)) == (DirectoryResult.ATTRIBUTE_NOT_FOUND, None)
    assert directory.resolve_distribution_list(bytes(16), None) == (DirectoryResult.OBJECT_NOT_FOUND, ())
    ((guid, members),) = directory.lists.items()
    assert directory.resolve_distribution_list(guid, None) == (DirectoryResult.SUCCESS, members)


def test_a_queue_is_published_if_the_file_lists_it(directory: LocalDirectory) -> None:
    _, listed = directory.read(ObjectClass.QUEUE, None, None)
    assert listed is not None
    assert listed.attributes["pathname"] == "ALICE\\orders"
    assert listed.attributes["base_priority"] == 3
    wanted = DirectoryObject(ObjectClass.QUEUE, {"identifier": bytes(16), "pathname": "Alice\\ORDERS"})
    assert directory.create(wanted, None, None) == (DirectoryResult.SUCCESS, listed.identifier)
    other = DirectoryObject(ObjectClass.QUEUE, {"identifier": bytes(16), "pathname": "ALICE\\other"})
    assert directory.create(other, None, None) == (DirectoryResult.GENERIC_ERROR, None)
    assert directory.write(listed, None, None) is DirectoryResult.SUCCESS
    assert directory.delete(listed, None) is DirectoryResult.SUCCESS
    assert directory.read(ObjectClass.QUEUE, None, None)[1] == listed, "the file is the operator's"
    host = named(directory, "BOB")
    assert directory.create(host, None, None) == (DirectoryResult.GENERIC_ERROR, None)
    assert directory.write(host, None, None) is directory.delete(host, None) is DirectoryResult.GENERIC_ERROR


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[planets]]", "planets is no table"),
        ("[[hosts]]", "every .* says name"),
        ('[[hosts]]\nname = "A"\ncolour = 1', "colour means nothing"),
        ('[[hosts]]\nname = "A"\n[[hosts]]\nname = "a"', "the same name"),
        ('[[hosts]]\nname = "A"\nsites = ["Atlantis"]', "Atlantis, which is nowhere"),
        ('[[hosts]]\nname = "A"\nrouting_server = 1', "is no bool"),
        ('[[hosts]]\nname = "A"\naddresses = [1]', "is a list of texts"),
        ('[[hosts]]\nname = "A"\nguid = "1"', "8-4-4-4-12"),
        (f'[[hosts]]\nname = "A"\nguid = "{GUID}"\n[[hosts]]\nname = "B"\nguid = "{GUID}"', "given to two"),
        ('[[sites]]\nname = "A"\n[[links]]\nsites = ["A", "a"]', "two different sites"),
        ('[[sites]]\nname = "A"\n[[sites]]\nname = "B"\n[[links]]\nsites = ["A", "B"]\ncost = -1', "costs 1 to"),
        ('[[queues]]\npath = "A\\\\q"', "no public queue of a host"),
        ('[[hosts]]\nname = "A"\n[[queues]]\npath = "A\\\\private$\\\\q"', "no public queue of a host"),
        ('[[queues]]\npath = "q"', "q: "),
        ('[[lists]]\nname = "L"\nmembers = ["nonsense"]', "has the member nonsense"),
        ("[enterprise]\nname = 3", "enterprise.name cannot be 3"),
        ("hosts = 3", "hosts is 3"),
        ("[[[", "enterprise.toml"),
    ],
    ids=range(18),
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "enterprise.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DirectoryFileError, match=complaint):
        LocalDirectory.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DirectoryFileError, match=r"nowhere\.toml"):
        LocalDirectory.load(tmp_path / "nowhere.toml")
