"""A queue that is archived, consumed and replayed elsewhere than in a local folder, by commands that are killed. As a
program it does so for some minutes on an object store, where commands and the queue manager are killed at random
(``make spark-soak-store``), or on HDFS (``make spark-hdfs``)."""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.spark.archiver import SETTINGS
from tests.spark.halting import VARIABLE, Halts
from tests.spark.soak import Soak, arguments
from tests.spark.stores import BUCKET, Hdfs, ObjectStore
from tests.spark.support import LEDGER, ORDERS, Server, eventually, program

STARTING_S = 600
LONGEST_S = 40.0
"""So long at most is waited before a command is killed."""


class Elsewhere:
    """A queue that is archived to some place, consumed, and replayed, by commands that are killed."""

    def __init__(self, server: Server, place: str, settings: dict[str, str], folder: Path) -> None:
        self.server, self.place = server, place
        self.halts = Halts(folder / "halts")
        self.halts.folder.mkdir()
        self._variables = {SETTINGS: json.dumps(settings), VARIABLE: str(self.halts.folder)}
        self._log = folder / "said"
        self.sent: list[str] = []
        server.create(ORDERS)
        server.create(LEDGER, transactional=True)

    def send(self, run: str) -> None:
        bodies = [f"{run} {number}" for number in range(20)]
        self.server.send(bodies)
        self.sent += bodies

    def archive(self, *more: str) -> list[str]:
        options = [
            "--option",
            "maxMessagesPerTrigger=10",
            "--option",
            "timeout=120",
            "--option",
            "partitions=2",
        ]
        return ["archive", self.place, "--queue", ORDERS, "--consume", *self.at, *options, *more]

    @property
    def replay(self) -> list[str]:
        return ["replay", self.place, "--queue", LEDGER, *self.at]

    @property
    def at(self) -> list[str]:
        return ["--server", self.server.address]

    def kill_when(self, phase: str, *arguments: str) -> None:
        """Give a command and kill it when it has come to a place."""
        self.halts.at(phase)
        self._run(arguments, lambda run: run.poll() is not None or self.halts.reached(phase))
        assert self.halts.reached(phase), self._said
        self.halts.go_on(phase)

    def kill_after(self, seconds: float, *arguments: str) -> bool:
        """Give a command and kill it after a while; gives whether it was still at work."""
        ends = time.monotonic() + seconds
        return self._run(arguments, lambda run: run.poll() is not None or time.monotonic() > ends) is None

    def finish(self, *arguments: str) -> str:
        """Give a command; gives what it said."""
        assert self._run(arguments, lambda run: run.poll() is not None) == 0, self._said
        return self._said

    def _run(
        self, arguments: Sequence[str], until: Callable[[subprocess.Popen[bytes]], object]
    ) -> int | None:
        """Spark gives a worker of Python ten seconds to begin, which a busy computer may not have: then the command is
        given again, as people would."""
        while True:
            with (
                self._log.open("wb") as log,
                program("tests.spark.archiver", *arguments, output=log, **self._variables) as run,
            ):
                eventually(lambda: until(run), STARTING_S)
                status = run.poll()
            if not status or "failed to connect back" not in self._said:
                return status

    @property
    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def is_done(self, said: str) -> None:
        assert f"{len(self.sent)} messages in {self.place}" in said
        assert f"{len(self.sent)} messages sent\n" in said
        assert "\n0 messages sent\n" in said, "the second replay"
        assert self.server.bodies() == [], "left behind"
        assert self.server.bodies(LEDGER) == self.sent
        claims = [name for name in self.server.queues() if "spark-claims" in name]
        assert [self.server.bodies(name) for name in claims] == [[]]


def on_hdfs(folder: Path, server: Server) -> None:
    with Hdfs.running(folder) as hdfs:
        place = Elsewhere(server, f"{hdfs.address}/orders", {}, folder)
        place.send("first")
        place.kill_when("written", *place.archive())
        assert server.bodies() == place.sent, "its batch is not committed"
        place.send("second")
        place.kill_when("half-deleted", *place.archive("--compact"))
        said = place.finish(*place.archive("--compact"), "--then", *place.replay, "--then", *place.replay)
        place.is_done(said)
    print(f"two kills, and every one of {len(place.sent)} messages is in {place.place} once")


def on_an_object_store(folder: Path, server: Server, soak: Soak, chance: random.Random) -> None:
    """Archive, compact and replay, again and again, while commands and the queue manager are killed at random."""
    kills: Counter[str] = Counter()
    longest_s = 20.0
    with ObjectStore.running(folder) as store:
        place = Elsewhere(server, f"s3a://{BUCKET}/orders", store.settings, folder)
        while soak.goes_on(kills.total()):
            place.send(f"run {kills.total()}")
            command = chance.choice(("archive", "compaction", "replay"))
            archived = place.archive("--compact") if command == "compaction" else place.archive()
            if chance.random() < 0.3:
                server.kill()
                server.start()
                kills["queue manager"] += 1
            begun = time.monotonic()
            killed = place.kill_after(
                longest_s * chance.random(), *(archived if command != "replay" else place.replay)
            )
            # Kills shall come in any part of a command, however long it takes on this computer.
            longest_s = min(LONGEST_S, 1.1 * longest_s if killed else time.monotonic() - begun)
            kills[command] += killed
            print(f"{kills.total()}: {command} {'killed' if killed else 'was quicker'}", flush=True)
        place.finish(*place.archive("--compact"), "--then", *place.replay)
        said = place.finish(*place.archive("--compact"), "--then", *place.replay)
        assert f"{len(place.sent)} messages in {place.place}" in said
        assert "\n0 messages sent\n" in said, "the second replay"
        assert server.bodies() == [], "left behind"
        assert server.bodies(LEDGER) == place.sent
    soak.end(kills, f"every one of {len(place.sent):,} messages was archived and replayed once")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--hdfs", action="store_true", help="once on HDFS, instead of a soak on an object store"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = Server(folder)
        server.start()
        try:
            if given.hdfs:
                on_hdfs(folder, server)
            else:
                soak = Soak(given.minutes, given.kills)
                on_an_object_store(folder, server, soak, random.Random(given.seed))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
