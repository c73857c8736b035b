"""Where things are in a packet, taken from the declarations of its headers.

Most code reads headers through :class:`msmq.wire.message.UserMessage`. Whoever writes or reads single fields of very
many packets takes the offsets from here, so that no other module has a number of its own for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from typing import Any, Final

from msmq.wire.declare import Wire
from msmq.wire.headers import (
    NAME_SIZES,
    NULL_GUID,
    USER_CQ,
    USER_TH,
    BaseHeader,
    MessagePropertiesHeader,
    QueueReference,
    UserHeader,
)
from msmq.wire.optional_headers import TransactionHeader


def offsets(header: type[Wire], start: int = 0) -> dict[str, int]:
    """By field, its offset when the header begins at ``start``."""
    return {spec.name: start + spec.offset for spec in header.FIELDS}


def reader(*headers: tuple[type[Wire], Collection[str]]) -> Callable[..., tuple[Any, ...]]:
    """What reads some fields of headers that stand one behind the other, in the order in which they lie there. It takes
    a packet and, unless it is zero, the offset of the first header."""
    codes = []
    for header, names in headers:
        assert {spec.name for spec in header.FIELDS}.issuperset(names), f"{header.__name__} lacks {names}"
        codes += [spec.code if spec.name in names else f"{spec.size}x" for spec in header.FIELDS]
    return struct.Struct("<" + "".join(codes)).unpack_from


BASE: Final = offsets(BaseHeader)
"""By field, offsets in the packet."""
USER: Final = offsets(UserHeader, BaseHeader.SIZE)
TRANSACTION: Final = offsets(TransactionHeader)
"""By field, offsets from the beginning of the header."""
PROPERTIES: Final = offsets(MessagePropertiesHeader)
FIXED_SIZE: Final = BaseHeader.SIZE + UserHeader.SIZE
"""Bytes up to the names of queues."""
properties_struct: Final = struct.Struct("<" + "".join(spec.code for spec in MessagePropertiesHeader.FIELDS))
user_flags: Final = reader((BaseHeader, ()), (UserHeader, {"flags"}))
"""UserHeader.Flags of a packet, alone in a tuple."""

_FIRST_REFERENCE: Final = dict(UserHeader.BITS)["destination_reference"].low
"""Flags.DQ; AQ and RQ stand above it, each three bits wide."""
_DIRECT: Final = int(QueueReference.DIRECT)
_CONNECTOR_SIZE: Final = len(NULL_GUID)


def user_end(packet: bytes) -> int:
    """Where the UserHeader of a packet ends that was checked before, and its TransactionHeader begins if it has one."""
    (flags,) = user_flags(packet)
    cursor = FIXED_SIZE
    references = flags >> _FIRST_REFERENCE & 0o777
    while references:
        if references & 7 == _DIRECT:  # its length, its text, and padding
            cursor += 5 + packet[cursor] + (packet[cursor + 1] << 8) & ~3
        else:
            cursor += NAME_SIZES[references & 7]
        references >>= 3
    return cursor + _CONNECTOR_SIZE if flags & USER_CQ else cursor


_FLAGS: Final = TRANSACTION["flags"]
_FIRST_BIT: Final = dict(TransactionHeader.BITS)["first_message"].low
_LAST_BIT: Final = dict(TransactionHeader.BITS)["last_message"].low
_EDGES: Final = 1 << _FIRST_BIT | 1 << _LAST_BIT


def with_edges(packet: bytes, *, first: bool, last: bool) -> bytes:
    """The same packet with Flags.FM and Flags.LM of its TransactionHeader, if it has one."""
    if not user_flags(packet)[0] & USER_TH:
        return packet
    start = user_end(packet) + _FLAGS
    data = bytearray(packet)
    data[start] = data[start] & ~_EDGES | first << _FIRST_BIT | last << _LAST_BIT
    return bytes(data)
