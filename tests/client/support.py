"""A client and the daemon it is connected to, in one process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msmq
from msmq.server.daemon import Daemon
from msmq.testing.traffic import Door, Draft, client_message
from tests.api.support import QUEUE, address, config, daemon
from tests.mail import Mail
from tests.server.support import nobody_at_the_door

__all__ = ["ADMIN", "QUEUE", "Restartable", "connected", "mail_to", "messages_of", "serving"]

ADMIN = ".\\private$\\admin"


def mail_to(queue: str = QUEUE, **options: Any) -> Mail:
    """Messages of every kind for a queue, some of whose acknowledgments go to the queue ``ADMIN``."""
    here = "DIRECT=OS:HOST\\PRIVATE$\\"
    listeners = (here + ADMIN.rpartition("\\")[2],)
    options = {"largest_body": 500} | options
    return Mail(Door.CLIENT, here + queue.rpartition("\\")[2], listeners=listeners, **options)


def messages_of(drafts: list[Draft]) -> list[msmq.Message]:
    return [client_message(draft) for draft in drafts]


@asynccontextmanager
async def connected(directory: Path, **options: Any) -> AsyncIterator[msmq.Connection]:
    async with daemon(directory) as running, msmq.connect(address(running), **options) as mq:
        yield mq


class Restartable:
    """A daemon that goes and comes back at the same address."""

    def __init__(self, directory: Path) -> None:
        self.config = config(directory)
        self.address = self.config.api.listen[0]
        self.daemon: Daemon | None = None

    async def start(self) -> None:
        self.daemon = Daemon(self.config)
        await self.daemon.start()

    async def stop(self) -> None:
        if self.daemon is not None:
            await nobody_at_the_door()
            await self.daemon.stop()
            self.daemon = None

    def cut(self) -> None:
        """Break all connections; the queue manager goes on."""
        assert self.daemon is not None
        assert self.daemon.door is not None
        for relay in self.daemon.door._relays:
            for half in list(relay._open):
                assert half.transport is not None
                half.transport.abort()

    async def __aenter__(self) -> Restartable:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """A daemon in a thread, for clients without a loop. Yields its address."""
    found: list[str] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with daemon(directory) as running:
            found.append(address(running))
            ready.set()
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(120)
        yield found[0]
    finally:
        stop.set()
        thread.join()
