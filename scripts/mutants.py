"""Whether the tests of a row notice when its rule is broken: ``make mutants``.

How it works. Pytest collects the whole tree once, on a temporary copy of ``src``; every run after that is a
forked process. First the marked tests of the chosen rows run once under coverage. Lines that few other rows
execute are taken for the row's own; so are declarations (members of enumerations, constants, entries of tables)
that the row's title names. Mutations of those (``scripts/mutations.py``), and those written by hand in
``conformance/mutants.toml``, are made one at a time in the copy, and the row's tests run against it: functions
that are loaded already get their mutated code, what a test starts or imports later comes from the copy. A row
whose tests have noticed none of its mutants gets more of them.

A mutant that passes the row's own tests goes to the tests of a few other rows that execute the line, and then to
the test modules that are about the mutated module. When none of these notices it either, it has survived: it is
printed as a diff, unless ``conformance/mutants.toml`` explains it. So a survivor is something that no test would
notice, and a row that is *unmoved* is one whose own tests noticed nothing.

Everything is decided by the seed: the same rows, seed and source give the same mutants.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import coverage
import pytest

from scripts import conformance
from scripts.mutations import Mutation, mutations
from scripts.samba_dc import lease

ROOT = Path(__file__).resolve().parent.parent
# So many other rows are traced first: what they execute too is not the row's own.
BACKGROUND = 20
# Of the rows that execute a line too, so many are asked whether they notice what the row itself did not.
OTHERS = 3
# A word of more than this share of all titles says nothing about a row.
COMMON = 0.02
# A row whose tests have noticed nothing yet gets so many times the usual number of mutants.
PATIENCE = 3
# So many test modules of the mutated module are asked too, each if it takes no more seconds on the whole source.
MODULES = 5
MODULE_LIMIT_S = 45.0
# Not the code of any rule: tools for tests, code that others generate, words for people, and doors to other systems.
EXEMPT = (
    "msmq/testing/",
    "msmq/api/generated/",
    "msmq/wire/meanings.py",
    "msmq/cli/",
    "msmq/web/",
    "msmq/spark/",
    "msmq/celery/",
)
# The exit status of a forked run that did not get to the end of its tests.
CRASHED = 70
PYTEST = ("-q", "-x", "-s", "-p", "no:cacheprovider")


@dataclass(frozen=True)
class Mutant:
    """A file of the source, before and after a mutation for one row."""

    row: str
    file: str
    old: str
    new: str
    line: int
    function: str
    """The function that it changes; empty if importing the file anew is needed to see it."""

    def diff(self) -> str:
        lines = difflib.unified_diff(self.old.splitlines(), self.new.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies it while other parts of the file change."""
        return self.row, self.file, re.sub(r"(?m)^([-+])\s+", r"\1", self.diff()).replace("\n", " ")


@dataclass
class Tests:
    """The tests marked with a row, what they execute and how long they take."""

    items: list[pytest.Item] = field(default_factory=list)
    lines: Mapping[str, frozenset[int]] = field(default_factory=dict)
    seconds: float = 0.0


