"""A directory that is slow, asked by a queue manager that does not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from msmq.directory.cached import CachedDirectory, Question, Unanswered, reading
from msmq.errors import NoDsError
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Filter,
    ObjectClass,
    SortKey,
    by_identifier,
)
from msmq.manager.model import Site
from msmq.testing.directory import MemoryDirectory

SUCCESS = DirectoryResult.SUCCESS
NOT_FOUND = DirectoryResult.OBJECT_NOT_FOUND
PARIS = b"p" * 16
NAMED = by_identifier(PARIS)


class SlowDirectory(MemoryDirectory):
    """Answers only when it is let, and never to the thread of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.put(Site(PARIS, "Paris"))

    def _wait(self) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        assert self.may_answer.wait(120)

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        self._wait()
        return super().read(object_class, conditions, attributes)

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        self._wait()
        self.calls.append(("queues_of", None))
        prefix = f"{computer}\\"
        return SUCCESS, [
            item for item in self.objects if item.attributes.get("pathname", "").startswith(prefix)
        ]


class Scene:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.slow = SlowDirectory()
        self.cached = CachedDirectory(self.slow, fresh_s=100, clock=lambda: self.now_s)
        self.cached.go_live()

    def read(self) -> tuple[DirectoryResult, DirectoryObject | None]:
        return self.cached.read(ObjectClass.SITE, NAMED, ("name",))

    def name(self) -> str | None:
        item = self.read()[1]
        return None if item is None else item.attributes["name"]

    async def settle(self) -> None:
        """Let what is being fetched come."""
        while self.cached._loading:
            await asyncio.wait({load.task for load in self.cached._loading.values()})
            await asyncio.sleep(0)

    @property
    def reads(self) -> int:
        return len(self.slow.asked("read"))


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    async def life() -> None:
        scene = Scene()
        async with asyncio.timeout(60):
            await test(scene)
            await scene.cached.close()

    asyncio.run(life())


def test_who_cannot_wait_gets_what_is_remembered() -> None:
    async def test(scene: Scene) -> None:
        assert scene.read() == (DirectoryResult.GENERIC_ERROR, None)
        assert scene.read() == (DirectoryResult.GENERIC_ERROR, None)  # one request serves both
        await scene.settle()
        assert scene.name() == "Paris"
        assert scene.reads == 1

    run(test)


def test_what_is_being_created_is_known() -> None:
    """Somebody else who lists the directory meanwhile sees the object there, and must not take it for others'."""

    async def test(scene: Scene) -> None:
        item = DirectoryObject(ObjectClass.QUEUE, {"pathname": "HOST\\orders"})
        seen: list[bool] = []

        def create() -> None:
            scene.cached.create(item, None, None)
            seen.append(scene.cached.is_creating(item))

        await scene.cached.change(create)
        assert (seen, scene.cached.is_creating(item)) == ([True], False)

    run(test)


def test_an_answer_that_was_dropped_counts_for_nobody() -> None:
    async def test(scene: Scene) -> None:
        question = reading(ObjectClass.SITE, NAMED, ("name",))
        await scene.cached.load(question)
        scene.cached.drop(question)
        scene.cached.drop(question)
        assert scene.name() is None
        await scene.settle()
        assert scene.name() == "Paris"

    run(test)


@pytest.mark.parametrize(("count", "remembered"), [(1_000, True), (1_001, False)])
def test_long_lists_of_queues_are_not_remembered(count: int, remembered: bool) -> None:
    async def test(scene: Scene) -> None:
        scene.slow.objects += [
            DirectoryObject(
                ObjectClass.QUEUE, {"pathname": f"HOST\\q{number}", "identifier": number.to_bytes(16)}
            )
            for number in range(count)
        ]
        result, found = await scene.cached.ask(lambda: scene.cached.queues_of("HOST"))
        assert (result, len(found)) == (SUCCESS, count)
        question = Question("queues", ObjectClass.QUEUE, more="HOST")
        assert scene.cached.knows(question) is remembered

    run(test)


