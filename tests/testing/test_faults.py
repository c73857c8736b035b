"""Internal errors that are planted."""

from __future__ import annotations

import pytest

from msmq.manager.mailbox.positions import PositionList
from msmq.testing.faults import Fault, Faults


def test_a_fault_comes_at_the_change_that_was_chosen_and_only_there() -> None:
    places, faults = PositionList(), Faults()

    def change(number: int) -> None:
        places.add((number,), (0,), (1,), (8,), bytes(1))

    with faults.planted():
        change(1)
        faults.arm(2)
        change(2)
        with pytest.raises(Fault, match="add"):
            change(3)
        change(4)
        faults.arm(1)
        faults.disarm()
        change(5)
    assert faults.raised == 1
    assert [entry.lookup_id for entry in places] == [1, 2, 4, 5]
    faults.arm(1)
    change(6)  # nothing is planted any more
