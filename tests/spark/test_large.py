"""``make spark-large`` takes minutes and is no test; that it begins with all its works is one, and what it compares."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.spark.large import WORKS, body, chosen, is_whole


def test_everything_is_done_unless_some_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen([]) == list(WORKS)
    assert chosen(["store", "large"]) == ["store", "large"]
    with pytest.raises(SystemExit):
        chosen(["small"])
    assert "there is no small, but large, many, capture, store" in capsys.readouterr().err


def test_whatever_is_missing_twice_or_changed_is_noticed(tmp_path: Path) -> None:
    whole = [body(number, 100) for number in range(5)]
    for name, found in {
        "whole": whole,
        "missing": whole[1:],
        "twice": [*whole, whole[3]],
        "changed": [*whole[:4], whole[4][:-1] + b"?"],
        "cut": [*whole[:4], whole[4][:-1]],
    }.items():
        (tmp_path / name).mkdir()
        parquet.write_table(pa.table({"body": pa.array(found)}), tmp_path / name / "rows.parquet")
        if name == "whole":
            is_whole(tmp_path / name, 5, 100)
        else:
            with pytest.raises(AssertionError):
                is_whole(tmp_path / name, 5, 100)
