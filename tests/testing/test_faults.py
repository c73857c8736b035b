"""Internal errors where they are planted, and nowhere else."""

from __future__ import annotations

import pytest

from msmq.testing.faults import Fault, Faults
from tests.manager.support import Host


def test_the_change_that_was_chosen_fails_and_those_before_it_do_not() -> None:
    host = Host()
    queue = host.queue()
    host.send(queue, b"0")  # the first one reserves numbers, which is a change of its own
    with Faults().planted() as faults:
        faults.arm(3)
        host.send(queue, b"1")
        host.send(queue, b"2")
        with pytest.raises(Fault, match=r"PositionList\.add"):
            host.send(queue, b"3")
    assert (len(queue.positions), faults.raised) == (3, 1)


def test_nothing_fails_unless_it_is_asked_for() -> None:
    host = Host()
    queue = host.queue()
    faults = Faults()
    with faults.planted():
        host.send(queue, b"0")
        faults.arm(1)
        faults.disarm()
        host.send(queue, b"1")
        faults.arm(1)
    host.send(queue, b"2")
    assert (len(queue.positions), faults.raised) == (3, 0)


def test_it_is_no_error_that_callers_can_be_told_of() -> None:
    host = Host()
    queue = host.queue()
    host.send(queue, b"0", recoverable=True)
    with Faults().planted() as faults:
        faults.arm(1)
        with pytest.raises(Fault, match="append"):
            host.send(queue, b"1", recoverable=True)
