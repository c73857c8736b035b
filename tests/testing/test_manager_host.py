"""The host of the simulation: it finds out what survived, and notices what must not be."""

from __future__ import annotations

from random import Random

import pytest

from msmq.testing.manager_host import SimulatedHost
from msmq.testing.manager_model import Put
from msmq.testing.manager_sim import ManagerSimulation


def test_an_empty_host_comes_back_empty() -> None:
    host = SimulatedHost(Random(1))
    for end in (host.restart, host.kill, host.crash):
        end()
        host.check()
    assert host.restarts == 3
    assert host.current.queues == {}


def filled() -> ManagerSimulation:
    simulation = ManagerSimulation(Random(2))
    while not any(not traits.transactional for traits in simulation.current.queues.values()):
        simulation.create_queue()
    simulation.commit()
    while not simulation.uncertain or not simulation.current.messages:
        simulation.send()
    return simulation


def test_what_was_not_confirmed_may_be_lost() -> None:
    simulation = filled()
    assert simulation.confirmed.messages == {}
    simulation.kill()
    assert simulation.current.messages == {}
    assert simulation.current.queues, "they were confirmed"


def test_what_was_confirmed_stays() -> None:
    simulation = filled()
    simulation.commit()
    kept = dict(simulation.confirmed.messages)
    simulation.crash()
    assert simulation.current.messages == kept != {}


def test_a_number_that_comes_again_is_noticed() -> None:
    simulation = filled()
    simulation.highest += 1000
    with pytest.raises(AssertionError, match="came again"):
        simulation.send()


def test_a_message_the_manager_does_not_have_is_noticed() -> None:
    simulation = filled()
    item = next(iter(simulation.current.messages.values()))
    simulation.current.apply([Put(max(simulation.current.messages) + 1, item)])
    with pytest.raises(AssertionError):
        simulation.check()
