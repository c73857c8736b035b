"""Changes that remote read makes to a UserMessage (MS-MQRR 2.2.5): overlaid fields, and headers after it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import (
    Bits,
    Wire,
    bytes_of,
    octets3,
    octets8,
    octets16,
    octets64,
    padded,
    text_of,
    u8,
    u16,
    u32,
    wire,
)
from msmq.wire.headers import INFINITE, BaseHeader, QueueReference, UserHeader
from msmq.wire.layout import BASE, USER, reader
from msmq.wire.message import UserMessage

_SUBQUEUE_NAME_BYTES = 64
HOST_ADDRESS_SIZE = 24
_HEADER_SIZE, _BEFORE_ADDRESS = 4, 8
IPV4 = 0x0001
IPV6 = 0x0006

_EXPIRY = BASE["time_to_reach_queue_s"]
_BEHIND_EXPIRY = BaseHeader.SIZE
_ADDRESS = USER["queue_manager_address"]
_BEHIND_ADDRESS = USER["time_to_be_received_s"]
_DESTINATION_REFERENCE = 7 << 10  # of UserHeader.Flags
_DIRECT = QueueReference.DIRECT << 10


def _address_fields(source: IPv4Address | IPv6Address | None) -> tuple[int, int, int, bytes]:
    """Return AddressLength, AddressType, AddressScope and the address itself; all zero if it is not known."""
    if source is None:
        return 0, 0, 0, b""
    if isinstance(source, IPv4Address):
        return 4, IPV4, 0, source.packed
    scope = int(source.scope_id) if source.scope_id and source.scope_id.isdecimal() else 0
    return 16, IPV6, scope, source.packed


@wire("MS-MQRR 2.2.5.1", size=16)
class SourceAddress(Wire):
    """The host that sent a message to a direct name; it replaces QueueManagerAddress. It is the beginning of an
    ExtendedAddressHeader without the size; only eight bytes of the address fit.
    """

    address_length: u16 = 0
    address_type: u16 = 0
    address_scope: u32 = 0
    address: octets8 = bytes(8)


_NO_SOURCE = bytes(SourceAddress.SIZE)


def host_address(source: IPv4Address | IPv6Address) -> bytes:
    """Write a host's address in the full form of remote read (2.2.5.5), without the size in front. A queue keeps it in
    this form beside each message that came from another host."""
    return ExtendedAddressHeader.of(source).encode()[_HEADER_SIZE:]


@lru_cache(maxsize=1_024)
def host_in(address: bytes) -> IPv4Address | IPv6Address:
    """Read a :func:`host_address`, without the scope, which has a meaning on this computer only."""
    length = int.from_bytes(address[:2], "little")
    return ip_address(address[_BEFORE_ADDRESS : _BEFORE_ADDRESS + length])


_expiring = reader((BaseHeader, {"time_to_reach_queue_s"}), (UserHeader, {"sent_time", "flags"}))


def expiry_time(time_to_reach_queue_s: int, sent_time: int) -> int:
    """Return when TimeToReachQueue ends, in seconds since 1970; a time beyond 32 bits counts as infinite."""
    if time_to_reach_queue_s == INFINITE:
        return INFINITE
    return min(sent_time + time_to_reach_queue_s, INFINITE)


def remotely_read(message: UserMessage, source: bytes = b"") -> bytes:
    """Return the bytes of a stored message as remote read transmits them (2.2.5.1).

    TimeToReachQueue becomes the time of expiry; for a direct name QueueManagerAddress becomes the host that the message
    came from (``source``, see :func:`host_address`), or zeros if it was sent here. The stored message is not changed.
    """
    data = message.data
    time_to_reach_queue_s, sent_time, flags = _expiring(data)
    expiry = expiry_time(time_to_reach_queue_s, sent_time)
    if flags & _DESTINATION_REFERENCE != _DIRECT:
        return data[:_EXPIRY] + expiry.to_bytes(4, "little") + data[_BEHIND_EXPIRY:]
    return b"".join(
        (
            data[:_EXPIRY],
            expiry.to_bytes(4, "little"),
            data[_BEHIND_EXPIRY:_ADDRESS],
            source[: SourceAddress.SIZE] or _NO_SOURCE,
            data[_BEHIND_ADDRESS:],
        )
    )


@wire("MS-MQRR 2.2.5.2", size=12)
class ExtensionHeader(Wire):
    """Says which of the other headers follow and how many bytes they take."""

    header_size: u32 = 12
    remaining_headers_size: u32 = 0
    flags: u8 = 0
    reserved: octets3 = bytes(3)

    has_dead_letter_header = Bits("flags", 0, 1, "DL")
    has_subqueue_header = Bits("flags", 1, 1, "SQ")
    dead_letter_invalid = Bits("flags", 3, 1, "DI")
    has_extended_address_header = Bits("flags", 4, 1, "EA")


@wire("MS-MQRR 2.2.5.3", size=148)
class SubqueueHeader(Wire):
    """The subqueue of a message and what happened to it there; names have at most 31 characters."""

    header_size: u32 = 148
    flags: u32 = 0
    abort_counter: u32 = 0
    move_counter: u32 = 0
    last_move_time: u32 = 0
    subqueue_name: octets64 = bytes(64)
    target_subqueue_name: octets64 = bytes(64)

    transactional_move = Bits("flags", 0, 1, "TM")
    acknowledgement_class = Bits("flags", 1, 16, "AcknowledgementClass")

    @property
    def subqueue(self) -> str:
        return _name(self.subqueue_name)

    @subqueue.setter
    def subqueue(self, name: str) -> None:
        self.subqueue_name = _name_bytes(name)

    @property
    def target_subqueue(self) -> str:
        return _name(self.target_subqueue_name)

    @target_subqueue.setter
    def target_subqueue(self, name: str) -> None:
        self.target_subqueue_name = _name_bytes(name)


def _name(field: bytes) -> str:
    return text_of(field).partition("\0")[0]


def _name_bytes(name: str) -> bytes:
    encoded = bytes_of(name)
    if len(encoded) > _SUBQUEUE_NAME_BYTES - 2 or "\0" in name:
        raise EncodeError(f"the subqueue name {name!r} is not 31 characters or fewer, without a null")
    return encoded.ljust(_SUBQUEUE_NAME_BYTES, b"\0")


@dataclass(slots=True)
class DeadLetterHeader:
    """The application's own dead-letter queue (2.2.5.4)."""

    path: str = ""

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        if limit - offset < 4:
            raise DecodeError("the packet ends inside the DeadLetterHeader", offset)
        size = int.from_bytes(data[offset : offset + 4], "little")
        end = offset + size
        if size < 8 or size % 4 or end > limit:
            raise DecodeError(f"a DeadLetterHeader cannot take {size} bytes here", offset)
        path, terminator, _ = text_of(data[offset + 4 : end]).partition("\0")
        if not terminator:
            raise DecodeError("the dead-letter queue's name is not terminated", offset + 4)
        return cls(path), end

    def write(self) -> bytes:
        if "\0" in self.path:
            raise EncodeError("the name of a dead-letter queue holds no null")
        text = padded(bytes_of(self.path + "\0"))
        return (4 + len(text)).to_bytes(4, "little") + text


