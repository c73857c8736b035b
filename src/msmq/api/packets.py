"""Conversion between messages of the channel and packets.

Messages to send come in columns or one by one. A received message is delivered as its packet, or as properties for
clients that cannot read packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.names import format_name
from msmq.api.packet_columns import write_columns
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

_T = TypeVar("_T")
_ASKS: Final = 0xF
_NO_CORRELATION: Final = bytes(20)
_OWN: Final = {
    "body": "bodies", "body_type": "body_types", "label": "labels", "extension": "extensions",
    "application_tag": "application_tags", "correlation_id": "correlation_ids", "priority": "priorities",
    "delivery": "deliveries", "time_to_reach_queue_s": "times_to_reach_queue_s",
    "time_to_be_received_s": "times_to_be_received_s", "acknowledgements": "acknowledgements", "journal": "journals",
    "dead_letter": "dead_letters",
}  # fmt: skip
"""The fields of a message that have a column, and the names of the columns."""


# --- sending ------------------------------------------------------------------------------------------------------


_UNSAID: Final = {
    "priority": DEFAULT_PRIORITY,
    "time_to_reach_queue_s": DEFAULT_TIME_TO_REACH_QUEUE_S,
    "time_to_be_received_s": INFINITE,
}
"""The values of fields that a message leaves out."""


def said(given: pb.Message, name: str) -> Any:
    """The value of a field of a message of the channel, or its default."""
    return _UNSAID[name] if name in _UNSAID and not given.HasField(name) else getattr(given, name)


def local_of(given: pb.Message, computer: str) -> LocalAttributes:
    """The attributes of a message that its packet does not have."""
    if not (given.dead_letter_queue or given.peekable_when_locked):
        return NO_ATTRIBUTES
    return LocalAttributes(
        application_deadletter_queue=_own_path(given.dead_letter_queue, computer),
        allow_peek_when_locked=given.peekable_when_locked,
    )


def to_message(given: pb.Message, computer: str) -> Message:
    """Convert a message of the channel to one of the queue manager; names become format names."""
    local = local_of(given, computer)
    return Message(
        body=given.body,
        body_type=given.body_type,
        label=given.label,
        extension=given.extension,
        application_tag=given.application_tag,
        correlation_identifier=given.correlation_id or _NO_CORRELATION,
        message_class=given.message_class,
        acknowledgements_requested=AcknowledgementsRequested(given.acknowledgements & _ASKS),
        tracing_requested=given.trace,
        administration_queue_format_name=_name(given.admin_queue, computer),
        response_queue_format_name=_name(given.response_queue, computer),
        authentication_level=AuthenticationLevel.SIG20 if given.authenticate else AuthenticationLevel.NONE,
        privacy_level=given.privacy_level,
        sender_certificate=given.sender_certificate,
        connector_type_identifier=given.connector_type or NULL_GUID,
        priority=said(given, "priority"),
        delivery_guarantee=DeliveryGuarantee(given.delivery != pb.EXPRESS),
        time_to_reach_queue_s=said(given, "time_to_reach_queue_s"),
        time_to_be_received_s=said(given, "time_to_be_received_s"),
        positive_journaling_requested=given.journal,
        negative_journaling_requested=given.dead_letter,
        application_deadletter_queue=local.application_deadletter_queue,
        allow_peek_when_locked=local.allow_peek_when_locked,
    )


def _name(text: str, computer: str) -> str:
    return format_name(text, computer) if text else ""


def _own_path(text: str, computer: str) -> str:
    """The path of an application's dead-letter queue, by which the queue manager finds it."""
    return _name(text, computer).partition(":")[2]


