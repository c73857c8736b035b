"""Between messages of the channel and packets.

Messages of a stream that are alike share a template (:mod:`msmq.manager.template`). A received message goes out as the
packet it is, or as properties for clients that cannot read one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.names import format_name
from msmq.errors import InvalidParameterError
from msmq.manager.message import (
    AcknowledgementsRequested,
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
)
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S
from msmq.manager.serialize import deserialize
from msmq.manager.stored import StoredMessage
from msmq.manager.template import Template
from msmq.security.sid import Sid
from msmq.wire.classes import reason
from msmq.wire.headers import DEFAULT_PRIORITY, INFINITE, NULL_GUID, USER_TH

_NO_CORRELATION: Final = bytes(20)


# --- sending ------------------------------------------------------------------------------------------------------


def to_message(given: pb.Message, computer: str) -> Message:
    """A message of the channel as the queue manager has it; names become format names."""
    return Message(
        body=given.body,
        body_type=given.body_type,
        label=given.label,
        extension=given.extension,
        application_tag=given.application_tag,
        correlation_identifier=given.correlation_id or _NO_CORRELATION,
        message_class=given.message_class,
        priority=given.priority if given.HasField("priority") else DEFAULT_PRIORITY,
        delivery_guarantee=DeliveryGuarantee(given.delivery != pb.EXPRESS),
        time_to_reach_queue_s=given.time_to_reach_queue_s
        if given.HasField("time_to_reach_queue_s")
        else DEFAULT_TIME_TO_REACH_QUEUE_S,
        time_to_be_received_s=given.time_to_be_received_s
        if given.HasField("time_to_be_received_s")
        else INFINITE,
        acknowledgements_requested=AcknowledgementsRequested(given.acknowledgements & 0xF),
        positive_journaling_requested=given.journal,
        negative_journaling_requested=given.dead_letter,
        application_deadletter_queue=_own_path(given.dead_letter_queue, computer),
        tracing_requested=given.trace,
        administration_queue_format_name=_name(given.admin_queue, computer),
        response_queue_format_name=_name(given.response_queue, computer),
        authentication_level=AuthenticationLevel.SIG20 if given.authenticate else AuthenticationLevel.NONE,
        privacy_level=given.privacy_level,
        sender_certificate=given.sender_certificate,
        connector_type_identifier=given.connector_type or NULL_GUID,
        allow_peek_when_locked=given.peekable_when_locked,
    )


def _name(text: str, computer: str) -> str:
    return format_name(text, computer) if text else ""


def _own_path(text: str, computer: str) -> str:
    """The dead-letter queue of an application is found by its path."""
    return _name(text, computer).partition(":")[2]


def kind_of(given: pb.Message) -> tuple[object, ...]:
    """What a template depends on: everything that stands in front of MessagePropertiesHeader, or nowhere."""
    return (
        given.delivery,
        given.priority if given.HasField("priority") else None,
        given.time_to_reach_queue_s if given.HasField("time_to_reach_queue_s") else None,
        given.time_to_be_received_s if given.HasField("time_to_be_received_s") else None,
        given.journal,
        given.dead_letter,
        given.dead_letter_queue,
        given.admin_queue,
        given.response_queue,
        given.sender_certificate,
        given.connector_type,
        given.peekable_when_locked,
        given.authenticate,
        given.privacy_level,
    )


def fill(template: Template, given: pb.Message, ordinal: int, sent_time: int) -> StoredMessage:
    """The message in its packet."""
    return template.fill(ordinal, sent_time, *_own(given), given.acknowledgements & 0xF)


def columns_of(alike: pb.Alike) -> list[Sequence[Any]]:
    """What each message has of its own, column by column, in the order of :func:`_own`."""
    common, count = alike.common, len(alike.bodies)
    usual = _own(common)
    given: tuple[Sequence[Any], ...] = (
        alike.bodies, alike.body_types, alike.labels, alike.extensions, alike.application_tags, alike.correlation_ids,
    )  # fmt: skip
    if any(column and len(column) != count for column in given):
        raise InvalidParameterError("A column of an Alike has an entry for each message, or none.")
    columns: list[Sequence[Any]] = [[value] * count for value in usual]
    for place, column in enumerate(given):
        if column:
            columns[place] = column
    if alike.correlation_ids:
        columns[5] = [each or _NO_CORRELATION for each in alike.correlation_ids]
    return columns


def messages_of(alike: pb.Alike) -> list[pb.Message]:
    """The same, message by message."""
    made = []
    for body, kind, label, extension, tag, correlation, _ in zip(*columns_of(alike), strict=True):
        message = pb.Message()
        message.CopyFrom(alike.common)
        message.body, message.body_type, message.label = body, kind, label
        message.extension, message.application_tag = extension, tag
        message.correlation_id = b"" if correlation == _NO_CORRELATION else correlation
        made.append(message)
    return made


def packet_of(
    template: Template, given: pb.Message, ordinal: int, sent_time: int, transaction: int = 0
) -> bytes:
    """The packet alone, of a message that asks for no acknowledgment; its transaction goes by a number."""
    return template.packet(ordinal, sent_time, *_own(given), 0, transaction)


def _own(given: pb.Message) -> tuple[bytes, int, str, bytes, int, bytes, int]:
    """What each message of a template has of its own."""
    return (
        given.body,
        given.body_type,
        given.label,
        given.extension,
        given.application_tag,
        given.correlation_id or _NO_CORRELATION,
        given.message_class,
    )


# --- receiving ----------------------------------------------------------------------------------------------------


def to_delivered(stored: StoredMessage, form: int, returned: int) -> pb.Delivered:
    """A message as a reader gets it."""
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
        destination=message.destination_queue_format_name,
        transactional=bool(stored.packet.user.flags & USER_TH),
        first_in_transaction=message.first_in_transaction,
        last_in_transaction=message.last_in_transaction,
        dead_letter_class=dead,
        dead_letter_reason=reason(dead) if dead else "",
    )


def _sender(message: Message) -> str:
    if message.sender_identifier_type != SenderIdentifierType.SID or not message.sender_identifier:
        return ""
    return str(Sid.decode(message.sender_identifier))


def _properties(message: Message, stored: StoredMessage) -> pb.Message:
    transactional = stored.packet.transactional
    recoverable = pb.TRANSACTIONAL if transactional else pb.RECOVERABLE
    return pb.Message(
        body=message.body,
        body_type=message.body_type,
        label=message.label,
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
        dead_letter_queue=stored.local.application_deadletter_queue,
        admin_queue=message.administration_queue_format_name,
        response_queue=message.response_queue_format_name,
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
