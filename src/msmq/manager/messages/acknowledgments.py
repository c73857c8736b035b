"""Administration acknowledgments: telling senders who asked what became of their messages (MS-MQQB 3.1.7.2, .15).

A message that reaches its destination queue, is refused there, is received, purged there or on its way, deleted with
its queue or expires unread may owe its sender a message of the matching class in the administration queue it named.
That queue is opened like any other one, here or on another host. When it cannot be opened, or no packet can hold its
name, the acknowledgment is dropped and counted; the message itself is not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from msmq.errors import MsmqError
from msmq.manager.core import Core, Subscriber
from msmq.manager.mailbox.batch import NEVER, RECOVERABLE, Batch, our_marks_of
from msmq.manager.mailbox.mailbox import is_destination
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.delivery import Sending
from msmq.manager.messages.message import Message, SenderMessageClass
from msmq.manager.messages.template import Template, refuse, write_packets
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.outgoing_queues import Purpose, queue_manager_of
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import Queues
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import Acknowledgment, acknowledgments
from msmq.wire.guid import guid_text
from msmq.wire.headers import DEFAULT_PRIORITY, INFINITE
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.trailers import host_in

_MOST_TEMPLATES: Final = 256


class Acknowledging(Subscriber):
    """Sends the acknowledgments that are due for messages in destination queues."""

    def __init__(
        self, core: Core, queues: Queues, sending: Sending, *, send_insecure_nacks: bool = False
    ) -> None:
        self.core = core
        self.queues = queues
        self.sending = sending
        self.send_insecure_nacks = send_insecure_nacks
        self.unsent = 0
        """The number of acknowledgments that could not be sent, because there was no queue, no route, no room, or no
        way to write them."""
        self.later: Callable[[str, Callable[[], None]], bool] = lambda destination, send: False
        """Sends something later, when the directory has told where a queue is. Returns whether the directory is asked.
        Set by the membership of a domain."""
        self._templates: dict[tuple[object, ...], Template] = {}

    def messages_arrived(self, queue: Queue, messages: Sequence[StoredMessage], fate: int) -> None:
        self.acknowledge((message.packet for message in messages), MessageClass(fate))

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        """Acknowledge messages that have left a queue. What happens to journals and dead letters is of no interest to
        the sender, and a copy of a transactional message that only passes this host is sent again by its sender."""
        # A dead letter may be in a queue of its application.
        told = [message for message in messages if not message.local.dead_letter_class]
        if reason == MessageClass.NACK_DELETED:
            own = self.core.own_identifiers
            told = [each for each in told if each.packet.source in own or not each.packet.transactional]
        elif not is_destination(queue) or reason == MessageClass.NORMAL:
            return
        for sender, of_one in groupby(told, _sender):
            with self.queues.outgoing.on_behalf_of(_name_of(*sender)):
                self.acknowledge((message.packet for message in of_one), MessageClass(reason))

    def acknowledge(self, packets: Iterable[UserMessage], fate: MessageClass | SenderMessageClass) -> None:
        """Send Administration Acknowledgment for each message for which one is due. Those that cannot be sent are
        counted and do not affect the messages."""
        due: dict[str, list[Acknowledgment]] = {}
        for found in acknowledgments(packets, fate, send_insecure_nacks=self.send_insecure_nacks):
            for destination in found.destinations:
                due.setdefault(destination, []).append(found)
            self.unsent += found.untold or not found.destinations
        for destination, answers in due.items():
            try:
                self._send(destination, answers)
            except MsmqError:
                send = partial(self._send_late, destination, answers, self.queues.outgoing.cause)
                if not self.later(destination, send):
                    self.unsent += len(answers)

    def _send_late(self, destination: str, due: list[Acknowledgment], cause: str) -> None:
        try:
            with self.queues.outgoing.on_behalf_of(cause):
                self._send(destination, due)
        except MsmqError:
            self.unsent += len(due)

    def _send(self, destination: str, due: list[Acknowledgment]) -> None:
        descriptor = self.queues.open(destination, QueueAccessType.SEND, purpose=Purpose.COURTESY)
        queue = descriptor.queue
        assert queue is not None
        try:
            batch = self._batch(due, destination, queue_manager_of(self.core, queue))
            if is_destination(queue):
                self.unsent += self.sending.deliver(queue, batch).lookup_ids.count(0)
            else:
                self.unsent += self.sending.enqueue(queue, batch)[1].count(0)
        finally:
            self.queues.close(descriptor)

    def _batch(self, due: list[Acknowledgment], destination: str, address: bytes) -> Batch:
        core, now_s, count = self.core, self.core.now_s, len(due)
        responses = [each.response for each in due]
        of = {response: self._template(response, destination, address) for response in set(responses)}
        templates = list(map(of.__getitem__, responses))
        user_flags = [
            template.user_flags | RECOVERABLE * each.recoverable
            for template, each in zip(templates, due, strict=True)
        ]
        base_flags = [template.base_flags | DEFAULT_PRIORITY for template in templates]
        rows = (
            (
                template.form, ordinal, 0, flags, priority, INFINITE, INFINITE, 0, each.body, 0, "", b"", 0,
                each.correlation_id, each.message_class,
            )
            for template, each, ordinal, flags, priority in zip(
                templates, due, core.next_message_ordinals(count), user_flags, base_flags, strict=True
            )
        )  # fmt: skip
        packets, never, nothing = write_packets(rows, now_s, refuse), [NEVER] * count, [0] * count
        marks = bytes(map(our_marks_of, user_flags, nothing))
        return Batch(packets, user_flags, base_flags, never, never, nothing, marks)

    def _template(self, response: str | None, destination: str, address: bytes) -> Template:
        core = self.core
        key = (destination, address, response, core.record.identifier)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            message = Message(
                destination_queue_format_name=destination,
                response_queue_format_name=response or "",
                destination_queue_manager_identifier=address,
                identifier=MessageIdentifier(core.record.identifier, 0),
                sent_time=core.now_s,
            )
            template = self._templates[key] = Template.of(message)
        return template


def _sender(message: StoredMessage) -> tuple[bytes, bytes]:
    """Who sent a message: the address it came from, where that is kept, and the queue manager it names."""
    return message.source, message.packet.source


def _name_of(address: bytes, queue_manager: bytes) -> str:
    return str(host_in(address)) if address else guid_text(queue_manager)
