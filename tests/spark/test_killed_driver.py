"""A driver that is killed at every phase of a batch, and the queue manager too: every message arrives exactly once,
none is left behind, and none is removed before its batch is committed."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from itertools import chain, zip_longest
from pathlib import Path

from msmq.spark.offsets import Offset
from tests.spark.halting import VARIABLE, Halts
from tests.spark.support import LEDGER, ORDERS, Server, eventually, program

PHASES = (
    "planned",  # Spark has written where the batch ends
    "claimed",  # the source has written which messages it has
    "reading",  # a task has given some of them
    "writing",  # a task has sent some of them, in a transaction that is open
    "half-sent",  # a task has committed its transaction
    "sent",  # all of them have
    "committed",  # Spark has written that the batch is done
    "removing",  # half of its messages are removed from their queue
    "removed",  # all of them are; the claim still stands
    "settled",  # that too is gone; the next batch is not planned yet
)
STARTING_S = 600


class Move:
    """Two queues, and a query that moves everything from one into the other."""

    def __init__(self, server: Server, directory: Path, name: str, count: int) -> None:
        self.server = server
        self.source, self.target = f"{ORDERS}-{name}", f"{LEDGER}-{name}"
        self.checkpoint = directory / name
        self.halts = Halts(directory / "halts" / name)
        self.halts.folder.mkdir(parents=True)
        server.create(self.source)
        server.create(self.target, transactional=True)
        for priority in range(8):
            bodies = [f"order {number}" for number in range(priority, count, 8)]
            server.send(bodies, self.source, priority=priority)
        self.sent = server.numbered(self.source)

    @property
    def committed(self) -> Offset:
        """How far Spark says that it is."""
        done = [int(path.name) for path in self.checkpoint.glob("commits/[0-9]*")]
        if not done:
            return Offset()
        written = (self.checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8")
        return Offset.parse(written.splitlines()[-1])

    def is_sound(self) -> None:
        committed = self.committed
        gone = self.sent.keys() - self.server.numbered(self.source).keys()
        assert all(committed.covers(self.source, lookup_id) for lookup_id in gone), "removed too early"
        moved = self.server.bodies(self.target)
        assert len(moved) == len(set(moved)), "twice"
        assert {self.sent[lookup_id] for lookup_id in gone} <= set(moved), "lost"

    def is_done(self) -> None:
        assert sorted(self.server.bodies(self.target)) == sorted(self.sent.values())
        assert self.server.bodies(self.source) == [], "left behind"
        assert not list(self.checkpoint.glob("msmq-claims/*"))


def driver(directory: Path, *moves: Move) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """The program that does some moves, all at once."""
    words = ((move.source, move.target, str(move.checkpoint)) for move in moves)
    arguments = (moves[0].server.address, *chain.from_iterable(words))
    return program("tests.spark.driver", *arguments, **{VARIABLE: str(directory / "halts")})


def gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def test_a_driver_is_killed_at_every_phase(server: Server, tmp_path: Path) -> None:
    """A driver has a query for each phase, and is killed when each has come to its own; then once more, when each of
    them has come to another."""
    moves = [Move(server, tmp_path, phase, 60) for phase in PHASES]
    for turn in (0, 3):
        phases = [*PHASES[turn:], *PHASES[:turn]]
        for move, phase in zip(moves, phases, strict=True):
            move.halts.at(phase)
        with driver(tmp_path, *moves) as run:
            for move, phase in zip(moves, phases, strict=True):
                eventually(lambda m=move, p=phase: run.poll() is not None or m.halts.reached(p), STARTING_S)  # type: ignore[misc]
                assert run.poll() is None, f"it ended before {move.source} was {phase}"
                move.is_sound()
        for move, phase in zip(moves, phases, strict=True):
            waiting = move.halts.reached(phase)
            assert waiting is not None
            eventually(lambda w=waiting: gone(w))  # type: ignore[misc]
            move.halts.go_on(phase)
            move.is_sound()
    with driver(tmp_path, *moves) as run:
        assert run.wait(STARTING_S) == 0
    for move in moves:
        move.is_done()


def test_the_queue_manager_is_killed_at_every_phase(server: Server, tmp_path: Path) -> None:
    """The query goes on by itself; tasks that had a transaction open are repeated by Spark."""
    move = Move(server, tmp_path, "all", 200)
    move.halts.at(PHASES[0])
    with driver(tmp_path, move) as run:
        for phase, following in zip_longest(PHASES, PHASES[1:]):
            eventually(lambda p=phase: run.poll() is not None or move.halts.reached(p), STARTING_S)  # type: ignore[misc]
            assert run.poll() is None, f"it ended before it was {phase}"
            move.server.kill()
            move.server.start()
            move.is_sound()
            if following is not None:
                move.halts.at(following)
            move.halts.go_on(phase)
        assert run.wait(STARTING_S) == 0
    move.is_done()
