"""The host of the simulation: it finds out what survived, and notices what must not be."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from msmq.manager.core import Subscriber
from msmq.manager.queues.queue import Queue
from msmq.testing.manager_host import Leaving, SimulatedHost
from msmq.testing.manager_sim import ManagerSimulation
from msmq.testing.traffic import Delivery


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


class CommitsAfter(Subscriber):
    """Makes durable what has happened when a number of messages have left their queues."""

    def __init__(self, simulation: ManagerSimulation, count: int) -> None:
        self.simulation, self.left = simulation, count

    def messages_removed(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.left -= len(lookup_ids)
        if not self.left:
            self.simulation.store.commit()


def killed_while_messages_expire(after: int) -> set[int]:
    """Let four messages expire, of two queues in turn, and kill the process when ``after`` of them are durably gone.
    Returns the lifetimes of those that are left, as the model sees them."""
    simulation = ManagerSimulation(Random(4))
    while len([1 for traits in simulation.current.queues.values() if not traits.transactional]) < 2:
        simulation.create_queue()
    one, other = [path for path, traits in simulation.current.queues.items() if not traits.transactional][:2]
    for path, life_s in ((one, 1), (other, 2), (one, 3), (other, 4)):
        draft = simulation._draft(path, delivery=Delivery.RECOVERABLE).changed(
            time_to_be_received_s=life_s, acknowledgements=0, journal=False, dead_letter=False
        )
        simulation._post(path, draft)
    simulation.commit()
    began = int(simulation.now)
    simulation.now += 100
    simulation.manager.core.subscribe(CommitsAfter(simulation, after))
    simulation._run_timers()
    assert simulation.current.messages == {}
    left: list[int] = []
    simulation._run_timers = lambda: left.extend(  # type: ignore[method-assign]
        item.expiry - began for item in simulation.current.messages.values() if item.expiry is not None
    )
    simulation.kill()
    return {*left}


def test_messages_of_several_queues_may_expire_in_any_order() -> None:
    assert [killed_while_messages_expire(after) for after in (1, 2, 3)] == [{2, 3, 4}, {2, 4}, {4}]


def test_it_must_be_the_order_in_which_they_were_seen_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    def tell_otherwise(leaving: Leaving, queue: Queue, lookup_ids: Sequence[int]) -> None:
        leaving.order[:0] = lookup_ids

    monkeypatch.setattr(Leaving, "messages_removed", tell_otherwise)
    with pytest.raises(AssertionError, match="all events against found: messages"):
        killed_while_messages_expire(2)
