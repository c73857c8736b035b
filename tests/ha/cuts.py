"""Lines between processes that can be cut: nothing gets through, and nobody is told.

They run in a thread of their own, so that what goes over them goes on while a test waits for something else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tests.relay import End, Relay, until_one_ends

HOST = "127.0.0.1"
Target = Callable[[], Awaitable[tuple[str, int] | None]]
"""Where a line leads to at the moment; None for nowhere."""


class Line(Relay):
    """A TCP proxy. While it is cut, connections stay open and are silent, and new ones are not answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Target) -> None:
        super().__init__()
        self._loop = loop
        self._target = target
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    async def connect(self) -> End | None:
        await self._open.wait()
        target = await self._target()
        return None if target is None else await asyncio.open_connection(*target)

    async def carry(self, here: End, there: End) -> None:
        await until_one_ends(self._copy(here[0], there[1]), self._copy(there[0], here[1]))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


class Wiring:
    """All lines of a test, and the thread they run in."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._lines: list[Line] = []

    def __enter__(self) -> Wiring:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            asyncio.run_coroutine_threadsafe(line.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def line(self, port: int) -> Line:
        """A line to a port of this computer."""

        async def target() -> tuple[str, int]:
            return HOST, port

        return self.line_to(target)

    def line_to(self, target: Target, host: str = HOST, port: int = 0) -> Line:
        """A line to wherever ``target`` says whenever somebody connects."""

        async def make() -> Line:
            line = Line(self._loop, target)
            await line.start(host, port)
            return line

        line = asyncio.run_coroutine_threadsafe(make(), self._loop).result()
        self._lines.append(line)
        return line
