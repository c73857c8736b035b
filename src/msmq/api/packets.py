"""Between messages of the channel and packets.

Messages to send come in columns or one by one. A received message goes out as the packet it is, or as properties for
clients that cannot read one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msmq.api.fields import repeated, within
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.names import format_name
from msmq.errors import InvalidParameterError
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.stored import NO_ATTRIBUTES, LocalAttributes, StoredMessage
from msmq.manager.messages.message import (
    AcknowledgementsRequested,
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
)
from msmq.manager.messages.serialize import deserialize
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S
from msmq.manager.queues.queue import Queue
from msmq.security.sid import Sid
from msmq.wire.classes import reason
from msmq.wire.headers import DEFAULT_PRIORITY, INFINITE, NULL_GUID, USER_TH

HIGHEST_PRIORITY: Final = 7
_NO_CORRELATION: Final = bytes(20)
_OWN: Final = ("body", "body_type", "label", "extension", "application_tag", "correlation_id")
"""What a message has of its own, in the order of the columns."""
_CORRELATION: Final = _OWN.index("correlation_id")
"""Which column has the correlation identifiers."""


# --- sending ------------------------------------------------------------------------------------------------------


class Options(NamedTuple):
    """What a message of the channel says of its delivery."""

    priority: int
    recoverable: bool
    time_to_reach_queue_s: int
    time_to_be_received_s: int
    positive_journaling: bool
    negative_journaling: bool


def options_of(given: pb.Message) -> Options:
    return Options(
        given.priority if given.HasField("priority") else DEFAULT_PRIORITY,
        given.delivery != pb.EXPRESS,
        given.time_to_reach_queue_s
        if given.HasField("time_to_reach_queue_s")
        else DEFAULT_TIME_TO_REACH_QUEUE_S,
        given.time_to_be_received_s if given.HasField("time_to_be_received_s") else INFINITE,
        given.journal,
        given.dead_letter,
    )


def local_of(given: pb.Message, computer: str) -> LocalAttributes:
    """What no packet says of a message of the channel."""
    if not (given.dead_letter_queue or given.peekable_when_locked):
        return NO_ATTRIBUTES
    return LocalAttributes(
        application_deadletter_queue=_own_path(given.dead_letter_queue, computer),
        allow_peek_when_locked=given.peekable_when_locked,
    )


def to_message(given: pb.Message, computer: str) -> Message:
    """A message of the channel as the queue manager has it; names become format names."""
    options, local = options_of(given), local_of(given, computer)
    return Message(
        body=given.body,
        body_type=given.body_type,
        label=given.label,
        extension=given.extension,
        application_tag=given.application_tag,
        correlation_identifier=given.correlation_id or _NO_CORRELATION,
        message_class=given.message_class,
        acknowledgements_requested=AcknowledgementsRequested(given.acknowledgements & 0xF),
        tracing_requested=given.trace,
        administration_queue_format_name=_name(given.admin_queue, computer),
        response_queue_format_name=_name(given.response_queue, computer),
        authentication_level=AuthenticationLevel.SIG20 if given.authenticate else AuthenticationLevel.NONE,
        privacy_level=given.privacy_level,
        sender_certificate=given.sender_certificate,
        connector_type_identifier=given.connector_type or NULL_GUID,
        priority=options.priority,
        delivery_guarantee=DeliveryGuarantee(options.recoverable),
        time_to_reach_queue_s=options.time_to_reach_queue_s,
        time_to_be_received_s=options.time_to_be_received_s,
        positive_journaling_requested=options.positive_journaling,
        negative_journaling_requested=options.negative_journaling,
        application_deadletter_queue=local.application_deadletter_queue,
        allow_peek_when_locked=local.allow_peek_when_locked,
    )


def _name(text: str, computer: str) -> str:
    return format_name(text, computer) if text else ""


def _own_path(text: str, computer: str) -> str:
    """The dead-letter queue of an application is found by its path."""
    return _name(text, computer).partition(":")[2]


class Columns:
    """Messages of the channel in columns."""

    def __init__(self, given: pb.Columns) -> None:
        """Raises InvalidParameterError when the columns do not belong together."""
        self._given = given
        self.kinds = given.kinds
        count = len(given.bodies)
        columns: tuple[Sequence[Any], ...] = (
            given.bodies, given.body_types, given.labels, given.extensions, given.application_tags,
            given.correlation_ids,
        )  # fmt: skip
        if any(column and len(column) != count for column in (*columns, given.kind)):
            raise InvalidParameterError("A column has an entry for each message, or none.")
        self.kind: Sequence[int] = given.kind or [0] * count
        """The index of each message's kind."""
        if count and max(self.kind) >= len(self.kinds):
            raise InvalidParameterError("A message is of a kind that is not there.")
        self._columns: list[Sequence[Any]] = [
            column or self._usual(name) for name, column in zip(_OWN, columns, strict=True)
        ]
        self._columns[_CORRELATION] = [each or _NO_CORRELATION for each in self._columns[_CORRELATION]]
        self._columns.append(self._usual("message_class"))

    def _usual(self, name: str) -> Sequence[Any]:
        """A column that was left out: what the kinds say."""
        said = list(map(attrgetter(name), self.kinds))
        return [said[kind] for kind in self.kind]

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """What each message has of its own, as :meth:`msmq.manager.messages.template.Template.packet` wants it."""
        return zip(*self._columns, strict=True)

    def message(self, index: int) -> pb.Message:
        """One of them by itself."""
        message = pb.Message()
        message.CopyFrom(self.kinds[self.kind[index]])
        body, body_type, label, extension, tag, correlation, _ = (column[index] for column in self._columns)
        message.body, message.body_type, message.label = body, body_type, label
        message.extension, message.application_tag = extension, tag
        message.correlation_id = b"" if correlation == _NO_CORRELATION else correlation
        return message


