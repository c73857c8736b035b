"""How long callers wait, as the channel says it."""

from __future__ import annotations

from typing import Final

_LONGEST_MS: Final = 0xFFFFFFFE
"""About fifty days. Whoever waits longer waits as long as it takes."""


def milliseconds(timeout: float | None) -> int | None:
    """The milliseconds of a ``timeout`` in seconds; None for a caller that waits as long as it takes.

    Raises:
        ValueError: it is negative, or no number.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise ValueError(f"timeout is {timeout!r}, and has to be a number of seconds from 0 on, or None.")
    return int(timeout * 1000) if timeout * 1000 <= _LONGEST_MS else None
