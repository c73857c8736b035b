"""The bytes that a signature covers (MS-MQMQ 2.5): fields of a message in order, joined together.

Three lists exist, one for each generation of MSMQ. The specification names fields, not their bytes; each of our
interpretations is one function, so that a capture from a real signer can correct it in one place:

* a queue name counts as what it names, without Count and padding (MQMQ-2.5.1-b): see :func:`queue_bytes`;
* the label counts with its terminator, as it lies in the packet;
* the format name list of MSMQ 3.0 is that of the destinations (MQMQ-2.5.3-b);
* a field that is not there adds nothing.

The body is the clear one: senders sign before they encrypt (MQMQ-2.5.2-b), so an encrypted message is decrypted before
its signature is verified.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from msmq.wire.declare import bytes_of
from msmq.wire.headers import MessagePropertiesHeader, PrivateQueueFormatName, QueueName
from msmq.wire.message import UserMessage

_SIX_BYTES = struct.Struct("<BBBBHI")


class SignatureType(IntEnum):
    """The lists of signed fields, by the number that a receiver puts into SecurityHeader.Flags.AS after
    verification.
    """

    MSMQ_1_0 = 1
    MSMQ_2_0 = 3
    MSMQ_3_0 = 5


def signature_input(message: UserMessage, kind: SignatureType, clear_body: bytes | None = None) -> bytes:
    """Return the bytes to hash. ``clear_body`` replaces the body of an encrypted message."""
    fields = _first_six(message, message.body if clear_body is None else clear_body)
    if kind is SignatureType.MSMQ_2_0:
        fields += (*_travel(message), queue_bytes(message.user.destination_queue))
    elif kind is SignatureType.MSMQ_3_0:
        lists = message.multi_queue
        fields += (
            message.extension,
            lists.destination.format_name_list if lists else b"",
            *_travel(message),
        )
    return b"".join(fields)


def _first_six(message: UserMessage, body: bytes) -> tuple[bytes, ...]:
    """Return the fields of 2.5.1, with which the later lists begin too."""
    properties = message.properties
    label_offset = message.properties_offset + MessagePropertiesHeader.SIZE
    return (
        properties.correlation_id,
        properties.application_tag.to_bytes(4, "little"),
        body,
        message.data[label_offset : message.extension_offset],
        queue_bytes(message.user.answers_to),
        queue_bytes(message.user.admin_queue),
    )


def _travel(message: UserMessage) -> tuple[bytes, bytes, bytes]:
    """Return the fields from SourceQueueManager to ConnectorType, which 2.5.2 and 2.5.3 share."""
    user, properties = message.user, message.properties
    numbers = _SIX_BYTES.pack(
        user.delivery_mode,
        message.base.priority,
        user.positive_journaling << 1 | user.negative_journaling,
        properties.flags & 0x0F,
        properties.message_class,
        properties.body_type,
    )
    return user.source_queue_manager, numbers, user.connector_type or b""


def queue_bytes(name: QueueName) -> bytes:
    """Return the signed bytes of a queue name: the terminated text of a direct name, the identifiers of others."""
    if name is None:
        return b""
    if isinstance(name, str):
        return bytes_of(name + "\0")
    if isinstance(name, bytes):
        return name
    if isinstance(name, PrivateQueueFormatName):
        return name.source_queue_manager + name.private_queue_identifier.to_bytes(4, "little")
    return name.to_bytes(4, "little")
