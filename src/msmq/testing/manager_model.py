"""The model of :mod:`msmq.testing.manager_sim`: what a queue manager must remember, in the simplest form.

The model is a :class:`State`, changed by *events*. An event survives whole or not at all, and only together with all
events before it. So a crash must leave the state after some number of events, which is at least the number that were
confirmed durable.

Messages are known by their lookup identifiers, which are never given out twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from msmq.manager.model import UNLIMITED, OperationType
from msmq.testing.manager_follow import NO_WISHES, Wishes

ARRIVAL_BITS: Final = 56
JOURNAL: Final = ";journal"


class Traits(NamedTuple):
    """The properties with which a queue was created, and the subqueues it has got since."""

    transactional: bool = False
    journaling: bool = False
    quota_kb: int = UNLIMITED
    journal_quota_kb: int = UNLIMITED
    subqueues: frozenset[str] = frozenset()


class Item(NamedTuple):
    """A message: the path of its queue, its text, its size, and when it expires."""

    place: str
    text: bytes
    size: int
    expiry: int | None
    recoverable: bool
    wishes: Wishes = NO_WISHES
    reason: int = 0
    """The reason why it is a dead letter; 0 for every other message."""


class Operation(NamedTuple):
    """What a transaction did to a message: sent it (``item``), took it, or moved it to ``target``."""

    kind: OperationType
    lookup_id: int
    item: Item
    target: str = ""


# --- changes ------------------------------------------------------------------------------------------------


class QueueWritten(NamedTuple):
    path: str
    traits: Traits


class QueueGone(NamedTuple):
    path: str


class Put(NamedTuple):
    lookup_id: int
    item: Item


class Gone(NamedTuple):
    lookup_id: int


class Moved(NamedTuple):
    lookup_id: int
    target: str


class Promised(NamedTuple):
    """A transaction was prepared for a coordinator."""

    transaction: bytes
    operations: tuple[Operation, ...]


class Ended(NamedTuple):
    transaction: bytes


Change: TypeAlias = QueueWritten | QueueGone | Put | Gone | Moved | Promised | Ended


@dataclass(slots=True)
class Work:
    """A transaction that has not ended."""

    identifier: bytes
    distributed: bool = False
    promised: bool = False
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Event:
    """Changes that belong together, with what callers knew when they were made."""

    mark: int
    """The store's count of records when the call ended; the event is durable once they are."""
    changes: list[Change]
    highest: int
    """The highest arrival number given out by then."""


@dataclass(slots=True)
class State:
    """Everything that survives a restart."""

    queues: dict[str, Traits] = field(default_factory=dict)
    messages: dict[int, Item] = field(default_factory=dict)
    promised: dict[bytes, tuple[Operation, ...]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.queues), dict(self.messages), dict(self.promised))

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        match change:
            case QueueWritten(path, traits):
                self.queues[path] = traits
            case QueueGone(path):
                del self.queues[path]
                self._forget_operations(lambda member: root_of(member.item.place) == path)
            case Put(lookup_id, item):
                assert lookup_id not in self.messages, f"{lookup_id:#x} was given out twice"
                self.messages[lookup_id] = item
            case Gone(lookup_id):
                del self.messages[lookup_id]
                self._forget_operations(lambda member: member.lookup_id == lookup_id)
            case Moved(lookup_id, target):
                self.messages[lookup_id] = self.messages[lookup_id]._replace(place=target)
            case Promised(transaction, operations):
                self.promised[transaction] = operations
            case Ended(transaction):
                self.promised.pop(transaction, None)

    def forget(self, lookup_id: int) -> None:
        """Forget a message that is lost, wherever it stands, and what prepared transactions did to it."""
        self.messages.pop(lookup_id, None)
        self._forget_operations(lambda member: member.lookup_id == lookup_id)

    def _forget_operations(self, gone: Callable[[Operation], bool]) -> None:
        """Forget what prepared transactions did to a message, or in a queue, that is gone."""
        for transaction, operations in self.promised.items():
            self.promised[transaction] = tuple(member for member in operations if not gone(member))

    @property
    def standing(self) -> dict[int, Item]:
        """Messages that have a position in a queue, including those that are still being sent."""
        sent = {
            member.lookup_id: member.item
            for operations in self.promised.values()
            for member in operations
            if member.kind is OperationType.ENQUEUE
        }
        return self.messages | sent

    def differs(self, other: State, besides: Collection[int] = ()) -> str:
        """Describe how two states differ, ignoring the messages in ``besides``; empty if they do not."""
        pairs: tuple[tuple[str, Mapping[Any, object], Mapping[Any, object]], ...] = (
            ("queues", self.queues, other.queues),
            ("messages", _without(self.standing, besides), _without(other.standing, besides)),
            ("promised transactions", _touched(self, besides), _touched(other, besides)),
        )
        for what, ours, theirs in pairs:
            rows = [
                f"{key!r}: {ours.get(key)} against {theirs.get(key)}"
                for key in ours.keys() | theirs.keys()
                if ours.get(key) != theirs.get(key)
            ]
            if rows:
                return f"{what}: " + "; ".join(sorted(rows)[:4])
        return ""


def _without(messages: dict[int, Item], besides: Collection[int]) -> dict[int, Item]:
    return {lookup_id: item for lookup_id, item in messages.items() if lookup_id not in besides}


def _touched(state: State, besides: Collection[int]) -> dict[bytes, object]:
    return {
        transaction: sorted(
            (member.lookup_id, member.kind.name, member.target)
            for member in operations
            if member.lookup_id not in besides
        )
        for transaction, operations in state.promised.items()
    }


def root_of(path: str) -> str:
    """Return the queue to which a journal or a subqueue belongs."""
    return path.partition(";")[0]


def number_of(lookup_id: int) -> int:
    """Return the arrival number in a lookup identifier."""
    return lookup_id & (1 << ARRIVAL_BITS) - 1
