"""Answers that were asked for before a change of ours and came after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from msmq.directory.cached import CachedDirectory, reading
from msmq.directory.own_changes import OwnChanges
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    by_identifier,
)
from msmq.testing.directory import MemoryDirectory

QUEUE, USER = ObjectClass.QUEUE, ObjectClass.USER
PATIENCE_S = 30


def test_the_newest_changes_come_first_and_each_object_once() -> None:
    changes = OwnChanges()
    for name in (b"a", b"b", b"a"):
        changes.note(QUEUE, name)
    assert changes.since(0) == [(QUEUE, b"a"), (QUEUE, b"b")]
    assert changes.since(2) == [(QUEUE, b"a")]
    assert changes.since(changes.moment) == []


def test_more_changes_than_are_kept_are_not_told() -> None:
    changes = OwnChanges(most=2)
    for name in (b"a", b"b", b"c"):
        changes.note(QUEUE, name)
    assert changes.since(0) is None
    assert changes.since(1) == [(QUEUE, b"c"), (QUEUE, b"b")]


class LateDirectory(MemoryDirectory):
    """Looks at once, and tells late what it saw: as a list of many pages does, or a controller that is slow."""

    def __init__(self) -> None:
        super().__init__()
        self.has_looked = threading.Event()
        self.may_tell = threading.Event()
        self.may_tell.set()

    def late(self) -> None:
        self.has_looked.clear()
        self.may_tell.clear()

    def _tell(self) -> None:
        self.has_looked.set()
        assert self.may_tell.wait(PATIENCE_S)

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        found = super().read(object_class, conditions, attributes)
        self._tell()
        return found

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        self.calls.append(("queues_of", None))
        found = super().queues_of(computer)
        self._tell()
        return found


class Scene:
    """Three queues of one host."""

    def __init__(self) -> None:
        self.late = LateDirectory()
        self.cached = CachedDirectory(self.late)
        self.queues = [
            self.late.put(
                DirectoryObject(
                    QUEUE, {"pathname": f"HOST\\{name}", "identifier": name.encode() * 16, "label": ""}
                )
            )
            for name in "abc"
        ]
        self.cached.go_live()

    def names(self) -> dict[str, str]:
        """The queues of the host and their labels, as a call sees them."""
        result, found = self.cached.queues_of("HOST")
        assert result is DirectoryResult.SUCCESS
        return {item.attributes["pathname"][5:]: item.attributes["label"] for item in found}

    async def meanwhile(self, ask: Callable[[], object], change: Callable[[], object]) -> object:
        """What is answered to a question that a change overtakes."""
        self.late.late()
        asked = asyncio.create_task(self.cached.ask(ask, anew=True))
        await asyncio.to_thread(self.late.has_looked.wait, PATIENCE_S)
        await self.cached.change(change)
        self.late.may_tell.set()
        return await asked


@pytest.fixture
def scene() -> Scene:
    return Scene()


def a_write(scene: Scene, item: DirectoryObject, label: str) -> None:
    scene.cached.write(DirectoryObject(QUEUE, item.attributes | {"label": label}), ("label",), None)


async def test_a_list_does_not_bring_back_what_was_deleted_meanwhile(scene: Scene) -> None:
    gone = scene.queues[1].only(None)
    assert await scene.meanwhile(scene.names, lambda: scene.cached.delete(gone, None)) == {"a": "", "c": ""}
    assert len(scene.late.asked("queues_of")) == 1  # the rest of a long list is not asked for again


async def test_a_list_tells_what_was_written_and_made_meanwhile(scene: Scene) -> None:
    def change() -> None:
        a_write(scene, scene.queues[0].only(None), "new")

    def create() -> None:
        made = DirectoryObject(QUEUE, {"pathname": "HOST\\d", "label": "made"})
        scene.cached.create(made, None, None)
        elsewhere = DirectoryObject(QUEUE, {"pathname": "OTHER\\d", "label": "not ours"})
        scene.cached.create(elsewhere, None, None)

    assert await scene.meanwhile(scene.names, change) == {"a": "new", "b": "", "c": ""}
    assert await scene.meanwhile(scene.names, create) == {"a": "new", "b": "", "c": "", "d": "made"}


async def test_a_list_that_cannot_be_corrected_is_no_list(scene: Scene) -> None:
    """Better none than one that is known to be wrong."""
    gone = scene.queues[1].only(None)

    def change() -> None:
        scene.cached.delete(gone, None)
        scene.late.connected = False

    def names() -> DirectoryResult:
        return scene.cached.queues_of("HOST")[0]

    assert await scene.meanwhile(names, change) is DirectoryResult.DIRECTORY_NOT_CONNECTED


async def test_a_queue_that_was_deleted_on_this_host_alone(scene: Scene) -> None:
    """The directory had lost it: a list from before may still have it."""
    gone = scene.queues[1].only(None)

    def change() -> None:
        scene.late.objects.remove(scene.queues[1])
        scene.cached.deleted_here(gone)

    assert await scene.meanwhile(scene.names, change) == {"a": "", "c": ""}


async def test_after_very_many_changes_a_list_is_asked_for_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.cached, "_own_changes", OwnChanges(most=1))
    items = [queue.only(None) for queue in scene.queues[:2]]

    def change() -> None:
        for item in items:
            scene.cached.delete(item, None)

    assert await scene.meanwhile(scene.names, change) == {"c": ""}
    assert len(scene.late.asked("queues_of")) == 2


async def test_an_object_that_was_deleted_while_it_was_read_is_not_there(scene: Scene) -> None:
    gone = scene.queues[1].only(None)
    conditions = by_identifier(gone.identifier)

    def read() -> DirectoryResult:
        return scene.cached.read(QUEUE, conditions, None)[0]

    found = await scene.meanwhile(read, lambda: scene.cached.delete(gone, None))
    assert found is DirectoryResult.OBJECT_NOT_FOUND


async def test_what_came_too_late_is_not_remembered(scene: Scene) -> None:
    """For those who cannot wait either: they would have it for minutes."""
    gone, other = (queue.only(None) for queue in scene.queues[:2])
    questions = [reading(QUEUE, by_identifier(item.identifier), None) for item in (gone, other)]
    scene.late.late()
    loading = asyncio.create_task(scene.cached.load(*questions))
    await asyncio.to_thread(scene.late.has_looked.wait, PATIENCE_S)
    await scene.cached.change(lambda: scene.cached.delete(gone, None))
    scene.late.may_tell.set()
    await loading
    assert [scene.cached.knows(question) for question in questions] == [False, True]


async def test_a_call_goes_on_with_what_it_read_before_its_own_change(scene: Scene) -> None:
    """It is made again from its beginning, and must not take what it has done for the work of others."""
    own = scene.queues[0].only(None)
    seen: list[str] = []

    def call() -> None:
        item = scene.cached.read(QUEUE, by_identifier(own.identifier), None)[1]
        assert item is not None
        seen.append(item.attributes["label"])
        a_write(scene, own, "new")
        scene.cached.read(USER, None, None)

    await scene.cached.change(call)
    assert seen == [""] * 3


async def test_who_wants_a_new_answer_does_not_get_one_that_was_asked_for_before(scene: Scene) -> None:
    """Others have changed something in between, and nobody would look at it again."""
    scene.late.late()
    first = asyncio.create_task(scene.cached.ask(scene.names, anew=True))
    await asyncio.to_thread(scene.late.has_looked.wait, PATIENCE_S)
    scene.queues[2].attributes["label"] = "by others"
    second = asyncio.create_task(scene.cached.ask(scene.names, anew=True))
    third = asyncio.create_task(scene.cached.ask(scene.names))
    await asyncio.sleep(0)
    scene.late.may_tell.set()
    assert (await first)["c"] == ""
    assert (await second)["c"] == "by others"
    assert (await third)["c"] == "by others"
    assert len(scene.late.asked("queues_of")) == 2
