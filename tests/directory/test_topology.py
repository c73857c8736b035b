"""Sites and links, made, changed and deleted by an administrator."""

from __future__ import annotations

import pytest

from msmq.directory.join import Joining, JoiningError
from msmq.directory.topology import Topology
from msmq.manager.directory import ObjectClass, Relation
from tests.directory.support import CONFIGURATION, Domain, every


def test_sites_and_links_come_and_go(domain: Domain) -> None:
    joining = Joining(domain.directory_as("Administrator"), domain.computer())
    topology = Topology(joining)
    paris, rome = domain.name("paris"), domain.name("rome")
    ends = topology.create_site(paris), topology.create_site(rome, foreign=True)
    assert domain.exists(f"CN=Servers,CN={paris},CN=Sites,{CONFIGURATION}")
    assert domain.look(f"CN={rome},CN=Sites,{CONFIGURATION}")["mSMQSiteForeign"] == [b"TRUE"]
    topology.set_foreign(rome, foreign=False)
    assert domain.look(f"CN={rome},CN=Sites,{CONFIGURATION}")["mSMQSiteForeign"] == [b"FALSE"]
    with pytest.raises(JoiningError, match="already"):
        topology.create_site(paris)

    gate = joining.join(paris, rome, routing_server=True)
    topology.create_link(paris, rome, 7, [joining.computer])

    def links() -> list[tuple[int, tuple[bytes, ...]]]:
        found = every(
            domain, ObjectClass.ROUTING_LINK, ("site1_identifier", Relation.EQUALS, ends[0]),
            listed=("actual_cost", "site_gate_identifier_list"),
        )  # fmt: skip
        return [
            (item.attributes["actual_cost"], item.attributes["site_gate_identifier_list"]) for item in found
        ]

    assert links() == [(7, (gate,))]
    with pytest.raises(JoiningError, match="already"):
        topology.create_link(rome, paris, 8)
    topology.set_link(rome, paris, cost=9, gates=())
    assert links() == [(9, ())]
    empty = domain.name("empty")
    topology.create_site(empty)
    topology.create_link(empty, rome, 1)
    with pytest.raises(JoiningError, match="links"):
        topology.delete_site(empty)
    topology.delete_link(rome, empty)
    topology.delete_site(empty)
    topology.delete_link(paris, rome)
    assert links() == []
    with pytest.raises(JoiningError, match="no link"):
        topology.delete_link(paris, rome)
    with pytest.raises(JoiningError, match=f"is the site of {joining.computer}"):
        topology.delete_site(paris)
    joining.leave()
    with pytest.raises(
        JoiningError, match="could not be deleted"
    ):  # the server object is somebody else's to delete
        topology.delete_site(paris)
    for site in (paris, rome):
        domain.remove(f"CN={joining.computer},CN=Servers,CN={site},CN=Sites,{CONFIGURATION}")
        topology.delete_site(site)
        assert not domain.exists(f"CN={site},CN=Sites,{CONFIGURATION}")
