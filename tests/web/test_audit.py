"""The record of changes outlives its writer."""

from __future__ import annotations

from pathlib import Path

from msmq.web.audit import Audit


def test_lines_are_kept_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    Audit(file).note("S-1", "10.0.0.1", "purge_queue", "done", queue="a\nb\u2028")
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_text().splitlines()) == 1
    file.write_text(file.read_text() + '{"cut')
    again = Audit(file)
    assert [(line["who"], line["queue"]) for line in again.newest_first()] == [("S-1", "a\nb\u2028")]


def test_a_large_file_makes_room_for_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"\n" * ((16 << 20) + 1))
    Audit(file).note("S-1", "x", "y", "done")
    assert file.stat().st_size < 1000
    assert (tmp_path / "audit.old").exists()


def test_without_a_file_only_the_last_are_remembered() -> None:
    audit = Audit(None)
    for number in range(1_100):
        audit.note(str(number), "x", "y", "done")
    assert [line["who"] for line in audit.newest_first()][::999] == ["1099", "100"]
