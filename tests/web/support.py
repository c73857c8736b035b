"""A queue manager with its console, as `msmq serve` runs them, and somebody who asks it over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

import msmq
from msmq.client.connection import Connection
from tests import ready
from tests.ready import Fork
from tests.server.support import free_port

T = TypeVar("T")
ADMINISTRATORS = "S-1-5-32-544"
LOOKER = "S-1-5-21-7-7-7-1001"
CONFIG = f"""
[timers]
session_retry_connect_ms = 100

[web]
requests_per_second = 100000
requests_at_once = 100000
roles = {{"{LOOKER}" = "look"}}
"""


class Live:
    """A console that runs."""

    def __init__(
        self, directory: Path, name: str = "HOST", config: str = CONFIG, address: str = "127.0.0.1"
    ) -> None:
        self.directory, self.name, self.config, self.address = directory, name, config, address
        self.socket = f"unix:{directory / 'sock'}"
        self.url = ""
        self.process: Fork | None = None
        self.tokens: dict[str, str] = {}
        self.port, self.web_port = free_port(), free_port()

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "msmq.toml"
        file.write_text(self.config)
        command = ["serve", "--data", str(self.directory / "data"), "--name", self.name]
        command += ["--listen", "127.0.0.1", "--port", str(self.port), "--ping-port", "0"]
        command += ["--rpc-port", "0", "--api", self.socket, "--config", str(file)]
        command += ["--web", f"{self.address}:{self.web_port}"]
        with (self.directory / "log").open("ab") as log:
            self.process = ready.start("msmq", *command, stderr=log)
        line = self.process.stdout.readline().decode()
        assert line.startswith("ready"), (self.directory / "log").read_text()
        self.url = line.rpartition("console ")[2].strip().rstrip("/")

    def stop(self, *, kill: bool = False) -> None:
        assert self.process is not None
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        status = self.process.wait(120)
        assert kill or status == 0
        self.process.stdout.close()

    def do(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        """Something that is done by way of the channel."""

        async def run() -> T:
            async with msmq.connect(self.socket) as mq:
                return await action(mq)

        with ThreadPoolExecutor(1) as thread:  # a test with a browser has a loop of its own here
            return thread.submit(asyncio.run, run()).result()

    def token(self, sid: str = ADMINISTRATORS) -> str:
        if sid not in self.tokens:
            _, self.tokens[sid] = self.do(lambda mq: mq.create_token(f"test {sid}", sid))
        return self.tokens[sid]

    def client(self, sid: str | None = ADMINISTRATORS) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token(sid)}"} if sid else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120, trust_env=False)

    def queue(self, name: str, *messages: msmq.Message | str, **settings: Any) -> str:
        """A queue with messages, as a part of a path of the interface."""

        async def make(mq: Connection) -> None:
            queue = await mq.create_queue(f".\\private$\\{name}", if_missing=True, **settings)
            if messages:
                await queue.send_many(messages)

        self.do(make)
        return quote(f".\\private$\\{name}", safe="")


@contextmanager
def living(directory: Path, **options: Any) -> Iterator[Live]:
    live = Live(directory, **options)
    live.start()
    try:
        yield live
    finally:
        live.stop()


def finished(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """A job when it is over."""
    for _ in range(600):
        if job["state"] != "running":
            return job
        time.sleep(0.05)
        job = client.get(f"/api/jobs/{job['job']}").json()
    raise AssertionError(json.dumps(job))
