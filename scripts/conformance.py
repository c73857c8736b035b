"""The conformance map: which rows of the five specifications are shown by which tests.

How it works. ``conformance/inventory.tsv`` lists the rows. Tests name the rows they show with
``@pytest.mark.spec("<id>", ...)``; a recorded test run (see ``tests/plugins/conformance.py``) is a JSON file
``{id: [{"test": ..., "outcome": ...}]}``. A row is *shown* when it has tests and every one of them passed.
``conformance/out_of_scope.toml`` is the only place that may say why a row is not shown: it belongs to something
the project does not do (``[out_of_scope]``), we do otherwise on purpose (``[decided]``), there is nothing in it to
show (``[empty]``), or it waits (``[later]``). A row with neither test nor reason is a fault.
``conformance/ratchet.toml`` holds the shown counts, which may only grow.

From these this module writes ``docs/conformance.md`` and raises the ratchet, or with ``--check`` compares
them and changes nothing. Standard output is one line per specification, complaints go to standard error.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Results = Mapping[str, list[dict[str, str]]]
# The tables of out_of_scope.toml, as the page names them.
TABLES = {"out_of_scope": "out of scope", "decided": "decided otherwise", "empty": "empty", "later": "later"}


class ConformanceError(Exception):
    """The map's own files cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Row:
    """One normative unit of a specification."""

    id: str
    spec: str
    section: str
    kind: str
    title: str

    @property
    def chapter(self) -> str:
        """The first two levels of the section number, by which the page groups rows."""
        return ".".join(self.section.split(".")[:2])


@dataclass(frozen=True)
class Tally:
    """The count of one specification's rows (or of a part of them)."""

    rows: int
    shown: int
    reasons: Mapping[str, int]
    """How many rows each table of reasons holds."""

    @property
    def undeclared(self) -> int:
        return self.rows - self.shown - sum(self.reasons.values())

    def __str__(self) -> str:
        reasons = " ".join(f"{table}={count}" for table, count in self.reasons.items())
        return f"rows={self.rows} shown={self.shown} {reasons} undeclared={self.undeclared}"

    @property
    def percent(self) -> str:
        """Shown rows of those with content, rounded down so that 100 means all."""
        content = self.rows - self.reasons["empty"]
        return f"{self.shown * 1000 // content / 10:.1f}%" if content else "-"


@dataclass(frozen=True)
class Home:
    """Where the map's files are, under one project root."""

    root: Path = ROOT

    @property
    def inventory(self) -> Path:
        return self.root / "conformance" / "inventory.tsv"

    @property
    def declarations(self) -> Path:
        return self.root / "conformance" / "out_of_scope.toml"

    @property
    def ratchet(self) -> Path:
        return self.root / "conformance" / "ratchet.toml"

    @property
    def page(self) -> Path:
        return self.root / "docs" / "conformance.md"


@dataclass(frozen=True)
class ConformanceMap:
    """Every row, the tests that show it, and what is declared about the others."""

    rows: Mapping[str, Row]
    tests: Mapping[str, list[str]]
    reasons: Mapping[str, Mapping[str, str]]
    """By table, then by row."""

    def specs(self) -> list[str]:
        return list(dict.fromkeys(row.spec for row in self.rows.values()))

    def tally(self, rows: Iterable[Row]) -> Tally:
        ids = [row.id for row in rows]
        counts = {table: sum(i in rows for i in ids) for table, rows in self.reasons.items()}
        return Tally(len(ids), sum(i in self.tests for i in ids), counts)

    def spec_tally(self, spec: str) -> Tally:
        return self.tally(row for row in self.rows.values() if row.spec == spec)

    def lines(self) -> list[str]:
        """One line per specification, for standard output."""
        return [f"{spec} {self.spec_tally(spec)}" for spec in self.specs()]


def load_inventory(path: Path) -> dict[str, Row]:
    """The rows by id, in the order of the file."""
    rows: dict[str, Row] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            row = Row(**line)
            if row.id in rows:
                raise ConformanceError(f"{path.name}: {row.id} is listed twice")
            rows[row.id] = row
    return rows


def load_map(home: Home, results: Results) -> ConformanceMap:
    """Join the inventory, the declarations and a recorded run."""
    declared = tomllib.loads(home.declarations.read_text(encoding="utf-8"))
    if unknown := set(declared) - set(TABLES):
        raise ConformanceError(f"{home.declarations.name}: unknown tables {sorted(unknown)}")
    return ConformanceMap(
        rows=load_inventory(home.inventory),
        tests=shown(results),
        reasons={table: declared.get(table, {}) for table in TABLES},
    )


def shown(results: Results) -> dict[str, list[str]]:
    """The shown rows and the test functions that show them; parametrised cases count as one function."""
    return {
        row_id: sorted({run["test"].partition("[")[0] for run in runs})
        for row_id, runs in results.items()
        if runs and all(run["outcome"] == "passed" for run in runs)
    }


