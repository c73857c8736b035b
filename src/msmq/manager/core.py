"""The shared state of the queue manager: LocalQueueManager, its collections, its counters, its clock.

All rooms of the manager work on one :class:`Core` and on nothing else; protocols beside it see what happens through
:class:`Subscriber`. Nothing here reads a clock or makes random numbers: both come from :class:`Environment`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar, Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.errors import InsufficientResourcesError, MQError
from msmq.manager.answers import Answers
from msmq.manager.chores import Chores
from msmq.manager.event import Event
from msmq.manager.ledger.ledger import Ledger, LostRecord
from msmq.manager.ledger.recovered import NUMBER_MASK
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import (
    DEFAULT_TIME_TO_REACH_QUEUE_S,
    ConnectedNetwork,
    Enterprise,
    InternalCertificate,
    QueueManagerRecord,
    QueueManagerState,
    Site,
)
from msmq.manager.queues.queue import OutgoingQueue, Queue

_RESERVED_NUMBERS: Final = 1 << 16
_UNCERTAIN_NUMBERS: Final = 1 << 24
_SMALLEST_SWEEP: Final = 1024
RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Environment:
    """The sources of time and randomness."""

    now: Callable[[], float]
    """Seconds since 1970-01-01 UTC."""
    random_bytes: Callable[[int], bytes]
    generate_key: Callable[[int], RSAPrivateKey] | None = None
    """Makes an RSA key of so many bits; None for :func:`msmq.manager.access.keys.generate_key`."""


class Subscriber:
    """Base of the protocols that consume the queue manager's events (3.1.7.2). Override the methods of interest. Calls
    are synchronous, and one call tells of all messages that a queue gains or loses together."""

    only_outgoing: ClassVar[bool] = False
    """Whether the subscriber wants to know only of available messages that wait to be sent."""
    every_message: ClassVar[bool] = False
    """Whether the subscriber wants to know of every message that arrives or leaves, so that all of them have to be
    read, and not only of those that leave an outgoing queue or whose senders may have to be told."""

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """Message Position Available: messages can be read, or sent on when ``queue`` is outgoing."""

    def messages_arrived(self, queue: Queue, messages: Sequence[StoredMessage], fate: int) -> None:
        """Messages reached their destination queue, or were refused there: ``fate`` is a message class."""

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        """Message Position Deleted: messages left their queue for ``reason``, a message class."""

    def messages_removed(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """Messages left their queue, whatever messages they are."""

    def messages_lost(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """Messages left their queue because the disk has damaged them, or were found damaged when they left it: nobody
        can tell what was in them."""

    def pause_queue(self, queue: OutgoingQueue) -> None:
        """Sending from ``queue`` is to stop."""

    def resume_queue(self, queue: OutgoingQueue) -> None:
        """Sending from ``queue`` may go on."""

    def flow_control(self, throttled: bool) -> None:
        """The queue manager stopped, or went on, taking messages."""

    def connection_active(self, active: bool) -> None:
        """The queue manager was taken offline or brought online."""

    def queue_manager_started(self) -> None:
        """The state is Ready."""

    def queue_manager_stopped(self) -> None:
        """The queue manager is going down."""


def overriding(subscribers: Iterable[Subscriber], name: str) -> list[Callable[..., None]]:
    """The methods of the subscribers that override one of :class:`Subscriber`."""
    ignored = getattr(Subscriber, name)
    methods = [getattr(each, name) for each in subscribers]
    return [method for method in methods if getattr(method, "__func__", method) is not ignored]


@dataclass(order=True, slots=True)
class Timer:
    """An action that is due at some time, unless it is cancelled."""

    deadline: float
    number: int
    action: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Timers:
    """All timers of the manager; the server's loop asks for the next one and calls :meth:`run`."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._numbers = count()
        self._sweep_at = _SMALLEST_SWEEP
        self.failures = 0
        """How often an action failed at its time, usually because the disk was full."""

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, deadline: float, action: Callable[[], None]) -> Timer:
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        timer = Timer(deadline, next(self._numbers), action)
        heapq.heappush(self._heap, timer)
        return timer

    def _sweep(self) -> None:
        """Remove cancelled timers. The next sweep comes when there are twice as many as are left now."""
        self._heap = [timer for timer in self._heap if not timer.cancelled]
        heapq.heapify(self._heap)
        self._sweep_at = max(2 * len(self._heap), _SMALLEST_SWEEP)

    @property
    def next_deadline(self) -> float | None:
        while self._heap and self._heap[0].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0].deadline if self._heap else None

    def run(self, now: float) -> int:
        """Do everything that is due, and return how many actions that were. Failed ones are tried again a moment
        later. Timers started meanwhile wait for the next call, so that other work has its turn."""
        due = []
        while (deadline := self.next_deadline) is not None and deadline <= now:
            due.append(heapq.heappop(self._heap))
        done = 0
        due.reverse()
        try:
            while due:
                timer = due.pop()
                if timer.cancelled:
                    continue
                try:
                    timer.action()
                    done += 1
                except MQError:
                    self.failures += 1
                    timer.deadline = now + RETRY_S
                    heapq.heappush(self._heap, timer)
        finally:
            for timer in due:  # an action raised an unexpected error, but the other timers must stay
                heapq.heappush(self._heap, timer)
        return done


