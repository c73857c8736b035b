"""Network addresses of queue managers (MS-MQMQ 2.2.4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address

from msmq.errors import DecodeError, EncodeError
from msmq.wire.guid import guid_text

_HEAD = struct.Struct("<HH")


class AddressType(IntEnum):
    """TA_ADDRESS.AddressType; 4 is not assigned and 6 (IPv6) exists only in MS-MQRR."""

    IP = 0x0001
    IP_RAS = 0x0002
    IPX = 0x0003
    FOREIGN = 0x0005


ADDRESS_LENGTH = {AddressType.IP: 4, AddressType.IP_RAS: 4, AddressType.IPX: 10, AddressType.FOREIGN: 16}


@dataclass(frozen=True, slots=True)
class TAAddress:
    """TA_ADDRESS: a typed address. ``address`` holds the bytes as they lie on the wire (IPv4 in network order)."""

    type: AddressType
    address: bytes

    def __str__(self) -> str:
        """Write IPv4 with dots, IPX as network and node (2.2.4.2), and a foreign address as its GUID."""
        match self.type:
            case AddressType.IP | AddressType.IP_RAS:
                return str(IPv4Address(self.address))
            case AddressType.IPX:
                return f"{self.address[:4].hex()}:{self.address[4:].hex()}"
            case AddressType.FOREIGN:
                return guid_text(self.address)

    def encode(self) -> bytes:
        if len(self.address) != ADDRESS_LENGTH[self.type]:
            raise EncodeError(f"an {self.type.name} address takes {ADDRESS_LENGTH[self.type]} bytes")
        return _HEAD.pack(len(self.address), self.type) + self.address

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> TAAddress:
        if len(data) - offset < 4:
            raise DecodeError("TA_ADDRESS ends inside its four fixed bytes", offset)
        length, number = _HEAD.unpack_from(data, offset)
        try:
            kind = AddressType(number)
        except ValueError:
            raise DecodeError(f"TA_ADDRESS has the unknown type {number}", offset + 2) from None
        if length != ADDRESS_LENGTH[kind]:
            raise DecodeError(f"a TA_ADDRESS of type {kind.name} cannot be {length} bytes long", offset)
        if len(data) - offset - 4 < length:
            raise DecodeError("TA_ADDRESS ends inside its address", offset + 4)
        return cls(kind, bytes(data[offset + 4 : offset + 4 + length]))


def decode_addresses(data: bytes) -> list[TAAddress]:
    """Decode a packed array that must fill ``data`` exactly."""
    addresses = []
    offset = 0
    while offset < len(data):
        address = TAAddress.decode(data, offset)
        addresses.append(address)
        offset += 4 + len(address.address)
    return addresses
