"""What a signature is made over (MS-MQMQ 2.5): the fields of a message, in order, as one run of bytes.

Three lists exist, one for each generation of MSMQ. The specification names fields and not their bytes; the readings
taken here are each one function, so that a capture from a real signer can turn them in one place:

* a queue name counts as what it names, without Count and padding (MQMQ-2.5.1-b): see :func:`queue_bytes`;
* the label counts with its terminator, as it lies in the packet;
* the format name list of MSMQ 3.0 is that of the destinations (MQMQ-2.5.3-b);
* a field that is not there adds nothing.

The body is the clear one: senders sign first and encrypt after (MQMQ-2.5.2-b), so an encrypted message is decrypted
before its signature is looked at.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from msmq.wire.declare import bytes_of
from msmq.wire.headers import MessagePropertiesHeader, PrivateQueueFormatName, QueueName
from msmq.wire.message import UserMessage

_SIX_BYTES = struct.Struct("<BBBBHI")


class SignatureType(IntEnum):
    """The signature lists, by the number a receiver keeps in SecurityHeader.Flags.AS once it has verified one."""

    MSMQ_1_0 = 1
    MSMQ_2_0 = 3
    MSMQ_3_0 = 5


def signature_input(message: UserMessage, kind: SignatureType, clear_body: bytes | None = None) -> bytes:
    """The bytes to hash. ``clear_body`` replaces the body of a message that travels encrypted."""
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
    """2.5.1, with which the later lists begin too."""
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
    """From SourceQueueManager to ConnectorType: the run that 2.5.2 and 2.5.3 share."""
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
    """A queue name as a signature counts it: the terminated text of a direct name, the identifiers of others."""
    if name is None:
        return b""
    if isinstance(name, str):
        return bytes_of(name + "\0")
    if isinstance(name, bytes):
        return name
    if isinstance(name, PrivateQueueFormatName):
        return name.source_queue_manager + name.private_queue_identifier.to_bytes(4, "little")
    return name.to_bytes(4, "little")
