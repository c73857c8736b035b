"""Replays: in order, by filter, once, and on from where they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from msmq.spark import replay as replaying
from msmq.spark.replay import replay
from tests.spark.support import LEDGER, ORDERS, Server


def test_a_replay_goes_on_where_it_was(
    spark: SparkSession, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    server.send([f"order {number:02}" for number in range(25)], label="wanted")
    server.send(["other"], label="unwanted")
    monkeypatch.setattr(replaying, "CHUNK", 10)
    table = spark.read.format("msmq").option("server", server.address).option("queue", ORDERS).load()
    messages = table.where("label = 'wanted'")
    options = {"server": server.address, "queue": LEDGER}

    class Stopped(Exception):  # noqa: N818
        pass

    def stop(done: int) -> None:
        if done >= 10:
            raise Stopped

    with pytest.raises(Stopped):
        replay(messages, options, name="test", progress=stop)
    seen: list[int] = []
    assert replay(messages, options, name="test", rate=1_000, progress=seen.append) == 15
    assert seen == [10, 20, 25]
    assert server.bodies(LEDGER) == [f"order {number:02}" for number in range(25)]
    assert replay(messages, options, name="test") == 0, "it was done"
    assert replay(messages, options, name="test", again=True) == 25
