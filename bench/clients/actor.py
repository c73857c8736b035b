"""Processes of a benchmark that do one job after another, and what they cost."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

import uvloop


class JobFailedError(Exception):
    """A job raised an exception, its process ended, or it took too long."""


class _Failed(NamedTuple):
    report: str


class Actor:
    """A process that runs jobs. A job is a function, asynchronous or not, which gets a pipe and its arguments; it
    says how it gets on by sending to the pipe, and the value that it returns is the last thing it says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: Any = None

    def begin(self, job: Callable[..., Any], *arguments: Any) -> None:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        self.pipe.send((job, arguments))

    def say(self, what: Any) -> None:
        """Send something to the job that runs."""
        self.pipe.send(what)

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    def kill(self) -> None:
        """End the process; the next job gets a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.pipe.close()
            self._process = None


def hear(*actors: Actor, timeout_s: float, servers: Sequence[int] = ()) -> list[Any]:
    """What each of these says next, in their order. The first failure of any of them is raised at once, and so is the
    end of a server; ``servers`` are descriptors of their processes."""
    heard: dict[Actor, Any] = {}
    give_up_s = time.monotonic() + timeout_s
    while len(heard) < len(actors):
        waiting = {actor.pipe: actor for actor in actors if actor not in heard}
        ready = wait([*waiting, *servers], give_up_s - time.monotonic())
        if not ready:
            silent = " and ".join(actor.name for actor in waiting.values())
            raise JobFailedError(f"the {silent} did not finish in {timeout_s:.0f} s")
        if any(server in ready for server in servers):
            raise JobFailedError("a queue manager ended")
        for pipe in ready:
            actor = waiting[pipe]  # type: ignore[index]
            try:
                said = actor.pipe.recv()
            except EOFError:
                raise JobFailedError(f"the process of the {actor.name} ended") from None
            if isinstance(said, _Failed):
                raise JobFailedError(f"the {actor.name} failed:\n{said.report}")
            heard[actor] = said
    return [heard[actor] for actor in actors]


def _serve(pipe: Pipe) -> None:
    # One loop for the life of the process, since gRPC keeps to the first one that it sees.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, suppress(EOFError, KeyboardInterrupt):
        while True:
            job, arguments = pipe.recv()
            try:
                outcome = job(pipe, *arguments)
                pipe.send(runner.run(outcome) if inspect.iscoroutine(outcome) else outcome)
            except Exception:
                pipe.send(_Failed(traceback.format_exc()))


def processor_s(pid: int) -> float:
    """Processor time of a process with all its threads, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
