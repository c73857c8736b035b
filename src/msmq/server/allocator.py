"""The C library's allocator: memory that a queue manager frees is kept for reuse, unless much was freed for good.

By default glibc returns large blocks to the system at once, and the next block of that size gets fresh pages, each of
which the system clears when it is first used. For a body of some megabytes, which is copied a few times, that takes
many times as long as the copying.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
"""The names of these options in malloc.h."""
_LARGEST_KEPT: Final = 16 << 20
"""Blocks up to this size are not given back one by one: several of the largest messages."""
_MOST_FREE: Final = 128 << 20
_KEPT: Final = 96 << 20
"""How much free memory stays with the process when there is more of it than it may have. Without that all of it would
go, and under load come back, again and again."""


def keep_freed_memory() -> bool:
    """Make the process keep some of the memory that it frees. Returns whether the C library supports that."""
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: _LARGEST_KEPT, _M_TRIM_THRESHOLD: _MOST_FREE, _M_TOP_PAD: _KEPT}
    return all(mallopt(name, value) for name, value in settings.items())


def give_back_freed_memory() -> bool:
    """Give free memory back to the system, all but what is kept for reuse, also from between what is in use. That takes
    a while and is for moments at which much was freed that nobody will need again. Returns whether there was any."""
    if sys.platform != "linux":
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(_KEPT))
