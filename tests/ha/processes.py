"""Queue managers with a shared log, as processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError

from tests import ready
from tests.ha.clocks import Clock
from tests.ha.postgres import free_port
from tests.ready import AwaitedFork

DEFAULTS = "[ha]\n"
LASTING = "[ha]\nlease_ms = 600000\nrenew_ms = 200\n"
"""A lease that no busy computer loses by being slow; :func:`tests.ha.support.expire` ends it."""


class Process:
    """``msmq serve --store``."""

    def __init__(
        self,
        directory: Path,
        name: str,
        store: str,
        schema: str,
        more: str = "",
        settings: str = DEFAULTS,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        web: str = "none",
    ) -> None:
        self.name, self.web = name, web
        self.address, self.port = address, port
        self.clock = clock
        self.socket = directory / f"{name}.sock"
        self.health = free_port()
        self._directory = directory
        self._config = directory / f"{name}.toml"
        self._config.write_text(f'{settings}schema = "{schema}"\n{more}')
        self._store = store
        self.process: AwaitedFork

    async def start(self) -> None:
        command = ["serve", "--config", str(self._config), "--name", "ORDERS"]
        command += [
            "--data",
            str(self._directory / self.name),
            "--instance",
            self.name,
            "--store",
            self._store,
        ]
        command += ["--listen", self.address, "--port", str(self.port), "--ping-port", "0", "--rpc-port", "0"]
        command += ["--api", f"unix:{self.socket}", "--health", f"127.0.0.1:{self.health}"]
        command += ["--web", self.web]
        with (self._directory / f"{self.name}.log").open("ab") as log:
            if self.clock is None:
                self.process = AwaitedFork(ready.start("msmq", *command, stderr=log))
            else:  # a clock is loaded into a program as it begins
                self.process = AwaitedFork(
                    subprocess.Popen(
                        [sys.executable, "-m", "msmq", *command],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        env={**os.environ, **self.clock.environment},
                    )
                )
        await self.says("standby")

    async def line(self) -> str:
        """The next one that it prints."""
        async with asyncio.timeout(300):
            line = await self.process.readline()
        assert line, (self.name, (self._directory / f"{self.name}.log").read_text())
        return line.decode()

    async def says(self, word: str) -> str:
        line = await self.line()
        assert line.startswith(word), (
            self.name,
            line,
            (self._directory / f"{self.name}.log").read_text(),
        )
        return line

    async def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(120):
            return await self.process.wait()

    def signal(self, number: int) -> None:
        """To a process that may be gone."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def probe(self, path: str) -> int:
        def ask() -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/{path}", timeout=2) as answer:
                    return int(answer.status)
            except HTTPError as error:
                return error.code
            except OSError:
                return 0

        return await asyncio.to_thread(ask)
