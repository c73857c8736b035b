"""Whole queue managers on the simulated network: hundreds of seeds, and what makes them worth something."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.manager.mailbox.contents import Found, Known
from msmq.manager.mailbox.mailbox import Mailbox
from msmq.manager.mailbox.positions import PositionMark, Positions
from msmq.manager.mailbox.stored import StoredMessage, local_bytes
from msmq.manager.messages.acknowledgments import Acknowledging
from msmq.manager.messages.readers import Reading
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.server.daemon import Daemon
from msmq.server.inbound.forwarding import Forwarding
from msmq.server.inbound.places import Places
from msmq.server.outbound.drain import Drain
from msmq.testing.faults import Fault
from msmq.testing.loop import SimulatedLoop
from msmq.testing.network_book import Broken, Kind, Sent
from msmq.testing.network_host import MAIL, ORDERS
from msmq.testing.network_sim import BY_NUMBER, CALM, NAMES, ROUTED, NetworkSimulation, main, run
from msmq.transfer.order_receiver import Verdict
from msmq.transfer.session import Session
from msmq.wire.classes import MessageClass
from msmq.wire.headers import QueueReference
from msmq.wire.message import UserMessage

SEEDS = 250
"""Most with trouble, one in ten calm; `make sim` has all others."""
CHUNK = 25


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Daemons that are killed by the thousand have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(1, SEEDS + 1, CHUNK))
@pytest.mark.spec("MQQB-3.1.5.8.6-j")
def test_the_promises_of_transfer_are_kept(first: int) -> None:
    """On failure: ``make sim SIM=network SEED=... SEEDS=1`` with the seed that the error names."""
    faults: Counter[str] = Counter()
    internal_errors = 0
    for seed in range(first, first + CHUNK):
        try:
            ended = run(seed)
            faults += ended.faults
            internal_errors += ended.internal_errors.raised
        except Exception as error:
            raise AssertionError(f"seed {seed}: make sim SIM=network SEED={seed} SEEDS=1") from error
    assert {"send", "receive", "cut", "lose_power_soon"} <= set(faults)
    assert internal_errors


def test_a_run_depends_on_its_seed_alone() -> None:
    """Not on the process it runs in, nor on the order of its sets."""
    code = (
        "import logging; logging.disable(50)\n"
        "from msmq.testing.network_sim import run\n"
        "ended = [run(seed) for seed in (3, 4)]\n"
        "print([(e.network.steps, e.network.now, e.book.arrivals, e.trace) for e in ended])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--seeds", "2", "--rounds", "10"]) == 0
    assert "seed 6" in capsys.readouterr().err


def test_a_failure_names_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NetworkSimulation, "end", lambda self: (_ for _ in ()).throw(Broken("on purpose")))
    with pytest.raises(Broken):
        main(["--seed", "9", "--seeds", "3", "--rounds", "1"])
    assert "--seed 9 --seeds 1 --rounds 1" in capsys.readouterr().err


# The simulator has to find what is wrong: each of these breaks a promise in the daemon.


def first_failure(seeds: range) -> Exception | None:
    for seed in seeds:
        try:
            run(seed)
        except Exception as error:
            return error
    return None


def test_it_finds_a_receiver_that_takes_messages_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msmq.transfer.order_receiver.judge", lambda *_: Verdict.ACCEPTED)
    assert isinstance(first_failure(range(1, 40)), Broken)


def test_it_finds_places_that_are_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "restore", lambda *_: [])
    assert first_failure(range(1, 60)) is not None


def test_it_finds_a_routing_server_that_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was given is acknowledged and gone."""
    monkeypatch.setattr(Forwarding, "take", lambda *_: None)
    assert isinstance(first_failure(range(ROUTED, 10 * ROUTED, ROUTED)), Broken)


