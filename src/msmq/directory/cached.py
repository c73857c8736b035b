"""A directory for an event loop and a queue manager that is synchronous: nobody waits for the network.

The queue manager asks its directory in the middle of an event and wants the answer at once. So answers come from
memory. What is not there is looked up in a thread, in one of two ways:

* Whoever *can* wait, such as a call of an application, says so with :meth:`CachedDirectory.ask`. A question without an
  answer then ends the call with :class:`Unanswered`; the answer is fetched, and the call is made again from its
  beginning and finds it. This works because the queue manager asks before it changes anything. A request that changes
  the directory is sent once, and its result is there when the call is made again.
* Whoever cannot wait gets what is remembered, however old, and GenericError if that is nothing. The answer is fetched
  meanwhile; :meth:`knows` and :meth:`load` are for those who rather look first.

An answer is used as it is for a while and then fetched again; while the directory is away it stays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msmq.directory.listed import Queries
from msmq.directory.threads import DirectoryThreads, find_all
from msmq.manager.directory import (
    Directory,
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ListsQueues,
    ObjectClass,
    SortKey,
)
from msmq.manager.event import CallAgain
from msmq.security.access import Token

FRESH_S: Final = 600
"""How long an answer is used without asking again: as long as session keys, which depend on it."""
ABSENT_S: Final = 5
"""How long the answer is used that there is no such object: it may be made at any moment."""
_MOST_ANSWERS: Final = 50_000
_LOST: Final = frozenset({DirectoryResult.DIRECTORY_NOT_CONNECTED, DirectoryResult.GENERIC_ERROR})
"""Results that say nothing about the object."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """One reading request."""

    call: str
    object_class: ObjectClass | None
    conditions: tuple[Expression, ...] | None = None
    attributes: tuple[str, ...] | None = None
    more: Any = None


class Unanswered(CallAgain):
    """A call needs the directory first: :meth:`CachedDirectory.ask` makes it again."""

    def __init__(self, key: Hashable, perform: Callable[[], Any] | None = None) -> None:
        super().__init__(f"the directory has not answered yet: {key}")
        self.key = key
        self.perform = perform


@dataclass(slots=True)
class _Attempt:
    """What a call has learned so far."""

    anew: bool
    given: dict[Hashable, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Answer:
    result: DirectoryResult
    value: Any
    at_s: float

    @property
    def given(self) -> tuple[DirectoryResult, Any]:
        return self.result, self.value


class DomainDirectory(Directory, ListsQueues, Protocol):
    """What is remembered: a directory that blocks."""


class CachedDirectory:
    """A blocking :class:`Directory` whose answers are remembered.

    It begins by waiting for each answer, which is for the start of a queue manager in a thread; :meth:`go_live` ends
    that. From then on it belongs to the thread of its event loop.
    """

    def __init__(
        self,
        directory: DomainDirectory,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._threads = DirectoryThreads(directory)
        self._fresh_s = fresh_s
        self._clock = clock
        self._waits = True
        self._attempt: _Attempt | None = None
        self._answers: dict[Question, _Answer] = {}
        self._loading: dict[Question, asyncio.Task[tuple[DirectoryResult, Any]]] = {}
        self._changing: set[asyncio.Task[Any]] = set()
        self._queries = Queries()
        self.lost: Callable[[], None] = lambda: None
        """Is told when nobody could be reached."""

    def go_live(self) -> None:
        """The queue manager has started: never wait from now on."""
        self._waits = False

    async def close(self) -> None:
        """Let changes that are under way end, and give up the rest."""
        if self._changing:
            await asyncio.wait(self._changing)
        for task in self._loading.values():
            task.cancel()
        self._threads.close(wait=False)

    # --- waiting --------------------------------------------------------------------------------------------

    async def ask(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        """Make a call that may need the directory, again and again until every question of it is answered; with
        ``anew`` no answer from before counts. The call must not change anything before it asks."""
        attempt = _Attempt(anew)
        while True:
            self._attempt = attempt
            try:
                return call()
            except Unanswered as missing:
                key, perform = missing.key, missing.perform
            finally:
                self._attempt = None
            if perform is None:
                assert isinstance(key, Question)
                attempt.given[key] = await self._load(key)
            else:
                attempt.given[key] = await self._threads.run(perform)

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        """Like :meth:`ask`, for a call that changes the directory: it goes on to its end when its caller is gone, for
        half of it would be a queue in the directory that nobody has."""
        task = asyncio.get_running_loop().create_task(self.ask(call, anew=anew))
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        return await asyncio.shield(task)

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside everything else, before the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    def knows(self, question: Question) -> bool:
        """Whether there is an answer, of whatever age."""
        return question in self._answers

    async def load(self, *questions: Question) -> None:
        """Have answers to these, as far as they can be had."""
        await asyncio.gather(*(self._load(question) for question in questions))

    def remembered(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> DirectoryObject | None:
        """What was last heard of an object, while nobody can be asked."""
        known = self._answers.get(reading(object_class, conditions, attributes))
        if known is None or known.result is not DirectoryResult.SUCCESS:
            return None
        item: DirectoryObject = known.value
        return item.only(None)

    # --- answers --------------------------------------------------------------------------------------------

    def _answer(self, question: Question) -> tuple[DirectoryResult, Any]:
        if self._waits:
            result, value = self._perform(question)
            self._learn(question, result, value)
            return result, value
        known, attempt = self._answers.get(question), self._attempt
        fresh = known is not None and self._is_fresh(known)
        if attempt is not None:
            if question in attempt.given:
                given: tuple[DirectoryResult, Any] = attempt.given[question]
                return given
            if known is None or not fresh or attempt.anew:
                raise Unanswered(question)
            return known.given
        if not fresh:
            self._load_soon(question)
        return (DirectoryResult.GENERIC_ERROR, None) if known is None else known.given

    def _is_fresh(self, known: _Answer) -> bool:
        lasts_s = self._fresh_s if known.result is DirectoryResult.SUCCESS else min(ABSENT_S, self._fresh_s)
        return self._clock() - known.at_s < lasts_s

    def _load_soon(self, question: Question) -> asyncio.Task[tuple[DirectoryResult, Any]]:
        """One request serves all who ask the same at the same time."""
        task = self._loading.get(question)
        if task is None:
            task = self._loading[question] = asyncio.get_running_loop().create_task(self._fetch(question))
            task.add_done_callback(lambda done: self._loading.pop(question, None))
        return task

    async def _load(self, question: Question) -> tuple[DirectoryResult, Any]:
        return await asyncio.shield(self._load_soon(question))

    async def _fetch(self, question: Question) -> tuple[DirectoryResult, Any]:
        result, value = await self._threads.run(lambda: self._perform(question))
        self._learn(question, result, value)
        if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
            self.lost()
        return result, value

    def _learn(self, question: Question, result: DirectoryResult, value: Any) -> None:
        if result in _LOST:
            return
        self._answers.pop(question, None)  # the newest ones are the last ones
        self._answers[question] = _Answer(result, value, self._clock())
        while len(self._answers) > _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _perform(self, question: Question) -> tuple[DirectoryResult, Any]:
        """Ask the directory itself, and wait."""
        call, object_class, conditions, attributes, more = question
        if object_class is None:
            return self.directory.resolve_distribution_list(*more)
        if call == "queues":
            return self.directory.queues_of(more)
        if call == "read":
            return self.directory.read(object_class, conditions, attributes)
        order = None if more is None else dict(more)
        return find_all(self.directory, object_class, conditions, attributes, order)

    def _forget(self, item: DirectoryObject) -> None:
        """An object has changed: what was said about it, and which ones there are, counts no longer."""
        identifier = item.attributes.get("identifier")
        for question, known in list(self._answers.items()):
            if question.object_class is not item.object_class:
                continue
            value = known.value
            if (
                not isinstance(value, DirectoryObject)
                or "identifier" not in value.attributes
                or value.identifier == identifier
            ):
                del self._answers[question]

    # --- the directory --------------------------------------------------------------------------------------

    def _do(self, call: str, item: DirectoryObject, perform: Callable[[], _T], refused: _T) -> _T:
        """A change: sent once, by whoever waits for it."""
        if self._waits:
            return perform()
        if self._attempt is None:
            _log.error("a %s of %s could not wait for the directory", call, item.object_class.value)
            return refused
        named = item.attributes.get("pathname") or item.attributes.get("identifier")
        key = (call, item.object_class, named)
        if key not in self._attempt.given:
            raise Unanswered(key, perform)
        self._forget(item)
        done: _T = self._attempt.given[key]
        return done

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        refused: tuple[DirectoryResult, bytes | None] = (DirectoryResult.GENERIC_ERROR, None)
        return self._do("create", item, lambda: self.directory.create(item, attributes, caller), refused)

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        return self._do(
            "delete", item, lambda: self.directory.delete(item, caller), DirectoryResult.GENERIC_ERROR
        )

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        return self._do(
            "write",
            item,
            lambda: self.directory.write(item, attributes, caller),
            DirectoryResult.GENERIC_ERROR,
        )

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        result, item = self._answer(reading(object_class, conditions, attributes))
        return result, None if item is None else item.only(None)

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]:
        order = None if sort_order is None else tuple(sort_order.items())
        question = Question("find", object_class, _frozen(conditions), _frozen(attributes), order)
        result, found = self._answer(question)
        if result is not DirectoryResult.SUCCESS:
            return result, None
        return result, self._queries.begin(found)

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        return self._queries.next(query)

    def read_end(self, query: int) -> DirectoryResult:
        return self._queries.end(query)

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]:
        result, found = self._answer(Question("queues", ObjectClass.QUEUE, more=computer))
        return result, found or ()

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        result, members = self._answer(Question("members", None, more=(guid, domain)))
        return result, members or ()


def reading(
    object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
) -> Question:
    """The question of Read Directory."""
    return Question("read", object_class, _frozen(conditions), _frozen(attributes))


def _frozen(given: Sequence[_T] | None) -> tuple[_T, ...] | None:
    return None if given is None else tuple(given)
