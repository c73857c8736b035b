"""Long tests begin first, so that the end of a run is not one process alone with the last of them.

With ``--dist worksteal`` each process is given one part of the list of tests, and who is done takes from the end of
another's part. So each part begins with some of the files that take long, all parts with about as many seconds of them,
and ends with files that take none. Files that share a Spark are kept together: each process starts its own. How long
files take was measured: ``pytest --weigh`` writes it down anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

import pytest

WEIGHTS = Path(__file__).with_name("seconds.json")
LEAST_S = 2.0
SHARED = "spark"
"""The fixture that is worth keeping files together for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--weigh", action="store_true", help=f"write into {WEIGHTS.name} how long files take")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.weigh and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Scales(config.rootpath), "scales")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers > 1:
        files = {name: list(found) for name, found in groupby(items, file_of)}
        shared = {name for name, found in files.items() if any(map(shares, found))}
        counts = {name: len(found) for name, found in files.items()}
        ordered = [item for name in order(counts, weights(), shared, workers) for item in files[name]]
        if len(ordered) == len(items):  # a file that was named twice is not in one piece
            items[:] = ordered


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def shares(item: pytest.Item) -> bool:
    return SHARED in getattr(item, "fixturenames", ())


def weights() -> dict[str, float]:
    found: dict[str, float] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return found


def order(
    counts: Mapping[str, int], seconds: Mapping[str, float], shared: Iterable[str], workers: int
) -> list[str]:
    """The order of files with so many tests each, for so many processes."""
    groups = [[name] for name in counts if name in seconds and name not in shared]
    groups += together([name for name in counts if name in seconds and name in shared], seconds, workers)
    parts: list[list[str]] = [[] for _ in range(workers)]
    long = [0.0] * workers
    for group in sorted(groups, key=lambda each: -sum(seconds[name] for name in each)):
        least = long.index(min(long))
        parts[least] += group
        long[least] += sum(seconds[name] for name in group)
    short = [name for name in counts if name not in seconds]
    found: list[str] = []
    room = sum(counts.values()) / workers
    for number, part in enumerate(parts, 1):
        found += part
        has = sum(counts[name] for name in found)
        while short and (has < room * number or number == workers):
            has += counts[short[0]]
            found.append(short.pop(0))
    return found


def together(names: list[str], seconds: Mapping[str, float], workers: int) -> list[list[str]]:
    """As few groups as leave none with more than its share of everything that is long."""
    share = sum(seconds.values()) / workers
    groups: list[list[str]] = []
    for name in sorted(names, key=lambda each: -seconds[each]):
        for group in groups:
            if sum(seconds[each] for each in group) + seconds[name] <= share:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


class Scales:
    """Adds up how long the tests of each file take; in the controlling process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        known = {name: taken for name, taken in weights().items() if (self.root / name).is_file()}
        known |= {name: round(taken, 1) for name, taken in self.seconds.items()}
        long = {name: taken for name, taken in sorted(known.items()) if taken >= LEAST_S}
        WEIGHTS.write_text(json.dumps(long, indent=1) + "\n", encoding="utf-8")
