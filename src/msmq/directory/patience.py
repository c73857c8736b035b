"""How long everything together may take that one operation asks of the directory.

Each request has a limit of its own, but an operation is several requests, and against a controller that is slow their
waits add up. A thread that works for somebody who waits therefore has a limit for the whole operation. When it is over
nothing more is asked. What has begun to change the directory is finished all the same: half of a change would help
nobody, and each of the few requests that are left has its own limit.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

OPERATION_S: Final = 10.0
"""How long an application waits for what it asked, before anything is changed."""
LAST_LOOK_S: Final = 1.0
"""What is left at least for a look at what was changed."""
TOO_SLOW: Final = "the directory answers too slowly"

_T = TypeVar("_T")
_thread = threading.local()


def limited(operation: Callable[[], _T], limit_s: float) -> _T:
    """Carry out an operation in this thread, which is no longer patient after ``limit_s``."""
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
    """The operation of this thread changes something now, and goes on to its end."""
    _thread.until_s = math.inf
