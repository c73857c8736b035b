"""Sockets that the service manager has opened for us (the protocol of sd_listen_fds).

With a socket unit the service manager listens before the queue manager starts and while it restarts: clients that
connect meanwhile wait and are not refused. A door takes the sockets with its address. It gets duplicates, since it may
be closed and opened again while the service manager goes on listening.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_FIRST: Final = 3


def tcp_sockets(port: int, environment: Mapping[str, str] = os.environ) -> list[socket.socket]:
    """The sockets that listen on a TCP port, at any address."""
    inet = (socket.AF_INET, socket.AF_INET6)
    return _taken(environment, lambda found: found.family in inet and found.getsockname()[1] == port)


def unix_sockets(path: Path, environment: Mapping[str, str] = os.environ) -> list[socket.socket]:
    """The sockets that listen at a path."""
    return _taken(environment, lambda found: found.getsockname() == str(path))


def is_at(path: Path) -> bool:
    """Whether a socket listens at a path."""
    found = unix_sockets(path)
    for each in found:
        each.close()
    return bool(found)


def are_there(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the service manager has opened any sockets for us."""
    return bool(_descriptors(environment))


def _descriptors(environment: Mapping[str, str]) -> range:
    """The descriptors of the sockets. They are only for the process that the environment names, not for its
    children."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal():
        return range(0)
    return range(_FIRST, _FIRST + int(count))


def _taken(environment: Mapping[str, str], suits: Callable[[socket.socket], bool]) -> list[socket.socket]:
    taken = []
    for descriptor in _descriptors(environment):
        found = socket.socket(fileno=os.dup(descriptor))
        if found.type == socket.SOCK_STREAM and suits(found):
            found.setblocking(False)
            taken.append(found)
        else:
            found.close()
    return taken
