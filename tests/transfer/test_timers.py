"""The timers and their defaults (MS-MQQB 3.1.2, 3.1.3.1, 3.1.3.2)."""

from __future__ import annotations

import pytest

from msmq.transfer.timers import TimerSettings, earliest
from tests.transfer import support


@pytest.mark.spec("MQQB-3.1.2-a")
def test_each_of_the_thirteen_timers_has_its_default() -> None:
    """In the order of 3.1.2.1 to 3.1.2.13; the machines and caches that run them have tests by their own rows."""
    timers = TimerSettings()
    assert timers.opening_ms == 60_000
    assert timers.session_cleanup_ms == 300_000
    assert timers.retry_ms == 5_000
    assert timers.ack_wait_ms * timers.ack_wait_multiplier == 20_000
    assert timers.ack_wait_ms // 2 == 10_000
    assert timers.resend_timer_table_s[0] == 30
    assert timers.order_ack_timeout_ms == 500
    assert timers.message_id_history_cleanup_ms == 1_800_000
    assert timers.ping_response_ms == 1_000
    assert timers.symmetric_key_short_lifetime_ms == 600_000  # of all three caches of keys
    assert timers.user_cert_lifetime_ms == 1_200_000


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
