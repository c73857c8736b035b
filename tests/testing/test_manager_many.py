"""The simulator's readers of many messages: they see what the model has, and leave what it expects."""

from __future__ import annotations

from random import Random

import pytest

from msmq.testing.manager_sim import ManagerSimulation


@pytest.mark.parametrize("end", ["keep_many", "give_back_many"])
def test_messages_are_held_until_their_reads_end(end: str) -> None:
    """As often as it takes until something was held and something was let go."""
    seen_held = seen_ended = False
    for seed in range(40):
        simulation = ManagerSimulation(Random(seed))
        for name in ["create_queue", *12 * ["send"], "commit", *4 * ["receive_many"]]:
            simulation.perform(name)
        held = len(simulation.held)
        simulation.perform(end)
        seen_held |= held > 0
        seen_ended |= len(simulation.held) < held
        if seen_held and seen_ended:
            break
    assert seen_held
    assert seen_ended
