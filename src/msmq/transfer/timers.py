"""The thirteen timers of MS-MQQB 3.1.2, and all other times of the protocol.

:class:`TimerSettings` holds what an operator may change, with the defaults the specification and its product notes
give. The machines of this room read their times from a settings object and keep their own deadlines; none of them reads
a clock. They are given the time as ``now_ms``, milliseconds of a monotonic clock that began when the system started,
from which the TimeStamp of EstablishConnection is taken too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class TimerSettings:
    """The durations of the timers."""

    round_trip_delay_ms: Annotated[
        int,
        "Added for a slow network: once to connecting and acknowledging, twice to the opening.",
    ] = 0
    session_initialization_ms: Annotated[int, "How long the opening of a session may take."] = 60_000
    session_cleanup_ms: Annotated[int, "How long a session without messages stays open."] = 300_000
    session_retry_connect_ms: Annotated[int, "How long a host waits before it connects again."] = 5_000
    ack_wait_timeout_ms: Annotated[
        int,
        "How long a sender waits for a session acknowledgment, times the multiplier, before it begins a new session.",
    ] = 20_000
    ack_wait_multiplier: Annotated[int, "The multiplier of sessions by public and private names."] = 1
    direct_ack_wait_multiplier: Annotated[int, "The multiplier of sessions by direct names."] = 2
    resend_timeouts_short_s: Annotated[
        int,
        "The wait for an OrderAck before transactional messages are sent again, the first three times.",
    ] = 30
    resend_timeouts_medium_s: Annotated[int, "That wait, the fourth to the sixth time."] = 300
    resend_timeouts_long_s: Annotated[int, "That wait, the seventh to the ninth time."] = 1_800
    resend_timeouts_final_s: Annotated[int, "That wait from then on."] = 21_600
    order_ack_timeout_ms: Annotated[
        int,
        "How long an OrderAck waits for more messages that it can acknowledge.",
    ] = 500
    maximum_order_ack_delay_s: Annotated[int, "How long it waits at most while messages keep coming."] = 10
    message_id_history_cleanup_ms: Annotated[
        int,
        "How long the identifiers of received messages are kept, to recognise duplicates.",
    ] = 1_800_000
    ping_response_ms: Annotated[int, "How long the answer to a ping may take."] = 1_000
    symmetric_key_short_lifetime_ms: Annotated[
        int,
        "How long keys of messages are kept for further messages.",
    ] = 600_000
    symmetric_key_long_lifetime_ms: Annotated[
        int,
        "The same in Windows XP and Windows Server 2003; it has no effect here.",
    ] = 43_200_000
    user_cert_lifetime_ms: Annotated[
        int,
        "How long a certificate is kept that the directory has confirmed.",
    ] = 1_200_000
    window_growth_ms: Annotated[
        int,
        "How long a window that was reduced waits before it doubles (MS-MQMQ note 15).",
    ] = 30_000

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
