"""The directory events for an event loop."""

from __future__ import annotations

import asyncio
import threading

from msmq.directory.threads import DirectoryThreads, find_all
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    SortKey,
    by_identifier,
)
from msmq.testing.directory import MemoryDirectory

SUCCESS = DirectoryResult.SUCCESS


class Slow(MemoryDirectory):
    """A directory that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: object
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        assert self.go.wait(120)
        return super().read(object_class, conditions, None)


def site(name: str) -> DirectoryObject:
    return DirectoryObject(ObjectClass.SITE, {"name": name})


def test_the_loop_goes_on_while_the_directory_thinks() -> None:
    async def story() -> None:
        directory = Slow()
        threads = DirectoryThreads(directory)
        result, identifier = await threads.create(site("Berlin"), None, None)
        assert result is SUCCESS
        assert identifier is not None
        reading = asyncio.create_task(threads.read(ObjectClass.SITE, by_identifier(identifier), None))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not reading.done()
        directory.go.set()
        result, item = await reading
        assert result is SUCCESS
        assert item is not None
        assert item.attributes["name"] == "Berlin"
        threads.close()

    asyncio.run(story())


def test_all_events() -> None:
    async def story() -> None:
        directory = MemoryDirectory()
        threads = DirectoryThreads(directory)
        for name in ("b", "a"):
            await threads.create(site(name), None, None)
        result, found = await threads.find(ObjectClass.SITE, None, None, {"name": SortKey(1)})
        assert result is SUCCESS
        assert [item.attributes["name"] for item in found] == ["a", "b"]
        found[0].attributes["name"] = "c"
        assert await threads.write(found[0], None, None) is SUCCESS
        wanted = [Expression("name", Relation.EQUALS, "c")]
        assert len((await threads.find(ObjectClass.SITE, wanted))[1]) == 1
        assert await threads.delete(found[0], None) is SUCCESS
        directory.lists[bytes(16)] = ["DIRECT=OS:x\\y"]
        assert await threads.resolve_distribution_list(bytes(16), None) == (SUCCESS, ["DIRECT=OS:x\\y"])
        assert await threads.run(lambda: 5) == 5
        threads.close()

    asyncio.run(story())


def test_finding_without_a_directory() -> None:
    directory = MemoryDirectory()
    directory.connected = False
    assert find_all(directory, ObjectClass.SITE, None) == (DirectoryResult.DIRECTORY_NOT_CONNECTED, [])
