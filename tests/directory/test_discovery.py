"""Domain controllers that the DNS tells of."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from msmq.directory.active_directory import ActiveDirectory
from msmq.directory.discovery import in_order, servers_of
from msmq.directory.settings import Password, Protection, Server, Settings
from msmq.directory.troubles import explain
from scripts.samba_dc import ROOT_DN
from tests.directory.fake_dns import fake_dns
from tests.directory.support import Domain

EVERYWHERE = "_ldap._tcp.dc._msdcs.corp.example."
PARIS = "_ldap._tcp.paris._sites.dc._msdcs.corp.example."
CATALOG = "_gc._tcp.corp.example."
CORP = Settings((), Password("user", "secret"), domain="corp.example")


class Record(NamedTuple):
    priority: int
    weight: int
    name: str = ""


def test_records_of_a_domain_and_of_a_site() -> None:
    records = {
        EVERYWHERE: ["0 1 389 dc1.corp.example.", "10 1 1389 dc2.corp.example."],
        PARIS: ["0 1 1389 dc2.corp.example."],
        CATALOG: ["0 1 4268 dc1.corp.example."],
    }
    first, second = Server("dc1.corp.example"), Server("dc2.corp.example", port=1389)
    with fake_dns(records) as where:
        settings = replace(CORP, name_servers=(where,))
        assert servers_of(settings) == [first, second]
        assert servers_of(replace(settings, site="Paris")) == [second, first]
        assert servers_of(replace(settings, site="Atlantis")) == [first, second]
        catalog = settings.of_catalog("corp.example")
        assert servers_of(catalog) == [Server("dc1.corp.example", catalog_port=4268)]
        with pytest.raises(OSError, match=r"no controllers of other\.example"):
            servers_of(replace(settings, domain="other.example"))


@pytest.mark.parametrize("protection", [Protection.TLS, Protection.START_TLS, Protection.NONE])
def test_no_password_for_a_name_outside_the_domain(protection: Protection) -> None:
    """Anybody gets a certificate for a name of their own."""
    records = {
        EVERYWHERE: [
            "0 1 389 evil.example.",
            "1 1 389 evilcorp.example.",
            "2 1 389 dc1.CORP.example.",
        ]
    }
    with fake_dns(records) as where:
        settings = replace(CORP, name_servers=(where,), protection=protection)
        assert [server.name.lower() for server in servers_of(settings)] == ["dc1.corp.example"]
        sealed = replace(settings, protection=Protection.SEAL)
        assert len(servers_of(sealed)) == 3


def test_lower_priorities_come_first_and_weights_are_shares() -> None:
    records = [Record(1, 0, "last"), Record(0, 3, "often"), Record(0, 1, "seldom")]
    draw = Random(1)
    firsts = []
    for _ in range(1_000):
        ordered = [record.name for record in in_order(records, draw)]
        assert ordered[2] == "last"
        firsts.append(ordered[0])
    assert 700 < firsts.count("often") < 800
    assert in_order([Record(0, 0), Record(0, 0)])


def test_a_real_controller_is_found_and_asked(domain: Domain) -> None:
    port = domain.controller.ports["ldap"]
    with fake_dns({"_ldap._tcp.dc._msdcs.msmq.test.": [f"0 1 {port} localhost."]}) as where:
        settings = replace(domain.settings(), servers=(), domain="msmq.test", name_servers=(where,))
        directory = ActiveDirectory(settings)
        assert directory.initialize(), directory.connection.last_trouble
        assert directory.objects.root_domain_naming_context == ROOT_DN


def test_no_records_at_all_are_explained() -> None:
    with fake_dns({}) as where:
        directory = ActiveDirectory(replace(CORP, name_servers=(where,)))
        assert not directory.initialize()
        assert "directory.domain" in explain(directory)