def test_an_old_answer_is_used_while_a_new_one_is_fetched() -> None:
    async def test(scene: Scene) -> None:
        await scene.cached.load(reading(ObjectClass.SITE, NAMED, ("name",)))
        scene.slow.objects[0].attributes["name"] = "Lutetia"
        scene.now_s = 99
        assert scene.name() == "Paris"
        assert not scene.cached._loading
        scene.now_s = 100
        assert scene.name() == "Paris"
        await scene.settle()
        assert scene.name() == "Lutetia"
        scene.slow.connected = False
        scene.now_s = 1_000
        assert scene.name() == "Lutetia"
        await scene.settle()
        assert scene.name() == "Lutetia"
        assert scene.cached.remembered(ObjectClass.SITE, NAMED, ("name",)) is not None
        assert scene.cached.remembered(ObjectClass.SITE, NAMED, ("identifier",)) is None

    run(test)


def test_nothing_there_is_asked_again_soon() -> None:
    async def test(scene: Scene) -> None:
        scene.slow.objects.clear()
        assert await scene.cached.ask(scene.read) == (NOT_FOUND, None)
        assert await scene.cached.ask(scene.read) == (NOT_FOUND, None)
        assert scene.reads == 1
        scene.slow.put(Site(PARIS, "Paris"))
        scene.now_s = 5
        assert (await scene.cached.ask(scene.read))[0] is SUCCESS

    run(test)


def test_who_can_wait_is_called_again_and_the_loop_goes_on() -> None:
    async def test(scene: Scene) -> None:
        scene.slow.may_answer.clear()
        asked = asyncio.ensure_future(scene.cached.ask(scene.name))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.done()
        scene.slow.may_answer.set()
        assert await asked == "Paris"

    run(test)


def test_a_question_of_its_own_is_answered_anew() -> None:
    async def test(scene: Scene) -> None:
        assert await scene.cached.ask(scene.name) == "Paris"
        scene.slow.objects[0].attributes["name"] = "Lutetia"
        assert await scene.cached.ask(scene.name) == "Paris"
        assert await scene.cached.ask(scene.name, anew=True) == "Lutetia"

    run(test)


def test_a_change_is_sent_once_however_often_the_call_is_made() -> None:
    async def test(scene: Scene) -> None:
        made = DirectoryObject(ObjectClass.QUEUE, {"pathname": "QM\\q"})
        calls = 0

        def create() -> tuple[bytes, str]:
            nonlocal calls
            calls += 1
            result, identifier = scene.cached.create(made, None, None)
            assert result is SUCCESS
            assert identifier is not None
            _, item = scene.cached.read(ObjectClass.QUEUE, by_identifier(identifier), None)
            assert item is not None
            return identifier, item.attributes["pathname"]

        identifier, path = await scene.cached.change(create)
        assert (path, calls) == ("QM\\q", 3)
        assert scene.slow.asked("create") == [ObjectClass.QUEUE]
        made.attributes["identifier"] = identifier
        made.attributes["label"] = "new"
        assert await scene.cached.change(lambda: scene.cached.write(made, ("label",), None)) is SUCCESS
        _, item = await scene.cached.ask(
            lambda: scene.cached.read(ObjectClass.QUEUE, by_identifier(identifier), None)
        )
        assert item is not None
        assert item.attributes["label"] == "new"  # what was known about it was forgotten
        assert await scene.cached.change(lambda: scene.cached.delete(made, None)) is SUCCESS
        assert scene.slow.find(ObjectClass.QUEUE, identifier=identifier) is None

    run(test)


def test_a_change_is_carried_through_when_its_caller_is_gone() -> None:
    async def test(scene: Scene) -> None:
        made = DirectoryObject(ObjectClass.QUEUE, {"pathname": "QM\\q"})
        done: list[DirectoryResult] = []

        def create() -> None:
            result, _ = scene.cached.create(made, None, None)
            done.append(result)

        caller = asyncio.ensure_future(scene.cached.change(create))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await scene.cached.close()
        assert done == [SUCCESS]

    run(test)


