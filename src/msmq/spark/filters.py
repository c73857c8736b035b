"""Filters of a query that can be applied without reading messages: Spark passes them on from version 4.1."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from msmq.spark.options import SourceOptions
from msmq.spark.source import MsmqReader


class FilteringReader(MsmqReader):
    """Applies the filters that need no message to be read: by queue and by lookup identifier.

    Spark refuses readers that could do this as long as its setting ``spark.sql.python.filterPushdown.enabled`` is
    false, as it usually is. That is why the option ``pushFilters`` asks for it.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        super().__init__(options, columns)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        taken = [each for each in filters if _column(each) in ("queue", "lookup_id")]
        self._filters += taken
        return [each for each in filters if each not in taken]

    def _wants_queue(self, queue: str) -> bool:
        return all(_holds(each, queue) for each in self._filters if _column(each) == "queue")

    def _wanted_of(self, lookup_ids: array[int]) -> array[int]:
        tests = [each for each in self._filters if _column(each) == "lookup_id"]
        return array("Q", (number for number in lookup_ids if all(_holds(each, number) for each in tests)))


_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, choices: value in choices,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


def _column(given: Filter) -> str | None:
    """Return the column of a filter, if it is one that can be applied here. Neither column is ever null."""
    if isinstance(given, IsNotNull) or type(given) in _COMPARISONS:
        return given.attribute[0]  # type: ignore[attr-defined, no-any-return]
    return None


def _holds(given: Filter, value: str | int) -> bool:
    if isinstance(given, IsNotNull):
        return True
    return _COMPARISONS[type(given)](value, given.value)  # type: ignore[attr-defined]
