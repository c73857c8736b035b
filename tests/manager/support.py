"""A queue manager to try things on: fake clock, simulated disk, messages to send, readers that remember."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from random import Random
from typing import Any

from msmq.manager.core import Environment, Subscriber
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.cursor import Cursor
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import EnqueueStatus, MessageSeekAction, QueueAccessType, QueueShareMode
from msmq.manager.queue_manager import Identity, QueueManager, Settings
from msmq.manager.queues.queue import MessagePosition, OpenQueueDescriptor, Queue, ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.store import Store, StoreOptions
from msmq.testing.disk import SimulatedDisk
from msmq.wire.classes import MessageClass
from msmq.wire.headers import DEFAULT_PRIORITY, INFINITE, BaseHeader, MessagePropertiesHeader
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.trailers import host_address
from tests.wire.builders import build, user_header

NOON = 1_700_000_000
"""When the tests begin."""

MQ_OK = 0
RECEIVE, PEEK, SEND = QueueAccessType.RECEIVE, QueueAccessType.PEEK, QueueAccessType.SEND


def message(
    body: bytes = b"",
    *,
    priority: int = DEFAULT_PRIORITY,
    recoverable: bool = False,
    transactional: bool = False,
    sent_time: int = NOON,
    time_to_be_received_s: int = INFINITE,
    admin: str | None = None,
    acknowledge: int = 0,
    source: str = "",
    **local: Any,
) -> StoredMessage:
    """A message as it comes to a queue. ``admin`` is the direct name of an administration queue,
    ``acknowledge`` the bits that ask for acknowledgments, ``source`` the address of the host it came from, ``local``
    are attributes that no header carries."""
    user = user_header(admin=admin, recoverable=recoverable or transactional)
    user.sent_time = sent_time
    user.time_to_be_received_s = time_to_be_received_s
    packet = build(
        base=BaseHeader(flags=priority),
        user=user,
        properties=MessagePropertiesHeader(flags=acknowledge),
        body=body,
        transaction=TransactionHeader() if transactional else None,
    )
    kept = host_address(ip_address(source)) if source else b""
    return StoredMessage(packet, LocalAttributes(**local), source=kept)


class Spy(Subscriber):
    """Remembers which messages became available and which left, and why."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.available: list[bytes] = []
        self.deleted: list[tuple[bytes, int]] = []

    every_message = True

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        self.available += [self.host.body_at(queue.position(lookup_id)) for lookup_id in lookup_ids]

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        self.deleted += [(bytes(message.packet.body), reason) for message in messages]


