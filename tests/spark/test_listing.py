"""The servers that a directory lists: of a domain or of a workgroup, all or those with a public queue, of one site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from msmq.spark.claims import settle
from msmq.spark.listing import DirectoryListing, listing_of
from msmq.spark.options import OptionError, SourceOptions
from scripts.samba_dc import HOST, PASSWORD, DomainController
from tests.directory.support import Domain, domain_of
from tests.spark.micro_batches import MicroBatches
from tests.spark.support import ORDERS, Server

ENTERPRISE = """
sites = [{name = "Paris"}, {name = "Rome"}]
hosts = [
    {name = "NORTH", dns_name = "north.example", sites = ["Paris"]},
    {name = "SOUTH", sites = ["Rome"]},
    {name = "WEST", sites = ["Rome"]},
]
queues = [{path = "NORTH\\\\orders"}, {path = "SOUTH\\\\Orders"}, {path = "WEST\\\\bills"}]
"""


@pytest.fixture
def workgroup(tmp_path: Path) -> str:
    """A configuration that names the directory file of a workgroup."""
    (tmp_path / "enterprise.toml").write_text(ENTERPRISE, encoding="utf-8")
    (tmp_path / "msmq.toml").write_text('[directory]\nfile = "enterprise.toml"\n', encoding="utf-8")
    return str(tmp_path / "msmq.toml")


def listed(file: str, **options: str) -> list[str]:
    return list(listing_of(SourceOptions.of({"serversDirectory": file, **options}))())


def test_those_who_have_a_public_queue(workgroup: str) -> None:
    assert listed(workgroup, queue="orders") == ["tls:north.example:8181", "tls:SOUTH:8181"]
    assert listed(workgroup, queue=".\\bills;journal", serversAddress="{computer}:8181") == ["WEST:8181"]
    assert listed(workgroup, queues="orders,bills", serversSite="Rome", serversAddress="mqrr:{host}") == [
        "mqrr:SOUTH",
        "mqrr:WEST",
    ]


@pytest.mark.parametrize(
    "given", [{"queue": ORDERS}, {"queuePattern": ".*orders"}, {"queue": "DIRECT=OS:a\\b"}]
)
def test_all_for_queues_that_no_directory_lists(workgroup: str, given: dict[str, str]) -> None:
    assert listed(workgroup, serversAddress="{computer}:1", **given) == ["NORTH:1", "SOUTH:1", "WEST:1"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queue": "nothing"}, "lists no queue manager with such a queue"),
        ({"queue": "bills", "serversSite": "Paris"}, "lists no queue manager of the site Paris"),
        ({"queue": "orders", "serversSite": "Oslo"}, "has no site Oslo"),
        ({"queue": "orders", "serversAddress": "north:8181"}, "with {host} or {computer} in it"),
        ({"queue": "orders", "serversAddress": "{0}:8181"}, "with {host} or {computer} in it"),
        ({"queue": "orders", "servers": "a"}, "servers and serversDirectory"),
    ],
)
def test_what_cannot_be(workgroup: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        listed(workgroup, **options)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"serversDirectory: .*no\.toml"):
        listed(str(tmp_path / "no.toml"), queue="orders")
    (tmp_path / "none.toml").write_text("", encoding="utf-8")
    with pytest.raises(OptionError, match="names no directory"):
        listed(str(tmp_path / "none.toml"), queue="orders")
    with pytest.raises(OptionError, match="serversSite is for servers that a directory lists"):
        SourceOptions.of({"queue": "q", "serversSite": "Rome"})


def test_it_is_asked_now_and_then(workgroup: str) -> None:
    now = 0.0
    listing = DirectoryListing(
        SourceOptions.of({"serversDirectory": workgroup, "queue": "bills"}), lambda: now
    )
    assert list(listing()) == ["tls:WEST:8181"]
    file = Path(workgroup).with_name("enterprise.toml")
    file.write_text(ENTERPRISE.replace("SOUTH\\\\Orders", "SOUTH\\\\bills"), encoding="utf-8")
    now = 30.0
    assert list(listing()) == ["tls:WEST:8181"]
    now = 61.0
    assert list(listing()) == ["tls:SOUTH:8181", "tls:WEST:8181"]


def test_all_queue_managers_of_a_workgroup_are_consumed(tmp_path: Path, workgroup: str) -> None:
    """One of them has no such queue."""
    servers = [Server(tmp_path / name, name=name) for name in ("NORTH", "SOUTH", "WEST")]
    try:
        for server in servers:
            server.directory.mkdir()
            server.start()
        for server in servers[:2]:
            server.create(ORDERS)
            server.send([server.name])
        options = {"serversDirectory": workgroup, "serversAddress": f"unix:{tmp_path}/{{computer}}/api"}
        query = MicroBatches(tmp_path / "checkpoint", mode="consume", **options)
        query.run()
        assert sorted(query.bodies) == ["NORTH", "SOUTH"]
        assert settle(str(tmp_path / "checkpoint"), **options) == 0
        assert [server.bodies() for server in servers[:2]] == [[], []]
    finally:
        for server in servers:
            server.kill()


# --- a domain ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


def test_a_domain(domain: Domain, tmp_path: Path) -> None:
    with domain.directory.held():
        site, identifier = domain.site()
        made = [domain.queue_manager(site_identifier_list=(identifier,)) for _ in range(2)]
        names = sorted(str(item.attributes["computer_name"]) for item in made)
        queue = str(domain.queue(names[0]).attributes["pathname"]).partition("\\")[2]
    (tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    server = f"{HOST}@{domain.controller.address}:{domain.controller.ports['ldap']}"
    file = tmp_path / "msmq.toml"
    file.write_text(
        f'[directory]\nservers = ["{server}"]\nprincipal = "alice@MSMQ.TEST"\npassword_file = "password"\n'
        'mechanism = "ntlm"\n',
        encoding="utf-8",
    )
    address = {"serversAddress": "{computer}:8181"}
    assert listed(str(file), queue=queue, **address) == [f"{names[0]}:8181"]
    assert listed(str(file), queue=ORDERS, serversSite=site, **address) == [f"{name}:8181" for name in names]
    assert {f"{name}:8181" for name in names} <= set(listed(str(file), queue=ORDERS, **address))
