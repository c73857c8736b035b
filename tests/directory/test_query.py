"""The objects of a query."""

from __future__ import annotations

from msmq.directory.query import find_all, find_each
from msmq.manager.directory import DirectoryObject, DirectoryResult, ObjectClass, SortKey
from msmq.testing.directory import MemoryDirectory


def test_all_objects_in_order() -> None:
    directory = MemoryDirectory()
    for name in ("b", "a"):
        directory.create(DirectoryObject(ObjectClass.SITE, {"name": name}), None, None)
    result, found = find_all(directory, ObjectClass.SITE, None, None, {"name": SortKey(1)})
    assert result is DirectoryResult.SUCCESS
    assert [item.attributes["name"] for item in found] == ["a", "b"]


def test_a_query_that_is_left_early_is_ended() -> None:
    directory = MemoryDirectory()
    for name in ("b", "a"):
        directory.create(DirectoryObject(ObjectClass.SITE, {"name": name}), None, None)
    each = find_each(directory, ObjectClass.SITE, None)
    next(each)
    assert not directory.asked("read_end")
    each.close()
    assert directory.asked("read_end")


def test_finding_without_a_directory() -> None:
    directory = MemoryDirectory()
    directory.connected = False
    assert find_all(directory, ObjectClass.SITE, None) == (DirectoryResult.DIRECTORY_NOT_CONNECTED, [])
