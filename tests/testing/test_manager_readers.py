"""The simulator's readers: they see what the model has, and leave what it expects."""

from __future__ import annotations

from random import Random

import pytest

from msmq.testing.manager_sim import ManagerSimulation


def busy(seed: int) -> ManagerSimulation:
    simulation = ManagerSimulation(Random(seed))
    for name in ["create_queue", "create_queue", *12 * ["send"], *4 * ["send_batch"], "commit"]:
        simulation.perform(name)
    return simulation


@pytest.mark.parametrize("end", ["acknowledge", "reject", "disconnect"])
def test_messages_are_held_and_settled(end: str) -> None:
    """As often as it takes until something was held and was settled."""
    for seed in range(20):
        simulation = busy(seed)
        for _ in range(3):
            simulation.perform("prefetch")
        before = set(simulation.held)
        assert all(held.reader is not None for held in simulation.held.values())
        simulation.perform(end)
        simulation.perform("commit")
        simulation.perform("hear")
        if before > set(simulation.held):
            return
    pytest.fail("nothing was settled")


def test_looking_changes_nothing() -> None:
    for seed in range(5):
        simulation = busy(seed)
        before = dict(simulation.current.messages)
        for _ in range(5):
            simulation.perform("read_span")
        assert simulation.current.messages == before


def test_a_cursor_may_take_what_it_stands_on() -> None:
    simulation = busy(3)
    before = len(simulation.current.messages | simulation.express)
    for _ in range(40):
        simulation.perform("look_through")
    assert len(simulation._everything()) != before


def test_deliveries_are_compared_with_the_model() -> None:
    for seed in range(20):
        simulation = busy(seed)
        simulation.perform("prefetch")
        if simulation.held and not simulation.express.keys() & simulation.held.keys():
            break
    lookup_id = min(simulation.held)
    item = simulation.current.messages[lookup_id]
    simulation.current.messages[lookup_id] = item._replace(text=b"something else")
    simulation.commit()
    with pytest.raises(AssertionError, match="another message's body"):
        simulation.hear()
