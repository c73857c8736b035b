"""Directories that keep their objects in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    SortKey,
    matches,
)


class Queries:
    """The results of Read Directory Begin that Read Directory Next has not taken yet."""

    def __init__(self) -> None:
        self._left: dict[int, list[DirectoryObject]] = {}
        self._handles = count(1)

    def begin(self, found: Sequence[DirectoryObject]) -> int:
        query = next(self._handles)
        self._left[query] = list(reversed(found))
        return query

    def next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        if query not in self._left:
            return DirectoryResult.GENERIC_ERROR, None
        if not self._left[query]:
            return DirectoryResult.END_OF_DATA, None
        return DirectoryResult.SUCCESS, self._left[query].pop().only(None)

    def end(self, query: int) -> DirectoryResult:
        known = self._left.pop(query, None) is not None
        return DirectoryResult.SUCCESS if known else DirectoryResult.GENERIC_ERROR


class ListedDirectory:
    """The reading half of :class:`msmq.manager.directory.Directory`, over ``objects``."""

    def __init__(self) -> None:
        self.objects: list[DirectoryObject] = []
        self.lists: dict[bytes, Sequence[str]] = {}
        """The members of distribution lists, as format names, by the GUID of the list."""
        self._queries = Queries()

    def matching(self, object_class: ObjectClass, conditions: Filter | None) -> list[DirectoryObject]:
        return [
            item
            for item in self.objects
            if item.object_class is object_class and matches(item.attributes, conditions)
        ]

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        for item in self.matching(object_class, conditions):
            if attributes is not None and not item.attributes.keys() >= set(attributes):
                return DirectoryResult.ATTRIBUTE_NOT_FOUND, None
            return DirectoryResult.SUCCESS, item.only(attributes)
        return DirectoryResult.OBJECT_NOT_FOUND, None

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]:
        found = self.matching(object_class, conditions)
        # Sorting is stable, so the most important key is sorted by last.
        for name, key in sorted((sort_order or {}).items(), key=lambda pair: pair[1].priority):
            if key.priority:
                found.sort(key=lambda item: item.attributes[name], reverse=not key.ascending)
        return DirectoryResult.SUCCESS, self._queries.begin([item.only(attributes) for item in found])

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        return self._queries.next(query)

    def read_end(self, query: int) -> DirectoryResult:
        return self._queries.end(query)

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        if guid not in self.lists:
            return DirectoryResult.OBJECT_NOT_FOUND, ()
        return DirectoryResult.SUCCESS, self.lists[guid]
