"""The thirteen timers of MS-MQQB 3.1.2, and all other times of the protocol.

:class:`TimerSettings` holds what an operator may change, with the defaults the specification and its product notes
give. The machines of this room read their times from a settings object and keep their own deadlines; none of them reads
a clock. They are given the time as ``now_ms``, milliseconds of a monotonic clock that began when the system started,
from which the TimeStamp of EstablishConnection is taken too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimerSettings:
    """The durations of the timers."""

    round_trip_delay_ms: int = 0
    """Added for a slow network: once to connecting and acknowledging, twice to the opening."""
    session_initialization_ms: int = 60_000
    session_cleanup_ms: int = 300_000
    session_retry_connect_ms: int = 5_000
    ack_wait_timeout_ms: int = 20_000
    ack_wait_multiplier: int = 1
    direct_ack_wait_multiplier: int = 2
    resend_timeouts_short_s: int = 30
    resend_timeouts_medium_s: int = 300
    resend_timeouts_long_s: int = 1_800
    resend_timeouts_final_s: int = 21_600
    order_ack_timeout_ms: int = 500
    maximum_order_ack_delay_s: int = 10
    message_id_history_cleanup_ms: int = 1_800_000
    ping_response_ms: int = 1_000
    symmetric_key_short_lifetime_ms: int = 600_000
    symmetric_key_long_lifetime_ms: int = 43_200_000
    user_cert_lifetime_ms: int = 1_200_000
    window_growth_ms: int = 30_000
    """How long a window that was reduced waits before it doubles (MS-MQMQ note 15)."""

    @property
    def opening_ms(self) -> int:
        """How long the opening of a session may take (note 43)."""
        return self.session_initialization_ms + 2 * self.round_trip_delay_ms

    @property
    def retry_ms(self) -> int:
        return self.session_retry_connect_ms + self.round_trip_delay_ms

    @property
    def ack_wait_ms(self) -> int:
        """AckWaitTimeout as we offer it; the multiplier is applied where the timer is started."""
        return self.ack_wait_timeout_ms + self.round_trip_delay_ms

    @property
    def resend_timer_table_s(self) -> tuple[int, ...]:
        """ResendTimerTable (3.1.3.1): the waits between resends; the last one repeats."""
        return (
            *[self.resend_timeouts_short_s] * 3,
            *[self.resend_timeouts_medium_s] * 3,
            *[self.resend_timeouts_long_s] * 3,
            self.resend_timeouts_final_s,
        )


def earliest(*deadlines_ms: int | None) -> int | None:
    """Return the earliest of some deadlines; None if no timer runs."""
    running = [deadline for deadline in deadlines_ms if deadline is not None]
    return min(running) if running else None