def declaration_problems(conformance: ConformanceMap, results: Results) -> list[str]:
    """What is wrong with the ids of the tests and with out_of_scope.toml."""
    found = [
        f"{row_id}: unknown id, marked on {runs[0]['test']}"
        for row_id, runs in results.items()
        if row_id not in conformance.rows
    ]
    for table, declared in conformance.reasons.items():
        for row_id, reason in declared.items():
            if row_id not in conformance.rows:
                found.append(f"{row_id}: unknown id, in [{table}]")
            if not isinstance(reason, str) or not reason.strip():
                found.append(f"{row_id}: [{table}] gives no reason")
            if row_id in conformance.tests:
                found.append(f"{row_id}: in [{table}], but shown by {conformance.tests[row_id][0]}")
    homes = {
        row_id: [table for table, declared in conformance.reasons.items() if row_id in declared]
        for row_id in conformance.rows
    }
    found += [
        f"{row_id}: in [{'] and in ['.join(tables)}]" for row_id, tables in homes.items() if len(tables) > 1
    ]
    found += [
        f"{row_id}: no test shows it and no reason is given"
        for row_id, tables in homes.items()
        if not tables and row_id not in results
    ]
    return sorted(found)


def load_ratchet(path: Path) -> dict[str, int]:
    """The count of shown rows per specification that must not be lost again."""
    if not path.exists():
        return {}
    counts: dict[str, int] = tomllib.loads(path.read_text(encoding="utf-8"))["shown"]
    return counts


def ratchet_problems(conformance: ConformanceMap, ratchet: Mapping[str, int]) -> list[str]:
    """Where fewer rows are shown than once were."""
    found = [
        f"{spec}: in ratchet.toml, not in the inventory"
        for spec in ratchet
        if spec not in conformance.specs()
    ]
    for spec in conformance.specs():
        count, least = conformance.spec_tally(spec).shown, ratchet.get(spec, 0)
        if count < least:
            found.append(f"{spec}: {count} rows shown, ratchet.toml says {least}; coverage may only grow")
    return found


def render_ratchet(conformance: ConformanceMap) -> str:
    lines = ["# Rows shown per specification. Written by `make conformance`; may only grow.", "[shown]"]
    lines += [f"{spec} = {conformance.spec_tally(spec).shown}" for spec in conformance.specs()]
    return "\n".join(lines) + "\n"


def render_page(conformance: ConformanceMap) -> str:
    """docs/conformance.md: the summary, then every row. Depends on the map alone: no dates, no durations."""
    lines = [
        "# Conformance",
        "",
        "Which rows of the five specifications are shown by which test. A row is one normative unit of a",
        "specification; it is shown when every test that carries its id passes. `make conformance` writes",
        "this page.",
        "",
        f"| specification | rows | shown | {' | '.join(TABLES.values())} | shown of those with content |",
        f"| --- | ---: | ---: | {' | '.join('---:' for _ in TABLES)} | ---: |",
    ]
    for spec in conformance.specs():
        tally = conformance.spec_tally(spec)
        cells = (
            f"[{spec}](#{spec.lower()})",
            tally.rows,
            tally.shown,
            *tally.reasons.values(),
            tally.percent,
        )
        lines.append(table_line(cells))
    for spec in conformance.specs():
        lines += ["", f"## {spec}"]
        rows = [row for row in conformance.rows.values() if row.spec == spec]
        for chapter, part in groupby(rows, key=lambda row: row.chapter):
            members = list(part)
            tally = conformance.tally(members)
            lines += ["", f"### {spec} {chapter}: {tally.shown} of {tally.rows}", ""]
            lines += ["| row | kind | title | shown by |", "| --- | --- | --- | --- |"]
            lines += [
                table_line((row.id, row.kind, plain(row.title), state(conformance, row))) for row in members
            ]
    return "\n".join(lines) + "\n"


def state(conformance: ConformanceMap, row: Row) -> str:
    """The last cell of a row: its tests, or why it has none."""
    if row.id in conformance.tests:
        return "<br>".join(f"`{test}`" for test in conformance.tests[row.id])
    for table, declared in conformance.reasons.items():
        if row.id in declared:
            return f"*{TABLES[table]}:* {plain(declared[row.id])}"
    return ""


def table_line(cells: Iterable[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", text)


def run(home: Home, results: Results, *, check: bool) -> tuple[list[str], list[str]]:
    """The lines to print and the problems found.

    Without problems the page and the ratchet are brought up to date; with ``check`` they are only compared,
    and a difference is a problem.
    """
    conformance = load_map(home, results)
    found = declaration_problems(conformance, results)
    found += ratchet_problems(conformance, load_ratchet(home.ratchet))
    if not found:
        for path, text in {
            home.page: render_page(conformance),
            home.ratchet: render_ratchet(conformance),
        }.items():
            if not check:
                path.write_text(text, encoding="utf-8")
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                found.append(f"{path.relative_to(home.root)} is out of date: run `make conformance`")
    return conformance.lines(), found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description="Write or check the conformance map.")
    parser.add_argument("results", type=Path, help="the recorded test run (JSON)")
    parser.add_argument("--check", action="store_true", help="compare only, change no file")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    results = json.loads(options.results.read_text(encoding="utf-8"))
    try:
        lines, found = run(Home(options.root), results, check=options.check)
    except ConformanceError as error:
        lines, found = [], [str(error)]
    for line in lines:
        print(line)
    for problem in found:
        print(f"conformance: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
