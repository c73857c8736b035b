"""``msmq directory site`` and ``msmq directory link`` as an operator runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.samba_dc import DomainController
from tests.cli.test_directory import configuration, run
from tests.directory.support import CONFIGURATION, Domain, domain_of


@pytest.fixture(scope="module")
def domain(domain_controller: DomainController) -> Iterator[Domain]:
    yield from domain_of(domain_controller)


def test_a_routing_server_between_two_sites(domain: Domain, tmp_path: Path) -> None:
    host = domain.computer()
    file = configuration(tmp_path, domain.controller, host, site="")
    paris, rome = domain.name("paris"), domain.name("rome")
    for site in (paris, rome):
        status, told = run("site", file, "create", site, admin=True)
        assert status == 0, told
    status, told = run("join", file, "--routing-server", "--sites", f"{paris}, {rome}", admin=True)
    assert status == 0, told
    assert f"made CN={host},CN=Servers,CN={rome}" in told
    manager = domain.look(domain.directory.objects.names.queue_manager(host))
    for site in (paris, rome):
        settings = domain.look(f"CN=MSMQ Settings,CN={host},CN=Servers,CN={site},CN=Sites,{CONFIGURATION}")
        assert settings["mSMQQMID"] == manager["objectGUID"]
        assert settings["mSMQRoutingService"] == [b"TRUE"]
    status, told = run("link", file, "create", paris, rome, "--cost", "3", "--gates", host, admin=True)
    assert status == 0, told
    assert run("link", file, "set", paris, rome, "--cost", "4", admin=True) == (0, "")
    status, told = run("link", file, "create", paris, rome, admin=True)
    assert (status, "already" in told) == (1, True)
    status, told = run("link", file, "create", paris, "Atlantis", admin=True)
    assert (status, "There is no site Atlantis" in told) == (1, True)
    assert run("link", file, "delete", paris, rome, admin=True) == (0, "")
    assert run("site", file, "set", rome, "--foreign", admin=True) == (0, "")
    status, told = run("site", file, "delete", rome, admin=True)
    assert (status, f"is the site of {host}" in told) == (1, True)
    # An ordinary host again: what made it a server is gone.
    status, told = run("join", file, "--no-routing-server", admin=True)
    assert status == 0, told
    assert not domain.exists(f"CN=MSMQ Settings,CN={host},CN=Servers,CN={rome},CN=Sites,{CONFIGURATION}")


def test_an_ordinary_user_may_not(domain: Domain, tmp_path: Path) -> None:
    file = configuration(tmp_path, domain.controller, domain.computer())
    status, told = run("site", file, "create", domain.name("site"))
    assert (status, "may not do this" in told) == (1, True)
