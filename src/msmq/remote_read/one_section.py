"""The answer of a read that found its message and sends it whole: the form of nearly every `StartReceiveReply`.

One ``struct`` has everything in front of the packet, as the declaration in `msmq.remote_read.interface` lays it out for
one section; padding and status follow. See "Shortcuts" in `msmq.rpc.ndr`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from msmq.wire.sections import SectionType, section_of

_REFERENTS: Final = (0x00020000, 0x00020004)
"""What our writer numbers the two pointers with."""
# arrival, sequence, sections; pointer, count; type, alloc, size, pointer; count
_NDR: Final = struct.Struct("<I4xQI II HxxIII I")
_NDR64: Final = struct.Struct("<I4xQI4x QQ III4xQ Q")
_STATUS: Final = struct.Struct("<I")
_FULL_PACKET: Final = int(SectionType.FULL_PACKET)
_PADDING: Final = (b"", bytes(3), bytes(2), bytes(1))
_OK: Final = _STATUS.pack(0)
_PADDED_OK: Final = tuple(padding + _OK for padding in _PADDING)


class OneSection:
    """A `msmq.rpc.ndr.Shortcut`."""

    def pack(self, values: tuple[Any, ...], ndr64: bool) -> bytes | None:
        arrival, sequence, count, sections, status = values
        if count != 1 or not sections or len(sections) != 1:
            return None
        kind, size_alloc, data = sections[0]
        size = len(data)
        first, second = _REFERENTS
        try:
            front = (_NDR64 if ndr64 else _NDR).pack(
                arrival, sequence, 1, first, 1, kind, size_alloc, size, second, size
            )
            return b"".join((front, data, _PADDING[size & 3], _STATUS.pack(status)))
        except (struct.error, TypeError):
            return None

    def unpack(self, stub: bytes, ndr64: bool) -> tuple[tuple[Any, ...], int] | None:
        front = _NDR64 if ndr64 else _NDR
        start = front.size
        if len(stub) < start:
            return None
        arrival, sequence, count, first, elements, kind, size_alloc, size, second, octets = front.unpack_from(
            stub
        )
        end = start + size
        behind = end + (-size & 3)
        if count != 1 or elements != 1 or not first or not second or octets != size:
            return None
        if behind + _STATUS.size > len(stub):
            return None
        sections = [section_of((kind, size_alloc, stub[start:end]))]
        (status,) = _STATUS.unpack_from(stub, behind)
        return (arrival, sequence, 1, sections, status), behind + _STATUS.size


def whole_packet(stub: bytes, ndr64: bool) -> tuple[int, int, bytes] | None:
    """Arrival time, sequence and packet of a read that was well answered with the full packet in its one section, and
    nothing behind it. None: it is something else, or makes no sense."""
    front = _NDR64 if ndr64 else _NDR
    start = front.size
    end = len(stub) - _STATUS.size
    if end < start or stub[end:] != _OK:
        return None
    arrival, sequence, count, first, elements, kind, size_alloc, size, second, octets = front.unpack_from(
        stub
    )
    if (
        kind != _FULL_PACKET or size_alloc != size or octets != size or count != 1 or elements != 1
        or not first or not second or start + size + (-size & 3) != end
    ):  # fmt: skip
        return None
    return arrival, sequence, stub[start : start + size]


def write_whole_packet(arrival: int, sequence: int, parts: Sequence[bytes], size: int, ndr64: bool) -> bytes:
    """The stub of such an answer; ``parts`` are the packet, which has ``size`` bytes."""
    front = (_NDR64 if ndr64 else _NDR).pack(
        arrival, sequence, 1, _REFERENTS[0], 1, _FULL_PACKET, size, size, _REFERENTS[1], size
    )
    return b"".join((front, *parts, _PADDED_OK[size & 3]))
