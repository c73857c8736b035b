"""Packets of the messages that applications send: what few of them say differently is written once, and filled in.

Whoever sends many messages to a queue names the same other queues in nearly all of them. A :class:`Template` keeps what
follows from the names and from who sends; each message brings its flags, its numbers, its times and its properties.
:func:`kind_of` says which messages share a template.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from msmq.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    InsufficientResourcesError,
    LabelTooLongError,
    MsmqError,
)
from msmq.manager.mailbox.batch import NEGATIVE_JOURNALING, POSITIVE_JOURNALING, RECOVERABLE
from msmq.manager.messages.message import MAX_LABEL_CHARACTERS, AuthenticationLevel, Message
from msmq.manager.messages.serialize import serialize
from msmq.wire.classes import is_application_class
from msmq.wire.declare import bytes_of
from msmq.wire.headers import MAX_PACKET_SIZE, SIGNATURE, MessagePropertiesHeader
from msmq.wire.layout import FIXED_SIZE, packet_struct

_FLAGS_SIZE: Final = 4
HIGHEST_PRIORITY: Final = 7
OPTIONS: Final = RECOVERABLE | NEGATIVE_JOURNALING | POSITIVE_JOURNALING
"""Bits of UserHeader.Flags that are each message's own."""
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
        "priority",
        "delivery_guarantee",
        "time_to_reach_queue_s",
        "time_to_be_received_s",
        "positive_journaling_requested",
        "negative_journaling_requested",
        "application_deadletter_queue",
        "allow_peek_when_locked",
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


class Form(NamedTuple):
    """What a template has to write packets with."""

    pack: Callable[..., bytes]
    """Packs all headers at once."""
    fixed_size: int
    """The size of all headers."""
    version: int
    source: bytes
    address: bytes
    before: bytes
    """The bytes in front of TransactionHeader, or of MessagePropertiesHeader if there is none."""
    flags: int | None
    """TransactionHeader.Flags without the number of the transaction."""
    behind: bytes
    """The bytes from there to MessagePropertiesHeader."""
    algorithms: tuple[int, int, int]


class Template:
    """The beginning of packets that name the same queues and are as safe.

    What stands between the fixed part of UserHeader and MessagePropertiesHeader is the same for all of them but for
    Flags of TransactionHeader, if they have one. How urgent a message is, how long it may take, whether it is kept on
    disk and whether it is journaled is each message's own.
    """

    __slots__ = ("base_flags", "covered", "form", "user_flags")

    def __init__(self, form: Form, user_flags: int, base_flags: int) -> None:
        self.form = form
        self.covered = form.flags is not None
        """Whether its messages belong to transactions."""
        self.user_flags = user_flags
        """UserHeader.Flags without `OPTIONS`."""
        self.base_flags = base_flags
        """BaseHeader.Flags without a priority."""

    @classmethod
    def of(cls, complete: Message) -> Template:
        """``complete`` is a message to the last attribute, one that :func:`suits`."""
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
        form = Form(
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
        return cls(form, packet.user.flags & ~OPTIONS, packet.base.flags & ~HIGHEST_PRIORITY)


def options(*, recoverable: bool, negative_journaling: bool, positive_journaling: bool) -> int:
    """The bits of UserHeader.Flags that are each message's own."""
    return (
        RECOVERABLE * recoverable
        | NEGATIVE_JOURNALING * negative_journaling
        | POSITIVE_JOURNALING * positive_journaling
    )


Row = tuple[Form, int, int, int, int, int, int, int, bytes, int, str, bytes, int, bytes, int]
"""A message as :func:`write_packets` takes it: a template's form; the numbers of message and transaction;
UserHeader.Flags and BaseHeader.Flags; the seconds to reach the queue and to be received; the acknowledgments that are
asked for; body and its type, label, extension, application tag, correlation identifier and class."""


def write_packets(
    rows: Iterable[Row], sent_time: int, failed: Callable[[int, MsmqError], None]
) -> list[bytes]:
    """The packets of messages. What :meth:`Message.check` refuses of the properties given here is told by index, and
    its packet is empty."""
    packets: list[bytes] = []
    for (
        form, ordinal, transaction, user_flags, base_flags, to_reach_s, to_be_received_s, asks,
        body, body_type, label, extension, tag, correlation, message_class,
    ) in rows:  # fmt: skip
        pack, fixed_size, version, source, address, before, flags, behind, algorithms = form
        covered = b""
        if flags is not None:
            covered = (flags | transaction << _TRANSACTION_SHIFT).to_bytes(_FLAGS_SIZE, "little")
        try:
            text = _label(label) if label else b""
            label_size, extension_size, body_size = len(text), len(extension), len(body)
            size = fixed_size + label_size + extension_size + body_size
            padding = -size & 3
            if (
                len(correlation) != _CORRELATION_SIZE
                or asks > _MOST_ACKNOWLEDGEMENTS
                or (message_class and not is_application_class(message_class))
                or size + padding > MAX_PACKET_SIZE
            ):
                raise _refusal(asks, message_class, correlation, size)
            headers = pack(
                version, 0, base_flags, SIGNATURE, size + padding, to_reach_s,
                source, address, to_be_received_s, sent_time, ordinal, user_flags,
                before, covered, behind,
                asks, label_size // 2, message_class, correlation, body_type, tag,
                body_size, body_size, *algorithms, extension_size,
            )  # fmt: skip
        except struct.error:
            failed(len(packets), _out_of_range(body_type, tag))
            packets.append(b"")
        except MsmqError as error:
            failed(len(packets), error)
            packets.append(b"")
        else:
            packets.append(b"".join((headers, text, extension, body, _PADDING[padding])))
    return packets


def refuse(_: int, error: MsmqError) -> None:
    """For who writes packets one by one, or knows that nothing can be wrong with them."""
    raise error


def _refusal(asks: int, message_class: int, correlation: bytes, size: int) -> MsmqError:
    if asks > _MOST_ACKNOWLEDGEMENTS:
        return IllegalPropertyValueError(f"acknowledgements_requested cannot be {asks:#x}.")
    if message_class and not is_application_class(message_class):
        return IllegalPropertyValueError(f"The class {message_class:#06x} uses bits outside 0xe1ff.")
    if len(correlation) != _CORRELATION_SIZE:
        return IllegalPropertySizeError("correlation_identifier is 20 bytes long.")
    return InsufficientResourcesError(
        f"The message would take {size} bytes; a packet has {MAX_PACKET_SIZE} at most.",
        advice="Send less at once, such as the place where a reader finds the rest.",
    )


@lru_cache(maxsize=1024)
def _label(label: str) -> bytes:
    """A label as a packet has it. Cached, because labels tell kinds of messages and are often the same."""
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
