"""The table of features beside those of Spark's connector for Kafka: each that we have is shown by a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from msmq.spark.options import SOURCE_OPTIONS
from msmq.spark.rows import ROW_OPTIONS

HERE = Path(__file__).parent
OPTIONS = {*SOURCE_OPTIONS, *ROW_OPTIONS}


class Feature(NamedTuple):
    with_kafka: str
    ours: str
    shown: str

    @property
    def options(self) -> set[str]:
        """The options by which we have it: those that are named, or else those that have the same name there."""
        own, same = (
            OPTIONS.intersection(re.findall(r"\w+", " ".join(re.findall("`([^`]+)`", cell))))
            for cell in (self.ours, self.with_kafka)
        )
        return own or same


def features() -> list[Feature]:
    page = (HERE.parents[1] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
    table = page.partition("## Beside Spark's connector for Kafka")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line
    ]
    return [Feature(*row) for row in rows[2:]]


def text_of(file: str, name: str) -> str:
    """The text of a test, with that of the functions and classes of its module that it uses."""
    module = (HERE / file).read_text(encoding="utf-8")
    known = {
        node.name: node
        for node in ast.parse(module).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert name in known, f"there is no {name} in {file}"
    used = [name]
    for each in used:
        names = {node.id for node in ast.walk(known[each]) if isinstance(node, ast.Name)}
        used += sorted((names & known.keys()).difference(used))
    return "\n".join(ast.unparse(known[each]) for each in used)


def test_every_feature_is_shown_by_a_test() -> None:
    """And each option that stands there is used by one of its tests."""
    assert len(features()) > 15
    for feature in features():
        if feature.ours == "no":
            assert not feature.shown
            continue
        tests = re.findall(r"`(test_\w+\.py)::(test_\w+)`", feature.shown)
        assert ", ".join(f"`{file}::{name}`" for file, name in tests) == feature.shown != "", feature
        shown = "\n".join(text_of(file, name) for file, name in tests)
        missing = {option for option in feature.options if not re.search(rf"\b{option}\b", shown)}
        assert not missing, f"{feature.with_kafka}: {feature.shown} has no {missing}"
