from __future__ import annotations

from msmq.admission.pace import Pace


def test_who_asks_too_often_waits_until_there_is_enough_again() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0], per_second=2.0, at_once=3.0)
    assert [pace.wait_s("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert pace.wait_s("a") == 0.5  # asking in vain costs nothing
    now[0] = 0.5
    assert pace.wait_s("a") == 0.0
    assert pace.wait_s("a") == 0.5


def test_addresses_do_not_pay_for_each_other_and_a_full_bucket_is_full() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0], per_second=1.0, at_once=1.0)
    assert pace.wait_s("a") == 0.0
    assert pace.wait_s("b") == 0.0
    now[0] = 100.0
    assert [pace.wait_s("a"), pace.wait_s("a")] == [0.0, 1.0]


def test_what_costs_more_takes_more() -> None:
    pace = Pace(lambda: 0.0, per_second=1.0, at_once=5.0)
    assert pace.wait_s("a", 4.0) == 0.0
    assert pace.wait_s("a", 4.0) == 3.0


def test_only_so_many_addresses_are_remembered() -> None:
    pace = Pace(lambda: 0.0, per_second=1.0, at_once=1.0)
    for number in range(10_001):
        pace.wait_s(str(number))
    assert pace.wait_s("0") == 0.0
    assert pace.wait_s("10000") == 1.0