def test_when_it_stops_it_asks_nothing_any_more() -> None:
    """Who is told so is no victim of an internal error."""

    async def test(scene: Scene) -> None:
        await scene.cached.close()
        with pytest.raises(NoDsError, match="stops"):
            await scene.cached.ask(scene.read)
        assert scene.reads == 0

    run(test)


def test_nobody_changes_anything_in_passing() -> None:
    async def test(scene: Scene) -> None:
        made = DirectoryObject(ObjectClass.QUEUE, {"pathname": "QM\\q"})
        assert scene.cached.create(made, None, None) == (DirectoryResult.GENERIC_ERROR, None)
        assert scene.cached.delete(made, None) is DirectoryResult.GENERIC_ERROR
        assert scene.cached.write(made, None, None) is DirectoryResult.GENERIC_ERROR
        assert scene.slow.calls == []

    run(test)


def test_queries_lists_and_the_queues_of_a_computer() -> None:
    async def test(scene: Scene) -> None:
        scene.slow.put(Site(b"r" * 16, "Rome"))
        scene.slow.lists[b"l" * 16] = ("DIRECT=OS:a\\b",)
        scene.slow.put(DirectoryObject(ObjectClass.QUEUE, {"identifier": b"q" * 16, "pathname": "QM\\q"}))

        def names() -> list[str]:
            order = {"name": SortKey(1, ascending=False)}
            result, query = scene.cached.read_begin(ObjectClass.SITE, None, ("name",), order)
            assert result is SUCCESS
            assert query is not None
            found = []
            while (step := scene.cached.read_next(query))[1] is not None:
                found.append(step[1].attributes["name"])
            assert step[0] is DirectoryResult.END_OF_DATA
            assert scene.cached.read_end(query) is SUCCESS
            assert scene.cached.read_end(query) is DirectoryResult.GENERIC_ERROR
            assert scene.cached.read_next(query)[0] is DirectoryResult.GENERIC_ERROR
            return found

        assert scene.cached.read_begin(ObjectClass.SITE, None, ("name",), None)[1] is None
        assert await scene.cached.ask(names) == ["Rome", "Paris"]
        members = await scene.cached.ask(lambda: scene.cached.resolve_distribution_list(b"l" * 16, None))
        assert members == (SUCCESS, ("DIRECT=OS:a\\b",))
        _, queues = await scene.cached.ask(lambda: scene.cached.queues_of("QM"))
        assert [item.attributes["pathname"] for item in queues] == ["QM\\q"]

    run(test)


def test_a_directory_that_is_away_is_told() -> None:
    async def test(scene: Scene) -> None:
        told: list[str] = []
        scene.cached.lost = lambda: told.append("lost")
        scene.slow.connected = False
        result, _ = await scene.cached.ask(scene.read)
        assert result is DirectoryResult.DIRECTORY_NOT_CONNECTED
        assert told == ["lost"]
        assert not scene.cached.knows(reading(ObjectClass.SITE, NAMED, ("name",)))

    run(test)


def test_only_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msmq.directory.cached._MOST_ANSWERS", 2)

    async def test(scene: Scene) -> None:
        questions = [
            reading(ObjectClass.SITE, by_identifier(bytes([number]) * 16), None) for number in range(3)
        ]
        for question in questions:
            await scene.cached.load(question)
        assert [scene.cached.knows(question) for question in questions] == [False, True, True]

    run(test)


def test_before_it_is_live_it_waits() -> None:
    slow = SlowDirectory()
    cached = CachedDirectory(slow)
    assert cached.read(ObjectClass.SITE, NAMED, ("name",))[0] is SUCCESS
    made = DirectoryObject(ObjectClass.QUEUE, {"pathname": "QM\\q"})
    assert cached.create(made, None, None)[0] is SUCCESS
    assert cached.knows(Question("read", ObjectClass.SITE, tuple(NAMED), ("name",)))


def test_an_unanswered_question_says_what_it_is() -> None:
    assert "QM1" in str(Unanswered(Question("queues", ObjectClass.QUEUE, more="QM1")))