def test_it_finds_a_session_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recoverable messages are acknowledged before they are stored: what the receiver loses is lost."""
    returned = Drain.returned

    def forget(self: Drain, lookup_id: int) -> None:
        returned(self, lookup_id)
        self._delivered([lookup_id])

    monkeypatch.setattr(Drain, "returned", forget)
    assert isinstance(first_failure(range(1, 60)), Broken)


def test_it_finds_a_daemon_that_waits_for_a_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose messages are received in time, but which does not go on when there is room in the window."""
    monkeypatch.setattr(Session, "_tell_room", lambda *_: None)
    assert isinstance(first_failure(range(CALM, 40 * CALM, CALM)), Broken)


def test_it_finds_a_daemon_that_goes_on_after_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a value that is written alone, in a timer, while space of the store is given back."""
    monkeypatch.setattr(Daemon, "_internal_error", lambda *_: None)
    assert isinstance(first_failure(range(1, 40)), AssertionError | Fault)


def test_it_finds_a_daemon_that_keeps_an_internal_error_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in which nobody hears of what a callback has met."""
    monkeypatch.setattr(SimulatedLoop, "call_exception_handler", lambda *_: None)
    failure = first_failure(range(1, 40))
    assert isinstance(failure, AssertionError)
    assert "goes on after an internal error" in str(failure)


def test_it_finds_messages_that_are_read_after_they_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of acknowledgments with plain messages and others among them: what the others owe was found out when all
    of them had gone already."""
    read, late = Mailbox._read_first, 0

    def read_late(
        mailbox: Mailbox, queue: Queue, positions: Positions, chosen: bytes, known: Known
    ) -> dict[int, StoredMessage]:
        nonlocal late
        owes_nothing = [bool(mark & PositionMark.OWES_NOTHING) for mark in positions.marks]
        mixed = any(owes_nothing) and not all(owes_nothing)
        late += mixed
        return {} if mixed else read(mailbox, queue, positions, chosen, known)

    monkeypatch.setattr(Mailbox, "_read_first", read_late)
    assert isinstance(first_failure(range(1, 60)), Broken)
    assert late


def test_it_finds_packets_that_begin_with_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local attributes in front of packets that are not on the disk yet."""
    look, careless = Mailbox.look, 0

    def look_carelessly(mailbox: Mailbox, queue: Queue, *where: int, peek: bool = False) -> Found:
        nonlocal careless
        found = look(mailbox, queue, *where, peek=peek)
        for index, local in found.local.items():
            address = found.positions.addresses[index]
            if address and not mailbox.core.ledger.store.is_durable(address, address):
                found.packets[index] = local_bytes(local) + found.packets[index]
                careless += 1
        return found

    monkeypatch.setattr(Mailbox, "look", look_carelessly)
    assert isinstance(first_failure(range(1, 60)), Broken | DecodeError)
    assert careless


def test_it_finds_a_group_that_is_acknowledged_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Reading.keep

    def keep_some(reading: Reading, descriptor: OpenQueueDescriptor, lookup_ids: Sequence[int]) -> int:
        return keep(reading, descriptor, lookup_ids[:1]) and len(lookup_ids)

    monkeypatch.setattr(Reading, "keep", keep_some)
    # Calm hosts: readers live long enough to hold groups.
    assert isinstance(first_failure(range(CALM, 40 * CALM, CALM)), Broken)


# Without chance


def quiet(seed: int = 2) -> NetworkSimulation:
    return NetworkSimulation(seed)


def test_messages_of_all_kinds_end_as_they_should() -> None:
    simulation = quiet()
    alice, bob = simulation.hosts[:2]
    express = Sent(1, Kind.EXPRESS, alice.address, (bob.address, MAIL), 1)
    recoverable = Sent(2, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 2, acknowledgments=0xF)
    journaled = [
        Sent(number, Kind.TRANSACTIONAL, alice.address, (bob.address, ORDERS), 3, positive_journaling=True)
        for number in (3, 4)
    ]
    alice.send([express], [10])
    alice.send([recoverable], [10])
    alice.send(journaled, [10, 5_000])
    simulation.end()
    assert simulation.book.log((bob.address, MAIL)).read == [1, 2]
    assert simulation.book.log((bob.address, ORDERS)).read == [3, 4]
    assert simulation._ends().journaled == {3: 1, 4: 1}
    simulation.network.close()


