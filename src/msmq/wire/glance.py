"""The body of a packet without reading its headers one by one, for readers who want nothing else of most messages.

What a packet usually is: one queue to go to, no transaction, a sender who did not sign. Of every other one this says
nothing, and :class:`msmq.wire.message.UserMessage` reads it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from msmq.wire.headers import BASE_DH, BASE_SH, USER_AH, USER_CQ, USER_HH, USER_MQ, USER_SH, USER_TH

_BASE_FLAGS: Final = Struct("<2xH4xI")
"""Of BaseHeader (MS-MQMQ 2.2.19.1): Flags and PacketSize."""
_USER: Final = 16
"""Where UserHeader (MS-MQMQ 2.2.19.2) begins, whose names are padded from there."""
_USER_FLAGS: Final = Struct("<I")
_USER_FLAGS_AT: Final = 60
_NAMES: Final = 64
_SECURITY: Final = Struct("<HHHHII")
"""SecurityHeader (MS-MQMQ 2.2.20.6) up to its data: flags, and five sizes of which only the first is the sender's."""
_PROPERTIES: Final = Struct("<xB30xI16xI")
"""Of MessagePropertiesHeader (MS-MQMQ 2.2.19.3): LabelLength, MessageSize and ExtensionSize."""
_PROPERTIES_SIZE: Final = 56
_OTHER_QUEUES: Final = 0x7E000
_UNUSUAL: Final = USER_TH | USER_CQ | USER_MQ | USER_AH | USER_HH | _OTHER_QUEUES
_SHORTEST: Final = 128
"""Nothing that is read before the properties lies further back, if the names are short."""


def body_at_a_glance(data: bytes) -> bytes | None:
    """The body of a usual packet that has one; None when it has to be read like any other. Garbage gives None, or bytes
    from within it."""
    size = len(data)
    if size < _SHORTEST:
        return None
    base_flags, packet_size = _BASE_FLAGS.unpack_from(data)
    (flags,) = _USER_FLAGS.unpack_from(data, _USER_FLAGS_AT)
    if flags & _UNUSUAL or base_flags & (BASE_DH | BASE_SH) or packet_size != size:
        return None
    reference = flags >> 10 & 7
    if reference == 7:
        count = data[_NAMES] | data[_NAMES + 1] << 8
        cursor = _USER + (_NAMES + 2 + count - _USER + 3 & ~3)
    elif reference == 5:
        cursor = _NAMES + 16
    elif reference == 3:
        cursor = _NAMES + 4
    else:
        return None
    if flags & USER_SH:
        if cursor + _SECURITY.size > size:
            return None
        _, sender, key, signature, certificate, provider = _SECURITY.unpack_from(data, cursor)
        if key or signature or certificate or provider:
            return None
        cursor += _SECURITY.size + (sender + 3 & ~3)
    if cursor + _PROPERTIES_SIZE > size:
        return None
    label, body_size, extension = _PROPERTIES.unpack_from(data, cursor)
    start = cursor + _PROPERTIES_SIZE + 2 * label + extension
    return data[start : start + body_size] if start + body_size <= size else None
