"""Transit: messages for other queue managers, on a routing server (MS-MQQB 3.1.5.8.2, 3.1.5.8.5).

A message is put into the outgoing queue of its destination as the bytes it came in, with one hop more. It gets no
place in a sequence of ours and no journal here: order, source journaling and dead letters of transactions are between
its sender and its receiver. The sender of a transactional message sends it again until it is acknowledged end to end;
a newer copy then replaces one that still waits here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msmq.errors import DecodeError, MQError, MsmqError
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.model import EnqueueStatus
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import Purpose
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.server.inbound.remembered import RememberedIds
from msmq.server.inbound.reports import Tracing
from msmq.server.outbound.next_hop import Addressing, NoWayError
from msmq.transfer.history import message_identifier
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name
from msmq.wire.headers import NULL_GUID
from msmq.wire.incoming import Incoming
from msmq.wire.message import UserMessage
from msmq.wire.names import PrivateName, PublicName, is_read_only, parse_format_name

_SLACK_BYTES = 1_024


class NoRoomError(MsmqError):
    """A message cannot be taken now, but perhaps later."""


class Forwarding(Subscriber):
    """Takes messages for other queue managers."""

    def __init__(
        self,
        manager: QueueManager,
        addressing: Addressing,
        history: RememberedIds,
        tracing: Tracing | None,
        refuse: Callable[[StoredMessage, MessageClass], None],
    ) -> None:
        """``refuse`` tells the sender of a transactional message that it was refused here."""
        self._manager = manager
        self._core = manager.core
        self._addressing = addressing
        self._history = history
        self._tracing = tracing
        self._refuse_transactional = refuse
        self._own_guids = manager.core.own_identifiers
        self.copies: dict[tuple[int, bytes], int] = {}
        """The lookup identifiers of transactional messages that wait here, by queue and message."""

    def concerns(self, address: bytes) -> bool:
        """Whether a message with this QueueManagerAddress is for another queue manager."""
        return address not in self._own_guids and address != NULL_GUID

    def take(self, messages: Incoming, indices: Iterable[int]) -> None:
        """Store messages for their next hop. A host that is no routing server refuses them for good.

        Raises:
            NoRoomError: this host has no room for a message.
        """
        for index in indices:
            self._take(messages.message(index))

    def _take(self, message: UserMessage) -> None:
        identifier, now_s = message_identifier(message), self._core.now_s
        if not message.transactional and self._history.seen(identifier, now_s):
            return
        if message.transactional and message.user.source_queue_manager in self._own_guids:
            return  # it came back to its origin, where it is kept until it is acknowledged
        onward = message.forwarded()
        if onward is None:
            self._refuse(message, MessageClass.NACK_HOP_COUNT_EXCEEDED)
            return
        routes = self._core.record.routing_server and self._addressing.has_directory
        queue = self._queue(message) if routes else None
        if queue is None:
            self._refuse(message, MessageClass.NACK_BAD_DST_Q)
            return
        batch = Batch.of((StoredMessage(onward, LocalAttributes()),), *self._own_guids)
        statuses = self._manager.mailbox.admit(queue, batch)
        if statuses is not None and statuses[0] is EnqueueStatus.QUEUE_MANAGER_QUOTA:
            raise NoRoomError("the quota of the queue manager is used up")
        if message.transactional:
            self._put_transactional(queue, batch, identifier)
        else:
            self._manager.mailbox.put(queue, batch)
            self._history.record(identifier, now_s, recoverable=message.recoverable)
        if self._tracing is not None:
            self._tracing.received(onward)

    def _refuse(self, message: UserMessage, fate: MessageClass) -> None:
        """Tell the sender once that a message is refused; a transactional one may come again and again."""
        identifier, now_s = message_identifier(message), self._core.now_s
        if self._history.seen(identifier, now_s):
            return
        self._history.record(identifier, now_s, recoverable=message.recoverable)
        self._manager.acknowledging.acknowledge((message,), fate)
        if message.transactional:
            self._refuse_transactional(StoredMessage(message, LocalAttributes()), fate)

    def _queue(self, message: UserMessage) -> OutgoingQueue | None:
        """The outgoing queue for a message, or None if there is no such destination."""
        user = message.user
        text = format_name(user, user.destination_reference, user.destination_queue)
        try:
            name = parse_format_name(text or "")
        except (DecodeError, MQError):
            return None
        if not isinstance(name, PublicName | PrivateName) or is_read_only(name):
            return None
        found = self._core.outgoing.get(str(name).lower())
        if found is not None:
            return found
        try:
            if self._addressing.machine(user.queue_manager_address) is None:
                return None
        except NoWayError:
            pass  # the directory cannot be asked, and may know the host later
        try:
            return self._manager.queues.outgoing.make(name, user.queue_manager_address, Purpose.COURTESY)
        except MQError as error:
            raise NoRoomError(str(error)) from error

    def _put_transactional(self, queue: OutgoingQueue, batch: Batch, identifier: bytes) -> None:
        key = (queue.number, identifier)
        old = self.copies.get(key)
        entry = None if old is None else queue.positions.get(old)
        if entry is not None and entry.state is not PositionState.AVAILABLE:
            return  # it is being sent at this moment
        with self._core.event(batch.sizes[0] + _SLACK_BYTES, 4):
            if entry is not None:
                self._manager.mailbox.remove(queue, (entry.lookup_id,), MessageClass.NORMAL)
            (self.copies[key],) = self._manager.mailbox.put(queue, batch)

    def messages_lost(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        for key in [key for key, copy in self.copies.items() if copy in lookup_ids]:
            del self.copies[key]

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        if not self.copies or not isinstance(queue, OutgoingQueue):
            return
        for message in messages:
            key = (queue.number, message_identifier(message.packet))
            if message.packet.transactional and self.copies.get(key) == message.lookup_id:
                del self.copies[key]
