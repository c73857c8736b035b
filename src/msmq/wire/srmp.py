"""The two headers of a message that came over HTTP (MS-MQRR 2.2.5.1.2).

They come between DebugHeader and SoapHeader when UserHeader.Flags.AH is set. Lengths of text are in characters: the
specification states no unit, and all other text lengths of a packet are in characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Wire, padded, rounded_up, u16, u32, wire
from msmq.wire.optional_headers import read_text_section, write_text_section


@dataclass(slots=True)
class SRMPEnvelopeHeader:
    """The SOAP envelope (2.2.5.1.2.1); its ids are not assigned by the specification and are passed on."""

    data: str = ""
    header_id: int = 0
    reserved: int = 0

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header_id, reserved, text, end = read_text_section(data, offset, limit, "the SRMPEnvelopeHeader")
        return cls(text, header_id, reserved), end

    def write(self) -> bytes:
        return write_text_section(self.header_id, self.reserved, self.data)


@wire("MS-MQRR 2.2.5.1.2.2", size=16, names={"http_body_size": "HTTPBodySize"})
class CompoundMessageHeader(Wire):
    """The HTTP request that carried the message; the application's body is a part of it."""

    header_id: u16 = 0
    reserved: u16 = 0
    http_body_size: u32 = 0
    msg_body_size: u32 = 0
    msg_body_offset: u32 = 0
    data: bytes = b""

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        start = offset + cls.SIZE
        end = start + header.http_body_size
        if rounded_up(end) > limit:
            where = cls.at("http_body_size", offset)
            raise DecodeError(f"HTTPBodySize {header.http_body_size} does not fit the packet", where)
        if header.msg_body_offset + header.msg_body_size > header.http_body_size:
            raise DecodeError("the message body lies outside the HTTP body", cls.at("msg_body_size", offset))
        header.data = data[start:end]
        return header, rounded_up(end)

    def write(self) -> bytes:
        self.http_body_size = len(self.data)
        if self.msg_body_offset + self.msg_body_size > self.http_body_size:
            raise EncodeError("the message body lies outside the HTTP body")
        return padded(self.encode() + self.data)

    @property
    def body(self) -> bytes:
        return self.data[self.msg_body_offset : self.msg_body_offset + self.msg_body_size]
