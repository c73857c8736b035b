"""Packets of messages that say the same: written once, filled in for each of them.

Whoever sends many messages to a queue says the same about nearly all of them. Everything in front of
MessagePropertiesHeader follows from what is the same. A :class:`Template` keeps it, and each message brings its own
number, time, transaction and properties. :func:`kind_of` says which messages share a template.
"""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Final, NamedTuple

from msmq.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    InsufficientResourcesError,
    LabelTooLongError,
)
from msmq.manager.mailbox.batch import NEGATIVE_JOURNALING, POSITIVE_JOURNALING, RECOVERABLE
from msmq.manager.mailbox.stored import LocalAttributes
from msmq.manager.messages.message import MAX_LABEL_CHARACTERS, AuthenticationLevel, Message
from msmq.manager.messages.serialize import serialize
from msmq.wire.classes import is_application_class
from msmq.wire.declare import bytes_of
from msmq.wire.headers import MAX_PACKET_SIZE, MessagePropertiesHeader
from msmq.wire.layout import BASE, USER, properties_struct
from msmq.wire.message import UserMessage

_pack_properties: Final = properties_struct.pack
_PACKET_SIZE: Final = BASE["packet_size"]
_SENT_TIME: Final = USER["sent_time"]
assert USER["message_id"] == _SENT_TIME + 4  # both are filled in together
_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_PRIORITY: Final = 7
_OPTIONS: Final = RECOVERABLE | NEGATIVE_JOURNALING | POSITIVE_JOURNALING
_TWO_U32: Final = struct.Struct("<II")
_CORRELATION_SIZE: Final = 20
_MOST_ACKNOWLEDGEMENTS: Final = 0xF
_LARGEST_U32: Final = 0xFFFFFFFF
_TRANSACTION_SHIFT: Final = 4
_TRANSACTION_BITS: Final = 0xFFFFF << _TRANSACTION_SHIFT
_PADDING: Final = tuple(bytes(size) for size in range(4))

_PER_MESSAGE: Final = frozenset(
    {
        "body",
        "body_type",
        "label",
        "extension",
        "application_tag",
        "correlation_identifier",
        "message_class",
        "acknowledgements_requested",
        "transaction_identifier",
        "identifier",
        "sent_time",
        # never part of a packet
        "arrival_time",
        "lookup_identifier",
        "message_position_reference",
    }
)
kind_of: Final = attrgetter(*(name for name in Message.__dataclass_fields__ if name not in _PER_MESSAGE))
"""What a template depends on: everything that stands in front of MessagePropertiesHeader, or nowhere."""


class Kind(NamedTuple):
    """What the queue manager has to know of a message without looking into its packet again."""

    user_flags: int
    base_flags: int
    time_to_be_received_s: int
    time_to_reach_queue_s: int
    local: LocalAttributes | None
    """None for the many that have none."""

    @classmethod
    def of(cls, packet: UserMessage, local: LocalAttributes) -> Kind:
        base, user = packet.base, packet.user
        return cls(
            user.flags,
            base.flags,
            user.time_to_be_received_s,
            base.time_to_reach_queue_s,
            local if local.has_any else None,
        )


