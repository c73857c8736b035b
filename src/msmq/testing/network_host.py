"""A host of the simulated network: a whole queue manager with its disk, its clock and its applications.

The daemon is the real one; only what its constructor takes is replaced. The applications send and receive through the
queue manager as local applications do, and write into the book.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.api.desk import Desk
from msmq.errors import MQError
from msmq.manager.access.keys import generate_key
from msmq.manager.core import Environment, Subscriber
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import Queue, ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.server.config import Config
from msmq.server.daemon import Daemon
from msmq.store import DamagedRecordError, StoreError, StoreOptions
from msmq.store.layout import RECORD_SIZE, place, segment_name
from msmq.testing.disk import PowerLoss, SimulatedDisk
from msmq.testing.faults import Fault
from msmq.testing.loop import SimulatedLoop
from msmq.testing.network import SimulatedNetwork
from msmq.testing.network_book import Book, Broken, Kind, QueueKey, Sending, Sent, body_of, number_in
from msmq.testing.network_names import AnsweredByNumber, Workgroup
from msmq.testing.network_readers import MOST_READERS, Reader, look_through, read_span
from msmq.testing.network_works import MOST_WORKS, Work
from msmq.testing.replicated import ReplicatedSimulatedDisk
from msmq.testing.traffic import Delivery, Draft, Surroundings, Traffic, properties_of
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.message import UserMessage

T = TypeVar("T")
NOON: Final = 1_700_000_000
PORT: Final = 1801
_KEY_BITS: Final = 512
ORDERS, MAIL, ACKS = "orders", "mail", "acks"
_LARGEST_EXTRA: Final = 1_000
"""The size of the largest extension in bytes; bodies have sizes of their own."""
_DELIVERIES: Final = {
    Kind.EXPRESS: Delivery.EXPRESS,
    Kind.RECOVERABLE: Delivery.RECOVERABLE,
    Kind.TRANSACTIONAL: Delivery.TRANSACTIONAL,
}
_UNREAD: Final = (
    MessageClass.NACK_RECEIVE_TIMEOUT,
    MessageClass.NACK_Q_PURGED,
    MessageClass.NACK_Q_DELETED,
)
DESTINATIONS: Final = (ORDERS, MAIL)
"""A transactional queue and one that is not; a third queue takes acknowledgments."""


@cache
def _key(bits: int) -> RSAPrivateKey:
    """Return one short key for all, because keys are not what is simulated."""
    return generate_key(_KEY_BITS, Random(4711).randbytes)


class _Observer(Subscriber):
    """Records in the book what happens in the destination queues of one run of a host."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host

    every_message = True

    def messages_arrived(self, queue: Queue, messages: Sequence[StoredMessage], fate: int) -> None:
        name = self._host.names.get(queue.number)
        if name not in DESTINATIONS:
            return
        key = (self._host.address, name)
        for message in messages:
            number = number_in(message.packet)
            if fate != MessageClass.ACK_REACH_QUEUE:
                self._host.book.refused(key, number)
                continue
            self._host.book.arrived(key, number)
            self._host.daemon.commit.when_durable(partial(self._host.book.log(key).stored.add, number))

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        name = self._host.names.get(queue.number)
        if name not in DESTINATIONS or reason not in _UNREAD:
            return
        log = self._host.book.log((self._host.address, name))
        for message in messages:
            number = number_in(message.packet)
            if reason != MessageClass.NACK_RECEIVE_TIMEOUT:
                self._host.book.sent[number].purged = True
            log.expiring.add(number)
            self._host.daemon.commit.when_durable(partial(self._expired, name, number))

    def _expired(self, name: str, number: int) -> None:
        log = self._host.book.log((self._host.address, name))
        log.expiring.discard(number)
        log.expired.add(number)


