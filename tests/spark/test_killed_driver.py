"""A driver that is killed at every phase of a batch, and the queue manager too: every message arrives exactly once,
none is left behind, and none is removed before its batch is committed."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

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
STARTING_S = 300


class Move:
    """Two queues, and a query that moves everything from one into the other."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.checkpoint = directory / "checkpoint"
        self.halts = Halts(directory / "halts")
        self.halts.folder.mkdir()
        server.create(ORDERS)
        server.create(LEDGER, transactional=True)
        for priority in range(8):
            server.send([f"order {number}" for number in range(priority, 200, 8)], priority=priority)
        self.sent = server.numbered(ORDERS)

    @property
    def driver(self) -> tuple[str, str, str]:
        return "tests.spark.driver", self.server.address, str(self.checkpoint)

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
        gone = self.sent.keys() - self.server.numbered(ORDERS).keys()
        assert all(committed.covers(ORDERS, lookup_id) for lookup_id in gone), "removed too early"
        moved = self.server.bodies(LEDGER)
        assert len(moved) == len(set(moved)), "twice"
        assert {self.sent[lookup_id] for lookup_id in gone} <= set(moved), "lost"

    def is_done(self) -> None:
        assert sorted(self.server.bodies(LEDGER)) == sorted(self.sent.values())
        assert self.server.bodies(ORDERS) == [], "left behind"
        assert not list(self.checkpoint.glob("msmq-claims/*"))


@pytest.fixture
def move(server: Server, tmp_path: Path) -> Move:
    return Move(server, tmp_path)


def gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def test_a_driver_is_killed_at_every_phase(move: Move) -> None:
    for phase in PHASES:
        move.halts.at(phase)
        with program(*move.driver, **{VARIABLE: str(move.halts.folder)}) as driver:
            eventually(lambda p=phase, d=driver: d.poll() is not None or move.halts.reached(p), STARTING_S)  # type: ignore[misc]
            assert driver.poll() is None, f"it ended before it was {phase}"
            move.is_sound()
        waiting = move.halts.reached(phase)
        assert waiting is not None
        eventually(lambda w=waiting: gone(w))  # type: ignore[misc]
        move.halts.go_on(phase)
        move.is_sound()
    with program(*move.driver, **{VARIABLE: str(move.halts.folder)}) as driver:
        assert driver.wait(STARTING_S) == 0
    move.is_done()


def test_the_queue_manager_is_killed_at_every_phase(move: Move) -> None:
    """The query goes on by itself; tasks that had a transaction open are repeated by Spark."""
    move.halts.at(PHASES[0])
    with program(*move.driver, **{VARIABLE: str(move.halts.folder)}) as driver:
        for phase, following in zip_longest(PHASES, PHASES[1:]):
            eventually(lambda p=phase: driver.poll() is not None or move.halts.reached(p), STARTING_S)  # type: ignore[misc]
            assert driver.poll() is None, f"it ended before it was {phase}"
            move.server.kill()
            move.server.start()
            move.is_sound()
            if following is not None:
                move.halts.at(following)
            move.halts.go_on(phase)
        assert driver.wait(STARTING_S) == 0
    move.is_done()
