"""A queue manager on a simulated disk, with its model; :mod:`msmq.testing.manager_sim` drives both.

:class:`SimulatedHost` starts the queue manager, and finds out after a restart how many events have survived.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from msmq.manager.core import Environment, Subscriber
from msmq.manager.initialization import Identity
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.store import Store, StoreFullError, StoreOptions
from msmq.testing.disk import PowerLoss
from msmq.testing.manager_book import ENQUEUE, Book, Held
from msmq.testing.manager_channel import Channel, Reader
from msmq.testing.manager_follow import LATE
from msmq.testing.manager_model import Operation, State, Traits, Work


class Leaving(Subscriber):
    """The order in which messages leave their queues."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def messages_removed(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.order += lookup_ids


class SimulatedHost(Book):
    """A queue manager with its disk and its model."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.identities = Random(4711)
        """Makes identifiers of queues and transactions; kept apart, so that none comes twice."""
        size = rng.choice((4096, 8192, 32768))
        self.options = StoreOptions(smallest_segment_bytes=size, largest_segment_bytes=4 * size)
        self.reported = 0
        """How often a restart reported damage."""
        self.crashes = self.restarts = 0
        self.ending = False
        """True while a process is cleared away that has ended."""
        self._start()

    # --- life -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.store = Store.open(self.disk, self.options, new_id=self.identities.randbytes(16))
        environment = Environment(lambda: self.now, self.identities.randbytes)
        self.manager = QueueManager(self.store, environment, lambda: Identity("HOST"))
        self.manager.start()
        self.leaving = Leaving()
        self.manager.core.subscribe(self.leaving)
        self.cleaning = self.manager.cleaning
        self.channel = Channel(self.manager, self.store)
        self.readers: list[Reader] = []
        self.descriptors: dict[str, OpenQueueDescriptor] = {}

    def restart(self) -> None:
        """Stop the queue manager properly and start it again."""
        self.manager.stop()
        self.store.close()
        self._confirm_all()
        self._come_back()

    def kill(self) -> None:
        """End the process without warning; the machine goes on."""
        self.disk.kill()
        self._come_back()

    def fill_disk(self) -> None:
        """Let somebody else take the space on the disk."""
        self.disk.capacity = self.disk.used_bytes + self.rng.choice((0, 0, 5000, 20000))

    def free_disk(self) -> None:
        self.disk.capacity = None

    def crash(self) -> None:
        """Turn the power off."""
        self.crashes += 1
        self.disk.crash(self.rng)
        self._come_back()

    def _come_back(self) -> None:
        """Start again, as often as the power fails meanwhile, and compare what is there."""
        self.restarts += 1
        self.ending = True
        self.channel.end()
        self.ending = False
        while True:
            if self.rng.random() < 0.2:
                self.disk.crash_at(self.rng.randint(1, 25))
            try:
                self._start()
                self.reported += len(self.store.report.damaged)
                break
            except PowerLoss:
                self.reported += len(self.store.report.damaged)
                self.crashes += 1
                self.disk.crash(self.rng)
            except StoreFullError:
                # Nothing is lost by that, but somebody has to make room.
                assert self.disk.capacity is not None
                self.disk.capacity = None
                self.disk.kill()
        self._settle()
        try:
            self._run_timers()
        except PowerLoss:  # it was to come during the start, and comes now
            self.crash()

    def _settle(self) -> None:
        """Find the number of events after which the model equals what the queue manager has recovered."""
        found = self._found()
        candidate = self.confirmed.copy()
        events = list(self.uncertain)
        highest = self.told
        first = difference = candidate.differs(found, self.damaged)
        while difference:
            assert events, f"confirmed against found: {first}; all events against found: {difference}"
            event = events.pop(0)
            candidate.apply(event.changes)
            highest = event.highest
            difference = candidate.differs(found, self.damaged)
        for lookup_id in self.damaged & candidate.standing.keys() - found.standing.keys():
            candidate.forget(lookup_id)
        for lookup_id in self.damaged & found.messages.keys():
            # It stays in the log until its segment goes, and must be found again.
            candidate.messages[lookup_id] = found.messages[lookup_id]
        self.confirmed, self.current = candidate, candidate.copy()
        self.uncertain = []
        self.told = self.highest = highest
        self._explained.clear()
        self.express.clear()
        self.paused.clear()
        self.failures.clear()
        self.works = {
            identifier: Work(identifier, True, True, list(operations))
            for identifier, operations in candidate.promised.items()
        }
        self.held = {
            member.lookup_id: Held()
            for work in self.works.values()
            for member in work.operations
            if member.kind is not ENQUEUE
        }
        self.check()

    def _found(self) -> State:
        """Describe what the queue manager holds, in terms of the model."""
        found = State()
        core = self.manager.core
        for path, queue in self._queues().items():
            found.queues[path] = Traits(
                queue.transactional,
                queue.journaling,
                queue.quota_kb,
                queue.journal_quota_kb,
                frozenset(queue.subqueue_collection),
            )
        for member in self._all_queues().values():
            for entry in member.positions:
                found.messages[entry.lookup_id] = self._item(member, entry.lookup_id)
        for identifier, transaction in self.manager.transactions.collection.items():
            operations = []
            for operation in transaction.operations:
                target = operation.target_queue.pathname.lower() if operation.target_queue else ""
                for lookup_id in operation.ids:
                    item = found.messages[lookup_id]
                    operations.append(Operation(operation.operation_type, lookup_id, item, target))
                    if operation.operation_type is ENQUEUE:
                        del found.messages[lookup_id]
            found.promised[identifier] = tuple(operations)
        assert core.express_bytes == 0, "an express message outlived its process"
        return found

    # --- time -----------------------------------------------------------------------------------------------

    def _run_timers(self) -> None:
        """Run the timers. Messages leave one after another then. The rules do not say which first, so the queue manager
        is asked, and what survives a crash must agree with its answer."""
        failures = self.manager.core.timers.failures
        self.leaving.order.clear()
        self.manager.run_timers()
        if self.disk.powerless:  # a timer that fails, for any reason, does not keep others from running
            raise PowerLoss("in a timer")
        assert self.disk.capacity is not None or self.manager.core.timers.failures == failures
        messages = self.current.messages | self.express
        over = [
            (lookup_id, LATE)
            for lookup_id, item in messages.items()
            if self._has_gone(lookup_id, item) and lookup_id not in self.held
        ]
        fates = over + self._after_pauses()
        self._happened(*self._left(sorted(fates, key=lambda each: self.leaving.order.index(each[0]))))

    def _after_pauses(self) -> list[tuple[int, int]]:
        """Return messages that leave when their pause is over, with the reason; without readers there are none."""
        return []
