"""Incarnations: which numbers still mean the same message after restarts, and after an older copy was put back."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

from msmq.api.lineage import KEY, Lineage


class Data:
    """What a queue manager has on its disk: its starts, and the number up to which it may have given out numbers."""

    def __init__(self, values: dict[str, Any] | None = None, number: int = 0) -> None:
        self.values, self.number = dict(values or {}), number

    def copy(self) -> Data:
        return Data(self.values, self.number)

    def start(self, chance: Any = count(1)) -> Lineage:  # noqa: B008  # one for all
        environment = SimpleNamespace(random_bytes=lambda size: next(chance).to_bytes(size, "big"))
        ledger = SimpleNamespace(put_value=self.values.__setitem__)
        core: Any = SimpleNamespace(environment=environment, ledger=ledger, last_sequential_id=self.number)
        return Lineage(core, self.values)


def test_numbers_hold_over_restarts() -> None:
    data = Data()
    first = data.start()
    data.number = 100
    second = data.start()
    data.number = 200
    third = data.start()
    assert first.incarnation != second.incarnation != third.incarnation
    assert third.holds(first.incarnation, 100)
    assert third.holds(second.incarnation, 200)
    assert third.holds(third.incarnation, 10**9), "it goes on giving them out"


def test_a_copy_from_before_a_start_does_not_know_it() -> None:
    data = Data()
    data.start()
    data.number = 100
    copy = data.copy()
    known = data.start()
    back = copy.start()
    assert not back.holds(known.incarnation, 101)
    assert not back.holds("", 0)


def test_a_copy_of_a_running_one_holds_what_it_had_reserved() -> None:
    """Numbers up to the limit that was written when the copy was made are not given again."""
    data = Data(number=100)
    known = data.start()
    data.number = 150  # reserved, and in the copy
    copy = data.copy()
    data.number = 300
    back = copy.start()
    assert back.holds(known.incarnation, 150)
    assert not back.holds(known.incarnation, 151)


def test_starts_are_not_remembered_for_ever() -> None:
    data = Data()
    first = data.start()
    for number in range(1_000):
        data.number = number
        last = data.start()
    assert len(data.values[KEY]) == 1_000
    assert not last.holds(first.incarnation, 0)
