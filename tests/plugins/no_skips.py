"""Where ``CI`` is set, or with ``--no-skips``, a skipped or expectedly failing test fails the whole run."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-skips", action="store_true", default=bool(os.environ.get("CI")), help="a skip fails the run"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.no_skips and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipWatch(), "skip-watch")


class SkipWatch:
    """Remembers every skipped test or module; runs in the controlling process only."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skipped:
            terminalreporter.section("skipped tests are not allowed here", red=True)
            for test in self.skipped:
                terminalreporter.write_line(f"ERROR {test} was skipped", red=True)