class Template:
    """The beginning of packets that differ in number, time, transaction and properties only."""

    __slots__ = ("_algorithms", "_head", "_transaction", "_transaction_offset", "kind")

    def __init__(self, complete: Message, local: LocalAttributes) -> None:
        """``complete`` is a message to the last attribute, one that :func:`suits`."""
        packet = serialize(complete)
        self._head = packet.data[: packet.properties_offset]
        self._algorithms = (complete.privacy_level, complete.hash_algorithm, complete.encryption_algorithm)
        self._transaction_offset = packet.user_end if packet.transaction is not None else 0
        flags = 0 if packet.transaction is None else packet.transaction.flags
        self._transaction = flags & ~_TRANSACTION_BITS
        self.kind = Kind.of(packet, local)

    def variant(
        self,
        *,
        priority: int,
        time_to_reach_queue_s: int,
        time_to_be_received_s: int,
        recoverable: bool,
        negative_journaling: bool,
        positive_journaling: bool,
        local: LocalAttributes,
    ) -> Template:
        """The template of messages that say the same but for what a few fields of the first two headers have."""
        made = Template.__new__(Template)
        made._algorithms, made._transaction = self._algorithms, self._transaction
        made._transaction_offset = self._transaction_offset
        base_flags = self.kind.base_flags & ~_PRIORITY | priority
        user_flags = self.kind.user_flags & ~_OPTIONS
        user_flags |= RECOVERABLE * recoverable
        user_flags |= NEGATIVE_JOURNALING * negative_journaling | POSITIVE_JOURNALING * positive_journaling
        head = bytearray(self._head)
        _U16.pack_into(head, BASE["flags"], base_flags)
        _U32.pack_into(head, BASE["time_to_reach_queue_s"], time_to_reach_queue_s)
        _U32.pack_into(head, USER["time_to_be_received_s"], time_to_be_received_s)
        _U32.pack_into(head, USER["flags"], user_flags)
        made._head = bytes(head)
        kept = local if local.has_any else None
        made.kind = Kind(user_flags, base_flags, time_to_be_received_s, time_to_reach_queue_s, kept)
        return made

    def packet(
        self,
        ordinal: int,
        sent_time: int,
        body: bytes,
        body_type: int,
        label: str,
        extension: bytes,
        application_tag: int,
        correlation: bytes,
        message_class: int,
        acknowledgements: int,
        transaction: int = 0,
    ) -> bytes:
        """The packet of a message; refuses what :meth:`Message.check` refuses of the properties given here."""
        text = bytes_of(label + "\0") if label else b""
        if text and (len(text) > 2 * MAX_LABEL_CHARACTERS + 2 or "\0" in label):
            if "\0" in label:
                raise IllegalPropertyValueError("A label holds no null character.")
            raise LabelTooLongError
        if acknowledgements > _MOST_ACKNOWLEDGEMENTS:
            raise IllegalPropertyValueError(f"acknowledgements_requested cannot be {acknowledgements:#x}.")
        if message_class and not is_application_class(message_class):
            raise IllegalPropertyValueError(f"The class {message_class:#06x} uses bits outside 0xe1ff.")
        if len(correlation) != _CORRELATION_SIZE:
            raise IllegalPropertySizeError("correlation_identifier is 20 bytes long.")
        size = len(self._head) + MessagePropertiesHeader.SIZE + len(text) + len(extension) + len(body)
        padding = -size % 4
        if size + padding > MAX_PACKET_SIZE:
            raise InsufficientResourcesError(
                f"The message would take {size} bytes; a packet has {MAX_PACKET_SIZE} at most."
            )
        head = bytearray(self._head)
        _U32.pack_into(head, _PACKET_SIZE, size + padding)
        _TWO_U32.pack_into(head, _SENT_TIME, sent_time, ordinal)
        if self._transaction_offset:
            flags = self._transaction | transaction << _TRANSACTION_SHIFT
            _U32.pack_into(head, self._transaction_offset, flags)
        try:
            properties = _pack_properties(
                acknowledgements, len(text) // 2, message_class, correlation, body_type,
                application_tag, len(body), len(body), *self._algorithms, len(extension),
            )  # fmt: skip
        except struct.error:
            raise _out_of_range(body_type, application_tag) from None
        return b"".join((head, properties, text, extension, body, _PADDING[padding]))


def suits(message: Message) -> bool:
    """Whether the packet of a message is a template and its properties: nothing in it depends on the body, and nothing
    stands behind that."""
    return not (
        message.authentication_level is not AuthenticationLevel.NONE
        or message.signature
        or message.multiple_destination_signature
        or message.privacy_level
        or message.symmetric_key
        or message.tracing_requested
        or any(message.tracing_queue_identifier)
        or message.soap_header
        or message.soap_body
        or message.destination_multi_queue_format_name
        or message.administration_multi_queue_format_name
        or message.response_multi_queue_format_name
    )


def _out_of_range(body_type: int, application_tag: int) -> IllegalPropertyValueError:
    for name, value in (("body_type", body_type), ("application_tag", application_tag)):
        if not 0 <= value <= _LARGEST_U32:
            return IllegalPropertyValueError(f"{name} is {value}; it goes from 0 to {_LARGEST_U32}.")
    return IllegalPropertyValueError("A property of the message does not fit its field.")
