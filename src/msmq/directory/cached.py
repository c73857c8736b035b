"""A directory for an event loop and a synchronous queue manager, in which nobody waits for the network.

The queue manager asks its directory in the middle of an event and needs the answer at once. So answers come from
memory. What is not there is looked up in a thread, in one of two ways:

* A caller that can wait, such as a call of an application, uses :meth:`CachedDirectory.ask`. A question without an
  answer then ends the call with :class:`Unanswered`; the answer is fetched, and the call is made again from its
  beginning and finds it. This works because the queue manager asks before it changes anything. A request that changes
  the directory is sent once, and its result is there when the call is made again.
* A caller that cannot wait gets the remembered answer, however old, or GenericError. The answer is fetched
  meanwhile; :meth:`knows` and :meth:`load` are for callers that want to be sure of an answer first.

An answer is used for a while and then fetched again; while the directory cannot be reached the old one is used. An
answer that was requested before a change of ours and came after it may be out of date: it is not remembered, and
callers that wait for it get a newer one (:class:`msmq.directory.own_changes.OwnChanges`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msmq.directory import patience
from msmq.directory.listed import Queries
from msmq.directory.own_changes import OwnChanges
from msmq.directory.query import find_all
from msmq.directory.troubles import explained, remedy
from msmq.errors import MsmqError, NoDsError
from msmq.errors.tasks import raise_again
from msmq.manager.directory import (
    Directory,
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ListsQueues,
    ObjectClass,
    SortKey,
    by_identifier,
)
from msmq.manager.event import CallAgain
from msmq.security.access import Token
from msmq.security.sid import Sid

FRESH_S: Final = 600
"""How long an answer is used before it is fetched again: as long as session keys, which depend on it."""
ABSENT_S: Final = 5
"""How long the answer that there is no such object is used: it may be created at any moment."""
_MOST_ANSWERS: Final = 50_000
_MOST_REMEMBERED: Final = 1_000
"""Longer lists of queues are not remembered: they are only for the caller, and routes are not looked up in them."""
_raise_again: Final = partial(raise_again, expected=(MsmqError,))
"""For tasks whose callers hear of expected errors, if they are still there."""
_LISTS: Final = frozenset({"find", "queues"})
"""Questions whose answers may hold very many objects."""
_LOST: Final = frozenset({DirectoryResult.DIRECTORY_NOT_CONNECTED, DirectoryResult.GENERIC_ERROR})
"""Results that say nothing about the object."""

_THREADS: Final = 16
"""Threads mostly wait; requests of several go over one connection together."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """A request that reads from the directory."""

    call: str
    object_class: ObjectClass | None
    conditions: tuple[Expression, ...] | None = None
    attributes: tuple[str, ...] | None = None
    more: Any = None


class Unanswered(CallAgain):
    """A call needs an answer of the directory first; :meth:`CachedDirectory.ask` makes it again."""

    def __init__(
        self, key: Hashable, perform: Callable[[], Any] | None = None, item: DirectoryObject | None = None
    ) -> None:
        super().__init__(f"the directory has not answered yet: {key}")
        self.key = key
        self.perform = perform
        self.item = item
        """The object to change, if the request changes something."""


@dataclass(slots=True)
class _Attempt:
    """The state of a call that :meth:`CachedDirectory.ask` repeats."""

    anew: bool
    number: int
    """Questions asked before the call have lower numbers."""
    left_s: float
    """How long it may still wait for the directory."""
    given: dict[Hashable, Any] = field(default_factory=dict)
    """Results of its changes, and answers to its questions."""
    changed: list[Hashable] = field(default_factory=list)
    own: set[bytes] = field(default_factory=set)
    """Identifiers of objects that the call itself has changed; answers about them from before stay valid for it."""


class _Heard(NamedTuple):
    """An answer. Changes of ours after ``moment`` may be missing in it."""

    result: DirectoryResult
    value: Any
    moment: int


class _Load(NamedTuple):
    """A question that has been sent to the directory."""

    number: int
    task: asyncio.Task[_Heard]


@dataclass(slots=True)
class _Answer:
    result: DirectoryResult
    value: Any
    at_s: float

    @property
    def given(self) -> tuple[DirectoryResult, Any]:
        return self.result, self.value


class DomainDirectory(Directory, ListsQueues, Protocol):
    """A directory that blocks, whose answers are remembered."""

    def computer_sid(self, computer: str) -> Sid | None: ...


class CachedDirectory:
    """A blocking :class:`Directory` whose answers are remembered.

    At first it waits for each answer, for the start of a queue manager in a thread, until :meth:`go_live` is called.
    From then on it belongs to the thread of its event loop.
    """

    def __init__(
        self,
        directory: DomainDirectory,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="directory")
        self._closed = False
        self._fresh_s = fresh_s
        self._clock = clock
        self._waits = True
        self._attempt: _Attempt | None = None
        self._answers: dict[Question, _Answer] = {}
        self._loading: dict[Question, _Load] = {}
        self._numbers = count(1)
        self._own_changes = OwnChanges()
        self._changing: set[asyncio.Task[Any]] = set()
        self._queries = Queries()
        self.changing: Counter[Hashable] = Counter()
        """How many unfinished calls change each object: the directory may have the change, and the host not yet."""
        self.last_failure = ""
        """Why the last change was refused, in the server's words, and what to do about it."""
        self.lost: Callable[[], None] = lambda: None
        """Called when no controller could be reached."""

    def go_live(self) -> None:
        """Stop waiting for answers: the queue manager has started."""
        self._waits = False

    async def close(self) -> None:
        """Wait for changes under way, and give up everything else."""
        if self._changing:
            await asyncio.wait(self._changing)
        for load in self._loading.values():
            load.task.cancel()
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- waiting --------------------------------------------------------------------------------------------

    async def ask(self, call: Callable[[], _T], *, anew: bool = False, limit_s: float = math.inf) -> _T:
        """Repeat a call that may need the directory until all of its questions are answered. With ``anew``, answers
        from before do not count. The call must not change anything before it asks.

        Raises:
            NoDsError: it would have waited longer than ``limit_s`` altogether before it changed anything. Lists of
                very many objects may take long and are not counted. A look-up after a change that takes too long
                gives the call a GenericError.
        """
        attempt = _Attempt(anew, next(self._numbers), limit_s)
        try:
            while True:
                self._attempt = attempt
                try:
                    return call()
                except Unanswered as missing:
                    key, perform, item = missing.key, missing.perform, missing.item
                finally:
                    self._attempt = None
                if perform is None:
                    assert isinstance(key, Question)
                    attempt.given[key] = await self._heard_in_time(key, attempt)
                else:
                    assert item is not None
                    self.changing[key] += 1
                    attempt.changed.append(key)
                    work = partial(patience.limited, perform, attempt.left_s)
                    began_s = self._clock()
                    attempt.given[key] = done = await self.run(work)
                    attempt.own.add(self._has_changed(item, done[0]))
                    attempt.left_s = max(attempt.left_s - (self._clock() - began_s), patience.LAST_LOOK_S)
        finally:
            self.changing.subtract(attempt.changed)
            self.changing += Counter()  # drop objects that nobody changes any more

    def is_creating(self, item: DirectoryObject) -> bool:
        """Whether a call of ours is creating this object at the moment."""
        return ("create", item.object_class, item.attributes.get("pathname")) in self.changing

    async def change(self, call: Callable[[], _T], *, anew: bool = False, limit_s: float = math.inf) -> _T:
        """Like :meth:`ask`, for a call that changes the directory. It runs to its end even if its caller is gone,
        because half of it might leave a queue in the directory that does not exist."""
        task = asyncio.get_running_loop().create_task(self.ask(call, anew=anew, limit_s=limit_s))
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_raise_again)  # its caller, who would hear of an error, is gone
            raise

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run some work in the background; :meth:`close` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        task.add_done_callback(raise_again)

    def knows(self, question: Question) -> bool:
        """Whether there is an answer, however old."""
        return question in self._answers

    async def load(self, *questions: Question) -> None:
        """Fetch the answers to these questions, as far as the directory gives them."""
        await asyncio.gather(*(self._load(question) for question in questions))

    def deleted_here(self, item: DirectoryObject) -> None:
        """Forget an object that the directory no longer has, so that no older answer brings it back."""
        self._has_changed(item, None)

    def remembered(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> DirectoryObject | None:
        """The last known state of an object, for when the directory cannot be asked."""
        known = self._answers.get(reading(object_class, conditions, attributes))
        if known is None or known.result is not DirectoryResult.SUCCESS:
            return None
        item: DirectoryObject = known.value
        return item.only(None)

    # --- answers --------------------------------------------------------------------------------------------

    def _answer(self, question: Question) -> tuple[DirectoryResult, Any]:
        if self._waits:
            heard = _Heard(*self._perform(question), self._own_changes.moment)
            self._learn(question, heard)
            return heard[:2]
        known, attempt = self._answers.get(question), self._attempt
        fresh = known is not None and self._is_fresh(known)
        if attempt is not None:
            given: _Heard | None = attempt.given.get(question)
            if given is not None:
                if self._overtaken(question, given, attempt.own) != frozenset():
                    raise Unanswered(question)
                return given[:2]
            if known is None or not fresh or attempt.anew:
                raise Unanswered(question)
            return known.given
        if not fresh:
            self._load_soon(question)
        return (DirectoryResult.GENERIC_ERROR, None) if known is None else known.given

    def _is_fresh(self, known: _Answer) -> bool:
        lasts_s = self._fresh_s if known.result is DirectoryResult.SUCCESS else min(ABSENT_S, self._fresh_s)
        return self._clock() - known.at_s < lasts_s

    def _load_soon(self, question: Question, after: int = 0) -> asyncio.Task[_Heard]:
        """Fetch the answer to a question, or return the request for it that is under way. ``after`` excludes requests
        with lower numbers, whose answers might be too old."""
        load = self._loading.get(question)
        if load is None or load.number < after:
            task = asyncio.get_running_loop().create_task(self._fetch(question))
            load = self._loading[question] = _Load(next(self._numbers), task)
            task.add_done_callback(lambda done: self._loaded(question, done))
        return load.task

    def _loaded(self, question: Question, task: asyncio.Task[_Heard]) -> None:
        load = self._loading.get(question)
        if load is not None and load.task is task:
            del self._loading[question]
        _raise_again(task)  # often nobody waits for the answer, and those who do may be gone

    async def _load(self, question: Question, after: int = 0) -> _Heard:
        return await asyncio.shield(self._load_soon(question, after))

    async def _heard_in_time(self, question: Question, attempt: _Attempt) -> _Heard:
        """Like :meth:`_heard`, within the time that the call has left. A later answer is remembered for the next
        call."""
        if question.call in _LISTS:
            return await self._heard(question, attempt)
        began_s = self._clock()
        try:
            async with asyncio.timeout(None if math.isinf(attempt.left_s) else attempt.left_s):
                return await self._heard(question, attempt)
        except TimeoutError:
            if attempt.changed:
                return _Heard(DirectoryResult.GENERIC_ERROR, None, self._own_changes.moment)
            raise NoDsError(
                f"{patience.TOO_SLOW.capitalize()}, and nothing was changed. {remedy(patience.TOO_SLOW)}"
            ) from None
        finally:
            attempt.left_s -= self._clock() - began_s

    async def _heard(self, question: Question, attempt: _Attempt) -> _Heard:
        """Get an answer for a call, and a newer one if the last was overtaken by a change. A list of very many queues
        is not fetched again because of a few changes: the changed queues are read one by one."""
        before: _Heard | None = attempt.given.get(question)
        if before is not None and question.call == "queues":
            overtaken = self._overtaken(question, before, attempt.own)
            if overtaken is not None:
                return await self._corrected(question, before.value, overtaken)
        return await self._load(question, attempt.number if attempt.anew or before is not None else 0)

    async def _corrected(
        self, question: Question, queues: Sequence[DirectoryObject], overtaken: Collection[bytes]
    ) -> _Heard:
        moment = self._own_changes.moment
        read = [reading(ObjectClass.QUEUE, by_identifier(identifier), None) for identifier in overtaken]
        answers = await self.run(lambda: [self._perform(each) for each in read])
        kept = [queue for queue in queues if queue.identifier not in overtaken]
        for result, item in answers:
            if result in _LOST:
                return _Heard(result, (), moment)
            if item is not None and str(item.attributes["pathname"]).lower().startswith(
                f"{question.more}\\".lower()
            ):
                kept.append(item)
        return _Heard(DirectoryResult.SUCCESS, kept, moment)

    async def _fetch(self, question: Question) -> _Heard:
        moment = self._own_changes.moment
        heard = _Heard(*await self.run(lambda: self._perform(question)), moment)
        self._learn(question, heard)
        if heard.result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
            self.lost()
        return heard

    def _overtaken(
        self, question: Question, heard: _Heard, own: Collection[bytes]
    ) -> frozenset[bytes] | None:
        """Identifiers of objects in an answer that other calls have changed since it was requested, or None if there
        were too many changes. Searches do not count: people and routing can live with slightly old answers."""
        result, value, moment = heard
        if question.call not in ("read", "queues") or result is not DirectoryResult.SUCCESS:
            return frozenset()
        changed = self._own_changes.since(moment)
        if changed is None:
            return None
        later = {identifier for kind, identifier in changed if kind is question.object_class}
        if isinstance(value, DirectoryObject):
            later &= {value.attributes.get("identifier") or _named(question)}
        return frozenset(later.difference(own))

    def _learn(self, question: Question, heard: _Heard) -> None:
        result, value, moment = heard
        if result in _LOST:
            return
        self._answers.pop(question, None)  # keep the newest answers at the end
        changed = self._own_changes.since(moment)
        if changed is None or any(_is_about(question, value, *each) for each in changed):
            return
        if (
            question.object_class is ObjectClass.QUEUE
            and isinstance(value, list)
            and len(value) > _MOST_REMEMBERED
        ):
            return
        self._answers[question] = _Answer(result, value, self._clock())
        while len(self._answers) > _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _perform(self, question: Question) -> tuple[DirectoryResult, Any]:
        """Ask the directory itself, and wait for its answer."""
        call, object_class, conditions, attributes, more = question
        if object_class is None:
            return self.directory.resolve_distribution_list(*more)
        if call == "account":
            sid = self.directory.computer_sid(more)
            return DirectoryResult.GENERIC_ERROR if sid is None else DirectoryResult.SUCCESS, sid
        if call == "queues":
            return self.directory.queues_of(more)
        if call == "read":
            return self.directory.read(object_class, conditions, attributes)
        order = None if more is None else dict(more)
        return find_all(self.directory, object_class, conditions, attributes, order)

    async def run(self, operation: Callable[[], _T]) -> _T:
        """Run another operation that waits for the directory, in a thread.

        Raises:
            NoDsError: the queue manager stops, and asks nothing any more.
        """
        if self._closed:
            raise NoDsError("The queue manager stops, and asks the directory nothing any more.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, operation)

    def forget(self, classes: Collection[ObjectClass] | None = None) -> None:
        """Have answers about objects of these classes, or of all, fetched again. While the directory cannot be reached
        they are still used."""
        for question, known in self._answers.items():
            if classes is None or question.object_class in classes:
                known.at_s = -math.inf

    def drop(self, question: Question) -> None:
        """Forget an answer altogether, because the caller knows better."""
        self._answers.pop(question, None)

    def _has_changed(self, item: DirectoryObject, done: Any) -> bytes:
        """Forget all answers that a change of ours may have outdated, also those on their way. Returns the identifier
        of the object, which the directory gives to a new one."""
        made = done[1] if isinstance(done, tuple) else None
        identifier: bytes = made or item.attributes.get("identifier") or b""
        self._own_changes.note(item.object_class, identifier)
        for question, known in list(self._answers.items()):
            if _is_about(question, known.value, item.object_class, identifier):
                del self._answers[question]
        return identifier

    # --- the directory --------------------------------------------------------------------------------------

    def _do(self, call: str, item: DirectoryObject, perform: Callable[[], _T], refused: _T) -> _T:
        """Request a change. It is sent once, by :meth:`ask`."""
        if self._waits:
            return self._noting(perform)()
        if self._attempt is None:
            _log.error("a %s of %s could not wait for the directory", call, item.object_class.value)
            return refused
        named = item.attributes.get("pathname") or item.attributes.get("identifier")
        key = (call, item.object_class, named)
        if key not in self._attempt.given:
            raise Unanswered(key, lambda: (self._noting(perform)(), self.last_failure), item)
        done: _T
        done, self.last_failure = self._attempt.given[key]
        return done

    def _noting(self, perform: Callable[[], _T]) -> Callable[[], _T]:
        """Wrap an operation so that the reason of its failure is kept."""

        def noted() -> _T:
            done = perform()
            reason = getattr(self.directory, "last_failure", "")
            self.last_failure = explained(reason) if reason else ""
            return done

        return noted

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

    def computer_sid(self, computer: str) -> Sid | None:
        """The SID of a computer's account, or None if it cannot be found."""
        sid: Sid | None = self._answer(Question("account", ObjectClass.QUEUE_MANAGER, more=computer))[1]
        return sid

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        result, members = self._answer(Question("members", None, more=(guid, domain)))
        return result, members or ()


def reading(
    object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
) -> Question:
    """The question that Read Directory asks."""
    return Question("read", object_class, _frozen(conditions), _frozen(attributes))


def _named(question: Question) -> bytes:
    """The identifier of the object that a question names, or b""."""
    conditions = question.conditions or ()
    return next((each.value for each in conditions if each.attribute == "identifier"), b"")


def _is_about(question: Question, value: Any, object_class: ObjectClass, identifier: bytes) -> bool:
    """Whether a change of an object may have outdated an answer."""
    if question.object_class is not object_class:
        return False
    named = value.attributes.get("identifier") if isinstance(value, DirectoryObject) else None
    about = named or _named(question)
    return not about or about == identifier


def _frozen(given: Sequence[_T] | None) -> tuple[_T, ...] | None:
    return None if given is None else tuple(given)
