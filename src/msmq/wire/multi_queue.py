"""MultiQueueFormatHeader: all the queues to which a multiple-element message was sent (MS-MQMQ 2.2.18.1.4, 2.2.20.1 to
.3).

Each copy of such a message is a packet of its own, addressed by its UserHeader; this header lists every destination,
administration and response queue of the whole send.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Wire, bytes_of, padded, rounded_up, text_of, u16, u32, wire
from msmq.wire.headers import PrivateQueueFormatName, number_bytes

PUBLIC: Final = 0x0001
PRIVATE: Final = 0x0002
DIRECT: Final = 0x0003
DISTRIBUTION_LIST: Final = 0x0006

DESTINATION_HEADER: Final = 0x0064
ADMIN_HEADER: Final = 0x00C8
RESPONSE_HEADER: Final = 0x012C
SIGNATURE_HEADER: Final = 0x015E

_MIN_ELEMENT: Final = 4  # a direct name that is only its terminator
MAX_ELEMENTS: Final = 10_000
"""More destinations than anybody needs; without a limit, a packet full of empty names would take seconds to read."""


class DistributionListName(NamedTuple):
    """A distribution list by the GUID of its directory object (2.2.18.1.4.2)."""

    identifier: bytes


MQFElement = str | bytes | PrivateQueueFormatName | DistributionListName
"""MQFFormatNameElement: a direct name is its text, a public queue its GUID; the others have types of their own."""


def _read_element(data: bytes, cursor: int, limit: int) -> tuple[MQFElement, int]:
    if limit - cursor < 2:
        raise DecodeError("a format name list ends before its last element", cursor)
    kind = data[cursor] | data[cursor + 1] << 8
    start = cursor + 2
    if kind == DIRECT:
        start += start & 1
        end = _terminator(data, start, limit)
        return text_of(data[start:end]), end + 2
    size = {PUBLIC: 16, PRIVATE: 20, DISTRIBUTION_LIST: 16}.get(kind)
    if size is None:
        raise DecodeError(f"FormatType {kind:#06x} is not allowed in a format name list", cursor)
    start = rounded_up(start)
    end = start + size
    if end > limit:
        raise DecodeError("a format name list ends inside an element", start)
    identifier = data[start : start + 16]
    if kind == PUBLIC:
        return identifier, end
    if kind == PRIVATE:
        return PrivateQueueFormatName(identifier, int.from_bytes(data[end - 4 : end], "little")), end
    return DistributionListName(identifier), end


def _terminator(data: bytes, start: int, limit: int) -> int:
    """Return where the null WCHAR of a string without a length lies; the search does not leave its header."""
    end = data.find(b"\0\0", start, limit)
    while end != -1 and (end - start) & 1:  # two zero bytes of neighbouring characters
        end = data.find(b"\0\0", end + 1, limit)
    if end == -1:
        raise DecodeError("a direct name in a format name list is not terminated", start)
    return end


def _write_element(element: MQFElement, offset: int) -> bytes:
    """Write an element that begins ``offset`` bytes into its header, with the padding that its kind needs."""
    if isinstance(element, str):
        if "\0" in element:
            raise EncodeError("a direct name cannot hold a null character")
        head = struct.pack("<H", DIRECT) + bytes(offset & 1)
        return head + bytes_of(element + "\0")
    if isinstance(element, DistributionListName):
        kind, body = DISTRIBUTION_LIST, element.identifier
    elif isinstance(element, PrivateQueueFormatName):
        kind, body = PRIVATE, element.source_queue_manager + number_bytes(element.private_queue_identifier)
    else:
        kind, body = PUBLIC, element
    if len(body) != (20 if kind == PRIVATE else 16):
        raise EncodeError("a GUID in a format name list is 16 bytes")
    return struct.pack("<H", kind) + bytes(-(offset + 2) % 4) + body


@wire("MS-MQMQ 2.2.20.2", size=12, names={"header_id": "HeaderID"})
class MQFAddressHeader(Wire):
    """One of the three lists. ``format_name_list`` keeps the bytes of the list as received, because signatures cover
    them."""

    header_size: u32 = 12
    header_id: u16 = DESTINATION_HEADER
    reserved: u16 = 0
    element_count: u32 = 0
    elements: list[MQFElement] = field(default_factory=list)
    format_name_list: bytes = b""

    @classmethod
    def of(cls, header_id: int, elements: list[MQFElement]) -> Self:
        """Make the header that lists ``elements``; its size does not count the final padding."""
        encoded = b""
        for element in elements:
            encoded += _write_element(element, cls.SIZE + len(encoded))
        return cls(cls.SIZE + len(encoded), header_id, 0, len(elements), list(elements), encoded)

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        end = offset + header.header_size
        # the specification does not say whether the size counts the padding
        following = offset + rounded_up(header.header_size)
        if header.header_size < cls.SIZE or following > limit:
            raise DecodeError(f"HeaderSize {header.header_size} does not fit the packet", offset)
        if header.element_count > min((header.header_size - cls.SIZE) // _MIN_ELEMENT, MAX_ELEMENTS):
            where = cls.at("element_count", offset)
            raise DecodeError(f"ElementCount {header.element_count} cannot fit HeaderSize", where)
        cursor = start = offset + cls.SIZE
        header.elements = []
        for _ in range(header.element_count):
            element, cursor = _read_element(data, cursor, end)
            header.elements.append(element)
        if following - cursor >= 4:
            raise DecodeError("a format name list holds more than its elements", cursor)
        header.format_name_list = data[start:cursor]
        return header, following

    def write(self) -> bytes:
        return padded(self.encode() + self.format_name_list)


@wire("MS-MQMQ 2.2.20.3", size=8, names={"id": "ID"})
class MQFSignatureHeader(Wire):
    """The MSMQ 3.0 signature; unlike in the address headers, the id comes first."""

    id: u16 = SIGNATURE_HEADER
    reserved: u16 = 0
    size: u32 = 0
    signature: bytes = b""

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        if header.id != SIGNATURE_HEADER:
            raise DecodeError(f"the signature header has id {header.id:#06x}, not 0x015e", offset)
        start = offset + cls.SIZE
        end = start + header.size
        if rounded_up(end) > limit:
            where = cls.at("size", offset)
            raise DecodeError(f"a signature of {header.size} bytes does not fit the packet", where)
        header.signature = data[start:end]
        return header, rounded_up(end)

    def write(self) -> bytes:
        self.size = len(self.signature)
        return padded(self.encode() + self.signature)


def _read_list(header_id: int, data: bytes, offset: int, limit: int | None) -> tuple[MQFAddressHeader, int]:
    header, end = MQFAddressHeader.read(data, offset, limit)
    if header.header_id != header_id:
        raise DecodeError(
            f"HeaderID is {header.header_id:#06x}, not {header_id:#06x}", header.at("header_id", offset)
        )
    return header, end


@dataclass(slots=True)
class MultiQueueFormatHeader:
    """The three lists and the signature (MS-MQMQ 2.2.20.1)."""

    destination: MQFAddressHeader
    administration: MQFAddressHeader
    response: MQFAddressHeader
    signature: MQFSignatureHeader

    @classmethod
    def of(
        cls,
        destination: list[MQFElement],
        administration: list[MQFElement] | None = None,
        response: list[MQFElement] | None = None,
        signature: bytes = b"",
    ) -> Self:
        return cls(
            MQFAddressHeader.of(DESTINATION_HEADER, destination),
            MQFAddressHeader.of(ADMIN_HEADER, administration or []),
            MQFAddressHeader.of(RESPONSE_HEADER, response or []),
            MQFSignatureHeader(signature=signature, size=len(signature)),
        )

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        destination, offset = _read_list(DESTINATION_HEADER, data, offset, limit)
        administration, offset = _read_list(ADMIN_HEADER, data, offset, limit)
        response, offset = _read_list(RESPONSE_HEADER, data, offset, limit)
        signature, end = MQFSignatureHeader.read(data, offset, limit)
        return cls(destination, administration, response, signature), end

    def write(self) -> bytes:
        return b"".join(
            part.write() for part in (self.destination, self.administration, self.response, self.signature)
        )
