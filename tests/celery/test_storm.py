"""Many tasks with retries and countdowns, while workers are recycled and killed: each is done, none is lost.

``make celery-storm`` does it with two thousand tasks (TASKS=).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from celery import Celery

from tests.celery.test_transport import broker, until, worker
from tests.cli.support import Live, serving

TASKS = int(os.environ.get("MSMQ_CELERY_TASKS", "60"))
KILLS = 3
PREFORK = ("--pool", "prefork", "-c", "2", "--max-tasks-per-child", "7")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with serving(tmp_path / "host") as running:
        yield running


def test_every_task_is_done(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "written"
    file.touch()
    with Celery(broker=broker(live)) as app:
        for number in range(TASKS):
            countdown = 0.5 if number % 7 == 0 else None
            app.send_task("tests.celery.tasks.stormy", (str(file), number), countdown=countdown)

    told = [0]

    def done() -> set[str]:
        found = set(file.read_text().split())
        if len(found) * 20 // TASKS > told[0]:  # a long storm says how far it is
            told[0] = len(found) * 20 // TASKS
            print(f"{len(found):,} of {TASKS:,} tasks are done", flush=True)
        return found

    wait_s = 60 + TASKS
    with ExitStack() as workers:
        workers.enter_context(worker(live, *PREFORK, "-n", "steady@host"))
        for kill in range(KILLS):
            with worker(live, *PREFORK, "-n", f"victim{kill}@host") as victim:
                goal = TASKS * (kill + 1) // (KILLS + 1)
                until(lambda: len(done()) >= goal, wait_s)  # noqa: B023
                victim.kill()
                victim.wait(120)
        until(lambda: len(done()) == TASKS, wait_s)
        until(lambda: not live.bodies(".\\private$\\celery"), wait_s)
    assert done() == {str(number) for number in range(TASKS)}
    assert live.bodies(".\\private$\\celery;rejected") == []
