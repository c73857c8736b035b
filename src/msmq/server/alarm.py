"""The clock of the transfer machines, and a timer that follows a machine's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_ROUNDING_MS: Final = 0.001
"""The rounding of clock times: an alarm for n milliseconds expires at n / 1,000 seconds, which times 1,000 may be a
little less than n."""


def now_ms() -> int:
    """Milliseconds of a clock that only moves forward."""
    return int(asyncio.get_running_loop().time() * 1_000 + _ROUNDING_MS)


class Alarm:
    """Calls ``action`` at or before the deadline last set. The action checks the time and sets the next deadline.

    Postponing a deadline, which happens with nearly every message, costs nothing: the alarm expires at its first time,
    nothing is due, and it is set again.
    """

    __slots__ = ("_action", "_deadline_ms", "_loop", "_timer")

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_ms = 0

    def set(self, deadline_ms: int | None) -> None:
        if deadline_ms is None:
            self.stop()
            return
        if self._timer is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._deadline_ms = deadline_ms
        self._timer = self._loop.call_at(deadline_ms / 1_000, self._go_off)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._action()