class Columns:
    """Messages of the channel in columns: what each says, whether a column has it or its kind."""

    def __init__(self, given: pb.Columns, bodies: Sequence[memoryview] = ()) -> None:
        """``bodies`` are those that are not in their column because they are large. Raises InvalidParameterError when
        the columns do not belong together."""
        self.kinds = given.kinds
        columns = {name: getattr(given, column) for name, column in _OWN.items()}
        columns["body"] = bodies or given.bodies
        self._count = count = len(columns["body"])
        if any(len(column) not in (0, 1, count) for column in columns.values()) or (
            given.kind and len(given.kind) != count
        ):
            raise InvalidParameterError("A column has an entry for each message, one for all, or none.")
        self.kind: Sequence[int] = list(given.kind) or [0] * count
        """The index of each message's kind."""
        if count and max(self.kind) >= len(self.kinds):
            raise InvalidParameterError("A message is of a kind that is not there.")
        self._given = [name for name, column in columns.items() if column]
        self._columns = {name: self._whole(name, column) for name, column in columns.items()}
        self.deliveries = self._columns["delivery"]
        self.priorities = self._columns["priority"]
        self.times_to_reach_queue_s = self._columns["time_to_reach_queue_s"]
        self.times_to_be_received_s = self._columns["time_to_be_received_s"]
        self.acknowledgements = [asked & _ASKS for asked in self._columns["acknowledgements"]]
        self.journals = self._columns["journal"]
        self.dead_letters = self._columns["dead_letter"]

    def _whole(self, name: str, column: Sequence[Any]) -> Sequence[Any]:
        """A column expanded to one entry for each message."""
        if column:  # a list, because what a protobuf message repeats is slow to go through
            return list(column) if len(column) == self._count else list(column) * self._count
        return self.of_kinds([said(kind, name) for kind in self.kinds])

    def of_kinds(self, values: Sequence[_T]) -> Sequence[_T]:
        """A column made of one value for each kind."""
        return [values[0]] * self._count if len(values) == 1 else [values[kind] for kind in self.kind]

    def __len__(self) -> int:
        return self._count

    @property
    def properties(self) -> tuple[Sequence[Any], ...]:
        """What stands in MessagePropertiesHeader and behind it, but for the acknowledgments, in the order in which
        :func:`msmq.manager.messages.template.write_packets` wants it."""
        own = self._columns
        correlations = [each or _NO_CORRELATION for each in own["correlation_id"]]
        classes = self.of_kinds([kind.message_class for kind in self.kinds])
        return (
            own["body"], own["body_type"], own["label"], own["extension"], own["application_tag"], correlations,
            classes,
        )  # fmt: skip

    def message(self, index: int) -> pb.Message:
        """A single message of the columns."""
        message = pb.Message()
        message.CopyFrom(self.kinds[self.kind[index]])
        for name in self._given:
            value = self._columns[name][index]
            setattr(message, name, bytes(value) if isinstance(value, memoryview) else value)
        return message


# --- receiving ----------------------------------------------------------------------------------------------------


def write_packets(field: int, queue: Queue, found: Found) -> list[bytes]:
    """Messages as a reader gets them that asked for packets: a reply whose ``field`` has the `pb.Packets`, in parts, as
    it is written."""
    return write_columns(field, found.ids, found.arrival_times, found.packets, _remarks(queue, found))


def _remarks(queue: Queue, found: Found) -> Iterable[pb.Remark]:
    remarks: dict[int, pb.Remark] = {}
    for index, local in found.local.items():
        authenticated, dead = bool(local.authentication_level), local.dead_letter_class
        if authenticated or dead:
            remarks[index] = pb.Remark(
                index=index,
                authenticated=authenticated,
                dead_letter_class=dead,
                dead_letter_reason=reason(dead) if dead else "",
            )
    if queue.aborts:
        for index, lookup_id in enumerate(found.ids):
            if lookup_id in queue.aborts:
                remark = remarks.setdefault(index, pb.Remark(index=index))
                remark.returned_count = queue.aborts[lookup_id]
    return remarks.values()


def to_deliveries(queue: Queue, found: Found) -> pb.Deliveries:
    """Messages for a reader that asked for properties."""
    return pb.Deliveries(
        messages=[
            to_delivered(message, pb.PROPERTIES, queue.aborts.get(message.lookup_id, 0))
            for message in found.messages
        ]
    )


def to_delivered(stored: StoredMessage, form: int, returned: int) -> pb.Delivered:
    """A message in the form that its reader asked for."""
    dead = stored.local.dead_letter_class
    always: dict[str, Any] = {
        "lookup_id": stored.lookup_id,
        "arrived_time": stored.arrival_time,
        "returned_count": returned,
        "authenticated": bool(stored.local.authentication_level),
        "dead_letter_class": dead,
        "dead_letter_reason": reason(dead) if dead else "",
    }
    if form == pb.PACKET:
        return pb.Delivered(packet=stored.packet.data, **always)
    message = deserialize(stored.packet)
    return pb.Delivered(
        message=_properties(message, stored),
        message_id=message.identifier.encode(),
        sent_time=message.sent_time,
        sender=_sender(message),
        destination=_whole(message.destination_queue_format_name),
        transactional=bool(stored.packet.user.flags & USER_TH),
        first_in_transaction=message.first_in_transaction,
        last_in_transaction=message.last_in_transaction,
        **always,
    )


def _sender(message: Message) -> str:
    if message.sender_identifier_type != SenderIdentifierType.SID or not message.sender_identifier:
        return ""
    return _sid_text(message.sender_identifier)


@lru_cache(maxsize=1 << 10)
def _sid_text(identifier: bytes) -> str:
    """Cached: few users send many messages, and every message shown in a queue names its sender."""
    return str(Sid.decode(identifier))


def _whole(text: str) -> str:
    """Text as Protocol Buffers hold it. Strangers may send halves of characters (lone surrogates); whoever wants those
    asks for the packet."""
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
