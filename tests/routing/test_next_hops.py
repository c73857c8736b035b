"""The next hops of a message (MS-MQBR 3.1.5.1 to 3.1.5.7)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.routing.network import Link, Machine, Network
from msmq.routing.next_hops import next_hops

PARIS, ROME, OSLO = b"P" * 16, b"R" * 16, b"O" * 16
ALICE, CAROL = Machine(b"a" * 16, (PARIS,)), Machine(b"c" * 16, (PARIS,))
BOB, BEN = (
    Machine(b"b" * 16, (PARIS,), routing_server=True),
    Machine(b"n" * 16, (PARIS,), routing_server=True),
)
RITA, OLAF = (
    Machine(b"r" * 16, (ROME,), routing_server=True),
    Machine(b"o" * 16, (OSLO,), routing_server=True),
)
DORA, EMIL = Machine(b"d" * 16, (ROME,)), Machine(b"e" * 16, (OSLO,))

LINKS = [
    Link(PARIS, ROME, 1, (BOB.identifier, RITA.identifier)),
    Link(ROME, OSLO, 1, (RITA.identifier, OLAF.identifier)),
    Link(PARIS, OSLO, 5, (BOB.identifier, OLAF.identifier)),
]


def hops(*machines: Machine, start: Machine, end: Machine, choice: int = 0) -> list[str]:
    network = Network.of((*machines, start, end), LINKS)
    return [hop[:1].decode() for hop in next_hops(network, start.identifier, end.identifier, choice)]


def test_a_client_goes_straight_and_to_a_routing_server_if_that_fails() -> None:
    assert hops(start=ALICE, end=CAROL) == ["c"]
    assert hops(BOB, BEN, start=ALICE, end=CAROL) == ["c", "b", "n"]
    assert hops(BOB, BEN, start=ALICE, end=CAROL, choice=1) == ["c", "n", "b"]


def test_out_routing_servers_take_everything_of_a_client() -> None:
    bound = replace(ALICE, out_routing_servers=(BOB.identifier, BEN.identifier))
    assert hops(BOB, BEN, start=bound, end=CAROL) == ["b", "n"]
    assert hops(BOB, BEN, start=bound, end=DORA, choice=1) == ["n", "b"]


def test_in_routing_servers_hand_over_everything() -> None:
    guarded = replace(CAROL, in_routing_servers=(BEN.identifier,))
    assert hops(BOB, BEN, start=ALICE, end=guarded) == ["n"]
    assert hops(BEN, start=BOB, end=guarded) == ["n"], "a gate of the same site too"
    assert hops(BOB, start=BEN, end=guarded) == ["c"], "and they themselves go straight"


def test_another_site_is_reached_by_a_routing_server_then_a_gate_then_the_cheapest_way() -> None:
    everybody = (ALICE, BOB, BEN, RITA, OLAF)
    assert hops(*everybody, start=ALICE, end=EMIL) == ["b", "n"]
    assert hops(*everybody, start=BEN, end=EMIL) == ["b"], "a routing server that is no gate asks one"
    assert hops(*everybody, start=BOB, end=EMIL) == ["r"], "two links of 1 are cheaper than one of 5"
    assert hops(*everybody, start=RITA, end=EMIL) == ["o"]
    assert hops(*everybody, start=OLAF, end=EMIL) == ["e"]


def test_a_machine_that_the_network_does_not_know_is_no_beginning_and_no_end() -> None:
    network = Network.of((ALICE, BOB), LINKS)
    for source, destination in ((ALICE, DORA), (DORA, ALICE), (DORA, EMIL)):
        assert next_hops(network, source.identifier, destination.identifier) == ()


def test_there_may_be_no_way() -> None:
    assert hops(start=ALICE, end=DORA) == [], "no routing server in the site"
    assert hops(start=BEN, end=Machine(b"x" * 16, (b"X" * 16,))) == [], "no gate either"
    assert hops(RITA, start=BOB, end=Machine(b"x" * 16, (b"X" * 16,))) == [], "a site without a link"
    assert next_hops(Network(), ALICE.identifier, CAROL.identifier) == ()


@settings(deadline=None)
@given(st.integers(0, 5), st.sampled_from([DORA, EMIL, CAROL]))
def test_whatever_is_chosen_the_message_arrives(choice: int, end: Machine) -> None:
    network = Network.of((ALICE, CAROL, BOB, BEN, RITA, OLAF, DORA, EMIL), LINKS)
    here, count = ALICE.identifier, 0
    while here != end.identifier:
        here = next_hops(network, here, end.identifier, choice)[0]
        count += 1
        assert count <= 5
