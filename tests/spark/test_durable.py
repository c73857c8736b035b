"""What is flushed, and when: files and names, before a queue forgets what is in them."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import Any

import pytest

from msmq.client.queue import Removal
from msmq.spark import durable
from msmq.spark.claims import Claims
from msmq.spark.durable import make_durable
from msmq.store import system
from tests.spark.test_claims import at, part


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were flushed, in their order."""
    paths: list[str] = []

    def sync_data(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        system.sync_data(descriptor)

    def sync_directory(path: Path) -> None:
        paths.append(str(path))
        system.sync_directory(path)

    monkeypatch.setattr(durable, "sync_data", sync_data)
    monkeypatch.setattr(durable, "sync_directory", sync_directory)
    return paths


def test_a_folder_with_all_that_is_in_it(tmp_path: Path, flushed: list[str]) -> None:
    inner = tmp_path / "batch" / "queue=a"
    inner.mkdir(parents=True)
    (inner / "x.parquet").touch()
    (tmp_path / "batch" / "_SUCCESS").touch()
    make_durable(tmp_path / "batch")
    expected = [inner / "x.parquet", inner, tmp_path / "batch" / "_SUCCESS", tmp_path / "batch", tmp_path]
    assert flushed == [str(path) for path in expected]


def test_a_file_and_what_is_not_there(tmp_path: Path, flushed: list[str]) -> None:
    make_durable(tmp_path / "none")
    assert flushed == []
    (tmp_path / "7").touch()
    make_durable(tmp_path / "7")
    assert flushed == [str(tmp_path / "7"), str(tmp_path)]


def test_a_commit_is_on_the_disk_before_its_messages_are_removed(tmp_path: Path, flushed: list[str]) -> None:
    end = at({"q": {0: 5}})
    for folder, text in (("offsets", f"v1\n{{}}\n{end.json()}"), ("commits", "v1\n{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text, encoding="utf-8")

    class Queue:
        def remove(self, server: str, queue: str, lookup_ids: array[int], identity: object) -> Removal:
            assert {str(tmp_path / "offsets" / "0"), str(tmp_path / "commits" / "0")} <= set(flushed)
            return Removal(len(lookup_ids), 0, 0)

    claims = Claims(str(tmp_path))
    claims.make(None, end, [part("q", 5)])
    door: Any = Queue()
    assert claims.settle(door) == 1
