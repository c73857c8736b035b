"""Test the queue manager and its store against a model, on a disk that loses power.

``python -m msmq.testing.manager_sim --seed N --steps N --seeds N`` runs simulations seed after seed and ends at the
first failure with the command that replays it; ``make sim`` goes on until it is stopped.

A step is anything that may be asked of a queue manager (:class:`ManagerSimulation` has a method for each), a commit of
the store, a piece of cleaning, or a fault: the power fails at any write or sync, with unsynced sectors torn or lost;
the process is killed; the disk is full for a while; a bit flips. After every step the queue manager must hold exactly
what the model holds, and after every restart some state between what was confirmed and what was asked for (see
:mod:`msmq.testing.manager_model`).

A purge is not one event: it removes one message after another, and a crash may come between two of them. The same goes
for timers that run at the same time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, count
from random import Random
from typing import Final

from msmq.errors import IoTimeoutError, MessageNotFoundError
from msmq.manager.model import UNLIMITED, MessageSeekAction, OperationType
from msmq.manager.queues.queue import ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.store import StoreFullError
from msmq.store.layout import RECORD_SIZE, place, segment_name
from msmq.testing.disk import PowerLoss
from msmq.testing.faults import Fault, Faults
from msmq.testing.manager_book import Held
from msmq.testing.manager_follow import ARRIVED, DELETED, LATE, PURGED, RECEIVED, Due, Kind
from msmq.testing.manager_model import (
    Change,
    Ended,
    Gone,
    Moved,
    Operation,
    Promised,
    Put,
    QueueGone,
    QueueWritten,
    Traits,
    Work,
    root_of,
)
from msmq.testing.manager_readers import SUBQUEUES
from msmq.testing.manager_senders import Senders
from msmq.testing.manager_waits import Waits
from msmq.testing.traffic import (
    Delivery,
)

MQ_OK: Final = 0
MOST_QUEUES: Final = 5
MOST_TRANSACTIONS: Final = 4
ENQUEUE, DEQUEUE, MOVE = OperationType.ENQUEUE, OperationType.DEQUEUE, OperationType.MOVE


class ManagerSimulation(Senders, Waits):
    """Every public method without arguments is a step."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.steps = 0
        self.faults = Faults(lambda: not self.ending)
        self._names = count(1)

    # --- durability -----------------------------------------------------------------------------------------

    def commit_slowly(self) -> None:
        """Do other things while a batch is being written."""
        batch = self.store.take()
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice((self.send, self.receive, self.end_transaction, self.enqueue_in_transaction))()
        if batch is not None:
            self.store.write(batch)
            self.store.completed(batch)
        self._confirm()

    def clean(self) -> None:
        """Do a piece of cleaning."""
        self.store.clean_step(self.cleaning, self.rng.choice((500, 4000, 40000)))

    def compact(self) -> None:
        """Rewrite the whole log."""
        with self._perhaps_full():
            self.store.compact(self.cleaning)
        self._confirm()

    # --- queues ---------------------------------------------------------------------------------------------

    def create_queue(self) -> None:
        if len(self.current.queues) >= MOST_QUEUES:
            return
        rng = self.rng
        traits = Traits(
            rng.random() < 0.5,
            rng.random() < 0.4,
            rng.choice((UNLIMITED, UNLIMITED, 8)),
            rng.choice((UNLIMITED, 4)),
        )
        path = f"host\\private$\\q-{next(self._names)}"
        request = QueueRequest(
            path, **{name: value for name, value in traits._asdict().items() if name != "subqueues"}
        )
        with self._perhaps_full():
            self.manager.queues.create(request)
            self._happened([QueueWritten(path, traits)])

    def delete_queue(self) -> None:
        """Delete a queue with everything in it, in one event."""
        path = self._any_queue()
        if path is None:
            return
        queue = self._queue(path)
        standing = [entry.lookup_id for member in queue.family for entry in member.positions]
        with self._perhaps_full():
            self.manager.queues.delete(queue)
            self.manager.core.chores.finish()
            unsent = [due for work in self.works.values() for due in self._told_of_unsent(work, path)]
            for work in self.works.values():
                work.operations = [member for member in work.operations if root_of(member.item.place) != path]
            known = self.current.messages.keys() | self.express.keys()
            fates = [(lookup_id, DELETED) for lookup_id in standing if lookup_id in known]
            gone = self._left(fates, besides=path, also=unsent)
            self._happened([*chain.from_iterable(gone), QueueGone(path)])
            self.descriptors = {key: value for key, value in self.descriptors.items() if root_of(key) != path}

    def _told_of_unsent(self, work: Work, path: str) -> list[Due]:
        """Return what senders may be told of messages that a transaction has not sent yet and that go with their
        queue.
        """
        sent = [member for member in work.operations if member.kind is ENQUEUE and member.item.place == path]
        dues = [due for member in sent for due in self._acknowledgments(member.item, DELETED)]
        return [due._replace(certain=False) for due in dues]

    def purge(self) -> None:
        path = self._any_place()
        if path is None:
            return
        readable = self._readable(path)
        queue = self._queue(path)
        with self._perhaps_full():
            self.manager.queues.purge(queue)
            self.manager.core.chores.finish()
            for lookup_id, held in self.held.items():
                held.purged |= self._message(lookup_id).place == path
        gone = [lookup_id for lookup_id in readable if queue.positions.get(lookup_id) is None]
        self._happened(*self._left([(lookup_id, PURGED) for lookup_id in gone]))

    # --- reading --------------------------------------------------------------------------------------------

    def receive(self) -> None:
        path = self._any_place()
        if path is not None:
            for _ in range(self.rng.choice((1, 1, 1, 5))):
                lookup_id = self._read(path, self.manager.reading.dequeue)
                if lookup_id is not None:
                    self._happened(self._received(lookup_id))

    def _read(self, path: str, event: Callable[..., None], work: Work | None = None) -> int | None:
        """Read the first message, and check that it is the right one."""
        transaction = None if work is None else self.manager.transactions.find(work.identifier)
        options = {} if transaction is None else {"transaction": transaction}
        results: list[ReadResult] = []
        event(self._descriptor(path), results.append, timeout_s=0, **options)
        (result,) = results
        if result.position is not None:
            # The log may hold an older, sound copy, which a restart would find.
            self.damaged.discard(result.position.lookup_id)
        self._forget_damaged()
        readable = self._readable(path, peek=event == self.manager.reading.peek)
        if not readable:
            assert result.status == IoTimeoutError.code
            return None
        if result.status == StoreFullError.code:
            assert self.disk.capacity is not None
            return None
        assert result.status == MQ_OK, hex(result.status)
        assert result.position is not None
        assert result.message is not None
        assert result.position.lookup_id == readable[0], "not the first message"
        assert bytes(result.message.packet.body) == self._everything()[readable[0]].text
        return readable[0]

    def peek(self) -> None:
        path = self._any_place()
        if path is not None:
            self._read(path, self.manager.reading.peek)

    def begin_read(self) -> None:
        path = self._any_place()
        if path is not None:
            lookup_id = self._read(path, self.manager.reading.dequeue_begin)
            if lookup_id is not None:
                self.held[lookup_id] = Held(descriptor=self._descriptor(path))

    def end_read(self) -> None:
        begun = sorted(lookup_id for lookup_id, held in self.held.items() if held.descriptor is not None)
        if not begun:
            return
        lookup_id = self.rng.choice(begun)
        held, item = self.held[lookup_id], self._message(lookup_id)
        keep = self.rng.random() < 0.6
        assert held.descriptor is not None
        with self._perhaps_full():
            position = self._queue(item.place).position(lookup_id)
            self.manager.reading.dequeue_end(held.descriptor, position, delete_message=keep)
            if held.purged or not keep:
                self._happened(*self._let_go(lookup_id))
            else:
                self._happened(self._received(lookup_id))

    def move(self) -> None:
        """Move a message to a subqueue, or back from one."""
        path = self._any_queue()
        readable = [] if path is None else self._family_readable(path)
        if path is None or not readable:
            return
        lookup_id = self.rng.choice(readable)
        item = self._message(lookup_id)
        with self._perhaps_full():
            target = self._target(path, item.place)
            position = self._queue(item.place).position(lookup_id)
            self.manager.move_message(position, self._queue(target))
            self._happened(self._moved(lookup_id, target))

    def _family_readable(self, path: str) -> list[int]:
        places = [path, *(f"{path};{name}" for name in sorted(self.current.queues[path].subqueues))]
        readable = (lookup_id for place in places for lookup_id in self._readable(place))
        return [lookup_id for lookup_id in readable if lookup_id not in self.damaged]

    def _target(self, path: str, source: str) -> str:
        """Choose another queue of the same family; a subqueue is created when it is first needed."""
        target = self.rng.choice([path, *(f"{path};{name}" for name in SUBQUEUES)])
        if target == source:
            target = path if source != path else f"{path};{SUBQUEUES[0]}"
        name = target.partition(";")[2]
        if name:
            self._make_subqueue(path, name)
        return target

    # --- transactions ---------------------------------------------------------------------------------------

    def begin_transaction(self) -> None:
        if len(self.works) < MOST_TRANSACTIONS:
            distributed = self.rng.random() < 0.5
            transaction = self.manager.transactions.create(single_phase=not distributed)
            self.works[transaction.identifier] = Work(transaction.identifier, distributed)

    def enqueue_in_transaction(self) -> None:
        work, path = self._any_work(), self._any_queue(transactional=True)
        if work is not None and path is not None:
            with self._perhaps_full():
                self._post(path, self._draft(path, delivery=Delivery.TRANSACTIONAL), work)

    def dequeue_in_transaction(self) -> None:
        work, path = self._any_work(), self._any_place(transactional=True)
        if work is not None and path is not None:
            lookup_id = self._read(path, self.manager.reading.dequeue, work)
            if lookup_id is not None:
                work.operations.append(Operation(DEQUEUE, lookup_id, self._message(lookup_id)))
                self.held[lookup_id] = Held()

    def move_in_transaction(self) -> None:
        work, path = self._any_work(), self._any_queue(transactional=True)
        readable = [] if path is None else self._family_readable(path)
        if work is None or path is None or not readable:
            return
        lookup_id = self.rng.choice(readable)
        item = self._message(lookup_id)
        with self._perhaps_full():
            target = self._target(path, item.place)
            transaction = self.manager.transactions.find(work.identifier)
            position = self._queue(item.place).position(lookup_id)
            self.manager.move_message(position, self._queue(target), transaction)
            work.operations.append(Operation(MOVE, lookup_id, item, target))
            self.held[lookup_id] = Held()

    def send_transactionally(self) -> None:
        """Send several messages to several queues at once."""
        if len(self.works) < MOST_TRANSACTIONS:
            transaction = self.manager.transactions.create()
            work = self.works[transaction.identifier] = Work(transaction.identifier)
            for _ in range(self.rng.randint(1, 4)):
                path = self._any_queue(transactional=True)
                if path is not None:
                    with self._perhaps_full():
                        self._post(path, self._draft(path, delivery=Delivery.TRANSACTIONAL), work)
            self._end(work, commit=True)

    def prepare(self) -> None:
        """Prepare a transaction for its coordinator."""
        works = [work for work in self.works.values() if work.distributed and not work.promised]
        if works:
            work = self.rng.choice(works)
            with self._perhaps_full():
                self.manager.transactions.prepare(work.identifier, single_phase=False)
                work.promised = True
                self._happened([Promised(work.identifier, tuple(work.operations))])

    def end_transaction(self) -> None:
        work = self._any_work(promised=True)
        if work is not None:
            self._end(work, commit=self.rng.random() < 0.7)

    def _end(self, work: Work, *, commit: bool) -> None:
        with self._perhaps_full():
            if commit:
                self.manager.transactions.commit(work.identifier)
                del self.works[work.identifier]
                self._committed(work)
            else:
                self.manager.transactions.abort(work.identifier)
                del self.works[work.identifier]
                taken = [member.lookup_id for member in work.operations if member.kind is not ENQUEUE]
                self._happened([Ended(work.identifier)], *self._let_go(*reversed(taken)))

    def _committed(self, work: Work) -> None:
        changes: list[Change] = [Ended(work.identifier)]
        dues: list[Due] = []
        late: list[list[Change]] = []
        copied: Counter[str] = Counter()
        for kind, lookup_id, item, target in work.operations:
            self.held.pop(lookup_id, None)
            if kind is ENQUEUE:
                changes.append(Put(lookup_id, item))
                dues += self._acknowledgments(item, ARRIVED, lookup_id) + self._sent_copy(item)
            elif kind is MOVE:
                changes.append(Moved(lookup_id, target))
            else:
                changes.append(Gone(lookup_id))
                dues += self._acknowledgments(item, RECEIVED, lookup_id)
                journal = self._journal_of(item, copied[item.place])
                if journal is not None:
                    copied[item.place] += item.size
                    about, sound = item.wishes.identifier, lookup_id not in self.damaged
                    dues.append(Due(Kind.COPY, journal, RECEIVED, about, item.text, sound, item.reason))
            if kind is not DEQUEUE and self._expired(item):
                dues += self._acknowledgments(item, LATE, lookup_id)
                grave = self._stands_in_a_grave(lookup_id, item)
                if grave is None:
                    dues += self._graves(item, LATE, lookup_id)
                late.append([Gone(lookup_id)] if grave is None else [Moved(lookup_id, grave)])
        self._happened(changes + self._follow(dues), *late)

    # --- time -----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Let time pass."""
        self.now += self.rng.choice((1, 10, 100))
        self._run_timers()

    # --- damage ---------------------------------------------------------------------------------------------

    def damage(self) -> None:
        """Flip a bit in a message on the disk, or make it unreadable, perhaps one that somebody holds. Neither reading
        it, nor a restart, nor rewriting the log may lose any other message, and the damage must be reported."""
        self.free_disk()
        self.commit()
        candidates = [
            (entry.address, entry.size, entry.lookup_id)
            for queue in self._queues().values()
            for member in queue.family
            for entry in member.positions
            if entry.lookup_id in self.confirmed.messages
            and self.current.messages.get(entry.lookup_id) == self.confirmed.messages[entry.lookup_id]
            and entry.lookup_id not in self.paused.keys() | self.stuck
            and entry.lookup_id not in self.damaged  # the same bit twice mends it
            and self.current.messages[entry.lookup_id].expiry is None
        ]
        if not candidates:
            return
        address, size, lookup_id = self.rng.choice(sorted(candidates))
        number, offset = place(address)
        bit = self.rng.randrange(8 * (RECORD_SIZE + size))
        name, end = segment_name(number), offset + RECORD_SIZE + size
        if self.rng.random() < 0.5 or not self.disk.spoil(name, offset, end):
            self.disk.flip(name, offset + bit // 8, 1 << bit % 8)
        self.damaged.add(lookup_id)
        reported = self.reported
        if lookup_id in self.held and self.rng.random() < 0.5:
            return  # it is met later
        if lookup_id not in self.held:
            if self.rng.random() < 0.5:
                self._meet_damage(lookup_id)
                return
            self.rng.choice((self.kill, self.crash))()
        told = self.reported > reported
        while not self._rewritten():
            told = True  # reported by a queue manager that has ended
            self.crash()
        told |= any(lost.lookup_id == lookup_id for lost in self.cleaning.lost_records)
        assert told, "damage went without a word"
        item = self.current.messages.get(lookup_id)
        if item is not None and self._queue(item.place).positions.get(lookup_id) is not None:
            assert self._item(self._queue(item.place), lookup_id) == item, "an older copy is another message"
            self.damaged.discard(lookup_id)
        elif item is not None:
            for work in self.works.values():
                work.operations = [each for each in work.operations if each.lookup_id != lookup_id]
            self._happened(self._gone(lookup_id))
        self._confirm()

    def _meet_damage(self, lookup_id: int) -> None:
        """Try to read the damaged message while the queue manager runs."""
        descriptor = self._descriptor(self.current.messages[lookup_id].place)
        result = self.manager.reading.read_by_lookup_id(
            descriptor, lookup_id, MessageSeekAction.CURRENT, peek=self.rng.random() < 0.5
        )
        assert result.status == MessageNotFoundError.code, hex(result.status)
        assert self.cleaning.lost_records[-1].lookup_id == lookup_id, "damage went without a word"
        self._happened([Gone(lookup_id)])

    def _rewritten(self) -> bool:
        """Rewrite the log. Returns False if the power failed."""
        try:
            self.store.compact(self.cleaning)
        except PowerLoss:
            return False
        return True

    # --- random steps ---------------------------------------------------------------------------------------

    def step(self, *, powerless: float = 0.08, faulty: float = 0) -> None:
        """Do one step of any kind, sometimes with a power failure ahead or with an internal error in it."""
        if self.rng.random() < powerless:
            self.disk.crash_at(self.rng.randint(1, 12))
        elif faulty and self.rng.random() < faulty:
            self.faults.arm(int(2 ** self.rng.uniform(0, _CALLS_LOG2)))
        name = self.rng.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        self.perform(name)

    def perform(self, name: str) -> None:
        """Do a step by its name, then check what must hold."""
        self.steps += 1
        raised = self.faults.raised
        try:
            getattr(self, name)()
        except PowerLoss:
            self.faults.disarm()
            self.crash()
        except Fault:  # the process ends, and what it had not written is lost
            self.faults.disarm()
            self.rng.choice((self.kill, self.crash))()
        else:
            assert self.faults.raised == raised, f"it went on after an internal error in {self.faults.place}"
        finally:
            self.faults.disarm()
        self.check()


WEIGHTS: Final = {
    "create_queue": 6,
    "delete_queue": 1,
    "purge": 1,
    "send": 25,
    "send_batch": 12,
    "arrive": 12,
    "receive": 8,
    "receive_many": 4,
    "connect": 4,
    "prefetch": 12,
    "cancel": 1,
    "wait_to_hold": 5,
    "wait_in_transaction": 8,
    "wait_to_look": 2,
    "cancel_wait": 1,
    "acknowledge": 12,
    "reject": 3,
    "disconnect": 1,
    "hear": 4,
    "read_span": 8,
    "look_through": 3,
    "peek": 3,
    "begin_read": 5,
    "end_read": 7,
    "move": 8,
    "begin_transaction": 6,
    "enqueue_in_transaction": 12,
    "dequeue_in_transaction": 8,
    "move_in_transaction": 6,
    "send_transactionally": 10,
    "prepare": 4,
    "end_transaction": 9,
    "wait": 5,
    "commit": 14,
    "commit_slowly": 6,
    "clean": 14,
    "compact": 1,
    "restart": 2,
    "kill": 2,
    "crash": 3,
    "fill_disk": 3,
    "free_disk": 3,
}
"""Every step with its relative frequency."""
_FAULTY: Final = 0.05
"""The share of steps that are to meet an internal error; some end before it comes."""
_CALLS_LOG2: Final = 9
"""The most calls that a step makes before it meets one, as a power of two."""


def run(seed: int, steps: int, *, damaging: bool = False) -> ManagerSimulation:
    """Run a simulation that depends on ``seed`` alone. With ``damaging`` bits on the disk flip now and then, otherwise
    there are internal errors."""
    simulation = ManagerSimulation(Random(seed))
    for _ in range(steps):
        simulation.step(faulty=0 if damaging else _FAULTY)
        if damaging and simulation.rng.random() < 0.03:
            simulation.perform("damage")
    return simulation


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m msmq.testing.manager_sim", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds; 0 goes on until stopped")
    parser.add_argument("--steps", type=int, default=1000, help="steps with each seed")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    steps = crashes = 0
    seed = options.seed
    while not options.seeds or seed < options.seed + options.seeds:
        try:
            for damaging in (False, True):
                ended = run(seed, options.steps, damaging=damaging)
                steps += ended.steps
                crashes += ended.crashes
        except BaseException:
            command = f"python -m msmq.testing.manager_sim --seed {seed} --seeds 1 --steps {options.steps}"
            sys.stderr.write(f"\nseed {seed}; replay with: {command}\n")
            raise
        sys.stderr.write(
            f"\rseed {seed}: {steps} steps, {crashes} crashes, {time.monotonic() - began:.0f} s "
        )
        seed += 1
    sys.stderr.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
