"""Captures into tables, with and without Spark; shares of a file are the whole file, each packet once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from msmq.capture.cutter import Whole
from msmq.capture.inputs import Found
from msmq.spark import decode as decoding
from msmq.spark.decode import MOST_SHARES, Task, columns_of, decode, plan, read
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import SessionAck
from tests.spark.test_packets import packets

SAMPLE = Path(__file__).parents[2] / "samples" / "session.pcap"


def rows(task: Task) -> list[dict[str, Any]]:
    return [
        row
        for batch in read(task, columns_of("activex"), port=1801, ping_port=3527)
        for row in batch.to_pylist()
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


@pytest.mark.parametrize(("size", "shares"), [(0, 1), (10, 1), (11, 2), (75, 8), (10_000, MOST_SHARES)])
def test_large_files_are_shared(tmp_path: Path, size: int, shares: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    expected = [[Task(str(path), share, shares)] for share in range(shares)]
    assert plan([path], split_bytes=10) == expected


def test_small_files_are_read_together(tmp_path: Path) -> None:
    paths = []
    for number, size in enumerate((5, 20 << 20, 12 << 20, 40 << 20, 7)):
        paths.append(tmp_path / str(number))
        with paths[-1].open("wb") as file:
            file.truncate(size)
    groups = [[Path(task.path).name for task in group] for group in plan(paths)]
    assert groups == [["0", "1"], ["3"], ["2", "4"]]


def test_shares_number_their_streams_apart() -> None:
    numbers = [Task("x", share, 3).stream(number) for share in range(3) for number in range(1, 5)]
    assert sorted(numbers) == list(range(1, 13))
    assert Task("x").stream(7) == 7


def test_a_batch_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "BATCH_BYTES", 1)
    batches = list(read(Task(str(SAMPLE)), columns_of(), port=1801, ping_port=3527))
    assert all(sum(row is not None for row in batch["label"].to_pylist()) <= 1 for batch in batches)
    assert sum(batch.num_rows for batch in batches) == len(rows(Task(str(SAMPLE))))


def test_both_directions_are_of_one_share() -> None:
    task = Task("x", 1, 5)
    for number in range(50):
        client, server = ("10.0.0.2", 40_000 + number), ("10.0.0.1", 1801)
        assert task.wants(client, server) == task.wants(server, client)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(("plain", "answered", "acknowledgment", "broken")), max_size=60))
def test_packets_of_all_kinds_stay_in_their_places(kinds: list[str]) -> None:
    (plain,), (answered,) = packets(1), packets(1, response_queue_format_name="DIRECT=OS:a\\private$\\b")
    broken = bytearray(plain)
    broken[UserMessage.decode(plain).properties_offset + 52] ^= 0xFF  # the size of the extension
    data = {
        "plain": plain,
        "answered": answered,
        "acknowledgment": SessionAck.of(SessionHeader()).encode(),
        "broken": bytes(broken),
    }
    rows = decoding._Rows(Task("file"), columns_of())
    for kind in kinds:
        rows.add(Found(Whole(0, data[kind])))
    rows.unreadable("the end")
    found = rows.batch()
    found.validate(full=True)
    answers = {"plain": "DIRECT=OS:host\\private$\\answers", "answered": "DIRECT=OS:a\\private$\\b"}
    assert found["response_queue"].to_pylist() == [*map(answers.get, kinds), None]
    names = {"acknowledgment": "SessionAck", "broken": "Malformed"}
    assert found["packet"].to_pylist() == [
        *(names.get(kind, "UserMessage") for kind in kinds),
        "Malformed",
    ]
    assert [error is not None for error in found["error"].to_pylist()] == [
        *(kind == "broken" for kind in kinds),
        True,
    ]
