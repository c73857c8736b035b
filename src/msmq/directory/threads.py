"""The directory events for an event loop: each call waits in a thread of a small pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from msmq.manager.directory import (
    Directory,
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    SortKey,
)
from msmq.security.access import Token

_THREADS: Final = 16
"""Threads mostly wait; requests of several go over one connection together."""

_T = TypeVar("_T")


class DirectoryThreads:
    """Makes a blocking directory available as coroutines with the same names and results."""

    def __init__(self, directory: Directory, threads: int = _THREADS) -> None:
        self.directory = directory
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="directory")

    async def run(self, operation: Callable[[], _T]) -> _T:
        """Run any other operation on the directory in a thread of the pool."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, operation)

    async def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        return await self.run(lambda: self.directory.create(item, attributes, caller))

    async def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        return await self.run(lambda: self.directory.delete(item, caller))

    async def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        return await self.run(lambda: self.directory.write(item, attributes, caller))

    async def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        return await self.run(lambda: self.directory.read(object_class, conditions, attributes))

    async def find(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None = None,
        sort_order: Mapping[str, SortKey] | None = None,
    ) -> tuple[DirectoryResult, list[DirectoryObject]]:
        """Find all objects of a query: Begin, Next until the end, and End. Objects that cannot be read are left out."""
        return await self.run(
            lambda: find_all(self.directory, object_class, conditions, attributes, sort_order)
        )

    async def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        return await self.run(lambda: self.directory.resolve_distribution_list(guid, domain))

    def close(self, *, wait: bool = True) -> None:
        """Accept no more calls; those that run may end."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


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
