"""Conditions that need no message to be read."""

from __future__ import annotations

from array import array

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from msmq.spark.filters import FilteringReader
from msmq.spark.options import SourceOptions


def reader(*filters: Filter) -> tuple[FilteringReader, list[Filter]]:
    """A reader that was given some, and those that it leaves to Spark."""
    made = FilteringReader(SourceOptions.of({"queuePattern": ".*"}), ("body",))
    return made, list(made.pushFilters(list(filters)))


def test_what_is_taken_over_and_what_is_left_to_spark() -> None:
    mine = [IsNotNull(("queue",)), EqualTo(("queue",), "a"), GreaterThan(("lookup_id",), 5)]
    others = [EqualTo(("label",), "a"), Not(EqualTo(("queue",), "a")), IsNull(("queue",))]
    assert reader(*mine, *others)[1] == others


def test_queues_and_places_are_chosen() -> None:
    chosen, left = reader(
        StringStartsWith(("queue",), ".\\private$"),
        StringContains(("queue",), "order"),
        GreaterThan(("lookup_id",), 3),
        LessThanOrEqual(("lookup_id",), 8),
        In(("lookup_id",), (1, 4, 8, 9)),
    )
    assert left == []
    names = (".\\private$\\orders", ".\\orders", ".\\private$\\bills")
    assert [chosen._wants_queue(name) for name in names] == [True, False, False]
    assert list(chosen._wanted_of(array("Q", range(12)))) == [4, 8]
