"""Three queue managers, one query that consumes from all, and somebody who kills: ``make spark-soak MINUTES=15``.

Killed are, at random, the driver with all that is its own, an executor, a worker of Python, and the queue managers,
while messages keep coming: when the query has gone on, while it recovers from the last time, or one right after the
other. Whenever the driver is dead
everything that is gone from a queue must be in the output that the sink has committed; in the end the output has every
message once, and nothing is left in a queue.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pyarrow.parquet as parquet

from tests.spark.soak import Soak, arguments
from tests.spark.support import FORK, ORDERS, ROOT, Server, below, command_of, environment, eventually

NAMES = ("NORTH", "SOUTH", "WEST")
LOCAL, CLUSTER = "local[2,20]", "local-cluster[2,1,700]"
_PATIENCE_S = 600.0
_HASTE_S = 12.0
"""In which a driver that was killed may come to anything between its start and its next batch."""


class Chaos:
    """What is killed, and what must be true nevertheless."""

    def __init__(self, folder: Path, master: str, seed: int) -> None:
        self.folder = folder
        self.checkpoint, self.output = folder / "checkpoint", folder / "rows"
        self.kills: Counter[str] = Counter()
        self.sent: dict[str, list[str]] = {name: [] for name in NAMES}
        self._master = master
        self._chance = random.Random(seed)
        self._driver: subprocess.Popen[bytes] | None = None
        self._servers: dict[str, Server] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for name in NAMES:
                (self.folder / name).mkdir(parents=True)
                server = self._servers[name] = Server(self.folder / name, name=name)
                server.start()
                server.create(ORDERS)
            yield
        finally:
            self.kill_driver()
            for server in self._servers.values():
                server.kill()

    # --- the driver -------------------------------------------------------------------------------------------------

    def start_driver(self) -> None:
        """Start the query, unless it runs."""
        if self._driver is None or self._driver.poll() is not None:
            addresses = ",".join(server.address for server in self._servers.values())
            arguments = [self._master, addresses, str(self.checkpoint), str(self.output)]
            with (self.folder / "driver.log").open("ab") as log:
                self._driver = subprocess.Popen(
                    [sys.executable, "-m", "tests.spark.fleet_driver", *arguments],
                    env=environment(),
                    cwd=ROOT,
                    start_new_session=True,
                    stdout=log,
                    stderr=log,
                )

    def kill_driver(self) -> None:
        if self._driver is not None:
            for process in [self._driver.pid, *self._processes("")]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _processes(self, kind: str) -> list[int]:
        """The processes below the driver whose command has a word in it."""
        assert self._driver is not None
        return [process for process in below(self._driver.pid)[1:] if kind in command_of(process)]

    # --- what happens -----------------------------------------------------------------------------------------------

    def send(self, count: int) -> None:
        """Messages of all priorities to every queue manager."""
        for name, server in self._servers.items():
            made = [f"{name} {len(self.sent[name]) + number}" for number in range(count)]
            server.send(made, priority=self._chance.randrange(8))
            self.sent[name] += made

    def progress(self) -> None:
        """Wait until the query has written something more."""
        before = self._batches
        self.send(10)

        def written() -> bool:
            self.start_driver()  # it may have ended: what it needs was away for too long
            return self._batches > before

        eventually(written, _PATIENCE_S)

    def recovering(self) -> None:
        """Let the query begin to go on, and wait for nothing that it does."""
        self.send(10)
        self.start_driver()
        time.sleep(_HASTE_S * self._chance.random())

    def nothing(self) -> None:
        """Wait for nothing: what is killed next is killed in the midst of what the last kill has done."""
        self.send(10)

    @property
    def _batches(self) -> int:
        """How many batches were written. Spark keeps the records of the last hundred only."""
        return max((int(path.name) + 1 for path in self.checkpoint.glob("commits/[0-9]*")), default=0)

    def kill(self, what: str) -> bool:
        """Kill something, after a moment in which anything may be under way; gives whether it was there."""
        time.sleep(self._chance.random())
        if what == "driver":
            if self._driver is None:
                return False
            ended = self._driver.poll() is not None  # by itself: what it needs was away for too long
            self.kill_driver()
            self.is_sound()
            if ended:
                return False
        elif what == "queue manager":
            server = self._chance.choice(list(self._servers.values()))
            server.kill()
            time.sleep(2 * self._chance.random())
            server.start()
        else:
            kind = {"executor": "CoarseGrainedExecutorBackend", "worker": FORK}[what]
            found = self._processes(kind) if self._driver is not None else []
            if not found:
                return False
            try:
                os.kill(self._chance.choice(found), signal.SIGKILL)
            except ProcessLookupError:  # it has just ended
                return False
        self.kills[what] += 1
        return True

    # --- what must be true ------------------------------------------------------------------------------------------

    def rows(self) -> list[str]:
        """What the sink has committed: the files in its log."""
        log = self.output / "_spark_metadata"
        numbers = sorted(
            (int(path.name.split(".")[0]), path) for path in log.glob("[0-9]*") if ".tmp" not in path.name
        )
        compacted = [number for number, path in numbers if path.name.endswith(".compact")]
        files: set[str] = set()
        for number, path in numbers:
            whole = path.name.endswith(".compact")
            if number > max(compacted, default=-1) or (whole and number == max(compacted)):
                lines = path.read_text(encoding="utf-8").splitlines()[1:]
                files |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
        return [body for path in sorted(files) for body in parquet.read_table(path)["body"].to_pylist()]

    def is_sound(self) -> None:
        """Nothing is gone from a queue that is not in the output."""
        left = {body for server in self._servers.values() for body in server.bodies()}
        sent = {body for bodies in self.sent.values() for body in bodies}
        rows = self.rows()
        assert sent - left <= set(rows), f"lost: {sorted(sent - left - set(rows))[:5]}"
        assert len(rows) == len(set(rows)), "doubled"

    def settles(self) -> None:
        """Everything comes to its end."""

        def empty() -> bool:
            self.start_driver()
            return not any(server.bodies() for server in self._servers.values())

        eventually(empty, _PATIENCE_S)
        self.kill_driver()
        assert sorted(self.rows()) == sorted(body for bodies in self.sent.values() for body in bodies)


def run(
    folder: Path,
    master: str,
    seed: int,
    kills: Callable[[Chaos], Iterable[str]],
    say: Callable[[str], None],
    wait: Callable[[Chaos], None] = Chaos.progress,
) -> Chaos:
    """Kill one thing after the other, and wait before each. Returns what was done."""
    chaos = Chaos(folder, master, seed)
    with chaos.running():
        for what in kills(chaos):
            wait(chaos)
            done = "killed" if chaos.kill(what) else "was not there"
            say(f"{chaos.kills.total()}: {what} {done}; {len(chaos.sent[NAMES[0]]) * 3:,} messages sent")
        chaos.settles()
    return chaos


def _wait(chance: random.Random, chaos: Chaos) -> None:
    chance.choices((chaos.progress, chaos.recovering, chaos.nothing), (0.3, 0.25, 0.45))[0]()


def _kills(soak: Soak, chance: random.Random, chaos: Chaos) -> Iterator[str]:
    while soak.goes_on(chaos.kills.total()):
        yield chance.choice(["driver", "queue manager", "queue manager", "executor", "worker", "worker"])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--master", default=CLUSTER)
    given = parser.parse_args()
    soak, chance = Soak(given.minutes, given.kills), random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        kills, say = partial(_kills, soak, chance), partial(print, flush=True)
        chaos = run(Path(folder), given.master, given.seed, kills, say, partial(_wait, chance))
    soak.end(chaos.kills, f"every one of {sum(map(len, chaos.sent.values())):,} messages came once")


if __name__ == "__main__":
    main()
