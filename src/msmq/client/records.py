"""A message as a JSON object, and back: what ``--json`` prints, what ``export`` writes and ``import`` reads."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from msmq.client.message import Acknowledge, Delivery, Message, ReceivedMessage, id_bytes, id_text
from msmq.errors import MQError, MsmqError
from msmq.wire.bodies import write_body
from msmq.wire.guid import guid_from_text, guid_text
from msmq.wire.headers import INFINITE
from msmq.wire.times import time_text

if TYPE_CHECKING:
    from msmq.client.connection import Connection

_NO_ID: Final = bytes(20)
_BASE64: Final = "base64"
_PROPERTIES: Final = (
    "label",
    "priority",
    "response_queue",
    "admin_queue",
    "application_tag",
    "journal",
    "dead_letter",
)
_LIMITS: Final = ("time_to_reach_queue", "time_to_be_received")


class RecordError(MsmqError):
    """A JSON object that is not a message."""


def to_record(message: ReceivedMessage, *, exact: bool = False) -> dict[str, Any]:
    """Describe a message as an object. With ``exact`` the body is given as text only if the text yields the same bytes
    again."""
    properties = message.properties
    record: dict[str, Any] = {
        "queue": message.queue,
        "lookup_id": message.lookup_id,
        "lookup_id_text": str(message.lookup_id),
        "message_id": message.id,
        "label": message.label,
        "priority": message.priority,
        "class": message.class_name,
        "delivery": message.delivery.name.lower(),
        **_body(message, exact),
        "body_type": message.body_type,
        "sent_time": time_text(message.sent_time),
        "arrived_time": time_text(message.arrived_time),
        "class_number": message.packet.properties.message_class,
        "dead_letter_reason": message.dead_letter_reason,
        "destination": message.destination,
        "response_queue": message.response_queue,
        "admin_queue": message.admin_queue,
        "acknowledgements": int(message.acknowledgements),
        "correlation_id": id_text(message.correlation_id) if message.correlation_id != _NO_ID else "",
        "application_tag": message.application_tag,
        "connector_type": guid_text(message.connector_type) if message.connector_type else "",
        "extension": base64.b64encode(message.extension).decode(),
        "headers": message.headers,
        "time_to_reach_queue": _seconds(properties.time_to_reach_queue_s),
        "time_to_be_received": _seconds(properties.time_to_be_received_s),
        "journal": message.journal,
        "dead_letter": message.dead_letter,
        "returned_count": message.returned_count,
        "sender": message.sender,
        "authenticated": message.authenticated,
    }
    return record


def _seconds(limit_s: int) -> int | None:
    return None if limit_s == INFINITE else limit_s


def _body(message: ReceivedMessage, exact: bool) -> dict[str, str]:
    text = text_of(message)
    if text is not None and exact and write_body(text, body_type=message.body_type)[0] != message.body:
        text = None
    if text is not None:
        return {"body": text}
    return {"body": base64.b64encode(message.body).decode(), "body_encoding": _BASE64}


def text_of(message: ReceivedMessage) -> str | None:
    """The body as text; None if it is not text."""
    try:
        return message.text
    except ValueError:
        return None


def to_message(record: Any) -> Message:
    """Make the message that an object describes. Only ``body`` is required; everything else has a default."""
    if not isinstance(record, dict) or "body" not in record:
        raise RecordError('A message is an object of JSON with at least a "body".')
    try:
        return _message(record)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise RecordError(f"The object is no message: {error}") from error


def _message(record: dict[str, Any]) -> Message:
    body, body_type = record["body"], record.get("body_type")
    if record.get("body_encoding") == _BASE64:
        body = base64.b64decode(body, validate=True)
    given: dict[str, Any] = {name: record[name] for name in _PROPERTIES if record.get(name) is not None}
    given |= {name: record[name] for name in _LIMITS if record.get(name) is not None}
    message = Message(
        body,
        body_type=int(body_type) if body_type is not None else None,
        delivery=Delivery[str(record.get("delivery", "default")).upper()],
        acknowledgements=Acknowledge(int(record.get("acknowledgements", 0))),
        correlation_id=id_bytes(record["correlation_id"]) if record.get("correlation_id") else b"",
        connector_type=guid_from_text(record["connector_type"]) if record.get("connector_type") else b"",
        extension=base64.b64decode(record.get("extension", ""), validate=True),
        message_class=int(record.get("class_number", 0)),
        **given,
    )
    message.to_proto()  # a message that cannot be sent fails here, where its line is known
    return message


def again(message: ReceivedMessage, transactional: bool | None = None) -> Message:
    """Return a copy of a received message, as its sender wrote it, for a queue that is ``transactional`` or not."""
    return suited(to_message(to_record(message, exact=True)), transactional)


async def transactional(mq: Connection, queue: str) -> bool | None:
    """Tell whether a queue is transactional; None if it is on another computer."""
    try:
        return (await mq.queue_info(queue)).transactional
    except MQError:
        return None


def suited(message: Message, transactional: bool | None) -> Message:
    """Return the message with the delivery that the queue needs; unchanged if ``transactional`` is None, which means
    unknown."""
    if transactional is None or transactional == (message.delivery is Delivery.TRANSACTIONAL):
        return message
    return message.with_(delivery=Delivery.TRANSACTIONAL if transactional else Delivery.RECOVERABLE)


def hexadecimal(body: bytes) -> str:
    """Bytes as a hexadecimal table of sixteen per row."""
    rows = []
    for offset in range(0, len(body), 16):
        row = body[offset : offset + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{offset:08x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(rows)
