"""What one read of a connection has brought, and taking messages that look alike together.

Most messages look like the one before. For a run of them (:mod:`msmq.wire.runs`) everything is asked once: where they
go, whether they may, whether there is room, whether any has come before or is too late. If nothing can follow from
their arrival but that they stand in their queue, they get there in one go. Otherwise nothing has happened, and
:mod:`msmq.server.arrivals` takes them one by one, which is what this has to be equal to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msmq.manager.queue import Queue
from msmq.manager.queue_manager import QueueManager
from msmq.manager.stored import NO_ATTRIBUTES, StoredMessage
from msmq.security.access import Token
from msmq.server.alarm import now_ms
from msmq.server.connection import Connection
from msmq.server.remembered import RememberedIds
from msmq.server.streams import stream_of
from msmq.transfer.order_receiver import OrderReceiver, Progress, Stream, Verdict, judge
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE, QueueName
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.runs import Run

STRANGER: Final = Token.anonymous()
JOURNALED: Final = 0x300
"""Flags of a UserHeader that ask for source journaling."""


def _nowhere(message: StoredMessage) -> None:
    raise AssertionError("there is no queue to put this message into")


@dataclass(eq=False, slots=True)
class Way:
    """What is the same for all messages of a batch that go to one queue."""

    queue: Queue | None
    name: str
    """What the sender calls the queue."""
    order_queue: bool
    """Whether it is the one for acknowledgments of orders."""
    source_address: str
    """Where a FinalAck goes if the session has no name."""
    insert: Callable[[StoredMessage], None] = _nowhere
    tell: list[Callable[..., None]] = field(default_factory=list)
    """Who wants to hear what became of a message."""
    judged: bool = False
    verdict: MessageClass | None = None
    """Why messages without a SecurityHeader are refused."""


class Batch:
    """What one read of a connection has brought, and how far it was taken."""

    __slots__ = ("connection", "now_ms", "now_s", "progress", "taken", "touched", "unwritten", "ways")

    def __init__(self, connection: Connection, now_s: int) -> None:
        self.connection = connection
        self.now_ms = now_ms()
        self.now_s = now_s
        self.taken = 0
        self.ways: dict[tuple[int, QueueName, bytes, bool], Way] = {}
        self.touched: dict[Stream, Way] = {}
        self.unwritten: dict[Stream, Progress] = {}
        self.progress: dict[Stream, Progress] = {}
        """Streams that came further, and those of them whose new place is still to be written."""


class RunTaking:
    """Takes runs into their queues."""

    def __init__(
        self, manager: QueueManager, history: RememberedIds, receiver: OrderReceiver[Connection]
    ) -> None:
        self._manager = manager
        self._core = manager.core
        self._history = history
        self._receiver = receiver

    def take(self, batch: Batch, run: Run, way: Way) -> bool:
        """Put all messages of a run into their queue, within the event of the caller; False, and nothing has happened,
        when they have to be taken one by one."""
        sample, queue = run.sample, way.queue
        if (
            not run.alike
            or queue is None
            or sample.properties.flags
            or (sample.transactional and sample.user.flags & JOURNALED)  # they owe a FinalAck
            or _late(run, batch.now_s)
            or not self._manager.transit.takes(queue, run)
            or self.verdict(queue, way, StoredMessage(sample)) is not None
        ):
            return False
        if sample.transactional:
            return self._take_in_order(batch, run, way, queue)
        source, numbers, recoverable = sample.user.source_queue_manager, run.message_ids, sample.recoverable
        if not self._history.all_new(source, numbers):
            return False
        self._put(queue, run)
        self._history.record_all(source, numbers, batch.now_s, recoverable=recoverable)
        return True

    def _take_in_order(self, batch: Batch, run: Run, way: Way, queue: Queue) -> bool:
        """The first one says for all whether they follow what came before."""
        transaction = run.sample.transaction
        assert transaction is not None
        number, receiver, link = run.first_number, self._receiver, batch.connection
        first = TransactionHeader(0, transaction.tx_sequence_id, number, number - 1)
        stream = stream_of(run.sample.user.source_queue_manager, queue, way.name)
        if judge(receiver.progress(stream), first) is not Verdict.ACCEPTED:
            return False
        receiver.judge(stream, first, link, batch.now_ms, batch.now_s)
        self._put(queue, run)
        batch.touched[stream] = way
        batch.unwritten[stream] = receiver.advance(
            stream, first, link, batch.now_ms, batch.now_s, messages=len(run)
        )
        return True

    def verdict(self, queue: Queue, way: Way, message: StoredMessage) -> MessageClass | None:
        """Why a queue refuses messages that say nothing about their sender: they are all alike."""
        if not way.judged:
            way.verdict = self._manager.sending.judge(queue, message, STRANGER)
            way.judged = True
        return way.verdict

    def _put(self, queue: Queue, run: Run) -> None:
        lookup_ids = self._manager.transit.take_in(queue, run)
        told = self._core.told_arrived_unasked
        if not told:
            return
        for lookup_id, packet in zip(lookup_ids, run.messages, strict=True):
            message = StoredMessage(packet, NO_ATTRIBUTES, lookup_id, self._core.now_s)
            for tell in told:
                tell(queue, message, MessageClass.ACK_REACH_QUEUE)


def _late(run: Run, now_s: int) -> bool:
    """Whether the time of any of them to reach its queue has run out; see :func:`msmq.wire.delivery.late_for_queue`."""
    limit_s = run.sample.base.time_to_reach_queue_s
    return limit_s != INFINITE and now_s - min(run.sent_times) > limit_s
