"""The short form of ``make spark-soak``: each kind of process is killed once or twice under one query."""

from __future__ import annotations

from pathlib import Path

from tests.spark.chaos import LOCAL, run


def test_every_message_of_three_queue_managers_once_whatever_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    kills = iter(["queue manager", "worker", "driver", "queue manager"])
    chaos = run(tmp_path, LOCAL, 7, kills, said.append)
    assert chaos.kills == {"queue manager": 2, "worker": 1, "driver": 1}, said
