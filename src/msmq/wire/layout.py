"""Where things are in a UserMessage packet, taken from the declarations of its headers.

Most code reads headers through :class:`msmq.wire.message.UserMessage`. Whoever writes or reads single fields of very
many packets takes the offsets from here.
"""

from __future__ import annotations

import struct
from typing import Final

from msmq.wire.declare import Wire
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, UserHeader
from msmq.wire.optional_headers import TransactionHeader


def _offsets(header: type[Wire], start: int = 0) -> dict[str, int]:
    return {spec.name: start + spec.offset for spec in header.FIELDS}


BASE: Final = _offsets(BaseHeader)
"""By field, offsets in the packet."""
USER: Final = _offsets(UserHeader, BaseHeader.SIZE)
TRANSACTION: Final = _offsets(TransactionHeader)
"""By field, offsets from the beginning of the header."""
PROPERTIES: Final = _offsets(MessagePropertiesHeader)
FIXED_SIZE: Final = BaseHeader.SIZE + UserHeader.SIZE
"""Bytes up to the names of queues."""
properties_struct: Final = struct.Struct("<" + "".join(spec.code for spec in MessagePropertiesHeader.FIELDS))
