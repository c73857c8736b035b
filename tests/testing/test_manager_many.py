"""The simulator's readers of many messages: they see what the model has, and leave what it expects."""

from __future__ import annotations

from random import Random

import pytest

from msmq.testing.manager_sim import ManagerSimulation


@pytest.mark.parametrize("hold", ["receive_many", "hold_many"])
@pytest.mark.parametrize("end", ["keep_many", "end_reads"])
def test_messages_are_held_and_kept(hold: str, end: str) -> None:
    """As often as it takes until something was held and something left the queue for it."""
    seen_held = seen_kept = False
    for seed in range(40):
        simulation = ManagerSimulation(Random(seed))
        for name in ["create_queue", *12 * ["send"], "commit", *4 * [hold]]:
            simulation.perform(name)
        held = len(simulation.held)
        simulation.perform(end)
        seen_held |= held > 0
        seen_kept |= len(simulation.held) < held
        if seen_held and seen_kept:
            break
    assert seen_held
    assert seen_kept
