"""One host of the simulated network, on its own."""

from __future__ import annotations

import pytest

from msmq.testing.network_book import Broken, Kind, Sending, Sent, body_of, number_in
from msmq.testing.network_host import MAIL, NOON, ORDERS
from msmq.testing.network_sim import NetworkSimulation
from msmq.wire.message import UserMessage
from tests.wire.builders import build


def test_numbers_in_bodies() -> None:
    packet: UserMessage = build(body=body_of(417, 50))
    assert len(packet.body) == 50
    assert number_in(packet) == 417


def test_sending_is_confirmed_when_it_is_durable() -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    kept = Sent(1, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 1)
    lost = Sent(2, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 2)
    alice.send([kept], [10])
    simulation.run_for(1)
    assert kept.state is Sending.CONFIRMED
    alice.send([lost], [10])
    assert lost.state is Sending.ASKED
    alice.lose_power()
    assert not alice.runs
    alice.start()
    assert lost.state is Sending.UNCERTAIN
    simulation.network.close()


def test_an_aborted_transaction_sends_nothing() -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    alice.send([Sent(1, Kind.TRANSACTIONAL, alice.address, (bob.address, ORDERS), 1)], [10], commit=False)
    assert not simulation.book.sent
    assert alice.settled
    simulation.network.close()


def test_receiving_in_a_transaction_that_aborts() -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    alice.send([Sent(1, Kind.TRANSACTIONAL, alice.address, (bob.address, ORDERS), 1)], [10])
    simulation.run_for(3)
    assert bob.receive(ORDERS, in_transaction=True, commit=False)
    assert bob.receive(ORDERS, in_transaction=True)
    assert not bob.receive(ORDERS)
    simulation.run_for(1)
    assert simulation.book.log((bob.address, ORDERS)).read == [1]
    simulation.network.close()


def test_damage_hits_one_message_that_is_known() -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    simulation.network.block(alice.address, bob.address)
    sent = [Sent(number, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), number) for number in (1, 2)]
    alice.damage()
    assert not alice.damaged, "there was nothing yet"
    alice.send(sent, [10, 10])
    simulation.run_for(1)
    alice.damage(2)
    alice.damage(2)
    (queue,) = alice.daemon.manager.core.outgoing.values()
    assert list(map(number_in, alice.packets(queue))) == [1]
    assert [each.damaged for each in sent] == [False, True]
    alice.damaged.clear()
    with pytest.raises(Broken, match="a sound record"):
        alice.packets(queue)
    simulation.network.close()


def test_an_orderly_stop() -> None:
    simulation = NetworkSimulation(1)
    alice = simulation.hosts[0]
    alice.stop()
    assert not alice.runs
    simulation.run_for(1)
    assert alice.loop is None
    assert alice.restarts == 1
    alice.start()
    assert alice.runs
    simulation.network.close()


def test_each_host_has_its_own_clock() -> None:
    simulation = NetworkSimulation(1)
    alice, bob = simulation.hosts[:2]
    alice.clock_offset = -60.0
    simulation.run_for(2)
    assert alice.now() == NOON - 58
    assert bob.now() == NOON + 2
    simulation.network.close()
