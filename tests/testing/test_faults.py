"""Internal errors that are injected into the queue manager and the store."""

from __future__ import annotations

import sys
from random import Random

import pytest

from msmq.manager.mailbox.batch import our_marks_of
from msmq.manager.mailbox.positions import PositionList
from msmq.testing.faults import Fault, Faults
from msmq.testing.manager_sim import ManagerSimulation


def test_a_fault_comes_in_the_call_that_was_chosen_and_only_there() -> None:
    places, faults = PositionList(), Faults()

    def change(number: int) -> None:
        places.add((number,), (0,), (1,), (8,), bytes(1))

    change(1)
    faults.arm(1)
    with pytest.raises(Fault, match=r"^msmq\.manager\.mailbox\.positions\.PositionList\.add$"):
        change(2)
    change(3)
    faults.arm(1)
    faults.disarm()
    change(4)
    assert faults.raised == 1
    assert [entry.lookup_id for entry in places] == [1, 3, 4]


def test_a_fault_comes_only_while_the_program_runs() -> None:
    places, running = PositionList(), False
    faults = Faults(lambda: running)
    faults.arm(1)
    assert len(places) == 0
    running = True
    with pytest.raises(Fault):
        len(places)
    assert sys.getprofile() is None


def test_a_fault_may_come_in_any_function_that_a_step_calls() -> None:
    """Send a message as often as there are calls in that, each time with the fault in the next one."""
    places: list[str] = []
    while True:
        simulation = ManagerSimulation(Random(1))
        for name in ("create_queue", "create_queue", "create_queue"):
            simulation.perform(name)
        simulation.rng.seed(7)
        simulation.faults.arm(len(places) + 1)
        simulation.perform("send")
        if not simulation.faults.raised:
            break
        places.append(simulation.faults.place)
    rooms = {place.split(".")[1] for place in places}
    assert rooms == {"manager", "store"}
    assert len(set(places)) > 40
    assert any(place.endswith("PositionList.add") for place in places)
    assert any(place.endswith("Store.append") for place in places)


def test_a_generator_that_is_closed_keeps_no_fault_for_itself() -> None:
    places, faults = PositionList(), Faults()
    places.add((1, 2), (0, 0), (1, 1), (8, 8), bytes(2))
    reader = places.after(0)
    next(reader)
    faults.arm(1)
    del reader
    faults.disarm()
    assert faults.raised == 0


def test_the_call_does_not_depend_on_what_was_done_before() -> None:
    """Some functions remember their results, and call nothing when they are asked again."""
    faults = Faults()
    our_marks_of(0, 0)
    faults.arm(1)
    with pytest.raises(Fault):
        our_marks_of(0, 0)
