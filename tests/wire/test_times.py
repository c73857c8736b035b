from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from msmq.wire.times import time_text


def test_a_moment_is_told_in_utc_and_as_exactly_as_it_is_known() -> None:
    assert time_text(datetime(2026, 7, 1, 12, tzinfo=UTC)) == "2026-07-01T12:00:00Z"
    assert time_text(datetime(2026, 7, 1, 12, 0, 0, 5000, tzinfo=UTC)) == "2026-07-01T12:00:00.005Z"
    there = timezone(timedelta(hours=2))
    assert time_text(datetime(2026, 7, 1, 12, tzinfo=there)) == "2026-07-01T10:00:00Z"
