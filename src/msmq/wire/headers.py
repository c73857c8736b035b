"""The headers common to all packets (MS-MQMQ 2.2.19): BaseHeader, UserHeader, MessagePropertiesHeader.

Queue names in a UserHeader are plain values, whose type the three-bit reference in its flags decides: a direct name is
its text, a public queue its GUID, a private queue on a known host its number, a private queue elsewhere a
:class:`PrivateQueueFormatName`. :meth:`UserHeader.host_of` says which host a number belongs to.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Bits, Wire, bytes_of, guid, octets20, text_of, u8, u16, u32, wire

VERSION: Final = 0x10
SIGNATURE: Final = 0x524F494C
MAX_PACKET_SIZE: Final = 0x00400000
INFINITE: Final = 0xFFFFFFFF
NULL_GUID: Final = bytes(16)
MAX_HOP_COUNT: Final = 0x1D
DEFAULT_PRIORITY: Final = 3

BASE_IN: Final = 0x0008
BASE_SH: Final = 0x0010
BASE_DH: Final = 0x0020
BASE_TR: Final = 0x0100


@wire("MS-MQMQ 2.2.19.1", size=16)
class BaseHeader(Wire):
    """The first header of every packet but Ping. ``packet_size`` does not count a trailing SessionHeader."""

    version_number: u8 = VERSION
    reserved: u8 = 0
    flags: u16 = DEFAULT_PRIORITY
    signature: u32 = SIGNATURE
    packet_size: u32 = 0
    time_to_reach_queue_s: u32 = INFINITE

    priority = Bits("flags", 0, 3, "PR")
    internal = Bits("flags", 3, 1, "IN")
    has_session_header = Bits("flags", 4, 1, "SH")
    has_debug_header = Bits("flags", 5, 1, "DH")
    traced = Bits("flags", 8, 1, "TR")

    def check(self) -> None:
        """Refuse values that no packet may have, before anything is buffered or sliced because of them."""
        if self.version_number != VERSION:
            raise DecodeError(f"VersionNumber is {self.version_number:#04x}, not 0x10", 0)
        if self.signature != SIGNATURE:
            raise DecodeError("the packet signature is missing", 4)
        if self.packet_size > MAX_PACKET_SIZE:
            raise DecodeError(f"PacketSize {self.packet_size} is above the limit of {MAX_PACKET_SIZE}", 8)


class QueueReference(IntEnum):
    """How a UserHeader names a queue: the values of Flags.DQ, Flags.AQ and Flags.RQ."""

    NONE = 0
    SAME_AS_ADMIN = 1
    PRIVATE_ON_SOURCE = 2
    PRIVATE_ON_DESTINATION = 3
    PRIVATE_ON_ADMIN_HOST = 4
    PUBLIC = 5
    PRIVATE_ELSEWHERE = 6
    DIRECT = 7


DESTINATION_REFERENCES: Final = frozenset({0, 3, 5, 7})
ADMIN_REFERENCES: Final = frozenset({0, 2, 3, 5, 6, 7})


NAME_SIZES: Final = (0, 0, 4, 4, 4, 16, 20)
"""The bytes that a name takes, by its reference; a direct name has its own length."""


class PrivateQueueFormatName(NamedTuple):
    """A private queue on a host that the packet does not name elsewhere (MS-MQMQ 2.2.18.1.7.2)."""

    source_queue_manager: bytes
    private_queue_identifier: int


QueueName = str | bytes | int | PrivateQueueFormatName | None


_direct_text: Final = lru_cache(maxsize=1024)(text_of)
"""Cached, because hosts send to a few queues again and again."""


def _queue_end(reference: int, data: bytes, cursor: int, start: int, limit: int) -> int:
    """Return where a name ends. A DirectQueueFormatName (2.2.18.1.5.2), which is padded to four bytes counted from the
    start of its header, is checked; whether the others fit has yet to be seen."""
    if reference != 7:
        return cursor + NAME_SIZES[reference]
    if limit - cursor < 2:
        raise DecodeError("a direct queue name ends before its Count", cursor)
    count = data[cursor] | data[cursor + 1] << 8
    end = cursor + 2 + count
    following = start + (end - start + 3 & ~3)
    if count < 2 or count & 1 or following > limit:
        raise DecodeError(f"a direct queue name cannot take {count} bytes here", cursor)
    if data[end - 2] or data[end - 1]:
        raise DecodeError("a direct queue name is not terminated", end - 2)
    return following


def queues_end(data: bytes, flags: int, offset: int, limit: int) -> int:
    """Check the flags of the UserHeader that begins at ``offset``, and the names behind its fixed part. Returns where
    the header ends."""
    if flags & (USER_MP | _DM_UNDEFINED) != USER_MP or flags & (USER_TH | USER_RECOVERABLE) == USER_TH:
        raise DecodeError(_contradiction(flags), UserHeader.at("flags", offset))
    cursor = offset + UserHeader.SIZE
    reference = flags >> 10 & 7
    if reference not in DESTINATION_REFERENCES:
        where = UserHeader.at("flags", offset)
        raise DecodeError(f"Flags.DQ is {reference}, which names no destination", where)
    cursor = _queue_end(reference, data, cursor, offset, limit)
    if flags & _HAS_ADMIN_OR_RESPONSE:
        reference = flags >> 13 & 7
        if reference not in ADMIN_REFERENCES:
            where = UserHeader.at("flags", offset)
            raise DecodeError(f"Flags.AQ is {reference}, which names no queue", where)
        cursor = _queue_end(reference, data, cursor, offset, limit)
        cursor = _queue_end(flags >> 16 & 7, data, cursor, offset, limit)
    if flags & USER_CQ:
        cursor += len(NULL_GUID)
    if cursor > limit:
        raise DecodeError("the packet ends inside the UserHeader", limit)
    return cursor


def _read_queue(reference: int, data: bytes, cursor: int, start: int) -> tuple[QueueName, int]:
    """Read a name that was checked. Returns it and where it ends."""
    if reference == 7:
        end = cursor + 2 + (data[cursor] | data[cursor + 1] << 8)
        return _direct_text(data[cursor + 2 : end - 2]), start + (end - start + 3 & ~3)
    if reference < 2:
        return None, cursor
    end = cursor + NAME_SIZES[reference]
    if reference == 5:
        return data[cursor:end], end
    number = int.from_bytes(data[end - 4 : end], "little")
    if reference == 6:
        return PrivateQueueFormatName(data[cursor : cursor + 16], number), end
    return number, end


def _write_queue(reference: int, name: QueueName, start: int) -> bytes:
    """Write a name that begins ``start`` bytes into its header, with its padding."""
    if reference == 7 and isinstance(name, str):
        text = bytes_of(name) + b"\0\0"
        if len(text) > 0xFFFF or "\0" in name:
            raise EncodeError("a direct queue name holds a null or is longer than its 16-bit Count can say")
        return len(text).to_bytes(2, "little") + text + bytes(-(start + 2 + len(text)) % 4)
    if reference < 2 and name is None:
        return b""
    if reference == 5 and isinstance(name, bytes) and len(name) == 16:
        return name
    if reference == 6 and isinstance(name, PrivateQueueFormatName) and len(name.source_queue_manager) == 16:
        return name.source_queue_manager + number_bytes(name.private_queue_identifier)
    if reference in (2, 3, 4) and isinstance(name, int):
        return number_bytes(name)
    raise EncodeError(f"the queue name {name!r} does not fit the reference {QueueReference(reference).name}")


def number_bytes(identifier: int) -> bytes:
    """Write a private queue number (PrivateQueueFormatNameId, 2.2.18.1.5.1)."""
    try:
        return identifier.to_bytes(4, "little")
    except OverflowError:
        raise EncodeError(f"the private queue number {identifier} does not fit 32 bits") from None


def reference_for(name: QueueName, number: QueueReference) -> QueueReference:
    """Return the reference for ``name``; ``number`` is the one to use for a bare private queue number."""
    if name is None:
        return QueueReference.NONE
    if isinstance(name, str):
        return QueueReference.DIRECT
    if isinstance(name, bytes):
        return QueueReference.PUBLIC
    if isinstance(name, PrivateQueueFormatName):
        return QueueReference.PRIVATE_ELSEWHERE
    return number


USER_TH: Final = 1 << 20
USER_SH: Final = 1 << 19
USER_MP: Final = 1 << 21
USER_CQ: Final = 1 << 22
USER_MQ: Final = 1 << 23
USER_AH: Final = 1 << 25
USER_HH: Final = 1 << 28
USER_RECOVERABLE: Final = 1 << 5
"""Flags.DM with its only value other than zero."""
USER_JN: Final = 1 << 8
USER_JP: Final = 1 << 9
_DM_UNDEFINED: Final = 1 << 6
_HAS_QUEUE: Final = 0x1C00
_HAS_ADMIN_OR_RESPONSE: Final = 0x7E000


@wire("MS-MQMQ 2.2.19.2", size=48, names={"message_id": "MessageID"})
class UserHeader(Wire):
    """The sender of a message, its destination, and how it is to be delivered."""

    source_queue_manager: guid = NULL_GUID
    queue_manager_address: guid = NULL_GUID
    time_to_be_received_s: u32 = INFINITE
    sent_time: u32 = 0
    message_id: u32 = 0
    flags: u32 = USER_MP
    destination_queue: QueueName = None
    admin_queue: QueueName = None
    response_queue: QueueName = None
    connector_type: bytes | None = None

    hop_count = Bits("flags", 0, 5, "RC")
    delivery_mode = Bits("flags", 5, 2, "DM")
    negative_journaling = Bits("flags", 8, 1, "JN")
    positive_journaling = Bits("flags", 9, 1, "JP")
    destination_reference = Bits("flags", 10, 3, "DQ")
    admin_reference = Bits("flags", 13, 3, "AQ")
    response_reference = Bits("flags", 16, 3, "RQ")
    has_security_header = Bits("flags", 19, 1, "SH")
    has_transaction_header = Bits("flags", 20, 1, "TH")
    has_message_properties_header = Bits("flags", 21, 1, "MP")
    has_connector_type = Bits("flags", 22, 1, "CQ")
    has_multi_queue_format_header = Bits("flags", 23, 1, "MQ")
    sent_by_http = Bits("flags", 25, 1, "AH")
    has_soap_header = Bits("flags", 28, 1, "HH")

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        header = cls.decode(data, offset)
        end = queues_end(data, header.flags, offset, len(data) if limit is None else limit)
        header.read_queues(data, offset)
        return header, end

    def read_queues(self, data: bytes, offset: int) -> None:
        """Read the names behind the header that begins at ``offset``; :func:`queues_end` has checked them."""
        cursor = offset + self.SIZE
        flags = self.flags
        if flags & _HAS_QUEUE:
            self.destination_queue, cursor = _read_queue(flags >> 10 & 7, data, cursor, offset)
        if flags & _HAS_ADMIN_OR_RESPONSE:
            self.admin_queue, cursor = _read_queue(flags >> 13 & 7, data, cursor, offset)
            self.response_queue, cursor = _read_queue(flags >> 16 & 7, data, cursor, offset)
        if flags & USER_CQ:
            self.connector_type = data[cursor : cursor + 16]

    def write(self) -> bytes:
        flags = self.flags
        encoded = self.encode()
        if flags & _HAS_QUEUE:
            encoded += _write_queue(flags >> 10 & 7, self.destination_queue, len(encoded))
        if flags & _HAS_ADMIN_OR_RESPONSE:
            encoded += _write_queue(flags >> 13 & 7, self.admin_queue, len(encoded))
            encoded += _write_queue(flags >> 16 & 7, self.response_queue, len(encoded))
        if flags & USER_CQ:
            if self.connector_type is None or len(self.connector_type) != 16:
                raise EncodeError("Flags.CQ promises a ConnectorType of 16 bytes")
            encoded += self.connector_type
        return encoded

    def check_writable(self) -> None:
        """Refuse what a receiver would have to refuse, and names that no flag announces."""
        flags = self.flags
        if flags >> 10 & 7 not in DESTINATION_REFERENCES or flags >> 13 & 7 not in ADMIN_REFERENCES:
            raise EncodeError(f"Flags.DQ {flags >> 10 & 7} and AQ {flags >> 13 & 7} do not name queues")
        if flags & _DM_UNDEFINED:
            raise EncodeError(f"Flags.DM cannot be {flags >> 5 & 3}")
        if flags & 0x1F > MAX_HOP_COUNT:
            raise EncodeError(f"Flags.RC cannot be above {MAX_HOP_COUNT:#x}")
        if not flags & _HAS_ADMIN_OR_RESPONSE and (
            self.admin_queue is not None or self.response_queue is not None
        ):
            raise EncodeError("an admin or response queue is given but Flags.AQ and RQ are clear")
        if not flags & _HAS_QUEUE and self.destination_queue is not None:
            raise EncodeError("a destination queue is given but Flags.DQ is clear")
        reference = flags >> 10 & 7
        if reference and (self.queue_manager_address == NULL_GUID) != (reference == 7):
            raise EncodeError("QueueManagerAddress is the destination's host, and null for a direct name")

    def host_of(self, reference: int, name: QueueName) -> bytes | None:
        """Return the GUID of the queue manager that hosts a private queue; None if the name does not tell.

        For a number on the admin queue's host (RQ 4), the admin queue decides. A direct name does not tell its host's
        GUID, and remote read has something else in its place.
        """
        if reference == QueueReference.PRIVATE_ON_SOURCE:
            return self.source_queue_manager
        if reference == QueueReference.PRIVATE_ON_DESTINATION:
            direct = self.destination_reference == QueueReference.DIRECT
            return None if direct else self.queue_manager_address
        if reference == QueueReference.PRIVATE_ON_ADMIN_HOST:
            return self.host_of(self.admin_reference, self.admin_queue)
        if isinstance(name, PrivateQueueFormatName):
            return name.source_queue_manager
        return None

    @property
    def answers_to(self) -> QueueName:
        """The response queue; the reference "same as the admin queue" (RQ 1) is resolved."""
        if self.response_reference == QueueReference.SAME_AS_ADMIN:
            return self.admin_queue
        return self.response_queue


def _contradiction(flags: int) -> str:
    if not flags & USER_MP:
        return "Flags.MP is clear: a message without its MessagePropertiesHeader"
    if flags & _DM_UNDEFINED:
        return f"Flags.DM is {flags >> 5 & 3}, which is no delivery mode"
    return "a TransactionHeader on an express message"


MAX_LABEL_LENGTH: Final = 0xFA


@wire("MS-MQMQ 2.2.19.3", size=56, names={"correlation_id": "CorrelationID"})
class MessagePropertiesHeader(Wire):
    """The properties that the application gave its message.

    Label, extension and body follow these 56 bytes; :class:`msmq.wire.message.UserMessage` cuts them out on demand, so
    that a four-megabyte body is not copied just to learn its size.
    """

    flags: u8 = 0
    label_length: u8 = 0
    message_class: u16 = 0
    correlation_id: octets20 = bytes(20)
    body_type: u32 = 0
    application_tag: u32 = 0
    message_size: u32 = 0
    allocation_body_size: u32 = 0
    privacy_level: u32 = 0
    hash_algorithm: u32 = 0
    encryption_algorithm: u32 = 0
    extension_size: u32 = 0

    positive_arrival_ack = Bits("flags", 0, 1, "PA")
    positive_receive_ack = Bits("flags", 1, 1, "PR")
    negative_arrival_ack = Bits("flags", 2, 1, "NA")
    negative_receive_ack = Bits("flags", 3, 1, "NR")

    def end(self, data: bytes, offset: int, limit: int) -> int:
        """Return where the header that begins at ``offset`` ends, after checking that everything it announces fits."""
        _, end = content_ends(
            data, offset, limit,
            self.label_length, self.message_size, self.allocation_body_size, self.extension_size,
        )  # fmt: skip
        return end


def content_ends(
    data: bytes,
    offset: int,
    limit: int,
    label_length: int,
    message_size: int,
    allocation_body_size: int,
    extension_size: int,
) -> tuple[int, int]:
    """Check that label, extension and body fit behind the MessagePropertiesHeader at ``offset``, which has these
    lengths. Returns where the label ends, and where they all end."""
    label_end = offset + MessagePropertiesHeader.SIZE + 2 * label_length
    end = label_end + extension_size + allocation_body_size + 3 & ~3
    if label_length > MAX_LABEL_LENGTH or message_size > allocation_body_size or end > limit:
        raise DecodeError(
            "label, extension and body contradict their lengths or do not fit the packet", offset
        )
    if label_length and (data[label_end - 1] or data[label_end - 2]):
        raise DecodeError("the label is not terminated", label_end - 2)
    return label_end, end
