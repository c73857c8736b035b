"""A queue manager beside its model: what each of them holds, and what the one must have made of the other's changes.

:class:`Book` knows the messages that must stand in each queue, works out what must have followed from an event, and
compares the two. It does not start or stop anything; :class:`msmq.testing.manager_host.SimulatedHost` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import UNLIMITED, OperationType, QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.store import DamagedRecordError, Store, StoreFullError
from msmq.testing.disk import SimulatedDisk
from msmq.testing.manager_channel import Reader
from msmq.testing.manager_follow import (
    ARRIVED,
    BURIED,
    DELETED,
    LATE,
    NEGATIVE,
    NO_ROOM,
    PURGED,
    RECEIVED,
    Due,
    Kind,
    admin_place,
    wishes_in,
)
from msmq.testing.manager_model import (
    JOURNAL,
    Change,
    Event,
    Gone,
    Item,
    Moved,
    Put,
    State,
    Work,
    number_of,
    root_of,
)

NOON: Final = 1_700_000_000
ENQUEUE = OperationType.ENQUEUE


@dataclass(slots=True)
class Held:
    """A message that a reader or a transaction has locked."""

    purged: bool = False
    descriptor: OpenQueueDescriptor | None = None
    """The descriptor through which it was read in two phases."""
    reader: Reader | None = None
    """The application that received it from its channel and has not settled it yet."""


class Book:
    """A queue manager and its model."""

    store: Store
    manager: QueueManager
    descriptors: dict[str, OpenQueueDescriptor]

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.disk = SimulatedDisk()
        self.disk.lingering = 3
        self.now = float(NOON)
        self.confirmed = State()
        self.current = State()
        """The model after all events."""
        self.uncertain: list[Event] = []
        self.told = 0
        """The highest arrival number that anybody outside may have seen."""
        self.highest = 0
        self._explained: set[int] = set()
        """Messages that are known to have followed from the current event."""
        self.express: dict[int, Item] = {}
        self.held: dict[int, Held] = {}
        self.paused: dict[int, float] = {}
        """Rejected messages, with the time when they can be read again."""
        self.failures: Counter[int] = Counter()
        self.works: dict[bytes, Work] = {}
        self.stuck: set[int] = set()
        """Messages that a full disk kept from coming back when their reader rejected them."""
        self.damaged: set[int] = set()

    # --- what the queue manager holds --------------------------------------------------------------------------

    def _queues(self) -> dict[str, Queue]:
        """Return the created queues, by their paths in lower case."""
        by_path = self.manager.core.by_path
        return {path: queue for path, queue in by_path.items() if path.startswith("host\\private$\\q-")}

    def _all_queues(self) -> dict[str, Queue]:
        """Return all queues in which messages may stand: also journals, dead letters, and queues of other hosts."""
        core = self.manager.core
        roots = [*core.by_path.values(), *core.outgoing.values()]
        return {member.pathname.lower(): member for root in roots for member in root.family}

    def _queue(self, path: str) -> Queue:
        core = self.manager.core
        root = core.by_path.get(path) or core.outgoing.get(path) or core.by_path[root_of(path)]
        return next(member for member in root.family if member.pathname.lower() == path)

    def _item(self, queue: Queue, lookup_id: int) -> Item:
        entry = queue.positions.get(lookup_id)
        assert entry is not None
        where = queue.pathname.lower()
        try:
            message = self.manager.mailbox.load(queue, lookup_id)
        except DamagedRecordError:
            assert lookup_id in self.damaged, "a sound record cannot be read"
            known = self.current.messages.get(lookup_id, Item(where, b"", entry.size, None, True))
            return known._replace(place=where)
        return Item(
            where,
            bytes(message.packet.body),
            entry.size,
            message.expiry,
            message.recoverable,
            wishes_in(message),
            message.local.dead_letter_class,
        )

    # --- events ---------------------------------------------------------------------------------------------

    def _confirm(self) -> None:
        while self.uncertain and self.uncertain[0].mark <= self.store.durable:
            event = self.uncertain.pop(0)
            self.confirmed.apply(event.changes)
            self.told = event.highest

    def _confirm_all(self) -> None:
        self.confirmed, self.uncertain, self.told = self.current.copy(), [], self.highest

    def _happened(self, *events: list[Change]) -> None:
        """Note what one call has changed. The power may go between its events, so each has the numbers given out until
        then, and not those of the next ones."""
        highest = self.uncertain[-1].highest if self.uncertain else self.told
        for index, changes in enumerate(events, 1):
            highest = max(
                [highest, *(number_of(each.lookup_id) for each in changes if isinstance(each, Put))]
            )
            if index == len(events):
                highest = max([highest, self.highest, *map(number_of, self._explained)])
            self.current.apply(changes)
            self.uncertain.append(Event(self.store.appended, changes, highest))

    @contextmanager
    def _perhaps_full(self) -> Iterator[None]:
        """Allow a failure for lack of space. It must have changed nothing, which :meth:`check` verifies."""
        try:
            yield
        except StoreFullError:
            assert self.disk.capacity is not None, "there was space"

    # --- what the model knows -------------------------------------------------------------------------------

    def _everything(self) -> dict[int, Item]:
        """Return all messages that have a place, readable or not."""
        sent = {
            member.lookup_id: member.item
            for work in self.works.values()
            for member in work.operations
            if member.kind is ENQUEUE
        }
        return self.current.messages | self.express | sent

    def _readable(self, path: str, *, peek: bool = False) -> list[int]:
        """Return the messages of a queue that nobody holds, in order; with ``peek`` also those that may be peeked at
        while somebody holds them, except damaged ones, which are left to their holders."""
        messages = self._everything() if peek else self.current.messages | self.express
        free = (self.current.messages | self.express).keys() - self.held.keys()
        return sorted(
            lookup_id
            for lookup_id, item in messages.items()
            if item.place == path and (lookup_id in free or (peek and self._is_shown(lookup_id, item)))
        )

    def _is_shown(self, lookup_id: int, item: Item) -> bool:
        """True if a message that somebody holds can be peeked at."""
        return item.wishes.peekable and lookup_id not in self.damaged and not self._is_purged(lookup_id)

    def _is_purged(self, lookup_id: int) -> bool:
        """True if the message will be purged once its reader is done with it."""
        place = self._everything()[lookup_id].place
        return self._queue(place).position(lookup_id).state is PositionState.PURGE_PENDING

    def _any_queue(self, transactional: bool | None = None) -> str | None:
        wanted = [
            path
            for path, traits in self.current.queues.items()
            if transactional is None or traits.transactional == transactional
        ]
        return self.rng.choice(wanted) if wanted else None

    def _any_place(self, transactional: bool | None = None) -> str | None:
        """Choose a queue, a journal or a subqueue."""
        path = self._any_queue(transactional)
        if path is None:
            return None
        subqueues = sorted(self.current.queues[path].subqueues)
        return path + self.rng.choice(["", "", "", JOURNAL, *(f";{name}" for name in subqueues)])

    def _any_work(self, *, promised: bool = False) -> Work | None:
        works = [work for work in self.works.values() if promised or not work.promised]
        return self.rng.choice(works) if works else None

    def _descriptor(self, path: str) -> OpenQueueDescriptor:
        if path not in self.descriptors:
            self.descriptors[path] = self.manager.queues.open(f"DIRECT=OS:{path}", QueueAccessType.RECEIVE)
        return self.descriptors[path]

    def _received(self, *lookup_ids: int, last: bool = True) -> list[Change]:
        """Let a reader take messages, in one event and in the order of their queue; see :meth:`_follow`."""
        changes: list[Change] = []
        dues: list[Due] = []
        copied: Counter[str] = Counter()
        for lookup_id in sorted(lookup_ids):
            item = self._message(lookup_id)
            dues += self._acknowledgments(item, RECEIVED, lookup_id)
            journal = self._journal_of(item, copied[item.place])
            if journal is None:
                changes += self._gone(lookup_id)
            else:
                changes += self._moved(lookup_id, journal)
                copied[item.place] += item.size if item.recoverable else 0
        return changes + self._follow(dues, last=last)

    def _let_go(self, *lookup_ids: int) -> list[list[Change]]:
        """Return messages to their positions, except those that were purged or have expired meanwhile."""
        fates = []
        for lookup_id in lookup_ids:
            held = self.held.pop(lookup_id)
            if held.purged or self._has_gone(lookup_id, self._message(lookup_id)):
                fates.append((lookup_id, PURGED if held.purged else LATE))
        return self._left(fates)

    def _message(self, lookup_id: int) -> Item:
        return self.express.get(lookup_id) or self.current.messages[lookup_id]

    def _used(self, path: str) -> int:
        return sum(item.size for item in self._everything().values() if item.place == path)

    def _gone(self, lookup_id: int) -> list[Change]:
        self.held.pop(lookup_id, None)
        self.paused.pop(lookup_id, None)
        self.failures.pop(lookup_id, None)
        return [] if self.express.pop(lookup_id, None) else [Gone(lookup_id)]

    def _moved(self, lookup_id: int, target: str) -> list[Change]:
        self.held.pop(lookup_id, None)
        self.failures.pop(lookup_id, None)
        item = self.express.get(lookup_id)
        if item is None:
            return [Moved(lookup_id, target)]
        self.express[lookup_id] = item._replace(place=target)
        return []

    def _expired(self, item: Item) -> bool:
        return item.expiry is not None and item.expiry <= self.now and self._is_destination(item.place)

    def _is_destination(self, place: str) -> bool:
        """True if messages wait there for readers: not in a journal, a dead-letter queue or an outgoing queue."""
        return root_of(place) in self.current.queues and not place.endswith(JOURNAL)

    def _has_gone(self, lookup_id: int, item: Item) -> bool:
        """True if a message has expired and left; a full disk may have kept it from leaving in time."""
        return self._expired(item) and self._queue(item.place).positions.get(lookup_id) is None

    def _journal_of(self, item: Item, more: int = 0) -> str | None:
        """Return where a received message goes, if anywhere; ``more`` bytes are on their way there already."""
        path = root_of(item.place)
        traits = self.current.queues[path]
        if item.place != path or not traits.journaling:
            return None
        used = self._used(path + JOURNAL) + more + item.size
        fits = traits.journal_quota_kb == UNLIMITED or used <= 1024 * traits.journal_quota_kb
        return path + JOURNAL if fits else None

    # --- what follows ---------------------------------------------------------------------------------------

    def _acknowledgments(self, item: Item, fate: int, lookup_id: int = 0) -> list[Due]:
        """Return what the sender of a message must be told of its fate in its destination queue."""
        wishes = item.wishes
        if not self._is_destination(item.place) or item.reason or not wishes.wants(fate):
            return []
        text = item.text if fate & NEGATIVE else b""
        sound = lookup_id not in self.damaged
        places = [admin_place(name, self.manager.core, self.current.queues) for name in wishes.admin]
        return [
            Due(Kind.ACKNOWLEDGMENT, place, fate, wishes.identifier, text, sound and self._has_room(place))
            for place in places
            if place is not None
        ]

    def _has_room(self, place: str) -> bool:
        """True if an acknowledgment certainly fits into a queue; transactional queues take none."""
        traits = self.current.queues.get(place)
        return traits is None or (traits.quota_kb == UNLIMITED and not traits.transactional)

    def _graves(self, item: Item, fate: int, lookup_id: int = 0, besides: str = "") -> list[Due]:
        """Return where a message is kept as a dead letter, if its sender asked for that. ``besides`` is a queue that is
        being deleted: the system's queue takes what was meant for it."""
        wishes, core = item.wishes, self.manager.core
        wanted = wishes.dead_letter and (wishes.transactional or fate == NO_ROOM) and not item.reason
        wanted &= wishes.sent_by(core.record.identifier)
        if not wanted or not self._is_destination(item.place) or fate not in BURIED | {DELETED}:
            return []
        system = core.transactional_dead_letter_queue if wishes.transactional else core.dead_letter_queue
        assert system is not None
        grave = wishes.grave
        own = None if grave == besides else self.current.queues.get(grave)
        certain = fate in BURIED and lookup_id not in self.damaged
        if own is None or own.transactional != wishes.transactional:
            grave = system.pathname.lower()
        else:
            certain &= own.quota_kb == UNLIMITED and grave != item.place
        return [Due(Kind.DEAD_LETTER, grave, fate, wishes.identifier, item.text, certain)]

    def _left(
        self, fates: list[tuple[int, int]], besides: str = "", also: Iterable[Due] = ()
    ) -> list[list[Change]]:
        """Let messages leave their queues unread, one event each. The queue ``besides`` is being deleted and gets
        nothing; the messages in ``also`` may follow too."""
        events = []
        for lookup_id, fate in fates:
            item = self._message(lookup_id)
            dues = self._acknowledgments(item, fate, lookup_id)
            graves = self._graves(item, fate, lookup_id, besides)
            dues, graves = (
                [due for due in each if not besides or root_of(due.place) != besides]
                for each in (dues, graves)
            )
            stands = self._stands_in_a_grave(lookup_id, item)
            if stands is not None:  # unchanged, as there was no room to write the reason
                events.append(self._moved(lookup_id, stands) + self._follow(dues, last=False))
            else:
                events.append(self._gone(lookup_id) + self._follow(dues + graves, last=False))
        if also:
            events.append(self._follow(list(also), last=False))
        self._see_all()
        return events

    def _stands_in_a_grave(self, lookup_id: int, item: Item) -> str | None:
        core = self.manager.core
        for queue in (core.dead_letter_queue, core.transactional_dead_letter_queue):
            assert queue is not None
            if queue.positions.get(lookup_id) is not None and item.place != queue.pathname.lower():
                assert item.wishes.dead_letter, "nobody wanted it back"
                return queue.pathname.lower()
        return None

    def _sent_copy(self, item: Item) -> list[Due]:
        """Return the copy that a sender keeps of a message that has arrived."""
        journal = self.manager.core.journal_queue
        assert journal is not None
        if not item.wishes.journal or not item.wishes.sent_by(self.manager.core.record.identifier):
            return []
        return [Due(Kind.COPY, journal.pathname.lower(), ARRIVED, item.wishes.identifier, item.text)]

    def _fresh(self) -> list[tuple[int, Queue]]:
        """Return the messages that are not explained yet, in the order in which they came."""
        found = [
            (entry.lookup_id, queue)
            for queue in self._all_queues().values()
            for entry in queue.positions
            if number_of(entry.lookup_id) > self.highest and entry.lookup_id not in self._explained
        ]
        return sorted(found, key=lambda each: number_of(each[0]))

    def _follow(self, dues: list[Due], *, last: bool = True) -> list[Change]:
        """Find what must have followed from an event. With ``last`` nothing else may have."""
        changes: list[Change] = []
        for lookup_id, queue in self._fresh():
            place, message = queue.pathname.lower(), self.manager.mailbox.load(queue, lookup_id)
            due = next((each for each in dues if each.is_met_by(place, message)), None)
            if due is None:
                assert not last, f"nobody expected {message.packet.properties} at {place}, but {dues}"
                continue
            dues.remove(due)
            self._explained.add(lookup_id)
            item = self._item(queue, lookup_id)
            if item.recoverable:
                changes.append(Put(lookup_id, item))
            else:
                self.express[lookup_id] = item
        missing = [due for due in dues if due.certain]
        assert not missing or self.disk.capacity is not None, f"did not follow: {missing}"
        if last:
            self._see_all()
        return changes

    def _see_all(self) -> None:
        """Check that all messages so far are explained."""
        assert not self._fresh(), "a message came from nowhere"
        self.highest = max([self.highest, *map(number_of, self._explained)])
        self._explained.clear()

    # --- what must hold -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the queue manager holds what the model holds: places, order, states, bytes, queues."""
        self._forget_damaged()
        core = self.manager.core
        queues = self._queues()
        assert queues.keys() == self.current.queues.keys()
        everything = self._everything()
        by_place: dict[str, list[int]] = {}
        for lookup_id in sorted(everything):
            by_place.setdefault(everything[lookup_id].place, []).append(lookup_id)
        for place, member in self._all_queues().items():
            expected = by_place.pop(place, [])
            found = list(member.positions)
            assert [entry.lookup_id for entry in found] == expected, member.pathname
            assert member.total_bytes == sum(everything[lookup_id].size for lookup_id in expected)
            for entry in found:
                self._check_state(entry.lookup_id, entry.state)
        assert not by_place, "a message stands in no queue"
        assert core.total_bytes == sum(item.size for item in everything.values())
        assert core.express_bytes == sum(item.size for item in self.express.values())
        if everything:
            lookup_id = self.rng.choice(sorted(everything))
            if lookup_id not in self.damaged:
                item = everything[lookup_id]
                assert self._item(self._queue(item.place), lookup_id) == item

    def _forget_damaged(self) -> None:
        """Take damaged messages out of the model that the queue manager has set aside; a crash may bring them back."""
        for lookup_id in self.damaged & self.current.messages.keys():
            queue = self._queue(self.current.messages[lookup_id].place)
            if queue.positions.get(lookup_id) is None:
                for work in self.works.values():
                    work.operations = [each for each in work.operations if each.lookup_id != lookup_id]
                self._happened(self._gone(lookup_id))

    def _check_state(self, lookup_id: int, state: PositionState) -> None:
        held = self.held.get(lookup_id)
        if held is not None:
            assert state is (PositionState.PURGE_PENDING if held.purged else PositionState.LOCKED)
        elif lookup_id in self.current.messages or lookup_id in self.express:
            assert state is PositionState.AVAILABLE
        else:
            assert state is not PositionState.AVAILABLE, "it is still being sent"
