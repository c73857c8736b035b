"""The supervisor of the console's process, for ``msmq serve``.

The port is bound at once. The process takes half a second to start, so it is started a moment after the queue manager
has begun its work, or by the first visitor, if that is sooner. A process that dies is started again by the next
visitor, or else after a pause that grows with each death.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Final

from msmq.server.web_settings import WebError
from msmq.web.plan import Plan, bound

_AHEAD_S: Final = 1.0
"""The time after which it is started without a visitor."""
_LONGEST_S: Final = 60.0
_PAUSE_S: Final = 1.0
"""The shortest pause before a process that died is started again."""
_GRACE_S: Final = 5.0
_log = logging.getLogger(__name__)


class Supervisor:
    """The port of a console, and the process behind it while there is one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None

    def open(self) -> str:
        """Listen. Returns the address of the console; raises WebError if the port is in use."""
        host, port = self._plan.web.address
        if self._plan.web.exposed and not self._plan.web.tls:
            raise WebError(
                f"web: {self._plan.web.listen} can be reached from outside and has no certificate."
            )
        try:
            self._socket = bound(host, port)
        except OSError as error:
            raise WebError(f"web: {self._plan.web.listen} cannot be opened: {error.strerror}.") from error
        self._task = asyncio.get_running_loop().create_task(self._look_after())
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._plan.web.tls else 'http'}://{shown}:{self._socket.getsockname()[1]}/"

    async def _look_after(self) -> None:
        ahead_s = _AHEAD_S
        while True:
            await self._somebody(ahead_s)
            code = await self._serve()
            _log.warning("the console ended with status %s; it starts again", code)
            await asyncio.sleep(_PAUSE_S)
            ahead_s = min(2 * ahead_s, _LONGEST_S)

    async def _somebody(self, longest_s: float) -> None:
        """Wait for a connection, but no longer than ``longest_s``."""
        assert self._socket is not None
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket.fileno(), came.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), longest_s)
        finally:
            loop.remove_reader(self._socket.fileno())

    async def _serve(self) -> int:
        assert self._socket is not None
        descriptor = self._socket.fileno()
        plan = replace(self._plan, sockets=(descriptor,))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MSMQ_")}
        self.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "msmq.web.process",
            stdin=asyncio.subprocess.PIPE, pass_fds=(descriptor,), env=environment,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(plan.to_json().encode() + b"\n")
        with suppress(ConnectionError):
            await process.stdin.drain()
        return await process.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        process = self.process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(_GRACE_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
