"""Processes of ``msmq serve`` that start at once: everything is imported one time, and each is a fork of that.

They are real processes with a real disk, to be killed by the thousand. Each line of standard input is the options of
one, as JSON; its number comes back on standard output, and then the line of its own that says it is ready. All of them
end with this process, and it ends with its standard input.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Final

from tests.server.test_daemon_processes import Process

PATIENCE_S: Final = 60
_PR_SET_PDEATHSIG: Final = 1
_PATHS: Final = ("data", "config")


class QuickProcess(Process):
    """The same queue manager in a process of a nursery."""

    def __init__(self, nursery: Nursery, *arguments: object, config: str) -> None:
        super().__init__(*arguments, config=config)  # type: ignore[arg-type]
        self.nursery = nursery

    async def start(self) -> None:
        file = self.data.parent / "quick.toml"
        file.write_text(self.config)
        options = {
            "data": str(self.data),
            "name": self.name,
            "listen": [self.address],
            "port": 0,
            "ping_port": 0,
            "api": ["none"],
            "config": str(file),
        }
        self._handle = await self.nursery.start(options)

    async def kill(self) -> None:
        await kill(self._handle)


async def kill(handle: int) -> None:
    """By SIGKILL; the process is gone when this returns, and so is its hold on the port and the store."""
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    await asyncio.to_thread(select.select, [handle], [], [], PATIENCE_S)
    os.close(handle)


class Nursery:
    """The process that the others are forks of."""

    async def __aenter__(self) -> Nursery:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.remote_read.nursery", stdin=pipe, stdout=pipe
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def start(self, options: dict[str, object]) -> int:
        """Start one; gives a handle of it (a pidfd) when it serves."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(options).encode() + b"\n")
        handle, ready = -1, False
        async with asyncio.timeout(PATIENCE_S):
            while handle < 0 or not ready:
                word, _, rest = (await self._process.stdout.readline()).partition(b" ")
                assert word in (b"pid", b"ready"), word
                ready = ready or word == b"ready"
                if word == b"pid":
                    handle = os.pidfd_open(int(rest))
        return handle


def main() -> None:
    from msmq.cli import serve

    # What a child would import first thing.
    for name in (
        "uvloop",
        "msmq.api.relay",
        "msmq.server.daemon",
        "msmq.server.logs",
        "msmq.server.readiness",
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that no child has to look through all of this
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    for line in sys.stdin:
        parent = os.getpid()
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            try:
                options = json.loads(line)
                serve.serve(
                    **{name: Path(text) if name in _PATHS else text for name, text in options.items()}
                )
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        print("pid", child, flush=True)


if __name__ == "__main__":
    main()
