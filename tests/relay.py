"""A TCP proxy between processes that tests disturb."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """Accepts connections, and connects each to another place."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def connect(self) -> End | None:
        """Connect to the other side; None closes what was accepted."""
        raise NotImplementedError

    async def carry(self, here: End, there: End) -> None:
        """Carry both ways; the connection ends when this returns."""
        raise NotImplementedError

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            there = await self.connect()
            if there is not None:
                writers.append(there[1])
                await self.carry((reader, writer), there)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.transport.abort()
            self._tasks.discard(task)


async def until_one_ends(*copies: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(each) for each in copies]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
