"""The daemon on the simulated network: a crash at every step, and what the simulator has found, one by one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from msmq.errors import PublicKeyNotFoundError
from msmq.manager.mailbox.stored import LocalAttributes
from msmq.server.outbound.drain import Drain
from msmq.server.outbound.runs import runs_of
from msmq.server.outbound.settlement import Voice
from msmq.testing.network_book import Kind, Sent
from msmq.testing.network_host import MAIL, ORDERS, NetworkHost
from msmq.testing.network_sim import NetworkSimulation
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from msmq.wire.packets import OrderAckBody

QUIET = 2
"""A seed with short delays, and with two hosts."""
SLICES = 10


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def simulation() -> Iterator[NetworkSimulation]:
    made = calm()
    yield made
    made.network.close()


def calm(*, routed: bool = False) -> NetworkSimulation:
    made = NetworkSimulation(QUIET, routed=routed)
    made.network.latency_s = (0.001, 0.002)
    if routed:
        made.hosts = [made.hosts[0], made.hosts[2], made.hosts[1]]  # who routes comes last
    return made


def message(number: int, kind: Kind, source: NetworkHost, target: NetworkHost, **options: int) -> Sent:
    name = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
    return Sent(number, kind, source.address, (target.address, name), number, **options)  # type: ignore[arg-type]


def scenario(
    made: NetworkSimulation, stop_after: int, end: Callable[[NetworkHost], None], victim: int
) -> int:
    """Messages of all kinds, read as soon as they are there; after so many steps a host dies. Gives the steps."""
    alice, bob = made.hosts[:2]
    options: dict[str, int] = {"positive_journaling": True, "acknowledgments": 0xF}
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob, negative_journaling=True)], [40])
    alice.send([message(number, Kind.TRANSACTIONAL, alice, bob, **options) for number in (2, 3)], [40, 40])
    alice.send([message(4, Kind.RECOVERABLE, alice, bob, **options)], [40])
    bob.send([message(5, Kind.TRANSACTIONAL, bob, alice, **options)], [40])
    until = made.network.now + 2.0
    for step in range(1_000):
        if step == stop_after and made.hosts[victim].runs:
            end(made.hosts[victim])
        loop = made.network.step(until)
        if loop is None:
            return step
        made._by_address[loop.address].look()
        for host in made.hosts:
            if step % 5 == 0 and host.runs:
                host.receive(ORDERS)
                host.receive(MAIL)
    return 1_000


def steps_of_scenario(*, routed: bool = False) -> int:
    made = calm(routed=routed)
    try:
        return scenario(made, -1, NetworkHost.kill, 0)
    finally:
        made.network.close()


@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("victim", [0, 1], ids=["sender", "receiver"])
@pytest.mark.parametrize("end", [NetworkHost.kill, NetworkHost.lose_power], ids=["killed", "powerless"])
@pytest.mark.spec("MQQB-3.1.5.8.6-j")
def test_a_crash_at_every_step(end: Callable[[NetworkHost], None], victim: int, part: int) -> None:
    steps = steps_of_scenario()
    assert steps > 100
    for stop_after in range(part, steps, SLICES):
        made = calm()
        try:
            scenario(made, stop_after, end, victim)
            made.end()
        except Exception as error:
            raise AssertionError(f"after step {stop_after}") from error
        finally:
            made.network.close()


@pytest.mark.spec("MQQB-3.1.7.1.2-d")
def test_a_message_that_may_have_arrived_is_not_given_up(simulation: NetworkSimulation) -> None:
    """It arrives, and its sender does not hear of it before its time is up: it is not a dead letter."""
    alice, bob = simulation.hosts[:2]
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(2)
    late = {"negative_journaling": True, "acknowledgments": 0xF, "time_to_reach_queue_s": 1}
    simulation.network.block(bob.address, alice.address)
    alice.send([message(2, Kind.TRANSACTIONAL, alice, bob, **late)], [40])
    simulation.run_for(10)
    assert simulation.book.log((bob.address, ORDERS)).seen == [1, 2]
    alice.kill()
    alice.start()
    simulation.run_for(10)
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == [1, 2]
    assert not simulation._ends().dead


def test_a_message_that_has_left_too_late_is_refused_where_it_arrives(simulation: NetworkSimulation) -> None:
    alice, bob = simulation.hosts[:2]
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(2)
    simulation.network.block(alice.address, bob.address)
    late = {"negative_journaling": True, "acknowledgments": 0xF, "time_to_reach_queue_s": 1}
    alice.send([message(2, Kind.TRANSACTIONAL, alice, bob, **late)], [40])
    simulation.run_for(0.5)
    alice.send([message(3, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(5)
    assert not simulation._ends().dead
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == [1, 3]
    assert simulation._ends().dead == {2: 1}


def test_two_hosts_that_both_have_much_to_say(simulation: NetworkSimulation) -> None:
    """More than the buffers between them hold: if neither read because neither is read, nothing would move."""
    alice, bob = simulation.hosts[:2]
    simulation.network.write_buffer_bytes = 512
    for number in range(1, 60, 2):
        alice.send([message(number, Kind.RECOVERABLE, alice, bob)], [6_000])
        bob.send([message(number + 1, Kind.RECOVERABLE, bob, alice)], [6_000])
    simulation.end()
    assert len(simulation.book.log((bob.address, MAIL)).read) == 30


@pytest.mark.parametrize("jump_s", [3_600.0, -3_600.0], ids=["forward", "back"])
def test_a_clock_that_is_set(simulation: NetworkSimulation, jump_s: float) -> None:
    alice, bob = simulation.hosts[:2]
    simulation.network.block(alice.address, bob.address)
    alice.send(
        [message(1, Kind.TRANSACTIONAL, alice, bob, negative_journaling=True, time_to_reach_queue_s=1_000)],
        [40],
    )
    alice.send([message(2, Kind.EXPRESS, alice, bob, time_to_reach_queue_s=1)], [40])
    simulation.run_for(0.5)
    alice.clock_offset += jump_s
    before = simulation.network.steps
    simulation.run_for(5)
    assert simulation.network.steps - before < 500, "nobody turns in circles"
    assert simulation._ends().dead == ({1: 1} if jump_s > 0 else {})
    assert len(alice.daemon.manager.core.outgoing) == 2


def test_the_last_word_is_said_on_a_full_disk(simulation: NetworkSimulation) -> None:
    """A read frees room; that its sender has to be told must not make it fail, nor be forgotten."""
    alice, bob = simulation.hosts[:2]
    alice.send(
        [message(number, Kind.TRANSACTIONAL, alice, bob, positive_journaling=True) for number in (1, 2, 3)],
        [40, 40, 40],
    )
    simulation.run_for(2)
    bob.receive(ORDERS)  # the way back exists from now on
    simulation.run_for(1)
    bob.disk.capacity = bob.disk.used_bytes
    fill = 4
    while bob.daemon.manager.core.state and fill < 400:
        bob.send([message(fill, Kind.RECOVERABLE, bob, alice)], [6_000])
        if fill not in simulation.book.sent:
            break
        fill += 1
    assert fill < 400, "the disk is full"
    assert bob.receive(ORDERS)
    assert bob.receive(ORDERS)
    simulation.run_for(1)
    simulation.end()
    assert simulation._ends().journaled == {1: 1, 2: 1, 3: 1}


def test_a_link_without_room_is_woken(simulation: NetworkSimulation) -> None:
    """By whatever makes room on a connection that others fill, and by its end."""
    alice, bob = simulation.hosts[:2]
    alice.send([message(1, Kind.RECOVERABLE, alice, bob)], [40])
    simulation.run_for(2)
    outgoing = alice.daemon.outgoing
    (link,) = outgoing.links.values()
    connection = link._connection
    assert connection is not None
    assert alice.loop is not None
    outgoing._carried.clear()  # as if it were others who fill it
    for wake in (outgoing.room_again, lambda other: outgoing.closed(other, [])):
        outgoing.starves(connection, link)
        with alice.loop.running():
            wake(connection)
        assert list(outgoing._woken) == [link]
        outgoing._woken.clear()
        assert not outgoing._starving


@pytest.mark.spec("MQMQ-2.2.18.1.2-c")
def test_identifiers_of_sequences_rise_over_restarts(simulation: NetworkSimulation) -> None:
    """Over kills, power failures and a clock that is set back: each message begins a sequence of its own here."""
    alice, bob = simulation.hosts[:2]
    for number in range(1, 9):
        alice.send([message(number, Kind.TRANSACTIONAL, alice, bob)], [40])
        simulation.run_for(3)
        alice.clock_offset -= 1_000
        (alice.kill if number % 2 else alice.lose_power)()
        alice.start()
    packets = bob.packets(bob.queue(ORDERS))
    identifiers = [packet.transaction.tx_sequence_id for packet in packets if packet.transaction is not None]
    assert len(identifiers) == 8
    parts = [(identifier & 0xFFFFFFFF, identifier >> 32) for identifier in identifiers]
    assert identifiers == sorted(set(identifiers))
    assert [low for low, _ in parts] == sorted(low for low, _ in parts)
    assert [high for _, high in parts] == sorted(high for _, high in parts)


# Messages that cannot leave, and those behind them


def seen(simulation: NetworkSimulation, host: NetworkHost, name: str = ORDERS) -> list[int]:
    return simulation.book.log((host.address, name)).seen


def test_nothing_overtakes_a_message_without_room_for_its_place(
    simulation: NetworkSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room again a moment later, and then it goes on by itself."""
    alice, bob = simulation.hosts[:2]
    no_room = iter([False])
    monkeypatch.setattr("msmq.server.outbound.drain._CHOSEN_BYTES", 1)  # they are looked at one by one
    monkeypatch.setattr(Drain, "_room_for_places", lambda self, most: next(no_room, True))
    alice.send([message(number, Kind.TRANSACTIONAL, alice, bob) for number in (1, 2, 3)], [40, 40, 40])
    simulation.run_for(2)
    assert next(no_room, None) is None, "there was none"
    assert seen(simulation, bob) == [1, 2, 3]


