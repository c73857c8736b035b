"""A queue manager that is killed with SIGKILL again and again has everything it was told durable.

The killed program is ``killed_child``; the record of what it said is kept here. Whoever opens the store next,
the test or the next worker, must find what the record has. MSMQ_KILLS sets how often it
is killed, MSMQ_KILL_SEED when.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.manager.killed_child import PLACES, PLAIN, Host

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("MSMQ_KILLS", "200"))
SEED = int(os.environ.get("MSMQ_KILL_SEED", "1"))

Rows = dict[tuple[str, str], tuple[int, int]]
"""By place and text: how early a message is received, by priority and then by arrival."""


class Record:
    """What was confirmed, and what was under way when the end came."""

    def __init__(self) -> None:
        self.confirmed: Rows = {}
        self.uncertain: list[list[list[Any]]] = []
        self.arrivals = 0
        self.told = 0

    def hear(self, said: dict[str, Any]) -> None:
        if "found" in said:
            self.settle(said["found"])
        elif "doing" in said:
            assert not self.uncertain
            self.uncertain = said["doing"]
        elif "durable" in said:
            self.told += 1
            for event in self.uncertain:
                self.apply(event)
            self.uncertain = []

    def apply(self, event: list[list[Any]]) -> None:
        for kind, place, text, *rest in event:
            if kind == "put":
                self.arrivals += 1
                priority = rest[0] if place == PLAIN else 0
                assert (place, text) not in self.confirmed
                self.confirmed[place, text] = (-priority, self.arrivals)
            elif kind == "gone":
                del self.confirmed[place, text]
            else:
                self.confirmed[rest[0], text] = self.confirmed.pop((place, text))

    def settle(self, found: dict[str, list[str]]) -> None:
        """What is there must be what was confirmed and some of the first events that were under way."""
        while found != self.contents():
            assert self.uncertain, f"recorded {self.contents()}, found {found}"
            self.apply(self.uncertain.pop(0))
        self.uncertain = []

    def contents(self) -> dict[str, list[str]]:
        contents: dict[str, list[str]] = {place: [] for place in PLACES}
        for (place, text), _ in sorted(self.confirmed.items(), key=lambda row: row[1]):
            contents[place].append(text)
        return contents


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.manager.killed_child"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=1 << 20
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def live_and_die(
    program: subprocess.Popen[bytes], directory: Path, life: int, record: Record, random: Random
) -> None:
    """Let a worker live for a while, kill it, and hear what it had to say."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{directory} {life}\n".encode())
    program.stdin.flush()
    # Some die before they have found everything again, some may work for a while first.
    moment = random.choice(("worker", "found", "durable", "durable"))
    pid = 0
    while True:
        line = program.stdout.readline()
        assert line, "the program ended by itself"
        said = json.loads(line)
        record.hear(said)
        pid = said.get("worker", pid)
        if moment in said and pid:
            time.sleep(random.uniform(0, 0.03))
            os.kill(pid, signal.SIGKILL)
            moment = "killed"
        if "ended" in said:
            assert said["ended"] == -signal.SIGKILL, "the worker ended by itself"
            return


def test_what_was_told_durable_survives_a_kill_at_any_moment(
    program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    random = Random(SEED)
    record = Record()
    for life in range(KILLS):
        live_and_die(program, tmp_path, life, record, random)
        if random.random() < 0.5:  # otherwise the next worker is the first to see what is left
            host = Host(tmp_path, random)
            record.settle(host.contents())
            host.close()
    assert record.told > KILLS // 3, "the worker had no time to work"
