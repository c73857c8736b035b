"""Collects which inventory rows the tests show, and how those tests ended.

Every run refuses to collect a test marked with an id that the inventory does not know.
``--conformance FILE`` records the run for ``scripts/conformance.py``; ``--conformance-check`` also compares
it with the committed map and fails the run where they differ. With pytest-xdist the marks travel from the
workers in each report's user properties, and only the controller records.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from scripts import conformance

PROPERTY = "spec"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--conformance", metavar="FILE", type=Path, help="record which rows the tests show")
    group.addoption(
        "--conformance-check",
        action="store_true",
        help="compare with the committed map (needs --conformance)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Marks(config.rootpath), "spec-marks")
    on_worker = hasattr(config, "workerinput")
    if config.option.conformance and not on_worker:
        config.pluginmanager.register(Recorder(config), "conformance-recorder")


def spec_ids(item: pytest.Item) -> list[str]:
    """The ids of every spec mark on a test, its class and its module, without repeats."""
    return list(dict.fromkeys(row_id for mark in item.iter_markers("spec") for row_id in mark.args))


class Marks:
    """Checks the marks while tests are collected, and lets each test's reports carry its ids."""

    def __init__(self, root: Path) -> None:
        self.known = conformance.load_inventory(conformance.Home(root).inventory).keys()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        items = [node for node in report.result or () if isinstance(node, pytest.Item)]
        wrong = [f"{item.nodeid}: {fault}" for item in items if (fault := self.fault(item))]
        if wrong:
            report.outcome, report.result, report.longrepr = "failed", [], "\n".join(wrong)
        return report

    def fault(self, item: pytest.Item) -> str | None:
        if any(not mark.args or mark.kwargs for mark in item.iter_markers("spec")):
            return "a spec mark takes one or more ids and nothing else"
        unknown = [str(row_id) for row_id in spec_ids(item) if row_id not in self.known]
        return f"unknown spec id {', '.join(unknown)}" if unknown else None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if ids := spec_ids(item):
                item.user_properties.append((PROPERTY, ids))


class Recorder:
    """Gathers the outcomes in the controlling process and writes them when the run ends."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.ids: dict[str, list[str]] = {}
        self.outcomes: dict[str, str] = {}
        self.lines: list[str] = []
        self.problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = next((value for name, value in report.user_properties if name == PROPERTY), None)
        if ids is None:
            return
        self.ids[report.nodeid] = list(ids)  # type: ignore[call-overload]
        expected_to_fail = hasattr(report, "wasxfail")
        if report.failed or report.skipped or expected_to_fail:
            self.outcomes[report.nodeid] = "failed" if report.failed else "skipped"
        else:
            self.outcomes.setdefault(report.nodeid, "passed")

    def results(self) -> dict[str, list[dict[str, str]]]:
        found: dict[str, list[dict[str, str]]] = {}
        for test in sorted(self.ids):
            for row_id in self.ids[test]:
                found.setdefault(row_id, []).append({"test": test, "outcome": self.outcomes[test]})
        return dict(sorted(found.items()))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        results = self.results()
        path: Path = self.config.option.conformance
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        # A run that failed already says so; a map of it would only hide the reason.
        if self.config.option.conformance_check and session.exitstatus == pytest.ExitCode.OK:
            home = conformance.Home(self.config.rootpath)
            self.lines, self.problems = conformance.run(home, results, check=True)
            if self.problems:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.lines:
            terminalreporter.section("conformance")
        for line in self.lines:
            terminalreporter.write_line(line)
        for problem in self.problems:
            terminalreporter.write_line(f"ERROR {problem}", red=True)
