"""A time limit for all requests together that one operation makes of the directory.

Each request has a limit of its own, but an operation makes several, and with a slow controller their waits add up. A
thread that works for a waiting caller therefore has a limit for the whole operation, after which it asks nothing more.
Once an operation has begun to change the directory it is finished all the same: half a change would help nobody, and
each of the few remaining requests has its own limit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

OPERATION_S: Final = 10.0
"""How long an application waits for the directory before anything is changed."""
LAST_LOOK_S: Final = 1.0
"""The time that is left at least for reading what was changed."""
TOO_SLOW: Final = "the directory answers too slowly"

_T = TypeVar("_T")
_thread = threading.local()


def limited(operation: Callable[[], _T], limit_s: float) -> _T:
    """Perform an operation in this thread, with a limit for all of its requests together."""
    before = getattr(_thread, "until_s", math.inf)
    _thread.until_s = time.monotonic() + limit_s
    try:
        return operation()
    finally:
        _thread.until_s = before


def is_over() -> bool:
    """Whether the operation of this thread has used up its time."""
    return time.monotonic() > getattr(_thread, "until_s", math.inf)


def finish() -> None:
    """Lift the limit of this thread's operation, because it now changes something and has to be finished."""
    _thread.until_s = math.inf
