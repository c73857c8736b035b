"""The fuzz campaign: ``python fuzz/run.py [--target NAME] [--runs N | --seconds S] [--jobs J]``.

Each target runs under Atheris in a child process, from the committed seeds in fuzz/corpus, the past findings
in fuzz/regressions and whatever earlier campaigns left in build/fuzz. One line per target says how it went. A
finding makes the exit status 1 and prints the input's path and the command that replays it.
"""

from __future__ import annotations

import argparse
import importlib
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from fuzz.oracles import Target, check_memory  # noqa: E402

FUZZ: Final = ROOT / "fuzz"
SCRATCH: Final = ROOT / "build" / "fuzz"
DEFAULT_SECONDS: Final = 300
TIMEOUT_S: Final = 10
RSS_LIMIT_MB: Final = 1024

_PROGRESS = re.compile(
    r"^#\d+\s+\w+\s+cov: (?P<cov>\d+) ft: (?P<ft>\d+) corp: (?P<corpus>\d+)/", re.MULTILINE
)
_STATISTIC = re.compile(r"^stat::(?P<name>\w+):\s+(?P<value>\d+)$", re.MULTILINE)
_ARTIFACT = re.compile(r"Test unit written to (?P<path>\S+)")
_EXCEPTION = re.compile(r"=== Uncaught Python exception: ===\s*\n(?P<line>[^\n]*)")

COLUMNS: Final = ("target", "executions", "cov", "ft", "corpus", "execs/s", "peak RSS", "seconds", "findings")
_ROW: Final = "{:<16}{:>12}{:>7}{:>7}{:>8}{:>10}{:>10}{:>9}  {}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one target's run ended."""

    target: str
    executions: int
    cov: int
    ft: int
    corpus: int
    executions_per_s: int
    peak_rss_mb: int
    seconds: float
    finding: str | None = None
    reproducer: Path | None = None

    @property
    def row(self) -> str:
        counts = (f"{self.executions:,}", self.cov, self.ft, self.corpus, f"{self.executions_per_s:,}")
        usage = (f"{self.peak_rss_mb} MB", f"{self.seconds:.0f}")
        return _ROW.format(self.target, *counts, *usage, self.finding or "none")


@dataclass(frozen=True, slots=True)
class Budget:
    """What one target gets: executions if there are any, else seconds."""

    runs: int
    seconds: int


def share(targets: Iterable[Target], runs: int, seconds: int) -> dict[str, Budget]:
    """Divide a campaign among its targets by their weights."""
    chosen = list(targets)
    total = sum(target.weight for target in chosen)
    return {
        target.name: Budget(-(-runs * target.weight // total), max(seconds * target.weight // total, 2))
        for target in chosen
    }


def read_outcome(target: str, log: str, seconds: float, exit_status: int) -> Outcome:
    """What libFuzzer's output says. A child that died without a word of it is a finding too."""
    statistics = {found["name"]: int(found["value"]) for found in _STATISTIC.finditer(log)}
    reached = [found.groupdict() for found in _PROGRESS.finditer(log)]
    progress = reached[-1] if reached else {"cov": "0", "ft": "0", "corpus": "0"}
    artifact = _ARTIFACT.search(log)
    exception = _EXCEPTION.search(log)
    finding = None
    if exit_status or artifact:
        finding = exception["line"] if exception else f"the fuzzer ended with status {exit_status}"
    return Outcome(
        target,
        statistics.get("number_of_executed_units", 0),
        int(progress["cov"]),
        int(progress["ft"]),
        int(progress["corpus"]),
        statistics.get("average_exec_per_sec", 0),
        statistics.get("peak_rss_mb", 0),
        seconds,
        finding,
        Path(artifact["path"]) if artifact else None,
    )


def fuzz(target: Target, budget: Budget, *, registry: str, scratch: Path, seed: int) -> Outcome:
    """Run one target to the end of its budget or to its first finding."""
    home = scratch / target.name
    corpus, findings = home / "corpus", home / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    sources = [FUZZ / kind / target.name for kind in ("corpus", "regressions")]
    limit = f"-runs={budget.runs}" if budget.runs else f"-max_total_time={budget.seconds}"
    command = [
        *(sys.executable, "-m", "fuzz.engine", registry, target.name),
        *(limit, f"-seed={seed}", f"-max_len={target.max_len}", f"-dict={FUZZ / target.dictionary}"),
        *(f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={RSS_LIMIT_MB}", "-print_final_stats=1"),
        f"-artifact_prefix={findings}/",
        *map(str, (corpus, *(folder for folder in sources if folder.is_dir()))),
    ]
    started = time.monotonic()
    with (home / "log").open("wb") as log:
        child = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False)
    text = (home / "log").read_text(errors="replace")
    return read_outcome(target.name, text, time.monotonic() - started, child.returncode)


def campaign(targets: list[Target], arguments: argparse.Namespace) -> int:
    budgets = share(targets, arguments.runs, arguments.seconds)
    print(_ROW.format(*COLUMNS), flush=True)

    def one(target: Target) -> Outcome:
        outcome = fuzz(
            target,
            budgets[target.name],
            registry=arguments.registry,
            scratch=arguments.scratch,
            seed=arguments.seed,
        )
        print(outcome.row, flush=True)
        return outcome

    started = time.monotonic()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(one, targets))
    executions = sum(outcome.executions for outcome in outcomes)
    broken = [outcome for outcome in outcomes if outcome.finding]
    print(f"{executions:,} executions in {time.monotonic() - started:.0f} s, {len(broken)} findings")
    for outcome in broken:
        print(f"\n{outcome.target}: {outcome.finding}")
        print(f"  log:    {arguments.scratch / outcome.target / 'log'}")
        if outcome.reproducer is not None:
            print(f"  input:  {outcome.reproducer}")
            print(f"  replay: python fuzz/run.py --replay {outcome.reproducer} --target {outcome.target}")
    return 1 if broken else 0


def replay(target: Target, path: Path) -> int:
    """Run one input again, with its allocations counted, without a fuzzing engine."""
    try:
        check_memory(target, path.read_bytes())
    except Exception:
        traceback.print_exc()
        return 1
    print(f"{target.name}: nothing found in {path}")
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fuzz the decoders.")
    option = parser.add_argument
    option("--target", action="append", help="only this one; may be given several times")
    option("--runs", type=int, default=0, help="executions in all; then --seconds is not looked at")
    option("--seconds", type=int, default=DEFAULT_SECONDS, help="time in all (default %(default)s)")
    option("--jobs", type=int, default=1, help="targets at the same time (default %(default)s)")
    option("--seed", type=int, default=0, help="of the fuzzer's dice; 0 means another each time")
    option("--replay", type=Path, metavar="FILE", help="run one input through --target and stop")
    option("--scratch", type=Path, default=SCRATCH, help="where campaigns keep what they find")
    option("--registry", default="fuzz.targets", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    known: dict[str, Target] = importlib.import_module(arguments.registry).TARGETS
    names = arguments.target or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.replay is None:
        return campaign([known[name] for name in names], arguments)
    if len(names) != 1:
        parser.error("--replay needs one --target")
    return replay(known[names[0]], arguments.replay)


if __name__ == "__main__":
    sys.exit(main())