# --- receiving ----------------------------------------------------------------------------------------------------


def write_packets(field: int, queue: Queue, found: Found) -> bytes:
    """Messages as a reader gets them that asked for packets: a reply whose ``field`` has the `pb.Packets`, as it is
    written."""
    rest = pb.Packets(lookup_ids=found.ids, arrived_times=found.arrival_times, remarks=_remarks(queue, found))
    packets = repeated(pb.Packets.PACKETS_FIELD_NUMBER, found.packets)
    return within(field, (rest.SerializeToString(), *packets))


def _remarks(queue: Queue, found: Found) -> Iterable[pb.Remark]:
    remarks = {index: pb.Remark(index=index) for index in found.local}
    for index, local in found.local.items():
        dead = local.dead_letter_class
        remarks[index].authenticated = bool(local.authentication_level)
        remarks[index].dead_letter_class = dead
        remarks[index].dead_letter_reason = reason(dead) if dead else ""
    if queue.aborts:
        for index, lookup_id in enumerate(found.ids):
            if lookup_id in queue.aborts:
                remark = remarks.setdefault(index, pb.Remark(index=index))
                remark.returned_count = queue.aborts[lookup_id]
    return remarks.values()


def to_deliveries(queue: Queue, found: Found) -> pb.Deliveries:
    """Messages as a reader gets them that asked for properties."""
    return pb.Deliveries(
        messages=[
            to_delivered(message, pb.PROPERTIES, queue.aborts.get(message.lookup_id, 0))
            for message in found.messages
        ]
    )


def to_delivered(stored: StoredMessage, form: int, returned: int) -> pb.Delivered:
    """A message as a reader gets it that asked for one."""
    dead = stored.local.dead_letter_class
    if form == pb.PACKET:
        return pb.Delivered(
            lookup_id=stored.lookup_id,
            arrived_time=stored.arrival_time,
            returned_count=returned,
            packet=stored.packet.data,
            authenticated=bool(stored.local.authentication_level),
            dead_letter_class=dead,
            dead_letter_reason=reason(dead) if dead else "",
        )
    message = deserialize(stored.packet)
    return pb.Delivered(
        lookup_id=stored.lookup_id,
        arrived_time=stored.arrival_time,
        returned_count=returned,
        message=_properties(message, stored),
        message_id=message.identifier.encode(),
        sent_time=message.sent_time,
        sender=_sender(message),
        authenticated=bool(stored.local.authentication_level),
        destination=_whole(message.destination_queue_format_name),
        transactional=bool(stored.packet.user.flags & USER_TH),
        first_in_transaction=message.first_in_transaction,
        last_in_transaction=message.last_in_transaction,
        dead_letter_class=dead,
        dead_letter_reason=reason(dead) if dead else "",
    )


def _sender(message: Message) -> str:
    if message.sender_identifier_type != SenderIdentifierType.SID or not message.sender_identifier:
        return ""
    return _sid_text(message.sender_identifier)


@lru_cache(maxsize=1 << 10)
def _sid_text(identifier: bytes) -> str:
    """Few people send many messages, and whoever looks at a queue wants to know of each who it was."""
    return str(Sid.decode(identifier))


def _whole(text: str) -> str:
    """Text as Protocol Buffers hold it. Strangers may send halves of characters (lone surrogates); the packet has
    those."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _properties(message: Message, stored: StoredMessage) -> pb.Message:
    transactional = stored.packet.transactional
    recoverable = pb.TRANSACTIONAL if transactional else pb.RECOVERABLE
    return pb.Message(
        body=message.body,
        body_type=message.body_type,
        label=_whole(message.label),
        extension=message.extension,
        application_tag=message.application_tag,
        correlation_id=message.correlation_identifier,
        priority=message.priority,
        delivery=recoverable if message.delivery_guarantee else pb.EXPRESS,
        time_to_reach_queue_s=message.time_to_reach_queue_s,
        time_to_be_received_s=message.time_to_be_received_s,
        acknowledgements=int(message.acknowledgements_requested),
        journal=message.positive_journaling_requested,
        dead_letter=message.negative_journaling_requested,
        dead_letter_queue=_whole(stored.local.application_deadletter_queue),
        admin_queue=_whole(message.administration_queue_format_name),
        response_queue=_whole(message.response_queue_format_name),
        trace=message.tracing_requested,
        message_class=message.message_class,
        authenticate=bool(message.signature),
        privacy_level=message.privacy_level,
        peekable_when_locked=stored.local.allow_peek_when_locked,
        sender_certificate=message.sender_certificate,
        connector_type=message.connector_type_identifier
        if message.connector_type_identifier != NULL_GUID
        else b"",
    )
