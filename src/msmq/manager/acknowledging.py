"""Administration acknowledgments: senders who asked are told what became of their messages (MS-MQQB
3.1.7.2, .15).

A message that reaches its destination queue, is refused there, is received, purged, deleted with its queue
or expires unread may owe its sender a message of the matching class in the administration queue it named.
That queue is opened like any other one, here or on another host. When it cannot be, or no packet can say its name,
nobody is left to tell: the acknowledgment is dropped and counted, and the message it is about is none the worse.
"""

from __future__ import annotations

from msmq.errors import MsmqError
from msmq.manager.core import Core, Subscriber
from msmq.manager.message import DeliveryGuarantee, Message, SenderMessageClass
from msmq.manager.model import QueueAccessType
from msmq.manager.outgoing_queues import Purpose, queue_manager_of
from msmq.manager.placing import is_destination
from msmq.manager.queue import Queue
from msmq.manager.queues import Queues
from msmq.manager.sending import Sending
from msmq.manager.serialize import serialize
from msmq.manager.stored import LocalAttributes, StoredMessage
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import Acknowledgment, acknowledgment
from msmq.wire.headers import INFINITE
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage


class Acknowledging(Subscriber):
    """Sends the acknowledgments that the fates of messages in destination queues call for."""

    only_asked = True
    only_owing = True

    def __init__(
        self, core: Core, queues: Queues, sending: Sending, *, send_insecure_nacks: bool = False
    ) -> None:
        self.core = core
        self.queues = queues
        self.sending = sending
        self.send_insecure_nacks = send_insecure_nacks
        self.unsent = 0
        """Acknowledgments that could not be sent, for want of a queue, of a way, of room or of a name for the queue."""

    def message_arrived(self, queue: Queue, message: StoredMessage, fate: int) -> None:
        if message.packet.properties.flags:  # most senders ask for nothing
            self.acknowledge(message.packet, MessageClass(fate))

    def message_position_deleted(self, queue: Queue, message: StoredMessage, reason: int) -> None:
        """Journals and dead letters are history: what happens to them is of no interest to the sender."""
        if not is_destination(queue) or reason == MessageClass.NORMAL or message.owes_nothing:
            return
        if not message.local.dead_letter_class:  # which may stand in a queue of its application's own
            self.acknowledge(message.packet, MessageClass(reason))

    def acknowledge(self, packet: UserMessage, fate: MessageClass | SenderMessageClass) -> None:
        """Send Administration Acknowledgment, if one is due."""
        due = acknowledgment(packet, fate, send_insecure_nacks=self.send_insecure_nacks)
        if due is None:
            return
        for destination in due.destinations:
            try:
                self._send(due, destination)
            except MsmqError:
                self.unsent += 1

    def _send(self, due: Acknowledgment, destination: str) -> None:
        descriptor = self.queues.open(destination, QueueAccessType.SEND, purpose=Purpose.COURTESY)
        assert descriptor.queue is not None
        try:
            address = queue_manager_of(self.core, descriptor.queue)
            packet = self._packet(due, destination, address)
            self.sending.enqueue(descriptor.queue, StoredMessage(packet, LocalAttributes()))
        finally:
            self.queues.close(descriptor)

    def _packet(self, due: Acknowledgment, destination: str, address: bytes) -> UserMessage:
        core = self.core
        message = Message(
            body=due.body,
            correlation_identifier=due.correlation_id,
            message_class=due.message_class,
            delivery_guarantee=DeliveryGuarantee(due.recoverable),
            time_to_reach_queue_s=INFINITE,
            destination_queue_format_name=destination,
            response_queue_format_name=due.response or "",
            destination_queue_manager_identifier=address,
            identifier=MessageIdentifier(core.record.identifier, core.next_message_ordinal()),
            sent_time=core.now_s,
        )
        return serialize(message)
