"""The table of ulAction."""

from __future__ import annotations

from itertools import product

import pytest

from msmq.remote_read.actions import ACTIONS, Action, meaning_of

VALID = {
    # action: the (lookup id, cursor, time-out) that may be given with it, each 0 or anything
    Action.RECEIVE: {(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)},
    Action.PEEK_CURRENT: {(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)},
    Action.PEEK_NEXT: {(0, 1, 0), (0, 1, 1)},
} | {action: {(1, 0, 0)} for action in Action if action.name.startswith("LOOKUP")}


@pytest.mark.parametrize("action", Action, ids=lambda action: action.name)
@pytest.mark.spec("MQRR-3.1.4.7-l", "MQRR-3.1.4.7-m", "MQRR-3.1.4.7-n", "MQRR-3.1.4.7-o")
def test_what_goes_with_what(action: Action) -> None:
    for given in product((0, 1), repeat=3):
        assert (meaning_of(action, *given) is not None) == (given in VALID[action])


def test_nothing_else_is_an_action() -> None:
    assert set(ACTIONS) == set(Action)
    for number in (1, 2, 0x40000000, 0x40000013, 0x40000023, 0x80000002, 0xFFFFFFFF):
        assert meaning_of(number, 0, 0, 0) is meaning_of(number, 1, 0, 0) is None
