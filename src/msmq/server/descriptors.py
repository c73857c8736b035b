"""File descriptors: how many this process may have, has, and keeps for itself.

The system gives a new descriptor the lowest number that is free. So the number of an accepted connection says how many
are in use at least, and connections are refused from a certain number on (:mod:`msmq.admission.gate`). The rest is for
the store, for the links to other hosts and for connections that are accepted only to be told that there is no room.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_ENOUGH: Final = 65_536
_RESERVE: Final = 8_192
_DOORS: Final = 4
"""Sessions, applications, remote readers, the endpoint mapper."""


def limit() -> int:
    """How many descriptors this process may have."""
    if sys.platform == "win32":
        return sys.maxsize  # handles of Windows are not numbered like this, nor limited
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Take what the system allows: the usual limit of 1,024 is for programs that use select."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def reserve() -> int:
    """How many of them are not for connections: a quarter where there are few."""
    return min(limit() // 4, _RESERVE)


def for_connections() -> int:
    return limit() - reserve()


def scarce() -> bool:
    """Whether half of the reserve is used up as well: then links to other hosts, which strangers can cause by naming
    them, have to wait."""
    try:
        probe = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EMFILE:
            return True
        raise
    os.close(probe)
    return probe >= limit() - reserve() // 2


def at_once() -> int:
    """How many connections one door may accept in one go, if all doors do."""
    return max(reserve() // (2 * _DOORS), 1)


def in_use() -> int:
    """How many there are now; 0 where the system does not tell."""
    for table in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(table)) - 1  # one is that of the question
        except OSError as error:
            if error.errno == errno.EMFILE:  # there is none left even for the question
                return limit()
    return 0