def test_nothing_overtakes_a_message_that_cannot_be_given_up(
    simulation: NetworkSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is late, and the disk has not even room to say so."""
    alice, bob = simulation.hosts[:2]
    simulation.network.block(alice.address, bob.address)
    late = message(1, Kind.TRANSACTIONAL, alice, bob, negative_journaling=True, time_to_reach_queue_s=1)
    alice.send([late], [40])
    alice.send([message(2, Kind.TRANSACTIONAL, alice, bob)], [40])
    with monkeypatch.context() as full:
        full.setattr(Drain, "give_up", lambda *_: False)
        simulation.run_for(3)
        simulation.network.heal()
        simulation.run_for(3)
        assert seen(simulation, bob) == []
    simulation.run_for(3)
    assert seen(simulation, bob) == [2]
    assert simulation._ends().dead == {1: 1}


def test_a_message_that_can_neither_be_encrypted_nor_given_up_waits(
    simulation: NetworkSimulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = simulation.hosts[:2]
    manager = alice.daemon.manager
    sealed: list[bytes] = []

    def seal(packet: UserMessage) -> bytes:
        sealed.append(packet.data)
        raise PublicKeyNotFoundError("on purpose")

    monkeypatch.setattr(manager.credentials, "seal", seal)
    monkeypatch.setattr(manager.posting, "_check_privacy", lambda message: None)
    with monkeypatch.context() as private:
        private.setattr(manager.posting, "local", lambda message: LocalAttributes(private=True))
        alice.send([message(1, Kind.RECOVERABLE, alice, bob, negative_journaling=True)], [40])
    alice.send([message(2, Kind.RECOVERABLE, alice, bob)], [40])
    with monkeypatch.context() as full:
        full.setattr(Drain, "give_up", lambda *_: False)
        simulation.run_for(2)
        assert len(sealed) in range(2, 30), "it is tried again, and not in circles"
        assert seen(simulation, bob, MAIL) == []
    simulation.run_for(2)
    assert seen(simulation, bob, MAIL) == [2]
    assert simulation._ends().dead == {1: 1}


def test_a_message_that_is_done_while_it_waits_to_be_sent_again(simulation: NetworkSimulation) -> None:
    """Its acknowledgments come between the choice and the commit."""
    alice, bob = simulation.hosts[:2]
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(0.02)
    outgoing = alice.daemon.outgoing
    (drain,) = [each for each in outgoing.drains.values() if each.numbers]
    (link,) = outgoing.links.values()
    connection, loop = link._connection, alice.loop
    assert connection is not None
    assert loop is not None
    lookup_id = drain._sender.token(1)
    assert lookup_id is not None
    alice.send([message(2, Kind.RECOVERABLE, alice, bob)], [40])  # something to wait for
    with loop.running():
        drain._send_again([(1, lookup_id)])
        link._pump(connection)
        assert connection.promised
        drain.acknowledged(runs_of(drain, [(1, lookup_id)], 0))
        voice = Voice(connection.peer, connection.session.remote_guid, connection.session.remote_guid)
        outgoing.order_ack(OrderAckBody.of(drain._sender.sequence_id, 1), voice)
    assert not drain.numbers
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == [1]


def test_what_has_its_place_and_has_not_left_expires(simulation: NetworkSimulation) -> None:
    """Places are given ahead of the window: those beyond it have certainly not arrived, those within may have."""
    alice, bob = simulation.hosts[:2]
    window = simulation.config.window_size
    alice.send([message(1, Kind.TRANSACTIONAL, alice, bob)], [40])
    simulation.run_for(2)
    simulation.network.block(bob.address, alice.address)
    late = {"negative_journaling": True, "time_to_reach_queue_s": 1}
    numbers = range(2, window + 6)
    alice.send(
        [message(number, Kind.TRANSACTIONAL, alice, bob, **late) for number in numbers],
        [40 for _ in numbers],
    )
    simulation.run_for(10)
    arrived = seen(simulation, bob)
    assert arrived == list(range(1, len(arrived) + 1))
    assert 1 < len(arrived) <= window + 1
    assert simulation._ends().dead == dict.fromkeys(range(len(arrived) + 1, window + 6), 1)
    simulation.end()
    assert simulation.book.log((bob.address, ORDERS)).read == arrived


# By way of others


@pytest.fixture
def routed() -> Iterator[NetworkSimulation]:
    made = calm(routed=True)
    yield made
    made.network.close()


def test_a_late_message_on_its_way_is_refused_where_it_arrives(routed: NetworkSimulation) -> None:
    """Neither its sender nor who passes it on can know that it did not arrive."""
    alice, carol, bob = routed.hosts
    carol.kill()
    late = {"negative_journaling": True, "acknowledgments": 0xF, "time_to_reach_queue_s": 1}
    alice.send([message(1, Kind.TRANSACTIONAL, alice, carol, **late)], [40])
    alice.send([message(2, Kind.TRANSACTIONAL, alice, carol)], [40])
    routed.run_for(20)
    (queue,) = bob.daemon.manager.core.outgoing.values()
    assert len(queue.positions) == 2
    carol.start()
    routed.run_for(10)
    assert seen(routed, carol) == [2]
    routed.end()
    ends = routed._ends()
    assert ends.dead == {1: 1}
    assert ends.told == {1: {MessageClass.NACK_REACH_QUEUE_TIMEOUT: 1}}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(SLICES))
@pytest.mark.parametrize("end", [NetworkHost.kill, NetworkHost.lose_power], ids=["killed", "powerless"])
def test_a_crash_of_the_routing_server_at_every_step(end: Callable[[NetworkHost], None], part: int) -> None:
    steps = steps_of_scenario(routed=True)
    assert steps > 100
    for stop_after in range(part, steps, SLICES):
        made = calm(routed=True)
        try:
            scenario(made, stop_after, end, 2)
            made.end()
        except Exception as error:
            raise AssertionError(f"after step {stop_after}") from error
        finally:
            made.network.close()


def test_two_names_of_a_queue_are_two_streams(simulation: NetworkSimulation) -> None:
    """The sequence with the lower number was taken for one that is over, and its messages for duplicates."""
    alice, bob = simulation.hosts[:2]
    simulation.network.block(alice.address, bob.address)
    for number in range(1, 7):
        sent = message(number, Kind.TRANSACTIONAL, alice, bob, by_computer_name=number % 2 == 1)
        alice.send([sent], [40])
    simulation.network.heal()
    simulation.run_for(120)
    seen = simulation.book.log((bob.address, ORDERS)).seen
    assert [number for number in seen if number % 2] == [1, 3, 5]
    assert [number for number in seen if number % 2 == 0] == [2, 4, 6]
    assert not any(len(queue.positions) for queue in alice.daemon.manager.core.outgoing.values())
