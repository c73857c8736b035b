"""Queue and OutgoingQueue (MS-MQDMPR 3.1.1.2, 3.1.1.3), open descriptors and places in a queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msmq.manager.mailbox.positions import PositionList, PositionState
from msmq.manager.mailbox.retries import NO_RETRY, Retry
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import (
    UNLIMITED,
    ConnectionHistoryEntry,
    DirectoryElement,
    IncomingTransactionalTransferInfo,
    OutgoingState,
    OutgoingTransferInfo,
    QueueAccessType,
    QueueManagerRecord,
    QueuePrivacyLevel,
    QueueScope,
    QueueShareMode,
    QueueType,
    RemoteReadState,
)
from msmq.wire.guid import NULL_GUID

if TYPE_CHECKING:
    from msmq.manager.core import Timer
    from msmq.manager.mailbox.cursor import Cursor


@dataclass(eq=False, repr=False, slots=True)
class Queue(DirectoryElement):
    """A queue of this host: private, public, system, connector, a journal or a subqueue.

    ``number`` is the store's own short name for the queue. Everything down to ``scope`` is persistent, and
    for public queues published; the rest is volatile or kept record by record.
    """

    number: int
    pathname: str
    queue_type: QueueType
    identifier: bytes = NULL_GUID
    label: str = ""
    type: bytes = NULL_GUID
    qualified_pathname: str = ""
    private_queue_number: int = 0
    journaling: bool = False
    quota_kb: int = UNLIMITED
    journal_quota_kb: int = UNLIMITED
    authentication: bool = False
    privacy_level: QueuePrivacyLevel = QueuePrivacyLevel.OPTIONAL
    transactional: bool = False
    multicast_address: str | None = None
    security: bytes = b""
    base_priority: int = 0
    create_time: int = 0
    modify_time: int = 0
    full_path: str = ""
    directory_path: str = ""
    scope: QueueScope = QueueScope.ENTERPRISE
    former_identifiers: tuple[bytes, ...] = ()
    """Identifiers that the queue had before its object in the directory was lost and created again."""
    retry: Retry = NO_RETRY
    """The policy for rejected messages, unless their reader has one."""
    positions: PositionList = field(default_factory=PositionList)
    volatile: dict[int, tuple[int, bytes, bytes, LocalAttributes]] = field(default_factory=dict)
    """Express messages: second of arrival, packet, source, local attributes."""
    peekable_when_locked: set[int] = field(default_factory=set)
    overdue: set[int] = field(default_factory=set)
    aborts: dict[int, int] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    """How often messages were rejected, if a policy needs that."""
    paused: set[int] = field(default_factory=set)
    """Rejected messages that are hidden for a while."""
    poisoned_total: int = 0
    """How many messages were moved away since the start because they were rejected too often."""
    moves: dict[int, tuple[int, int]] = field(default_factory=dict)
    journal: Queue | None = None
    subqueue_collection: dict[str, Queue] = field(default_factory=dict)
    parent: Queue | None = None
    queue_manager: QueueManagerRecord | None = None
    """Set when the queue joins QueueCollection."""
    incoming: dict[tuple[bytes, str], IncomingTransactionalTransferInfo] = field(default_factory=dict)
    open_descriptors: list[OpenQueueDescriptor] = field(default_factory=list)
    waiting: list[WaitingRead] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} {self.pathname} {len(self.positions)} messages>"

    @property
    def total_bytes(self) -> int:
        return self.positions.total_bytes

    @property
    def active(self) -> bool:
        """Whether somebody has the queue open, or messages of it wait for transfer."""
        return bool(self.open_descriptors)

    @property
    def family(self) -> list[Queue]:
        """The queue with its subqueues and its journal."""
        return [self, *self.subqueue_collection.values(), *([self.journal] if self.journal else [])]

    @property
    def root(self) -> Queue:
        """The queue that a subqueue or a journal belongs to, or the queue itself."""
        return self.parent or self

    def position(self, lookup_id: int) -> MessagePosition:
        return MessagePosition(self, lookup_id)


@dataclass(eq=False, repr=False, slots=True)
class OutgoingQueue(Queue):
    """Messages on their way to one destination format name."""

    destination_format_name: str = ""
    next_hops: tuple[str, ...] | None = None
    multicast: bool = False
    destination_queue_manager: bytes = NULL_GUID
    """The identifier of the queue manager that has the queue, if the name does not tell the address."""
    receiver: bytes = NULL_GUID
    """The identifier of the queue manager that transactional messages were last sent to: the destination or the next
    hop."""
    incidental: bool = False
    """Whether no application asked for it (see :mod:`msmq.manager.queues.outgoing_queues`)."""
    cause: str = ""
    """The sender whose messages caused an incidental queue."""
    state: OutgoingState = OutgoingState.INACTIVE
    connection_history: list[ConnectionHistoryEntry] = field(default_factory=list)
    transfer_info: OutgoingTransferInfo = field(default_factory=OutgoingTransferInfo)

    def __post_init__(self) -> None:
        self.transfer_info.outgoing_queue = self

    @property
    def active(self) -> bool:
        return bool(self.open_descriptors) or len(self.positions) > 0


class MessagePosition(NamedTuple):
    """A place in a queue (3.1.1.11). Its message may be gone; the place still tells what comes before and after."""

    queue: Queue
    lookup_id: int

    @property
    def state(self) -> PositionState:
        entry = self.queue.positions.get(self.lookup_id)
        return PositionState.DELETED if entry is None else entry.state


class ReadResult(NamedTuple):
    """The result of a read: a status of MS-MQMQ 2.4 and, if that is MQ_OK, the message and its place."""

    status: int
    message: StoredMessage | None = None
    position: MessagePosition | None = None


ReadDone = Callable[[ReadResult], None]


@dataclass(eq=False, repr=False, slots=True)
class WaitingRead:
    """WaitingMessageReadOperation (3.1.1.10): a reader that waits for a message.

    ``finish`` is called exactly once: with a place when one is given to the reader, or with the status that
    ended the wait.
    """

    descriptor: OpenQueueDescriptor
    destructive_read: bool
    tag: int | None
    cursor: Cursor | None
    finish: Callable[[int, MessagePosition | None], None]
    timer: Timer | None = None
    over: bool = False


@dataclass(eq=False, repr=False, slots=True)
class OpenQueueDescriptor:
    """An open queue (3.1.1.16). ``queue`` is None once the queue was deleted, and for a multiple-element
    name."""

    handle: int
    context_value: int
    access_type: QueueAccessType
    share_mode: QueueShareMode
    queue: Queue | None
    format_name: str
    multiple: bool = False
    children: list[OpenQueueDescriptor] = field(default_factory=list)
    remote_read_state: RemoteReadState = RemoteReadState.NONE
    cursors: dict[int, Cursor] = field(default_factory=dict)
    waiting: list[WaitingRead] = field(default_factory=list)
    retry: Retry | None = None
    """The reader's own policy for messages that it rejects."""
    begun: set[int] = field(default_factory=set)
    """Messages read in two phases through this descriptor whose second phase is still to come."""


def finish_wait(reader: WaitingRead, status: int, position: MessagePosition | None = None) -> None:
    """End a wait, exactly once, and remove it everywhere."""
    assert not reader.over
    reader.over = True
    if reader.timer is not None:
        reader.timer.cancelled = True
    queue = reader.descriptor.queue
    if queue is not None:
        queue.waiting.remove(reader)
    reader.descriptor.waiting.remove(reader)
    reader.finish(status, position)
