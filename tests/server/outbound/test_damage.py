"""A message that the disk damages while it waits to be sent costs itself, and nothing before or after it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from msmq.testing.network_book import Kind, Sent
from msmq.testing.network_host import MAIL, ORDERS, NetworkHost
from msmq.testing.network_sim import NetworkSimulation


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def simulation() -> Iterator[NetworkSimulation]:
    made = NetworkSimulation(2)
    made.network.latency_s = (0.001, 0.002)
    yield made
    made.network.close()


def message(number: int, kind: Kind, source: NetworkHost, target: NetworkHost, **options: int) -> Sent:
    name = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
    return Sent(number, kind, source.address, (target.address, name), number, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("met", ["when it goes again", "by cleaning", "at the start"])
def test_the_stream_goes_on_without_it(simulation: NetworkSimulation, met: str) -> None:
    """Whoever meets it: its place in the stream is forgotten, and that its sender waits for what becomes of it."""
    alice, bob = simulation.hosts[:2]
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(2)
    simulation.network.block(alice.address, bob.address)
    for number in range(2, 7):
        alice.send([message(number, Kind.TRANSACTIONAL, alice, bob, positive_journaling=True)], [40])
    simulation.run_for(0.8)
    for connection in list(simulation.network.connections):
        simulation.network.cut(connection, both=True)
    simulation.run_for(0.1)
    alice.damage(4)
    daemon = alice.daemon
    assert [len(drain.numbers) for drain in daemon.outgoing.drains.values()] == [5], "they have their places"
    if met == "by cleaning":
        daemon.store.compact(daemon._cleaning)
    elif met == "at the start":
        alice.kill()
        alice.start()
    alice.send([message(7, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.network.heal()
    simulation.run_for(20)
    assert simulation.book.log((bob.address, ORDERS)).seen == [1, 2, 3, 5, 6, 7]
    assert (alice.crashes, alice.daemon.failure) == (met == "at the start", None)
    simulation.end()
    assert simulation._ends().journaled == dict.fromkeys((2, 3, 5, 6), 1)


def test_others_whose_time_is_up_in_the_same_second_are_given_up(simulation: NetworkSimulation) -> None:
    alice, bob = simulation.hosts[:2]
    simulation.network.block(alice.address, bob.address)
    late = {"negative_journaling": True, "time_to_reach_queue_s": 3}
    for number in range(1, 6):
        alice.send([message(number, Kind.RECOVERABLE, alice, bob, **late)], [40])
    simulation.run_for(1.5)  # when the time limits have been read
    alice.damage(2)
    alice.damage(3)
    simulation.run_for(10)
    assert simulation._ends().dead == {1: 1, 4: 1, 5: 1}
    assert (alice.crashes, alice.daemon.failure) == (0, None)
    assert len(alice.daemon.manager.core.lost_records) == 2
    simulation.end()


def test_a_router_forgets_it() -> None:
    routed = NetworkSimulation(2, routed=True)
    alice, bob, carol = routed.hosts
    routed.network.block(bob.address, carol.address)
    sent = [message(number, Kind.TRANSACTIONAL, alice, carol) for number in (1, 2, 3)]
    for each in sent:
        each.by_way_of = bob.address
        alice.send([each], [40])
    routed.run_for(0.5)
    assert len(bob.daemon.arrivals.forwarding.copies) == 3
    bob.damage(2)
    bob.daemon.store.compact(bob.daemon._cleaning)
    assert len(bob.daemon.arrivals.forwarding.copies) == 2
    routed.network.heal()
    routed.end()
    assert routed.book.log((carol.address, ORDERS)).read == [1, 2, 3], "its sender has it still"
    routed.network.close()
