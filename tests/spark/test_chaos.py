"""The short form of ``make spark-soak``: each kind of process is killed once or twice under one query."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.spark.chaos import LOCAL, run
from tests.spark.soak import Soak


def test_every_message_of_three_queue_managers_once_whatever_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    kills = ["queue manager", "worker", "driver", "queue manager"]
    chaos = run(tmp_path, LOCAL, 7, lambda _: kills, said.append)
    assert chaos.kills == {"queue manager": 2, "worker": 1, "driver": 1}, said


def test_a_soak_goes_on_until_it_has_its_minutes_and_its_kills(capsys: pytest.CaptureFixture[str]) -> None:
    begun, over, late = (Soak(10, 100, time.monotonic() - 60 * minutes) for minutes in (1, 11, 41))
    assert begun.goes_on(200), "not all minutes are over"
    assert over.goes_on(99), "one kill is missing"
    assert not over.goes_on(100)
    assert not late.goes_on(99), "this computer is too slow"
    over.end(Counter(driver=40, worker=60), "all is well")
    assert capsys.readouterr().out == "100 kills in 11 minutes (worker 60, driver 40): all is well\n"
    with pytest.raises(SystemExit, match="100 kills were wanted"):
        late.end(Counter(driver=99), "all is well")
