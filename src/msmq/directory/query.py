"""The objects of a query: Read Directory Begin, Next until the end, and End."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from msmq.manager.directory import (
    Directory,
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    SortKey,
)


def find_each(
    directory: Directory,
    object_class: ObjectClass,
    conditions: Filter | None,
    attributes: Sequence[str] | None = None,
    sort_order: Mapping[str, SortKey] | None = None,
) -> Generator[DirectoryObject, None, DirectoryResult]:
    """Iterate over the objects of a query in order, with one page in memory. Returns the result of the query."""
    result, query = directory.read_begin(object_class, conditions, attributes, sort_order)
    if query is None:
        return result
    try:
        while True:
            result, item = directory.read_next(query)
            if result is DirectoryResult.END_OF_DATA:
                return DirectoryResult.SUCCESS
            if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
                return result
            if item is not None:
                yield item
    finally:
        directory.read_end(query)


def find_all(
    directory: Directory,
    object_class: ObjectClass,
    conditions: Filter | None,
    attributes: Sequence[str] | None = None,
    sort_order: Mapping[str, SortKey] | None = None,
) -> tuple[DirectoryResult, list[DirectoryObject]]:
    """All objects of a query at once."""
    found: list[DirectoryObject] = []

    each = find_each(directory, object_class, conditions, attributes, sort_order)
    while True:
        try:
            found.append(next(each))
        except StopIteration as end:
            result: DirectoryResult = end.value
            return result, found
