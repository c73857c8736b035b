"""The short form of fuzzing: known inputs, a fixed burst of mutations, and a look at the engine itself."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fuzz import run
from fuzz.mutate import claimed_lengths, mutations
from fuzz.oracles import BrokenPromiseError, Target, check_memory, memory_limit
from fuzz.seeds import CORPUS, REGRESSIONS, ROOT, file_name
from fuzz.targets import TARGETS
from tests.fuzz import planted

BURST = 2000
LARGE = 64 * 1024
LARGE_LIMIT_S = 10
CORPUS_LIMIT = 300_000

every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def inputs(target: Target, *folders: Path) -> list[bytes]:
    return [path.read_bytes() for folder in folders for path in sorted((folder / target.name).glob("*"))]


def some_inputs(target: Target, count: int) -> list[bytes]:
    """A few seeds, from the shortest to the longest."""
    seeds = sorted(inputs(target, CORPUS), key=len)
    return seeds[:: max(len(seeds) // count, 1)][: count - 1] + seeds[-1:]


@pytest.fixture
def counted_memory() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


@every_target
def test_what_is_known_finds_nothing(target: Target) -> None:
    for data in inputs(target, CORPUS, REGRESSIONS):
        check_memory(target, data)


@every_target
def test_a_burst_of_mutations_finds_nothing(target: Target) -> None:
    for data in mutations(inputs(target, CORPUS), BURST, target.max_len, seed=1801):
        target.check(data)


@every_target
@pytest.mark.usefixtures("counted_memory")
def test_memory_never_follows_a_claimed_length(target: Target) -> None:
    """Every number of a few seeds, wherever it may lie, replaced by a huge one."""
    for seed in some_inputs(target, 2):
        for data in claimed_lengths(seed[:256]):
            check_memory(target, data)


@every_target
@pytest.mark.usefixtures("counted_memory")
def test_time_and_memory_follow_the_size_of_a_large_input(target: Target) -> None:
    """Nothing is quadratic: a seed grown at its end to many times its size is done with at once."""
    for seed in (b"", *some_inputs(target, 4)):
        for filler in (b"\0", b"\xff", seed[-16:] or b"A"):
            data = (seed + filler * (LARGE // len(filler)))[:LARGE]
            started = time.process_time()
            check_memory(target, data)
            assert time.process_time() - started < LARGE_LIMIT_S


def test_the_corpus_is_small_and_named_by_its_content() -> None:
    kept = [path for root in (CORPUS, REGRESSIONS) for path in root.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < CORPUS_LIMIT
    assert [path.name for path in kept] == [file_name(path.read_bytes()) for path in kept]
    assert {path.parent.name for path in kept} == TARGETS.keys()


def test_a_memory_hog_is_found() -> None:
    hog = Target(
        "hog", lambda data: bytes(1 << 20) and None, max_len=1, weight=1, memory_factor=1, text=False
    )
    with pytest.raises(BrokenPromiseError, match="bytes of memory"):
        check_memory(hog, b"x")
    assert memory_limit(hog, b"x") < 1 << 20


def test_the_budget_follows_the_weights() -> None:
    budgets = run.share(TARGETS.values(), runs=1_000_000, seconds=300)
    assert budgets.keys() == TARGETS.keys()
    assert 1_000_000 <= sum(budget.runs for budget in budgets.values()) < 1_000_000 + len(TARGETS)
    assert budgets["resized_message"].runs > 10 * budgets["ping"].runs
    assert all(budget.seconds >= 2 for budget in budgets.values())


def test_a_replay_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").write_bytes(b"!")
    (tmp_path / "good").write_bytes(b"?")
    replay = ["--registry", planted.__name__, "--target", "planted", "--replay"]
    assert run.main([*replay, str(tmp_path / "bad")]) == 1
    assert "IndexError: planted" in capsys.readouterr().err
    assert run.main([*replay, str(tmp_path / "good")]) == 0
    assert "nothing found" in capsys.readouterr().out


needs_atheris = pytest.mark.skipif(
    find_spec("atheris") is None, reason="Atheris has no wheel for this platform"
)


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "fuzz/run.py", "--runs", "6000", "--seed", "1", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@needs_atheris
def test_the_engine_runs_two_targets(tmp_path: Path) -> None:
    done = campaign("--target", "user_message", "--target", "packet", "--scratch", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    for name in ("user_message", "packet"):
        executions, coverage = (int(cell.replace(",", "")) for cell in rows[name][1:3])
        assert executions >= 3000
        assert coverage > 100  # the code under test is instrumented


@needs_atheris
def test_the_engine_finds_a_planted_bug(tmp_path: Path) -> None:
    done = campaign("--registry", planted.__name__, "--scratch", str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "IndexError: planted" in done.stdout
    (reproducer,) = (tmp_path / "planted" / "findings").iterdir()
    assert f"--replay {reproducer} --target planted" in done.stdout
    assert reproducer.read_bytes()[:1] == b"!"
