"""Reporting the state of the daemon to the service manager (the protocol of sd_notify: one datagram to the socket it
names)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from msmq.errors.tasks import raise_again

STILL_STARTING_S: Final = 10.0
_MORE: Final = "EXTEND_TIMEOUT_USEC=60000000"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send ``READY=1``, ``RELOADING=1``, ``STOPPING=1`` or ``STATUS=...``. Returns whether there is a service
    manager."""
    address = environment.get("NOTIFY_SOCKET", "")
    if sys.platform == "win32" or not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.connect(address)
            door.sendall(state.encode())
    except OSError:  # the service manager is gone and does not wait any more
        return False
    return True


@asynccontextmanager
async def patience(every_s: float = STILL_STARTING_S) -> AsyncIterator[None]:
    """While something waits, for example for a directory, periodically ask the service manager for another minute, so
    that it does not assume that the start has failed."""

    async def ask() -> None:
        while True:
            await asyncio.sleep(every_s)
            notify(_MORE)

    asking = asyncio.get_running_loop().create_task(ask())
    asking.add_done_callback(raise_again)
    try:
        yield
    finally:
        asking.cancel()
