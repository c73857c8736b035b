"""Templates for the packets of similar messages, which are filled in for each message.

Most messages that a sender sends to a queue differ only in a few properties. Everything in front of
MessagePropertiesHeader follows from what they have in common. A :class:`Template` holds that, and each message adds
its number, time, transaction and properties. :func:`kind_of` tells which messages share a template.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
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
from msmq.wire.headers import MAX_PACKET_SIZE, SIGNATURE, MessagePropertiesHeader
from msmq.wire.layout import FIXED_SIZE, packet_struct
from msmq.wire.message import UserMessage

_FLAGS_SIZE: Final = 4
_PRIORITY: Final = 7
_OPTIONS: Final = RECOVERABLE | NEGATIVE_JOURNALING | POSITIVE_JOURNALING
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
"""The properties that a template depends on: those in front of MessagePropertiesHeader, or in no header."""


class Kind(NamedTuple):
    """The facts about a message that the queue manager needs without reading its packet again."""

    user_flags: int
    base_flags: int
    time_to_be_received_s: int
    time_to_reach_queue_s: int
    local: LocalAttributes | None
    """None for most messages, which have no local attributes."""

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


class _Form(NamedTuple):
    """The fixed parts of a template's packets."""

    pack: Callable[..., bytes]
    """Packs all headers at once."""
    fixed_size: int
    """The size of all headers."""
    version: int
    source: bytes
    address: bytes
    """The first fields of BaseHeader and UserHeader that are not part of the kind."""
    before: bytes
    """The bytes in front of TransactionHeader, or of MessagePropertiesHeader if there is none."""
    flags: int | None
    """TransactionHeader.Flags without the number of the transaction."""
    behind: bytes
    """The bytes from there to MessagePropertiesHeader."""
    algorithms: tuple[int, int, int]


class Template:
    """The beginning of packets that differ only in number, time, transaction and properties.

    Between the fixed part of UserHeader and MessagePropertiesHeader they differ only in Flags of TransactionHeader, if
    they have one.
    """

    __slots__ = ("_form", "kind")

    def __init__(self, form: _Form, kind: Kind) -> None:
        self._form = form
        self.kind = kind

    @classmethod
    def of(cls, complete: Message, local: LocalAttributes) -> Template:
        """``complete`` is a message with all attributes for which :func:`suits` is true."""
        packet = serialize(complete)
        end, flags = packet.properties_offset, None
        changing, size = end, 0
        if packet.transaction is not None:
            changing, size, flags = (
                packet.user_end,
                _FLAGS_SIZE,
                packet.transaction.flags & ~_TRANSACTION_BITS,
            )
        before, behind = packet.data[FIXED_SIZE:changing], packet.data[changing + size : end]
        form = _Form(
            packet_struct(len(before), size, len(behind)).pack,
            end + MessagePropertiesHeader.SIZE,
            packet.base.version_number,
            packet.user.source_queue_manager,
            packet.user.queue_manager_address,
            before,
            flags,
            behind,
            (complete.privacy_level, complete.hash_algorithm, complete.encryption_algorithm),
        )
        return cls(form, Kind.of(packet, local))

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
        """A template of messages that differ in a few fields of the first two headers."""
        kind = Kind(
            self.kind.user_flags & ~_OPTIONS
            | RECOVERABLE * recoverable
            | NEGATIVE_JOURNALING * negative_journaling
            | POSITIVE_JOURNALING * positive_journaling,
            self.kind.base_flags & ~_PRIORITY | priority,
            time_to_be_received_s,
            time_to_reach_queue_s,
            local if local.has_any else None,
        )
        return Template(self._form, kind)

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
        """Make the packet of a message. Refuses invalid values of the properties given here, like
        :meth:`Message.check`."""
        text = _label(label) if label else b""
        if acknowledgements > _MOST_ACKNOWLEDGEMENTS:
            raise IllegalPropertyValueError(f"acknowledgements_requested cannot be {acknowledgements:#x}.")
        if message_class and not is_application_class(message_class):
            raise IllegalPropertyValueError(f"The class {message_class:#06x} uses bits outside 0xe1ff.")
        if len(correlation) != _CORRELATION_SIZE:
            raise IllegalPropertySizeError("correlation_identifier is 20 bytes long.")
        pack, fixed_size, version, source, address, before, flags, behind, algorithms = self._form
        label_size, extension_size, body_size = len(text), len(extension), len(body)
        size = fixed_size + label_size + extension_size + body_size
        padding = -size & 3
        if size + padding > MAX_PACKET_SIZE:
            raise InsufficientResourcesError(
                f"The message would take {size} bytes; a packet has {MAX_PACKET_SIZE} at most."
            )
        user_flags, base_flags, time_to_be_received_s, time_to_reach_queue_s, _ = self.kind
        covered = b""
        if flags is not None:
            covered = (flags | transaction << _TRANSACTION_SHIFT).to_bytes(_FLAGS_SIZE, "little")
        try:
            headers = pack(
                version, 0, base_flags, SIGNATURE, size + padding, time_to_reach_queue_s,
                source, address, time_to_be_received_s, sent_time, ordinal, user_flags,
                before, covered, behind,
                acknowledgements, label_size // 2, message_class, correlation, body_type, application_tag,
                body_size, body_size, *algorithms, extension_size,
            )  # fmt: skip
        except struct.error:
            raise _out_of_range(body_type, application_tag) from None
        return b"".join((headers, text, extension, body, _PADDING[padding]))


def _label(label: str) -> bytes:
    text = bytes_of(label + "\0")
    if "\0" in label:
        raise IllegalPropertyValueError("A label holds no null character.")
    if len(text) > 2 * MAX_LABEL_CHARACTERS + 2:
        raise LabelTooLongError
    return text


def suits(message: Message) -> bool:
    """Whether the packet of a message can be made from a template and its properties: nothing in it depends on the
    body, and nothing comes after the body."""
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
