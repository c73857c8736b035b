"""Replays: in order, by filter, once, and on from where they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from msmq.spark import replay as replaying
from msmq.spark.archive import archive
from msmq.spark.replay import ReplayError, replay
from tests.spark.support import LEDGER, ORDERS, Server, environment, eventually


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
    server.send(["order 25"], label="wanted")
    messages = spark.read.format("msmq").option("server", server.address).option("queue", ORDERS).load()
    messages = messages.where("label = 'wanted'")  # a table is what it was when it was first read
    assert replay(messages, options, name="test") == 1, "what has come since"
    with pytest.raises(ReplayError, match="not those"):
        replay(messages.where("lookup_id % 5 > 0"), options, name="test")
    assert replay(messages, options, name="test", again=True) == 26


def command(server: Server, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """``msmq pipeline replay`` in a process group of its own, because it has a virtual machine."""
    words = ["-m", "msmq", "pipeline", "replay", str(folder), "--queue", LEDGER, "--server", server.address]
    return subprocess.Popen(
        [sys.executable, *words, "--master", "local[1]", *more], env=environment(), start_new_session=True
    )


def test_a_replay_that_is_killed_doubles_nothing(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    everything = [f"order {number:04}" for number in range(1_600)]
    server.send(everything)
    folder = tmp_path / "archive"
    assert archive(spark, str(folder), {"server": server.address, "queue": ORDERS}).awaitTermination(600)
    run = command(server, folder, "--rate", "400")  # four chunks, each more than a second apart
    try:
        eventually(lambda: run.poll() is not None or server.bodies(LEDGER), 600)
        assert run.poll() is None, "it ended too early to be killed"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert 0 < len(server.bodies(LEDGER)) < len(everything)
    assert command(server, folder).wait(600) == 0
    assert server.bodies(LEDGER) == everything


def test_messages_of_two_servers_are_told_apart() -> None:
    """Two queue managers give the same number to messages that came in the same second."""
    rows: list[dict[str, Any]] = [
        {"arrived_time": 5, "queue": ORDERS, "lookup_id": 7, "queue_manager": name} for name in ("a", "b")
    ]
    first, second = map(replaying._place, rows)
    assert first != second
    assert [replaying._is_at(rows[0], last) for last in (first, second, first[:3], None)] == [
        True,
        False,
        True,
        False,
    ]