class Core:
    """LocalQueueManager (3.1.1.1) and everything it owns."""

    def __init__(
        self, ledger: Ledger, environment: Environment, *, express_limit_bytes: int = 1 << 30
    ) -> None:
        self.ledger = ledger
        self.environment = environment
        self.express_limit_bytes = express_limit_bytes
        self.timers = Timers()
        self.chores = Chores()
        self.answers = Answers()
        event = self.events = ledger.changing = Event(ledger.store, self.answers)
        self.event = event.begin
        self.event_with_room = event.begin_with_room
        self._now = environment.now
        self.subscribers: list[Subscriber] = []
        # The subscribers' methods for messages, without those that are not overridden.
        self.told_available: list[Callable[[Queue, Sequence[int]], None]] = []
        self.told_available_here: list[Callable[[Queue, Sequence[int]], None]] = []
        self.told_arrived: list[Callable[[Queue, Sequence[StoredMessage], int], None]] = []
        self.told_deleted: list[Callable[[Queue, Sequence[StoredMessage], int], None]] = []
        self.told_removed: list[Callable[[Queue, Sequence[int]], None]] = []
        self.told_lost: list[Callable[[Queue, Sequence[int]], None]] = []
        self.tells_each = False
        """Whether a subscriber wants to know of every message that arrives or leaves."""

        # Directory attributes
        self.record = QueueManagerRecord()
        # Persistent attributes
        self.former_identifiers: tuple[bytes, ...] = ()
        """Earlier identifiers, from before our object in the directory was lost and created again. Messages that were
        under way then still carry them, in both directions."""
        self.last_domain = b""
        self.directory_server_list: tuple[str, ...] = ()
        self.directory_integrated = False
        self.srmp_http_support = False
        self.srmp_pgm_support = False
        self.hardened_security = False
        self.hardened_at_next_start = False
        """The last wish for ``hardened_security``, which changes only when the queue manager starts."""
        self.initialization_retry_timer_duration_s = 120
        # Volatile attributes
        self.machine_domain_id = b""
        self.longest_time_to_reach_queue_s = DEFAULT_TIME_TO_REACH_QUEUE_S
        self.directory_offline = False
        self.throttled = False
        self.connection_active = True
        self.state = QueueManagerState.STOPPED
        self.enterprise: Enterprise | None = None
        self.sites: list[Site] = []
        self.connected_networks: list[ConnectedNetwork] = []
        self.out_routing_servers: list[QueueManagerRecord] = []
        self.in_routing_servers: list[QueueManagerRecord] = []
        self.internal_certificates: dict[bytes, InternalCertificate] = {}

        # QueueCollection, by every name a queue goes by
        self.queues: dict[int, Queue] = {}
        self.by_path: dict[str, Queue] = {}
        self.by_identifier: dict[bytes, Queue] = {}
        self.by_private_number: dict[int, Queue] = {}
        self.outgoing: dict[str, OutgoingQueue] = {}
        self.dead_letter_queue: Queue | None = None
        self.transactional_dead_letter_queue: Queue | None = None
        self.journal_queue: Queue | None = None

        self.moved: dict[int, int] = {}
        """Messages that are in another queue than their record says, by lookup identifier: the number of that queue."""
        self.orphans: dict[int, tuple[int, int]] = {}
        """Messages whose queue was lost to disk damage, by lookup identifier: queue number and address. They stay in
        the log."""
        self.lost_records: list[LostRecord] = []
        """Records lost to disk damage, for operators."""
        self.total_bytes = 0
        self.express_bytes = 0
        self._sequential_id = 0
        self._sequential_limit = 0
        self._ordinal = 0
        self._ordinal_limit = 0
        self._handles = count(1)

    def subscribe(self, subscriber: Subscriber) -> None:
        self.subscribers.append(subscriber)
        self._note_who_listens()

    def told_of(self, queue: Queue) -> list[Callable[[Queue, Sequence[int]], None]]:
        """The callbacks for available messages of a queue."""
        return self.told_available if isinstance(queue, OutgoingQueue) else self.told_available_here

    def _note_who_listens(self) -> None:
        self.told_available[:] = overriding(self.subscribers, "messages_available")
        here = [each for each in self.subscribers if not each.only_outgoing]
        self.told_available_here[:] = overriding(here, "messages_available")
        self.told_arrived[:] = overriding(self.subscribers, "messages_arrived")
        self.told_deleted[:] = overriding(self.subscribers, "messages_deleted")
        self.told_removed[:] = overriding(self.subscribers, "messages_removed")
        self.told_lost[:] = overriding(self.subscribers, "messages_lost")
        self.tells_each = any(each.every_message for each in self.subscribers)

    @property
    def own_identifiers(self) -> tuple[bytes, ...]:
        """The identifiers by which messages may name this host: the current one and the earlier ones."""
        return (self.record.identifier, *self.former_identifiers)

    # --- time and numbers ---------------------------------------------------------------------------------------

    @property
    def now_s(self) -> int:
        return int(self._now())

    def every(self, period_s: float, action: Callable[[], None]) -> None:
        """Do something periodically, for the first time one period from now."""

        def expired() -> None:
            self.every(period_s, action)
            try:
                action()
            except MQError:
                self.timers.failures += 1  # it is tried again after the next period

        self.timers.start(self.environment.now() + period_s, expired)

    def times_to_reach_queue_s(self, requested_s: Iterable[int]) -> list[int]:
        """How long messages sent here may take to their queues: as long as their senders ask, or by the enterprise's
        default for those with the general default, but no longer than the operator allows."""
        usual_s = longest_s = self.longest_time_to_reach_queue_s
        if self.enterprise is not None:
            usual_s = min(self.enterprise.default_time_to_live_s, longest_s)
        return [
            usual_s if each == DEFAULT_TIME_TO_REACH_QUEUE_S else min(each, longest_s) for each in requested_s
        ]

    def next_handle(self) -> int:
        return next(self._handles)

    def restore_numbers(self, sequential_limit: int, ordinal_limit: int, *, uncertain: bool = False) -> None:
        """Continue above all numbers that may have been used before a restart; far above them if the last limits may
        be damaged."""
        if uncertain:
            sequential_limit += _UNCERTAIN_NUMBERS
            ordinal_limit += _UNCERTAIN_NUMBERS
        self._sequential_id = self._sequential_limit = sequential_limit
        self._ordinal = self._ordinal_limit = ordinal_limit

    def skip_sequential_ids(self, lookup_id: int) -> None:
        """Never use the number of a recovered message again, even if the limits were lost."""
        number = lookup_id & NUMBER_MASK
        if number > self._sequential_id:
            self._sequential_id = self._sequential_limit = number

    @property
    def last_sequential_id(self) -> int:
        """The number of the newest message."""
        return self._sequential_id & NUMBER_MASK

    def next_sequential_ids(self, messages: int) -> range:
        """SequentialIDs for a number of messages. They rise with each message and never repeat, because numbers are
        reserved on disk in advance."""
        first = self._sequential_id + 1
        if first + messages > self._sequential_limit:
            self._write_limits(first + messages + _RESERVED_NUMBERS, self._ordinal_limit)
        self._sequential_id = first + messages - 1
        return range(first & NUMBER_MASK, (first & NUMBER_MASK) + messages)

    def next_message_ordinals(self, messages: int) -> list[int]:
        """The Uniquifiers of the next messages this host sends; the 32-bit field wraps."""
        first = self._ordinal + 1
        self._ordinal += messages
        if self._ordinal > self._ordinal_limit:
            self._write_limits(self._sequential_limit, self._ordinal + _RESERVED_NUMBERS)
        return [number & 0xFFFFFFFF for number in range(first, first + messages)]

    def next_message_ordinal(self) -> int:
        """The Uniquifier of the next message this host sends."""
        return self.next_message_ordinals(1)[0]

    def _write_limits(self, sequential: int, ordinal: int) -> None:
        self.ledger.put_value("numbers", [sequential, ordinal])
        self._sequential_limit, self._ordinal_limit = sequential, ordinal

    # --- what queues hold ---------------------------------------------------------------------------------------

    def check_express_room(self, size: int) -> None:
        if self.express_bytes + size > self.express_limit_bytes:
            raise InsufficientResourcesError(
                f"Express messages already take {self.express_bytes} of the {self.express_limit_bytes} bytes of "
                "memory they may; receive some, send recoverable messages, or raise express_limit_bytes."
            )

    # --- collections --------------------------------------------------------------------------------------------

    def register(self, queue: Queue) -> None:
        """Enter a queue into QueueCollection under all its names."""
        self.queues[queue.number] = queue
        for member in queue.family:
            member.queue_manager = self.record
        if isinstance(queue, OutgoingQueue):
            self.outgoing[queue.destination_format_name.lower()] = queue
            return
        self.by_path[queue.pathname.lower()] = queue
        if queue.private_queue_number:
            self.by_private_number[queue.private_queue_number] = queue
        for identifier in (*queue.former_identifiers, queue.identifier):
            if any(identifier):
                self.by_identifier[identifier] = queue

    def unregister(self, queue: Queue) -> None:
        """Remove a queue from all tables of names. As long as messages are left in it, it is known by its number."""
        if isinstance(queue, OutgoingQueue):
            del self.queues[queue.number]
            del self.outgoing[queue.destination_format_name.lower()]
            return
        del self.by_path[queue.pathname.lower()]
        self.by_private_number.pop(queue.private_queue_number, None)
        for identifier in (*queue.former_identifiers, queue.identifier):
            self.by_identifier.pop(identifier, None)
