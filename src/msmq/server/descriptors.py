"""File descriptors: how many this process may use, uses, and reserves for itself.

The system gives a new descriptor the lowest number that is free. So the number of an accepted connection tells how
many are at least in use, and connections are refused from a certain number on (:mod:`msmq.admission.gate`). The rest
is for the store, for links to other hosts and for connections that are accepted only to be refused.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_ENOUGH: Final = 65_536
_RESERVE: Final = 8_192
_DOORS: Final = 4
"""The number of doors: sessions, applications, remote readers, the endpoint mapper."""


def limit() -> int:
    """The number of descriptors that this process may have."""
    if sys.platform == "win32":
        return sys.maxsize  # handles on Windows are neither numbered like this nor limited
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> None:
    """Raise the limit as far as the system allows: the usual 1,024 is for programs that use select."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def reserve() -> int:
    """The number of descriptors that are not for connections: a quarter if there are few."""
    return min(limit() // 4, _RESERVE)


def for_connections() -> int:
    return limit() - reserve()


def scarce() -> bool:
    """Whether half of the reserve is used too. Then links to other hosts have to wait, since strangers can cause them
    by naming hosts."""
    try:
        probe = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.EMFILE:
            return True
        raise
    os.close(probe)
    return probe >= limit() - reserve() // 2


def at_once() -> int:
    """The number of connections that each door may accept at once, if all doors do."""
    return max(reserve() // (2 * _DOORS), 1)


def in_use() -> int:
    """The number of descriptors in use; 0 if the system does not tell."""
    for table in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(table)) - 1  # one is the listing's own
        except OSError as error:
            if error.errno == errno.EMFILE:  # not even one is left for the listing
                return limit()
    return 0
