"""Captures into tables, with and without Spark; shares of a file are the whole file, each packet once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from msmq.spark.decode import Task, decode, plan, read
from msmq.spark.schema import Table

SAMPLE = Path(__file__).parents[2] / "samples" / "session.pcap"


def rows(task: Task) -> list[dict[str, Any]]:
    return [
        row for batch in read(task, Table("activex"), port=1801, ping_port=3527) for row in batch.to_pylist()
    ]


def test_a_session_is_a_table(spark: SparkSession) -> None:
    found = decode(spark, [SAMPLE], body="activex").orderBy("time").collect()
    assert found
    kinds = {row["packet"] for row in found}
    assert {"Ping", "EstablishConnection", "ConnectionParameters", "UserMessage", "SessionAck"} <= kinds
    messages = [row for row in found if row["packet"] == "UserMessage"]
    assert all(row["label"] is not None and row["message_id"] for row in messages)
    others = [row for row in found if row["packet"] != "UserMessage"]
    assert all(row["label"] is None and row["message_id"] is None for row in others)
    assert {row["file"] for row in found} == {str(SAMPLE)}
    assert [row.asDict() for row in found if row["error"]] == []


def test_shares_of_a_file_are_the_file() -> None:
    whole = rows(Task(str(SAMPLE), 0, 1))
    for shares in (2, 3, 7):
        parts = [row for share in range(shares) for row in rows(Task(str(SAMPLE), share, shares))]
        assert sorted(map(key, parts)) == sorted(map(key, whole))


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["time"], row["source"], row["packet"], row["size"], row["message_id"] or "")


def test_what_cannot_be_read_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "cut.pcap").write_bytes(SAMPLE.read_bytes()[:-7])
    found = (
        decode(spark, [tmp_path / "empty.pcap", tmp_path / "cut.pcap"]).where("error IS NOT NULL").collect()
    )
    assert {Path(row["file"]).name for row in found} == {"empty.pcap", "cut.pcap"}


@pytest.mark.parametrize(("size", "shares"), [(0, 1), (10, 1), (11, 2), (95, 10), (10_000, 256)])
def test_large_files_are_shared(tmp_path: Path, size: int, shares: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    assert len(plan([path], split_bytes=10)) == shares


def test_both_directions_are_of_one_share() -> None:
    task = Task("x", 1, 5)
    for number in range(50):
        client, server = ("10.0.0.2", 40_000 + number), ("10.0.0.1", 1801)
        assert task.wants(client, server) == task.wants(server, client)  # type: ignore[arg-type]
