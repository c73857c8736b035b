"""Offsets of fields in a packet, derived from the declarations of its headers.

Most code reads headers through :class:`msmq.wire.message.UserMessage`. Code that reads or writes single fields of very
many packets takes the offsets from here, so that no other module has such numbers of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final

from msmq.wire.declare import Wire
from msmq.wire.headers import (
    NAME_SIZES,
    NULL_GUID,
    USER_CQ,
    USER_SH,
    USER_TH,
    BaseHeader,
    MessagePropertiesHeader,
    QueueReference,
    UserHeader,
)
from msmq.wire.optional_headers import SecurityHeader, TransactionHeader


def offsets(header: type[Wire], start: int = 0) -> dict[str, int]:
    """Return the offset of each field in a header that begins at ``start``."""
    return {spec.name: start + spec.offset for spec in header.FIELDS}


def reader(*headers: tuple[type[Wire], Collection[str]]) -> Callable[..., tuple[Any, ...]]:
    """Make a function that reads some fields of consecutive headers, in wire order. It takes a packet and, unless it is
    zero, the offset of the first header."""
    codes = []
    for header, names in headers:
        assert {spec.name for spec in header.FIELDS}.issuperset(names), f"{header.__name__} lacks {names}"
        codes += [spec.code if spec.name in names else f"{spec.size}x" for spec in header.FIELDS]
    return struct.Struct("<" + "".join(codes)).unpack_from


BASE: Final = offsets(BaseHeader)
"""Offsets of the BaseHeader's fields in a packet."""
USER: Final = offsets(UserHeader, BaseHeader.SIZE)
TRANSACTION: Final = offsets(TransactionHeader)
"""Offsets of fields from the beginning of the TransactionHeader."""
PROPERTIES: Final = offsets(MessagePropertiesHeader)
FIXED_SIZE: Final = BaseHeader.SIZE + UserHeader.SIZE
"""The size of a packet up to the names of queues."""
user_flags: Final = reader((BaseHeader, ()), (UserHeader, {"flags"}))
"""Reads UserHeader.Flags of a packet; returns a tuple with nothing else."""


def _codes(header: type[Wire]) -> str:
    return "".join(spec.code for spec in header.FIELDS)


@lru_cache(maxsize=1024)
def packet_struct(*pieces: int) -> struct.Struct:
    """Return the struct that packs the headers of a packet in one step: all fields of BaseHeader and UserHeader, then
    pieces of these sizes, then all fields of MessagePropertiesHeader."""
    between = "".join(f"{size}s" for size in pieces)
    return struct.Struct(
        f"<{_codes(BaseHeader)}{_codes(UserHeader)}{between}{_codes(MessagePropertiesHeader)}"
    )


_FIRST_REFERENCE: Final = dict(UserHeader.BITS)["destination_reference"].low
"""The position of Flags.DQ; AQ and RQ follow above it, each three bits wide."""
_DIRECT: Final = int(QueueReference.DIRECT)
_CONNECTOR_SIZE: Final = len(NULL_GUID)


def user_end(packet: bytes, flags: int | None = None) -> int:
    """Return where the UserHeader of a checked packet ends; a TransactionHeader would begin there. Giving its ``flags``
    saves reading them."""
    if flags is None:
        (flags,) = user_flags(packet)
    cursor = FIXED_SIZE
    references = flags >> _FIRST_REFERENCE & 0o777
    while references:
        if references & 7 == _DIRECT:  # its length, its text and its padding
            cursor += 5 + packet[cursor] + (packet[cursor + 1] << 8) & ~3
        else:
            cursor += NAME_SIZES[references & 7]
        references >>= 3
    return cursor + _CONNECTOR_SIZE if flags & USER_CQ else cursor


transaction_at: Final = reader((TransactionHeader, TRANSACTION.keys()))
"""Reads the fields of a TransactionHeader from a packet and the offset of the header."""
_HAS_CONNECTOR: Final = TransactionHeader.mask("has_connector_qm_guid")
_security_sizes: Final = reader((SecurityHeader, {spec.name for spec in SecurityHeader.FIELDS} - {"flags"}))


def properties_start(packet: bytes, end: int = 0) -> int:
    """Return where the MessagePropertiesHeader of a checked packet begins. Giving the ``end`` of its UserHeader saves
    the search for it."""
    (flags,) = user_flags(packet)
    cursor = end or user_end(packet)
    if flags & USER_TH:
        connector = packet[cursor] & _HAS_CONNECTOR
        cursor += TransactionHeader.SIZE + _CONNECTOR_SIZE * connector
    if flags & USER_SH:
        sender, key, signature, certificate, provider = _security_sizes(packet, cursor)
        cursor += SecurityHeader.SIZE + (sender + 3 & ~3)
        if key or signature or certificate or provider:
            cursor += (key + 3 & ~3) + (signature + 3 & ~3) + (certificate + 3 & ~3) + (provider + 3 & ~3)
    return cursor


_tail_sizes: Final = reader((MessagePropertiesHeader, {"label_length", "message_size", "extension_size"}))


_ASKS: Final = PROPERTIES["flags"]


def body_of(packet: bytes) -> bytes:
    """Return the body of a checked packet."""
    start = properties_start(packet)
    label_length, size, extension_size = _tail_sizes(packet, start)
    start += MessagePropertiesHeader.SIZE + 2 * label_length + extension_size
    return packet[start : start + size]


def asks_of(packet: bytes, end: int = 0) -> int:
    """Return MessagePropertiesHeader.Flags of a checked packet: the acknowledgments that are asked for. ``end`` is as
    for :func:`properties_start`."""
    return packet[properties_start(packet, end) + _ASKS]


_class_at: Final = reader((MessagePropertiesHeader, {"message_class"}))


def class_of(packet: bytes) -> int:
    """Return MessagePropertiesHeader.MessageClass of a checked packet."""
    number: int = _class_at(packet, properties_start(packet))[0]
    return number


_FLAGS: Final = TRANSACTION["flags"]
_FIRST_BIT: Final = dict(TransactionHeader.BITS)["first_message"].low
_LAST_BIT: Final = dict(TransactionHeader.BITS)["last_message"].low
_EDGES: Final = 1 << _FIRST_BIT | 1 << _LAST_BIT


def with_edges(packet: bytes, *, first: bool, last: bool) -> bytes:
    """Return the packet with Flags.FM and Flags.LM set in its TransactionHeader, if it has one."""
    if not user_flags(packet)[0] & USER_TH:
        return packet
    start = user_end(packet) + _FLAGS
    data = bytearray(packet)
    data[start] = data[start] & ~_EDGES | first << _FIRST_BIT | last << _LAST_BIT
    return bytes(data)