class Host:
    """A queue manager, its clock and its disk."""

    def __init__(
        self,
        seed: int = 0,
        settings: Settings | None = None,
        options: StoreOptions | None = None,
        spying: bool = True,
    ) -> None:
        """``spying`` makes the host read every message that goes, for the spy."""
        self.spying = spying
        self.now = float(NOON)
        self.random = Random(seed)
        self.disk = SimulatedDisk()
        self.settings = settings
        self.options = options or StoreOptions(smallest_segment_bytes=1 << 16)
        self.start()

    def start(self) -> None:
        self.store = Store.open(self.disk, self.options)
        environment = Environment(lambda: self.now, self.random.randbytes)
        self.manager = QueueManager(
            self.store, environment, lambda: Identity("HOST", "corp.example"), self.settings
        )
        self.spy = Spy(self)
        if self.spying:
            self.manager.subscribe(self.spy)
        self.found = self.manager.start()
        self.reading = self.manager.reading
        self.transactions = self.manager.transactions

    def restart(self) -> None:
        """Stop in an orderly way and start again; queues and descriptors from before are of no use then."""
        self.manager.stop()
        self.store.close()
        self.start()

    def kill(self) -> None:
        """Make everything durable, die without another word, and start again."""
        self.store.commit()
        self.disk.kill()
        self.start()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self.manager.run_timers():  # what is long goes on with the next call
            pass

    # --- queues and messages ------------------------------------------------------------------------------

    def queue(self, name: str = "orders", **attributes: Any) -> Queue:
        return self.manager.queues.create(QueueRequest(f".\\private$\\{name}", **attributes))

    def find(self, name: str = "orders") -> Queue:
        return self.manager.core.by_path[f"host\\private$\\{name}"]

    def open(
        self,
        queue: Queue,
        access: QueueAccessType = RECEIVE,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
    ) -> OpenQueueDescriptor:
        return self.manager.queues.open(f"DIRECT=OS:{queue.pathname}", access, share_mode)

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        self.manager.queues.close(descriptor)

    def send(
        self, queue: Queue, body: bytes = b"", transaction: Transaction | None = None, **attributes: Any
    ) -> MessagePosition:
        attributes.setdefault("sent_time", int(self.now))
        attributes.setdefault("transactional", queue.transactional)
        statuses, lookup_ids = self.enqueue(queue, message(body, **attributes), transaction)
        assert statuses == [EnqueueStatus.OK]
        return queue.position(lookup_ids[0])

    def batch(self, *messages: StoredMessage) -> Batch:
        return Batch.of(messages, self.manager.core.record.identifier)

    def enqueue(
        self, queue: Queue, one: StoredMessage, transaction: Transaction | None = None
    ) -> tuple[list[EnqueueStatus], list[int]]:
        return self.manager.sending.enqueue(queue, self.batch(one), transaction)

    def deliver(
        self,
        queue: Queue,
        one: StoredMessage,
        sender: Token | None = None,
        transaction: Transaction | None = None,
    ) -> MessageClass:
        """Let a message arrive; gives its fate."""
        (fate,) = self.manager.sending.deliver(queue, self.batch(one), sender, transaction).fates
        return fate

    def fill(self, queue: Queue, *bodies: bytes, **attributes: Any) -> list[MessagePosition]:
        return [self.send(queue, body, **attributes) for body in bodies]

    def reader(self, queue: Queue, access: QueueAccessType = RECEIVE) -> Reader:
        return Reader(self, self.open(queue, access))

    def contents(self, queue: Queue) -> list[bytes]:
        return [self.body_at(queue.position(entry.lookup_id)) for entry in queue.positions]

    def body_at(self, position: MessagePosition) -> bytes:
        return bytes(self.manager.mailbox.load(position.queue, position.lookup_id).packet.body)


class Reader:
    """Reads through one descriptor and remembers the answers. A call gives its answer, None if it waits."""

    def __init__(self, host: Host, descriptor: OpenQueueDescriptor) -> None:
        self.host = host
        self.descriptor = descriptor
        self.results: list[ReadResult] = []

    @property
    def bodies(self) -> list[bytes | None]:
        return [body_of(result) for result in self.results]

    @property
    def statuses(self) -> list[int]:
        return [result.status for result in self.results]

    def cursor(self) -> Cursor:
        cursor = self.host.reading.open_cursor(self.descriptor)
        assert cursor is not None
        return cursor

    def receive(self, timeout_s: float = 0, **options: Any) -> ReadResult | None:
        return self._read(self.host.reading.dequeue, timeout_s=timeout_s, **options)

    def begin(self, timeout_s: float = 0, **options: Any) -> ReadResult | None:
        return self._read(self.host.reading.dequeue_begin, timeout_s=timeout_s, **options)

    def peek(self, timeout_s: float = 0, **options: Any) -> ReadResult | None:
        return self._read(self.host.reading.peek, timeout_s=timeout_s, **options)

    def peek_next(self, cursor: Cursor, timeout_s: float = 0, **options: Any) -> ReadResult | None:
        return self._read(self.host.reading.peek_next, timeout_s=timeout_s, cursor=cursor, **options)

    def _read(self, event: Any, **options: Any) -> ReadResult | None:
        known = len(self.results)
        event(self.descriptor, self.results.append, **options)
        assert len(self.results) - known <= 1, "a read is answered once"
        return self.results[-1] if len(self.results) > known else None

    def end(self, position: MessagePosition, *, keep: bool, **options: Any) -> None:
        self.host.reading.dequeue_end(self.descriptor, position, delete_message=keep, **options)

    def lookup(
        self, lookup_id: int, action: MessageSeekAction, *, peek: bool = True, **options: Any
    ) -> ReadResult:
        return self.host.reading.read_by_lookup_id(self.descriptor, lookup_id, action, peek=peek, **options)


def body_of(result: ReadResult | None) -> bytes | None:
    return None if result is None or result.message is None else bytes(result.message.packet.body)


def status_of(result: ReadResult | None) -> int:
    assert result is not None, "the read waits"
    return result.status


def position_of(result: ReadResult | None) -> MessagePosition:
    assert result is not None
    assert result.position is not None
    return result.position
