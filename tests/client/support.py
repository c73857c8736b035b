"""A client and the daemon it is connected to, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msmq
from msmq.server.daemon import Daemon
from msmq.testing.traffic import Door, Draft, client_message
from tests.api.support import QUEUE, address, config, daemon
from tests.mail import Mail
from tests.server.support import nobody_at_the_door

__all__ = ["ADMIN", "QUEUE", "Restartable", "connected", "mail_to", "messages_of"]

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