@wire("MS-MQRR 2.2.5.5", size=28)
class ExtendedAddressHeader(Wire):
    """The host that a message came from, with its full address."""

    header_size: u32 = 28
    address_length: u16 = 0
    address_type: u16 = 0
    address_scope: u32 = 0
    address: octets16 = bytes(16)

    @classmethod
    def of(cls, source: IPv4Address | IPv6Address | None) -> Self:
        length, kind, scope, packed = _address_fields(source)
        return cls(28, length, kind, scope, packed.ljust(16, b"\0"))

    @property
    def source(self) -> IPv4Address | IPv6Address | None:
        """The address, or None if the header has none (type 0) or one of an unknown type."""
        if self.address_type == IPV4:
            return IPv4Address(self.address[:4])
        if self.address_type == IPV6:
            return IPv6Address(
                f"{IPv6Address(self.address)}%{self.address_scope}" if self.address_scope else self.address
            )
        return None


@dataclass(slots=True)
class MessagePacket:
    """The packet of a remote read (2.2.5): the message, then its trailing headers."""

    message: UserMessage
    extension: ExtensionHeader
    subqueue: SubqueueHeader
    dead_letter: DeadLetterHeader | None
    extended_address: ExtendedAddressHeader

    @classmethod
    def of(
        cls,
        message: UserMessage,
        subqueue: SubqueueHeader | None = None,
        dead_letter: DeadLetterHeader | None = None,
        source: IPv4Address | IPv6Address | None = None,
        dead_letter_invalid: bool = False,
    ) -> Self:
        extension = ExtensionHeader()
        extension.has_subqueue_header = extension.has_extended_address_header = 1
        extension.has_dead_letter_header = int(dead_letter is not None)
        extension.dead_letter_invalid = int(dead_letter_invalid and dead_letter is not None)
        remaining = SubqueueHeader.SIZE + ExtendedAddressHeader.SIZE
        extension.remaining_headers_size = remaining + len(dead_letter.write() if dead_letter else b"")
        return cls(
            message, extension, subqueue or SubqueueHeader(), dead_letter, ExtendedAddressHeader.of(source)
        )

    @property
    def dead_letter_invalid(self) -> bool:
        """True if the named dead-letter queue cannot be used; the flag means nothing if none is named."""
        return self.dead_letter is not None and bool(self.extension.dead_letter_invalid)

    @property
    def in_subqueue(self) -> SubqueueHeader | None:
        """The SubqueueHeader, or None if it names no subqueue and is to be ignored."""
        return self.subqueue if self.subqueue.subqueue else None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read message and trailers to the exact end."""
        message = UserMessage.decode(data, trailing=True)
        return cls(message, *read_trailers(data, message.size))

    def encode(self) -> bytes:
        dead_letter = self.dead_letter.write() if self.dead_letter else b""
        return b"".join(
            (
                self.message.data,
                self.extension.encode(),
                self.subqueue.encode(),
                dead_letter,
                self.extended_address.encode(),
            )
        )


def read_trailers(
    data: bytes, start: int = 0
) -> tuple[ExtensionHeader, SubqueueHeader, DeadLetterHeader | None, ExtendedAddressHeader]:
    """Read the headers that follow a message at ``start``, up to the exact end."""
    extension, cursor = ExtensionHeader.read(data, start, len(data))
    if extension.header_size != 12 or extension.remaining_headers_size != len(data) - cursor:
        raise DecodeError("the ExtensionHeader contradicts the packet's length", start)
    if not extension.has_subqueue_header or not extension.has_extended_address_header:
        raise DecodeError("SubqueueHeader and ExtendedAddressHeader are always there", start + 8)
    subqueue, cursor = SubqueueHeader.read(data, cursor, len(data))
    dead_letter = None
    if extension.has_dead_letter_header:
        dead_letter, cursor = DeadLetterHeader.read(data, cursor, len(data))
    address, cursor = ExtendedAddressHeader.read(data, cursor, len(data))
    if subqueue.header_size != 148 or address.header_size != 28 or cursor != len(data):
        raise DecodeError("the trailing headers contradict their sizes", start)
    return extension, subqueue, dead_letter, address
