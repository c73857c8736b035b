"""The book of the simulation: it notices messages that must not be there, and those that must."""

from __future__ import annotations

import pytest

from msmq.testing.manager_model import Put
from tests.testing.test_manager_host import filled


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
