"""The sections in which a remotely read packet travels (MS-MQRR 2.2.6, 2.2.7).

A packet is sent whole or cut: a reader that asked for less than the body gets a first section that ends within the body
and a second one with the headers after it. ``SectionSizeAlloc`` of the first says where the second belongs, so that
every header is at the offset that the packet gives; what was left out is filled with zero bytes. The padding after a
body belongs to the first section, because it is part of the header that holds the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from msmq.errors import DecodeError
from msmq.wire.headers import BASE_DH, MAX_PACKET_SIZE
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import DebugHeader
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader


class SectionType(IntEnum):
    """The content of a section (2.2.7)."""

    FULL_PACKET = 0
    BINARY_FIRST_SECTION = 1
    BINARY_SECOND_SECTION = 2
    SRMP_FIRST_SECTION = 3
    SRMP_SECOND_SECTION = 4


_SECOND_OF = {
    SectionType.BINARY_FIRST_SECTION: SectionType.BINARY_SECOND_SECTION,
    SectionType.SRMP_FIRST_SECTION: SectionType.SRMP_SECOND_SECTION,
}


class Section(NamedTuple):
    """A SectionBuffer (2.2.6); a received one may have any number as its ``type``."""

    type: int
    size_alloc: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


def split_sections(packet: bytes, max_body_size: int, max_compound_message_size: int) -> list[Section]:
    """Cut a Message Packet for a reader that wants only part of its body.

    The first limit is for a binary message, the second for one that came over HTTP, whose body is its whole
    CompoundMessageHeader.
    """
    message = UserMessage.decode(packet, trailing=True)
    if message.compound is None:
        first, limit, size, start = (
            SectionType.BINARY_FIRST_SECTION,
            max_body_size,
            message.properties.message_size,
            message.body_offset,
        )
        end = _properties_end(message)
    else:
        first, limit = SectionType.SRMP_FIRST_SECTION, max_compound_message_size
        start, end = _compound_range(message)
        size = CompoundMessageHeader.SIZE + message.compound.http_body_size
    if limit >= size:
        return [Section(SectionType.FULL_PACKET, len(packet), packet)]
    sections = [Section(first, end, packet[: start + limit])]
    if end < len(packet):
        sections.append(Section(_SECOND_OF[first], len(packet) - end, packet[end:]))
    return sections


def _properties_end(message: UserMessage) -> int:
    return message.properties.end(message.data, message.properties_offset, message.base.packet_size)


def _compound_range(message: UserMessage) -> tuple[int, int]:
    """Return where the CompoundMessageHeader begins and ends; it follows the debug and envelope headers."""
    data, limit, cursor = message.data, message.base.packet_size, _properties_end(message)
    if message.base.flags & BASE_DH:
        _, cursor = DebugHeader.read(data, cursor, limit)
    _, start = SRMPEnvelopeHeader.read(data, cursor, limit)
    _, end = CompoundMessageHeader.read(data, start, limit)
    return start, end


def join_sections(sections: Sequence[Section]) -> bytes:
    """Join the sections of a packet, with zero bytes for what was left out; raises DecodeError if they make no
    packet.
    """
    if not 1 <= len(sections) <= 2:
        raise DecodeError(f"a packet comes in one or two sections, not {len(sections)}")
    first, rest = sections[0], sections[1:]
    if first.type == SectionType.FULL_PACKET:
        if rest or first.size_alloc != first.size:
            raise DecodeError("a full packet is one section of its own size")
        return first.data
    second_type = _SECOND_OF.get(first.type)  # type: ignore[call-overload]  # an int finds its IntEnum
    if second_type is None:
        raise DecodeError(f"a packet cannot begin with a section of type {first.type}")
    if not first.size <= first.size_alloc <= MAX_PACKET_SIZE:
        raise DecodeError(f"a first section of {first.size} bytes cannot stand for {first.size_alloc}")
    packet = first.data.ljust(first.size_alloc, b"\0")
    for second in rest:
        if second.type != second_type or second.size_alloc != second.size:
            raise DecodeError("the second section does not belong to the first")
        packet += second.data
    return packet
