"""The order in which files are tested (tests/plugins/order.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugins import order

COUNTS = {"long": 5, "longer": 5, "longest": 5, "half": 5, **{f"short {number}": 10 for number in range(6)}}
SECONDS = {"longest": 90.0, "longer": 60.0, "long": 50.0, "half": 30.0, "not here": 1.0}


def test_each_process_begins_with_its_share_of_what_is_long() -> None:
    found = order.order(COUNTS, SECONDS, (), 2)
    assert sorted(found) == sorted(COUNTS), "each once"
    assert found[:2] == ["longest", "half"]
    second = found.index("longer")
    assert found[second:][:2] == ["longer", "long"]
    assert sum(COUNTS[name] for name in found[:second]) == 40, (
        "the first part of the list has half of the tests"
    )
    assert found[-1].startswith("short")


def test_files_that_share_something_stay_together() -> None:
    found = order.order(COUNTS, SECONDS, ("long", "half", "short 0"), 2)
    assert abs(found.index("long") - found.index("half")) == 1
    assert order.together(["long", "longer", "half"], SECONDS, 2) == [["longer", "long"], ["half"]], (
        "none has more than its share"
    )


def test_what_is_written_down_is_there() -> None:
    root = Path(__file__).parents[1]
    assert [name for name in order.weights() if not (root / name).is_file()] == []


def test_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "seconds.json"
    file.write_text('{"gone.py": 7.0, "seconds.json": 3.0, "test_it.py": 9.0}')
    monkeypatch.setattr(order, "WEIGHTS", file)
    scales = order.Scales(tmp_path)
    for name, seconds in (("test_it.py::a", 1.5), ("test_it.py::b", 1.0), ("test_quick.py::c", 0.1)):
        report = pytest.TestReport(name, ("", 0, ""), {}, "passed", None, "call", duration=seconds)
        scales.pytest_runtest_logreport(report)
    scales.pytest_sessionfinish()
    assert json.loads(file.read_text()) == {"seconds.json": 3.0, "test_it.py": 2.5}
