"""Reading a list of objects: by conditions, in an order, one after the other."""

from __future__ import annotations

import pytest

from msmq.directory.listed import ListedDirectory, Queries
from msmq.directory.query import find_all
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    SortKey,
)

QUEUE, SITE = ObjectClass.QUEUE, ObjectClass.SITE
SUCCESS = DirectoryResult.SUCCESS


@pytest.fixture
def directory() -> ListedDirectory:
    made = ListedDirectory()
    for label, priority in (("b", 1), ("a", 2), ("c", 1)):
        made.objects.append(DirectoryObject(QUEUE, {"label": label, "base_priority": priority}))
    made.objects.append(DirectoryObject(SITE, {"name": "Berlin"}))
    made.lists[b"l" * 16] = ("DIRECT=OS:x\\y",)
    return made


def test_the_first_that_matches_is_read(directory: ListedDirectory) -> None:
    low = (Expression("base_priority", Relation.EQUALS, 1),)
    result, item = directory.read(QUEUE, low, None)
    assert item is not None
    assert (result, item.attributes) == (SUCCESS, {"label": "b", "base_priority": 1})
    result, item = directory.read(QUEUE, low, ("label",))
    assert item is not None
    assert item.attributes == {"label": "b"}
    assert directory.read(QUEUE, low, ("name",)) == (DirectoryResult.ATTRIBUTE_NOT_FOUND, None)
    high = (Expression("base_priority", Relation.GREATER_THAN, 2),)
    assert directory.read(QUEUE, high, None) == (DirectoryResult.OBJECT_NOT_FOUND, None)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (None, "bac"),
        ({"label": SortKey(1)}, "abc"),
        ({"label": SortKey(1, ascending=False)}, "cba"),
        ({"label": SortKey(0)}, "bac"),
        ({"label": SortKey(1), "base_priority": SortKey(2)}, "bca"),
    ],
    ids=["none", "ascending", "descending", "out-of-play", "two"],
)
def test_the_order_of_what_is_found(
    directory: ListedDirectory, order: dict[str, SortKey] | None, expected: str
) -> None:
    result, found = find_all(directory, QUEUE, None, ("label",), order)
    assert (result, "".join(item.attributes["label"] for item in found)) == (SUCCESS, expected)


def test_what_is_given_is_a_copy(directory: ListedDirectory) -> None:
    for item in find_all(directory, QUEUE, None)[1]:
        item.attributes.clear()
    assert [item.attributes["label"] for item in directory.matching(QUEUE, None)] == ["b", "a", "c"]


def test_distribution_lists(directory: ListedDirectory) -> None:
    assert directory.resolve_distribution_list(b"l" * 16, None) == (SUCCESS, ("DIRECT=OS:x\\y",))
    assert directory.resolve_distribution_list(b"m" * 16, None) == (DirectoryResult.OBJECT_NOT_FOUND, ())


def test_queries_are_apart_and_end_once() -> None:
    queries = Queries()
    first, second = (queries.begin([DirectoryObject(SITE, {"name": name})]) for name in "xy")
    _, item = queries.next(second)
    assert item is not None
    assert item.attributes == {"name": "y"}
    assert queries.next(second) == (DirectoryResult.END_OF_DATA, None)
    assert queries.next(first)[0] is SUCCESS
    assert [queries.end(first), queries.end(first)] == [SUCCESS, DirectoryResult.GENERIC_ERROR]
    assert queries.next(first) == (DirectoryResult.GENERIC_ERROR, None)
