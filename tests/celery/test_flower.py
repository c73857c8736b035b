"""Flower, Celery's monitor, as a process of its own: it sees workers, what they can do, and what they have done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.celery.test_transport import broker, send, until, worker
from tests.cli.support import Live, serving
from tests.server.support import free_port

HOST = "127.0.0.1"


@contextmanager
def flower(live: Live) -> Iterator[str]:
    """Flower for the queue manager; gives the address of its interface for programs."""
    port = free_port()
    command = [sys.executable, "-m", "celery", "-A", "tests.celery.tasks", "flower"]
    command += [f"--address={HOST}", f"--port={port}"]
    environment = {**os.environ, "MSMQ_TEST_BROKER": broker(live), "FLOWER_UNAUTHENTICATED_API": "true"}
    with (live.directory / "flower").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield f"http://{HOST}:{port}/api"
    finally:
        process.kill()
        process.wait(120)


def asked(address: str) -> dict[str, Any]:
    """An answer of Flower; nothing as long as it has none."""
    try:
        with urllib.request.urlopen(address, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.URLError:
        return {}


def test_flower_sees_the_workers_and_their_tasks(tmp_path: Path) -> None:
    threads = ("--pool", "threads", "-c", "1", "-E")
    with (
        serving(tmp_path / "host") as live,
        flower(live) as api,
        worker(live, *threads, "-n", "one@host"),
        worker(live, *threads, "-n", "two@host"),
    ):
        until(lambda: asked(f"{api}/workers?refresh=1").keys() == {"one@host", "two@host"})
        until(lambda: asked(f"{api}/workers?status=1") == {"one@host": True, "two@host": True})
        one = asked(f"{api}/workers?refresh=1&workername=one@host")["one@host"]
        assert "tests.celery.tasks.write" in one["registered"]
        assert [queue["name"] for queue in one["active_queues"]] == ["celery"]
        send(live, "write", str(tmp_path / "written"), "x")

        def done() -> list[tuple[str, str]]:
            return [(task["name"], task["state"]) for task in asked(f"{api}/tasks").values()]

        until(lambda: done() == [("tests.celery.tasks.write", "SUCCESS")])
