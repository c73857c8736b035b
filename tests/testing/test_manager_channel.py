"""The channel of the simulator: answers wait for the disk, and faults are not swallowed."""

from __future__ import annotations

from random import Random

import pytest

from msmq.api.receive import Receiver
from msmq.testing.disk import PowerLoss
from msmq.testing.manager_sim import ManagerSimulation
from msmq.testing.traffic import Draft, client_message


def with_messages(count: int) -> tuple[ManagerSimulation, str]:
    simulation = ManagerSimulation(Random(1))
    while not any(not traits.transactional for traits in simulation.current.queues.values()):
        simulation.create_queue()
    path = next(path for path, traits in simulation.current.queues.items() if not traits.transactional)
    batch = [client_message(Draft(path, b"%d" % each)).to_proto() for each in range(count)]
    assert len(simulation.channel.send(path, batch).lookup_ids) == count
    return simulation, path


def test_messages_come_when_they_are_durable() -> None:
    simulation, path = with_messages(3)
    reader = simulation.channel.reader(path)
    reader.prefetch(2)
    assert len(reader.begun) == 2
    assert reader.deliveries() == []
    simulation.store.commit()
    simulation.channel.became_durable()
    held = [lookup_id for lookup_id, _ in reader.deliveries()]
    assert held == sorted(reader.begun)
    reader.acknowledge(held)
    simulation.store.commit()
    simulation.channel.became_durable()
    assert reader.deliveries() == []
    assert reader.settled == 2
    reader.disconnect()
    assert not reader.open


def test_a_span_waits_for_the_disk() -> None:
    simulation, path = with_messages(3)
    commits: list[int] = []

    def commit() -> None:
        commits.append(1)
        simulation.store.commit()

    assert len(simulation.channel.span(path, 0, 1 << 63, commit)) == 3
    assert commits


def test_a_fault_in_a_callback_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, path = with_messages(3)
    reader = simulation.channel.reader(path)
    reader.prefetch(1)
    monkeypatch.setattr(Receiver, "_read_on", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reader.prefetch(1)


def test_what_a_call_has_left_open_is_closed_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not whenever the interpreter comes to it: then an internal error could be lost there."""
    simulation, path = with_messages(3)
    closed: list[object] = []

    def dies() -> None:
        raise PowerLoss("in the middle of a span")

    with pytest.raises(PowerLoss):
        simulation.channel.span(path, 0, (1 << 64) - 1, dies)
    monkeypatch.setattr(simulation.manager.queues, "close", closed.append)
    simulation.faults.arm(1)
    simulation.ending = True
    simulation.channel.end()
    simulation.faults.disarm()
    assert len(closed) == 1
    simulation.crash()
    assert (len(closed), simulation.faults.raised, simulation.ending) == (1, 0, False)