def test_messages_of_all_kinds_are_routed() -> None:
    simulation = NetworkSimulation(2, routed=True)
    alice, bob, carol = simulation.hosts
    simulation.network.block(alice.address, carol.address)
    simulation.network.block(carol.address, alice.address)
    kinds = (Kind.EXPRESS, Kind.RECOVERABLE, Kind.TRANSACTIONAL)
    for number, kind in enumerate(kinds, 1):
        name = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
        sent = Sent(number, kind, alice.address, (carol.address, name), number, by_way_of=bob.address)
        sent.acknowledgments, sent.positive_journaling = 0xF, True
        alice.send([sent], [10])
    simulation.run_for(5)
    packets = [packet for name in (MAIL, ORDERS) for packet in carol.packets(carol.queue(name))]
    assert [packet.user.hop_count for packet in packets] == [1, 1, 1]
    for name in (MAIL, MAIL, ORDERS):
        assert carol.receive(name)
    simulation.run_for(5)
    ends = simulation._ends()
    assert ends.journaled == {1: 1, 2: 1, 3: 1}
    both = {MessageClass.ACK_REACH_QUEUE: 1, MessageClass.ACK_RECEIVE: 1}
    assert ends.told == {1: both, 2: both, 3: both}
    simulation.end()
    simulation.network.close()


@pytest.mark.parametrize("kind", Kind)
def test_an_administration_queue_that_is_a_number_costs_only_the_acknowledgment(kind: Kind) -> None:
    simulation = quiet()
    alice, bob = simulation.hosts[:2]
    name = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
    for number, nowhere in enumerate((True, False, True), 1):
        sent = Sent(number, kind, alice.address, (bob.address, name), number, acknowledgments=0xF)
        sent.answered_nowhere = nowhere
        alice.send([sent], [10])
    simulation.run_for(5)
    users = [packet.user for packet in bob.packets(bob.queue(name))]
    assert [user.admin_reference for user in users] == [
        QueueReference.PRIVATE_ON_DESTINATION,
        QueueReference.DIRECT,
        QueueReference.PRIVATE_ON_DESTINATION,
    ]
    assert bob.daemon.manager.acknowledging.unsent == 2
    simulation.end()
    assert simulation.book.log((bob.address, name)).read == [1, 2, 3]
    assert list(simulation._ends().told) == [2]
    assert not simulation.book.silent
    simulation.network.close()


def test_it_finds_a_message_that_suffers_for_its_acknowledgment(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = Acknowledging.acknowledge

    def fails(self: Acknowledging, packets: Iterable[UserMessage], fate: Any) -> None:
        due = list(packets)
        if any(packet.user.admin_reference == QueueReference.PRIVATE_ON_DESTINATION for packet in due):
            raise EncodeError("it cannot be written")
        acknowledge(self, due, fate)

    monkeypatch.setattr(Acknowledging, "acknowledge", fails)
    assert first_failure(range(BY_NUMBER, 10 * BY_NUMBER, BY_NUMBER)) is not None


def test_a_message_that_cannot_leave_in_time() -> None:
    simulation = quiet()
    alice, bob = simulation.hosts[:2]
    simulation.network.block(NAMES["ALICE"], NAMES["BOB"])
    late = Sent(1, Kind.TRANSACTIONAL, alice.address, (bob.address, ORDERS), 1, 2, negative_journaling=True)
    alice.send([late], [10])
    simulation.run_for(5)
    simulation.end()
    assert simulation._ends().dead == {1: 1}
    simulation.network.close()


def test_a_machine_without_power_comes_back() -> None:
    simulation = quiet()
    alice, bob = simulation.hosts[:2]
    bob.disk.crash_at(1)
    alice.send([Sent(1, Kind.RECOVERABLE, alice.address, (bob.address, MAIL), 1)], [10])
    simulation.run_for(5)
    assert bob.crashes == 1
    simulation.end()
    assert simulation.book.log((bob.address, MAIL)).read == [1]
    simulation.network.close()