class Bench:
    """A copy of the source, and runs of tests on it."""

    def __init__(self, root: Path, work: Path, seed: int) -> None:
        self.root, self.work, self.seed = root, work, seed
        self.copy = work / "src"
        self.mutants_made = 0
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        shutil.copytree(root / "src", self.copy, ignore=shutil.ignore_patterns("__pycache__"))
        # What is run from here imports from the copy and leaves no trace in the project.
        sys.path.insert(0, str(self.copy))
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(work / "compiled")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(self.copy), str(root)])
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(work / "hypothesis")
        os.environ.pop("CI", None)
        # As among workers, one domain controller serves all runs, in the directory above their own.
        os.environ["PYTEST_XDIST_WORKER"] = "mutants"

    @cache  # noqa: B019 - one bench lives as long as the program
    def text(self, file: str) -> str:
        return (self.copy / file).read_text(encoding="utf-8")

    def find_functions(self) -> None:
        """Note the loaded functions of the source, so that a run can change them."""
        gc.collect()
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(str(self.copy)):
                self.functions[_place(thing.__code__)].append(thing)
        gc.freeze()

    @contextlib.contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        path = self.copy / mutant.file
        whole = path.stat().st_mtime
        path.write_text(mutant.new, encoding="utf-8")
        # Compiled files go by time and length; a time of its own keeps one mutant from running as another.
        self.mutants_made += 1
        os.utime(path, (self.mutants_made, self.mutants_made))
        try:
            yield
        finally:
            path.write_text(mutant.old, encoding="utf-8")
            os.utime(path, (whole, whole))

    def survives(self, mutant: Mutant, tests: Tests) -> bool:
        """Whether the tests pass on a mutant. Tests that hang have not passed; but slow ones on a busy machine look
        alike, so these get a second try, with a limit by what they take on the whole source now."""
        status = self.attempt(mutant, tests)
        if status is None:
            usual_s = tests.seconds
            self.weigh(tests, 10 * usual_s + 60)
            tests.seconds = max(usual_s, tests.seconds)
            status = self.attempt(mutant, tests)
        return status == 0

    def attempt(self, mutant: Mutant, tests: Tests) -> int | None:
        """The status of a run of the tests on a mutant, None if it took too long."""
        limit_s = 3 * tests.seconds + 5
        with self.broken(mutant):
            if mutant.function:
                status = self.forked(lambda: self.change(mutant) and _run(tests.items), limit_s)
                if status != CRASHED:
                    return status
            return self.anew(tests, limit_s + 20)

    def weigh(self, tests: Tests, limit_s: float) -> bool:
        """Note how long tests take on the whole source; False if they fail or take longer than the limit."""
        started = time.monotonic()
        passed = self.forked(lambda: _run(tests.items), limit_s) == 0
        tests.seconds = time.monotonic() - started
        return passed

    def change(self, mutant: Mutant) -> bool:
        """Give the loaded functions of a mutated file their new code."""
        for code in _codes(compile(mutant.new, str(self.copy / mutant.file), "exec")):
            for function in self.functions.get(_place(code), ()):
                if function.__code__ != code:
                    function.__code__ = code
        return True

    def forked(self, child: Callable[[], bool], limit_s: float) -> int | None:
        """Run a function in a process group of its own: 0 if it returned True, None if it took too long."""
        pid = os.fork()
        if pid == 0:
            status = CRASHED
            try:
                os.setsid()
                output = os.open(self.work / "output.txt", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = 0 if child() else 1
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

        def poll() -> int | None:
            done, code = os.waitpid(pid, os.WNOHANG)
            return os.waitstatus_to_exitcode(code) if done else None

        return _status(pid, poll, limit_s)

    def anew(self, tests: Tests, limit_s: float) -> int | None:
        """Run the tests in a process that imports everything from the copy."""
        arguments = self.work / "arguments.txt"
        arguments.write_text("".join(f"{item.nodeid}\n" for item in tests.items), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", *PYTEST, *self.options(), f"@{arguments}"]
        with (self.work / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.root,
                start_new_session=True,
            )
        return _status(process.pid, process.poll, limit_s)

    def options(self) -> list[str]:
        return [f"--hypothesis-seed={self.seed}", f"--basetemp={self.work / 'tmp'}"]

    def trace(self, tests: Tests, limit_s: float) -> bool:
        """Note the lines that the tests of a row execute on the whole source; False if they fail."""
        data = self.work / "coverage"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        started = time.monotonic()
        passed = self.forked(lambda: self.run_traced(tests.items, data), limit_s) == 0
        tests.seconds = time.monotonic() - started
        found: dict[str, set[int]] = defaultdict(set)
        for path in data.glob("lines*"):
            lines = coverage.CoverageData(str(path))
            with contextlib.suppress(coverage.CoverageException):  # of a process that was killed
                lines.read()
                for name in lines.measured_files():
                    found[Path(name).relative_to(self.copy).as_posix()].update(lines.lines(name) or ())
        tests.lines = {name: frozenset(found[name]) for name in sorted(found)}
        return passed

    def run_traced(self, items: list[pytest.Item], data: Path) -> bool:
        settings = data / "settings.ini"
        settings.write_text(
            f"[run]\nsource = {self.copy / 'msmq'}\nparallel = true\ndata_file = {data / 'lines'}\n"
            "patch = subprocess\nsigterm = true\n"
            "disable_warnings = no-data-collected,module-not-measured\n",
            encoding="utf-8",
        )
        measured = coverage.Coverage(config_file=str(settings))
        measured.start()
        passed = _run(items)
        measured.stop()
        measured.save()
        return passed


def _status(pid: int, poll: Callable[[], int | None], limit_s: float) -> int | None:
    """The exit status of a process, None if it was ended at the limit; whatever its group left behind goes."""
    deadline = time.monotonic() + limit_s
    while (status := poll()) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    while status is None and poll() is None:
        time.sleep(0.01)
    return status


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _run(items: list[pytest.Item]) -> bool:
    """Run collected tests until one fails; whether none did."""
    session = items[0].session
    session.testsfailed = 0
    for item, after in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return False
    return True


def candidates(
    bench: Bench,
    row: conformance.Row,
    tests: Tests,
    executed: Counter[tuple[str, int]],
    common: set[str],
    options: argparse.Namespace,
) -> list[Mutant]:
    """The mutants of a row, the most telling first: one of a declaration that its title names, then those of
    executed lines, in functions that speak of the same things as the title before others, and the rarest first."""
    draw = random.Random(f"{options.seed}:{row.id}")
    titled = {_plain(row.title), *(_plain(word) for word in re.split(r"\W+", row.title) if "_" in word)}
    subjects = _stems(row.title) - common
    ranked: list[tuple[int, int, float, Mutation, str]] = []
    declared: list[tuple[Mutation, str]] = []
    for file, lines in tests.lines.items():
        if file.startswith(EXEMPT):
            continue
        for mutation in _mutations(bench.text(file)):
            if not mutation.function:
                # A declaration's own name, as text, is for people; what it declares is compared with the text.
                named = _plain(bench.text(file)[mutation.start : mutation.end]) in titled
                if not named and titled & {_plain(word) for word in re.findall(r"\w+", mutation.entry)}:
                    declared.append((mutation, file))
            elif mutation.line in lines:
                shared = len(subjects & _stems(f"{mutation.function} {mutation.entry[:200]}"))
                ranked.append((-shared, executed[file, mutation.line], draw.random(), mutation, file))
    ranked.sort(key=lambda entry: entry[:3])
    # One of each function first: mutants of one place tell much the same.
    rounds: Counter[tuple[str, str]] = Counter()
    ordered = []
    for *rank, mutation, file in ranked:
        ordered.append((rounds[file, mutation.function], rank, mutation, file))
        rounds[file, mutation.function] += 1
    ordered.sort(key=lambda entry: entry[:2])
    chosen = [draw.choice(declared)] if declared else []
    chosen += [(mutation, file) for *_, mutation, file in ordered]
    return [
        Mutant(row.id, file, old, mutation.apply(old), mutation.line, mutation.function)
        for mutation, file in chosen[: options.cap * PATIENCE]
        for old in [bench.text(file)]
    ]


_mutations = cache(mutations)


def _plain(name: str) -> str:
    """A name as specification and source may each spell it."""
    return re.sub(r"[\W_]", "", name).lower()


def _names(text: str) -> set[str]:
    """The longer names in code."""
    return {name for name in re.findall(r"\w+", text) if len(name) > 3}


def _stems(text: str) -> set[str]:
    """The longer words of a text or of names in code, as far as inflection leaves them alone."""
    words = re.findall(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}", text)
    return {word.lower()[:5] for word in words if len(word) > 3}


@dataclass(frozen=True)
class Table:
    """conformance/mutants.toml: mutants written by hand, and survivors that are explained."""

    by_hand: Sequence[Mapping[str, str]]
    explained: Mapping[tuple[str, str, str], str]
    """By row (empty where the reason holds for all), file and change."""

    def why(self, mutant: Mutant) -> str | None:
        """Why a mutant may survive the tests of its row."""
        row, file, change = mutant.key
        return self.explained.get((row, file, change)) or self.explained.get(("", file, change))

    @classmethod
    def load(cls, path: Path) -> Table:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        explained = {
            (entry.get("row", ""), entry["file"], f"-{entry['old']} +{entry['new']}"): entry["why"]
            for entry in read.get("explained", [])
        }
        return cls(read.get("by_hand", []), explained)

    def mutants(self, row: str, text: Callable[[str], str]) -> Iterator[Mutant]:
        """The row's mutants by hand; one whose text is gone is a fault of the table."""
        for entry in self.by_hand:
            if entry["row"] == row:
                old = text(entry["file"])
                if old.count(entry["old"]) != 1:
                    raise SystemExit(f"mutants.toml: {entry['file']} has not one {entry['old']!r}")
                line = old[: old.index(entry["old"])].count("\n") + 1
                yield Mutant(row, entry["file"], old, old.replace(entry["old"], entry["new"]), line, "")


@dataclass
class Report:
    """What became of the mutants."""

    rows: int = 0
    without: list[str] = field(default_factory=list)
    killed: int = 0
    explained: int = 0
    elsewhere: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    unmoved: list[str] = field(default_factory=list)
    """Rows whose own tests noticed none of their mutants."""

    def line(self) -> str:
        weak = len({mutant.row for mutant in self.survivors})
        survived = len(self.survivors)
        return (
            f"rows={self.rows} mutants={self.killed + self.elsewhere + self.explained + survived} "
            f"killed={self.killed} elsewhere={self.elsewhere} explained={self.explained} survived={survived} "
            f"rows_with_survivors={weak} rows_unmoved={len(self.unmoved)} "
            f"rows_without_mutants={len(self.without)} rows_failing={len(self.failing)}"
        )


class Campaign:
    """Pytest plugin: instead of the collected tests, runs those of the chosen rows on their mutants."""

    def __init__(self, bench: Bench, options: argparse.Namespace) -> None:
        self.bench, self.options = bench, options
        self.rows = conformance.load_inventory(conformance.Home(bench.root).inventory)
        self.table = Table.load(bench.root / "conformance" / "mutants.toml")
        self.report = Report()
        self.traced: dict[str, Tests] = {}
        self.executed: Counter[tuple[str, int]] = Counter()
        self.modules: dict[Path, list[pytest.Item]] = defaultdict(list)
        self.words: dict[Path, frozenset[str]] = {}
        self.sound: dict[Path, Tests | None] = {}
        titles = Counter(stem for row in self.rows.values() for stem in _stems(row.title))
        self.common = {stem for stem, count in titles.items() if count > len(self.rows) * COMMON}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        marked: dict[str, Tests] = defaultdict(Tests)
        for item in session.items:
            self.modules[item.path].append(item)
            for row in {row for mark in item.iter_markers("spec") for row in mark.args}:
                marked[row].items.append(item)
        draw = random.Random(self.options.seed)
        chosen = self.options.rows
        if self.options.sample:
            chosen = draw.sample(sorted(marked), min(self.options.sample, len(marked)))[self.options.skip :]
        if unmarked := [row for row in chosen if row not in marked]:
            raise pytest.UsageError(f"no test is marked with {', '.join(unmarked)}")
        others = [row for row in sorted(marked) if row not in chosen]
        background = draw.sample(others, min(len(others), BACKGROUND)) if self.options.cap else []
        self.bench.find_functions()
        with contextlib.ExitStack() as held:
            items = (item for row in [*chosen, *background] for item in marked[row].items)
            if any("domain_controller" in getattr(item, "fixturenames", ()) for item in items):
                held.enter_context(lease(self.bench.work / "domain_controller"))
            for row in background:
                self.trace(row, marked[row])
            # All are traced before the first is attacked: what is a row's own shows only beside the others.
            for number, row in enumerate(chosen, 1):
                if not self.trace(row, marked[row]):
                    self.report.failing.append(row)
                    told = (self.bench.work / "output.txt").read_text(encoding="utf-8", errors="replace")
                    print(
                        f"{row}: its tests fail, or take too long, on the whole source\n{told[-1000:]}",
                        flush=True,
                    )
                _progress(f"traced {number} of {len(chosen)} rows")
            sound = [row for row in chosen if row in self.traced]
            for number, row in enumerate(sound, 1):
                self.attack(self.rows[row], marked[row])
                _progress(f"row {number} of {len(sound)}: {self.report.line()}")
        return True

    def trace(self, row: str, tests: Tests) -> bool:
        """Learn what the tests of a row execute; False if they fail."""
        passed = self.bench.trace(tests, self.options.limit)
        if passed:
            self.traced[row] = tests
            self.executed.update((file, line) for file, lines in tests.lines.items() for line in lines)
        return passed

    def attack(self, row: conformance.Row, tests: Tests) -> None:
        report = self.report
        report.rows += 1
        by_hand = list(self.table.mutants(row.id, self.bench.text))
        mutants = [
            *by_hand,
            *candidates(self.bench, row, tests, self.executed, self.common, self.options),
        ]
        if not mutants:
            report.without.append(row.id)
        least = len(by_hand) + self.options.cap
        killed = 0
        for number, mutant in enumerate(mutants):
            if killed and number >= least:
                break
            if not self.bench.survives(mutant, tests):
                killed += 1
                report.killed += 1
                continue
            why = self.table.why(mutant)
            other = None if why else self.noticed_by(mutant)
            if why:
                report.explained += 1
            elif other:
                report.elsewhere += 1
            else:
                report.survivors.append(mutant)
            told = f" explained: {why}" if why else f" noticed by the tests of {other}" if other else ""
            print(
                f"{row.id} ({row.title}) src/{mutant.file}:{mutant.line}{told}\n{mutant.diff()}\n", flush=True
            )
        if mutants and not killed:
            report.unmoved.append(row.id)

    def noticed_by(self, mutant: Mutant) -> str | None:
        """Another row, or the mutated module, whose tests notice a mutant that passed those of its own row."""
        passing = {
            row: tests
            for row, tests in self.traced.items()
            if row != mutant.row and mutant.line in tests.lines.get(mutant.file, ())
        }
        quickest = sorted(passing, key=lambda row: passing[row].seconds)[:OTHERS]
        for row in quickest:
            if not self.bench.survives(mutant, passing[row]):
                return row
        for path in self.modules_about(mutant):
            module = self.module(path)
            if module and not self.bench.survives(mutant, module):
                return path.relative_to(self.bench.root).as_posix()
        return None

    def modules_about(self, mutant: Mutant) -> list[Path]:
        """The test modules that should notice a mutant: those named after the mutated module, or after its room if one
        module has all of its tests, then those of the room that have most of the names in the changed lines, a name
        that few have counting more."""
        inner = Path(mutant.file).relative_to("msmq").with_suffix("")
        tests = self.bench.root / "tests"
        named = [*(tests / inner.parent).glob(f"test_{inner.name}.py")]
        named += sorted((tests / inner.parent).glob(f"test_{inner.name}_*.py"))
        named += [tests / f"test_{inner.parts[0]}.py"]
        room = [path for path in sorted(self.modules) if path.is_relative_to(tests / inner.parts[0])]
        wanted = _names(mutant.diff()) | _names(mutant.function)
        having = {path: wanted & self.names_in(path) for path in room}
        common = Counter(name for names in having.values() for name in names)
        score = {path: sum(1 / common[name] for name in names) for path, names in having.items()}
        likely = sorted((path for path in room if score[path]), key=lambda path: -score[path])
        found = [path for path in dict.fromkeys([*named, *likely]) if path in self.modules]
        return found[:MODULES]

    def names_in(self, path: Path) -> frozenset[str]:
        """The names that a test module has."""
        if path not in self.words:
            self.words[path] = frozenset(_names(path.read_text(encoding="utf-8")))
        return self.words[path]

    def module(self, path: Path) -> Tests | None:
        """The tests of a test module; None if they do not pass on the whole source in a bearable time."""
        if path not in self.sound:
            tests = Tests(self.modules[path])
            self.sound[path] = tests if self.bench.weigh(tests, MODULE_LIMIT_S) else None
        return self.sound[path]


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description="Break rules and see whether tests notice.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--rows", nargs="+", help="rows of the inventory", default=[])
    which.add_argument("--sample", type=int, default=0, help="so many rows drawn at random")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many rows of the sample, its first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cap", type=int, default=3, help="mutants per row; those by hand come on top")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a row's tests may take")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.chdir(options.root)
    with tempfile.TemporaryDirectory(prefix="mutants-") as work:
        bench = Bench(options.root, Path(work), options.seed)
        campaign = Campaign(bench, options)
        status = pytest.main([*PYTEST, *bench.options()], plugins=[campaign])
    report = campaign.report
    print(report.line())
    if report.without:
        print("without mutants: " + " ".join(report.without))
    if report.unmoved:
        print("unmoved: " + " ".join(report.unmoved))
    return int(status) or int(bool(report.survivors or report.failing))


if __name__ == "__main__":
    sys.exit(main())
