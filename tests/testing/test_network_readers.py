"""Applications of a simulated host that hold messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.testing.network_book import Broken, Kind, Sent
from msmq.testing.network_host import MAIL, ORDERS, NetworkHost
from msmq.testing.network_readers import Reader
from msmq.testing.network_sim import NetworkSimulation
from msmq.wire.classes import MessageClass


@pytest.fixture
def simulation() -> Iterator[NetworkSimulation]:
    made = NetworkSimulation(2)
    yield made
    made.network.close()


def send(simulation: NetworkSimulation, numbers: range, **options: int | bool) -> NetworkHost:
    """Send orders from Alice to Bob, and give Bob."""
    alice, bob = simulation.hosts[:2]
    for number in numbers:
        sent = Sent(number, Kind.TRANSACTIONAL, alice.address, (bob.address, ORDERS), number)
        for name, value in options.items():
            setattr(sent, name, value)
        alice.send([sent], [40])
    simulation.run_for(5)
    return bob


def holding(simulation: NetworkSimulation, host: NetworkHost, name: str = ORDERS) -> Reader:
    """An application that was given all there is."""
    host.connect(name)
    reader = host.readers[-1]
    host._do(lambda: reader.fetch(20, wait=False))
    simulation.run_for(1)
    host._do(reader.hear)
    return reader


def look_into(simulation: NetworkSimulation, host: NetworkHost, *, whole: bool) -> None:
    host.look_into(ORDERS, whole=whole)
    simulation.run_for(1)


def test_a_group_is_acknowledged_and_the_rest_comes_back(simulation: NetworkSimulation) -> None:
    bob = send(simulation, range(1, 6))
    log = simulation.book.log((bob.address, ORDERS))
    reader = holding(simulation, bob)
    assert sorted(reader.held.values()) == [1, 2, 3, 4, 5]
    assert log.held == {1, 2, 3, 4, 5}
    by_number = {number: lookup_id for lookup_id, number in reader.held.items()}
    bob._do(lambda: reader.acknowledge([by_number[4], by_number[2]]))
    bob._do(lambda: reader.reject([by_number[5]]))
    simulation.run_for(1)
    assert sorted(log.read) == [2, 4]
    assert sorted(reader.held.values()) == [1, 3]
    bob.leave(bob.readers)
    assert not bob.readers
    simulation.end()
    assert sorted(log.read) == [1, 2, 3, 4, 5]


def test_what_is_rejected_comes_back_after_a_while(simulation: NetworkSimulation) -> None:
    bob = send(simulation, range(1, 3))
    bob.connect(ORDERS, retry_delay_ms=3_000)
    (reader,) = bob.readers
    bob._do(lambda: reader.fetch(1, wait=False))
    simulation.run_for(0.5)
    bob._do(reader.hear)
    bob._do(lambda: reader.reject([*reader.held]))
    assert (bob.receive(ORDERS), bob.receive(ORDERS)) == (True, False)
    simulation.run_for(5)
    assert bob.receive(ORDERS)
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == [2, 1]


def test_who_waits_is_given_what_comes(simulation: NetworkSimulation) -> None:
    bob = simulation.hosts[1]
    bob.connect(ORDERS)
    (reader,) = bob.readers
    bob._do(lambda: reader.fetch(3, wait=True))
    send(simulation, range(1, 4))
    bob._do(reader.hear)
    assert sorted(reader.held.values()) == [1, 2, 3]
    bob._do(lambda: reader.fetch(1, wait=False))  # which ends the wait
    simulation.end()


def test_what_was_purged_while_it_was_held_was_not_received(simulation: NetworkSimulation) -> None:
    bob = send(simulation, range(1, 4), acknowledgments=0xF)
    reader = holding(simulation, bob)
    bob.purge(ORDERS)
    bob._do(lambda: reader.acknowledge(list(reader.held)))
    simulation.run_for(5)
    assert simulation.book.log((bob.address, ORDERS)).read == []
    told = simulation._ends().told
    assert all(told[number][MessageClass.NACK_Q_PURGED] == 1 for number in (1, 2, 3))
    simulation.end()


def test_a_queue_that_is_made_anew(simulation: NetworkSimulation) -> None:
    alice, bob = simulation.hosts[:2]
    alice.send([Sent(1, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 1)], [40])
    simulation.run_for(5)
    reader = holding(simulation, bob, MAIL)
    bob.make_anew(MAIL)
    assert bob.has(MAIL)
    assert not reader.open
    alice.send([Sent(2, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 2)], [40])
    simulation.end()
    assert simulation.book.log((bob.address, MAIL)).read == [2]


@pytest.mark.parametrize("whole", [True, False], ids=["span", "cursor"])
def test_looking_changes_nothing(simulation: NetworkSimulation, whole: bool) -> None:
    bob = send(simulation, range(1, 4))
    look_into(simulation, bob, whole=whole)
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == [1, 2, 3]


@pytest.mark.parametrize("whole", [True, False], ids=["span", "cursor"])
def test_what_is_shown_must_have_been_sent(simulation: NetworkSimulation, whole: bool) -> None:
    bob = send(simulation, range(1, 4))
    del simulation.book.sent[2]
    with pytest.raises(Broken, match="message 2 is shown"):
        look_into(simulation, bob, whole=whole)


def test_a_message_is_given_to_one_reader_only(simulation: NetworkSimulation) -> None:
    bob = send(simulation, range(1, 2))
    first = holding(simulation, bob)
    (lookup_id,) = first.held
    bob.queue(ORDERS).positions.set_state(lookup_id, PositionState.AVAILABLE)
    with pytest.raises(Broken, match="two readers"):
        holding(simulation, bob)


def test_an_administration_queue_on_the_host_of_the_destination() -> None:
    """Between hosts that know each other's GUIDs the packet says only its number there."""
    simulation = NetworkSimulation(2, routed=True)
    alice, bob = simulation.hosts[:2]
    sent = Sent(1, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 1, acknowledgments=0xF)
    sent.answered_at_target = True
    alice.send([sent], [40])
    simulation.run_for(5)
    (packet,) = bob.packets(bob.queue(MAIL))
    assert packet.user.admin_reference == 3
    simulation.end()
    assert [len(host.queue("acks").positions) for host in (alice, bob)] == [0, 2]
    simulation.network.close()
