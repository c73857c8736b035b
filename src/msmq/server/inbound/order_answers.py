"""OrderAcks and FinalAcks for senders of transactional messages (MS-MQQB 3.1.7.17, 3.1.7.2.2).

An OrderAck goes back over the session that brought the messages while that is open; otherwise it is routed to the
sender's order queue, like a FinalAck, which is a message of its own for each message that left its queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from ipaddress import ip_address

from msmq.errors import MsmqError
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import Purpose
from msmq.manager.queues.queue import MessagePosition
from msmq.server.alarm import now_ms
from msmq.server.group_commit import GroupCommit
from msmq.server.inbound.connection import Connection
from msmq.server.outbound.next_hop import Addressing
from msmq.transfer.order_receiver import OrderAckDue, Stream
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name as name_in_packet
from msmq.wire.headers import NULL_GUID
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody, build_order_message, build_order_messages
from msmq.wire.trailers import host_in

_log = logging.getLogger(__name__)


class OrderAnswers:
    """Tells senders the progress of their streams, and what became of their messages.

    A sender without an answer for ``asked_again_s`` has sent its message again, and gets another OrderAck.
    """

    def __init__(
        self, manager: QueueManager, commit: GroupCommit, addressing: Addressing, asked_again_s: float
    ) -> None:
        self._manager = manager
        self._core = manager.core
        self._commit = commit
        self._addressing = addressing
        self._asked_again_s = asked_again_s
        self._unsent: dict[Stream, OrderAckDue[Connection]] = {}
        self._routed: dict[Stream, tuple[MessagePosition, int]] = {}
        """OrderAcks that wait to be sent as messages, the last one of each stream, with their times."""

    def final_acks(self, messages: Iterable[StoredMessage], message_class: MessageClass) -> None:
        """Tell the hosts that sent transactional messages what became of them, each host of all its messages
        together."""
        by_sender: dict[tuple[bytes, bytes], list[StoredMessage]] = {}
        for message in messages:
            address = message.source if message.local.direct_session else b""
            by_sender.setdefault((message.packet.source, address), []).append(message)
        for (source, address), told in by_sender.items():
            if source in self._core.own_identifiers or (source == NULL_GUID and not address):
                continue  # nobody can be told
            first, packets = build_order_messages(
                [FinalAckBody.of(message.packet) for message in told],
                message_class,
                source=self._core.record.identifier,
                destination=host_in(address) if address else source,
                message_ids=self._core.next_message_ordinals(len(told)),
                sent_time=self._core.now_s,
            )
            # A FinalAck is due for a message that was taken; for refused messages of strangers it may be dropped.
            taken = any(message.lookup_id for message in told)
            self._post(first, packets, Purpose.DUTY if taken else Purpose.COURTESY)

    def _post(self, first: UserMessage, packets: Sequence[bytes], purpose: Purpose) -> MessagePosition | None:
        """Put acknowledgments for one host, which are all like the ``first``, into its outgoing queue. Returns the
        place of the last one."""
        user = first.user
        name = name_in_packet(user, user.destination_reference, user.destination_queue)
        assert name is not None
        queues = self._manager.queues
        try:
            descriptor = queues.open(name, QueueAccessType.SEND, purpose=purpose)
            assert descriptor.queue is not None
            try:
                batch = Batch.of((StoredMessage(first),), *self._core.own_identifiers).like(packets)
                # It belongs to the end of a message, also on a full disk: nothing else will ever tell the sender.
                lookup_ids = self._manager.mailbox.put(descriptor.queue, batch, freeing=True)
                return descriptor.queue.position(lookup_ids[-1])
            finally:
                queues.close(descriptor)
        except MsmqError as error:
            _log.debug("no acknowledgment to %s: %s", name, error)
            return None

    def order_ack(self, due: OrderAckDue[Connection]) -> None:
        session = due.link.session
        source = due.stream[0]
        direct = session.is_answered_by_address(source)
        if source == NULL_GUID and not direct:
            return  # nobody can be told
        packet = build_order_message(
            due.body,
            MessageClass.ORDER_ACK,
            source=self._core.record.identifier,
            destination=ip_address(due.link.peer) if direct else source,
            message_id=self._core.next_message_ordinal(),
            sent_time=self._core.now_s,
        )
        has_way = self._addressing.knows_way(source)
        if due.link.is_open and (session.remote_guid == source or not has_way):
            self._commit.when_durable(partial(self._ship_order_ack, due, packet.data))
        elif direct or has_way:
            self._route_order_ack(due.stream, packet)

    def _route_order_ack(self, stream: Stream, packet: UserMessage) -> None:
        """Send an OrderAck as a message, because the messages came through other hosts or their session is closed. An
        older one that still waits is dropped."""
        self._drop_routed(stream)
        position = self._post(packet, (packet.data,), Purpose.COURTESY)
        if position is not None:
            self._routed[stream] = position, self._core.now_s
        self._commit.request()

    def _drop_routed(self, stream: Stream) -> None:
        position, _ = self._routed.pop(stream, (None, 0))
        if position is not None and position.state is PositionState.AVAILABLE:
            self._manager.mailbox.remove(position.queue, (position.lookup_id,), MessageClass.NORMAL)

    def keep_house(self, now_s: int) -> None:
        """Drop OrderAcks that have waited for so long that their senders have caused new ones."""
        for stream, (_, since_s) in list(self._routed.items()):
            if now_s - since_s >= self._asked_again_s:
                self._drop_routed(stream)

    def _ship_order_ack(self, due: OrderAckDue[Connection], packet: bytes) -> None:
        if not due.link.is_open:
            self.order_ack(due)
        elif due.link.session.send(packet, None, now_ms()):
            due.link.flush()
        else:  # the window is closed; the next acknowledgment opens it
            waiting = self._unsent.get(due.stream)
            # A newer one may wait already, while this one waited for the disk.
            if waiting is None or _reached(waiting) <= _reached(due):
                self._unsent[due.stream] = due

    def room_again(self, connection: Connection) -> None:
        """Send what waited for the window of a session."""
        for stream in [stream for stream, due in self._unsent.items() if due.link is connection]:
            self.order_ack(self._unsent.pop(stream))

    def closed(self, connection: Connection) -> None:
        """Send what waited for the window of a session that has closed in another way."""
        self.room_again(connection)


def _reached(due: OrderAckDue[Connection]) -> tuple[int, int]:
    """The place up to which an OrderAck acknowledges its stream."""
    return due.body.tx_sequence_id, due.body.tx_sequence_number