class NetworkHost:
    """One computer."""

    def __init__(
        self,
        network: SimulatedNetwork,
        book: Book,
        rng: Random,
        name: str,
        address: str,
        config: Config,
        workgroup: Workgroup | None = None,
        disk: SimulatedDisk | ReplicatedSimulatedDisk | None = None,
    ) -> None:
        self.network = network
        self.book = book
        self.rng = rng
        self.name = name
        self.address = address
        own = SimulatedDisk()
        own.lingering = 3
        self.disk = disk or own
        self.was_full = False
        """True if its disk was ever full in this run."""
        self.clock_offset = 0.0
        self.daemon: Daemon
        self.loop: SimulatedLoop | None = None
        self._desk: Desk | None = None
        self._wanted: tuple[str, ...] = ()
        self.readers: list[Reader] = []
        """Applications that hold messages; they end with the queue manager."""
        self.works: list[Work] = []
        """Applications that receive in transactions; these end with the queue manager."""
        self.names: dict[int, str] = {}
        self.damaged: dict[int, int] = {}
        """The numbers of messages that the disk has damaged, by lookup identifier."""
        self.crashes = self.restarts = 0
        self._workgroup = workgroup
        self._config = replace(config, name=name, listen=(address,))
        self._options = StoreOptions(
            smallest_segment_bytes=1 << 14, largest_segment_bytes=1 << 16, largest_batch_bytes=1 << 12
        )
        self._stopping: asyncio.Task[None] | None = None
        self._identities = Random(rng.random())
        self.start()
        self._wanted = (ORDERS, MAIL, ACKS)
        self.make_queues()
        self.daemon.store.commit()

    def __repr__(self) -> str:
        return f"<{self.name} {self.address}>"

    # Life

    @property
    def runs(self) -> bool:
        return self.loop is not None and self._stopping is None

    def now(self) -> float:
        """The time of day on this host."""
        return NOON + self.network.now + self.clock_offset

    def start(self) -> None:
        """Switch the host on; the power may fail again before it is up."""
        loop = self.network.boot(self.address, lambda: not self.disk.powerless)
        self.loop = loop
        self.was_full = self.disk.capacity is not None
        environment = Environment(self.now, self._identities.randbytes, _key)
        with loop.running():
            self.daemon = Daemon(
                self._config,
                workgroup=None if self._workgroup is None else self._workgroup.directory,
                environment=environment,
                disk=self.disk if isinstance(self.disk, SimulatedDisk) else None,
                far_disk=self.disk if isinstance(self.disk, ReplicatedSimulatedDisk) else None,
                store_options=self._options,
            )
            try:
                starting = self.daemon.start()
                if not _completes(starting):
                    # It has failed and winds down, which takes longer than the host lasts.
                    assert self.daemon.failure is not None
                    starting.close()
                    self.lose_power()
                    return
            except (
                StoreError,
                Fault,
            ):  # the disk or the program failed: it will be tried again
                self.lose_power()
                return
            except Exception:
                if not self.disk.powerless:
                    raise
                self.lose_power()
                return
        self._found()

    def _found(self) -> None:
        manager = self.daemon.manager
        prefix = f"{self.name}\\private$\\".lower()
        self.names = {
            queue.number: path.removeprefix(prefix)
            for path, queue in manager.core.by_path.items()
            if path.startswith(prefix)
        }
        standing = {
            name: list(map(number_in, self.packets(self.queue(name))))
            for name in DESTINATIONS
            if f"{prefix}{name}" in manager.core.by_path
        }
        self.book.restarted(self.address, standing)
        manager.subscribe(_Observer(self))

    def make_queues(self) -> None:
        """Make the queues that are missing: at first all, later one that was deleted."""
        for name in self._wanted:
            if self.runs and not self.has(name):
                self._do(partial(self._make_queue, name))

    def _make_queue(self, name: str) -> None:
        request = QueueRequest(f".\\private$\\{name}", transactional=name == ORDERS)
        queue = self.daemon.manager.queues.create(request)
        self.names[queue.number] = name
        if self._workgroup is not None:
            owner = guid_text(self.daemon.manager.core.record.identifier)
            known_as = f"PRIVATE={owner}\\{queue.private_queue_number:08X}"
            self._workgroup.names[self.address, name] = known_as

    def _end(self, *, silently: bool) -> None:
        self._note_silence()
        self.network.end(self.address, silently=silently)
        self.readers.clear()
        self.works.clear()
        self._desk = None
        self.loop = None
        self._stopping = None

    def _note_silence(self) -> None:
        """Note that senders may not be told: a full disk has no room for acknowledgments."""
        if hasattr(self.daemon, "manager") and self.daemon.manager.acknowledging.unsent:
            self.book.silent |= self.was_full or self.book.all_can_be_told

    def lose_power(self) -> None:
        """Stop the machine; anything that was not synced may be lost."""
        self.crashes += 1
        self._end(silently=True)
        self.disk.crash(self.rng)

    def kill(self) -> None:
        """End the process without warning."""
        self.crashes += 1
        self._end(silently=False)
        self.disk.kill()

    def stop(self) -> None:
        """Begin to stop properly."""
        assert self.loop is not None
        with self.loop.running():
            self._stopping = self.loop.create_task(self.daemon.stop())

    def look(self) -> None:
        """Check after each step of this host whether it is still running."""
        if self.loop is None:
            return
        for failure in self.loop.failures:
            if isinstance(failure, Broken):  # the daemon took it for an internal error like any other
                raise failure
        if self.disk.powerless:
            self.lose_power()
        elif self.daemon.failure is not None:
            self.lose_power()  # the operator's supervisor restarts it; what was written may be lost
        elif self._stopping is not None and self._stopping.done():
            error = self._stopping.exception()
            if isinstance(error, StoreError | Fault):
                self.lose_power()
                return
            if error is not None:
                raise error
            self.restarts += 1
            self._end(silently=False)
            self.disk.kill()
        elif self.loop.failures:
            raise self.loop.failures[0]
        else:
            for reader in self.readers:
                reader.note()

    # Applications

    def queue(self, name: str) -> Queue:
        return self.daemon.manager.core.by_path[f"{self.name}\\private$\\{name}".lower()]

    def packets(self, queue: Queue) -> list[UserMessage]:
        """The sound messages of a queue."""
        found = (self.packet(queue, entry.lookup_id) for entry in queue.positions)
        return [packet for packet in found if packet is not None]

    def packet(self, queue: Queue, lookup_id: int) -> UserMessage | None:
        """A message of a queue; None if the disk has damaged it."""
        try:
            return self.daemon.manager.mailbox.load(queue, lookup_id).packet
        except DamagedRecordError as error:
            if lookup_id not in self.damaged:
                raise Broken(f"a sound record of {self} cannot be read") from error
            return None

    def damage(self, number: int | None = None) -> None:
        """Flip a bit in a message that waits on the disk, to be sent or to be read, or make it unreadable: one of them,
        or the one with this number. Only this message may be lost."""
        disk, store = self.disk, self.daemon.store
        assert isinstance(disk, SimulatedDisk)
        here = [self.queue(name) for name in DESTINATIONS if self.has(name)]
        found = [
            (entry, about)
            for queue in (*self.daemon.manager.core.outgoing.values(), *here)
            for entry in queue.positions
            if entry.address and store.is_durable(entry.address, entry.address)
            if entry.lookup_id not in self.damaged  # the same bit twice mends it
            if (packet := self.packet(queue, entry.lookup_id)) is not None
            if (about := self.book.number_of(packet)) is not None and number in (None, about)
        ]
        if found:
            entry, about = self.rng.choice(found)
            self.damaged[entry.lookup_id] = about
            self.book.sent[about].damaged = True
            segment, offset = place(entry.address)
            bit = self.rng.randrange(8 * (RECORD_SIZE + entry.size))
            name, end = segment_name(segment), offset + RECORD_SIZE + entry.size
            if self.rng.random() < 0.5 or not disk.spoil(name, offset, end):
                disk.flip(name, offset + bit // 8, 1 << bit % 8)

    def _do(self, action: Callable[[], T]) -> T | None:
        """Make a call as an application. Returns None if the queue manager refuses it, or if a power failure or an
        internal error interrupts it."""
        assert self.loop is not None
        try:
            with self.loop.running():
                return action()
        except (MQError, PowerLoss):
            return None
        except Fault as fault:
            # As the channel of applications does it.
            self.loop.call_exception_handler({"message": "a call failed", "exception": fault})
            assert self.daemon.failure is not None, "a queue manager goes on after an internal error"
            return None
        finally:
            self.look()

    def send(self, messages: list[Sent], sizes: list[int], *, commit: bool = True) -> None:
        """Send messages, in one transaction if they are transactional."""
        self._do(lambda: self._send(messages, sizes, commit))

    def _send(self, messages: list[Sent], sizes: list[int], commit: bool) -> None:
        manager = self.daemon.manager
        transaction: Transaction | None = None
        if messages[0].kind is Kind.TRANSACTIONAL:
            transaction = manager.transactions.create()
        try:
            for sent, size in zip(messages, sizes, strict=True):
                self._post(sent, size, transaction)
                if transaction is None:
                    self._promise([sent])
        except MQError:
            commit = False
        if transaction is None:
            return
        if not commit:
            manager.transactions.abort(transaction.identifier)
            return
        for sent in messages:
            self.book.add(sent)
        manager.transactions.commit(transaction.identifier)
        self._promise(messages)

    def name_of(self, key: QueueKey, *, by_computer_name: bool = False) -> str:
        """Return the name that applications here use for a queue. A direct name gives the host; other names leave that
        to routing."""
        if self._workgroup is not None:
            return self._workgroup.names[key]
        address, queue = key
        return f"DIRECT={'OS' if by_computer_name else 'TCP'}:{address}\\private$\\{queue}"

    def _post(self, sent: Sent, size: int, transaction: Transaction | None) -> None:
        name = self.name_of(sent.target, by_computer_name=sent.by_computer_name)
        message = properties_of(self._draft(sent, name, size))
        if sent.answered_nowhere:
            message = AnsweredByNumber.of(message)
        queues = self.daemon.manager.queues
        descriptor = queues.open(name, QueueAccessType.SEND)
        try:
            if transaction is None:
                self.book.add(sent)
            (copy,) = self.daemon.manager.posting.send(descriptor, message, transaction)
            self.book.identifiers[copy.packet.identifier.encode()] = sent.number
        except MQError:
            if transaction is None:
                del self.book.sent[sent.number]  # it was refused, and nothing of it is left
            raise
        finally:
            queues.close(descriptor)

    def _draft(self, sent: Sent, name: str, size: int) -> Draft:
        """Draw a message: what the book records is given, everything else is drawn."""
        here = self.daemon.manager.core.record.identifier
        traffic = Traffic(self.rng, Surroundings(here, here, listeners=(name,), largest_body=_LARGEST_EXTRA))
        return traffic.draft(
            destination=name,
            body=body_of(sent.number, size),
            delivery=_DELIVERIES[sent.kind],
            time_to_reach_queue_s=sent.time_to_reach_queue_s,
            time_to_be_received_s=sent.time_to_be_received_s,
            acknowledgements=sent.acknowledgments,
            admin_queue=self.name_of((sent.target[0] if sent.answered_at_target else self.address, ACKS)),
            admin_list=(),
            journal=sent.positive_journaling,
            dead_letter=sent.negative_journaling,
            dead_letter_queue="",
        )

    def _promise(self, messages: Iterable[Sent]) -> None:
        def confirmed() -> None:
            for sent in messages:
                if sent.state is Sending.ASKED:
                    sent.state = Sending.CONFIRMED

        self.daemon.commit.when_durable(confirmed)

    def receive(self, name: str, *, in_transaction: bool = False, commit: bool = True) -> bool:
        """Receive one message. Returns whether there was one."""
        return bool(self._do(lambda: self._receive(name, in_transaction, commit)))

    def _receive(self, name: str, in_transaction: bool, commit: bool) -> bool:
        manager = self.daemon.manager
        key: QueueKey = (self.address, name)
        descriptor = manager.queues.open(f"DIRECT=OS:.\\private$\\{name}", QueueAccessType.RECEIVE)
        transaction = manager.transactions.create() if in_transaction else None
        results: list[ReadResult] = []
        try:
            manager.reading.dequeue(descriptor, results.append, timeout_s=0, transaction=transaction)
            message = results[0].message if results else None
            if message is None:
                return False
            number = number_in(message.packet)
            self.book.taken(key, number)
            if transaction is not None:
                if not commit:
                    manager.transactions.abort(transaction.identifier)
                    self.book.given_back(key, number)
                    return True
                manager.transactions.commit(transaction.identifier)
            manager_life = self.book.lives[self.address]
            self.daemon.commit.when_durable(partial(self.received, manager_life, key, number))
            return True
        finally:
            manager.queues.close(descriptor)

    def received(self, life: int, key: QueueKey, number: int) -> None:
        """Record that the receiving of a message is durable."""
        assert life == self.book.lives[self.address]
        self.book.read(key, number)

    # Applications that hold messages

    @property
    def desk(self) -> Desk:
        """The channel of the applications, without a door."""
        if self._desk is None:
            self._desk = Desk(self.daemon)
        return self._desk

    def connect(self, name: str, retry_delay_ms: int = 0) -> None:
        """Let another application read from a queue."""
        if len(self.readers) < MOST_READERS and self.has(name):
            self._do(lambda: self.readers.append(Reader(self, name, retry_delay_ms)))

    def with_reader(self, act: Callable[[Reader], object]) -> None:
        """Let one of the applications act, after it has taken what has come."""
        self.readers = [reader for reader in self.readers if reader.open]
        if self.readers:
            reader = self.rng.choice(self.readers)

            def hear_and_act() -> None:
                reader.hear()
                act(reader)

            self._do(hear_and_act)

    def leave(self, readers: Iterable[Reader]) -> None:
        """Let applications disconnect without warning."""
        for reader in list(readers):
            if self._do(reader.leave) and reader in self.readers:
                self.readers.remove(reader)

    def work(self, name: str, most: int) -> None:
        """Let an application receive in a transaction that stays open."""
        if self.has(name):
            if len(self.works) < MOST_WORKS:
                self._do(lambda: self.works.append(Work(self)))
            if self.works:
                work = self.rng.choice(self.works)
                self._do(lambda: work.receive(name, most))

    def end_work(self, work: Work, *, commit: bool) -> None:
        """Let an application commit or abort its transaction."""
        if self._do(lambda: work.end(commit=commit)) and work in self.works:
            self.works.remove(work)

    def look_into(self, name: str, *, whole: bool) -> None:
        """Look at what is in a queue: with a cursor, or with ``whole`` at all of it, which takes a while."""
        assert self.loop is not None
        if not self.has(name):
            return
        if whole:
            with self.loop.running():
                self.loop.create_task(read_span(self, name))
        else:
            self._do(lambda: look_through(self, name))

    def has(self, name: str) -> bool:
        return f"{self.name}\\private$\\{name}".lower() in self.daemon.manager.core.by_path

    def purge(self, name: str) -> None:
        """Purge a queue."""
        if self.has(name):
            self._do(lambda: self.daemon.manager.queues.purge(self.queue(name)))

    def purge_outgoing(self) -> None:
        """Purge a queue of messages that wait to be sent. Those that are being sent may have arrived already, and those
        that say what became of others are missed by nobody."""
        queues = [queue for queue in self.daemon.manager.core.outgoing.values() if len(queue.positions)]
        if queues:
            queue = self.rng.choice(queues)
            for packet in self.packets(queue):
                self.book.given_up(packet)
            self._do(lambda: self.daemon.manager.queues.purge(queue))

    def make_anew(self, name: str) -> None:
        """Delete a queue and create another one of the same name."""
        if self.has(name):
            self.book.deleted((self.address, name))
            self._do(lambda: self.daemon.manager.queues.delete(self.queue(name)))
        self.make_queues()

    # The end.

    @property
    def settled(self) -> bool:
        """True if everything that was sent from here has come to its end, and everything here was received."""
        outgoing = self.daemon.manager.core.outgoing.values()
        return not any(self._waits(queue) for queue in outgoing) and all(
            self.has(name) and not len(self.queue(name).positions) for name in DESTINATIONS
        )

    def _waits(self, queue: Queue) -> bool:
        """True if a queue holds a message that something will still happen to. If a disk has damaged a message at its
        destination, its sender may wait in vain for what becomes of it."""
        if not any(sent.damaged for sent in self.book.sent.values()):
            return len(queue.positions) > 0
        numbers = set(map(self.book.number_of, self.packets(queue)))
        return any(number is None or not self.book.sent[number].damaged for number in numbers)

    def leftovers(self) -> dict[str, int]:
        """Return what the daemon still remembers of messages that are gone."""
        self._note_silence()
        outgoing, copies = self.daemon.outgoing, self.daemon.arrivals.forwarding.copies
        drains, queues = outgoing.drains.values(), self.daemon.manager.core.queues
        awaited = [each.token for each in outgoing.final_acks._tracked.values()]
        placed = [(drain.queue, each) for drain in drains for each in (*drain.numbers, *drain.parked)]
        copied = [(queues[number], each) for (number, _), each in copies.items()]
        return {
            "messages awaiting a FinalAck": _gone((drain.queue, each) for drain, each in awaited),
            "places": _gone(placed),
            "messages in transit": _gone(copied),
        }


def _gone(places: Iterable[tuple[Queue, int]]) -> int:
    """Return how many of these messages are no longer there."""
    return sum(queue.positions.get(lookup_id) is None for queue, lookup_id in places)


def _completes(coroutine: Coroutine[Any, Any, object]) -> bool:
    """Run a coroutine up to where it waits, and return True if it never does."""
    try:
        coroutine.send(None)
    except StopIteration:
        return True
    return False
