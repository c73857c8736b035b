"""Ports for servers of tests: no two processes of a run are given the same one."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
_FIRST, _END = 20_000, 32_768
"""Below the ports that the system gives to connections."""
_TOGETHER = 64


def free_port() -> int:
    """A port that is free on all the addresses of the tests, and that this process has to itself as long as it runs:
    what is stopped can be started again there, and nobody else answers meanwhile."""
    for port in _ports:
        try:
            for address in ADDRESSES:
                with socket.socket() as probe:
                    probe.bind((address, port))
        except OSError:
            continue
        return port
    raise AssertionError("no free port")


def _own_ports() -> Iterator[int]:
    """Those of blocks that this process has locked; when there are no more blocks, the same ones again."""
    folder = Path(tempfile.gettempdir()) / f"msmq-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    blocks = (_END - _FIRST) // _TOGETHER
    own: list[int] = []
    for step in range(blocks):
        block = (os.getpid() * 7 + step) % blocks
        lock = os.open(folder / str(block), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        first = _FIRST + block * _TOGETHER
        own += range(first, first + _TOGETHER)
        yield from range(first, first + _TOGETHER)
    yield from cycle(own)


_ports = _own_ports()
