"""Who gets in, who has to go, and what the log is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msmq.admission.gate import Crowding, Gate


@dataclass(eq=False)
class Timer:
    due_s: float
    action: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Hall:
    """A gate with a clock that is moved by hand, and the connections that came to it."""

    def __init__(self, **crowding: float) -> None:
        self.now_s = 1_000.0
        self.told: list[str] = []
        self.gate = Gate(Crowding(**crowding), lambda: self, self.told.append)  # type: ignore[arg-type]
        self._due: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        self._due.append(timer := Timer(self.now_s + delay, callback))
        return timer

    @property
    def timers(self) -> list[Timer]:
        return [timer for timer in self._due if not timer.cancelled]

    def pass_time(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.timers and (first := min(self.timers, key=lambda timer: timer.due_s)).due_s <= end_s:
            self._due.remove(first)
            self.now_s = max(first.due_s, self.now_s)
            first.action()
        self.now_s = end_s

    def come(self, address: str, descriptor: int = 0, *, opened: bool = False) -> Caller:
        """Somebody new, a second after the last one."""
        self.pass_time(1)
        caller = Caller(address, self.now_s)
        caller.inside = self.gate.enter(caller, address, descriptor)
        if opened:
            self.gate.opened(caller)
        return caller


class Caller:
    def __init__(self, address: str, since_s: float) -> None:
        self.address = address
        self.idle_since_s: float | None = since_s
        self.inside = False

    def show_out(self, reason: str) -> None:
        assert self.inside
        self.inside = False


def inside(callers: list[Caller]) -> list[bool]:
    return [caller.inside for caller in callers]


def test_silent_connections_of_one_address_keep_no_newcomer_out() -> None:
    hall = Hall(opening=5, opening_s=1_000)
    silent = [hall.come("greedy") for _ in range(20)]
    assert inside(silent) == [False] * 15 + [True] * 5
    honest = hall.come("honest")
    assert honest.inside
    more = [hall.come("greedy") for _ in range(20)]
    assert honest.inside, "it is the greedy one that pays, however often it comes again"
    assert sum(inside(more)) == 4
    assert (hall.gate.inside, hall.gate.opening) == (5, 5)


def test_with_one_connection_each_the_oldest_goes() -> None:
    hall = Hall(opening=3, opening_s=1_000)
    assert inside([hall.come(f"address {number}") for number in range(5)])
    callers = [hall.come(f"other {number}") for number in range(4)]
    assert inside(callers) == [False, True, True, True]


def test_an_address_has_its_share() -> None:
    hall = Hall(per_address=3)
    first, second, third = (hall.come("one", opened=True) for _ in range(3))
    other = hall.come("two", opened=True)
    first.idle_since_s = None
    second.idle_since_s = hall.now_s
    assert hall.come("one", opened=True).inside
    assert not third.inside, "of those where nothing is under way, the one that has been idle longest"
    for caller in (first, second):
        caller.idle_since_s = None
    assert hall.come("one", opened=True).inside
    fourth = hall.come("one")
    assert fourth.inside, "what does nothing yet goes before what is idle"
    last = hall.come("one")
    assert (last.inside, fourth.inside) == (True, False)
    assert (first.inside, second.inside, other.inside) == (True, True, True)


def test_when_everybody_is_at_work_the_newcomer_is_turned_away() -> None:
    hall = Hall(connections=3, per_address=3)
    workers = [hall.come("one", opened=True) for _ in range(3)]
    for worker in workers:
        worker.idle_since_s = None
    assert not hall.come("two").inside
    assert hall.gate.inside == 3
    workers[1].idle_since_s = hall.now_s
    assert hall.come("two").inside
    assert inside(workers) == [True, False, True]


def test_whoever_has_less_does_not_pay_for_those_who_have_more() -> None:
    hall = Hall(connections=4, per_address=4)
    modest = hall.come("modest", opened=True)
    greedy = [hall.come("greedy", opened=True) for _ in range(3)]
    for worker in greedy:
        worker.idle_since_s = None
    assert not hall.come("greedy").inside, "the modest one is idle, and is left alone"
    assert modest.inside


def test_an_account_pays_like_an_address() -> None:
    hall = Hall(connections=6)
    honest = [hall.come("honest", opened=True) for _ in range(2)]
    many = [hall.come(f"address {number}") for number in range(4)]
    for caller in many:
        hall.gate.opened(caller, "account mallory")
    assert hall.come("new").inside
    assert inside([*honest, *many]) == [True, True, False, True, True, True]
    for caller in many:
        hall.gate.leave(caller)
    assert hall.gate.inside == 3


def test_a_reserve_of_file_descriptors() -> None:
    hall = Hall(descriptors=200)
    busy = hall.come("one", 199, opened=True)
    busy.idle_since_s = None
    assert not hall.come("two", 200).inside
    idle = hall.come("one", 199, opened=True)
    assert hall.come("two", 200).inside
    assert (busy.inside, idle.inside) == (True, False)


def test_there_is_little_time_to_open() -> None:
    hall = Hall(opening_s=20)
    silent, quick = hall.come("one"), hall.come("one", opened=True)
    hall.pass_time(17)
    late = hall.come("two")
    assert inside([silent, quick, late]) == [True, True, True]
    hall.pass_time(1)
    assert inside([silent, quick, late]) == [False, True, True]
    hall.pass_time(19)
    assert inside([silent, quick, late]) == [False, True, False]
    assert hall.gate.inside == 1


def test_who_leaves_is_forgotten() -> None:
    hall = Hall(connections=1)
    for _ in range(3):
        caller = hall.come("one")
        hall.gate.leave(caller)
        hall.gate.leave(caller)
    assert hall.gate.inside == hall.gate.opening == 0
    hall.pass_time(100)
    assert hall.told == []


def test_the_log_is_told_once_a_minute_with_counts() -> None:
    hall = Hall(opening=2, opening_s=1_000)
    for _ in range(40):
        hall.come("10.0.0.7")
    hall.come("10.0.0.8")
    assert len(hall.told) == 1
    hall.pass_time(60)
    counts = [int(line.split()[0]) for line in hall.told]
    assert sum(counts) == 39
    assert len(counts) == 2
    assert "more than 2 that do nothing yet; 38 of them from 10.0.0.7" in hall.told[1]
    hall.pass_time(600)
    assert len(hall.told) == 2, "nothing happened since"


def test_when_it_closes_it_tells_the_rest_and_goes_on_with_nothing() -> None:
    hall = Hall(opening=2, opening_s=1_000)
    for _ in range(4):
        hall.come("10.0.0.7")
    (first,) = hall.told
    assert first.startswith("1 connections")
    hall.gate.close()
    assert hall.told[1].startswith("1 connections")
    assert hall.timers == []
    hall.gate.close()
    assert len(hall.told) == 2
