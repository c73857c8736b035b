"""Telling the service manager how far we are (the protocol of sd_notify: one datagram to the socket it named)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

STILL_STARTING_S: Final = 10.0
_MORE: Final = "EXTEND_TIMEOUT_USEC=60000000"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send ``READY=1``, ``RELOADING=1``, ``STOPPING=1`` or ``STATUS=...``; whether anybody wanted to know."""
    address = environment.get("NOTIFY_SOCKET", "")
    if sys.platform == "win32" or not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.connect(address)
            door.sendall(state.encode())
    except OSError:  # it is gone; whoever started us does not wait any more
        return False
    return True


@asynccontextmanager
async def patience(every_s: float = STILL_STARTING_S) -> AsyncIterator[None]:
    """While something waits, for a directory for example, ask the service manager from time to time for a minute more:
    it would take us for dead."""

    async def ask() -> None:
        while True:
            await asyncio.sleep(every_s)
            notify(_MORE)

    asking = asyncio.get_running_loop().create_task(ask())
    try:
        yield
    finally:
        asking.cancel()
