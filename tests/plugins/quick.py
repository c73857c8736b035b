"""``--quick``: the tests that compute and hardly ever wait, for daily work (``make test-quick``).

Nobody keeps a list of them. A test is left out if its module, that of a fixture it uses, or a module of the project's
tests or scripts that one of these imports, can start processes (queue managers, Spark, browsers, databases, domain
controllers) or runs a whole queue manager in this one, by the real clock. The few tests that are slow for other reasons
are marked ``slow``.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]
WAITS = re.compile(
    r"^\s*(import|from) (subprocess|multiprocessing|pyspark|playwright|celery|msmq\.server\.daemon)\b"
    r"|\bcreate_subprocess_|\bos\.fork\b",
    re.MULTILINE,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only tests that compute and hardly ever wait")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Examples that Hypothesis makes up are few: the whole run has the rest."""
    if session.config.option.quick:
        settings.register_profile("quick", deadline=None, max_examples=10)
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is left out is not even imported."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if config.option.quick and is_test and waits(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.quick:
        return
    chosen = [is_quick(item) for item in items]
    config.hook.pytest_deselected(
        items=[item for item, quick in zip(items, chosen, strict=True) if not quick]
    )
    items[:] = [item for item, quick in zip(items, chosen, strict=True) if quick]


def is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow"):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    modules = [sys.modules[each.func.__module__] for found in fixtures for each in found]
    files = [Path(module.__file__) for module in modules if module.__file__]
    return not any(waits(file) for file in files if file.is_relative_to(ROOT / "tests"))


@cache
def waits(file: Path) -> bool:
    return any(WAITS.search(path.read_text(encoding="utf-8")) for path in reachable(file))


@cache
def reachable(file: Path) -> frozenset[Path]:
    """A module and what it imports of the tests and the scripts, and so on."""
    found: set[Path] = set()
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imports(path)
    return frozenset(found)


@cache
def imports(file: Path) -> tuple[Path, ...]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    ours = (name for name in names if name.startswith(("tests.", "scripts.")))
    paths = (ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in ours)
    return tuple(path for path in paths if path.is_file())
