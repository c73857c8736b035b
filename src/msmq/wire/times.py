"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime


def time_text(time: datetime) -> str:
    """Write a time as 2026-07-01T12:00:00Z, with milliseconds if there are any."""
    precision = "milliseconds" if time.microsecond else "seconds"
    return time.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
