"""The mutants of rows: scripts/mutations.py and scripts/mutants.py."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import conformance, mutants
from scripts.mutations import mutations

ROOT = Path(__file__).resolve().parent.parent


def changed(line: str) -> set[str]:
    """What becomes of one line of a function."""
    text = f"def function(self, a, b):\n    {line}\n"
    found = {m.apply(text) for m in mutations(text)}
    for mutated in found:
        ast.parse(mutated)
    return {mutated.splitlines()[1].strip() for mutated in found}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {"return a <= b", "return a >= b"}),
        ("return a == b", {"return a != b"}),
        ("return a not in b", {"return a in b"}),
        ("return a and b", {"return a or b"}),
        (
            "return 'ä' in a and b",
            {"return 'ä' not in a and b", "return 'ä' in a or b", "return 'äX' in a and b"},
        ),
        ("return a + 2", {"return a - 2", "return a + 3"}),
        ("if not a: raise b", {"if a: raise b", "if not a: pass"}),
        ("self.x = a", {"pass"}),
        ("a(b)", {"pass"}),
        ("a += b", {"pass"}),
        ("return True", {"return False"}),
        ("log.info('%d left', 3)", set()),
        ("assert a == 3, 'never'", set()),
        ('"""A docstring."""', set()),
    ],
)
def test_what_is_changed(line: str, expected: set[str]) -> None:
    assert changed(line) == expected


def test_what_is_made_in_a_constructor_is_not_dropped() -> None:
    text = "class A:\n    def __init__(self):\n        super().__init__()\n        self.x = 3\n"
    assert [m.apply(text).splitlines()[3].strip() for m in mutations(text)] == ["self.x = 4"]


def test_lines_keep_their_numbers_and_entries_of_tables_are_known() -> None:
    text = "TABLE = {\n    'A': call(\n        1,\n    ),\n    'B': 2,\n}\n\n\ndef f():\n    g(\n        h,\n    )\n"
    found = mutations(text)
    assert {m.apply(text).count("\n") for m in found} == {text.count("\n")}
    assert {m.entry for m in found if m.line == 5} == {"'B': 2"}
    assert {(m.line, m.function) for m in found} == {(2, ""), (3, ""), (5, ""), (10, "f")}


def test_what_is_broken_by_hand_is_there() -> None:
    rows = conformance.load_inventory(conformance.Home().inventory)
    entries = tomllib.loads((ROOT / "conformance" / "mutants.toml").read_text(encoding="utf-8"))
    for entry in entries["by_hand"]:
        assert entry["row"] in rows
        assert (ROOT / "src" / entry["file"]).read_text(encoding="utf-8").count(entry["old"]) == 1, entry
    for entry in entries.get("explained", []):
        lines = (ROOT / "src" / entry["file"]).read_text(encoding="utf-8").splitlines()
        assert entry["old"] in map(str.strip, lines), entry
        assert entry["why"]


class Busy(mutants.Bench):
    """A bench whose runs end as they are told; None for those that take too long."""

    def __init__(self, *statuses: int | None) -> None:
        self.statuses = list(statuses)

    def attempt(self, mutant: mutants.Mutant, tests: mutants.Tests) -> int | None:
        self.limit_by_s = tests.seconds
        return self.statuses.pop(0)

    def weigh(self, tests: mutants.Tests, limit_s: float) -> bool:
        tests.seconds = 7.0
        return True


@pytest.mark.parametrize(
    ("statuses", "survives"),
    [([0], True), ([1], False), ([None, 0], True), ([None, 1], False), ([None, None], False)],
)
def test_what_takes_too_long_is_tried_again_by_the_pace_of_now(
    statuses: list[int | None], survives: bool
) -> None:
    bench, tests = Busy(*statuses), mutants.Tests(seconds=2.0)
    assert bench.survives(mutants.Mutant("AA-1-a", "", "", "", 1, ""), tests) is survives
    assert not bench.statuses
    assert bench.limit_by_s == (2.0 if len(statuses) == 1 else 7.0)


RULES = """
class Kind:
    SPECIAL_KIND = 7


def strong(number):
    return number > 3


def weak(number):
    return number > 3
"""
PART = """
def part(number):
    return number > 3
"""
TESTS = """
import subprocess, sys
import pytest
from msmq.room.part import part
from msmq.rules import Kind, strong, weak

@pytest.mark.spec("AA-1-a")
def test_strong():
    assert [strong(number) for number in (2, 3, 4)] == [False, False, True]

@pytest.mark.spec("AA-1-b")
def test_weak():
    assert weak(9) in (True, False)

@pytest.mark.spec("AA-1-c")
def test_declared():
    assert Kind.SPECIAL_KIND == 7

@pytest.mark.spec("AA-1-d")
def test_elsewhere():
    code = "from msmq.rules import strong; print(strong(4))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.strip() == b"True"

@pytest.mark.spec("AA-1-e")
def test_part():
    assert part(9) in (True, False)
"""
ROOM = """
from msmq.room.part import part

def test_all_of_the_room():
    assert [part(number) for number in (3, 4)] == [False, True]
"""


def test_survivors_are_those_that_no_test_notices(tmp_path: Path) -> None:
    """A small project: what a test imports, declares or starts is broken, and only the weak test passes."""
    titles = ("Strong", "Weak", "SPECIAL_KIND", "Elsewhere", "Part")
    rows = "".join(
        f"AA-1-{letter}\tMS-AA\t1\trule\t{title}\n" for letter, title in zip("abcde", titles, strict=True)
    )
    explained = '[[explained]]\nrow = "AA-1-b"\nfile = "msmq/rules.py"\n'
    explained += 'old = "return number > 3"\nnew = "return number >= 3"\n'
    by_hand = '[[by_hand]]\nrow = "AA-1-d"\nfile = "msmq/rules.py"\n'
    by_hand += (
        'old = "strong(number):\\n    return number > 3"\nnew = "strong(number):\\n    return number > 5"\n'
    )
    files = {
        "src/msmq/__init__.py": "",
        "src/msmq/rules.py": RULES,
        "src/msmq/room/__init__.py": "",
        "src/msmq/room/part.py": PART,
        "tests/test_rules.py": TESTS,
        "tests/test_room.py": ROOM,
        "pytest.ini": "[pytest]\nmarkers = spec(*ids): rows\naddopts = -p no:schemathesis -p no:anyio\n",
        "conformance/inventory.tsv": "id\tspec\tsection\tkind\ttitle\n" + rows,
        "conformance/mutants.toml": f'{explained}why = "Nobody asks."\n\n{by_hand}',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "scripts.mutants", "--root", str(tmp_path), "--cap", "9"]
    command += ["--rows", "AA-1-a", "AA-1-b", "AA-1-c", "AA-1-d", "AA-1-e"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    assert (
        "AA-1-b (Weak) src/msmq/rules.py:11\n-    return number > 3\n+    return number <= 3" in done.stdout
    )
    assert "AA-1-b (Weak) src/msmq/rules.py:11 explained: Nobody asks." in done.stdout
    assert "AA-1-b (Weak) src/msmq/rules.py:11\n-    return number > 3\n+    return number > 4" in done.stdout
    assert "src/msmq/room/part.py:3 noticed by the tests of tests/test_room.py" in done.stdout
    told = "rows=5 mutants=14 killed=7 elsewhere=4 explained=1 survived=2 rows_with_survivors=1"
    assert told in done.stdout
    assert (tmp_path / "src/msmq/rules.py").read_text(encoding="utf-8") == RULES
