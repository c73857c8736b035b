"""What the daemon did, counted."""

from __future__ import annotations

from pathlib import Path

from msmq.server.work import Histogram, Work, disk_free_bytes


def test_a_histogram_counts_each_value_once_at_its_bound() -> None:
    counted = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        counted.add(value)
    told = counted.to_proto()
    assert (list(told.bounds), list(told.counts), told.sum) == ([1.0, 2.0], [2, 2, 1], 14.0)


def test_commits_and_lag(tmp_path: Path) -> None:
    work = Work()
    durable = 7
    work.follow(lambda: durable)
    durable = 10
    work.committed(1000, 0.002)
    durable = 50
    work.committed(5000, 0.2)
    work.late(-0.1)
    told = work.to_proto(7, 5, {"Established": 2}, tmp_path)
    assert (told.commits_total, told.committed_bytes_total) == (2, 6000)
    assert (told.store_bytes, told.store_live_bytes) == (7, 5)
    assert told.commit_records.sum == 43
    assert dict(told.connection_attempts) == {"Established": 2}
    assert told.memory_bytes > 1 << 20
    assert told.disk_free_bytes > 0
    assert disk_free_bytes(tmp_path / "missing") == 0
    assert sum(told.loop_lag_seconds.counts) == told.loop_lag_seconds.counts[0] == 1
