"""The timer registry and its defaults (MS-MQQB 3.1.2, 3.1.3.1, 3.1.3.2)."""

from __future__ import annotations

import pytest

from msmq.transfer.timers import ROUTING_SERVER_CLEANUP_MS, Timer, TimerSettings, earliest
from tests.transfer import support


@pytest.mark.spec("MQQB-3.1.2-a")
def test_there_are_thirteen_timers_and_each_has_a_duration() -> None:
    assert [timer.value for timer in Timer] == [f"3.1.2.{number}" for number in range(1, 14)]
    assert TimerSettings().durations_ms().keys() == set(Timer)


@pytest.mark.spec("MQQB-3.1.2-a")
def test_defaults() -> None:
    assert list(TimerSettings().durations_ms().values()) == [
        60_000,
        300_000,
        5_000,
        20_000,
        10_000,
        30_000,
        500,
        1_800_000,
        1_000,
        600_000,
        600_000,
        600_000,
        1_200_000,
    ]
    assert ROUTING_SERVER_CLEANUP_MS == 120_000


@pytest.mark.spec("MQQB-3.1.1.3-l", "MQQB-3.1.3.1-a")
def test_the_resend_table() -> None:
    table = [30] * 3 + [300] * 3 + [1800] * 3 + [21600]
    assert list(TimerSettings().resend_timer_table_s) == table


@pytest.mark.spec("MQQB-6-a")
def test_a_slow_network_adds_to_opening_retrying_and_acknowledging() -> None:
    plain, slow = TimerSettings(), TimerSettings(round_trip_delay_ms=1_000)
    assert (plain.ack_wait_ms, slow.ack_wait_ms) == (20_000, 21_000)
    assert (plain.retry_ms, slow.retry_ms) == (5_000, 6_000)
    assert (plain.opening_ms, slow.opening_ms) == (60_000, 62_000)
    session = support.initiator(round_trip_delay_ms=1_000)
    assert session.next_deadline_ms == support.START_MS + 62_000, "the machine works with it"


def test_the_earliest_deadline() -> None:
    assert earliest(None, None) is None
    assert earliest(7, None, 3) == 3
