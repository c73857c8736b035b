"""Lines between processes that can be cut: nothing gets through, and nobody is told.

They run in a thread of their own, so that what goes over them goes on while a test waits for something else.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

HOST = "127.0.0.1"
Target = Callable[[], Awaitable[tuple[str, int] | None]]
"""Where a line leads to at the moment; None for nowhere."""


class Line:
    """A TCP proxy. While it is cut, connections stay open and are silent, and new ones are not answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: Target) -> None:
        self._loop = loop
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._accept, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            await self._open.wait()
            target = await self._target()
            if target is None:
                return
            there_reader, there_writer = await asyncio.open_connection(*target)
            writers.append(there_writer)
            copies = [self._copy(reader, there_writer), self._copy(there_reader, writer)]
            tasks = [asyncio.create_task(copy) for copy in copies]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in tasks:
                    each.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.transport.abort()
            self._tasks.discard(task)

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
